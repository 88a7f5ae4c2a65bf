//! DICOM in: series, multi-frame files, and a sentence for each fault. DICOM out: segmentations.

use std::fs;
use std::path::Path;

use dicom_dictionary_std::tags;
use multivalued_data::dataset::{Dataset, Options, Slices, read_slices};
use multivalued_data::dicom::{find, list_series, seg};
use multivalued_data::export::write_masks_like;
use multivalued_data::import::{Limits, MaskRule, read_mask};
use multivalued_data::{Image, Mask};

use crate::dicom_make::{File, group, items, sequence};
use crate::make;

/// Four slices of 3x2 pixels, 2 mm apart.
fn series() -> Vec<File> {
    let one = |at: i16| {
        let values: Vec<i16> = (0..6).map(|v| 100 * at + v - 3).collect();
        File::slice(&format!("1.9.1.{at}"), -4.0 + 2.0 * f64::from(at), 3, &values)
    };
    (0..4).map(one).collect()
}

/// Saves a series under names that are against the order of places.
fn save(folder: &Path, files: &[File]) {
    files.iter().rev().enumerate().for_each(|(at, file)| file.save(&folder.join(format!("IM{at}"))));
}

/// The slices that a path names.
pub fn read(path: &Path) -> Vec<Image> {
    read_slices(&[path.to_owned()], &Limits::default()).unwrap()
}

/// Why a path is refused, in words that name it and no patient.
pub fn refusal(path: &Path) -> String {
    let message = read_slices(&[path.to_owned()], &Limits::default()).unwrap_err().to_string();
    assert!(!message.to_lowercase().contains("canary"), "{message}");
    assert!(message.contains(&*path.to_string_lossy()), "{message}");
    message
}

#[test]
fn slices_are_ordered_by_place_scaled_and_placed() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = series();
    for (at, file) in files.iter_mut().enumerate() {
        file.text(0x0020_0013, "IS", &(9 - at).to_string());
        file.text(0x0028_1052, "DS", "-1024");
        file.text(0x0028_1053, "DS", "2");
    }
    let path = folder.path().join("ct");
    save(&path, &files);
    fs::write(path.join("notes.txt"), "not a slice").unwrap();
    let images = read(&path);
    assert_eq!(images.len(), 4);
    for (at, image) in images.iter().enumerate() {
        let wanted: Vec<f32> = (0..6).map(|v| 2.0 * (100.0 * at as f32 + v as f32 - 3.0) - 1024.0).collect();
        assert_eq!(image.pixels(), wanted);
        let geometry = image.geometry.as_ref().unwrap();
        assert_eq!(geometry.spacing, [0.5, 0.25, 2.0]);
        // Left and posterior became right and anterior.
        let z = -4.0 + 2.0 * at as f32;
        let affine = [[-0.5, 0.0, 0.0, 10.0], [0.0, -0.25, 0.0, -20.0], [0.0, 0.0, 2.0, z]];
        assert_eq!(geometry.affine.unwrap(), affine);
    }
    // Scales of their own, as PET has them.
    files[2].text(0x0028_1053, "DS", "0.5");
    save(&path, &files);
    assert_eq!(read(&path)[2].pixels()[5], 0.5 * 202.0 - 1024.0);
    assert_eq!(read(&path)[3].pixels()[5], 2.0 * 302.0 - 1024.0);
}

