//! `export --onnx`: runs, models and mixtures as files of one graph. What the files compute is held against
//! onnxruntime by `scripts/test-onnx`, and against the networks by the program itself.

use std::fs;

use crate::shipped::model;
use crate::workplace::Workplace;

impl Workplace {
    /// Exports a model, and gives the file.
    #[track_caller]
    fn onnx(&self, folder: &str) -> Vec<u8> {
        let said = self.run(&["export", folder, "--onnx", "model.onnx"]).succeeds().out;
        assert!(said.contains("model.onnx") && said.contains("logits within"), "{said}");
        let bytes = fs::read(self.path("model.onnx")).unwrap();
        // The version of the format, then who made it.
        assert_eq!(bytes[..15], *b"\x08\x08\x12\x0bmultivalued");
        bytes
    }
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn runs_models_and_mixtures_become_onnx_files() {
    let place = Workplace::with_recipe();
    place.train("run", &["--set", "predict.views=2", "--set", "augment.flip_horizontal=0.5"]).trained();
    let answer = place.run(&["export", "run", "--onnx", "run.onnx"]).succeeds();
    assert!(
        answer.err.contains("looks at an image once") && answer.err.contains("2 views"),
        "{}",
        answer.err
    );
    let of_run = fs::read(place.path("run.onnx")).unwrap();
    assert_eq!(place.onnx("run/best"), of_run, "a checkpoint is a model");
    for part in ["probabilities", "logits", "merge_iou", "multivalued-onnx/1"] {
        assert!(contains(&of_run, part), "{part}");
    }
    let machine = place.root().to_string_lossy().into_owned();
    assert!(!contains(&of_run, &machine), "nothing of this machine");

    // With a folder beside it; the folder's weights are rounded, the run's are not.
    place.run(&["export", "run", "--out", "model", "--onnx", "both.onnx"]).succeeds();
    assert_eq!(fs::read(place.path("both.onnx")).unwrap(), of_run);
    let of_model = place.onnx("model");
    assert_eq!(of_model.len(), of_run.len());
    assert_ne!(of_model, of_run);

    place.train("other", &["--set", "model.code_entry=bottleneck"]).trained();
    place.run(&["combine", "run", "other", "--out", "mixture"]).succeeds();
    let of_mixture = place.onnx("mixture");
    assert!(contains(&of_mixture, "member-2/generator.entry.weight"));

    let piped = place.command(&["export", "model", "--onnx", "-"]).output().unwrap();
    assert!(piped.status.success() && piped.stdout == of_model, "standard output is the file alone");
}

#[test]
fn the_models_that_come_with_the_program_become_onnx_files() {
    let place = Workplace::new();
    for (name, code) in [("lidc", "\"empty_code\":16"), ("shapes", "\"empty_code\":null")] {
        let bytes = place.onnx(model(name).to_str().unwrap());
        assert!(contains(&bytes, code), "{name}");
    }
}

#[test]
fn what_cannot_be_exported_is_refused_and_leaves_no_file() {
    let place = Workplace::with_recipe();
    place.run(&["export", "run"]).fails(2, &["--out", "--onnx"]);
    place.run(&["export", "run", "--onnx", "x.onnx"]).fails(2, &["run"]);
    place.train("plain", &[]).trained();
    place.run(&["export", "plain", "--onnx", "x.onnx", "--attribution", "mine"]).fails(2, &["--out"]);
    place.run(&["export", "plain", "--onnx", "nowhere/x.onnx"]).fails(2, &["nowhere", "make it first"]);
    place.run(&["export", "plain", "--onnx", "plain"]).fails(2, &["plain", "is a folder"]);

    place.train("small", &["--set", "data.resize=[12, 12]"]).trained();
    place.run(&["combine", "plain", "small", "--out", "sizes"]).succeeds();
    let refused = ["sizes", "data.resize", "one by one"];
    place.run(&["export", "sizes", "--onnx", "x.onnx"]).fails(2, &refused);
    let sampler = ["--set", "method.kind=probabilistic-unet", "--set", "predict.samples=5"];
    place.train("drawn", &sampler).trained();
    place.train("again", &[&sampler[..], &["--seed", "2"]].concat()).trained();
    place.run(&["combine", "drawn", "again", "--out", "draws"]).succeeds();
    place.run(&["export", "draws", "--onnx", "x.onnx"]).fails(2, &["draws", "method.kind", "one by one"]);
    assert!(!place.path("x.onnx").exists());
    // Each alone is a file; what stood there before is replaced.
    place.write("x.onnx", "old");
    place.run(&["export", "drawn", "--onnx", "x.onnx"]).succeeds();
    assert!(contains(&fs::read(place.path("x.onnx")).unwrap(), "latent_dim"));
}
