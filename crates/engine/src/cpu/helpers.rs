//! Parallel loops whose helpers stay awake from one loop to the next.
//!
//! A training step is some hundred loops of 20 to 500 µs, one after the other. rayon's workers fall asleep in the gaps
//! between them, and a short loop is over before they are awake again: with two threads a step of a small network took
//! nearly as long as with one. So a thread that runs loops, the leader, calls workers of its pool as helpers. A helper
//! spins until the next loop begins. It returns to the pool when none begins for a while, and after the first loop that
//! ends later than a fixed time, so that the pool's other work gets its turn. The leader waits only for helpers that
//! have joined the loop.
//!
//! Tasks are cut into one share for each thread, so that the same thread meets the same part of the images in loop
//! after loop, where it lies in its cache. A thread that is through with its share takes from those of others.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Threads that work on a loop, at most.
const MAX_THREADS: usize = 256;
/// How long a helper waits for the next loop, and a call for a helper once its loop is over: then the pool has other
/// work.
const IDLE_LIMIT: Duration = Duration::from_micros(200);
/// How long a helper stays for further loops: so long, and a loop, may other work of the pool have to wait for it.
const STAY_LIMIT: Duration = Duration::from_millis(2);
/// How often a waiting helper looks for a loop before it looks at the clock.
const LOOKS_PER_CLOCK: usize = 64;
/// How often the leader looks for the last helpers before it gives up its processor, which one of them may need.
const LOOKS_PER_YIELD: usize = 1000;

/// What is called with the number of each task.
pub(super) type Task<'a> = dyn Fn(usize) + Sync + 'a;

