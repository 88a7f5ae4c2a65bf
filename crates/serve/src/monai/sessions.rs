//! Images that clients leave here to ask for them again: files of names that nobody guesses, in a folder of this process
//! alone, few and not for long.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::options::Limits;
use crate::refusal::Refusal;

/// Endings of files that are kept, since readers and writers go by them; the longest first.
const ENDINGS: [&str; 13] = [
    ".seg.nrrd",
    ".nii.gz",
    ".nii",
    ".nrrd",
    ".mha",
    ".png",
    ".tiff",
    ".tif",
    ".jpeg",
    ".jpg",
    ".npy",
    ".npz",
    ".dcm",
];

/// A file of this process, removed with its folder when nobody holds it any more.
#[derive(Debug)]
pub struct Stored {
    folder: PathBuf,
    /// The image.
    pub path: PathBuf,
    bytes: u64,
    /// Whether the client gave it the ending of Slicer's segmentations.
    pub wants_segments: bool,
}

impl Stored {
    /// A path beside the image for an answer that is being made.
    pub fn beside(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}{ending}", name()))
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Session {
    file: Arc<Stored>,
    age: Duration,
    used: Instant,
}

/// All sessions.
pub struct Sessions {
    /// Of this process, readable by its user alone.
    root: PathBuf,
    most: usize,
    most_bytes: u64,
    age: Duration,
    all: Mutex<BTreeMap<String, Session>>,
}

impl Sessions {
    pub fn new(limits: &Limits) -> io::Result<Self> {
        let root = std::env::temp_dir().join(format!("multivalued-serve-{}", name()));
        make(&root)?;
        let Limits { sessions, session_bytes, session_age, .. } = *limits;
        Ok(Self { root, most: sessions, most_bytes: session_bytes, age: session_age, all: Mutex::default() })
    }

    /// Writes an upload to a folder of its own. Of the name that the client gave only a known ending is kept.
    pub fn store(&self, given: &str, bytes: &[u8]) -> Result<Stored, Refusal> {
        let failed = |error: io::Error| {
            Refusal::failed(format!("the server cannot store the image: {error}; tell whoever runs it"))
        };
        if bytes.is_empty() {
            return Err(Refusal::bad("the file is empty; send the image"));
        }
        let given = given.to_ascii_lowercase();
        let ending = ENDINGS.into_iter().find(|ending| given.ends_with(ending)).unwrap_or("");
        let wants_segments = ending == ".seg.nrrd";
        let folder = self.root.join(name());
        make(&folder).map_err(failed)?;
        // The name is that of `predict`'s input, so that draws are the same.
        let path = folder.join(format!("image{}", if wants_segments { ".nrrd" } else { ending }));
        let stored = Stored { folder, path, bytes: bytes.len() as u64, wants_segments };
        fs::write(&stored.path, bytes).map_err(failed)?;
        Ok(stored)
    }

    /// Keeps a file for later, for so long, or for as long as such are kept; gives its id. Where there are too many, those
    /// go that were not asked for the longest.
    pub fn keep(&self, file: Stored, age: Option<Duration>) -> Result<String, Refusal> {
        if file.bytes > self.most_bytes {
            let most = self.most_bytes;
            return Err(Refusal::too_large(format!("sessions hold {most} bytes; send a smaller image")));
        }
        let id = name();
        let age = age.map_or(self.age, |age| age.min(self.age));
        let mut all = self.fresh();
        while all.len() >= self.most.max(1) || held(&all) + file.bytes > self.most_bytes {
            let oldest = all.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            all.remove(&oldest);
        }
        all.insert(id.clone(), Session { file: Arc::new(file), age, used: Instant::now() });
        Ok(id)
    }

    /// The file of a session, which counts as asked for.
    pub fn file(&self, id: &str) -> Result<Arc<Stored>, Refusal> {
        match self.fresh().get_mut(id) {
            Some(session) => {
                session.used = Instant::now();
                Ok(session.file.clone())
            }
            None => {
                Err(Refusal::missing("there is no such session, or it has ended; upload the image again"))
            }
        }
    }

    /// Ends a session.
    pub fn remove(&self, id: &str) -> Result<(), Refusal> {
        self.file(id)?;
        self.fresh().remove(id);
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.fresh().len()
    }

    /// Removes all files of all sessions, whoever still holds them.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.root);
    }

    /// Those that have not grown too old.
    fn fresh(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, session| session.used.elapsed() < session.age);
        all
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.clear();
    }
}

fn held(all: &BTreeMap<String, Session>) -> u64 {
    all.values().map(|session| session.file.bytes).sum()
}

/// A folder that its user alone may look into.
fn make(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// 128 bits of the system's randomness.
pub fn name() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_few_small_and_end() {
        let limits = Limits { sessions: 2, session_bytes: 10, ..Limits::default() };
        let sessions = Sessions::new(&limits).unwrap();
        let keep =
            |name: &str, length: usize| sessions.keep(sessions.store(name, &vec![7; length]).unwrap(), None);
        let one = keep("../../etc/a.NII.GZ", 4).unwrap();
        let path = sessions.file(&one).unwrap().path.clone();
        assert!(
            path.starts_with(&sessions.root) && path.ends_with("image.nii.gz") && path.exists(),
            "{path:?}"
        );
        let two = keep("b.seg.nrrd", 4).unwrap();
        assert!(sessions.file(&two).unwrap().wants_segments);
        sessions.file(&one).unwrap();
        let three = keep("c", 4).unwrap();
        assert!(sessions.file(&two).is_err(), "asked for the longest ago");
        assert!(sessions.file(&one).is_ok() && sessions.len() == 2);
        assert_eq!(keep("d", 11).unwrap_err().status, 413);
        assert_eq!(sessions.store("e", b"").unwrap_err().status, 400);
        let four = keep("f", 9).unwrap();
        assert!(sessions.file(&one).is_err() && sessions.file(&three).is_err(), "no room beside nine bytes");
        assert!(!path.exists());
        sessions.remove(&four).unwrap();
        assert!(sessions.remove(&four).is_err() && sessions.len() == 0);
        let short = sessions.keep(sessions.store("g", b"x").unwrap(), Some(Duration::ZERO)).unwrap();
        assert!(sessions.file(&short).is_err(), "its time is over");
        let root = sessions.root.clone();
        drop(sessions);
        assert!(!root.exists());
    }
}
