//! Options that several commands share.

use std::path::PathBuf;

use clap::Args;
use multivalued::Recipe;
use multivalued_data::dataset::{GroupBy, Layout, Options};
use multivalued_data::import::MaskRule;

use crate::run::reader::Reader;

/// How a data set is read.
#[derive(Debug, Clone, Default, Args)]
pub struct Reading {
    /// The layout, where it is not to be found by content: manifest, lidc-slices, lidc-crops, nnunet,
    /// image-folders, side-by-side or case-folders
    #[arg(long, value_name = "NAME")]
    pub layout: Option<Layout>,
    /// What makes stored values a mask: binary, threshold:VALUE or labels:COUNT [default: by the values]
    #[arg(long, value_name = "RULE")]
    pub masks: Option<MaskRule>,
    /// Which part of a case's id is its group, such as the patient, that no split tears apart: the first
    /// capture group, else all that matches, as in '^(P[0-9]+)_'
    #[arg(long, value_name = "REGEX")]
    pub group_by: Option<GroupBy>,
}

impl Reading {
    /// As the data crate wants it.
    pub fn options(&self) -> Options {
        Options {
            layout: self.layout,
            mask: self.masks,
            group_by: self.group_by.clone(),
            ..Options::default()
        }
    }
}

/// How a data set is read, and what becomes of its bad files.
#[derive(Debug, Clone, Default, Args)]
pub struct Loading {
    /// How its files are read
    #[command(flatten)]
    pub reading: Reading,
    /// Leave out images with a file that is truncated, foreign or unsuitable, and name them
    #[arg(long)]
    pub skip_bad: bool,
    /// Pack the images into a cache in this folder and read them from there, so that they need no memory
    /// [default: in memory where they take at most a third of it, else ~/.cache/multivalued]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

impl Loading {
    /// Who reads data for a command with these options.
    pub fn reader(&self) -> Reader {
        Reader::new(self.cache.as_deref())
    }

    /// Puts what the options say into a recipe.
    pub fn write_to(&self, recipe: &mut Recipe) {
        if let Some(layout) = self.reading.layout {
            recipe.data.layout = layout.to_string();
        }
        if let Some(masks) = self.reading.masks {
            recipe.data.masks = masks.to_string();
        }
        if let Some(by) = &self.reading.group_by {
            recipe.data.group_by = by.to_string();
        }
        recipe.data.skip_bad |= self.skip_bad;
    }
}

/// An IoU, as `--merge` wants it: at 0 everything would be one.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("an IoU lies above 0 and is at most 1, such as 0.9".to_owned()),
    }
}

/// A number of bytes, as `--memory` wants it: `2GiB`, `500MiB`, or plain.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "write it as 2GiB, 500MiB or a number of bytes".to_owned();
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (number, unit) = (text[..end].parse::<f64>().map_err(|_| wrong())?, text[end..].trim());
    let scale: f64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" | "k" => 1024.0,
        "mib" | "m" => 1024.0 * 1024.0,
        "gib" | "g" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    match (number * scale) as u64 {
        0 => Err("nothing can be computed with no memory; allow some".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A share of cases that conformal sets shall cover, as `--coverage` wants it.
pub fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if level > 0.0 && level < 1.0 => Ok(level),
        _ => Err("a level lies between 0 and 1, such as 0.9".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, expected) in
            [("2GiB", 2 << 30), ("1.5 g", 3 << 29), ("500MiB", 500 << 20), ("4096", 4096), ("1k", 1024)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "GiB", "2GB", "two", "-1", "0", "1..2"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
