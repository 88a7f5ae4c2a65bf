//! Checkpoints under test: a resumed training is the same training, and a bad checkpoint is refused by
//! name.

use super::checkpoint::{exists, recipe_of};
use super::{EpochLog, LossTerms, Trainer};
use crate::fixture::{cases, tiny_recipe};
use crate::predict::predict_cases;
use crate::recipe::{Recipe, Space};
use crate::{Error, Predictor};
use multivalued_engine::Device;
use std::fs;
use std::path::Path;

const DATA: &str = "the data's hash";
/// Epochs of 4 steps.
const CASES: usize = 16;

fn start(recipe: &Recipe) -> Trainer {
    Trainer::new(recipe, cases(CASES, [16, 16], 1, 1), cases(3, [16, 16], 1, 1), &Device::cpu()).unwrap()
}

fn resume(folder: &Path) -> crate::Result<Trainer> {
    let (train, validation) = (cases(CASES, [16, 16], 1, 1), cases(3, [16, 16], 1, 1));
    Trainer::resume(folder, train, validation, DATA, &Device::cpu())
}

/// Everything that later steps depend on, to the bit.
fn whole_state(trainer: &mut Trainer) -> Vec<Vec<u8>> {
    let parameters = |trainer: &Trainer| trainer.network.parameters().to_safetensors(Default::default());
    let averages =
        trainer.with_averaged_weights(|network| network.parameters().to_safetensors(Default::default()));
    let moments = trainer.adam.to_safetensors(trainer.network.parameters());
    let rest = serde_json::to_vec(&(
        &trainer.sums,
        &trainer.census,
        &trainer.assigned,
        trainer.step,
        trainer.best_ged,
    ))
    .unwrap();
    vec![parameters(trainer), averages, moments, rest]
}

/// Trains up to some step; logs are kept without their times.
fn train(trainer: &mut Trainer, until: u64) -> (Vec<LossTerms>, Vec<EpochLog>) {
    let (mut terms, mut epochs) = (Vec::new(), Vec::new());
    while trainer.steps() < until {
        let log = trainer.step().unwrap();
        assert!(log.moved);
        terms.push(log.terms);
        if log.ends_epoch {
            epochs.push(EpochLog { seconds: 0.0, ..trainer.end_epoch().unwrap() });
        }
    }
    (terms, epochs)
}

const AUGMENTED: [&str; 4] =
    ["augment.flip_horizontal=0.5", "augment.rotation=20", "augment.noise=0.1", "train.validate_every=1"];

/// Trains once straight and once in two parts from each of two checkpoints in mid-epoch; gives the former.
fn resumes_to_the_bit(recipe: &Recipe, what: &str) -> Trainer {
    let mut straight = start(recipe);
    let whole = train(&mut straight, 20);
    for at in [6, 14] {
        let place = tempfile::tempdir().unwrap();
        let last = place.path().join("last");
        let mut first = start(recipe);
        let (mut terms, mut epochs) = train(&mut first, at);
        first.save(&last, DATA).unwrap();
        let mut second = resume(&last).unwrap();
        assert_eq!(whole_state(&mut second), whole_state(&mut first), "{what}: as it was saved at {at}");
        drop(first);
        let rest = train(&mut second, 20);
        terms.extend(rest.0);
        epochs.extend(rest.1);
        assert_eq!((&terms, &epochs), (&whole.0, &whole.1), "{what}: logs, resumed at {at}");
        assert!(whole_state(&mut second) == whole_state(&mut straight), "{what}: resumed at {at}");
        assert!(second.is_finished());
    }
    straight
}

#[test]
fn a_resumed_training_is_the_same_to_the_bit() {
    // Half way codes go into reserve; the checkpoints lie before and after.
    let finishing = ["assignment.anneal_until=0.45", "assignment.min_usage=0.05"];
    let changes: Vec<&str> = AUGMENTED.into_iter().chain(finishing).collect();
    for space in [Space::Output, Space::Embedding] {
        let straight = resumes_to_the_bit(&tiny_recipe(space, &changes), &format!("{space:?}"));
        let active = straight.network.model().unwrap().active_codes().len();
        assert!((2..8).contains(&active), "{space:?}: the test must see codes go into reserve, not {active}");
    }
}

#[test]
fn a_resumed_baseline_is_the_same_to_the_bit() {
    for kind in ["method.kind=probabilistic-unet", "method.kind=unet"] {
        let changes: Vec<&str> = AUGMENTED.into_iter().chain([kind, "train.annotations=1"]).collect();
        let recipe = tiny_recipe(Space::Output, &changes);
        let mut straight = resumes_to_the_bit(&recipe, kind);
        let place = tempfile::tempdir().unwrap();
        let best = place.path().join("best");
        straight.save_for_prediction(&best).unwrap();
        let images: Vec<_> = cases(3, [16, 16], 1, 1).into_iter().map(|case| case.image).collect();
        let images: Vec<_> = images.iter().collect();
        let opened = Predictor::open(&best, &Device::cpu()).unwrap().predict(&images).unwrap();
        let own = straight.with_averaged_weights(|network| {
            predict_cases(network, &recipe, &cases(3, [16, 16], 1, 1)).unwrap()
        });
        assert_eq!(opened, own, "{kind}");
    }
}

