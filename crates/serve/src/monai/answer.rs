//! What a model says of a file, as one file: disjoint bands of probability, one hypothesis, or all hypotheses as
//! segments.

use std::fs;

use multivalued_data::dataset::Slices;
use multivalued_data::import::Limits;
use multivalued_data::segments::{Place, Segment, write_labels, write_segments};
use multivalued_data::volume::coherent::{Coherent, Wanted};
use multivalued_data::{Mask, Prediction, Predictions};
use serde_json::{Map, Value, json};

use super::sessions::Stored;
use crate::refusal::Refusal;

/// The lower ends of the bands, as `predict --maps` draws its contours.
pub const LEVELS: [f32; 3] = [0.1, 0.5, 0.9];

/// What the draws of a volume are named after, so that a file has the same answer whoever sends it.
const NAME: &str = "image";

/// Colours of hypotheses, the most probable first; after Okabe and Ito, who chose them for colour-blind readers.
const COLOURS: [[f32; 3]; 7] = [
    [0.90, 0.62, 0.00],
    [0.34, 0.71, 0.91],
    [0.00, 0.62, 0.45],
    [0.94, 0.89, 0.26],
    [0.00, 0.45, 0.70],
    [0.84, 0.37, 0.00],
    [0.80, 0.47, 0.65],
];

/// What is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A label for each band of probability.
    Bands,
    /// One hypothesis, counted from 1.
    Hypothesis(usize),
    /// All hypotheses, which may overlap.
    Segments,
}

impl Form {
    /// As `config` lists them.
    pub fn named(text: &str) -> Result<Self, Refusal> {
        let rank = |text: &str| text.strip_prefix("hypothesis ")?.parse().ok().filter(|&rank| rank > 0);
        match (text, rank(text)) {
            ("probability bands", _) => Ok(Self::Bands),
            ("segments", _) => Ok(Self::Segments),
            (_, Some(rank)) => Ok(Self::Hypothesis(rank)),
            _ => Err(Refusal::bad(
                "the parameter 'answer' is 'probability bands', 'hypothesis 1' and so on, or 'segments'; correct it",
            )),
        }
    }
}

/// The names of a model's bands and their labels.
pub fn band_names(classes: usize) -> Vec<String> {
    let names = ["10 to 50 %", "50 to 90 %", "90 % or more"];
    (0..classes).flat_map(|class| names.map(|name| of_class(class, classes, name))).collect()
}

/// The names of a hypothesis' labels.
pub fn hypothesis_names(rank: usize, classes: usize) -> Vec<String> {
    (0..classes).map(|class| of_class(class, classes, &format!("hypothesis {rank}"))).collect()
}

fn of_class(class: usize, classes: usize, name: &str) -> String {
    if classes == 1 { name.to_owned() } else { format!("class {}, {name}", class + 1) }
}

/// A file that is answered, and what is said beside it.
pub struct Answered {
    pub bytes: Vec<u8>,
    pub ending: &'static str,
    pub params: Value,
}

/// What a model says of a file.
pub struct Spoken<'a> {
    pub slices: &'a Slices,
    pub said: &'a Predictions,
    pub file: &'a Stored,
}

/// A whole image or volume: its probability, and by slice the place of its mask in the slice's list.
struct Hypothesis {
    probability: f64,
    members: Vec<usize>,
}

