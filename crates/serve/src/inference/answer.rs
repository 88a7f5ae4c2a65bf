//! Predictions as output tensors. Images of one request may have different numbers of hypotheses; the shorter lists are
//! padded with probability 0, code -1 and empty masks.

use std::io::Write;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use multivalued_data::Prediction;
use multivalued_data::metric::summary::short_list;
use multivalued_data::shares::disagreement;
use serde::Serialize;
use serde_json::{Value, json};

use super::HEADER_LENGTH;
use super::request::Request;
use crate::refusal::Refusal;

/// The output tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Count,
    Probabilities,
    Codes,
    Masks,
    Mean,
    Disagreement,
}

pub const OUTPUTS: [Output; 6] =
    [Output::Count, Output::Probabilities, Output::Codes, Output::Masks, Output::Mean, Output::Disagreement];

impl Output {
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Probabilities => "probabilities",
            Self::Codes => "codes",
            Self::Masks => "masks",
            Self::Mean => "mean",
            Self::Disagreement => "disagreement",
        }
    }

    pub fn datatype(self) -> &'static str {
        match self {
            Self::Count | Self::Codes => "INT32",
            Self::Masks => "UINT8",
            Self::Probabilities | Self::Mean | Self::Disagreement => "FP32",
        }
    }

    /// The shape as metadata state it; -1 where it depends on the images.
    pub fn shape(self, classes: usize) -> Value {
        match self {
            Self::Count => json!([-1]),
            Self::Probabilities | Self::Codes => json!([-1, -1]),
            Self::Masks => json!([-1, -1, -1, -1]),
            Self::Mean => json!([-1, classes, -1, -1]),
            Self::Disagreement => json!([-1, -1, -1]),
        }
    }
}

/// Parameters of the protocol and its clients that change nothing here, and those that choose hypotheses.
const PARAMETERS: [&str; 9] = [
    "binary_data_output",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "headers",
    "top",
    "list",
];

/// What is to be answered.
#[derive(Debug)]
pub struct Wanted {
    id: Option<String>,
    /// With whether it goes as bytes.
    outputs: Vec<(Output, bool)>,
    top: Option<usize>,
    list: Option<usize>,
}

impl Wanted {
    pub fn of(request: &Request) -> Result<Self, Refusal> {
        let parameters = &request.parameters;
        parameters.known("the request", &PARAMETERS)?;
        let count = |name: &str| match parameters.count(name)? {
            Some(0) => Err(Refusal::bad(format!("the parameter '{name}' is at least 1; correct it"))),
            count => Ok(count),
        };
        let (top, list) = (count("top")?, count("list")?);
        if top.is_some() && list.is_some() {
            return Err(Refusal::bad(
                "'top' and 'list' choose hypotheses in different ways; give one of them",
            ));
        }
        let as_bytes = parameters.flag("binary_data_output")?.unwrap_or(false);
        let mut outputs = Vec::new();
        for asked in &request.outputs.0 {
            asked.parameters.known("an output", &["binary_data"])?;
            let output = OUTPUTS.into_iter().find(|output| output.name() == asked.name);
            let output = output.ok_or_else(|| {
                let names = OUTPUTS.map(Output::name).join(", ");
                Refusal::bad(format!("there is no such output; there are: {names}"))
            })?;
            if outputs.iter().any(|(known, _)| *known == output) {
                return Err(Refusal::bad(format!(
                    "the output '{}' is asked for twice; ask once",
                    output.name()
                )));
            }
            outputs.push((output, asked.parameters.flag("binary_data")?.unwrap_or(as_bytes)));
        }
        if outputs.is_empty() {
            outputs = OUTPUTS.map(|output| (output, as_bytes)).to_vec();
        }
        Ok(Self { id: request.id.clone(), outputs, top, list })
    }

