//! `[assignment]`: how annotations find their codes.

use super::table::recipe_table;
use serde::{Deserialize, Serialize};

recipe_table! {
    /// How annotations find their codes.
    assignment: AssignmentRecipe {
        /// where an annotation finds its code: among outputs (`"output"`, E_2) or codes (`"embedding"`, E_3)
        space: Space = Space::Output, paper "embedding";
        /// codes that take part from the start, the others in reserve; 0 for all
        active_codes: usize = 16, [0, 1024], paper "all";
        /// temperature of the soft assignment at the start
        temperature_start: f32 = 0.5, [1e-6, 1000];
        /// temperature when it turns hard
        temperature_end: f32 = 0.03, [1e-6, 1000];
        /// share of the training after which the assignment is hard
        anneal_until: f32 = 0.12, [0, 1], paper "0: always hard";
        /// distance that one unit of −ln p(code) weighs in the hard assignment: what makes scattered codes
        /// gather into one
        prior: f32 = 0.25, [0, 1000], paper "0";
        /// different annotations of one image take different codes
        distinct: bool = true, paper "false";
        /// annotations that overlap at least this much are the same output
        same_iou: f32 = 0.99, [0, 1];
        /// codes that serve a smaller share of annotations go into reserve, every 2,000 images from when the
        /// assignment is hard
        min_usage: f32 = 0.002, [0, 1], paper "0";
    }
}

/// The space in which an annotation finds its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// Among the outputs of all codes: the paper's E_2.
    Output,
    /// Among the codes themselves, by the pair encoder: the paper's E_3.
    Embedding,
}
