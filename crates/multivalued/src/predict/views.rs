//! Several views of one image: moved as training moves images, and what the networks say of them brought back.

use crate::recipe::Recipe;
use multivalued_data::Image;
use multivalued_data::augment::{Drawn, WayBack};
use std::borrow::Cow;

/// The views that a recipe asks for, of images of one size.
pub(super) struct Views {
    drawn: Vec<Drawn>,
    ways_back: Vec<WayBack>,
    /// How many views show each pixel; the image as it is shows them all.
    shown: Vec<f32>,
    /// Width and height.
    size: [usize; 2],
}

impl Views {
    pub fn new(recipe: &Recipe, size: [usize; 2]) -> Self {
        let drawn = recipe.augment.views(recipe.predict.views, size);
        let ways_back: Vec<WayBack> = drawn.iter().map(|view| view.way_back(size)).collect();
        let count = |pixel: usize| ways_back.iter().filter(|way| way.shown()[pixel]).count() as f32;
        let shown = (0..size[0] * size[1]).map(count).collect();
        Self { drawn, ways_back, shown, size }
    }

    pub fn len(&self) -> usize {
        self.drawn.len()
    }

    /// All views of an image.
    pub fn of(&self, image: &Image) -> impl Iterator<Item = Image> {
        self.drawn.iter().map(|view| view.moved(image))
    }

    /// The mean of one output's logits over the views that show a pixel, where the image itself has it.
    ///
    /// # Shapes
    /// for each view [height, width, channels] → [height, width, channels]
    pub fn mean<'l>(&self, outputs: impl IntoIterator<Item = &'l [f32]>) -> Cow<'l, [f32]> {
        let mut outputs = outputs.into_iter();
        if self.len() == 1 {
            return outputs.next().map_or_else(Cow::default, Cow::Borrowed);
        }
        let mut mean = Vec::new();
        self.add(&mut mean, 0, outputs);
        mean.into()
    }

    /// Adds what some views, from the `first` on, contribute to the mean, which is empty before.
    pub fn add<'l>(&self, mean: &mut Vec<f32>, first: usize, outputs: impl IntoIterator<Item = &'l [f32]>) {
        let [width, height] = self.size;
        let pixels = width * height;
        for (way_back, output) in self.ways_back[first..].iter().zip(outputs) {
            let channels = output.len() / pixels;
            let planes = (0..output.len()).map(|at| output[at % pixels * channels + at / pixels]).collect();
            let back = way_back.apply(&Image::new(width, height, channels, planes));
            mean.resize(output.len(), 0.0);
            for (pixel, mean) in mean.chunks_exact_mut(channels).enumerate() {
                if way_back.shown()[pixel] {
                    for (channel, mean) in mean.iter_mut().enumerate() {
                        *mean += back.plane(channel)[pixel] / self.shown[pixel];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(changes: &[&str], size: [usize; 2]) -> Views {
        let mut recipe = Recipe::default();
        changes.iter().for_each(|change| recipe.set(change).unwrap());
        Views::new(&recipe, size)
    }

    /// Two channels, interleaved, of which each is known from the picture's first and second.
    fn picture([width, height]: [usize; 2]) -> Image {
        let pixels = (0..2 * width * height).map(|at| (at * 7 % 23) as f32).collect();
        Image::new(width, height, 2, pixels)
    }

    #[test]
    fn one_view_is_the_image_itself() {
        let one = views(&["augment.rotation=30"], [5, 4]);
        let image = picture([5, 4]);
        assert_eq!(one.of(&image).collect::<Vec<_>>(), [image]);
        let output = [1.5; 20];
        assert!(matches!(one.mean([&output[..]]), Cow::Borrowed(mean) if mean == output));
    }

    #[test]
    fn a_network_that_repeats_its_input_is_given_it_back() {
        let turns = ["augment.flip_horizontal=0.5", "augment.quarter_turns=true", "predict.views=64"];
        for (size, count) in [([6, 6], 8), ([7, 4], 4)] {
            let (views, image) = (views(&turns, size), picture(size));
            assert_eq!(views.len(), count, "{size:?}");
            let outputs: Vec<Vec<f32>> =
                views.of(&image).map(|view| crate::batch::interleaved(&view)).collect();
            assert!((1..count).all(|view| outputs[view] != outputs[0]), "views differ");
            let mean = views.mean(outputs.iter().map(Vec::as_slice));
            for (mean, value) in mean.iter().zip(crate::batch::interleaved(&image)) {
                assert!((mean - value).abs() < 1e-5, "{mean} for {value}");
            }
        }
    }

    #[test]
    fn what_a_view_does_not_show_it_says_nothing_of() {
        let zoomed = views(&["augment.scale=1.0", "predict.views=4"], [9, 9]);
        let outputs = [[1.0; 81], [2.0; 81], [3.0; 81], [4.0; 81]];
        let mean = zoomed.mean(outputs.iter().map(|output| &output[..]));
        // The last is enlarged, the two before it are made smaller.
        let (corner, centre) = (0, 40);
        assert_eq!((zoomed.shown[corner], zoomed.shown[centre]), (3.0, 4.0));
        assert!((mean[corner] - 2.0).abs() < 1e-6 && (mean[centre] - 2.5).abs() < 1e-6, "{mean:?}");
    }
}
