//! Files that declare far more than they hold: refused in less than a second and without the memory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use multivalued_data::import::{Limits, read_image};

/// The most memory this process ever held, in bytes; none where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// A PNG of the declared size with next to no data behind it.
fn png(width: u32, height: u32, colour: u8, depth: u8) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([depth, colour, 0, 0, 0]);
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [
        (b"IHDR", header),
        (b"IDAT", b"\x78\x9c\x63\x60\x00\x00\x00\x01\x00\x01".to_vec()),
        (b"IEND", vec![]),
    ] {
        bytes.extend((data.len() as u32).to_be_bytes());
        let checked = [&kind[..], &data].concat();
        bytes.extend(&checked);
        bytes.extend(crc(&checked).to_be_bytes());
    }
    bytes
}

/// A TIFF of one strip.
fn tiff(width: u32, height: u32, strip_bytes: u32) -> Vec<u8> {
    let mut bytes = b"II*\x00\x08\x00\x00\x00".to_vec();
    bytes.extend(9u16.to_le_bytes());
    let entries = [
        (256u16, width),
        (257, height),
        (258, 16),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, height),
        (279, strip_bytes),
    ];
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4u16.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    bytes
}

fn nifti(size: [i16; 3], datatype: i16, bits: i16) -> Vec<u8> {
    let mut bytes = vec![0; 352];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &348i32.to_le_bytes());
    for (axis, length) in [3, size[0], size[1], size[2], 1, 1, 1, 1].into_iter().enumerate() {
        put(40 + 2 * axis, &length.to_le_bytes());
    }
    put(70, &datatype.to_le_bytes());
    put(72, &bits.to_le_bytes());
    put(108, &352f32.to_le_bytes());
    put(344, b"n+1\0");
    bytes
}

fn gzip(parts: &[&[u8]], zeros: usize) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    parts.iter().for_each(|part| out.write_all(part).unwrap());
    let block = vec![0; 1 << 20];
    (0..zeros >> 20).for_each(|_| out.write_all(&block).unwrap());
    out.finish().unwrap()
}

fn npy(shape: &str) -> Vec<u8> {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes
}

#[test]
fn refused_at_once_and_without_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let small = nifti([4, 4, 1], 2, 8);
    let files: Vec<(&str, Vec<u8>, &str)> = vec![
        ("wide.png", png(65_535, 65_535, 0, 8), "larger than allowed"),
        ("within-sides.png", png(16_384, 16_384, 6, 16), "may have 67108864 pixels"),
        ("within-limits.png", png(8_000, 8_000, 6, 16), "cannot hold that"),
        ("wide.tiff", tiff(4_000_000_000, 4_000_000_000, 8), "wide.tiff"),
        ("within-limits.tiff", tiff(8_000, 8_000, 8), "cannot hold that"),
        ("strip.tiff", tiff(100, 100, u32::MAX), "strip.tiff"),
        ("strip-within-limits.tiff", tiff(100, 100, 1_500_000_000), "strip-within-limits.tiff"),
        ("all-axes.nii", nifti([32_767, 32_767, 32_767], 64, 64), "largest side"),
        ("within-sides.nii", nifti([8_000, 8_000, 100], 64, 64), "are more than the"),
        ("within-limits.nii", nifti([1_000, 1_000, 200], 64, 64), "cannot hold that"),
        ("within-limits.nii.gz", gzip(&[&nifti([1_000, 1_000, 200], 64, 64)], 1 << 20), "cannot hold that"),
        // 512 MiB of zeros behind a header that wants 16 bytes: read as far as wanted, no further.
        ("bomb.nii.gz", gzip(&[&small], 512 << 20), ""),
        ("wide.npy", npy("(65535, 65535)"), "largest side"),
        ("within-limits.npy", npy("(8000, 8000)"), "cannot hold that"),
    ];
    let before = peak_memory();
    for (name, bytes, cause) in files {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let start = Instant::now();
        let result = read_image(Path::new(&path), &Limits::default());
        let took = start.elapsed();
        assert!(took < Duration::from_secs(1), "{name} took {took:?}");
        match result {
            Ok(image) => assert!(cause.is_empty() && image.pixels().len() == 16, "{name} was read"),
            Err(fault) => {
                let message = fault.to_string();
                assert!(!cause.is_empty() && message.contains(cause), "{message} lacks {cause}");
                assert!(message.contains(name), "{message}");
            }
        }
    }
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        let extra = after - before;
        assert!(extra < 100 << 20, "{extra} bytes were taken");
    }
}
