//! `[model]`: the networks and the codebook.

use super::table::recipe_table;
use serde::{Deserialize, Serialize};

recipe_table! {
    /// The networks and the codebook.
    model: ModelRecipe {
        /// channels of the encoder's levels, the finest first
        channels: Vec<usize> = vec![32, 64, 128, 256], [1, 4096], paper "[32, 64, 128, 256]";
        /// channels of the image
        input_channels: usize = 1, [1, 4];
        /// foreground classes; 1 is a binary mask
        classes: usize = 1, [1, 255];
        /// channels per group of the group normalisation; 0 for none
        norm_group: usize = 8, [0, 4096], paper "not stated";
        /// N, codes in the codebook; below 2·code_dim and at most code_dim + 1
        code_count: usize = 16, [2, 1024], paper "256";
        /// m, dimensions of a code and of h
        code_dim: usize = 16, [1, 1024], paper "256";
        /// where a code enters the generator: `"head"` or `"bottleneck"`
        code_entry: CodeEntry = CodeEntry::Head, paper "head";
        /// channels of the 1x1 head
        head_width: usize = 32, [1, 4096], paper "not stated";
        /// hidden 1x1 layers after the one the code enters
        head_hidden: usize = 1, [0, 64], paper "not stated";
        /// standard deviation of the weights a code enters by, at the start
        code_scale: f32 = 0.5, [0, 1000], paper "not stated";
        /// the classifier's matrix: `"simplex-etf"` (fixed) or `"learnable"`
        classifier: ClassifierKind = ClassifierKind::SimplexEtf, paper "simplex-etf; learnable as ablation";
        /// width of the classifier's hidden layer; 0 for none
        classifier_hidden: usize = 64, [0, 4096], paper "not stated";
        /// how embeddings meet codes: `"cosine"` or `"euclidean"`
        lookup: Lookup = Lookup::Cosine, paper "euclidean";
        /// codes are trained by gradient rather than by the moving average
        train_codes: bool = false, paper "false";
        /// whether a head of its own says how probable the empty mask is, from the pixels that matter; codes
        /// are then for other masks
        empty_head: bool = false, paper "false";
    }
}

impl ModelRecipe {
    /// One logit for a binary mask, else one per class and one for the background.
    pub fn output_channels(&self) -> usize {
        if self.classes == 1 { 1 } else { self.classes + 1 }
    }
}

/// How the classifier's matrix is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassifierKind {
    /// The fixed simplex equiangular tight frame.
    SimplexEtf,
    /// A trained matrix: the paper's ablation.
    Learnable,
}

/// How embeddings are compared with codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lookup {
    /// By angle: embeddings and codes have length one.
    Cosine,
    /// By distance, as the paper writes it.
    Euclidean,
}

/// Where a code enters the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeEntry {
    /// The last 1x1 layers: all hypotheses share one decoder pass.
    Head,
    /// The deepest level: one decoder pass per hypothesis.
    Bottleneck,
}
