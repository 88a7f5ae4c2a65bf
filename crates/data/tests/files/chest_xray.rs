//! `lung-opacity` over the real chest X-rays, where they lie beside the checkout.

use multivalued_data::synthetic::{lung_opacity_over, oracle_ged, read_films};

use crate::archive::unpacked;

#[test]
fn real_radiographs_become_two_distinct_modes() {
    let Some(folder) = unpacked(&["chest-xray"]) else { return };
    let splits = read_films(&folder.path().join("chest-xray")).unwrap();
    let counts: Vec<_> = splits.iter().map(|(split, films)| (split.as_str(), films.len())).collect();
    assert_eq!(counts, [("train", 640), ("test", 63)]);
    for (split, films) in splits {
        let count = films.len();
        let cases = lung_opacity_over(&films, 1).unwrap();
        let (mut floor, mut nearest) = (0.0, 0.0f64);
        for (case, film) in cases.iter().zip(&films) {
            assert_eq!((&case.id, &case.annotations[0].mask), (&film.name, &film.lungs));
            let truth = case.truth.as_ref().unwrap();
            assert_eq!((truth.len(), truth[0].probability, truth[1].probability), (2, 0.5, 0.5));
            // The cautious reader's mask lies within the other's, so their IoU is a ratio of areas.
            nearest = nearest.max(truth[1].mask.area(0) as f64 / truth[0].mask.area(0) as f64);
            floor += oracle_ged(case).unwrap() / count as f64;
        }
        println!("{split}: mean floor {floor:.4}, nearest modes {nearest:.3}");
        assert!(floor > 0.0 && floor < 0.03, "{split}: {floor}");
        assert!(nearest < 0.92, "{split}: {nearest}");
    }
}
