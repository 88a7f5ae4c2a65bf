//! LIDC from its source: XML and DICOM of our own making, in the public schema.

use std::fs;
use std::path::Path;

use multivalued_data::dataset::{Dataset, Layout, Options as DatasetOptions};
use multivalued_data::import::Limits;
use multivalued_data::lidc::{Found, Options, write_scan};

use crate::dicom_make::File;

const SIDE: usize = 40;

/// Slices of 40x40, 2 mm apart, named by their numbers.
fn scan(folder: &Path, series: &str, slices: usize) {
    for z in 0..slices {
        let values: Vec<i16> = (0..SIDE * SIDE).map(|at| (at % 97) as i16 + 100 * z as i16).collect();
        let mut file = File::slice(&format!("{series}.{z}"), 2.0 * z as f64, SIDE as u16, &values);
        file.text(0x0020_000e, "UI", series);
        file.save(&folder.join(format!("{:03}.dcm", 500 - z)));
    }
}

/// An outline around the pixels from `low` to `high`, which are inside: the border is one pixel further out.
fn roi(image: &str, low: [i32; 2], high: [i32; 2], inclusion: &str) -> String {
    let (left, top, right, bottom) = (low[0] - 1, low[1] - 1, high[0] + 1, high[1] + 1);
    let mut points: Vec<[i32; 2]> = (left..right).map(|x| [x, top]).collect();
    points.extend((top..bottom).map(|y| [right, y]));
    points.extend((left + 1..=right).rev().map(|x| [x, bottom]));
    points.extend((top..=bottom).rev().map(|y| [left, y]));
    let edge = |[x, y]: [i32; 2]| format!("<edgeMap><xCoord>{x}</xCoord><yCoord>{y}</yCoord></edgeMap>");
    let edges: String = points.into_iter().map(edge).collect();
    format!(
        "<roi><imageZposition>0.0</imageZposition><imageSOP_UID>{image}</imageSOP_UID>\
         <inclusion>{inclusion}</inclusion>{edges}</roi>"
    )
}

fn nodule(rois: &[String]) -> String {
    format!(
        "<unblindedReadNodule><noduleID>1</noduleID><characteristics><subtlety>5</subtlety></characteristics>{}\
         </unblindedReadNodule>",
        rois.concat()
    )
}

fn message(series: &str, readers: &[String]) -> String {
    let session = |nodules: &String| {
        format!(
            "<readingSession><annotationVersion>3.12</annotationVersion><servicingRadiologistID>anon\
             </servicingRadiologistID>{nodules}<nonNodule><nonNoduleID>9</nonNoduleID></nonNodule></readingSession>"
        )
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LidcReadMessage uid=\"1.3.6\" xmlns=\"http://www.nih.gov\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><ResponseHeader><Version>1.8.1</Version>\
         <SeriesInstanceUid>{series}</SeriesInstanceUid></ResponseHeader>{}</LidcReadMessage>",
        readers.iter().map(session).collect::<String>()
    )
}

/// Four readers: three of them drew one nodule, one of these with a hole, the fourth marked a small one only.
fn annotated(series: &str) -> String {
    let at = |z: usize| format!("{series}.{z}");
    let point = "<unblindedReadNodule><noduleID>2</noduleID><roi><imageSOP_UID>x.0</imageSOP_UID>\
                 <inclusion>TRUE</inclusion><edgeMap><xCoord>3</xCoord><yCoord>3</yCoord></edgeMap></roi>\
                 </unblindedReadNodule>";
    let first = [roi(&at(2), [10, 10], [14, 15], "TRUE"), roi(&at(3), [10, 10], [13, 13], "TRUE")];
    let second = [roi(&at(2), [11, 10], [15, 15], "TRUE"), roi(&at(2), [12, 12], [13, 12], "FALSE")];
    let third = [roi(&at(4), [10, 11], [12, 12], "TRUE")];
    let alone = [roi(&at(0), [30, 30], [33, 33], "TRUE")];
    let readers = [nodule(&first), nodule(&second), nodule(&third) + &nodule(&alone), point.into()];
    message(series, &readers)
}

fn options() -> Options {
    Options { volumes: false, crop: 16, with_border: false, limits: Limits::default() }
}

