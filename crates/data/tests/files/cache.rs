//! The cache: the same cases again, no wrong ones, and none that is half made.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use multivalued_data::dataset::{Cache, Dataset, Holding, Listener, Loaded, Options, Roster};
use multivalued_data::{Error, Result};
use proptest::prelude::*;

use crate::make;

/// Reads a data set through a cache in a folder, and tells what was heard.
pub fn through(root: &Path, folder: &Path, skip_bad: bool) -> (Result<Loaded>, Vec<String>) {
    within(0, root, folder, skip_bad)
}

/// The same where so many bytes may be held in memory.
fn within(most: u64, root: &Path, folder: &Path, skip_bad: bool) -> (Result<Loaded>, Vec<String>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let ears = heard.clone();
    let listener = Listener::new(move |told| ears.lock().unwrap().push(format!("{told:?}")));
    let cache = Cache { folder: folder.to_owned(), listener };
    let loaded = Loaded::read(root, &Options::default(), skip_bad, &Holding::Within(most, cache));
    let heard = heard.lock().unwrap().clone();
    (loaded, heard)
}

pub fn cached(root: &Path, folder: &Path) -> Loaded {
    through(root, folder, false).0.unwrap()
}

/// The one file of cases in a folder.
pub fn file_in(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "cases")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn fixture() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (root, caches) = (folder.path().join("data"), folder.path().join("caches"));
    make::lidc_slices(&root);
    (folder, root, caches)
}

fn plain(root: &Path) -> Vec<multivalued_data::Case> {
    Dataset::open(root, &Options::default()).unwrap().load().unwrap()
}

#[test]
fn the_second_load_equals_the_first() {
    let (_folder, root, caches) = fixture();
    let loaded = plain(&root);
    let (first, heard) = through(&root, &caches, false);
    let first = first.unwrap();
    assert!(first.cases.is_on_disk());
    assert_eq!(first.cases.to_vec().unwrap(), loaded);
    assert!(heard[0].starts_with("Packing") && heard.last().unwrap().contains("done: 4, of: 4"), "{heard:?}");
    let written = fs::metadata(file_in(&caches)).unwrap().modified().unwrap();
    let (again, heard) = through(&root, &caches, false);
    let again = again.unwrap();
    assert!(heard.is_empty(), "a fresh cache is not made anew: {heard:?}");
    assert_eq!(again.cases.to_vec().unwrap(), loaded);
    assert_eq!(*again.cases.get(2).unwrap(), loaded[2]);
    assert_eq!(fs::metadata(file_in(&caches)).unwrap().modified().unwrap(), written);
    assert_eq!(Roster::of(&loaded), again.cases.roster());
    assert_eq!(again.cases.select([3, 1]).roster().members()[0].0, loaded[3].id);
    let sizes: Vec<_> = (0..4).map(|at| again.cases.size(at)).collect();
    assert!(
        sizes.iter().zip(&loaded).all(|(size, case)| size[..2] == [case.image.width(), case.image.height()])
    );
    assert_eq!(fs::read_dir(&caches).unwrap().count(), 2, "the cache and its lock");
}

#[test]
fn another_size_has_a_file_of_its_own() {
    let (_folder, root, caches) = fixture();
    let loaded = plain(&root);
    let small =
        |cases: &multivalued_data::CaseList| cases.resampled(multivalued_data::Grid::Size([5, 9])).unwrap();
    let on_disk = small(&cached(&root, &caches).cases.select([2, 0]));
    let in_memory = small(&loaded[..].into()).select([2, 0]);
    assert!(on_disk.is_on_disk() && !in_memory.is_on_disk());
    assert_eq!(on_disk.to_vec().unwrap(), in_memory.to_vec().unwrap());
    let written = || {
        let files = fs::read_dir(&caches).unwrap().map(|entry| entry.unwrap());
        let files = files.filter(|file| file.path().to_string_lossy().ends_with("-5x9.cases"));
        files.map(|file| file.metadata().unwrap().modified().unwrap()).collect::<Vec<_>>()
    };
    let first = written();
    assert_eq!(first.len(), 1);
    small(&cached(&root, &caches).cases);
    assert_eq!(written(), first);
}

