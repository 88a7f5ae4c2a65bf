//! Arbitrary and damaged bytes for every reader: an image or an error, never a panic.

use std::fs;
use std::path::Path;

use multivalued_data::dataset::{Layout, Options, Roster, Split, inspect, read_slices};
use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::report::Report;
use multivalued_data::synthetic::{Task, TaskName, oracle_prediction, parse_split_list};
use proptest::prelude::*;

use crate::cache::{cached, file_in, through};
use crate::damage::{check_damaged, seeds};
use crate::make;

#[path = "../../../../fuzz/src/images.rs"]
mod images;
#[path = "../../../../fuzz/src/manifest.rs"]
mod manifest;

fn damaged_images(target: &str, more: impl Fn(&Path, &[u8])) {
    let folder = tempfile::tempdir().unwrap();
    check_damaged(target, &seeds(target), 2000, |bytes| {
        images::check(folder.path(), bytes);
        more(folder.path(), bytes);
    });
}

/// Damage says something only where the file was read before.
#[test]
fn the_seeds_are_read() {
    for target in ["nifti", "npy", "headed", "raster", "dicom"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
        let paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        // What once broke a reader is kept under this name.
        let sound =
            paths.iter().filter(|path| !path.file_name().unwrap().to_str().unwrap().starts_with("broken-"));
        for path in sound {
            read_slices(std::slice::from_ref(path), &images::LIMITS)
                .unwrap_or_else(|fault| panic!("{fault}"));
        }
    }
}

#[test]
fn damaged_nifti() {
    damaged_images("nifti", images::check_gzipped);
}

#[test]
fn damaged_npy_and_npz() {
    damaged_images("npy", images::check_zipped);
}

#[test]
fn damaged_metaimage_and_nrrd() {
    damaged_images("headed", |_, _| ());
}

#[test]
fn damaged_dicom() {
    damaged_images("dicom", |_, _| ());
}

#[test]
fn damaged_rasters() {
    damaged_images("raster", |_, _| ());
}

#[test]
fn damaged_manifests() {
    let folder = tempfile::tempdir().unwrap();
    manifest::prepare(folder.path());
    check_damaged("manifest", &seeds("manifest"), 2000, |bytes| manifest::check(folder.path(), bytes));
}

