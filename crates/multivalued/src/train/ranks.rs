//! Several ranks under test, as threads of this process: they compute what one computes with the whole batch.

use super::{EpochLog, LossTerms, Trainer};
use crate::collective::{BATCH_STATISTICS, Collective, GRADIENTS, Ranks};
use crate::fixture::{cases, tiny_recipe};
use crate::recipe::{Recipe, Space};
use crate::{Error, Result};
use multivalued_engine::{Device, Exposed};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

const DATA: &str = "the data's hash";
const STEPS: u64 = 12;

/// Where threads meet and add up.
#[derive(Default)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What has been brought to the present sum, by rank.
    brought: Vec<(usize, Vec<f32>)>,
    sum: Arc<Vec<f32>>,
    /// Sums made so far.
    sums: u64,
    /// Somebody has left.
    lost: bool,
}

/// One of the threads. What is named in `unreduced` it keeps for itself.
struct Member {
    rank: usize,
    size: usize,
    meeting: Arc<Meeting>,
    unreduced: &'static str,
}

impl Collective for Member {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&mut self, what: &str, values: Exposed<'_>) -> std::result::Result<(), String> {
        let Exposed::Host(values) = values else { panic!("tensors of the processor") };
        if what == self.unreduced {
            return Ok(());
        }
        let mut state = self.meeting.state.lock().unwrap();
        let number = state.sums;
        state.brought.push((self.rank, values.to_vec()));
        if state.brought.len() == self.size {
            let mut brought = std::mem::take(&mut state.brought);
            brought.sort_by_key(|(rank, _)| *rank);
            let sum = |i: usize| brought.iter().map(|(_, values)| values[i]).sum();
            state.sum = Arc::new((0..values.len()).map(sum).collect());
            state.sums += 1;
            self.meeting.changed.notify_all();
        }
        while state.sums == number {
            if state.lost {
                return Err("another rank has ended".into());
            }
            state = self.meeting.changed.wait(state).unwrap();
        }
        values.copy_from_slice(&state.sum);
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.meeting.state.lock().unwrap().lost = true;
        self.meeting.changed.notify_all();
    }
}

