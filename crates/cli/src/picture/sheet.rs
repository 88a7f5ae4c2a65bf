//! Contact sheets like the paper's figures: one row per image, with its annotations and hypotheses.

use image::{Rgb, RgbImage, imageops};
use multivalued_data::metric::summary::short_list;
use multivalued_data::{Annotation, Case, Hypothesis, Prediction};

use super::{ANNOTATION, HYPOTHESIS, Upright, digits, enlarged, input, overlay, reduced};

/// Most annotations that a row shows, and most hypotheses where it shows them as they are.
const MOST: usize = 8;
/// Most hypotheses where those that are shown stand for all.
const LISTED: usize = 5;
/// Smallest edge of a tile.
const EDGE: u32 = 96;
/// Largest edge of a tile.
const MOST_EDGE: u32 = 512;
/// Between tiles.
const GAP: u32 = 6;
/// Below a tile: its probability or weight as a bar and a number.
const CAPTION: u32 = 8 + digits::HEIGHT;
const PAPER: [u8; 3] = [24, 26, 30];
const INK: [u8; 3] = [220, 222, 226];

/// One image with what readers drew and what the model says; annotations are missing for an image that
/// nobody annotated.
#[derive(Debug, Clone, Copy)]
pub struct Exhibit<'a> {
    /// The case.
    pub case: &'a Case,
    /// The model's word on it.
    pub prediction: &'a Prediction,
    /// Whether hypotheses are shown as they are, not a short list that stands for them.
    pub as_they_are: bool,
    /// Its GED, where it was scored.
    pub ged: Option<f64>,
}

impl<'a> Exhibit<'a> {
    /// Shows a short list of hypotheses that stands for all.
    pub fn new(case: &'a Case, prediction: &'a Prediction) -> Self {
        Self { case, prediction, as_they_are: false, ged: None }
    }

    /// Shows all hypotheses in their order, as many as there is room for.
    pub fn of_all(case: &'a Case, prediction: &'a Prediction) -> Self {
        Self { as_they_are: true, ..Self::new(case, prediction) }
    }

    /// The annotations that are shown, each with its share of the weight.
    pub fn annotations(&self) -> impl Iterator<Item = (&'a Annotation, f64)> {
        let all = &self.case.annotations;
        let total: f64 = all.iter().map(|annotation| f64::from(annotation.weight)).sum();
        all.iter().take(MOST).map(move |annotation| (annotation, f64::from(annotation.weight) / total))
    }

    /// The hypotheses that are shown.
    pub fn hypotheses(&self) -> Vec<Hypothesis> {
        if self.as_they_are {
            return self.prediction.hypotheses.iter().take(MOST).cloned().collect();
        }
        let list = short_list(self.prediction, LISTED).expect("masks of one image have one size");
        list.prediction.hypotheses
    }
}

/// So many of all, from one end to the other: neighbours are often slices of one patient.
pub fn spread<T: Copy>(all: &[T], count: usize) -> Vec<T> {
    let count = count.min(all.len());
    (0..count).map(|at| all[at * all.len() / count]).collect()
}

/// A tile that can be seen and does not fill the sheet alone.
fn sized(tile: &RgbImage) -> RgbImage {
    enlarged(&reduced(tile, MOST_EDGE), EDGE)
}

