//! Groups by the cases' names: stated by a regular expression, or suspected.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use regex_lite::Regex;

use super::Source;
use crate::{Error, Result};

/// Which part of a case's id is its group: the expression's first capture group, else all that it matches.
#[derive(Debug, Clone)]
pub struct GroupBy(Regex);

impl FromStr for GroupBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |e| Error::mismatch("group-by", format!("'{text}' is no regular expression: {e}"));
        Regex::new(text).map(Self).map_err(wrong)
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl GroupBy {
    /// The group of an id; none where the expression matches nothing of it.
    pub fn group<'a>(&self, id: &'a str) -> Option<&'a str> {
        let found = self.0.captures(id)?;
        found.get(1).or_else(|| found.get(0)).map(|part| part.as_str()).filter(|group| !group.is_empty())
    }

    /// Puts every case into its group; one that has none is a fault, since a split could tear it away.
    pub(super) fn apply(&self, path: &Path, sources: &mut [Source], problems: &mut Vec<Error>) {
        let mut without = 0;
        for source in sources.iter_mut() {
            match self.group(&source.id) {
                Some(group) => source.group = group.to_owned(),
                None => {
                    without += 1;
                    if without == 1 {
                        let reason = format!(
                            "--group-by '{self}' matches nothing in the id '{}'; correct it",
                            source.id
                        );
                        problems.push(Error::dataset(path, reason));
                    }
                }
            }
        }
    }
}

/// Expressions that a user may be advised to state, the simplest first.
const USUAL: [&str; 7] = [
    "^([^_]+)_",
    "^([^-]+)-",
    "^([^/]+)/",
    "^(.+)_[^_]+$",
    "^(.+)-[^-]+$",
    "^(.+)/[^/]+$",
    "^(.+)_[^_]+_[^_]+$",
];

/// A warning where ids look like several slices or crops of the same patient and nothing groups them: the
/// names without their last numbers are far fewer than the cases.
pub(super) fn suspicion(sources: &[Source]) -> Option<String> {
    if sources.iter().any(|source| source.group != source.id || source.split.is_some()) {
        return None;
    }
    let owners: Vec<&str> = sources.iter().map(|source| owner(&source.id)).collect();
    let distinct: BTreeSet<&str> = owners.iter().copied().collect();
    if distinct.len() < 2 || 2 * distinct.len() > sources.len() {
        return None;
    }
    let (first, owner) = sources.iter().zip(&owners).find(|(source, owner)| source.id != **owner)?;
    let second =
        sources.iter().zip(&owners).find(|(source, other)| source.id != first.id && *other == owner)?;
    let fits = |text: &&str| {
        let by = text.parse::<GroupBy>().ok();
        by.is_some_and(|by| {
            sources.iter().zip(&owners).all(|(source, owner)| by.group(&source.id) == Some(owner))
        })
    };
    let advice = USUAL
        .iter()
        .find(|text| fits(text))
        .map_or_else(|| "--group-by REGEX".to_owned(), |text| format!("--group-by '{text}'"));
    Some(format!(
        "'{}' and '{}' may be of one patient, '{owner}' ({} such names for {} cases), and splits may separate them; if so, give {advice}",
        first.id,
        second.0.id,
        distinct.len(),
        sources.len()
    ))
}

/// An id without what numbers it: `P001` of `P001_slice3`, `patient12` of `patient12-04`. What is left has
/// a number of its own; otherwise the number is the name.
fn owner(id: &str) -> &str {
    let mut name = id;
    loop {
        let digits = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        if digits.len() == name.len() {
            return name;
        }
        let separators = ['_', '-', '/', '.', ' '];
        // A word before the number, as in "_slice3", "-z12" or "_slice_3".
        let word = digits.trim_end_matches(separators);
        let stem = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let cut = if stem.ends_with(separators) && is_part_word(&word[stem.len()..]) { stem } else { digits };
        let cut = match cut.ends_with(separators) {
            true => cut.trim_end_matches(separators),
            false => return name,
        };
        if !cut.bytes().any(|byte| byte.is_ascii_digit()) {
            return name;
        }
        name = cut;
    }
}

/// Words for a part of a patient's images.
fn is_part_word(word: &str) -> bool {
    const WORDS: [&str; 26] = [
        "slice", "slices", "sl", "s", "z", "x", "y", "c", "frame", "f", "img", "image", "im", "view", "v",
        "tile", "patch", "crop", "roi", "t", "time", "section", "n", "nodule", "layer", "part",
    ];
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(ids: &[&str]) -> Vec<Source> {
        ids.iter().map(|id| Source::new((*id).to_owned(), Vec::new(), Vec::new())).collect()
    }

    #[test]
    fn owners_of_numbered_names() {
        for (id, expected) in [
            ("P001_slice3", "P001"),
            ("P001_slice_3", "P001"),
            ("patient12-04", "patient12"),
            ("P001_z12_c0", "P001"),
            ("P7/s3", "P7"),
            ("img_001", "img_001"),
            ("scan12", "scan12"),
            ("case_001", "case_001"),
            ("case_001_slice_3", "case_001"),
            ("a", "a"),
            ("2024", "2024"),
        ] {
            assert_eq!(owner(id), expected, "{id}");
        }
    }

    #[test]
    fn suspicion_is_told_with_the_expression_that_helps() {
        let many = sources(&["P1_s1", "P1_s2", "P1_s3", "P2_s1", "P2_s2"]);
        let told = suspicion(&many).unwrap();
        assert!(told.contains("'P1_s1' and 'P1_s2'") && told.contains("--group-by '^([^_]+)_'"), "{told}");
        for ids in [&["img_1", "img_2", "img_3"][..], &["P1_s1", "P2_s1", "P3_s1"], &["P1_1", "P1_2"]] {
            assert!(suspicion(&sources(ids)).is_none(), "{ids:?}");
        }
        let mut grouped = many;
        grouped.iter_mut().for_each(|source| source.group = "p".into());
        assert!(suspicion(&grouped).is_none());
    }

    #[test]
    fn the_first_capture_group_else_the_match() {
        let group = |by: &str, id| by.parse::<GroupBy>().unwrap().group(id).map(str::to_owned);
        assert_eq!(group("^(P[0-9]+)_", "P12_3").as_deref(), Some("P12"));
        assert_eq!(group("^P[0-9]+", "P12_3").as_deref(), Some("P12"));
        assert_eq!(group("^Q", "P12_3"), None);
        assert!("(".parse::<GroupBy>().unwrap_err().to_string().contains("no regular expression"));
    }
}
