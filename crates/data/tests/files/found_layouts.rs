//! Layouts as people have them: found by themselves, with raters, channels, groups and the kind of masks.

use std::fs;
use std::path::Path;

use multivalued_data::Case;
use multivalued_data::dataset::{Dataset, Layout, Options, inspect};
use multivalued_data::import::MaskRule;

use crate::cache::cached;
use crate::make;

/// Opens and loads a data set that must be sound.
fn read(root: &Path, layout: Layout) -> (Dataset, Vec<Case>) {
    let dataset = Dataset::open(root, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(dataset.layout(), layout);
    let cases = dataset.load().unwrap_or_else(|e| panic!("{e}"));
    (dataset, cases)
}

fn ids(cases: &[Case]) -> Vec<&str> {
    cases.iter().map(|case| case.id.as_str()).collect()
}

/// The raters of a case's annotations, "-" where nobody is named.
fn raters(case: &Case) -> Vec<&str> {
    case.annotations.iter().map(|annotation| annotation.rater.as_deref().unwrap_or("-")).collect()
}

#[test]
fn images_and_masks_of_the_same_names() {
    let endings: [(&[&str], &[&str]); 6] = [
        (&[".png"], &["-"]),
        (&["_mask.png"], &["-"]),
        (&["_seg.png"], &["-"]),
        (&["_gt.png"], &["-"]),
        (&["_1.png", "_2.png"], &["1", "2"]),
        (&["_raterA.png", "_raterB.png"], &["raterA", "raterB"]),
    ];
    for (endings, expected) in endings {
        let folder = tempfile::tempdir().unwrap();
        for name in ["scan-x", "scan-y"] {
            make::picture(folder.path().join(format!("images/{name}.png")), 1);
            for (at, ending) in endings.iter().enumerate() {
                make::mask(folder.path().join(format!("masks/{name}{ending}")), Some(at));
            }
        }
        let (dataset, cases) = read(folder.path(), Layout::ImageFolders);
        assert_eq!(ids(&cases), ["scan-x", "scan-y"]);
        assert!(cases.iter().all(|case| raters(case) == expected), "{endings:?}");
        assert!(dataset.notes().is_empty(), "{:?}", dataset.notes());
    }
}

#[test]
fn one_folder_per_rater() {
    let arrangements: [(&[&str], &[&str]); 5] = [
        (&["rater1", "rater2"], &["rater1", "rater2"]),
        (&["annotator_a", "annotator_b"], &["annotator_a", "annotator_b"]),
        (&["masks/rater1", "masks/rater2"], &["rater1", "rater2"]),
        (&["masks_r1", "masks_r2"], &["r1", "r2"]),
        (&["anna", "bo"], &["anna", "bo"]),
    ];
    for (folders, expected) in arrangements {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            make::picture(folder.path().join(format!("images/{name}.png")), 1);
            for rater in folders {
                make::mask(folder.path().join(rater).join(format!("{name}.png")), Some(0));
            }
        }
        // One rater did not see every image.
        fs::remove_file(folder.path().join(folders[1]).join("b.png")).unwrap();
        let (_, cases) = read(folder.path(), Layout::ImageFolders);
        assert_eq!(
            (raters(&cases[0]), raters(&cases[1])),
            (expected.to_vec(), vec![expected[0]]),
            "{folders:?}"
        );
    }
}

#[test]
fn patients_splits_and_strays_of_image_folders() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (grey, (part, patient)) in (1..).zip([("train", "p1"), ("train", "p2"), ("test", "p3")]) {
        for name in ["a", "b"] {
            make::picture(root.join(format!("{part}/images/{patient}/{name}.png")), grey);
            make::mask(root.join(format!("{part}/masks/r1/{patient}/{name}.png")), Some(0));
            make::mask(root.join(format!("{part}/masks/r2/{patient}/{name}.png")), Some(1));
        }
    }
    make::picture(root.join("train/previews/other.png"), 1);
    let (dataset, cases) = read(root, Layout::ImageFolders);
    assert_eq!(cases.iter().filter(|case| case.group == "p1").count(), 2);
    assert_eq!(cases.iter().map(|case| raters(case).len()).sum::<usize>(), 12);
    let splits: Vec<_> = dataset.sources().iter().filter_map(|source| source.split.as_deref()).collect();
    assert_eq!(splits, ["test", "test", "train", "train", "train", "train"]);
    assert!(
        dataset.notes().iter().any(|note| note.contains("train/previews is not read")),
        "{:?}",
        dataset.notes()
    );

    make::mask(root.join("train/masks/r1/p1/z.png"), None);
    make::picture(root.join("train/images/p2/unseen.png"), 1);
    let problems = inspect(root, &Options::default()).unwrap().problems;
    assert!(problems.iter().any(|fault| fault.contains("z.png: is a mask without an image")), "{problems:?}");
    assert!(problems.iter().any(|fault| fault.contains("unseen.png has no mask")), "{problems:?}");
    assert_eq!(problems.len(), 2);
}

