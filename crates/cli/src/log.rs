//! The lines of `log.jsonl`: what happened in a training run, one JSON object per line.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Outcome};
use crate::folder;

/// Numbers by name; names with a dot belong together (`loss.cross_entropy`, `loss.commitment`).
pub type Numbers = BTreeMap<String, f64>;

/// The numbers of anything that serialises to an object, under dotted names; what is no number is left
/// out.
pub fn flattened(prefix: &str, value: &impl Serialize) -> Numbers {
    fn collect(name: &str, value: &serde_json::Value, numbers: &mut Numbers) {
        if let Some(number) = value.as_f64() {
            numbers.insert(name.to_owned(), number);
        }
        for (key, value) in value.as_object().into_iter().flatten() {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            collect(&name, value, numbers);
        }
    }
    let mut numbers = Numbers::new();
    collect(prefix, &serde_json::to_value(value).unwrap_or_default(), &mut numbers);
    numbers
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The run began, or was taken up again at a step.
    Start {
        /// The step of the checkpoint that was taken up, 0 for a new run.
        step: u64,
        /// Seconds since 1970.
        time: u64,
        /// Of the program.
        version: String,
        /// The source's commit, where it was built from one.
        commit: String,
        /// What computes.
        device: String,
        /// On how many threads.
        threads: usize,
        /// Of weights, order and draws.
        seed: u64,
        /// Of the training data.
        data_hash: String,
    },
    /// Some steps were done.
    Step {
        /// Steps since the beginning.
        step: u64,
        /// Passes over the data since the beginning.
        epoch: u64,
        /// Since the last line of this kind.
        steps_per_second: f64,
        /// Loss terms of the step.
        numbers: Numbers,
    },
    /// A pass over the data was completed.
    Epoch {
        /// Its last step.
        step: u64,
        /// Passes completed.
        epoch: u64,
        /// Seconds of training, earlier processes included.
        seconds: f64,
        /// Means of the loss terms, use of the codes, and the validation's scores where it was made.
        numbers: Numbers,
    },
    /// The process ended by itself.
    End {
        /// Steps since the beginning.
        step: u64,
        /// Seconds of training, earlier processes included.
        seconds: f64,
        /// `finished`, `interrupted`, or what went wrong.
        reason: String,
    },
}

impl Record {
    /// The step it speaks of.
    pub fn step(&self) -> u64 {
        match *self {
            Self::Start { step, .. }
            | Self::Step { step, .. }
            | Self::Epoch { step, .. }
            | Self::End { step, .. } => step,
        }
    }

    /// The line without its end. Numbers that JSON does not have (NaN, infinity) are left out.
    fn line(&self) -> String {
        let mut finite = self.clone();
        if let Self::Step { numbers, .. } | Self::Epoch { numbers, .. } = &mut finite {
            numbers.retain(|_, value| value.is_finite());
        }
        serde_json::to_string(&finite).expect("a record is plain numbers, strings and maps")
    }
}

/// The hash of the data that a log says were trained on.
pub fn data_hash(log: &[Record]) -> Option<&str> {
    log.iter().find_map(|record| match record {
        Record::Start { data_hash, .. } => Some(data_hash.as_str()),
        _ => None,
    })
}

/// Reads a log. The last line may be torn where the process was killed while it wrote it; any other
/// line that is no record is an error.
pub fn read(path: &Path) -> Outcome<Vec<Record>> {
    let text = folder::read_text(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let record = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| Failure::user(format!("{}:{}", path.display(), number + 1), error))
    };
    whole.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(record).collect()
}

/// A log that grows.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// A new log, or one that goes on from a step: what an earlier process wrote of later steps, which
    /// are now done again, is cut off.
    pub fn open(path: &Path, step: u64) -> Outcome<Self> {
        let known = if path.exists() { read(path)? } else { Vec::new() };
        let kept = known.iter().filter(|record| record.step() <= step);
        // Always a file of its own: what is appended must not appear anywhere else.
        folder::write(path, kept.map(|record| record.line() + "\n").collect::<String>().as_bytes())?;
        let file = OpenOptions::new().append(true).open(path);
        Ok(Self { path: path.to_owned(), file: file.map_err(|error| Failure::io(path, &error))? })
    }

    /// Adds a line.
    pub fn write(&mut self, record: &Record) -> Outcome {
        let line = record.line() + "\n";
        self.file.write_all(line.as_bytes()).map_err(|error| Failure::io(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(step: u64) -> Record {
        let numbers = [("loss".to_owned(), 0.5), ("odd".to_owned(), f64::NAN)].into();
        Record::Epoch { step, epoch: step / 10, seconds: 1.5, numbers }
    }

    #[test]
    fn a_log_goes_on_from_the_checkpoints_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = Log::open(&path, 0).unwrap();
        (1..=3).for_each(|k| log.write(&epoch(10 * k)).unwrap());
        // Killed in the middle of a line.
        log.file.write_all(b"{\"kind\":\"epo").unwrap();
        drop(log);
        assert_eq!(read(&path).unwrap().len(), 3);
        Log::open(&path, 20).unwrap().write(&epoch(30)).unwrap();
        let steps: Vec<u64> = read(&path).unwrap().iter().map(Record::step).collect();
        assert_eq!(steps, [10, 20, 30]);
    }

    #[test]
    fn what_json_cannot_say_is_left_out_and_nonsense_is_named_by_its_line() {
        let line = epoch(10).line();
        assert!(line.contains("\"loss\":0.5") && !line.contains("odd"), "{line}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        std::fs::write(&path, format!("{line}\n{{\"kind\":\"party\"}}\n")).unwrap();
        let Err(Failure::User(message)) = read(&path) else { panic!("the second line is no record") };
        assert!(message.contains("log.jsonl:2"), "{message}");
    }
}
