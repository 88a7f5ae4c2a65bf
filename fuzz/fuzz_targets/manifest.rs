//! A manifest, as JSON lines and as CSV.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use multivalued_fuzz::{manifest, scratch};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = scratch();
    manifest::prepare(&folder);
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| manifest::check(&FOLDER, bytes));
