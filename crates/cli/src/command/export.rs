//! `export`: a run's model as a folder to hand on, with a card that says what it is; or as an ONNX file.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use multivalued::recipe::{DataRecipe, MethodKind};
use multivalued::{Model, onnx};
use multivalued_data::dataset::{Dataset, Layout};
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::report::{NOT_KNOWN, Report};
use multivalued_engine::Device;

use super::options::Reading;
use crate::document::Document;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::log::{self, Record};
use crate::run::RunFolder;
use crate::run::cases::{ALL, FOLDS};
use crate::run::hand_on::HandedOn;
use crate::run::known::hashes;
use crate::run::likeness;
use crate::run::model::RunModel;
use crate::terminal::{complain, say};

/// Whose data the LIDC layouts hold.
const LIDC: &str = "Slices of the Lung Image Database Consortium and Image Database Resource Initiative \
(LIDC-IDRI), The Cancer Imaging Archive, licence CC BY 3.0 (https://creativecommons.org/licenses/by/3.0/), cut \
out around nodules and stretched to 8 bits. Armato III, S. G. et al., *The Lung Image Database Consortium (LIDC) \
and Image Database Resource Initiative (IDRI): a completed reference database of lung nodules on CT scans*, \
Medical Physics 38(2), 915-931, 2011. Clark, K. et al., *The Cancer Imaging Archive (TCIA): maintaining and \
operating a public information repository*, Journal of Digital Imaging 26(6), 1045-1057, 2013.";

/// The floor that readers set, which says nothing where the truth is known and annotations are no independent draws.
const FLOOR: &str = "ged_floor";
const TRUTH: &str = "oracle_ged";
/// Scores that a card shows, with their meaning.
const SHOWN: [(&str, &str); 12] = [
    ("ged_exact", "squared generalized energy distance, lower is better"),
    ("ged_limit", "the same in the limit of many draws"),
    (FLOOR, "what a model that knew how readers answer each image would reach"),
    (TRUTH, "what the truth itself reaches"),
    ("ged_16", "GED of 16 draws"),
    ("hm_iou", "matched IoU"),
    ("soft_dice", "soft Dice"),
    ("mode_ece", "calibration error of the hypotheses' probabilities"),
    ("empty_ece", "calibration error of the probability that nothing is there"),
    ("n_x_1pct", "hypotheses of 1 % and more per image"),
    ("mode_recall", "share of the true modes found"),
    ("mode_probability_mae", "error of a mode's probability"),
];

/// Write a run's model as a folder to hand on (weights, recipe, checksums, scores and a model card), or as an ONNX file
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("written").args(["out", "onnx"]).required(true).multiple(true),
    after_help = "Examples:\n  multivalued export runs/lidc --out models/lidc\n  multivalued export runs/mine \
--out models/mine --attribution 'The hospital of X, 2026, CC BY 4.0'\n  multivalued export models/lidc --onnx \
lidc.onnx\n\n`predict`, `evaluate`, `inspect` and \
`calibrate` take such a folder in place of a run's. Nothing of this machine goes into it. Read the card before you \
give it away: the program knows what it measured, not what your data are.\n\nThe ONNX file holds everything from the raw image to \
probabilities and logits; docs/onnx.md makes masks of them in a few lines of NumPy. Before it is written, its answers \
are held against the model's own."
)]
pub struct Export {
    /// The folder of a run, a model or a mixture
    #[arg(value_name = "MODEL")]
    pub run: PathBuf,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The ONNX file to write; - for standard output
    #[arg(long, value_name = "FILE")]
    pub onnx: Option<PathBuf>,
    /// Whose data the model learned from and under which licence [default: known for LIDC layouts and
    /// synthetic tasks]
    #[arg(long, value_name = "TEXT", requires = "out")]
    pub attribution: Option<String>,
}

impl Export {
    /// Runs the command.
    pub fn run(&self) -> Outcome {
        if let Some(out) = &self.out {
            let size = megabytes(self.write(out)?);
            say(&format!("model of {size} in {}; read its README.md", out.display()))?;
        }
        self.onnx.as_deref().map_or(Ok(()), |file| self.write_onnx(file))
    }

    /// Writes the model as an ONNX file. It appears when its answers are known to be the model's.
    fn write_onnx(&self, file: &Path) -> Outcome {
        let document = Document::named(file)?;
        let model = RunModel::of_path(&self.run, &Device::cpu())?;
        let views = model.recipe().predict.views;
        let exported =
            onnx::export(model.mixture()).map_err(|error| Failure::at(self.run.display(), error))?;
        document.write(&exported.bytes)?;
        if views > 1 {
            complain(&format!(
                "note: the graph looks at an image once, as `predict --views 1`; the recipe says {views} views"
            ));
        }
        if document == Document::StandardOutput {
            return Ok(());
        }
        say(&format!(
            "ONNX model of {} in {}; probabilities as the model's within {:.0e}, logits within {:.0e}",
            megabytes(exported.bytes.len()),
            file.display(),
            exported.agreement.probabilities,
            exported.agreement.logits
        ))
    }

