//! What changes over a training, as pure functions of how far it is (0 to 1); the weights of the loss are in `terms.rs`.

use crate::assignment::Rule;
use crate::recipe::{AssignmentRecipe, RateSchedule, TrainRecipe};

/// The learning rate of a step.
///
/// Paper: §4.1, [1e-4, 5e-5, 1e-5, 5e-6] at epochs [0, 300, 900, 1200] of 1500: `Paper`, as fractions.
pub(crate) fn learning_rate(recipe: &TrainRecipe, step: u64, progress: f32) -> f32 {
    let rise = ((step + 1) as f32 / recipe.warmup_steps.max(1) as f32).min(1.0);
    let fall = match recipe.schedule {
        RateSchedule::Cosine => {
            let cosine = 0.5 * (1.0 + (std::f32::consts::PI * progress.min(1.0)).cos());
            recipe.final_rate + (1.0 - recipe.final_rate) * cosine
        }
        RateSchedule::Paper => match progress {
            p if p < 0.2 => 1.0,
            p if p < 0.6 => 0.5,
            p if p < 0.8 => 0.1,
            _ => 0.05,
        },
        RateSchedule::Constant => 1.0,
    };
    recipe.learning_rate * rise * fall
}

/// How annotations are assigned: soft with a falling temperature, then hard.
pub(crate) fn rule(recipe: &AssignmentRecipe, progress: f32) -> Rule {
    if progress >= recipe.anneal_until {
        return Rule::Hard { prior: recipe.prior, distinct: recipe.distinct };
    }
    let ratio = recipe.temperature_end / recipe.temperature_start;
    Rule::Soft { temperature: recipe.temperature_start * ratio.powf(progress / recipe.anneal_until) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls() {
        let recipe =
            TrainRecipe { learning_rate: 1.0, warmup_steps: 10, final_rate: 0.1, ..TrainRecipe::default() };
        assert!((learning_rate(&recipe, 0, 0.0) - 0.1).abs() < 1e-6);
        assert!((learning_rate(&recipe, 9, 0.0) - 1.0).abs() < 1e-6);
        assert!((learning_rate(&recipe, 99, 0.5) - 0.55).abs() < 1e-6);
        assert!((learning_rate(&recipe, 99, 1.0) - 0.1).abs() < 1e-6);
        let paper = TrainRecipe { schedule: RateSchedule::Paper, ..recipe };
        let rates = [0.0, 0.19, 0.3, 0.7, 0.9].map(|progress| learning_rate(&paper, 99, progress));
        assert_eq!(rates, [1.0, 1.0, 0.5, 0.1, 0.05]);
    }

    #[test]
    fn the_assignment_cools_and_turns_hard() {
        let recipe = AssignmentRecipe {
            anneal_until: 0.5,
            temperature_start: 1.0,
            temperature_end: 0.01,
            ..AssignmentRecipe::default()
        };
        let temperature = |progress| match rule(&recipe, progress) {
            Rule::Soft { temperature } => Some(temperature),
            Rule::Hard { .. } => None,
        };
        assert_eq!(temperature(0.0), Some(1.0));
        assert!((temperature(0.25).unwrap() - 0.1).abs() < 1e-6);
        assert_eq!(temperature(0.5), None);
    }
}
