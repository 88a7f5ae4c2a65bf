//! Hypotheses as a DICOM segmentation (PS3.3 A.51): one binary segment for each, with references to the images that
//! it was made of.
//!
//! A segmentation belongs to its patient's study, so it has the source's patient and study attributes that the
//! standard demands ([`COPIED`]), and no others.

use std::io::Write;
use std::path::Path;

use dicom_core::{DataElement, PrimitiveValue, Tag, VR, dicom_value};
use dicom_dictionary_std::tags;
use dicom_object::{FileMetaTableBuilder, InMemDicomObject};

use super::elements::{code, decimals, now, put, put_items, uid};
use super::instance::Place;
use super::parts::Parts;
use super::{Instance, Stack, syntax};
use crate::import::Limits;
use crate::{Error, Mask, Result, files};

/// The class of segmentations.
const SEGMENTATION: &str = "1.2.840.10008.5.1.4.1.1.66.4";
/// The program's own number among those that write DICOM.
const IMPLEMENTATION: &str = "2.25.154163129174836513908219306829306172081";

/// What of patient, study and frame of reference is copied: what PS3.3 C.7.1.1, C.7.2.1 and C.7.4.1 demand, and
/// whether identity was removed.
pub const COPIED: [Tag; 13] = [
    tags::PATIENT_NAME,
    tags::PATIENT_ID,
    tags::PATIENT_BIRTH_DATE,
    tags::PATIENT_SEX,
    tags::PATIENT_IDENTITY_REMOVED,
    tags::DEIDENTIFICATION_METHOD,
    tags::STUDY_INSTANCE_UID,
    tags::STUDY_DATE,
    tags::STUDY_TIME,
    tags::REFERRING_PHYSICIAN_NAME,
    tags::STUDY_ID,
    tags::ACCESSION_NUMBER,
    tags::POSITION_REFERENCE_INDICATOR,
];
/// Those that may be left out where the source has none; the others are written empty.
const OPTIONAL: [Tag; 2] = [tags::PATIENT_IDENTITY_REMOVED, tags::DEIDENTIFICATION_METHOD];

/// What a segment is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// At most 64 characters.
    pub label: String,
    /// At most 1,024 characters.
    pub description: String,
}

/// A segment in a slice.
#[derive(Debug)]
pub struct Part {
    /// The mask of the slice, and which of its classes is the segment's.
    pub mask: Mask,
    /// The class, from 0 on.
    pub class: usize,
}

/// Writes segments for the series or file `source`. `part` tells of each segment and slice.
///
/// Slices in which a segment is empty have no frame. A segment that is empty everywhere has one frame of zeros, in the
/// middle slice: some viewers do not open a file with a segment that no frame belongs to.
pub fn write(
    path: &Path,
    source: &Path,
    program: &str,
    segments: &[Segment],
    part: &dyn Fn(usize, usize) -> Part,
    limits: &Limits,
) -> Result<()> {
    let stack = Stack::open(source, limits)?;
    let first = stack.instances[stack.slices[0].0].path.clone();
    let of_source = Parts::open(&first, limits)?.attributes(&first)?;
    let places: Option<Vec<&Place>> = stack.slices.iter().map(|&at| stack.frame(at).place.as_ref()).collect();
    let reference =
        super::instance::text(&of_source, tags::FRAME_OF_REFERENCE_UID).filter(|uid| !uid.is_empty());
    let (Some(places), Some(reference)) = (places, reference) else {
        return Err(Error::file(
            source,
            "does not state its place in the patient (ImagePositionPatient, FrameOfReferenceUID), which a DICOM \
             segmentation refers to; leave out --format dicom",
        ));
    };
    let mut frames = Frames::new(stack.size().width * stack.size().height);
    for segment in 0..segments.len() {
        let mut is_empty = true;
        for slice in 0..stack.slices.len() {
            let part = part(segment, slice);
            if part.mask.area(part.class) > 0 {
                frames.add(segment, slice, &part);
                is_empty = false;
            }
        }
        if is_empty {
            let slice = stack.slices.len() / 2;
            frames.add(segment, slice, &part(segment, slice));
        }
    }
    let organization = uid();
    let mut object = InMemDicomObject::new_empty();
    common(&mut object, &of_source, &reference, program);
    pixels(&mut object, &stack, &of_source, frames.places.len());
    let listed = segments.iter().enumerate().map(|(at, segment)| described(at, segment, program));
    put_items(&mut object, tags::SEGMENT_SEQUENCE, listed.collect());
    dimensions(&mut object, &organization);
    put_items(&mut object, tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, vec![shared(&stack, places[0])]);
    let groups = frames.places.iter().map(|frame| frame_groups(&stack, &places, frame));
    put_items(&mut object, tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, groups.collect());
    put_items(&mut object, tags::REFERENCED_SERIES_SEQUENCE, vec![referenced(&stack)]);
    object.put(DataElement::new(tags::PIXEL_DATA, VR::OB, PrimitiveValue::from(frames.finish())));
    let instance = super::instance::text(&object, tags::SOP_INSTANCE_UID).unwrap_or_default();
    let meta = FileMetaTableBuilder::new()
        .transfer_syntax(syntax::EXPLICIT)
        .media_storage_sop_class_uid(SEGMENTATION)
        .media_storage_sop_instance_uid(instance)
        .implementation_class_uid(IMPLEMENTATION)
        .implementation_version_name("MULTIVALUED");
    let failed = |error: String| Error::file(path, format!("cannot be written as DICOM: {error}"));
    let file = object.with_meta(meta).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    file.write_all(&mut bytes).map_err(|error| failed(error.to_string()))?;
    files::create(path)?.write_all(&bytes).map_err(|error| Error::io(path, error))
}

