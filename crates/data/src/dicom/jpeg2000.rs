//! Frames as JPEG 2000 codestreams.

use std::path::Path;

use hayro_jpeg2000::{DecodeSettings, DecoderContext, Image};

use super::frames::{Format, undecodable};
use crate::Result;
use crate::memory::reserved;

/// A codestream's first two markers.
const START: [u8; 4] = [0xff, 0x4f, 0xff, 0x51];
/// From there to the byte whose highest bit says whether samples are signed.
const SIGN_AT: usize = 42;

/// The samples of a frame, little-endian.
pub(super) fn decode(path: &Path, packed: &[u8], format: &Format) -> Result<Vec<u8>> {
    let broken = |cause: String| undecodable(path, "JPEG 2000", &cause);
    let settings = DecodeSettings { strict: true, ..DecodeSettings::default() };
    let image = Image::new(packed, &settings).map_err(|cause| broken(cause.to_string()))?;
    let channels = usize::from(image.color_space().num_channels()) + usize::from(image.has_alpha());
    let found = [image.width() as usize, image.height() as usize, channels];
    let wanted = [format.width, format.height, format.channels];
    // Before anything of that size is made.
    if found != wanted || format.sample.bytes() > 2 {
        let said =
            |[width, height, channels]: [usize; 3]| format!("{width}x{height} with {channels} channels");
        let bits = 8 * format.sample.bytes();
        return Err(broken(format!("{}, where the file says {} of {bits} bits", said(found), said(wanted))));
    }
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(|cause| broken(cause.to_string()))?;
    let components = decoded.components();
    let pixels = format.width * format.height;
    if components.len() != channels || components.iter().any(|one| one.samples().len() != pixels) {
        return Err(broken("channels of different sizes".into()));
    }
    let start = packed.windows(START.len()).position(|window| window == START);
    let is_signed = start.and_then(|at| packed.get(at + SIGN_AT)).is_some_and(|sign| sign & 0x80 != 0);
    let mut bytes = reserved(path, format.bytes())?;
    for pixel in 0..pixels {
        for component in components {
            // The decoder takes all samples for unsigned, and adds half of their range.
            let shift = if is_signed { (1i64 << (component.bit_depth() - 1)) as f32 } else { 0.0 };
            let value = (component.samples()[pixel] - shift).round() as i32;
            bytes.extend_from_slice(&value.to_le_bytes()[..format.sample.bytes()]);
        }
    }
    Ok(bytes)
}
