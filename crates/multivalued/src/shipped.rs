//! A model to hand on: a folder with the weights and the recipe, and nothing of the machine it was trained on.
//!
//! ```text
//! models/lidc/  model.safetensors   the averaged weights and states in f16; classifier and codebook in f32
//!               recipe.toml         the resolved recipe, without the data's path
//!               B3SUMS              BLAKE3 of the two, as `b3sum` writes and checks it
//! ```
//!
//! Whoever writes the folder may put a card and scores beside them; prediction needs the first two, and
//! refuses them where they do not match the third.

use crate::error::caught;
use crate::network::Network;
use crate::{Error, Predictor, Recipe, Result};
use multivalued_data::{disk, files};
use multivalued_engine::store::read_metadata;
use multivalued_engine::{Device, catching};
use std::collections::HashMap;
use std::path::Path;

/// The weights' file.
pub const WEIGHTS: &str = "model.safetensors";
/// The recipe's file.
pub const RECIPE: &str = "recipe.toml";

/// The checksums' file. Models that were exported before there was one have none.
pub const CHECKSUMS: &str = "B3SUMS";

/// The most bytes that a file of checksums makes sense with.
const MOST_CHECKSUMS: u64 = 1 << 16;
/// The same of a recipe.
const MOST_RECIPE: u64 = 1 << 20;

/// The format and its version, as one entry of the weights' metadata: several would be written in any
/// order, and the same model would not be the same file. The version grows when a reader of the old kind
/// could not read the new one.
const FORMAT: &str = "multivalued-model/1";

/// Whether a model lies in this folder itself.
pub fn exists(folder: &Path) -> bool {
    disk::is_file(&folder.join(WEIGHTS)) && disk::is_file(&folder.join(RECIPE))
}

/// Whether the folder says what its files' content must be.
pub fn has_checksums(folder: &Path) -> bool {
    disk::is_there(&folder.join(CHECKSUMS))
}

/// What the checksums' file of a model says: a line for each file, its BLAKE3 and its name.
pub fn checksums(weights: &[u8], recipe: &str) -> String {
    let line = |name: &str, bytes: &[u8]| format!("{}  {name}\n", blake3::hash(bytes).to_hex());
    line(WEIGHTS, weights) + &line(RECIPE, recipe.as_bytes())
}

/// Refuses a file whose content is not what the folder's checksums say, where there are any.
fn verify(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    if !has_checksums(folder) {
        return Ok(());
    }
    let path = folder.join(CHECKSUMS);
    let text = files::read(&path, MOST_CHECKSUMS)?;
    let text = String::from_utf8_lossy(&text);
    let stated = text.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix("  "));
    match stated {
        None => Err(Error::checkpoint(path, format!("says nothing of {name}; fetch the model again"))),
        Some(hash) if hash == blake3::hash(bytes).to_hex().as_str() => Ok(()),
        Some(_) => Err(Error::checkpoint(
            folder.join(name),
            format!(
                "damaged or edited: its content does not match {CHECKSUMS}. Fetch the model again, or remove \
                 {CHECKSUMS} where it was edited on purpose"
            ),
        )),
    }
}

/// Whether a tensor stays in f32: what probabilities are made of, and takes kilobytes.
fn stays_f32(name: &str) -> bool {
    ["classifier.", "codebook.", "empty."].iter().any(|part| name.starts_with(part))
}

impl Predictor {
    /// The content of a model's folder: the weights as safetensors, and the recipe as TOML. [`checksums`] says
    /// what is to lie beside them.
    pub fn shipped(&self) -> Result<(Vec<u8>, String)> {
        let metadata = HashMap::from([("format".into(), FORMAT.into())]);
        let weights = catching(|| self.network().parameters().to_safetensors_f16(stays_f32, metadata))?
            .map_err(|error| Error::checkpoint(WEIGHTS, error.to_string()))?;
        Ok((weights, self.recipe().without_place().to_toml()))
    }

    /// A predictor from a model's folder.
    pub fn open_shipped(folder: &Path, device: &Device) -> Result<Self> {
        caught(|| Self::open_model(folder, device))
    }

    fn open_model(folder: &Path, device: &Device) -> Result<Self> {
        let path = folder.join(RECIPE);
        verify(folder, RECIPE, &files::read(&path, MOST_RECIPE)?)?;
        let recipe = Recipe::read(&path)?;
        recipe.validate()?;
        let network = Network::new(&recipe, device)?;
        let path = folder.join(WEIGHTS);
        let bytes = files::read(&path, network.parameters().most_file_bytes())?;
        verify(folder, WEIGHTS, &bytes)?;
        Self::of_weights(network, &recipe, &bytes).map_err(|reason| Error::checkpoint(&path, reason))
    }

    /// A predictor from the content of a model's folder; `name` is what errors call it.
    pub fn from_shipped(name: &str, weights: &[u8], recipe: &str, device: &Device) -> Result<Self> {
        caught(|| {
            let recipe = Recipe::parse(recipe, &format!("{name}/{RECIPE}"))?;
            recipe.validate()?;
            let network = Network::new(&recipe, device)?;
            let refused = |reason| Error::checkpoint(format!("{name}/{WEIGHTS}"), reason);
            Self::of_weights(network, &recipe, weights).map_err(refused)
        })
    }

