//! A run's folder: what lies where in it, and that only one process works on it.
//!
//! `docs/run-folder.md` describes the files.

pub mod calibration;
pub mod cases;
pub mod counting;
pub mod difference;
pub mod evaluation;
pub mod folds;
pub mod hand_on;
pub mod interrupt;
pub mod known;
pub mod levels;
pub mod likeness;
pub mod model;
pub mod observer;
pub mod progress;
pub mod reader;
pub mod team;
pub mod training;

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use multivalued::mixture;
use multivalued::train::checkpoint;
use multivalued_data::files;

use crate::exit::{Failure, Outcome};
use crate::folder;

/// The contact sheets of a run.
const SHEETS: [&str; 4] = ["examples", "best", "worst", "codes"];

/// The files of a run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// A folder that a run may be in; nothing is looked at.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// A folder with a run in it.
    pub fn open(path: &Path) -> Outcome<Self> {
        let run = Self::at(path);
        if !path.exists() {
            return Err(Failure::Missing(format!(
                "{}: there is no such run; check the path",
                path.display()
            )));
        }
        if !run.recipe().is_file() {
            return Err(Failure::user(
                path.display(),
                "is no run: it has no recipe.toml; give a folder that `train` or `export` made",
            ));
        }
        Ok(run)
    }

    /// Refuses a folder with a run in it.
    pub fn must_be_new(&self) -> Outcome {
        match self.recipe().exists() {
            false => Ok(()),
            true => Err(Failure::user(
                self.path.display(),
                "holds a run already; go on with it by `train --resume` or choose another --out",
            )),
        }
    }

    /// A free place for a run called `name` under `runs`.
    pub fn free(name: &str) -> PathBuf {
        let base = Path::new("runs");
        let numbered = (2..).map(|number| base.join(format!("{name}-{number}")));
        std::iter::once(base.join(name)).chain(numbered).find(|path| !path.exists()).unwrap_or_default()
    }

    /// Whether it is no run but a model that `export` or `combine` wrote.
    pub fn is_shipped(&self) -> bool {
        multivalued::shipped::exists(&self.path) || mixture::is_handed_on(&self.path)
    }

    /// The run of a fold of a cross-validation, from 1 on.
    pub fn fold(&self, fold: usize) -> Self {
        Self { path: self.path.join(format!("fold-{fold}")) }
    }

    /// The members of a mixture.
    pub fn mixture(&self) -> PathBuf {
        self.path.join(mixture::MIXTURE)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved recipe.
    pub fn recipe(&self) -> PathBuf {
        self.path.join("recipe.toml")
    }

    /// What happened.
    pub fn log(&self) -> PathBuf {
        self.path.join("log.jsonl")
    }

    /// The checkpoint to go on from.
    pub fn last(&self) -> PathBuf {
        self.path.join("last")
    }

    /// The checkpoint to predict with.
    pub fn best(&self) -> PathBuf {
        self.path.join("best")
    }

    /// Conformal levels, after `calibrate`.
    pub fn coverage(&self) -> PathBuf {
        self.path.join("coverage.json")
    }

    /// The evaluation.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.json")
    }

    /// The evaluation to look at.
    pub fn page(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// The demo's page.
    pub fn demo_page(&self) -> PathBuf {
        self.path.join("demo.html")
    }

    /// What the training cases are like, in numbers.
    pub fn fingerprint(&self) -> PathBuf {
        self.path.join("fingerprint.json")
    }

    /// How far to trust the model.
    pub fn verdict(&self) -> PathBuf {
        self.path.join("verdict.json")
    }

    /// Contact sheets.
    pub fn sheets(&self) -> PathBuf {
        self.path.join("sheets")
    }

    /// A contact sheet.
    pub fn sheet(&self, name: &str) -> PathBuf {
        self.sheets().join(format!("{name}.png"))
    }

    /// TensorBoard's event files.
    pub fn events(&self) -> PathBuf {
        self.path.join("tensorboard")
    }

    /// The folder's name, for titles.
    pub fn name(&self) -> String {
        let full = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        full.file_name()
            .map_or_else(|| full.display().to_string(), |name| name.to_string_lossy().into_owned())
    }

    /// The same as [`RunFolder::lock`], but a folder that is marked as read-only is left alone even by those who
    /// may write anywhere.
    pub fn lock_unless_read_only(&self) -> Outcome<Lock> {
        match self.path.metadata() {
            Ok(folder) if folder.permissions().readonly() => {
                Err(Failure::ReadOnly(format!("{}: is read-only", self.path.display())))
            }
            _ => self.lock(),
        }
    }

    /// Keeps other processes out until the lock is dropped.
    pub fn lock(&self) -> Outcome<Lock> {
        folder::make(&self.path)?;
        self.refuse_links()?;
        let path = self.path.join("run.lock");
        let refused = |error: std::io::Error| Failure::io(&path, &error);
        let mut file = files::open_own(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Who it is is a courtesy; that it is locked is the point.
                let _ = file.read_to_string(&mut owner);
                return Err(Failure::user(
                    self.path.display(),
                    format!(
                        "is in use by another process ({}); wait for it or choose another --out",
                        owner.trim()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(refused(error)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(refused)?;
        writeln!(file, "process {}{}", std::process::id(), host()).map_err(refused)?;
        Ok(Lock { _file: file })
    }

    /// Refuses a folder that holds a link where a file is written, before the work whose result it shall hold.
    fn refuse_links(&self) -> Outcome {
        let listed = [self.recipe(), self.log(), self.mixture()];
        let judged = [self.coverage(), self.report(), self.page(), self.fingerprint(), self.verdict()];
        let folders = [self.sheets(), self.events()];
        let sheets = SHEETS.map(|name| self.sheet(name));
        for path in listed.iter().chain(&judged).chain(&folders).chain(&sheets) {
            files::refuse_link(path)?;
        }
        checkpoint::refuse_links(&self.last())?;
        Ok(checkpoint::refuse_links(&self.best())?)
    }
}

/// The machine's name, where the system tells it in a file; runs may lie on a shared disk.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { String::new() } else { format!(" on {}", name.trim()) }
}

/// The right to change a run's folder; the operating system takes it back when the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_may_work_on_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::at(&folder.path().join("run"));
        let first = run.lock().unwrap();
        let Err(Failure::User(message)) = run.lock() else { panic!("the second lock was given") };
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        drop(first);
        run.lock().unwrap();
    }

    #[test]
    fn a_folder_without_a_recipe_is_no_run() {
        let folder = tempfile::tempdir().unwrap();
        for (path, cause) in
            [(folder.path().join("none"), "no such run"), (folder.path().to_owned(), "recipe.toml")]
        {
            let Err(failure) = RunFolder::open(&path) else { panic!("{path:?} was taken for a run") };
            let message = failure.message().unwrap_or_default();
            assert!(message.contains(cause), "{message}");
        }
    }
}