#[test]
fn what_is_no_volume_is_told() {
    let far = |z: &str| format!("-10\\20\\{z}");
    type Change<'a> = &'a dyn Fn(&mut Vec<File>);
    let cases: [(&str, Change, &[&str]); 12] = [
        ("missing", &|all| _ = all.remove(1), &["lies 4.000 mm behind", "slices between them are missing"]),
        ("uneven", &|all| all[2].text(0x0020_0032, "DS", &far("0.3")), &["not evenly spaced", "dcm2niix"]),
        ("twice", &|all| all[2].text(0x0020_0032, "DS", &far("-2")), &["lies at the same place as"]),
        (
            "directions",
            &|all| all[3].text(0x0020_0037, "DS", "0\\1\\0\\0\\0\\1"),
            &["lies in another direction than", "a folder of its own"],
        ),
        (
            "tilt",
            &|all| {
                let one = |(at, file): (usize, &mut File)| {
                    file.text(0x0020_0032, "DS", &format!("-10\\{}\\{}", 20 + at, -4 + 2 * at as i32));
                };
                all.iter_mut().enumerate().for_each(one);
            },
            &["26.6 degrees", "gantry tilt", "dcm2niix"],
        ),
        ("sizes", &|all| all[1].pixels(2, 1, 16, "MONOCHROME2", &[0; 12]), &["is 2x3", "is 3x2"]),
        ("spacing", &|all| all[1].text(0x0028_0030, "DS", "0.5\\0.5"), &["pixels of 0.5 x 0.5 mm"]),
        ("types", &|all| all[1].number(0x0028_0103, 0), &["another type"]),
        ("placeless", &|all| all[1].remove(0x0020_0032), &["do not all state their place"]),
        (
            "ended",
            &|all| {
                for (at, file) in all.iter_mut().enumerate() {
                    file.text(0x0020_0013, "IS", &(at + 1).to_string());
                    file.text(0x0020_1002, "IS", "7");
                }
            },
            &["holds 4 of the 7 slices"],
        ),
        (
            "skewed",
            &|all| all[3].text(0x0020_0037, "DS", "1\\0\\0\\1\\0\\0"),
            &["directions at right angles"],
        ),
        ("lists", &|all| all[0].text(0x0028_0004, "CS", "PALETTE COLOR"), &["PALETTE COLOR", "dcm2img"]),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, change, phrases) in cases {
        let path = folder.path().join(name);
        let mut files = series();
        change(&mut files);
        save(&path, &files);
        let message = refusal(&path);
        assert!(phrases.iter().all(|phrase| message.contains(phrase)), "{name}: {message}");
    }
    // The number speaks of another series where those of the files do not fit it.
    let path = folder.path().join("other");
    let mut files = series();
    files.iter_mut().for_each(|file| file.text(0x0020_1002, "IS", "7"));
    save(&path, &files);
    assert_eq!(read(&path).len(), 4);
}

#[test]
fn one_of_several_series_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study");
    let mut files = series();
    for (at, file) in series().into_iter().take(2).enumerate() {
        let mut file = file;
        file.text(0x0008_0018, "UI", &format!("1.9.7.{at}"));
        file.text(0x0020_000e, "UI", "1.9.7");
        file.text(0x0020_0011, "IS", "2");
        files.push(file);
    }
    save(&path, &files);
    let message = refusal(&path);
    assert!(
        message.contains("holds 2 series: series-1 (CT, number 2, 2 slice(s) of 3x2), series-2"),
        "{message}"
    );
    assert_eq!(read(&path.join("series-1")).len(), 2);
    assert_eq!(read(&path.join("series-2")).len(), 4);
    assert_eq!(list_series(&path, &Limits::default()).unwrap().len(), 2);
    let message = read_slices(&[path.join("series-3")], &Limits::default()).unwrap_err().to_string();
    assert!(message.contains("series-3 is none of them"), "{message}");
}

#[test]
fn frames_of_one_file_lie_where_their_groups_say() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = File::slice("1.9.1.1", 0.0, 2, &[1, 2, 3, 4, 5, 6]);
    file.remove(0x0020_0032);
    file.remove(0x0020_0037);
    file.remove(0x0028_0030);
    file.text(0x0028_0008, "IS", "3");
    file.number(0x0028_0010, 1);
    let shared = [
        sequence(0x0020_9116, group(0x0020_0037, "DS", "1\\0\\0\\0\\1\\0")),
        sequence(0x0028_9110, group(0x0028_0030, "DS", "0.5\\0.5")),
        sequence(0x0028_9145, [group(0x0028_1052, "DS", "10"), group(0x0028_1053, "DS", "1")].concat()),
    ];
    file.put(0x5200_9229, "SQ", items(&[shared.concat()]));
    let place = |z: &str| sequence(0x0020_9113, group(0x0020_0032, "DS", &format!("0\\0\\{z}")));
    file.put(0x5200_9230, "SQ", items(&[place("6"), place("3"), place("9")]));
    let path = folder.path().join("frames.dcm");
    file.save(&path);
    let values: Vec<Vec<f32>> = read(&path).iter().map(|image| image.pixels().to_vec()).collect();
    assert_eq!(values, [[13.0, 14.0], [11.0, 12.0], [15.0, 16.0]]);
    assert_eq!(read(&path)[0].geometry.as_ref().unwrap().spacing, [0.5, 0.5, 3.0]);
    // Without groups of their own frames have no place, but an order.
    let mut plain = file.clone();
    plain.remove(0x5200_9230);
    plain.text(0x0020_0032, "DS", "0\\0\\7");
    plain.save(&path);
    assert_eq!((read(&path)[2].pixels(), read(&path)[2].geometry.is_none()), (&[15.0, 16.0][..], true));
    file.put(0x5200_9230, "SQ", items(&[place("6"), place("3")]));
    file.save(&path);
    assert!(refusal(&path).contains("describes 2 frames of 3"));
}

