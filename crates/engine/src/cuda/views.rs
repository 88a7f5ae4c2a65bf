//! Views of images moved and moved back, and masks packed to bits.

use super::resident::gather;
use super::tensors::arg;
use super::{Arg, Buffer, Cuda, Grid};
use crate::backend::{Element, Memory, Views};
use crate::cuda::Pick;
use crate::tensor::Tensor;
use crate::views::{InverseViews, NEAR_HIGHEST, PACKED, Placement, WORD};

impl Views for Cuda {
    fn move_images(&self, x: &Tensor, placements: &[Placement]) -> Tensor {
        let images = self.cast(x.clone(), Element::F32);
        let [count, height, width, channels] = x.shape().image("views of images");
        let picks: Vec<Pick> = (0..count)
            .flat_map(|image| placements.iter().map(move |&placement| Pick::placed(image, placement)))
            .collect();
        gather(
            super::tensors::buffer(&images),
            "float",
            [count, height, width, channels],
            &picks,
            [height, width],
        )
    }

    fn mean_of_views(&self, outputs: &Tensor, ways: &InverseViews, before: Option<Tensor>) -> Tensor {
        let outputs = self.cast(outputs.clone(), Element::F32);
        let [count, height, width, channels] = outputs.shape().image("the mean of views");
        let InverseViews { back, views, repeats } = ways;
        let adds = before.is_some();
        let (before, mean) = match before {
            Some(before) => self.reusable(self.cast(before, Element::F32)),
            None => {
                let mean = self.floats([count / views.len(), height, width, channels]);
                (mean.clone(), mean)
            }
        };
        let table: Vec<[f64; 6]> = back
            .iter()
            .map(|&Placement { from: [x, y], matrix: [[a, b], [c, d]] }| [x, y, a, b, c, d])
            .collect();
        let table = Buffer::upload(self, bytemuck::cast_slice(&table));
        let total = mean.shape().volume();
        let mut args = vec![arg(&outputs), table.arg(), arg(&before), arg(&mean)];
        args.extend([back.len(), views.start, views.len(), *repeats, height, width, channels].map(Arg::size));
        args.extend([Arg::flag(adds), Arg::count(total)]);
        self.launch("mean_of_views", Grid::over(total), &args);
        mean
    }

    fn pack_masks(&self, logits: &Tensor, with_pixels: bool) -> [Tensor; 2] {
        let logits = self.cast(logits.clone(), Element::F32);
        let [masks, height, width, channels] = logits.shape().image("masks");
        let (pixels, classes) = (height * width, (channels - 1).max(1));
        let words = pixels.div_ceil(WORD);
        let packed = self.floats([masks, classes, words * (WORD / PACKED)]);
        let fault = self.full([1].into(), 0.0);
        // What is added to the logits of each mask's classes.
        let raised = self.full([masks].into(), 0.0);
        if with_pixels {
            let mut args = vec![arg(&logits), arg(&raised), Arg::count(pixels), Arg::size(channels)];
            args.push(Arg::Float(NEAR_HIGHEST));
            self.launch("raise_masks", Grid::blocks(masks, 1, 1), &args);
        }
        // A warp packs 32 neighbours.
        let runs = words * (WORD / 32);
        let mut args = vec![arg(&logits), arg(&raised), arg(&packed), arg(&fault)];
        args.extend([Arg::count(masks), Arg::count(runs), Arg::count(pixels), Arg::size(channels)]);
        self.launch("pack_masks", Grid::over(masks * runs * 32), &args);
        [packed, fault]
    }
}
