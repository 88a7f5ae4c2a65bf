//! The processor's peak: what its multiply-adders give when nothing else is asked of them.

use super::parallel::for_each_task;
use super::simd::{Isa, Kernel, Simd};
use std::hint::black_box;
use std::time::Instant;

/// Independent multiply-adds, enough of them to hide their latency.
const RING: usize = 12;

/// Rounds of that many multiply-adds.
struct MultiplyAdds {
    rounds: usize,
}

impl Kernel for MultiplyAdds {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (factor, term) = (s.splat(black_box(0.999)), s.splat(black_box(0.001)));
        let mut values = [s.splat(1.0); RING];
        for _ in 0..self.rounds {
            for value in &mut values {
                *value = s.fma(*value, factor, term);
            }
        }
        let mut out = [0.0; 16];
        for value in values {
            // SAFETY: sixteen values hold a vector of any set.
            unsafe { s.store(out.as_mut_ptr(), value) };
            black_box(&out);
        }
    }
}

/// The best of a few short runs on all threads of the pool, in GFLOP/s.
pub(crate) fn gflops(isa: Isa) -> f64 {
    let threads = rayon::current_num_threads();
    let rounds = 2_000_000;
    let once = || {
        let start = Instant::now();
        for_each_task(threads, |_| isa.run(MultiplyAdds { rounds }));
        let flops = threads * rounds * RING * isa.lanes() * 2;
        flops as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..5).map(|_| once()).fold(0.0, f64::max)
}