#[test]
fn changed_sources_make_it_stale() {
    let (_folder, root, caches) = fixture();
    let before = cached(&root, &caches).cases.to_vec().unwrap();
    // Another mask of the same length, and a new case.
    make::mask(root.join("P-1/nodule-0/mask-0/slice-0.png"), Some(3));
    make::picture(root.join("P-3/nodule-0/images/slice-0.png"), 9);
    make::mask(root.join("P-3/nodule-0/mask-0/slice-0.png"), None);
    let after = cached(&root, &caches).cases.to_vec().unwrap();
    assert_eq!(after, plain(&root));
    assert_eq!((before.len(), after.len()), (4, 5));
    assert_ne!(before[0].annotations, after[0].annotations);
    // In place of the old one.
    file_in(&caches);
}

#[test]
fn bad_files_are_skipped_and_told_of_every_time() {
    let (_folder, root, caches) = fixture();
    let all = plain(&root);
    let bad = root.join("P-1/nodule-0/mask-0/slice-0.png");
    fs::write(&bad, "no picture").unwrap();
    let fault = through(&root, &caches, false).0.unwrap_err().to_string();
    assert!(fault.contains("slice-0.png"), "{fault}");
    assert!(fs::read_dir(&caches).unwrap().all(|file| file.unwrap().path().extension().unwrap() == "lock"));
    let in_memory = Loaded::read(&root, &Options::default(), true, &Holding::Memory).unwrap();
    for _ in 0..2 {
        let loaded = through(&root, &caches, true).0.unwrap();
        assert_eq!((loaded.cases.len(), loaded.dataset.len()), (all.len() - 1, all.len() - 1));
        assert_eq!(loaded.skipped, in_memory.skipped);
        assert!(
            loaded.skipped.len() == 1 && loaded.skipped[0].contains("slice-0.png"),
            "{:?}",
            loaded.skipped
        );
        assert_eq!(loaded.cases.to_vec().unwrap(), in_memory.cases.to_vec().unwrap());
    }
}

#[test]
fn volumes_are_packed_slice_by_slice() {
    let folder = tempfile::tempdir().unwrap();
    let (root, caches) = (folder.path().join("data"), folder.path().join("caches"));
    for (case, values) in [("a", 0..24), ("b", 50..74)] {
        let values: Vec<u8> = values.collect();
        let marked: Vec<u8> = values.iter().map(|value| u8::from(value % 3 == 0)).collect();
        make::nifti(root.join(format!("imagesTr/{case}_0000.nii")), [2, 3, 4], &values);
        make::nifti(root.join(format!("labelsTr/{case}.nii")), [2, 3, 4], &marked);
        make::nifti(root.join(format!("labelsTr_r2/{case}.nii")), [2, 3, 4], &marked);
    }
    let loaded = plain(&root);
    assert!(loaded.iter().any(|case| case.id.contains("/slice-")), "{:?}", loaded[0].id);
    assert_eq!(cached(&root, &caches).cases.to_vec().unwrap(), loaded);
}

#[test]
fn damage_is_repaired_and_what_is_no_cache_is_left_alone() {
    let (_folder, root, caches) = fixture();
    let sound = cached(&root, &caches).cases.to_vec().unwrap();
    let cache = file_in(&caches);
    let whole = fs::read(&cache).unwrap();
    let mut newer = whole.clone();
    newer[8] = 3;
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let longer = [&whole[..], b"x"].concat();
    for (bytes, told) in [
        (whole[..whole.len() - 1].to_vec(), "truncated"),
        (whole[..20].to_vec(), "truncated: 20 bytes"),
        (Vec::new(), "truncated: 0 bytes"),
        (longer, "truncated"),
        (flipped(whole.len() - 1), "checksum of its index"),
        (flipped(200), "checksum of a case"),
        (newer, ""),
    ] {
        fs::write(&cache, bytes).unwrap();
        let (loaded, heard) = through(&root, &caches, false);
        assert_eq!(loaded.unwrap().cases.to_vec().unwrap(), sound);
        assert!(heard[0].contains(told) && heard.iter().any(|one| one.starts_with("Packing")), "{heard:?}");
        assert_eq!(fs::read(&cache).unwrap(), whole);
    }
    let foreign = [b'x'; 200];
    fs::write(&cache, foreign).unwrap();
    let message = through(&root, &caches, false).0.unwrap_err().to_string();
    assert!(message.contains("is no cache") && message.contains("--cache"), "{message}");
    assert_eq!(fs::read(&cache).unwrap(), foreign, "what may be someone's file is left alone");
}

