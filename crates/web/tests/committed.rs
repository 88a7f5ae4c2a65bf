//! The WebAssembly module that is committed: it is the one that its description says, asks for nothing, and says what
//! the crate says natively. The last two need Node and skip with a message without it; `scripts/test-web` compares on
//! more images.

use std::path::{Path, PathBuf};
use std::process::Command;

use multivalued_data::synthetic::{Task, TaskName};
use multivalued_web::session::Session;
use serde_json::{Value, json};

/// The bound: the program holds it.
const MOST_BYTES: usize = 1_500_000;

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("page").join(name)
}

/// FIPS 180-4.
fn sha256(bytes: &[u8]) -> String {
    let primes = || (2_u32..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    let fraction = |root: f64| ((root - root.floor()) * 4_294_967_296.0) as u32;
    let mut sums: Vec<u32> = primes().take(8).map(|p| fraction(f64::from(p).sqrt())).collect();
    let keys: Vec<u32> = primes().take(64).map(|p| fraction(f64::from(p).cbrt())).collect();
    let mut message = bytes.to_vec();
    message.push(0x80);
    message.resize(message.len().next_multiple_of(64) + if message.len() % 64 > 56 { 64 } else { 0 } - 8, 0);
    message.extend((8 * bytes.len() as u64).to_be_bytes());
    for block in message.chunks_exact(64) {
        let mut words: Vec<u32> = block
            .chunks_exact(4)
            .map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        for at in 16..64 {
            let [a, b] = [words[at - 15], words[at - 2]];
            let first = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let second = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            words.push(words[at - 16].wrapping_add(first).wrapping_add(words[at - 7]).wrapping_add(second));
        }
        let mut s = sums.clone();
        for (word, key) in words.iter().zip(&keys) {
            let choice = s[4] & s[5] ^ !s[4] & s[6];
            let high = s[4].rotate_right(6) ^ s[4].rotate_right(11) ^ s[4].rotate_right(25);
            let one = s[7].wrapping_add(high).wrapping_add(choice).wrapping_add(*key).wrapping_add(*word);
            let low = s[0].rotate_right(2) ^ s[0].rotate_right(13) ^ s[0].rotate_right(22);
            let two = low.wrapping_add(s[0] & s[1] ^ s[0] & s[2] ^ s[1] & s[2]);
            s.rotate_right(1);
            s[4] = s[4].wrapping_add(one);
            s[0] = one.wrapping_add(two);
        }
        sums.iter_mut().zip(s).for_each(|(sum, part)| *sum = sum.wrapping_add(part));
    }
    sums.iter().map(|sum| format!("{sum:08x}")).collect()
}

#[test]
fn the_module_is_the_one_that_its_description_says() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(sha256(&[7; 61]).len(), 64);
    let module = std::fs::read(page("engine.wasm.gz")).unwrap();
    let text = std::fs::read_to_string(page("engine.txt")).unwrap();
    let stated = |key: &str| {
        let line =
            text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key}: {text}"));
        line.trim().to_owned()
    };
    assert_eq!(stated("sha256"), sha256(&module), "run scripts/build-web --commit");
    assert_eq!(stated("bytes"), module.len().to_string());
    assert!(module.len() <= MOST_BYTES, "{} bytes", module.len());
    assert!(stated("compiler").starts_with("rustc ") && stated("sources").starts_with("commit "), "{text}");
}

