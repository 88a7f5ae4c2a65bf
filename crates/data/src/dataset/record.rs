//! One case as bytes, little-endian: the unit of the packed cache and of content hashes. The same case
//! always gives the same bytes.
//!
//! ```text
//! id, group                    text: u32 length, UTF-8
//! width, height, channels      u32 each
//! geometry                     u8: 0 none; 1 spacing (3 f32); 2 spacing and affine (12 f32)
//! pixels                       u8: bytes per pixel (1, 2: unsigned; 4: f32), then the planes
//! annotations                  u32 count; each: u8 named, [rater text], f32 weight, mask
//! truth                        u8 known, [u32 count; each: f32 probability, mask]
//! mask                         width, height, classes u32; words u64
//! ```

use crate::{Annotation, Case, Geometry, Image, Mask, Mode};

pub(super) fn encode(case: &Case) -> Vec<u8> {
    let image = &case.image;
    let mut out =
        Vec::with_capacity(256 + image.pixels().len() + case.annotations.len() * image.pixels().len() / 8);
    put_text(&mut out, &case.id);
    put_text(&mut out, &case.group);
    for number in [image.width(), image.height(), image.channels()] {
        put_count(&mut out, number);
    }
    match &image.geometry {
        None => out.push(0),
        Some(geometry) => {
            out.push(if geometry.affine.is_some() { 2 } else { 1 });
            let numbers = geometry.spacing.iter().chain(geometry.affine.iter().flatten().flatten());
            numbers.for_each(|number| out.extend(number.to_le_bytes()));
        }
    }
    let pixels = image.pixels();
    // The bits must come back, so negative zero is no 0.
    if pixels.iter().all(|&value| f32::from(value as u8).to_bits() == value.to_bits()) {
        out.push(1);
        out.extend(pixels.iter().map(|&value| value as u8));
    } else if pixels.iter().all(|&value| f32::from(value as u16).to_bits() == value.to_bits()) {
        out.push(2);
        pixels.iter().for_each(|&value| out.extend((value as u16).to_le_bytes()));
    } else {
        out.push(4);
        pixels.iter().for_each(|value| out.extend(value.to_le_bytes()));
    }
    put_count(&mut out, case.annotations.len());
    for annotation in &case.annotations {
        out.push(u8::from(annotation.rater.is_some()));
        if let Some(rater) = &annotation.rater {
            put_text(&mut out, rater);
        }
        out.extend(annotation.weight.to_le_bytes());
        put_mask(&mut out, &annotation.mask);
    }
    out.push(u8::from(case.truth.is_some()));
    if let Some(modes) = &case.truth {
        put_count(&mut out, modes.len());
        for mode in modes {
            out.extend(mode.probability.to_le_bytes());
            put_mask(&mut out, &mode.mask);
        }
    }
    out
}

pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("sizes and counts of a case fit 32 bits");
    out.extend(count.to_le_bytes());
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend(text.as_bytes());
}

