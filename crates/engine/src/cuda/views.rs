//! Views of images moved and moved back, and masks packed to bits.

use super::resident::gather;
use super::tensors::arg;
use super::{Arg, Buffer, Cuda, Grid};
use crate::backend::{Element, Memory, Views};
use crate::cuda::Pick;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::views::{InverseViews, NEAR_HIGHEST, PACKED, Placement};

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

    fn mean_of_views(
        &self,
        outputs: &Tensor,
        inverse: &InverseViews,
        before: Option<Tensor>,
        shape: Shape,
    ) -> Tensor {
        let outputs = self.cast(outputs.clone(), Element::F32);
        let [_, height, width, channels] = shape.image("the mean of views");
        let InverseViews { back, views, repeats } = inverse;
        let adds = before.is_some();
        let (before, mean) = match before {
            Some(before) => self.reusable(self.cast(before, Element::F32)),
            None => {
                let mean = self.floats(shape);
                (mean.clone(), mean)
            }
        };
        let table: Vec<[f64; 6]> = back
            .iter()
            .map(|&Placement { from: [x, y], matrix: [[a, b], [c, d]] }| [x, y, a, b, c, d])
            .collect();
        let table = Buffer::upload(self, bytemuck::cast_slice(&table));
        let total = shape.volume();
        let mut args = vec![arg(&outputs), table.arg(), arg(&before), arg(&mean)];
        args.extend([back.len(), views.start, views.len(), *repeats, height, width, channels].map(Arg::size));
        args.extend([Arg::flag(adds), Arg::count(total)]);
        self.launch("mean_of_views", Grid::over(total), &args);
        mean
    }

    fn pack_masks(&self, logits: &Tensor, with_pixels: bool, shape: Shape) -> [Tensor; 2] {
        let logits = self.cast(logits.clone(), Element::F32);
        let [masks, height, width, channels] = logits.shape().image("masks");
        let (pixels, packed) = (height * width, self.floats(shape));
        let fault = self.full([1].into(), 0.0);
        // What is added to the logits of each mask's classes.
        let raised = self.full([masks].into(), 0.0);
        if with_pixels {
            let mut args = vec![arg(&logits), arg(&raised), Arg::count(pixels), Arg::size(channels)];
            args.push(Arg::Float(NEAR_HIGHEST));
            self.launch("raise_masks", Grid::blocks(masks, 1, 1), &args);
        }
        // A warp packs 32 neighbours.
        let runs = shape.last() * PACKED / 32;
        let mut args = vec![arg(&logits), arg(&raised), arg(&packed), arg(&fault)];
        args.extend([Arg::count(masks), Arg::count(runs), Arg::count(pixels), Arg::size(channels)]);
        self.launch("pack_masks", Grid::over(masks * runs * 32), &args);
        [packed, fault]
    }
}
