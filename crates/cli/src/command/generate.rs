//! `generate`: a synthetic task as a folder of files, with its weights and its truth in a manifest.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use multivalued_data::Case;
use multivalued_data::synthetic::{Task, TaskName, lung_opacity_over, read_films, write_dataset};

use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::terminal::say;

/// Write a synthetic task with known truth to a folder that the other commands read
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  multivalued generate shapes --out shapes\n  multivalued generate \
raters --count train=500,test=100 --seed 7 --out raters\n  multivalued generate lung-opacity --films \
chest-xray --out chest-opacity\n\nFilms are real radiographs: images/, masks/ with the lungs, and split.csv with \
lines file,split\n(docs/dataset-format.md). Films marked unused are left out.")]
pub struct Generate {
    /// Which task (docs/tasks.md)
    #[arg(value_parser = PossibleValuesParser::new(TaskName::ALL.map(TaskName::as_str)))]
    task: String,
    /// The new folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Width and height in pixels [default: the task's own]
    #[arg(long, value_name = "PIXELS")]
    size: Option<usize>,
    /// How many cases in each split
    #[arg(long, value_name = "SPLIT=N,…", default_value = "train=200,val=40,test=40", value_delimiter = ',')]
    count: Vec<SplitCount>,
    /// For lung-opacity: a folder of real radiographs in place of drawn ones, in their own size and splits
    #[arg(long, value_name = "DIR", conflicts_with_all = ["size", "count"])]
    films: Option<PathBuf>,
    /// Seed of all cases
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Cases by split.
type Splits = Vec<(String, Vec<Case>)>;

/// So many cases of a split, as `train=200`.
#[derive(Debug, Clone)]
struct SplitCount {
    split: String,
    count: usize,
}

impl std::str::FromStr for SplitCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (split, count) = text.split_once('=').ok_or("write it as SPLIT=N, such as train=200")?;
        // The split becomes part of file names.
        if split.is_empty() || !split.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("the split '{split}' may hold letters, digits and '-' only"));
        }
        match count.parse() {
            Ok(count @ 1..=100_000) => Ok(Self { split: split.to_owned(), count }),
            _ => Err(format!("'{count}' cases; choose 1 to 100000")),
        }
    }
}

impl Generate {
    pub fn run(&self) -> Outcome {
        let name: TaskName = self.task.parse()?;
        let (generated, size) = match &self.films {
            Some(films) if name == TaskName::LungOpacity => self.over(films)?,
            Some(_) => {
                return Err(Failure::user(
                    "--films",
                    format!("radiographs are for the task lung-opacity, not for {name}"),
                ));
            }
            None => self.drawn(name)?,
        };
        let splits: Vec<(&str, &[Case])> =
            generated.iter().map(|(split, cases)| (split.as_str(), &cases[..])).collect();
        write_dataset(&self.out, &splits)?;
        let counts = generated.iter().map(|(split, cases)| format!("{split} {}", cases.len()));
        say(&format!(
            "{} cases of {name} ({}), {size}, seed {}, in {}",
            generated.iter().map(|(_, cases)| cases.len()).sum::<usize>(),
            counts.collect::<Vec<_>>().join(", "),
            self.seed,
            self.out.display()
        ))
    }

    /// The task's own pictures.
    fn drawn(&self, name: TaskName) -> Outcome<(Splits, String)> {
        let task = Task::new(name, self.size.unwrap_or_else(|| name.usual_size()), self.seed)?;
        for (at, one) in self.count.iter().enumerate() {
            if self.count[..at].iter().any(|other| other.split == one.split) {
                return Err(Failure::user("--count", format!("the split '{}' is given twice", one.split)));
            }
        }
        folder::make_empty(&self.out)?;
        let cases = |one: &SplitCount| (one.split.clone(), task.generate(&one.split, one.count));
        Ok((self.count.iter().map(cases).collect(), format!("{0} x {0} pixels", task.size())))
    }

    /// Opacities over real radiographs.
    fn over(&self, folder: &Path) -> Outcome<(Splits, String)> {
        let films = read_films(folder)?;
        folder::make_empty(&self.out)?;
        let mut splits = Vec::new();
        for (split, films) in films {
            splits.push((split, lung_opacity_over(&films, self.seed)?));
        }
        Ok((splits, format!("over the films of {}", folder.display())))
    }
}
