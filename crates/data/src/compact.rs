//! Masks in few bytes, for whoever keeps those of a whole volume.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rayon::prelude::*;

use crate::{Hypothesis, Mask, Prediction};

/// A mask whose bits are deflated: outlines take far fewer bytes than areas do.
#[derive(Debug, Clone)]
pub struct CompactMask {
    size: [usize; 3],
    deflated: Vec<u8>,
}

impl CompactMask {
    /// Deflates a mask.
    pub fn new(mask: &Mask) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        let mut bytes = Vec::new();
        for words in mask.words().chunks(1 << 12) {
            bytes.clear();
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            encoder.write_all(&bytes).expect("a vector takes all bytes");
        }
        let mut deflated = encoder.finish().expect("a vector takes all bytes");
        deflated.shrink_to_fit();
        Self { size: [mask.width(), mask.height(), mask.classes()], deflated }
    }

    /// Columns, rows and foreground classes.
    pub fn size(&self) -> [usize; 3] {
        self.size
    }

    /// The mask.
    pub fn mask(&self) -> Mask {
        let [width, height, classes] = self.size;
        let mut words = Vec::with_capacity((width * height).div_ceil(64) * classes);
        let mut decoder = DeflateDecoder::new(&self.deflated[..]);
        let mut word = [0; 8];
        while words.len() < words.capacity() && decoder.read_exact(&mut word).is_ok() {
            words.push(u64::from_le_bytes(word));
        }
        Mask::from_words(width, height, classes, words).expect("the words that were deflated")
    }
}

/// What a model says of many images; one is unpacked when it is asked for.
#[derive(Debug, Clone, Default)]
pub struct Predictions(Vec<CompactPrediction>);

#[derive(Debug, Clone)]
struct CompactPrediction {
    /// Mask, probability and code of each hypothesis.
    hypotheses: Vec<(CompactMask, f32, usize)>,
    draws: Option<usize>,
}

impl Predictions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The prediction of one image.
    pub fn get(&self, at: usize) -> Prediction {
        let CompactPrediction { hypotheses, draws } = &self.0[at];
        let unpacked = hypotheses.iter().map(|(mask, probability, code)| Hypothesis {
            mask: mask.mask(),
            probability: *probability,
            code: *code,
        });
        Prediction { hypotheses: unpacked.collect(), draws: *draws }
    }

    /// All of them.
    pub fn to_vec(&self) -> Vec<Prediction> {
        (0..self.len()).map(|at| self.get(at)).collect()
    }

    /// Adds the predictions of further images.
    pub fn extend(&mut self, predictions: &[Prediction]) {
        let pack = |prediction: &Prediction| {
            let hypotheses = prediction.hypotheses.iter();
            let hypotheses = hypotheses.map(|one| (CompactMask::new(&one.mask), one.probability, one.code));
            CompactPrediction { hypotheses: hypotheses.collect(), draws: prediction.draws }
        };
        self.0.extend(predictions.par_iter().map(pack).collect::<Vec<_>>());
    }

    /// The same in the order of `places`: prediction k is that of image `places[k]`.
    pub fn placed(self, places: &[usize]) -> Self {
        let mut placed: Vec<(usize, CompactPrediction)> = places.iter().copied().zip(self.0).collect();
        placed.sort_by_key(|(place, _)| *place);
        Self(placed.into_iter().map(|(_, one)| one).collect())
    }
}

impl From<&[Prediction]> for Predictions {
    fn from(predictions: &[Prediction]) -> Self {
        let mut packed = Self::default();
        packed.extend(predictions);
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_come_back_and_take_few_bytes() {
        let mut disc = Mask::empty(301, 200, 3);
        for (x, y) in (0..301).flat_map(|x| (0..200).map(move |y| (x, y))) {
            disc.set(2, x, y, x.abs_diff(150).pow(2) + y.abs_diff(100).pow(2) < 5_000);
        }
        for mask in [disc.clone(), Mask::empty(1, 1, 1), Mask::from_fn(7, 9, |x, y| (x * y) % 3 == 1)] {
            assert_eq!(CompactMask::new(&mask).mask(), mask);
        }
        let bytes = CompactMask::new(&disc).deflated.len();
        assert!(bytes * 8 < disc.words().len() * 8, "{bytes} of {}", disc.words().len() * 8);
    }
    #[test]
    fn predictions_come_back_in_their_places() {
        let prediction = |code: usize| {
            let mask = Mask::from_fn(9, 7, |x, y| x * y % (code + 2) == 1);
            let hypotheses = vec![Hypothesis { mask, probability: 0.25 * code as f32, code }];
            Prediction { hypotheses, draws: (code == 2).then_some(16) }
        };
        let all = [0, 1, 2].map(prediction);
        let packed = Predictions::from(&all[..]);
        assert_eq!([0, 1, 2].map(|at| packed.get(at)), all);
        let placed = packed.placed(&[2, 0, 1]);
        assert_eq!([2, 0, 1].map(|at| placed.get(at)), all);
    }
}