/// The same requests to the session here and to the module in Node.
#[test]
fn the_module_says_what_the_crate_says() {
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: the module is run by node, which is not here");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let image = place.path().join("shapes.png");
    let case = &Task::new(TaskName::Shapes, 160, 1).unwrap().generate("test", 1)[0];
    let grey: Vec<u8> = case.image.pixels().iter().map(|value| (255.0 * value) as u8).collect();
    image::save_buffer(&image, &grey, 160, 160, image::ExtendedColorType::L8).unwrap();
    let small = place.path().join("small.npy");
    let header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (48, 64), }                                              \n";
    let values = (0..48 * 64).map(|at: usize| ((at % 64) * (at / 64) / 12) as u8);
    let npy = b"\x93NUMPY\x01\x00".iter().copied().chain((header.len() as u16).to_le_bytes());
    std::fs::write(&small, npy.chain(header.iter().copied()).chain(values).collect::<Vec<u8>>()).unwrap();

    let mut steps = Vec::new();
    let (mut asked, mut session, mut wanted) = (Vec::new(), Session::default(), Vec::new());
    for (model, image) in [("shapes", &image), ("lidc", &small)] {
        for name in ["B3SUMS", "fingerprint.json", "model.safetensors", "recipe.toml"] {
            steps.push(json!({ "give": [format!("{model}/{name}"), models.join(model).join(name)] }));
        }
        let name = image.file_name().unwrap().to_str().unwrap();
        steps.push(json!({ "give": [name, image] }));
        for (here, there) in [
            (
                json!({ "do": "model", "folder": models.join(model), "name": model }),
                json!({ "do": "model", "folder": model, "name": model }),
            ),
            (
                json!({ "do": "image", "files": [image], "name": "x" }),
                json!({ "do": "image", "files": [name], "name": "x" }),
            ),
            (json!({ "do": "slice", "slice": 0 }), json!({ "do": "slice", "slice": 0 })),
            (json!({ "do": "predict", "slice": 0 }), json!({ "do": "predict", "slice": 0 })),
            (json!({ "do": "whole" }), json!({ "do": "whole" })),
            (json!({ "do": "predict", "slice": 1 }), json!({ "do": "predict", "slice": 1 })),
        ] {
            wanted.push(session.ask(here.to_string().as_bytes()).map(|answer| (answer.said, answer.bytes)));
            asked.push(there["do"].clone());
            steps.push(json!({ "ask": there }));
        }
    }
    let script = place.path().join("steps.json");
    std::fs::write(&script, Value::from(steps).to_string()).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ask.mjs");
    let ran = Command::new("node").args([&tests, &page("engine.wasm.gz"), &script]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8(ran.stdout).unwrap();
    let mut lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(lines.next().unwrap(), json!({ "imports": 0 }));
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines.len(), wanted.len());
    let (mut bits, mut different) = (0, 0);
    for ((line, wanted), asked) in lines.iter().zip(&wanted).zip(&asked) {
        match wanted {
            Err(words) => assert_eq!(line["error"], **words, "{asked}"),
            Ok((said, bytes)) => {
                assert!(line.get("error").is_none(), "{line}");
                nearly_same(&line["said"], said, asked);
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                if asked == "predict" {
                    let pairs = bytes.iter().zip(line["bytes"].as_str().unwrap().as_bytes().chunks(2));
                    let apart = pairs.map(|(own, two)| {
                        let other = u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
                        (own ^ other).count_ones()
                    });
                    different += apart.sum::<u32>();
                    bits += 8 * bytes.len();
                    assert_eq!(hex.len(), line["bytes"].as_str().unwrap().len());
                } else {
                    assert_eq!(line["bytes"], hex, "{asked}");
                }
            }
        }
    }
    assert!(wanted.iter().filter(|one| one.is_err()).count() == 2, "slice 2 of 1 is refused");
    assert!(bits > 100_000 && f64::from(different) <= bits as f64 / 1e6, "{different} of {bits} bits");
}

/// Equal but for the last digits of numbers that were computed.
fn nearly_same(one: &Value, other: &Value, asked: &Value) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "{asked}");
            one.iter().for_each(|(key, value)| nearly_same(value, &other[key], asked));
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "{asked}");
            one.iter().zip(other).for_each(|(one, other)| nearly_same(one, other, asked));
        }
        (Value::Number(one), Value::Number(other)) => {
            let [one, other] = [one, other].map(|number| number.as_f64().unwrap());
            assert!((one - other).abs() <= 1e-5 * (1.0 + other.abs()), "{asked}: {one}, {other}");
        }
        _ => assert_eq!(one, other, "{asked}"),
    }
}