/// Runs every rank on a thread of its own, with engine threads of its own; gives what each gave.
fn on_ranks<T: Send>(size: usize, unreduced: &'static str, work: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let (meeting, work) = (Arc::new(Meeting::default()), &work);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let member = Member { rank, size, meeting: meeting.clone(), unreduced };
                scope.spawn(move || {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
                    pool.install(|| work(Ranks::of(member)))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn start(recipe: &Recipe) -> Trainer {
    Trainer::new(recipe, cases(24, [16, 16], 1, 1), cases(3, [16, 16], 1, 1), &Device::cpu()).unwrap()
}

/// What a training told, and all that it would save.
struct Trained {
    terms: Vec<LossTerms>,
    epochs: Vec<EpochLog>,
    state: Vec<Vec<u8>>,
}

fn trained(mut trainer: Trainer, until: u64) -> Result<Trained> {
    let (mut terms, mut epochs) = (Vec::new(), Vec::new());
    while trainer.steps() < until {
        let log = trainer.step()?;
        assert!(log.moved);
        terms.push(log.terms);
        if log.ends_epoch {
            epochs.push(EpochLog { seconds: 0.0, ..trainer.end_epoch()? });
        }
    }
    let (files, mut training) = trainer.whole_state(DATA);
    training.forget_time();
    let files = files.into_iter().map(|(_, bytes)| bytes);
    Ok(Trained { terms, epochs, state: files.chain([serde_json::to_vec(&training).unwrap()]).collect() })
}

fn among(recipe: &Recipe, ranks: &Ranks) -> Trainer {
    let mut trainer = start(recipe);
    trainer.join(ranks).unwrap();
    trainer
}

/// The largest relative difference of two trainings' losses.
fn difference(a: &[LossTerms], b: &[LossTerms]) -> f32 {
    let values = |terms: &LossTerms| {
        let stored = serde_json::to_value(terms).unwrap();
        let numbers: Vec<f32> =
            stored.as_object().unwrap().values().map(|v| v.as_f64().unwrap() as f32).collect();
        numbers
    };
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(b).flat_map(|(a, b)| values(a).into_iter().zip(values(b)));
    pairs.map(|(a, b)| (a - b).abs() / a.abs().max(0.01)).fold(0.0, f32::max)
}

/// A recipe for the whole batch of six, with everything that is drawn, counted or averaged over it.
fn recipe(space: Space, changes: &[&str]) -> Recipe {
    let own = [
        "train.batch=6",
        "train.annotations=2",
        "train.validate_every=1",
        "augment.flip_horizontal=0.5",
        "augment.noise=0.1",
        "loss.overlap=0.5",
        "loss.energy=0.5",
    ];
    tiny_recipe(space, &[&own, changes].concat())
}

#[test]
fn ranks_compute_what_one_computes_with_the_whole_batch() {
    let every_annotation = ["train.annotations=0"];
    let fixed = ["loss.average_decay=1.0", "loss.energy=0.0"];
    let recipes = [
        ("by outputs", STEPS, recipe(Space::Output, &["assignment.anneal_until=0.3"])),
        ("by embeddings", STEPS, recipe(Space::Embedding, &[])),
        ("by embeddings of all annotations", STEPS, recipe(Space::Embedding, &every_annotation)),
        // Where codes stand still, roundings of 1e-6 grow a thousandfold in the next six steps.
        ("fixed codes", 6, recipe(Space::Embedding, &fixed)),
        ("Probabilistic U-Net", STEPS, recipe(Space::Output, &["method.kind=\"probabilistic-unet\""])),
        ("U-Net", STEPS, recipe(Space::Output, &["method.kind=\"unet\""])),
    ];
    for &(what, steps, ref recipe) in &recipes {
        let alone = trained(start(recipe), steps).unwrap();
        // 4 ranks have parts of 1 and 2 images.
        for size in [2, 3, 4] {
            let all = on_ranks(size, "", |ranks| trained(among(recipe, &ranks), steps).unwrap());
            for (rank, other) in all.iter().enumerate() {
                assert!(other.state == all[0].state, "{what}: rank {rank} of {size} differs from rank 0");
                assert_eq!((&other.terms, &other.epochs), (&all[0].terms, &all[0].epochs), "{what}");
            }
            let by_step: Vec<f32> =
                alone.terms.iter().zip(&all[0].terms).map(|(a, b)| difference(&[*a], &[*b])).collect();
            assert!(by_step.iter().all(|found| *found < 1e-4), "{what}: {size} ranks differ by {by_step:?}");
            for (one, several) in alone.epochs.iter().zip(&all[0].epochs) {
                let (a, b) = (one.validation.unwrap(), several.validation.unwrap());
                assert!((a.ged_exact - b.ged_exact).abs() < 0.02 * a.ged_exact, "{what}: {a:?}, {b:?}");
                let counts = |log: &EpochLog| log.codes.map(|codes| (codes.used_codes, codes.active_codes));
                assert_eq!(counts(one), counts(several), "{what}");
            }
        }
    }
}

#[test]
fn statistics_that_stay_with_their_rank_are_noticed() {
    let recipe = recipe(Space::Embedding, &[]);
    let alone = trained(start(&recipe), STEPS).unwrap();
    let unreduced =
        on_ranks(2, BATCH_STATISTICS, |ranks| trained(among(&recipe, &ranks), STEPS).unwrap().terms);
    let found = difference(&alone.terms, &unreduced[0]);
    assert!(found > 1e-3, "batch statistics of half a batch make a difference of {found} only");
    for ended in on_ranks(2, GRADIENTS, |ranks| trained(among(&recipe, &ranks), STEPS).err()) {
        let said = ended.map(|error| error.to_string()).unwrap_or_default();
        assert!(said.starts_with("the weights: rank 1 of 2 differs from rank 0"), "{said}");
    }
}

#[test]
fn a_rank_that_ends_leaves_a_state_that_any_number_of_ranks_goes_on_from() {
    let recipe = recipe(Space::Output, &[]);
    let straight = trained(start(&recipe), STEPS).unwrap();
    let place = tempfile::tempdir().unwrap();
    let last = place.path().join("last");
    let until = |ranks: Ranks| {
        let mut trainer = among(&recipe, &ranks);
        let steps = if ranks.rank() == 1 { 5 } else { STEPS };
        for _ in 0..steps {
            match trainer.step() {
                Ok(log) if log.ends_epoch => _ = trainer.end_epoch().unwrap(),
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(trainer.steps(), 5);
                    if ranks.leads() {
                        trainer.save(&last, DATA).unwrap();
                    }
                    return Some(error);
                }
            }
        }
        None
    };
    let ended = on_ranks(3, "", until);
    assert!(ended[1].is_none(), "it left by itself");
    for (rank, error) in [(0, &ended[0]), (2, &ended[2])] {
        let said = error.as_ref().map(Error::to_string).unwrap_or_default();
        let expected = format!(
            "rank {rank} of 3 could not add up the gradients with the others: another rank has ended"
        );
        assert_eq!(said, expected);
    }
    let resumed = |folder: &Path| {
        let (train, validation) = (cases(24, [16, 16], 1, 1), cases(3, [16, 16], 1, 1));
        Trainer::resume(folder, train, validation, DATA, &Device::cpu()).unwrap()
    };
    let rest = &straight.terms[5..];
    let alone = trained(resumed(&last), STEPS).unwrap();
    assert!(difference(rest, &alone.terms) < 1e-4);
    for size in [1, 2, 3] {
        let all = on_ranks(size, "", |ranks| {
            // Only rank 0 has the checkpoint.
            let mut trainer = if ranks.leads() { resumed(&last) } else { start(&recipe) };
            trainer.join(&ranks).unwrap();
            trained(trainer, STEPS).unwrap()
        });
        assert!(all.iter().all(|other| other.state == all[0].state), "{size} ranks");
        let found = difference(rest, &all[0].terms);
        assert!(found < 1e-4, "{size} ranks differ by {found}");
    }
}

#[test]
fn what_one_rank_wants_all_know_after_the_step() {
    let minutes = ["train.steps=0", "train.minutes=0.01", "train.warmup_steps=0"];
    let recipe = recipe(Space::Output, &minutes);
    let told = on_ranks(2, "", |ranks| {
        let mut trainer = among(&recipe, &ranks);
        trainer.ask_to_stop(ranks.rank() == 1);
        let first = trainer.step().unwrap();
        trainer.ask_to_stop(false);
        let mut progress = vec![first.progress];
        let mut stops = vec![first.stop];
        while !trainer.is_finished() {
            let log = trainer.step().unwrap();
            progress.push(log.progress);
            stops.push(log.stop);
        }
        (stops, progress)
    });
    assert_eq!(told[0], told[1], "one clock decides for all");
    assert!(told[0].0[0] && told[0].0[1..].iter().all(|stop| !stop), "{:?}", told[0].0);
}

#[test]
fn bytes_arrive_as_they_were_sent_and_a_batch_has_an_image_for_every_rank() {
    let sent: Vec<Vec<u8>> = (0..5)
        .map(|length| (0..length).map(|i| 255 - 40 * i).collect())
        .chain([(0..=255).collect()])
        .collect();
    let arrived = on_ranks(3, "", |ranks| {
        let own = |bytes: &Vec<u8>| if ranks.leads() { bytes.clone() } else { vec![7; 9] };
        sent.iter().map(|bytes| ranks.broadcast("bytes", own(bytes)).unwrap()).collect::<Vec<_>>()
    });
    assert!(arrived.iter().all(|arrived| *arrived == sent));
    let refused = on_ranks(7, "", |ranks| {
        start(&recipe(Space::Output, &[])).join(&ranks).err().map(|error| error.to_string())
    });
    let said = refused[0].as_deref().unwrap_or_default();
    assert!(said.contains("a batch of 6 images is too small for 7 ranks"), "{said}");
}
