//! `predict` on whole data sets: every layout, several files as channels, going on, replacing, and bad cases.

use std::fs;

use serde_json::Value;

use crate::bad_files::nifti_header;
use crate::workplace::Workplace;

/// 16x16 pixels that differ from number to number.
fn pixels(seed: usize) -> Vec<u8> {
    (0..256).map(|at| ((at * 7 + seed * 31) % 251) as u8).collect()
}

fn nifti(slices: &[Vec<u8>]) -> Vec<u8> {
    [nifti_header([16, 16, slices.len() as i16]), slices.concat()].concat()
}

fn document(place: &Workplace, folder: &str) -> Value {
    let path = place.path(folder).join("prediction.json");
    serde_json::from_slice(&fs::read(&path).unwrap_or_else(|_| panic!("{}", path.display()))).unwrap()
}

/// The folders below `out` that hold a prediction.
fn predicted(place: &Workplace, out: &str) -> Vec<String> {
    fn below(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.ends_with("prediction.json") {
                found.push(folder.to_owned());
            }
        }
    }
    let (root, mut found) = (place.path(out), Vec::new());
    below(&root, &mut found);
    let mut names: Vec<String> =
        found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_layout_is_predicted_with_and_without_masks() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let mask: Vec<u8> = (0..=255).map(|at| if at < 64 { 255 } else { 0 }).collect();
    for at in 0..2 {
        let image = |name: String| place.png(&name, 16, &pixels(at));
        let drawn = |name: String| place.png(&name, 16, &mask);
        image(format!("manifest/pics/{at}.png"));
        image(format!("slices/P{at}/nodule-0/images/slice-0.png"));
        drawn(format!("slices/P{at}/nodule-0/mask-0/slice-0.png"));
        image(format!("crops/images/P{at}/z.png"));
        drawn(format!("crops/gt/P{at}/z_l0.png"));
        image(format!("nnunet/imagesTr/c{at}_0000.png"));
        image(format!("folders/images/c{at}x.png"));
        drawn(format!("folders/masks/c{at}x.png"));
        image(format!("beside/c{at}x.png"));
        drawn(format!("beside/c{at}x_seg01.png"));
        image(format!("cases/c{at}/image.png"));
        drawn(format!("cases/c{at}/label0.png"));
        image(format!("plain/c{at}.png"));
    }
    place.write("manifest/list.csv", "id,image,labels\np0/a,pics/0.png,\np0/b,pics/1.png,\n");
    for (data, layout, names) in [
        ("manifest/list.csv", "manifest", ["p0/a", "p0/b"]),
        ("slices", "lidc-slices", ["P0/nodule-0/slice-0", "P1/nodule-0/slice-0"]),
        ("crops", "lidc-crops", ["P0/z", "P1/z"]),
        ("nnunet", "nnunet", ["c0", "c1"]),
        ("folders", "image-folders", ["c0x", "c1x"]),
        ("beside", "side-by-side", ["c0x", "c1x"]),
        ("cases", "case-folders", ["c0", "c1"]),
        ("plain", "", ["c0", "c1"]),
    ] {
        let said = place.run(&["predict", "run", data, "--out", &format!("said-{layout}")]).succeeds();
        assert_eq!(predicted(&place, &format!("said-{layout}")), names, "{layout}");
        assert_eq!(said.err.contains(&format!("in the layout {layout}")), !layout.is_empty(), "{}", said.err);
        assert!(said.out.contains("2 images predicted") && said.out.contains("a second"), "{}", said.out);
        if !layout.is_empty() {
            place
                .run(&["predict", "run", data, "--layout", layout, "--out", &format!("l-{layout}")])
                .succeeds();
        }
        let found = document(&place, &format!("said-{layout}/{}", names[1]));
        assert_eq!((&found["version"], &found["id"]), (&3.into(), &names[1].into()));
    }
    // The same pixels in another layout give the same prediction.
    let slices = |folder: &str| document(&place, folder)["slices"].clone();
    assert_eq!(slices("said-nnunet/c1"), slices("said-case-folders/c1"));
    place
        .run(&["predict", "run", "plain", "--layout", "nnunet", "--out", "x"])
        .fails(2, &["plain", "nnunet"]);
    for id in ["../out", "/tmp/out", "a/../../b"] {
        place.write("manifest/bad.csv", format!("id,image\n{id},pics/0.png\n"));
        place
            .run(&["predict", "run", "manifest/bad.csv", "--out", "x"])
            .fails(2, &["pics/0.png", id, "cannot be the name of a folder"]);
    }
    place.write("manifest/bad.csv", "id,image\na,pics/0.png\na/b,pics/1.png\n");
    place
        .run(&["predict", "run", "manifest/bad.csv", "--out", "x"])
        .fails(2, &["pics/1.png", "inside of that of 'a'"]);
    assert!(!place.path("x").exists());
}

