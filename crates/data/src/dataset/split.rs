//! Splits by group, seeded, kept in a file with the data's hash: whoever reads the file later has the
//! same cases in the same parts, or an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::record;
use crate::draw::Draw;
use crate::files;
use crate::{Case, Error, Result};

/// The cases of a data set as splits see them: id, group, and one hash over all content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Id and group of each case, in the data set's order.
    members: Vec<(String, String)>,
    hash: String,
}

impl Roster {
    /// The roster of loaded cases.
    pub fn of(cases: &[Case]) -> Self {
        Self::new(cases.par_iter().map(Self::member).collect())
    }

    /// Id, group and the hash of all content of a case.
    pub(crate) fn member(case: &Case) -> (String, String, blake3::Hash) {
        (case.id.clone(), case.group.clone(), blake3::hash(&record::encode(case)))
    }

    pub(crate) fn new(mut members: Vec<(String, String, blake3::Hash)>) -> Self {
        let names = members.iter().map(|(id, group, _)| (id.clone(), group.clone())).collect();
        // By id, so that the order of listing does not matter.
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let mut hasher = blake3::Hasher::new();
        members.iter().for_each(|(_, _, hash)| {
            hasher.update(hash.as_bytes());
        });
        Self { members: names, hash: hasher.finalize().to_hex().to_string() }
    }

    /// Ids and groups, in the data set's order.
    pub fn members(&self) -> &[(String, String)] {
        &self.members
    }

    /// BLAKE3 over all ids, groups, pixels and annotations, in hexadecimal.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The groups with their cases, in an order that the seed decides.
    fn shuffled_groups(&self, seed: u64) -> Vec<Vec<String>> {
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (id, group) in &self.members {
            groups.entry(group).or_default().push(id.clone());
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.iter_mut().for_each(|ids| ids.sort_unstable());
        Draw::new(seed, &["split"], 0).shuffle(&mut groups);
        groups
    }
}

const FORMAT: &str = "multivalued-split";
const VERSION: u32 = 1;

/// Which case is in which part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    format: String,
    version: u32,
    data_hash: String,
    /// None where the data set stated the split itself.
    seed: Option<u64>,
    parts: BTreeMap<String, Vec<String>>,
}

impl Split {
    /// Parts of the stated shares of the cases, such as `[("train", 0.7), ("val", 0.1), ("test", 0.2)]`,
    /// as near as whole groups allow; every part gets at least one group.
    pub fn by_group(roster: &Roster, shares: &[(&str, f64)], seed: u64) -> Result<Self> {
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        if shares.iter().any(|(_, share)| share.is_nan() || *share <= 0.0) || (total - 1.0).abs() > 1e-6 {
            return Err(Error::mismatch(
                "split",
                format!("the shares {shares:?} must be positive and sum to 1"),
            ));
        }
        let groups = roster.shuffled_groups(seed);
        enough(&groups, shares.len())?;
        let mut parts = BTreeMap::new();
        let (mut next, mut taken, mut wanted) = (0, 0, 0.0);
        for (at, (name, share)) in shares.iter().enumerate() {
            let later = shares.len() - at - 1;
            wanted += share * roster.members.len() as f64;
            let mut ids: Vec<String> = Vec::new();
            while next < groups.len() - later {
                // The last part takes the rest; another one takes a group if most of it fits.
                let middle = taken as f64 + groups[next].len() as f64 / 2.0;
                if later > 0 && !ids.is_empty() && middle > wanted {
                    break;
                }
                taken += groups[next].len();
                ids.extend(groups[next].iter().cloned());
                next += 1;
            }
            if parts.insert((*name).to_owned(), ids).is_some() {
                return Err(Error::mismatch("split", format!("the part '{name}' is named twice")));
            }
        }
        Self::new(roster, Some(seed), parts)
    }

    /// `folds` parts of nearly equal size, `fold-0` and so on; see [`Split::fold`].
    pub fn k_fold(roster: &Roster, folds: usize, seed: u64) -> Result<Self> {
        if folds < 2 {
            return Err(Error::mismatch(
                "folds",
                format!("{folds} folds; cross-validation needs at least 2"),
            ));
        }
        let mut groups = roster.shuffled_groups(seed);
        enough(&groups, folds)?;
        // Large groups first, each to the fold that has least: the sizes come out nearly equal.
        groups.sort_by_key(|ids| std::cmp::Reverse(ids.len()));
        let mut parts = vec![Vec::new(); folds];
        for ids in groups {
            let smallest = (0..folds).min_by_key(|&fold| parts[fold].len()).unwrap_or(0);
            parts[smallest].extend(ids);
        }
        let named = parts.into_iter().enumerate().map(|(fold, ids)| (format!("fold-{fold}"), ids));
        Self::new(roster, Some(seed), named.collect())
    }