/// A frame's segment and slice, from 0 on.
struct FramePlace {
    segment: usize,
    slice: usize,
}

/// Frames whose bits follow each other without a gap, eight to a byte, the first lowest.
struct Frames {
    pixels: usize,
    places: Vec<FramePlace>,
    bytes: Vec<u8>,
}

impl Frames {
    fn new(pixels: usize) -> Self {
        Self { pixels, places: Vec::new(), bytes: Vec::new() }
    }

    fn add(&mut self, segment: usize, slice: usize, part: &Part) {
        let start = self.places.len() * self.pixels;
        self.bytes.resize((start + self.pixels).div_ceil(8), 0);
        for (at, &word) in part.mask.plane(part.class).iter().enumerate() {
            let mut left = word;
            while left != 0 {
                let bit = start + 64 * at + left.trailing_zeros() as usize;
                self.bytes[bit / 8] |= 1 << (bit % 8);
                left &= left - 1;
            }
        }
        self.places.push(FramePlace { segment, slice });
    }

    /// An even number of bytes.
    fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(2), 0);
        self.bytes
    }
}

/// Patient, study, series, equipment, and what the file is.
fn common(object: &mut InMemDicomObject, source: &InMemDicomObject, reference: &str, program: &str) {
    let (date, time) = now();
    // Texts are Unicode once they are read, whatever they were.
    put(object, tags::SPECIFIC_CHARACTER_SET, "ISO_IR 192");
    for tag in COPIED {
        match source.get(tag) {
            Some(element) => _ = object.put(element.clone()),
            None if OPTIONAL.contains(&tag) => {}
            None => put(object, tag, PrimitiveValue::Empty),
        }
    }
    put(object, tags::SOP_CLASS_UID, SEGMENTATION);
    put(object, tags::SOP_INSTANCE_UID, uid());
    put(object, tags::SERIES_INSTANCE_UID, uid());
    put(object, tags::MODALITY, "SEG");
    let number = source.get(tags::SERIES_NUMBER).and_then(|number| number.to_int::<i64>().ok()).unwrap_or(0);
    put(object, tags::SERIES_NUMBER, (number.clamp(0, 1 << 20) + 1000).to_string());
    put(object, tags::SERIES_DESCRIPTION, "Plausible segmentations with probabilities");
    put(object, tags::INSTANCE_NUMBER, "1");
    put(object, tags::FRAME_OF_REFERENCE_UID, reference.to_owned());
    put(object, tags::MANUFACTURER, "Multivalued");
    put(object, tags::MANUFACTURER_MODEL_NAME, "Multivalued");
    put(object, tags::DEVICE_SERIAL_NUMBER, "0");
    put(object, tags::SOFTWARE_VERSIONS, program.to_owned());
    put(object, tags::CONTENT_LABEL, "HYPOTHESES");
    put(object, tags::CONTENT_DESCRIPTION, "One segment for each plausible answer");
    put(object, tags::CONTENT_CREATOR_NAME, PrimitiveValue::Empty);
    for (day, hour) in [
        (tags::CONTENT_DATE, tags::CONTENT_TIME),
        (tags::SERIES_DATE, tags::SERIES_TIME),
        (tags::INSTANCE_CREATION_DATE, tags::INSTANCE_CREATION_TIME),
    ] {
        put(object, day, date.clone());
        put(object, hour, time.clone());
    }
}