thread_local! {
    /// Those of the loops that this thread leads.
    static HELPERS: Arc<Helpers> = Arc::new(Helpers::new());
    /// Whether this thread runs a task of a shared loop. A loop inside of a task is not shared again, as the other
    /// threads have tasks, too.
    static IS_IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `task(0) .. task(count - 1)` on this thread and, where the current pool has several, on helpers.
pub(super) fn for_each_task(count: usize, task: &Task) {
    let threads = match count > 1 && !IS_IN_TASK.get() {
        true => rayon::current_num_threads().min(count).min(MAX_THREADS),
        false => 1,
    };
    match threads {
        1 => (0..count).for_each(task),
        _ => HELPERS.with(|helpers| helpers.lead(count, threads, task)),
    }
}

/// The loops of one thread, and who helps with them.
struct Helpers {
    leader: ThreadId,
    current: Line<Loop>,
    /// How many helpers are between joining and leaving.
    joined: Line<AtomicUsize>,
    /// How many tasks of each share are taken.
    taken: [Line<AtomicUsize>; MAX_THREADS],
    /// Whether a helper's call is queued or running, by its number.
    is_called: [AtomicBool; MAX_THREADS],
    /// The first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The loop that is open, or was the last. Only the leader changes it.
struct Loop {
    /// Counts the times that a loop was opened or closed: odd while one is open.
    epoch: AtomicUsize,
    /// Helpers with this number or a higher one have no share.
    shares: AtomicUsize,
    work: UnsafeCell<Work>,
}

/// Written while the loop is closed and nobody works on it.
struct Work {
    /// Alive until the loop is closed and no helper has joined.
    task: *const Task<'static>,
    count: usize,
}

/// A value that shares its cache line with nothing.
#[repr(align(128))]
struct Line<T>(T);

// SAFETY: `work` is written while no helper reads it (`lead` and `join` say why); its task is `Sync`.
unsafe impl Sync for Helpers {}
// SAFETY: as above; nothing else in it is bound to a thread.
unsafe impl Send for Helpers {}

impl Helpers {
    fn new() -> Self {
        Self {
            leader: thread::current().id(),
            current: Line(Loop {
                epoch: AtomicUsize::new(0),
                shares: AtomicUsize::new(1),
                work: UnsafeCell::new(Work { task: &|_| {}, count: 0 }),
            }),
            joined: Line(AtomicUsize::new(0)),
            taken: [const { Line(AtomicUsize::new(0)) }; MAX_THREADS],
            is_called: [const { AtomicBool::new(false) }; MAX_THREADS],
            panic: Mutex::new(None),
        }
    }

    fn lead(self: &Arc<Self>, count: usize, shares: usize, task: &Task) {
        self.taken[..shares].iter().for_each(|taken| taken.0.store(0, Relaxed));
        // SAFETY: the loop is closed, and a helper reads it only if it saw it open after it had joined. The task's
        // lifetime is erased: it outlives the loop, as what follows closes it and waits until no helper has joined.
        unsafe {
            let task = std::mem::transmute::<&Task<'_>, *const Task<'static>>(task);
            *self.current.0.work.get() = Work { task, count };
        }
        self.current.0.shares.store(shares, Relaxed);
        let epoch = &self.current.0.epoch;
        let now = epoch.load(Relaxed);
        epoch.store(now + 1, SeqCst);
        self.work_from(0);
        epoch.store(now + 2, SeqCst);
        let mut looks = 0;
        while self.joined.0.load(SeqCst) > 0 {
            looks += 1;
            if looks % LOOKS_PER_YIELD == 0 { thread::yield_now() } else { spin_loop() }
        }
        let panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Asks the pool for a helper that is not there.
    fn call(self: &Arc<Self>, number: usize, shares: usize) {
        if number >= shares || self.is_called[number].load(Relaxed) {
            return;
        }
        if self.is_called[number].swap(true, Relaxed) {
            return;
        }
        let (helpers, called) = (Arc::clone(self), Instant::now());
        let epoch = self.current.0.epoch.load(Relaxed);
        rayon::spawn(move || {
            let is_due = called.elapsed() < IDLE_LIMIT || helpers.current.0.epoch.load(Relaxed) == epoch;
            // A leader that waits in rayon for other work may take its own call.
            if is_due && thread::current().id() != helpers.leader {
                helpers.help(number);
            }
            helpers.is_called[number].store(false, Relaxed);
        });
    }

    /// Joins loops until none begins for a while.
    fn help(self: &Arc<Self>, number: usize) {
        let Loop { epoch, shares, .. } = &self.current.0;
        let arrived = Instant::now();
        let (mut last_open, mut last_joined) = (arrived, 0);
        for look in 1.. {
            let now = epoch.load(Acquire);
            if is_open(now) && now != last_joined && number < shares.load(Relaxed) {
                last_joined = self.join(number);
                last_open = Instant::now();
            }
            if look % LOOKS_PER_CLOCK == 0 {
                let time = Instant::now();
                if is_open(now) && number < shares.load(Relaxed) {
                    last_open = time;
                }
                if time - last_open > IDLE_LIMIT || time - arrived > STAY_LIMIT {
                    return;
                }
                thread::yield_now();
            }
            spin_loop();
        }
    }

    /// Works on the loop if it is open, and returns the epoch that it saw.
    fn join(self: &Arc<Self>, number: usize) -> usize {
        // All four accesses are in one order for all threads: either the leader sees that this helper has joined, or
        // the helper sees the loop closed.
        self.joined.0.fetch_add(1, SeqCst);
        let epoch = self.current.0.epoch.load(SeqCst);
        if is_open(epoch) {
            self.work_from(number);
        }
        self.joined.0.fetch_sub(1, SeqCst);
        epoch
    }

    /// Takes tasks, those of its own share first, until there are none.
    fn work_from(self: &Arc<Self>, number: usize) {
        // SAFETY: the leader, or a helper that has joined an open loop: until it leaves, the leader neither writes the
        // loop nor lets the task go.
        let (task, count) = unsafe {
            let Work { task, count } = &*self.current.0.work.get();
            (&**task, *count)
        };
        let shares = self.current.0.shares.load(Relaxed);
        let was_in_task = IS_IN_TASK.replace(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            for share in (number..number + shares).map(|share| share % shares) {
                let (first, end) = (share * count / shares, (share + 1) * count / shares);
                let taken = &self.taken[share].0;
                // Looking first leaves the counter in the caches of all who only find that nothing is left.
                while share == number || first + taken.load(Relaxed) < end {
                    let at = first + taken.fetch_add(1, Relaxed);
                    if at >= end {
                        break;
                    }
                    // Each calls two others, so that nobody calls for long; again before every task, since a call is
                    // void where the pool was busy for long, and a helper may leave as the loop begins.
                    (1..=2).for_each(|child| self.call(2 * number + child, shares));
                    task(at);
                }
            }
        }));
        IS_IN_TASK.set(was_in_task);
        if let Err(panic) = result {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            match &*first {
                None => *first = Some(panic),
                // Dropping it could panic again, while others wait for this thread to leave.
                Some(_) => std::mem::forget(panic),
            }
        }
    }
}

fn is_open(epoch: usize) -> bool {
    epoch % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    fn counters(count: usize) -> Vec<AtomicUsize> {
        (0..count).map(|_| AtomicUsize::new(0)).collect()
    }

    #[test]
    fn every_task_runs_once() {
        for (count, threads) in [(1, 2), (2, 2), (3, 2), (7, 3), (5, 8), (1000, 4), (300, 20)] {
            pool(threads).install(|| {
                for _ in 0..50 {
                    let times = counters(count);
                    for_each_task(count, &|at| _ = times[at].fetch_add(1, Relaxed));
                    assert!(
                        times.iter().all(|times| times.load(Relaxed) == 1),
                        "{count} tasks, {threads} threads"
                    );
                }
            });
        }
    }

    /// Loops of several threads at once, inside and outside the pool, with loops inside of tasks.
    #[test]
    fn leaders_at_once_and_loops_inside_of_tasks() {
        let pool = pool(3);
        let run = || {
            let times = counters(64);
            for_each_task(8, &|outer| {
                for_each_task(8, &|inner| _ = times[8 * outer + inner].fetch_add(1, Relaxed));
            });
            assert!(times.iter().all(|times| times.load(Relaxed) == 1));
        };
        thread::scope(|scope| {
            for leader in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..200 {
                        if leader % 2 == 0 { pool.install(run) } else { run() }
                    }
                });
            }
        });
    }

    /// A panic reaches the caller when no task runs any more, and the next loop is as ever.
    #[test]
    fn a_panic_of_a_task_reaches_the_caller() {
        let pool = pool(4);
        for bad in [0, 1, 499, 999] {
            let running = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.install(|| {
                    for_each_task(1000, &|at| {
                        running.fetch_add(1, SeqCst);
                        let _left = Left(&running);
                        assert!(at != bad, "task {at} is bad");
                    });
                });
            }));
            assert_eq!(running.load(SeqCst), 0);
            let panic = result.expect_err("a task has panicked");
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("task {bad} is bad")));
            let sum = AtomicUsize::new(0);
            pool.install(|| for_each_task(1000, &|at| _ = sum.fetch_add(at, Relaxed)));
            assert_eq!(sum.into_inner(), 499_500);
        }
    }

    struct Left<'a>(&'a AtomicUsize);

    impl Drop for Left<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }

    /// The panic of a helper alone, and of both threads at once.
    #[test]
    fn a_panic_of_a_helper_reaches_the_caller() {
        let pool = pool(2);
        for both in [false, true] {
            let began = Instant::now();
            let panic = pool.install(|| {
                let leader = thread::current().id();
                // Until a helper has come while the leader was in its task.
                loop {
                    assert!(began.elapsed() < Duration::from_secs(60), "no helper came");
                    let (in_task, loop_began) = (AtomicUsize::new(0), Instant::now());
                    let result = catch_unwind(AssertUnwindSafe(|| {
                        for_each_task(2, &|_| {
                            in_task.fetch_add(1, SeqCst);
                            while in_task.load(SeqCst) < 2 {
                                if loop_began.elapsed() > Duration::from_millis(50) {
                                    return;
                                }
                                thread::yield_now();
                            }
                            assert!(!both && thread::current().id() == leader, "a task has panicked");
                        });
                    }));
                    if let Err(panic) = result {
                        return panic;
                    }
                }
            });
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"a task has panicked"));
        }
    }

    /// A helper that was called while the pool was busy is called again, however long the loop that is open then.
    #[test]
    fn a_long_loop_gets_helpers_when_the_pool_is_free_again() {
        let pool = pool(2);
        pool.install(|| {
            let is_busy = Arc::new(AtomicBool::new(false));
            let busy = Arc::clone(&is_busy);
            rayon::spawn(move || {
                busy.store(true, SeqCst);
                thread::sleep(Duration::from_millis(20));
            });
            while !is_busy.load(SeqCst) {
                thread::yield_now();
            }
            // Its call waits in the pool, and is void when the pool is free.
            for_each_task(2, &|_| {});
            let threads = Mutex::new(Vec::new());
            for_each_task(300, &|_| {
                thread::sleep(Duration::from_millis(1));
                threads.lock().unwrap().push(thread::current().id());
            });
            let threads = threads.into_inner().unwrap();
            assert!(threads.iter().any(|thread| *thread != threads[0]), "one thread ran the whole loop");
        });
    }

    /// Other work of the pool is not kept waiting by a thread that runs loops all the time.
    #[test]
    fn other_work_of_the_pool_gets_its_turn() {
        let pool = pool(2);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                pool.install(|| {
                    while !is_over.load(Relaxed) {
                        for_each_task(16, &|_| thread::sleep(Duration::from_micros(20)));
                    }
                });
            });
            for _ in 0..20 {
                let asked = Instant::now();
                pool.install(|| {});
                assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
            }
            is_over.store(true, Relaxed);
        });
    }
}
