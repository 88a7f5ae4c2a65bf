//! A training that several processes do together: rank 0 leads, and alone reads options, writes files and evaluates;
//! the others follow, and write nothing.
//!
//! | rank 0 | the others |
//! |---|---|
//! | prepares: options, plan, checkpoint | wait for a recipe |
//! | tells the recipe of a training, of a cross-validation one after the other | read the data, take rank 0's state |
//! | steps, validates, saves | steps |
//! | evaluates, writes the report | wait for the next recipe |
//! | dismisses the others | end |

use std::cell::Cell;
use std::path::PathBuf;

use multivalued::{Ranks, Recipe, Trainer};
use multivalued_data::CaseList;
use serde::{Deserialize, Serialize};

use super::RunFolder;
use super::observer::Observer;
use super::training::Training;
use crate::command::train::RecipeText;
use crate::exit::{Failure, Outcome};

const RECIPE: &str = "the recipe";

/// The ranks of a training, and where on its machine this one is.
#[derive(Debug, Clone, Default)]
pub struct Team {
    ranks: Ranks,
    /// The number among the ranks of this machine.
    local: usize,
    /// Of rank 0: whether the others are in the middle of a training.
    are_training: Cell<bool>,
}

/// What rank 0 tells of a training.
#[derive(Serialize, Deserialize)]
struct Announcement {
    run: PathBuf,
    recipe: String,
}

/// What a follower is to do.
pub struct Order {
    /// Where rank 0 writes.
    pub run: RunFolder,
    /// What to follow.
    pub recipe: RecipeText,
}

impl Team {
    /// Ranks, of which this one is the `local`th on its machine.
    pub fn new(ranks: Ranks, local: usize) -> Self {
        Self { ranks, local, are_training: Cell::new(false) }
    }

    /// The ranks themselves.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// The number among the ranks of this machine.
    pub fn local(&self) -> usize {
        self.local
    }

    /// Tells the others what to train; rank 0 does so before it reads the data.
    pub fn announce(&self, run: &RunFolder, recipe: &RecipeText) -> Outcome {
        if self.ranks.are_alone() {
            return Ok(());
        }
        let said = Announcement { run: run.path().to_owned(), recipe: recipe.text.clone() };
        self.ranks.broadcast(RECIPE, serde_json::to_vec(&said).expect("a path and a text"))?;
        self.are_training.set(true);
        Ok(())
    }

    /// A training that was announced has come to its end on all ranks.
    pub fn is_done(&self) {
        self.are_training.set(false);
    }

    /// Lets the others go, unless they are in the middle of a training, which they leave by themselves.
    pub fn dismiss(&self) -> Outcome {
        if !self.ranks.are_alone() && !self.are_training.get() {
            self.ranks.broadcast(RECIPE, Vec::new())?;
        }
        Ok(())
    }

    /// What rank 0 tells next; none where there is nothing left to do.
    pub fn next(&self) -> Outcome<Option<Order>> {
        let said = self.ranks.broadcast(RECIPE, Vec::new())?;
        if said.is_empty() {
            return Ok(None);
        }
        let Announcement { run, recipe: text } = serde_json::from_slice(&said).map_err(|error| {
            Failure::user("rank 0", format!("says what this program does not understand: {error}"))
        })?;
        let recipe = Recipe::parse(&text, "of rank 0")?;
        Ok(Some(Order { run: RunFolder::at(&run), recipe: RecipeText { recipe, text } }))
    }

    /// Refuses to train where ranks read other data than rank 0.
    pub fn agree_on_data(&self, hash: &str, train: &CaseList) -> Outcome {
        let what = format!("{hash}, {} training cases", train.len());
        let remedy = "every machine must find the same data under the same path";
        Ok(self.ranks.agree("the data", what.as_bytes(), remedy)?)
    }
}

impl Training<'_> {
    /// Trains with the others as rank 0 leads; nothing is written.
    pub fn follow(&self, observer: &mut dyn Observer) -> Outcome {
        let begin = |recipe: &Recipe, train, validation, _: &str| {
            Ok(Trainer::new(recipe, train, validation, self.device)?)
        };
        let (mut trainer, _) = self.begun(begin)?;
        observer.begin(self.run, trainer.steps(), trainer.total_steps(), trainer.steps_per_epoch())?;
        let mut stopped = false;
        let mut one_step = |trainer: &mut Trainer| -> Outcome<bool> {
            trainer.ask_to_stop(observer.asks_to_stop());
            let done = trainer.step()?;
            if done.ends_epoch {
                trainer.end_epoch()?;
            }
            Ok(done.stop)
        };
        while !trainer.is_finished() && !stopped {
            stopped = one_step(&mut trainer).map_err(|failure| match failure {
                Failure::Lost(reason) => Failure::Lost(format!(
                    "{}: {reason}; go on with --resume --out {0}, with any number of ranks",
                    self.run.path().display()
                )),
                other => other,
            })?;
        }
        observer.end();
        match stopped {
            false => Ok(()),
            true => Err(Failure::Interrupted(format!(
                "{}: {:?} stopped with the others at step {}; go on with --resume --out {0}",
                self.run.path().display(),
                self.team.ranks(),
                trainer.steps()
            ))),
        }
    }
}
