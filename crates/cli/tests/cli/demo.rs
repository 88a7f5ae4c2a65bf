//! The demo: a page at once, which follows the training.
#![cfg(unix)]

use std::fs;

use serde_json::Value;

use crate::interruption::{send, start, wait_until};
use crate::workplace::{Answer, Workplace};

/// The text of the demo's page, and what its script draws.
fn page(place: &Workplace) -> (String, Value) {
    let text = fs::read_to_string(place.path("demo/demo.html")).unwrap();
    let data = text.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data = serde_json::from_str(data).unwrap();
    (text, data)
}

#[test]
fn the_page_has_four_shapes_at_once_and_follows_the_training() {
    let place = Workplace::new();
    let arguments = ["demo", "--out", "demo", "--device", "cpu"];
    let child = start(&place, &arguments);
    wait_until(|| place.path("demo/demo.html").is_file());
    let (text, data) = page(&place);
    assert!(!place.path("demo/recipe.toml").exists(), "the page comes before the training");
    assert!(text.contains("The training begins") && data["reload"]["every"].as_u64() > Some(0));
    for picture in ["0", "1"].map(|number| &data["pictures"][number]) {
        assert_eq!((&picture["width"], &picture["height"]), (&160.into(), &160.into()));
        let probabilities = picture["hypotheses"].as_array().unwrap().iter();
        let probabilities: Vec<f64> = probabilities.map(|one| one["probability"].as_f64().unwrap()).collect();
        assert!(probabilities.iter().all(|p| (p - 0.25).abs() < 0.06), "{probabilities:?}");
        assert_eq!(probabilities.len(), 4);
    }
    // What is being trained joins the page as soon as it can say anything.
    wait_until(|| page(&place).1["pictures"]["2"].is_object());
    let (text, data) = page(&place);
    assert!(text.contains("of the training is over") && data["pictures"]["2"]["width"] == 64);
    send("-TERM", &child);
    let answer = Answer::of(&arguments, &child.wait_with_output().unwrap());
    assert!(answer.out.contains("page: demo/demo.html"), "{}", answer.out);
    answer.fails(75, &["saved at step"]);
    let (text, data) = page(&place);
    assert!(text.contains("The training ended early") && data.get("reload").is_none());
}
