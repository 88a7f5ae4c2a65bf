//! Training: steps, epochs, their diagnostics, and the averaged weights that prediction uses.

mod ahead;
mod assign;
mod census;
pub mod checkpoint;
mod codebook_step;
#[cfg(test)]
mod divergence;
mod epoch;
mod exchange;
#[cfg(test)]
mod failure;
#[cfg(test)]
mod invariants;
mod log;
#[cfg(test)]
mod ranks;
mod reading;
#[cfg(test)]
mod resume;
pub(crate) mod schedule;
mod step;
mod terms;

pub(crate) use assign::of_all_ranks;
pub(crate) use exchange::Part;
pub use log::{CodeUse, EpochLog, Validation};
pub(crate) use reading::{StepResult, update_and_read};
pub(crate) use step::{StepContext, forward, step};
pub use terms::LossTerms;
pub(crate) use terms::{Losses, Term};

use crate::batch::TrainingSet;
use crate::collective::Ranks;
use crate::error::caught;
use crate::network::Network;
use crate::predict::Predictor;
use crate::recipe::Recipe;
use crate::{Error, Result};
use ahead::Batches;
use census::Census;
use exchange::RankSignal;
use log::EpochSums;
use multivalued_data::CaseList;
use multivalued_engine::{Adam, AdamOptions, Device, Group, Listing, Parameters, Tensor};
use std::time::Instant;

/// Steps in a row whose loss may fail to be finite before training stops.
const MOST_FAILURES: u64 = 3;

/// Most training cases that are scored beside the validation cases: enough to see how much was memorised, and no more
/// than the validation costs.
const WATCHED: usize = 64;

/// A training in progress.
pub struct Trainer {
    recipe: Recipe,
    network: Network,
    adam: Adam,
    /// Averaged values of the trained parameters, by parameter; none where the recipe wants none.
    average: Vec<Option<Tensor>>,
    batches: Batches,
    validation: CaseList,
    /// Training cases that are scored beside the validation cases.
    watched: CaseList,
    step: u64,
    /// Training time before the last resumption, and when this part began.
    seconds_before: f64,
    started: Instant,
    failures_in_a_row: u64,
    sums: EpochSums,
    census: Census,
    /// The leading code of each training case when it was last seen.
    assigned: Vec<Option<usize>>,
    best_ged: Option<f64>,
    /// Validations since the best one.
    validations_since_best: u64,
    /// Who train it together.
    ranks: Ranks,
    /// Whether this rank wants all to stop.
    wants_to_stop: bool,
    /// Rank 0's clock as all ranks know it.
    agreed_seconds: f64,
}

/// What a step tells the one who watches.
#[derive(Debug, Clone, Copy)]
pub struct StepLog {
    /// Steps taken, this one included.
    pub step: u64,
    /// How far the training is, 0 to 1.
    pub progress: f32,
    /// The loss by terms.
    pub terms: LossTerms,
    /// Whether the loss and its gradient were finite.
    pub moved: bool,
    /// Whether the step was the last of its epoch.
    pub ends_epoch: bool,
    /// Whether one of several ranks has asked all to stop.
    pub stop: bool,
}

impl Trainer {
    /// A training at its start. The recipe is validated first.
    pub fn new(
        recipe: &Recipe,
        train: impl Into<CaseList>,
        validation: impl Into<CaseList>,
        device: &Device,
    ) -> Result<Self> {
        let (train, validation) = (train.into(), validation.into());
        caught(|| Self::begin(recipe, train, validation, device))
    }

    fn begin(recipe: &Recipe, train: CaseList, validation: CaseList, device: &Device) -> Result<Self> {
        recipe.validate()?;
        // A GPU's memory is its own, and is asked for when it is needed.
        if device.free_bytes().is_none() && !train.is_empty() {
            let [width, height, _] = train.size(0);
            recipe.check_training(train.len(), recipe.augment.crop.unwrap_or([width, height]))?;
        }
        validation.map(|_, case| match case.image.fault() {
            Some(fault) => Err(Error::Data(multivalued_data::Error::mismatch(&case.id, fault))),
            None => Ok(()),
        })?;
        let count = WATCHED.min(train.len()).min(validation.len());
        let watched = train.select((0..count).map(|at| at * train.len() / count));
        let set = TrainingSet::new(train, recipe, device)?;
        let (epochs, warmup) = (recipe.train.epochs, recipe.train.warmup_steps);
        if epochs > 0 && epochs * set.steps_per_epoch() < warmup {
            return Err(Error::recipe(
                "train.epochs",
                format!(
                    "{epochs} epochs of {} steps end before the learning rate has risen (train.warmup_steps = \
                     {warmup}); train longer, or leave the recipe away to have the length planned",
                    set.steps_per_epoch()
                ),
            ));
        }
        let network = Network::new(recipe, device)?;
        let options = AdamOptions {
            beta2: recipe.train.beta2,
            clip_norm: (recipe.train.clip_norm > 0.0).then_some(recipe.train.clip_norm),
            groups: vec![Group { rate: 1.0, weight_decay: recipe.train.weight_decay }],
            ..AdamOptions::default()
        };
        let adam = Adam::new(network.parameters(), options);
        let codes = network.model().map_or(0, |model| model.recipe.code_count);
        let averaged = recipe.train.weight_average > 0.0;
        let average = network
            .parameters()
            .iter()
            .map(|parameter| (averaged && parameter.trainable()).then(|| parameter.tensor().clone()))
            .collect();
        Ok(Self {
            recipe: recipe.clone(),
            sums: EpochSums::new(codes),
            census: Census::new(codes),
            assigned: vec![None; set.len()],
            network,
            adam,
            average,
            batches: Batches::new(set),
            validation,
            watched,
            step: 0,
            seconds_before: 0.0,
            started: Instant::now(),
            failures_in_a_row: 0,
            best_ged: None,
            validations_since_best: 0,
            ranks: Ranks::alone(),
            wants_to_stop: false,
            agreed_seconds: 0.0,
        })
    }

