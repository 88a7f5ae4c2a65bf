//! The input tensor `image` as images: `[height, width]`, `[height, width, channels]` or `[images, height, width,
//! channels]`, of any type of numbers, with the values as the files have them.

use half::{bf16, f16};
use multivalued_data::Image;
use multivalued_data::import::Limits;

use super::request::{Input, Request};
use crate::refusal::Refusal;

/// Where an input says how many bytes behind the JSON are its own.
const BINARY: &str = "binary_data_size";

/// The images of a request. `claim` is asked for the memory of their values before it is taken.
pub fn images(
    request: Request,
    binary: &[u8],
    channels: usize,
    mut claim: impl FnMut(u64) -> Result<(), Refusal>,
) -> Result<Vec<Image>, Refusal> {
    let mut inputs = request.inputs.0.into_iter();
    let (Some(input), None) = (inputs.next(), inputs.next()) else {
        return Err(Refusal::bad("a request has one input, named 'image'; send that alone"));
    };
    if input.name != "image" {
        return Err(Refusal::bad("the input is named 'image'; rename it"));
    }
    input.parameters.known("the input", &[BINARY])?;
    let [count, height, width] = extent(&input, channels)?;
    let values = count * height * width * channels;
    claim((values * size_of::<f32>()) as u64)?;
    let numbers = match (input.parameters.count(BINARY)?, input.data) {
        (None, Some(data)) if binary.is_empty() => data.0,
        (Some(length), None) if length == binary.len() => decoded(&input.datatype, binary)?,
        (Some(length), None) => {
            return Err(Refusal::bad(format!(
                "binary_data_size says {length} bytes and {} follow the JSON; correct it, and send \
                 Inference-Header-Content-Length with the JSON's length",
                binary.len()
            )));
        }
        _ => {
            return Err(Refusal::bad(
                "the input has either 'data' in the JSON or 'binary_data_size' and its bytes behind it; correct it",
            ));
        }
    };
    if numbers.len() != values {
        return Err(Refusal::bad(format!(
            "the shape has {values} values and {} of {} are there; correct the shape or send all values",
            numbers.len(),
            input.datatype.chars().take(8).collect::<String>()
        )));
    }
    let planar = |values: &[f32]| match channels {
        1 => values.to_vec(),
        _ => {
            (0..channels).flat_map(|channel| values.iter().skip(channel).step_by(channels).copied()).collect()
        }
    };
    Ok(numbers
        .chunks_exact(height * width * channels)
        .map(|values| Image::new(width, height, channels, planar(values)))
        .collect())
}

/// How many images, and their rows and columns; within the limits that files have, too.
fn extent(input: &Input, channels: usize) -> Result<[usize; 3], Refusal> {
    let shape = &input.shape.0;
    let stated = match shape[..] {
        [height, width] => Some([1, height, width, 1]),
        [height, width, planes] => Some([1, height, width, planes]),
        [count, height, width, planes] => Some([count, height, width, planes]),
        _ => None,
    };
    let wanted = "[height, width], [height, width, channels] or [images, height, width, channels]";
    let [count, height, width, planes] = stated.ok_or_else(|| {
        Refusal::bad(format!("the shape {shape:?} is none of {wanted}; reshape the tensor"))
    })?;
    if planes != channels as u64 {
        return Err(Refusal::bad(format!(
            "the shape {shape:?} says {planes} channels, and the model takes {channels}: {wanted}; reshape or convert it"
        )));
    }
    let limits = Limits::default();
    if count == 0 || height == 0 || width == 0 {
        return Err(Refusal::bad(format!("the shape {shape:?} has no pixels; send at least one")));
    }
    let is_small = height.max(width) <= limits.side as u64
        && height * width <= limits.pixels as u64
        && count <= limits.bytes / (height * width * planes * size_of::<f32>() as u64);
    match is_small {
        true => Ok([count as usize, height as usize, width as usize]),
        false => Err(Refusal::too_large(format!(
            "the shape {shape:?} is beyond {} rows or columns, {} pixels an image or {} bytes of f32; send less at once",
            limits.side, limits.pixels, limits.bytes
        ))),
    }
}