fn pixels(object: &mut InMemDicomObject, stack: &Stack, source: &InMemDicomObject, frames: usize) {
    let size = stack.size();
    object.put(DataElement::new(tags::IMAGE_TYPE, VR::CS, dicom_value!(Strs, ["DERIVED", "PRIMARY"])));
    put(object, tags::SAMPLES_PER_PIXEL, 1u16);
    put(object, tags::PHOTOMETRIC_INTERPRETATION, "MONOCHROME2");
    put(object, tags::NUMBER_OF_FRAMES, frames.to_string());
    // Both are numbers of 16 bits in the source.
    put(object, tags::ROWS, size.height as u16);
    put(object, tags::COLUMNS, size.width as u16);
    put(object, tags::BITS_ALLOCATED, 1u16);
    put(object, tags::BITS_STORED, 1u16);
    put(object, tags::HIGH_BIT, 0u16);
    put(object, tags::PIXEL_REPRESENTATION, 0u16);
    let lossy =
        super::instance::text(source, tags::LOSSY_IMAGE_COMPRESSION).is_some_and(|lossy| lossy == "01");
    put(object, tags::LOSSY_IMAGE_COMPRESSION, if lossy { "01" } else { "00" });
    if lossy {
        for tag in [tags::LOSSY_IMAGE_COMPRESSION_RATIO, tags::LOSSY_IMAGE_COMPRESSION_METHOD] {
            source.get(tag).cloned().map(|element| object.put(element));
        }
    }
    put(object, tags::SEGMENTATION_TYPE, "BINARY");
    put(object, tags::SEGMENTS_OVERLAP, "YES");
}

fn described(at: usize, segment: &Segment, program: &str) -> InMemDicomObject {
    let short = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let mut item = InMemDicomObject::new_empty();
    put(&mut item, tags::SEGMENT_NUMBER, at as u16 + 1);
    put(&mut item, tags::SEGMENT_LABEL, short(&segment.label, 64));
    put(&mut item, tags::SEGMENT_DESCRIPTION, short(&segment.description, 1024));
    put(&mut item, tags::SEGMENT_ALGORITHM_TYPE, "AUTOMATIC");
    put(&mut item, tags::SEGMENT_ALGORITHM_NAME, program.to_owned());
    // What a model segments is not known here: a region.
    let category = code("309825002", "SCT", "Spatial and Relational Concept");
    put_items(&mut item, tags::SEGMENTED_PROPERTY_CATEGORY_CODE_SEQUENCE, vec![category]);
    let kind = code("111030", "DCM", "Image Region");
    put_items(&mut item, tags::SEGMENTED_PROPERTY_TYPE_CODE_SEQUENCE, vec![kind]);
    item
}

/// Frames are indexed by segment, then by place.
fn dimensions(object: &mut InMemDicomObject, organization: &str) {
    let mut item = InMemDicomObject::new_empty();
    put(&mut item, tags::DIMENSION_ORGANIZATION_UID, organization.to_owned());
    put_items(object, tags::DIMENSION_ORGANIZATION_SEQUENCE, vec![item]);
    let index = |pointer: Tag, group: Tag, label: &str| {
        let mut item = InMemDicomObject::new_empty();
        put(&mut item, tags::DIMENSION_ORGANIZATION_UID, organization.to_owned());
        put(&mut item, tags::DIMENSION_INDEX_POINTER, PrimitiveValue::from(pointer));
        put(&mut item, tags::FUNCTIONAL_GROUP_POINTER, PrimitiveValue::from(group));
        put(&mut item, tags::DIMENSION_DESCRIPTION_LABEL, label.to_owned());
        item
    };
    let indices = vec![
        index(tags::REFERENCED_SEGMENT_NUMBER, tags::SEGMENT_IDENTIFICATION_SEQUENCE, "Segment"),
        index(tags::IMAGE_POSITION_PATIENT, tags::PLANE_POSITION_SEQUENCE, "Place"),
    ];
    put_items(object, tags::DIMENSION_INDEX_SEQUENCE, indices);
}