    /// Goes on as one of several ranks that were begun alike, before the first step: all take the state of rank 0,
    /// and then each its part of every batch.
    pub fn join(&mut self, ranks: &Ranks) -> Result<()> {
        self.batches.share_among(ranks)?;
        self.ranks = ranks.clone();
        caught(|| self.share_state())?;
        self.agreed_seconds = self.seconds();
        // The same number everywhere, as a step's signal would have it.
        self.agreed_seconds = f64::from(ranks.gather("the clock", self.agreed_seconds as f32)?[0]);
        Ok(())
    }

    /// Asks all ranks to stop after the next step ([`StepLog::stop`]).
    pub fn ask_to_stop(&mut self, stop: bool) {
        self.wants_to_stop = stop;
    }

    /// Takes the weights of another model, tensor by tensor where name and shape fit, before the first step. Gives
    /// the names of the tensors that start anew. The codebook is taken whole or not at all.
    pub fn start_from(&mut self, model: &Predictor) -> Result<Vec<String>> {
        caught(|| {
            let (source, target) = (model.network().parameters(), self.network.parameters_mut());
            let fitting = |name: &str, target: &Parameters| {
                let found = source.get(source.find(name)?).tensor();
                let wanted = target.get(target.find(name)?).tensor();
                (found.shape() == wanted.shape()).then(|| found.clone())
            };
            let of_codebook = |name: &str| name.starts_with("codebook.");
            let names: Vec<String> = target.iter().map(|parameter| parameter.name().to_owned()).collect();
            let whole =
                names.iter().filter(|name| of_codebook(name)).all(|name| fitting(name, target).is_some());
            let mut anew = Vec::new();
            for (id, name) in target.ids().zip(names) {
                match fitting(&name, target).filter(|_| whole || !of_codebook(&name)) {
                    Some(found) => {
                        let values = found.to_vec();
                        target.modify(id, |target| target.copy_from_slice(&values));
                    }
                    None => anew.push(name),
                }
            }
            for (average, parameter) in self.average.iter_mut().zip(self.network.parameters().iter()) {
                if let Some(average) = average {
                    *average = parameter.tensor().clone();
                }
            }
            Ok(anew)
        })
    }

    /// The recipe it follows.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The networks as they are now, without averaging.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Steps in one pass over the training cases.
    pub fn steps_per_epoch(&self) -> u64 {
        self.batches.set().steps_per_epoch()
    }

    /// Steps in all; none where minutes are the budget.
    pub fn total_steps(&self) -> Option<u64> {
        let train = &self.recipe.train;
        match (train.steps, train.epochs) {
            (0, 0) => None,
            (0, epochs) => Some(epochs * self.steps_per_epoch()),
            (steps, _) => Some(steps),
        }
    }

    /// Seconds of training so far, time before resumptions included.
    pub fn seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    /// How far the training is, 0 to 1.
    pub fn progress(&self) -> f32 {
        match self.total_steps() {
            Some(total) => (self.step as f64 / total as f64).min(1.0) as f32,
            None => {
                // Clocks differ, and all ranks must see the training at the same point.
                let seconds = if self.ranks.are_alone() { self.seconds() } else { self.agreed_seconds };
                (seconds / (60.0 * self.recipe.train.minutes)).min(1.0) as f32
            }
        }
    }

    /// Whether the budget is spent, or validations have not improved for as many as the recipe's patience.
    pub fn is_finished(&self) -> bool {
        self.progress() >= 1.0 || self.is_out_of_patience()
    }

    /// Whether the training ends early because validations no longer improve.
    pub fn is_out_of_patience(&self) -> bool {
        let patience = self.recipe.train.patience;
        patience > 0 && self.validations_since_best >= patience
    }

