//! Masks that are put together from strips of logits.

use super::super::views::Views;
use super::super::{masks_of, moves, packed_outlines};
use crate::recipe::Recipe;
use crate::{Error, Result};
use multivalued_data::Mask;
use multivalued_engine::{Device, NEAR_HIGHEST, PackedMasks, Tensor, Var};
use std::ops::Range;

/// The outputs of some codes, put together from strips.
pub(super) struct Drawing<'a> {
    recipe: &'a Recipe,
    device: &'a Device,
    size: [usize; 2],
    views: &'a Views,
    /// By code and outline, the bits of a whole mask: where there is one view.
    words: Vec<Vec<Vec<u64>>>,
    /// By code what its mask takes where it would be empty: where there is one view, and a head for the empty mask.
    fallbacks: Vec<Nearest>,
    /// By code the logits of a view, and their mean over the views so far: where there are several.
    logits: Vec<Vec<f32>>,
    means: Vec<Option<Tensor>>,
}

impl<'a> Drawing<'a> {
    pub fn new(
        recipe: &'a Recipe,
        device: &'a Device,
        size: [usize; 2],
        views: &'a Views,
        codes: usize,
    ) -> Self {
        let pixels = size[0] * size[1];
        let own = &recipe.model;
        let several = views.len() > 1;
        let outlines = 1 + moves(&recipe.predict).len();
        let bits = || vec![vec![0; pixels.div_ceil(64) * own.classes]; outlines];
        let channels = own.output_channels();
        Self {
            recipe,
            device,
            size,
            views,
            words: if several { Vec::new() } else { (0..codes).map(|_| bits()).collect() },
            fallbacks: match several || !own.empty_head {
                true => Vec::new(),
                false => vec![Nearest::default(); codes],
            },
            logits: if several { vec![vec![0.0; pixels * channels]; codes] } else { Vec::new() },
            means: vec![None; if several { codes } else { 0 }],
        }
    }

    /// Adds a strip of some codes, from the one at `at` on.
    pub fn add(&mut self, rows: Range<usize>, at: usize, logits: &Tensor) -> Result<()> {
        let [width, height] = self.size;
        let count = logits.shape()[0];
        if !self.logits.is_empty() {
            let values = logits.to_vec();
            let each = values.len() / count;
            let from = rows.start * width * (each / (rows.len() * width));
            for (code, values) in values.chunks_exact(each).enumerate() {
                self.logits[at + code][from..from + each].copy_from_slice(values);
            }
            return Ok(());
        }
        let options = &self.recipe.predict;
        let logits = Var::constant(logits.clone());
        let moved = moves(options).into_iter().map(|by| logits.add_scalar(by).into_tensor().pack_masks());
        let packed: Vec<PackedMasks> = [logits.tensor().pack_masks()].into_iter().chain(moved).collect();
        let words = PackedMasks::words(&packed).ok_or(Error::NotFinite { what: "logits" })?;
        let classes = self.recipe.model.classes;
        if let Some(fallbacks) = self.fallbacks.get_mut(at..at + count) {
            let (values, own) = (logits.tensor().to_vec(), &words[0]);
            let each = values.len() / count;
            let planes = own.chunks_exact(own.len() / count);
            for ((nearest, values), words) in fallbacks.iter_mut().zip(values.chunks_exact(each)).zip(planes)
            {
                nearest.add(
                    rows.start * width,
                    values,
                    words.iter().any(|&word| word != 0),
                    each / (rows.len() * width),
                );
            }
        }
        let bits = rows.len() * width;
        let (own, whole) = (bits.div_ceil(64), (width * height).div_ceil(64));
        for (outline, words) in words.iter().enumerate() {
            for (plane, words) in words.chunks_exact(own).enumerate() {
                let (code, class) = (at + plane / classes, plane % classes);
                let to = &mut self.words[code][outline][class * whole..(class + 1) * whole];
                put_bits(to, rows.start * width, words);
            }
        }
        Ok(())
    }