/// A picture of rows: the image, its annotations (blue) with their weights, its hypotheses (orange)
/// with their probabilities. Where a file says how its pixels lie, they are shown upright (`upright.rs`), and the image
/// has the side that is at its left (R or A) and the one that is at its top (A or S) below it.
pub fn sheet(exhibits: &[Exhibit]) -> RgbImage {
    let annotations = exhibits.iter().map(|one| one.annotations().count()).max().unwrap_or(0) as u32;
    let listed: Vec<_> = exhibits.iter().map(Exhibit::hypotheses).collect();
    let hypotheses = listed.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let upright: Vec<_> = exhibits.iter().map(|one| Upright::of(one.case.image.geometry.as_ref())).collect();
    let tile = |(one, upright): (&Exhibit, &Upright)| sized(&upright.turned(input(&one.case.image)));
    let tiles: Vec<_> = exhibits.iter().zip(&upright).map(tile).collect();
    let width = tiles.iter().map(RgbImage::width).max().unwrap_or(0) + GAP;
    let height = tiles.iter().map(RgbImage::height).max().unwrap_or(0) + GAP + CAPTION;
    let columns = 1 + annotations + hypotheses;
    // Wider gaps set the three groups apart.
    let left = |column: u32| {
        let groups_before = u32::from(column > 0) + u32::from(annotations > 0 && column > annotations);
        GAP + column * width + groups_before * 2 * GAP
    };
    let mut sheet = RgbImage::from_pixel(left(columns), GAP + height * exhibits.len() as u32, Rgb(PAPER));
    for (row, exhibit) in exhibits.iter().enumerate() {
        let top = GAP + row as u32 * height;
        let picture = input(&exhibit.case.image);
        imageops::replace(&mut sheet, &tiles[row], i64::from(left(0)), i64::from(top));
        if let Some([at_left, at_top]) = upright[row].marks() {
            let marks = format!("{at_left} {at_top}");
            digits::draw(&mut sheet, left(0), top + tiles[row].height() + 8, &marks, INK);
        }
        let mut put = |column: u32, tile: RgbImage, share: f64, colour: [u8; 3]| {
            let (x, tile) = (left(column), sized(&upright[row].turned(tile)));
            imageops::replace(&mut sheet, &tile, i64::from(x), i64::from(top));
            let bar = (f64::from(tile.width()) * share.clamp(0.0, 1.0)).round() as u32;
            for (dx, dy) in (0..bar).flat_map(|dx| (0..4).map(move |dy| (dx, dy))) {
                sheet.put_pixel(x + dx, top + tile.height() + 2 + dy, Rgb(colour));
            }
            digits::draw(&mut sheet, x, top + tile.height() + 8, &format!("{share:.2}"), INK);
        };
        for (column, (annotation, share)) in exhibit.annotations().enumerate() {
            put(1 + column as u32, overlay(&picture, &annotation.mask, &ANNOTATION), share, ANNOTATION[0]);
        }
        for (column, one) in listed[row].iter().enumerate() {
            let tile = overlay(&picture, &one.mask, &HYPOTHESIS);
            put(1 + annotations + column as u32, tile, f64::from(one.probability), HYPOTHESIS[0]);
        }
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::synthetic::{Task, TaskName, oracle_prediction};

    #[test]
    fn few_are_spread_over_all() {
        assert_eq!(spread(&(0..12).collect::<Vec<_>>(), 4), [0, 3, 6, 9]);
        assert_eq!(spread(&[1, 2], 4), [1, 2]);
        assert!(spread::<u8>(&[], 4).is_empty());
    }

    #[test]
    fn what_is_shown_of_many_hypotheses_stands_for_all() {
        let case = Task::new(TaskName::ShapesLongTail, 48, 1).unwrap().generate("test", 1).remove(0);
        let prediction = oracle_prediction(&case).unwrap();
        let shown = Exhibit::new(&case, &prediction).hypotheses();
        let sum: f32 = shown.iter().map(|one| one.probability).sum();
        assert_eq!((prediction.len(), shown.len()), (8, 5));
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        assert_eq!(Exhibit::of_all(&case, &prediction).hypotheses(), prediction.hypotheses);
    }

    #[test]
    fn a_sheet_has_a_row_per_image_and_a_column_per_mask() {
        let cases = Task::new(TaskName::Shapes, 48, 1).unwrap().generate("test", 3);
        let predictions: Vec<_> = cases.iter().map(|case| oracle_prediction(case).unwrap()).collect();
        let exhibits: Vec<_> =
            cases.iter().zip(&predictions).map(|(case, prediction)| Exhibit::new(case, prediction)).collect();
        let picture = sheet(&exhibits);
        assert_eq!(picture.dimensions(), (GAP + 9 * (96 + GAP) + 4 * GAP, GAP + 3 * (96 + GAP + CAPTION)));
        // The first annotation's bar is a quarter long.
        let y = GAP + 96 + 2;
        let bar = picture.enumerate_pixels().filter(|&(_, row, pixel)| row == y && pixel.0 == ANNOTATION[0]);
        assert_eq!(bar.count(), 4 * 24);
    }
}
