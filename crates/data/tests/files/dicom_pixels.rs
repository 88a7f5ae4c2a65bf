//! DICOM's pixels: colours, bits, compression, and files that lie about their lengths.

use std::fs;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use multivalued_data::import::{Limits, read_image};

use crate::dicom::{read, refusal};
use crate::dicom_make::{File, RUN_LENGTHS, encapsulated};

#[test]
fn colours_inverted_grey_and_bits_that_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let mut file = File::slice("1.9.1.1", 0.0, 2, &[0, 0]);
    let mut check = |width,
                     samples,
                     bits,
                     photometric: &str,
                     change: &dyn Fn(&mut File),
                     bytes: &[u8],
                     wanted: &[f32]| {
        file.pixels(width, samples, bits, photometric, bytes);
        change(&mut file);
        file.save(&path);
        assert_eq!(read_image(&path, &Limits::default()).unwrap().pixels(), wanted, "{photometric}");
    };
    let nothing = |_: &mut File| {};
    check(3, 1, 8, "MONOCHROME1", &nothing, &[0, 100, 255], &[255.0, 155.0, 0.0]);
    check(2, 3, 8, "RGB", &nothing, &[1, 2, 3, 4, 5, 6], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    check(
        2,
        3,
        8,
        "RGB",
        &|file| file.number(0x0028_0006, 1),
        &[1, 2, 3, 4, 5, 6],
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    );
    check(
        2,
        3,
        8,
        "YBR_FULL",
        &|file| file.number(0x0028_0006, 0),
        &[100, 128, 128, 76, 85, 255],
        &[100.0, 254.0, 100.0, 0.0, 100.0, 0.0],
    );
    // Twelve bits; the upper four are an overlay's.
    let twelve = |file: &mut File| {
        file.number(0x0028_0101, 12);
        file.number(0x0028_0102, 11);
    };
    check(2, 1, 16, "MONOCHROME2", &twelve, &[0x01, 0xf2, 0xff, 0x0f], &[0x201 as f32, 0xfff as f32]);
    let signed = |file: &mut File| {
        twelve(file);
        file.number(0x0028_0103, 1);
    };
    check(2, 1, 16, "MONOCHROME2", &signed, &[0xff, 0x0f, 0x01, 0x00], &[-1.0, 1.0]);
    check(2, 1, 16, "MONOCHROME1", &twelve, &[0x00, 0x00, 0xff, 0x0f], &[4095.0, 0.0]);
}

#[test]
fn compressed_frames_and_those_without_a_decoder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let sound = File::slice("1.9.1.1", 0.0, 3, &[1, 2, 3, 300, 301, 302]);
    let mut file = sound.clone();
    file.syntax = RUN_LENGTHS.into();
    // The high bytes as a run of three zeros and three ones, the low ones as they are.
    let mut runs: Vec<u8> = [2u32, 64, 68].into_iter().chain([0; 13]).flat_map(u32::to_le_bytes).collect();
    runs.extend([254, 0, 254, 1, 5, 1, 2, 3, 44, 45, 46, 0]);
    file.put(0x7fe0_0010, "OB", encapsulated(&[runs.clone()]));
    file.save(&path);
    assert_eq!(read(&path)[0].pixels(), [1.0, 2.0, 3.0, 300.0, 301.0, 302.0]);
    for (at, value) in [(0, 3), (4, 0xff), (8, 0xff), (64, 0x80)] {
        let mut damaged = runs.clone();
        damaged[at] = value;
        file.put(0x7fe0_0010, "OB", encapsulated(&[damaged]));
        file.save(&path);
        assert!(refusal(&path).contains("run lengths"), "{at}");
    }
    // A JPEG of the image library, which reads it the same.
    let grey: Vec<u8> = (0..64).map(|v| v * 3).collect();
    let mut packed = Vec::new();
    image::codecs::jpeg::JpegEncoder::new(&mut packed)
        .encode(&grey, 8, 8, image::ExtendedColorType::L8)
        .unwrap();
    let theirs = image::load_from_memory(&packed).unwrap().to_luma8();
    packed.resize(packed.len().next_multiple_of(2), 0);
    let mut file = sound.clone();
    file.syntax = "1.2.840.10008.1.2.4.50".into();
    file.pixels(8, 1, 8, "MONOCHROME2", &grey);
    file.put(0x7fe0_0010, "OB", encapsulated(&[packed[..40].to_vec(), packed[40..].to_vec()]));
    file.save(&path);
    let ours = read(&path);
    let worst = ours[0]
        .pixels()
        .iter()
        .zip(theirs.as_raw())
        .map(|(a, b)| (a - f32::from(*b)).abs())
        .fold(0.0, f32::max);
    assert!(worst <= 1.0, "{worst}");
    file.number(0x0028_0010, 9);
    file.save(&path);
    assert!(refusal(&path).contains("8x8 with 1 channels of 8 bits, where the file says 8x9"));
    for (syntax, name) in [
        ("1.2.840.10008.1.2.4.80", "JPEG-LS"),
        ("1.2.840.10008.1.2.4.92", "JPEG 2000 Part 2"),
        ("1.2.840.10008.1.2.4.202", "HTJ2K"),
        ("1.2.840.10008.1.2.4.103", "MPEG"),
        ("1.2.3", "unknown"),
    ] {
        file.syntax = syntax.into();
        file.save(&path);
        let message = refusal(&path);
        assert!(
            message.contains(syntax) && message.contains(name) && message.contains("gdcmconv --raw"),
            "{message}"
        );
    }
    // Elements of the other byte order than the file says.
    let mut wide = sound.clone();
    wide.syntax = "1.2.840.10008.1.2.2".into();
    wide.save(&path);
    refusal(&path);
    // Deflated as a whole.
    let mut file = sound.clone();
    file.syntax = "1.2.840.10008.1.2.1.99".into();
    let head = file.bytes().len() - file.content().len();
    let mut packer = DeflateEncoder::new(file.bytes()[..head].to_vec(), Compression::default());
    std::io::Write::write_all(&mut packer, &file.content()).unwrap();
    fs::write(&path, packer.finish().unwrap()).unwrap();
    assert_eq!(read(&path)[0].pixels()[5], 302.0);
    // Compressed pixels in a file that says it has none such.
    let mut file = sound;
    file.put(0x7fe0_0010, "OB", encapsulated(&[runs]));
    file.save(&path);
    assert!(refusal(&path).contains("compressed in another way"));
}