#[test]
fn folders_of_images_and_masks_for_each_patient() {
    let folder = tempfile::tempdir().unwrap();
    for patient in ["p1", "p2"] {
        for slice in 0..2 {
            make::picture(folder.path().join(format!("{patient}/images/{slice}.png")), 1);
            make::mask(folder.path().join(format!("{patient}/masks/{slice}.png")), Some(0));
        }
    }
    let (_, cases) = read(folder.path(), Layout::ImageFolders);
    assert_eq!(cases.iter().map(|case| case.group.as_str()).collect::<Vec<_>>(), ["p1", "p1", "p2", "p2"]);
}

#[test]
fn several_files_of_one_image_are_channels() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["a", "b"] {
        for channel in ["0000", "0001", "0002"] {
            make::picture(root.join(format!("images/{name}_{channel}.png")), 1);
        }
        make::mask(root.join(format!("masks/{name}.png")), Some(0));
    }
    let (_, cases) = read(root, Layout::ImageFolders);
    assert_eq!((ids(&cases), cases[0].image.channels()), (vec!["a", "b"], 3));
    // Images that are merely numbered are no channels.
    let numbered = tempfile::tempdir().unwrap();
    for name in ["x_0000", "x_0001"] {
        make::picture(numbered.path().join(format!("images/{name}.png")), 1);
        make::mask(numbered.path().join(format!("masks/{name}.png")), Some(0));
    }
    let (_, cases) = read(numbered.path(), Layout::ImageFolders);
    assert_eq!((ids(&cases), cases[0].image.channels()), (vec!["x_0000", "x_0001"], 1));
}

#[test]
fn qubiq_in_case_folders_and_flat() {
    let folder = tempfile::tempdir().unwrap();
    let voxels: Vec<u8> = (0..12).collect();
    let label: Vec<u8> = (0..12).map(|at| u8::from(at > 5)).collect();
    for case in 1..=3 {
        let at = |name: &str| folder.path().join(format!("cases/case{case:02}/{name}.nii.gz"));
        make::nifti(at("image"), [4, 3, 1], &voxels);
        for rater in 1..=7 {
            make::nifti(at(&format!("task01_seg{rater:02}")), [4, 3, 1], &label);
        }
        let flat = |name: &str| folder.path().join(format!("flat/case{case:02}{name}.nii.gz"));
        make::nifti(flat(""), [4, 3, 1], &voxels);
        for rater in 1..=7 {
            make::nifti(flat(&format!("_seg{rater:02}")), [4, 3, 1], &label);
        }
    }
    let expected = ["seg01", "seg02", "seg03", "seg04", "seg05", "seg06", "seg07"];
    for (name, layout) in [("cases", Layout::CaseFolders), ("flat", Layout::SideBySide)] {
        let (dataset, cases) = read(&folder.path().join(name), layout);
        assert_eq!(ids(&cases), ["case01", "case02", "case03"], "{name}");
        assert!(cases.iter().all(|case| raters(case) == expected), "{name}");
        assert_eq!(cases[0].image.geometry.as_ref().unwrap().spacing, [0.5, 0.5, 3.0]);
        assert!(dataset.notes().is_empty(), "{:?}", dataset.notes());
    }
    // A second task asks another question of the same images.
    make::nifti(folder.path().join("cases/case01/task02_seg01.nii.gz"), [4, 3, 1], &label);
    let (dataset, cases) = read(&folder.path().join("cases"), Layout::CaseFolders);
    assert_eq!(raters(&cases[0]), expected);
    assert!(
        dataset.notes()[0].contains("tasks task01, task02; those of task01 are read"),
        "{:?}",
        dataset.notes()
    );
}

