//! A document that the user named a file for, such as the one of `--json`.
//!
//! A regular file appears at once or not at all. A link leads to the file that is meant. A device or a pipe is
//! written to and stays what it is: a rename would put a file in its place.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use multivalued_data::files;

use crate::exit::{Failure, Outcome};
use crate::terminal::output;

/// Links that are followed before they are taken for a circle, as the system does.
const MOST_LINKS: usize = 40;

/// Where a document goes.
#[derive(Debug, PartialEq)]
pub enum Document {
    /// `-`.
    StandardOutput,
    /// A device, a pipe, or a file that is open already.
    Open(PathBuf),
    /// A regular file, or none yet.
    File(PathBuf),
}

impl Document {
    /// What a path names; one that cannot be written is refused before the work whose result it shall hold.
    pub fn named(path: &Path) -> Outcome<Self> {
        let mut target = path.to_owned();
        for _ in 0..MOST_LINKS {
            if ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
                .iter()
                .any(|name| target == Path::new(name))
            {
                return Ok(Self::StandardOutput);
            }
            // Names of files that this process has open.
            if target.starts_with("/dev/fd") || target.starts_with("/proc") {
                return Ok(Self::Open(target));
            }
            let folder = folder_of(&target);
            match target.symlink_metadata() {
                Ok(found) if found.is_symlink() => {
                    let leads_to = target.read_link().map_err(|error| Failure::io(&target, &error))?;
                    target = folder.join(leads_to);
                }
                Ok(found) if found.is_dir() => {
                    return Err(Failure::user(path.display(), "is a folder, where a file is wanted"));
                }
                Ok(found) if !found.is_file() => return Ok(Self::Open(target)),
                _ if !folder.is_dir() => {
                    return Err(Failure::user(folder.display(), "there is no such folder; make it first"));
                }
                _ => return Ok(Self::File(target)),
            }
        }
        Err(Failure::user(path.display(), "is a link that leads back to itself; choose another file"))
    }

    /// Writes it.
    pub fn write(&self, bytes: &[u8]) -> Outcome {
        match self {
            Self::StandardOutput => output(bytes),
            Self::File(path) => Ok(files::replace(path, |file| file.write_all(bytes))?),
            Self::Open(path) => {
                let opened = OpenOptions::new().append(true).open(path);
                opened.and_then(|mut file| file.write_all(bytes)).map_err(|error| match error.kind() {
                    io::ErrorKind::BrokenPipe => Failure::OutputClosed,
                    _ => Failure::io(path, &error),
                })
            }
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[cfg(unix)]
    #[test]
    fn links_lead_to_what_is_written() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("far")).unwrap();
        symlink("far/b.json", at("dangling")).unwrap();
        symlink("dangling", at("twice")).unwrap();
        Document::named(&at("twice")).unwrap().write(b"1").unwrap();
        assert_eq!(fs::read(at("far/b.json")).unwrap(), b"1");
        Document::named(&at("twice")).unwrap().write(b"2").unwrap();
        assert_eq!(fs::read(at("far/b.json")).unwrap(), b"2");
        assert!(at("twice").is_symlink() && at("dangling").is_symlink());
        symlink("circle", at("circle")).unwrap();
        symlink("no-folder/x", at("lost")).unwrap();
        for (name, cause) in [
            ("circle", "leads back"),
            ("lost", "no such folder"),
            ("far", "is a folder"),
            ("x/y", "make it first"),
        ] {
            let Err(Failure::User(message)) = Document::named(&at(name)) else { panic!("{name} was taken") };
            assert!(message.contains(cause), "{message}");
        }
        symlink("/dev/stdout", at("out")).unwrap();
        assert_eq!(Document::named(&at("out")).unwrap(), Document::StandardOutput);
        assert_eq!(Document::named(Path::new("-")).unwrap(), Document::StandardOutput);
        assert_eq!(Document::named(Path::new("/dev/null")).unwrap(), Document::Open("/dev/null".into()));
    }
}
