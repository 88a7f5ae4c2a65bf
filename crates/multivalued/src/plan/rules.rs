//! The rules by which a fingerprint becomes a recipe, one function for each table of it.

mod data;

pub(super) use data::data;

use super::Plan;
use crate::recipe::Recipe;
use multivalued_data::fingerprint::{Disagreement, Fingerprint, Orientation};

/// Training images from which on augmentation beyond flips and turns was no gain.
const ENOUGH_IMAGES: f32 = 6000.0;
/// Training images up to which augmentation is as strong as it gets.
const FEW_IMAGES: f32 = 100.0;
/// From this strength on a direction decides what is right; below it is chance.
const RULE_DIRECTED: f32 = 0.6;
/// From this strength on images show which way is up, and flipped ones are unlike any real one.
const SCENE_DIRECTED: f32 = 1.5;
/// A share of empty masks from which on there is something to learn about when they occur.
const RARELY: f32 = 0.01;
/// What differs between different answers is thicker than this; between readers' outlines it is thinner.
const THICK: f32 = 0.25;

/// Flips and turns that the data allow, and as much of the rest as they need.
pub(super) fn augmentation(plan: &mut Plan, found: &Fingerprint) {
    let Orientation { rule, scene, turn } = found.orientation;
    let images = plan.training_cases.max(1) as f32;
    let strength = ((ENOUGH_IMAGES / images).ln() / (ENOUGH_IMAGES / FEW_IMAGES).ln()).clamp(0.0, 1.0);
    let strength = if strength < 0.2 { 0.0 } else { strength };
    let directed = rule[0].max(rule[1]) > RULE_DIRECTED;
    let free = |axis: usize| !directed && scene[axis] < SCENE_DIRECTED;
    let shape = plan.recipe.data.resize.or(plan.recipe.augment.crop);
    let square = found.width == found.height || shape.is_some_and(|[w, h]| w == h);
    let augment = &mut plan.recipe.augment;
    augment.flip_horizontal = if free(0) { 0.5 } else { 0.0 };
    augment.flip_vertical = if free(1) && free(0) { 0.5 } else { 0.0 };
    augment.quarter_turns = free(0) && free(1) && turn < SCENE_DIRECTED && square;
    let rounded = |value: f32| (value * 100.0).round() / 100.0;
    augment.rotation = (strength * if directed { 5.0 } else { 20.0 }).round();
    augment.scale = rounded(strength * 0.35);
    augment.distortion = rounded(strength * if directed { 0.05 } else { 0.15 });
    augment.gain = rounded(strength * 0.3);
    augment.offset = rounded(strength * 0.1);
    let views = match (augment.quarter_turns, augment.flip_vertical > 0.0, augment.flip_horizontal > 0.0) {
        (true, ..) => 8,
        (false, true, true) => 4,
        (false, false, false) => 1,
        _ => 2,
    };
    plan.recipe.predict.views = views;
    let flips = match (directed, free(0), free(1)) {
        (true, ..) => format!(
            "annotations of an image differ in one direction (strength {:.1} along x, {:.1} along y): a flipped image \
             would have other answers",
            rule[0], rule[1]
        ),
        (_, true, true) => "neither images nor annotations have a direction".into(),
        (_, true, false) => format!("images show which way is up (strength {:.1})", scene[1]),
        _ => format!("images show what is left and what is right (strength {:.1})", scene[0]),
    };
    for key in ["augment.flip_horizontal", "augment.flip_vertical", "augment.quarter_turns"] {
        plan.because(key, flips.clone());
    }
    let more = format!(
        "{images} training images: {}",
        if strength > 0.0 { "the fewer there are, the more each is changed" } else { "enough as they are" }
    );
    for key in ["augment.rotation", "augment.scale", "augment.distortion", "augment.gain", "augment.offset"] {
        plan.because(key, more.clone());
    }
    plan.because("predict.views", "as many as flips and turns make, averaged");
}

/// Levels, channels and batch.
pub(super) fn network(plan: &mut Plan, found: &Fingerprint, gpu: bool) {
    let [width, height] = plan
        .recipe
        .data
        .resize
        .or(plan.recipe.augment.crop)
        .map_or([found.width.median, found.height.median], |size| size.map(|side| side as f32));
    let side = width.min(height);
    let diameter = found.diameter.high * side / found.width.median.min(found.height.median).max(1.0);
    // The deepest level sees a structure as a few cells, and is itself a few cells wide.
    let mut halvings = 3;
    while halvings < 5 && ((1 << halvings) as f32) < diameter / 4.0 && side / ((2 << halvings) as f32) >= 5.0
    {
        halvings += 1;
    }
    while halvings > 1 && side / ((1 << halvings) as f32) < 4.0 {
        halvings -= 1;
    }
    let base = if gpu { 16 } else { 8 };
    let model = &mut plan.recipe.model;
    model.channels = channels(base, halvings + 1);
    model.norm_group = norm_group(base);
    model.head_width = head_width(base);
    plan.recipe.train.batch = if gpu { 16 } else { 8 };
    plan.because(
        "model.channels",
        format!(
            "{} levels: structures are up to {diameter:.0} pixels across in images of {width} x {height}; {base} channels \
             are what {} trains in minutes",
            halvings + 1,
            if gpu { "a GPU" } else { "a processor" }
        ),
    );
    plan.because("model.norm_group", "groups of 4 channels in narrow networks, else of 8");
    plan.because("model.head_width", "twice the first level's channels");
    plan.because(
        "train.batch",
        if gpu { "the best measured on a GPU" } else { "smaller on a processor, where steps are dear" },
    );
}

