//! One image with its weighted hypotheses as the viewer's component takes it: `hypotheses.js` of `crates/web` says what
//! each field is. Pictures are turned upright and bounded, so that a page of many stays light.

use image::RgbImage;
use image::imageops::{self, FilterType};
use multivalued_data::evaluate::Unit;
use multivalued_data::metric::area;
use multivalued_data::metric::summary::short_list;
use multivalued_data::{Annotation, Case, Hypothesis, Mask, Prediction};
use serde::Serialize;

use super::html::{base64, data_address};
use crate::picture::{RATERS, Upright, compact, input};

/// Longest edge of a mask; larger ones are reduced by a whole factor.
const MOST_EDGE: usize = 1024;
/// Longest edge of the picture below it.
const MOST_PICTURE: u32 = 512;
/// Most hypotheses of an image; what is beyond the share is left out as well.
const MOST_HYPOTHESES: usize = 48;
const SHARE: f32 = 0.9995;
/// Hypotheses that stand for all where there are more.
const LISTED: usize = 7;

/// An image with what readers drew and what a model says.
#[derive(Debug, Serialize)]
pub struct Shown {
    title: String,
    width: usize,
    height: usize,
    image: Picture,
    classes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    spacing: Option<Spacing>,
    hypotheses: Vec<Weighted>,
    /// A short list that stands for all; none where it would be all.
    #[serde(skip_serializing_if = "Option::is_none")]
    stands: Option<Vec<Standing>>,
    readers: Vec<Reader>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draws: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Picture {
    url: String,
}

/// Width and height of a pixel, in millimetres or in pixels of the image before it was reduced.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
enum Spacing {
    Millimetres(f64, f64),
    Pixels(usize, usize, &'static str),
}

#[derive(Debug, Serialize)]
struct Weighted {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    rater: Option<Rater>,
    probability: f32,
    mask: Packed,
}

/// Who drew a mask, how much of it, and the colour of the outline among those of all raters.
#[derive(Debug, Serialize)]
struct Rater {
    name: String,
    told: String,
    colour: String,
}

/// A hypothesis by its place, with the probability of all that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Standing {
    rank: usize,
    probability: f32,
}

#[derive(Debug, Serialize)]
struct Reader {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    weight: f32,
    mask: Packed,
}

/// A mask in the shorter of two forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Packed {
    /// Lengths of runs outside and inside, in turns.
    Runs(Vec<usize>),
    /// Bits in base64.
    Bits(String),
}

impl Shown {
    /// A case with a prediction; areas are in the unit, where the case states it.
    pub fn new(case: &Case, prediction: &Prediction, unit: Unit) -> Self {
        let look = Look::of(case);
        let said = |one: &Hypothesis| Weighted {
            rater: None,
            probability: one.probability,
            mask: Packed::new(&look.mask(&one.mask)),
        };
        let reader = |one: &Annotation| Reader {
            name: one.rater.clone(),
            weight: one.weight,
            mask: Packed::new(&look.mask(&one.mask)),
        };
        let (kept, stands) = kept(prediction);
        Self {
            spacing: look.spacing(case, unit),
            hypotheses: kept.into_iter().map(said).collect(),
            stands,
            readers: case.annotations.iter().map(reader).collect(),
            draws: prediction.draws,
            classes: prediction.hypotheses.first().map_or(1, |one| one.mask.classes()),
            ..Self::bare(case, &look)
        }
    }

    /// What raters drew of a case, each with its share of the weight in the place of a probability.
    pub fn of_raters(case: &Case) -> Self {
        let look = Look::of(case);
        let total: f32 = case.annotations.iter().map(|one| one.weight).sum();
        let rater = |at: usize, one: &Annotation| {
            let [red, green, blue] = RATERS[at % RATERS.len()];
            let name = one.rater.clone().unwrap_or_else(|| format!("annotation {}", at + 1));
            let told = match area::of(&one.mask) {
                0 => format!("{name}: nothing"),
                area => format!("{name}: {area} px"),
            };
            Rater { name, told, colour: format!("rgb({red},{green},{blue})") }
        };
        let drawn = |(at, one): (usize, &Annotation)| Weighted {
            rater: Some(rater(at, one)),
            probability: one.weight / total,
            mask: Packed::new(&look.mask(&one.mask)),
        };
        Self {
            spacing: look.spacing(case, Unit::Millimetres),
            hypotheses: case.annotations.iter().enumerate().map(drawn).collect(),
            ..Self::bare(case, &look)
        }
    }

    /// The image alone.
    fn bare(case: &Case, look: &Look) -> Self {
        let (kind, bytes) = compact(&look.picture(input(&case.image)));
        let [width, height] = look.size;
        Self {
            title: case.id.clone(),
            width,
            height,
            image: Picture { url: data_address(kind, &bytes) },
            classes: case.annotations.first().map_or(1, |one| one.mask.classes()),
            spacing: None,
            hypotheses: Vec::new(),
            stands: None,
            readers: Vec::new(),
            draws: None,
        }
    }
}

