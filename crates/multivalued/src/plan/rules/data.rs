//! What the data say of their own table: values, sizes, neighbouring slices and parts.

use super::Plan;
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::normalise::Normalisation;

/// Spacings that differ by more than this factor show structures in different sizes.
const DIFFERENT_SPACING: f32 = 1.2;
/// The longest side that the network sees; larger images are brought to it.
const LARGEST_SIDE: f32 = 256.0;
/// The shortest side that the network sees; smaller images are brought to it.
const SMALLEST_SIDE: f32 = 32.0;
/// Structures of so many pixels across can still be outlined.
const FINEST_STRUCTURE: f32 = 6.0;
/// A share of cases from which on the others do not matter.
const MOSTLY: f32 = 0.9;
/// Slices further apart than this, in columns, show something else.
const FURTHEST_NEIGHBOUR: f32 = 8.0;

/// Values, sizes and parts.
pub(in super::super) fn data(plan: &mut Plan, found: &Fingerprint) {
    let recipe = &mut plan.recipe;
    recipe.model.input_channels = found.channels.len();
    recipe.model.classes = found.classes;
    let (normalise, why) = normalisation(found);
    recipe.data.normalise = normalise;
    let few = found.groups < 40;
    if few {
        recipe.data.validation_share = 0.2;
    }
    let spacing = common_spacing(found);
    let resize = if spacing.is_none() { working_size(found) } else { None };
    recipe.data.resize = resize.as_ref().map(|(size, _)| *size);
    if let Some((spacing, side)) = spacing {
        recipe.data.spacing = spacing;
        recipe.augment.crop = Some([side; 2]);
    }
    plan.because("model.input_channels", "as many as the images have");
    neighbours(plan, found);
    plan.because("model.classes", "as many foreground classes as the masks have");
    plan.because("data.normalise", why);
    plan.because(
        "data.validation_share",
        format!(
            "of {} groups, where the data set states no split{}",
            found.groups,
            if few { ": more than usual, since so few cannot tell good from bad" } else { "" }
        ),
    );
    plan.because(
        "data.test_share",
        "kept apart for the score at the end, where the data set states no split",
    );
    if let Some((_, why)) = resize {
        plan.because("data.resize", why);
    }
    if let (Some((spacing, side)), Some(found)) = (spacing, found.spacing) {
        plan.because(
            "data.spacing",
            format!(
                "columns are {} to {} apart: at {spacing} a structure has one size in all images",
                found.min, found.max
            ),
        );
        plan.because(
            "augment.crop",
            format!("a batch needs one size, and {side} pixels hold all images; smaller ones are extended"),
        );
    }
}

/// Neighbouring slices as channels, where the data are volumes.
fn neighbours(plan: &mut Plan, found: &Fingerprint) {
    let Some(step) = found.slice_step.filter(|_| found.volume_share >= MOSTLY && found.channels.len() == 1)
    else {
        return;
    };
    if step.median > FURTHEST_NEIGHBOUR {
        return;
    }
    plan.recipe.data.context = 1;
    plan.recipe.model.input_channels = plan.recipe.data.slices_per_input();
    plan.because(
        "data.context",
        format!(
            "the cases are slices of volumes, {:.1} columns apart: the ones before and after show where a structure \
             begins and ends",
            step.median
        ),
    );
    plan.because("model.input_channels", "the slice, the one before and the one after");
}

fn normalisation(found: &Fingerprint) -> (Normalisation, String) {
    let channel = &found.channels[0];
    let hounsfield =
        found.channels.len() == 1 && channel.dark.median < -500.0 && channel.bright.median > 100.0;
    if hounsfield {
        let (low, high) = (channel.dark.low.max(-1024.0).round(), channel.bright.high.min(2000.0).round());
        return (
            Normalisation::Range { low, high },
            "values look like Hounsfield units, which mean the same in every image".into(),
        );
    }
    let tail = found.channels.iter().map(|channel| channel.tail.median).fold(0.0, f32::max);
    if tail > 0.5 {
        return (
            Normalisation::ZScore,
            format!(
                "single pixels are {tail:.1} times as bright as the range of the others, so that the largest value \
                 says little"
            ),
        );
    }
    (
        Normalisation::MinMax,
        "each image's own range: no unit is known, and no pixel lies far beyond the others".into(),
    )
}

