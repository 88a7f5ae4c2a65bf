//! Real data, where the archives lie beside the checkout: LIDC with its stated counts, PngSuite's good
//! and broken files, NIfTI and its relatives, JPEG masks that are not binary.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use multivalued_data::dataset::{Dataset, Layout, Options, Roster, inspect};
use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::import::{Limits, MaskRule, nifti, read_image};
use multivalued_data::{Case, Mask, Prediction};
use rayon::prelude::*;

use crate::archive::{sixteen_outputs, unpacked};
use crate::cache::cached;

/// The mask areas that a LIDC archive states for each slice.
fn stated_areas(index: &Path) -> BTreeMap<String, Vec<usize>> {
    let text = std::fs::read_to_string(index).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let cells: Vec<_> = line.split(',').collect();
        let id = format!("{}/{}/{}", cells[0], cells[1], cells[2].trim_end_matches(".png"));
        (id, cells[3..7].iter().map(|cell| cell.parse().unwrap()).collect())
    });
    rows.collect()
}

/// Loads twice, compares with what the archive states, and returns the cases.
fn lidc(archives: &[&str], patients: usize, slices: usize) -> Option<Vec<Case>> {
    let start = Instant::now();
    let folder = unpacked(archives)?;
    eprintln!("{archives:?}: unpacked in {:.2?}", start.elapsed());
    let start = Instant::now();
    let dataset = Dataset::open(folder.path(), &Options::default()).unwrap();
    assert_eq!((dataset.layout(), dataset.len()), (Layout::LidcSlices, slices));
    let caches = tempfile::tempdir().unwrap();
    let first = cached(folder.path(), caches.path()).cases;
    eprintln!("{archives:?}: first load in {:.2?}", start.elapsed());
    let start = Instant::now();
    let dataset = Dataset::open(folder.path(), &Options::default()).unwrap();
    let opened = start.elapsed();
    let packed = cached(folder.path(), caches.path()).cases;
    let read = start.elapsed();
    let cases = packed.to_vec().unwrap();
    eprintln!("{archives:?}: second load in {:.2?} (open {opened:.2?}, cache {read:.2?})", start.elapsed());
    assert_eq!(first.roster(), packed.roster());

    let stated: BTreeMap<_, _> =
        archives.iter().flat_map(|name| stated_areas(&folder.path().join(name).join("index.csv"))).collect();
    assert_eq!(stated.len(), slices);
    let mut groups: Vec<_> = cases.iter().map(|case| &case.group).collect();
    groups.dedup();
    assert_eq!(groups.len(), patients);
    for case in &cases {
        let areas: Vec<_> = case.annotations.iter().map(|annotation| annotation.mask.area(0)).collect();
        assert_eq!(Some(&areas), stated.get(&case.id), "{}", case.id);
        assert_eq!((case.image.width(), case.image.height(), case.image.channels()), (128, 128, 1));
    }
    // Files and cache give the same, bit for bit.
    for at in (0..dataset.len()).step_by(500) {
        assert_eq!(dataset.case(at).unwrap(), cases[at]);
    }
    assert_eq!(Roster::of(&cases), packed.roster());
    Some(cases)
}

#[test]
fn lidc_test_has_the_stated_counts_and_is_scored() {
    let Some(cases) = lidc(&["lidc-test"], 175, 3_196) else { return };
    let outputs: Vec<Prediction> = cases.par_iter().map(sixteen_outputs).collect();
    let start = Instant::now();
    let report = evaluate(&cases, &outputs, &Settings::new("lidc-test")).unwrap();
    eprintln!("lidc-test: all metrics of 16 outputs per image in {:.2?}", start.elapsed());

    let masks: Vec<&Mask> =
        cases.iter().flat_map(|case| case.annotations.iter().map(|annotation| &annotation.mask)).collect();
    let empty = masks.iter().filter(|mask| mask.is_empty()).count();
    assert!((report.empty_labels - empty as f64 / masks.len() as f64).abs() < 1e-12);
    assert_eq!((report.summary.cases, report.summary.groups), (3_196, 175));
    let scores = report.summary.scores;
    assert_eq!(scores.n_x_listed, 16.0);
    assert!(scores.ged_exact > 0.0 && scores.ged_exact < scores.ged_100 && scores.ged_100 < scores.ged_16);
    // n draws score too high by the diversity over n. Over 3,196 images its noise is about 1 %.
    for (sampled, n) in [(scores.ged_4, 4.0), (scores.ged_16, 16.0)] {
        let excess = (sampled - scores.ged_exact) * n / scores.diversity_outputs;
        assert!((excess - 1.0).abs() < 0.05, "n {n}: {excess} of the diversity");
    }
    let [low, high] = report.intervals["ged_exact"].unwrap();
    let [group_low, group_high] = report.intervals_by_group.unwrap()["ged_exact"].unwrap();
    assert!(high - low < group_high - group_low, "slices of one patient are alike");
}

#[test]
fn lidc_train_has_the_stated_counts() {
    lidc(&["lidc-train-a", "lidc-train-b"], 525, 9_282);
}

