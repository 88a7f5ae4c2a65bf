//! Whether an image is like the ones that a fingerprint was taken of.
//!
//! Each number of the image is held against the range of the training images, widened by a margin: what lies
//! beyond was not seen in training, and what a model says of it is not known to hold. Of new images of the same
//! kind fewer than one in fifty may be outside, as the tests count.

use super::{Channel, ChannelOf, Fingerprint, Spread};
use crate::Image;

/// Sizes, spacings and the like that differ by less than this factor are never told of.
const FACTOR: f32 = 1.5;
/// The same of grey values, as a share of the range that the training images usually have.
const LEVELS: f32 = 0.25;
/// How far beyond nineteen of twenty training images a number may lie, in units of the range that these have.
const MARGIN: f32 = 1.0;
/// The same of sharpness, in which images of one kind differ little but for what they show.
const SHARPNESS_MARGIN: f32 = 0.1;
/// The factor below which a difference in sharpness is never told of.
const SHARPNESS_FACTOR: f32 = 1.2;

/// A way in which an image is unlike the training images.
#[derive(Debug, Clone, PartialEq)]
pub struct Unlike {
    /// What differs; the same for all slices of a volume that differ so.
    pub aspect: String,
    /// How, in a sentence without its subject.
    pub reason: String,
}

impl Fingerprint {
    /// In what an image is unlike the images that were measured; nothing for an image like them.
    pub fn unlike(&self, image: &Image) -> Vec<Unlike> {
        let unlike = |aspect: &str, reason: String| Unlike { aspect: aspect.to_owned(), reason };
        let mut found = Vec::new();
        let (width, height) = (image.width() as f32, image.height() as f32);
        if !self.width.nearly_holds(width, MARGIN, FACTOR, self.cases)
            || !self.height.nearly_holds(height, MARGIN, FACTOR, self.cases)
        {
            let reason = format!("has {width}x{height} pixels; the training images have {}", self.sizes());
            found.push(unlike("size", reason));
        }
        if let (Some(spread), Some(geometry)) = (&self.spacing, &image.geometry)
            && !spread.nearly_holds(geometry.spacing[0], MARGIN, FACTOR, self.cases)
        {
            let reason = format!(
                "has pixels {} apart; the training images have {}",
                short(geometry.spacing[0]),
                spread.words()
            );
            found.push(unlike("spacing", reason));
        }
        if image.channels() != self.channels.len() {
            let reason = format!(
                "has {} channel(s); the training images have {}",
                image.channels(),
                self.channels.len()
            );
            found.push(unlike("channels", reason));
            return found;
        }
        let unit = self.unit_of(image);
        for (at, channel) in self.channels.iter().enumerate() {
            let of = ChannelOf::new(image, at).in_units_of(unit);
            let place =
                if self.channels.len() > 1 { format!(" in channel {}", at + 1) } else { String::new() };
            let different = channel.unlike(&of, self.cases).into_iter();
            found.extend(
                different.map(|(aspect, reason)| unlike(&(aspect.to_owned() + &place), reason + &place)),
            );
        }
        found
    }

    /// The size of most training images, in words.
    pub fn sizes(&self) -> String {
        match self.one_size() {
            true => format!("{}x{}", self.width.min, self.height.min),
            false => format!("{} columns and {} rows", self.width.words(), self.height.words()),
        }
    }

    /// What images should be like, in words.
    pub fn expectation(&self) -> String {
        let mut words = format!("images of {} pixels, {} channel(s)", self.sizes(), self.channels.len());
        if let Some(spacing) = &self.spacing {
            words += &format!(", pixels {} apart", spacing.words());
        }
        for (at, channel) in self.channels.iter().enumerate() {
            let place =
                if self.channels.len() > 1 { format!(" of channel {}", at + 1) } else { String::new() };
            words += &format!(
                ", values{place} from {} to {}",
                short(channel.dark.low),
                short(channel.bright.high)
            );
        }
        words
    }

    /// What an image's values must be divided by. Pictures are stored as shares of white (0 to 1) or as integers
    /// of 8 or 16 bits (0 to 255 or 65,535); the same picture is meant, and is read as it is stored.
    fn unit_of(&self, image: &Image) -> f32 {
        let shares = self.channels.iter().all(|channel| channel.min.min >= 0.0 && channel.max.max <= 1.0);
        let integers = image.pixels().iter().all(|value| *value >= 0.0 && value.fract() == 0.0);
        let most = image.pixels().iter().copied().fold(0.0, f32::max);
        match shares && integers && most > 1.0 {
            true if most <= 255.0 => 255.0,
            true if most <= 65_535.0 => 65_535.0,
            _ => 1.0,
        }
    }
}

