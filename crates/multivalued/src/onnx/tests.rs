//! Every form of a model as a file, and what is refused.

use super::*;
use crate::fixture::tiny_recipe;
use crate::network::Network;
use crate::recipe::Space;
use crate::{Mixture, Predictor};
use multivalued_engine::Device;

fn member(changes: &[&str]) -> Predictor {
    let recipe = tiny_recipe(Space::Output, changes);
    Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe)
}

fn fact(file: &File, key: &str) -> serde_json::Value {
    let (_, value) = file.facts.iter().find(|(other, _)| other == key).unwrap();
    serde_json::from_str(value).unwrap()
}

/// Forms of the networks, as changes of a recipe.
const FORMS: [&[&str]; 16] = [
    &[],
    &["model.code_entry=bottleneck"],
    &["model.code_entry=bottleneck", "model.channels=[6]", "model.head_hidden=2"],
    &["model.empty_head=true", "model.channels=[4, 6, 8, 10]"],
    &["model.classes=3", "model.input_channels=3"],
    &["model.classes=3", "model.empty_head=true", "predict.spread=0.5"],
    &["model.norm_group=0"],
    &["model.norm_group=3", "model.channels=[6, 9]"],
    &["model.head_hidden=0", "model.classifier_hidden=0"],
    &["model.classifier=learnable", "assignment.active_codes=5"],
    &["data.normalise=z-score", "model.input_channels=2"],
    &["data.normalise={ range = { low = -1000, high = 400 } }"],
    &["data.resize=[24, 16]"],
    &["data.resize=[40, 48]", "data.normalise=z-score", "model.classes=2"],
    &["method.kind=unet", "model.classes=2"],
    &["method.kind=probabilistic-unet", "method.latent_dim=3", "model.channels=[4, 6, 8]"],
];

#[test]
fn every_form_says_what_its_networks_say() {
    for form in FORMS {
        let exported = export(&member(form).into()).unwrap_or_else(|error| panic!("{form:?}: {error}"));
        let file = File::from_bytes(&exported.bytes).unwrap();
        let is_used = |name: &String| file.graph.nodes.iter().any(|node| node.inputs.contains(name));
        for (name, _) in &file.graph.constants {
            assert!(is_used(name), "{form:?}: nothing needs {name}");
        }
        let Agreement { probabilities, logits } = exported.agreement;
        assert!(probabilities < 2e-6 && logits < 2e-5, "{form:?}: {:?}", exported.agreement);
        assert_eq!(
            export(&member(form).into()).unwrap().bytes,
            exported.bytes,
            "the same model, the same file"
        );
    }
    let recipe = tiny_recipe(Space::Embedding, &[]);
    export(&Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe).into()).unwrap();
}

#[test]
fn a_mixture_is_one_graph_whose_members_give_their_shares() {
    let forms: [&[&str]; 3] = [
        &["model.empty_head=true", "predict.temperature=1.5", "predict.spread=1.0"],
        &["train.seed=2", "model.code_entry=bottleneck", "data.normalise=z-score"],
        &["method.kind=unet", "predict.merge_iou=0.5"],
    ];
    let mixture = Mixture::new(forms.map(member).into()).unwrap();
    let exported = export(&mixture).unwrap();
    let file = File::from_bytes(&exported.bytes).unwrap();
    let axes = |output: usize| file.graph.outputs[output].axes[1].clone();
    assert_eq!((axes(0), axes(1)), (Axis::Fixed(8 + 1 + 8 + 1), Axis::Fixed(8 + 8 + 1)));
    let members = fact(&file, "members");
    assert_eq!(members[0]["empty_code"], 8);
    assert_eq!(members[0]["outlines"], serde_json::json!([0.0, 1.0, -1.0]));
    assert_eq!(members[0]["temperature"], 1.5);
    assert_eq!((members[1]["codes"][0].as_u64(), members[1]["empty_code"].is_null()), (Some(9), true));
    assert_eq!((&members[2]["codes"], &members[2]["merge_iou"]), (&serde_json::json!([17]), &0.5.into()));
}

#[test]
fn the_facts_are_those_of_the_recipe() {
    let form = ["predict.min_probability=0.25", "predict.merge_iou=0.75", "predict.empty_shift=0.5"];
    let views = ["predict.views=4", "augment.flip_horizontal=0.5", "assignment.active_codes=3"];
    let file = file_of(&member(&[&form[..], &views].concat()).into()).unwrap();
    let facts: Vec<(&str, serde_json::Value)> =
        ["format", "channels", "classes", "normalise", "resize", "views", "noise", "merge_iou"]
            .map(|key| (key, fact(&file, key)))
            .to_vec();
    let expected = serde_json::json!(["multivalued-onnx/1", 1, 1, "min-max", null, 4, null, 0.75]);
    assert_eq!(facts.into_iter().map(|(_, value)| value).collect::<serde_json::Value>(), expected);
    let expected = serde_json::json!([{
        "codes": [0, 1, 2], "empty_code": null, "min_probability": 0.25, "merge_iou": 0.75, "outlines": [0.0],
        "temperature": 1.0, "empty_temperature": 1.0, "empty_shift": 0.5
    }]);
    assert_eq!(fact(&file, "members"), expected);
    let samples = ["method.kind=probabilistic-unet", "predict.samples=12", "predict.temperature=2.0"];
    let file = file_of(&member(&samples).into()).unwrap();
    assert_eq!(fact(&file, "noise"), serde_json::json!({ "samples": 12, "latent_dim": 6 }));
    assert_eq!(fact(&file, "members")[0]["temperature"], 1.0, "counted draws stay as they are");
}

#[test]
fn a_file_that_says_something_else_is_refused() {
    let model: Mixture = member(&["model.empty_head=true"]).into();
    let file = file_of(&model).unwrap();
    check::check(&file.to_bytes(), &model).unwrap();
    let changed = |change: &dyn Fn(&mut File)| {
        let mut file = file.clone();
        change(&mut file);
        check::check(&file.to_bytes(), &model).unwrap_err().to_string()
    };
    let weight = |name: &'static str, value: f32| {
        move |file: &mut File| {
            let (_, found) = file.graph.constants.iter_mut().find(|(other, _)| other == name).unwrap();
            let graph::Value::Real(array) = found else { panic!("weights are f32") };
            array.values[0] += value;
        }
    };
    assert!(changed(&weight("generator.output.bias", 0.01)).contains("logits are apart"));
    assert!(changed(&weight("generator.output.bias", f32::NAN)).contains("logits are apart by inf"));
    assert!(changed(&weight("empty.output.bias", 0.01)).contains("probabilities are apart"));
    let relu = |file: &mut File| {
        file.graph.nodes.iter_mut().find(|node| node.operation == "Relu").unwrap().operation = "Abs".into();
    };
    assert!(changed(&relu).contains("apart"));
    assert!(changed(&|file| _ = file.graph.outputs.pop()).contains("two outputs"));
    let torn = &file.to_bytes()[..1000];
    assert!(check::check(torn, &model).unwrap_err().to_string().contains("cannot be read back"));
}

#[test]
fn mixtures_that_no_graph_is_made_of_are_refused_by_name() {
    let sampled = ["method.kind=probabilistic-unet"];
    let cases: [(&[&[&str]], &str); 2] =
        [(&[&["data.resize=[24, 24]"], &[]], "`data.resize`"), (&[&sampled, &sampled], "`method.kind`")];
    for (members, key) in cases {
        let mixture = Mixture::new(members.iter().map(|form| member(form)).collect()).unwrap();
        let error = export(&mixture).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("one by one"), "{error}");
    }
}