    /// What is answered of predictions. `mean` and `disagreement` are those of all hypotheses in any case.
    pub fn kept(&self, said: Vec<Prediction>) -> Result<Vec<Kept>, Refusal> {
        let kept = |all: Prediction| {
            let mut some = match self.list {
                Some(count) => short_list(&all, count)?.prediction,
                None => all.clone(),
            };
            some.hypotheses.truncate(self.top.unwrap_or(usize::MAX));
            Ok(Kept { all, some })
        };
        said.into_iter().map(kept).collect()
    }

    fn has(&self, output: Output) -> bool {
        self.outputs.iter().any(|(wanted, _)| *wanted == output)
    }

    /// Bytes that the answer takes while it is made, at most: numbers in JSON take up to twelve letters.
    pub fn bytes(&self, said: &[Kept], [width, height]: [usize; 2]) -> u64 {
        let longest = longest(said);
        let classes = said.first().map_or(1, Kept::classes);
        let pixels = (width * height * said.len()) as u64;
        let of = |(output, as_bytes): &(Output, bool)| {
            let (values, bytes, letters) = match output {
                Output::Masks => (pixels * longest as u64, 1, 3),
                Output::Mean => (pixels * classes as u64, 4, 12),
                Output::Disagreement => (pixels, 4, 12),
                _ => ((said.len() * longest) as u64, 4, 12),
            };
            values * (bytes + if *as_bytes { bytes } else { letters })
        };
        self.outputs.iter().map(of).sum()
    }

    /// The answer.
    pub fn answer(
        &self,
        model: &str,
        version: &str,
        said: &[Kept],
        warnings: &[String],
        packing: Packing,
    ) -> Result<Response, Refusal> {
        let longest = longest(said);
        let shares: Vec<Vec<Vec<f32>>> = match self.has(Output::Mean) || self.has(Output::Disagreement) {
            true => said.iter().map(|one| one.all.label_shares()).collect(),
            false => Vec::new(),
        };
        let (mut rows, mut binary) = (Vec::new(), Vec::new());
        for &(output, as_bytes) in &self.outputs {
            let tensor = Tensor::of(output, said, &shares, longest);
            let mut row = Row {
                name: output.name(),
                datatype: output.datatype(),
                shape: tensor.shape,
                parameters: None,
                data: None,
            };
            if as_bytes {
                let before = binary.len();
                tensor.data.write(&mut binary);
                row.parameters = Some(json!({ "binary_data_size": binary.len() - before }));
            } else {
                row.data = Some(tensor.data);
            }
            rows.push(row);
        }
        let document = Document {
            model_name: model,
            model_version: version,
            id: self.id.as_deref(),
            parameters: (!warnings.is_empty()).then(|| json!({ "warnings": warnings.join("; ") })),
            outputs: rows,
        };
        let mut body = serde_json::to_vec(&document).map_err(|error| Refusal::failed(error.to_string()))?;
        let length = body.len();
        let is_binary = self.outputs.iter().any(|(_, as_bytes)| *as_bytes);
        body.append(&mut binary);
        let mut response = packing.response(body)?;
        let headers = response.headers_mut();
        let kind = if is_binary { "application/octet-stream" } else { "application/json" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if is_binary {
            headers.insert(HEADER_LENGTH, HeaderValue::from(length));
        }
        Ok(response)
    }
}

/// What a model says of an image, and what is answered of it.
pub struct Kept {
    all: Prediction,
    some: Prediction,
}

impl Kept {
    fn classes(&self) -> usize {
        self.all.hypotheses.first().map_or(1, |one| one.mask.classes())
    }
}

fn longest(said: &[Kept]) -> usize {
    said.iter().map(|one| one.some.len()).max().unwrap_or(0)
}

#[derive(Serialize)]
struct Document<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
    outputs: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    datatype: &'static str,
    shape: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data>,
}

/// A tensor's values.
#[derive(Serialize)]
#[serde(untagged)]
enum Data {
    Floats(Vec<f32>),
    Whole(Vec<i32>),
    Bytes(Vec<u8>),
}

impl Data {
    /// Adds them, little-endian.
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Floats(values) => to.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Whole(values) => to.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Bytes(values) => to.extend(values),
        }
    }
}

struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

impl Tensor {
    fn of(output: Output, said: &[Kept], shares: &[Vec<Vec<f32>>], longest: usize) -> Self {
        let count = said.len();
        let first = &said[0].all.hypotheses[0].mask;
        let (width, height, classes) = (first.width(), first.height(), first.classes());
        match output {
            Output::Count => {
                let counts = said.iter().map(|one| one.some.len() as i32);
                Self { shape: vec![count], data: Data::Whole(counts.collect()) }
            }
            Output::Probabilities => {
                let padded = |one: &Kept| {
                    let mut row: Vec<f32> = one.some.hypotheses.iter().map(|one| one.probability).collect();
                    row.resize(longest, 0.0);
                    row
                };
                Self {
                    shape: vec![count, longest],
                    data: Data::Floats(said.iter().flat_map(padded).collect()),
                }
            }
            Output::Codes => {
                let padded = |one: &Kept| {
                    let mut row: Vec<i32> = one.some.hypotheses.iter().map(|one| one.code as i32).collect();
                    row.resize(longest, -1);
                    row
                };
                Self {
                    shape: vec![count, longest],
                    data: Data::Whole(said.iter().flat_map(padded).collect()),
                }
            }
            Output::Masks => {
                let size = width * height;
                let mut values = Vec::with_capacity(count * longest * size);
                for (at, one) in said.iter().enumerate() {
                    one.some.hypotheses.iter().for_each(|one| values.extend(one.mask.labels()));
                    values.resize((at + 1) * longest * size, 0);
                }
                Self { shape: vec![count, longest, height, width], data: Data::Bytes(values) }
            }
            Output::Mean => {
                let values = shares.iter().flat_map(|labels| &labels[1..]).flatten().copied().collect();
                Self { shape: vec![count, classes, height, width], data: Data::Floats(values) }
            }
            Output::Disagreement => {
                let values = shares.iter().flat_map(|labels| disagreement(labels)).collect();
                Self { shape: vec![count, height, width], data: Data::Floats(values) }
            }
        }
    }
}

/// How an answer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Deflate,
}

impl Packing {
    /// As a request accepts it: gzip before deflate, and neither where its weight is 0.
    pub fn of(headers: &HeaderMap) -> Self {
        let accepted =
            headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
        let accepts = |name: &str| {
            accepted.split(',').any(|part| {
                let (coding, weight) = part.split_once(';').unwrap_or((part, "q=1"));
                let refused = weight
                    .trim()
                    .strip_prefix("q=")
                    .is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q == 0.0));
                coding.trim().eq_ignore_ascii_case(name) && !refused
            })
        };
        match (accepts("gzip"), accepts("deflate")) {
            (true, _) => Self::Gzip,
            (_, true) => Self::Deflate,
            _ => Self::Plain,
        }
    }

    fn response(self, body: Vec<u8>) -> Result<Response, Refusal> {
        let failed = |error: std::io::Error| Refusal::failed(error.to_string());
        let (name, packed) = match self {
            Self::Plain => return Ok(body.into_response()),
            Self::Gzip => {
                let mut out = GzEncoder::new(Vec::new(), Compression::fast());
                ("gzip", out.write_all(&body).and_then(|()| out.finish()).map_err(failed)?)
            }
            Self::Deflate => {
                let mut out = ZlibEncoder::new(Vec::new(), Compression::fast());
                ("deflate", out.write_all(&body).and_then(|()| out.finish()).map_err(failed)?)
            }
        };
        Ok(([(header::CONTENT_ENCODING, name)], packed).into_response())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_packed_as_the_request_accepts_it() {
        for (text, wanted) in [
            ("gzip", Packing::Gzip),
            ("deflate", Packing::Deflate),
            ("deflate, gzip;q=0.5", Packing::Gzip),
            ("gzip;q=0", Packing::Plain),
            ("br", Packing::Plain),
            ("", Packing::Plain),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]);
            assert_eq!(Packing::of(&headers), wanted, "{text}");
        }
    }
}
