//! What a model says of single slices as a distribution over whole volumes.
//!
//! A model predicts every slice by itself: masks with probabilities. Neighbouring slices are coupled by the transport
//! plan of the largest expected IoU, which leaves both slices' probabilities as they are; the plans make a Markov
//! chain ([`chain`]), which is a distribution over volumes. IoU is the overlap by which everything else here is
//! scored; two empty masks have 1, so that a structure ends where its slices say so, and readers who saw nothing in
//! one slice are taken for those who saw nothing in the next.
//!
//! | file | what it is for |
//! |---|---|
//! | here | the coupling, and volumes compared by tables of their slices' overlaps |
//! | [`chain`] | paths through slices: probabilities, draws, sums |
//! | [`best`] | the most probable volumes |
//! | [`coherent`] | those that are told of |
//! | [`slices`] | which cases of a list are slices of one volume |

pub mod best;
pub mod chain;
pub mod coherent;
pub mod slices;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::draw::Draw;
use crate::metric::overlap::share;
use crate::metric::{Overlaps, transport};
use crate::{Mask, Result};
use chain::{Chain, Distribution};

/// The masks of a slice with their probabilities.
pub type WeightedSlice = (Vec<Mask>, Vec<f64>);

/// One volume: a member of each slice.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeHypothesis {
    /// By slice, the place of its mask in the slice's list.
    pub members: Vec<usize>,
    /// The probability of all volumes that are counted in it.
    pub probability: f64,
}

/// A distribution over volumes.
#[derive(Debug, Clone)]
pub struct Volume {
    chain: Chain,
    tables: Tables,
}

impl Volume {
    /// Couples so many slices, of which `slice` gives the masks and probabilities; those of a slice sum to one but for
    /// rounding. The masks of two slices are in memory at a time, for each thread.
    pub fn new(count: usize, slice: impl Fn(usize) -> WeightedSlice + Sync) -> Result<Self> {
        assert!(count > 0, "a volume has at least one slice");
        let normalised = |slice_number: usize| {
            let (masks, mut weights) = slice(slice_number);
            let all: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= all);
            (masks, weights)
        };
        let (first, weights) = normalised(0);
        let table = |masks: &[Mask]| Overlaps::among("slice", &masks.iter().collect::<Vec<_>>());
        let coupled = (1..count).into_par_iter().map(|at| {
            let (before, after) = (normalised(at - 1), normalised(at));
            Ok((plan_between(&before, &after)?, table(&after.0)?, after.0.len()))
        });
        let coupled = coupled.collect::<Vec<Result<_>>>().into_iter().collect::<Result<Vec<_>>>()?;
        let (mut slices, mut members, mut plans) = (vec![table(&first)?], vec![first.len()], Vec::new());
        for (plan, table, count) in coupled {
            plans.push(plan);
            slices.push(table);
            members.push(count);
        }
        let chain = Chain::new(weights, &members, &plans);
        Ok(Self { chain, tables: Tables { slices, members } })
    }

    /// The chain of its slices.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The most probable volumes, at most so many; see [`best`].
    pub fn hypotheses(&self, count: usize, merge_iou: f64) -> Vec<VolumeHypothesis> {
        best::hypotheses(&self.chain, &self.tables, count, merge_iou)
    }

    /// Volumes drawn by their probability.
    pub fn draws(&self, count: usize, random: &mut Draw) -> Vec<Vec<usize>> {
        (0..count).map(|_| self.chain.draw(random)).collect()
    }

    /// Of some candidates the volumes that most draws are nearly the same as, at most so many. A draw is counted in the
    /// first one that has at least `merge_iou` with it; its share of all draws is the volume's probability.
    pub fn covering(
        &self,
        candidates: &[Vec<usize>],
        draws: &[Vec<usize>],
        count: usize,
        merge_iou: f64,
    ) -> Vec<VolumeHypothesis> {
        let near = |candidate: &Vec<usize>| -> Vec<usize> {
            let same = |at: &usize| self.tables.iou(candidate, &draws[*at]) >= merge_iou;
            (0..draws.len()).filter(same).collect()
        };
        let mut near: Vec<Vec<usize>> = candidates.par_iter().map(near).collect();
        let mut found = Vec::new();
        while found.len() < count {
            // Of equally good ones the first.
            let best = (0..near.len()).rev().max_by_key(|&at| near[at].len());
            let Some(best) = best.filter(|&at| !near[at].is_empty()) else { break };
            let counted = std::mem::take(&mut near[best]);
            near.iter_mut().for_each(|draws| draws.retain(|draw| counted.binary_search(draw).is_err()));
            let probability = counted.len() as f64 / draws.len() as f64;
            found.push(VolumeHypothesis { members: candidates[best].clone(), probability });
        }
        found
    }

    /// For each of some volumes the share of others that are nearest to it, by IoU; of equally near ones the first
    /// has it.
    pub fn nearest_shares(&self, volumes: &[VolumeHypothesis], others: &[Vec<usize>]) -> Vec<f64> {
        let mut shares = vec![0.0; volumes.len()];
        for other in others {
            let mut nearest = (0, f64::NEG_INFINITY);
            for (place, volume) in volumes.iter().enumerate() {
                let iou = self.tables.iou(&volume.members, other);
                if iou > nearest.1 {
                    nearest = (place, iou);
                }
            }
            shares[nearest.0] += 1.0 / others.len() as f64;
        }
        shares
    }

    /// The distribution of the number of pixels of a class.
    pub fn size(&self, class: usize) -> Distribution {
        let areas = |slice: usize| {
            let members = 0..self.tables.members[slice];
            members.map(|at| u64::from(self.tables.slices[slice].shared(class, at, at))).collect()
        };
        self.chain.sum(&(0..self.chain.len()).map(areas).collect::<Vec<Vec<u64>>>())
    }

    /// The pixels of a class of one volume.
    pub fn pixels(&self, class: usize, members: &[usize]) -> u64 {
        self.tables.shared(class, members, members)
    }

    /// Foreground classes.
    pub fn classes(&self) -> usize {
        self.tables.slices[0].classes()
    }
}

