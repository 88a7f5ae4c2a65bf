//! What names of files and folders say: which file is a mask, of which image, and whose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::walk::ImageFile;

/// Words that say "mask".
const LABEL_WORDS: [&str; 13] = [
    "mask",
    "masks",
    "seg",
    "segs",
    "segmentation",
    "segmentations",
    "gt",
    "groundtruth",
    "label",
    "labels",
    "annotation",
    "annotations",
    "manual",
];
/// Words that a rater's name begins with.
const RATER_WORDS: [&str; 6] = ["rater", "annotator", "reader", "expert", "observer", "grader"];
/// Words that say "image".
const IMAGE_WORDS: [&str; 4] = ["image", "images", "img", "imgs"];

/// The parts of a name between separators.
pub(super) fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(['_', '-', ' ', '.']).filter(|part| !part.is_empty())
}

fn is_one_of(part: &str, words: &[&str]) -> bool {
    words.iter().any(|word| part.eq_ignore_ascii_case(word))
}

/// `seg`, `seg01`, `raterA`: a part that says that a file or folder holds masks.
pub(super) fn is_label_part(part: &str) -> bool {
    let word = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let lower = part.to_ascii_lowercase();
    is_one_of(word, &LABEL_WORDS) || RATER_WORDS.iter().any(|word| lower.starts_with(word))
}

/// Whether a name has such a part.
pub(super) fn says_label(name: &str) -> bool {
    parts(name).any(is_label_part)
}

/// Who drew, by what a name has beside the words for masks: `masks_r1` is r1's, `seg01` names itself,
/// `mask` names nobody.
pub(super) fn rater<'a>(parts: impl Iterator<Item = &'a str>) -> Option<String> {
    let named: Vec<_> = parts.filter(|part| !is_one_of(part, &LABEL_WORDS)).collect();
    (!named.is_empty()).then(|| named.join("_"))
}

/// An image that masks are looked for: its folder inside the images' folder, its name, and its files, of
/// which several hold channels.
pub(super) struct Picture {
    pub folder: String,
    pub stem: String,
    pub files: Vec<PathBuf>,
}

/// Images by name.
pub(super) struct Pictures {
    pub all: Vec<Picture>,
    by_name: BTreeMap<(String, String), usize>,
    /// By the parts of the name without words for images; none where two images would be the same.
    by_parts: BTreeMap<(String, Vec<String>), Option<usize>>,
}

/// The image that a mask belongs to, and what its name says beyond that.
pub(super) struct Match {
    pub picture: usize,
    pub rater: Option<String>,
}

impl Pictures {
    fn new(all: Vec<Picture>) -> Self {
        let by_name =
            all.iter().enumerate().map(|(at, one)| ((one.folder.clone(), one.stem.clone()), at)).collect();
        let mut by_parts = BTreeMap::new();
        for (at, one) in all.iter().enumerate() {
            let key = (one.folder.clone(), without(&one.stem, &[&IMAGE_WORDS]));
            by_parts.entry(key).and_modify(|taken| *taken = None).or_insert(Some(at));
        }
        Self { all, by_name, by_parts }
    }

