//! Maps and sizes that `predict` writes beside the hypotheses.

use std::fs;

use serde_json::Value;

use crate::bad_files::nifti_header;
use crate::shipped::model;
use crate::workplace::Workplace;

fn pixels(count: usize) -> Vec<u8> {
    (0..count).map(|at| ((at * 7 + at / 16 * 5) % 251) as u8).collect()
}

/// A picture of 160x160 pixels that the model `shapes` has four answers for: a tiny training may say nothing of it.
fn shape(place: &Workplace) -> Vec<u8> {
    place.run(&["generate", "shapes", "--size", "160", "--count", "test=1", "--out", "set"]).succeeds();
    image::open(place.path("set/images/shapes-test-00000.png")).unwrap().into_luma8().into_raw()
}

fn document(place: &Workplace, folder: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(folder).join("prediction.json")).unwrap()).unwrap()
}

/// The binary entropy in bits.
fn entropy(p: f64) -> f64 {
    [p, 1.0 - p].iter().filter(|q| **q > 0.0).map(|q| -q * q.log2()).sum()
}

/// The probability of each pixel by what the hypotheses' files and the document say.
fn expected(document: &Value, area: usize, file: impl Fn(&str) -> Vec<bool>) -> Vec<f64> {
    let mut mean = vec![0.0; area];
    for one in document["slices"][0]["hypotheses"].as_array().unwrap() {
        let inside = file(one["file"].as_str().unwrap());
        for at in (0..area).filter(|at| inside[*at]) {
            mean[at] += one["probability"].as_f64().unwrap();
        }
    }
    mean
}

