//! Predictions under test: turns, views, outlines, sizes, and what is refused.

use super::*;
use crate::Error;
use crate::recipe::PredictRecipe;

fn hypothesis(columns: usize, probability: f32, code: usize) -> Hypothesis {
    Hypothesis { mask: Mask::from_fn(8, 8, |x, _| x < columns), probability, code }
}

#[test]
fn equal_outputs_are_merged_and_probabilities_sum_to_one() {
    let sorted = vec![hypothesis(4, 0.4, 3), hypothesis(2, 0.3, 1), hypothesis(4, 0.1, 7)];
    let prediction = settle(sorted, 0.99);
    let summary: Vec<(f32, usize)> = prediction.hypotheses.iter().map(|h| (h.probability, h.code)).collect();
    assert_eq!(summary.len(), 2);
    assert!((summary[0].0 - 0.625).abs() < 1e-6 && summary[0].1 == 3);
    assert!((summary[1].0 - 0.375).abs() < 1e-6 && summary[1].1 == 1);
}

#[test]
fn a_spread_gives_every_mask_an_outline_further_out_and_one_further_in() {
    let of = |changes: &[&str]| {
        let changes = [&["predict.merge_iou=1"], changes].concat();
        let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &changes);
        let network = Network::new(&recipe, &Device::cpu()).unwrap();
        predict_batch(network.model().unwrap(), &recipe, &pictures()).unwrap()
    };
    let (plain, spread) = (of(&[]), of(&["predict.spread=0.05"]));
    for (plain, spread) in plain.iter().zip(&spread) {
        assert!(spread.len() > plain.len(), "{spread:?}");
        for one in &plain.hypotheses {
            let outlines: Vec<&Hypothesis> =
                spread.hypotheses.iter().filter(|other| other.code == one.code).collect();
            let total: f32 = outlines.iter().map(|outline| outline.probability).sum();
            // Equal outlines of several codes are merged into one of them.
            assert!(outlines.len() < 3 || total >= 0.999 * one.probability, "{total} of {one:?}");
            let area = |mask: &Mask| multivalued_data::metric::area::of(mask);
            let both =
                |other: &Mask| Mask::from_fn(16, 16, |x, y| one.mask.get(0, x, y) && other.get(0, x, y));
            for outline in outlines {
                let common = area(&both(&outline.mask));
                assert_eq!(common, area(&one.mask).min(area(&outline.mask)), "one holds the other");
            }
        }
    }
}

#[test]
fn codes_and_views_that_take_turns_say_the_same() {
    let eight = ["augment.flip_horizontal=0.5", "augment.quarter_turns=true", "predict.views=8"];
    let bottleneck = ["model.code_entry=bottleneck", "augment.flip_horizontal=0.5", "predict.views=2"];
    for changes in [&[][..], &eight, &bottleneck] {
        let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, changes);
        let network = Network::new(&recipe, &Device::cpu()).unwrap();
        let model = network.model().unwrap();
        let one = encoding_values(&recipe.model, [16, 16]);
        let together = predict_in_batches(model, &recipe, &pictures(), Load::OF_PROCESSOR.values).unwrap();
        assert!(together.iter().any(|prediction| prediction.len() > 1), "{together:?}");
        for at_once in [1, 3 * one, 8 * one] {
            let parted = predict_in_batches(model, &recipe, &pictures(), at_once).unwrap();
            assert_eq!(parted, together, "{at_once}");
        }
    }
}

#[test]
fn parts_are_whole_images_or_views_of_one() {
    let whole = |images, views: usize| Part { images, views: 0..views };
    assert_eq!(parts(4, 1, 2), [whole(0..2, 1), whole(2..4, 1)]);
    assert_eq!(parts(3, 2, 4), [whole(0..2, 2), whole(2..3, 2)]);
    let of = |image: usize| [0..3, 3..6, 6..8].map(|views| Part { images: image..image + 1, views });
    assert_eq!(parts(2, 8, 3), [of(0), of(1)].concat());
    assert_eq!(parts(2, 1, 0), [whole(0..1, 1), whole(1..2, 1)]);
}

