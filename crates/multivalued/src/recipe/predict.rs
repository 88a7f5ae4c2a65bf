//! `[predict]`: what a prediction keeps.

use super::table::{BELOW_ONE, recipe_table};

recipe_table! {
    /// What a prediction keeps.
    predict: PredictRecipe {
        /// ε, codes below it are dropped
        min_probability: f32 = 1e-5, [0, BELOW_ONE], paper "1e-5";
        /// outputs that overlap at least this much are merged
        merge_iou: f32 = 0.99, [0, 1], paper "1: never";
        /// samples of the Probabilistic U-Net's prior for each image, equal ones counted together
        samples: usize = 100, [1, 10_000], paper "4 and 16";
        /// views of each image, flipped, turned and resampled as `augment` does and brought back, whose
        /// outputs and probabilities are averaged; costs as many passes
        views: usize = 1, [1, 16], paper "1";
        /// whether a training ends with the keys below fitted to its validation cases, by maximum likelihood;
        /// `best/` and models made of it keep them
        calibrate: bool = true, paper "false";
        /// probabilities of masks that are not empty are raised to 1/this; fitted where outlines differ as
        /// readers' do (codes are shared and `loss.overlap` is 0)
        temperature: f32 = 1.0, [0.01, 100], paper "1";
        /// the logit of the empty mask's probability is divided by this
        empty_temperature: f32 = 1.0, [0.01, 100], paper "1";
        /// what is added to that logit afterwards
        empty_shift: f32 = 0.0, [-20, 20], paper "0";
        /// every mask is given three times, a third of its probability each: as it is, and with its outline
        /// where the logit is so much below and above 0; for masks of one class. Fitted with the
        /// temperatures, where it lowers the GED, outlines differ as readers' do (codes are shared and
        /// `loss.overlap` is 0) and there are 20 groups to validate by; 0 for none
        spread: f32 = 0.0, [0, 20], paper "0";
    }
}

impl PredictRecipe {
    /// Forgets what was fitted to the validation cases of a training.
    pub fn forget_fit(&mut self) {
        let Self { temperature, empty_temperature, empty_shift, spread, .. } = Self::default();
        (self.temperature, self.empty_temperature) = (temperature, empty_temperature);
        (self.empty_shift, self.spread) = (empty_shift, spread);
    }
}
