//! DICOM through the program: series in, segmentations out, LIDC's source as a data set, and no word on patients.

use std::fs;

use serde_json::Value;

use crate::workplace::{Answer, Workplace};

#[path = "../../../data/tests/files/dicom_make.rs"]
#[allow(dead_code)]
mod dicom_make;

use dicom_make::File;

/// A series of slices of 16x16 pixels of a patient named Canary.
fn series(place: &Workplace, folder: &str, uid: &str, slices: usize) {
    for z in 0..slices {
        let values: Vec<i16> = (0..256).map(|at| ((at * 7 + z * 31) % 251) as i16).collect();
        let mut file = File::slice(&format!("{uid}.{z}"), 2.0 * z as f64, 16, &values);
        file.text(0x0020_000e, "UI", uid);
        file.text(0x0008_103e, "LO", "canary description");
        file.save(&place.path(folder).join(format!("{:02}.dcm", 50 - z)));
    }
}

fn silent(answer: Answer) -> Answer {
    let words = format!("{}{}", answer.out, answer.err).to_lowercase();
    assert!(!words.contains("canary"), "{words}");
    answer
}

/// Whether a file holds the patient's name.
fn tells(place: &Workplace, file: &str) -> bool {
    let bytes = fs::read(place.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    bytes.windows(6).any(|window| window.eq_ignore_ascii_case(b"canary"))
}

fn document(place: &Workplace, file: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(file)).unwrap()).unwrap()
}

#[test]
fn a_series_is_predicted_into_masks_or_into_a_segmentation() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    series(&place, "study/ct", "1.5", 3);
    silent(place.run(&["predict", "run", "study/ct", "--out", "masks", "--maps"])).succeeds();
    for file in ["hypothesis-1.nii.gz", "entropy.nii.gz", "mean-1.nii.gz", "prediction.json", "sheet.png"] {
        assert!(!tells(&place, &format!("masks/ct/{file}")), "{file}");
    }
    assert!(!place.path("masks/ct/segmentation.dcm").exists(), "only where it is asked for");
    // A patient's folder is looked through.
    let asked = ["predict", "run", "study", "--out", "seg", "--format", "dicom"];
    silent(place.run(&asked)).succeeds();
    assert!(tells(&place, "seg/ct/segmentation.dcm"), "a segmentation belongs to its patient");
    assert!(!tells(&place, "seg/ct/prediction.json") && !place.path("seg/ct/hypothesis-1.nii.gz").exists());
    let told = document(&place, "seg/ct/prediction.json");
    assert_eq!(told["slices"].as_array().unwrap().len(), 3);
    assert_eq!(told["volume"]["hypotheses"][0]["file"], "segmentation.dcm");
    assert_eq!(told["pixels_blake3"], document(&place, "masks/ct/prediction.json")["pixels_blake3"]);
    // Gone on with, and replaced.
    let resumed = place.run(&[&asked[..], &["--resume"]].concat()).succeeds();
    assert!(resumed.out.contains("1 complete before"), "{}", resumed.out);
    place.run(&["predict", "run", "study", "--out", "seg", "--resume"]).fails(2, &["other options"]);
    place.run(&[&asked[..], &["--overwrite"]].concat()).succeeds();
    // Pictures in the folder are what is meant where there are some.
    place.png("study/picture.png", 16, &[7; 256]);
    place.run(&["predict", "run", "study", "--out", "pictures"]).succeeds();
    assert!(place.path("pictures/picture").exists() && !place.path("pictures/ct").exists());
    // Nothing else has a place for segments.
    place.png("a.png", 16, &[7; 256]);
    place
        .run(&["predict", "run", "a.png", "--out", "x", "--format", "dicom"])
        .fails(2, &["a.png", "is no DICOM file or series"]);
    assert!(!place.path("x").exists());
}

