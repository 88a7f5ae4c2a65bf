//! MetaImage (`.mha`, or `.mhd` with a raw file): lines `Key = value`, of which `ElementDataFile` is the last.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Element, Header, Kind, Packing, Start, Text, beside, extent, geometry, numbers};
use crate::import::Size;
use crate::import::sample::Sample;
use crate::{Error, Result};

/// Fields that place an image in the world; the others of a header speak of its values.
const PLACE: [&str; 11] = [
    "NDims",
    "Offset",
    "Position",
    "Origin",
    "TransformMatrix",
    "Orientation",
    "Rotation",
    "CenterOfRotation",
    "AnatomicalOrientation",
    "ElementSpacing",
    "DimSize",
];
const LAST: &str = "ElementDataFile";

pub(super) fn parse(path: &Path) -> Result<Header> {
    let refuse = |what: String| Err(Error::file(path, what));
    let split = |line: &str| {
        line.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
    };
    let text = Text::read(path, |line| split(line).is_some_and(|(key, _)| key == LAST))?;
    let fields: BTreeMap<String, String> = text.lines.iter().filter_map(|line| split(line)).collect();
    let field = |key: &str| fields.get(key).map(String::as_str);
    let is_true = |key: &str| field(key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let wanted = |key: &str| {
        field(key).ok_or_else(|| Error::file(path, format!("lacks the field {key}; export it again")))
    };
    // Several names of one thing have gathered over the format's versions.
    let first_of = |keys: [&'static str; 3]| keys.into_iter().find_map(|key| Some((key, field(key)?)));

    let data_name = wanted(LAST)?;
    if field("BinaryData").is_some_and(|value| value.eq_ignore_ascii_case("false")) {
        return refuse("holds its samples as text; save them in binary form".into());
    }
    let lengths: Vec<usize> = numbers(path, "DimSize", wanted("DimSize")?)?;
    let axes: Vec<usize> = numbers(path, "NDims", wanted("NDims")?)?;
    if axes != [lengths.len()] {
        return refuse(format!(
            "has {axes:?} as NDims and {} lengths in DimSize; export it again",
            lengths.len()
        ));
    }
    let [width, height, depth] = extent(path, &lengths)?;
    let channels = match field("ElementNumberOfChannels") {
        None => 1,
        Some(text) => numbers(path, "ElementNumberOfChannels", text)?.first().copied().unwrap_or(0),
    };
    let element = wanted("ElementType")?;
    let sample = match element.trim_end_matches("_ARRAY") {
        "MET_UCHAR" => Sample::U8,
        "MET_CHAR" => Sample::I8,
        "MET_USHORT" => Sample::U16,
        "MET_SHORT" => Sample::I16,
        // "Long" has four bytes here, whatever the machine.
        "MET_UINT" | "MET_ULONG" => Sample::U32,
        "MET_INT" | "MET_LONG" => Sample::I32,
        "MET_ULONG_LONG" => Sample::U64,
        "MET_LONG_LONG" => Sample::I64,
        "MET_FLOAT" => Sample::F32,
        "MET_DOUBLE" => Sample::F64,
        _ => return refuse(format!("holds samples of type {element}; save integers or float32")),
    };

    // A vector for each axis that the file has; the others keep to their own direction.
    let spacing: Vec<f64> = numbers(path, "ElementSpacing", field("ElementSpacing").unwrap_or(""))?;
    let turn = first_of(["TransformMatrix", "Orientation", "Rotation"]);
    let offset = first_of(["Offset", "Position", "Origin"]);
    let count = lengths.len();
    let matrix: Vec<f64> = numbers(path, "TransformMatrix", turn.map_or("", |(_, text)| text))?;
    let offsets: Vec<f64> = numbers(path, "Offset", offset.map_or("", |(_, text)| text))?;
    for (key, found, expected) in [
        ("ElementSpacing", spacing.len(), count),
        ("TransformMatrix", matrix.len(), count * count),
        ("Offset", offsets.len(), count),
    ] {
        if found != 0 && found != expected {
            return refuse(format!("has {found} numbers as {key}, not {expected}; export it again"));
        }
    }
    let mut steps = [[0.0; 3]; 3];
    let mut origin = [0.0; 3];
    for axis in 0..3 {
        let length = spacing.get(axis).copied().unwrap_or(1.0).abs();
        for row in 0..3 {
            let straight = f64::from(u8::from(row == axis));
            let inside = axis < count && row < count;
            let direction = if inside { matrix.get(axis * count + row).copied() } else { None };
            steps[axis][row] = length * direction.unwrap_or(straight);
        }
        origin[axis] = offsets.get(axis).copied().unwrap_or(0.0);
    }
    // The world's axes are left, posterior, superior.
    let stated = turn.is_some() || offset.is_some();
    let place = geometry(steps, origin, stated.then_some([-1.0, -1.0, 1.0]));

    let local = data_name == "LOCAL";
    if data_name.starts_with("LIST") {
        return refuse("lists one file per slice; save all slices in one file".into());
    }
    let data = if local { path.to_owned() } else { beside(path, data_name)? };
    let skipped: Vec<i64> = numbers(path, "HeaderSize", field("HeaderSize").unwrap_or("0"))?;
    let start = match (skipped[..].first().copied().unwrap_or(0), local) {
        (0, true) => Start::At(text.length),
        (skipped @ 0.., _) => Start::At(skipped.unsigned_abs()),
        (-1, _) => Start::FromEnd,
        (other, _) => return refuse(format!("has the HeaderSize {other}; export it again")),
    };
    let packing = if is_true("CompressedData") { Packing::Zlib } else { Packing::Raw };
    if packing != Packing::Raw && start == Start::FromEnd {
        return refuse("states a HeaderSize of -1 for packed samples; export it again".into());
    }
    let lines = PLACE.iter().filter_map(|key| Some(format!("{key} = {}", field(key)?)));
    Ok(Header {
        kind: Kind::MetaImage,
        size: Size { width, height, depth, channels },
        sample,
        big_endian: is_true("BinaryDataByteOrderMSB") || is_true("ElementByteOrderMSB"),
        geometry: place,
        data,
        stored: 0,
        start,
        packing,
        place: lines.collect(),
    })
}

/// The header of labels or values in the place of another image.
pub(super) fn header(like: &Header, element: Element, packed_bytes: usize) -> String {
    let mut lines = vec!["ObjectType = Image".to_owned()];
    lines.extend(like.place.iter().cloned());
    lines.push("BinaryData = True".into());
    lines.push("BinaryDataByteOrderMSB = False".into());
    if like.packing != Packing::Raw {
        lines.push("CompressedData = True".into());
        lines.push(format!("CompressedDataSize = {packed_bytes}"));
    }
    let kind = if element == Element::Label { "MET_UCHAR" } else { "MET_FLOAT" };
    lines.push(format!("ElementType = {kind}"));
    lines.push(format!("{LAST} = LOCAL\n"));
    lines.join("\n")
}
