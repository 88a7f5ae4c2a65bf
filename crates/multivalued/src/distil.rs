//! A teacher's answers as further annotations: one network learns what several say together.
//!
//! The energy score, the empty head and the classifier see a case as a weighted set of masks. So a teacher needs no
//! loss of its own: of each case's weight a share goes to what it says, the rest stays with the readers,
//!
//! ```text
//! (1 − s) · readers + s · teacher
//! ```
//!
//! and the student's score falls with its distance from both. What readers chose by chance, four draws of them, is
//! smoothed by what the teacher knows from other cases (Hinton et al., "Distilling the Knowledge in a Neural Network",
//! 2015).

use crate::Result;
use crate::mixture::Mixture;
use multivalued_data::metric::summary::short_list;
use multivalued_data::{Annotation, Case, CaseList, Image, Prediction};
use rayon::prelude::*;

/// Masks that stand for all that a teacher says of an image: a step compares each of them with every output.
const MASKS: usize = 8;

/// The cases with what a teacher says of their images beside what readers drew. `tell` is given the number of cases
/// so far.
pub fn taught(
    cases: &CaseList,
    teacher: &Mixture,
    share: f32,
    mut tell: impl FnMut(usize),
) -> Result<CaseList> {
    let mut all: Vec<Case> = Vec::with_capacity(cases.len());
    for chunk in cases.chunks() {
        let some = cases.get_all(chunk)?;
        let images: Vec<&Image> = some.iter().map(|case| &case.image).collect();
        let said = teacher.predict(&images)?;
        let with_teacher = |(case, said): (&std::sync::Arc<Case>, &Prediction)| beside(case, said, share);
        all.extend(some.par_iter().zip(&said).map(with_teacher).collect::<Result<Vec<_>>>()?);
        tell(all.len());
    }
    Ok(all.into())
}

/// A case with a short list of a prediction beside its annotations.
fn beside(case: &Case, said: &Prediction, share: f32) -> Result<Case> {
    let mut case = case.clone();
    let total: f32 = case.annotations.iter().map(|annotation| annotation.weight).sum();
    case.annotations.iter_mut().for_each(|annotation| annotation.weight *= (1.0 - share) / total);
    let list = short_list(said, MASKS)?;
    case.annotations.extend(list.prediction.hypotheses.into_iter().map(|one| Annotation {
        mask: one.mask,
        rater: Some("teacher".into()),
        weight: share * one.probability,
    }));
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::{Hypothesis, Mask};

    #[test]
    fn readers_and_teacher_share_the_weight_of_a_case() {
        let columns = |count: usize| Mask::from_fn(4, 4, |x, _| x < count);
        let annotation = |count, weight| Annotation { mask: columns(count), rater: None, weight };
        let case = Case {
            id: "one".into(),
            group: "one".into(),
            image: Image::new(4, 4, 1, vec![0.0; 16]),
            annotations: vec![annotation(1, 1.0), annotation(2, 3.0)],
            truth: None,
        };
        let one = |(code, probability)| Hypothesis { mask: columns(code), probability, code };
        let said = Prediction::stated([(2, 0.6), (0, 0.4)].map(one).into());
        let taught = beside(&case, &said, 0.5).unwrap();
        let weights: Vec<f32> = taught.annotations.iter().map(|annotation| annotation.weight).collect();
        for (weight, expected) in weights.iter().zip([0.125, 0.375, 0.3, 0.2]) {
            assert!((weight - expected).abs() < 1e-6, "{weights:?}");
        }
        assert_eq!(taught.annotations[3].mask, columns(0));
    }
}
