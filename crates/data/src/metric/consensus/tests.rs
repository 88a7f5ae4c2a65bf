//! By hand, and against SimpleITK.

use super::*;
use crate::{Annotation, Case, Image};

fn drawn(rows: &[&str]) -> Mask {
    Mask::from_fn(rows[0].len(), rows.len(), |x, y| rows[y].as_bytes()[x] == b'#')
}

const LEFT: [&str; 6] = ["........", ".####...", ".####...", ".####...", "........", "........"];
const RIGHT: [&str; 6] = ["........", "..####..", "..####..", "..####..", "........", "........"];
const SLANTED: [&str; 6] = ["........", ".###....", ".####...", ".#####..", "........", "......#."];
const NOTHING: [&str; 6] = ["........"; 6];

fn votes(readers: &[[&str; 6]]) -> Votes {
    let masks: Vec<Mask> = readers.iter().map(|rows| drawn(rows)).collect();
    Votes::of(&masks.iter().collect::<Vec<_>>(), 0)
}

/// The probability of the pixels that exactly these readers marked.
fn of_set(votes: &Votes, staple: &Staple, members: &[bool]) -> f64 {
    let is_it = |set: &usize| (0..members.len()).all(|reader| votes.marked[reader][*set] == members[reader]);
    staple.probability[(0..votes.pixels.len()).find(is_it).expect("some pixels have these readers")]
}

#[test]
fn pixels_are_counted_by_their_readers() {
    let votes = votes(&[LEFT, RIGHT]);
    let mut counts: Vec<(bool, bool, f64)> = (0..votes.pixels.len())
        .map(|set| (votes.marked[0][set], votes.marked[1][set], votes.pixels[set]))
        .collect();
    let expected = [
        (false, false, 0.0),
        (false, false, 33.0),
        (false, true, 3.0),
        (true, false, 3.0),
        (true, true, 9.0),
    ];
    counts.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
    assert_eq!(counts, expected, "48 pixels are one word, which is looked at");

    // Two words of three: what lies in the third is nobody's, too.
    let wide = |at: usize| Mask::from_fn(64, 3, |x, y| x < 10 && y == at);
    let votes = Votes::of(&[&wide(0), &wide(2)], 0);
    assert_eq!(votes.pixels.iter().sum::<f64>(), 192.0);
    assert_eq!(votes.pixels.last(), Some(&64.0));
    assert_eq!(votes.iou(&votes.majority(&[0], &[1.0, 1.0]), 0), 1.0);
}

/// SimpleITK 2.5.7 (ITK 5.4), `STAPLEImageFilter` with foreground value 1 on the same masks.
#[test]
fn staple_is_that_of_simpleitk() {
    // It ends its rounds earlier.
    const CLOSE: f64 = 1e-5;
    struct Golden<'a> {
        readers: &'a [[&'a str; 6]],
        sensitivity: &'a [f64],
        specificity: &'a [f64],
        probability: &'a [(&'a [bool], f64)],
    }
    let (yes, no) = (true, false);
    for golden in [
        Golden {
            readers: &[LEFT, RIGHT, SLANTED],
            sensitivity: &[0.9015838518974212, 0.7528820805294024, 0.9175776131413309],
            specificity: &[1.0, 0.942946034138585, 0.9773098173619569],
            probability: &[
                (&[no, no, no], 0.0007516022930556396),
                (&[no, yes, no], 0.03649167751002241),
                (&[no, yes, yes], 0.9478095740348702),
                (&[no, no, yes], 0.2650663780852609),
                (&[yes, yes, no], 1.0),
            ],
        },
        Golden {
            readers: &[LEFT, RIGHT, SLANTED, NOTHING],
            sensitivity: &[0.916166603388383, 0.758713516750298, 0.9194320872667452, 0.0],
            specificity: &[1.0, 0.9409107699796044, 0.9725737778286428, 1.0],
            probability: &[
                (&[no, yes, no, no], 0.020842447364838933),
                (&[no, yes, yes, no], 0.8959861758528027),
                (&[no, no, yes, no], 0.1467856094875497),
            ],
        },
        Golden {
            readers: &[LEFT, RIGHT],
            sensitivity: &[0.862372763981631; 2],
            specificity: &[0.9541240365004616; 2],
            probability: &[(&[yes, no], 0.4747438089074386), (&[yes, yes], 0.9915815905833384)],
        },
    ] {
        let votes = votes(golden.readers);
        let all: Vec<usize> = (0..golden.readers.len()).collect();
        let staple = votes.staple(&all);
        for (found, expected) in
            [(&staple.sensitivity, golden.sensitivity), (&staple.specificity, golden.specificity)]
        {
            let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < CLOSE);
            assert!(close, "{found:?}, expected {expected:?}");
        }
        for (members, expected) in golden.probability {
            let found = of_set(&votes, &staple, members);
            assert!((found - expected).abs() < CLOSE, "{members:?}: {found}, expected {expected}");
        }
    }
}

