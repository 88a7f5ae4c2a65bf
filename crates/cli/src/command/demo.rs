//! `demo`: one command from nothing to a page of pictures within seconds, and to a trained model within minutes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use multivalued::Recipe;
use multivalued_data::metric::{Comparison, ged};
use multivalued_data::synthetic::{Task, TaskName};
use multivalued_data::{Case, Image, Prediction};
use multivalued_engine::Device;

use super::train::conclude;
use crate::device::DeviceChoice;
use crate::exit::Outcome;
use crate::folder;
use crate::log::Numbers;
use crate::page::{DemoPage, Pictured, Stage};
use crate::run::RunFolder;
use crate::run::counting::Counting;
use crate::run::evaluation::Evaluation;
use crate::run::model::RunModel;
use crate::run::observer::{Observer, Terminal};
use crate::run::reader::Reader;
use crate::run::team::Team;
use crate::run::training::Training;
use crate::shipped;
use crate::terminal::{complain, say, say_lines};

/// Images that the finished model answers, and their edge: what it was trained on.
const SHOWN: usize = 2;
const EDGE: usize = 160;
/// Time between two states of the page.
const REFRESH: Duration = Duration::from_secs(5);

/// See a triangle become four shapes within seconds, and train a small model of it in a few minutes
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  multivalued demo\n\nThe page demo.html in the run's folder shows what a finished model \
says at once. It follows the training by itself, open in a browser."
)]
pub struct Demo {
    /// The run's folder [default: runs/demo, numbered where it is taken]
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

impl Demo {
    pub fn run(&self) -> Outcome {
        let run = RunFolder::at(&self.out.clone().unwrap_or_else(|| RunFolder::free("demo")));
        run.must_be_new()?;
        complain(
            "Each image shows a triangle. Four readers answered it with four shapes, each in a quarter of \
             the cases; the model is to find all four and their probabilities.",
        );
        folder::make(run.path())?;
        let mut page = Showing::new(run.demo_page())?;
        page.write(&Stage::Begins)?;
        say(&format!("page: {} (open it in a browser: it follows the training)", run.demo_page().display()))?;
        let told = self.train(&run, &mut page);
        if let Err(failure) = &told {
            let reason = failure.message().unwrap_or("nobody reads its output any more").to_owned();
            // The first failure is the one to tell.
            let _ = page.write(&Stage::Stopped(reason));
        }
        told
    }

    fn train(&self, run: &RunFolder, page: &mut Showing) -> Outcome {
        let recipe = Recipe::named("shapes-tiny")?;
        let device = self.device.open(recipe.train.precision)?;
        let (recipe, reader) = (recipe.into(), Reader::new(None));
        let save_every = Duration::from_secs(30);
        let (device, reader, team) = (&device, &reader, &Team::default());
        let training = Training { run, recipe: &recipe, device, save_every, reader, team };
        let evaluation = conclude(run, training.scored(page)?)?;
        let Some(told) = sentence(&evaluation) else { return Ok(()) };
        page.finish(&RunModel::of_run(run, device)?, &told)?;
        say_lines(&format!(
            "\n{told}\nOpen {} in a browser, then train on your own data: multivalued train --help",
            run.demo_page().display()
        ))
    }
}

fn sentence(evaluation: &Evaluation) -> Option<String> {
    let truth = evaluation.report.summary.truth?;
    Some(format!(
        "{:.1} % of the true shapes were found, their probabilities are off by {:.3} on average.",
        100.0 * truth.mode_recall,
        truth.mode_probability_mae
    ))
}

/// A case and what was said of it.
type Answered = (Case, Prediction);

/// Shows a training on the terminal and on a page.
#[derive(Debug)]
struct Showing {
    terminal: Terminal,
    path: PathBuf,
    shipped: Vec<Answered>,
    own: Vec<Answered>,
    /// Step and mean GED of what was said of the cases shown.
    curve: Vec<(f64, f64)>,
    written: Instant,
}

impl Showing {
    /// A page with the answers of the model that comes with the program.
    fn new(path: PathBuf) -> Outcome<Self> {
        let cases = Task::new(TaskName::Shapes, EDGE, 1)?.generate("test", SHOWN);
        // A GPU would take seconds to begin with.
        let model = shipped::shapes(&Device::cpu())?;
        let said = model.predict(&images(&cases))?;
        Ok(Self {
            terminal: Terminal::default(),
            path,
            shipped: cases.into_iter().zip(said).collect(),
            own: Vec::new(),
            curve: Vec::new(),
            written: Instant::now(),
        })
    }

    fn write(&mut self, stage: &Stage) -> Outcome {
        let shipped = pictured(0, &self.shipped);
        let own = pictured(shipped.len(), &self.own);
        let page = DemoPage { stage, shipped: &shipped, own: &own, curve: &self.curve };
        folder::write(&self.path, page.render().as_bytes())?;
        self.written = Instant::now();
        Ok(())
    }

    /// What the trained model says in the end, and how good it is.
    fn finish(&mut self, model: &RunModel, told: &str) -> Outcome {
        let cases: Vec<Case> = self.own.drain(..).map(|(case, _)| case).collect();
        let said = model.predict("the demo's images", &images(&cases), Counting::new(cases.len()))?;
        self.own = cases.into_iter().zip(said).collect();
        self.write(&Stage::Done(told.to_owned()))
    }
}

impl Observer for Showing {
    fn begin(&mut self, run: &RunFolder, step: u64, total: Option<u64>, steps_per_epoch: u64) -> Outcome {
        self.terminal.begin(run, step, total, steps_per_epoch)
    }

    fn is_due(&self) -> bool {
        self.terminal.is_due()
    }

    fn step(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        self.terminal.step(step, epoch, progress, numbers);
    }

    fn epoch(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        self.terminal.epoch(step, epoch, progress, numbers);
    }

    fn wants_answers(&mut self) -> bool {
        self.written.elapsed() >= REFRESH
    }

    fn answers(&mut self, step: u64, progress: f32, cases: &[Case], said: &[Prediction]) {
        self.own = cases.iter().cloned().zip(said.iter().cloned()).collect();
        self.curve.extend(mean_ged(&self.own).map(|ged| (step as f64, ged)));
        // The page is an extra: a training does not end for it. Its last state is written with care.
        if let Err(failure) = self.write(&Stage::Learns { progress, step }) {
            self.written = Instant::now();
            complain(&format!("the page could not be written: {}", failure.message().unwrap_or("")));
        }
    }

    fn asks_to_stop(&mut self) -> bool {
        self.terminal.asks_to_stop()
    }

    fn end(&mut self) -> bool {
        self.terminal.end()
    }
}

fn pictured(first: usize, answered: &[Answered]) -> Vec<Pictured<'_>> {
    let one = |(at, (case, prediction))| Pictured { number: first + at, case, prediction };
    answered.iter().map(|(case, prediction)| (case, prediction)).enumerate().map(one).collect()
}

/// The mean GED of what was said; none where nothing was said.
fn mean_ged(answered: &[Answered]) -> Option<f64> {
    let geds =
        answered.iter().filter_map(|(case, said)| Some(ged::limit(&Comparison::new(case, said).ok()?)));
    let geds: Vec<f64> = geds.collect();
    (!geds.is_empty()).then(|| geds.iter().sum::<f64>() / geds.len() as f64)
}

fn images(cases: &[Case]) -> Vec<&Image> {
    cases.iter().map(|case| &case.image).collect()
}
