//! Predictions of a GPU against those of the CPU, with every kind of view. Skips where there is no GPU.

use super::*;
use crate::Mixture;
use crate::fixture::{cases, tiny_recipe};
use crate::recipe::Space;
use multivalued_data::Annotation;
use multivalued_data::metric::{Comparison, ged};
use multivalued_engine::Precision;

fn gpu() -> Option<Device> {
    Device::cuda(0, Precision::F32).map_err(|error| println!("skipped: {error}")).ok()
}

/// GED² between two weighted sets of masks.
fn distance(case: &Case, a: &Prediction, b: &Prediction) -> f64 {
    let drawn =
        |one: &Hypothesis| Annotation { mask: one.mask.clone(), rater: None, weight: one.probability };
    let readers = Case { annotations: a.hypotheses.iter().map(drawn).collect(), ..case.clone() };
    ged::exact(&Comparison::new(&readers, b).unwrap())
}

const TURNS: [&str; 3] = ["augment.flip_horizontal=0.5", "augment.quarter_turns=true", "predict.views=8"];
const MOTIONS: [&str; 4] =
    ["augment.rotation=30", "augment.scale=0.4", "augment.distortion=0.1", "predict.views=5"];

#[test]
fn cuda_predicts_what_the_cpu_predicts_from_any_views() {
    let Some(gpu) = gpu() else { return };
    let classes = [&TURNS[..], &["model.classes=2"]].concat();
    let empty = [&TURNS[..], &["model.empty_head=true"]].concat();
    let resized = [&TURNS[..], &["data.resize=[24, 24]"]].concat();
    let bottleneck = [&MOTIONS[..], &["model.code_entry=bottleneck"]].concat();
    let sampled = ["method.kind=probabilistic-unet"];
    let [plain, unet] = [&[][..], &["method.kind=unet"]];
    for changes in [plain, &TURNS, &MOTIONS, &classes, &empty, &resized, &bottleneck, &sampled, unet] {
        let recipe = tiny_recipe(Space::Output, changes);
        for size in [[32, 32], [20, 27]] {
            let cases = cases(5, size, 1, recipe.model.classes);
            let predict = |device: &Device| {
                let network = Network::new(&recipe, device).unwrap();
                predict_cases(&network, &recipe, &cases).unwrap()
            };
            let (found, expected) = (predict(&gpu), predict(&Device::cpu()));
            for ((case, found), expected) in cases.iter().zip(&found).zip(&expected) {
                let apart = distance(case, expected, found);
                assert!(apart < 0.01, "{changes:?} {size:?}: {apart}");
            }
        }
    }
}

#[test]
fn cuda_says_the_same_where_codes_and_views_take_turns() {
    let Some(gpu) = gpu() else { return };
    let recipe = tiny_recipe(Space::Output, &TURNS);
    let network = Network::new(&recipe, &gpu).unwrap();
    let cases = cases(3, [16, 16], 1, 1);
    let images: Vec<Image> = cases.iter().map(|case| case.image.clone()).collect();
    let one = encoding_values(&recipe.model, [16, 16]);
    let predict = |at_once| predict_in_batches(network.model().unwrap(), &recipe, &images, at_once).unwrap();
    let together = predict(Load::OF_GPU.values);
    for at_once in [1, 3 * one, 8 * one] {
        for ((case, parted), together) in cases.iter().zip(predict(at_once)).zip(&together) {
            let apart = distance(case, together, &parted);
            assert!(apart < 0.01, "{at_once} values at once: {apart}");
        }
    }
}

#[test]
fn cuda_predicts_a_mixture_as_the_cpu_does() {
    let Some(gpu) = gpu() else { return };
    let cases = cases(3, [16, 16], 1, 1);
    let predict = |device: &Device| {
        let member = |seed: usize| {
            let recipe = tiny_recipe(Space::Output, &[&TURNS[..], &[&format!("train.seed={seed}")]].concat());
            Predictor::new(Network::new(&recipe, device).unwrap(), &recipe)
        };
        let mixture = Mixture::new(vec![member(1), member(2)]).unwrap();
        mixture.predict(&cases.iter().map(|case| &case.image).collect::<Vec<_>>()).unwrap()
    };
    for ((case, found), expected) in cases.iter().zip(predict(&gpu)).zip(predict(&Device::cpu())) {
        let apart = distance(case, &expected, &found);
        assert!(apart < 0.01, "{apart}");
    }
}
