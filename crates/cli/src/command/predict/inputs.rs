//! What is to be predicted: files, folders of files, and data sets, each image with a name of its own.

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path, PathBuf};

use multivalued::answer::stem;
use multivalued_data::dataset::{Images, Layout, Slices, is_image_name};
use multivalued_data::dicom;
use multivalued_data::import::{Limits, is_image};

use crate::exit::{Failure, Outcome};
use crate::run::cases::tell_notes;
use crate::terminal::complain;

/// An image or volume.
#[derive(Debug)]
pub struct Input {
    /// The folder inside of the results' folder that is its own: a case's id, or a file's name without ending.
    pub name: String,
    /// Its files; several hold its channels.
    pub files: Vec<PathBuf>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Inputs {
    pub all: Vec<Input>,
    /// Why some images cannot be predicted.
    pub faults: Vec<String>,
}

impl Inputs {
    /// Finds the images that are named, for a model that takes so many channels. With a layout every path is a
    /// data set; else manifests are, and folders that have a layout.
    pub fn find(paths: &[PathBuf], layout: Option<Layout>, channels: usize) -> Outcome<Self> {
        let (mut found, mut plain) = (Self::default(), Vec::new());
        for path in paths {
            let may_be_a_set = layout.is_some() || path.is_dir() || is_manifest(path);
            match if may_be_a_set { Images::find(path, layout)? } else { None } {
                Some(images) => found.add(path, images),
                None if path.is_dir() => {
                    let files = images_in(path);
                    let is_other = |file: &PathBuf| !dicom::is_named_by(file) && is_image(file);
                    // Scans below a folder are looked for where it holds no other images.
                    let scans = match files.as_ref().is_ok_and(|files| files.iter().any(is_other)) {
                        true => Vec::new(),
                        false => dicom::find(path, &Limits::default())?,
                    };
                    if scans.is_empty() {
                        plain.extend(files?);
                    }
                    found.all.extend(scans.into_iter().map(|(inner, file)| scan(path, &inner, file)));
                }
                None if !path.exists() && dicom::is_named_by(path) => found.all.push(one_of_several(path)),
                None => plain.push(path.clone()),
            }
        }
        found.add_plain(plain, channels);
        found.check_names()?;
        Ok(found)
    }

    fn add(&mut self, path: &Path, Images { layout, all, faults, notes }: Images) {
        let count = all.len();
        complain(&format!("note: {}: a data set in the layout {layout}, {count} images", path.display()));
        tell_notes(&notes);
        self.all.extend(all.into_iter().map(|(name, files)| Input { name, files }));
        self.faults.extend(faults.iter().map(ToString::to_string));
    }

    /// Adds files, each an image; or, where a file holds too few channels and all have names such as `NAME_0000`
    /// and `NAME_0001`, each such group.
    fn add_plain(&mut self, files: Vec<PathBuf>, channels: usize) {
        let numbered: Option<Vec<_>> = files.iter().map(|file| numbered(file)).collect();
        let too_few = |file: &PathBuf| {
            let slices = Slices::open_for(std::slice::from_ref(file), channels, &Limits::default());
            slices.is_ok_and(|slices| slices.channels() < channels)
        };
        let (Some(numbered), true) = (numbered, channels > 1 && files.first().is_some_and(too_few)) else {
            self.all.extend(files.into_iter().map(|file| Input { name: stem(&file), files: vec![file] }));
            return;
        };
        let mut groups: BTreeMap<(PathBuf, String), BTreeMap<usize, PathBuf>> = BTreeMap::new();
        for ((name, number), file) in numbered.into_iter().zip(files) {
            let folder = file.parent().unwrap_or(Path::new("")).to_owned();
            groups.entry((folder, name)).or_default().insert(number, file);
        }
        for ((folder, name), files) in groups {
            if files.keys().copied().eq(0..channels) {
                self.all.push(Input { name, files: files.into_values().collect() });
                continue;
            }
            let has: Vec<_> = files.keys().map(|number| format!("{number:04}")).collect();
            self.faults.push(format!(
                "{}: has the channels {}, the model takes 0000 to {:04}; add or remove files",
                folder.join(name).display(),
                has.join(", "),
                channels - 1
            ));
        }
    }