    /// Moves the logits of a view back and adds them to the mean.
    pub fn end_view(&mut self, view: usize) {
        let [width, height] = self.size;
        let channels = self.recipe.model.output_channels();
        for (logits, mean) in self.logits.iter().zip(&mut self.means) {
            let logits = Tensor::from_slice(self.device, [1, height, width, channels], logits);
            *mean = Some(self.views.mean(&logits, view..view + 1, 1, mean.take()));
        }
    }

    /// By code the outlines of its mask.
    pub fn masks(self) -> Result<Vec<Vec<Mask>>> {
        let ([width, height], classes) = (self.size, self.recipe.model.classes);
        if self.means.is_empty() {
            let mask = |words| Mask::from_words(width, height, classes, words).expect("words of such a mask");
            let mut masks: Vec<Vec<Mask>> =
                self.words.into_iter().map(|code| code.into_iter().map(mask).collect()).collect();
            for (code, nearest) in
                masks.iter_mut().zip(self.fallbacks).filter(|(_, nearest)| !nearest.has_pixels)
            {
                nearest
                    .pixels
                    .iter()
                    .for_each(|&(at, class, _)| code[0].set(class, at % width, at / width, true));
            }
            return Ok(masks);
        }
        let of_code = |mean: Option<Tensor>| {
            let packed = packed_outlines(self.recipe, mean.expect("every view was added"));
            Ok(masks_of(&packed, self.size, classes)?.into_iter().flatten().collect())
        };
        self.means.into_iter().map(of_code).collect()
    }
}

/// The pixels of a mask that would be empty: those whose logits are near the highest one, as
/// `Tensor::pack_masks_with_pixels` takes them of a whole image.
#[derive(Clone, Default)]
struct Nearest {
    /// The mask is not empty, and nothing is needed.
    has_pixels: bool,
    highest: Option<f32>,
    /// Pixel, class and logit, less that of no class.
    pixels: Vec<(usize, usize, f32)>,
}

impl Nearest {
    /// Adds logits of so many channels from a pixel on; `marked` where the mask has pixels among them.
    fn add(&mut self, from: usize, logits: &[f32], marked: bool, channels: usize) {
        self.has_pixels |= marked;
        if self.has_pixels {
            self.pixels = Vec::new();
            return;
        }
        let of_pixel = |logits: &[f32]| match logits {
            [only] => (0, *only),
            [none, classes @ ..] => {
                let larger = |best: usize, class| if classes[class] > classes[best] { class } else { best };
                let best = (1..classes.len()).fold(0, larger);
                (best, classes[best] - none)
            }
            [] => unreachable!("logits have a channel"),
        };
        let highest = logits.chunks_exact(channels).map(|logits| of_pixel(logits).1).fold(f32::MIN, f32::max);
        let highest = self.highest.map_or(highest, |before| before.max(highest));
        self.highest = Some(highest);
        let is_near = |logit: f32| logit + (NEAR_HIGHEST - highest) > 0.0;
        self.pixels.retain(|pixel| is_near(pixel.2));
        for (at, logits) in logits.chunks_exact(channels).enumerate() {
            let (class, logit) = of_pixel(logits);
            if is_near(logit) {
                self.pixels.push((from + at, class, logit));
            }
        }
    }
}

/// Puts bits into others, from bit `at` on; there they are all zero.
fn put_bits(to: &mut [u64], at: usize, bits: &[u64]) {
    let (first, shift) = (at / 64, at % 64);
    for (place, &word) in (first..).zip(bits) {
        if word == 0 {
            continue;
        }
        to[place] |= word << shift;
        if shift > 0 && word >> (64 - shift) != 0 {
            to[place + 1] |= word >> (64 - shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_put_at_any_place() {
        for at in [0, 3, 63, 64, 70] {
            let mut to = [0; 4];
            put_bits(&mut to, at, &[0x8000_0000_0000_0001, 0b101]);
            let set: Vec<usize> = (0..256).filter(|bit| to[bit / 64] >> (bit % 64) & 1 == 1).collect();
            assert_eq!(set, [at, at + 63, at + 64, at + 66]);
        }
    }
}
