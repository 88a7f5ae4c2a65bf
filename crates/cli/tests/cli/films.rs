//! Real radiographs: from a folder of films to a data set with truth, and on to a run.

use std::path::Path;

use multivalued_data::dataset::{Dataset, Options, Roster};
use multivalued_data::{Case, Mask};

use crate::workplace::Workplace;

const SIDE: u32 = 24;

impl Workplace {
    /// A folder of made-up films: grey pictures with two rectangles for lungs.
    fn films(&self, folder: &str, list: &str, names: &[&str]) {
        let pixels = |f: &dyn Fn(u32, u32) -> u8| -> Vec<u8> {
            (0..SIDE * SIDE).map(|at| f(at % SIDE, at / SIDE)).collect()
        };
        let inside = |x: u32, y: u32| (4..20).contains(&y) && ((3..10).contains(&x) || (14..21).contains(&x));
        for (at, name) in names.iter().enumerate() {
            let film = pixels(&|x, y| if inside(x, y) { 40 + at as u8 } else { 160 + (x + y) as u8 });
            self.png(&format!("{folder}/images/{name}"), SIDE, &film);
            let mask = pixels(&|x, y| if inside(x, y) { 255 } else { 0 });
            self.png(&format!("{folder}/masks/{name}"), SIDE, &mask);
        }
        self.write(&format!("{folder}/split.csv"), list);
    }
}

const LIST: &str = "file,split\nc.png,train\na.png,train\nb.png,test\nbroken.png,unused\n";

fn cases_of(folder: &Path) -> (Vec<Case>, Vec<(String, usize)>) {
    let dataset = Dataset::open(folder, &Options::default()).unwrap();
    let cases = dataset.load().unwrap();
    let split = dataset.stated_split(&Roster::of(&cases)).unwrap().unwrap();
    let parts = split.parts().iter().map(|(name, ids)| (name.clone(), ids.len())).collect();
    (cases, parts)
}

#[test]
fn films_become_a_data_set_with_truth_in_their_splits() {
    let place = Workplace::new();
    place.films("films", LIST, &["a.png", "b.png", "c.png"]);
    let said = place.run(&["generate", "lung-opacity", "--films", "films", "--out", "set"]).succeeds().out;
    assert!(said.contains("3 cases of lung-opacity (train 2, test 1)"), "{said}");
    let (cases, parts) = cases_of(&place.path("set"));
    assert_eq!(parts, [("test".to_owned(), 1), ("train".to_owned(), 2)]);
    for case in &cases {
        let [complete, cautious] = &case.annotations[..] else { panic!("{:?}", case.annotations) };
        assert_eq!(complete.rater.as_deref(), Some("complete"));
        let covered = |mask: &Mask| (mask.area(0), mask.width(), mask.height());
        assert_eq!(covered(&complete.mask), (2 * 7 * 16, SIDE as usize, SIDE as usize), "{}", case.id);
        assert!(cautious.mask.area(0) < complete.mask.area(0), "{}", case.id);
        let truth = case.truth.as_ref().unwrap();
        assert_eq!((truth.len(), truth[0].probability), (2, 0.5));
        // The opacity makes the film brighter, in the file's own range.
        let lungs = |at: &usize| complete.mask.get(0, at % SIDE as usize, at / SIDE as usize);
        let brightest = (0..case.image.pixels().len()).filter(lungs).map(|at| case.image.pixels()[at]);
        assert!(brightest.fold(0.0, f32::max) > 60.0 / 255.0 * 65_535.0, "{}", case.id);
    }
    // The seed decides.
    place.run(&["generate", "lung-opacity", "--films", "films", "--out", "again"]).succeeds();
    assert_eq!(cases_of(&place.path("again")).0, cases);
    place.run(&["generate", "lung-opacity", "--films", "films", "--seed", "2", "--out", "other"]).succeeds();
    assert_ne!(cases_of(&place.path("other")).0, cases);
}

#[test]
fn films_that_cannot_be_used_are_named_with_the_remedy() {
    let place = Workplace::new();
    place.films("films", LIST, &["a.png", "b.png", "c.png"]);
    let generate = |films: &str| place.run(&["generate", "lung-opacity", "--films", films, "--out", "set"]);
    generate("nowhere").fails(2, &["nowhere", "no such file"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    generate("empty").fails(2, &["empty", "split.csv", "images/"]);
    for (list, parts) in [
        ("name,part\na.png,train\n", &["split.csv", "file,split"][..]),
        ("file,split\na.png,unused\n", &["split.csv", "no film"]),
        ("file,split\na.png,train\na.jpg,test\n", &["split.csv", "a.jpg", "twice"]),
        ("file,split\n../a.png,train\n", &["split.csv", "../a.png", "images/"]),
        ("file,split\na.png,to train\n", &["split.csv", "to train", "letters"]),
        ("file,split\nbroken.png,train\n", &["images/broken.png", "no such file"]),
    ] {
        place.write("films/split.csv", list);
        generate("films").fails(2, parts);
    }
    place.write("films/split.csv", LIST);
    place.png("films/masks/c.png", 2, &[0, 255, 255, 0]);
    generate("films").fails(2, &["'c'", "(24, 24)", "(2, 2)", "same size"]);
    std::fs::remove_file(place.path("films/masks/c.png")).unwrap();
    generate("films").fails(2, &["masks/c.png", "no such file"]);
    let generate = |more: &[&str]| {
        place.run(&[&["generate", "shapes", "--films", "films", "--out", "set2"], more].concat())
    };
    generate(&[]).fails(2, &["--films", "lung-opacity"]);
    generate(&["--count", "train=3"]).fails(2, &["--count", "--films"]);
    assert!(!place.path("set2").exists());
}

#[test]
fn the_recipe_trains_on_real_films() {
    let place = Workplace::new();
    if !place.unpack("chest-xray", &[]) {
        return;
    }
    let said =
        place.run(&["generate", "lung-opacity", "--films", "chest-xray", "--out", "set"]).succeeds().out;
    assert!(said.contains("703 cases of lung-opacity (train 640, test 63)"), "{said}");
    // The recipe names a task; the folder takes its place. A small network, two steps.
    let mut arguments = vec!["train", "lung-opacity", "--data", "set", "--out", "run", "--device", "cpu"];
    for set in
        ["train.epochs=0", "train.steps=2", "train.warmup_steps=1", "model.channels=[4,8]", "train.batch=2"]
    {
        arguments.extend(["--set", set]);
    }
    place.run(&arguments).trained();
    let report = std::fs::read_to_string(place.path("run/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["summary"]["cases"], 63);
    let floor = report["summary"]["oracle_ged"].as_f64().unwrap();
    assert!((0.005..0.03).contains(&floor), "{floor}");
}