    /// The networks with these weights, or why they are refused.
    fn of_weights(mut network: Network, recipe: &Recipe, bytes: &[u8]) -> std::result::Result<Self, String> {
        let metadata = read_metadata(bytes).map_err(|error| error.to_string())?;
        match metadata.get("format").map(String::as_str) {
            Some(FORMAT) => {}
            Some(other) if other.starts_with("multivalued-model/") => {
                return Err(format!(
                    "format {other}; this program reads {FORMAT}. Use the program that wrote it"
                ));
            }
            _ => return Err("not a model of this program".into()),
        }
        network.load(bytes)?;
        Ok(Self::new(network, recipe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, tiny_recipe};
    use crate::recipe::Space;
    use crate::train::Trainer;
    use std::fs;

    fn trained(kind: &str) -> Predictor {
        let recipe = tiny_recipe(Space::Output, &[kind, "data.path=/home/someone/data", "train.steps=8"]);
        let mut trainer =
            Trainer::new(&recipe, cases(8, [16, 16], 1, 1), Vec::new(), &Device::cpu()).unwrap();
        while !trainer.is_finished() {
            trainer.step().unwrap();
        }
        let bytes =
            trainer.with_averaged_weights(|network| network.parameters().to_safetensors(HashMap::new()));
        let mut network = Network::new(&recipe, &Device::cpu()).unwrap();
        network.parameters_mut().load_safetensors(&bytes).unwrap();
        Predictor::new(network, &recipe)
    }

    fn write(folder: &Path, weights: &[u8], recipe: &str) {
        fs::write(folder.join(WEIGHTS), weights).unwrap();
        fs::write(folder.join(RECIPE), recipe).unwrap();
    }

    fn weights_of(folder: &Path) -> Vec<u8> {
        fs::read(folder.join(WEIGHTS)).unwrap()
    }

    fn recipe_of(folder: &Path) -> String {
        fs::read_to_string(folder.join(RECIPE)).unwrap()
    }

    #[test]
    fn a_shipped_model_says_nearly_the_same_and_nothing_of_its_machine() {
        for kind in ["method.kind=multivalued", "method.kind=probabilistic-unet", "method.kind=unet"] {
            let own = trained(kind);
            let place = tempfile::tempdir().unwrap();
            assert!(!exists(place.path()));
            let (weights, recipe) = own.shipped().unwrap();
            assert!(!recipe.contains("/home"), "{recipe}");
            write(place.path(), &weights, &recipe);
            assert!(exists(place.path()));
            let read = Predictor::open_shipped(place.path(), &Device::cpu()).unwrap();
            let pairs = own.network().parameters().iter().zip(read.network().parameters().iter());
            for (a, b) in pairs {
                for (a_value, b_value) in a.tensor().to_vec().iter().zip(b.tensor().to_vec()) {
                    // Half a unit in the last of eleven places, or of the smallest subnormal.
                    let tolerance = (a_value.abs() / 2048.0).max(2f32.powi(-25));
                    assert!((a_value - b_value).abs() <= tolerance, "{}: {a_value}, {b_value}", a.name());
                }
            }
            let cases = cases(3, [16, 16], 1, 1);
            let images: Vec<_> = cases.iter().map(|case| &case.image).collect();
            // What was rounded once is not rounded again: a copy of a copy is the copy.
            assert_eq!(read.shipped().unwrap(), (weights, recipe), "{kind}");
            assert_eq!(read.predict(&images).unwrap().len(), 3);
            let held = Predictor::from_shipped(
                "held",
                &weights_of(place.path()),
                &recipe_of(place.path()),
                &Device::cpu(),
            );
            assert_eq!(held.unwrap().predict(&images).unwrap(), read.predict(&images).unwrap(), "{kind}");
            let torn = Predictor::from_shipped("held", &[0; 9], &recipe_of(place.path()), &Device::cpu());
            assert!(torn.err().unwrap().to_string().contains("held/model.safetensors"));
        }
    }

    #[test]
    fn foreign_and_torn_models_are_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let own = trained("method.kind=unet");
        let (weights, recipe) = own.shipped().unwrap();
        let plain = own.network().parameters().to_safetensors(HashMap::new());
        let newer = HashMap::from([("format".into(), "multivalued-model/2".into())]);
        let newer = own.network().parameters().to_safetensors(newer);
        let wider = recipe.replace("channels = [4, 8]", "channels = [4, 9]");
        assert_ne!(wider, recipe);
        for (weights, recipe, cause) in [
            (&weights[..weights.len() / 2], &recipe, "not a complete safetensors file"),
            (&plain, &recipe, "not a model of this program"),
            (&newer, &recipe, "format multivalued-model/2; this program reads multivalued-model/1"),
            (&weights, &wider, "has shape"),
        ] {
            write(place.path(), weights, recipe);
            let error = Predictor::open_shipped(place.path(), &Device::cpu()).err().unwrap().to_string();
            assert!(error.contains(WEIGHTS) && error.contains(cause), "{error}");
        }
    }
}
