//! Several views of one image: moved as training moves images, and what the networks say of them brought back, both
//! where the networks compute.

use crate::recipe::Recipe;
use multivalued_data::augment;
use multivalued_engine::{InverseViews, Placement, Tensor};
use std::ops::Range;

/// The views that a recipe asks for, of images of one size.
pub(super) struct Views {
    there: Vec<Placement>,
    back: Vec<Placement>,
}

impl Views {
    pub fn new(recipe: &Recipe, size: [usize; 2]) -> Self {
        let drawn = recipe.augment.views(recipe.predict.views, size);
        let placement =
            |augment::Placement { from, matrix, .. }: augment::Placement| Placement { from, matrix };
        Self {
            there: drawn.iter().map(|view| placement(view.placement(size))).collect(),
            back: drawn.iter().map(|view| placement(view.way_back(size))).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.there.len()
    }

    /// Some views of each image.
    ///
    /// # Shapes
    /// [images, height, width, channels] → [images·views, height, width, channels]
    pub fn of(&self, images: &Tensor, views: Range<usize>) -> Tensor {
        images.views(&self.there[views])
    }

    /// What some views contribute to the mean of outputs over the views that show a pixel, added to what the views
    /// before gave.
    ///
    /// # Shapes
    /// [images·views·repeats, height, width, channels] → [images·repeats, height, width, channels]
    pub fn mean(
        &self,
        outputs: &Tensor,
        views: Range<usize>,
        repeats: usize,
        before: Option<Tensor>,
    ) -> Tensor {
        outputs.mean_of_views(&InverseViews { back: &self.back, views, repeats }, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_engine::Device;

    fn views(changes: &[&str], size: [usize; 2]) -> Views {
        let mut recipe = Recipe::default();
        changes.iter().for_each(|change| recipe.set(change).unwrap());
        Views::new(&recipe, size)
    }

    /// Two images of two channels.
    fn pictures([width, height]: [usize; 2]) -> Tensor {
        let pixels: Vec<f32> = (0..4 * width * height).map(|at| (at * 7 % 23) as f32).collect();
        Tensor::from_slice(&Device::cpu(), [2, height, width, 2], &pixels)
    }

    #[test]
    fn one_view_is_the_image_itself() {
        let one = views(&["augment.rotation=30"], [5, 4]);
        let images = pictures([5, 4]);
        assert!(one.of(&images, 0..1).shares_values(&images));
        assert!(one.mean(&images, 0..1, 2, None).shares_values(&images));
    }

    #[test]
    fn a_network_that_repeats_its_input_is_given_it_back() {
        let turns = ["augment.flip_horizontal=0.5", "augment.quarter_turns=true", "predict.views=64"];
        for (size, count) in [([6, 6], 8), ([7, 4], 4)] {
            let (views, images) = (views(&turns, size), pictures(size));
            assert_eq!(views.len(), count, "{size:?}");
            let outputs = views.of(&images, 0..count);
            let values = outputs.to_vec();
            let each: Vec<&[f32]> = values.chunks_exact(2 * size[0] * size[1]).take(count).collect();
            assert!((1..count).all(|view| each[view] != each[0]), "views differ");
            let mean = views.mean(&outputs, 0..count, 1, None).to_vec();
            for (mean, value) in mean.iter().zip(images.to_vec()) {
                assert!((mean - value).abs() < 1e-5, "{mean} for {value}");
            }
        }
    }

    #[test]
    fn what_a_view_does_not_show_it_says_nothing_of() {
        let zoomed = views(&["augment.scale=1.0", "predict.views=4"], [9, 9]);
        let outputs = [[1.0; 81], [2.0; 81], [3.0; 81], [4.0; 81]].concat();
        let outputs = Tensor::from_slice(&Device::cpu(), [4, 9, 9, 1], &outputs);
        let mean = zoomed.mean(&outputs, 0..4, 1, None).to_vec();
        // The last is enlarged, the two before it are made smaller.
        let (corner, centre) = (0, 40);
        assert!((mean[corner] - 2.0).abs() < 1e-6 && (mean[centre] - 2.5).abs() < 1e-6, "{mean:?}");
    }
}
