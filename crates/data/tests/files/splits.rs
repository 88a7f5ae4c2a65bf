//! Splits: by group, the same for the same seed, tied to their data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use multivalued_data::dataset::{Roster, Split};
use multivalued_data::{Annotation, Case, Image, Mask};
use proptest::prelude::*;

/// Cases in groups of the given sizes.
fn roster(sizes: &[usize]) -> Roster {
    let cases: Vec<_> = sizes
        .iter()
        .enumerate()
        .flat_map(|(group, &size)| (0..size).map(move |case| (group, case)))
        .map(|(group, case)| Case {
            id: format!("g{group}/c{case}"),
            group: format!("g{group}"),
            image: Image::new(1, 1, 1, vec![case as f32]),
            annotations: vec![Annotation { mask: Mask::empty(1, 1, 1), rater: None, weight: 1.0 }],
            truth: None,
        })
        .collect();
    Roster::of(&cases)
}

fn groups(ids: &[String]) -> BTreeSet<&str> {
    ids.iter().map(|id| id.split('/').next().unwrap()).collect()
}

const SHARES: [(&str, f64); 3] = [("train", 0.7), ("val", 0.1), ("test", 0.2)];

#[test]
fn shares_are_met_and_seeds_decide() {
    let roster = roster(&[5; 100]);
    let split = Split::by_group(&roster, &SHARES, 1).unwrap();
    let sizes: BTreeMap<_, _> = split.parts().iter().map(|(name, ids)| (name.as_str(), ids.len())).collect();
    assert_eq!(sizes, BTreeMap::from([("test", 100), ("train", 350), ("val", 50)]));
    assert_eq!(split, Split::by_group(&roster, &SHARES, 1).unwrap());
    assert_ne!(split.parts(), Split::by_group(&roster, &SHARES, 2).unwrap().parts());
}

#[test]
fn folds_are_even_and_cover_all() {
    let roster = roster(&[9, 7, 5, 4, 3, 3, 2, 1, 1, 1]);
    let split = Split::k_fold(&roster, 4, 3).unwrap();
    let sizes: Vec<_> = split.parts().values().map(Vec::len).collect();
    assert_eq!(sizes, [9, 9, 9, 9]);
    for fold in 0..4 {
        let (train, held_out) = split.fold(fold).unwrap();
        assert_eq!((train.len(), held_out.len()), (27, 9));
        assert!(held_out.iter().all(|id| !train.contains(id)));
    }
    assert!(split.fold(4).unwrap_err().to_string().contains("no part 'fold-4'; there are fold-0"));
}

#[test]
fn a_file_is_tied_to_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("split.json");
    let roster_a = roster(&[3, 2, 1, 4]);
    let split = Split::by_group(&roster_a, &SHARES, 7).unwrap();
    split.write(&path).unwrap();
    assert_eq!(Split::read(&path, &roster_a).unwrap(), split);
    let message = Split::read(&path, &roster(&[3, 2, 1, 5])).unwrap_err().to_string();
    assert!(message.contains("split.json") && message.contains("other data"), "{message}");

    let text = fs::read_to_string(&path).unwrap();
    let edit = |old: &str, new: &str| {
        fs::write(&path, text.replacen(old, new, 1)).unwrap();
        Split::read(&path, &roster_a).unwrap_err().to_string()
    };
    for (old, new, cause) in [
        ("\"version\": 1", "\"version\": 2", "multivalued-split 2"),
        ("g0/c1\"", "g0/c0\"", "'g0/c0' twice"),
        ("g0/c1\"", "zebra\"", "'zebra', which the data does not have"),
        ("\"seed\"", "\"sead\"", "sead"),
        ("{", "", "no split file"),
    ] {
        let message = edit(old, new);
        assert!(message.contains("split.json") && message.contains(cause), "{message} lacks {cause}");
    }
}

#[test]
fn leaks_and_gaps_are_errors() {
    let roster = roster(&[2, 1]);
    let parts = |train: &[&str], test: &[&str]| {
        let own = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        BTreeMap::from([("train".to_owned(), own(train)), ("test".to_owned(), own(test))])
    };
    let refusal = |train: &[&str], test: &[&str]| {
        Split::from_parts(&roster, parts(train, test)).unwrap_err().to_string()
    };
    assert!(Split::from_parts(&roster, parts(&["g0/c0", "g0/c1"], &["g1/c0"])).is_ok());
    assert!(refusal(&["g0/c0"], &["g0/c1", "g1/c0"]).contains("group 'g0' is in test and"));
    assert!(refusal(&["g0/c0", "g0/c1"], &[]).contains("leaves out the case 'g1/c0'"));
}

#[test]
fn meaningless_requests_are_refused() {
    let few = roster(&[4, 4]);
    for (result, cause) in [
        (Split::by_group(&few, &SHARES, 0), "2 groups cannot fill 3 parts"),
        (Split::by_group(&few, &[("train", 0.9), ("test", 0.2)], 0), "sum to 1"),
        (Split::by_group(&few, &[("train", 1.5), ("test", -0.5)], 0), "positive"),
        (Split::by_group(&few, &[("train", 0.5), ("train", 0.5)], 0), "named twice"),
        (Split::k_fold(&few, 1, 0), "at least 2"),
        (Split::k_fold(&few, 3, 0), "2 groups cannot fill 3 parts"),
    ] {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(cause), "{message} lacks {cause}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_group_is_torn_and_no_case_lost(sizes in proptest::collection::vec(1..9usize, 3..30), seed: u64) {
        let roster = roster(&sizes);
        for split in [Split::by_group(&roster, &SHARES, seed).unwrap(), Split::k_fold(&roster, 3, seed).unwrap()] {
            let parts: Vec<_> = split.parts().values().collect();
            prop_assert!(parts.iter().all(|ids| !ids.is_empty()));
            let all: BTreeSet<_> = parts.iter().flat_map(|ids| ids.iter()).collect();
            prop_assert_eq!(all.len(), sizes.iter().sum::<usize>());
            let count: usize = parts.iter().map(|ids| groups(ids).len()).sum();
            prop_assert_eq!(count, sizes.len());
        }
    }
}
