//! Several models that predict together: seeds of one recipe, or the folds of a cross-validation.
//!
//! Each of K members gives 1/K of the probability. With GED² as a distance between weighted sets, the mixture is
//! never worse than its members are on average:
//!
//! ```text
//! GED(mixture) = mean of GED(member) − half the mean of GED(member, other member) over all K² pairs
//! ```

mod members;

pub use members::{MIXTURE, MOST_MEMBERS, Members, exists, is_handed_on};

use crate::predict::settle;
use crate::recipe::{DataRecipe, MethodKind, Recipe};
use crate::train::checkpoint;
use crate::{Error, Limit, Predictor, Result, shipped};
use multivalued_data::{Hypothesis, Image, Prediction, files};
use multivalued_engine::Device;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

/// Models that predict together; one alone predicts as it would by itself.
pub struct Mixture {
    members: Vec<Predictor>,
    recipe: Recipe,
}

impl From<Predictor> for Mixture {
    fn from(member: Predictor) -> Self {
        Self { recipe: member.recipe().clone(), members: vec![member] }
    }
}

impl Mixture {
    /// Some models as one. An error where they do not take the same images, or say different things of them.
    pub fn new(members: Vec<Predictor>) -> Result<Self> {
        let recipe = common_recipe(&members)?;
        Self::with_recipe(members, recipe)
    }

    fn with_recipe(members: Vec<Predictor>, recipe: Recipe) -> Result<Self> {
        for (at, member) in members.iter().enumerate() {
            let own = member.recipe();
            let sampled = |recipe: &Recipe| recipe.method.kind == MethodKind::ProbabilisticUnet;
            let samples = |recipe: &Recipe| if sampled(recipe) { recipe.predict.samples } else { 0 };
            let facts = [
                ("input channels", own.model.input_channels, recipe.model.input_channels),
                ("classes", own.model.classes, recipe.model.classes),
                ("neighbouring slices on either side", own.data.context, recipe.data.context),
                // Probabilities that were stated and ones that were counted are scored differently.
                ("samples an image", samples(own), samples(members[0].recipe())),
            ];
            if let Some((what, has, wanted)) = facts.iter().find(|(_, has, wanted)| has != wanted) {
                return Err(Error::recipe(
                    "mixture",
                    format!(
                        "member {} of {} has {has} {what}, the mixture {wanted}; members must agree in that",
                        at + 1,
                        members.len()
                    ),
                ));
            }
        }
        Ok(Self { members, recipe })
    }

    /// The mixture in a folder.
    pub fn open(folder: &Path, device: &Device) -> Result<Self> {
        let folders = Members::read(folder)?.folders(folder);
        let recipe = Recipe::read(&folder.join(shipped::RECIPE))?;
        recipe.validate()?;
        let members = folders.iter().map(|member| open_member(member, device));
        Self::with_recipe(members.collect::<Result<_>>()?, recipe)
    }

    /// The same with another number of views of each image.
    pub fn with_views(mut self, views: usize) -> Result<Self> {
        let members = self.members.into_iter().map(|member| member.with_views(views));
        self.members = members.collect::<Result<_>>()?;
        self.recipe.predict.views = views;
        Ok(self)
    }

    /// The same within a limit of memory, which each member keeps by itself: they predict one after the other.
    pub fn within(mut self, limit: &Limit) -> Self {
        self.members = self.members.into_iter().map(|member| member.within(limit.clone())).collect();
        self
    }

    /// What the members have in common; of one alone its recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The only model; none of a mixture of several.
    pub fn alone(mut self) -> Option<Predictor> {
        self.members.pop().filter(|_| self.members.is_empty())
    }

    /// The models.
    pub fn members(&self) -> &[Predictor] {
        &self.members
    }

    /// Refuses images that [`predict`](Self::predict) would refuse.
    pub fn check(&self, images: &[&Image]) -> Result<()> {
        self.members[0].check(images)
    }

    /// The weighted set of each image, most probable first: all members' outputs, each member's probabilities
    /// divided by their number, equal outputs merged.
    pub fn predict(&self, images: &[&Image]) -> Result<Vec<Prediction>> {
        if let [alone] = &self.members[..] {
            return alone.predict(images);
        }
        let said = self.members.iter().map(|member| member.predict(images));
        let said = said.collect::<Result<Vec<Vec<Prediction>>>>()?;
        let mut by_image: Vec<Vec<Prediction>> = images.iter().map(|_| Vec::new()).collect();
        for of_member in said {
            by_image.iter_mut().zip(of_member).for_each(|(all, one)| all.push(one));
        }
        let codes: Vec<usize> = self.members.iter().map(|member| codes_of(member.recipe())).collect();
        Ok(by_image
            .into_par_iter()
            .map(|said| together(said, &codes, self.recipe.predict.merge_iou))
            .collect())
    }
}