#[test]
fn several_files_are_the_channels_of_an_image() {
    let place = Workplace::with_recipe();
    let mask: Vec<u8> = (0..=255).map(|at| u8::from(at < 64)).collect();
    for at in 0..12 {
        for channel in 0..2 {
            place.write(
                &format!("set/imagesTr/c{at:02}_000{channel}.nii"),
                nifti(&[pixels(2 * at + channel)]),
            );
        }
        place.write(&format!("set/labelsTr/c{at:02}.nii"), nifti(std::slice::from_ref(&mask)));
    }
    place.train("run", &["--data", "set", "--set", "model.input_channels=2"]).trained();
    place.run(&["predict", "run", "set", "--out", "set-said"]).succeeds();
    place.run(&["predict", "run", "set/imagesTr", "--out", "plain-said"]).succeeds();
    let all = predicted(&place, "set-said");
    assert_eq!((all.len(), &all), (12, &predicted(&place, "plain-said")));
    let two = ["set/imagesTr/c03_0000.nii", "set/imagesTr/c03_0001.nii"];
    place.run(&["predict", "run", two[0], two[1], "--out", "files-said"]).succeeds();
    place.write("list.csv", format!("id,image\nmine,{};{}\n", two[0], two[1]));
    place.run(&["predict", "run", "list.csv", "--out", "list-said"]).succeeds();
    let of_set = document(&place, "set-said/c03");
    assert_eq!(of_set["images"].as_array().map(Vec::len), Some(2));
    for other in ["plain-said/c03", "files-said/c03", "list-said/mine"] {
        let found = document(&place, other);
        assert_eq!((&found["slices"], &found["images"]), (&of_set["slices"], &of_set["images"]), "{other}");
    }
    // Two slices of one file are the channels, too, where the model takes two; the mask has the file's size.
    place.write("both.nii", nifti(&[pixels(6), pixels(7)]));
    place.run(&["predict", "run", "both.nii", "--maps", "--out", "both-said"]).succeeds();
    assert_eq!(document(&place, "both-said/both")["slices"], of_set["slices"]);
    let mask = fs::read(place.path("both-said/both/hypothesis-1.nii")).unwrap();
    assert_eq!((mask.len(), &mask[352..608]), (352 + 512, &mask[608..]));
    // A channel that is missing is told, and loses no other image.
    fs::remove_file(place.path("set/imagesTr/c05_0001.nii")).unwrap();
    for (data, fault) in [("set", "it has 1 channels, the model takes 2"), ("set/imagesTr", "channels 0000")]
    {
        let out = format!("less-{}", data.len());
        place.run(&["predict", "run", data, "--out", &out]).fails(1, &["c05", fault, "1 of 12 images"]);
        assert_eq!(predicted(&place, &out).len(), 11);
    }
    place.run(&["predict", "run", two[0], "--out", "x"]).fails(2, &["c03", "channels 0000", "0000 to 0001"]);
}

