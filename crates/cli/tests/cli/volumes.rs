//! Volumes as a whole: coherent hypotheses, their scores, neighbouring slices as channels; and large images in strips.

use std::fs;

use serde_json::Value;

use crate::bad_files::nifti_header;
use crate::memory::watched;
use crate::workplace::Workplace;

/// A NIfTI file of 16x16 slices with a disc in each, brighter than the noise around it, 0.5 x 0.5 x 2 mm.
fn scan(slices: usize, radius: f64, brightness: u8) -> Vec<u8> {
    scan_at(0.5, slices, radius, brightness)
}

/// The same with columns and rows so far apart.
fn scan_at(step: f32, slices: usize, radius: f64, brightness: u8) -> Vec<u8> {
    let mut bytes = nifti_header([16, 16, slices as i16]);
    for (axis, spacing) in [1f32, step, step, 2.0].into_iter().enumerate() {
        bytes[76 + 4 * axis..80 + 4 * axis].copy_from_slice(&spacing.to_le_bytes());
    }
    for at in 0..256 * slices {
        let (x, y) = ((at % 16) as f64, (at / 16 % 16) as f64);
        let inside = (x - 8.0).hypot(y - 8.0) < radius;
        let noise = if brightness > 1 { (at * 7 % 23) as u8 } else { 0 };
        bytes.push(noise + if inside { brightness } else { 0 });
    }
    bytes
}

/// Four volumes, each with a narrow and a wide reader.
fn data_set(place: &Workplace, folder: &str) {
    let mut rows = String::new();
    for at in 0..8 {
        place.write(&format!("{folder}/{at}.nii"), scan(4, 3.0 + 0.3 * at as f64, 180));
        for (reader, more) in [("narrow", 0.0), ("wide", 1.2)] {
            place.write(&format!("{folder}/{at}-{reader}.nii"), scan(4, 2.6 + 0.3 * at as f64 + more, 1));
        }
        rows += &format!(
            "{{\"id\": \"p{at}\", \"image\": \"{at}.nii\", \"labels\": [\"{at}-narrow.nii\", \"{at}-wide.nii\"]}}\n"
        );
    }
    place.write(&format!("{folder}/manifest.jsonl"), rows);
}

fn document(place: &Workplace, folder: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(folder).join("prediction.json")).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
}

#[test]
fn hypotheses_of_a_volume_are_whole_volumes() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.write("scan.nii", scan(6, 4.0, 180));
    let said = place
        .run(&["predict", "run", "scan.nii", "--samples", "3", "--seed", "5", "--out", "said"])
        .succeeds();
    assert!(said.out.contains("volume: ") && said.out.contains(" ml, 90 %: "), "{}", said.out);
    let found = document(&place, "said/scan");
    assert_eq!(found["version"], 3);
    let volume = &found["volume"];
    let hypotheses = volume["hypotheses"].as_array().unwrap();
    let sum = |key: &str| hypotheses.iter().map(|one| one[key].as_f64().unwrap()).sum::<f64>();
    let remaining = volume["remaining_probability"].as_f64().unwrap();
    assert!((sum("probability") + remaining - 1.0).abs() < 1e-6 && (sum("nearest_share") - 1.0).abs() < 1e-6);
    let areas = |file: &str| -> Vec<usize> {
        let bytes = fs::read(place.path("said/scan").join(file)).unwrap();
        bytes[352..]
            .chunks_exact(256)
            .map(|slice| slice.iter().filter(|label| **label == 1).count())
            .collect()
    };
    for one in hypotheses {
        let of_file = areas(one["file"].as_str().unwrap());
        // Each slice of the file is the one of the slice's own list that the document names.
        for (z, (member, area)) in numbers(&one["members"]).into_iter().zip(&of_file).enumerate() {
            assert_eq!(found["slices"][z]["hypotheses"][member]["areas"][0], *area, "slice {z}");
        }
        let voxels: usize = of_file.iter().sum();
        assert_eq!(numbers(&one["voxels"]), [voxels]);
        assert!((one["ml"][0].as_f64().unwrap() - voxels as f64 * 0.0005).abs() < 1e-9);
    }
    assert!(found["slices"][0]["hypotheses"][0]["file"].is_null(), "no file holds single slices");
    let size = &found["sizes"][0]["ml"];
    let [low, median, high] = ["low", "median", "high"].map(|key| size[key].as_f64().unwrap());
    assert!(low <= median && median <= high);
    // The same seed draws the same volumes, another one does not have to.
    let sample = |out: &str| fs::read(place.path(out).join("scan/sample-2.nii")).unwrap();
    place.run(&["predict", "run", "scan.nii", "--samples", "3", "--seed", "5", "--out", "again"]).succeeds();
    assert_eq!(sample("said"), sample("again"));
    place.run(&["predict", "run", "scan.nii", "--top", "1", "--out", "one"]).succeeds();
    assert!(!place.path("one/scan/hypothesis-2.nii").exists());
}

