//! Event files that TensorBoard reads: TFRecord framing around a few hand-encoded protobuf messages.
//!
//! ```text
//! record   length u64, masked crc32c of the length, data, masked crc32c of the data; little-endian
//! Event    1 wall_time double, 2 step int64, 3 file_version string, 5 summary, 7 session_log
//! Summary  1 value (repeated): 1 tag string, 2 simple_value float, 4 image
//! Image    1 height, 2 width, 3 colourspace, 4 encoded_image_string
//! ```

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use image::RgbImage;
use multivalued::protobuf::{put_bytes, put_fixed, put_message, put_number};
use multivalued_data::files;

use crate::exit::{Failure, Outcome};
use crate::picture;

/// An event file that grows.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Events {
    /// A new event file in a folder. Where a run goes on from a step, TensorBoard forgets what older
    /// files say of later steps.
    pub fn create(folder_path: &Path, step: u64) -> Outcome<Self> {
        files::make_folder(folder_path)?;
        // TensorBoard reads a folder's files in the order of their names.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("events.out.tfevents.{:010}.{:09}.multivalued", now.as_secs(), now.subsec_nanos());
        let path = folder_path.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = BufWriter::new(file.map_err(|error| Failure::io(&path, &error))?);
        let mut events = Self { path, file };
        events.write(0, |event| put_bytes(event, 3, b"brain.Event:2"))?;
        if step > 0 {
            events.write(step + 1, |event| put_message(event, 7, |session| put_number(session, 1, 1)))?;
        }
        events.flush()?;
        Ok(events)
    }

    /// Adds a number.
    pub fn scalar(&mut self, step: u64, tag: &str, value: f64) -> Outcome {
        self.value(step, tag, |message| put_fixed(message, 2, &(value as f32).to_le_bytes()))
    }

    /// Adds a picture.
    pub fn image(&mut self, step: u64, tag: &str, tile: &RgbImage) -> Outcome {
        self.value(step, tag, |message| {
            put_message(message, 4, |image| {
                put_number(image, 1, u64::from(tile.height()));
                put_number(image, 2, u64::from(tile.width()));
                put_number(image, 3, 3);
                put_bytes(image, 4, &picture::png(tile));
            });
        })
    }

    /// Hands everything to the operating system, so that a running TensorBoard sees it.
    pub fn flush(&mut self) -> Outcome {
        self.file.flush().map_err(|error| Failure::io(&self.path, &error))
    }

    fn value(&mut self, step: u64, tag: &str, content: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        self.write(step, |event| {
            put_message(event, 5, |summary| {
                put_message(summary, 1, |value| {
                    put_bytes(value, 1, tag.as_bytes());
                    content(value);
                });
            });
        })
    }

    fn write(&mut self, step: u64, content: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut event = Vec::new();
        put_fixed(&mut event, 1, &now.to_le_bytes());
        put_number(&mut event, 2, step);
        content(&mut event);
        self.file.write_all(&framed(&event)).map_err(|error| Failure::io(&self.path, &error))
    }
}

/// A TFRecord.
fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length), data, &masked_crc(data)].concat()
}

/// TFRecord's mask keeps the checksum of a file of checksums meaningful.
fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let mut events = Events::create(folder.path(), 0).unwrap();
        events.scalar(1, "loss", 0.5).unwrap();
        events.scalar(300, "loss", 0.25).unwrap();
        events.image(100, "hypotheses", &RgbImage::from_pixel(3, 2, image::Rgb([255, 0, 0]))).unwrap();
        events.flush().unwrap();
        let path = events.path.clone();
        (folder, path)
    }

    #[test]
    fn records_are_framed_with_their_checksums() {
        // CRC-32C of "123456789" is the catalogue's check value 0xe3069283.
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        let (_folder, path) = written();
        let bytes = std::fs::read(path).unwrap();
        let (mut rest, mut records) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            assert_eq!(rest[8..12], masked_crc(&rest[..8]));
            let data = &rest[12..12 + length];
            assert_eq!(rest[12 + length..16 + length], masked_crc(data));
            records.push(data);
            rest = &rest[16 + length..];
        }
        assert_eq!(records.len(), 4);
        // After the wall time: step 300 as a varint, then the summary with "loss" and 0.25.
        let value = [0x0a, 4, b'l', b'o', b's', b's', 0x15, 0, 0, 0x80, 0x3e];
        let expected = [&[0x10, 0xac, 0x02, 0x2a, 13, 0x0a, 11][..], &value].concat();
        assert_eq!(records[2][9..], expected);
    }

    /// Reads the file with the real TensorBoard where TENSORBOARD_PYTHON names a Python that has it.
    #[test]
    fn tensorboard_reads_scalars_and_pictures() {
        let Some(python) = std::env::var_os("TENSORBOARD_PYTHON") else {
            eprintln!("skipped: TENSORBOARD_PYTHON names no Python with TensorBoard");
            return;
        };
        let (folder, _) = written();
        // A run that was taken up again at step 200 makes step 300 of the first file void.
        let mut again = Events::create(folder.path(), 200).unwrap();
        again.scalar(300, "loss", 0.125).unwrap();
        again.flush().unwrap();
        let script = "
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]); events.Reload()
print([(e.step, e.value) for e in events.Scalars('loss')])
print([(e.step, e.width, e.height, e.encoded_image_string[1:4]) for e in events.Images('hypotheses')])
";
        let output =
            std::process::Command::new(python).args(["-c", script]).arg(folder.path()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{err}");
        assert_eq!(
            out.lines().collect::<Vec<_>>(),
            ["[(1, 0.5), (300, 0.125)]", "[(100, 3, 2, b'PNG')]"],
            "{err}"
        );
    }
}
