//! Small files to read.

use std::fs;
use std::path::{Path, PathBuf};

/// A PNG of 8-bit grey pixels, in rows of `width`.
pub fn png(path: impl Into<PathBuf>, width: u32, pixels: &[u8]) {
    let path = path.into();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let height = pixels.len() as u32 / width;
    image::save_buffer(&path, pixels, width, height, image::ExtendedColorType::L8).unwrap();
}

/// A 2x2 image with the given brightness.
pub fn picture(path: impl Into<PathBuf>, brightness: u8) {
    png(path, 2, &[brightness, 10, 20, 30]);
}

/// A 2x2 mask with one pixel set, or none.
pub fn mask(path: impl Into<PathBuf>, set: Option<usize>) {
    let mut pixels = [0; 4];
    if let Some(at) = set {
        pixels[at] = 255;
    }
    png(path, 2, &pixels);
}

/// A NIfTI-1 file of 8-bit voxels with a spacing of 0.5, 0.5, 3 and an sform that starts at (10, 20, 30).
pub fn nifti(path: impl Into<PathBuf>, size: [i16; 3], voxels: &[u8]) {
    let path = path.into();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let bytes = nifti_bytes(size, voxels);
    if path.extension().is_some_and(|extension| extension == "gz") {
        fs::write(&path, gzip(&bytes)).unwrap();
    } else {
        fs::write(&path, bytes).unwrap();
    }
}

pub fn nifti_bytes(size: [i16; 3], voxels: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 352];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &348i32.to_le_bytes());
    for (axis, length) in [3, size[0], size[1], size[2], 1, 1, 1, 1].into_iter().enumerate() {
        put(40 + 2 * axis, &length.to_le_bytes());
    }
    put(70, &2i16.to_le_bytes());
    put(72, &8i16.to_le_bytes());
    for (axis, spacing) in [1f32, 0.5, 0.5, 3.0].into_iter().enumerate() {
        put(76 + 4 * axis, &spacing.to_le_bytes());
    }
    put(108, &352f32.to_le_bytes());
    put(123, &[2]); // millimetres
    put(254, &1i16.to_le_bytes());
    for (row, values) in
        [[0.5f32, 0.0, 0.0, 10.0], [0.0, 0.5, 0.0, 20.0], [0.0, 0.0, 3.0, 30.0]].into_iter().enumerate()
    {
        for (column, value) in values.into_iter().enumerate() {
            put(280 + 16 * row + 4 * column, &value.to_le_bytes());
        }
    }
    put(344, b"n+1\0");
    bytes.extend(voxels);
    bytes
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// An NPY array of bytes.
pub fn npy_bytes(shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// A zip archive with the named entries.
pub fn zip_bytes(entries: &[(&str, &[u8])]) -> Vec<u8> {
    use std::io::Write;
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A LIDC-like folder of two patients; the first has two nodules and a missing reader.
pub fn lidc_slices(root: &Path) {
    for (folder, slices, masks) in [("P-1/nodule-0", 2, 4), ("P-1/nodule-1", 1, 3), ("P-2/nodule-0", 1, 4)] {
        for slice in 0..slices {
            picture(root.join(format!("{folder}/images/slice-{slice}.png")), 40 + slice * 50);
            for reader in 0..masks {
                let set = (reader > 0).then_some(reader % 4);
                mask(root.join(format!("{folder}/mask-{reader}/slice-{slice}.png")), set);
            }
        }
    }
}
