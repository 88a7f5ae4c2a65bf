//! Contact sheets like the paper's figures: one row per image, with its annotations and hypotheses.

use image::{Rgb, RgbImage, imageops};
use multivalued_data::metric::summary::short_list;
use multivalued_data::{Annotation, Case, Hypothesis, Mask, Prediction};

use super::text::{self, Size};
use super::{ANNOTATION, HYPOTHESIS, Upright, enlarged, input, overlay, reduced};

/// Most annotations that a row shows, and most hypotheses where it shows them as they are.
const MOST: usize = 8;
/// Most hypotheses where those that are shown stand for all.
const LISTED: usize = 5;
/// Smallest edge of a tile.
const EDGE: u32 = 128;
/// Largest edge of a tile.
const MOST_EDGE: u32 = 512;
/// Between tiles.
const GAP: u32 = 6;
/// Below a tile: room for its probability or weight as a bar.
const BAR: u32 = 8;
/// What an empty mask says, where there would be nothing to see.
const EMPTY: &str = "empty";
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
    /// How far its readers lie apart themselves, where it was scored.
    pub spread: Option<f64>,
}

impl<'a> Exhibit<'a> {
    /// Shows a short list of hypotheses that stands for all.
    pub fn new(case: &'a Case, prediction: &'a Prediction) -> Self {
        Self { case, prediction, as_they_are: false, ged: None, spread: None }
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

/// A picture of rows, each below the image's name: the image, its annotations (blue) with their weights, its hypotheses
/// (orange) with their probabilities. Where a file says how its pixels lie, they are shown upright (`upright.rs`), and
/// the image has the side that is at its left (R or A) and the one that is at its top (A or S) below it.
pub fn sheet(exhibits: &[Exhibit]) -> RgbImage {
    let annotations = exhibits.iter().map(|one| one.annotations().count()).max().unwrap_or(0) as u32;
    let listed: Vec<_> = exhibits.iter().map(Exhibit::hypotheses).collect();
    let hypotheses = listed.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let upright: Vec<_> = exhibits.iter().map(|one| Upright::of(one.case.image.geometry.as_ref())).collect();
    let tile = |(one, upright): (&Exhibit, &Upright)| sized(&upright.turned(input(&one.case.image)));
    let tiles: Vec<_> = exhibits.iter().zip(&upright).map(tile).collect();
    let widest = tiles.iter().map(RgbImage::width).max().unwrap_or(EDGE);
    let highest = tiles.iter().map(RgbImage::height).max().unwrap_or(EDGE);
    let layout = Layout { letters: Size::beside(widest), tile: [widest, highest], annotations, hypotheses };
    let mut sheet = RgbImage::from_pixel(layout.width(), layout.top(exhibits.len()), Rgb(PAPER));
    layout.titles(&mut sheet);
    for (row, exhibit) in exhibits.iter().enumerate() {
        let top = layout.top(row);
        layout.name(&mut sheet, top, exhibit);
        let picture = input(&exhibit.case.image);
        let marks = upright[row].marks().map_or(String::new(), |[left, top]| format!("{left} {top}"));
        layout.put(&mut sheet, [0, top], &tiles[row], None, &marks);
        let tile = |mask: &Mask, colours| sized(&upright[row].turned(overlay(&picture, mask, colours)));
        for (column, (annotation, share)) in exhibit.annotations().enumerate() {
            let caption = format!("{share:.2} {}", annotation.rater.as_deref().unwrap_or(""));
            let bar = Some((share, ANNOTATION[0], annotation.mask.is_empty()));
            let at = [1 + column as u32, top];
            layout.put(&mut sheet, at, &tile(&annotation.mask, &ANNOTATION), bar, &caption);
        }
        for (column, one) in listed[row].iter().enumerate() {
            let share = f64::from(one.probability);
            let bar = Some((share, HYPOTHESIS[0], one.mask.is_empty()));
            let at = [1 + annotations + column as u32, top];
            layout.put(&mut sheet, at, &tile(&one.mask, &HYPOTHESIS), bar, &format!("{share:.2}"));
        }
    }
    sheet
}

/// Where things are on a sheet.
struct Layout {
    letters: Size,
    /// The room of a tile.
    tile: [u32; 2],
    annotations: u32,
    hypotheses: u32,
}

impl Layout {
    /// A tile's left edge; wider gaps set the three groups apart.
    fn left(&self, column: u32) -> u32 {
        let groups_before =
            u32::from(column > 0) + u32::from(self.annotations > 0 && column > self.annotations);
        GAP + column * (self.tile[0] + GAP) + groups_before * 2 * GAP
    }

    fn width(&self) -> u32 {
        self.left(1 + self.annotations + self.hypotheses)
    }

    /// Where a row begins, below the titles.
    fn top(&self, row: usize) -> u32 {
        let line = self.letters.height() + GAP;
        GAP + line + row as u32 * (line + self.tile[1] + BAR + line)
    }

    fn write(&self, sheet: &mut RgbImage, [x, y]: [u32; 2], text: &str, width: u32, colour: [u8; 3]) {
        text::draw(sheet, x, y, &self.letters.fitted(text, width), self.letters, colour);
    }

    /// The titles of the three groups.
    fn titles(&self, sheet: &mut RgbImage) {
        let groups = [
            (0, 1, "image", INK),
            (1, self.annotations, "readers", ANNOTATION[0]),
            (1 + self.annotations, self.hypotheses, "model", HYPOTHESIS[0]),
        ];
        for (first, count, title, colour) in groups.into_iter().filter(|(_, count, ..)| *count > 0) {
            let width = count * (self.tile[0] + GAP) - GAP;
            self.write(sheet, [self.left(first), GAP], title, width, colour);
        }
    }

    /// A row's name, with its GED and the readers' own spread where it was scored.
    fn name(&self, sheet: &mut RgbImage, top: u32, exhibit: &Exhibit) {
        let ged = exhibit.ged.map_or(String::new(), |ged| format!("  GED {ged:.3}"));
        let spread = exhibit.spread.map_or(String::new(), |spread| format!("  readers' spread {spread:.3}"));
        let name = format!("{}{ged}{spread}", exhibit.case.id);
        self.write(sheet, [GAP, top], &name, sheet.width() - 2 * GAP, INK);
    }

    /// A tile in its column; below it a bar as long as its share, and a caption. An empty mask says so.
    fn put(
        &self,
        sheet: &mut RgbImage,
        [column, top]: [u32; 2],
        tile: &RgbImage,
        share: Option<(f64, [u8; 3], bool)>,
        caption: &str,
    ) {
        let (x, y) = (self.left(column), top + self.letters.height() + GAP);
        imageops::replace(sheet, tile, i64::from(x), i64::from(y));
        let below = y + tile.height();
        if let Some((share, colour, is_empty)) = share {
            let bar = (f64::from(tile.width()) * share.clamp(0.0, 1.0)).round() as u32;
            for (dx, dy) in (0..bar).flat_map(|dx| (0..4).map(move |dy| (dx, dy))) {
                sheet.put_pixel(x + dx, below + 2 + dy, Rgb(colour));
            }
            if is_empty {
                self.write(sheet, [x + GAP, y + GAP], EMPTY, tile.width() - GAP, INK);
            }
        }
        self.write(sheet, [x, below + BAR], caption, self.tile[0], INK);
    }
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
        let line = Size::beside(144).height() + GAP;
        let height = GAP + line + 3 * (line + 144 + BAR + line);
        assert_eq!(picture.dimensions(), (GAP + 9 * (144 + GAP) + 4 * GAP, height));
        // Each annotation's bar is a quarter long.
        let y = GAP + 2 * line + 144 + 2;
        let bar = picture.enumerate_pixels().filter(|&(_, row, pixel)| row == y && pixel.0 == ANNOTATION[0]);
        assert_eq!(bar.count(), 4 * 36);
    }
}
