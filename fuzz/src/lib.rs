//! What must hold for any bytes in place of a file: one module per kind of file. The targets of
//! `fuzz_targets/` and the ordinary tests of the crates share it.

pub mod images;
pub mod manifest;
pub mod recipe;
pub mod safetensors;
pub mod state;

/// A folder for a target's files. It outlives the target, which may end at any time; `scripts/fuzz` sets
/// TMPDIR to a folder that it removes.
pub fn scratch() -> std::path::PathBuf {
    tempfile::tempdir().expect("a temporary folder").keep()
}