#[test]
fn what_is_complete_is_skipped_and_what_is_not_is_made_again() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    (0..6).for_each(|at| place.png(&format!("images/c{at}.png"), 16, &pixels(at)));
    let predict = |more: &[&str]| place.run(&[&["predict", "run", "images", "--out", "said"], more].concat());
    predict(&[]).succeeds();
    predict(&[]).fails(2, &["said/c0", "not empty", "--resume", "--overwrite"]);
    let before: Vec<Value> = (0..6).map(|at| document(&place, &format!("said/c{at}"))).collect();
    let written = |at: usize| {
        fs::metadata(place.path(&format!("said/c{at}/prediction.json"))).unwrap().modified().unwrap()
    };
    let times: Vec<_> = (0..6).map(written).collect();
    assert!(predict(&["--resume"]).succeeds().out.contains("0 images predicted, 6 complete before"));

    fs::remove_file(place.path("said/c1/hypothesis-1.png")).unwrap();
    place.png("said/c2/hypothesis-1.png", 16, &pixels(9));
    fs::remove_file(place.path("said/c3/prediction.json")).unwrap();
    place.write("said/c3/.0123456789abcdef.part", "half");
    place.png("images/c4.png", 16, &pixels(40));
    fs::remove_dir_all(place.path("said/c5")).unwrap();
    let said = predict(&["--resume"]).succeeds();
    assert!(said.out.contains("5 images predicted, 1 complete before"), "{}", said.out);
    assert_eq!(written(0), times[0]);
    for at in [0, 1, 2, 3, 5] {
        assert_eq!(document(&place, &format!("said/c{at}")), before[at], "c{at}");
    }
    assert_ne!(document(&place, "said/c4")["pixels_blake3"], before[4]["pixels_blake3"]);
    assert!(!place.path("said/c3/.0123456789abcdef.part").exists());

    // Predictions of one folder are of one model and one choice of options.
    predict(&["--resume", "--top", "1"]).fails(2, &["said/c0", "with other options", "--overwrite"]);
    place.train("other", &["--set", "train.seed=5"]).trained();
    place
        .run(&["predict", "other", "images", "--resume", "--out", "said"])
        .fails(2, &["said/c0", "another model", "--overwrite"]);
    predict(&["--resume", "--overwrite"]).fails(2, &["cannot be used with"]);
    place.write("said/c0/prediction.json", r#"{"format": "multivalued-prediction", "version": 1}"#);
    predict(&["--resume"]).fails(2, &["said/c0", "another version", "--overwrite"]);

    let files = |folder: &str| {
        let mut names: Vec<_> =
            fs::read_dir(place.path(folder)).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    predict(&["--overwrite", "--top", "1"]).succeeds();
    assert_eq!(files("said/c0"), ["hypothesis-1.png", "prediction.json", "sheet.png"]);
    // What others put there is not touched.
    place.write("said/c2/notes.txt", "mine");
    for option in ["--overwrite", "--resume"] {
        predict(&[option, "--top", "1"]).fails(2, &["said/c2", "notes.txt", "--out"]);
    }
    assert_eq!(fs::read(place.path("said/c2/notes.txt")).unwrap(), b"mine");
    assert_eq!(files("said/c2").len(), 4);
}

#[test]
fn a_bad_case_loses_no_other_and_is_made_up_for() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let rows: String = (0..5).map(|at| format!("c{at},pics/{at}.png\n")).collect();
    place.write("list.csv", format!("id,image\n{rows}"));
    (0..5).for_each(|at| place.png(&format!("pics/{at}.png"), 16, &pixels(at)));
    place.write("pics/1.png", "no image");
    image::RgbImage::new(16, 16).save(place.path("pics/3.png")).unwrap();
    let parts = ["failed: pics/1.png", "pics/3.png", "3 channels", "2 of 5 images could not be predicted"];
    let said = place.run(&["predict", "run", "list.csv", "--out", "said"]).fails(1, &parts);
    assert!(said.out.contains("3 images predicted, 2 failed"), "{}", said.out);
    assert_eq!(predicted(&place, "said"), ["c0", "c2", "c4"]);
    let said = place.run(&["predict", "run", "list.csv", "--skip-bad", "--out", "skipped"]).succeeds();
    assert!(said.out.contains("3 images predicted, 2 skipped") && said.err.contains("skipped: pics/1.png"));
    [1, 3].into_iter().for_each(|at| place.png(&format!("pics/{at}.png"), 16, &pixels(at)));
    let said = place.run(&["predict", "run", "list.csv", "--resume", "--out", "said"]).succeeds();
    assert!(said.out.contains("2 images predicted, 3 complete before"), "{}", said.out);
}

#[test]
fn images_of_many_sizes_are_predicted_as_each_alone() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    for at in 0..40usize {
        let (width, height) = (12 + at % 3, 16 - at % 2);
        let values: Vec<u8> = (0..width * height).map(|pixel| ((pixel * 11 + at * 29) % 251) as u8).collect();
        place.png(&format!("images/c{at:02}.png"), width as u32, &values);
    }
    place.write("images/volume.nii", nifti(&(0..5).map(pixels).collect::<Vec<_>>()));
    place.run(&["predict", "run", "images", "--samples", "2", "--out", "all"]).succeeds();
    for name in ["c00.png", "c17.png", "c39.png", "volume.nii"] {
        place
            .run(&["predict", "run", &format!("images/{name}"), "--samples", "2", "--out", "alone"])
            .succeeds();
        let stem = name.split('.').next().unwrap();
        let found = [format!("all/{stem}"), format!("alone/{stem}")].map(|folder| document(&place, &folder));
        assert_eq!(found[0], found[1], "{name}");
    }
}
