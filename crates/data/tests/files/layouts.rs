//! Layouts: found by content, and every fault of a data set told.

use std::fs;
use std::path::Path;

use multivalued_data::Case;
use multivalued_data::dataset::{Dataset, Holding, Layout, Loaded, Options, Roster, Slices, inspect};
use multivalued_data::import::{Limits, MaskRule, read_image};

use crate::cache::cached;
use crate::make;

fn open(root: &Path) -> multivalued_data::Result<Dataset> {
    Dataset::open(root, &Options::default())
}

fn refusal(root: &Path) -> String {
    open(root).unwrap_err().to_string()
}

fn ids(dataset: &Dataset) -> Vec<&str> {
    dataset.entries().iter().map(|entry| entry.id.as_str()).collect()
}

#[test]
fn lidc_slices_at_any_depth() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    make::lidc_slices(&root.join("outer/part"));
    let dataset = open(root).unwrap();
    assert_eq!(dataset.layout(), Layout::LidcSlices);
    let expected =
        ["P-1/nodule-0/slice-0", "P-1/nodule-0/slice-1", "P-1/nodule-1/slice-0", "P-2/nodule-0/slice-0"];
    assert_eq!(ids(&dataset), expected);
    // The same ids and groups when only one patient is opened.
    assert_eq!(ids(&open(&root.join("outer/part/P-1")).unwrap()), expected[..3]);
    assert_eq!(ids(&open(&root.join("outer/part/P-1/nodule-1")).unwrap()), expected[2..3]);
    let cases = dataset.load().unwrap();
    assert_eq!(
        cases.iter().map(|case| case.group.as_str()).collect::<Vec<_>>(),
        ["P-1", "P-1", "P-1", "P-2"]
    );
    assert_eq!(cases.iter().map(|case| case.annotations.len()).collect::<Vec<_>>(), [4, 4, 3, 4]);
    assert!(cases[0].annotations[0].mask.is_empty() && cases[0].annotations[2].mask.get(0, 0, 1));
    // Order and content do not depend on the number of threads.
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one.install(|| dataset.load().unwrap()), cases);
    assert_eq!(dataset.case(2).unwrap(), cases[2]);

    make::mask(root.join("outer/part/P-2/nodule-0/mask-1/slice-9.png"), None);
    assert!(refusal(root).contains("slice-9.png: is a mask without an image"));
}

#[test]
fn lidc_crops_with_their_split() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (split, patient) in [("train", "LIDC-IDRI-0001"), ("test", "LIDC-IDRI-0002")] {
        make::picture(root.join(format!("{split}/images/{patient}/z-1_c0.png")), 9);
        for reader in 0..4 {
            make::mask(root.join(format!("{split}/gt/{patient}/z-1_c0_l{reader}.png")), Some(reader));
        }
    }
    let dataset = open(root).unwrap();
    assert_eq!((dataset.layout(), dataset.len()), (Layout::LidcCrops, 2));
    let cases = dataset.load().unwrap();
    assert_eq!(
        (cases[1].id.as_str(), cases[1].group.as_str()),
        ("train/LIDC-IDRI-0001/z-1_c0", "LIDC-IDRI-0001")
    );
    assert!(cases.iter().all(|case| case.annotations.len() == 4));
    let split = dataset.stated_split(&Roster::of(&cases)).unwrap().unwrap();
    assert_eq!(split.part("test").unwrap(), ["test/LIDC-IDRI-0002/z-1_c0"]);

    make::mask(root.join("train/gt/LIDC-IDRI-0001/readme.png"), None);
    assert!(refusal(root).contains("_l0, _l1"));
    fs::remove_file(root.join("train/gt/LIDC-IDRI-0001/readme.png")).unwrap();
    // The same patient on both sides.
    make::picture(root.join("test/images/LIDC-IDRI-0001/z-2.png"), 7);
    make::mask(root.join("test/gt/LIDC-IDRI-0001/z-2_l0.png"), None);
    let message = refusal(root);
    assert!(
        message.contains("group 'LIDC-IDRI-0001' is in test and") && message.contains("in train"),
        "{message}"
    );
}

