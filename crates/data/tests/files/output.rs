//! Masks written in the format and geometry of their image, read back.

use multivalued_data::dataset::{Dataset, Options, Roster, inspect, read_slices};
use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::export::write_masks_like;
use multivalued_data::import::{Limits, MaskRule, nifti, read_mask};
use multivalued_data::synthetic::{Task, TaskName, oracle_ged, oracle_prediction, write_dataset};
use multivalued_data::{Mask, Prediction};

use crate::make;

#[test]
fn each_format_gets_its_own_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a.npy"), make::npy_bytes("(2, 3)", &[1, 2, 3, 4, 5, 6])).unwrap();
    for name in ["a.png", "a.tiff", "a.jpg"] {
        make::png(at(name), 3, &[1, 2, 3, 4, 5, 6]);
    }
    make::nifti(at("a.nii"), [3, 2, 1], &[1, 2, 3, 4, 5, 6]);
    make::nifti(at("a.nii.gz"), [3, 2, 1], &[1, 2, 3, 4, 5, 6]);
    let mut labels = Mask::empty(3, 2, 2);
    labels.set(0, 1, 0, true);
    labels.set(1, 2, 1, true);
    let binary = Mask::from_fn(3, 2, |x, y| x > y);
    for (source, extension) in [
        ("a.npy", "npy"),
        ("a.png", "png"),
        ("a.jpg", "png"),
        ("a.tiff", "tiff"),
        ("a.nii", "nii"),
        ("a.nii.gz", "nii.gz"),
    ] {
        for (mask, rule, stem) in
            [(&binary, MaskRule::Binary, "out-1.5"), (&labels, MaskRule::Labels(2), "labels")]
        {
            let written =
                write_masks_like(&at(source), &at(stem), std::slice::from_ref(mask), &Limits::default())
                    .unwrap();
            assert_eq!(written, at(&format!("{stem}.{extension}")));
            assert_eq!(&read_mask(&written, rule, &Limits::default()).unwrap(), mask, "{source}");
        }
    }
    let several = [binary.clone(), binary];
    let message =
        write_masks_like(&at("a.png"), &at("b"), &several, &Limits::default()).unwrap_err().to_string();
    assert!(message.contains("2 masks for the single image"), "{message}");
}

#[test]
fn a_volume_by_slices_becomes_a_volume_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("set").join(name);
    let label: Vec<u8> = (0..24).map(|at| u8::from(at % 5 == 0)).collect();
    make::nifti(at("imagesTr/p1_0000.nii.gz"), [4, 3, 2], &(0..24).collect::<Vec<_>>());
    make::nifti(at("labelsTr/p1.nii.gz"), [4, 3, 2], &label);
    let dataset = Dataset::open(&folder.path().join("set"), &Options::default()).unwrap();
    let cases = dataset.load().unwrap();
    assert_eq!(
        cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>(),
        ["p1/slice-000", "p1/slice-001"]
    );
    assert!(cases.iter().all(|case| case.group == "p1"));
    assert_eq!(cases[1].image.geometry.as_ref().unwrap().affine.unwrap()[2], [0.0, 0.0, 3.0, 33.0]);

    // Prediction reads the same images without masks.
    let images = read_slices(&dataset.sources()[0].images, &Limits::default()).unwrap();
    assert!(images.iter().eq(cases.iter().map(|case| &case.image)));
    let twice = [dataset.sources()[0].images[0].clone(), dataset.sources()[0].images[0].clone()];
    assert_eq!(read_slices(&twice, &Limits::default()).unwrap()[1].channels(), 2);

    // Entries say which slices of which file the cases are.
    let source = &dataset.sources()[0];
    let slices: Vec<_> = (0..source.depth)
        .map(|slice| {
            dataset.entries().iter().position(|entry| (entry.source, entry.slice) == (0, slice)).unwrap()
        })
        .map(|case| cases[case].annotations[0].mask.clone())
        .collect();
    let written =
        write_masks_like(&source.images[0], &folder.path().join("out"), &slices, &Limits::default()).unwrap();
    assert!(written.ends_with("out.nii.gz"));
    let [before, after] =
        [&source.images[0], &written].map(|path| nifti::read_header(path, &Limits::default()).unwrap());
    assert_eq!(before.geometry(), after.geometry());
    // As an annotation of the same image it is the same annotation.
    std::fs::create_dir(at("labelsTr_r2")).unwrap();
    std::fs::copy(&written, at("labelsTr_r2/p1.nii.gz")).unwrap();
    let again = Dataset::open(&folder.path().join("set"), &Options::default()).unwrap().load().unwrap();
    assert!(again.iter().all(|case| case.annotations[0].mask == case.annotations[1].mask));
    assert_eq!(again[0].annotations[1].rater.as_deref(), Some("r2"));
}

#[test]
fn synthetic_data_sets_come_back_with_their_truth() {
    let folder = tempfile::tempdir().unwrap();
    for name in TaskName::ALL {
        let root = folder.path().join(name.as_str());
        let task = Task::new(name, 32, 3).unwrap();
        let (train, test) = (task.generate("train", 4), task.generate("test", 3));
        write_dataset(&root, &[("train", &train), ("test", &test)]).unwrap();
        let dataset = Dataset::open(&root, &Options::default()).unwrap();
        let read = dataset.load().unwrap();
        assert!(inspect(&root, &Options::default()).unwrap().is_sound(), "{name}");
        for (read, made) in read.iter().zip(train.iter().chain(&test)) {
            assert_eq!((&read.id, &read.group), (&made.id, &made.group));
            assert_eq!((&read.annotations, &read.truth), (&made.annotations, &made.truth), "{}", made.id);
            for (read, made) in read.image.pixels().iter().zip(made.image.pixels()) {
                assert!((read / 65_535.0 - made).abs() < 1e-5, "{name}: {read} for {made}");
            }
        }
        assert_eq!(read.len(), 7);
        let stated = dataset.stated_split(&Roster::of(&read)).unwrap().unwrap();
        assert_eq!(stated.part("test").unwrap().len(), 3);
        // Scored from the folder it has the floor of the task itself.
        let oracle: Vec<Prediction> = read.iter().map(|case| oracle_prediction(case).unwrap()).collect();
        let summary = evaluate(&read, &oracle, &Settings::new("all")).unwrap().summary;
        let floor = train.iter().chain(&test).map(|case| oracle_ged(case).unwrap()).sum::<f64>() / 7.0;
        assert!((summary.oracle_ged.unwrap() - floor).abs() < 1e-12, "{name}");
        let again = write_dataset(&root, &[("train", &train)]).unwrap_err().to_string();
        assert!(again.contains("has a manifest already"), "{again}");
    }
    let mut named = Task::new(TaskName::Shapes, 32, 3).unwrap().generate("train", 1);
    named[0].id = "../outside".into();
    let message = write_dataset(&folder.path().join("x"), &[("train", &named)]).unwrap_err().to_string();
    assert!(message.contains("../outside"), "{message}");
}
