//! The terms of the loss: name, weight and value. A term is added by a line in the list below and a call of
//! [`Losses::add`]; sums over epochs, logs, curves and pages follow the list.

use multivalued_engine::{Tensor, Var};

macro_rules! terms {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The terms of one step's loss, before their weights; 0 where a term does not count.
        #[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct LossTerms {
            /// The sum that was minimised.
            pub total: f32,
            $($(#[doc = $doc])* pub $name: f32,)*
        }

        impl LossTerms {
            #[cfg(test)]
            const NAMES: &[&str] = &[$(stringify!($name)),*];

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
    reconstruction,
    /// L_CE.
    cross_entropy,
    /// L_commit; 0 where the assignment needs no pair encoder.
    commitment,
    /// L_cov.
    covariance,
    /// Cross-entropy of the head for the empty mask; 0 where there is none.
    emptiness,
    /// Soft Jaccard distance of annotations to their codes' outputs; 0 before it counts.
    overlap,
    /// The energy score; 0 before it counts.
    energy,
    /// KL(posterior ‖ prior) of the Probabilistic U-Net; 0 for other methods.
    divergence,
}

/// The terms of a batch's loss, on the tape.
#[derive(Default)]
pub(crate) struct Losses(Vec<Term>);

struct Term {
    name: &'static str,
    weight: f32,
    value: Var,
}

impl Losses {
    /// Adds a term of [`LossTerms`] with its weight.
    pub fn add(&mut self, name: &'static str, weight: f32, value: Var) {
        self.0.push(Term { name, weight, value });
    }

    /// The weighted sum. Terms of weight 0 are only watched; the first one always counts.
    pub fn total(&self) -> Var {
        let (first, rest) = self.0.split_first().expect("a loss has a term");
        let weighted = |term: &Term| term.value.scale(term.weight);
        let counting = rest.iter().filter(|term| term.weight > 0.0);
        counting.fold(weighted(first), |total, term| total.add(&weighted(term)))
    }

    /// The term of that name, where it is there.
    #[cfg(test)]
    pub fn get(&self, name: &str) -> Option<&Var> {
        self.0.iter().find(|term| term.name == name).map(|term| &term.value)
    }

    /// The values, to be read when the tape is spent.
    pub fn into_values(self) -> Vec<(&'static str, Tensor)> {
        self.0.into_iter().map(|term| (term.name, term.value.into_tensor())).collect()
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
        let mut losses = Losses::default();
        losses.add("reconstruction", 2.0, value(3.0));
        losses.add("cross_entropy", 0.0, value(f32::NAN));
        losses.add("energy", 0.5, value(4.0));
        assert_eq!(losses.total().item(), 8.0);
        assert_eq!(losses.get("energy").map(Var::item), Some(4.0));
        let names = || LossTerms::NAMES.iter().zip(1u8..).map(|(name, i)| (*name, f32::from(i)));
        let mut terms = LossTerms::new(9.0, names());
        let stored = serde_json::to_value(terms).unwrap();
        assert_eq!(stored.as_object().unwrap().len(), 1 + names().count(), "no term is left out");
        assert!(names().all(|(name, value)| stored[name] == value));
        terms.add(&terms.clone());
        assert_eq!(terms.mean(2.0), LossTerms::new(9.0, names()));
    }
}