#[test]
fn masks_of_a_series_are_written_as_nifti_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ct");
    save(&path, &series());
    let masks: Vec<Mask> = (0..4).map(|z| Mask::from_fn(3, 2, |x, y| (x + y + z) % 2 == 0)).collect();
    let written = write_masks_like(&path, &folder.path().join("m"), &masks, &Limits::default()).unwrap();
    assert_eq!(written.file_name().unwrap(), "m.nii.gz");
    let back = read(&written);
    assert_eq!(back[1].geometry, read(&path)[1].geometry);
    assert_eq!(back[1].pixels(), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    let alone = folder.path().join("alone.dcm");
    series()[0].save(&alone);
    let written =
        write_masks_like(&alone, &folder.path().join("n"), &masks[..1], &Limits::default()).unwrap();
    assert_eq!(read_mask(&written, MaskRule::Binary, &Limits::default()).unwrap(), masks[0]);
}

#[test]
fn folders_of_series_are_volumes_of_data_sets() {
    let folder = tempfile::tempdir().unwrap();
    for case in ["a", "b"] {
        save(&folder.path().join("images").join(case), &series());
        let name = folder.path().join(format!("masks/{case}_reader1.nii.gz"));
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        let masks = vec![Mask::from_fn(3, 2, |x, _| x == 0); 4];
        let stem = folder.path().join("masks").join(format!("{case}_reader1"));
        write_masks_like(&folder.path().join("images").join(case), &stem, &masks, &Limits::default())
            .unwrap();
    }
    let dataset = Dataset::open(folder.path(), &Options::default()).unwrap();
    let ids: Vec<&str> = dataset.entries().iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids.len(), 8);
    assert_eq!((ids[0], ids[7]), ("a/slice-000", "b/slice-003"));
    let case = dataset.case(5).unwrap();
    assert_eq!((case.image.pixels()[0], case.annotations[0].mask.area(0)), (97.0, 2));
    // Radiographs of one series, without a place, stay images of their own.
    let other = tempfile::tempdir().unwrap();
    for (name, mut file) in ["x.dcm", "y.dcm"].into_iter().zip(series()) {
        file.remove(0x0020_0032);
        file.save(&other.path().join("images").join(name));
        let mask = other.path().join("masks").join(name).with_extension("png");
        make::png(mask, 3, &[0, 255, 0, 0, 0, 0]);
    }
    assert_eq!(Dataset::open(other.path(), &Options::default()).unwrap().len(), 2);
}

#[test]
fn scans_are_found_below_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    save(&folder.path().join("P1/study/ct"), &series());
    series()[0].save(&folder.path().join("P1/study/scout/one.dcm"));
    let mut report = series().remove(0);
    report.remove(0x0028_0010);
    report.save(&folder.path().join("P1/report.dcm"));
    let found = find(folder.path(), &Limits::default()).unwrap();
    let names: Vec<String> = found.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["P1/study/ct", "P1/study/scout/one.dcm"]);
    // A folder with a broken file is found, so that it is told of.
    fs::create_dir_all(folder.path().join("P2")).unwrap();
    fs::write(folder.path().join("P2/cut"), &series()[0].bytes()[..300]).unwrap();
    let found = find(folder.path(), &Limits::default()).unwrap();
    assert_eq!(found[2].0, Path::new("P2"));
    assert!(refusal(&found[2].1).contains("truncated"));
    assert!(refusal(&folder.path().join("P1/report.dcm")).contains("without an image"));
}

