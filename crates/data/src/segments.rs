//! Label maps and segments as files that other programs open beside the image: NIfTI or NRRD with one label for each
//! pixel, and 3D Slicer's `.seg.nrrd`, in which segments overlap.
//!
//! A `.seg.nrrd` file is an NRRD file whose first axis has a layer for each label map, with the names and colours of
//! its segments as `key:=value` lines. The keys are those of Slicer's documentation, "Segmentations" (Segmentation file
//! format).

use std::io::{BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::export::write_masks_like;
use crate::import::{Format, Limits, Size, headed, identify, nifti};
use crate::{Error, Geometry, Mask, Result, files};

/// One segment of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// What it is called; one line.
    pub name: String,
    /// Red, green and blue, each from 0 to 1.
    pub colour: [f32; 3],
    /// The layer it lies in.
    pub layer: usize,
    /// Its label there, from 1 on.
    pub label: u8,
}

/// Where an image lies, and how large it is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Columns, rows and slices.
    pub size: [usize; 3],
    /// Spacing and affine, where the image has them.
    pub geometry: Option<&'a Geometry>,
}

/// Writes labels, a mask for each slice, to `path`, whose name says the format: `.nrrd`, `.nii` or `.nii.gz`. Where the
/// image `source` has that format, its own header is kept; otherwise the file has the image's place.
pub fn write_labels(source: &Path, place: Place, path: &Path, masks: &[Mask], limits: &Limits) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = [".nii.gz", ".nii", ".nrrd"].into_iter().find(|ending| name.ends_with(ending));
    let is_packed = source.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    let own = match identify(source)? {
        Format::Nifti if is_packed => Some(".nii.gz"),
        Format::Nifti => Some(".nii"),
        Format::Headed(headed::Kind::Nrrd) => Some(".nrrd"),
        _ => None,
    };
    if let (Some(ending), true) = (ending, own == ending) {
        let stem = path.with_file_name(&name[..name.len() - ending.len()]);
        return write_masks_like(source, &stem, masks, limits).map(drop);
    }
    let [width, height, depth] = place.size;
    if ending == Some(".nrrd") {
        let one = |_: usize, slice: usize| masks[slice].clone();
        return write(path, place, 1, &[], &one);
    }
    let size = Size { width, height, depth, channels: 1 };
    nifti::write_masks(path, &nifti::Header::of(path, size, place.geometry)?, masks)
}

/// Writes segments as a `.seg.nrrd` file. `mask` gives a layer's labels of a slice; layers may overlap. One slice of all
/// layers is in memory at a time.
pub fn write_segments(
    path: &Path,
    place: Place,
    segments: &[Segment],
    mask: &dyn Fn(usize, usize) -> Mask,
) -> Result<()> {
    let layers = segments.iter().map(|segment| segment.layer + 1).max().unwrap_or(1);
    write(path, place, layers, segments, mask)
}

fn write(
    path: &Path,
    place: Place,
    layers: usize,
    segments: &[Segment],
    mask: &dyn Fn(usize, usize) -> Mask,
) -> Result<()> {
    let [width, height, depth] = place.size;
    let mut out = BufWriter::new(files::create(path)?);
    let mut write = || {
        out.write_all(header(place, layers, segments).as_bytes())?;
        let mut packed = GzEncoder::new(&mut out, Compression::fast());
        let mut slice = vec![0; layers * width * height];
        for z in 0..depth {
            for layer in 0..layers {
                let labels = mask(layer, z).labels();
                slice.iter_mut().skip(layer).step_by(layers).zip(labels).for_each(|(to, label)| *to = label);
            }
            packed.write_all(&slice)?;
        }
        packed.finish()?.flush()
    };
    write().map_err(|error| Error::io(path, error))
}