/// A sound file of each kind that is read here.
fn sound() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let voxels: Vec<u8> = (0..12).collect();
    let array = make::npy_bytes("(3, 4)", &voxels);
    let mut files = vec![
        array.clone(),
        make::zip_bytes(&[("a.npy", &array)]),
        make::nifti_bytes([4, 3, 1], &voxels),
        make::nifti_bytes([2, 3, 2], &voxels),
        make::gzip(&make::nifti_bytes([4, 3, 1], &voxels)),
    ];
    for name in crate::formats::volumes(folder.path()) {
        // A header whose samples lie elsewhere is only a header here.
        files.push(fs::read(folder.path().join(name)).unwrap());
    }
    files.push(crate::formats::tiff(2, 32, 3, &[0, 0, 128, 63, 0, 0, 0, 0]));
    for name in ["a.png", "a.tiff", "a.jpg"] {
        make::png(folder.path().join(name), 4, &voxels);
        files.push(fs::read(folder.path().join(name)).unwrap());
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files(
        kind in 0..19usize,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = sound().swap_remove(kind);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        images::check(folder.path(), &bytes);
    }

    #[test]
    fn arbitrary_headers(start in 0..8usize, tail in proptest::collection::vec(any::<u8>(), 0..600)) {
        let folder = tempfile::tempdir().unwrap();
        let starts: [&[u8]; 8] = [b"ObjectType = Image\nNDims = 2\n", b"NRRD0004\n",b"\x93NUMPY\x01\x00", b"\x5c\x01\x00\x00", b"\x00\x00\x01\x5c", b"PK\x03\x04", b"\x1f\x8b\x08", b""];
        images::check(folder.path(), &[starts[start], &tail].concat());
    }

    /// Headers in which only the fields that matter vary, so that most pass the first checks.
    #[test]
    fn plausible_nifti(
        dims in proptest::array::uniform8(-2i16..300), datatype in prop_oneof![Just(2i16), Just(4), Just(16), Just(64)],
        offset in prop_oneof![Just(352f32), any::<f32>()], slope: f32, tail in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = make::nifti_bytes([1, 1, 1], &tail);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        dims.iter().enumerate().for_each(|(axis, length)| put(40 + 2 * axis, &length.to_le_bytes()));
        put(40, &(dims[0].rem_euclid(4) + 1).to_le_bytes());
        put(70, &datatype.to_le_bytes());
        put(72, &(8 * match datatype { 2 => 1i16, 4 => 2, 16 => 4, _ => 8 }).to_le_bytes());
        put(108, &offset.to_le_bytes());
        put(112, &slope.to_le_bytes());
        images::check(folder.path(), &bytes);
    }

    #[test]
    fn any_npy_header(header in "\\{'descr': '[<>|][a-zA-Z][0-9]{1,2}', 'fortran_order': (True|False), 'shape': \\([0-9, -]{0,12}\\), \\}", data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        images::check(folder.path(), &bytes);
    }

    #[test]
    fn any_dataset_json(text in "(\\PC|[{}\\[\\]:,\"0-9]|\"labels\":|\"channel_names\":|\"0\"){0,40}") {
        let folder = tempfile::tempdir().unwrap();
        make::picture(folder.path().join("imagesTr/a_0000.png"), 1);
        make::mask(folder.path().join("labelsTr/a.png"), Some(1));
        fs::write(folder.path().join("dataset.json"), text).unwrap();
        match inspect(folder.path(), &Options::default()) {
            Ok(found) => prop_assert_eq!(found.images, 1),
            Err(fault) => prop_assert!(fault.to_string().contains("dataset.json")),
        }
    }

    #[test]
    fn any_radiograph_list(text in "(file,split\n)?(\\PC|[\\n,]){0,40}") {
        if let Ok(rows) = parse_split_list(&text) {
            prop_assert!(rows.iter().all(|(file, split)| !file.is_empty() && !split.is_empty()));
        }
    }

    /// Damage under a checksum that fits, as only malice makes it.
    #[test]
    fn forged_caches(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        make::picture(folder.path().join("data/P/nodule-0/images/slice-0.png"), 9);
        make::mask(folder.path().join("data/P/nodule-0/mask-0/slice-0.png"), Some(1));
        let (data, caches) = (folder.path().join("data"), folder.path().join("caches"));
        let sound = cached(&data, &caches).cases.to_vec().unwrap();
        let cache = file_in(&caches);
        let mut bytes = fs::read(&cache).unwrap();
        // The records begin at 92, the index where the head says; the index' checksum is at 60.
        let index = u64::from_le_bytes(bytes[44..52].try_into().unwrap()) as usize;
        for (at, value) in flips {
            let at = index + at.index(bytes.len() - index);
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(index + cut.index(bytes.len() - index));
        }
        let length = (bytes.len() - index) as u64;
        bytes[52..60].copy_from_slice(&length.to_le_bytes());
        let checksum = blake3::hash(&bytes[index..]);
        bytes[60..92].copy_from_slice(checksum.as_bytes());
        fs::write(&cache, bytes).unwrap();
        // Names and sizes may be forged; the content is under a checksum that is not.
        if let Ok(loaded) = through(&data, &caches, false).0 {
            prop_assert_eq!(loaded.cases.to_vec().unwrap(), sound);
        }
    }

    #[test]
    fn damaged_splits_and_reports(
        at in any::<prop::sample::Index>(), length in 0..12usize, with in "(\\PC|[{}\\[\\]:,\"0-9.e-]){0,6}",
    ) {
        let folder = tempfile::tempdir().unwrap();
        let cases = Task::new(TaskName::Shapes, 16, 1).unwrap().generate("a", 3);
        let roster = Roster::of(&cases);
        let outputs: Vec<_> = cases.iter().map(|case| oracle_prediction(case).unwrap()).collect();
        let settings = Settings { resamples: 3, ..Settings::new("a") };
        let (split, report) = (folder.path().join("split.json"), folder.path().join("report.json"));
        Split::by_group(&roster, &[("train", 0.5), ("test", 0.5)], 1).unwrap().write(&split).unwrap();
        evaluate(&cases, &outputs, &settings).unwrap().write(&report).unwrap();
        for path in [&split, &report] {
            let mut bytes = fs::read(path).unwrap();
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, with.bytes());
            fs::write(path, bytes).unwrap();
        }
        if let Err(fault) = Split::read(&split, &roster) {
            prop_assert!(fault.to_string().contains("split.json"));
        }
        match Report::read(&report) {
            Ok(report) => prop_assert!(report.table().contains("ged_exact")),
            Err(fault) => prop_assert!(fault.to_string().contains("report.json")),
        }
    }

    #[test]
    fn any_manifest(text in "(\\PC|[\\n\",;{}:\\[\\]]|id|image|labels|weight|truth|probability|a.png){0,60}", csv: bool) {
        let folder = tempfile::tempdir().unwrap();
        make::picture(folder.path().join("a.png"), 1);
        let path = folder.path().join(if csv { "m.csv" } else { "m.jsonl" });
        let text = if csv { format!("id,image,labels,truth,probability\n{text}") } else { text };
        fs::write(&path, text).unwrap();
        match inspect(&path, &Options::default()) {
            Ok(found) => prop_assert_eq!(found.layout, Layout::Manifest.to_string()),
            Err(fault) => prop_assert!(fault.to_string().contains("m.")),
        }
    }
}
