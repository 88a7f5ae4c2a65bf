//! A training from its recipe to its last checkpoint: logged, watched, interruptible.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use multivalued::distil::taught;
use multivalued::plan::suits_empty_head;
use multivalued::predict::predict_cases;
use multivalued::recipe::{PredictRecipe, TrainRecipe};
use multivalued::train::{EpochLog, LossTerms, Trainer, checkpoint};
use multivalued::{Recipe, Splits};
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::{Case, CaseList, Prediction};
use multivalued_engine::Device;

use super::cases::{Cases, TEST, VALIDATION, tell_notes, tell_skipped};
use super::counting::Counting;
use super::difference::changes;
use super::evaluation::Evaluation;
use super::folds::cross_validated;
use super::known::{Known, known};
use super::model::RunModel;
use super::observer::Observer;
use super::progress::{Pace, clock};
use super::reader::Reader;
use super::team::Team;
use super::{Lock, RunFolder};
use crate::command::train::RecipeText;
use crate::device;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::log::{Log, Numbers, Record, flattened};
use crate::picture::{Exhibit, sheet};
use crate::tensorboard::Events;
use crate::terminal::complain;

/// Steps between two lines of the log.
const LOG_EVERY: u64 = 50;
/// Validation cases whose hypotheses TensorBoard shows.
const SHOWN: usize = 4;

/// What a training needs besides its recipe.
#[derive(Debug, Clone, Copy)]
pub struct Training<'a> {
    /// Where it happens.
    pub run: &'a RunFolder,
    /// What it follows; resolved and valid.
    pub recipe: &'a RecipeText,
    /// What computes.
    pub device: &'a Device,
    /// The least time between two checkpoints.
    pub save_every: Duration,
    /// Who reads its data.
    pub reader: &'a Reader,
    /// Who train it together.
    pub team: &'a Team,
}