#[test]
fn crops_have_one_mask_for_each_reader() {
    let folder = tempfile::tempdir().unwrap();
    let (tcia, out) = (folder.path().join("LIDC-IDRI"), folder.path().join("out"));
    let place = tcia.join("LIDC-IDRI-0007/study/series");
    scan(&place, "1.7", 6);
    fs::write(place.join("069.xml"), annotated("1.7")).unwrap();
    // The same once more, one without its scan, and one of a radiograph.
    fs::create_dir_all(tcia.join("xml")).unwrap();
    fs::write(tcia.join("xml/copy.xml"), annotated("1.7")).unwrap();
    fs::write(tcia.join("xml/elsewhere.xml"), annotated("1.8")).unwrap();
    fs::write(tcia.join("xml/film.xml"), "<IdriReadMessage/>").unwrap();
    let found = Found::find(&tcia, &Limits::default()).unwrap();
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    assert_eq!((found.scans.len(), found.without_scan), (1, 1));
    let written = write_scan(&out, &found.scans[0], &options(), 0, 1).unwrap();
    assert_eq!((written.nodules, written.slices, written.missing_outlines), (2, 4, 0));
    let dataset = Dataset::open(&out, &DatasetOptions::default()).unwrap();
    assert_eq!((dataset.layout(), dataset.len()), (Layout::LidcSlices, 4));
    let cases = dataset.load().unwrap();
    assert!(cases.iter().all(|case| case.group == "LIDC-IDRI-0007" && case.annotations.len() == 4));
    let areas =
        |case: usize| -> Vec<usize> { cases[case].annotations.iter().map(|one| one.mask.area(0)).collect() };
    // The nodule of one reader lies in the first slice; the other begins in slice 2. The border counts to none, and
    // what is inside of a hole is cut out.
    assert_eq!(cases[0].id, "LIDC-IDRI-0007/nodule-0/slice-0");
    assert_eq!(
        [areas(0), areas(1), areas(2), areas(3)],
        [[0, 0, 16, 0], [30, 28, 0, 0], [16, 0, 0, 0], [0, 0, 6, 0]]
    );
    // From columns 10 to 15 and rows 10 to 15 the middle is 13: crops of 16 begin at 5.
    let mask = &cases[1].annotations[0].mask;
    assert!(mask.get(0, 5, 5) && !mask.get(0, 4, 5) && mask.get(0, 9, 10) && !mask.get(0, 10, 10));
    // Stretched by its own values.
    let pixels = cases[1].image.pixels();
    let ends = |of: fn(f32, f32) -> f32| pixels.iter().copied().reduce(of).unwrap();
    assert_eq!((ends(f32::min), ends(f32::max)), (0.0, 255.0));
    // With the border.
    let wide = Options { with_border: true, ..options() };
    write_scan(&folder.path().join("wide"), &found.scans[0], &wide, 0, 1).unwrap();
    let cases =
        Dataset::open(&folder.path().join("wide"), &DatasetOptions::default()).unwrap().load().unwrap();
    assert_eq!(cases[1].annotations[0].mask.area(0), 7 * 8);
}

#[test]
fn volumes_have_one_mask_file_for_each_reader() {
    let folder = tempfile::tempdir().unwrap();
    let (tcia, out) = (folder.path().join("tcia"), folder.path().join("out"));
    scan(&tcia.join("a"), "1.7", 6);
    fs::write(tcia.join("a.xml"), annotated("1.7")).unwrap();
    let found = Found::find(&tcia, &Limits::default()).unwrap();
    // The files' own name of the patient is none of TCIA's, and is not told.
    assert_eq!(found.scans[0].patient, "patient-0001");
    let written = write_scan(&out, &found.scans[0], &Options { volumes: true, ..options() }, 0, 1).unwrap();
    fs::write(out.join("manifest.jsonl"), format!("{}\n", written.row.unwrap())).unwrap();
    let cases = Dataset::open(&out, &DatasetOptions::default()).unwrap().load().unwrap();
    assert_eq!(cases.len(), 6);
    let areas: Vec<usize> = cases[2].annotations.iter().map(|one| one.mask.area(0)).collect();
    assert_eq!((areas, &*cases[2].group), (vec![30, 28, 0, 0], "patient-0001"));
    assert_eq!(cases[2].image.pixels()[0], 200.0);
    assert_eq!(cases[2].image.geometry.as_ref().unwrap().affine.unwrap()[2][3], 4.0);
}

#[test]
fn faults_are_told_by_file() {
    let folder = tempfile::tempdir().unwrap();
    scan(&folder.path().join("a"), "1.7", 6);
    let xml = folder.path().join("a.xml");
    for (text, phrase) in [
        ("<LidcReadMessage".to_owned(), "is no sound XML"),
        ("<LidcReadMessage/>".to_owned(), "has no ResponseHeader"),
        (message("", &[]), "names no series"),
        (annotated("1.7").replace("<xCoord>9</xCoord>", "<xCoord>nine</xCoord>"), "no whole numbers"),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><LidcReadMessage/>".to_owned(), "is no sound XML"),
    ] {
        fs::write(&xml, text).unwrap();
        let found = Found::find(folder.path(), &Limits::default()).unwrap();
        assert!(found.scans.is_empty());
        let message = found.faults[0].to_string();
        assert!(message.contains("a.xml") && message.contains(phrase), "{message} lacks {phrase}");
    }
    // Two files that say different things of one scan.
    fs::write(&xml, annotated("1.7")).unwrap();
    fs::write(folder.path().join("b.xml"), annotated("1.7").replace("TRUE", "FALSE")).unwrap();
    let found = Found::find(folder.path(), &Limits::default()).unwrap();
    assert!(found.faults[0].to_string().contains("annotates the series of"));
    fs::remove_file(folder.path().join("b.xml")).unwrap();
    // A slice that is not there: of the scan nothing is written where slices lack, else outlines are counted.
    fs::remove_file(folder.path().join("a/495.dcm")).unwrap();
    fs::write(&xml, annotated("1.7").replace("1.7.4", "1.7.9")).unwrap();
    let found = Found::find(folder.path(), &Limits::default()).unwrap();
    let written = write_scan(&folder.path().join("out"), &found.scans[0], &options(), 0, 1).unwrap();
    assert_eq!(written.missing_outlines, 1);
    fs::remove_file(folder.path().join("a/498.dcm")).unwrap();
    let found = Found::find(folder.path(), &Limits::default()).unwrap();
    let fault = write_scan(&folder.path().join("out2"), &found.scans[0], &options(), 0, 1).unwrap_err();
    assert!(fault.to_string().contains("slices between them are missing"), "{fault}");
}