impl Channel {
    /// Aspects and reasons. What follows from a difference that was told is not told again.
    fn unlike(&self, of: &ChannelOf, cases: usize) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let contrast = self.bright.median - self.dark.median;
        let level = |spread: &Spread, value: f32| spread.holds(value, MARGIN, LEVELS * contrast, cases);
        if !level(&self.dark, of.dark) || !level(&self.bright, of.bright) {
            let reason = format!(
                "has values from {} to {}; the training images have {} to {}",
                short(of.dark),
                short(of.bright),
                short(self.dark.low),
                short(self.bright.high)
            );
            found.push(("values", reason));
        } else if !level(&self.mean, of.mean) {
            let reason = format!(
                "has the mean value {}; the training images have {}",
                short(of.mean),
                self.mean.words()
            );
            found.push(("mean value", reason));
        } else if !self.deviation.nearly_holds(of.deviation, MARGIN, FACTOR, cases) {
            let reason = format!(
                "has values of standard deviation {}; the training images have {}",
                short(of.deviation),
                self.deviation.words()
            );
            found.push(("contrast", reason));
        }
        if !self.sharpness.nearly_holds(of.sharpness, SHARPNESS_MARGIN, SHARPNESS_FACTOR, cases) {
            let word =
                if of.sharpness < self.sharpness.median { "more blurred" } else { "sharper or noisier" };
            let reason = format!(
                "is {word} than the training images: neighbouring pixels differ by {} standard deviations, not by {}",
                short(of.sharpness),
                self.sharpness.words()
            );
            found.push(("sharpness", reason));
        }
        found
    }
}

impl ChannelOf {
    /// The same image with its values divided.
    fn in_units_of(self, unit: f32) -> Self {
        let Self { min, max, mean, deviation, tail, sharpness, dark, bright } = self;
        let [min, max, mean, deviation] = [min, max, mean, deviation].map(|value| value / unit);
        Self { min, max, mean, deviation, tail, sharpness, dark: dark / unit, bright: bright / unit }
    }
}

impl Spread {
    /// Whether a number is one of the spread's or lies near: beyond nineteen of twenty cases by no more than
    /// `margin` times what these are apart, or by no more than `least`. Few cases do not know their own range, so that their margin is
    /// wider.
    fn holds(&self, value: f32, margin: f32, least: f32, cases: usize) -> bool {
        let margin = (self.high - self.low) * (margin + 10.0 / cases.max(1) as f32);
        let margin = margin.max(least);
        value >= self.min.min(self.low - margin) && value <= self.max.max(self.high + margin)
    }

    /// The same of numbers of which factors count, not differences.
    fn nearly_holds(&self, value: f32, margin: f32, factor: f32, cases: usize) -> bool {
        let log = |value: f32| value.max(f32::MIN_POSITIVE).ln();
        let Self { min, low, median, high, max } = *self;
        let logs = Self { min: log(min), low: log(low), median: log(median), high: log(high), max: log(max) };
        logs.holds(log(value), margin, factor.ln(), cases)
    }

    /// What most cases have, in words.
    fn words(&self) -> String {
        match short(self.low) == short(self.high) {
            true => short(self.low),
            false => format!("{} to {}", short(self.low), short(self.high)),
        }
    }
}