/// What all frames share: measures and direction.
fn shared(stack: &Stack, place: &Place) -> InMemDicomObject {
    let thickness = stack.geometry.as_ref().map_or(1.0, |geometry| f64::from(geometry.spacing[2]));
    let mut measures = InMemDicomObject::new_empty();
    let [x, y] = place.spacing;
    put(&mut measures, tags::PIXEL_SPACING, decimals(&[y, x]));
    put(&mut measures, tags::SLICE_THICKNESS, decimals(&[place.thickness.unwrap_or(thickness)]));
    put(&mut measures, tags::SPACING_BETWEEN_SLICES, decimals(&[thickness]));
    let mut orientation = InMemDicomObject::new_empty();
    put(&mut orientation, tags::IMAGE_ORIENTATION_PATIENT, decimals(&place.along.concat()));
    let mut groups = InMemDicomObject::new_empty();
    put_items(&mut groups, tags::PIXEL_MEASURES_SEQUENCE, vec![measures]);
    put_items(&mut groups, tags::PLANE_ORIENTATION_SEQUENCE, vec![orientation]);
    groups
}

/// What a frame has of its own: indices, place, segment, and the image it was made of.
fn frame_groups(stack: &Stack, places: &[&Place], frame: &FramePlace) -> InMemDicomObject {
    let &FramePlace { segment, slice } = frame;
    let mut content = InMemDicomObject::new_empty();
    let indices = PrimitiveValue::U32([segment as u32 + 1, slice as u32 + 1].into_iter().collect());
    put(&mut content, tags::DIMENSION_INDEX_VALUES, indices);
    let mut position = InMemDicomObject::new_empty();
    put(&mut position, tags::IMAGE_POSITION_PATIENT, decimals(&places[slice].position));
    let mut identification = InMemDicomObject::new_empty();
    put(&mut identification, tags::REFERENCED_SEGMENT_NUMBER, segment as u16 + 1);
    let (instance, number) = stack.slices[slice];
    let Instance { uid, class, frames, .. } = &stack.instances[instance];
    let mut image = InMemDicomObject::new_empty();
    put(&mut image, tags::REFERENCED_SOP_CLASS_UID, class.clone());
    put(&mut image, tags::REFERENCED_SOP_INSTANCE_UID, uid.clone());
    if frames.len() > 1 {
        put(&mut image, tags::REFERENCED_FRAME_NUMBER, (number + 1).to_string());
    }
    put(&mut image, tags::SPATIAL_LOCATIONS_PRESERVED, "YES");
    let purpose = code("121322", "DCM", "Source image for image processing operation");
    put_items(&mut image, tags::PURPOSE_OF_REFERENCE_CODE_SEQUENCE, vec![purpose]);
    let mut derivation = InMemDicomObject::new_empty();
    put_items(&mut derivation, tags::SOURCE_IMAGE_SEQUENCE, vec![image]);
    put_items(&mut derivation, tags::DERIVATION_CODE_SEQUENCE, vec![code("113076", "DCM", "Segmentation")]);
    let mut groups = InMemDicomObject::new_empty();
    put_items(&mut groups, tags::FRAME_CONTENT_SEQUENCE, vec![content]);
    put_items(&mut groups, tags::PLANE_POSITION_SEQUENCE, vec![position]);
    put_items(&mut groups, tags::SEGMENT_IDENTIFICATION_SEQUENCE, vec![identification]);
    put_items(&mut groups, tags::DERIVATION_IMAGE_SEQUENCE, vec![derivation]);
    groups
}

/// The series that was segmented, with all its files.
fn referenced(stack: &Stack) -> InMemDicomObject {
    let instance = |one: &Instance| {
        let mut item = InMemDicomObject::new_empty();
        put(&mut item, tags::REFERENCED_SOP_CLASS_UID, one.class.clone());
        put(&mut item, tags::REFERENCED_SOP_INSTANCE_UID, one.uid.clone());
        item
    };
    let mut item = InMemDicomObject::new_empty();
    put(&mut item, tags::SERIES_INSTANCE_UID, stack.instances[0].series.clone());
    put_items(&mut item, tags::REFERENCED_INSTANCE_SEQUENCE, stack.instances.iter().map(instance).collect());
    item
}