    /// A split that somebody else made.
    pub fn from_parts(roster: &Roster, parts: BTreeMap<String, Vec<String>>) -> Result<Self> {
        Self::new(roster, None, parts)
    }

    fn new(roster: &Roster, seed: Option<u64>, mut parts: BTreeMap<String, Vec<String>>) -> Result<Self> {
        parts.values_mut().for_each(|ids| ids.sort_unstable());
        let split =
            Self { format: FORMAT.into(), version: VERSION, data_hash: roster.hash.clone(), seed, parts };
        split.check(roster).map_err(|reason| Error::mismatch("split", reason))?;
        Ok(split)
    }

    /// Each case in exactly one part, each group too, and the data the same.
    fn check(&self, roster: &Roster) -> std::result::Result<(), String> {
        if self.data_hash != roster.hash {
            return Err(format!(
                "was made for other data (hash {}…, the data has {}…); make a new split",
                self.data_hash.chars().take(12).collect::<String>(),
                &roster.hash[..12]
            ));
        }
        let groups: BTreeMap<&str, &str> =
            roster.members.iter().map(|(id, group)| (id.as_str(), group.as_str())).collect();
        let mut part_of_group: BTreeMap<&str, &str> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (part, id) in self.parts.iter().flat_map(|(part, ids)| ids.iter().map(move |id| (part, id))) {
            let Some(group) = groups.get(id.as_str()) else {
                return Err(format!("names the case '{id}', which the data does not have; make a new split"));
            };
            if !seen.insert(id.as_str()) {
                return Err(format!("names the case '{id}' twice; make a new split"));
            }
            let first = *part_of_group.entry(group).or_insert(part);
            if first != part {
                return Err(format!(
                    "the group '{group}' is in {first} and, with case '{id}', in {part}; a group belongs to one part"
                ));
            }
        }
        match groups.keys().find(|id| !seen.contains(*id)) {
            Some(id) => Err(format!("leaves out the case '{id}'; make a new split")),
            None => Ok(()),
        }
    }

    /// Writes the split as JSON.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::file(path, e))?;
        files::replace(path, |file| file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")))
    }

    /// Reads a split and holds it against the data.
    pub fn read(path: &Path, roster: &Roster) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        let split: Self = serde_json::from_str(&text)
            .map_err(|e| Error::file(path, format!("is no split file: {e}; make a new split")))?;
        if split.format != FORMAT || split.version != VERSION {
            return Err(Error::file(
                path,
                format!(
                    "has the format {} {}, and this program reads {FORMAT} {VERSION}; make a new split",
                    split.format, split.version
                ),
            ));
        }
        split.check(roster).map_err(|reason| Error::file(path, reason))?;
        Ok(split)
    }

    /// The parts and their case ids, sorted.
    pub fn parts(&self) -> &BTreeMap<String, Vec<String>> {
        &self.parts
    }

    /// The ids of one part.
    pub fn part(&self, name: &str) -> Result<&[String]> {
        self.parts.get(name).map(Vec::as_slice).ok_or_else(|| {
            let names: Vec<_> = self.parts.keys().map(String::as_str).collect();
            Error::mismatch("split", format!("there is no part '{name}'; there are {}", names.join(", ")))
        })
    }

    /// Cross-validation: the ids to train on (all other parts) and the ids held out (`fold-K`).
    pub fn fold(&self, fold: usize) -> Result<(Vec<&str>, Vec<&str>)> {
        let name = format!("fold-{fold}");
        let held_out = self.part(&name)?.iter().map(String::as_str).collect();
        let others = self.parts.iter().filter(|(part, _)| **part != name);
        Ok((others.flat_map(|(_, ids)| ids.iter().map(String::as_str)).collect(), held_out))
    }
}

fn enough(groups: &[Vec<String>], parts: usize) -> Result<()> {
    if groups.len() >= parts && parts > 0 {
        return Ok(());
    }
    Err(Error::mismatch(
        "split",
        format!("{} groups cannot fill {parts} parts; use fewer parts", groups.len()),
    ))
}
