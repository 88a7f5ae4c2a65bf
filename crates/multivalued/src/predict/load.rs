//! What the networks are given at once: how many views are encoded together, and how many outputs generated.

use crate::recipe::{CodeEntry, ModelRecipe};
use multivalued_engine::Device;
use std::ops::Range;

/// What the networks are given at once. The same on every machine with such a device, so that results are, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Images, or views of them, that are encoded together, where they have one size.
    pub(super) views: usize,
    /// Values that are held. Sixteen images of 2048x2048 would need sixteen times half a gigabyte for a single layer.
    pub(super) values: usize,
}

impl Load {
    /// Half a gigabyte in f32.
    pub(super) const OF_PROCESSOR: Self = Self { views: 16, values: 1 << 27 };
    /// 64 MiB in f32. What a page's memory once grew to it keeps.
    pub(super) const OF_PAGE: Self = Self { views: 16, values: 1 << 24 };
    /// Two gigabytes in f32. A GPU is not busy with fewer views.
    pub(super) const OF_GPU: Self = Self { views: 128, values: 1 << 29 };

    pub(super) fn of(device: &Device) -> Self {
        match device.is_asynchronous() {
            true => Self::OF_GPU,
            false if cfg!(target_arch = "wasm32") => Self::OF_PAGE,
            false => Self::OF_PROCESSOR,
        }
    }
}

/// Images, or views of them, that networks on a device are given at once, if they are not too large for that.
pub fn views_per_batch(device: &Device) -> usize {
    Load::of(device).views
}

/// Values held while one image (or view) is encoded and decoded: every level's features, which the decoder
/// needs, and what its last and largest block works on.
pub(super) fn encoding_values(model: &ModelRecipe, [width, height]: [usize; 2]) -> usize {
    let levels: usize =
        model.channels.iter().enumerate().map(|(level, channels)| (channels >> (2 * level)) + 1).sum();
    let (finest, next) = (model.channels[0], model.channels.get(1).copied().unwrap_or(0));
    // The coarser level enlarged, both side by side, and four of the block's own layers.
    let block = next + (next + finest) + 4 * finest;
    width * height * (model.input_channels + levels + block + model.head_width)
}

/// How many outputs of each of some images (or views) are generated at once.
pub(crate) fn outputs_per_batch(
    device: &Device,
    model: &ModelRecipe,
    images: usize,
    size: [usize; 2],
) -> usize {
    outputs_within(Load::of(device).values, model, images, size)
}

pub(super) fn outputs_within(at_once: usize, model: &ModelRecipe, images: usize, size: [usize; 2]) -> usize {
    let held = match model.code_entry {
        // Two of the head's layers.
        CodeEntry::Head => 2 * size[0] * size[1] * model.head_width.max(model.channels[0]),
        CodeEntry::Bottleneck => encoding_values(model, size),
    };
    (at_once / (images * held)).max(1)
}

/// Views that are encoded together: all of some images, or some of one image.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) images: Range<usize>,
    pub(super) views: Range<usize>,
}

impl Part {
    /// How many views there are of all images together.
    pub(super) fn len(&self) -> usize {
        self.images.len() * self.views.len()
    }
}

/// All views of all images, so many at once.
pub(super) fn parts(images: usize, views: usize, at_once: usize) -> Vec<Part> {
    let ranges = |all: usize, step: usize| (0..all).step_by(step).map(move |at| at..(at + step).min(all));
    match at_once / views {
        0 => (0..images)
            .flat_map(|image| {
                ranges(views, at_once.max(1)).map(move |views| Part { images: image..image + 1, views })
            })
            .collect(),
        whole => ranges(images, whole).map(|images| Part { images, views: 0..views }).collect(),
    }
}

/// Codes that are generated together, at most so many. Powers of two: batches keep different numbers of codes, but
/// ask for buffers of few sizes, which the device has from the batch before.
pub(super) fn code_chunks(mut kept: &[usize], most: usize) -> Vec<&[usize]> {
    let mut chunks = Vec::new();
    while !kept.is_empty() {
        let (chunk, rest) = kept.split_at(1 << most.min(kept.len()).ilog2());
        chunks.push(chunk);
        kept = rest;
    }
    chunks
}
