//! The session as functions of a WebAssembly module, without imports.
//!
//! ```text
//! reserve(length) → place      memory to write a request or a file's bytes into
//! give(path, bytes)            a file; both were reserved, and belong to the module from now on
//! ask(request) → 1, 0          a request as JSON; 0 where it was refused
//! answer(), answer_length()    what was said, as JSON: { "error": … } where it was refused
//! bytes(), bytes_length()      the answer's numbers or bits
//! panic(), panic_length()      the last words of a module that trapped
//! ```

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use multivalued_data::disk;
use serde_json::json;

use crate::session::{Answer, Session};

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
    static ANSWER: RefCell<(String, Vec<u8>)> = RefCell::default();
}
static LAST_WORDS: Mutex<String> = Mutex::new(String::new());

/// Memory of so many bytes, to be handed to `give` or `ask`.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(length: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; length].into_boxed_slice()).cast()
}

/// The bytes of what `reserve` gave.
///
/// # Safety
/// `place` came from `reserve(length)` and was not handed over before.
unsafe fn taken(place: *mut u8, length: usize) -> Vec<u8> {
    // SAFETY: a boxed slice of this length was made into this pointer.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(place, length)) }.into_vec()
}

/// Adds a file.
///
/// # Safety
/// Both places came from `reserve` with these lengths and were not handed over before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn give(path: *mut u8, path_length: usize, bytes: *mut u8, length: usize) {
    // SAFETY: as promised by the caller.
    let (path, bytes) = unsafe { (taken(path, path_length), taken(bytes, length)) };
    disk::give(&PathBuf::from(String::from_utf8_lossy(&path).into_owned()), bytes);
}

/// Answers a request; 0 where it was refused.
///
/// # Safety
/// The place came from `reserve` with this length and was not handed over before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ask(request: *mut u8, length: usize) -> u32 {
    std::panic::set_hook(Box::new(|info| {
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
    }));
    // SAFETY: as promised by the caller.
    let request = unsafe { taken(request, length) };
    let said = SESSION.with_borrow_mut(|session| session.ask(&request));
    let (worked, answer) = match said {
        Ok(Answer { said, bytes }) => (1, (said.to_string(), bytes)),
        Err(error) => (0, (json!({ "error": error }).to_string(), Vec::new())),
    };
    ANSWER.set(answer);
    worked
}

/// Where the answer's text begins.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    ANSWER.with_borrow(|(text, _)| text.as_ptr())
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn answer_length() -> usize {
    ANSWER.with_borrow(|(text, _)| text.len())
}

/// Where the answer's bytes begin.
#[unsafe(no_mangle)]
pub extern "C" fn bytes() -> *const u8 {
    ANSWER.with_borrow(|(_, bytes)| bytes.as_ptr())
}

/// How many there are.
#[unsafe(no_mangle)]
pub extern "C" fn bytes_length() -> usize {
    ANSWER.with_borrow(|(_, bytes)| bytes.len())
}

/// Where the last words begin.
#[unsafe(no_mangle)]
pub extern "C" fn panic() -> *const u8 {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()
}

/// How long they are.
#[unsafe(no_mangle)]
pub extern "C" fn panic_length() -> usize {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).len()
}
