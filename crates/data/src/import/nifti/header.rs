//! The header of NIfTI-1, checked field by field, kept byte by byte.

use std::path::Path;

use crate::import::Size;
use crate::import::sample::Sample;
use crate::{Error, Geometry, Result};

pub(super) const HEADER_BYTES: usize = 348;
/// Where voxels start at the earliest: the header and four bytes that announce extensions.
const FIRST_VOXEL: usize = 352;
/// Extensions longer than this are not skipped but refused.
const MOST_EXTENSION_BYTES: f32 = 16_777_216.0;

/// A checked NIfTI-1 header. Its bytes are kept, so that masks are written with the very geometry
/// (spacing, units, both transforms) that the input had.
#[derive(Debug, Clone)]
pub struct Header {
    raw: [u8; HEADER_BYTES],
    pub(super) big_endian: bool,
    pub(super) size: Size,
    pub(super) sample: Sample,
    pub(super) first_voxel: u64,
    pub(super) scale: Option<(f64, f64)>,
    pub(super) geometry: Geometry,
}

impl Header {
    /// Columns: the file's first axis.
    pub fn width(&self) -> usize {
        self.size.width
    }

    /// Rows: the file's second axis.
    pub fn height(&self) -> usize {
        self.size.height
    }

    /// Slices: the file's third axis; 1 for a 2-D image.
    pub fn depth(&self) -> usize {
        self.size.depth
    }

    /// Spacing and voxel-to-world transform.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn parse(path: &Path, raw: [u8; HEADER_BYTES]) -> Result<Self> {
        let refuse = |what: String| Err(Error::file(path, what));
        let big_endian = match i32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]) {
            348 => false,
            0x5c01_0000 => true,
            540 | 0x1c02_0000 => {
                return refuse(
                    "is NIfTI-2; convert it to NIfTI-1 (for example with nibabel or mrconvert)".into(),
                );
            }
            0x0100_0000 => {
                return refuse(
                    "is FreeSurfer MGZ; convert it to NIfTI-1 (mri_convert x.mgz x.nii.gz)".into(),
                );
            }
            _ => {
                return refuse(
                    "is not NIfTI-1: its first four bytes are no header length; export it again".into(),
                );
            }
        };
        match &raw[344..348] {
            b"n+1\0" => {}
            b"ni1\0" => {
                return refuse("is one half of a .hdr/.img pair; save it as a single .nii file".into());
            }
            _ => return refuse("is Analyze 7.5 or lacks the NIfTI signature; convert it to NIfTI-1".into()),
        }
        let field = Fields { raw: &raw, big_endian };

        let axes = field.short(40);
        if !(2..=7).contains(&axes) {
            return refuse(format!("declares {axes} axes; a 2-D image or a 3-D volume is wanted"));
        }
        let mut extent = [1usize; 7];
        for axis in 0..axes as usize {
            let length = field.short(42 + 2 * axis);
            extent[axis] = match usize::try_from(length) {
                Ok(length) if length > 0 => length,
                _ => {
                    return refuse(format!(
                        "declares {length} as length of axis {}; export it again",
                        axis + 1
                    ));
                }
            };
        }
        if let Some(axis) = (3..7).find(|&axis| extent[axis] > 1) {
            return refuse(format!(
                "has {} entries along axis {}; save each time point or channel as its own file",
                extent[axis],
                axis + 1
            ));
        }
        let size = Size { width: extent[0], height: extent[1], depth: extent[2], channels: 1 };

        let (datatype, bits) = (field.short(70), field.short(72));
        let sample = match datatype {
            2 => Sample::U8,
            4 => Sample::I16,
            8 => Sample::I32,
            16 => Sample::F32,
            64 => Sample::F64,
            256 => Sample::I8,
            512 => Sample::U16,
            768 => Sample::U32,
            1024 => Sample::I64,
            1280 => Sample::U64,
            _ => {
                let name = match datatype {
                    1 => "1-bit",
                    32 | 1792 | 2048 => "complex",
                    128 | 2304 => "RGB",
                    1536 => "128-bit",
                    _ => "unknown",
                };
                return refuse(format!(
                    "holds {name} voxels (datatype {datatype}); save integers or float32"
                ));
            }
        };
        if bits as i64 != 8 * sample.bytes() as i64 {
            return refuse(format!(
                "declares {bits} bits per voxel for datatype {datatype}; export it again"
            ));
        }

        let offset = field.float(108);
        let latest = FIRST_VOXEL as f32 + MOST_EXTENSION_BYTES;
        if !(FIRST_VOXEL as f32..=latest).contains(&offset) {
            return refuse(format!(
                "declares its voxels at byte {offset}, outside 352 to {latest}; export it again"
            ));
        }

        let (slope, inter) = (field.float(112), field.float(116));
        if slope.is_infinite() || inter.is_infinite() {
            return refuse(format!(
                "scales its values by {slope} and {inter}; correct scl_slope and scl_inter"
            ));
        }
        // By the standard a slope of 0 means "not scaled"; some writers put NaN there.
        let inter = if inter.is_nan() { 0.0 } else { inter };
        let scaled = slope != 0.0 && !slope.is_nan() && (slope, inter) != (1.0, 0.0);
        let scale = scaled.then_some((f64::from(slope), f64::from(inter)));

        let geometry = field.geometry(axes as usize);
        let numbers = geometry.spacing.iter().chain(geometry.affine.iter().flatten().flatten());
        if numbers.into_iter().any(|number| !number.is_finite()) {
            return refuse(
                "has a spacing or affine that is not finite; correct pixdim, qform or sform".into(),
            );
        }
        Ok(Self { raw, big_endian, size, sample, first_voxel: offset as u64, scale, geometry })
    }

    /// The header of a volume of 8-bit labels that came from another format.
    pub(crate) fn of(path: &Path, size: Size, geometry: Option<&Geometry>) -> Result<Self> {
        let mut raw = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &348i32.to_le_bytes());
        for (at, length) in [3, size.width, size.height, size.depth, 1, 1, 1, 1].into_iter().enumerate() {
            // Lengths are checked against limits below the largest number.
            put(40 + 2 * at, &i16::try_from(length).unwrap_or(i16::MAX).to_le_bytes());
        }
        put(70, &2i16.to_le_bytes());
        put(72, &8i16.to_le_bytes());
        let spacing = geometry.map_or([1.0; 3], |geometry| geometry.spacing);
        for (at, length) in [1.0].into_iter().chain(spacing).enumerate() {
            put(76 + 4 * at, &length.to_le_bytes());
        }
        put(108, &(FIRST_VOXEL as f32).to_le_bytes());
        put(112, &1f32.to_le_bytes());
        // Millimetres.
        put(123, &[2]);
        if let Some(affine) = geometry.and_then(|geometry| geometry.affine) {
            // The scanner's own coordinates.
            put(254, &1i16.to_le_bytes());
            for (at, number) in affine.iter().flatten().enumerate() {
                put(280 + 4 * at, &number.to_le_bytes());
            }
        }
        put(344, b"n+1\0");
        Self::parse(path, raw)
    }

    /// The same geometry around other samples: NIfTI's number for their type, and their bits.
    pub(super) fn around(&self, datatype: i16, bits: i16) -> [u8; FIRST_VOXEL] {
        let mut bytes = [0; FIRST_VOXEL];
        bytes[..HEADER_BYTES].copy_from_slice(&self.raw);
        let mut put = |at: usize, little: &[u8]| {
            let target = &mut bytes[at..at + little.len()];
            target.copy_from_slice(little);
            if self.big_endian {
                target.reverse();
            }
        };
        put(68, &0i16.to_le_bytes()); // no statistical intent
        put(70, &datatype.to_le_bytes());
        put(72, &bits.to_le_bytes());
        put(108, &(FIRST_VOXEL as f32).to_le_bytes());
        put(112, &1f32.to_le_bytes());
        put(116, &0f32.to_le_bytes());
        put(124, &0f32.to_le_bytes()); // the display range was the image's
        put(128, &0f32.to_le_bytes());
        bytes
    }
}

