//! E_θ: the image encoder, shared by the generator and the classifier. Also the body of the pair
//! encoder, which differs only in its input.

use super::blocks::{Init, ResidualBlock};
use multivalued_engine::{Corners, Tape, Var};

/// Residual blocks, the image halved (bilinearly, rounding down, never below one pixel) between them.
///
/// Paper: §4.1, "down-sampling residual blocks".
pub(crate) struct ImageEncoder {
    pub(super) blocks: Vec<ResidualBlock>,
}

/// The size of the next level: halves, rounded down, never below one pixel.
pub(super) fn halved([height, width]: [usize; 2]) -> [usize; 2] {
    [(height / 2).max(1), (width / 2).max(1)]
}

impl ImageEncoder {
    pub fn new(init: &mut Init, name: &str, inputs: usize, channels: &[usize], norm_group: usize) -> Self {
        let before = std::iter::once(inputs).chain(channels.iter().copied());
        let blocks = before
            .zip(channels)
            .enumerate()
            .map(|(i, (inputs, &outputs))| {
                ResidualBlock::new(init, &format!("{name}.block{i}"), inputs, outputs, norm_group)
            })
            .collect();
        Self { blocks }
    }

    /// The features of every level, the finest first.
    ///
    /// # Shapes
    /// [batch, h, w, inputs] → level i: [batch, h/2ⁱ, w/2ⁱ, channels_i]
    pub fn forward(&self, tape: &Tape, x: &Var) -> Vec<Var> {
        let mut levels: Vec<Var> = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let input = match levels.last() {
                None => x.clone(),
                Some(finer) => {
                    let [height, width] = halved([finer.shape()[1], finer.shape()[2]]);
                    finer.resize_bilinear(height, width, Corners::HalfPixel)
                }
            };
            levels.push(block.forward(tape, &input));
        }
        levels
    }
}
