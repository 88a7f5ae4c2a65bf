//! The page as text, and in a real browser where one is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::synthetic::{Task, TaskName};
use multivalued_data::{Case, Hypothesis, Prediction};

use super::*;
use crate::log::Numbers;

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

/// The page of so many cases, the first of which has a name that is markup.
fn page(task: TaskName, count: usize) -> String {
    let mut cases = Task::new(task, 64, 3).unwrap().generate("test", count);
    cases[0].id = HOSTILE.into();
    let predictions: Vec<_> = cases.iter().enumerate().map(|(at, case)| prediction(case, at)).collect();
    let settings = Settings { resamples: 50, ..Settings::new("test") };
    let report = evaluate(&cases, &predictions, &settings).unwrap();
    let areas: Vec<_> =
        cases.iter().zip(&predictions).map(|(case, said)| Areas::of(case, said, settings.unit)).collect();
    let groups = groups(&report.images);
    let pictured = pictured(&groups);
    let picture =
        |&number: &usize| Pictured { number, case: &cases[number], prediction: &predictions[number] };
    let facts = [("device".to_owned(), "cpu, 2 threads".to_owned()), ("commit".into(), "0123abc".into())];
    Page {
        title: "runs/shapes & co",
        report: &report,
        log: &log(),
        recipe: "[train]\nsteps = 2000 # <b>\n",
        facts: &facts,
        skipped: &["a<b>.png: is empty".into()],
        areas: &areas,
        groups: &groups,
        pictured: &pictured.iter().map(picture).collect::<Vec<_>>(),
    }
    .render()
}

/// A case's name that must not become markup, nor end the element that holds the page's data.
const HOSTILE: &str = "</script><script>alert('no')</script>";

