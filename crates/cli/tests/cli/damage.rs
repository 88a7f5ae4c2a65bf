//! Weights that are damaged are refused by name: nothing false is said with confidence.

use std::fs;
use std::path::Path;

use crate::workplace::Workplace;

/// Changes the bytes of one tensor in a safetensors file.
fn change_tensor(path: &Path, name: &str, change: impl FnOnce(&str, &mut [u8])) {
    let mut bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let at = |end: usize| 8 + length + header[name]["data_offsets"][end].as_u64().unwrap() as usize;
    change(header[name]["dtype"].as_str().unwrap(), &mut bytes[at(0)..at(1)]);
    fs::write(path, bytes).unwrap();
}

/// Writes one value of a tensor in its own type.
fn set_first(value: f32) -> impl FnOnce(&str, &mut [u8]) {
    move |dtype, bytes| match dtype {
        "F32" => bytes[..4].copy_from_slice(&value.to_le_bytes()),
        _ => {
            let half: u16 = if value.is_nan() { 0x7e00 } else { 0x7c00 };
            bytes[..2].copy_from_slice(&half.to_le_bytes());
        }
    }
}

/// The types of a model's tensors by name.
fn types(path: &Path) -> Vec<(String, String)> {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    tensors.map(|(name, told)| (name.clone(), told["dtype"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_model_with_damaged_weights_says_nothing() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.run(&["export", "run", "--out", "model"]).succeeds();
    place.png("image.png", 16, &[7; 256]);
    let (weights, sums) = (place.path("model/model.safetensors"), place.path("model/B3SUMS"));
    let [whole, stated] = [&weights, &sums].map(|path| fs::read(path).unwrap());
    let predict = ["predict", "model", "image.png", "--out", "said"];

    for (name, dtype) in types(&weights) {
        let stays = name.starts_with("classifier.") || name.starts_with("codebook.");
        assert_eq!(dtype, if stays { "F32" } else { "F16" }, "{name}");
    }
    // Whatever is changed, the checksum tells; without one, what cannot be is refused by the tensor's name.
    for (tensor, value, said) in [
        ("codebook.codes", f32::INFINITY, "holds inf"),
        ("codebook.codes", f32::NAN, "holds NaN"),
        ("image_encoder", f32::NAN, "holds NaN"),
        ("generator", f32::INFINITY, "holds inf"),
        ("classifier", f32::NAN, "holds NaN"),
    ] {
        let (name, _) = types(&weights).into_iter().find(|(name, _)| name.starts_with(tensor)).unwrap();
        change_tensor(&weights, &name, set_first(value));
        place.run(&predict).fails(2, &["model/model.safetensors", "does not match B3SUMS"]);
        fs::remove_file(&sums).unwrap();
        place.run(&predict).fails(2, &["has no B3SUMS", &format!("tensor `{name}` {said}")]);
        fs::write(&weights, &whole).unwrap();
        fs::write(&sums, &stated).unwrap();
    }
    change_tensor(&weights, "codebook.active", |_, bytes| bytes.fill(0));
    fs::remove_file(&sums).unwrap();
    place.run(&predict).fails(2, &["tensor `codebook.active` is zero"]);
    // Finite weights whose outputs are not.
    fs::write(&weights, &whole).unwrap();
    change_tensor(&weights, "codebook.codes", |_, bytes| {
        bytes.chunks_exact_mut(4).for_each(|value| value.copy_from_slice(&f32::MAX.to_le_bytes()));
    });
    place.run(&predict).fails(2, &["image.png", "not finite"]);
    assert!(!place.path("said/image/prediction.json").exists());

    // One bit, in the weights and in the recipe.
    fs::write(&sums, &stated).unwrap();
    let recipe = place.path("model/recipe.toml");
    let own = fs::read(&recipe).unwrap();
    for (path, content) in [(&weights, &whole), (&recipe, &own)] {
        let mut flipped = content.clone();
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&weights, &whole).unwrap();
        fs::write(path, flipped).unwrap();
        place.run(&predict).fails(2, &[path.file_name().unwrap().to_str().unwrap(), "does not match B3SUMS"]);
        fs::write(path, content).unwrap();
    }
    // Checksums of other files.
    fs::write(&sums, "0000  else\n").unwrap();
    place.run(&predict).fails(2, &["B3SUMS", "says nothing of"]);
    // Models had none at first: they open, with a word.
    fs::remove_file(&sums).unwrap();
    let said = place.run(&predict).succeeds().err;
    assert!(said.contains("model: has no B3SUMS"), "{said}");
    fs::write(&sums, &stated).unwrap();
    let said = place.run(&["predict", "model", "image.png", "--out", "again"]).succeeds().err;
    assert!(!said.contains("B3SUMS"), "{said}");
}

#[test]
fn a_checkpoint_with_damaged_weights_is_refused_by_the_tensors_name() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    for (file, tensor, arguments) in [
        ("best/model.safetensors", "codebook.codes", &["evaluate", "run"][..]),
        ("last/average.safetensors", "codebook.codes", &["train", "--resume", "--out", "run"]),
        ("last/model.safetensors", "codebook.codes", &["train", "--resume", "--out", "run"]),
        ("last/optimiser.safetensors", "", &["train", "--resume", "--out", "run"]),
    ] {
        let path = place.path("run").join(file);
        let state = path.with_file_name("state.json");
        let [whole, stated] = [&path, &state].map(|path| fs::read(path).unwrap());
        let tensors = types(&path);
        let name = tensors.iter().map(|(name, _)| name).find(|name| name.contains(tensor)).unwrap();
        change_tensor(&path, name, set_first(f32::NAN));
        // With the hash that belongs to it, so that only the value can be what is refused.
        let mut told: serde_json::Value = serde_json::from_slice(&stated).unwrap();
        let hash = blake3::hash(&fs::read(&path).unwrap()).to_hex().to_string();
        told["files"][path.file_name().unwrap().to_str().unwrap()] = hash.into();
        fs::write(&state, serde_json::to_vec(&told).unwrap()).unwrap();
        place.run(arguments).fails(2, &[file, &format!("tensor `{name}` holds NaN")]);
        fs::write(path, whole).unwrap();
        fs::write(state, stated).unwrap();
    }
    place.run(&["train", "--resume", "--out", "run"]).trained();
}