#[test]
fn a_segmentation_refers_to_its_slices_and_tells_no_more_of_the_patient() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ct");
    let mut files = series();
    for file in &mut files {
        file.text(0x0008_0080, "LO", "canary hospital");
        file.text(0x0008_0050, "SH", "ACC");
    }
    save(&path, &files);
    let segments: Vec<seg::Segment> = (0..3)
        .map(|at| seg::Segment { label: format!("hypothesis {}", at + 1), description: "p".into() })
        .collect();
    // The first marks all slices but one, the second one pixel of the last, the third nothing.
    let mask = |segment: usize, slice: usize| {
        Mask::from_fn(3, 2, |x, y| match segment {
            0 => slice != 1 && (x + y) % 2 == 0,
            1 => slice == 3 && x == 2 && y == 1,
            _ => false,
        })
    };
    let part = |segment, slice| seg::Part { mask: mask(segment, slice), class: 0 };
    let written = folder.path().join("s.dcm");
    seg::write(&written, &path, "program 1", &segments, &part, &Limits::default()).unwrap();
    let object = dicom_object::open_file(&written).unwrap();
    let text = |tag| object.get(tag).unwrap().to_str().unwrap().trim_end().to_owned();
    assert_eq!(text(tags::MODALITY), "SEG");
    assert_eq!(
        (text(tags::PATIENT_NAME), text(tags::ACCESSION_NUMBER)),
        ("Canary^Name".into(), "ACC".into())
    );
    assert_eq!(text(tags::PATIENT_BIRTH_DATE), "", "demanded, though the source has none");
    assert!(object.get(tags::INSTITUTION_NAME).is_none());
    assert_eq!(text(tags::NUMBER_OF_FRAMES), "5");
    let frames = object.get(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE).unwrap().items().unwrap();
    let inner = |frame: usize, sequence, tag| {
        let items = frames[frame].get(sequence).unwrap().items().unwrap();
        items[0].get(tag).unwrap().to_str().unwrap().trim_end().to_owned()
    };
    let of: Vec<String> = (0..5)
        .map(|frame| inner(frame, tags::SEGMENT_IDENTIFICATION_SEQUENCE, tags::REFERENCED_SEGMENT_NUMBER))
        .collect();
    assert_eq!(of, ["1", "1", "1", "2", "3"]);
    assert_eq!(inner(3, tags::PLANE_POSITION_SEQUENCE, tags::IMAGE_POSITION_PATIENT), "-10\\20\\2");
    assert_eq!(
        inner(4, tags::FRAME_CONTENT_SEQUENCE, tags::DIMENSION_INDEX_VALUES),
        "3\\3",
        "the middle slice"
    );
    let derivation = frames[3].get(tags::DERIVATION_IMAGE_SEQUENCE).unwrap().items().unwrap();
    let source = &derivation[0].get(tags::SOURCE_IMAGE_SEQUENCE).unwrap().items().unwrap()[0];
    assert_eq!(
        source.get(tags::REFERENCED_SOP_INSTANCE_UID).unwrap().to_str().unwrap().trim_end_matches('\0'),
        "1.9.1.3"
    );
    // Frames of six bits follow each other without a gap.
    let bits = object.get(tags::PIXEL_DATA).unwrap().to_bytes().unwrap();
    let bit = |at: usize| bits[at / 8] >> (at % 8) & 1 == 1;
    for (frame, (segment, slice)) in [(0, 0), (0, 2), (0, 3), (1, 3), (2, 2)].into_iter().enumerate() {
        let mask = mask(segment, slice);
        let all = (0..6).all(|pixel| bit(6 * frame + pixel) == mask.get(0, pixel % 3, pixel / 3));
        assert!(all, "frame {frame}");
    }
    // A scan that does not say where it lies has no place for segments.
    let mut placeless = series().remove(0);
    placeless.remove(0x0020_0052);
    let other = folder.path().join("x.dcm");
    placeless.save(&other);
    let fault =
        seg::write(&written, &other, "p", &segments, &part, &Limits::default()).unwrap_err().to_string();
    assert!(fault.contains("FrameOfReferenceUID") && fault.contains("--format dicom"), "{fault}");
    // The segmentation itself is no scan.
    assert!(refusal(&written).contains("without an image"));
    assert!(Slices::open(&[path], &Limits::default()).is_ok());
}
