//! NumPy arrays, alone and in archives.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use multivalued_fuzz::{images, scratch};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch);

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Other formats have targets of their own.
    if !matches!(bytes, [0x93, b'N', ..] | [b'P', b'K', ..]) {
        return Corpus::Reject;
    }
    images::check(&FOLDER, bytes);
    images::check_zipped(&FOLDER, bytes);
    Corpus::Keep
});
