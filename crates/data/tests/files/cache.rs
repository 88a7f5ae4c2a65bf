//! The cache file: the same cases again, and no wrong ones.

use std::fs;

use multivalued_data::dataset::{Dataset, Options, Packed};
use proptest::prelude::*;

use crate::make;

fn dataset(root: &std::path::Path) -> Dataset {
    Dataset::open(root, &Options::default()).unwrap()
}

#[test]
fn the_second_load_equals_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    make::lidc_slices(&root);
    let cache = folder.path().join("cases.cache");
    let loaded = dataset(&root).load().unwrap();
    assert_eq!(dataset(&root).load_cached(&cache).unwrap().cases().unwrap(), loaded);
    let written = fs::metadata(&cache).unwrap().modified().unwrap();
    let again = dataset(&root).load_cached(&cache).unwrap();
    assert_eq!(again.cases().unwrap(), loaded);
    assert_eq!(again.case(2).unwrap(), loaded[2]);
    assert_eq!(fs::metadata(&cache).unwrap().modified().unwrap(), written, "a fresh cache is not rewritten");
    assert_eq!(Packed::pack(&loaded).roster().unwrap(), again.roster().unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn changed_sources_make_it_stale() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    make::lidc_slices(&root);
    let cache = folder.path().join("cases.cache");
    let before = dataset(&root).load_cached(&cache).unwrap().cases().unwrap();
    // Another mask of the same length, and a new case.
    make::mask(root.join("P-1/nodule-0/mask-0/slice-0.png"), Some(3));
    make::picture(root.join("P-3/nodule-0/images/slice-0.png"), 9);
    make::mask(root.join("P-3/nodule-0/mask-0/slice-0.png"), None);
    let after = dataset(&root).load_cached(&cache).unwrap().cases().unwrap();
    assert_eq!(after, dataset(&root).load().unwrap());
    assert_eq!((before.len(), after.len()), (4, 5));
    assert_ne!(before[0].annotations, after[0].annotations);
}

#[test]
fn damage_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    make::lidc_slices(&root);
    let cache = folder.path().join("cases.cache");
    dataset(&root).load_cached(&cache).unwrap();
    let sound = fs::read(&cache).unwrap();
    let mut newer = sound.clone();
    newer[8] = 2;
    let mut flipped = sound.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let longer = [&sound[..], b"x"].concat();
    for (bytes, cause) in [
        (&sound[..sound.len() - 1], "truncated"),
        (&sound[..20], "truncated: 20 bytes"),
        (&[], "truncated: 0 bytes"),
        (&longer, "bytes"),
        (&flipped, "checksum"),
        (&newer, "cache format 2, and this program reads format 1"),
        (&[b'x'; 200], "no cache"),
    ] {
        fs::write(&cache, bytes).unwrap();
        let message = dataset(&root).load_cached(&cache).unwrap_err().to_string();
        assert!(message.contains("cases.cache") && message.contains(cause), "{message} lacks {cause}");
        assert!(message.contains("delete this cache") || message.contains("another cache path"), "{message}");
        assert_eq!(fs::read(&cache).unwrap(), bytes, "what may be someone's file is left alone");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_flipped_bit_goes_unnoticed(at in any::<prop::sample::Index>(), bit in 0..8) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("data");
        make::picture(root.join("P/nodule-0/images/slice-0.png"), 9);
        make::mask(root.join("P/nodule-0/mask-0/slice-0.png"), Some(1));
        let cache = folder.path().join("cases.cache");
        let sound = dataset(&root).load_cached(&cache).unwrap().cases().unwrap();
        let mut bytes = fs::read(&cache).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        fs::write(&cache, bytes).unwrap();
        // A flip in the key makes it stale, which is made anew; any other is refused.
        match dataset(&root).load_cached(&cache) {
            Ok(packed) => {
                prop_assert!((52..84).contains(&at), "byte {} went unnoticed", at);
                prop_assert_eq!(packed.cases().unwrap(), sound);
            }
            Err(fault) => prop_assert!(fault.to_string().contains("cases.cache")),
        }
    }
}
