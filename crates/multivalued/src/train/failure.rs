//! A device that fails under test: whatever the moment, the error is returned, and the training is what it was
//! before. The device is a processor with too little memory, from too little for anything to nearly enough.

use super::{StepLog, Trainer};
use crate::fixture::{cases, tiny_recipe};
use crate::network::Network;
use crate::predict::predict_cases;
use crate::recipe::{Recipe, Space};
use crate::{Error, Predictor, Result};
use multivalued_engine::{Cpu, Device, DeviceError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const DATA: &str = "the data's hash";

fn start(recipe: &Recipe, device: &Device) -> Result<Trainer> {
    Trainer::new(recipe, cases(16, [16, 16], 1, 1), cases(3, [16, 16], 1, 1), device)
}

fn processor(device: &Device) -> &Cpu {
    match device {
        Device::Cpu(cpu) => cpu,
        other => panic!("a processor is meant, not {other:?}"),
    }
}

/// Tries `work` with `step` bytes more memory each time until there is enough; what fails must fail with an
/// error that is returned, and `check` what it leaves. Gives the result, and how often it failed.
fn with_growing_memory<S, T>(
    device: &Device,
    step: usize,
    state: &mut S,
    work: impl Fn(&mut S) -> Result<T>,
    check: impl Fn(&mut S, &str),
) -> (T, usize) {
    let cpu = processor(device);
    let held = cpu.live_bytes();
    for failures in 0.. {
        cpu.limit_memory(held + failures * step);
        let tried = catch_unwind(AssertUnwindSafe(|| work(state)));
        cpu.limit_memory(usize::MAX);
        match tried.unwrap_or_else(|_| panic!("with {failures} times {step} bytes: it unwinds")) {
            Ok(done) => return (done, failures),
            Err(Error::Device(DeviceError::OutOfMachineMemory { .. })) => {}
            Err(other) => panic!("with {failures} times {step} bytes: {other}"),
        }
        check(state, &format!("with {failures} times {step} bytes"));
    }
    unreachable!("memory grows without end")
}

/// All tensors and numbers that later steps depend on, to the bit.
fn state(trainer: &mut Trainer) -> Vec<Vec<u8>> {
    let bytes = |network: &Network| network.parameters().to_safetensors(Default::default());
    let trained = bytes(&trainer.network);
    let averaged = trainer.with_averaged_weights(bytes);
    let moments = trainer.adam.to_safetensors(trainer.network.parameters());
    let numbers = (&trainer.sums, &trainer.census, &trainer.assigned, trainer.step, trainer.best_ged);
    vec![trained, averaged, moments, serde_json::to_vec(&numbers).unwrap()]
}

#[test]
fn a_training_without_memory_for_a_step_or_an_epoch_is_as_it_was() {
    let changes = [
        "train.validate_every=1",
        "assignment.anneal_until=0.3",
        "assignment.min_usage=0.05",
        "train.steps=8",
    ];
    for (space, kind) in [
        (Space::Output, "method.kind=multivalued"),
        (Space::Embedding, "method.kind=multivalued"),
        (Space::Output, "method.kind=probabilistic-unet"),
        (Space::Output, "method.kind=unet"),
    ] {
        let mut changes: Vec<&str> = changes.into_iter().chain([kind]).collect();
        if kind.ends_with("unet") {
            changes.push("train.annotations=1");
        }
        let recipe = tiny_recipe(space, &changes);
        let (device, calm) = (Device::cpu(), Device::cpu());
        let (mut trainer, mut straight) = (start(&recipe, &device).unwrap(), start(&recipe, &calm).unwrap());
        let mut failed = [0, 0];
        while !straight.is_finished() {
            let before = state(&mut trainer);
            let unchanged = |trainer: &mut Trainer, what: &str| {
                assert!(state(trainer) == before, "{space:?} {kind} {what}: another state");
            };
            let (log, failures): (StepLog, usize) =
                with_growing_memory(&device, 16 << 10, &mut trainer, Trainer::step, unchanged);
            failed[0] += failures;
            assert_eq!(log.terms, straight.step().unwrap().terms, "{space:?} {kind}");
            if log.ends_epoch {
                let before = state(&mut trainer);
                let unchanged = |trainer: &mut Trainer, what: &str| {
                    assert!(state(trainer) == before, "{space:?} {kind} {what}: another state");
                };
                let (ended, failures) =
                    with_growing_memory(&device, 16 << 10, &mut trainer, Trainer::end_epoch, unchanged);
                failed[1] += failures;
                let expected = straight.end_epoch().unwrap();
                assert_eq!((ended.validation, ended.loss), (expected.validation, expected.loss));
            }
        }
        assert!(state(&mut trainer) == state(&mut straight), "{space:?} {kind}: failures left no trace");
        assert!(failed.iter().all(|&failures| failures > 10), "{space:?} {kind}: {failed:?}");
    }
}

#[test]
fn beginning_resuming_and_predicting_return_the_error() {
    let recipe = tiny_recipe(Space::Output, &[]);
    let device = Device::cpu();
    let nothing = |(): &mut (), _: &str| ();
    let (mut trainer, failures) =
        with_growing_memory(&device, 2048, &mut (), |()| start(&recipe, &device), nothing);
    assert!(failures > 2, "{failures}");
    trainer.step().unwrap();
    let place = tempfile::tempdir().unwrap();
    let (last, best) = (place.path().join("last"), place.path().join("best"));
    // Without any memory for tensors: writing needs none.
    processor(&device).limit_memory(0);
    trainer.save(&last, DATA).unwrap();
    trainer.save_for_prediction(&best).unwrap();
    let (train, validation) = (cases(16, [16, 16], 1, 1), cases(3, [16, 16], 1, 1));
    let resume = |(): &mut ()| Trainer::resume(&last, train.clone(), validation.clone(), DATA, &device);
    let (mut resumed, failures) = with_growing_memory(&device, 2048, &mut (), resume, nothing);
    assert!(failures > 2, "{failures}");
    assert!(state(&mut resumed) == state(&mut trainer));
    let open = |folder: &Path| {
        with_growing_memory(&device, 2048, &mut (), |()| Predictor::open(folder, &device), nothing)
    };
    let (predictor, failures) = open(&best);
    assert!(failures > 2, "{failures}");
    let images: Vec<_> = validation.iter().map(|case| &case.image).collect();
    let predict = |(): &mut ()| predictor.predict(&images);
    let (predictions, failures) = with_growing_memory(&device, 2048, &mut (), predict, nothing);
    assert!(failures > 20, "{failures}");
    let own = trainer.with_averaged_weights(|network| predict_cases(network, &recipe, &validation));
    assert_eq!(predictions, own.unwrap());
}

#[test]
fn weights_are_swapped_back_however_the_work_on_the_averaged_ones_ends() {
    let mut trainer = start(&tiny_recipe(Space::Output, &[]), &Device::cpu()).unwrap();
    for _ in 0..3 {
        trainer.step().unwrap();
    }
    let before = state(&mut trainer);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        trainer.with_averaged_weights(|_| std::panic::resume_unwind(Box::new("whatever")))
    }));
    assert!(unwound.is_err());
    assert!(state(&mut trainer) == before);
}