    /// Writes the folder, and gives the bytes of its weights.
    pub fn write(&self, out: &Path) -> Outcome<usize> {
        let run = RunFolder::open(&self.run)?;
        let model = RunModel::of_run(&run, &Device::cpu())?;
        if !run.report().is_file() {
            return Err(Failure::user(
                self.run.display(),
                format!(
                    "has no report.json for the card; `multivalued evaluate {0} --json {0}/report.json` writes it; add \
                     --data TEST with cases that it was not trained on where the model names no data",
                    self.run.display()
                ),
            ));
        }
        let report = Report::read(&run.report())?;
        let log = if run.log().is_file() { log::read(&run.log())? } else { Vec::new() };
        let source = match &self.attribution {
            Some(text) => text.clone(),
            None => attribution(&model.recipe().data)?,
        };
        // Who the raters are is not for those who get the model.
        let fingerprint = likeness::fingerprint(&run)?
            .map(|fingerprint| Fingerprint { raters: Default::default(), ..fingerprint });
        let handed_on = HandedOn::new(model.mixture(), hashes(&run)?)?;
        folder::make_empty(out)?;
        let card = Card {
            out,
            model: &model,
            report: &report,
            rounded: run.is_shipped(),
            log: &log,
            source: &source,
            size: handed_on.weights,
            fingerprint: fingerprint.as_ref(),
        };
        let card = card.render()?;
        let report = Report { images: Vec::new(), ..report };
        folder::write(&out.join("report.json"), (report.to_json() + "\n").as_bytes())?;
        folder::write(&out.join("README.md"), card.as_bytes())?;
        if run.coverage().is_file() {
            let levels = folder::read_text(&run.coverage())?;
            folder::write(&out.join("coverage.json"), levels.as_bytes())?;
        }
        if let Some(fingerprint) = fingerprint {
            folder::write(&out.join("fingerprint.json"), fingerprint.to_json().as_bytes())?;
        }
        handed_on.write(out)?;
        Ok(handed_on.weights)
    }
}

/// Whose data a recipe names, where the program can know it.
fn attribution(data: &DataRecipe) -> Outcome<String> {
    if data.path.is_empty() && !data.task.is_empty() {
        return Ok(format!("The synthetic task `{}`, generated by this program; nobody's data.", data.task));
    }
    let stated = data.layout.parse::<Layout>().ok();
    let reading = Reading { layout: stated, masks: data.masks.parse().ok(), group_by: None };
    let found =
        stated.or_else(|| Dataset::open(Path::new(&data.path), &reading.options()).ok().map(|d| d.layout()));
    match found {
        Some(Layout::LidcSlices | Layout::LidcCrops) => Ok(LIDC.to_owned()),
        _ => Err(Failure::user("--attribution", "say whose data it learned from, and under which licence")),
    }
}

fn megabytes(bytes: usize) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

/// What a card is written from.
struct Card<'a> {
    out: &'a Path,
    model: &'a RunModel,
    report: &'a Report,
    /// Whether the model was handed on before, so that its weights are rounded.
    rounded: bool,
    log: &'a [Record],
    source: &'a str,
    size: usize,
    fingerprint: Option<&'a Fingerprint>,
}

