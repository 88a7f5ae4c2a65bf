//! A recipe's text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| multivalued_fuzz::recipe::check(bytes));
