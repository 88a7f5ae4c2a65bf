//! `lung-opacity` over the real chest X-rays, where they lie beside the checkout.

use multivalued_data::synthetic::{Radiograph, lung_opacity_over, oracle_ged, parse_split_list};
use multivalued_data::{Image, Mask};
use std::path::Path;

use crate::archive::unpacked;

fn radiograph(folder: &Path, name: &str) -> Radiograph {
    let open = |kind: &str| image::open(folder.join(kind).join(name)).unwrap().into_luma8();
    let (film, lungs) = (open("images"), open("masks"));
    let (width, height) = (film.width() as usize, film.height() as usize);
    let pixels = film.pixels().map(|p| f32::from(p[0]) / 255.0).collect();
    Radiograph {
        name: name.to_owned(),
        image: Image::new(width, height, 1, pixels),
        lungs: Mask::from_fn(width, height, |x, y| lungs.get_pixel(x as u32, y as u32)[0] > 127),
    }
}

#[test]
fn real_radiographs_become_two_distinct_modes() {
    let Some(folder) = unpacked(&["chest-xray"]) else { return };
    let folder = folder.path().join("chest-xray");
    let list = parse_split_list(&std::fs::read_to_string(folder.join("split.csv")).unwrap()).unwrap();
    for (split, count) in [("train", 640), ("test", 63)] {
        let films: Vec<Radiograph> =
            list.iter().filter(|(_, s)| s == split).map(|(name, _)| radiograph(&folder, name)).collect();
        assert_eq!(films.len(), count, "{split}");
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