#[test]
fn several_series_and_faulty_ones_are_told_without_a_name() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    series(&place, "both", "1.5", 3);
    let mut other = File::slice("1.6.0", 0.0, 16, &[1; 256]);
    for (at, z) in [0.0, 4.0].into_iter().enumerate() {
        other.text(0x0020_000e, "UI", "1.6");
        other.text(0x0020_0011, "IS", "9");
        other.text(0x0008_0018, "UI", &format!("1.6.{at}"));
        other.text(0x0020_0032, "DS", &format!("0\\0\\{z}"));
        other.save(&place.path(&format!("both/x{at}.dcm")));
    }
    silent(place.run(&["predict", "run", "both", "--out", "o"]))
        .fails(2, &["holds 2 series", "series-2 (CT, number 9, 2 slice(s) of 16x16)"]);
    silent(place.run(&["predict", "run", "both/series-2", "--out", "o"])).succeeds();
    assert_eq!(document(&place, "o/both-series-2/prediction.json")["slices"].as_array().unwrap().len(), 2);
    fs::remove_file(place.path("both/49.dcm")).unwrap();
    silent(place.run(&["predict", "run", "both/series-1", "--out", "p"])).succeeds();
    let bytes = fs::read(place.path("both/48.dcm")).unwrap();
    fs::write(place.path("both/48.dcm"), &bytes[..bytes.len() - 9]).unwrap();
    silent(place.run(&["predict", "run", "both/series-1", "--out", "q"])).fails(2, &["48.dcm", "truncated"]);
}

#[test]
fn lidc_s_source_becomes_a_data_set() {
    let place = Workplace::new();
    series(&place, "tcia/LIDC-IDRI-0003/1/2", "1.7", 4);
    series(&place, "tcia/LIDC-IDRI-0004/1/2", "1.8", 4);
    let roi = |image: &str| {
        let corner = |x: i32, y: i32| format!("<edgeMap><xCoord>{x}</xCoord><yCoord>{y}</yCoord></edgeMap>");
        let corners = [corner(3, 3), corner(9, 3), corner(9, 9), corner(3, 9)].concat();
        format!("<roi><imageSOP_UID>{image}</imageSOP_UID><inclusion>TRUE</inclusion>{corners}</roi>")
    };
    let message = |uid: &str| {
        let nodule = format!(
            "<unblindedReadNodule>{}{}</unblindedReadNodule>",
            roi(&format!("{uid}.1")),
            roi(&format!("{uid}.2"))
        );
        let sessions = format!("<readingSession>{nodule}</readingSession>").repeat(3) + "<readingSession/>";
        format!(
            "<LidcReadMessage xmlns=\"http://www.nih.gov\"><ResponseHeader><SeriesInstanceUid>{uid}</SeriesInstanceUid>\
             </ResponseHeader>{sessions}</LidcReadMessage>"
        )
    };
    place.write("tcia/xml/003.xml", message("1.7"));
    place.write("tcia/xml/004.xml", message("1.8"));
    let answer = silent(place.run(&["import", "lidc", "tcia", "--out", "data", "--crop", "12"])).succeeds();
    assert!(answer.out.contains("4 slices of 2 nodules in 2 patients, in data"), "{}", answer.out);
    let study = place.run(&["validate", "data"]).succeeds();
    assert!(study.out.contains("lidc-slices"), "{}", study.out);
    assert_eq!(document(&place, "data/import.json")["outlines"], "outside of the nodule");
    place.run(&["import", "lidc", "tcia", "--out", "data"]).fails(2, &["data", "is not empty"]);
    silent(place.run(&["import", "lidc", "tcia", "--out", "whole", "--volumes"])).succeeds();
    place.run(&["validate", "whole"]).succeeds();
    // One scan that is broken is named, and the other is written.
    fs::remove_file(place.path("tcia/LIDC-IDRI-0003/1/2/49.dcm")).unwrap();
    let answer = silent(place.run(&["import", "lidc", "tcia", "--out", "rest", "--crop", "12"])).succeeds();
    assert!(
        answer.err.contains("slices between them are missing") && answer.out.contains("1 scan(s) skipped")
    );
    place.run(&["import", "lidc", "tcia/xml", "--out", "none"]).fails(2, &["tcia/xml", "no LIDC scan"]);
}