/// The most probable hypotheses that hold nearly all of the probability, and those that stand for all.
fn kept(prediction: &Prediction) -> (Vec<&Hypothesis>, Option<Vec<Standing>>) {
    let all = &prediction.hypotheses;
    let mut sum = 0.0;
    let reached = all.iter().position(|one| {
        sum += one.probability;
        sum >= SHARE
    });
    let count = reached.map_or(all.len(), |last| last + 1).min(MOST_HYPOTHESES);
    let mut kept: Vec<&Hypothesis> = all[..count].iter().collect();
    if count <= LISTED {
        return (kept, None);
    }
    let list = short_list(prediction, LISTED).expect("masks of one image have one size");
    let standing = |one: &Hypothesis| {
        let rank = kept.iter().position(|other| other.mask == one.mask).unwrap_or_else(|| {
            // One of those that are left out: less probable than any that is kept, so it comes after them.
            kept.extend(all.iter().find(|other| other.mask == one.mask));
            kept.len() - 1
        });
        Standing { rank, probability: one.probability }
    };
    let stands = list.prediction.hypotheses.iter().map(standing).collect();
    (kept, Some(stands))
}

/// How the pixels of a case become those that are shown.
struct Look {
    upright: Upright,
    /// So many columns and rows become one.
    factor: usize,
    /// As shown.
    size: [usize; 2],
}

impl Look {
    fn of(case: &Case) -> Self {
        let upright = Upright::of(case.image.geometry.as_ref());
        let size = [case.image.width(), case.image.height()];
        let factor = size[0].max(size[1]).div_ceil(MOST_EDGE).max(1);
        let size = upright.turned_size(size).map(|edge| (edge / factor).max(1));
        Self { upright, factor, size }
    }

    fn picture(&self, picture: RgbImage) -> RgbImage {
        let turned = self.upright.turned(picture);
        let edge = turned.width().max(turned.height());
        match edge <= MOST_PICTURE {
            true => turned,
            false => {
                let reduced = |length: u32| (length * MOST_PICTURE / edge).max(1);
                let (width, height) = (reduced(turned.width()), reduced(turned.height()));
                imageops::resize(&turned, width, height, FilterType::Triangle)
            }
        }
    }

    /// A mask upright; where it is reduced, what is inside for half of its pixels or more.
    fn mask(&self, mask: &Mask) -> Mask {
        let turned = self.upright.turned_mask(mask);
        if self.factor == 1 {
            return turned;
        }
        let [width, height] = self.size;
        let factor = self.factor;
        let mut reduced = Mask::empty(width, height, mask.classes());
        for class in 0..mask.classes() {
            for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let block =
                    (0..factor * factor).map(|at| (x * factor + at % factor, y * factor + at / factor));
                let inside = block
                    .filter(|&(x, y)| x < turned.width() && y < turned.height() && turned.get(class, x, y));
                if 2 * inside.count() >= factor * factor {
                    reduced.set(class, x, y, true);
                }
            }
        }
        reduced
    }

    fn spacing(&self, case: &Case, unit: Unit) -> Option<Spacing> {
        match (unit, Unit::stated(case)) {
            (Unit::Millimetres, Some(spacing)) => {
                let [across, down] = self.upright.turned_size(spacing).map(|step| step * self.factor as f64);
                Some(Spacing::Millimetres(across, down))
            }
            _ if self.factor > 1 => Some(Spacing::Pixels(self.factor, self.factor, "px")),
            _ => None,
        }
    }
}

impl Packed {
    fn new(mask: &Mask) -> Self {
        let runs = runs(mask);
        // A digit or two and a comma for each run; four signs for three bytes.
        let bytes = (mask.width() * mask.height()).div_ceil(8) * mask.classes();
        let length: usize = runs.iter().map(|run| run.checked_ilog10().unwrap_or(0) as usize + 2).sum();
        if length <= bytes.div_ceil(3) * 4 {
            return Self::Runs(runs);
        }
        let plane = |class: usize| {
            let bytes = mask.plane(class).iter().flat_map(|word| word.to_le_bytes());
            bytes.take((mask.width() * mask.height()).div_ceil(8)).collect::<Vec<_>>()
        };
        Self::Bits(base64(&(0..mask.classes()).flat_map(plane).collect::<Vec<_>>()))
    }
}

/// Lengths of runs, first outside, then inside, in turns, plane after plane; what is outside at the end is left out.
fn runs(mask: &Mask) -> Vec<usize> {
    let pixels = mask.width() * mask.height();
    let (mut runs, mut inside, mut since) = (Vec::new(), false, 0);
    for class in 0..mask.classes() {
        for (at, &word) in mask.plane(class).iter().enumerate() {
            let unchanged = if inside { u64::MAX } else { 0 };
            if word == unchanged {
                continue;
            }
            for bit in 0..64.min(pixels - at * 64) {
                if (word >> bit & 1 == 1) != inside {
                    let place = class * pixels + at * 64 + bit;
                    runs.push(place - since);
                    (inside, since) = (!inside, place);
                }
            }
        }
    }
    if inside {
        runs.push(mask.classes() * pixels - since);
    }
    runs
}

