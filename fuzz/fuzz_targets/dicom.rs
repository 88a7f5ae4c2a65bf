//! DICOM.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use multivalued_fuzz::{images, scratch};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch);

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Other formats have targets of their own.
    if bytes.get(128..132) != Some(b"DICM") {
        return Corpus::Reject;
    }
    images::check(&FOLDER, bytes);
    Corpus::Keep
});