#[test]
fn maps_are_written_in_the_format_of_the_image() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let (shapes, shape) = (model("shapes"), shape(&place));
    let shapes = shapes.to_str().unwrap();
    place.png("image.png", 160, &shape);
    place.run(&["predict", shapes, "image.png", "--maps", "--out", "said"]).succeeds();
    let found = document(&place, "said/image");
    let maps = serde_json::json!({ "mean": ["mean-1.png"], "contours": ["contours-1.png"], "entropy": "entropy.png" });
    assert_eq!(found["maps"], maps);
    assert!(found["files"]["contours-1.png"].is_string());
    assert!(found["files"]["mean-1.png"].is_string() && found["files"]["entropy.png"].is_string());
    let open = |name: &str| image::open(place.path("said/image").join(name)).unwrap();
    let mean =
        expected(&found, 160 * 160, |name| open(name).into_luma8().pixels().map(|p| p.0[0] == 255).collect());
    assert!(mean.iter().any(|p| (0.01..0.99).contains(p)), "a case that hypotheses disagree on");
    for (name, wanted) in
        [("mean-1.png", mean.clone()), ("entropy.png", mean.iter().map(|p| entropy(*p)).collect())]
    {
        let map = open(name);
        assert_eq!(map.color(), image::ColorType::L16, "{name}");
        for (pixel, wanted) in map.into_luma16().pixels().zip(wanted) {
            assert!((f64::from(pixel.0[0]) / 65_535.0 - wanted).abs() < 1e-4, "{name}");
        }
    }

    // A volume of several slices, in its own place.
    let volume = [nifti_header([160, 160, 3]), shape.repeat(3)].concat();
    place.write("volume.nii", &volume);
    place.run(&["predict", shapes, "volume.nii", "--maps", "--merge", "1", "--out", "said"]).succeeds();
    let found = document(&place, "said/volume");
    let read = |name: &str| fs::read(place.path("said/volume").join(name)).unwrap();
    // All volumes there are, each with its exact probability.
    let volume_of = &found["volume"];
    assert!(volume_of["draws"].is_null() && volume_of["remaining_probability"].as_f64().unwrap() < 1e-6);
    let mut mean = vec![0.0; 3 * 160 * 160];
    for one in volume_of["hypotheses"].as_array().unwrap() {
        let labels = read(one["file"].as_str().unwrap())[352..].to_vec();
        let probability = one["probability"].as_f64().unwrap();
        mean.iter_mut().zip(labels).for_each(|(mean, label)| *mean += probability * f64::from(label));
    }
    let map = read("mean-1.nii");
    assert_eq!(
        (&map[70..74], &map[40..56], map.len()),
        (&[16, 0, 32, 0][..], &volume[40..56], 352 + 3 * 160 * 160 * 4)
    );
    let values = map[352..].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    values.zip(&mean).for_each(|(value, wanted)| assert!((f64::from(value) - wanted).abs() < 1e-5));
    assert_eq!(read("entropy.nii").len(), map.len());

    // What this program writes in other formats it also reads, as one more image.
    let mha =
        "ObjectType = Image\nNDims = 2\nDimSize = 16 16\nElementType = MET_UCHAR\nElementDataFile = LOCAL\n";
    place.write("a.mha", [mha.as_bytes(), &pixels(256)].concat());
    let nrrd = "NRRD0004\ntype: uchar\ndimension: 2\nsizes: 16 16\nencoding: raw\n\n";
    place.write("b.nrrd", [nrrd.as_bytes(), &pixels(256)].concat());
    let npy = "{'descr': '|u1', 'fortran_order': False, 'shape': (16, 16), }\n";
    let length = (npy.len() as u16).to_le_bytes();
    place.write("c.npy", [b"\x93NUMPY\x01\0".as_slice(), &length, npy.as_bytes(), &pixels(256)].concat());
    image::save_buffer(place.path("d.tiff"), &pixels(256), 16, 16, image::ExtendedColorType::L8).unwrap();
    place.write("e.nii.gz", gzipped(&[nifti_header([16, 16, 2]), pixels(512)].concat()));
    let files = ["a.mha", "b.nrrd", "c.npy", "d.tiff", "e.nii.gz"];
    place.run(&[&["predict", "run", "--maps", "--out", "said"], &files[..]].concat()).succeeds();
    for file in files {
        let (stem, ending) = file.split_once('.').unwrap();
        for map in ["mean-1", "entropy"] {
            let map = format!("said/{stem}/{map}.{ending}");
            place.run(&["predict", "run", &map, "--out", &format!("again-{stem}")]).succeeds();
        }
        let again = document(&place, &format!("again-{stem}/mean-1"));
        let slices = |document: &Value| document["slices"].as_array().unwrap().len();
        assert_eq!(slices(&again), slices(&document(&place, &format!("said/{stem}"))), "{file}");
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn sizes_are_told_with_their_distribution_and_in_millilitres() {
    let place = Workplace::new();
    let (shapes, shape) = (model("shapes"), shape(&place));
    let shapes = shapes.to_str().unwrap();
    let mut volume = [nifti_header([160, 160, 3]), shape.repeat(3)].concat();
    for (axis, spacing) in [1f32, 0.5, 0.5, 4.0].into_iter().enumerate() {
        volume[76 + 4 * axis..80 + 4 * axis].copy_from_slice(&spacing.to_le_bytes());
    }
    place.write("volume.nii", volume);
    place.png("image.png", 160, &shape);
    place.run(&["predict", shapes, "volume.nii", "image.png", "--top", "1", "--out", "said"]).succeeds();
    place.run(&["predict", shapes, "volume.nii", "image.png", "--out", "all"]).succeeds();
    let found = document(&place, "all/volume");
    assert_eq!(found["spacing"], serde_json::json!([0.5, 0.5, 4.0]));
    // The distribution is that of all hypotheses, whichever are written.
    assert_eq!(document(&place, "said/volume")["sizes"], found["sizes"]);
    let sizes = &found["sizes"][0];
    let mean: f64 = found["slices"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|slice| slice["hypotheses"].as_array().unwrap())
        .map(|one| one["probability"].as_f64().unwrap() * one["areas"][0].as_f64().unwrap())
        .sum();
    // Probabilities are f32.
    assert!((sizes["pixels"]["mean"].as_f64().unwrap() / mean - 1.0).abs() < 1e-4, "{sizes} {mean}");
    for key in ["mean", "median", "low", "high"] {
        let [pixels, ml] = ["pixels", "ml"].map(|unit| sizes[unit][key].as_f64().unwrap());
        assert!((pixels * 0.001 - ml).abs() < 1e-9, "{sizes}");
    }
    let at = |key: &str| sizes["pixels"][key].as_f64().unwrap();
    assert!(at("low") <= at("median") && at("median") <= at("high") && at("high") > 0.0, "{sizes}");
    let flat = document(&place, "all/image");
    assert!(
        flat["spacing"].is_null()
            && flat["sizes"][0].get("mm2").is_none()
            && flat["sizes"][0]["pixels"].is_object()
    );
}