#[test]
fn channels_of_a_case_by_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let voxels: Vec<u8> = (0..24).collect();
    for case in ["BraTS_001", "BraTS_002"] {
        let at = |name: &str| folder.path().join(format!("brats/{case}/{case}_{name}.nii.gz"));
        for channel in ["flair", "t1", "t1ce", "t2"] {
            make::nifti(at(channel), [4, 3, 2], &voxels);
        }
        make::nifti(
            at("seg"),
            [4, 3, 2],
            &voxels.iter().map(|value| [0, 1, 2, 4][usize::from(*value) % 4]).collect::<Vec<_>>(),
        );
        let at = |name: &str| folder.path().join(format!("plain/{case}/{name}.nii.gz"));
        for name in ["t1", "t2", "seg01", "seg02"] {
            make::nifti(at(name), [4, 3, 2], &voxels.iter().map(|value| value % 2).collect::<Vec<_>>());
        }
    }
    let (dataset, cases) = read(&folder.path().join("brats"), Layout::CaseFolders);
    assert_eq!((cases[0].image.channels(), dataset.mask_rule()), (4, MaskRule::Labels(4)));
    assert_eq!(ids(&cases)[..2], ["BraTS_001/slice-000", "BraTS_001/slice-001"]);
    let (_, cases) = read(&folder.path().join("plain"), Layout::CaseFolders);
    assert_eq!((cases.len(), cases[0].image.channels(), cases[0].annotations.len()), (4, 2, 2));
}

#[test]
fn slices_over_a_flat_mask_are_channels() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("case01").join(name);
    make::nifti(at("image.nii.gz"), [3, 2, 4], &(0..24).collect::<Vec<_>>());
    make::nifti(at("task01_seg01.nii.gz"), [3, 2, 1], &[0, 1, 0, 0, 1, 0]);
    let (_, cases) = read(folder.path(), Layout::CaseFolders);
    assert_eq!((cases.len(), cases[0].id.as_str(), cases[0].image.channels()), (1, "case01", 4));
    assert_eq!(cases[0].image.plane(3)[0], 18.0);
}

#[test]
fn many_images_in_one_folder_with_their_masks() {
    let folder = tempfile::tempdir().unwrap();
    for patient in ["p1", "p2"] {
        for name in ["a", "b"] {
            make::picture(folder.path().join(format!("{patient}/{name}.png")), 1);
            make::mask(folder.path().join(format!("{patient}/{name}_mask_anna.png")), Some(0));
            make::mask(folder.path().join(format!("{patient}/{name}_mask_bo.png")), Some(1));
        }
    }
    let (_, cases) = read(folder.path(), Layout::SideBySide);
    assert_eq!(ids(&cases), ["p1/a", "p1/b", "p2/a", "p2/b"]);
    assert_eq!((cases[3].group.as_str(), raters(&cases[3])), ("p2", vec!["anna", "bo"]));
    // More than four images cannot be the channels of one, whatever they are called.
    let plain = tempfile::tempdir().unwrap();
    for at in 0..6 {
        make::picture(plain.path().join(format!("image_{at}.png")), 1);
        make::mask(plain.path().join(format!("mask_{at}.png")), Some(0));
    }
    let (_, cases) = read(plain.path(), Layout::SideBySide);
    assert_eq!((cases.len(), cases[5].id.as_str()), (6, "image_5"));
}

#[test]
fn the_more_specific_layout_is_taken_and_told() {
    let folder = tempfile::tempdir().unwrap();
    make::lidc_slices(folder.path());
    let (dataset, _) = read(folder.path(), Layout::LidcSlices);
    assert!(dataset.notes().is_empty(), "{:?}", dataset.notes());
    make::picture(folder.path().join("case/image.png"), 1);
    make::mask(folder.path().join("case/label0.png"), None);
    let (dataset, cases) = read(folder.path(), Layout::LidcSlices);
    assert_eq!(cases.len(), 4);
    let notes = dataset.notes();
    assert!(notes[0].contains("lidc-slices was taken, though case-folders would fit"), "{notes:?}");
    // gt/ without a reader's number is a folder of masks like any other.
    let plain = tempfile::tempdir().unwrap();
    make::picture(plain.path().join("images/a.png"), 1);
    make::mask(plain.path().join("gt/a.png"), None);
    read(plain.path(), Layout::ImageFolders);
}

