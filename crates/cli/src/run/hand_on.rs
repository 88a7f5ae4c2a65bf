//! Models to hand on, one or several that predict together, as the files of a folder.

use std::path::Path;

use multivalued::mixture::{MIXTURE, Members};
use multivalued::{Mixture, Predictor, shipped};
use multivalued_data::files;

use crate::exit::Outcome;
use crate::folder;

/// A model as files, ready to be written.
#[derive(Debug)]
pub struct HandedOn {
    /// The folder inside of the model's own (empty for that itself), the name and the content of each.
    files: Vec<(String, &'static str, Vec<u8>)>,
    /// Bytes of all weights.
    pub weights: usize,
}

impl HandedOn {
    /// A model's files. A mixture keeps the hashes of the data that its members know.
    pub fn new(model: &Mixture, data_hashes: Vec<Option<String>>) -> Outcome<Self> {
        let mut handed_on = Self { files: Vec::new(), weights: 0 };
        if let [alone] = model.members() {
            handed_on.add(String::new(), alone)?;
            return Ok(handed_on);
        }
        let names: Vec<String> = (1..=model.members().len()).map(|at| format!("member-{at}")).collect();
        for (name, member) in names.iter().zip(model.members()) {
            handed_on.add(name.clone(), member)?;
        }
        let recipe = model.recipe().without_place().to_toml();
        let members = Members::new(names.into_iter().zip(data_hashes).collect());
        handed_on.files.extend([
            (String::new(), MIXTURE, members.to_json().into_bytes()),
            (String::new(), shipped::RECIPE, recipe.into_bytes()),
        ]);
        Ok(handed_on)
    }

    fn add(&mut self, place: String, model: &Predictor) -> Outcome {
        let (weights, recipe) = model.shipped()?;
        let checksums = shipped::checksums(&weights, &recipe);
        self.weights += weights.len();
        self.files.extend([
            (place.clone(), shipped::WEIGHTS, weights),
            (place.clone(), shipped::CHECKSUMS, checksums.into_bytes()),
            (place, shipped::RECIPE, recipe.into_bytes()),
        ]);
        Ok(())
    }

    /// The first two models of the same weights, by their places.
    pub fn twins(&self) -> Option<[usize; 2]> {
        let weights: Vec<_> = self.files.iter().filter(|(_, name, _)| *name == shipped::WEIGHTS).collect();
        let twin_before = |at: usize| (0..at).find(|&before| weights[before].2 == weights[at].2);
        (0..weights.len()).find_map(|at| Some([twin_before(at)?, at]))
    }

    /// Writes them into a folder that is there. Whatever else it shall hold is written before: the last file, the
    /// recipe, makes it a model.
    pub fn write(&self, out: &Path) -> Outcome {
        for (place, name, content) in &self.files {
            let folder = out.join(place);
            if !place.is_empty() {
                files::make_folder(&folder)?;
            }
            folder::write(&folder.join(name), content)?;
        }
        Ok(())
    }
}
