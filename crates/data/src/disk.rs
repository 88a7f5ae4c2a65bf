//! Where readers find files: on the file system; in a browser, which has none, among the files that the page was given.
//!
//! The names are those of `std::fs` and of `Path`, so that a reader says what it always said. What only commands
//! of the program do (renaming, locking, walking data sets) goes to `std::fs` itself.

#[cfg(any(target_arch = "wasm32", test))]
mod given;

#[cfg(target_arch = "wasm32")]
pub use given::{File, exists, forget, give, is_dir, is_file, is_there, length, list, read_to_string, taken};

#[cfg(not(target_arch = "wasm32"))]
pub use system::*;

#[cfg(not(target_arch = "wasm32"))]
mod system {
    use std::io;
    use std::path::{Path, PathBuf};

    pub use std::fs::{File, read_to_string};

    /// Whether a path leads to a regular file.
    pub fn is_file(path: &Path) -> bool {
        path.is_file()
    }

    /// Whether a path leads to a folder.
    pub fn is_dir(path: &Path) -> bool {
        path.is_dir()
    }

    /// Whether a path leads anywhere.
    pub fn exists(path: &Path) -> bool {
        path.exists()
    }

    /// Whether there is something of this name, be it a link that leads nowhere.
    pub fn is_there(path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    /// Bytes of a file.
    pub fn length(path: &Path) -> io::Result<u64> {
        Ok(path.metadata()?.len())
    }

    /// What lies in a folder, in any order.
    pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    }
}
