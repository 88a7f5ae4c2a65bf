//! The files that a page was given, and those that are written for it: by their paths, in memory. There are folders
//! where there are files in them.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Bytes = Arc<Mutex<Vec<u8>>>;

static FILES: Mutex<BTreeMap<PathBuf, Bytes>> = Mutex::new(BTreeMap::new());

fn files() -> MutexGuard<'static, BTreeMap<PathBuf, Bytes>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn locked(bytes: &Bytes) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(path: &Path) -> io::Result<Bytes> {
    files().get(path).cloned().ok_or_else(|| ErrorKind::NotFound.into())
}

/// Adds a file, in place of the one that had its name.
pub fn give(path: &Path, bytes: Vec<u8>) {
    files().insert(path.to_owned(), Arc::new(Mutex::new(bytes)));
}

/// Removes a file, or all that lies in a folder.
pub fn forget(path: &Path) {
    files().retain(|known, _| !known.starts_with(path));
}

/// Takes a file's content out.
pub fn taken(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = files().remove(path).ok_or(ErrorKind::NotFound)?;
    let content = std::mem::take(&mut *locked(&bytes));
    Ok(content)
}

/// Whether there is a file of this path.
pub fn is_file(path: &Path) -> bool {
    files().contains_key(path)
}

/// Whether there are files in a folder of this path.
pub fn is_dir(path: &Path) -> bool {
    files().keys().any(|known| known != path && known.starts_with(path))
}

/// Whether there is either.
pub fn exists(path: &Path) -> bool {
    files().keys().any(|known| known.starts_with(path))
}

/// The same: there are no links.
pub fn is_there(path: &Path) -> bool {
    exists(path)
}

/// Bytes of a file.
pub fn length(path: &Path) -> io::Result<u64> {
    Ok(locked(&find(path)?).len() as u64)
}

/// What lies in a folder.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let inner = |known: &PathBuf| Some(folder.join(known.strip_prefix(folder).ok()?.components().next()?));
    let mut found: Vec<PathBuf> = files().keys().filter_map(inner).collect();
    found.dedup();
    Ok(found)
}

/// A file's content as text.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(locked(&find(path)?).clone()).map_err(|_| ErrorKind::InvalidData.into())
}

/// An opened file.
#[derive(Debug)]
pub struct File {
    bytes: Bytes,
    at: usize,
}

/// What is known of an opened file.
#[derive(Debug)]
pub struct Metadata(u64);

impl Metadata {
    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.0
    }
}

impl File {
    /// Opens a file to be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { bytes: find(path)?, at: 0 })
    }

    /// A new file in place of the one that may be there.
    pub fn create(path: &Path) -> io::Result<Self> {
        give(path, Vec::new());
        Self::open(path)
    }

    /// There is no disk that has to have it.
    #[cfg(target_arch = "wasm32")]
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    /// What is known of it.
    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata(locked(&self.bytes).len() as u64))
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = locked(&self.bytes);
        let count = (&bytes[self.at.min(bytes.len())..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}

impl Write for File {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut bytes = locked(&self.bytes);
        let end = self.at + from.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[self.at..end].copy_from_slice(from);
        self.at = end;
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let length = locked(&self.bytes).len() as i64;
        let at = match to {
            SeekFrom::Start(at) => i64::try_from(at).ok(),
            SeekFrom::End(by) => length.checked_add(by),
            SeekFrom::Current(by) => (self.at as i64).checked_add(by),
        };
        self.at = at.and_then(|at| usize::try_from(at).ok()).ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_as_they_would_be_on_a_disk() {
        let path = |name: &str| Path::new("/disk").join(name);
        for name in ["a/2.dcm", "a/1.dcm", "a/in/3.dcm", "b.nii"] {
            give(&path(name), name.as_bytes().to_vec());
        }
        assert!(
            is_file(&path("b.nii")) && !is_file(&path("a")) && is_dir(&path("a")) && !is_dir(&path("b.nii"))
        );
        assert!(exists(&path("a/in")) && !exists(&path("c")) && !is_there(&path("a/4.dcm")));
        assert_eq!(list(&path("a")).unwrap(), ["a/1.dcm", "a/2.dcm", "a/in"].map(path));
        assert_eq!(read_to_string(&path("a/1.dcm")).unwrap(), "a/1.dcm");
        assert_eq!(File::open(&path("c")).unwrap_err().kind(), ErrorKind::NotFound);

        let mut file = File::create(&path("out")).unwrap();
        file.write_all(b"abcdef").unwrap();
        file.seek(SeekFrom::Start(2)).unwrap();
        file.write_all(b"XY").unwrap();
        assert!(file.seek(SeekFrom::Current(-9)).is_err());
        file.seek(SeekFrom::End(-1)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), file.metadata().unwrap().len()), ("f", 6));
        assert_eq!(taken(&path("out")).unwrap(), b"abXYef");
        forget(&path("a"));
        assert!(!exists(&path("a")) && length(&path("b.nii")).unwrap() == 5);
    }
}
