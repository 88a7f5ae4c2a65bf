//! Where the cases of a data set are held: in memory, or in a cache on disk from which they are read one by one.
//!
//! A cache is known by the name of its data set and the way in which it is read, and it is believed only where
//! its key, a hash of all source files' names, sizes and times, still fits. Only who holds its lock makes it.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rayon::prelude::*;

use super::packed::{Encoded, Found, Packed, Writer};
use super::{Dataset, Options, Source, entries, inspect, load};
use crate::memory::in_words;
use crate::{Case, CaseList, Error, Result, dicom, files};

/// What cache files' names end with.
pub(super) const EXTENSION: &str = "cases";
/// Most bytes of images that are packed together.
const TOGETHER_BYTES: u64 = 64 << 20;

/// What there is to tell of a cache.
#[derive(Debug)]
pub enum Told<'a> {
    /// So many cases are to be packed into a file.
    Packing {
        /// The file.
        path: &'a Path,
        /// How many there will be.
        cases: usize,
        /// Why they are not held in memory.
        reason: &'a str,
    },
    /// So many of them are packed.
    Packed {
        /// How many.
        done: usize,
        /// Of how many.
        of: usize,
    },
    /// Something that a user should know.
    Note(String),
}

/// Whoever hears what there is to tell.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(&Told) + Send + Sync>);

