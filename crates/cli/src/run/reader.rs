//! Reading the data that a command works on: once, into memory or through a cache on disk.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use multivalued::recipe::DataRecipe;
use multivalued::{Collection, Splits};
use multivalued_data::dataset::{Cache, Holding, Listener, Told};
use multivalued_data::memory::comfortable;

use super::counting::Counting;
use crate::exit::Outcome;
use crate::terminal::complain;

/// Reads data sets, and keeps the last one for whoever asks for it again.
#[derive(Debug)]
pub struct Reader {
    holding: Holding,
    last: RefCell<Option<Collection>>,
}

impl Reader {
    /// Cases are held in a cache in this folder; where none is named, in memory if they fit comfortably, else in a
    /// cache in the user's usual place for such.
    pub fn new(cache: Option<&Path>) -> Self {
        let listener = listener();
        let holding = match (cache, usual_folder()) {
            (Some(folder), _) => Holding::Within(0, Cache { folder: folder.to_owned(), listener }),
            (None, Some(folder)) => Holding::Within(comfortable(), Cache { folder, listener }),
            (None, None) => Holding::Memory,
        };
        Self { holding, last: RefCell::new(None) }
    }

    /// Hands out cases that are in memory already, whatever a recipe names.
    pub fn of_collection(cases: Collection) -> Self {
        Self { holding: Holding::Memory, last: RefCell::new(Some(cases)) }
    }

    /// Whether the cases are in memory already and come from no file or task.
    pub fn holds_cases(&self) -> bool {
        self.last.borrow().as_ref().is_some_and(Collection::is_given)
    }

    /// Where cases are held.
    pub fn holding(&self) -> &Holding {
        &self.holding
    }

    /// The cases that a recipe names, by part.
    pub fn splits(&self, recipe: &DataRecipe) -> Outcome<Splits> {
        let mut last = self.last.borrow_mut();
        if !last.as_ref().is_some_and(|last| last.serves(recipe)) {
            // Two data sets need not be in memory at once.
            *last = None;
            *last = Some(Collection::load(recipe, &self.holding)?);
        }
        Ok(last.as_ref().expect("it was just loaded").splits(recipe)?)
    }
}

/// The system's folder for what may be deleted at any time.
fn usual_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = folder("XDG_CACHE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .or_else(|| folder("LOCALAPPDATA"));
    caches.filter(|folder| folder.is_absolute()).map(|caches| caches.join("multivalued"))
}

/// Tells the user what happens to a cache.
fn listener() -> Listener {
    let counting: Mutex<Option<Counting>> = Mutex::new(None);
    Listener::new(move |told| {
        let mut counting = counting.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Told::Packing { path, cases, reason } => {
                complain(&format!("packing {cases} images into {}: {reason}", path.display()));
                *counting = Some(Counting::of(*cases, "packed"));
            }
            Told::Packed { done, of } => {
                if let Some(counting) = counting.as_mut() {
                    counting.reached(*done);
                }
                if done == of {
                    *counting = None;
                }
            }
            Told::Note(note) => complain(&format!("note: {note}")),
        }
    })
}
