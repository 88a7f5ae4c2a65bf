//! A mixture's folder: the list of its members.
//!
//! ```text
//! models/mine/  mixture.json   format, version, and the members' folders by name
//!               recipe.toml    what the members have in common, and how their outputs are merged
//!               member-1/      a model to hand on (`shipped`), or a run with its `best/`
//!               member-2/ …
//! ```

use crate::{Error, Result, shipped};
use multivalued_data::{disk, files};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The file that makes a folder a mixture.
pub const MIXTURE: &str = "mixture.json";

const FORMAT: &str = "multivalued-mixture";
/// Grows when a reader of the old kind could not read the new one.
const VERSION: u32 = 1;
/// The most bytes that the file makes sense with.
const MOST_BYTES: u64 = 1 << 16;
/// The most members that are opened together.
pub const MOST_MEMBERS: usize = 64;

/// What `mixture.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Members {
    format: String,
    version: u32,
    members: Vec<String>,
    /// The hash of the data that all members were trained on, or on parts of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data_hash: Option<String>,
    /// Each member's, where they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    data_hashes: Vec<Option<String>>,
}

/// Whether a mixture lies in this folder itself.
pub fn exists(folder: &Path) -> bool {
    disk::is_there(&folder.join(MIXTURE))
}

/// Whether the members are models that were handed on, and not runs: nothing more is trained here. A mixture that
/// cannot be read is not trained either.
pub fn is_handed_on(folder: &Path) -> bool {
    exists(folder)
        && Members::read(folder)
            .map_or(true, |all| all.folders(folder).iter().all(|one| shipped::exists(one)))
}

impl Members {
    /// Members by the names of their folders, each with the hash of the data that it was trained on.
    pub fn new(members: Vec<(String, Option<String>)>) -> Self {
        let (members, mut data_hashes): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let alike = data_hashes.iter().all(|hash| *hash == data_hashes[0]);
        let data_hash = if alike { data_hashes.drain(..).next().flatten() } else { None };
        Self { format: FORMAT.into(), version: VERSION, members, data_hash, data_hashes }
    }

    /// Reads a folder's `mixture.json`. A member's name is the name of a folder beside it, and no link.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MIXTURE);
        let refused = |reason: String| Error::checkpoint(&path, reason);
        let found: Self = serde_json::from_slice(&files::read(&path, MOST_BYTES)?).map_err(|error| {
            refused(format!("no list of a mixture's members: {error}; combine them again"))
        })?;
        if found.format != FORMAT || found.version != VERSION {
            return Err(refused(format!(
                "format {} {}; this program reads {FORMAT} {VERSION}. Use the program that wrote it",
                found.format, found.version
            )));
        }
        if !(1..=MOST_MEMBERS).contains(&found.members.len()) {
            let count = found.members.len();
            return Err(refused(format!("names {count} members; 1 to {MOST_MEMBERS} can predict together")));
        }
        if !found.data_hashes.is_empty() && found.data_hashes.len() != found.members.len() {
            let (hashes, members) = (found.data_hashes.len(), found.members.len());
            return Err(refused(format!(
                "has {hashes} data hashes for {members} members; combine them again"
            )));
        }
        let mut seen = BTreeSet::new();
        for name in &found.members {
            let parts: Vec<Component> = Path::new(name).components().collect();
            let plain = matches!(parts[..], [Component::Normal(only)] if only == name.as_str());
            if !plain || name.contains(['/', '\\', ':']) {
                return Err(refused(format!(
                    "names the member {name:?}; a member is a folder beside it, named without separators"
                )));
            }
            if !seen.insert(name) {
                return Err(refused(format!("names the member {name:?} twice")));
            }
            files::refuse_link(&folder.join(name))?;
        }
        Ok(found)
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names are plain text") + "\n"
    }

    /// The hash of the data that each member was trained on, where that is known.
    pub fn data_hashes(&self) -> Vec<Option<String>> {
        match self.data_hashes.is_empty() {
            true => vec![self.data_hash.clone(); self.members.len()],
            false => self.data_hashes.clone(),
        }
    }

    /// The members' folders, in order.
    pub fn folders(&self, folder: &Path) -> Vec<PathBuf> {
        self.members.iter().map(|name| folder.join(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let written = |text: &str| {
            fs::write(place.path().join(MIXTURE), text).unwrap();
            Members::read(place.path()).err().map(|error| error.to_string())
        };
        let list = |names: &[&str]| Members::new(names.iter().map(|one| (one.to_string(), None)).collect());
        assert_eq!(written(&list(&["member-1", "member-2"]).to_json()), None);
        for name in ["../up", "a/b", "/root", "..", ".", "", "a/", "a\\b", "c:"] {
            let said = written(&list(&[name]).to_json()).expect(name);
            assert!(said.contains(MIXTURE) && said.contains("without separators"), "{said}");
        }
        for (text, says) in [
            (list(&[]).to_json(), "0 members"),
            (list(&["a", "a"]).to_json(), "twice"),
            (
                list(&["a"]).to_json().replace("\"version\": 1", "\"version\": 2"),
                "reads multivalued-mixture 1",
            ),
            ("{}".into(), "combine them again"),
        ] {
            let said = written(&text).expect(says);
            assert!(said.contains(says), "{said}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(place.path(), place.path().join("link")).unwrap();
            let said = written(&list(&["link"]).to_json()).unwrap();
            assert!(said.contains("link") && said.contains("is a link"), "{said}");
        }
    }
}
