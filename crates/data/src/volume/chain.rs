//! A chain of slices: how probable each member of a slice is, and how members of neighbouring slices go together.
//!
//! ```text
//! p(i_1, …, i_n) = p_1(i_1) Π_z P_z(i_z, i_z+1) / p_z(i_z)
//! ```
//!
//! P_z is a plan with the two slices' probabilities as its row and column sums, so that every slice keeps its own
//! distribution. Read from the last slice to the first the formula gives the same numbers.

use crate::draw::Draw;

/// Steps of a sum's distribution beyond which neighbouring sums are counted together.
const MOST_STEPS: usize = 1 << 14;

/// One way from a member of a slice to a member of the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The member of the next slice.
    pub to: usize,
    /// How probable it is, given the member that it starts from.
    pub probability: f64,
}

/// A distribution over paths, each with one member of every slice.
#[derive(Debug, Clone)]
pub struct Chain {
    first: Vec<f64>,
    /// By slice and member: the ways to the next slice.
    steps: Vec<Vec<Vec<Step>>>,
}

impl Chain {
    /// A chain from the first slice's probabilities and the plans between neighbours: member, member of the next
    /// slice, and mass. A plan's row sums are the probabilities of the slice before, its column sums those of the
    /// slice after; `members` says how many each slice has.
    pub fn new(first: Vec<f64>, members: &[usize], plans: &[Vec<(usize, usize, f64)>]) -> Self {
        assert_eq!(plans.len() + 1, members.len(), "one plan between each two neighbours");
        let steps = plans.iter().zip(members).map(|(plan, &members)| {
            let mut mass = vec![0.0; members];
            plan.iter().for_each(|&(from, _, moved)| mass[from] += moved);
            let mut ways = vec![Vec::new(); members];
            for &(from, to, moved) in plan {
                ways[from].push(Step { to, probability: moved / mass[from] });
            }
            ways
        });
        Self { first, steps: steps.collect() }
    }

    /// How many slices there are.
    pub fn len(&self) -> usize {
        self.steps.len() + 1
    }

    /// Never: a chain has at least one slice.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The probabilities of the first slice's members.
    pub fn first(&self) -> &[f64] {
        &self.first
    }

    /// By member of a slice, the ways to the next one.
    pub fn steps(&self, slice: usize) -> &[Vec<Step>] {
        &self.steps[slice]
    }

    /// How probable a path is.
    pub fn probability(&self, path: &[usize]) -> f64 {
        let onward = path.windows(2).zip(&self.steps).map(|(pair, steps)| {
            let way = steps[pair[0]].iter().find(|step| step.to == pair[1]);
            way.map_or(0.0, |step| step.probability)
        });
        onward.fold(self.first[path[0]], |all, one| all * one)
    }

    /// One path, drawn by its probability.
    pub fn draw(&self, random: &mut Draw) -> Vec<usize> {
        let mut at = random.weighted(&self.first, 1)[0];
        let mut path = vec![at];
        for steps in &self.steps {
            let ways: Vec<f64> = steps[at].iter().map(|step| step.probability).collect();
            at = steps[at][random.weighted(&ways, 1)[0]].to;
            path.push(at);
        }
        path
    }

    /// The distribution of the sum of one number for each slice and member along a path. Exact where no sum exceeds
    /// 16,384; else sums are counted in steps of 1/16,384 of the largest one, and the mean stays exact.
    pub fn sum(&self, values: &[Vec<u64>]) -> Distribution {
        let most: u64 = values.iter().map(|slice| slice.iter().copied().max().unwrap_or(0)).sum();
        let step = most.div_ceil(MOST_STEPS as u64).max(1);
        // Rounding may lead one step further at each slice.
        let bins = (most / step) as usize + values.len() + 1;
        // By member: the probability of each sum so far, and of being here.
        let mut here: Vec<Vec<f64>> = vec![Vec::new(); values[0].len()];
        for (member, (&value, &probability)) in values[0].iter().zip(&self.first).enumerate() {
            if probability > 0.0 {
                here[member] = vec![0.0; bins];
                add_shifted(&mut here[member], None, value, step, probability);
            }
        }
        for (steps, values) in self.steps.iter().zip(&values[1..]) {
            let mut next: Vec<Vec<f64>> = vec![Vec::new(); values.len()];
            for (sums, ways) in here.iter().zip(steps).filter(|(sums, _)| !sums.is_empty()) {
                for way in ways {
                    let to = &mut next[way.to];
                    to.resize(bins, 0.0);
                    add_shifted(to, Some(sums), values[way.to], step, way.probability);
                }
            }
            here = next;
        }
        let mut shares = vec![0.0; bins];
        for sums in here.iter().filter(|sums| !sums.is_empty()) {
            shares.iter_mut().zip(sums).for_each(|(all, one)| *all += one);
        }
        Distribution { step, shares }
    }
}

/// Adds some sums, a value further on and scaled, to others; of none, the sum 0. A value between two bins is shared
/// between them so that the mean is kept.
fn add_shifted(to: &mut [f64], from: Option<&[f64]>, value: u64, step: u64, scale: f64) {
    let (whole, rest) = ((value / step) as usize, (value % step) as f64 / step as f64);
    let from = from.unwrap_or(&[1.0]);
    for (shift, share) in [(whole, 1.0 - rest), (whole + 1, rest)] {
        if share > 0.0 {
            let share = share * scale;
            to[shift..].iter_mut().zip(from).for_each(|(to, one)| *to += share * one);
        }
    }
}

/// How a sum is distributed.
#[derive(Debug, Clone)]
pub struct Distribution {
    step: u64,
    /// Of the sum 0, of one step, of two, and so on.
    shares: Vec<f64>,
}

impl Distribution {
    /// Its mean.
    pub fn mean(&self) -> f64 {
        let all: f64 = self.shares.iter().sum();
        let terms = self.shares.iter().enumerate().map(|(at, share)| at as f64 * share);
        terms.sum::<f64>() * self.step as f64 / all
    }

    /// The smallest sum that is not exceeded with this probability.
    pub fn quantile(&self, level: f64) -> f64 {
        let all: f64 = self.shares.iter().sum();
        let mut below = 0.0;
        let reached = self.shares.iter().position(|share| {
            below += share;
            // Sums of shares round.
            *share > 0.0 && below >= (level - 1e-9) * all
        });
        let last = || self.shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        reached.unwrap_or_else(last) as f64 * self.step as f64
    }

    /// What sums are rounded to; 1 where the distribution is exact.
    pub fn step(&self) -> u64 {
        self.step
    }
}