#[test]
fn codes_come_in_chunks_of_powers_of_two() {
    let codes: Vec<usize> = (0..11).collect();
    let lengths = |most| code_chunks(&codes, most).into_iter().map(<[usize]>::len).collect::<Vec<_>>();
    assert_eq!([lengths(64), lengths(7), lengths(1)], [vec![8, 2, 1], vec![4, 4, 2, 1], vec![1; 11]]);
    assert_eq!(code_chunks(&codes, 5).concat(), codes);
    assert!(code_chunks(&[], 5).is_empty());
}

#[test]
fn large_images_are_encoded_within_a_gigabyte() {
    let model = &Recipe::named("lidc").unwrap().model;
    let bytes = |side: usize| 4 * encoding_values(model, [side, side]);
    // Sixteen of LIDC's slices go together; of 2048x2048 pixels it was 16 times this as well.
    for Load { views, values } in [Load::OF_PROCESSOR, Load::OF_GPU] {
        assert!(views * bytes(128) <= 4 * values, "{}", bytes(128));
        assert!(views * bytes(2048) > 16 * (4 * values), "{}", bytes(2048));
    }
    // What is estimated is what is held: at least the finest level's features and the decoder's input.
    assert!(encoding_values(model, [1, 1]) >= 2 * model.channels[0] + model.channels[1]);
}

#[test]
fn images_without_pixels_or_numbers_are_refused() {
    let recipe = Recipe::named("shapes-tiny").unwrap();
    let predictor = Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe);
    let sound = Image::new(16, 16, 1, vec![0.5; 256]);
    for (bad, says) in [
        (Image::new(0, 16, 1, Vec::new()), "0x16 pixels"),
        (Image::new(16, 16, 1, [vec![0.5; 253], vec![f32::NAN; 3]].concat()), "3 of 256 values are NaN"),
        (Image::new(2, 2, 1, vec![f32::INFINITY; 4]), "4 of 4 values"),
    ] {
        let message = predictor.predict(&[&sound, &bad]).unwrap_err().to_string();
        assert!(message.contains("image 2 of 2") && message.contains(says), "{message}");
    }
}

#[test]
fn a_head_for_nothing_adds_the_empty_mask_to_what_codes_say() {
    let changes = ["model.empty_head=true", "predict.merge_iou=1"];
    let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &changes);
    let mut network = Network::new(&recipe, &Device::cpu()).unwrap();
    let predict = |network: &Network| {
        predict_batch(network.model().unwrap(), &recipe, &pictures()).unwrap().swap_remove(0)
    };
    let of_nothing = |said: &Prediction| -> f32 {
        said.hypotheses.iter().filter(|one| one.mask.is_empty()).map(|one| one.probability).sum()
    };
    let bias = network.parameters().find("empty.output.bias").unwrap();
    let output = network.parameters().find("generator.output.bias").unwrap();
    // What the head says holds even where no logit of any code is above zero.
    for below in [0.0, -30.0] {
        network.parameters_mut().modify(output, |bias| bias.fill(below));
        let [alone, zero, three] = [-50.0, 0.0, 3.0].map(|value| {
            network.parameters_mut().modify(bias, |bias| bias.fill(value));
            let said = predict(&network);
            assert!((said.hypotheses.iter().map(|one| one.probability).sum::<f32>() - 1.0).abs() < 1e-5);
            1.0 - of_nothing(&said)
        });
        assert!((alone - 1.0).abs() < 1e-5, "no code shows nothing: {alone}");
        let logit = |something: f32| (1.0 / something - 1.0).ln();
        assert!((logit(three) - logit(zero) - 3.0).abs() < 1e-3, "{zero} {three}");
    }
}

/// Two images of nothing in particular.
fn pictures() -> [Image; 2] {
    [37, 53].map(|by| Image::new(16, 16, 1, (0..256).map(|at| (at * by % 101) as f32 / 100.0).collect()))
}

