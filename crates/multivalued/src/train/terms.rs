//! The terms of the loss: one table of their names and weights. A term is added by a row of the table, and a call of
//! [`Losses::add`] where its value is computed; sums over epochs, logs, curves and pages follow the table. Where its
//! weight is a new key of the recipe, that key is a row of the recipe's.

use crate::recipe::{MethodKind, Recipe};
use multivalued_engine::{Tensor, Var};

macro_rules! terms {
    ($($(#[doc = $doc:literal])* $name:ident: $key:literal, $weight:expr;)*) => {
        const TERMS: &[Term] =
            &[$(Term { name: stringify!($name), #[cfg(test)] key: $key, weight: $weight }),*];

        /// The terms of one step's loss, before their weights; 0 where a term does not count.
        #[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct LossTerms {
            /// The sum that was minimised.
            pub total: f32,
            $($(#[doc = $doc])* pub $name: f32,)*
        }

        impl LossTerms {
            /// The term of that name.
            fn named(&mut self, name: &str) -> &mut f32 {
                match name {
                    $(stringify!($name) => &mut self.$name,)*
                    _ => panic!("the loss has no term {name}"),
                }
            }

            /// Adds another step's.
            pub(crate) fn add(&mut self, other: &Self) {
                self.total += other.total;
                $(self.$name += other.$name;)*
            }

            /// The mean of so many steps that were added.
            pub(crate) fn mean(&self, steps: f32) -> Self {
                Self { total: self.total / steps, $($name: self.$name / steps,)* }
            }
        }
    };
}

terms! {
    /// L_recon.
    reconstruction: "loss.reconstruction_with_energy", |recipe, progress| {
        if energy_counts(recipe, progress) { recipe.loss.reconstruction_with_energy } else { 1.0 }
    };
    /// L_CE. Paper: §4.1, it is left out of the first epochs.
    cross_entropy: "loss.cross_entropy", |recipe, progress| {
        if progress >= recipe.loss.cross_entropy_from { recipe.loss.cross_entropy } else { 0.0 }
    };
    /// L_commit; 0 where the assignment needs no pair encoder.
    commitment: "loss.commitment", |recipe, _| recipe.loss.commitment;
    /// L_cov. It has no part in the sum: the codebook descends it by itself, after the step.
    covariance: "loss.covariance", |_, _| 0.0;
    /// Cross-entropy of the head for the empty mask; 0 where there is none.
    emptiness: "loss.emptiness", |recipe, _| recipe.loss.emptiness;
    /// Soft Jaccard distance of annotations to their codes' outputs; 0 before it counts: while codes still share all
    /// annotations, each would be drawn to the same middle.
    overlap: "loss.overlap", |recipe, progress| {
        if progress >= recipe.assignment.anneal_until { recipe.loss.overlap } else { 0.0 }
    };
    /// The energy score; 0 before it counts.
    energy: "loss.energy", |recipe, progress| {
        if energy_counts(recipe, progress) { recipe.loss.energy } else { 0.0 }
    };
    /// KL(posterior ‖ prior) of the Probabilistic U-Net; 0 for other methods.
    divergence: "method.divergence", |recipe, _| recipe.method.divergence;
}

/// A row of the table.
struct Term {
    name: &'static str,
    /// The key of the recipe that its weight comes from; a test holds it against the recipe's reference.
    #[cfg(test)]
    key: &'static str,
    /// Its weight at some point of a training (0 to 1).
    weight: fn(&Recipe, f32) -> f32,
}

/// Baselines have no energy score, so that their reconstruction keeps its weight.
fn energy_counts(recipe: &Recipe, progress: f32) -> bool {
    let loss = &recipe.loss;
    recipe.method.kind == MethodKind::Multivalued && loss.energy > 0.0 && progress >= loss.energy_from
}

/// The terms of a batch's loss, on the tape.
pub(crate) struct Losses {
    /// Of all terms of the table, at this point of the training.
    weights: Vec<f32>,
    added: Vec<Added>,
}

struct Added {
    name: &'static str,
    weight: f32,
    value: Var,
}

impl Losses {
    /// No terms yet, of a step at some point of the training (0 to 1).
    pub fn new(recipe: &Recipe, progress: f32) -> Self {
        let weights = TERMS.iter().map(|term| (term.weight)(recipe, progress)).collect();
        Self { weights, added: Vec::new() }
    }

    /// Adds the value of a term of the table.
    pub fn add(&mut self, name: &'static str, value: Var) {
        self.added.push(Added { name, weight: self.weight(name), value });
    }

    /// Whether a term has a weight at this point of the training, so that it must be computed.
    pub fn counts(&self, name: &str) -> bool {
        self.weight(name) > 0.0
    }

    fn weight(&self, name: &str) -> f32 {
        let place = TERMS.iter().position(|term| term.name == name);
        self.weights[place.unwrap_or_else(|| panic!("the loss has no term {name}"))]
    }

    /// The weighted sum. Terms of weight 0 are only watched; the first one always counts.
    pub fn total(&self) -> Var {
        let (first, rest) = self.added.split_first().expect("a loss has a term");
        let weighted = |term: &Added| term.value.scale(term.weight);
        let counting = rest.iter().filter(|term| term.weight > 0.0);
        counting.fold(weighted(first), |total, term| total.add(&weighted(term)))
    }

    /// The term of that name, where it is there.
    #[cfg(test)]
    pub fn get(&self, name: &str) -> Option<&Var> {
        self.added.iter().find(|term| term.name == name).map(|term| &term.value)
    }

    /// The values, to be read when the tape is spent.
    pub fn into_values(self) -> Vec<(&'static str, Tensor)> {
        self.added.into_iter().map(|term| (term.name, term.value.into_tensor())).collect()
    }
}

impl LossTerms {
    /// From a total and the values of the terms that are there.
    pub(crate) fn new(total: f32, values: impl Iterator<Item = (&'static str, f32)>) -> Self {
        let mut terms = Self { total, ..Self::default() };
        values.for_each(|(name, value)| *terms.named(name) = value);
        terms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_engine::Device;

    #[test]
    fn a_total_weighs_its_terms_and_every_name_has_a_place() {
        let value = |value| Var::constant(Tensor::full(&Device::cpu(), [], value));
        let mut recipe = Recipe::default();
        recipe.loss.reconstruction_with_energy = 2.0;
        (recipe.loss.energy, recipe.loss.energy_from) = (0.5, 0.7);
        recipe.loss.cross_entropy_from = 0.9;
        let mut losses = Losses::new(&recipe, 0.8);
        assert!(losses.counts("energy") && !losses.counts("cross_entropy"));
        losses.add("reconstruction", value(3.0));
        losses.add("cross_entropy", value(f32::NAN));
        losses.add("energy", value(4.0));
        assert_eq!(losses.total().item(), 8.0);
        assert_eq!(losses.get("energy").map(Var::item), Some(4.0));
        let names = || TERMS.iter().zip(1u8..).map(|(term, i)| (term.name, f32::from(i)));
        let mut terms = LossTerms::new(9.0, names());
        let stored = serde_json::to_value(terms).unwrap();
        assert_eq!(stored.as_object().unwrap().len(), 1 + names().count(), "no term is left out");
        assert!(names().all(|(name, value)| stored[name] == value));
        terms.add(&terms.clone());
        assert_eq!(terms.mean(2.0), LossTerms::new(9.0, names()));
    }

    #[test]
    fn weights_change_as_the_recipe_says() {
        let mut recipe = Recipe::default();
        recipe.loss.cross_entropy_from = 0.05;
        let weights = |recipe: &Recipe, progress| {
            let losses = Losses::new(recipe, progress);
            ["reconstruction", "cross_entropy", "overlap", "energy"].map(|name| losses.weight(name))
        };
        assert_eq!(weights(&recipe, 0.0), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(weights(&recipe, 0.2), [1.0, 1.0, 4.0, 0.0]);
        assert_eq!(weights(&recipe, 0.7), [0.3, 1.0, 4.0, 1.0]);
        recipe.method.kind = MethodKind::Unet;
        assert_eq!(weights(&recipe, 0.7)[0], 1.0, "a baseline's reconstruction keeps its weight");
    }

    #[test]
    fn every_weight_is_explained_in_the_recipe_reference() {
        let reference = crate::recipe::reference();
        for Term { name, key, .. } in TERMS {
            let (table, key) = key.split_once('.').unwrap();
            let section = reference.split(&format!("## `[{table}]`")).nth(1).unwrap();
            let section = section.split("## ").next().unwrap();
            assert!(section.contains(&format!("| `{key}` |")), "{name}: {table}.{key} has no row");
        }
    }
}
