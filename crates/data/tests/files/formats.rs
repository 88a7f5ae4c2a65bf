//! MetaImage, NRRD and TIFFs of floats: read with their geometry, refused with a reason, written back.

use std::fs;
use std::io::Write;
use std::path::Path;

use multivalued_data::dataset::{is_image_name, read_slices};
use multivalued_data::export::write_masks_like;
use multivalued_data::import::{Limits, MaskRule, read_image, read_mask};
use multivalued_data::{Geometry, Mask};

use crate::make;

const SAMPLES: [i16; 12] = [0, 1, -2, 3, 4, 5, 600, 7, 8, 9, 10, 11];

fn little() -> Vec<u8> {
    SAMPLES.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn big() -> Vec<u8> {
    SAMPLES.iter().flat_map(|value| value.to_be_bytes()).collect()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A header of a 3x2x2 volume of 16-bit numbers; `fields` come before the last line.
fn meta(fields: &str, data: &str) -> String {
    format!(
        "ObjectType = Image\nNDims = 3\nBinaryData = True\nTransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = -10 -20 30\nElementSpacing = 0.5 0.25 2\nDimSize = 3 2 2\nElementType = MET_SHORT\n{fields}ElementDataFile = {data}\n"
    )
}

fn nrrd(fields: &str) -> String {
    format!(
        "NRRD0004\n# by hand\ntype: short\ndimension: 3\nspace: left-posterior-superior\nsizes: 3 2 2\nspace directions: (0.5,0,0) (0,0.25,0) (0,0,2)\nkinds: domain domain domain\nspace origin: (-10,-20,30)\nnote:=mine\n{fields}\n"
    )
}

fn join(header: &str, data: &[u8]) -> Vec<u8> {
    [header.as_bytes(), data].concat()
}

/// Left, posterior, superior become right, anterior, superior.
fn place() -> Geometry {
    let affine = [[-0.5, 0.0, 0.0, 10.0], [0.0, -0.25, 0.0, 20.0], [0.0, 0.0, 2.0, 30.0]];
    Geometry { spacing: [0.5, 0.25, 2.0], affine: Some(affine) }
}

/// Sound files of both formats, each of the same volume, in every way that is read.
pub fn volumes(folder: &Path) -> Vec<&'static str> {
    let put = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    put("raw.mha", &join(&meta("", "LOCAL"), &little()));
    put("msb.mha", &join(&meta("BinaryDataByteOrderMSB = True\n", "LOCAL"), &big()));
    put("packed.mha", &join(&meta("CompressedData = True\n", "LOCAL"), &zlib(&little())));
    put("pair.mhd", meta("", "pair.raw").as_bytes());
    put("pair.raw", &little());
    put("tail.mhd", meta("HeaderSize = -1\n", "tail.raw").as_bytes());
    put("tail.raw", &join("junk", &little()));
    put("packed.mhd", meta("CompressedData = True\n", "packed.zraw").as_bytes());
    put("packed.zraw", &zlib(&little()));
    put("raw.nrrd", &join(&nrrd("endian: little\nencoding: raw\n"), &little()));
    put("big.nrrd", &join(&nrrd("endian: big\r\nencoding: raw\r\n\r"), &big()));
    put("packed.nrrd", &join(&nrrd("endian: little\nencoding: gzip\n"), &make::gzip(&little())));
    put("pair.nhdr", nrrd("endian: little\nencoding: raw\nbyte skip: -1\ndata file: tail.raw\n").as_bytes());
    vec![
        "raw.mha",
        "msb.mha",
        "packed.mha",
        "pair.mhd",
        "tail.mhd",
        "packed.mhd",
        "raw.nrrd",
        "big.nrrd",
        "packed.nrrd",
        "pair.nhdr",
    ]
}

#[test]
fn one_volume_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in volumes(folder.path()) {
        let slices = read_slices(&[at(name)], &Limits::default()).unwrap_or_else(|e| panic!("{e}"));
        let values: Vec<f32> = slices.iter().flat_map(|slice| slice.pixels()).copied().collect();
        assert_eq!(values, SAMPLES.map(f32::from), "{name}");
        assert_eq!((slices.len(), slices[0].geometry.as_ref()), (2, Some(&place())), "{name}");
        let masks = [Mask::from_fn(3, 2, |x, y| x == y), Mask::from_fn(3, 2, |x, _| x == 2)];
        let written =
            write_masks_like(&at(name), &at(&format!("out-{name}")), &masks, &Limits::default()).unwrap();
        let extension = if name.contains(".m") { "mha" } else { "nrrd" };
        assert_eq!(written.extension().unwrap(), extension);
        let back = read_slices(std::slice::from_ref(&written), &Limits::default()).unwrap();
        assert_eq!(back[1].geometry, slices[1].geometry, "{name}");
        assert_eq!(back[0].pixels(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0], "{name}");
        assert_eq!(back[1].pixels(), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0], "{name}");
        let packed = fs::read(&written).unwrap();
        let text = String::from_utf8_lossy(&packed);
        assert_eq!(
            text.contains("gzip") || text.contains("CompressedData = True"),
            name.starts_with("packed")
        );
        let message = write_masks_like(&at(name), &at("x"), &masks[..1], &Limits::default()).unwrap_err();
        assert!(message.to_string().contains("1 masks for a volume of 2 slices"), "{message}");
    }
    // Samples are read through their header, not as images of their own.
    assert!(!["a.raw", "a.zraw", "a.raw.gz"].into_iter().any(is_image_name));
}