/// The lines before the samples.
fn header(place: Place, layers: usize, segments: &[Segment]) -> String {
    let [width, height, depth] = place.size;
    let affine = place.geometry.and_then(|geometry| geometry.affine);
    let spacing = place.geometry.map_or([1.0; 3], |geometry| geometry.spacing);
    // The geometry's world axes point to the right, the front and above; those of the file to the left, the back and above.
    let vector = |column: usize| match affine {
        Some(rows) => format!("({},{},{})", -rows[0][column], -rows[1][column], rows[2][column]),
        None => {
            let step = |axis: usize| if axis == column { spacing[axis] } else { 0.0 };
            format!("({},{},{})", step(0), step(1), step(2))
        }
    };
    // Layers are the first axis; a single one needs none.
    let (axis, list, none) = match layers {
        1 => (3, String::new(), ""),
        _ => (4, format!("{layers} "), "none "),
    };
    let mut lines = vec![
        "NRRD0004".to_owned(),
        "type: uint8".to_owned(),
        format!("dimension: {axis}"),
        "space: left-posterior-superior".to_owned(),
        format!("sizes: {list}{width} {height} {depth}"),
        format!("space directions: {none}{} {} {}", vector(0), vector(1), vector(2)),
        format!("kinds: {}domain domain domain", if layers > 1 { "list " } else { "" }),
        "encoding: gzip".to_owned(),
        format!("space origin: {}", vector(3)),
    ];
    for (at, Segment { name, colour, layer, label }) in segments.iter().enumerate() {
        let name: String = name.chars().filter(|sign| !sign.is_control()).collect();
        let [red, green, blue] = colour;
        lines.extend([
            format!("Segment{at}_ID:=Segment_{}", at + 1),
            format!("Segment{at}_Name:={name}"),
            format!("Segment{at}_NameAutoGenerated:=0"),
            format!("Segment{at}_Color:={red} {green} {blue}"),
            format!("Segment{at}_ColorAutoGenerated:=0"),
            format!("Segment{at}_Layer:={layer}"),
            format!("Segment{at}_LabelValue:={label}"),
            format!("Segment{at}_Extent:=0 {} 0 {} 0 {}", width - 1, height - 1, depth - 1),
        ]);
    }
    if !segments.is_empty() {
        lines.extend([
            "Segmentation_MasterRepresentation:=Binary labelmap".to_owned(),
            "Segmentation_ContainedRepresentationNames:=Binary labelmap|".to_owned(),
            "Segmentation_ReferenceImageExtentOffset:=0 0 0".to_owned(),
        ]);
    }
    lines.join("\n") + "\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import;

    fn geometry() -> Geometry {
        let affine = [[-0.5, 0.0, 0.0, 10.0], [0.0, 0.25, 0.0, -20.0], [0.0, 0.0, 2.0, 5.5]];
        Geometry { spacing: [0.5, 0.25, 2.0], affine: Some(affine) }
    }

    fn masks() -> [Mask; 2] {
        [Mask::from_fn(3, 2, |x, y| x == y), Mask::from_fn(3, 2, |x, _| x == 2)]
    }

    #[test]
    fn labels_lie_where_the_image_does_in_every_format() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.png");
        image::save_buffer(&source, &[7; 6], 3, 2, image::ExtendedColorType::L8).unwrap();
        let geometry = geometry();
        let place = Place { size: [3, 2, 2], geometry: Some(&geometry) };
        for name in ["b.nrrd", "b.nii", "b.nii.gz"] {
            let path = folder.path().join(name);
            write_labels(&source, place, &path, &masks(), &Limits::default()).unwrap();
            let back = import::read(&path, &Limits::default()).unwrap();
            assert_eq!(back.geometry.as_ref(), Some(&geometry), "{name}");
            assert_eq!(back.values(), [1., 0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 1.], "{name}");
            // Of a source of the same format the header is kept.
            let again = folder.path().join(format!("again.B.{name}"));
            write_labels(&path, place, &again, &masks(), &Limits::default()).unwrap();
            assert_eq!(import::read(&again, &Limits::default()).unwrap().geometry, back.geometry, "{name}");
        }
    }

    #[test]
    fn segments_overlap_in_layers_of_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.seg.nrrd");
        let segment = |layer: usize| Segment {
            name: format!("hypothesis {}\nSegment0_Layer:=7", layer + 1),
            colour: [0.5, 0.25, 1.0],
            layer,
            label: 1,
        };
        let place = Place { size: [3, 2, 2], geometry: Some(&geometry()) };
        let all = [masks(), [Mask::empty(3, 2, 1), Mask::from_fn(3, 2, |_, _| true)]];
        let mask = |layer: usize, slice: usize| all[layer][slice].clone();
        write_segments(&path, place, &[segment(0), segment(1)], &mask).unwrap();
        let back = import::read(&path, &Limits::default()).unwrap();
        assert_eq!((back.size.channels, back.size.depth), (2, 2));
        let first = [[1., 0., 0., 0., 1., 0.], [0.; 6]].concat();
        assert_eq!(back.values()[..12], first);
        assert_eq!(back.values()[12..], [[0., 0., 1., 0., 0., 1.], [1.; 6]].concat());
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            text.contains("\nSegment1_Name:=hypothesis 2Segment0_Layer:=7\nSegment1_NameAuto"),
            "one line"
        );
        assert!(text.contains("\nSegment1_Layer:=1\n") && text.contains("space directions: none (0.5,"));
    }
}
