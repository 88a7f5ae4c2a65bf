//! A row of the contact sheet: the input, what readers drew, what the model says.

use image::RgbImage;

use super::html::{data_address, escaped, number};
use crate::picture::{ANNOTATION, Exhibit, HYPOTHESIS, Upright, input, overlay, png, reduced};

/// Pictures larger than this are reduced: a page of full radiographs would weigh too much.
const MOST_PIXELS: u32 = 256;

/// The row of one image.
pub fn row(exhibit: &Exhibit) -> String {
    let picture = input(&exhibit.case.image);
    let upright = Upright::of(exhibit.case.image.geometry.as_ref());
    let annotations = exhibit.annotations().map(|(annotation, share)| {
        let rater = annotation.rater.as_deref().unwrap_or("");
        let tile = upright.turned(overlay(&picture, &annotation.mask, &ANNOTATION));
        let caption = format!("<b>{share:.2}</b> {}", escaped(rater));
        figure(&tile, "annotation", share, &caption, annotation.mask.is_empty())
    });
    let annotations = annotations.collect::<String>();
    let word = if exhibit.prediction.draws.is_some() { "sample" } else { "code" };
    let listed = exhibit.hypotheses();
    let hypotheses = listed.iter().map(|one| {
        let tile = upright.turned(overlay(&picture, &one.mask, &HYPOTHESIS));
        let caption = format!("<b>{:.2}</b> {word} {}", one.probability, one.code);
        figure(&tile, "hypothesis", f64::from(one.probability), &caption, one.mask.is_empty())
    });
    let hypotheses = hypotheses.collect::<String>();
    let all = exhibit.prediction.len();
    let stands = if listed.len() < all { format!(" · standing for all {all}") } else { String::new() };
    let more_drawn = exhibit.case.annotations.len() - exhibit.annotations().count();
    let more_drawn = if more_drawn > 0 { format!(" · {more_drawn} more not shown") } else { String::new() };
    let ged = exhibit.ged.map_or(String::new(), |ged| format!(" · GED {}", number(ged)));
    let turned = upright.caption().map_or(String::new(), |caption| format!(" · {caption}"));
    let group = |name: &str, content: &str| match content {
        "" => String::new(),
        _ => format!("<div class=\"group\"><span>{name}</span><div class=\"masks\">{content}</div></div>"),
    };
    format!(
        "<section class=\"exhibit\"><header><b>{}</b>{ged}{turned}</header><div class=\"groups\">{}{}{}</div></section>\n",
        escaped(&exhibit.case.id),
        group(
            "input",
            &format!(
                "<figure class=\"mask\">{}</figure>",
                tile_image(&upright.turned(picture.clone()), "input")
            )
        ),
        group(&format!("readers{more_drawn}"), &annotations),
        group(&format!("model{stands}"), &hypotheses),
    )
}

fn figure(tile: &RgbImage, kind: &str, share: f64, caption: &str, empty: bool) -> String {
    let empty = if empty { "<span>empty</span>" } else { "" };
    format!(
        "<figure class=\"mask\"><div class=\"picture\">{}{empty}</div><div class=\"bar {kind}\"><i style=\"width:{:.1}%\"></i></div><figcaption>{caption}</figcaption></figure>",
        tile_image(tile, kind),
        100.0 * share.clamp(0.0, 1.0)
    )
}

fn tile_image(tile: &RgbImage, name: &str) -> String {
    format!("<img alt=\"{name}\" src=\"{}\">", data_address(&png(&reduced(tile, MOST_PIXELS))))
}