/// How many numbers a model's hypotheses may carry as their code.
pub(crate) fn codes_of(recipe: &Recipe) -> usize {
    match recipe.method.kind {
        MethodKind::ProbabilisticUnet => recipe.predict.samples,
        // The empty mask's own head counts as the last code.
        _ => recipe.model.code_count + usize::from(recipe.model.empty_head),
    }
}

/// What several models say of one image as one weighted set. Codes are counted on from member to member, so that
/// a code's number still says whose it is.
fn together(said: Vec<Prediction>, codes: &[usize], merge_iou: f32) -> Prediction {
    let share = 1.0 / said.len() as f32;
    let draws = said.iter().map(|one| one.draws).sum::<Option<usize>>();
    let mut all: Vec<Hypothesis> = Vec::new();
    let mut before = 0;
    for (prediction, own) in said.into_iter().zip(codes) {
        all.extend(prediction.hypotheses.into_iter().map(|one| Hypothesis {
            probability: one.probability * share,
            code: one.code + before,
            ..one
        }));
        before += own;
    }
    all.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
    Prediction { draws, ..settle(all, merge_iou) }
}

/// A member's folder: a model that was handed on, or a run.
fn open_member(folder: &Path, device: &Device) -> Result<Predictor> {
    if shipped::exists(folder) {
        return Predictor::open_shipped(folder, device);
    }
    let best = folder.join("best");
    files::refuse_link(&best)?;
    match checkpoint::exists(&best) {
        true => Predictor::open(&best, device),
        false => {
            let reason = "is a member of a mixture and holds no model; fetch or combine it again";
            Err(Error::checkpoint(folder, reason))
        }
    }
}

/// What a member was trained on, wherever that lies.
fn data_of(member: &Predictor) -> DataRecipe {
    member.recipe().without_place().data
}

/// Whether these are all folds of one cross-validation, in any order.
fn are_folds(members: &[Predictor]) -> bool {
    let whole = |member: &Predictor| DataRecipe { fold: 0, ..data_of(member) };
    let numbers: BTreeSet<usize> = members.iter().map(|member| member.recipe().data.fold).collect();
    members.first().is_some_and(|first| whole(first).folds == members.len())
        && numbers.into_iter().eq(1..=members.len())
        && members.iter().all(|member| whole(member) == whole(&members[0]))
}

