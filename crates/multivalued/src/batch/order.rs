//! Which cases each step takes: every epoch goes through them in an order of its own.

use multivalued_data::draw::Draw;
use std::sync::{Mutex, PoisonError};

/// The order of all epochs, drawn from the seed and the epoch alone.
pub(super) struct Order {
    count: usize,
    batch: usize,
    seed: u64,
    /// The epoch that was last asked for, so that a step costs a slice and not a shuffle of all cases.
    present: Mutex<Option<(u64, Vec<usize>)>>,
}

impl Order {
    pub fn new(count: usize, batch: usize, seed: u64) -> Self {
        Self { count, batch, seed, present: Mutex::new(None) }
    }

    /// Steps in one pass over the cases; a last, smaller batch is left out where there are others.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.count / self.batch).max(1) as u64
    }

    /// The cases of a step.
    pub fn of_step(&self, step: u64) -> Vec<usize> {
        let (epoch, place) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        // An order is put there complete, so a thread that panicked has left nothing half done.
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let order = match present.take() {
            Some((drawn, order)) if drawn == epoch => order,
            _ => self.of_epoch(epoch),
        };
        let cases = order.iter().skip(place as usize * self.batch).take(self.batch).copied().collect();
        *present = Some((epoch, order));
        cases
    }

    fn of_epoch(&self, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count).collect();
        Draw::new(self.seed, &["order"], epoch).shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_takes_every_case_once_but_for_a_smaller_rest() {
        let order = Order::new(11, 4, 3);
        assert_eq!(order.steps_per_epoch(), 2);
        let mut taken: Vec<usize> = (0..2).flat_map(|step| order.of_step(step)).collect();
        assert_eq!(taken, order.of_epoch(0)[..8]);
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 8);
        assert_eq!(Order::new(3, 4, 3).of_step(5).len(), 3, "fewer cases than a batch are one batch");
    }

    #[test]
    fn a_step_takes_the_same_cases_whatever_was_asked_before() {
        let kept = Order::new(10, 3, 7);
        let fresh = |step| Order::new(10, 3, 7).of_step(step);
        assert_ne!(fresh(0), fresh(3), "another epoch, another order");
        for step in [0, 1, 2, 3, 2, 7, 8, 0, 5, 5] {
            assert_eq!(kept.of_step(step), fresh(step), "step {step}");
        }
        let other = std::thread::scope(|scope| scope.spawn(|| kept.of_step(4)).join().unwrap());
        assert_eq!((other, kept.of_step(5)), (fresh(4), fresh(5)));
    }

    #[test]
    fn the_orders_are_those_of_every_earlier_version() {
        // A change here is a change of everyone's trainings.
        let order = Order::new(8, 4, 1);
        assert_eq!([0, 1].map(|step| order.of_step(step)), [[0, 7, 5, 4], [2, 1, 6, 3]]);
        assert_eq!([2, 3].map(|step| order.of_step(step)), [[3, 2, 6, 5], [0, 4, 1, 7]]);
    }
}