#[test]
fn volumes_are_scored_and_their_neighbours_may_be_channels() {
    let place = Workplace::with_recipe();
    data_set(&place, "set");
    let text = place.run(&["plan", "set"]).succeeds().out;
    assert!(text.contains("context = 1") && text.contains("slices of volumes, 4.0 columns apart"), "{text}");
    let alone = ["--data", "set", "--set", "data.test_share=0.3", "--set", "data.validation_share=0.3"];
    place.train("alone", &alone).trained();
    let both = [&alone[..], &["--set", "data.context=1", "--set", "model.input_channels=3"]].concat();
    place.train("both", &both).trained();
    place
        .train("bad", &[&alone[..], &["--set", "data.context=1"]].concat())
        .fails(2, &["model.input_channels", "set it to 3"]);
    for run in ["alone", "both"] {
        let said = place.run(&["evaluate", run, "--json", "report.json"]).succeeds();
        assert!(said.out.contains("volume_coverage"), "{}", said.out);
        let report: Value = serde_json::from_slice(&fs::read(place.path("report.json")).unwrap()).unwrap();
        let volumes = &report["volumes"];
        assert_eq!((&volumes["unit"], &volumes["without_readers"]), (&"ml".into(), &0.into()));
        let row = &volumes["volumes"][0];
        assert_eq!(
            (row["slices"].as_u64(), row["sizes"][0]["readers"].as_array().map(Vec::len)),
            (Some(4), Some(2))
        );
        place.run(&["evaluate", run, "--require", "volume_ged<=0"]).fails(1, &["volume_ged is"]);
        place.run(&["predict", run, "set/3.nii", "--out", run.to_uppercase().as_str()]).succeeds();
        assert_eq!(
            document(&place, &format!("{}/3", run.to_uppercase()))["slices"].as_array().map(Vec::len),
            Some(4)
        );
        // A slice by itself stands for its neighbours, too.
        place.png("slice.png", 16, &[9; 256]);
        place.run(&["predict", run, "slice.png", "--out", &format!("{run}-slice")]).succeeds();
    }
    let other = place.run(&["evaluate", "both", "--data", "set", "--split", "test"]).succeeds();
    assert!(other.out.contains("whole volumes"), "{}", other.out);
}

