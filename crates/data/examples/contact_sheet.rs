//! A picture of a task's first cases, one row each: the image, its annotations, a grey bar, the truth.
//!
//! `cargo run -p multivalued-data --release --example contact_sheet -- raters 128 1 sheet.png`; for
//! `lung-opacity` a last argument may name the folder of real radiographs (`images/`, `masks/`, `split.csv`).

use image::GrayImage;
use multivalued_data::Case;
use multivalued_data::synthetic::{Radiograph, Task, TaskName, lung_opacity_over, read_films};
use std::{error::Error, path::Path};

const ROWS: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, size, seed, out, rest @ ..] = &arguments[..] else {
        return Err("usage: contact_sheet TASK SIZE SEED OUT.png [RADIOGRAPHS]".into());
    };
    let (name, size, seed): (TaskName, usize, u64) = (name.parse()?, size.parse()?, seed.parse()?);
    let cases = match rest {
        [folder] => {
            let films: Vec<Radiograph> =
                read_films(Path::new(folder))?.into_iter().flat_map(|(_, films)| films).collect();
            let step = (films.len() / ROWS).max(1);
            let spaced: Vec<Radiograph> = films.into_iter().step_by(step).take(ROWS).collect();
            lung_opacity_over(&spaced, seed)?
        }
        _ => Task::new(name, size, seed)?.generate("test", ROWS),
    };
    sheet(&cases).save(out)?;
    Ok(())
}

fn sheet(cases: &[Case]) -> GrayImage {
    let truth = |case: &Case| case.truth.as_ref().map_or(0, Vec::len);
    let tile = cases.iter().map(|c| c.image.width().max(c.image.height())).max().unwrap_or(0) as u32 + 2;
    let annotations = cases.iter().map(|case| case.annotations.len()).max().unwrap_or(0);
    let modes = cases.iter().map(truth).max().unwrap_or(0);
    let (columns, rows) = ((1 + annotations + modes) as u32, cases.len() as u32);
    let mut sheet = GrayImage::from_pixel(columns * tile + 8, rows * tile, image::Luma([90]));
    for (row, case) in cases.iter().enumerate() {
        let mut put = |x: u32, pixel: &dyn Fn(usize, usize) -> f32| {
            for py in 0..case.image.height() {
                for px in 0..case.image.width() {
                    let value = (pixel(px, py).clamp(0.0, 1.0) * 255.0) as u8;
                    sheet.put_pixel(x + px as u32, row as u32 * tile + py as u32, image::Luma([value]));
                }
            }
        };
        put(0, &|x, y| case.image.plane(0)[y * case.image.width() + x]);
        let masks = case.annotations.iter().map(|a| &a.mask);
        for (column, mask) in masks.enumerate() {
            put((1 + column) as u32 * tile, &|x, y| f32::from(u8::from(mask.get(0, x, y))));
        }
        for (column, mode) in case.truth.iter().flatten().enumerate() {
            // The brighter, the more probable; the outline of what is improbable remains visible.
            let level = 0.3 + 0.7 * mode.probability;
            let x = (1 + annotations + column) as u32 * tile + 8;
            put(x, &|px, py| if mode.mask.get(0, px, py) { level } else { 0.0 });
        }
    }
    sheet
}
