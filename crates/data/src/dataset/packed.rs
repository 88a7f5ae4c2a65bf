//! A file of packed cases: 8- or 16-bit pixels where that loses nothing, one bit per mask pixel. Ids, groups,
//! sizes and checksums are in memory; a case is read by its place in the file whenever it is asked for.
//!
//! ```text
//! offset  bytes  content (little-endian)
//! 0       8      "mvcases\n"
//! 8       4      version, 2
//! 12      32     key: BLAKE3 of what the cases were made from
//! 44      8      offset of the index
//! 52      8      bytes of the index, which ends the file
//! 60      32     BLAKE3 of the index
//! 92             the records
//! …              the index: count u64; each: bytes of the record and of the unpacked case u64, BLAKE3 of the
//!                record, id, group, columns, rows, channels; then what was skipped and what was noted, each a list of texts
//! ```

use std::fs;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::hold::{Listener, Told};
use super::record::{self, Input};
use crate::disk::File;
use crate::{Case, Error, Grid, Result, files};

const MAGIC: [u8; 8] = *b"mvcases\n";
const VERSION: u32 = 2;
/// Where the records begin.
const RECORDS: u64 = 92;

/// A file of cases that is open to be read.
#[derive(Debug)]
pub struct Packed {
    path: PathBuf,
    file: Positioned,
    key: blake3::Hash,
    entries: Vec<Entry>,
    /// What was left out for a bad file when it was made.
    pub(super) skipped: Vec<String>,
    /// What should be known of the way in which the masks were read.
    pub(super) notes: Vec<String>,
    listener: Listener,
}

/// What is known of a case without reading it.
#[derive(Debug)]
struct Entry {
    offset: u64,
    bytes: usize,
    /// Bytes that the case takes in memory.
    unpacked: u64,
    hash: blake3::Hash,
    id: String,
    group: String,
    size: [usize; 3],
}

/// A case on its way into a file.
pub(super) struct Encoded {
    record: Vec<u8>,
    entry: Entry,
}

impl Encoded {
    pub fn new(case: &Case) -> Self {
        let record = record::encode(case);
        let entry = Entry {
            offset: 0,
            bytes: record.len(),
            unpacked: case.bytes(),
            hash: blake3::hash(&record),
            id: case.id.clone(),
            group: case.group.clone(),
            size: [case.image.width(), case.image.height(), case.image.channels()],
        };
        Self { record, entry }
    }
}

/// What is found at a cache's place.
pub(super) enum Found {
    /// Whole, and made from the same.
    Fresh(Packed),
    /// Nothing, or made from something else or by another version.
    None,
    /// A cache that is not whole, and why.
    Damaged(String),
}

