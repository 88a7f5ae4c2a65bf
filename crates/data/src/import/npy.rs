//! NumPy's NPY: numbers and booleans only. The header is parsed here rather than evaluated, and
//! object arrays (which hold pickles, that is programs) are refused by their type.

use std::io::{BufReader, Read};
use std::path::Path;

use super::sample::{Sample, Steps};
use super::{Limits, Samples, Size};
use crate::disk::File;
use crate::memory::reserved;
use crate::{Error, Result};

/// Longest header accepted; NumPy's own are below 200 bytes for plain arrays.
const MOST_HEADER_BYTES: u32 = 65_536;

pub(super) fn read(path: &Path, limits: &Limits) -> Result<Samples> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let stored = file.metadata().map_err(|e| Error::io(path, e))?.len();
    read_from(path, BufReader::new(file), stored, limits)
}

/// Reads an array from a stream that holds at most what `stored` bytes can be unpacked to.
pub(super) fn read_from(path: &Path, mut stream: impl Read, stored: u64, limits: &Limits) -> Result<Samples> {
    let header = read_header(path, &mut stream)?;
    let axes = Axes::of(path, &header)?;
    let _room = limits.claim(path, &axes.size, header.sample, stored, 1)?;
    let count: usize = header.shape.iter().product();
    let length = count * header.sample.bytes();
    // Taken at once rather than grown, which would need twice as much; pages that stay unread cost nothing.
    let mut bytes = reserved(path, length)?;
    stream
        .take(length as u64)
        .read_to_end(&mut bytes)
        .map_err(|e| broken(path, format!("the data cannot be unpacked: {e}")))?;
    if bytes.len() < length {
        return Err(broken(path, format!("truncated: {} of {length} data bytes", bytes.len())));
    }
    Ok(Samples {
        size: axes.size,
        bytes,
        sample: header.sample,
        big_endian: header.big_endian,
        steps: axes.steps(header.fortran_order),
        scale: None,
        geometry: None,
    })
}

fn broken(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::file(path, format!("is not a readable NPY array: {what}; save it again with numpy.save"))
}

#[derive(Debug)]
struct Header {
    sample: Sample,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<usize>,
}

fn read_header(path: &Path, stream: &mut impl Read) -> Result<Header> {
    let mut exactly = |length: usize| {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).map_err(|e| broken(path, format!("truncated header ({e})")))?;
        Ok::<_, Error>(bytes)
    };
    let start = exactly(8)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(broken(path, "the NPY signature is missing"));
    }
    let length = match start[6] {
        1 => exactly(2)?.try_into().map_or(0, |bytes| u32::from(u16::from_le_bytes(bytes))),
        2 | 3 => exactly(4)?.try_into().map_or(0, u32::from_le_bytes),
        other => return Err(broken(path, format!("format version {other} is unknown"))),
    };
    if length > MOST_HEADER_BYTES {
        return Err(broken(path, format!("a header of {length} bytes")));
    }
    let text =
        String::from_utf8(exactly(length as usize)?).map_err(|_| broken(path, "a header that is no text"))?;
    parse_header(path, &text)
}

/// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
fn parse_header(path: &Path, text: &str) -> Result<Header> {
    let value = |key: &str| {
        let quoted = text.find(&format!("'{key}'"))?;
        text[quoted + key.len() + 2..].trim_start().strip_prefix(':').map(str::trim_start)
    };
    let missing = |key: &str| broken(path, format!("the header lacks '{key}'"));

    let descr = value("descr").ok_or_else(|| missing("descr"))?;
    let descr = descr
        .strip_prefix('\'')
        .and_then(|rest| rest.split('\'').next())
        .ok_or_else(|| broken(path, "a structured type; save a plain array of numbers"))?;
    let (order, code) = descr.split_at_checked(1).unwrap_or((descr, ""));
    let sample = match code {
        "b1" | "u1" => Sample::U8,
        "i1" => Sample::I8,
        "u2" => Sample::U16,
        "i2" => Sample::I16,
        "u4" => Sample::U32,
        "i4" => Sample::I32,
        "u8" => Sample::U64,
        "i8" => Sample::I64,
        "f4" => Sample::F32,
        "f8" => Sample::F64,
        _ if code.starts_with('O') => {
            return Err(Error::file(
                path,
                "holds Python objects (a pickle), which are never executed here; save an array of numbers",
            ));
        }
        _ => {
            let reason = format!("holds '{descr}' values; save integers, booleans, float32 or float64");
            return Err(Error::file(path, reason));
        }
    };
    let big_endian = match order {
        ">" => true,
        "<" | "|" | "=" => false,
        _ => return Err(broken(path, format!("the type '{descr}'"))),
    };
    let fortran = value("fortran_order").ok_or_else(|| missing("fortran_order"))?;
    let shape = value("shape").ok_or_else(|| missing("shape"))?;
    let shape =
        shape.strip_prefix('(').and_then(|rest| rest.split(')').next()).ok_or_else(|| missing("shape"))?;
    let shape: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().map_err(|_| broken(path, format!("the shape ({shape})"))))
        .collect::<Result<_>>()?;
    Ok(Header { sample, big_endian, fortran_order: fortran.starts_with("True"), shape })
}

/// Which axis of the array is which of the image.
#[derive(Debug)]
struct Axes {
    size: Size,
    shape: Vec<usize>,
    /// The array axes of channel (if any), row and column.
    order: Vec<usize>,
}