impl Training<'_> {
    /// Trains, evaluates on the test part and publishes; none where there are no cases to evaluate on. A recipe of
    /// folds is a training for each of them.
    pub fn scored(&self, observer: &mut dyn Observer) -> Outcome<Option<Evaluation>> {
        let data = &self.recipe.recipe.data;
        if data.folds > 0 && data.fold == 0 {
            return cross_validated(self, observer).map(Some);
        }
        let lock = self.run.lock()?;
        self.run(&lock, observer)?;
        let mut cases = Cases::of_run(self.run, self.reader)?;
        let Some(part) = [TEST, VALIDATION].into_iter().find(|part| cases.has(part)) else { return Ok(None) };
        if part == VALIDATION {
            complain("the data have no test part: the scores are of the cases that the model was chosen by");
        }
        let (_, training) = cases.take(Some("train"), "train")?;
        let evaluation = Evaluation::of(&RunModel::of_run(self.run, self.device)?, cases, Some(part))?;
        let evaluation = evaluation.judged(self.run, std::slice::from_ref(self.run), Some(&training))?;
        evaluation.publish(self.run)?;
        Ok(Some(evaluation))
    }

    /// Trains to the end, from the last checkpoint where there is one.
    fn run(&self, lock: &Lock, observer: &mut dyn Observer) -> Outcome {
        let recipe = &self.recipe.recipe;
        let last = self.run.last();
        self.team.announce(self.run, self.recipe)?;
        let (mut trainer, Begun { hash, fingerprint, shown }) =
            self.begun(|recipe, train, validation, hash| {
                // A folder without a complete checkpoint is an error, not a reason to begin anew.
                let trainer = match checkpoint::exists(&last) || last.exists() {
                    true => Trainer::resume(&last, train, validation, hash, self.device)?,
                    false => {
                        let mut trainer = Trainer::new(recipe, train, validation, self.device)?;
                        if !recipe.train.from.is_empty() {
                            self.start_from(&mut trainer)?;
                            // What it started from is not needed again, whenever the process ends.
                            trainer.save(&last, hash)?;
                        }
                        trainer
                    }
                };
                match trainer.recipe() == recipe {
                    true => Ok(trainer),
                    false => Err(Failure::user(
                        last.display(),
                        format!(
                            "was trained by another recipe than recipe.toml says ({}); restore one of them",
                            changes(trainer.recipe(), recipe)
                        ),
                    )),
                }
            })?;
        folder::write(&self.run.recipe(), self.recipe.text.as_bytes())?;
        if let Some(fingerprint) = fingerprint {
            folder::write(&self.run.fingerprint(), fingerprint.to_json().as_bytes())?;
        }
        let mut watch = Watch {
            log: Log::open(&self.run.log(), trainer.steps())?,
            events: Events::create(&self.run.events(), trainer.steps())?,
            pace: Pace::from(trainer.steps()),
            observer,
            one_code_is_a_fault: !recipe.model.empty_head,
        };
        watch.observer.begin(self.run, trainer.steps(), trainer.total_steps(), trainer.steps_per_epoch())?;
        watch.log.write(&self.start(&trainer, &hash))?;
        let trained = self.steps(&mut trainer, &mut watch, &shown, &hash);
        if trained.is_ok() {
            self.team.is_done();
        }
        let trained = self.kept(trained, &mut trainer, &hash);
        let asked = watch.observer.end();
        let reason = match &trained {
            Ok(()) if trainer.is_out_of_patience() => {
                "finished early: validations no longer improved".to_owned()
            }
            Ok(()) => "finished".to_owned(),
            Err(Failure::Interrupted(_)) => "interrupted".to_owned(),
            Err(Failure::Lost(_)) => "interrupted: another rank was lost".to_owned(),
            Err(failure) => failure.message().unwrap_or("stopped").to_owned(),
        };
        // Where the disk is full the first error is the one to tell.
        let ended =
            watch.log.write(&Record::End { step: trainer.steps(), seconds: trainer.seconds(), reason });
        let _held_until_here = lock;
        trained.and(ended)?;
        match asked {
            false => Ok(()),
            true => Err(Failure::Interrupted(format!(
                "{}: all steps are done; the scores come with --resume --out {0}",
                self.run.path().display()
            ))),
        }
    }

    /// Reads the data and makes the trainer, which then has the same state on all ranks.
    pub(super) fn begun(
        &self,
        make: impl FnOnce(&Recipe, CaseList, CaseList, &str) -> Outcome<Trainer>,
    ) -> Outcome<(Trainer, Begun)> {
        let recipe = &self.recipe.recipe;
        let Splits { train, validation, test, hash, skipped, notes } = self.reader.splits(&recipe.data)?;
        tell_notes(&notes);
        tell_skipped(&skipped);
        let fingerprint = (!train.is_empty()).then(|| Fingerprint::of(&train)).transpose()?;
        fingerprint.iter().for_each(|found| self.propose_empty_head(found));
        let shown = validation.select(0..validation.len().min(SHOWN)).to_vec()?;
        let train = if recipe.train.teacher.is_empty() {
            train
        } else {
            self.tell_what_the_teacher_saw(&validation, &test)?;
            self.taught(&train)?
        };
        self.team.agree_on_data(&hash, &train)?;
        let mut trainer = make(recipe, train, validation, &hash)?;
        trainer.join(self.team.ranks())?;
        Ok((trainer, Begun { hash, fingerprint, shown }))
    }

    /// Names the head of the empty mask where readers leave masks empty and the recipe could have it.
    fn propose_empty_head(&self, found: &Fingerprint) {
        let recipe = &self.recipe.recipe;
        let mut with_head = recipe.clone();
        with_head.model.empty_head = true;
        if !recipe.model.empty_head && suits_empty_head(found) && with_head.validate().is_ok() {
            complain(&format!(
                "note: {:.0} % of the annotations are empty masks; with --set model.empty_head=true a head of its own \
                 says how probable nothing is",
                100.0 * found.empty_share
            ));
        }
    }

    /// Saves the state that a lost rank has left, which is the one after the last complete step.
    fn kept(&self, trained: Outcome, trainer: &mut Trainer, data_hash: &str) -> Outcome {
        let Err(Failure::Lost(reason)) = trained else { return trained };
        trainer.save(&self.run.last(), data_hash)?;
        Err(Failure::Lost(format!(
            "{}: {reason}; saved at step {}; go on with --resume --out {0}, with any number of ranks",
            self.run.path().display(),
            trainer.steps(),
        )))
    }

    /// Says how many of a student's validation and test cases its teacher was trained on, where the teacher knows
    /// these data by other parts.
    fn tell_what_the_teacher_saw(&self, validation: &CaseList, test: &CaseList) -> Outcome {
        let recipe = &self.recipe.recipe;
        let teacher = Path::new(&recipe.train.teacher);
        // A checkpoint lies in its run.
        let folders = [Some(teacher), teacher.parent()].into_iter().flatten().map(RunFolder::at);
        let Some(run) = folders.into_iter().find(|run| run.recipe().is_file()) else { return Ok(()) };
        let mut seen = BTreeSet::new();
        for Known { data, hash } in known(&run)? {
            let divided = recipe.data.divided_as(&data);
            if recipe.data.path.is_empty()
                || !data.task.is_empty()
                || hash.is_none()
                || divided == recipe.data
            {
                continue;
            }
            // Other data may have other names.
            let Ok(splits) = self.reader.splits(&divided) else { continue };
            if hash == Some(splits.hash) {
                // A teacher may be chosen by the cases that the student is chosen by.
                seen.extend(common(&splits.train, validation));
                seen.extend(common(&splits.train, test));
                seen.extend(common(&splits.validation, test));
            }
        }
        if !seen.is_empty() {
            complain(&format!(
                "note: {} was trained on other parts of these data, {} of the {} validation and test cases of this run \
                 among them; score the student on other data, too",
                teacher.display(),
                seen.len(),
                validation.len() + test.len()
            ));
        }
        Ok(())
    }

    /// The training cases with what the recipe's teacher says of them.
    fn taught(&self, train: &CaseList) -> Outcome<CaseList> {
        let TrainRecipe { teacher, teacher_share, .. } = &self.recipe.recipe.train;
        if train.is_on_disk() {
            return Err(Failure::user(
                teacher,
                "cannot teach on data that are read from a cache: its answers are kept in memory; use fewer images",
            ));
        }
        let model = RunModel::of_path(Path::new(teacher), self.device)?;
        let mut counting = Counting::of(train.len(), "answered by the teacher");
        Ok(taught(train, model.mixture(), *teacher_share, |done| counting.reached(done))?)
    }

    /// Takes the weights that the recipe names as far as they fit, and tells which do not.
    fn start_from(&self, trainer: &mut Trainer) -> Outcome {
        let from = &self.recipe.recipe.train.from;
        let model = RunModel::of_path(Path::new(from), self.device)?;
        let model = model.alone().map_err(|reason| Failure::user(from, reason))?;
        let anew = trainer.start_from(&model)?;
        let all = trainer.network().parameters().len();
        let taken = all - anew.len();
        if taken == 0 {
            return Err(Failure::user(
                from,
                format!(
                    "none of its tensors has the name and shape of one of the recipe's {all}; train without it"
                ),
            ));
        }
        let rest = if anew.is_empty() { String::new() } else { format!("; anew start {}", anew.join(", ")) };
        complain(&format!("starts from {from}: {taken} of {all} tensors{rest}"));
        Ok(())
    }

    fn start(&self, trainer: &Trainer, data_hash: &str) -> Record {
        Record::Start {
            step: trainer.steps(),
            time: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: env!("MULTIVALUED_COMMIT").into(),
            device: device::description(self.device),
            threads: rayon::current_num_threads(),
            seed: self.recipe.recipe.train.seed,
            data_hash: data_hash.into(),
        }
    }

    fn steps(&self, trainer: &mut Trainer, watch: &mut Watch, shown: &[Case], data_hash: &str) -> Outcome {
        let mut saved = Instant::now();
        let alone = self.team.ranks().are_alone();
        while !trainer.is_finished() {
            if !alone {
                trainer.ask_to_stop(watch.observer.asks_to_stop());
            }
            let done = trainer.step()?;
            let epoch = done.step.div_ceil(trainer.steps_per_epoch());
            watch.step(done.step, epoch, done.progress, &done.terms)?;
            if done.ends_epoch {
                let ended = trainer.end_epoch()?;
                watch.epoch(&ended)?;
                if let Some(validation) = &ended.validation {
                    watch.hypotheses(trainer, shown, ended.step)?;
                    // Before `last`: a run that is killed in between goes on from an older `last` and
                    // finds the same best again.
                    if validation.best {
                        trainer.save_for_prediction(&self.run.best())?;
                    }
                }
            }
            if !shown.is_empty() && watch.observer.wants_answers() {
                let said = answers(trainer, shown)?;
                watch.observer.answers(done.step, done.progress, shown, &said);
            }
            // Several ranks stop after the same step.
            if if alone { watch.observer.asks_to_stop() } else { done.stop } {
                trainer.save(&self.run.last(), data_hash)?;
                return Err(Failure::Interrupted(format!(
                    "{}: saved at step {} after {}; go on with --resume --out {0}",
                    self.run.path().display(),
                    trainer.steps(),
                    clock(trainer.seconds())
                )));
            }
            if saved.elapsed() >= self.save_every {
                trainer.save(&self.run.last(), data_hash)?;
                saved = Instant::now();
            }
        }
        trainer.save(&self.run.last(), data_hash)?;
        // Without validation cases the last state is the best that is known.
        if !checkpoint::exists(&self.run.best()) {
            trainer.save_for_prediction(&self.run.best())?;
        }
        if let Some(calibrated) = trainer.calibrate_saved(&self.run.best())? {
            let PredictRecipe { temperature, empty_temperature, empty_shift, spread, .. } =
                calibrated.predict;
            complain(&format!(
                "probabilities fitted to the validation cases: temperature {temperature:.2}, of \"nothing there\" \
                 {empty_temperature:.2} with a shift of {empty_shift:+.2}; outlines spread by {spread:.1}"
            ));
        }
        Ok(())
    }
}

