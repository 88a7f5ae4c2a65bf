//! What the ranks of a training tell each other in a step: everything at once, in one run of values, between the
//! backward pass and the update. The table of what is in it is in docs/cluster.md, "What is added up, and why".
//!
//! Alone nothing is copied, and nobody is asked.

use super::step::StepContext;
use super::terms::{Losses, Term};
use crate::collective::{GRADIENTS, unwind};
use multivalued_engine::{Gradients, Places, Tape, Tensor, Var};

/// What a rank wants all to know: it goes with a step, and all know it after the step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RankSignal {
    /// To stop after this step.
    pub stop: bool,
    /// Rank 0's clock, where time is the budget.
    pub seconds: f32,
}

/// What a step has computed of its own part of a batch.
pub(crate) struct Part {
    pub gradients: Gradients,
    pub total: Tensor,
    pub losses: Losses,
    /// Sums over the batch.
    pub statistics: Option<[Tensor; 2]>,
    /// [own images, width], of a method with codes.
    pub h: Option<Tensor>,
    /// [own images, codes]
    pub targets: Vec<f32>,
}

/// The same of the whole batch.
pub(crate) struct Whole {
    pub gradients: Gradients,
    pub statistics: Option<[Tensor; 2]>,
    /// The loss; of several ranks the sum of theirs, which is finite where all are.
    pub loss: Tensor,
    /// The terms of the loss that are there.
    pub terms: Vec<Term>,
    /// The total of the terms, and then theirs: one value of each rank.
    pub values: Vec<Tensor>,
    /// Each rank's share of the batch.
    pub shares: Vec<f32>,
    pub h: Option<Tensor>,
    pub targets: Targets,
    /// What the ranks want all to know: how many want to stop, and rank 0's clock.
    pub signal: Option<Tensor>,
}

/// What the classifier should say, [images, codes].
pub(crate) enum Targets {
    /// In this machine's memory already.
    Known(Vec<f32>),
    /// Where the ranks' sums are.
    Gathered(Tensor),
}

impl StepContext<'_> {
    /// The gradients of a loss that is a mean over the batch's images, of which these are a part: all ranks' gradients
    /// together are those of the whole batch's mean, however many images each has.
    pub fn gradients(&self, tape: Tape, total: &Var) -> Gradients {
        let (own, all) = (self.batch.own.len(), self.batch.cases.len());
        match own == all {
            true => tape.backward(total),
            false => tape.backward(&total.scale(own as f32 / all as f32)),
        }
    }

    /// Makes of a part the whole.
    pub fn whole(&self, part: Part) -> Whole {
        let batch = self.batch;
        let Part { gradients, total, losses, statistics, h, targets } = part;
        let (terms, mut values): (Vec<_>, Vec<_>) = losses.into_values().into_iter().unzip();
        values.insert(0, total.clone());
        if self.ranks.are_alone() {
            let targets = Targets::Known(targets);
            let shares = vec![1.0];
            return Whole {
                gradients,
                statistics,
                loss: total,
                terms,
                values,
                shares,
                h,
                targets,
                signal: None,
            };
        }
        let (device, images) = (total.device(), batch.cases.len());
        let (rank, ranks) = (self.ranks.rank(), self.ranks.size());
        let (mut places, mut parts) = (Places::default(), Vec::new());
        // Sums have one place, to which every rank adds its values. What is gathered has as many places as there are
        // ranks; each writes its own and leaves zeros at the others'.
        let mut summed = |tensor: Tensor| {
            let (shape, place) = (tensor.shape(), places.take(tensor.shape().volume()));
            parts.push((place, tensor));
            (place, shape)
        };
        let gradient_places: Vec<_> = gradients.iter().map(|gradient| summed(gradient.clone())).collect();
        let statistic_places = statistics.map(|both| both.map(&mut summed));
        let loss_place = summed(total).0;
        let signal =
            [f32::from(u8::from(self.signal.stop)), if rank == 0 { self.signal.seconds } else { 0.0 }];
        let signal_place = summed(Tensor::from_slice(&device, [2], &signal)).0;
        let value_places: Vec<usize> = values
            .into_iter()
            .map(|value| {
                let place = places.take(ranks);
                parts.push((place + rank, value));
                place
            })
            .collect();
        let mut gathered = |rows: Tensor| {
            let width = rows.shape().volume() / batch.own.len();
            let place = places.take(images * width);
            parts.push((place + batch.own.start * width, rows));
            (place, [images, width])
        };
        let h_place = h.map(&mut gathered);
        let width = targets.len() / batch.own.len();
        let targets_place =
            (width > 0).then(|| gathered(Tensor::from_slice(&device, [batch.own.len(), width], &targets)));

        let mut all = Tensor::joined(&device, parts, places.len());
        self.ranks.add_up(GRADIENTS, &mut all).unwrap_or_else(|error| unwind(error));

        let mut gradients = gradients;
        for (gradient, (place, shape)) in gradients.iter_mut().zip(gradient_places) {
            *gradient = all.part(place, shape);
        }
        let share = |rank| self.ranks.part_of(rank, images).len() as f32 / images as f32;
        Whole {
            gradients,
            statistics: statistic_places.map(|both| both.map(|(place, shape)| all.part(place, shape))),
            loss: all.part(loss_place, []),
            terms,
            values: value_places.into_iter().map(|place| all.part(place, [ranks])).collect(),
            shares: (0..ranks).map(share).collect(),
            h: h_place.map(|(place, shape)| all.part(place, shape)),
            targets: match targets_place {
                Some((place, shape)) => Targets::Gathered(all.part(place, shape)),
                None => Targets::Known(Vec::new()),
            },
            signal: Some(all.part(signal_place, [2])),
        }
    }
}