impl Packed {
    /// Opens a file and reads all of it once, so that damage is known before the work that needs it. An error
    /// where something else lies there.
    pub(super) fn find(path: &Path, key: blake3::Hash, listener: &Listener) -> Result<Found> {
        files::refuse_link(path)?;
        if !path.exists() {
            return Ok(Found::None);
        }
        files::must_be_regular(path)?;
        let mut file = File::open(path).map_err(|error| Error::io(path, error))?;
        let stored = file.metadata().map_err(|error| Error::io(path, error))?.len();
        let damaged = |what: &str| Ok(Found::Damaged(what.to_owned()));
        let mut head = [0; RECORDS as usize];
        let read = file.read_exact(&mut head[..(stored.min(RECORDS)) as usize]);
        read.map_err(|error| Error::io(path, error))?;
        if head[..stored.min(8) as usize] != MAGIC[..stored.min(8) as usize] {
            return Err(Error::file(path, "is no cache of packed cases; name another folder with --cache"));
        }
        if stored < RECORDS {
            return damaged(&format!("it is truncated: {stored} bytes"));
        }
        let mut fields = Input(&head[8..]);
        let version = fields.count();
        let (found, offset, length) = (fields.hash(), fields.long(), fields.long());
        if version != Some(VERSION as usize) || found != Some(key) {
            return Ok(Found::None);
        }
        let (Some(offset), Some(length), Some(checksum)) = (offset, length, fields.hash()) else {
            unreachable!("the head has room for all fields");
        };
        if offset < RECORDS || offset.checked_add(length) != Some(stored) {
            return damaged(&format!("it is truncated: {stored} bytes of {offset} and {length}"));
        }
        let mut index = Vec::new();
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_to_end(&mut index));
        read.map_err(|error| Error::io(path, error))?;
        if blake3::hash(&index) != checksum {
            return damaged("the checksum of its index does not match");
        }
        let Some((entries, skipped, notes)) = read_index(&index, offset) else {
            return damaged("its index does not fill it");
        };
        let (path, file) = (path.to_owned(), Positioned::new(file));
        let packed = Self { path, file, key, entries, skipped, notes, listener: listener.clone() };
        // Whichever is found first: all of them mean the same.
        let fault = (0..packed.len()).into_par_iter().find_map_any(|at| packed.record(at).err());
        match fault {
            Some(error @ Error::Io { .. }) => Err(error),
            Some(_) => damaged("the checksum of a case does not match"),
            None => Ok(Found::Fresh(packed)),
        }
    }

    /// Makes a file of the cases that `fill` puts into it and opens it. It appears under its name when it is whole.
    /// Whoever calls this holds the cache's lock.
    pub(super) fn make(
        path: &Path,
        key: blake3::Hash,
        listener: &Listener,
        fill: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<Self> {
        let beside = path.with_extension("part");
        let file = files::create(&beside)?;
        let mut writer = Writer {
            file: BufWriter::with_capacity(1 << 20, file),
            path: beside.clone(),
            entries: Vec::new(),
            at: RECORDS,
            skipped: Vec::new(),
            notes: Vec::new(),
        };
        let made = writer.write(&[0; RECORDS as usize]).and_then(|()| fill(&mut writer));
        let made = made.and_then(|()| writer.finish(key));
        let made = made.and_then(|()| fs::rename(&beside, path).map_err(|error| Error::io(path, error)));
        if let Err(error) = made {
            // The rest of a failed packing is of no use; its own error is the one to tell.
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        let Writer { entries, skipped, notes, .. } = writer;
        let (path, file) = (path.to_owned(), Positioned::new(file));
        Ok(Self { path, file, key, entries, skipped, notes, listener: listener.clone() })
    }

    /// The same cases in another size, in a file beside this one.
    pub(crate) fn resampled(&self, grid: Grid) -> Result<Self> {
        let what = grid.to_string();
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.key.as_bytes()).update(b" resampled ").update(what.as_bytes());
        let name = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let path = self.path.with_file_name(format!("{name}-{what}.{}", super::hold::EXTENSION));
        super::hold::found_or_made(&path, hasher.finalize(), &self.listener, |writer| {
            let reason = format!("training takes them as {what}");
            self.listener.tell(&Told::Packing { path: &path, cases: self.len(), reason: &reason });
            for start in (0..self.len()).step_by(TOGETHER) {
                let some = start..self.len().min(start + TOGETHER);
                let encode = |at: usize| Ok(Encoded::new(&self.case(at)?.resampled(grid)));
                let encoded: Vec<Result<Encoded>> = some.into_par_iter().map(encode).collect();
                for one in encoded {
                    writer.push(one?)?;
                }
                self.listener.tell(&Told::Packed { done: writer.len(), of: self.len() });
            }
            Ok(())
        })
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that all cases take in memory.
    pub(super) fn unpacked_bytes(&self) -> u64 {
        self.entries.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.unpacked))
    }

    /// Reads and unpacks one case.
    pub fn case(&self, at: usize) -> Result<Case> {
        record::decode(&self.record(at)?).ok_or_else(|| self.damaged(at))
    }

    pub(crate) fn id(&self, at: usize) -> &str {
        &self.entries[at].id
    }

    pub(crate) fn group(&self, at: usize) -> &str {
        &self.entries[at].group
    }

    pub(crate) fn size(&self, at: usize) -> [usize; 3] {
        self.entries[at].size
    }

    /// Id, group and the hash of all content.
    pub(crate) fn member(&self, at: usize) -> (String, String, blake3::Hash) {
        let Entry { id, group, hash, .. } = &self.entries[at];
        (id.clone(), group.clone(), *hash)
    }

    fn record(&self, at: usize) -> Result<Vec<u8>> {
        let entry = &self.entries[at];
        let mut record = vec![0; entry.bytes];
        self.file.read(entry.offset, &mut record).map_err(|error| Error::io(&self.path, error))?;
        match blake3::hash(&record) == entry.hash {
            true => Ok(record),
            false => Err(self.damaged(at)),
        }
    }

    fn damaged(&self, at: usize) -> Error {
        let id = self.id(at);
        Error::file(&self.path, format!("the packed case '{id}' is damaged; run again, which makes it anew"))
    }
}