impl Listener {
    /// Calls a function with all there is to tell.
    pub fn new(hear: impl Fn(&Told) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(super) fn tell(&self, told: &Told) {
        (self.0)(told);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// A folder for caches.
#[derive(Debug, Clone)]
pub struct Cache {
    /// The folder; it is made where it is needed.
    pub folder: PathBuf,
    /// Who hears of it.
    pub listener: Listener,
}

/// Where cases are held.
#[derive(Debug, Clone)]
pub enum Holding {
    /// In memory.
    Memory,
    /// In memory where they take at most so many bytes, else on disk. Of 0 bytes: always on disk.
    Within(u64, Cache),
}

/// A data set that was read.
#[derive(Debug)]
pub struct Loaded {
    /// Its files.
    pub dataset: Dataset,
    /// Its cases.
    pub cases: CaseList,
    /// What was left out because a file of it could not be used, by file and reason.
    pub skipped: Vec<String>,
}

impl Loaded {
    /// Opens and reads a data set. With `skip_bad` without the images that have a truncated, foreign or
    /// unsuitable file; faults of the data set as a whole (an image without a mask, an id twice, a group in two
    /// splits) are errors all the same.
    pub fn read(path: &Path, options: &Options, skip_bad: bool, holding: &Holding) -> Result<Self> {
        let mut faults = Vec::new();
        let mut dataset = match skip_bad {
            false => Dataset::open(path, options)?,
            true => Dataset::find(path, options, &mut faults)?,
        };
        let of_a_file = |fault: &Error| matches!(fault, Error::File { .. } | Error::Io { .. });
        if let Some(at) = faults.iter().position(|fault| !of_a_file(fault)) {
            return Err(faults.swap_remove(at));
        }
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let (cases, skipped, notes) = loop {
            let mut reading =
                Reading { dataset: &dataset, options, skip_bad, faults: faults.clone(), next: 0 };
            let read = reading.held(holding)?;
            let channels = (0..read.0.len()).map(|at| (read.0.id(at), read.0.size(at)[2]));
            match load::same_channels(path, channels) {
                Ok(()) => break read,
                Err(fault) => dataset = dataset.in_colours().ok_or(fault)?,
            }
        };
        let skipped = inspect::one_each(skipped.into_iter());
        if cases.is_empty() {
            let first = skipped.first().map_or("", String::as_str);
            return Err(Error::dataset(
                path,
                format!("no image of it can be used; the first fault: {first}"),
            ));
        }
        if skip_bad {
            let ids: HashSet<&str> = cases.ids().collect();
            dataset.sources.retain(|source| ids.contains(source.case_id(0).as_str()));
            dataset.entries = entries(&dataset.sources);
        }
        dataset.notes.extend(notes.into_iter().filter(|_| dataset.inferred.get().is_none()));
        Ok(Self { dataset, cases, skipped })
    }
}

/// A data set's sources on their way to cases.
struct Reading<'a> {
    dataset: &'a Dataset,
    options: &'a Options,
    skip_bad: bool,
    faults: Vec<String>,
    /// The first source that was not read yet.
    next: usize,
}

/// Cases, what was skipped, and notes on the masks.
type Read = (CaseList, Vec<String>, Vec<String>);

impl Reading<'_> {
    fn held(&mut self, holding: &Holding) -> Result<Read> {
        let Holding::Within(most, cache) = holding else {
            let (cases, _) = self.in_memory(u64::MAX)?;
            return Ok(self.with_notes(cases.into()));
        };
        let key = self.key();
        let path = cache.folder.join(self.name());
        let of_packed = |packed: Packed| -> Result<Read> {
            let (skipped, notes) = (packed.skipped.clone(), packed.notes.clone());
            let fits = packed.unpacked_bytes() <= *most;
            let cases = CaseList::of_packed(&Arc::new(packed));
            Ok((if fits { cases.to_vec()?.into() } else { cases }, skipped, notes))
        };
        let mut begun = Vec::new();
        let mut reason = "as --cache asks".to_owned();
        if *most > 0 {
            // Only a cache that is there saves time; to make one takes longer than reading once.
            if path.exists()
                && let Found::Fresh(packed) = Packed::find(&path, key, &cache.listener)?
            {
                return of_packed(packed);
            }
            let (cases, fit) = self.in_memory(*most)?;
            if fit {
                return Ok(self.with_notes(cases.into()));
            }
            begun = cases;
            reason = format!("they take more than {} of memory", in_words(*most));
        }
        files::make_folder(&cache.folder)?;
        let packed = found_or_made(&path, key, &cache.listener, |writer| {
            let cases = self.dataset.len();
            // Before the time that packing takes is told: to find the rule may mean to read all masks.
            self.dataset.mask_rule();
            cache.listener.tell(&Told::Packing { path: &path, cases, reason: &reason });
            for case in std::mem::take(&mut begun) {
                writer.push(Encoded::new(&case))?;
            }
            self.pack_rest(writer, &cache.listener)
        })?;
        of_packed(packed)
    }

    fn with_notes(&mut self, cases: CaseList) -> Read {
        (cases, std::mem::take(&mut self.faults), self.mask_notes())
    }

    fn mask_notes(&self) -> Vec<String> {
        self.dataset.inferred.get().and_then(|(_, note)| note.clone()).into_iter().collect()
    }

    /// Reads sources in parallel as long as their cases take no more than so many bytes; also whether all do.
    fn in_memory(&mut self, most: u64) -> Result<(Vec<Case>, bool)> {
        let (sources, limits) = (&self.dataset.sources, &self.dataset.limits);
        let rule = self.dataset.mask_rule();
        let together = if most == u64::MAX { sources.len() } else { 4 * rayon::current_num_threads() };
        let (mut cases, mut bytes) = (Vec::with_capacity(self.dataset.len()), 0);
        while self.next < sources.len() && bytes <= most {
            let some = &sources[self.next..sources.len().min(self.next + together)];
            let loaded: Vec<Result<Vec<Case>>> =
                some.par_iter().map(|source| load::cases(source, rule, limits)).collect();
            // What does not fit into memory at once may be read slice by slice.
            let too_large = |one: &Result<Vec<Case>>| matches!(one, Err(Error::Memory { .. }));
            if most < u64::MAX && loaded.iter().any(too_large) {
                break;
            }
            // The first fault in order, so that the message does not depend on threads either.
            for one in loaded {
                if let Some(own) = self.unless_bad(one)? {
                    bytes += own.iter().map(Case::bytes).sum::<u64>();
                    cases.extend(own);
                }
            }
            self.next += some.len();
        }
        let all = self.next == sources.len();
        Ok((cases, all && bytes <= most))
    }

    /// Packs the sources that are left, in parallel as far as a few images go.
    fn pack_rest(&mut self, writer: &mut Writer, listener: &Listener) -> Result<()> {
        let (sources, limits) = (&self.dataset.sources, &self.dataset.limits);
        let rule = self.dataset.mask_rule();
        let most = 4 * rayon::current_num_threads();
        let mut together = 1;
        while self.next < sources.len() {
            let source = &sources[self.next];
            if source.depth > 1 {
                let mut refused = None;
                let packed = load::each_case(source, rule, limits, |case| {
                    let written = writer.push(Encoded::new(&case));
                    written.map_err(|error| {
                        let told = Error::mismatch(&source.id, "cannot be written");
                        refused = Some(error);
                        told
                    })
                });
                // A disk that is full is no fault of the file.
                refused.map_or(Ok(()), Err)?;
                self.unless_bad(packed)?;
                self.next += 1;
            } else {
                let flat = |source: &&Source| source.depth == 1;
                let some: Vec<&Source> =
                    sources[self.next..].iter().take_while(flat).take(together).collect();
                let encode = |source: &&Source| {
                    let cases = load::cases(source, rule, limits)?;
                    let bytes = cases.iter().map(Case::bytes).max().unwrap_or(0);
                    Ok((bytes, cases.iter().map(Encoded::new).collect()))
                };
                let encoded: Vec<Result<(u64, Vec<Encoded>)>> = some.par_iter().map(encode).collect();
                self.next += some.len();
                let mut largest = 1;
                for one in encoded {
                    let Some((bytes, encoded)) = self.unless_bad(one)? else { continue };
                    largest = largest.max(bytes);
                    encoded.into_iter().try_for_each(|one| writer.push(one))?;
                }
                together = ((TOGETHER_BYTES / largest) as usize).clamp(1, most);
            }
            listener.tell(&Told::Packed { done: writer.len(), of: self.dataset.len() });
        }
        writer.skipped = std::mem::take(&mut self.faults);
        writer.notes = self.mask_notes();
        Ok(())
    }

    /// None where a bad file may be skipped.
    fn unless_bad<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            // A lack of memory is no fault of the file.
            Err(fault) if !self.skip_bad || matches!(fault, Error::Memory { .. }) => Err(fault),
            Err(fault) => {
                self.faults.push(fault.to_string());
                Ok(None)
            }
        }
    }

    /// The name of the cache: after the data set, and other for every way of reading it.
    fn name(&self) -> String {
        let dataset = self.dataset;
        let full = dataset.path.canonicalize().unwrap_or_else(|_| dataset.path.clone());
        let mut hasher = blake3::Hasher::new();
        hasher.update(full.as_os_str().as_encoded_bytes());
        let groups = self.options.group_by.as_ref().map(ToString::to_string);
        let way = format!("\n{:?} {:?} {:?} {}", dataset.layout, dataset.mask, groups, self.skip_bad);
        hasher.update(way.as_bytes());
        let name: String = full.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        format!("{name}-{}.{EXTENSION}", &hasher.finalize().to_hex()[..16])
    }

    /// Changes whenever a source file does: its name, size or time, or the way it is read.
    fn key(&self) -> blake3::Hash {
        let stamp = |source: &Source| {
            let mut hasher = blake3::Hasher::new();
            let mut text = |text: &str| {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            };
            text(&source.id);
            text(&source.group);
            text(&source.depth.to_string());
            if source.in_colours {
                text("in colours");
            }
            for label in &source.labels {
                text(&format!("{:?} {}", label.rater, label.weight));
            }
            for mode in &source.truth {
                text(&mode.probability.to_string());
            }
            // Of a folder with a DICOM series its files count, too.
            let files =
                source.files().flat_map(|path| [path.to_owned()].into_iter().chain(dicom::files(path)));
            for path in &files.collect::<Vec<PathBuf>>() {
                text(&path.strip_prefix(&self.dataset.path).unwrap_or(path).to_string_lossy());
                // What cannot be looked at is told of when it is read.
                if let Ok(metadata) = fs::metadata(path) {
                    let changed = metadata.modified().ok();
                    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                    text(&format!("{} {:?}", metadata.len(), changed));
                }
            }
            hasher.finalize()
        };
        let stamps: Vec<blake3::Hash> = self.dataset.sources.par_iter().map(stamp).collect();
        let mut hasher = blake3::Hasher::new();
        // A rule that is found by the masks' values follows from the files.
        let rule = self.dataset.mask.map_or_else(|| "by values".to_owned(), |rule| rule.to_string());
        hasher.update(rule.as_bytes()).update(&[u8::from(self.skip_bad)]);
        for stamp in stamps {
            hasher.update(stamp.as_bytes());
        }
        hasher.finalize()
    }
}

/// The cache at a place where it is whole and its key fits, else a new one of what `fill` puts into it.
pub(super) fn found_or_made(
    path: &Path,
    key: blake3::Hash,
    listener: &Listener,
    fill: impl FnOnce(&mut Writer) -> Result<()>,
) -> Result<Packed> {
    let lock = path.with_extension("lock");
    let file = files::open_own(&lock)?;
    if file.try_lock().is_err() {
        listener.tell(&Told::Note(format!(
            "{}: another process packs these cases; waiting for it",
            path.display()
        )));
        file.lock().map_err(|error| Error::io(&lock, error))?;
    }
    match Packed::find(path, key, listener)? {
        Found::Fresh(packed) => return Ok(packed),
        Found::None => {}
        Found::Damaged(why) => {
            listener.tell(&Told::Note(format!("{}: {why}; it is made anew", path.display())));
        }
    }
    Packed::make(path, key, listener, fill)
}