impl Spoken<'_> {
    /// Makes the answer.
    pub fn answer(&self, form: Form, ending: &'static str) -> Result<Answered, Refusal> {
        let hypotheses = self.hypotheses()?;
        let classes = self.said.get(0).hypotheses[0].mask.classes();
        let geometry = self.slices.image(0)?.geometry;
        let [width, height] = self.slices.size();
        let joined = self.slices.joined();
        let place = Place { size: [width, height, self.said.len() * joined], geometry: geometry.as_ref() };
        let path = self.file.beside(ending);
        let mut label_names = Map::new();
        let mut write = |masks: Vec<Mask>, names: Vec<String>| -> Result<(), Refusal> {
            // Slicer counts the labels that are there, so that names of others must not be among them.
            for (at, name) in names.into_iter().enumerate() {
                if masks.iter().any(|mask| mask.area(at) > 0) {
                    label_names.insert(name, json!(at + 1));
                }
            }
            let masks: Vec<Mask> = masks.into_iter().flat_map(|mask| vec![mask; joined]).collect();
            Ok(write_labels(&self.file.path, place, &path, &masks, &Limits::default())?)
        };
        match form {
            Form::Bands => {
                let masks = (0..self.said.len()).map(|slice| bands(&self.said.get(slice))).collect();
                write(masks, band_names(classes))?;
            }
            Form::Hypothesis(rank) => {
                let masks = match hypotheses.get(rank - 1) {
                    Some(one) => {
                        let slices = one.members.iter().enumerate();
                        slices
                            .map(|(slice, &at)| self.said.get(slice).hypotheses.swap_remove(at).mask)
                            .collect()
                    }
                    // There are fewer: nothing is there, and its probability is not told.
                    None => vec![Mask::empty(width, height, classes); self.said.len()],
                };
                write(masks, hypothesis_names(rank, classes))?;
            }
            Form::Segments => {
                let segments: Vec<Segment> = (0..hypotheses.len() * classes)
                    .map(|at| {
                        let (layer, class) = (at / classes, at % classes);
                        let name =
                            format!("hypothesis {}, p = {:.2}", layer + 1, hypotheses[layer].probability);
                        let name = of_class(class, classes, &name);
                        label_names.insert(name.clone(), json!(class + 1));
                        // The number of labels is a u8's, as everywhere.
                        Segment {
                            name,
                            colour: COLOURS[layer % COLOURS.len()],
                            layer,
                            label: class as u8 + 1,
                        }
                    })
                    .collect();
                let mask = |layer: usize, slice: usize| {
                    let slice = slice / joined;
                    self.said.get(slice).hypotheses.swap_remove(hypotheses[layer].members[slice]).mask
                };
                write_segments(&path, place, &segments, &mask)?;
            }
        }
        let bytes =
            fs::read(&path).map_err(|error| Refusal::failed(format!("the answer is lost: {error}")))?;
        let _ = fs::remove_file(&path);
        let rows: Vec<Value> =
            hypotheses.iter().map(|one| json!({ "probability": one.probability })).collect();
        Ok(Answered { bytes, ending, params: json!({ "label_names": label_names, "hypotheses": rows }) })
    }

    /// Those of an image, or coherent ones of a volume, as `predict` has them.
    fn hypotheses(&self) -> Result<Vec<Hypothesis>, Refusal> {
        if self.said.len() == 1 {
            let of = |(at, one): (usize, &multivalued_data::Hypothesis)| Hypothesis {
                probability: f64::from(one.probability),
                members: vec![at],
            };
            return Ok(self.said.get(0).hypotheses.iter().enumerate().map(of).collect());
        }
        let weighted = |slice: usize| {
            let said = self.said.get(slice).hypotheses;
            said.into_iter().map(|one| (one.mask, f64::from(one.probability))).unzip()
        };
        let all = Coherent::new(self.said.len(), weighted, Wanted::default(), NAME, 0)?;
        let of = |one: multivalued_data::volume::VolumeHypothesis| Hypothesis {
            probability: one.probability,
            members: one.members,
        };
        Ok(all.hypotheses.into_iter().map(of).collect())
    }
}

/// The bands of a slice as classes of a mask: of each pixel's most probable class the band of its probability.
fn bands(said: &Prediction) -> Mask {
    let shares = said.label_shares();
    let first = &said.hypotheses[0].mask;
    let (width, height, classes) = (first.width(), first.height(), first.classes());
    let mut mask = Mask::empty(width, height, classes * LEVELS.len());
    for at in 0..width * height {
        let mut best = 0;
        for class in 1..classes {
            if shares[class + 1][at] > shares[best + 1][at] {
                best = class;
            }
        }
        let share = shares[best + 1][at];
        if let Some(level) = LEVELS.iter().rposition(|&level| share >= level) {
            mask.set(best * LEVELS.len() + level, at % width, at / width, true);
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_disjoint_and_of_the_most_probable_class() {
        let hypothesis = |labels: [usize; 4], probability| {
            let mut mask = Mask::empty(4, 1, 2);
            let inside = labels.into_iter().enumerate().filter(|(_, label)| *label > 0);
            inside.for_each(|(x, label)| mask.set(label - 1, x, 0, true));
            multivalued_data::Hypothesis { mask, probability, code: 0 }
        };
        let said = Prediction::stated(vec![
            hypothesis([1, 1, 2, 0], 0.75),
            hypothesis([1, 2, 0, 0], 0.2),
            hypothesis([1, 0, 0, 1], 0.05),
        ]);
        // 100 % of class 1; 75 % of class 1; 75 % of class 2; 5 % of class 1.
        assert_eq!(bands(&said).labels(), [3, 2, 5, 0]);
        assert_eq!(band_names(2)[4], "class 2, 50 to 90 %");
    }

    #[test]
    fn forms_have_names() {
        assert_eq!(Form::named("probability bands").unwrap(), Form::Bands);
        assert_eq!(Form::named("hypothesis 12").unwrap(), Form::Hypothesis(12));
        assert_eq!(Form::named("segments").unwrap(), Form::Segments);
        for other in ["", "hypothesis 0", "hypothesis -1", "hypothesis", "hypothesis 1x"] {
            assert!(Form::named(other).is_err(), "{other}");
        }
    }
}
