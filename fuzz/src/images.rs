//! Images, masks and volumes.

use std::fs;
use std::io::Write;
use std::path::Path;

use multivalued_data::Mask;
use multivalued_data::dataset::read_slices;
use multivalued_data::export::write_masks_like;
use multivalued_data::import::{Limits, MaskRule, read_image, read_mask};

/// Small limits bound the memory that any input can take.
pub const LIMITS: Limits = Limits { side: 256, pixels: 1 << 14, bytes: 1 << 18 };

/// An image or a refusal that names the file; what can be read can be answered in its own format.
pub fn check(folder: &Path, bytes: &[u8]) {
    let path = folder.join("fuzzed");
    fs::write(&path, bytes).unwrap();
    match read_image(&path, &LIMITS) {
        Ok(image) => {
            assert!(!image.pixels().is_empty() && image.pixels().len() <= 4 * LIMITS.pixels);
            assert!(image.pixels().iter().all(|value| value.is_finite()));
        }
        Err(fault) => assert!(fault.to_string().contains("fuzzed"), "{fault}"),
    }
    for rule in [MaskRule::Binary, MaskRule::Labels(3)] {
        if let Err(fault) = read_mask(&path, rule, &LIMITS) {
            assert!(fault.to_string().contains("fuzzed"), "{fault}");
        }
    }
    match read_slices(std::slice::from_ref(&path), &LIMITS) {
        Ok(slices) => {
            let (width, height) = (slices[0].width(), slices[0].height());
            let masks = vec![Mask::from_fn(width, height, |x, y| x == y); slices.len()];
            let answer = write_masks_like(&path, &folder.join("answer"), &masks, &LIMITS).unwrap();
            if masks.len() == 1 {
                let back = read_mask(&answer, MaskRule::Binary, &LIMITS).unwrap();
                assert_eq!(back, masks[0]);
            }
            fs::remove_file(answer).unwrap();
        }
        Err(fault) => assert!(fault.to_string().contains("fuzzed"), "{fault}"),
    }
}

/// The same for bytes inside gzip, whose checksum changed bytes would hardly ever meet.
pub fn check_gzipped(folder: &Path, bytes: &[u8]) {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    packed.write_all(bytes).unwrap();
    check(folder, &packed.finish().unwrap());
}

/// The same for bytes as the only array of an NPZ archive.
pub fn check_zipped(folder: &Path, bytes: &[u8]) {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    archive.start_file("array.npy", stored).unwrap();
    archive.write_all(bytes).unwrap();
    check(folder, &archive.finish().unwrap().into_inner());
}