/// Header fields by byte offset.
struct Fields<'a> {
    raw: &'a [u8; HEADER_BYTES],
    big_endian: bool,
}

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.raw[at..at + N]);
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn short(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.bytes(at))
    }

    fn float(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.bytes(at))
    }

    /// Spacing, and the transform by the standard's preference: sform, else qform.
    fn geometry(&self, axes: usize) -> Geometry {
        let mut spacing = [1.0; 3];
        for axis in 0..axes.min(3) {
            let stated = self.float(80 + 4 * axis).abs();
            spacing[axis] = if stated == 0.0 { 1.0 } else { stated };
        }
        let affine = if self.short(254) > 0 {
            Some([280, 296, 312].map(|row| [0, 4, 8, 12].map(|column| self.float(row + column))))
        } else if self.short(252) > 0 {
            Some(self.quaternion_transform(spacing))
        } else {
            None
        };
        Geometry { spacing, affine }
    }

    /// The standard's "method 2": a rotation by quaternion, then an offset.
    fn quaternion_transform(&self, spacing: [f32; 3]) -> [[f32; 4]; 3] {
        let [mut b, mut c, mut d] = [256, 260, 264].map(|at| f64::from(self.float(at)));
        let length = b * b + c * c + d * d;
        let a = if length > 1.0 {
            // Rounding pushed it over: a turn by 180 degrees.
            let scale = length.sqrt().recip();
            (b, c, d) = (b * scale, c * scale, d * scale);
            0.0
        } else {
            (1.0 - length).sqrt()
        };
        let rotation = [
            [a * a + b * b - c * c - d * d, 2.0 * (b * c - a * d), 2.0 * (b * d + a * c)],
            [2.0 * (b * c + a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d - a * b)],
            [2.0 * (b * d - a * c), 2.0 * (c * d + a * b), a * a + d * d - c * c - b * b],
        ];
        let handedness = if self.float(76) < 0.0 { -1.0 } else { 1.0 };
        let step = [f64::from(spacing[0]), f64::from(spacing[1]), f64::from(spacing[2]) * handedness];
        let mut affine = [[0.0; 4]; 3];
        for row in 0..3 {
            for column in 0..3 {
                affine[row][column] = (rotation[row][column] * step[column]) as f32;
            }
            affine[row][3] = self.float(268 + 4 * row);
        }
        affine
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A little-endian header of 3x2x2 16-bit voxels.
    pub fn header() -> [u8; HEADER_BYTES] {
        let mut raw = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &348i32.to_le_bytes());
        for (axis, length) in [3i16, 3, 2, 2, 1, 1, 1, 1].into_iter().enumerate() {
            put(40 + 2 * axis, &length.to_le_bytes());
        }
        put(70, &4i16.to_le_bytes());
        put(72, &16i16.to_le_bytes());
        for (axis, spacing) in [-1f32, 0.5, 0.25, 2.0].into_iter().enumerate() {
            put(76 + 4 * axis, &spacing.to_le_bytes());
        }
        put(108, &352f32.to_le_bytes());
        put(344, b"n+1\0");
        raw
    }

    pub fn with(at: usize, bytes: &[u8]) -> [u8; HEADER_BYTES] {
        let mut raw = header();
        raw[at..at + bytes.len()].copy_from_slice(bytes);
        raw
    }

    pub fn parse(raw: [u8; HEADER_BYTES]) -> Result<Header> {
        Header::parse(Path::new("v.nii"), raw)
    }

    #[test]
    fn qform_follows_the_standard() {
        // A quarter turn about z (a = d = 1/sqrt 2) with qfac -1, offset (10, 20, 30).
        let mut raw = with(252, &1i16.to_le_bytes());
        raw[264..268].copy_from_slice(&std::f32::consts::FRAC_1_SQRT_2.to_le_bytes());
        for (axis, offset) in [10f32, 20.0, 30.0].into_iter().enumerate() {
            raw[268 + 4 * axis..272 + 4 * axis].copy_from_slice(&offset.to_le_bytes());
        }
        let affine = parse(raw).unwrap().geometry.affine.unwrap();
        let expected = [[0.0, -0.25, 0.0, 10.0], [0.5, 0.0, 0.0, 20.0], [0.0, 0.0, -2.0, 30.0]];
        for (row, wanted) in affine.iter().flatten().zip(expected.iter().flatten()) {
            assert!((row - wanted).abs() < 1e-6, "{affine:?}");
        }
    }

    #[test]
    fn refusals_name_the_cause() {
        for (raw, cause) in [
            (with(0, &540i32.to_le_bytes()), "NIfTI-2"),
            (with(0, &540i32.to_be_bytes()), "NIfTI-2"),
            (with(0, &1i32.to_be_bytes()), "MGZ"),
            (with(0, &7i32.to_le_bytes()), "not NIfTI-1"),
            (with(344, b"ni1\0"), "pair"),
            (with(344, b"\0\0\0\0"), "Analyze"),
            (with(40, &[7, 0, 0xff, 0xff]), "-1 as length of axis 1"),
            (with(40, &1i16.to_le_bytes()), "1 axes"),
            (with(40, &9i16.to_le_bytes()), "9 axes"),
            (with(40, &[4, 0, 3, 0, 2, 0, 2, 0, 5, 0]), "5 entries along axis 4"),
            (with(70, &128i16.to_le_bytes()), "RGB"),
            (with(70, &32i16.to_le_bytes()), "complex"),
            (with(72, &0i16.to_le_bytes()), "0 bits"),
            (with(108, &(-5f32).to_le_bytes()), "byte -5"),
            (with(108, &f32::NAN.to_le_bytes()), "byte NaN"),
            (with(108, &1e12f32.to_le_bytes()), "1000000000000"),
            (with(112, &f32::INFINITY.to_le_bytes()), "scl_slope"),
            (with(80, &f32::NAN.to_le_bytes()), "not finite"),
        ] {
            let message = parse(raw).unwrap_err().to_string();
            assert!(message.starts_with("v.nii: ") && message.contains(cause), "{message} lacks {cause}");
        }
        let mut nan_affine = with(254, &1i16.to_le_bytes());
        nan_affine[300..304].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(parse(nan_affine).unwrap_err().to_string().contains("affine"));
    }
}