#[test]
fn images_of_different_spacing_are_brought_to_one_and_masks_back() {
    let place = Workplace::with_recipe();
    let mut rows = String::new();
    for at in 0..8 {
        // One structure of 3 mm, in pixels of different size.
        let step = [0.5, 0.8][at % 2];
        let radius = 3.0 / f64::from(step);
        place.write(&format!("set/{at}.nii"), scan_at(step, 3, radius, 180));
        place.write(&format!("set/{at}-mask.nii"), scan_at(step, 3, radius, 1));
        rows += &format!("{{\"id\": \"p{at}\", \"image\": \"{at}.nii\", \"labels\": [\"{at}-mask.nii\"]}}\n");
    }
    place.write("set/manifest.jsonl", rows);
    let text = place.run(&["plan", "set"]).succeeds().out;
    assert!(text.contains("columns are 0.5 to 0.8 apart") && text.contains("spacing = 0."), "{text}");
    let sets =
        ["data.spacing=0.4", "augment.crop=[32, 32]", "data.test_share=0.3", "data.validation_share=0.3"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    place.train("run", &[&["--data", "set"], &sets[..]].concat()).trained();
    place.run(&["evaluate", "run"]).succeeds();
    place.run(&["predict", "run", "set/1.nii", "--maps", "--out", "said"]).succeeds();
    let (image, mask) = (
        fs::read(place.path("set/1.nii")).unwrap(),
        fs::read(place.path("said/1/hypothesis-1.nii")).unwrap(),
    );
    assert_eq!((&mask[40..56], &mask[76..108], mask.len()), (&image[40..56], &image[76..108], image.len()));
    place
        .train("both", &["--set", "data.spacing=0.4", "--set", "data.resize=[16, 16]"])
        .fails(2, &["data.spacing", "not to both"]);
}

/// A picture with structure at all scales.
fn picture(side: usize) -> Vec<u8> {
    let value = |at: usize| {
        let (x, y) = ((at % side) as f64, (at / side) as f64);
        let triangle = (y - 0.3 * side as f64) > (x - 0.5 * side as f64).abs() && y < 0.7 * side as f64;
        let texture = (x / 17.0).sin() * (y / 23.0).cos() * 20.0 + (at * 37 % 17) as f64;
        (60.0 + texture + if triangle { 120.0 } else { 0.0 }).clamp(0.0, 255.0) as u8
    };
    (0..side * side).map(value).collect()
}

#[test]
fn a_large_image_is_the_same_in_strips_and_takes_less_memory() {
    let place = Workplace::new();
    place.png("image.png", 640, &picture(640));
    for name in ["shapes", "lidc"] {
        let model = format!("{}/../../models/{name}", env!("CARGO_MANIFEST_DIR"));
        let predict = |out: &str, memory: &str| {
            let out = format!("{name}-{out}");
            let arguments =
                ["predict", &model, "image.png", "--views", "1", "--out", &out, "--memory", memory];
            let (answer, most) = watched(&place, &arguments);
            answer.succeeds();
            (document(&place, &format!("{out}/image")), out, most)
        };
        let (whole, whole_out, whole_most) = predict("whole", "8GiB");
        let (strips, strips_out, strips_most) = predict("strips", "96MiB");
        if let (Some(whole), Some(strips)) = (whole_most, strips_most) {
            assert!(strips * 10 < whole * 7, "{strips} bytes in strips, {whole} whole");
            assert!(strips < 400 << 20, "{strips} bytes");
        }
        let list = |document: &Value| document["slices"][0]["hypotheses"].as_array().unwrap().clone();
        let (whole, strips) = (list(&whole), list(&strips));
        assert_eq!(whole.len(), strips.len());
        let mask = |out: &str, one: &Value| {
            let path = place.path(out).join("image").join(one["file"].as_str().unwrap());
            image::open(path).unwrap().into_luma8().into_raw()
        };
        let overlap = |a: &[u8], b: &[u8]| {
            let count = |of: fn(bool, bool) -> bool| {
                a.iter().zip(b).filter(|(a, b)| of(**a > 0, **b > 0)).count() as f64
            };
            let (both, either) = (count(|a, b| a && b), count(|a, b| a || b));
            if either == 0.0 { 1.0 } else { both / either }
        };
        for one in &whole {
            let own = mask(&whole_out, one);
            // A code may have several outlines.
            let same = strips.iter().filter(|other| other["code"] == one["code"]);
            let same = same.map(|other| (overlap(&own, &mask(&strips_out, other)), other));
            let (iou, same) = same.max_by(|a, b| a.0.total_cmp(&b.0)).expect("its code");
            assert!(iou >= 0.98, "{name}: IoU {iou}");
            let [p, q] = [one, same].map(|one| one["probability"].as_f64().unwrap());
            assert!((p - q).abs() < 0.01, "{name}: {p} and {q}");
        }
    }
    let model = format!("{}/../../models/shapes", env!("CARGO_MANIFEST_DIR"));
    place
        .run(&["predict", &model, "image.png", "--memory", "1MiB", "--out", "none"])
        .fails(2, &["image.png", "--memory", "640x640"]);
    place.run(&["predict", &model, "image.png", "--memory", "much"]).fails(2, &["2GiB"]);
}
