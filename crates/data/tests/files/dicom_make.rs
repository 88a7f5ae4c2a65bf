//! DICOM files by hand, so that a fault of the library that reads and writes them is seen.

use std::fs;
use std::path::Path;

pub const EXPLICIT: &str = "1.2.840.10008.1.2.1";
pub const RUN_LENGTHS: &str = "1.2.840.10008.1.2.5";

/// A file's elements by tag.
#[derive(Clone)]
pub struct File {
    pub syntax: String,
    elements: Vec<(u32, String, Vec<u8>)>,
}

impl File {
    /// A slice of 16-bit values at a place along z, its columns 0.5 mm and its rows 0.25 mm apart.
    pub fn slice(uid: &str, z: f64, width: u16, values: &[i16]) -> Self {
        let mut file = Self { syntax: EXPLICIT.into(), elements: Vec::new() };
        file.text(0x0008_0016, "UI", "1.2.840.10008.5.1.4.1.1.2");
        file.text(0x0008_0018, "UI", uid);
        file.text(0x0008_0060, "CS", "CT");
        file.text(0x0010_0010, "PN", "Canary^Name");
        file.text(0x0010_0020, "LO", "CANARY-ID");
        file.text(0x0020_000d, "UI", "1.9");
        file.text(0x0020_000e, "UI", "1.9.1");
        file.text(0x0020_0011, "IS", "4");
        file.text(0x0020_0032, "DS", &format!("-10\\20\\{z}"));
        file.text(0x0020_0037, "DS", "1\\0\\0\\0\\1\\0");
        file.text(0x0020_0052, "UI", "1.9.2");
        file.text(0x0028_0030, "DS", "0.25\\0.5");
        file.pixels(
            width,
            1,
            16,
            "MONOCHROME2",
            &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>(),
        );
        file.number(0x0028_0103, 1);
        file
    }

    pub fn pixels(&mut self, width: u16, samples: u16, bits: u16, photometric: &str, bytes: &[u8]) {
        let frame = bytes.len() * 8 / usize::from(bits) / usize::from(samples) / usize::from(width);
        self.text(0x0028_0004, "CS", photometric);
        for (tag, number) in [
            (0x0028_0002, samples),
            (0x0028_0010, frame as u16),
            (0x0028_0011, width),
            (0x0028_0100, bits),
            (0x0028_0101, bits),
            (0x0028_0102, bits - 1),
            (0x0028_0103, 0),
        ] {
            self.number(tag, number);
        }
        self.put(0x7fe0_0010, "OW", bytes.to_vec());
    }

    pub fn text(&mut self, tag: u32, kind: &str, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        if bytes.len() % 2 == 1 {
            bytes.push(if kind == "UI" { 0 } else { b' ' });
        }
        self.put(tag, kind, bytes);
    }

    pub fn number(&mut self, tag: u32, number: u16) {
        self.put(tag, "US", number.to_le_bytes().to_vec());
    }

    pub fn put(&mut self, tag: u32, kind: &str, bytes: Vec<u8>) {
        self.remove(tag);
        let at = self.elements.partition_point(|(other, ..)| *other < tag);
        self.elements.insert(at, (tag, kind.into(), bytes));
    }

    pub fn remove(&mut self, tag: u32) {
        self.elements.retain(|(other, ..)| *other != tag);
    }

    /// The elements alone.
    pub fn content(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (tag, kind, value) in &self.elements {
            bytes.extend(((tag >> 16) as u16).to_le_bytes());
            bytes.extend((*tag as u16).to_le_bytes());
            bytes.extend(kind.as_bytes());
            match kind.as_str() {
                // The value ends by itself.
                "OB" => bytes.extend([0, 0, 0xff, 0xff, 0xff, 0xff]),
                "OW" | "SQ" => {
                    bytes.extend([0, 0]);
                    bytes.extend((value.len() as u32).to_le_bytes());
                }
                _ => bytes.extend((value.len() as u16).to_le_bytes()),
            }
            bytes.extend(value);
        }
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        let meta = Self { syntax: String::new(), elements: Vec::new() };
        let mut meta = meta;
        meta.text(0x0002_0010, "UI", &self.syntax);
        [&[0; 128][..], b"DICM", &meta.content(), &self.content()].concat()
    }

    pub fn save(&self, path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.bytes()).unwrap();
    }
}

/// Items of a sequence, or fragments of compressed pixels.
pub fn items(items: &[Vec<u8>]) -> Vec<u8> {
    let item =
        |item: &Vec<u8>| [&[0xfe, 0xff, 0x00, 0xe0][..], &(item.len() as u32).to_le_bytes(), item].concat();
    items.iter().flat_map(item).collect()
}

/// Compressed pixels: an empty table of offsets, the fragments, and the end.
pub fn encapsulated(fragments: &[Vec<u8>]) -> Vec<u8> {
    [items(&[Vec::new()]), items(fragments), b"\xfe\xff\xdd\xe0\0\0\0\0".to_vec()].concat()
}

/// An element of a group.
pub fn group(tag: u32, kind: &str, text: &str) -> Vec<u8> {
    let mut file = File { syntax: String::new(), elements: Vec::new() };
    file.text(tag, kind, text);
    file.content()
}

/// A sequence of one item.
pub fn sequence(tag: u32, item: Vec<u8>) -> Vec<u8> {
    let mut file = File { syntax: String::new(), elements: Vec::new() };
    file.put(tag, "SQ", items(&[item]));
    file.content()
}
