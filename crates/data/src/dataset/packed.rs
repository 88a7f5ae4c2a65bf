//! Cases in few bytes: 8- or 16-bit pixels where that loses nothing, one bit per mask pixel. In
//! memory each case is unpacked on demand; on disk the same bytes, under a checksum, are the cache.
//!
//! ```text
//! offset  bytes  content (little-endian)
//! 0       8      "mvcases\n"
//! 8       4      version, 1
//! 12      8      number of bytes from offset 52 on
//! 20      32     BLAKE3 of the bytes from offset 52 on
//! 52      32     key: BLAKE3 of the source files' names, sizes and times and of how they are read
//! 84      8      number of records
//! 92      8 each length of each record
//! …              the records
//! ```

use std::fs;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rayon::prelude::*;

use super::{Dataset, Roster, record};
use crate::files;
use crate::{Case, Error, Result};

const MAGIC: [u8; 8] = *b"mvcases\n";
const VERSION: u32 = 1;
/// Where the checksum's domain begins.
const CHECKED: usize = 52;
const RECORD_LENGTHS: usize = 92;

/// Packed cases.
#[derive(Debug, Clone)]
pub struct Packed {
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
    origin: PathBuf,
}

impl Packed {
    /// Packs cases.
    pub fn pack(cases: &[Case]) -> Self {
        let encoded: Vec<_> = cases.par_iter().map(record::encode).collect();
        let mut packed =
            Self { bytes: Vec::new(), records: Vec::new(), origin: PathBuf::from("packed cases") };
        packed.bytes.reserve_exact(encoded.iter().map(Vec::len).sum());
        for record in encoded {
            let start = packed.bytes.len();
            packed.bytes.extend(record);
            packed.records.push(start..packed.bytes.len());
        }
        packed
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn record(&self, index: usize) -> &[u8] {
        &self.bytes[self.records[index].clone()]
    }

    /// Unpacks one case.
    pub fn case(&self, index: usize) -> Result<Case> {
        record::decode(self.record(index)).ok_or_else(|| self.damaged(&format!("case {index} is malformed")))
    }

    /// Unpacks all cases in parallel, in order.
    pub fn cases(&self) -> Result<Vec<Case>> {
        // The first fault in order, whatever the number of threads.
        (0..self.len())
            .into_par_iter()
            .map(|index| self.case(index))
            .collect::<Vec<_>>()
            .into_iter()
            .collect()
    }

    /// Ids, groups and the hash of all content, as splits need them.
    pub fn roster(&self) -> Result<Roster> {
        let members = (0..self.len()).into_par_iter().map(|index| {
            let bytes = self.record(index);
            let (id, group) = record::names(bytes)?;
            Some((id, group, blake3::hash(bytes)))
        });
        let members: Option<Vec<_>> = members.collect();
        Ok(Roster::new(members.ok_or_else(|| self.damaged("a case has no id"))?))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::file(&self.origin, format!("{what}; delete this cache, it will be made anew"))
    }

    fn write(&self, path: &Path, key: &blake3::Hash) -> Result<()> {
        let mut head = Vec::with_capacity(RECORD_LENGTHS - CHECKED + 8 * self.len());
        head.extend(key.as_bytes());
        head.extend((self.len() as u64).to_le_bytes());
        for record in &self.records {
            head.extend((record.len() as u64).to_le_bytes());
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head).update_rayon(&self.bytes);
        let length = (head.len() + self.bytes.len()) as u64;
        let write = |file: &mut fs::File| {
            file.write_all(&MAGIC)?;
            file.write_all(&VERSION.to_le_bytes())?;
            file.write_all(&length.to_le_bytes())?;
            file.write_all(hasher.finalize().as_bytes())?;
            file.write_all(&head)?;
            file.write_all(&self.bytes)
        };
        files::replace(path, write)
    }

    /// Reads a cache file; none where it was made from other sources than `key` stands for.
    fn read(path: &Path, key: &blake3::Hash) -> Result<Option<Self>> {
        let mut packed = Self { bytes: Vec::new(), records: Vec::new(), origin: path.to_owned() };
        let mut file = fs::File::open(path).map_err(|e| Error::io(path, e))?;
        let stored = file.metadata().map_err(|e| Error::io(path, e))?.len();
        let mut head = [0; CHECKED];
        if stored < RECORD_LENGTHS as u64 || file.read_exact(&mut head).is_err() {
            return Err(packed.damaged(&format!("is truncated: {stored} bytes")));
        }
        if head[..8] != MAGIC {
            return Err(Error::file(path, "is no cache of packed cases; give another cache path"));
        }
        let version = u32::from_le_bytes(array(&head[8..12]));
        if version != VERSION {
            return Err(packed.damaged(&format!(
                "has the cache format {version}, and this program reads format {VERSION}"
            )));
        }
        let length = u64::from_le_bytes(array(&head[12..20]));
        if stored - CHECKED as u64 != length {
            return Err(
                packed.damaged(&format!("is truncated: {} of {length} bytes", stored - CHECKED as u64))
            );
        }
        let mut found = [0; 32];
        file.read_exact(&mut found).map_err(|e| Error::io(path, e))?;
        if found != *key.as_bytes() {
            return Ok(None);
        }
        packed.bytes.reserve_exact(length as usize);
        packed.bytes.extend(found);
        file.read_to_end(&mut packed.bytes).map_err(|e| Error::io(path, e))?;
        let mut hasher = blake3::Hasher::new();
        if hasher.update_rayon(&packed.bytes).finalize().as_bytes() != &head[20..52] {
            return Err(packed.damaged("is damaged: its checksum does not match"));
        }
        packed.records = record_ranges(&packed.bytes)
            .ok_or_else(|| packed.damaged("is damaged: its records do not fill it"))?;
        Ok(Some(packed))
    }
}

/// The places of the records in the checked bytes; none where the lengths do not add up.
fn record_ranges(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let lengths_at = RECORD_LENGTHS - CHECKED;
    let count = usize::try_from(u64::from_le_bytes(array(bytes.get(lengths_at - 8..lengths_at)?))).ok()?;
    let first = count.checked_mul(8)?.checked_add(lengths_at)?;
    let mut start = first;
    let ranges = bytes.get(lengths_at..first)?.as_chunks::<8>().0.iter().map(|length| {
        let end = start.checked_add(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let range = start..end;
        start = end;
        (end <= bytes.len()).then_some(range)
    });
    let ranges = ranges.collect::<Option<Vec<_>>>()?;
    (start == bytes.len()).then_some(ranges)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

impl Dataset {
    /// Loads all cases through a cache file: read where it is fresh, made where it is absent or the
    /// sources changed. A damaged cache is an error, since something else is wrong then.
    pub fn load_cached(&self, cache: &Path) -> Result<Packed> {
        let key = self.key()?;
        if cache.exists()
            && let Some(packed) = Packed::read(cache, &key)?
        {
            return Ok(packed);
        }
        let packed = Packed::pack(&self.load()?);
        packed.write(cache, &key)?;
        Ok(packed)
    }

    /// Changes whenever a source file does: its name, size or time, or the way it is read.
    fn key(&self) -> Result<blake3::Hash> {
        let stamps = self.sources.par_iter().map(|source| {
            let mut hasher = blake3::Hasher::new();
            let mut text = |text: &str| {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            };
            text(&source.id);
            text(&source.group);
            for label in &source.labels {
                text(&format!("{:?} {}", label.rater, label.weight));
            }
            for mode in &source.truth {
                text(&mode.probability.to_string());
            }
            for path in source.files() {
                let metadata = fs::metadata(path).map_err(|e| Error::io(path, e))?;
                let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                text(&path.strip_prefix(&self.path).unwrap_or(path).to_string_lossy());
                text(&format!("{} {:?}", metadata.len(), changed));
            }
            Ok(hasher.finalize())
        });
        let stamps = stamps.collect::<Result<Vec<_>>>()?;
        let mut hasher = blake3::Hasher::new();
        // A rule that is found by the masks' values follows from the files.
        let rule = self.mask.map_or_else(|| "by values".to_owned(), |rule| rule.to_string());
        hasher.update(rule.as_bytes());
        for stamp in stamps {
            hasher.update(stamp.as_bytes());
        }
        Ok(hasher.finalize())
    }
}
