//! Requests that wait are computed together, and each hears what it would hear alone.

use axum::body::Body;
use axum::http::Request;
use multivalued_data::Image;
use multivalued_data::draw::Draw;
use multivalued_serve::{Limits, Options};

use super::{INFER, Place, ask, inference, predictor};

fn image(at: usize) -> Image {
    let size = if at.is_multiple_of(3) { [17, 12] } else { [16, 16] };
    let mut draw = Draw::new(3, &["image"], at as u64);
    Image::new(size[0], size[1], 1, (0..size[0] * size[1]).map(|_| draw.unit() as f32).collect())
}

#[test]
fn what_is_computed_together_is_what_each_would_be_alone() {
    let (place, predictor) = (Place::small(), predictor());
    let answers = place.runtime.block_on(async {
        let asked: Vec<_> = (0..40)
            .map(|at| {
                let image = image(at);
                let body = inference(&[image.height(), image.width()], image.pixels());
                let request = Request::post(INFER).body(Body::from(body)).unwrap();
                tokio::spawn(ask(place.router(), request))
            })
            .collect();
        let mut answers = Vec::new();
        for one in asked {
            answers.push(one.await.unwrap());
        }
        answers
    });
    for (at, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.status, 200, "{:?}", answer.bytes);
        let found = answer.json();
        let output = |name: &str| {
            let outputs = found["outputs"].as_array().unwrap();
            outputs.iter().find(|output| output["name"] == name).unwrap()["data"].clone()
        };
        let alone = predictor.predict(&[&image(at)]).unwrap().remove(0);
        let probabilities: Vec<f32> = alone.hypotheses.iter().map(|one| one.probability).collect();
        let masks: Vec<u8> = alone.hypotheses.iter().flat_map(|one| one.mask.labels()).collect();
        assert_eq!(
            serde_json::from_value::<Vec<f32>>(output("probabilities")).unwrap(),
            probabilities,
            "{at}"
        );
        assert_eq!(serde_json::from_value::<Vec<u8>>(output("masks")).unwrap(), masks, "{at}");
        let mean: Vec<f32> = serde_json::from_value(output("mean")).unwrap();
        assert_eq!(mean, alone.label_shares()[1], "{at}");
        assert!(alone.len() > 1, "{at}: one hypothesis alone says little");
    }
    let metrics = place.get("/metrics").bytes;
    let text = String::from_utf8_lossy(&metrics);
    let number = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(number("multivalued_images_total"), 40.0);
    assert!(number("multivalued_batch_images_count") < 40.0, "none was computed with another");
    assert_eq!(number("multivalued_held_bytes"), 0.0, "memory came back");
}

#[test]
fn images_of_one_request_have_padded_lists() {
    let (place, predictor) = (Place::small(), predictor());
    let both: Vec<Image> = (1..30).filter(|at: &usize| !at.is_multiple_of(3)).map(image).collect();
    let values: Vec<f32> = both.iter().flat_map(|image| image.pixels().to_vec()).collect();
    let answer = place.post(INFER, inference(&[both.len(), 16, 16, 1], &values)).json();
    let output =
        |name: &str| answer["outputs"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    let alone: Vec<_> = both.iter().map(|image| predictor.predict(&[image]).unwrap().remove(0)).collect();
    let counts: Vec<usize> = alone.iter().map(|one| one.len()).collect();
    assert_eq!(serde_json::from_value::<Vec<usize>>(output("count")["data"].clone()).unwrap(), counts);
    let longest = *counts.iter().max().unwrap();
    assert!(counts.iter().any(|&count| count < longest), "all lists are as long: {counts:?}");
    assert_eq!(output("masks")["shape"], serde_json::json!([both.len(), longest, 16, 16]));
    let codes: Vec<i64> = serde_json::from_value(output("codes")["data"].clone()).unwrap();
    let masks: Vec<u8> = serde_json::from_value(output("masks")["data"].clone()).unwrap();
    for (at, one) in alone.iter().enumerate() {
        let own = &codes[at * longest..(at + 1) * longest];
        let wanted = one.hypotheses.iter().map(|one| one.code as i64);
        assert_eq!(own, wanted.chain(std::iter::repeat(-1)).take(longest).collect::<Vec<_>>());
        let own = &masks[at * longest * 256..(at + 1) * longest * 256];
        let wanted: Vec<u8> = one.hypotheses.iter().flat_map(|one| one.mask.labels()).collect();
        assert!(own[..wanted.len()] == wanted && own[wanted.len()..].iter().all(|&label| label == 0));
    }
}

#[test]
fn a_full_queue_says_when_to_come_back_and_forgets_who_has_gone() {
    let limits = Limits { queue: 2, ..Limits::default() };
    let place = Place::new(Options { limits, ..Options::default() });
    let body = inference(&[64, 64, 64, 1], &vec![0.5; 64 * 64 * 64]);
    place.runtime.block_on(async {
        let request = || Request::post(INFER).body(Body::from(body.clone())).unwrap();
        let asked: Vec<_> = (0..24).map(|_| tokio::spawn(ask(place.router(), request()))).collect();
        let (mut answered, mut refused) = (0, 0);
        for one in asked {
            let answer = one.await.unwrap();
            match answer.status.as_u16() {
                200 => answered += 1,
                503 => {
                    assert!(answer.headers.contains_key("retry-after") && answer.json()["error"].is_string());
                    refused += 1;
                }
                other => panic!("{other}"),
            }
        }
        assert!(answered >= 2 && refused > 0, "{answered} answered, {refused} refused");
        // Those who have gone are not computed.
        let gone: Vec<_> = (0..24).map(|_| tokio::spawn(ask(place.router(), request()))).collect();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        gone.iter().for_each(tokio::task::JoinHandle::abort);
        for one in gone {
            let _ = one.await;
        }
    });
    let small = place.post(INFER, inference(&[4, 4], &[0.5; 16]));
    assert_eq!(small.status, 200);
}