/// The plan of the largest expected IoU between two slices. Where several are as good, which one is taken must not
/// depend on the slice that comes first: a volume read from its other end is the same volume.
fn plan_between(before: &WeightedSlice, after: &WeightedSlice) -> Result<Vec<(usize, usize, f64)>> {
    let words = |slice: &WeightedSlice| -> Vec<Vec<u64>> {
        slice.0.iter().map(|mask| mask.words().to_vec()).collect()
    };
    let turned = words(after) < words(before);
    let (one, other) = if turned { (after, before) } else { (before, after) };
    let all: Vec<&Mask> = one.0.iter().chain(&other.0).collect();
    let overlaps = Overlaps::among("neighbouring slices", &all)?;
    let gain = |i: usize, j: usize| overlaps.iou(i, one.0.len() + j);
    let plan = transport::best_plan(&one.1, &other.1, gain);
    Ok(match turned {
        true => plan.into_iter().map(|(i, j, mass)| (j, i, mass)).collect(),
        false => plan,
    })
}

/// The overlaps within each slice, by which whole volumes are compared.
#[derive(Debug, Clone)]
pub struct Tables {
    slices: Vec<Overlaps>,
    members: Vec<usize>,
}

impl Tables {
    /// Tables from the masks of each slice.
    pub fn new(slices: &[Vec<&Mask>]) -> Result<Self> {
        let tables: Vec<Result<Overlaps>> =
            slices.par_iter().map(|masks| Overlaps::among("slice", masks)).collect();
        let members = slices.iter().map(Vec::len).collect();
        Ok(Self { slices: tables.into_iter().collect::<Result<_>>()?, members })
    }

    fn members(&self, slice: usize) -> usize {
        self.members[slice]
    }

    /// Pixels of all classes of a member.
    fn pixels(&self, slice: usize, member: usize) -> u64 {
        let table = &self.slices[slice];
        (0..table.classes()).map(|class| u64::from(table.shared(class, member, member))).sum()
    }

    /// Pixels of all classes in which two members differ.
    fn difference(&self, slice: usize, one: usize, other: usize) -> u64 {
        let table = &self.slices[slice];
        let of_class = |class: usize| {
            let count = |i: usize, j: usize| u64::from(table.shared(class, i, j));
            count(one, one) + count(other, other) - 2 * count(one, other)
        };
        (0..table.classes()).map(of_class).sum()
    }

    /// Pixels of a class that two volumes share.
    pub fn shared(&self, class: usize, one: &[usize], other: &[usize]) -> u64 {
        let pairs = self.slices.iter().zip(one.iter().zip(other));
        pairs.map(|(table, (&one, &other))| u64::from(table.shared(class, one, other))).sum()
    }

    /// IoU of two volumes, the mean over classes; of two empty ones 1.
    pub fn iou(&self, one: &[usize], other: &[usize]) -> f64 {
        let classes = self.slices[0].classes();
        let of_class = |class: usize| {
            let both = self.shared(class, one, other) as f64;
            let [a, b] = [one, other].map(|volume| self.shared(class, volume, volume) as f64);
            share(both, a + b - both)
        };
        (0..classes).map(of_class).sum::<f64>() / classes as f64
    }
}