#[test]
fn fixtures_are_read_or_refused_with_a_reason() {
    let Some(folder) = unpacked(&["fixtures"]) else { return };
    let fixtures = folder.path().join("fixtures");
    png_suite(&fixtures.join("png"));
    nifti_and_relatives(&fixtures.join("nifti"));
    real_volume(&fixtures.join("nifti"));
    dirty_masks(&fixtures.join("dirty-jpeg-masks"));
}

fn png_suite(folder: &Path) {
    let (mut read, mut refused) = (0, 0);
    for part in ["pngsuite", "bugfixes"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "png") {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match read_image(&path, &Limits::default()) {
                Ok(image) => {
                    assert!(!name.starts_with('x'), "{name} is broken but was read");
                    assert!(image.width() > 0);
                    read += 1;
                }
                Err(fault) => {
                    assert!(name.starts_with('x') || part == "bugfixes", "{name} is sound: {fault}");
                    assert!(fault.to_string().contains(&name));
                    refused += 1;
                }
            }
        }
    }
    assert_eq!((read, refused), (170, 23));
    // 16 bits are kept.
    let grey = read_image(&folder.join("pngsuite/basn0g16.png"), &Limits::default()).unwrap();
    assert_eq!((grey.width(), grey.height(), grey.channels()), (32, 32, 1));
    assert!(grey.pixels().iter().any(|&value| value > 255.0));
    let channels = ["basn0g08", "basn4a08", "basn2c16", "basn6a16", "basn3p04"].map(|name| {
        read_image(&folder.join(format!("pngsuite/{name}.png")), &Limits::default()).unwrap().channels()
    });
    assert_eq!(channels, [1, 2, 3, 4, 3]);
}

fn nifti_and_relatives(folder: &Path) {
    for (name, cause) in [
        ("example4d.nii.gz", "along axis 4"),
        ("functional.nii", "along axis 4"),
        ("example_nifti2.nii.gz", "NIfTI-2"),
        ("row_major.dconn.nii", "NIfTI-2"),
        ("nifti2.hdr", "NIfTI-2"),
        ("nifti1.hdr", "pair"),
        ("analyze.hdr", "Analyze"),
        ("test.mgz", "MGZ"),
        // Volumes, which a single image is not.
        ("anatomical.nii", "33x41x25"),
        ("standard.nii.gz", "4x5x7"),
    ] {
        let message = read_image(&folder.join(name), &Limits::default()).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains(cause), "{message} lacks {cause}");
    }
}

/// A real big-endian volume by slices, and its mask written back in its geometry. The values were read
/// from the file's bytes by another program.
fn real_volume(folder: &Path) {
    let root = folder.join("volume-case");
    std::fs::create_dir(&root).unwrap();
    let image = root.join("image.nii");
    std::fs::copy(folder.join("anatomical.nii"), &image).unwrap();
    let header = nifti::read_header(&image, &Limits::default()).unwrap();
    let slices: Vec<_> = (0..25).map(|z| Mask::from_fn(33, 41, |x, y| (x + y + z) % 5 == 0)).collect();
    nifti::write_masks(&root.join("label0.nii.gz"), &header, &slices).unwrap();
    let cases = Dataset::open(&root, &Options::default()).unwrap().load().unwrap();
    assert_eq!(cases.len(), 25);
    assert_eq!(cases[12].id, "volume-case/slice-012");
    assert_eq!(cases[12].image.pixels()[20 * 33 + 16], 11_881.0);
    let sum: f64 = cases.iter().flat_map(|case| case.image.pixels()).map(|&value| f64::from(value)).sum();
    assert_eq!(sum, 284_166_082.0);
    let affine = cases[12].image.geometry.as_ref().unwrap().affine.unwrap();
    assert_eq!(affine, [[-2.0, 0.0, 0.0, 32.0], [0.0, 2.0, 0.0, -40.0], [0.0, 0.0, 2.0, 8.0]]);
    let masks: Vec<_> = cases.iter().map(|case| case.annotations[0].mask.clone()).collect();
    assert_eq!(masks, slices);
}

fn dirty_masks(folder: &Path) {
    // By their values they are soft masks; stated to be binary they are refused.
    let found = inspect(folder, &Options::default()).unwrap();
    assert_eq!(
        (found.layout.as_str(), found.images, found.is_sound()),
        ("case-folders", 28, true),
        "{found:?}"
    );
    assert_eq!(found.masks, "threshold:127.5");
    assert!(found.notes.iter().any(|note| note.contains("soft masks")), "{:?}", found.notes);
    let binary = Options { mask: Some(MaskRule::Binary), ..Default::default() };
    assert!(
        inspect(folder, &binary)
            .unwrap()
            .problems
            .iter()
            .any(|problem| problem.contains("not a binary mask") && problem.contains("label"))
    );
    let message = Dataset::open(folder, &binary).unwrap().load().unwrap_err().to_string();
    assert!(message.contains("threshold"), "{message}");
    let options = Options { mask: Some(MaskRule::Threshold(128.0)), ..Default::default() };
    let cases = Dataset::open(folder, &options).unwrap().load().unwrap();
    assert_eq!(cases.len(), 28);
    assert!(cases.iter().all(|case| case.annotations.len() == 4));
    let sound = inspect(folder, &options).unwrap();
    assert_eq!((sound.cases, sound.annotations, sound.is_sound()), (28, 112, true), "{sound:?}");
    assert_eq!(sound.splits.values().sum::<usize>(), 28);
}