#[test]
fn with_all_eight_views_a_turned_image_has_turned_outputs() {
    let turns = [
        "augment.flip_horizontal=0.5",
        "augment.quarter_turns=true",
        "predict.views=8",
        "predict.merge_iou=1",
    ];
    let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &turns);
    let network = Network::new(&recipe, &Device::cpu()).unwrap();
    let model = network.model().unwrap();
    let turn = Views::new(&recipe, [16, 16]);
    let images = pictures();
    let turned = turn.of(&tensor_of(&images, &Device::cpu()), 3..4).to_vec();
    let turned: Vec<Image> =
        turned.chunks_exact(256).map(|values| Image::new(16, 16, 1, values.to_vec())).collect();
    let [upright, turned] =
        [&images[..], &turned].map(|images| predict_batch(model, &recipe, images).unwrap());
    let pixels_of = |mask: &Mask| {
        (0..256).map(|at| f32::from(u8::from(mask.get(0, at % 16, at / 16)))).collect::<Vec<f32>>()
    };
    let moved_back = |mask: &Mask| {
        let mask = Tensor::from_slice(&Device::cpu(), [1, 16, 16, 1], &pixels_of(mask));
        // All other views say nothing, and each of eight has an eighth.
        let other = Tensor::zeros(&Device::cpu(), [1, 16, 16, 1]);
        let mean = (0..8).fold(None, |mean, view| {
            Some(turn.mean(if view == 3 { &mask } else { &other }, view..view + 1, 1, mean))
        });
        mean.unwrap().to_vec().into_iter().map(|value| 8.0 * value).collect::<Vec<f32>>()
    };
    let mut pixels = (0, 0);
    for (upright, turned) in upright.iter().zip(&turned) {
        for one in &upright.hypotheses {
            let same = turned.hypotheses.iter().find(|other| other.code == one.code).expect("its code");
            assert!((one.probability - same.probability).abs() < 1e-5, "{one:?} {same:?}");
            pixels.0 += 256;
            // Sums in another order may fall on the other side of zero.
            let other = moved_back(&same.mask);
            pixels.1 += pixels_of(&one.mask).into_iter().zip(other).filter(|(a, b)| a != b).count();
        }
    }
    assert!(pixels.0 > 0 && pixels.1 * 100 <= pixels.0, "{pixels:?}");
    // One view of the same images says something else.
    let one = Recipe { predict: PredictRecipe { views: 1, ..recipe.predict.clone() }, ..recipe.clone() };
    assert_ne!(predict_batch(model, &one, &pictures()).unwrap(), upright);
}

#[test]
fn an_image_with_other_channels_is_refused_with_both_numbers() {
    let recipe = Recipe::named("shapes-tiny").unwrap();
    let network = Network::new(&recipe, &Device::cpu()).unwrap();
    let predictor = Predictor::new(network, &recipe);
    let (grey, colour) = (Image::new(16, 16, 1, vec![0.5; 256]), Image::new(16, 16, 3, vec![0.5; 768]));
    assert_eq!(predictor.predict(&[&grey]).unwrap().len(), 1);
    let message = predictor.predict(&[&grey, &colour]).unwrap_err().to_string();
    assert!(
        message.contains("image 2 of 2") && message.contains("3 channels, the model takes 1"),
        "{message}"
    );
}

#[test]
fn outputs_that_are_no_numbers_are_an_error_and_no_mask() {
    for (kind, tensor) in [
        ("multivalued", "classifier"),
        ("multivalued", "codebook.codes"),
        ("multivalued", "generator"),
        ("probabilistic-unet", "generator"),
        ("unet", "generator"),
    ] {
        let kind = format!("method.kind={kind}");
        let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &[&kind]);
        let mut network = Network::new(&recipe, &Device::cpu()).unwrap();
        let parameters = network.parameters_mut();
        // Finite, as a file may hold them; what is computed from them is not.
        let id = parameters
            .ids()
            .filter(|&id| {
                let name = parameters.get(id).name();
                name.contains(tensor) && (name.ends_with("weight") || name == tensor)
            })
            .last()
            .unwrap();
        parameters.modify(id, |values| values.fill(f32::MAX));
        let predicted = Predictor::new(network, &recipe).predict(&pictures().each_ref());
        assert!(matches!(predicted, Err(Error::NotFinite { .. })), "{kind} {tensor}: {predicted:?}");
    }
}