    /// The operations of the next step as it would be at the training's end, when every term of the loss counts, with
    /// what each took, and the step's memory. Nothing moves.
    pub fn operations(&mut self) -> Result<Listing> {
        caught(|| {
            let Self { network, recipe, step, batches, .. } = self;
            let batch = batches.take(*step, network.device())?;
            // Twice: the first time fills caches and buffers.
            let alone = Ranks::alone();
            let context = StepContext::new(recipe, &batch, *step, 1.0, &alone);
            let mut listing = Listing::default();
            for _ in 0..2 {
                listing = rayon::scope(|_| network.operations(context));
            }
            Ok(listing)
        })
    }

    /// One step. A loss that is not finite changes nothing but is counted; three in a row are an error. Where
    /// there is too little memory for it, the training is as it was before.
    pub fn step(&mut self) -> Result<StepLog> {
        caught(|| self.take_step())
    }

    fn take_step(&mut self) -> Result<StepLog> {
        let progress = self.progress();
        let signal = RankSignal { stop: self.wants_to_stop, seconds: self.seconds() as f32 };
        let Self { network, adam, recipe, step, batches, ranks, .. } = self;
        let batch = batches.take(*step, network.device())?;
        let context = StepContext { signal, ..StepContext::new(recipe, &batch, *step, progress, ranks) };
        // Inside the pool, so that each of a step's many small parallel loops starts without waking it.
        let result = rayon::scope(|_| network.step(adam, context));
        self.step += 1;
        self.agreed_seconds = f64::from(result.signal.seconds);
        if result.moved {
            self.failures_in_a_row = 0;
            self.average_weights();
        } else {
            self.failures_in_a_row += 1;
            if self.failures_in_a_row >= MOST_FAILURES {
                return Err(Error::Diverged { step: self.step, in_a_row: self.failures_in_a_row });
            }
        }
        let mut changed = 0;
        for (&case, &code) in batch.cases.iter().zip(&result.leading_codes).filter(|_| result.moved) {
            let before = self.assigned[case].replace(code);
            changed += usize::from(before.is_some_and(|before| before != code));
        }
        self.sums.add(&result, changed, batch.cases.len());
        if result.moved && progress >= self.recipe.assignment.anneal_until {
            self.count_codes(&result);
        }
        let ends_epoch = self.step.is_multiple_of(self.steps_per_epoch()) || self.is_finished();
        let StepResult { terms, moved, signal, .. } = result;
        Ok(StepLog { step: self.step, progress, terms, moved, ends_epoch, stop: signal.stop })
    }

    /// `average ← decay · average + (1 − decay) · weights`, with a decay that grows from 0, so that the
    /// average does not remember the random start.
    fn average_weights(&mut self) {
        let steps = self.adam.steps() as f32;
        let decay = self.recipe.train.weight_average.min(steps / (steps + 10.0));
        let pairs = self.average.iter_mut().zip(self.network.parameters().iter());
        let pairs =
            pairs.filter_map(|(average, parameter)| average.as_mut().map(|a| (a, parameter.tensor())));
        // What has not moved yet is its own average; to separate the two would take memory.
        let moved = pairs.filter(|(average, weights)| !average.shares_values(weights));
        Tensor::lerp_all(moved.collect(), 1.0 - decay);
    }

    /// Runs `work` on the networks with their averaged weights. However it ends, the trained weights are back
    /// afterwards.
    pub fn with_averaged_weights<T>(&mut self, work: impl FnOnce(&Network) -> T) -> T {
        struct Averaged<'a>(&'a mut Trainer);
        impl Drop for Averaged<'_> {
            fn drop(&mut self) {
                self.0.swap_weights();
            }
        }
        self.swap_weights();
        let averaged = Averaged(self);
        work(&averaged.0.network)
    }

    fn swap_weights(&mut self) {
        let parameters = self.network.parameters_mut();
        for (id, average) in parameters.ids().zip(&mut self.average) {
            if let Some(average) = average {
                let weights = parameters.get(id).tensor().clone();
                parameters.set(id, std::mem::replace(average, weights));
            }
        }
    }

    /// Counts what codes do once the assignment is hard; from time to time those that are not needed go
    /// into reserve.
    fn count_codes(&mut self, result: &StepResult) {
        let Some(model) = self.network.model_mut() else { return };
        self.census.add(&result.targets);
        if self.census.is_due(self.assigned.len()) {
            let assignment = &self.recipe.assignment;
            // Of one annotation at a time nobody sees which codes serve the same image.
            let distinct = assignment.distinct && self.recipe.train.annotations != 1;
            let staying = self.census.staying(&model.active_codes(), assignment.min_usage, distinct);
            model.set_active(&staying);
            self.census = Census::new(self.census.codes());
        }
    }
}