#[test]
fn colours_lie_side_by_side_and_masks_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mha = "ObjectType = Image\nNDims = 2\nDimSize = 2 1\nElementSpacing = 3 4\nElementNumberOfChannels = 3\nElementType = MET_UCHAR\nElementDataFile = LOCAL\n";
    let nrrd = "NRRD0005\ntype: uint8\ndimension: 3\nsizes: 3 2 1\nkinds: RGB-color domain domain\nspacings: nan 3 4\nencoding: raw\n\n";
    for (name, header) in [("a.mha", mha), ("a.nrrd", nrrd)] {
        fs::write(at(name), join(header, &[1, 2, 3, 4, 5, 6])).unwrap();
        let image = read_image(&at(name), &Limits::default()).unwrap();
        assert_eq!((image.channels(), image.pixels()), (3, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0][..]), "{name}");
        assert_eq!(image.geometry, Some(Geometry { spacing: [3.0, 4.0, 1.0], affine: None }), "{name}");
        let mask = Mask::from_fn(2, 1, |x, _| x == 1);
        let written =
            write_masks_like(&at(name), &at("out"), std::slice::from_ref(&mask), &Limits::default()).unwrap();
        assert_eq!(read_mask(&written, MaskRule::Binary, &Limits::default()).unwrap(), mask, "{name}");
        assert_eq!(read_image(&written, &Limits::default()).unwrap().geometry, image.geometry, "{name}");
    }
}

#[test]
fn faults_of_headers_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    fs::write(folder.path().join("secret.raw"), little()).unwrap();
    fs::write(folder.path().join("inner/short.raw"), &little()[..23]).unwrap();
    let local = |fields: &str| join(&meta(fields, "LOCAL"), &little());
    let plain = nrrd("endian: little\nencoding: raw\n");
    let mut bad_sum = join(&meta("CompressedData = True\n", "LOCAL"), &zlib(&little()));
    let last = bad_sum.len() - 1;
    bad_sum[last] ^= 1;
    for (name, bytes, cause) in [
        ("up.mhd", meta("", "../secret.raw").into_bytes(), "one file in the same folder"),
        ("absolute.mhd", meta("", "/etc/passwd").into_bytes(), "one file in the same folder"),
        ("dots.mhd", meta("", "..").into_bytes(), "one file in the same folder"),
        ("absent.mhd", meta("", "absent.raw").into_bytes(), "not in its folder"),
        ("list.mhd", meta("", "LIST").into_bytes(), "one file per slice"),
        ("pattern.mhd", meta("", "slice%03d.raw 1 2 1").into_bytes(), "one file in the same folder"),
        ("short.mhd", meta("", "short.raw").into_bytes(), "truncated: 23 of 24"),
        ("cut.mha", join(&meta("", "LOCAL"), &little()[..20]), "truncated: 20 of 24"),
        ("sum.mha", bad_sum, "cannot be unpacked"),
        (
            "text.mha",
            meta("", "LOCAL").replace("BinaryData = True", "BinaryData = False").into_bytes(),
            "as text",
        ),
        ("type.mha", meta("", "LOCAL").replace("MET_SHORT", "MET_STRING").into_bytes(), "MET_STRING"),
        ("axes.mha", meta("", "LOCAL").replace("NDims = 3", "NDims = 2").into_bytes(), "NDims"),
        (
            "time.mha",
            meta("", "LOCAL")
                .replace("DimSize = 3 2 2", "DimSize = 1 2 2 3")
                .replace("NDims = 3", "NDims = 4")
                .into_bytes(),
            "along axis 4",
        ),
        ("nan.mha", meta("", "LOCAL").replace("0.25", "nan").into_bytes(), "not finite"),
        ("skip.mha", local("HeaderSize = -7\n"), "HeaderSize -7"),
        (
            "up.nhdr",
            format!("{}data file: ../secret.raw\n", plain.trim_end_matches('\n').to_owned() + "\n")
                .into_bytes(),
            "one file in the same folder",
        ),
        ("ascii.nrrd", nrrd("encoding: ascii\n").into_bytes(), "encoding 'ascii'"),
        ("endian.nrrd", nrrd("encoding: raw\n").into_bytes(), "endian"),
        ("cut.nrrd", join(&plain, &little()[..23]), "truncated: 23 of 24"),
        ("vector.nrrd", plain.replace("(0.5,0,0)", "0.5").into_bytes(), "space directions"),
        (
            "kinds.nrrd",
            plain.replace("kinds: domain domain domain", "kinds: domain domain list").into_bytes(),
            "along axis 3",
        ),
        ("sizes.nrrd", plain.replace("sizes: 3 2 2", "sizes: 3 x 2").into_bytes(), "sizes '3 x 2'"),
        ("none.nrrd", b"NRRD0004\n\n".to_vec(), "lacks the field"),
        (
            "huge.mha",
            meta("", "LOCAL").replace("DimSize = 3 2 2", "DimSize = 9000 9000 9000").into_bytes(),
            "may have 67108864 pixels",
        ),
        (
            "within.mha",
            meta("CompressedData = True\n", "LOCAL")
                .replace("DimSize = 3 2 2", "DimSize = 1000 1000 500")
                .into_bytes(),
            "cannot hold that",
        ),
        (
            "within.nrrd",
            nrrd("endian: little\nencoding: gzip\n")
                .replace("sizes: 3 2 2", "sizes: 1000 1000 500")
                .into_bytes(),
            "cannot hold that",
        ),
        (
            "empty.mha",
            meta("", "LOCAL").replace("DimSize = 3 2 2", "DimSize = 3 0 2").into_bytes(),
            "nothing in it",
        ),
        ("endless.mha", join("ObjectType = Image\nComment = ", &[b'x'; 1 << 17]), "no end of its header"),
    ] {
        let path = folder.path().join("inner").join(name);
        fs::write(&path, bytes).unwrap();
        let message = read_slices(std::slice::from_ref(&path), &Limits::default()).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains(cause), "{message} lacks {cause}");
    }
}

