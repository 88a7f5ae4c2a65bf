//! NIfTI-1, plain and gzipped.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use multivalued_fuzz::{images, scratch};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch);

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Other formats have targets of their own.
    if !matches!(bytes, [0x1f, 0x8b, ..] | [0x5c | 0x1c, 1 | 2, 0, 0, ..] | [0, 0, 1 | 2, 0x5c | 0x1c, ..]) {
        return Corpus::Reject;
    }
    images::check(&FOLDER, bytes);
    images::check_gzipped(&FOLDER, bytes);
    Corpus::Keep
});
