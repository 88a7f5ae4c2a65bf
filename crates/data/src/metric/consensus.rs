//! One mask made of several readers' masks: the majority's, and STAPLE's (Warfield, Zou and Wells, 2004).
//!
//! Pixels that the same readers marked are alike to both, so only the distinct sets of readers are counted, with the
//! number of their pixels. A consensus is a decision for each such set; its IoU with a reader follows from the counts.

use std::collections::HashSet;

use super::{WEIGHT_NOISE, WeightedMasks, overlap};
use crate::Mask;

/// STAPLE ends when no reader's sensitivity or specificity moves by more than this, or after so many rounds.
const SETTLED: f64 = 1e-10;
const MOST_ROUNDS: usize = 1000;

/// The pixels of one class by the readers who marked them.
#[derive(Debug, Clone)]
pub struct Votes {
    /// For each distinct set of readers how many pixels it has marked.
    pixels: Vec<f64>,
    /// By reader, for each set: is he in it?
    marked: Vec<Vec<bool>>,
}

/// What STAPLE says of some readers.
#[derive(Debug, Clone, PartialEq)]
pub struct Staple {
    /// For each set of [`Votes`] the probability that its pixels are foreground.
    pub probability: Vec<f64>,
    /// The share of the foreground that each reader marked.
    pub sensitivity: Vec<f64>,
    /// The share of the background that each reader left.
    pub specificity: Vec<f64>,
}

impl Votes {
    /// Counts one class of some masks of equal size.
    pub fn of(masks: &[&Mask], class: usize) -> Self {
        const UNSEEN: u32 = u32::MAX;
        let size = masks[0].width() * masks[0].height();
        // Where nobody marked anything, which is most of most images, 64 pixels are seen at once.
        let words =
            (0..size.div_ceil(64)).filter(|&word| masks.iter().any(|mask| mask.plane(class)[word] != 0));
        let words: Vec<usize> = words.collect();
        let looked_at = words.iter().flat_map(|&word| word * 64..(word * 64 + 64).min(size));
        let looked_at: Vec<usize> = looked_at.collect();
        // Each pixel's set of the readers so far. A reader splits every set in two, those he marked and the others.
        let mut set = vec![0u32; looked_at.len()];
        let mut sets: Vec<Vec<bool>> = vec![Vec::new()];
        for mask in masks {
            let mut parts: Vec<[u32; 2]> = vec![[UNSEEN; 2]; sets.len()];
            let mut split = Vec::new();
            let plane = mask.plane(class);
            for (set, &at) in set.iter_mut().zip(&looked_at) {
                let bit = plane[at / 64] >> (at % 64) & 1;
                let part = &mut parts[*set as usize][bit as usize];
                if *part == UNSEEN {
                    *part = split.len() as u32;
                    split.push([&sets[*set as usize][..], &[bit == 1]].concat());
                }
                *set = *part;
            }
            sets = split;
        }
        let mut pixels = vec![0.0; sets.len()];
        set.iter().for_each(|&set| pixels[set as usize] += 1.0);
        // The other pixels are one more set of nobody; two such sets are no different from one.
        sets.push(vec![false; masks.len()]);
        pixels.push((size - looked_at.len()) as f64);
        let marked = (0..masks.len()).map(|reader| sets.iter().map(|set| set[reader]).collect()).collect();
        Self { pixels, marked }
    }

    /// The sets that readers of more than half of the weight are in.
    pub fn majority(&self, readers: &[usize], weights: &[f64]) -> Vec<bool> {
        let all: f64 = readers.iter().map(|&reader| weights[reader]).sum();
        let share = |set: usize| -> f64 {
            readers.iter().filter(|&&reader| self.marked[reader][set]).map(|&reader| weights[reader]).sum()
        };
        (0..self.pixels.len()).map(|set| share(set) > (0.5 + WEIGHT_NOISE) * all).collect()
    }