#[test]
fn one_who_drew_and_one_who_did_not_by_hand() {
    // The drawer cannot miss (p = 1), the other finds nothing (p = 0, q = 1). With w the probability of the 12 of 48
    // marked pixels, the drawer's specificity is 36 / (36 + 12 (1 − w)), the prior 1/8: w = 1/2 solves it.
    let votes = votes(&[LEFT, NOTHING]);
    let staple = votes.staple(&[0, 1]);
    assert!((of_set(&votes, &staple, &[true, false]) - 0.5).abs() < 1e-6);
    assert!((staple.sensitivity[0] - 1.0).abs() < 1e-9 && staple.sensitivity[1].abs() < 1e-9);
    assert!((staple.specificity[0] - 36.0 / 42.0).abs() < 1e-6);
    // One half is not more than one half.
    assert!(!votes.staple_mask(&[0, 1]).contains(&true));
}

#[test]
fn who_agrees_is_right_and_who_drew_nothing_too() {
    for same in [LEFT, NOTHING] {
        let votes = votes(&[same; 3]);
        let staple = votes.staple(&[0, 1, 2]);
        assert!(staple.sensitivity.iter().chain(&staple.specificity).all(|share| (share - 1.0).abs() < 1e-9));
        assert_eq!(votes.iou(&votes.staple_mask(&[0, 1, 2]), 0), 1.0);
        assert_eq!(votes.iou(&votes.majority(&[0, 1, 2], &[1.0; 3]), 0), 1.0);
    }
}

#[test]
fn a_majority_is_more_than_half_of_the_weight() {
    let votes = votes(&[LEFT, RIGHT, NOTHING, NOTHING]);
    assert!(!votes.majority(&[0, 1, 2, 3], &[0.25; 4]).contains(&true), "two of four");
    let heavier = votes.majority(&[0, 1, 2, 3], &[0.4, 0.2, 0.2, 0.2]);
    assert!((votes.iou(&heavier, 0) - 9.0 / 12.0).abs() < 1e-12, "where both drew");
    let without = votes.majority(&[0, 1, 2], &[0.25; 4]);
    assert!((votes.iou(&without, 1) - 9.0 / 12.0).abs() < 1e-12, "two of three");
}

#[test]
fn nearness_by_hand() {
    let case = |readers: &[[&str; 6]]| Case {
        id: "a".into(),
        group: "a".into(),
        image: Image::new(1, 1, 1, vec![0.0]),
        annotations: readers
            .iter()
            .map(|rows| Annotation { mask: drawn(rows), rater: None, weight: 1.0 })
            .collect(),
        truth: None,
    };
    let two = case(&[LEFT, RIGHT]);
    let [majority, staple] = nearness(&WeightedMasks::annotations(&two).unwrap()).unwrap();
    // Both marked 9 of 15; the consensus of the others is the other reader's mask.
    assert!((majority.of_others - 9.0 / 15.0).abs() < 1e-12 && (staple.of_others - 9.0 / 15.0).abs() < 1e-12);
    assert!((majority.of_all - 9.0 / 12.0).abs() < 1e-12 && (staple.of_all - 9.0 / 12.0).abs() < 1e-12);
    let three = case(&[LEFT, LEFT, NOTHING]);
    let [majority, _] = nearness(&WeightedMasks::annotations(&three).unwrap()).unwrap();
    // Of all: the two who drew. Of the others: for each drawer nothing (one of two), for the third the drawing.
    assert!((majority.of_all - 2.0 / 3.0).abs() < 1e-6 && majority.of_others.abs() < 1e-12);
    assert!(nearness(&WeightedMasks::annotations(&case(&[LEFT])).unwrap()).is_none());
}

#[test]
fn a_decision_is_painted_pixel_by_pixel() {
    let masks = [LEFT, RIGHT, SLANTED].map(|rows| drawn(&rows));
    let all: Vec<&Mask> = masks.iter().collect();
    let votes = Votes::of(&all, 0);
    let mut painted = Mask::empty(8, 6, 1);
    votes.paint(&votes.majority(&[0, 1, 2], &[1.0; 3]), &all, 0, &mut painted);
    let two_of_three = Mask::from_fn(8, 6, |x, y| masks.iter().filter(|mask| mask.get(0, x, y)).count() >= 2);
    assert_eq!(painted, two_of_three);
}
