//! Helpers that stay awake from one parallel loop to the next.
//!
//! A training step is some hundred loops of 20 to 500 µs, one after the other. In the gaps between them rayon's
//! workers fall asleep, and a loop is often over before they are awake again: with two threads a step of a small
//! network took as long as with one. So a thread that runs loops, the leader, keeps workers of its pool as helpers.
//! They wait for its next loop with open eyes and return to the pool when none comes for a while. The leader waits
//! for nobody who has not begun: a helper that is late finds the loop over.
//!
//! Tasks are cut into one share for each thread, so that the same thread meets the same part of the images in loop
//! after loop, where it lies in its cache. A thread that is through with its share takes from those of others.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Threads that work on a loop, at most.
const MOST: usize = 128;
/// How long a helper waits for the next loop.
const LINGERS: Duration = Duration::from_micros(200);
/// How long it stays in all, so that the pool's other work gets its turn.
const STAYS: Duration = Duration::from_millis(10);
/// Looks between two looks at the clock.
const LOOKS: usize = 64;

/// What is called with the number of each task.
type Task<'a> = dyn Fn(usize) + Sync + 'a;

/// The only one: where two threads run loops at once, the second one has to do without.
static HELPERS: Helpers = Helpers {
    is_led: AtomicBool::new(false),
    turn: AtomicUsize::new(0),
    inside: AtomicUsize::new(0),
    work: UnsafeCell::new(Loop { task: &|_| {}, count: 0, shares: 1 }),
    taken: [const { Line(AtomicUsize::new(0)) }; MOST],
    is_summoned: [const { AtomicBool::new(false) }; MOST],
    panic: Mutex::new(None),
};

struct Helpers {
    /// Whether some thread leads.
    is_led: AtomicBool,
    /// How often a loop was opened or closed: odd while there is one that helpers may join.
    turn: AtomicUsize,
    /// Helpers that have joined.
    inside: AtomicUsize,
    /// What is run. Only the leader writes it, while no loop is open and nobody inside.
    work: UnsafeCell<Loop>,
    /// How many tasks of each share are taken.
    taken: [Line; MOST],
    /// Whether a helper is there or on its way, by number.
    is_summoned: [AtomicBool; MOST],
    /// The first panic of a helper's task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A counter that shares its cache line with nothing.
#[repr(align(128))]
struct Line(AtomicUsize);

struct Loop {
    /// Borrowed by [`Helpers::lead`] until no helper is inside.
    task: *const Task<'static>,
    count: usize,
    shares: usize,
}

// SAFETY: `work` is written while nobody else reads it and read while nobody writes it (`lead` and `join` say how);
// the task it points to is `Sync`.
unsafe impl Sync for Helpers {}

/// Runs `task(0) .. task(count - 1)` on this thread and its helpers, or returns false, as another thread leads them.
pub(super) fn run(count: usize, threads: usize, task: &Task) -> bool {
    if HELPERS.is_led.swap(true, Acquire) {
        return false;
    }
    let result = HELPERS.lead(count, threads.min(MOST), task);
    HELPERS.is_led.store(false, Release);
    result.unwrap_or_else(|panic| resume_unwind(panic));
    true
}

impl Helpers {
    fn lead(&'static self, count: usize, threads: usize, task: &Task) -> thread::Result<()> {
        let shares = threads.min(count);
        self.taken[..shares].iter().for_each(|taken| taken.0.store(0, Relaxed));
        // SAFETY: it is written while no loop is open and nobody is inside, as the last leader left it. The borrow's
        // end is forgotten: no helper uses it once the loop is closed and nobody inside, which is waited for below.
        unsafe {
            let task = std::mem::transmute::<&Task<'_>, *const Task<'static>>(task);
            *self.work.get() = Loop { task, count, shares };
        }
        let turn = self.turn.load(Relaxed);
        self.turn.store(turn + 1, SeqCst);
        self.summon(1..shares);
        let own = catch_unwind(AssertUnwindSafe(|| self.work_from(0)));
        self.turn.store(turn + 2, SeqCst);
        let mut looks = 0;
        while self.inside.load(SeqCst) > 0 {
            looks += 1;
            // A helper may have lost its processor to another program.
            if looks < 10_000 { spin_loop() } else { thread::yield_now() }
        }
        let helpers = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        own.and(helpers.map_or(Ok(()), Err))
    }

    /// Asks the pool for the helpers that are not there.
    fn summon(&'static self, numbers: Range<usize>) {
        for number in numbers {
            let is_summoned = &self.is_summoned[number];
            if !is_summoned.load(Relaxed) {
                is_summoned.store(true, Relaxed);
                let leader = thread::current().id();
                rayon::spawn(move || {
                    self.help(number, leader);
                    self.is_summoned[number].store(false, Relaxed);
                });
            }
        }
    }

