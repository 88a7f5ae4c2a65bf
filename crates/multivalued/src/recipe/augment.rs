//! `[augment]`: the meaning of its keys. The table itself and its ranges are `multivalued_data::augment`.

use super::table::Row;

const fn row(key: &'static str, meaning: &'static str) -> Row {
    Row { key, meaning, paper: "", range: None }
}

pub(super) const ROWS: &[Row] = &[
    row("augment.flip_horizontal", "probability of swapping left and right"),
    row("augment.flip_vertical", "probability of swapping top and bottom"),
    row(
        "augment.flip_diagonal",
        "probability of mirroring about the diagonal from lower left to upper right (square images)",
    ),
    row("augment.quarter_turns", "turn by 0, 90, 180 or 270 degrees"),
    row("augment.rotation", "largest further rotation, in degrees"),
    row("augment.scale", "largest relative change of size"),
    row("augment.distortion", "largest shear and stretch: change of each entry of the affine map"),
    row("augment.crop", "`[width, height]` to cut out at a random place; needed where images differ in size"),
    row("augment.gain", "largest relative change of contrast"),
    row("augment.offset", "largest change of brightness, as a share of the image's range"),
    row("augment.noise", "standard deviation of added noise, as a share of the image's range"),
];
