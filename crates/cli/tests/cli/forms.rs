//! Every form of data that people have trains with no option but `--data`: the plan suits it, the training comes to
//! its end, and scores and verdict are written. What bounds the time is the only other option.

use crate::bad_files::nifti_header;
use crate::workplace::Workplace;

/// A picture of grey values with a bright disc, and masks of discs around the same centre.
struct Drawn {
    width: usize,
    height: usize,
    seed: usize,
}

impl Drawn {
    fn inside(&self, x: usize, y: usize, share: f64) -> bool {
        let side = self.width.min(self.height) as f64;
        let (cx, cy) = (0.35 + 0.03 * (self.seed % 9) as f64, 0.4 + 0.02 * (self.seed % 7) as f64);
        let radius = share * side * (0.15 + 0.01 * (self.seed % 5) as f64);
        f64::hypot(x as f64 - cx * self.width as f64, y as f64 - cy * self.height as f64) < radius
    }

    fn values(&self, of: impl Fn(usize, usize) -> u8) -> Vec<u8> {
        (0..self.width * self.height).map(|at| of(at % self.width, at / self.width)).collect()
    }

    /// 8-bit pixels.
    fn image(&self) -> Vec<u8> {
        let noise =
            |x: usize, y: usize| (((x * 31 + y * 17 + self.seed * 7) * 2_654_435_761) >> 7) as u8 % 40;
        self.values(|x, y| noise(x, y) + if self.inside(x, y, 1.0) { 150 } else { 30 })
    }

    /// What a rater draws: 255 inside; the first draws the smallest.
    fn mask(&self, rater: usize) -> Vec<u8> {
        self.values(|x, y| 255 * u8::from(self.inside(x, y, 0.7 + 0.2 * rater as f64)))
    }

    /// The same with 1 inside.
    fn labels(&self, rater: usize) -> Vec<u8> {
        self.mask(rater).iter().map(|value| value / 255).collect()
    }
}

fn small(seed: usize) -> Drawn {
    Drawn { width: 32, height: 32, seed }
}

fn png(place: &Workplace, name: &str, drawn: &Drawn, kind: image::ExtendedColorType, bytes: &[u8]) {
    let path = place.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::save_buffer(path, bytes, drawn.width as u32, drawn.height as u32, kind).unwrap();
}

fn nifti(drawn: &Drawn, values: &[u8]) -> Vec<u8> {
    [nifti_header([drawn.width as i16, drawn.height as i16, 1]), values.to_vec()].concat()
}