/// The spacing that all images are brought to, and the side that holds all of them; none where they have about the same.
fn common_spacing(found: &Fingerprint) -> Option<(f32, usize)> {
    let (spacing, extent) = (found.spacing?, found.extent?);
    if spacing.low <= 0.0 || spacing.high / spacing.low < DIFFERENT_SPACING {
        return None;
    }
    let longest = found.width.median.max(found.height.median);
    let finest = FINEST_STRUCTURE / found.diameter.low.max(1.0);
    let scale = if longest > LARGEST_SIDE { (LARGEST_SIDE / longest).max(finest).min(1.0) } else { 1.0 };
    // Three digits that a person can read.
    let digits = 10f32.powf(2.0 - (spacing.median / scale).log10().floor());
    let wanted = (spacing.median / scale * digits).round() / digits;
    let side = ((extent.max / wanted / 8.0).ceil() * 8.0).clamp(32.0, 1024.0);
    Some((wanted, side as usize))
}

/// The size that all images are brought to, and why; none where they stay as they are.
fn working_size(found: &Fingerprint) -> Option<([usize; 2], String)> {
    let (width, height) = (found.width, found.height);
    let longest = width.median.max(height.median);
    let shortest = width.median.min(height.median);
    let mut scale = 1.0f32;
    if longest > LARGEST_SIDE {
        // Not so small that structures vanish.
        let finest = FINEST_STRUCTURE / found.diameter.low.max(1.0);
        scale = (LARGEST_SIDE / longest).max(finest).min(1.0);
    } else if shortest < SMALLEST_SIDE {
        scale = SMALLEST_SIDE / shortest.max(1.0);
    }
    let side = |median: f32| (((median * scale / 8.0).round() * 8.0) as usize).clamp(16, 1024);
    let size = [side(width.median), side(height.median)];
    if !found.one_size() {
        let why = format!(
            "images have {} to {} columns and {} to {} rows; a batch needs one size, and {} x {} is the middle one{}",
            width.min,
            width.max,
            height.min,
            height.max,
            size[0],
            size[1],
            if scale < 1.0 { ", made smaller to be computed" } else { "" }
        );
        return Some((size, why));
    }
    (scale != 1.0).then(|| {
        let why = format!(
            "images of {} x {} pixels are {}; the smallest structures are {:.0} pixels across then",
            width.median,
            height.median,
            if scale < 1.0 {
                "larger than a network needs to see them"
            } else {
                "too small for the network's levels"
            },
            scale * found.diameter.low
        );
        (size, why)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::fingerprint;
    use super::*;
    use multivalued_data::fingerprint::Spread;

    #[test]
    fn volumes_and_spacings_that_differ_are_planned_for() {
        let spread =
            |low: f32, high: f32| Some(Spread { min: low, low, median: (low + high) / 2.0, high, max: high });
        let mut found = fingerprint("raters", 64, 200);
        let plain = Plan::new(&found, 200, 20, true);
        assert_eq!((plain.recipe.data.context, plain.recipe.data.spacing), (0, 0.0));
        (found.volume_share, found.slice_step) = (1.0, spread(2.0, 3.0));
        (found.spacing, found.extent) = (spread(0.5, 0.9), spread(32.0, 57.6));
        let plan = Plan::new(&found, 200, 20, true);
        plan.recipe.validate().unwrap();
        let (data, model) = (&plan.recipe.data, &plan.recipe.model);
        assert_eq!((data.context, model.input_channels, data.spacing, data.resize), (1, 3, 0.7, None));
        // All of the largest image, in steps of eight.
        assert_eq!(plan.recipe.augment.crop, Some([88, 88]));
        for key in ["data.context", "data.spacing", "augment.crop"] {
            assert!(plan.choices().iter().any(|choice| choice.key == key), "{key} has its reason");
        }
        // Slices far apart, or nearly one spacing: nothing of the kind.
        (found.slice_step, found.spacing) = (spread(9.0, 10.0), spread(0.7, 0.75));
        let plan = Plan::new(&found, 200, 20, true).recipe;
        assert_eq!((plan.data.context, plan.data.spacing, plan.augment.crop), (0, 0.0, None));
    }
}