#[test]
fn what_a_killed_packing_leaves_is_not_believed() {
    let (_folder, root, caches) = fixture();
    let sound = cached(&root, &caches).cases.to_vec().unwrap();
    let cache = file_in(&caches);
    let whole = fs::read(&cache).unwrap();
    for half in [&whole[..], &whole[..whole.len() / 2]] {
        fs::remove_file(&cache).unwrap();
        fs::write(cache.with_extension("part"), half).unwrap();
        let (loaded, heard) = through(&root, &caches, false);
        assert!(heard[0].starts_with("Packing"), "{heard:?}");
        assert_eq!(loaded.unwrap().cases.to_vec().unwrap(), sound);
        assert!(!cache.with_extension("part").exists());
    }
}

#[test]
fn a_cache_that_is_damaged_while_it_is_read_is_an_error() {
    let (_folder, root, caches) = fixture();
    let loaded = cached(&root, &caches);
    let cache = file_in(&caches);
    let mut bytes = fs::read(&cache).unwrap();
    bytes[200] ^= 1;
    fs::write(&cache, bytes).unwrap();
    let fault = loaded.cases.get(0).unwrap_err();
    let message = fault.to_string();
    assert!(message.contains(".cases") && message.contains("run again"), "{message}");
    assert!(matches!(loaded.cases.map(|_, case| Ok::<_, Error>(case)), Err(Error::File { .. })));
}

#[test]
fn two_processes_make_one_cache() {
    let (_folder, root, caches) = fixture();
    let cases: Vec<_> = std::thread::scope(|scope| {
        let jobs: Vec<_> =
            (0..4).map(|_| scope.spawn(|| cached(&root, &caches).cases.to_vec().unwrap())).collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    assert!(cases.iter().all(|one| *one == plain(&root)));
    file_in(&caches);
}

#[cfg(unix)]
#[test]
fn a_cache_is_not_written_through_a_link() {
    let (folder, root, caches) = fixture();
    cached(&root, &caches);
    let cache = file_in(&caches);
    let precious = folder.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    for link in [cache.clone(), cache.with_extension("part"), cache.with_extension("lock")] {
        let _ = fs::remove_file(&cache);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let message = through(&root, &caches, false).0.unwrap_err().to_string();
        assert!(message.contains("is a link"), "{message}");
        assert_eq!(fs::read(&precious).unwrap(), b"mine");
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn what_fits_into_memory_is_held_there_and_the_rest_is_not_read_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (root, caches) = (folder.path().join("data"), folder.path().join("caches"));
    // More images than are read together.
    for at in 0..40 * rayon::current_num_threads() {
        make::picture(root.join(format!("P-{at:03}/nodule-0/images/slice-0.png")), at as u8);
        make::mask(root.join(format!("P-{at:03}/nodule-0/mask-0/slice-0.png")), Some(at % 4));
    }
    let loaded = plain(&root);
    let bytes: u64 = loaded.iter().map(multivalued_data::Case::bytes).sum();
    let read = |most: u64| {
        let (read, heard) = within(most, &root, &caches, false);
        let cases = read.unwrap().cases;
        assert_eq!(cases.to_vec().unwrap(), loaded, "within {most} of {bytes} bytes");
        (cases.is_on_disk(), heard)
    };
    assert!(!read(bytes).0 && !caches.exists());
    // One byte too few is known only when all are in memory.
    for most in [bytes - 1, bytes / 2, 1] {
        let (on_disk, heard) = read(most);
        assert!(on_disk && heard[0].contains("they take more than"), "{heard:?}");
        // A cache that is there is used, and its cases are held in memory where they fit.
        assert!(read(most).0 && !read(bytes).0);
        fs::remove_dir_all(&caches).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_flipped_bit_goes_unnoticed(at in any::<prop::sample::Index>(), bit in 0..8) {
        let folder = tempfile::tempdir().unwrap();
        let (root, caches) = (folder.path().join("data"), folder.path().join("caches"));
        make::picture(root.join("P/nodule-0/images/slice-0.png"), 9);
        make::mask(root.join("P/nodule-0/mask-0/slice-0.png"), Some(1));
        let sound = cached(&root, &caches).cases.to_vec().unwrap();
        let cache = file_in(&caches);
        let whole = fs::read(&cache).unwrap();
        let mut bytes = whole.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        fs::write(&cache, bytes).unwrap();
        let (loaded, heard) = through(&root, &caches, false);
        match loaded {
            Ok(loaded) => {
                prop_assert!(!heard.is_empty(), "byte {} went unnoticed", at);
                prop_assert_eq!(loaded.cases.to_vec().unwrap(), sound);
                prop_assert_eq!(fs::read(&cache).unwrap(), whole);
            }
            Err(fault) => prop_assert!(at < 8 && fault.to_string().contains("is no cache")),
        }
    }
}