#[test]
fn the_kind_of_masks_is_found_by_their_values() {
    for (pixels, expected, told) in [
        (vec![[0, 0, 1, 1], [0, 0, 0, 0]], MaskRule::Binary, None),
        (vec![[0, 0, 255, 255], [0, 1, 0, 1]], MaskRule::Binary, None),
        (vec![[0, 0, 1, 1], [0, 0, 2, 2], [3, 0, 0, 0]], MaskRule::Labels(3), Some("label maps")),
        (vec![[0, 0, 128, 128], [0; 4]], MaskRule::Threshold(128.0), Some("higher one")),
        (vec![[0, 3, 130, 255], [0, 90, 250, 255]], MaskRule::Threshold(127.5), Some("soft masks")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for (at, pixels) in pixels.iter().enumerate() {
            make::picture(folder.path().join(format!("images/n{at}.png")), 1);
            make::png(folder.path().join(format!("masks/n{at}.png")), 2, pixels);
        }
        let (dataset, cases) = read(folder.path(), Layout::ImageFolders);
        assert_eq!(dataset.mask_rule(), expected, "{pixels:?}");
        assert_eq!(cases[0].annotations[0].mask.classes(), expected.classes());
        let notes = dataset.notes();
        match told {
            None => assert!(notes.is_empty(), "{notes:?}"),
            Some(told) => assert!(notes.len() == 1 && notes[0].contains(told), "{notes:?}"),
        }
        assert_eq!(inspect(folder.path(), &Options::default()).unwrap().masks, expected.to_string());
        // What is stated wins.
        let options = Options { mask: Some(MaskRule::Threshold(1.0)), ..Options::default() };
        let stated = Dataset::open(folder.path(), &options).unwrap();
        assert_eq!(stated.mask_rule(), MaskRule::Threshold(1.0));
        // A cache is the same whoever asks first.
        let caches = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let packed = cached(folder.path(), caches.path());
            assert_eq!(packed.cases.to_vec().unwrap(), cases);
            assert_eq!(packed.dataset.notes(), dataset.notes());
        }
    }
}

#[test]
fn groups_by_a_part_of_the_id() {
    let folder = tempfile::tempdir().unwrap();
    for patient in ["P001", "P002"] {
        for slice in 1..=3 {
            make::picture(folder.path().join(format!("images/{patient}_slice{slice}.png")), 1);
            make::mask(folder.path().join(format!("masks/{patient}_slice{slice}.png")), Some(0));
        }
    }
    let (dataset, cases) = read(folder.path(), Layout::ImageFolders);
    assert_eq!(cases[0].group, "P001_slice1");
    let notes = dataset.notes();
    assert!(notes[0].contains("'P001_slice1' and 'P001_slice2' may be of one patient"), "{notes:?}");
    assert!(notes[0].contains("--group-by '^([^_]+)_'"), "{notes:?}");
    let open = |by: &str| {
        let options = Options { group_by: Some(by.parse().unwrap()), ..Options::default() };
        Dataset::open(folder.path(), &options)
    };
    let dataset = open("^([^_]+)_").unwrap();
    let groups: Vec<_> = dataset.sources().iter().map(|source| source.group.as_str()).collect();
    assert_eq!(groups, ["P001", "P001", "P001", "P002", "P002", "P002"]);
    assert!(dataset.notes().is_empty());
    let message = open("^P001").unwrap_err().to_string();
    assert!(message.contains("matches nothing in the id 'P002_slice1'"), "{message}");
}

#[test]
fn raters_have_weights() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["a", "b"] {
        make::picture(root.join(format!("images/{name}.png")), 1);
        for rater in ["anna", "bo", "cy"] {
            make::mask(root.join(format!("{rater}/{name}.png")), Some(0));
        }
    }
    fs::remove_file(root.join("anna/b.png")).unwrap();
    let weights = |text: &str| {
        fs::write(root.join("raters.csv"), text).unwrap();
        Dataset::open(root, &Options::default())
    };
    let dataset = weights("rater,weight\nanna,4\nbo, 1\nzoe,2\n").unwrap();
    let cases = dataset.load().unwrap();
    let of = |case: &Case| case.annotations.iter().map(|annotation| annotation.weight).collect::<Vec<_>>();
    // Proportional to the raters', and as many in sum as there are annotations.
    assert_eq!((of(&cases[0]), of(&cases[1])), (vec![2.0, 0.5, 0.5], vec![1.0, 1.0]));
    let notes = dataset.notes();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("no annotation is by 'zoe'") && note.contains("'anna', 'bo', 'cy'")),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.contains("'cy' not there; the weight is 1")), "{notes:?}");
    for (text, cause) in [
        ("rater,weight\nanna,-1\n", "line 2: the weight '-1' of the rater 'anna'"),
        ("rater,weight\nanna,NaN\n", "weights are positive"),
        ("rater,weight\nanna,0\n", "weights are positive"),
        ("rater,weight\nanna,much\n", "weights are positive"),
        ("rater,weight\nanna,1\nanna,2\n", "line 3: the rater 'anna' is given twice"),
        ("name,weight\nanna,1\n", "they are 'rater,weight'"),
        ("rater,weight\nanna\n", "not valid CSV"),
    ] {
        let message = weights(text).unwrap_err().to_string();
        assert!(message.contains("raters.csv") && message.contains(cause), "{message} lacks {cause}");
    }
}