#[test]
fn lies_about_lengths_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let sound = File::slice("1.9.1.1", 0.0, 3, &[1, 2, 3, 4, 5, 6]);
    // Cut anywhere, it is told, and never taken for whole.
    let bytes = sound.bytes();
    for end in 132..bytes.len() {
        fs::write(&path, &bytes[..end]).unwrap();
        refusal(&path);
    }
    // An element of 4 GiB in a file of some hundred bytes, of either kind.
    for kind in [&b"UN"[..], b"UT", b"OB"] {
        let mut bytes = bytes.clone();
        let at = bytes.len() - 24;
        bytes.truncate(at);
        bytes.extend([0x11, 0x00, 0x10, 0x10]);
        bytes.extend(kind);
        bytes.extend([0, 0, 0xf0, 0xff, 0xff, 0xff]);
        fs::write(&path, bytes).unwrap();
        assert!(refusal(&path).contains("truncated"));
    }
    // Sequences inside of each other.
    let mut deep = bytes[..bytes.len() - 24].to_vec();
    for _ in 0..10_000 {
        deep.extend(b"\x40\x00\x75\x02SQ\0\0\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff");
    }
    fs::write(&path, deep).unwrap();
    assert!(refusal(&path).contains("sequences inside of"));
    // More pixels than the file has, and more than are allowed.
    let mut file = sound.clone();
    file.number(0x0028_0010, 60_000);
    file.save(&path);
    assert!(refusal(&path).contains("largest side"));
    file.number(0x0028_0010, 9_000);
    file.number(0x0028_0011, 9_000);
    file.save(&path);
    assert!(refusal(&path).contains("an image may have"));
    file.number(0x0028_0010, 8);
    file.number(0x0028_0011, 3);
    file.save(&path);
    assert!(refusal(&path).contains("is truncated: 12 of 48 bytes of pixels"));
    file.text(0x0028_0008, "IS", "2000000000");
    file.save(&path);
    assert!(refusal(&path).contains("2000000000 frames"));
}

/// The codestreams were written by OpenJPEG 2.5, without loss, from ramps along columns x and rows y.
#[test]
fn jpeg_2000_without_loss_is_read_to_the_bit() {
    const SIGNED: &[u8] = include_bytes!("jpeg2000/signed16.j2k");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let ramp = |value: fn(i32, i32) -> i32| {
        (0..32 * 40).map(|at| value(at % 40, at / 40) as f32).collect::<Vec<_>>()
    };
    let save = |packed: &[u8], [samples, allocated, stored, signed]: [u16; 4], photometric: &str| {
        let mut packed = packed.to_vec();
        packed.resize(packed.len().next_multiple_of(2), 0);
        let mut file = File::slice("1.9.1.1", 0.0, 2, &[0, 0]);
        file.syntax = "1.2.840.10008.1.2.4.90".into();
        file.pixels(40, samples, allocated, photometric, &vec![0; usize::from(samples * allocated) * 160]);
        [(0x0028_0101, stored), (0x0028_0102, stored - 1), (0x0028_0103, signed)]
            .into_iter()
            .for_each(|(tag, number)| file.number(tag, number));
        file.put(0x7fe0_0010, "OB", encapsulated(&[packed]));
        file.save(&path);
        path.clone()
    };
    let signed = save(SIGNED, [1, 16, 16, 1], "MONOCHROME2");
    assert_eq!(read(&signed)[0].pixels(), ramp(|x, y| 700 * x - 900 * y - 2000));
    let unsigned = save(include_bytes!("jpeg2000/unsigned12.j2k"), [1, 16, 12, 0], "MONOCHROME2");
    assert_eq!(read(&unsigned)[0].pixels(), ramp(|x, y| 100 * x + y));
    let inverted = save(include_bytes!("jpeg2000/unsigned12.j2k"), [1, 16, 12, 0], "MONOCHROME1");
    assert_eq!(read(&inverted)[0].pixels(), ramp(|x, y| 4095 - 100 * x - y));
    let colours = save(include_bytes!("jpeg2000/rgb.j2k"), [3, 8, 8, 0], "YBR_RCT");
    let found = read_image(&colours, &Limits::default()).unwrap();
    let ramps = [ramp(|x, _| 6 * x), ramp(|_, y| 7 * y), ramp(|x, y| 3 * (x + y))];
    ramps.iter().enumerate().for_each(|(channel, ramp)| assert_eq!(found.plane(channel), ramp));
    // Another size than the file says, and damage.
    let other = save(include_bytes!("jpeg2000/rgb.j2k"), [1, 8, 8, 0], "MONOCHROME2");
    assert!(refusal(&other).contains("40x32 with 3 channels, where the file says 40x32 with 1 channels"));
    for length in [10, 60, SIGNED.len() / 2] {
        let cut = save(&SIGNED[..length], [1, 16, 16, 1], "MONOCHROME2");
        assert!(refusal(&cut).contains("JPEG 2000 frame cannot be decoded"), "{length}");
    }
}