/// What was found out before the first step.
pub(super) struct Begun {
    hash: String,
    fingerprint: Option<Fingerprint>,
    /// The first validation cases.
    shown: Vec<Case>,
}

/// All who want to know how it goes.
struct Watch<'o> {
    log: Log,
    events: Events,
    pace: Pace,
    observer: &'o mut dyn Observer,
    /// Not where a head says how probable the empty mask is: that is a second answer.
    one_code_is_a_fault: bool,
}

impl Watch<'_> {
    fn step(&mut self, step: u64, epoch: u64, progress: f32, terms: &LossTerms) -> Outcome {
        let (shown, logged) = (self.observer.is_due(), step.is_multiple_of(LOG_EVERY) || step == 1);
        if !shown && !logged {
            return Ok(());
        }
        let numbers = flattened("loss", terms);
        if shown {
            self.observer.step(step, epoch, progress, &numbers);
        }
        if !logged {
            return Ok(());
        }
        for (name, value) in &numbers {
            self.events.scalar(step, &name.replace("loss.", "step/"), *value)?;
        }
        self.log.write(&Record::Step { step, epoch, steps_per_second: self.pace.rate(step), numbers })
    }

    fn epoch(&mut self, ended: &EpochLog) -> Outcome {
        let mut numbers: Numbers = flattened("", ended);
        // They are told beside the numbers.
        for told in ["epoch", "step", "seconds", "progress"] {
            numbers.remove(told);
        }
        self.observer.epoch(ended.step, ended.epoch, ended.progress, &numbers);
        for (name, value) in &numbers {
            self.events.scalar(ended.step, &name.replace('.', "/"), *value)?;
        }
        self.events.flush()?;
        if self.one_code_is_a_fault && ended.codes.is_some_and(|codes| codes.used_codes == 1) {
            complain(&format!(
                "epoch {}: all annotations take one code; the codebook has collapsed",
                ended.epoch
            ));
        }
        let (step, epoch, seconds) = (ended.step, ended.epoch, ended.seconds);
        self.log.write(&Record::Epoch { step, epoch, seconds, numbers })
    }

    /// Shows TensorBoard what the model says of a few validation cases.
    fn hypotheses(&mut self, trainer: &mut Trainer, cases: &[Case], step: u64) -> Outcome {
        if cases.is_empty() {
            return Ok(());
        }
        let predictions = answers(trainer, cases)?;
        let exhibits: Vec<_> =
            cases.iter().zip(&predictions).map(|(case, prediction)| Exhibit::new(case, prediction)).collect();
        self.events.image(step, "hypotheses", &sheet(&exhibits))?;
        self.events.flush()
    }
}

