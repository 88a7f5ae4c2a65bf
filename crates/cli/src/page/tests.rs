//! The page as text, and in a real browser where one is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::synthetic::{Task, TaskName};
use multivalued_data::{Case, Hypothesis, Prediction};

use super::*;
use crate::log::Numbers;
use crate::picture::spread;

/// A plausible training: falling losses, codes that come into use.
fn log() -> Vec<Record> {
    let epoch = |epoch: u64| {
        let t = epoch as f64 / 40.0;
        let numbers: Numbers = [
            ("loss.total", 0.05 + (-4.0 * t).exp()),
            ("loss.reconstruction", 0.03 + 0.5 * (-4.0 * t).exp()),
            ("loss.cross_entropy", 0.02 + 0.4 * (-3.0 * t).exp()),
            ("loss.commitment", 0.0),
            ("loss.energy", if t > 0.7 { 0.1 } else { 0.0 }),
            ("used_codes", (16.0 - 12.0 * t).round()),
            ("mean_inner_product", 0.3 * (-5.0 * t).exp()),
            ("validation.ged_limit", 0.04 + 0.3 * (-4.0 * t).exp()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        Record::Epoch { step: 50 * epoch, epoch, seconds: 2.0 * epoch as f64, numbers }
    };
    (1..=40).map(epoch).collect()
}

/// The truth with unsure probabilities and one more, wrong hypothesis.
fn prediction(case: &Case, at: usize) -> Prediction {
    let truth = case.truth.as_ref().unwrap();
    let mut hypotheses: Vec<_> = truth
        .iter()
        .enumerate()
        .map(|(code, mode)| {
            let doubt = 1.0 + 0.3 * ((at * 7 + code * 3) % 5) as f32 / 5.0;
            Hypothesis { mask: mode.mask.clone(), probability: mode.probability * doubt, code }
        })
        .collect();
    hypotheses.push(Hypothesis {
        mask: truth[0].mask.difference(&truth[0].mask),
        probability: 0.05,
        code: 9,
    });
    let total: f32 = hypotheses.iter().map(|one| one.probability).sum();
    hypotheses.iter_mut().for_each(|one| one.probability /= total);
    hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    Prediction::stated(hypotheses)
}

fn page(task: TaskName, count: usize) -> String {
    let mut cases = Task::new(task, 64, 3).unwrap().generate("test", count);
    cases[0].id = "<script>alert('no')</script>".into();
    let predictions: Vec<_> = cases.iter().enumerate().map(|(at, case)| prediction(case, at)).collect();
    let settings = Settings { resamples: 50, ..Settings::new("test") };
    let report = evaluate(&cases, &predictions, &settings).unwrap();
    let exhibits: Vec<_> = cases
        .iter()
        .zip(&predictions)
        .zip(&report.images)
        .map(|((case, prediction), row)| Exhibit {
            ged: Some(row.scores.ged_exact),
            ..Exhibit::new(case, prediction)
        })
        .collect();
    let mut ranked = exhibits.clone();
    ranked.sort_by(|a, b| a.ged.unwrap().total_cmp(&b.ged.unwrap()));
    let facts = [("device".to_owned(), "cpu, 2 threads".to_owned()), ("commit".into(), "0123abc".into())];
    Page {
        title: "runs/shapes & co",
        report: &report,
        log: &log(),
        recipe: "[train]\nsteps = 2000 # <b>\n",
        facts: &facts,
        skipped: &["a<b>.png: is empty".into()],
        examples: &spread(&exhibits, 8),
        best: &ranked,
        worst: &ranked.iter().rev().copied().collect::<Vec<_>>(),
    }
    .render()
}

#[test]
fn a_page_is_complete_and_nothing_in_it_is_taken_for_markup() {
    let page = page(TaskName::Shapes, 12);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(page.contains("1 of the data set could not be used") && page.contains("a&lt;b&gt;.png"));
    assert!(page.contains("steps = 2000 # &lt;b&gt;") && page.contains("runs/shapes &amp; co"));
    for address in ["http:", "https:", "src=\"/", "url("] {
        assert!(!page.contains(address), "a page asks nothing of the network, but holds {address}");
    }
    for part in [
        "What it says",
        "Loss terms",
        "Codes in use",
        "Validation GED",
        "honest",
        "Worst cases",
        "mode 4, true",
        "floor D/K",
        "STAPLE of the other readers",
        "hd95, px",
        "Larger than",
        "chance: independent readers",
        "areas among the expected ones",
        "Stated against true probabilities",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // 12 exhibits: 8 examples, 3 best, 3 worst, each with an input, four readers and five hypotheses.
    assert_eq!(page.matches("<img ").count(), 14 * 10);
}

/// A page of a report alone.
fn bare_page(details: bool) -> String {
    let cases = Task::new(TaskName::Raters, 32, 3).unwrap().generate("test", 2);
    let predictions: Vec<_> = cases.iter().map(|case| prediction(case, 0)).collect();
    let settings = Settings { resamples: 5, details, ..Settings::new("val") };
    let report = evaluate(&cases, &predictions, &settings).unwrap();
    let page = Page {
        title: "t",
        report: &report,
        log: &[],
        recipe: "",
        facts: &[],
        skipped: &[],
        examples: &[],
        best: &[],
        worst: &[],
    };
    page.render()
}

#[test]
fn a_page_without_training_has_no_curves() {
    let page = bare_page(true);
    assert!(!page.contains("Loss terms") && !page.contains("<pre>") && !page.contains("What it says"));
    assert!(page.contains("Nothing there"), "these readers overlook nodules");
}

#[test]
fn a_page_of_a_report_without_details_has_none() {
    let page = bare_page(false);
    assert!(page.contains("Nothing there") && page.contains("All scores"));
    for part in ["floor", "chance", "Larger than", "areas among"] {
        assert!(!page.contains(part), "{part}");
    }
}

/// The browser that CHROMIUM names, or one of the usual names.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = || {
        let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        names
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
            .find(|path| path.is_file())
    };
    named.or_else(usual)
}

#[test]
fn a_browser_renders_the_page_without_complaint() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium in PATH, and CHROMIUM names none");
        return;
    };
    // A place to keep the pictures, for whoever wants to look at them.
    let kept = std::env::var_os("PAGE_PICTURES").map(PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    let place = kept.as_deref().unwrap_or(folder.path());
    for task in [TaskName::Shapes, TaskName::Raters] {
        let file = place.join(format!("{task}.html"));
        std::fs::write(&file, page(task, 30)).unwrap();
        let run = |arguments: &[String]| {
            let output = Command::new(&browser)
                .args([
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--enable-logging=stderr",
                    "--log-level=0",
                ])
                .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
                .args(arguments)
                .arg(format!("file://{}", file.display()))
                .output()
                .unwrap();
            let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{complaints}");
            assert!(!complaints.contains("CONSOLE"), "{complaints}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let content = run(&["--dump-dom".into()]);
        assert!(
            content.contains("All scores") && content.contains("</footer>"),
            "the page was read to its end"
        );
        let picture = place.join(format!("{task}.png"));
        run(&[format!("--screenshot={}", picture.display()), "--window-size=1200,2400".into()]);
        assert!(drawn_on(&picture), "{} shows nothing", picture.display());
    }
}

/// Whether a picture has many colours: an empty page has one or two.
fn drawn_on(path: &Path) -> bool {
    let picture = image::open(path).unwrap().into_rgb8();
    let colours: std::collections::BTreeSet<_> = picture.pixels().map(|pixel| pixel.0).collect();
    colours.len() > 50
}