#[test]
fn one_folder_per_case() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    // 1, 3 and 7 raters, and names that a shell would stumble over.
    let names = ["-dash", "späce and\nnewline", &"long".repeat(40)];
    for (name, raters) in names.iter().zip([1, 3, 7]) {
        make::picture(root.join(name).join("image_1.png"), raters as u8);
        for rater in 0..raters {
            make::mask(root.join(name).join(format!("label{rater}_.png")), Some(rater % 4));
        }
    }
    make::mask(root.join("-dash/rater-anna.png"), None);
    fs::write(root.join("-dash/notes.txt"), "read me").unwrap();
    fs::write(root.join("-dash/.DS_Store"), "x").unwrap();
    let dataset = open(root).unwrap();
    assert_eq!(dataset.layout(), Layout::CaseFolders);
    let cases = dataset.load().unwrap();
    let counts: Vec<_> =
        names.map(|name| cases.iter().find(|case| case.id == name).unwrap().annotations.len()).to_vec();
    assert_eq!(counts, [2, 3, 7]);
    assert_eq!(cases[0].annotations[1].rater.as_deref(), Some("anna"));

    make::mask(root.join("-dash/thumb.png"), None);
    let message = refusal(root);
    assert!(message.contains("thumb.png: is neither an image"), "{message}");
}

