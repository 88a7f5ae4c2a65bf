//! Memory: a volume costs what it holds, and what does not fit ends with a sentence, not with an abort.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bad_files::nifti_header;
use crate::workplace::{Answer, Workplace};

/// A gzipped volume of 8-bit voxels that are zero but for a dot in each slice.
fn volume(size: [i16; 3]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(&nifti_header(size)).unwrap();
    let [width, height, depth] = size.map(|side| side as usize);
    for z in 0..depth {
        let mut slice = vec![0; width * height];
        slice[z % (width * height)] = 1;
        out.write_all(&slice).unwrap();
    }
    out.finish().unwrap()
}

fn bytes(size: [i16; 3]) -> u64 {
    size.into_iter().map(|side| side as u64).product()
}

/// Runs the program to its end; also the most memory that it held, where the system tells.
pub fn watched(place: &Workplace, arguments: &[&str]) -> (Answer, Option<u64>) {
    let mut command = place.command(arguments);
    command.env("RAYON_NUM_THREADS", "2").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = None;
    while child.try_wait().unwrap().is_none() {
        let held = std::fs::read_to_string(&status).ok().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.to_owned();
            line.split_whitespace().next()?.parse::<u64>().ok()
        });
        most = held.map(|kibibytes| kibibytes * 1024).max(most);
        std::thread::sleep(Duration::from_millis(2));
    }
    (Answer::of(arguments, &child.wait_with_output().unwrap()), most)
}

/// Runs the program with so many KiB of address space.
pub fn limited(place: &Workplace, kibibytes: u64, arguments: &[&str]) -> Answer {
    let limit = format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limit, env!("CARGO_BIN_EXE_multivalued")]).args(arguments);
    command.env("RAYON_NUM_THREADS", "2").current_dir(place.root()).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", place.path("user-caches"));
    Answer::of(arguments, &command.output().unwrap())
}

/// A data set of one volume and its mask, `FOLDER/manifest.jsonl`.
pub fn data_set(place: &Workplace, folder: &str, size: [i16; 3]) {
    let packed = volume(size);
    place.write(&format!("{folder}/image.nii.gz"), &packed);
    place.write(&format!("{folder}/mask.nii.gz"), &packed);
    let row = "{\"id\": \"a\", \"image\": \"image.nii.gz\", \"labels\": [\"mask.nii.gz\"]}\n";
    place.write(&format!("{folder}/manifest.jsonl"), row);
}

/// Three times the uncompressed size, beyond what the same command takes for a volume of one batch.
#[track_caller]
fn assert_three_times(most: Option<u64>, least: Option<u64>, size: [i16; 3]) {
    let (Some(most), Some(least)) = (most, least) else { return };
    let (extra, volume) = (most.saturating_sub(least), bytes(size));
    assert!(extra <= 3 * volume, "{extra} bytes more for a volume of {volume}");
}

#[test]
fn a_volume_is_validated_in_three_times_its_size() {
    let place = Workplace::new();
    let size = [512, 512, 256];
    data_set(&place, "small", [512, 512, 1]);
    data_set(&place, "large", size);
    let (answer, least) = watched(&place, &["validate", "small"]);
    answer.succeeds();
    let (answer, most) = watched(&place, &["validate", "large"]);
    assert!(answer.succeeds().out.contains("256"));
    assert_three_times(most, least, size);
}

#[test]
fn a_volume_is_predicted_in_three_times_its_size() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let size = [128, 128, 1600];
    place.write("small.nii.gz", volume([128, 128, 16]));
    place.write("large.nii.gz", volume(size));
    let (answer, least) = watched(&place, &["predict", "run", "small.nii.gz", "--out", "few"]);
    answer.succeeds();
    let (answer, most) = watched(&place, &["predict", "run", "large.nii.gz", "--out", "many"]);
    answer.succeeds();
    assert!(place.path("many/large/hypothesis-1.nii.gz").is_file());
    assert_three_times(most, least, size);
}

/// At each limit the command either does its work or says what it lacks.
#[test]
fn a_volume_beyond_the_address_space_is_refused_with_a_sentence() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let size = [512, 512, 2048];
    data_set(&place, "large", size);
    let stored = std::fs::metadata(place.path("large/image.nii.gz")).unwrap().len();
    assert!(stored < 1 << 20, "512 MiB in {stored} bytes");
    for (kibibytes, fits) in [(256 << 10, false), (400 << 10, false), (512 << 10, false), (2 << 20, true)] {
        let answer = limited(&place, kibibytes, &["validate", "large"]);
        match fits {
            true => assert!(answer.succeeds().out.contains("2048")),
            false => _ = answer.fails(2, &["image.nii.gz", "needs 513.0 MiB of memory", "are free"]),
        }
    }
    for kibibytes in [256 << 10, 400 << 10, 512 << 10] {
        let image = "large/image.nii.gz";
        let answer = limited(&place, kibibytes, &["predict", "run", image, "--out", "out"]);
        answer.fails(2, &[image, "needs 513.0 MiB of memory", "are free"]);
    }
    assert!(!place.path("out/image").exists(), "nothing is made for what cannot be read");
}

#[test]
fn images_of_every_format_beyond_the_address_space_are_refused_with_a_sentence() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let side = 8_000;
    let pixels = vec![0; side * side];
    place.png("image.png", side as u32, &pixels);
    for name in ["image.tiff", "image.jpg"] {
        let (path, side) = (place.path(name), side as u32);
        image::save_buffer(path, &pixels, side, side, image::ExtendedColorType::L8).unwrap();
    }
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({side}, {side}), }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let npy = [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), &pixels].concat();
    place.write("image.npy", &npy);
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("a.npy", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(&npy).unwrap();
    place.write("image.npz", archive.finish().unwrap().into_inner());
    for name in ["image.png", "image.tiff", "image.jpg", "image.npy", "image.npz"] {
        limited(&place, 300 << 10, &["predict", "run", name, "--out", name.trim_start_matches("image.")])
            .fails(2, &[name, "of memory", "are free"]);
    }
}

#[test]
fn recipes_that_ask_for_more_than_there_is_are_refused_with_a_sentence() {
    let place = Workplace::with_recipe();
    let wide = "model.channels=[4096, 4096, 4096, 4096, 4096, 4096]";
    for (at, (sets, key)) in [
        (&[wide][..], "model.channels"),
        (&["data.size=4096", "data.train_count=1000000"], "data.train_count"),
        (&["augment.crop=[16384, 16384]"], "train.batch"),
        (&["model.channels=[100000]"], "model.channels"),
        (&["model.head_width=1000000000"], "model.head_width"),
        (&["model.head_hidden=100000"], "model.head_hidden"),
        (&["model.code_dim=1000000"], "model.code_dim"),
        (&["model.classes=1000000"], "model.classes"),
        (&["method.latent_dim=1000000000"], "method.latent_dim"),
        (&["data.train_count=1000000000000"], "data.train_count"),
        (&["predict.samples=1000000000"], "predict.samples"),
        (&["augment.crop=[1000000, 1000000]"], "augment.crop"),
        (&["train.annotations=1000000000000"], "train.annotations"),
        (&["train.learning_rate=1e30"], "train.learning_rate"),
    ]
    .into_iter()
    .enumerate()
    {
        let run = format!("run-{at}");
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let arguments = [&["train", "tiny.toml", "--out", &run], &sets[..]].concat();
        // 4 GiB, so that the test means the same on machines with much memory.
        limited(&place, 4 << 20, &arguments).fails(2, &[key]);
    }
}
