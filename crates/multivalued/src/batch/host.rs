//! A batch in this machine's memory, and its way to a device.

use super::Batch;
use multivalued_engine::{Device, Stage, Tensor};
use std::ops::Range;

/// A batch in this machine's memory.
pub(crate) struct HostBatch {
    pub(super) images: Vec<f32>,
    /// Values of 0 and 1.
    pub(super) annotations: Vec<u8>,
    /// Height and width.
    pub(super) size: [usize; 2],
    pub(super) areas: Vec<f32>,
    pub(super) frame: Frame,
}

/// A batch on its way to a device.
pub(crate) struct Sent {
    stage: Stage,
    /// The images' shape.
    images: [usize; 4],
    /// The annotations' shape.
    annotations: [usize; 2],
    areas: Vec<f32>,
    frame: Frame,
}

/// What a batch is besides its pixels.
pub(super) struct Frame {
    pub(super) weights: Vec<f32>,
    pub(super) per_image: usize,
    /// Of all ranks.
    pub(super) cases: Vec<usize>,
    pub(super) own: Range<usize>,
}

impl HostBatch {
    /// The batch on a device.
    pub fn on(self, device: &Device) -> Batch {
        self.send(Stage::new(device)).received().0
    }

    /// Begins to send it to a device.
    pub fn send(self, mut stage: Stage) -> Sent {
        // Annotations as bytes: a quarter crosses.
        stage.send(&self.images, &self.annotations);
        let (images, annotations) = (self.image_shape(), self.annotation_shape());
        Sent { stage, images, annotations, areas: self.areas, frame: self.frame }
    }

    fn image_shape(&self) -> [usize; 4] {
        let (count, [height, width]) = (self.frame.own.len(), self.size);
        [count, height, width, self.images.len() / (count * height * width)]
    }

    fn annotation_shape(&self) -> [usize; 2] {
        let rows = self.frame.weights.len();
        [rows, self.annotations.len() / rows]
    }
}

impl Sent {
    /// The batch, and the stage that brought it, free for another.
    pub fn received(self) -> (Batch, Stage) {
        let Self { stage, images, annotations, areas, frame } = self;
        let images = stage.values(images);
        let areas = Tensor::from_slice(&images.device(), [areas.len()], &areas);
        (frame.with(images, stage.bytes(annotations), areas), stage)
    }
}

impl Frame {
    pub(super) fn with(self, images: Tensor, annotations: Tensor, areas: Tensor) -> Batch {
        let Self { weights, per_image, cases, own } = self;
        Batch { images, annotations, weights, per_image, areas, cases, own }
    }
}
