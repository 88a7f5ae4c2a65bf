//! Files that the program writes: nobody meets half of one, and none is written through a link.
//!
//! A run's or a model's folder may come from elsewhere. Where it holds a link in place of one of its files,
//! writing to that name would change whatever the link points to. So names are refused where they are links,
//! and temporary files have names that nobody knows before and are created only where nothing is.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::disk::{self, File as DiskFile};
use crate::{Error, Result};

/// Refuses a link, whether or not it leads anywhere; what is not there is fine.
pub fn refuse_link(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Err(Error::file(
            path,
            "is a link; inside its own folders the program writes through none. Remove the link",
        )),
        _ => Ok(()),
    }
}

/// Makes a folder unless it is there. Its parents may be links, it may not.
pub fn make_folder(path: &Path) -> Result<()> {
    refuse_link(path)?;
    fs::create_dir_all(path).map_err(|error| Error::io(path, error))
}

/// A new file in place of the one that may be there.
pub fn create(path: &Path) -> Result<DiskFile> {
    #[cfg(target_arch = "wasm32")]
    return DiskFile::create(path).map_err(|error| Error::io(path, error));
    #[cfg(not(target_arch = "wasm32"))]
    create_on_disk(path)
}

#[cfg(not(target_arch = "wasm32"))]
fn create_on_disk(path: &Path) -> Result<File> {
    refuse_link(path)?;
    let made = match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().write(true).create_new(true).open(path),
    };
    made.map_err(|error| Error::io(path, error))
}

/// Writes beside a file's place, syncs, and renames.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    refuse_link(path)?;
    let refused = |error| Error::io(path, error);
    let (beside, mut file) = temporary(path).map_err(refused)?;
    let written = write(&mut file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // The rest of a failed write is of no use; the write's own error is the one to tell.
        let _ = fs::remove_file(&beside);
        refused(error)
    })
}

/// A file of a random name in the same folder, which was not there before.
fn temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        // Every `RandomState` has keys of its own, which the operating system's randomness began.
        let name = format!(".{:016x}.part", RandomState::new().build_hasher().finish());
        let beside = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (beside, file)),
        }
    }
}

/// Opens a file to read and to change it where it lies, and makes it where there is none. It must be a regular
/// file under this name alone: what is written must not appear anywhere else.
pub fn open_own(path: &Path) -> Result<File> {
    let refused = |error| Error::io(path, error);
    loop {
        refuse_link(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if path.symlink_metadata().is_ok() {
            must_be_regular(path)?;
        } else {
            options.create_new(true);
        }
        match options.open(path) {
            // Another process made it in between.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(error)),
            Ok(file) => {
                must_be_its_only_name(path, &file.metadata().map_err(refused)?)?;
                return Ok(file);
            }
        }
    }
}

#[cfg(unix)]
fn must_be_its_only_name(path: &Path, opened: &fs::Metadata) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let named = path.symlink_metadata().map_err(|error| Error::io(path, error))?;
    if (named.dev(), named.ino()) != (opened.dev(), opened.ino()) {
        return Err(Error::file(path, "was replaced while it was opened; try again"));
    }
    match opened.nlink() {
        0 | 1 => Ok(()),
        names => Err(Error::file(path, format!("has {names} names (hard links); remove this one"))),
    }
}

#[cfg(not(unix))]
fn must_be_its_only_name(_: &Path, _: &fs::Metadata) -> Result<()> {
    Ok(())
}

/// Refuses devices, pipes and folders, links to them too: reading one may never end.
pub fn must_be_regular(path: &Path) -> Result<()> {
    match disk::length(path) {
        _ if disk::is_file(path) => Ok(()),
        _ if disk::is_dir(path) => Err(Error::file(path, "is a folder, where a file is wanted")),
        Err(error) => Err(Error::io(path, error)),
        Ok(_) => Err(Error::file(path, "is no regular file but a device, a pipe or a socket; remove it")),
    }
}

/// The content of a regular file of at most so many bytes; a larger one is not read at all.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    must_be_regular(path)?;
    let refused = |error| Error::io(path, error);
    let file = DiskFile::open(path).map_err(refused)?;
    let size = file.metadata().map_err(refused)?.len();
    let too_large = |size: u64| {
        Error::file(path, format!("has {size} bytes, where at most {most} make sense; is it the right file?"))
    };
    if size > most {
        return Err(too_large(size));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(most + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, |file| file.write_all(b"old")).unwrap();
        let failed =
            replace(&path, |file| file.write_all(b"new").and(Err(io::ErrorKind::StorageFull.into())));
        assert!(failed.unwrap_err().to_string().contains("a.json"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_links() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("precious"), "mine").unwrap();
        fs::create_dir(at("elsewhere")).unwrap();
        for (target, link) in [("precious", "link"), ("nowhere", "dangling"), ("elsewhere", "folder")] {
            symlink(at(target), at(link)).unwrap();
            let refusals = [
                replace(&at(link), |file| file.write_all(b"x")).err(),
                create(&at(link)).err(),
                open_own(&at(link)).err(),
                make_folder(&at(link)).err(),
            ];
            for refusal in refusals {
                let message = refusal.expect("a refusal").to_string();
                assert!(message.contains(link) && message.contains("is a link"), "{message}");
            }
        }
        fs::hard_link(at("precious"), at("twin")).unwrap();
        assert!(open_own(&at("twin")).unwrap_err().to_string().contains("2 names"));
        // Replacing gives the name to another file; the one that had two names is as it was.
        replace(&at("twin"), |file| file.write_all(b"x")).unwrap();
        create(&at("twin")).unwrap();
        assert_eq!(fs::read(at("precious")).unwrap(), b"mine");
        assert!(!at("nowhere").exists() && fs::read_dir(at("elsewhere")).unwrap().next().is_none());
    }

    #[test]
    fn files_of_another_kind_or_size_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(read(&path, 4).unwrap_err().to_string().contains("has 5 bytes, where at most 4"));
        assert!(read(folder.path(), 9).unwrap_err().to_string().contains("is a folder"));
        if cfg!(unix) {
            assert!(read(Path::new("/dev/zero"), 9).unwrap_err().to_string().contains("no regular file"));
        }
    }
}