    /// STAPLE of some readers over the whole image, weights unread: expectation and maximisation of each reader's
    /// sensitivity and specificity, from the mean vote on. The prior of the foreground is the share of marked pixels,
    /// the same everywhere.
    pub fn staple(&self, readers: &[usize]) -> Staple {
        let (sets, all) = (self.pixels.len(), self.pixels.iter().sum::<f64>());
        let mass = |inside: &dyn Fn(usize) -> f64| -> f64 {
            (0..sets).map(|set| self.pixels[set] * inside(set)).sum()
        };
        let marked = |reader: usize, set: usize| f64::from(u8::from(self.marked[reader][set]));
        let prior = readers.iter().map(|&reader| mass(&|set| marked(reader, set))).sum::<f64>()
            / (all * readers.len() as f64);
        let votes = |set: usize| readers.iter().map(|&reader| marked(reader, set)).sum::<f64>();
        let mut probability: Vec<f64> = (0..sets).map(|set| votes(set) / readers.len() as f64).collect();
        let mut sensitivity = vec![0.0; readers.len()];
        let mut specificity = sensitivity.clone();
        for _ in 0..MOST_ROUNDS {
            let (foreground, background) =
                (mass(&|set| probability[set]), mass(&|set| 1.0 - probability[set]));
            let mut moved = 0.0f64;
            for (at, &reader) in readers.iter().enumerate() {
                let hit = mass(&|set| probability[set] * marked(reader, set));
                let left = mass(&|set| (1.0 - probability[set]) * (1.0 - marked(reader, set)));
                let (p, q) = (overlap::share(hit, foreground), overlap::share(left, background));
                moved = moved.max((p - sensitivity[at]).abs()).max((q - specificity[at]).abs());
                (sensitivity[at], specificity[at]) = (p, q);
            }
            for (set, probability) in probability.iter_mut().enumerate() {
                let (mut foreground, mut background) = (prior, 1.0 - prior);
                for (at, &reader) in readers.iter().enumerate() {
                    let (p, q) = (sensitivity[at], specificity[at]);
                    let (if_foreground, if_background) =
                        if self.marked[reader][set] { (p, 1.0 - q) } else { (1.0 - p, q) };
                    foreground *= if_foreground;
                    background *= if_background;
                }
                // Both are zero only where readers contradict each other and all are sure.
                let either = foreground + background;
                *probability = if either > 0.0 { foreground / either } else { prior };
            }
            if moved <= SETTLED {
                break;
            }
        }
        Staple { probability, sensitivity, specificity }
    }

    /// The sets that STAPLE gives to the foreground: with a probability above one half.
    pub fn staple_mask(&self, readers: &[usize]) -> Vec<bool> {
        match readers {
            // One reader is his own consensus; there is nobody to hold him against.
            [one] => self.marked[*one].clone(),
            readers => {
                let staple = self.staple(readers);
                staple.probability.iter().map(|&probability| probability > 0.5 + WEIGHT_NOISE).collect()
            }
        }
    }

    /// Puts the pixels of the sets that were decided for into a class of a mask. The masks are those that were
    /// counted.
    pub fn paint(&self, decided: &[bool], masks: &[&Mask], class: usize, into: &mut Mask) {
        let set = |set: usize| self.marked.iter().map(|reader| reader[set]).collect::<Vec<bool>>();
        let inside: HashSet<Vec<bool>> = (0..decided.len()).filter(|&at| decided[at]).map(set).collect();
        for y in 0..into.height() {
            for x in 0..into.width() {
                let readers: Vec<bool> = masks.iter().map(|mask| mask.get(class, x, y)).collect();
                if inside.contains(&readers) {
                    into.set(class, x, y, true);
                }
            }
        }
    }

    /// IoU of a decision with a reader's mask.
    pub fn iou(&self, decided: &[bool], reader: usize) -> f64 {
        let (mut both, mut either) = (0.0, 0.0);
        for ((&here, &there), &pixels) in decided.iter().zip(&self.marked[reader]).zip(&self.pixels) {
            both += if here && there { pixels } else { 0.0 };
            either += if here || there { pixels } else { 0.0 };
        }
        overlap::share(both, either)
    }
}

/// How near a consensus comes to the readers, Σ q IoU, the mean over classes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Nearness {
    /// The consensus of all readers, each of whom has a part in it.
    pub of_all: f64,
    /// For each reader the consensus of the others.
    pub of_others: f64,
}

/// The majority's and STAPLE's nearness to the readers; none where there is one reader, who has no others.
pub fn nearness(labels: &WeightedMasks) -> Option<[Nearness; 2]> {
    let (masks, weights) = (labels.masks(), labels.weights());
    let readers: Vec<usize> = (0..masks.len()).collect();
    if readers.len() < 2 {
        return None;
    }
    let classes = masks[0].classes();
    let mut found = [Nearness::default(); 2];
    for class in 0..classes {
        let votes = Votes::of(masks, class);
        for (found, by_staple) in found.iter_mut().zip([false, true]) {
            let rule = |readers: &[usize]| match by_staple {
                false => votes.majority(readers, weights),
                true => votes.staple_mask(readers),
            };
            let of_all = rule(&readers);
            for (reader, weight) in weights.iter().enumerate() {
                let others: Vec<usize> = readers.iter().copied().filter(|&other| other != reader).collect();
                let weight = weight / classes as f64;
                found.of_all += weight * votes.iou(&of_all, reader);
                found.of_others += weight * votes.iou(&rule(&others), reader);
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests;
