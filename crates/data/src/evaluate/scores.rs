//! The scores by name: of one image, and summarised. The field names are the keys of the report.

use serde::{Deserialize, Serialize};

/// A struct of numbers that can also be walked by name.
macro_rules! named_scores {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$doc])* pub $key: f64,)*
        }

        /// What is not known on both sides is the same.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                let same = |(a, b): (f64, f64)| a == b || a.is_nan() && b.is_nan();
                self.values().into_iter().zip(other.values()).all(same)
            }
        }

        impl $name {
            /// The names of the scores, in order.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            /// The scores, in the order of their names.
            pub fn values(&self) -> Vec<f64> {
                vec![$(self.$key),*]
            }

            /// The scores from their values, taken in the order of their names.
            pub fn taken_from(values: &mut impl Iterator<Item = f64>) -> Self {
                let mut next = || values.next().expect("as many values as scores");
                Self { $($key: next()),* }
            }
        }
    };
}

/// The same of numbers that some images have not, and a report of before them has not at all: not a number there.
macro_rules! partial_scores {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident,)* }) => {
        named_scores! {
            $(#[$about])*
            $name {
                $($(#[$doc])* #[serde(default = "unknown", skip_serializing_if = "is_unknown")] $key,)*
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: unknown()),* }
            }
        }
    };
}

/// A score that is not known.
fn unknown() -> f64 {
    f64::NAN
}

fn is_unknown(score: &f64) -> bool {
    score.is_nan()
}

named_scores! {
    /// What every image has. `metric` gives the formulas.
    Scores {
        /// Squared generalized energy distance from the exact probabilities.
        ged_exact,
        /// The same in the limit of infinitely many draws; for stated probabilities the same number.
        ged_limit,
        /// The same without the pairs of a mask with itself; may be negative.
        ged_unbiased,
        /// GED of 4 draws.
        ged_4,
        /// GED of 16 draws.
        ged_16,
        /// GED of 32 draws.
        ged_32,
        /// GED of 50 draws.
        ged_50,
        /// GED of 100 draws.
        ged_100,
        /// Matched IoU by optimal transport.
        hm_iou,
        /// Matched IoU of the 16 draws behind `ged_16`.
        hm_iou_16,
        /// Dice of the marginal maps, the mean over five thresholds.
        soft_dice,
        /// Mean over labels of the best output's Dice (D_max).
        dice_max_labels,
        /// Mean over labels of the best output's IoU. Not a number where a report of before it was read.
        #[serde(default = "unknown", skip_serializing_if = "is_unknown")]
        iou_max_labels,
        /// Mean over outputs of the best label's Dice.
        dice_max_outputs,
        /// Mean Dice of labels and outputs paired one to one.
        dice_match,
        /// Mean Dice over all pairs.
        dice_mean,
        /// Mean distance of two outputs.
        diversity_outputs,
        /// Mean distance of two labels.
        diversity_labels,
        /// Brier score of the output that each annotation is assigned to.
        mode_brier,
        /// Negative log-likelihood of the same.
        mode_nll,
        /// Predicted probability of an empty mask.
        empty_probability,
        /// Share of empty annotations, by weight.
        empty_label_share,
        /// Outputs with probability of at least 1e-5.
        n_x,
        /// Outputs with probability of at least 0.1 %.
        n_x_01pct,
        /// Outputs with probability of at least 1 %.
        n_x_1pct,
        /// Fewest outputs that hold 99 % of the probability.
        n_x_99mass,
        /// exp(entropy) of the probabilities.
        n_x_effective,
        /// Outputs of positive probability before equal ones were merged.
        n_x_listed,
    }
}

partial_scores! {
    /// What some images have: the parts of the GED, what needs several readers, boundaries and lesions. `top` is of
    /// the most probable hypothesis alone, `expected` the mean over hypotheses by their probability.
    Details {
        /// What of `ged_limit` comes from the probability of an empty mask.
        ged_emptiness,
        /// The rest of `ged_limit`.
        ged_shape,
        /// Expected GED of a model that knew the readers' distribution, D/K; where there are several readers.
        ged_floor,
        /// What of the floor comes from emptiness.
        ged_floor_emptiness,
        /// The rest of the floor.
        ged_floor_shape,
        /// `ged_limit` less the floor.
        ged_excess,
        /// The same of emptiness.
        ged_excess_emptiness,
        /// The same of shape.
        ged_excess_shape,
        /// GED of the most probable hypothesis as the only answer.
        top_ged,
        /// Its mean IoU with the readers.
        top_iou,
        /// GED of the hypothesis that is nearest to all by their probability, as the only answer.
        medoid_ged,
        /// Its mean IoU with the readers.
        medoid_iou,
        /// The mean IoU of a hypothesis and a reader.
        expected_iou,
        /// GED of a majority vote as the only answer, for each reader that of the others.
        majority_ged,
        /// Its mean IoU with the readers.
        majority_iou,
        /// The same of STAPLE.
        staple_ged,
        /// The same of STAPLE.
        staple_iou,
        /// GED of the majority of all readers, each of whom has a part in it.
        majority_all_ged,
        /// Its mean IoU with the readers.
        majority_all_iou,
        /// The same of STAPLE.
        staple_all_ged,
        /// The same of STAPLE.
        staple_all_iou,
        /// 95th percentile of the distance of boundaries, where reader and hypothesis both mark something.
        hd95_top,
        /// The same in expectation.
        hd95_expected,
        /// Share of both boundaries within the tolerance of each other.
        nsd_top,
        /// The same in expectation.
        nsd_expected,
        /// Lesions of a reader.
        lesions,
        /// Those that the most probable hypothesis has too.
        lesions_found_top,
        /// Lesions of the most probable hypothesis that the reader has not.
        lesions_false_top,
        /// Found lesions in expectation.
        lesions_found_expected,
        /// False lesions in expectation.
        lesions_false_expected,
    }
}