#[cfg(test)]
mod tests {
    use multivalued_data::{Geometry, Image};

    use super::*;

    fn case(width: usize, height: usize) -> Case {
        let mask = Mask::from_fn(width, height, |x, y| x >= width / 2 && y >= height / 2);
        Case {
            id: "a".into(),
            group: "a".into(),
            image: Image::new(width, height, 1, (0..width * height).map(|at| at as f32).collect()),
            annotations: vec![Annotation { mask, rater: Some("R".into()), weight: 1.0 }],
            truth: None,
        }
    }

    #[test]
    fn runs_are_those_of_all_planes() {
        let mut mask = Mask::empty(50, 3, 2);
        assert_eq!(runs(&mask), Vec::<usize>::new());
        mask.fill_row(0, 0, 2..5);
        mask.fill_row(0, 2, 48..50);
        mask.fill_row(1, 0, 0..1);
        mask.fill_row(1, 2, 49..50);
        // The run at the end of the first plane goes on in the second.
        assert_eq!(runs(&mask), [2, 3, 143, 3, 148, 1]);
        let full = Mask::from_fn(130, 1, |_, _| true);
        assert_eq!(runs(&full), [0, 130]);
    }

    #[test]
    fn a_mask_takes_the_shorter_form() {
        let solid = Mask::from_fn(64, 64, |x, y| x < 32 && y < 32);
        assert!(matches!(Packed::new(&solid), Packed::Runs(_)));
        let chequered = Mask::from_fn(9, 3, |x, y| (x + y) % 2 == 0);
        let Packed::Bits(bits) = Packed::new(&chequered) else { panic!("a chequered mask is all runs") };
        // 27 pixels, the first in the lowest bit: 0x55, 0x55, 0x55, 0x05.
        assert_eq!(bits, "VVVVBQ==");
    }

    #[test]
    fn large_images_are_reduced_and_their_areas_are_not() {
        let large = case(2100, 30);
        let none = Prediction::stated(Vec::new());
        let shown = Shown::new(&large, &none, Unit::Pixels);
        assert_eq!((shown.width, shown.height), (700, 10));
        assert_eq!(shown.spacing, Some(Spacing::Pixels(3, 3, "px")));
        assert!(matches!(&shown.readers[0].mask, Packed::Runs(runs) if runs[..2] == [5 * 700 + 350, 350]));
        assert_eq!(Shown::new(&case(30, 20), &none, Unit::Pixels).spacing, None);
    }

    #[test]
    fn masks_and_spacing_are_turned_with_their_picture() {
        // Columns lead to the front, rows to the right: transposed, and both turned.
        let mut turned = case(6, 4);
        let affine = [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        turned.image.geometry = Some(Geometry { spacing: [0.5, 2.0, 1.0], affine: Some(affine) });
        let shown = Shown::new(&turned, &Prediction::stated(Vec::new()), Unit::Millimetres);
        assert_eq!((shown.width, shown.height), (4, 6));
        assert_eq!(shown.spacing, Some(Spacing::Millimetres(2.0, 0.5)));
        // The lower right quarter becomes the upper left one: two columns of three rows, 0x33 and 0x03.
        assert_eq!(shown.readers[0].mask, Packed::Bits("MwMA".into()));
    }

    #[test]
    fn hypotheses_that_hold_nearly_nothing_are_left_out_and_few_stand_for_many() {
        let one = |at: usize, probability| Hypothesis {
            mask: Mask::from_fn(16, 16, |x, y| y * 16 + x < at),
            probability,
            code: at,
        };
        let few = Prediction::stated(vec![one(9, 0.7), one(5, 0.2998), one(2, 0.0002)]);
        let (all, stands) = kept(&few);
        assert_eq!((all.len(), stands), (2, None));
        let many: Vec<_> = (0..100).map(|at| one(at, 0.01)).collect();
        let many = Prediction { hypotheses: many, draws: Some(100) };
        let (all, stands) = kept(&many);
        let stands = stands.unwrap();
        assert_eq!(stands.len(), LISTED);
        assert!((MOST_HYPOTHESES..=MOST_HYPOTHESES + LISTED).contains(&all.len()));
        let sum: f32 = stands.iter().map(|one| one.probability).sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
        assert!(
            stands.iter().any(|one| all[one.rank].code > 60),
            "those beyond the first stand for others too"
        );
        let nothing = Prediction::stated(Vec::new());
        let (none, stands) = kept(&nothing);
        assert!(none.is_empty() && stands.is_none());
    }
}
