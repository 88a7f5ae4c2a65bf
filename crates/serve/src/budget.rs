//! The memory that requests hold together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// What is counted.
const UNIT: u64 = 1 << 14;

/// Bytes that may be held.
pub struct Budget {
    units: Arc<Semaphore>,
    total: u64,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub struct Held(OwnedSemaphorePermit);

impl Budget {
    pub fn new(bytes: u64) -> Self {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS as u64);
        Self { units: Arc::new(Semaphore::new(units as usize)), total: units * UNIT }
    }

    /// Takes some bytes, or says that others have them.
    pub fn take(&self, bytes: u64) -> Result<Held, Refusal> {
        if bytes > self.total {
            return Err(Refusal::too_large(format!(
                "this takes {bytes} bytes, and all requests together may hold {}; send less at once, or raise the \
                 server's --memory",
                self.total
            )));
        }
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        match self.units.clone().try_acquire_many_owned(units) {
            Ok(permit) => Ok(Held(permit)),
            Err(_) => Err(Refusal::busy("other requests hold the server's memory; ask again later")),
        }
    }

    /// Bytes that are held now.
    pub fn held(&self) -> u64 {
        self.total - self.units.available_permits() as u64 * UNIT
    }
}

impl Held {
    /// Holds what another held, too.
    pub fn join(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_comes_back_and_too_much_is_told_apart_from_not_now() {
        let budget = Budget::new(10 * UNIT);
        let mut some = budget.take(4 * UNIT).unwrap();
        some.join(budget.take(1).unwrap());
        assert_eq!(budget.held(), 5 * UNIT);
        assert_eq!(budget.take(6 * UNIT).unwrap_err().status, 503);
        assert_eq!(budget.take(11 * UNIT).unwrap_err().status, 413);
        drop(some);
        assert_eq!(budget.held(), 0);
        assert!(budget.take(10 * UNIT).is_ok());
    }
}