fn put_mask(out: &mut Vec<u8>, mask: &Mask) {
    for number in [mask.width(), mask.height(), mask.classes()] {
        put_count(out, number);
    }
    mask.words().iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// The case of a record; none where the bytes are not exactly one record.
pub(super) fn decode(bytes: &[u8]) -> Option<Case> {
    let mut input = Input(bytes);
    let (id, group) = (input.text()?, input.text()?);
    let [width, height, channels] = [input.count()?, input.count()?, input.count()?];
    let geometry = match input.byte()? {
        0 => None,
        kind @ (1 | 2) => {
            let spacing = input.floats()?;
            let affine =
                if kind == 2 { Some([input.floats()?, input.floats()?, input.floats()?]) } else { None };
            Some(Geometry { spacing, affine })
        }
        _ => return None,
    };
    let samples = width.checked_mul(height)?.checked_mul(channels)?;
    let pixels = match input.byte()? {
        1 => input.take(samples)?.iter().map(|&byte| f32::from(byte)).collect(),
        2 => {
            let words = input.take(samples.checked_mul(2)?)?.as_chunks::<2>().0;
            words.iter().map(|&word| f32::from(u16::from_le_bytes(word))).collect()
        }
        4 => {
            let words = input.take(samples.checked_mul(4)?)?.as_chunks::<4>().0;
            words.iter().map(|&word| f32::from_le_bytes(word)).collect()
        }
        _ => return None,
    };
    if !(1..=4).contains(&channels) {
        return None;
    }
    let mut image = Image::new(width, height, channels, pixels);
    image.geometry = geometry;
    let annotations = (0..input.count()?).map(|_| {
        let rater = if input.flag()? { Some(input.text()?) } else { None };
        let [weight] = input.floats()?;
        Some(Annotation { rater, weight, mask: input.mask()? })
    });
    let annotations = annotations.collect::<Option<Vec<_>>>()?;
    let truth = if input.flag()? {
        let modes = (0..input.count()?).map(|_| {
            let [probability] = input.floats()?;
            Some(Mode { probability, mask: input.mask()? })
        });
        Some(modes.collect::<Option<Vec<_>>>()?)
    } else {
        None
    };
    input.0.is_empty().then_some(Case { id, group, image, annotations, truth })
}

/// What is still to be read; every step fails where the bytes end.
pub(super) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn hash(&mut self) -> Option<blake3::Hash> {
        self.take(blake3::OUT_LEN).and_then(|bytes| blake3::Hash::from_slice(bytes).ok())
    }

    pub fn long(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.as_chunks::<8>().0;
        Some(u64::from_le_bytes(bytes[0]))
    }

    pub fn count(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.as_chunks::<4>().0;
        Some(u32::from_le_bytes(bytes[0]) as usize)
    }

    pub fn text(&mut self) -> Option<String> {
        let length = self.count()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    fn floats<const N: usize>(&mut self) -> Option<[f32; N]> {
        let words = self.take(4 * N)?.as_chunks::<4>().0;
        Some(std::array::from_fn(|at| f32::from_le_bytes(words[at])))
    }

    fn mask(&mut self) -> Option<Mask> {
        let [width, height, classes] = [self.count()?, self.count()?, self.count()?];
        let words = width.checked_mul(height)?.div_ceil(64).checked_mul(classes)?;
        let bytes = self.take(words.checked_mul(8)?)?.as_chunks::<8>().0;
        Mask::from_words(width, height, classes, bytes.iter().map(|&word| u64::from_le_bytes(word)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mask(width: usize, height: usize, seed: u64) -> Mask {
        Mask::from_fn(width, height, |x, y| (seed >> ((x * 7 + y * 3) % 64)) & 1 == 1)
    }

    fn any_case() -> impl Strategy<Value = Case> {
        let value = prop_oneof![
            (0..256u32).prop_map(|v| v as f32),
            (0..65_536u32).prop_map(|v| v as f32),
            -1e6f32..1e6,
            Just(-0.0)
        ];
        (1..9usize, 1..9usize, 1..5usize, any::<u64>(), proptest::option::of("\\PC{0,6}"), 0..4usize)
            .prop_flat_map(move |(width, height, channels, seed, rater, readers)| {
                let pixels = proptest::collection::vec(value.clone(), width * height * channels);
                (pixels, "\\PC{0,12}", any::<bool>()).prop_map(move |(pixels, id, known)| {
                    let mut image = Image::new(width, height, channels, pixels);
                    if known {
                        let affine = Some([[1.5; 4]; 3]).filter(|_| seed % 2 == 0);
                        image.geometry = Some(Geometry { spacing: [0.5, 2.0, 3.0], affine });
                    }
                    let annotation = |k: usize| Annotation {
                        mask: mask(width, height, seed.rotate_left(k as u32)),
                        rater: rater.clone(),
                        weight: 1.0 + k as f32,
                    };
                    let mode = Mode { mask: mask(width, height, !seed), probability: 0.25 };
                    Case {
                        group: id.clone(),
                        id,
                        image,
                        annotations: (0..readers).map(annotation).collect(),
                        truth: known.then(|| vec![mode]),
                    }
                })
            })
    }

    proptest! {
        #[test]
        fn cases_come_back_bit_for_bit(case in any_case()) {
            let bytes = encode(&case);
            let back = decode(&bytes).unwrap();
            let bits = |case: &Case| case.image.pixels().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&case));
            prop_assert_eq!(back, case);
        }

        #[test]
        fn damaged_records_never_panic(case in any_case(), cut in any::<prop::sample::Index>(), flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
            let mut bytes = encode(&case);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_none(), "a part was taken for the whole");
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            // Whatever it is taken for, it must be consistent in itself.
            if let Some(case) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&case)).is_some(), true);
            }
        }
    }
}
