//! LIDC's annotation files: what four readers marked in the second, unblinded reading of a scan.
//!
//! The schema is described by TCIA ("LIDC XML file documentation", linked from
//! <https://www.cancerimagingarchive.net/collection/lidc-idri/>) and by Armato et al., Medical Physics 38 (2011),
//! 915-931. A `LidcReadMessage` has a `ResponseHeader` with the series' UID, and one `readingSession` for each reader.
//! A session has an `unblindedReadNodule` for each nodule that its reader marked; one of 3 mm and more is outlined in
//! every slice by `roi`, a smaller one is a single point.

use std::path::Path;

use roxmltree::{Document, Node, ParsingOptions};

use crate::{Error, Result, files};

/// The largest real file has 3 MB.
const MOST_BYTES: u64 = 64 << 20;
/// Elements of the largest file are some hundred thousand.
const MOST_NODES: u32 = 4_000_000;

/// What the readers marked in a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// SeriesInstanceUID of the scan.
    pub series: String,
    /// By reader, in the file's order. It says nothing of who they are: the first reader of one scan is another
    /// person than that of the next.
    pub readers: Vec<Vec<Outlined>>,
}

/// A nodule of 3 mm or more, by one reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlined {
    /// Its outlines.
    pub outlines: Vec<Outline>,
}

/// An outline in a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// SOPInstanceUID of the slice.
    pub image: String,
    /// Whether what it encloses belongs to the nodule; otherwise it is cut out.
    pub is_included: bool,
    /// Column and row of the pixels of the outline, one after the other.
    pub points: Vec<[i32; 2]>,
}

/// Reads a file. None where it is XML of another kind, such as that of a radiograph.
pub fn read(path: &Path) -> Result<Option<Reading>> {
    let bytes = files::read(path, MOST_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    // Documents that define entities could grow without end; these files define none.
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text.trim_start_matches('\u{feff}'), options)
        .map_err(|error| Error::file(path, format!("is no sound XML: {error}; download it again")))?;
    let root = document.root_element();
    if root.tag_name().name() != "LidcReadMessage" {
        return Ok(None);
    }
    let refuse = |what: &str| Error::file(path, format!("{what}; download it again"));
    let header = child(root, "ResponseHeader").ok_or_else(|| refuse("has no ResponseHeader"))?;
    let series =
        word(header, "SeriesInstanceUid").ok_or_else(|| refuse("names no series (SeriesInstanceUid)"))?;
    let mut readers = Vec::new();
    for session in children(root, "readingSession") {
        let mut nodules = Vec::new();
        for nodule in children(session, "unblindedReadNodule") {
            let outlines = children(nodule, "roi").map(|roi| {
                outline(roi).ok_or_else(|| {
                    refuse("has an outline (roi) without its image, or with points that are no whole numbers")
                })
            });
            let outlines = outlines.collect::<Result<Vec<_>>>()?;
            // Smaller ones are marked by a point.
            if outlines.iter().any(|outline| outline.points.len() > 1) {
                nodules.push(Outlined { outlines });
            }
        }
        readers.push(nodules);
    }
    Ok(Some(Reading { series, readers }))
}

fn outline(roi: Node) -> Option<Outline> {
    let number = |edge: Node, name: &str| word(edge, name)?.parse::<f64>().ok();
    let point = |edge: Node| {
        let [x, y] = [number(edge, "xCoord")?, number(edge, "yCoord")?];
        let is_pixel = |value: f64| value.fract() == 0.0 && value.abs() < 1e6;
        (is_pixel(x) && is_pixel(y)).then_some([x as i32, y as i32])
    };
    Some(Outline {
        image: word(roi, "imageSOP_UID")?,
        is_included: !word(roi, "inclusion").is_some_and(|word| word.eq_ignore_ascii_case("false")),
        points: children(roi, "edgeMap").map(point).collect::<Option<Vec<_>>>()?,
    })
}

/// Elements by name, whatever their namespace; names of a few files differ in case.
fn children<'a>(node: Node<'a, 'a>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(move |child| child.tag_name().name().eq_ignore_ascii_case(name))
}

fn child<'a>(node: Node<'a, 'a>, name: &'static str) -> Option<Node<'a, 'a>> {
    children(node, name).next()
}

fn word(node: Node, name: &str) -> Option<String> {
    let child = node.children().find(|child| child.tag_name().name().eq_ignore_ascii_case(name))?;
    child.text().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