/// Channels that double from level to level up to eight times the first.
fn channels(base: usize, levels: usize) -> Vec<usize> {
    (0..levels).map(|level| base << level.min(3)).collect()
}

pub(super) fn norm_group(base: usize) -> usize {
    if base < 16 { 4 } else { 8 }
}

pub(super) fn head_width(base: usize) -> usize {
    2 * base
}

/// Networks and batches to try for a time budget, from what is wanted to what is cheap.
pub(super) fn smaller(recipe: &Recipe) -> Vec<(Vec<usize>, usize)> {
    let levels = recipe.model.channels.len();
    [(16, 16), (16, 8), (8, 8), (8, 4)].map(|(base, batch)| (channels(base, levels), batch)).into()
}

/// Whether readers disagree on whether there is anything, so that a head of its own should say how probable nothing is.
pub fn suits_empty_head(found: &Fingerprint) -> bool {
    (RARELY..=1.0 - RARELY).contains(&found.empty_share)
}

/// How annotations find their codes, and what is minimised.
pub(super) fn codes(plan: &mut Plan, found: &Fingerprint, gpu: bool) {
    let Disagreement { thickness, repeated_share, .. } = found.disagreement;
    let different = found.annotations.median >= 2.0
        && found.disputed_share > 0.5
        && found.empty_share < 0.05
        && repeated_share < 0.05
        && thickness.median > THICK;
    let recipe = &mut plan.recipe;
    recipe.model.empty_head = suits_empty_head(found);
    let why = format!("{:.0} % of the annotations are empty masks", 100.0 * found.empty_share);
    let readers = |text: &str| {
        format!(
            "{text} (thickness of what differs {:.2}, images with a repeated annotation {:.0} %, empty masks {:.0} %)",
            thickness.median,
            100.0 * repeated_share,
            100.0 * found.empty_share
        )
    };
    if recipe.model.empty_head {
        plan.because("model.empty_head", format!("{why}: a head of its own says how probable nothing is"));
    }
    let recipe = &mut plan.recipe;
    recipe.assignment.distinct = false;
    recipe.assignment.prior = 0.0;
    plan.because("assignment.prior", "0: nothing says how many outputs there are");
    let recipe = &mut plan.recipe;
    if different {
        let codes = if gpu { 32 } else { 16 };
        recipe.assignment.active_codes = codes;
        recipe.model.code_count = codes;
        recipe.model.code_dim = codes;
        recipe.loss.energy_from = 0.5;
        plan.because(
            "assignment.distinct",
            readers(
                "annotations of an image are different answers, whole parts differ; but what an image does not show \
                 may differ within an answer, too, so that an answer may have several codes",
            ),
        );
        plan.because("assignment.active_codes", "several for each answer");
        plan.because("loss.energy_from", "different answers are told apart first");
    } else {
        recipe.loss.overlap = 0.0;
        recipe.loss.energy_from = 0.15;
        recipe.loss.cross_entropy = 0.1;
        recipe.loss.probability_gradient = 0.1;
        let why = "annotations are readers' draws, and similar ones may share a code";
        plan.because("assignment.distinct", readers(why));
        plan.because(
            "assignment.active_codes",
            "more did not help with any number of readers that was tried",
        );
        plan.because(
            "loss.overlap",
            "0: readers' outlines cannot be told from the image, and the energy score leads",
        );
        plan.because("loss.energy_from", "the energy score is the GED itself and leads from early on");
        let why = "a tenth: how readers chose is mostly chance, and would be memorised";
        plan.because("loss.cross_entropy", why);
        plan.because("loss.probability_gradient", why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::synthetic::Task;

    pub fn fingerprint(task: &str, size: usize, count: usize) -> Fingerprint {
        Fingerprint::of(&Task::new(task.parse().unwrap(), size, 3).unwrap().generate("train", count).into())
            .unwrap()
    }

    #[test]
    fn different_answers_are_told_apart_before_the_energy_score_leads() {
        for (task, different) in
            [("raters", false), ("shapes", true), ("shapes-varying", true), ("shapes-unbalanced", true)]
        {
            let found = fingerprint(task, 64, 120);
            let plan = Plan::new(&found, 100, 20, false);
            plan.recipe.validate().unwrap();
            assert_eq!(plan.recipe.loss.overlap > 0.0, different, "{task}: {:?}", found.disagreement);
        }
    }

    #[test]
    fn a_rule_with_a_direction_forbids_flips() {
        let shapes = Plan::new(&fingerprint("shapes", 64, 200), 200, 20, true).recipe;
        assert!(
            shapes.augment.flip_horizontal == 0.0
                && !shapes.augment.quarter_turns
                && shapes.predict.views == 1
        );
        let raters = Plan::new(&fingerprint("raters", 64, 200), 200, 20, true).recipe;
        assert!(
            raters.augment.flip_vertical > 0.0 && raters.augment.quarter_turns && raters.predict.views == 8
        );
    }
}
