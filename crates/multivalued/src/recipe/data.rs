//! `[data]`: where cases come from, and what is done to them before the network sees them.

use super::table::{BELOW_ONE, MOST_SEED, recipe_table};
use crate::Result;
use multivalued_data::normalise::Normalisation;
use multivalued_data::{CaseList, Grid};

recipe_table! {
    /// Where cases come from: a synthetic task, or a data set on disk.
    data: DataRecipe {
        /// synthetic task, empty where `data.path` names a data set
        task: String = String::new();
        /// data set's folder or manifest, empty for a synthetic task
        path: String = String::new();
        /// how a data set's files are arranged, empty to find out by content
        layout: String = String::new();
        /// what makes stored values a mask: `binary`, `threshold:VALUE` or `labels:COUNT`; empty for what the
        /// data set says, else by the values of its masks
        masks: String = String::new();
        /// regular expression: what its first capture group, else all of it, matches of a case's id is the
        /// group that no split tears apart (`--group-by`); empty for the data set's own groups
        group_by: String = String::new();
        /// leave out images with a file that cannot be used, and name them, instead of refusing the data set
        /// (`--skip-bad`)
        skip_bad: bool = false;
        /// edge length of a synthetic task's images
        size: usize = 160, [16, 4096], paper "160 (shapes)";
        /// training cases of a synthetic task
        train_count: usize = 2000, [0, 1_000_000];
        /// validation cases of a synthetic task
        validation_count: usize = 200, [0, 1_000_000];
        /// test cases of a synthetic task
        test_count: usize = 200, [0, 1_000_000];
        /// share of groups kept for validation, where the data set states no split
        validation_share: f64 = 0.1, [0, BELOW_ONE];
        /// share of groups kept for testing, where the data set states no split
        test_share: f64 = 0.2, [0, BELOW_ONE];
        /// cross-validation: the groups of all cases are cut into so many parts, whatever split the data set
        /// states (`--folds`); 0 for none
        folds: usize = 0, [0, 64];
        /// which of them is the test part of this training, from 1 on; a share `data.validation_share` of the
        /// others is kept for validation. 0 stands for all of them in turn
        fold: usize = 0, [0, 64];
        /// seed of the synthetic task and of splits
        seed: u64 = 1, [0, MOST_SEED];
        /// raw values to network input: `"min-max"`, `"z-score"` or `{ range = { low = -1000, high = 400 } }`
        normalise: Normalisation = Normalisation::MinMax;
        /// `[width, height]` that images are brought to before the network sees them; masks are brought back
        resize: Option<[usize; 2]> = None, [8, 4096];
        /// distance of columns and rows, in the files' unit, that images are brought to before the network
        /// sees them; masks are brought back, and an image that states no spacing stays as it is. Images then
        /// differ in size: `augment.crop` gives them one to train with, larger ones cut, smaller ones
        /// extended. 0 for none
        spacing: f32 = 0.0, [0, 1000];
        /// 1 for the slices before and after as further channels (`model.input_channels` is 3 then; at the
        /// ends of a volume, and of an image that is no slice, the image itself stands for the one that is
        /// missing); 0 for none
        context: usize = 0, [0, 1];
    }
}

impl DataRecipe {
    /// What images are brought to, if anything.
    pub fn grid(&self) -> Option<Grid> {
        let spacing = (self.spacing > 0.0).then_some(Grid::Spacing(self.spacing));
        self.resize.map(Grid::Size).or(spacing)
    }

    /// Images that the network sees of each case: itself, and its neighbours.
    pub fn slices_per_input(&self) -> usize {
        1 + 2 * self.context
    }

    /// The same cases, grouped and divided into parts as another recipe says.
    pub fn divided_as(&self, other: &Self) -> Self {
        Self {
            group_by: other.group_by.clone(),
            seed: other.seed,
            folds: other.folds,
            fold: other.fold,
            validation_share: other.validation_share,
            test_share: other.test_share,
            ..self.clone()
        }
    }

    /// Cases as the network sees them.
    pub fn in_context(&self, cases: CaseList) -> Result<CaseList> {
        Ok(if self.context == 0 { cases } else { cases.with_neighbours()? })
    }
}
