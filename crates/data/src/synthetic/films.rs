//! A folder of real radiographs with their lung masks, as `lung-opacity` is laid over them.
//!
//! ```text
//! images/NAME.png    8 or 16 bits
//! masks/NAME.png     the lungs
//! split.csv          file,split: NAME.png,train
//! ```

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rayon::prelude::*;

use super::Radiograph;
use crate::import::{self, Limits, MaskRule, read_mask};
use crate::{Error, Image, Result};

/// Films that the list marks so are left out.
const UNUSED: &str = "unused";

/// The films of a folder by split, both in the order of its `split.csv`; those marked `unused` are left
/// out. A film is named after its file, without the extension.
pub fn read_films(folder: &Path) -> Result<Vec<(String, Vec<Radiograph>)>> {
    let list = folder.join("split.csv");
    let text = match fs::read(&list) {
        Ok(bytes) => {
            String::from_utf8(bytes).map_err(|_| Error::file(&list, "is not UTF-8 text; save it so"))?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder.is_dir() => {
            let layout = "images/, masks/ and split.csv (docs/dataset-format.md)";
            return Err(Error::dataset(
                folder,
                format!("has no split.csv; a folder of films holds {layout}"),
            ));
        }
        Err(error) => return Err(Error::io(list, error)),
    };
    let mut rows = parse_split_list(&text).map_err(|error| Error::file(&list, error))?;
    rows.retain(|(_, split)| split != UNUSED);
    let mut names = HashSet::new();
    for (file, split) in &rows {
        if file.contains(['/', '\\']) || Path::new(file).file_stem().is_none() {
            return Err(Error::file(&list, format!("'{file}' is no file's name; name files inside images/")));
        }
        if !split.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            let remedy = "use letters, digits and '-' only, such as train";
            return Err(Error::file(&list, format!("the split '{split}' of '{file}': {remedy}")));
        }
        if !names.insert(name_of(file)) {
            let remedy = "films are told apart by their names without the extension; list each once";
            return Err(Error::file(&list, format!("'{file}' comes twice; {remedy}")));
        }
    }
    // The first fault in order, whatever the number of threads.
    let films: Vec<Result<Radiograph>> = rows.par_iter().map(|(file, _)| read_film(folder, file)).collect();
    let mut splits: Vec<(String, Vec<Radiograph>)> = Vec::new();
    for ((_, split), film) in rows.into_iter().zip(films) {
        let film = film?;
        match splits.iter_mut().find(|(name, _)| *name == split) {
            Some((_, films)) => films.push(film),
            None => splits.push((split, vec![film])),
        }
    }
    if splits.is_empty() {
        return Err(Error::file(&list, "lists no film; add lines such as NAME.png,train"));
    }
    Ok(splits)
}

fn name_of(file: &str) -> String {
    Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn read_film(folder: &Path, file: &str) -> Result<Radiograph> {
    let limits = Limits::default();
    let path = folder.join("images").join(file);
    let samples = import::read(&path, &limits)?;
    let Some(white) = samples.full_scale().filter(|_| samples.size.depth == 1) else {
        return Err(Error::file(path, "is no picture with 8 or 16 bits; save it as PNG"));
    };
    let mut pixels = samples.slice(&path, 0)?;
    pixels.iter_mut().for_each(|value| *value /= white);
    let image = Image::new(samples.size.width, samples.size.height, samples.size.channels, pixels);
    let lungs = read_mask(&folder.join("masks").join(file), MaskRule::Binary, &limits)?;
    Ok(Radiograph { name: name_of(file), image, lungs })
}

/// The lines `file,split` of a split list (with its header), in order.
pub fn parse_split_list(text: &str) -> Result<Vec<(String, String)>> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    match lines.next() {
        Some((_, header)) if header.trim() == "file,split" => {}
        other => {
            let found = other.map_or("nothing", |(_, line)| line);
            return Err(Error::mismatch(
                "split list",
                format!("begins with '{found}', not with 'file,split'"),
            ));
        }
    }
    lines
        .map(|(number, line)| match line.split_once(',').map(|(file, split)| (file.trim(), split.trim())) {
            Some((file, split)) if !file.is_empty() && !split.is_empty() && !split.contains(',') => {
                Ok((file.to_owned(), split.to_owned()))
            }
            _ => Err(Error::mismatch(
                format!("split list, line {}", number + 1),
                format!("'{line}' is not of the form file,split"),
            )),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_lists_are_read_or_refused_with_their_line() {
        let list = parse_split_list("file,split\na.png,train\n\nb.png , test\n").unwrap();
        assert_eq!(list, [("a.png".into(), "train".into()), ("b.png".into(), "test".into())]);
        for (text, expected) in [
            ("", "nothing"),
            ("name,part\n", "name,part"),
            ("file,split\na.png\n", "line 2"),
            ("file,split\na.png,train\nb.png,\n", "line 3"),
        ] {
            let message = parse_split_list(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }
}