    /// Joins loops until none comes for a while.
    fn help(&self, number: usize, leader: ThreadId) {
        // The leader may be a worker that waits for other work of the pool, and then meets its own summons.
        if thread::current().id() == leader {
            return;
        }
        let came = Instant::now();
        let (mut last, mut done) = (came, 0);
        for look in 1.. {
            let turn = self.turn.load(Acquire);
            if is_open(turn) && turn != done {
                done = self.join(number);
                last = Instant::now();
            } else if look % LOOKS == 0 {
                let now = Instant::now();
                if is_open(turn) {
                    last = now;
                }
                if now - last > LINGERS || now - came > STAYS {
                    return;
                }
            }
            spin_loop();
        }
    }

    /// Works on the loop of now, whose turn is returned.
    fn join(&self, number: usize) -> usize {
        // In one order for all threads: either the leader sees this one inside, or this one sees the loop closed.
        self.inside.fetch_add(1, SeqCst);
        let turn = self.turn.load(SeqCst);
        if is_open(turn)
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work_from(number)))
        {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
        self.inside.fetch_sub(1, SeqCst);
        turn
    }

    /// Takes tasks, those of its own share first, until there are none.
    fn work_from(&self, number: usize) {
        // SAFETY: the leader, or inside an open loop: it is not written before this thread has left. The task's
        // borrow lives as long, as `lead` waits for this thread.
        let (task, &Loop { count, shares, .. }) = unsafe { (&*(*self.work.get()).task, &*self.work.get()) };
        for share in (number..number + shares).map(|share| share % shares) {
            let (first, end) = (share * count / shares, (share + 1) * count / shares);
            loop {
                let at = first + self.taken[share].0.fetch_add(1, Relaxed);
                if at >= end {
                    break;
                }
                task(at);
            }
        }
    }
}

fn is_open(turn: usize) -> bool {
    turn % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a loop on the helpers, as soon as no other test leads it.
    fn run_alone(count: usize, threads: usize, task: impl Fn(usize) + Sync) {
        while !run(count, threads, &task) {
            thread::yield_now();
        }
    }

    fn counters(count: usize) -> Vec<AtomicUsize> {
        (0..count).map(|_| AtomicUsize::new(0)).collect()
    }

    #[test]
    fn every_task_runs_once() {
        for (count, threads) in [(1, 2), (2, 2), (3, 2), (7, 3), (5, 8), (1000, 4), (300, MOST + 5)] {
            for _ in 0..50 {
                let times = counters(count);
                run_alone(count, threads, |at| _ = times[at].fetch_add(1, Relaxed));
                assert!(
                    times.iter().all(|times| times.load(Relaxed) == 1),
                    "{count} tasks, {threads} threads"
                );
            }
        }
    }

    /// Loops of several threads at once, with loops inside of tasks: one thread leads, the others do without.
    #[test]
    fn leaders_at_once_and_loops_inside_of_tasks() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let times = counters(64);
                        pool.install(|| {
                            super::super::parallel::for_each_task(8, |outer| {
                                super::super::parallel::for_each_task(8, |inner| {
                                    times[8 * outer + inner].fetch_add(1, Relaxed);
                                });
                            });
                        });
                        assert!(times.iter().all(|times| times.load(Relaxed) == 1));
                    }
                });
            }
        });
    }

    /// A panic reaches the caller when no task runs any more, and helpers are of use afterwards.
    #[test]
    fn a_panic_of_a_task_reaches_the_caller() {
        for bad in [0, 1, 499, 999] {
            let running = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                run_alone(1000, 4, |at| {
                    running.fetch_add(1, SeqCst);
                    let _left = Defer(|| _ = running.fetch_sub(1, SeqCst));
                    assert!(at != bad, "task {at} is bad");
                });
            }));
            assert_eq!(running.load(SeqCst), 0);
            let panic = result.expect_err("a task has panicked");
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("task {bad} is bad")));
            let sum = AtomicUsize::new(0);
            run_alone(1000, 4, |at| _ = sum.fetch_add(at, Relaxed));
            assert_eq!(sum.into_inner(), 499_500);
        }
    }

    struct Defer<F: Fn()>(F);

    impl<F: Fn()> Drop for Defer<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }

    /// A helper that finds nothing to do goes back to the pool, whose other work it kept waiting.
    #[test]
    fn helpers_return_to_the_pool() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.install(|| run_alone(100, 2, |_| {}));
        let begin = Instant::now();
        let threads: Vec<ThreadId> = pool.broadcast(|_| thread::current().id());
        assert_eq!(threads.len(), 2);
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
}