partial_scores! {
    /// What only all images together have, and not always.
    PooledDetails {
        /// Share of the readers' lesions that the most probable hypothesis finds.
        lesion_sensitivity_top,
        /// F1 of lesions of the most probable hypothesis.
        lesion_f1_top,
        /// The same share in expectation.
        lesion_sensitivity_expected,
        /// F1 in expectation.
        lesion_f1_expected,
        /// Calibration error of "larger than a quarter of the readers' areas".
        larger_q25_ece,
        /// The same of half of them.
        larger_q50_ece,
        /// The same of three quarters of them.
        larger_q75_ece,
        /// How far the histogram of the areas' probability integral transform is from a flat one.
        area_pit_error,
    }
}

named_scores! {
    /// Scores that only all images together have.
    PooledScores {
        /// Calibration error of the outputs' probabilities, equal-count bins.
        mode_ece,
        /// Calibration error of the probability of an empty mask, equal-count bins.
        empty_ece,
        /// Calibration error of the pixels' marginal probability, MoSE's convention.
        pixel_ece,
        /// The same with the pixels of probability zero as a bin.
        pixel_ece_zero_bin,
        /// The same over the union of labels and outputs.
        pixel_ece_union,
    }
}

named_scores! {
    /// What an image has whose true modes are known.
    TruthScores {
        /// Share of true modes found: IoU of at least 0.9, at least half their probability.
        mode_recall,
        /// Probability of the outputs that show a true mode.
        mode_precision,
        /// Mean over modes of |predicted − true probability|.
        mode_probability_mae,
        /// Half the sum of |predicted − true probability|.
        total_variation,
        /// The same where an output that shows no mode counts for none. Not a number where a report of before it was
        /// read.
        #[serde(default = "unknown", skip_serializing_if = "is_unknown")]
        total_variation_shown,
        /// |N_x − number of true modes|, N_x at 1e-5.
        n_x_error,
        /// The same with N_x at 1 %.
        n_x_1pct_error,
    }
}

/// The summary of an evaluation: means over images, pooled scores, counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Images scored.
    pub cases: usize,
    /// Groups (patients) they come from.
    pub groups: usize,
    /// Means over images.
    #[serde(flatten)]
    pub scores: Scores,
    /// Scores of all images together.
    #[serde(flatten)]
    pub pooled: PooledScores,
    /// Means over the images that have the number.
    #[serde(flatten)]
    pub details: Details,
    /// Further scores of all images together.
    #[serde(flatten)]
    pub pooled_details: PooledDetails,
    /// Mean GED of the true distribution itself, over the images where it is known: no method that
    /// knows only the image can be expected to go below it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oracle_ged: Option<f64>,
    /// Means over the images whose truth is known.
    #[serde(flatten)]
    pub truth: Option<TruthScores>,
    /// Standard deviation over images of a mode's predicted minus true probability, root mean square
    /// over modes (by their place in the truth).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode_probability_std: Option<f64>,
}

impl Summary {
    /// All scores by name, in the order of the report, less those that an older report has not; counts of
    /// cases and groups are not scores.
    pub fn numbers(&self) -> Vec<(&'static str, f64)> {
        fn named<'a>(
            keys: &'a [&'static str],
            values: Vec<f64>,
        ) -> impl Iterator<Item = (&'static str, f64)> + 'a {
            keys.iter().copied().zip(values)
        }
        let mut all: Vec<_> = named(Scores::KEYS, self.scores.values()).collect();
        all.extend(named(PooledScores::KEYS, self.pooled.values()));
        all.extend(named(Details::KEYS, self.details.values()));
        all.extend(named(PooledDetails::KEYS, self.pooled_details.values()));
        all.extend(self.oracle_ged.map(|value| ("oracle_ged", value)));
        if let Some(truth) = &self.truth {
            all.extend(named(TruthScores::KEYS, truth.values()));
        }
        all.extend(self.mode_probability_std.map(|value| ("mode_probability_std", value)));
        all.retain(|(_, value)| !value.is_nan());
        all
    }
}
