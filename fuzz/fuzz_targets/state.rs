//! A checkpoint's `state.json`.
#![no_main]

use std::sync::LazyLock;

use multivalued_fuzz::scratch;
use multivalued_fuzz::state::Checkpoint;

static CHECKPOINT: LazyLock<Checkpoint> = LazyLock::new(|| Checkpoint::make(scratch().join("last"), 0));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHECKPOINT.check(bytes));