/// What the model says of cases by now.
fn answers(trainer: &mut Trainer, cases: &[Case]) -> Outcome<Vec<Prediction>> {
    let recipe = trainer.recipe().clone();
    Ok(trainer.with_averaged_weights(|model| predict_cases(model, &recipe, cases))?)
}

/// The ids of the cases that two parts have in common.
fn common(one: &CaseList, other: &CaseList) -> Vec<String> {
    let of_other: BTreeSet<&str> = other.ids().collect();
    one.ids().filter(|id| of_other.contains(id)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;
    use crate::run::observer::Terminal;

    #[test]
    fn a_device_that_fails_leaves_the_end_of_the_log() {
        let mut recipe = Recipe::named("shapes-tiny").unwrap();
        for change in ["data.size=32", "data.train_count=8", "data.validation_count=0", "data.test_count=0"] {
            recipe.set(change).unwrap();
        }
        let place = tempfile::tempdir().unwrap();
        let run = RunFolder::at(place.path());
        let lock = run.lock().unwrap();
        // As much memory as the networks take, and hardly more for a step.
        let started = Device::cpu();
        let reader = Reader::new(None);
        let train = reader.splits(&recipe.data).unwrap().train;
        drop(Trainer::new(&recipe, train, Vec::new(), &started).unwrap());
        let device = Device::cpu();
        if let Device::Cpu(cpu) = &device {
            cpu.limit_memory(started.peak_bytes() + 1024);
        }
        let save_every = Duration::from_secs(600);
        let recipe = RecipeText::from(recipe);
        let (device, reader, team) = (&device, &reader, &Team::default());
        let training = Training { run: &run, recipe: &recipe, device, save_every, reader, team };
        let ended = training.run(&lock, &mut Terminal::default());
        let told = matches!(&ended, Err(Failure::Memory(told)) if told.contains("out of memory"));
        assert!(told, "{ended:?}");
        let records = log::read(&run.log()).unwrap();
        let Some(Record::End { step: 0, reason, .. }) = records.last() else { panic!("{records:?}") };
        assert!(reason.contains("out of memory"), "{reason}");
    }
}
