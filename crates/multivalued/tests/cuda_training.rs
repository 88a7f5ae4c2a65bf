//! Training on a GPU follows training on the CPU, whichever way batches get there: kept on the GPU, as
//! they are, turned or changed, or prepared ahead by the processor; in both assignment spaces. Skips where there is
//! no GPU.

use multivalued::predict::predict_cases;
use multivalued::train::Trainer;
use multivalued::{Recipe, Splits};
use multivalued_data::Case;
use multivalued_data::augment::Augmentation;
use multivalued_data::dataset::Holding;
use multivalued_engine::{Device, Precision};

const STEPS: usize = 5;

fn recipe(changes: &[&str]) -> Recipe {
    let mut recipe = Recipe::named("shapes-tiny").unwrap();
    let own = [
        "data.size=32",
        "data.train_count=24",
        "data.validation_count=4",
        "data.test_count=0",
        "train.batch=8",
        "train.steps=20",
        "train.warmup_steps=2",
        "loss.energy_from=0.1",
        "assignment.anneal_until=0.1",
    ];
    own.iter().chain(changes).for_each(|change| recipe.set(change).unwrap());
    recipe.validate().unwrap();
    recipe
}

/// The losses of some steps, and how many outputs the first validation case has then.
fn trained(recipe: &Recipe, change: fn(&mut Vec<Case>), device: &Device) -> (Vec<f32>, usize) {
    let Splits { train, validation, .. } = Splits::load(&recipe.data, &Holding::Memory).unwrap();
    let (mut train, validation) = (train.to_vec().unwrap(), validation.to_vec().unwrap());
    change(&mut train);
    let mut trainer = Trainer::new(recipe, train, Vec::new(), device).unwrap();
    let losses = (0..STEPS).map(|_| trainer.step().unwrap().terms.total).collect();
    let predictions =
        trainer.with_averaged_weights(|model| predict_cases(model, recipe, &validation).unwrap());
    (losses, predictions[0].len())
}

fn follows_the_cpu(changes: &[&str]) {
    follows_the_cpu_with(changes, |_| ());
}

fn follows_the_cpu_with(changes: &[&str], change: fn(&mut Vec<Case>)) {
    let recipe = recipe(changes);
    let gpu = match Device::cuda(0, Precision::F32) {
        Ok(gpu) => gpu,
        Err(error) => return println!("skipped: {error}"),
    };
    let ((expected, _), (found, outputs)) =
        (trained(&recipe, change, &Device::cpu()), trained(&recipe, change, &gpu));
    println!("{changes:?}: {expected:?} on the CPU, {found:?} on the GPU");
    for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
        // Rounding grows from step to step: Adam divides small gradients by themselves.
        let allowed = if step == 0 { 1e-4 } else { 1e-2 };
        assert!((found - expected).abs() <= allowed * expected.abs(), "step {step}: {found}, not {expected}");
    }
    assert!(outputs > 0, "a prediction has outputs");
    assert_eq!(trained(&recipe, change, &gpu).0, found, "the same again to the bit");
}

#[test]
fn with_cases_kept_on_the_gpu() {
    follows_the_cpu(&[]);
}

#[test]
fn with_cases_flipped_and_turned_there() {
    follows_the_cpu(&[
        "augment.flip_horizontal=0.5",
        "augment.flip_vertical=0.5",
        "augment.quarter_turns=true",
    ]);
}

#[test]
fn with_cases_moved_and_changed_there() {
    follows_the_cpu(&[
        "augment.rotation=20",
        "augment.scale=0.2",
        "augment.gain=0.2",
        "augment.offset=0.1",
        "data.normalise={ range = { low = 0, high = 1 } }",
    ]);
}

#[test]
fn with_batches_prepared_ahead() {
    // Images of different sizes do not stay on a GPU.
    let enlarged = |cases: &mut Vec<Case>| {
        let crop = Augmentation { crop: Some([35, 34]), ..Augmentation::default() };
        cases[0] = crop.draw(0, 0).apply(&cases[0]);
    };
    follows_the_cpu_with(&["augment.crop=[32, 32]", "augment.gain=0.2", "augment.noise=0.01"], enlarged);
}

#[test]
fn with_embeddings() {
    follows_the_cpu(&["assignment.space=embedding", "assignment.distinct=false", "train.annotations=1"]);
}