/// Cases of another size that are made together.
const TOGETHER: usize = 16;

type Index = (Vec<Entry>, Vec<String>, Vec<String>);

/// The index; none where it is malformed or its records do not fill the file up to `end`.
fn read_index(bytes: &[u8], end: u64) -> Option<Index> {
    let mut input = Input(bytes);
    let count = input.long()?;
    let mut offset = RECORDS;
    let entries = (0..count).map(|_| {
        let (bytes, unpacked, hash) = (input.long()?, input.long()?, input.hash()?);
        let (id, group) = (input.text()?, input.text()?);
        let size = [input.count()?, input.count()?, input.count()?];
        let entry = Entry { offset, bytes: usize::try_from(bytes).ok()?, unpacked, hash, id, group, size };
        offset = offset.checked_add(bytes).filter(|&reached| reached <= end)?;
        Some(entry)
    });
    let entries = entries.collect::<Option<Vec<_>>>()?;
    let mut texts = || (0..input.count()?).map(|_| input.text()).collect::<Option<Vec<_>>>();
    let (skipped, notes) = (texts()?, texts()?);
    (offset == end && input.0.is_empty()).then_some((entries, skipped, notes))
}

/// A file of cases that is being made.
pub(super) struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    entries: Vec<Entry>,
    at: u64,
    pub skipped: Vec<String>,
    pub notes: Vec<String>,
}

impl Writer {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn push(&mut self, encoded: Encoded) -> Result<()> {
        let Encoded { record, entry } = encoded;
        self.write(&record)?;
        self.entries.push(Entry { offset: self.at, ..entry });
        self.at += record.len() as u64;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> Error {
        let told = format!("{error} while images were packed; --cache DIR names another place for them");
        Error::io(&self.path, io::Error::new(error.kind(), told))
    }

    /// Writes index and head, and waits until all is on the disk.
    fn finish(&mut self, key: blake3::Hash) -> Result<()> {
        let mut index = Vec::new();
        index.extend((self.entries.len() as u64).to_le_bytes());
        for entry in &self.entries {
            index.extend((entry.bytes as u64).to_le_bytes());
            index.extend(entry.unpacked.to_le_bytes());
            index.extend(entry.hash.as_bytes());
            record::put_text(&mut index, &entry.id);
            record::put_text(&mut index, &entry.group);
            entry.size.iter().for_each(|&side| record::put_count(&mut index, side));
        }
        for texts in [&self.skipped, &self.notes] {
            record::put_count(&mut index, texts.len());
            texts.iter().for_each(|text| record::put_text(&mut index, text));
        }
        let mut head = Vec::with_capacity(RECORDS as usize);
        head.extend(MAGIC);
        head.extend(VERSION.to_le_bytes());
        head.extend(key.as_bytes());
        head.extend(self.at.to_le_bytes());
        head.extend((index.len() as u64).to_le_bytes());
        head.extend(blake3::hash(&index).as_bytes());
        self.write(&index)?;
        let ended = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(&head));
        let ended = ended.and_then(|()| self.file.flush()).and_then(|()| self.file.get_ref().sync_all());
        ended.map_err(|error| self.refused(&error))
    }
}

/// A file that several threads read at places of their own.
#[derive(Debug)]
struct Positioned {
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: std::sync::Mutex<File>,
}

impl Positioned {
    #[cfg(unix)]
    fn new(file: File) -> Self {
        Self { file }
    }

    #[cfg(unix)]
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, offset)
    }

    #[cfg(not(unix))]
    fn new(file: File) -> Self {
        Self { file: std::sync::Mutex::new(file) }
    }

    #[cfg(not(unix))]
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        // Every reader moves to its own place first, so one that panicked has left nothing behind.
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(bytes)
    }
}
