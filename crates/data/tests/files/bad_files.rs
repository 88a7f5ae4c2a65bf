//! Files that must be refused, each with its name and the reason.

use std::fs;
use std::path::Path;

use multivalued_data::dataset::{Dataset, Options};
use multivalued_data::import::{Limits, MaskRule, read_image, read_mask};

use crate::make;

fn refusal(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    let message = read_image(&path, &Limits::default()).unwrap_err().to_string();
    assert!(message.contains(name), "{message} does not name {name}");
    message
}

#[test]
fn each_format_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    make::picture(folder.path().join("ok.png"), 5);
    let png = fs::read(folder.path().join("ok.png")).unwrap();
    let array = make::npy_bytes("(2, 2)", &[1, 2, 3, 4]);
    let object = b"\x93NUMPY\x01\x00\x3b\x00{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), } \n\x80\x04K\x01.";
    let npz = make::zip_bytes(&[("a.npy", &array)]);
    let gz = make::gzip(&make::nifti_bytes([2, 2, 1], &[1, 2, 3, 4]));
    let mut flipped = gz.clone();
    let last = flipped.len() - 6;
    flipped[last] ^= 1;
    for (name, bytes, cause) in [
        ("empty.png", &[][..], "is empty"),
        ("text.png", b"not an image", "none of PNG"),
        ("cut.png", &png[..png.len() / 2], "cannot be read as PNG"),
        ("cut.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF", "cannot be read as JPEG"),
        ("cut.tiff", b"II*\x00\xff\x00\x00\x00", "cannot be read as TIFF"),
        ("cut.npy", &array[..array.len() - 1], "truncated: 3 of 4"),
        ("object.npy", object, "never executed"),
        ("object.npz", &make::zip_bytes(&[("a.npy", object)]), "never executed"),
        ("pickle.pkl", b"\x80\x04\x95cos\nsystem\n", "never executed"),
        ("pickle.npz", &make::zip_bytes(&[("data.pkl", b"\x80\x04.")]), "no NPY array"),
        (
            "two.npz",
            &make::zip_bytes(&[("a.npy", &array), ("b.npy", &array)]),
            "holds 2 arrays (a.npy, b.npy)",
        ),
        ("cut.npz", &npz[..npz.len() / 2], "not a readable NPZ"),
        ("cut.nii", &make::nifti_bytes([2, 2, 1], &[1, 2, 3]), "truncated: 355 of 356 bytes"),
        ("short.nii", &make::nifti_bytes([2, 2, 1], &[])[..200], "header of 348 bytes"),
        ("cut.nii.gz", &gz[..gz.len() / 2], "cut.nii.gz"),
        ("flipped.nii.gz", &flipped, "cannot be unpacked"),
        ("volume.nii", &make::nifti_bytes([2, 2, 3], &[0; 12]), "volume of 2x2x3"),
        ("scan.dcm", &[&[0; 128][..], b"DICM"].concat(), "DICOM"),
        ("weights.h5", b"\x89HDF\r\n\x1a\n", "HDF5"),
        ("brain.mgh", &[0, 0, 0, 1, 0, 0, 0, 2], "MGH"),
        ("page.bmp", b"BM......", "none of PNG"),
    ] {
        let message = refusal(folder.path(), name, bytes);
        assert!(message.contains(cause), "{message} lacks {cause}");
    }
    let missing = read_image(&folder.path().join("absent.png"), &Limits::default()).unwrap_err().to_string();
    assert!(missing.contains("absent.png") && missing.contains("No such file"), "{missing}");
}

#[test]
fn several_pages_are_not_one_image() {
    let folder = tempfile::tempdir().unwrap();
    // Two 1x1 8-bit pages, each an image file directory of nine entries.
    let mut bytes = b"II*\x00\x08\x00\x00\x00".to_vec();
    for page in 0..2u32 {
        let start = 8 + page * 114;
        bytes.extend(9u16.to_le_bytes());
        for (tag, kind, value) in [
            (256u16, 4u16, 1u32),
            (257, 4, 1),
            (258, 3, 8),
            (259, 3, 1),
            (262, 3, 1),
            (273, 4, 4),
            (277, 3, 1),
            (278, 4, 1),
            (279, 4, 1),
        ] {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(if page == 0 { start + 114 } else { 0 }.to_le_bytes());
    }
    let message = refusal(folder.path(), "pages.tiff", &bytes);
    assert!(message.contains("several pages"), "{message}");
}

#[test]
fn values_that_are_no_numbers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend([1f32, f32::NAN].into_iter().flat_map(f32::to_le_bytes));
    let message = refusal(folder.path(), "nan.npy", &bytes);
    assert!(message.contains("NaN at pixel (1, 0)"), "{message}");
}