/// The page's data, as its script reads them.
fn data(page: &str) -> serde_json::Value {
    let text = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_page_is_complete_and_nothing_in_it_is_taken_for_markup() {
    let page = page(TaskName::Shapes, 12);
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    assert!(page.contains("1 of the data set could not be used") && page.contains("a&lt;b&gt;.png"));
    assert!(page.contains("steps = 2000 # &lt;b&gt;") && page.contains("runs/shapes &amp; co"));
    // The namespace of SVG is a name, not an address.
    let asked = page.replace("http://www.w3.org/2000/svg", "");
    for address in ["http:", "https:", "src=\"/", "url(", "fetch(", "import("] {
        assert!(!asked.contains(address), "a page asks nothing of the network, but holds {address}");
    }
    assert!(page.contains("default-src 'none'"));
    for part in [
        "What it says",
        "Loss terms",
        "Codes in use",
        "Validation GED",
        "honest",
        "The highest GED first",
        "mode 4, true",
        "floor D/K",
        "STAPLE of the other readers",
        "hd95, px",
        "Larger than",
        "chance: independent readers",
        "areas among the expected ones",
        "Stated against true probabilities",
        "readers\u{2019} own spread: mean distance",
        "readers\u{2019} own spread <b>",
        " pixels</title>",
        "bins</summary>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let data = data(&page);
    assert_eq!(data["table"]["rows"].as_array().unwrap().len(), 12);
    assert_eq!(data["table"]["rows"][0][0], HOSTILE);
    assert_eq!(data["groups"].as_array().unwrap().len(), 1, "of few cases all are shown");
    assert_eq!(page.matches("<article").count(), 12);
    let picture = &data["pictures"]["3"];
    assert_eq!((&picture["width"], picture["hypotheses"].as_array().unwrap().len()), (&64.into(), 5));
    assert_eq!(picture["readers"].as_array().unwrap().len(), 4);
}

#[test]
fn of_many_cases_some_have_pictures_and_all_are_in_the_table() {
    let page = page(TaskName::Raters, 60);
    let data = data(&page);
    let rows = data["table"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 60);
    // Twice: a dot in either chart.
    assert_eq!(page.matches(" data-case=\"59\"/>").count(), 2);
    let (groups, pictures) = (data["groups"].as_array().unwrap(), data["pictures"].as_object().unwrap());
    assert_eq!(groups.len(), 5);
    assert!((16..=30).contains(&pictures.len()) && page.contains("60 cases have pictures here"));
    let titles = data["table"]["columns"].as_array().unwrap();
    let column = |name: &str| titles.iter().position(|one| one["title"] == name).unwrap();
    let ged =
        |case: &serde_json::Value| rows[case.as_u64().unwrap() as usize][column("GED")].as_f64().unwrap();
    let of = |name: &str| groups.iter().find(|one| one["name"] == name).unwrap()["cases"].as_array().unwrap();
    let highest = rows.iter().map(|row| row[column("GED")].as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!(ged(&of("Worst")[0]), highest);
    assert!(ged(&of("Best")[0]) <= ged(&of("Typical")[0]) && ged(&of("Typical")[3]) <= ged(&of("Worst")[7]));
    for case in groups.iter().flat_map(|group| group["cases"].as_array().unwrap()) {
        assert!(pictures.contains_key(&case.to_string()), "{case}");
    }
    let area = &rows[5][column("area, px")];
    assert!(area[1].as_f64() <= area[0].as_f64() && area[0].as_f64() <= area[2].as_f64(), "{area}");
    assert!(page.len() < 900_000, "{} bytes", page.len());
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
        areas: &[],
        groups: &[],
        pictured: &[],
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
    let page = page.split("<script").next().unwrap();
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

/// What the page is asked to do by a script that stands after its own; the answer becomes an attribute of the body.
const ASKED: &str = r#"<script>
addEventListener("load", async () => {
  const wait = () => new Promise((done) => setTimeout(done, 200));
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = () => all("article.case").filter((one) => !one.hidden);
  const sorted = (values, sign) => values.every((value, at) => !at || sign * (value - values[at - 1]) >= 0);
  // Pictures are drawn as they come near, which a browser without a window may put off; before printing all are.
  const draw = () => dispatchEvent(new Event("beforeprint"));
  const found = {};
  draw();
  await wait();
  found.tiles = shown()[0].querySelectorAll("canvas").length;
  const pixels = shown()[0].querySelector(".views figure:nth-child(3) canvas").getContext("2d").getImageData(0, 0, 400, 400).data;
  found.orange = pixels.some((value, at) => at % 4 === 0 && value > 150 && pixels[at + 1] < value - 40 && pixels[at + 2] < 100);
  const column = all("table.cases thead button").findIndex((one) => one.textContent.startsWith("GED"));
  const geds = () => all("table.cases tbody tr").map((row) => Number(row.children[column].textContent));
  found.falling = sorted(geds(), -1);
  all("table.cases thead button")[column].click();
  found.rising = sorted(geds(), 1) && all("th[aria-sort=ascending]").length === 1;
  const search = document.querySelector(".finder input");
  search.value = "alert";
  search.dispatchEvent(new Event("input"));
  found.rows = all("table.cases tbody tr").length;
  all(".chooser button")[1].click();
  const worst = shown().map((one) => Number(one.querySelector(".told b").textContent));
  found.worst = worst.length === 8 && sorted(worst, -1);
  const circle = document.querySelector("g.case circle");
  circle.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  found.tip = !document.querySelector(".tip").hidden && document.querySelector(".tip b").textContent.length > 3;
  draw();
  await wait();
  shown()[0].querySelector(".views figure:nth-child(4) button").click();
  const dialog = document.querySelector("dialog[open]");
  found.dialog = dialog.querySelector("input[value=mean]").checked && dialog.querySelectorAll(".card").length > 1;
  dialog.querySelector("canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "2", bubbles: true }));
  found.selected = dialog.querySelectorAll(".card[aria-pressed=true]").length;
  dialog.close();
  location.hash = "case-" + all("article.case[hidden]")[0].dataset.case;
  await wait();
  found.followed = document.activeElement.id === location.hash.slice(1) && !document.activeElement.hidden;
  document.body.dataset.found = JSON.stringify(found);
});
</script>"#;

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
        let asked = place.join(format!("{task}-asked.html"));
        let page = page(task, 30);
        std::fs::write(&asked, page.replace("</body>", &format!("{ASKED}</body>"))).unwrap();
        std::fs::write(&file, page).unwrap();
        let run = |file: &Path, arguments: &[String]| {
            let output = Command::new(&browser)
                .args([
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--enable-logging=stderr",
                    "--log-level=0",
                    "--virtual-time-budget=4000",
                    "--window-size=1200,2400",
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
        let content = run(&asked, &["--dump-dom".into()]);
        let found = content.split("data-found=\"").nth(1).and_then(|rest| rest.split('"').next());
        let found = found.unwrap_or_else(|| panic!("the page did not answer")).replace("&quot;", "\"");
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let hypotheses = if task == TaskName::Shapes { 5 } else { found["tiles"].as_u64().unwrap() - 5 };
        assert_eq!(
            found,
            serde_json::json!({
                "tiles": 5 + hypotheses, "orange": true, "falling": true, "rising": true, "rows": 1, "worst": true,
                "tip": true, "dialog": true, "selected": 1, "followed": true,
            })
        );
        assert!(
            content.contains("All scores") && content.contains("</footer>"),
            "the page was read to its end"
        );
        let picture = place.join(format!("{task}.png"));
        run(&file, &[format!("--screenshot={}", picture.display())]);
        assert!(drawn_on(&picture), "{} shows nothing", picture.display());
    }
}

/// Whether a picture has many colours: an empty page has one or two.
fn drawn_on(path: &Path) -> bool {
    let picture = image::open(path).unwrap().into_rgb8();
    let colours: std::collections::BTreeSet<_> = picture.pixels().map(|pixel| pixel.0).collect();
    colours.len() > 50
}
