//! One row for each key of a recipe: its type, default, range and meaning, and what the paper uses.
//!
//! ```text
//! recipe_table! {
//!     /// What the table is for.
//!     loss: LossRecipe {
//!         /// what the key means, as docs/recipe.md says it
//!         energy: f32 = 1.0, [0, MOST_WEIGHT], paper "0";
//!     }
//! }
//! ```
//!
//! makes of a table the struct, its defaults and its rows. A key that holds numbers has a range, both ends included; a
//! key of which the paper has nothing has no `paper`. Ranges are far beyond what any experiment needs: they keep a slip
//! or a hostile file from asking for years, terabytes or numbers that overflow.

use super::{Recipe, assignment, augment, data, loss, method, model, predict, train};

/// A key of a recipe.
pub(super) struct Row {
    /// As `table.key`.
    pub key: &'static str,
    /// In one line.
    pub meaning: &'static str,
    /// The paper's value; empty where the paper has nothing of the kind.
    pub paper: &'static str,
    /// None for a key that holds no number, and for `augment`, whose ranges are its own.
    pub range: Option<Range>,
}

/// A key's range, both ends included, and its values: one, or those of a list.
pub(super) struct Range {
    pub low: f64,
    pub high: f64,
    pub values: fn(&Recipe) -> Vec<f64>,
}

/// Where 1 itself would mean that nothing ever changes, or that nothing is left.
pub(super) const BELOW_ONE: f64 = 0.999_999;
/// Weights of the loss.
pub(super) const MOST_WEIGHT: f64 = 1e6;
/// TOML has no number above 2⁶³.
pub(super) const MOST_SEED: f64 = 9.2e18;

/// All keys, in the recipe's order.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    let tables = [
        method::ROWS,
        data::ROWS,
        augment::ROWS,
        model::ROWS,
        assignment::ROWS,
        loss::ROWS,
        train::ROWS,
        predict::ROWS,
    ];
    tables.into_iter().flatten()
}

macro_rules! recipe_table {
    (
        $(#[doc = $about:literal])*
        $table:ident: $name:ident {
            $(
                $(#[doc = $meaning:literal])+
                $key:ident: $type:ty = $default:expr $(, [$low:expr, $high:expr])? $(, paper $paper:literal)?;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $meaning])+ pub $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        pub(super) const ROWS: &[crate::recipe::table::Row] = &[$(crate::recipe::table::Row {
            key: concat!(stringify!($table), ".", stringify!($key)),
            meaning: concat!($($meaning),+),
            paper: concat!($($paper)?),
            range: crate::recipe::table::recipe_table!(@range $table.$key $(, $low, $high)?),
        }),*];
    };
    (@range $table:ident.$key:ident) => { None };
    (@range $table:ident.$key:ident, $low:expr, $high:expr) => {
        Some(crate::recipe::table::Range {
            low: $low as f64,
            high: $high as f64,
            values: |recipe| crate::recipe::table::Numbers::numbers(&recipe.$table.$key),
        })
    };
}
pub(super) use recipe_table;

/// A key's value as numbers.
pub(super) trait Numbers {
    fn numbers(&self) -> Vec<f64>;
}

macro_rules! one_number {
    ($($type:ty),*) => {
        $(impl Numbers for $type {
            fn numbers(&self) -> Vec<f64> {
                vec![*self as f64]
            }
        })*
    };
}
one_number!(f32, f64, usize, u64);

impl Numbers for Vec<usize> {
    fn numbers(&self) -> Vec<f64> {
        self.iter().map(|&value| value as f64).collect()
    }
}

impl Numbers for Option<[usize; 2]> {
    fn numbers(&self) -> Vec<f64> {
        self.iter().flatten().map(|&value| value as f64).collect()
    }
}