/// Little-endian numbers of a type as f32.
fn decoded(datatype: &str, bytes: &[u8]) -> Result<Vec<f32>, Refusal> {
    macro_rules! numbers {
        ($type:ty, $value:expr) => {{
            let (words, rest) = bytes.as_chunks::<{ size_of::<$type>() }>();
            if !rest.is_empty() {
                return Err(Refusal::bad("the input's bytes end within a number; send all of them"));
            }
            words.iter().map(|&word| $value(<$type>::from_le_bytes(word))).collect()
        }};
    }
    Ok(match datatype {
        "BOOL" => bytes.iter().map(|&byte| f32::from(u8::from(byte != 0))).collect(),
        "UINT8" => bytes.iter().map(|&byte| f32::from(byte)).collect(),
        "INT8" => bytes.iter().map(|&byte| f32::from(byte.cast_signed())).collect(),
        "UINT16" => numbers!(u16, f32::from),
        "INT16" => numbers!(i16, f32::from),
        "UINT32" => numbers!(u32, |number| number as f32),
        "INT32" => numbers!(i32, |number| number as f32),
        "UINT64" => numbers!(u64, |number| number as f32),
        "INT64" => numbers!(i64, |number| number as f32),
        "FP16" => numbers!(f16, f16::to_f32),
        "BF16" => numbers!(bf16, bf16::to_f32),
        "FP32" => numbers!(f32, |number| number),
        "FP64" => numbers!(f64, |number| number as f32),
        _ => {
            return Err(Refusal::bad(
                "the input's datatype is none of BOOL, UINT8 to UINT64, INT8 to INT64, FP16, BF16, FP32, FP64; convert it",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, binary: &[u8], channels: usize) -> Result<Vec<Image>, Refusal> {
        images(Request::read(json.as_bytes()).unwrap(), binary, channels, |_| Ok(()))
    }

    fn input(shape: &str, datatype: &str, rest: &str) -> String {
        format!(r#"{{"inputs":[{{"name":"image","shape":{shape},"datatype":"{datatype}",{rest}}}]}}"#)
    }

    #[test]
    fn tensors_of_all_types_and_ranks_become_planes() {
        let four = [1i16, -2, 3, 4].map(i16::to_le_bytes).concat();
        let size = r#""parameters":{"binary_data_size":8}"#;
        let found = read(&input("[2,2]", "INT16", size), &four, 1).unwrap();
        assert_eq!(found[0].pixels(), [1.0, -2.0, 3.0, 4.0]);
        let found = read(&input("[1,2,2]", "INT16", size), &four, 2).unwrap();
        assert_eq!(
            (found[0].width(), found[0].plane(0), found[0].plane(1)),
            (2, &[1.0, 3.0][..], &[-2.0, 4.0][..])
        );
        let found = read(&input("[2,1,2,1]", "INT16", size), &four, 1).unwrap();
        assert!(found.len() == 2 && found[1].pixels() == [3.0, 4.0]);
        let half = [f16::from_f32(0.5), f16::from_f32(-2.0)].map(f16::to_le_bytes).concat();
        assert_eq!(decoded("FP16", &half).unwrap(), [0.5, -2.0]);
        assert_eq!(decoded("BOOL", &[0, 7]).unwrap(), [0.0, 1.0]);
        assert_eq!(decoded("FP64", &1.5f64.to_le_bytes()).unwrap(), [1.5]);
        assert_eq!(
            read(&input("[1,2]", "UINT8", r#""data":[[7,255]]"#), b"", 1).unwrap()[0].pixels(),
            [7.0, 255.0]
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_remedy() {
        let size = r#""parameters":{"binary_data_size":8}"#;
        for (json, binary, status, says) in [
            (input("[2,2]", "INT16", size), &[0; 7][..], 400, "says 8 bytes and 7 follow"),
            (input("[2,3]", "INT16", size), &[0; 8], 400, "6 values and 4"),
            (input("[2,2]", "INT64", size), &[0; 8], 400, "4 values and 1"),
            (input("[2,2]", "BYTES", size), &[0; 8], 400, "datatype is none of"),
            (input("[2,2,3]", "INT16", size), &[0; 8], 400, "3 channels, and the model takes 1"),
            (input("[4]", "INT16", size), &[0; 8], 400, "reshape"),
            (input("[0,2]", "INT16", size), &[0; 8], 400, "no pixels"),
            (input("[1,2]", "INT16", r#""data":[1]"#), &[0; 8], 400, "either 'data'"),
            (input("[1,2]", "INT16", r#""data":[1]"#), &[], 400, "2 values and 1"),
            (input("[20000,20000]", "INT16", size), &[0; 8], 413, "beyond"),
            (input("[18446744073709551615,16000,4000,1]", "INT16", size), &[0; 8], 413, "beyond"),
            (input("[18446744073709551615,18446744073709551615]", "INT16", size), &[0; 8], 413, "beyond"),
        ] {
            let refusal = read(&json, binary, 1).unwrap_err();
            assert!(refusal.status == status && refusal.message.contains(says), "{json}: {refusal:?}");
        }
    }
}
