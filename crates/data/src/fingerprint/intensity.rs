//! Values and sharpness of each channel.

use super::Spread;
use crate::Image;
use serde::{Deserialize, Serialize};

/// How the values of one channel are distributed over the images of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Each image's smallest value.
    pub min: Spread,
    /// Each image's largest value.
    pub max: Spread,
    /// Each image's mean.
    pub mean: Spread,
    /// Each image's standard deviation.
    pub deviation: Spread,
    /// How far an image's largest value lies beyond its 99.5 % quantile, in units of the range between its 0.5 %
    /// and 99.5 % quantiles: large where single pixels are much brighter than all others.
    pub tail: Spread,
    /// Mean absolute difference of neighbouring pixels in units of the image's standard deviation: small for
    /// blurred or enlarged images, large for noise.
    pub sharpness: Spread,
    /// The 0.5 % quantile of each image.
    pub dark: Spread,
    /// The 99.5 % quantile of each image.
    pub bright: Spread,
}

/// The same numbers of one image's channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelOf {
    /// The smallest value.
    pub min: f32,
    /// The largest value.
    pub max: f32,
    /// The mean.
    pub mean: f32,
    /// The standard deviation.
    pub deviation: f32,
    /// See [`Channel::tail`].
    pub tail: f32,
    /// See [`Channel::sharpness`].
    pub sharpness: f32,
    /// The 0.5 % quantile.
    pub dark: f32,
    /// The 99.5 % quantile.
    pub bright: f32,
}

impl ChannelOf {
    /// Measures one channel of an image that has pixels.
    pub fn new(image: &Image, channel: usize) -> Self {
        let plane = image.plane(channel);
        let count = plane.len().max(1) as f64;
        let mean = plane.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let variance = plane.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count;
        let mut sorted = plane.to_vec();
        sorted.sort_by(f32::total_cmp);
        let at = |share: f64| match sorted.len() {
            0 => 0.0,
            length => sorted[(share * (length - 1) as f64).round() as usize],
        };
        let (min, max, dark, bright) = (at(0.0), at(1.0), at(0.005), at(0.995));
        let range = bright - dark;
        let deviation = variance.sqrt() as f32;
        let width = image.width();
        let steps = plane
            .chunks_exact(width.max(1))
            .flat_map(|row| row.windows(2))
            .map(|pair| (pair[1] - pair[0]).abs());
        let differences = (image.height() * width.saturating_sub(1)).max(1) as f32;
        let step = steps.sum::<f32>() / differences;
        let of = |value: f32, unit: f32| if unit > 0.0 { value / unit } else { 0.0 };
        Self {
            min,
            max,
            mean: mean as f32,
            deviation,
            tail: of(max - bright, range),
            sharpness: of(step, deviation),
            dark,
            bright,
        }
    }
}

/// Every channel that all images have; takes the channels of each image.
pub(super) fn channels(images: &[&[ChannelOf]]) -> Vec<Channel> {
    let count = images.iter().map(|channels| channels.len()).min().unwrap_or(0);
    (0..count)
        .map(|channel| {
            let all: Vec<&ChannelOf> = images.iter().map(|channels| &channels[channel]).collect();
            let spread = |of: fn(&ChannelOf) -> f32| Spread::of(all.iter().map(|one| of(one)).collect());
            Channel {
                min: spread(|c| c.min),
                max: spread(|c| c.max),
                mean: spread(|c| c.mean),
                deviation: spread(|c| c.deviation),
                tail: spread(|c| c.tail),
                sharpness: spread(|c| c.sharpness),
                dark: spread(|c| c.dark),
                bright: spread(|c| c.bright),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_sharpness_by_hand() {
        let stripes = Image::new(4, 2, 1, vec![0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0]);
        let found = ChannelOf::new(&stripes, 0);
        assert_eq!((found.min, found.max, found.mean, found.deviation), (0.0, 2.0, 1.0, 1.0));
        assert_eq!(found.sharpness, 2.0);
        let flat = ChannelOf::new(&Image::new(4, 2, 1, vec![3.0; 8]), 0);
        assert_eq!((flat.sharpness, flat.tail, flat.deviation), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_single_bright_pixel_makes_a_long_tail() {
        let mut pixels: Vec<f32> = (0..4096).map(|at| (at % 100) as f32).collect();
        let plain = ChannelOf::new(&Image::new(64, 64, 1, pixels.clone()), 0);
        pixels[77] = 5000.0;
        let spiked = ChannelOf::new(&Image::new(64, 64, 1, pixels), 0);
        assert!(plain.tail < 0.05 && spiked.tail > 10.0, "{plain:?} {spiked:?}");
    }
}
