//! A file of parameters.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| multivalued_fuzz::safetensors::check(bytes));
