//! Files that are truncated, foreign, hostile or odd: each is named with its cause by every command that
//! reads it, at once, and left out only where `--skip-bad` says so.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::workplace::Workplace;

/// A NIfTI-1 header of 8-bit voxels without the voxels.
pub fn nifti_header(size: [i16; 3]) -> Vec<u8> {
    let mut bytes = vec![0; 352];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &348i32.to_le_bytes());
    for (axis, length) in [3, size[0], size[1], size[2], 1, 1, 1, 1].into_iter().enumerate() {
        put(40 + 2 * axis, &length.to_le_bytes());
    }
    put(70, &2i16.to_le_bytes());
    put(72, &8i16.to_le_bytes());
    put(108, &352f32.to_le_bytes());
    put(344, b"n+1\0");
    bytes
}

/// The same with some bytes changed, and with 16 x 16 voxels.
fn changed(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = nifti_header([16, 16, 1]);
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes.extend([7; 256]);
    bytes
}

/// A whole volume of 16 x 16 x 1 voxels whose sform starts at `origin`.
fn placed(origin: f32) -> Vec<u8> {
    let mut bytes = changed(254, &1i16.to_le_bytes());
    for (place, value) in [[1.0, 0.0, 0.0, origin], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
        .into_iter()
        .flatten()
        .enumerate()
    {
        bytes[280 + 4 * place..][..4].copy_from_slice(&f32::to_le_bytes(value));
    }
    bytes
}

fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), data].concat()
}

pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A classic TIFF of so many pages of one 8-bit pixel each, or of one page of the given size.
fn tiff(pages: u32, size: u32, strip_bytes: u32) -> Vec<u8> {
    let mut bytes = b"II*\x00\x08\x00\x00\x00".to_vec();
    for page in 0..pages {
        let fields = [
            (256u16, size),
            (257, size),
            (258, 8),
            (259, 1),
            (262, 1),
            (273, 4),
            (277, 1),
            (278, size),
            (279, strip_bytes),
        ];
        let next = if page + 1 < pages { 8 + (page + 1) * 114 } else { 0 };
        bytes.extend(9u16.to_le_bytes());
        for (tag, value) in fields {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(4u16.to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

/// A PNG header without pixels.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut header =
        [b"IHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    let checksum = crc32(&header).to_be_bytes();
    header.extend(checksum);
    [b"\x89PNG\r\n\x1a\n\0\0\0\r".as_slice(), &header].concat()
}

/// CRC-32 as PNG wants it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(
            sum ^ u32::from(byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Name, content and cause of files that no command may take.
fn bad_files(place: &Workplace) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    place.png("sound.png", 16, &[9; 256]);
    let png = std::fs::read(place.path("sound.png")).unwrap();
    let array = npy("|u1", "(2, 2)", &[1, 2, 3, 4]);
    let object = npy("|O", "(1, 1)", b"\x80\x04K\x01.");
    let packed = gzip(&changed(0, &[]));
    let nan = npy("<f4", "(1, 2)", &floats(&[1.0, f32::NAN]));
    vec![
        ("empty.png", Vec::new(), "is empty"),
        ("text.png", b"no image".to_vec(), "none of PNG"),
        ("cut.png", png[..png.len() / 2].to_vec(), "cannot be read as PNG"),
        ("wide.png", png_header(65_535, 65_535), "larger than allowed"),
        ("cut.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF".to_vec(), "cannot be read as JPEG"),
        ("pages.tiff", tiff(10_000, 1, 1), "several pages"),
        ("bomb.tiff", tiff(1, 8_000, 8), "cannot hold that"),
        ("strip.tiff", tiff(1, 100, u32::MAX), "strip.tiff"),
        ("cut.npy", array[..array.len() - 1].to_vec(), "truncated: 3 of 4"),
        ("wide.npy", npy("<f8", "(65535, 65535)", &[]), "largest side"),
        ("object.npy", object.clone(), "never executed"),
        ("pickle.pkl", b"\x80\x04\x95cos\nsystem\n".to_vec(), "never executed"),
        ("nan.npy", nan, "NaN at pixel (1, 0)"),
        ("infinite.npy", npy("<f4", "(1, 1)", &floats(&[f32::INFINITY])), "inf at pixel"),
        ("object.npz", zip(&[("a.npy", &object)]), "never executed"),
        ("climbing.npz", zip(&[("../../climbed", b"x")]), "no NPY array"),
        ("absolute.npz", zip(&[("/tmp/absolute", b"x")]), "no NPY array"),
        ("two.npz", zip(&[("a.npy", &array), ("b.npy", &array)]), "holds 2 arrays"),
        ("cut.npz", zip(&[("a.npy", &array)])[..60].to_vec(), "cut.npz"),
        ("cut.nii", nifti_header([16, 16, 1]), "truncated"),
        ("short.nii", nifti_header([1, 1, 1])[..100].to_vec(), "header"),
        ("axes.nii", nifti_header([32_767, 32_767, 32_767]), "largest side"),
        ("bits.nii", changed(72, &0i16.to_le_bytes()), "bits.nii"),
        ("offset.nii", changed(108, &(-9f32).to_le_bytes()), "offset.nii"),
        ("place.nii", placed(f32::NAN), "place.nii"),
        ("second.nii", changed(0, &540i32.to_le_bytes()), "NIfTI-2"),
        ("cut.nii.gz", packed[..packed.len() / 2].to_vec(), "cut.nii.gz"),
        ("bomb.nii.gz", gzip(&[nifti_header([1_000, 1_000, 200]), vec![0; 1 << 20]].concat()), "bomb.nii.gz"),
        ("scan.dcm", [&[0; 128][..], b"DICM"].concat(), "DICOM"),
        ("weights.h5", b"\x89HDF\r\n\x1a\n".to_vec(), "HDF5"),
        ("model.safetensors", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}".to_vec(), "none of PNG"),
        ("recipe.gif", b"GIF89a".to_vec(), "none of PNG"),
    ]
}

/// So many sound cases as folders of `set`.
fn sound_cases(place: &Workplace, count: u8) {
    for case in 0..count {
        let pixels: Vec<u8> = (0..=255).map(|at: u8| at.wrapping_mul(case + 1)).collect();
        let mask: Vec<u8> = (0..=255).map(|at| if at < 40 + case { 255 } else { 0 }).collect();
        place.png(&format!("set/good-{case}/image.png"), 16, &pixels);
        place.png(&format!("set/good-{case}/label0.png"), 16, &mask);
    }
}

#[test]
fn a_bad_image_is_named_by_whoever_reads_it() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let bad = bad_files(&place);
    sound_cases(&place, 10);
    let mask: Vec<u8> = (0..=255).map(|at| if at < 50 { 255 } else { 0 }).collect();
    for (at, (name, bytes, cause)) in bad.iter().enumerate() {
        place.write(&format!("bad/{name}"), bytes);
        let start = Instant::now();
        let out = format!("out-{at}");
        place.run(&["predict", "run", &format!("bad/{name}"), "--out", &out]).fails(2, &[name, cause]);
        assert!(start.elapsed() < Duration::from_secs(5), "{name} took {:?}", start.elapsed());
        let ending = name.split_once('.').unwrap().1;
        place.write(&format!("set/case-{at:02}/image.{ending}"), bytes);
        place.png(&format!("set/case-{at:02}/label0.png"), 16, &mask);
    }
    // The two images whose values are no numbers are of another size than their masks, too.
    let faults = format!("set: {} faults", bad.len() + 2);
    let listed = place.run(&["validate", "set"]).fails(1, &[&faults]).out;
    for (at, (name, _, cause)) in bad.iter().enumerate() {
        let ending = name.split_once('.').unwrap().1;
        let of_case = listed.lines().find(|line| line.contains(&format!("case-{at:02}/image.{ending}")));
        // Where the cause is the name alone, that it is listed is all.
        let cause = if cause.contains('.') { "" } else { cause };
        assert!(of_case.is_some_and(|line| line.contains(cause)), "{name} ({cause}) in\n{listed}");
    }
    place.train("refused", &["--data", "set"]).fails(2, &["case-", "more faults"]);
    assert!(!place.path("refused/last").exists());
    place.run(&["evaluate", "run", "--data", "set"]).fails(2, &["case-"]);

    // Only where it is asked for are they left out, and then by name, to the reader of the page too.
    let count = format!("{} images were skipped", bad.len());
    let said = place.train("skipping", &["--data", "set", "--skip-bad"]).trained();
    assert!(said.err.contains(&count) && said.err.contains("case-00/image.png: is empty"), "{}", said.err);
    let page = std::fs::read_to_string(place.path("skipping/report.html")).unwrap();
    assert!(page.contains("could not be used") && page.contains("case-00/image.png"));
    place.run(&["evaluate", "skipping"]).succeeds();
    let said = place.run(&["evaluate", "run", "--data", "set", "--skip-bad"]).succeeds();
    assert!(said.err.contains(&count) && said.out.contains("10 cases"), "{}\n{}", said.out, said.err);
    for name in ["few/a.png", "few/b.nii"] {
        place.write(name, b"no image");
    }
    place
        .run(&["predict", "run", "few", "--skip-bad", "--out", "all"])
        .fails(2, &["skipped: few/a.png", "skipped: few/b.nii", "all of 2 images were skipped"]);
    place
        .run(&["predict", "run", "few", "--out", "none"])
        .fails(2, &["failed: few/a.png", "failed: few/b.nii", "none of 2 images could be predicted"]);
    place.run(&["predict", "run", "few", "sound.png", "--out", "one"]).fails(
        1,
        &["failed: few/a.png", "failed: few/b.nii", "2 of 3 images could not be predicted", "--resume"],
    );
    assert!(place.path("one/sound/prediction.json").is_file(), "a bad file must not lose the others");
    let said = place.run(&["predict", "run", "few", "sound.png", "--skip-bad", "--out", "some"]).succeeds();
    assert!(
        said.out.contains("1 image predicted, 2 skipped") && said.err.contains("few/b.nii"),
        "{}",
        said.err
    );
}

#[test]
fn bad_masks_are_listed_and_not_trained_on() {
    let place = Workplace::with_recipe();
    sound_cases(&place, 8);
    let image: Vec<u8> = (0..=255).collect();
    let half = npy("<f4", "(16, 16)", &floats(&[0.5; 256]));
    let nan = npy("<f4", "(16, 16)", &floats(&[f32::NAN; 256]));
    let mut shades = vec![0; 256];
    shades[3] = 7;
    shades[4] = 9;
    for case in ["float", "nan", "shades", "size", "cut", "place"] {
        place.png(&format!("set/{case}/image.png"), 16, &image);
    }
    place.write("set/float/label0.npy", half);
    place.write("set/nan/label0.npy", nan);
    place.png("set/shades/label0.png", 16, &shades);
    place.png("set/size/label0.png", 8, &[0; 64]);
    place.write("set/cut/label0.png", b"\x89PNG\r\n\x1a\n");
    std::fs::remove_file(place.path("set/place/image.png")).unwrap();
    place.write("set/place/image.nii", placed(0.0));
    let mut elsewhere = placed(25.0);
    elsewhere[352..].fill(1);
    place.write("set/place/label0.nii", elsewhere);
    let listed = place.run(&["validate", "set"]).fails(1, &["set: 6 faults"]).out;
    for part in [
        "float/label0.npy",
        "nan/label0.npy",
        "shades/label0.png",
        "size/label0.png: is 8x8, but its image",
        "cut/label0.png",
        "place/label0.nii: lies up to 25",
    ] {
        assert!(listed.contains(part), "{listed}\nlacks {part}");
    }
    place.train("run", &["--data", "set"]).fails(2, &["label0"]);
    let said = place.train("run2", &["--data", "set", "--skip-bad"]).trained();
    assert!(said.err.contains("6 images were skipped"), "{}", said.err);
    // What is wrong with the data set as a whole is not skipped.
    place.png("set/bare/image.png", 16, &image);
    place.train("run3", &["--data", "set", "--skip-bad"]).fails(2, &["has no mask"]);
    for case in 0..8 {
        std::fs::remove_dir_all(place.path(&format!("set/good-{case}"))).unwrap();
    }
    std::fs::remove_dir_all(place.path("set/bare")).unwrap();
    // Alone, the grey masks would be taken for soft ones.
    let stated = ["--data", "set", "--skip-bad", "--masks", "binary"];
    place.train("run4", &stated).fails(2, &["no image of it can be used"]);
}

#[test]
fn every_fault_of_every_file_is_listed_at_once() {
    let place = Workplace::new();
    sound_cases(&place, 2);
    // A case with two bad images, too many channels, and three bad masks, one of them wrong in two ways.
    place.write("set/bad/image_1.png", b"no image");
    let colours = [1; 16 * 16 * 3];
    let rgb = image::ExtendedColorType::Rgb8;
    for number in [2, 4] {
        let path = place.path(&format!("set/bad/image_{number}.png"));
        image::save_buffer(path, &colours, 16, 16, rgb).unwrap();
    }
    place.write("set/bad/image_3.npy", npy("<f4", "(16, 16)", &floats(&[f32::NAN; 256])));
    place.write("set/bad/label0.png", b"");
    place.png("set/bad/label1.png", 8, &[7; 64]);
    place.png("set/bad/label2.png", 16, &[9; 256]);
    place.png("set/bad/label3.png", 16, &[255; 256]);
    let listed = place.run(&["validate", "set"]).fails(1, &["set: 7 faults"]).out;
    for part in [
        "bad/image_1.png",
        "has 7 channels with its companions",
        "bad/image_3.npy",
        "bad/label0.png",
        "bad/label1.png: is 8x8, but its image set/bad/image_2.png is 16x16",
        "bad/label1.png: is not a binary mask",
        "bad/label2.png: is not a binary mask",
    ] {
        assert!(listed.contains(part), "{listed}\nlacks {part}");
    }
    // A row with two missing masks, a weight that is none, and a mask that is none.
    place.png("a.png", 16, &[1; 256]);
    place.png("m.png", 16, &[7; 256]);
    place.write(
        "rows.jsonl",
        "{\"id\":\"x\",\"image\":\"a.png\",\"labels\":[\"m.png\",\"gone-1.png\",\"gone-2.png\"],\"weight\":[1,-1,1]}\n",
    );
    let listed =
        place.run(&["validate", "rows.jsonl", "--masks", "binary"]).fails(1, &["rows.jsonl: 4 faults"]).out;
    for part in
        ["line 1: there is no file gone-1.png", "gone-2.png", "the weight -1", "m.png: is not a binary"]
    {
        assert!(listed.contains(part), "{listed}\nlacks {part}");
    }
}

#[test]
fn a_manifest_may_begin_with_a_byte_order_mark() {
    let place = Workplace::new();
    place.png("a.png", 2, &[1, 2, 3, 4]);
    place.png("m.png", 2, &[0, 0, 255, 255]);
    place.write("mark.jsonl", "\u{feff}{\"id\":\"x\",\"image\":\"a.png\",\"labels\":\"m.png\"}\n");
    place.write("mark.csv", "\u{feff}id,image,labels\nx,a.png,m.png\n");
    for name in ["mark.jsonl", "mark.csv"] {
        assert!(place.run(&["validate", name]).succeeds().out.contains("cases            1"));
    }
}

#[test]
fn manifests_with_faults_name_their_lines() {
    let place = Workplace::with_recipe();
    place.png("a.png", 2, &[1, 2, 3, 4]);
    place.png("m.png", 2, &[0, 0, 255, 255]);
    place.write("object.npy", npy("|O", "(2, 2)", b"\x80\x04K\x01."));
    let sound = "{\"id\":\"x\",\"image\":\"a.png\",\"labels\":\"m.png\"}\n";
    for (name, text, part) in [
        ("cut.jsonl", format!("{sound}{{\"id\":\"y\",\"im"), "line 2"),
        ("field.jsonl", format!("{sound}{}", sound.replace("labels", "lables")), "lables"),
        ("weight.jsonl", sound.replace("}\n", ",\"weight\":-1}\n"), "weight"),
        ("gone.jsonl", sound.replace("a.png", "gone.png"), "gone.png"),
        ("pickle.jsonl", sound.replace("a.png", "object.npy"), "never executed"),
        ("twice.csv", "id,image,labels\nx,a.png,m.png\nx,m.png,m.png\n".into(), "x"),
        ("column.csv", "id,image\nx,a.png\n".into(), "has no mask"),
        ("quote.csv", "id,image,labels\n\"x,a.png,m.png\n".into(), "line"),
    ] {
        place.write(name, text);
        let answer = place.run(&["validate", name]);
        assert!([1, 2].contains(&answer.code), "{name}: {}\n{}", answer.out, answer.err);
        let said = answer.out.clone() + &answer.err;
        assert!(said.contains(part) && said.contains(name), "{name}: {said} lacks {part}");
        place.train("run", &["--data", name]).fails(2, &[part]);
    }
    place.write("nothing.jsonl", "");
    place.run(&["validate", "nothing.jsonl"]).fails(2, &["has no rows"]);
    place.write("bytes.jsonl", b"\xff\xfe\x00\x01");
    place.run(&["validate", "bytes.jsonl"]).fails(2, &["bytes.jsonl"]);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_no_files() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe.png")).status();
    if made.is_ok_and(|status| status.success()) {
        place.run(&["predict", "run", "pipe.png", "--out", "x"]).fails(2, &["pipe.png", "is no file"]);
        place.run(&["validate", "pipe.png"]).fails(2, &["pipe.png", "neither a folder nor"]);
        std::fs::create_dir_all(place.path("set/a")).unwrap();
        std::fs::rename(place.path("pipe.png"), place.path("set/a/image.png")).unwrap();
        place.png("set/a/label0.png", 2, &[0, 0, 0, 255]);
        let said = place.run(&["validate", "set"]).fails(1, &["1 fault"]).out;
        assert!(said.contains("is no file"), "{said}");
    }
    place.run(&["predict", "run", "/dev/zero", "--out", "y"]).fails(2, &["/dev/zero", "is no file"]);
    place.run(&["validate", "/dev/zero"]).fails(2, &["/dev/zero"]);
    place.run(&["train", "/dev/zero", "--out", "y"]).fails(2, &["/dev/zero"]);
}
