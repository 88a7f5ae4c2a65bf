//! NRRD (`.nrrd`, or `.nhdr` with a data file): lines `field: value` up to an empty one.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Element, Header, Kind, Packing, Start, Text, beside, extent, geometry, numbers};
use crate::import::Size;
use crate::import::sample::Sample;
use crate::{Error, Result};

/// What an axis of channels may be called.
const CHANNEL_KINDS: [&str; 10] = [
    "rgb-color",
    "rgba-color",
    "3-color",
    "4-color",
    "vector",
    "list",
    "2-vector",
    "3-vector",
    "4-vector",
    "hsv-color",
];

pub(super) fn parse(path: &Path) -> Result<Header> {
    let refuse = |what: String| Err(Error::file(path, what));
    let text = Text::read(path, str::is_empty)?;
    // "key:=value" lines are notes of the writer.
    let pairs = text.lines.iter().skip(1).filter(|line| !line.starts_with('#') && !line.contains(":="));
    let fields: BTreeMap<String, String> = pairs
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| {
            (key.trim().to_ascii_lowercase().replace("data file", "datafile"), value.trim().to_owned())
        })
        .collect();
    let field = |key: &str| fields.get(key).map(String::as_str);
    let wanted = |key: &str| {
        field(key).ok_or_else(|| Error::file(path, format!("lacks the field '{key}'; export it again")))
    };
    // One entry per axis.
    let sizes: Vec<usize> = numbers(path, "sizes", wanted("sizes")?)?;
    let stated: Vec<usize> = numbers(path, "dimension", wanted("dimension")?)?;
    if stated != [sizes.len()] {
        return refuse(format!("has {stated:?} as dimension and {} sizes; export it again", sizes.len()));
    }
    let kinds: Vec<String> =
        field("kinds").unwrap_or("").split_whitespace().map(str::to_ascii_lowercase).collect();
    let directions = vectors(path, "space directions", field("space directions").unwrap_or(""))?;
    let spacings: Vec<f64> = numbers(path, "spacings", field("spacings").unwrap_or(""))?;
    for (key, count) in
        [("kinds", kinds.len()), ("space directions", directions.len()), ("spacings", spacings.len())]
    {
        if count != 0 && count != sizes.len() {
            return refuse(format!("has {count} entries as {key} for {} axes; export it again", sizes.len()));
        }
    }
    let is_channel = |axis: usize| {
        kinds.get(axis).is_some_and(|kind| CHANNEL_KINDS.contains(&kind.as_str()))
            || directions.get(axis).is_some_and(Option::is_none)
    };
    if let Some(axis) = (1..sizes.len()).find(|&axis| is_channel(axis)) {
        return refuse(format!(
            "has its channels along axis {}; save them as the first axis, or as files",
            axis + 1
        ));
    }
    let first = usize::from(!sizes.is_empty() && is_channel(0));
    let channels = if first == 1 { sizes[0] } else { 1 };
    let [width, height, depth] = extent(path, &sizes[first..])?;

    let kind = wanted("type")?;
    let sample = match kind.trim_end_matches("_t") {
        "uchar" | "unsigned char" | "uint8" => Sample::U8,
        "signed char" | "int8" => Sample::I8,
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" => Sample::U16,
        "short" | "short int" | "signed short" | "signed short int" | "int16" => Sample::I16,
        "uint" | "unsigned int" | "uint32" => Sample::U32,
        "int" | "signed int" | "int32" => Sample::I32,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" => Sample::U64,
        "longlong"
        | "long long"
        | "long long int"
        | "signed long long"
        | "signed long long int"
        | "int64" => Sample::I64,
        "float" => Sample::F32,
        "double" => Sample::F64,
        _ => return refuse(format!("holds samples of type '{kind}'; save integers or float")),
    };
    let packing = match wanted("encoding")?.to_ascii_lowercase().as_str() {
        "raw" => Packing::Raw,
        "gzip" | "gz" => Packing::Gzip,
        other => return refuse(format!("has the encoding '{other}'; save it as raw or gzip")),
    };
    let big_endian = match field("endian") {
        Some("big") => true,
        Some("little") => false,
        None if sample.bytes() == 1 => false,
        other => {
            return refuse(format!(
                "has the endian '{}', not little or big; export it again",
                other.unwrap_or("")
            ));
        }
    };
    let whole =
        |key: &str| numbers::<i64>(path, key, field(key).or(field(&key.replace(' ', ""))).unwrap_or("0"));
    if whole("line skip")?.first().is_some_and(|&lines| lines != 0) {
        return refuse("skips lines before its samples; save it without 'line skip'".into());
    }
    let (data, before) = match field("datafile") {
        None => (path.to_owned(), text.length),
        Some(name) if name.starts_with("LIST") => {
            return refuse("lists one file per slice; save all slices in one file".into());
        }
        Some(name) => (beside(path, name)?, 0),
    };
    let start = match (whole("byte skip")?.first().copied().unwrap_or(0), packing) {
        (0, _) => Start::At(before),
        (-1, Packing::Raw) => Start::FromEnd,
        (skipped @ 1.., Packing::Raw) => Start::At(before.saturating_add(skipped.unsigned_abs())),
        (other, _) => return refuse(format!("has the byte skip {other}; export it again")),
    };

    let mut steps = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for axis in 0..3.min(sizes.len() - first) {
        match (directions.get(axis + first), spacings.get(axis + first)) {
            (Some(Some(step)), _) => steps[axis] = *step,
            (_, Some(&length)) if length.is_finite() => steps[axis][axis] = length.abs(),
            _ => {}
        }
    }
    let origin = vectors(path, "space origin", field("space origin").unwrap_or(""))?;
    let origin = origin.first().copied().flatten();
    let signs = match field("space").unwrap_or("").to_ascii_lowercase().as_str() {
        "right-anterior-superior" | "ras" => Some([1.0, 1.0, 1.0]),
        "left-anterior-superior" | "las" => Some([-1.0, 1.0, 1.0]),
        "left-posterior-superior" | "lps" => Some([-1.0, -1.0, 1.0]),
        _ => None,
    };
    let place = geometry(steps, origin.unwrap_or_default(), signs.filter(|_| !directions.is_empty()));

    let mut lines =
        vec![format!("dimension: {}", sizes.len() - first), format!("sizes: {}", list(&sizes[first..]))];
    for key in ["space", "space dimension", "space units", "space origin", "measurement frame"] {
        lines.extend(field(key).map(|value| format!("{key}: {value}")));
    }
    // These have an entry for each axis, and labels have no axis of channels.
    for key in ["space directions", "kinds", "spacings"] {
        let Some(value) = field(key) else { continue };
        let value = if first == 1 {
            value.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim())
        } else {
            value
        };
        lines.push(format!("{key}: {value}"));
    }
    Ok(Header {
        kind: Kind::Nrrd,
        size: Size { width, height, depth, channels },
        sample,
        big_endian,
        geometry: place,
        data,
        stored: 0,
        start,
        packing,
        place: lines,
    })
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Vectors such as `(1,0,0) none (0,0,2.5)`; of two numbers where space has two dimensions.
fn vectors(path: &Path, key: &str, text: &str) -> Result<Vec<Option<[f64; 3]>>> {
    let wrong = || Error::file(path, format!("has the {key} '{text}', not vectors; export it again"));
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("none") {
            found.push(None);
            rest = after.trim_start();
            continue;
        }
        let (inner, after) =
            rest.strip_prefix('(').and_then(|inner| inner.split_once(')')).ok_or_else(wrong)?;
        let parts = inner.split(',').map(|part| part.trim().parse::<f64>());
        let parts = parts.collect::<std::result::Result<Vec<_>, _>>().map_err(|_| wrong())?;
        if !(2..=3).contains(&parts.len()) {
            return Err(wrong());
        }
        found.push(Some([parts[0], parts[1], parts.get(2).copied().unwrap_or(0.0)]));
        rest = after.trim_start();
    }
    Ok(found)
}

/// The header of labels or values in the place of another image.
pub(super) fn header(like: &Header, element: Element) -> String {
    let encoding = if like.packing == Packing::Raw { "raw" } else { "gzip" };
    let kind = if element == Element::Label { "type: uint8" } else { "type: float\nendian: little" };
    let mut lines = vec!["NRRD0004".to_owned(), kind.to_owned()];
    lines.extend(like.place.iter().cloned());
    lines.push(format!("encoding: {encoding}\n\n"));
    lines.join("\n")
}