/// A checkpoint after two steps, in a folder that goes with the test.
fn saved() -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("last");
    let mut trainer = start(&tiny_recipe(Space::Output, &[]));
    train(&mut trainer, 2);
    trainer.save(&folder, DATA).unwrap();
    (place, folder)
}

/// The refusal of a checkpoint, which must name the file and the cause.
fn refused(result: crate::Result<Trainer>, file: &Path, cause: &str) {
    let error = result.err().expect("a bad checkpoint is refused");
    assert!(matches!(error, Error::Checkpoint { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&file.display().to_string()) && text.contains(cause), "{text}");
}

#[test]
fn torn_and_changed_files_are_refused_by_name() {
    let (_place, folder) = saved();
    let names = ["model.safetensors", "average.safetensors", "optimiser.safetensors"];
    for name in names {
        let path = folder.join(name);
        let whole = fs::read(&path).unwrap();
        for keep in [0, 7, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..keep]).unwrap();
            refused(resume(&folder), &path, "damaged");
        }
        for at in [0, 100, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            fs::write(&path, flipped).unwrap();
            refused(resume(&folder), &path, "damaged");
        }
        fs::remove_file(&path).unwrap();
        refused(resume(&folder), &path, "");
        fs::write(&path, whole).unwrap();
    }
    assert!(resume(&folder).is_ok(), "restored, it resumes");
}

#[test]
fn a_damaged_or_foreign_state_is_refused_by_name() {
    let (_place, folder) = saved();
    let path = folder.join("state.json");
    let whole = fs::read_to_string(&path).unwrap();
    let cases = [
        (whole[..whole.len() / 2].to_string(), "not a checkpoint's state"),
        (String::new(), "not a checkpoint's state"),
        ("{\"format\": \"something else\"}".into(), "not a checkpoint of this program"),
        ("[1, 2]".into(), "not a checkpoint of this program"),
        (whole.replace("\"version\": 1", "\"version\": 2"), "format version 2; this program reads version 1"),
        (whole.replace("\"version\": 1,", ""), "version is missing"),
        (whole.replace("\"step\": 2", "\"step\": \"two\""), "damaged state"),
        (whole.replace("\"code_count\": 8", "\"code_count\": 7"), ""),
    ];
    for (text, cause) in cases {
        assert_ne!(text, whole, "{cause}");
        fs::write(&path, text).unwrap();
        // Where only the recipe was changed, the tensors' file is at fault as much as the state.
        let at_fault = if cause.is_empty() { folder.clone() } else { path.clone() };
        refused(resume(&folder), &at_fault, cause);
    }
}

#[test]
fn other_data_and_weights_alone_do_not_resume() {
    let (place, folder) = saved();
    let (train_cases, validation) = (cases(CASES, [16, 16], 1, 1), Vec::new());
    let other = Trainer::resume(&folder, train_cases, validation, "another hash", &Device::cpu());
    refused(other, &folder, "other data");
    let fewer = Trainer::resume(&folder, cases(CASES - 1, [16, 16], 1, 1), Vec::new(), DATA, &Device::cpu());
    refused(fewer, &folder.join("state.json"), "does not fit");
    let weights = place.path().join("best");
    resume(&folder).unwrap().save_for_prediction(&weights).unwrap();
    refused(resume(&weights), &weights, "weights only");
    refused(resume(&place.path().join("nowhere")), &place.path().join("nowhere"), "no checkpoint here");
    assert!(exists(&weights) && !exists(&place.path().join("nowhere")));
    assert_eq!(recipe_of(&weights).unwrap(), tiny_recipe(Space::Output, &[]));

    let images: Vec<_> = cases(3, [16, 16], 1, 1).into_iter().map(|case| case.image).collect();
    let images: Vec<_> = images.iter().collect();
    let by = |folder: &Path| Predictor::open(folder, &Device::cpu()).unwrap().predict(&images).unwrap();
    assert_eq!(by(&weights), by(&folder), "both predict by the averaged weights");
}

#[test]
fn a_crash_while_saving_loses_nothing() {
    let (place, folder) = saved();
    let old = place.path().join("last.old");
    // Between the two renames: the old one moved aside, the new one complete but not yet in place.
    fs::rename(&folder, &old).unwrap();
    fs::create_dir(place.path().join("last.new")).unwrap();
    assert!(exists(&folder), "the old one is found");
    assert!(old.exists(), "whoever only reads moves nothing: the writer may be at work");
    let mut trainer = resume(&folder).unwrap();
    assert_eq!(trainer.steps(), 2);
    // After the second rename: the old one is still there and must not come back.
    train(&mut trainer, 3);
    trainer.save(&folder, DATA).unwrap();
    assert_eq!(resume(&folder).unwrap().steps(), 3);
    let mut left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["last"], "nothing is left beside the checkpoint");
}