    /// One image per file; files come with their folders.
    pub fn one_each<'a>(files: impl Iterator<Item = (String, &'a ImageFile)>) -> Self {
        let picture = |(folder, file): (_, &ImageFile)| Picture {
            folder,
            stem: file.stem.clone(),
            files: vec![file.path.clone()],
        };
        Self::new(files.map(picture).collect())
    }

    /// Files `NAME_0000`, `NAME_0001` or `NAME_t1`, `NAME_t2` as the channels of NAME; none where not all
    /// names have the same channels, or there are more than an image may have.
    pub fn of_channels<'a>(files: impl Iterator<Item = (String, &'a ImageFile)>) -> Option<Self> {
        let mut cases: BTreeMap<(String, &str), BTreeMap<&str, PathBuf>> = BTreeMap::new();
        for (folder, file) in files {
            let (name, channel) = file.stem.rsplit_once(['_', '-'])?;
            cases.entry((folder, name)).or_default().insert(channel, file.path.clone());
        }
        let channels: BTreeSet<Vec<&str>> =
            cases.values().map(|files| files.keys().copied().collect()).collect();
        if channels.len() != 1 || channels.iter().any(|names| names.len() > 4) {
            return None;
        }
        let picture = |((folder, name), files): ((String, &str), BTreeMap<_, PathBuf>)| Picture {
            folder,
            stem: name.to_owned(),
            files: files.into_values().collect(),
        };
        Some(Self::new(cases.into_iter().map(picture).collect()))
    }

    /// The image of a mask: of the same name, else the longest that the mask's name begins with once words
    /// for images and masks are left out.
    pub fn of_mask(&self, folder: &str, stem: &str) -> Option<Match> {
        if let Some(&picture) = self.by_name.get(&(folder.to_owned(), stem.to_owned())) {
            return Some(Match { picture, rater: None });
        }
        let words = without(stem, &[&IMAGE_WORDS, &LABEL_WORDS]);
        (1..=words.len()).rev().find_map(|length| {
            let picture = (*self.by_parts.get(&(folder.to_owned(), words[..length].to_vec()))?)?;
            Some(Match { picture, rater: rater(words[length..].iter().map(String::as_str)) })
        })
    }
}

/// A name's parts but for some words; all of them where nothing else is left.
fn without(name: &str, words: &[&[&str]]) -> Vec<String> {
    let kept = |part: &&str| !words.iter().any(|words| is_one_of(part, words));
    let left: Vec<String> = parts(name).filter(kept).map(str::to_owned).collect();
    if left.is_empty() { parts(name).map(str::to_owned).collect() } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(stem: &str) -> ImageFile {
        ImageFile { path: PathBuf::from(stem), stem: stem.to_owned() }
    }

    fn pictures(stems: &[&str]) -> Pictures {
        let files: Vec<_> = stems.iter().map(|stem| file(stem)).collect();
        Pictures::one_each(files.iter().map(|file| (String::new(), file)))
    }

    #[test]
    fn masks_find_their_image() {
        let all = pictures(&["a", "a_1", "img_007", "P1-scan", "case.2"]);
        for (mask, image, rater) in [
            ("a", "a", None),
            ("a_mask", "a", None),
            ("a_raterB", "a", Some("raterB")),
            ("a_2", "a", Some("2")),
            // The longest name that fits.
            ("a_1", "a_1", None),
            ("a_1_2", "a_1", Some("2")),
            ("mask_007", "img_007", None),
            ("007_seg03", "img_007", Some("seg03")),
            ("P1-scan-gt-anna", "P1-scan", Some("anna")),
            ("case.2_seg", "case.2", None),
        ] {
            let found = all.of_mask("", mask).unwrap_or_else(|| panic!("{mask}"));
            assert_eq!(
                (all.all[found.picture].stem.as_str(), found.rater.as_deref()),
                (image, rater),
                "{mask}"
            );
        }
        for mask in ["b", "ab", "mask", "008"] {
            assert!(all.of_mask("", mask).is_none(), "{mask}");
        }
        assert!(all.of_mask("inner", "a").is_none());
        // Two images that differ in a word for images alone are told apart by their full names only.
        let alike = pictures(&["img_1", "image_1"]);
        assert!(alike.of_mask("", "mask_1").is_none() && alike.of_mask("", "img_1").is_some());
    }

    #[test]
    fn channels_have_the_same_names_throughout() {
        let of = |stems: &[&str]| {
            let files: Vec<_> = stems.iter().map(|stem| file(stem)).collect();
            Pictures::of_channels(files.iter().map(|file| (String::new(), file)))
        };
        let both = of(&["a_t1", "a_t2", "b_t1", "b_t2"]).unwrap();
        assert_eq!(
            both.all.iter().map(|one| (one.stem.as_str(), one.files.len())).collect::<Vec<_>>(),
            [("a", 2), ("b", 2)]
        );
        for stems in [&["a_t1", "b_t2"][..], &["a_1", "a_2", "a_3", "a_4", "a_5"], &["plain"]] {
            assert!(of(stems).is_none(), "{stems:?}");
        }
    }
}