/// Three digits, no more.
fn short(value: f32) -> String {
    let size = value.abs();
    match size {
        _ if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::synthetic::{Task, TaskName};

    const TASKS: [TaskName; 2] = [TaskName::Raters, TaskName::Shapes];

    fn images(task: TaskName, split: &str, count: usize) -> Vec<Image> {
        let cases = Task::new(task, 64, 5).unwrap().generate(split, count);
        cases.into_iter().map(|case| case.image).collect()
    }

    fn fingerprint(task: TaskName, count: usize) -> Fingerprint {
        Fingerprint::of(&Task::new(task, 64, 5).unwrap().generate("train", count).into()).unwrap()
    }

    fn aspects(found: &[Unlike]) -> Vec<&str> {
        found.iter().map(|unlike| unlike.aspect.as_str()).collect()
    }

    fn map(image: &Image, value: impl Fn(f32) -> f32) -> Image {
        let pixels = image.pixels().iter().map(|&pixel| value(pixel)).collect();
        Image::new(image.width(), image.height(), 1, pixels)
    }

    fn from_fn(width: usize, height: usize, value: impl Fn(usize, usize) -> f32) -> Image {
        let pixels = (0..width * height).map(|at| value(at % width, at / width)).collect();
        Image::new(width, height, 1, pixels)
    }

    /// The mean over a square of pixels around each.
    fn blurred(image: &Image, radius: usize) -> Image {
        let plane = image.plane(0);
        from_fn(image.width(), image.height(), |x, y| {
            let columns = x.saturating_sub(radius)..(x + radius + 1).min(image.width());
            let rows = y.saturating_sub(radius)..(y + radius + 1).min(image.height());
            let count = (columns.len() * rows.len()) as f32;
            rows.flat_map(|y| columns.clone().map(move |x| plane[y * image.width() + x])).sum::<f32>() / count
        })
    }

    #[test]
    fn training_images_are_like_themselves_and_new_ones_nearly_always() {
        for task in TASKS {
            for count in [20, 300] {
                let fingerprint = fingerprint(task, count);
                for image in images(task, "train", count) {
                    assert_eq!(fingerprint.unlike(&image), [], "{task}, {count} training images");
                }
                let new = images(task, "test", 500);
                let told = new.iter().filter(|image| !fingerprint.unlike(image).is_empty()).count();
                assert!(told < 10, "{told} of 500 new images of {task} after {count} training images");
            }
        }
    }

    #[test]
    fn images_of_another_kind_are_told_of() {
        for task in TASKS {
            let fingerprint = fingerprint(task, 300);
            let (mut soft, mut inverted) = (0, 0);
            for image in images(task, "test", 50) {
                let twice = from_fn(128, 128, |x, y| image.plane(0)[y / 2 * 64 + x / 2]);
                assert!(aspects(&fingerprint.unlike(&twice)).contains(&"size"), "{task}");
                let bright = fingerprint.unlike(&map(&image, |value| 10.0 * value));
                assert!(aspects(&bright).contains(&"values"), "{task}: {bright:?}");
                soft += usize::from(!fingerprint.unlike(&blurred(&image, 6)).is_empty());
                let of = ChannelOf::new(&image, 0);
                let negative = map(&image, |value| of.min + of.max - value);
                inverted += usize::from(!fingerprint.unlike(&negative).is_empty());
            }
            // What an image shows decides how sharp it may be: not every one gives itself away, and of flat shapes,
            // whose edges are all there is, fewer than half do.
            let least = if task == TaskName::Raters { 40 } else { 10 };
            assert!(soft >= least && inverted >= 40, "{task}: {soft} blurred, {inverted} inverted of 50");
        }
    }

    #[test]
    fn colours_spacing_and_size_are_named_with_both_values() {
        let mut cases = Task::new(TaskName::Raters, 64, 5).unwrap().generate("train", 20);
        let spaced = |spacing: f32| Some(Geometry { spacing: [spacing, spacing, 1.0], affine: None });
        cases.iter_mut().for_each(|case| case.image.geometry = spaced(0.75));
        let fingerprint = Fingerprint::of(&cases[..].into()).unwrap();
        let mut image = cases[0].image.clone();
        image.geometry = spaced(2.0);
        let found = fingerprint.unlike(&image);
        assert_eq!(found[0].reason, "has pixels 2 apart; the training images have 0.750");
        let colours = Image::new(256, 64, 3, vec![0.0; 256 * 64 * 3]);
        let found = fingerprint.unlike(&colours);
        assert_eq!(aspects(&found), ["size", "channels"]);
        assert_eq!(found[0].reason, "has 256x64 pixels; the training images have 64x64");
        assert_eq!(found[1].reason, "has 3 channel(s); the training images have 1");
    }

    #[test]
    fn a_picture_is_the_same_as_shares_of_white_and_as_integers() {
        let fingerprint = fingerprint(TaskName::Shapes, 50);
        let image = &images(TaskName::Shapes, "test", 1)[0];
        for white in [255.0, 65_535.0] {
            assert_eq!(fingerprint.unlike(&map(image, |value| (value * white).round())), []);
        }
        let half = fingerprint.unlike(&map(image, |value| value * 255.0 + 0.5));
        assert_eq!(aspects(&half), ["values"], "no integers, no picture of 8 bits");
    }
}
