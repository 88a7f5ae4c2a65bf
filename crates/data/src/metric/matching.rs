//! Scores that pair labels with outputs: HM-IoU by optimal transport and by assignment, Dice by best,
//! by assignment and over all pairs, and IoU by best.

use super::{Comparison, assignment, transport};

/// HM-IoU for weighted sets: the largest Σ P_ij IoU(y_i, s_j) over plans P whose sums are the labels'
/// weights and the outputs' probabilities. With uniform weights it equals [`hm_iou_by_assignment`].
pub fn hm_iou(comparison: &Comparison) -> f64 {
    hm_iou_weighing(comparison, comparison.outputs().weights())
}

/// HM-IoU under other output weights, such as the shares among draws.
pub(crate) fn hm_iou_weighing(comparison: &Comparison, outputs: &[f64]) -> f64 {
    transport::largest_gain(outputs, comparison.labels().weights(), |j, i| comparison.iou(i, j))
}

/// HM-IoU as published for plain lists: labels and outputs (as listed, weights unread) are repeated up
/// to the least common multiple of their numbers and assigned one to one; the mean IoU of the pairs.
///
/// Cubic in the multiple: [`hm_iou`] gives the same number for uniform weights at once.
pub fn hm_iou_by_assignment(comparison: &Comparison) -> f64 {
    let (labels, outputs) = (comparison.labels().listed(), comparison.outputs().listed());
    let multiple = labels.len() / greatest_common_divisor(labels.len(), outputs.len()) * outputs.len();
    let iou = |i: usize, j: usize| comparison.iou(labels[i % labels.len()], outputs[j % outputs.len()]);
    let pairs = assignment::cheapest(multiple, multiple, |i, j| 1.0 - iou(i, j));
    pairs.iter().enumerate().map(|(i, &j)| iou(i, j)).sum::<f64>() / multiple as f64
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// From labels to outputs: the weighted mean over labels of the best Dice any output reaches. This is
/// D_max of the literature (D-Persona calls it `dice_max_reverse`); it grows with the number of outputs.
pub fn dice_max_of_labels(comparison: &Comparison) -> f64 {
    best_of_labels(comparison, |i, j| comparison.dice(i, j))
}

/// The same of IoU: the weighted mean over labels of the best IoU any output reaches.
pub fn iou_max_of_labels(comparison: &Comparison) -> f64 {
    best_of_labels(comparison, |i, j| comparison.iou(i, j))
}

fn best_of_labels(comparison: &Comparison, overlap: impl Fn(usize, usize) -> f64) -> f64 {
    let outputs = comparison.outputs().masks().len();
    let best = |i: usize| (0..outputs).map(|j| overlap(i, j)).fold(0.0, f64::max);
    comparison.labels().weights().iter().enumerate().map(|(i, q)| q * best(i)).sum()
}

/// From outputs to labels: the weighted mean over outputs of the best Dice with any label (D-Persona's
/// `dice_max`).
pub fn dice_max_of_outputs(comparison: &Comparison) -> f64 {
    let labels = comparison.labels().masks().len();
    let best = |j: usize| (0..labels).map(|i| comparison.dice(i, j)).fold(0.0, f64::max);
    comparison.outputs().weights().iter().enumerate().map(|(j, p)| p * best(j)).sum()
}

/// Labels and outputs (as listed) paired one to one for the largest sum of Dice; the mean over the
/// pairs, of which there are as many as the smaller list has members. Weights are not read.
pub fn dice_match(comparison: &Comparison) -> f64 {
    let (labels, outputs) = (comparison.labels().listed(), comparison.outputs().listed());
    let dice = |i: usize, j: usize| comparison.dice(labels[i], outputs[j]);
    let (few, many) = (labels.len().min(outputs.len()), labels.len().max(outputs.len()));
    let ordered = |i: usize, j: usize| if labels.len() <= outputs.len() { dice(i, j) } else { dice(j, i) };
    let table: Vec<f64> = (0..few * many).map(|at| ordered(at / many, at % many)).collect();
    let pairs = assignment::cheapest(few, many, |i, j| 1.0 - table[i * many + j]);
    pairs.iter().enumerate().map(|(i, &j)| table[i * many + j]).sum::<f64>() / few as f64
}

/// The mean Dice of a label and an output, each drawn by its weight.
pub fn dice_mean(comparison: &Comparison) -> f64 {
    let mut sum = 0.0;
    for (i, q) in comparison.labels().weights().iter().enumerate() {
        for (j, p) in comparison.outputs().weights().iter().enumerate() {
            sum += q * p * comparison.dice(i, j);
        }
    }
    sum
}
