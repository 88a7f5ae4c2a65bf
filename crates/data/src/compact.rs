//! Masks in few bytes, for whoever keeps those of a whole volume.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::Mask;

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
}