impl Card<'_> {
    fn render(&self) -> Outcome<String> {
        let name = RunFolder::at(self.out).name();
        Ok(format!(
            "# {name}\n\nOne image in; a short list of plausible masks out, each with its probability.\n\n\
             ```sh\nmultivalued predict path/to/{name} IMAGE --out predictions\n```\n\n\
             ## The model\n\n{}\n## Data\n\n{}\n\n{}\n\n## Scores\n\n{}\n## Intended use\n\n{}\n",
            self.facts()?,
            self.source,
            self.provenance(),
            self.scores(),
            INTENDED_USE
        ))
    }

    fn facts(&self) -> Outcome<String> {
        let recipe = self.model.recipe();
        let members = self.model.mixture().members();
        // Members of a mixture are alike but for their weights, or their own recipes say how they differ.
        let network = members[0].network();
        let method = match recipe.method.kind {
            MethodKind::Multivalued => {
                let active = network.model().map_or(Ok(0), Model::active_code_count)?;
                format!(
                    "multi-valued mapping with {} codes, {active} of which take part",
                    recipe.model.code_count
                )
            }
            MethodKind::ProbabilisticUnet => {
                format!("Probabilistic U-Net, {} samples an image", recipe.predict.samples)
            }
            MethodKind::Unet => "U-Net, one output".into(),
        };
        let mut rows = Vec::new();
        if members.len() > 1 {
            rows.push((
                "models",
                format!("{} that predict together; the first of them is this", members.len()),
            ));
        }
        rows.extend([
            ("method", method),
            (
                "network",
                format!(
                    "channels {:?}, {} trained values, weights in f16{} ({})",
                    recipe.model.channels,
                    network.parameters().trained_values(),
                    if network.model().is_some() { ", classifier and codebook in f32" } else { "" },
                    megabytes(self.size)
                ),
            ),
            (
                "input",
                format!(
                    "{} channel(s) of any size; values are normalised as recipe.toml says",
                    recipe.model.input_channels
                ),
            ),
            ("output", format!("masks of {} class(es)", recipe.model.classes)),
        ]);
        if let Some(fingerprint) = self.fingerprint {
            rows.push(("expects", format!("{}; `predict` warns of others", fingerprint.expectation())));
        }
        if recipe.predict.views > 1 {
            let views = recipe.predict.views;
            rows.push(("prediction", format!("means over {views} views of an image; `--views 1` takes one")));
        }
        for record in self.log {
            match record {
                Record::Start { step, version, commit, device, seed, .. } => rows.push((
                    "trained",
                    format!(
                        "from step {step} by version {version}, commit {commit}, on {device}, seed {seed}"
                    ),
                )),
                Record::End { step, seconds, .. } => {
                    rows.push(("ended", format!("at step {step} after {:.1} minutes", seconds / 60.0)));
                }
                _ => {}
            }
        }
        let rows = rows.iter().map(|(name, value)| format!("| {name} | {value} |\n"));
        let rows = rows.collect::<String>();
        Ok(format!("| | |\n|---|---|\n{rows}| recipe | [recipe.toml](recipe.toml) |\n"))
    }

    fn provenance(&self) -> String {
        let hash =
            self.report.data_hash.as_deref().map_or(String::new(), |hash| {
                format!(" BLAKE3 of the data scored, ids and content: `{hash}`.")
            });
        let (parts, elsewhere) = match self.scored_elsewhere() {
            false if self.report.split == FOLDS => (
                "the folds of a cross-validation",
                " Every case was scored by the one model that did not see it; all models together are not scored by \
                 cases of their own data.",
            ),
            false => ("training, validation and test", ""),
            true => (
                "training and validation",
                " It was scored on another data set; that no group is in both is for its giver to say.",
            ),
        };
        format!(
            "Groups (patients) are not torn apart between {parts}, unless the data set states a split that does; \
             the model was chosen on validation cases.{elsewhere}{hash}"
        )
    }

    /// Whether the scores are of another data set than the one that was trained on.
    fn scored_elsewhere(&self) -> bool {
        log::data_hash(self.log).map_or(self.report.split == ALL, |trained_on| {
            self.report.data_hash.as_deref().is_some_and(|scored| scored != trained_on)
        })
    }

    /// What was scored, in words.
    fn scored(&self) -> String {
        let part = match self.report.split.as_str() {
            ALL => "All cases".to_owned(),
            FOLDS => "Cross-validation".to_owned(),
            part => format!("Part `{part}`"),
        };
        let whose = match self.scored_elsewhere() {
            true if log::data_hash(self.log).is_some() => " of a data set that was not trained on",
            true => " of a data set of which it is not recorded whether it was trained on",
            false => "",
        };
        part + whose
    }

    fn scores(&self) -> String {
        let summary = &self.report.summary;
        let numbers = summary.numbers();
        let (intervals, over) = self.report.first_intervals();
        let mut text = format!(
            "{}: {} images of {} groups, by {}. \
             [report.json](report.json) has all scores, docs/metrics.md of the program their formulas.\n\n\
             | score | mean | 95 % over {over} | what it is |\n|---|---|---|---|\n",
            self.scored(),
            summary.cases,
            summary.groups,
            match self.rounded {
                true =>
                    "these weights or, where the report came with them, by those that they were rounded from",
                false => "the run's own weights before they were rounded to f16",
            }
        );
        let truth_is_known = summary.oracle_ged.is_some();
        for (key, meaning) in SHOWN.into_iter().filter(|(key, _)| *key != FLOOR || !truth_is_known) {
            let Some((_, value)) = numbers.iter().find(|(name, _)| *name == key) else { continue };
            let interval = intervals.get(key).copied().flatten();
            let interval = interval.map_or(NOT_KNOWN.into(), |[low, high]| format!("{low:.4} to {high:.4}"));
            let chance = self.report.noise.chance(key).filter(|chance| chance.high > 0.0);
            let chance = chance.map_or(String::new(), |chance| {
                format!(
                    "; a perfectly calibrated model would show {:.4} ({:.4} to {:.4})",
                    chance.mean, chance.low, chance.high
                )
            });
            text += &format!("| `{key}` | {value:.4} | {interval} | {meaning}{chance} |\n");
        }
        text
    }
}

/// What a model of this program is for, and what it is not.
const INTENDED_USE: &str = "Research on images that several readers answer differently: methods, metrics, \
teaching, and a start for models of your own.\n\n**Not a medical device.** It was not made, tested or approved for \
diagnosis, treatment or any other decision about a person, and must not be used for one.\n\nIts probabilities say \
how often readers like those of the training data would draw each mask on images like theirs. On other scanners, \
populations, fields of view or readers neither masks nor probabilities are known to hold: evaluate on data of your \
own first (`multivalued evaluate`), and calibrate (`multivalued calibrate`).";
