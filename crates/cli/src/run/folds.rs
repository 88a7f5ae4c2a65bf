//! A cross-validation: one training for each fold, scores of every case by the model that did not see it, and
//! the folds' models together as one.

use multivalued::Recipe;
use multivalued::mixture::Members;
use multivalued_data::files;

use super::RunFolder;
use super::cases::Cases;
use super::difference::changes;
use super::evaluation::Evaluation;
use super::model::RunModel;
use super::observer::Observer;
use super::training::Training;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::log::{self, Record};
use crate::terminal::{complain, say};

/// Trains all folds that are not finished yet, scores them together and makes the run a mixture of them.
pub fn cross_validated(training: &Training, observer: &mut dyn Observer) -> Outcome<Evaluation> {
    let Training { run, recipe, device, reader, .. } = *training;
    let _lock = run.lock()?;
    // Too few groups are told before anything is written.
    let hash = reader.splits(&recipe.recipe.data)?.hash;
    folder::write(&run.recipe(), recipe.text.as_bytes())?;
    let count = recipe.recipe.data.folds;
    let folds: Vec<RunFolder> = (1..=count).map(|fold| run.fold(fold)).collect();
    for (fold, own) in (1..=count).zip(&folds) {
        files::make_folder(own.path())?;
        let recipe = recipe.of_fold(fold)?;
        if is_finished(own, &recipe.recipe)? {
            complain(&format!("fold {fold} of {count}: finished before"));
            continue;
        }
        complain(&format!("fold {fold} of {count}"));
        let of_fold = Training { run: own, recipe: &recipe, ..*training };
        let scored = of_fold.scored(observer).map_err(|failure| match failure {
            Failure::Interrupted(_) => Failure::Interrupted(format!(
                "{}: saved in fold {fold} of {count}; go on with --resume --out {0}",
                run.path().display()
            )),
            other => other,
        })?;
        if let Some(Evaluation { report, .. }) = scored {
            let (cases, ged) = (report.summary.cases, report.summary.scores.ged_limit);
            say(&format!("fold {fold} of {count}: GED {ged:.4} on {cases} cases"))?;
        }
    }
    let members = folds.iter().map(|fold| (fold.name(), Some(hash.clone()))).collect();
    folder::write(&run.mixture(), Members::new(members).to_json().as_bytes())?;
    let model = RunModel::of_run(run, device)?;
    let evaluation = Evaluation::of(&model, Cases::of_run(run, reader)?, None)?.judged(run, &folds, None)?;
    evaluation.publish(run)?;
    Ok(evaluation)
}

/// Whether a fold's training came to its end and was scored. A fold of another recipe is refused.
fn is_finished(fold: &RunFolder, recipe: &Recipe) -> Outcome<bool> {
    if !fold.recipe().is_file() {
        return Ok(false);
    }
    let own = Recipe::read(&fold.recipe())?;
    if own != *recipe {
        return Err(Failure::user(
            fold.path().display(),
            format!("was begun with another recipe ({}); choose another --out", changes(&own, recipe)),
        ));
    }
    if !fold.log().is_file() || !fold.report().is_file() {
        return Ok(false);
    }
    // A report alone may be of a state before the end.
    let log = log::read(&fold.log())?;
    Ok(matches!(log.last(), Some(Record::End { reason, .. }) if reason.starts_with("finished")))
}