/// The first member's recipe; it names data only where all members were trained on the same parts of the same
/// data, or are the folds of one cross-validation.
fn common_recipe(members: &[Predictor]) -> Result<Recipe> {
    let Some(first) = members.first() else {
        return Err(Error::recipe("mixture", "has no members"));
    };
    let mut recipe = first.recipe().without_place();
    if are_folds(members) {
        recipe.data.fold = 0;
    } else if members.iter().any(|one| data_of(one) != recipe.data) {
        recipe.data.task.clear();
        (recipe.data.folds, recipe.data.fold) = (0, 0);
    }
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, tiny_recipe};
    use crate::network::Network;
    use crate::recipe::Space;
    use multivalued_data::metric::{Comparison, ged};
    use multivalued_data::{Annotation, Case, Mask};

    fn member(changes: &[&str]) -> Predictor {
        let recipe = tiny_recipe(Space::Output, changes);
        Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe)
    }

    fn members(count: usize) -> Vec<Predictor> {
        // Merging of what is equal alone changes no distance.
        let one = |seed: usize| member(&[&format!("train.seed={}", seed + 1), "predict.merge_iou=1"]);
        (0..count).map(one).collect()
    }

    /// GED² of a prediction against weighted annotations.
    fn distance(case: &Case, prediction: &Prediction) -> f64 {
        ged::exact(&Comparison::new(case, prediction).unwrap())
    }

    /// What a model says as if readers had drawn it.
    fn as_readers(case: &Case, said: &Prediction) -> Case {
        let drawn =
            |one: &Hypothesis| Annotation { mask: one.mask.clone(), rater: None, weight: one.probability };
        Case { annotations: said.hypotheses.iter().map(drawn).collect(), ..case.clone() }
    }

    #[test]
    fn a_mixture_is_better_than_its_members_by_half_their_mean_distance() {
        let mixture = Mixture::new(members(3)).unwrap();
        for case in cases(4, [16, 16], 1, 1) {
            let said: Vec<Prediction> =
                mixture.members().iter().map(|one| one.predict(&[&case.image]).unwrap().remove(0)).collect();
            let together = mixture.predict(&[&case.image]).unwrap().remove(0);
            let mean = said.iter().map(|one| distance(&case, one)).sum::<f64>() / 3.0;
            let pairs = said.iter().flat_map(|a| said.iter().map(move |b| (a, b)));
            let apart = pairs.map(|(a, b)| distance(&as_readers(&case, a), b)).sum::<f64>() / 9.0;
            assert!(apart > 0.01, "the members say different things: {apart}");
            let wanted = mean - apart / 2.0;
            let found = distance(&case, &together);
            assert!((found - wanted).abs() < 1e-5, "{found}, {wanted}");
            let sum: f32 = together.hypotheses.iter().map(|one| one.probability).sum();
            assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        }
    }

    #[test]
    fn equal_outputs_are_merged_and_codes_tell_the_member() {
        let said = |columns: usize, probability: f32, code: usize| Hypothesis {
            mask: Mask::from_fn(8, 8, |x, _| x < columns),
            probability,
            code,
        };
        let one = Prediction::stated(vec![said(4, 0.75, 1), said(2, 0.25, 0)]);
        let two = Prediction::stated(vec![said(4, 0.5, 0), said(6, 0.5, 3)]);
        let all = together(vec![one, two], &[4, 4], 0.99);
        let found: Vec<(f32, usize)> = all.hypotheses.iter().map(|one| (one.probability, one.code)).collect();
        assert_eq!(found, [(0.625, 1), (0.25, 7), (0.125, 0)]);
        assert_eq!(all.draws, None);
        // Draws of several samplers are draws of their mixture.
        let drawn =
            |columns| Prediction { draws: Some(2), ..Prediction::stated(vec![said(columns, 1.0, 0)]) };
        assert_eq!(together(vec![drawn(2), drawn(4)], &[2, 2], 0.99).draws, Some(4));
    }

    #[test]
    fn one_alone_and_a_model_with_itself_say_what_it_says() {
        let image = &cases(1, [16, 16], 1, 1)[0].image;
        let alone = members(1).remove(0).predict(&[image]).unwrap();
        assert_eq!(Mixture::from(members(1).remove(0)).predict(&[image]).unwrap(), alone);
        let twice = vec![members(1).remove(0), members(1).remove(0)];
        let twice = Mixture::new(twice).unwrap().predict(&[image]).unwrap().remove(0);
        assert_eq!(twice.len(), alone[0].len());
        for (a, b) in twice.hypotheses.iter().zip(&alone[0].hypotheses) {
            assert!((a.probability - b.probability).abs() < 1e-6 && a.mask == b.mask);
        }
    }

    #[test]
    fn members_that_differ_in_what_they_take_or_say_are_refused() {
        for (change, what) in [
            ("model.input_channels=3", "3 input channels, the mixture 1"),
            ("model.classes=2", "2 classes, the mixture 1"),
            ("method.kind=probabilistic-unet", "100 samples an image, the mixture 0"),
        ] {
            let error = Mixture::new(vec![member(&[]), member(&[change])]).err().unwrap().to_string();
            assert!(error.contains("member 2 of 2") && error.contains(what), "{error}");
        }
        assert!(Mixture::new(Vec::new()).is_err());
    }

    #[test]
    fn data_are_named_only_where_all_members_know_the_same() {
        let data = |changes: &[&[&str]]| {
            let members = changes.iter().map(|one| member(&[&["data.task=shapes"], *one].concat())).collect();
            let data = Mixture::new(members).unwrap().recipe().data.clone();
            (data.task, data.folds, data.fold)
        };
        assert_eq!(data(&[&[], &["train.seed=2"]]), ("shapes".into(), 0, 0));
        assert_eq!(data(&[&[], &["data.seed=2"]]), (String::new(), 0, 0));
        let [one, two] = [["data.folds=2", "data.fold=1"], ["data.folds=2", "data.fold=2"]];
        assert_eq!(data(&[&one, &two]), ("shapes".into(), 2, 0));
        assert_eq!(data(&[&two, &one]), ("shapes".into(), 2, 0), "in another order");
        assert_eq!(data(&[&one, &one]), ("shapes".into(), 2, 1), "two seeds of one fold");
    }
}
