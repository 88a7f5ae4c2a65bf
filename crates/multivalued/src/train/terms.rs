//! The terms of the loss: one table of their names and weights. A term is added by a row of the table, and a call of
//! [`Losses::add`] where its value is computed; sums over epochs, logs, curves and pages follow the table. Where its
//! weight is a new key of the recipe, that key is a row of the recipe's.

use crate::recipe::{MethodKind, Recipe};
use multivalued_engine::{Tensor, Var};

macro_rules! terms {
    ($($(#[doc = $doc:literal])* $Term:ident $name:ident: $key:literal, $weight:expr;)*) => {
        /// A term of the loss.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Term {
            $($(#[doc = $doc])* $Term,)*
        }

        impl Term {
            const ALL: &[Self] = &[$(Self::$Term),*];

            /// The key of the recipe that its weight comes from; a test holds it against the recipe's reference.
            #[cfg(test)]
            fn key(self) -> &'static str {
                match self { $(Self::$Term => $key,)* }
            }

            /// Its weight at some point of a training (0 to 1).
            fn weight(self, recipe: &Recipe, progress: f32) -> f32 {
                let weight: fn(&Recipe, f32) -> f32 = match self { $(Self::$Term => $weight,)* };
                weight(recipe, progress)
            }
        }

        /// The terms of one step's loss, before their weights; 0 where a term does not count.
        #[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct LossTerms {
            /// The sum that was minimised.
            pub total: f32,
            $($(#[doc = $doc])* pub $name: f32,)*
        }

        impl LossTerms {
            fn set(&mut self, term: Term, value: f32) {
                match term { $(Term::$Term => self.$name = value,)* }
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
    Reconstruction reconstruction: "loss.reconstruction_with_energy", |recipe, progress| {
        if energy_counts(recipe, progress) { recipe.loss.reconstruction_with_energy } else { 1.0 }
    };
    /// L_CE. Paper: §4.1, it is left out of the first epochs.
    CrossEntropy cross_entropy: "loss.cross_entropy", |recipe, progress| {
        if progress >= recipe.loss.cross_entropy_from { recipe.loss.cross_entropy } else { 0.0 }
    };
    /// L_commit; 0 where the assignment needs no pair encoder.
    Commitment commitment: "loss.commitment", |recipe, _| recipe.loss.commitment;
    /// L_cov. It has no part in the sum: the codebook descends it by itself, after the step.
    Covariance covariance: "loss.covariance", |_, _| 0.0;
    /// Cross-entropy of the head for the empty mask; 0 where there is none.
    Emptiness emptiness: "loss.emptiness", |recipe, _| recipe.loss.emptiness;
    /// Soft Jaccard distance of annotations to their codes' outputs; 0 before it counts: while codes still share all
    /// annotations, each would be drawn to the same middle.
    Overlap overlap: "loss.overlap", |recipe, progress| {
        if progress >= recipe.assignment.anneal_until { recipe.loss.overlap } else { 0.0 }
    };
    /// The energy score; 0 before it counts.
    Energy energy: "loss.energy", |recipe, progress| {
        if energy_counts(recipe, progress) { recipe.loss.energy } else { 0.0 }
    };
    /// KL(posterior ‖ prior) of the Probabilistic U-Net; 0 for other methods.
    Divergence divergence: "method.divergence", |recipe, _| recipe.method.divergence;
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
    term: Term,
    value: Var,
}

impl Losses {
    /// No terms yet, of a step at some point of the training (0 to 1).
    pub fn new(recipe: &Recipe, progress: f32) -> Self {
        let weights = Term::ALL.iter().map(|term| term.weight(recipe, progress)).collect();
        Self { weights, added: Vec::new() }
    }

    /// Adds the value of a term.
    pub fn add(&mut self, term: Term, value: Var) {
        self.added.push(Added { term, value });
    }

    /// Whether a term has a weight at this point of the training, so that it must be computed.
    pub fn counts(&self, term: Term) -> bool {
        self.weight(term) > 0.0
    }

    fn weight(&self, term: Term) -> f32 {
        self.weights[term as usize]
    }

    /// The weighted sum. Terms of weight 0 are only watched; the first one always counts.
    pub fn total(&self) -> Var {
        let (first, rest) = self.added.split_first().expect("a loss has a term");
        let weighted = |added: &Added| added.value.scale(self.weight(added.term));
        let counting = rest.iter().filter(|added| self.counts(added.term));
        counting.fold(weighted(first), |total, added| total.add(&weighted(added)))
    }

    /// The value of a term, where it is there.
    #[cfg(test)]
    pub fn get(&self, term: Term) -> Option<&Var> {
        self.added.iter().find(|added| added.term == term).map(|added| &added.value)
    }

    /// The values, to be read when the tape is spent.
    pub fn into_values(self) -> Vec<(Term, Tensor)> {
        self.added.into_iter().map(|added| (added.term, added.value.into_tensor())).collect()
    }
}

impl LossTerms {
    /// From a total and the values of the terms that are there.
    pub(crate) fn new(total: f32, values: impl Iterator<Item = (Term, f32)>) -> Self {
        let mut terms = Self { total, ..Self::default() };
        values.for_each(|(term, value)| terms.set(term, value));
        terms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_engine::Device;

    #[test]
    fn a_total_weighs_its_terms_and_every_term_has_a_field() {
        let value = |value| Var::constant(Tensor::full(&Device::cpu(), [], value));
        let mut recipe = Recipe::default();
        recipe.loss.reconstruction_with_energy = 2.0;
        (recipe.loss.energy, recipe.loss.energy_from) = (0.5, 0.7);
        recipe.loss.cross_entropy_from = 0.9;
        let mut losses = Losses::new(&recipe, 0.8);
        assert!(losses.counts(Term::Energy) && !losses.counts(Term::CrossEntropy));
        losses.add(Term::Reconstruction, value(3.0));
        losses.add(Term::CrossEntropy, value(f32::NAN));
        losses.add(Term::Energy, value(4.0));
        assert_eq!(losses.total().item(), 8.0);
        assert_eq!(losses.get(Term::Energy).map(Var::item), Some(4.0));
        let values = || Term::ALL.iter().copied().zip((1u8..).map(f32::from));
        let mut terms = LossTerms::new(9.0, values());
        let stored = serde_json::to_value(terms).unwrap();
        let mut stored: Vec<_> =
            stored.as_object().unwrap().values().map(|value| value.as_f64().unwrap()).collect();
        stored.sort_by(f64::total_cmp);
        let mut expected: Vec<_> = values().map(|(_, value)| f64::from(value)).chain([9.0]).collect();
        expected.sort_by(f64::total_cmp);
        assert_eq!(stored, expected, "each term has a field of its own");
        terms.add(&terms.clone());
        assert_eq!(terms.mean(2.0), LossTerms::new(9.0, values()));
    }

    #[test]
    fn weights_change_as_the_recipe_says() {
        let mut recipe = Recipe::default();
        recipe.loss.cross_entropy_from = 0.05;
        let weights = |recipe: &Recipe, progress| {
            let losses = Losses::new(recipe, progress);
            [Term::Reconstruction, Term::CrossEntropy, Term::Overlap, Term::Energy]
                .map(|term| losses.weight(term))
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
        for term in Term::ALL {
            let (table, key) = term.key().split_once('.').unwrap();
            let section = reference.split(&format!("## `[{table}]`")).nth(1).unwrap();
            let section = section.split("## ").next().unwrap();
            assert!(section.contains(&format!("| `{key}` |")), "{term:?}: {table}.{key} has no row");
        }
    }

    #[test]
    fn every_term_is_explained_among_the_numbers_of_the_log() {
        let page = include_str!("../../../../docs/run-folder.md");
        let terms = serde_json::to_value(LossTerms::default()).unwrap();
        for name in terms.as_object().unwrap().keys() {
            assert!(
                page.contains(&format!("`loss.{name}`")),
                "docs/run-folder.md says nothing of loss.{name}"
            );
        }
    }
}