    /// Refuses names that are no folders of their own inside of the results' folder.
    fn check_names(&self) -> Outcome {
        let mut taken: HashMap<&Path, &Input> = HashMap::new();
        for input in &self.all {
            let name = Path::new(&input.name);
            let plain = |part: Component| matches!(part, Component::Normal(_));
            if input.name.is_empty() || !name.components().all(plain) || input.name.contains(['\\', '\0']) {
                let place = input.files[0].display();
                let reason =
                    format!("its id '{}' cannot be the name of a folder; give it another", input.name);
                return Err(Failure::user(place, reason));
            }
            if let Some(other) = taken.insert(name, input) {
                let other = other.files[0].display();
                return Err(Failure::user(
                    input.files[0].display(),
                    format!("has the name of {other}; predict them into different folders"),
                ));
            }
        }
        for input in &self.all {
            let outer = Path::new(&input.name).ancestors().skip(1).find_map(|outer| taken.get(outer));
            if let Some(outer) = outer {
                return Err(Failure::user(
                    input.files[0].display(),
                    format!(
                        "its folder '{}' would lie inside of that of '{}'; predict them into different folders",
                        input.name, outer.name
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// A scan that was found in a folder, named by its place there, or as the folder.
fn scan(folder: &Path, inner: &Path, file: PathBuf) -> Input {
    let of_folder = || file_name(&folder.canonicalize().unwrap_or(folder.to_owned()));
    let name = match inner.to_string_lossy() {
        name if name.is_empty() => of_folder(),
        _ if file.is_dir() => inner.to_string_lossy().into_owned(),
        _ => inner.with_file_name(stem(&file)).to_string_lossy().into_owned(),
    };
    Input { name, files: vec![file] }
}

/// `FOLDER/series-2`, which is no file, named as its folder and itself.
fn one_of_several(path: &Path) -> Input {
    let folder = path.parent().unwrap_or(path);
    let folder = file_name(&folder.canonicalize().unwrap_or(folder.to_owned()));
    Input { name: format!("{folder}-{}", file_name(path)), files: vec![path.to_owned()] }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    path.is_file() && ["jsonl", "csv"].iter().any(|kind| extension.eq_ignore_ascii_case(kind))
}

/// The image files of a folder, by name.
fn images_in(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::io(folder, &error))?;
    let mut inside = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| Failure::io(folder, &error))?.path();
        if file.is_file() && is_image_name(&file_name(&file)) {
            inside.push(file);
        }
    }
    if inside.is_empty() {
        let reason = "holds no images; give images, a folder of them, or a data set";
        return Err(Failure::user(folder.display(), reason));
    }
    inside.sort();
    Ok(inside)
}

/// NAME and number of `NAME_0001.nii.gz`.
fn numbered(file: &Path) -> Option<(String, usize)> {
    let stem = stem(file);
    let (name, number) = stem.rsplit_once('_')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !name.is_empty()).then_some((name.to_owned(), number.parse().ok()?))
}

/// A file's name.
pub fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "image".into(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_their_endings() {
        for (file, name) in
            [("a/scan.nii.gz", "scan"), ("b.1.png", "b.1"), (".hidden", ".hidden"), ("plain", "plain")]
        {
            assert_eq!(stem(Path::new(file)), name);
        }
        assert_eq!(numbered(Path::new("x/a_b_0001.nii.gz")), Some(("a_b".into(), 1)));
        for other in ["a_001.png", "_0001.png", "a0001.png", "a_000x.png"] {
            assert_eq!(numbered(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn numbered_files_are_channels_where_the_model_takes_several() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = place.path().join(name);
            image::save_buffer(&path, &[7; 16], 4, 4, image::ExtendedColorType::L8).unwrap();
            path
        };
        let names = ["a_0000.png", "a_0001.png", "b_0001.png", "b_0000.png", "c_0000.png"];
        let files: Vec<PathBuf> = names.iter().map(|name| file(name)).collect();
        let found = |channels: usize| {
            let mut inputs = Inputs::default();
            inputs.add_plain(files.clone(), channels);
            let names: Vec<(String, usize)> =
                inputs.all.iter().map(|input| (input.name.clone(), input.files.len())).collect();
            (names, inputs.faults)
        };
        let (two, faults) = found(2);
        assert_eq!(two, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
        assert!(faults.len() == 1 && faults[0].contains("0000, the model takes 0000 to 0001"), "{faults:?}");
        let (one, faults) = found(1);
        assert!(one.len() == 5 && one[0].0 == "a_0000" && faults.is_empty());
        // One name without a number, and nobody can say what is a channel of what.
        let mut mixed = Inputs::default();
        mixed.add_plain([&files[..2], &[file("plain.png")]].concat(), 2);
        assert_eq!(mixed.all.len(), 3);
    }

    #[test]
    fn folders_and_manifests_are_looked_into() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        assert!(format!("{:?}", images_in(folder).unwrap_err()).contains("holds no images"));
        for name in ["b.png", "a.nii.gz", "notes.txt"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        let names: Vec<String> = images_in(folder).unwrap().iter().map(|file| file_name(file)).collect();
        assert_eq!(names, ["a.nii.gz", "b.png"]);
        std::fs::write(folder.join("list.CSV"), "id,image").unwrap();
        assert!(is_manifest(&folder.join("list.CSV")) && !is_manifest(&folder.join("b.png")));
        assert!(!is_manifest(&folder.join("none.csv")), "no such file");
    }

    #[test]
    fn names_stay_inside_of_the_folder_and_apart_from_each_other() {
        let refusal = |names: &[&str]| {
            let input = |name: &&str| Input { name: (*name).to_owned(), files: vec!["f.png".into()] };
            let inputs = Inputs { all: names.iter().map(input).collect(), faults: Vec::new() };
            inputs.check_names().err().map_or(String::new(), |failure| format!("{failure:?}"))
        };
        assert_eq!(refusal(&["a/b", "a/c", "ab"]), "");
        for name in ["../a", "/a", "a/../../b", "", "..", "a\\b", "./a"] {
            assert!(refusal(&[name]).contains("cannot be the name of a folder"), "{name}");
        }
        assert!(refusal(&["a", "a"]).contains("has the name of"));
        assert!(refusal(&["a/b/c", "x", "a"]).contains("inside of that of 'a'"));
    }
}