/// A TIFF of one strip: `format` 1 unsigned, 2 signed, 3 floating.
pub fn tiff(width: u32, bits: u32, format: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"II*\x00\x08\x00\x00\x00".to_vec();
    let height = data.len() as u32 * 8 / bits / width;
    let entries = [
        (256u16, width),
        (257, height),
        (258, bits),
        (259, 1),
        (262, 1),
        (273, 8 + 2 + 10 * 12 + 4),
        (277, 1),
        (278, height),
        (279, data.len() as u32),
        (339, format),
    ];
    bytes.extend((entries.len() as u16).to_le_bytes());
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4u16.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn tiffs_of_floats_and_signed_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tiff");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        read_image(&path, &Limits::default()).map(|image| image.pixels().to_vec())
    };
    let floats: Vec<u8> = [0.25f32, -1e6, 3.5, 0.0].into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(read(&tiff(2, 32, 3, &floats)).unwrap(), [0.25, -1e6, 3.5, 0.0]);
    let doubles: Vec<u8> = [0.25f64, -1e6].into_iter().flat_map(f64::to_le_bytes).collect();
    assert_eq!(read(&tiff(2, 64, 3, &doubles)).unwrap(), [0.25, -1e6]);
    let signed: Vec<u8> = [-1000i16, 400].into_iter().flat_map(i16::to_le_bytes).collect();
    assert_eq!(read(&tiff(2, 16, 2, &signed)).unwrap(), [-1000.0, 400.0]);
    let wide: Vec<u8> = [70_000u32, 1].into_iter().flat_map(u32::to_le_bytes).collect();
    assert_eq!(read(&tiff(2, 32, 1, &wide)).unwrap(), [70_000.0, 1.0]);
    let nan: Vec<u8> = [f32::NAN, 1.0].into_iter().flat_map(f32::to_le_bytes).collect();
    assert!(read(&tiff(2, 32, 3, &nan)).unwrap_err().to_string().contains("NaN at pixel (0, 0)"));
    // Fewer samples than declared, and far more declared than the file can hold.
    let mut cut = tiff(2, 32, 3, &floats);
    cut.truncate(cut.len() - 4);
    assert!(read(&cut).unwrap_err().to_string().contains("cannot be read as TIFF"));
    let mut huge = tiff(2, 32, 3, &floats);
    // Columns, rows, and the rows of the one strip.
    for entry in [0, 1, 7] {
        let at = 10 + 12 * entry + 8;
        huge[at..at + 4].copy_from_slice(&8000u32.to_le_bytes());
    }
    assert!(read(&huge).unwrap_err().to_string().contains("cannot hold that"));
}