/// A grey TIFF of 32-bit floats.
fn float_tiff(drawn: &Drawn, values: &[u8]) -> Vec<u8> {
    let pixels: Vec<u8> =
        values.iter().flat_map(|&value| (f32::from(value) / 8.0 - 3.5).to_le_bytes()).collect();
    let (width, height) = (drawn.width as u32, drawn.height as u32);
    // Tag and value; all of them fit 32 bits. Compression 1 is none, photometric 1 is black at zero, format 3 is float.
    let fields: [(u16, u32); 10] = [
        (256, width),
        (257, height),
        (258, 32),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, height),
        (279, pixels.len() as u32),
        (339, 3),
    ];
    let mut file = [b"II\x2a\0".as_slice(), &(8 + pixels.len() as u32).to_le_bytes(), &pixels].concat();
    file.extend((fields.len() as u16).to_le_bytes());
    for (tag, value) in fields {
        file.extend(tag.to_le_bytes());
        file.extend(4u16.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    file
}

/// Trains on `set` and asks for what a training must leave.
#[track_caller]
fn trains(place: &Workplace) -> String {
    let bounds = ["--set", "train.steps=8", "--set", "train.warmup_steps=2", "--device", "cpu"];
    let answer = place.run(&[&["train", "--data", "set", "--out", "run"][..], &bounds].concat()).trained();
    for file in ["report.json", "report.html", "verdict.json", "fingerprint.json", "best/model.safetensors"] {
        assert!(place.path("run").join(file).is_file(), "{file} is missing:\n{}", answer.err);
    }
    let report = std::fs::read_to_string(place.path("run/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["summary"]["ged_exact"].is_number(), "{report}");
    assert!(answer.out.contains("verdict"), "{}", answer.out);
    answer.err
}

/// Writes an image and its masks by rater, for so many cases.
fn case_by_case(cases: usize, raters: impl Fn(usize) -> usize, drawn: impl Fn(usize) -> Drawn) -> Workplace {
    let place = Workplace::new();
    for at in 0..cases {
        let one = drawn(at);
        place.png(&format!("set/images/c{at:02}x.png"), one.width as u32, &one.image());
        for rater in 0..raters(at) {
            place.png(&format!("set/rater{rater}/c{at:02}x.png"), one.width as u32, &one.mask(rater));
        }
    }
    place
}

#[test]
fn colours() {
    let place = Workplace::new();
    for at in 0..8 {
        let (one, name) = (small(at), format!("c{at}x.png"));
        let rgb: Vec<u8> = one.image().iter().flat_map(|&value| [value, 255 - value, value / 2]).collect();
        // Some are grey, as photographs of an archive may be.
        let (kind, bytes) = match at % 4 {
            3 => (image::ExtendedColorType::L8, one.image()),
            _ => (image::ExtendedColorType::Rgb8, rgb),
        };
        png(&place, &format!("set/images/{name}"), &one, kind, &bytes);
        (0..2).for_each(|rater| place.png(&format!("set/rater{rater}/{name}"), 32, &one.mask(rater)));
    }
    assert!(trains(&place).contains("3 channels"));
}

#[test]
fn sixteen_bits() {
    let place = Workplace::new();
    for at in 0..8 {
        let (one, name) = (small(at), format!("c{at}x.png"));
        let wide: Vec<u8> =
            one.image().iter().flat_map(|&value| (u16::from(value) * 131).to_ne_bytes()).collect();
        png(&place, &format!("set/images/{name}"), &one, image::ExtendedColorType::L16, &wide);
        (0..2).for_each(|rater| place.png(&format!("set/rater{rater}/{name}"), 32, &one.mask(rater)));
    }
    trains(&place);
}

#[test]
fn label_maps_of_three_classes() {
    let place = Workplace::new();
    for at in 0..8 {
        let (one, name) = (small(at), format!("c{at}x.png"));
        place.png(&format!("set/images/{name}"), 32, &one.image());
        for rater in 0..2 {
            let shares = [1.6, 1.1, 0.6].map(|share| share + 0.1 * rater as f64);
            let map = one.values(|x, y| shares.iter().map(|&share| u8::from(one.inside(x, y, share))).sum());
            place.png(&format!("set/rater{rater}/{name}"), 32, &map);
        }
    }
    let said = trains(&place);
    assert!(said.contains("classes           3") || said.contains("labels:3"), "{said}");
}

#[test]
fn sizes_from_90_to_300() {
    let drawn = |at: usize| Drawn { width: 90 + 30 * at, height: 300 - 25 * at, seed: at };
    trains(&case_by_case(8, |_| 2, drawn));
}

#[test]
fn one_rater_only() {
    trains(&case_by_case(8, |_| 1, small));
}

#[test]
fn two_to_nine_raters() {
    trains(&case_by_case(8, |at| 2 + at, small));
}

#[test]
fn five_cases_only() {
    trains(&case_by_case(5, |_| 3, small));
}

#[test]
fn a_folder_of_images_and_one_of_masks() {
    let place = Workplace::new();
    for at in 0..8 {
        place.png(&format!("set/images/c{at}x.png"), 32, &small(at).image());
        place.png(&format!("set/masks/c{at}x.png"), 32, &small(at).mask(1));
    }
    trains(&place);
}

#[test]
fn masks_beside_their_image() {
    let place = Workplace::new();
    for at in 0..8 {
        let one = small(at);
        place.write(&format!("set/case{at:02}.nii"), nifti(&one, &one.image()));
        for rater in 0..3 {
            place.write(&format!("set/case{at:02}_seg{:02}.nii", rater + 1), nifti(&one, &one.labels(rater)));
        }
    }
    trains(&place);
}

#[test]
fn a_folder_for_each_case_with_seven_raters() {
    let place = Workplace::new();
    for at in 0..6 {
        let one = small(at);
        place.write(&format!("set/case{at:02}/image.nii"), nifti(&one, &one.image()));
        for rater in 0..7 {
            let name = format!("set/case{at:02}/task01_seg{:02}.nii", rater + 1);
            place.write(&name, nifti(&one, &one.labels(rater % 4)));
        }
    }
    trains(&place);
}

#[test]
fn a_file_for_each_channel() {
    let place = Workplace::new();
    for at in 0..8 {
        let one = small(at);
        for channel in 0..2 {
            let values: Vec<u8> = one.image().iter().map(|value| value / (1 + channel)).collect();
            place.write(&format!("set/imagesTr/c{at}x_000{channel}.nii"), nifti(&one, &values));
        }
        place.write(&format!("set/labelsTr/c{at}x.nii"), nifti(&one, &one.labels(0)));
        place.write(&format!("set/labelsTr_r2/c{at}x.nii"), nifti(&one, &one.labels(2)));
    }
    assert!(trains(&place).contains("2 channels"));
}

#[test]
fn meta_image_nrrd_and_float_tiff() {
    let header =
        "ObjectType = Image\nNDims = 2\nDimSize = 32 32\nElementType = MET_UCHAR\nElementDataFile = ";
    let mha = |values: &[u8]| [header.as_bytes(), b"LOCAL\n", values].concat();
    let nrrd = |values: &[u8]| {
        [b"NRRD0004\ntype: uchar\ndimension: 2\nsizes: 32 32\nencoding: raw\n\n".as_slice(), values].concat()
    };
    for kind in ["mha", "mhd", "nrrd", "tif"] {
        let place = Workplace::new();
        for at in 0..6 {
            let one = small(at);
            let write = |name: &str, values: &[u8]| match kind {
                "mha" => place.write(&format!("set/{name}.mha"), mha(values)),
                "nrrd" => place.write(&format!("set/{name}.nrrd"), nrrd(values)),
                "mhd" => {
                    let raw = format!("{}.raw", name.rsplit('/').next().unwrap());
                    place.write(&format!("set/{name}.mhd"), format!("{header}{raw}\n"));
                    place.write(&format!("set/{name}.raw"), values);
                }
                _ if name.starts_with("images") => {
                    place.write(&format!("set/{name}.tif"), float_tiff(&one, values));
                }
                _ => place.png(&format!("set/{name}.png"), 32, values),
            };
            write(&format!("images/c{at}x"), &one.image());
            (0..2).for_each(|rater| write(&format!("rater{rater}/c{at}x"), &one.mask(rater)));
        }
        trains(&place);
    }
}

#[test]
fn a_manifest() {
    let place = Workplace::new();
    let mut rows = String::from("id,image,labels,rater,group\n");
    for at in 0..8 {
        place.png(&format!("set/pics/{at}.png"), 32, &small(at).image());
        for rater in 0..2 {
            place.png(&format!("set/drawn/{at}-{rater}.png"), 32, &small(at).mask(rater));
        }
        rows += &format!("c{at},pics/{at}.png,drawn/{at}-0.png;drawn/{at}-1.png,anna;bo,p{}\n", at / 2);
    }
    place.write("set/manifest.csv", rows);
    trains(&place);
}
