//! `inspect`: what a run has learned: its curves, and what each of its codes says.

use std::path::PathBuf;

use clap::Args;
use multivalued::Predictor;
use multivalued::recipe::MethodKind;
use multivalued_data::{Case, Hypothesis, Mask, Prediction, files};

use super::options::Loading;
use crate::columns::{two_columns, wrapped};
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::log::{self, Record};
use crate::page::number;
use crate::picture::{Exhibit, png, sheet, spread};
use crate::run::RunFolder;
use crate::run::cases::{Cases, TEST, VALIDATION};
use crate::run::model::RunModel;
use crate::terminal::{complain, say, say_lines, shown};

/// Images that are looked at for what a code means.
const LOOKED_AT: usize = 200;
/// Images on the sheet of codes.
const SHOWN: usize = 8;

/// Look into a run or a model: its curves, which codes it uses and what each of them says
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued inspect runs/demo\n  multivalued inspect models/lidc --data \
data/lidc\n\nWrites sheets/codes.png into the folder: one column per code in the order of the table, one row per \
image."
)]
pub struct Inspect {
    /// The run's folder, or a model's
    run: PathBuf,
    /// Other data to look at; a model carries none with it
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    loading: Loading,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

impl Inspect {
    pub fn run(&self) -> Outcome {
        let device = self.device.open_to_predict()?;
        let run = RunFolder::open(&self.run)?;
        let reader = self.loading.reader();
        let path = run.sheet("codes");
        for written in [&run.sheets(), &path] {
            files::refuse_link(written)?;
        }
        if run.log().is_file() {
            say_lines(&curves(&log::read(&run.log())?))?;
        }
        let model = RunModel::of_run(&run, &device)?;
        say_lines(&facts(&model)?)?;
        // Codes of different models mean different things.
        if model.recipe().method.kind != MethodKind::Multivalued || model.mixture().members().len() > 1 {
            return Ok(());
        }
        let mut cases = match &self.data {
            Some(path) => Cases::of_path(&run, path, &self.loading, &reader)?,
            None => Cases::of_run(&run, &reader)?,
        };
        let part = [TEST, VALIDATION].into_iter().find(|part| cases.has(part)).unwrap_or("train");
        let (part, cases) = cases.take(None, part)?;
        let cases = cases.select(spread(&(0..cases.len()).collect::<Vec<_>>(), LOOKED_AT));
        let predictions = model.predict_cases(&cases)?;
        let (cases, predictions) = (cases.to_vec()?, predictions.to_vec());
        let codes = codes(&predictions);
        say_lines(&format!("\n{}\n", table(&codes, &cases, &part)))?;
        let by_code: Vec<Prediction> = predictions.iter().map(|one| by_codes(one, &codes)).collect();
        let pairs: Vec<_> = cases.iter().zip(&by_code).collect();
        let shown = spread(&pairs, SHOWN).into_iter();
        let exhibits: Vec<_> = shown.map(|(case, prediction)| Exhibit::of_all(case, prediction)).collect();
        let write = || folder::write(&path, &png(&sheet(&exhibits)));
        match files::make_folder(&run.sheets()).map_err(Failure::from).and_then(|()| write()) {
            Ok(()) => say(&format!("sheet of codes: {}", path.display())),
            // A run that may only be read can be looked into all the same.
            Err(Failure::ReadOnly(reason)) => {
                complain(&format!("nothing was written: {reason}"));
                Ok(())
            }
            other => other,
        }
    }
}

/// What the model is made of; of a mixture each member.
fn facts(model: &RunModel) -> Outcome<String> {
    let members = model.mixture().members();
    let mut rows = Vec::new();
    if members.len() > 1 {
        let what =
            format!("{} models that predict together; inspect a member to see its codes", members.len());
        rows.push(("mixture".to_owned(), what));
    }
    for member in members {
        rows.extend(facts_of(member)?);
    }
    Ok(two_columns(&rows))
}

fn facts_of(model: &Predictor) -> Outcome<Vec<(String, String)>> {
    let (recipe, network) = (model.recipe(), model.network());
    let method = match recipe.method.kind {
        MethodKind::Multivalued => "multivalued".into(),
        MethodKind::ProbabilisticUnet => {
            format!("Probabilistic U-Net, {} samples an image; no codes to show", recipe.predict.samples)
        }
        MethodKind::Unet => "U-Net, one output; no codes to show".to_owned(),
    };
    let mut rows = vec![
        ("method".to_owned(), method),
        ("channels".into(), format!("{:?}", recipe.model.channels)),
        ("trained values".into(), network.parameters().trained_values().to_string()),
    ];
    if let Some(model) = network.model() {
        let (active, all) = (model.active_code_count()?, recipe.model.code_count);
        rows.push(("codes that take part".into(), format!("{active} of {all}")));
    }
    Ok(rows)
}

/// How the training went, each curve as one line of blocks.
fn curves(records: &[Record]) -> String {
    let wanted = [
        ("loss.total", "loss"),
        ("validation.ged_limit", "validation GED"),
        ("used_codes", "codes in use"),
        ("mean_inner_product", "mean inner product"),
        ("changed_assignments", "changed assignments"),
    ];
    let mut rows = Vec::new();
    for (key, name) in wanted {
        let values: Vec<f64> = records
            .iter()
            .filter_map(|record| match record {
                Record::Epoch { numbers, .. } => numbers.get(key).copied(),
                _ => None,
            })
            .collect();
        if let (Some(first), Some(last)) = (values.first(), values.last()) {
            // Adding zero to what is rounded to it takes away its sign.
            let [first, last] = [first, last].map(|value| number((value * 1e4).round() / 1e4 + 0.0));
            rows.push((name.to_owned(), format!("{}  {first} to {last}", blocks(&values))));
        }
    }
    if let Some(Record::End { step, seconds, reason }) = records.last() {
        rows.push(("ended".into(), format!("{reason} at step {step} after {seconds:.0} s")));
    }
    two_columns(&rows)
}

/// At most forty blocks, each as high as the mean of its share of the values.
fn blocks(values: &[f64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let per_block = values.len().div_ceil(40).max(1);
    let means: Vec<f64> =
        values.chunks(per_block).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // What differs by rounding alone is level.
    let block = |value: &f64| match high - low > 1e-6 {
        true => BLOCKS[((value - low) / (high - low) * 7.0).round() as usize],
        false => BLOCKS[0],
    };
    means.iter().map(block).collect()
}

/// What a code says over all images.
struct Code {
    code: usize,
    /// Images of which it is one of the hypotheses of at least one percent.
    images: usize,
    probability: f64,
    area: f64,
    empty: usize,
}

/// The codes that say something, the most probable first.
fn codes(predictions: &[Prediction]) -> Vec<Code> {
    let mut codes: Vec<Code> = Vec::new();
    let said = predictions.iter().flat_map(|one| &one.hypotheses);
    for Hypothesis { mask, probability, code } in said.filter(|one| one.probability >= 0.01) {
        let at = codes.iter().position(|one| one.code == *code).unwrap_or_else(|| {
            codes.push(Code { code: *code, images: 0, probability: 0.0, area: 0.0, empty: 0 });
            codes.len() - 1
        });
        let one = &mut codes[at];
        let pixels = (mask.width() * mask.height()).max(1) as f64;
        one.images += 1;
        one.probability += f64::from(*probability);
        one.area += (0..mask.classes()).map(|class| mask.area(class)).sum::<usize>() as f64 / pixels;
        one.empty += usize::from(mask.is_empty());
    }
    codes.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
    codes
}

fn table(codes: &[Code], cases: &[Case], part: &str) -> String {
    let all = cases.len().max(1) as f64;
    let mut lines = vec![format!(
        "{:>4}  {:>10}  {:>16}  {:>9}  {:>9}",
        "code", "images", "mean probability", "mean area", "empty"
    )];
    for one in codes {
        let own = one.images as f64;
        lines.push(format!(
            "{:>4}  {:>8.1} %  {:>16.4}  {:>7.2} %  {:>7.1} %",
            one.code,
            100.0 * own / all,
            one.probability / all,
            100.0 * one.area / own,
            100.0 * one.empty as f64 / own
        ));
    }
    lines.push(wrapped(&format!(
        "Over {} images of {part}: in how many a code is a hypothesis of 1 % and more; its probability over \
         all of them; the part of the image that its mask covers, and how often it is empty, where it is one.",
        cases.len(),
        part = shown(part)
    )));
    lines.join("\n")
}

/// One hypothesis per code of the table; what a code does not say of an image is an empty mask of
/// probability zero, so that every column of the sheet is one code.
fn by_codes(prediction: &Prediction, codes: &[Code]) -> Prediction {
    let mask = &prediction.hypotheses[0].mask;
    let silent = Mask::empty(mask.width(), mask.height(), mask.classes());
    let of = |code: &Code| {
        let said = prediction.hypotheses.iter().find(|one| one.code == code.code).cloned();
        said.unwrap_or_else(|| Hypothesis { mask: silent.clone(), probability: 0.0, code: code.code })
    };
    Prediction { hypotheses: codes.iter().map(of).collect(), draws: prediction.draws }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_column() {
        let said =
            |code, probability| Hypothesis { mask: Mask::from_fn(2, 2, |x, _| x == 0), probability, code };
        let (one, two) =
            (Prediction::stated(vec![said(3, 0.9), said(1, 0.1)]), Prediction::stated(vec![said(1, 1.0)]));
        let codes = codes(&[one, two.clone()]);
        assert_eq!(codes.iter().map(|code| code.code).collect::<Vec<_>>(), [1, 3]);
        let columns = by_codes(&two, &codes).hypotheses;
        assert_eq!(
            columns.iter().map(|one| (one.code, one.probability)).collect::<Vec<_>>(),
            [(1, 1.0), (3, 0.0)]
        );
        assert!(columns[1].mask.is_empty());
    }

    #[test]
    fn curves_become_blocks() {
        assert_eq!(blocks(&[0.0, 1.0, 0.5]), "▁█▅");
        assert_eq!(blocks(&[2.0, 2.0 + 1e-9]), "▁▁");
        assert_eq!(blocks(&(0..400).map(f64::from).collect::<Vec<_>>()).chars().count(), 40);
    }
}