#[test]
fn sound_files_of_each_kind_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let grey = |path: &Path| read_image(path, &Limits::default()).unwrap();
    let array = make::npy_bytes("(2, 2)", &[1, 2, 3, 4]);
    fs::write(at("a.npy"), &array).unwrap();
    fs::write(at("a.npz"), make::zip_bytes(&[("arr_0.npy", &array)])).unwrap();
    make::png(at("a.png"), 2, &[1, 2, 3, 4]);
    make::png(at("a.tiff"), 2, &[1, 2, 3, 4]);
    make::nifti(at("a.nii"), [2, 2, 1], &[1, 2, 3, 4]);
    make::nifti(at("a.nii.gz"), [2, 2, 1], &[1, 2, 3, 4]);
    for name in ["a.npy", "a.npz", "a.png", "a.tiff", "a.nii", "a.nii.gz"] {
        assert_eq!(grey(&at(name)).pixels(), [1.0, 2.0, 3.0, 4.0], "{name}");
    }
    let words: Vec<u8> = [0u16, 300, 65_535, 7, 8, 9].into_iter().flat_map(u16::to_ne_bytes).collect();
    for name in ["deep.png", "deep.tiff"] {
        image::save_buffer(at(name), &words, 2, 1, image::ExtendedColorType::Rgb16).unwrap();
        let deep = grey(&at(name));
        assert_eq!(
            (deep.channels(), deep.pixels()),
            (3, &[0.0, 7.0, 300.0, 8.0, 65_535.0, 9.0][..]),
            "{name}"
        );
    }
    // The name may lie; the content does not.
    fs::copy(at("a.png"), at("really-a-png.jpg")).unwrap();
    assert_eq!(grey(&at("really-a-png.jpg")).pixels(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn label_maps_and_thresholds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.png");
    make::png(&path, 4, &[0, 1, 2, 3]);
    let labels = read_mask(&path, MaskRule::Labels(3), &Limits::default()).unwrap();
    assert_eq!((labels.classes(), labels.labels()), (3, vec![0, 1, 2, 3]));
    let cut = read_mask(&path, MaskRule::Threshold(2.0), &Limits::default()).unwrap();
    assert_eq!(cut.labels(), [0, 0, 1, 1]);
    let message = read_mask(&path, MaskRule::Binary, &Limits::default()).unwrap_err().to_string();
    assert!(message.contains("m.png") && message.contains("value 2 at pixel (2, 0)"), "{message}");
}

#[test]
fn masks_must_lie_where_their_image_lies() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("case").join(name);
    make::nifti(at("image.nii"), [2, 2, 2], &[1, 2, 3, 4, 5, 6, 7, 8]);
    make::nifti(at("label0.nii"), [2, 2, 2], &[0, 1, 0, 0, 0, 0, 0, 1]);
    let load = || Dataset::open(folder.path(), &Options::default()).unwrap().load();
    assert_eq!(load().unwrap().len(), 2);
    make::nifti(at("label1.nii"), [2, 2, 3], &[0; 12]);
    let message = load().unwrap_err().to_string();
    for part in ["label1.nii", "2x2x3", "image.nii", "2x2x2"] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
    // Moved by two voxels along x.
    let mut moved = make::nifti_bytes([2, 2, 2], &[0; 8]);
    moved[292..296].copy_from_slice(&11f32.to_le_bytes());
    fs::write(at("label1.nii"), moved).unwrap();
    let message = load().unwrap_err().to_string();
    assert!(message.contains("label1.nii") && message.contains("lies up to 1 "), "{message}");
    make::png(at("label1.png"), 3, &[0; 9]);
    fs::remove_file(at("label1.nii")).unwrap();
    let message = load().unwrap_err().to_string();
    assert!(
        message.contains("label1.png: is 3x3, but its image") && message.contains("is 2x2x2"),
        "{message}"
    );
}