impl Axes {
    /// (rows, columns); (channels, rows, columns) with up to 4 channels; or the same with channels last.
    fn of(path: &Path, header: &Header) -> Result<Self> {
        let shape = header.shape.clone();
        let (channels, height, width, order) = match shape[..] {
            [height, width] => (1, height, width, vec![0, 1]),
            [channels, height, width] if channels <= 4 => (channels, height, width, vec![0, 1, 2]),
            [height, width, channels] if channels <= 4 => (channels, height, width, vec![2, 0, 1]),
            _ => {
                return Err(Error::file(
                    path,
                    format!(
                        "has the shape {shape:?}; an image is (rows, columns), (channels, rows, columns) or (rows, columns, channels) with up to 4 channels; save a volume as NIfTI"
                    ),
                ));
            }
        };
        Ok(Self { size: Size { width, height, depth: 1, channels }, shape, order })
    }

    /// How far apart the file has the image's channels, rows and columns.
    fn steps(&self, fortran_order: bool) -> Steps {
        let mut strides = vec![1; self.shape.len()];
        if fortran_order {
            for axis in 1..strides.len() {
                strides[axis] = strides[axis - 1] * self.shape[axis - 1];
            }
        } else {
            for axis in (1..strides.len()).rev() {
                strides[axis - 1] = strides[axis] * self.shape[axis];
            }
        }
        let stride = |from_last: usize| {
            self.order.len().checked_sub(from_last).map_or(0, |position| strides[self.order[position]])
        };
        Steps { slice: 0, channel: stride(3), row: stride(2), column: stride(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let fortran = if fortran { "True" } else { "False" };
        let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Samples> {
        read_from(Path::new("a.npy"), bytes, bytes.len() as u64, &Limits::default())
    }

    #[test]
    fn axes_and_orders() {
        let data: Vec<u8> = (0..6).collect();
        let planar = |bytes: &[u8]| parse(bytes).unwrap().values();
        // Two rows of three columns.
        assert_eq!(planar(&npy("'|u1'", false, "(2, 3)", &data)), [0., 1., 2., 3., 4., 5.]);
        assert_eq!(planar(&npy("'|u1'", true, "(2, 3)", &data)), [0., 2., 4., 1., 3., 5.]);
        // Channels first and last: five rows of one column, of which only the last axis is channels.
        let data: Vec<u8> = (0..10).collect();
        let last = parse(&npy("'|u1'", false, "(5, 1, 2)", &data)).unwrap();
        assert_eq!((last.size.channels, last.size.height, last.size.width), (2, 5, 1));
        assert_eq!(last.values(), [0., 2., 4., 6., 8., 1., 3., 5., 7., 9.]);
        let first = parse(&npy("'|u1'", false, "(2, 5, 1)", &data)).unwrap();
        assert_eq!(first.values(), [0., 1., 2., 3., 4., 5., 6., 7., 8., 9.]);
    }

    #[test]
    fn number_types() {
        for (descr, data, value) in [
            ("'<f4'", (-1.5f32).to_le_bytes().to_vec(), -1.5),
            ("'>f8'", 2.25f64.to_be_bytes().to_vec(), 2.25),
            ("'<i2'", (-300i16).to_le_bytes().to_vec(), -300.0),
            ("'>u2'", 65_535u16.to_be_bytes().to_vec(), 65_535.0),
            ("'|b1'", vec![1], 1.0),
            ("'|i1'", vec![0xff], -1.0),
            ("'<u4'", 70_000u32.to_le_bytes().to_vec(), 70_000.0),
            ("'<i8'", (-7i64).to_le_bytes().to_vec(), -7.0),
        ] {
            assert_eq!(parse(&npy(descr, false, "(1, 1)", &data)).unwrap().values(), [value], "{descr}");
        }
    }

    #[test]
    fn refusals_name_the_cause() {
        for (bytes, cause) in [
            (npy("'|O'", false, "(1, 1)", b"\x80\x04x"), "never executed"),
            (npy("[('a', '<f4')]", false, "(1, 1)", &[0; 4]), "structured"),
            (npy("'<c8'", false, "(1, 1)", &[0; 8]), "'<c8'"),
            (npy("'<U4'", false, "(1, 1)", &[0; 16]), "'<U4'"),
            (npy("'<f4'", false, "(2, 2)", &[0; 15]), "truncated: 15 of 16"),
            (npy("'<f4'", false, "(9, 9, 9)", &[0; 4]), "shape [9, 9, 9]"),
            (npy("'<f4'", false, "(-1, 2)", &[0; 4]), "the shape (-1, 2)"),
            (npy("'<f4'", false, "(99999999999999999999, 2)", &[0; 4]), "the shape"),
            (npy("'<f8'", false, "(8000, 8000)", &[0; 4]), "cannot hold"),
            (npy("'<f8'", false, "(65535, 65535)", &[0; 4]), "largest side"),
            (npy("'<f4'", false, "(0, 4)", &[]), "nothing in it"),
            (b"\x93NUMPY\x01".to_vec(), "truncated header"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "header of 4294967295"),
            (b"\x93NUMPY\x09\x00\x10\x00".to_vec(), "version 9"),
        ] {
            let message = parse(&bytes).unwrap_err().to_string();
            assert!(message.starts_with("a.npy: ") && message.contains(cause), "{message} lacks {cause}");
        }
    }
}