#[test]
fn nnunet_with_raters_channels_and_classes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for case in ["a", "b"] {
        make::picture(root.join(format!("imagesTr/{case}_0000.png")), 1);
        make::picture(root.join(format!("imagesTr/{case}_0001.png")), 2);
        make::png(root.join(format!("labelsTr/{case}.png")), 2, &[0, 1, 2, 0]);
    }
    make::png(root.join("labelsTr_r2/a.png"), 2, &[0, 0, 2, 0]);
    make::png(root.join("labelsTr_r3/a.png"), 2, &[0, 0, 0, 0]);
    make::picture(root.join("imagesTs/c_0000.png"), 1);
    let description = |channels: &str, labels: &str| {
        fs::write(root.join("dataset.json"), format!("{{\"channel_names\":{channels},\"labels\":{labels}}}"))
            .unwrap();
    };
    description(r#"{"0":"T1","1":"T2"}"#, r#"{"background":0,"core":1,"edge":2}"#);
    let dataset = open(root).unwrap();
    assert_eq!((dataset.layout(), dataset.mask_rule()), (Layout::NnUnet, MaskRule::Labels(2)));
    let cases = dataset.load().unwrap();
    assert_eq!(cases.iter().map(|case| case.annotations.len()).collect::<Vec<_>>(), [3, 1]);
    assert_eq!((cases[0].image.channels(), cases[0].image.plane(1)[0]), (2, 2.0));
    assert_eq!(cases[0].annotations[1].mask.labels(), [0, 0, 2, 0]);
    let raters: Vec<_> = cases[0].annotations.iter().map(|a| a.rater.as_deref().unwrap()).collect();
    assert_eq!(raters, ["r1", "r2", "r3"]);

    description(r#"{"0":"T1"}"#, r#"{"background":0,"core":1}"#);
    assert!(refusal(root).contains("case a has the channels 0000, 0001, not 0000 to 0000"));
    description(r#"{"0":"T1","1":"T2"}"#, r#"{"background":0,"whole":[1,2]}"#);
    assert!(refusal(root).contains("'whole' no single number"));
    fs::write(root.join("dataset.json"), "{").unwrap();
    assert!(refusal(root).contains("dataset.json: is not valid JSON"));
    description(r#"{"0":"T1","1":"T2"}"#, r#"{"background":0,"core":1}"#);
    let message = open(root).unwrap().load().unwrap_err().to_string();
    assert!(message.contains("value 2 at pixel (0, 1)"), "{message}");
    make::png(root.join("labelsTr_r2/z.png"), 2, &[0; 4]);
    assert!(refusal(root).contains("z.png: is a mask without an image imagesTr/z_0000"));
}

fn write_manifest(root: &Path, name: &str, text: &str) -> std::path::PathBuf {
    make::picture(root.join("pics/a.png"), 1);
    make::picture(root.join("pics/b.png"), 2);
    make::mask(root.join("m/a1.png"), Some(0));
    make::mask(root.join("m/a2.png"), Some(1));
    make::mask(root.join("m/b1.png"), None);
    let path = root.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn manifests_in_both_languages_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let manifests = [
        (
            "manifest.jsonl",
            r#"{"id":"a","image":"pics/a.png","labels":[{"path":"m/a1.png","rater":"anna","weight":2},{"path":"m/a2.png","rater":"bo"}],"group":"p1","split":"train"}

{"id":"b","image":["pics/b.png"],"labels":"m/b1.png","rater":"anna","group":"p2","split":"test"}"#,
        ),
        (
            "per-case.csv",
            "id,image,labels,rater,weight,group,split\na,pics/a.png,m/a1.png;m/a2.png,anna;bo,2;1,p1,train\nb,pics/b.png,m/b1.png,anna,,p2,test\n",
        ),
        (
            "per-annotation.csv",
            "split,id,image,labels,rater,weight,group\ntrain,a,pics/a.png,m/a1.png,anna,2,p1\ntest,b,pics/b.png,m/b1.png,anna,,p2\ntrain,a,pics/a.png,m/a2.png,bo,1,p1\n",
        ),
    ];
    let loaded = manifests.map(|(name, text)| {
        let dataset = open(&write_manifest(root, name, text)).unwrap();
        assert_eq!(dataset.layout(), Layout::Manifest);
        dataset.load().unwrap()
    });
    assert_eq!(loaded[0], loaded[1]);
    assert_eq!(loaded[0], loaded[2]);
    let case = &loaded[0][0];
    assert_eq!(
        (case.group.as_str(), case.annotations[0].weight, case.annotations[1].weight),
        ("p1", 2.0, 1.0)
    );
    assert_eq!(case.annotations[1].rater.as_deref(), Some("bo"));
    // A folder with a manifest is that manifest.
    assert_eq!(open(root).unwrap().load().unwrap(), loaded[0]);
}

#[test]
fn a_manifest_may_know_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let manifests = [
        (
            "m.jsonl",
            r#"{"id":"a","image":"pics/a.png","labels":["m/a1.png","m/b1.png"],"truth":[{"path":"m/a2.png","probability":0.75},{"path":"m/b1.png","probability":0.25}]}
{"id":"b","image":"pics/b.png","labels":"m/b1.png"}"#,
        ),
        (
            "per-case.csv",
            "id,image,labels,truth,probability\na,pics/a.png,m/a1.png;m/b1.png,m/a2.png;m/b1.png,0.75;0.25\nb,pics/b.png,m/b1.png,,\n",
        ),
        (
            "per-annotation.csv",
            "id,image,labels,truth,probability\na,pics/a.png,m/a1.png,,\na,pics/a.png,m/b1.png,m/a2.png;m/b1.png,0.75;0.25\nb,pics/b.png,m/b1.png,,\n",
        ),
    ];
    let loaded = manifests.map(|(name, text)| open(&write_manifest(root, name, text)).unwrap());
    let [json, per_case, per_annotation] = loaded.map(|dataset| dataset.load().unwrap());
    assert_eq!(json, per_case);
    assert_eq!(json, per_annotation);
    let modes = json[0].truth.as_deref().unwrap();
    assert_eq!(modes.iter().map(|mode| mode.probability).collect::<Vec<_>>(), [0.75, 0.25]);
    assert_eq!((modes[0].mask.area(0), modes[1].mask.area(0), &json[1].truth), (1, 0, &None));
    assert_eq!(inspect(&root.join("m.jsonl"), &Options::default()).unwrap().cases_with_truth, 1);
    // Another probability makes a cache stale.
    let caches = root.join("caches");
    cached(&root.join("m.jsonl"), &caches);
    let changed = manifests[0].1.replace("0.75", "0.5").replace("0.25", "0.5");
    let again = cached(&write_manifest(root, "m.jsonl", &changed), &caches).cases;
    assert_eq!(again.get(0).unwrap().truth.as_deref().unwrap()[0].probability, 0.5);
}

#[test]
fn manifest_faults_name_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let row = r#"{"id":"a","image":"pics/a.png","labels":["m/a1.png"]}"#;
    for (second, cause) in [
        (row.to_owned(), "line 2: the id 'a' is given twice with the same annotation"),
        (row.replace("pics/a", "pics/b"), "line 2: the id 'a' was given before with another image"),
        (r#"{"id":"b","image":"pics/none.png","labels":["m/b1.png"]}"#.into(), "line 2: there is no file"),
        (
            r#"{"id":"b","image":"pics/b.png","labels":["m/none.png"]}"#.into(),
            "none.png (paths are relative to the manifest)",
        ),
        (r#"{"id":"b","image":"pics/b.png","labels":[]}"#.into(), "pics/b.png has no mask"),
        (
            r#"{"id":"b","image":"pics/b.png","labels":["m/b1.png"],"weight":[0]}"#.into(),
            "weights are positive",
        ),
        (
            r#"{"id":"b","image":"pics/b.png","labels":["m/b1.png"],"rater":["x","y"]}"#.into(),
            "1 labels but 2 raters",
        ),
        (
            r#"{"id":"b","image":"pics/b.png","labels":["m/b1.png"],"patient":"p"}"#.into(),
            "line 2: unknown field `patient`",
        ),
        (r#"{"id":"b","image":[],"labels":["m/b1.png"]}"#.into(), "case 'b' has no image"),
        (r#"{"id":"","image":"pics/b.png","labels":["m/b1.png"]}"#.into(), "the id is empty"),
        ("nonsense".into(), "line 2: expected"),
        (
            r#"{"id":"b","image":"pics/b.png","labels":["m/b1.png"],"truth":[{"path":"m/a1.png","probability":0.5}]}"#.into(),
            "line 2: the true modes have the probabilities [0.5]; they are positive and sum to 1",
        ),
        (
            r#"{"id":"b","image":"pics/b.png","labels":["m/b1.png"],"truth":[{"path":"m/x.png","probability":1}]}"#.into(),
            "line 2: there is no file",
        ),
        (r#"{"id":"b","image":"pics/b.png","labels":["m/b1.png"],"truth":["m/a1.png"]}"#.into(), "line 2: "),
    ] {
        let message = refusal(&write_manifest(root, "m.jsonl", &format!("{row}\n{second}\n")));
        assert!(message.contains("m.jsonl") && message.contains(cause), "{message} lacks {cause}");
    }
    for (text, cause) in [
        ("id,image,labels,patient\n", "unknown column 'patient'"),
        ("id,labels\n", "lacks the column 'image'"),
        ("id,image\na,pics/a.png\n", "pics/a.png has no mask"),
        ("id,image,labels\n", "no rows"),
        ("id,image,labels,weight\na,pics/a.png,m/a1.png,much\n", "line 2: the weight 'much' is no number"),
        ("id,image,labels\na,pics/a.png,m/a1.png,extra\n", "not valid CSV"),
        ("id,image,labels,truth\na,pics/a.png,m/a1.png,m/a2.png\n", "1 true modes but 0 probabilities"),
        (
            "id,image,labels,truth,probability\na,pics/a.png,m/a1.png,m/a2.png,1\na,pics/a.png,m/b1.png,m/a1.png,1\n",
            "line 3: the id 'a' was given before with another truth",
        ),
        (
            "id,image,labels,group,split\na,pics/a.png,m/a1.png,p,train\nb,pics/b.png,m/b1.png,p,test\n",
            "group 'p' is in train and, with case 'b', in test",
        ),
    ] {
        let message = refusal(&write_manifest(root, "m.csv", text));
        assert!(message.contains("m.csv") && message.contains(cause), "{message} lacks {cause}");
    }
}

#[test]
fn folders_that_are_no_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert!(refusal(root).contains("holds no image files"));
    assert!(refusal(&root.join("absent")).contains("absent"));
    make::picture(root.join("holiday/beach.png"), 1);
    let message = refusal(root);
    for part in [
        "no known layout",
        "lidc-slices",
        "imagesTr",
        "manifest.jsonl",
        "rater1/NAME.png",
        "found holiday/beach.png",
        "docs/dataset-format.md",
    ] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
    make::lidc_slices(root);
    make::picture(root.join("case/image.png"), 1);
    make::mask(root.join("case/label0.png"), None);
    let options = Options { layout: Some(Layout::LidcSlices), ..Default::default() };
    assert_eq!(Dataset::open(root, &options).unwrap().len(), 4);
    fs::write(root.join("data.parquet"), "x").unwrap();
    assert!(refusal(&root.join("data.parquet")).contains("neither a folder nor a .jsonl"));
    for layout in Layout::ALL {
        assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout);
    }
    assert!("bids".parse::<Layout>().unwrap_err().to_string().contains("use one of manifest, lidc-slices"));
}

#[cfg(unix)]
#[test]
fn loops_of_links_end() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    make::lidc_slices(&root);
    // A link to data elsewhere is followed.
    make::picture(folder.path().join("elsewhere/nodule-0/images/slice-0.png"), 1);
    make::mask(folder.path().join("elsewhere/nodule-0/mask-0/slice-0.png"), None);
    symlink(folder.path().join("elsewhere"), root.join("P-9")).unwrap();
    assert_eq!(open(&root).unwrap().len(), 5);
    symlink(&root, folder.path().join("elsewhere/back")).unwrap();
    let message = refusal(&root);
    assert!(message.contains("back") && message.contains("links back"), "{message}");
    fs::remove_file(folder.path().join("elsewhere/back")).unwrap();
    fs::create_dir(root.join(OsStr::from_bytes(b"\xff"))).unwrap();
    assert!(refusal(&root).contains("not UTF-8"));
}

#[test]
fn inspection_lists_every_fault_and_counts_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    make::lidc_slices(root);
    let sound = inspect(root, &Options::default()).unwrap();
    assert!(sound.is_sound(), "{:?}", sound.problems);
    assert_eq!((sound.images, sound.cases, sound.groups, sound.annotations), (4, 4, 2, 15));
    assert_eq!((sound.empty_annotations, sound.empty_cases), (4, 0));
    assert_eq!(sound.annotations_per_case, [(3, 1), (4, 3)].into());
    assert_eq!(sound.sizes, [("2 x 2 x 1".to_owned(), 4)].into());
    // The first slices of all nodules are the same picture.
    assert_eq!(sound.duplicates, [["P-1/nodule-0/slice-0", "P-1/nodule-1/slice-0", "P-2/nodule-0/slice-0"]]);

    let nodule = root.join("P-3/nodule-0");
    make::picture(nodule.join("images/no-mask.png"), 1);
    make::picture(nodule.join("images/dirty.png"), 2);
    make::png(nodule.join("mask-0/dirty.png"), 2, &[0, 100, 200, 255]);
    make::picture(nodule.join("images/other-size.png"), 3);
    make::png(nodule.join("mask-0/other-size.png"), 3, &[0; 9]);
    make::picture(nodule.join("images/broken.png"), 4);
    fs::write(nodule.join("mask-0/broken.png"), b"\x89PNG broken").unwrap();
    make::mask(nodule.join("mask-0/stray.png"), None);
    make::png(root.join("P-4/nodule-0/images/empty.png"), 2, &[7; 4]);
    make::mask(root.join("P-4/nodule-0/mask-0/empty.png"), None);
    let found = inspect(root, &Options::default()).unwrap();
    for part in [
        "no-mask.png has no mask",
        "dirty.png: is not a binary mask",
        "other-size.png: is 3x3, but its image",
        "broken.png: cannot be read as PNG",
        "stray.png: is a mask without an image",
    ] {
        assert_eq!(found.problems.iter().filter(|problem| problem.contains(part)).count(), 1, "{part}");
    }
    assert_eq!((found.problems.len(), found.empty_cases), (5, 2));
    let message = refusal(root);
    assert!(message.contains("and 1 more faults, which validate lists"), "{message}");
}

#[test]
fn duplicate_ids_and_mixed_channels() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    make::lidc_slices(&root.join("part-a"));
    make::lidc_slices(&root.join("part-b"));
    let message = refusal(root);
    assert!(message.contains("the id 'P-1/nodule-0/slice-0' is given twice, to "), "{message}");
    assert!(message.contains("part-a") && message.contains("part-b"), "{message}");

    let root = &root.join("part-a");
    image::save_buffer(
        root.join("P-1/nodule-0/images/slice-0.png"),
        &[9; 12],
        2,
        2,
        image::ExtendedColorType::Rgb8,
    )
    .unwrap();
    // Grey and coloured pictures are all read as colours.
    let channels = |cases: &[Case]| cases.iter().map(|case| case.image.channels()).collect::<Vec<_>>();
    let cases = open(root).unwrap().load().unwrap();
    assert_eq!(channels(&cases), vec![3; cases.len()]);
    let grey = root.join("P-1/nodule-0/images/slice-1.png");
    let alone = read_image(&grey, &Limits::default()).unwrap();
    assert!([0, 1, 2].into_iter().all(|channel| cases[1].image.plane(channel) == alone.pixels()));
    let held = Loaded::read(root, &Options::default(), false, &Holding::Memory).unwrap();
    assert_eq!(held.cases.to_vec().unwrap(), cases);
    assert!(held.dataset.notes().iter().any(|note| note.contains("three colours")));
    let found = inspect(root, &Options::default()).unwrap();
    assert!(found.problems.is_empty() && found.notes.iter().any(|note| note.contains("three colours")));
    // A model of three channels takes them so, too.
    let channels = |wanted| {
        Slices::open_for(std::slice::from_ref(&grey), wanted, &Limits::default()).unwrap().channels()
    };
    assert_eq!([channels(1), channels(2), channels(3)], [1, 1, 3]);

    // Of an array nobody knows what its channels are.
    fs::remove_file(&grey).unwrap();
    fs::write(&grey, make::npy_bytes("(2, 2)", &[0, 1, 2, 3])).unwrap();
    let message = open(root).unwrap().load().unwrap_err().to_string();
    assert!(message.contains("has 3 channels, case 'P-1/nodule-0/slice-1' has 1"), "{message}");
    assert_eq!(inspect(root, &Options::default()).unwrap().problems.len(), 1);
}
