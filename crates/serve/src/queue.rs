//! Images that wait for a model. One thread takes what is waiting, adds no delay, and computes images of one model and
//! size together, whoever sent them; what each sender hears does not depend on who else asked.
//!
//! Batches have few sizes, full ones and powers of two: buffers then come from the batches before. With batches of any
//! size most buffers were new, and half of the processor time went into clearing their pages.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use multivalued_data::dataset::Slices;
use multivalued_data::{Image, Prediction, Predictions};
use tokio::sync::oneshot;

use crate::metrics::Metrics;
use crate::model::Model;
use crate::refusal::Refusal;

/// Most bytes of f32 that a model is given at once, unless one image has more.
const BYTES_AT_ONCE: usize = 256 << 20;

/// What a request asks about.
pub enum Source {
    /// Images of one size.
    Images(Vec<Image>),
    /// The slices of a file.
    Slices(Arc<Slices>),
}

/// What a model says of it, in order.
pub enum Said {
    /// Of images.
    Images(Vec<Prediction>),
    /// Of slices, of which there may be many, in few bytes.
    Slices(Predictions),
}

/// The answer to a request.
pub type Answer = oneshot::Receiver<Result<Said, Refusal>>;

/// Requests that wait, and the thread that computes.
pub struct Queue {
    state: Arc<State>,
    most: usize,
}

#[derive(Default)]
struct State {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    stopped: bool,
}

/// A request on its way.
struct Job {
    model: usize,
    size: [usize; 2],
    source: Source,
    /// Images that were computed.
    done: usize,
    said: Said,
    reply: oneshot::Sender<Result<Said, Refusal>>,
}

impl Job {
    fn len(&self) -> usize {
        match &self.source {
            Source::Images(images) => images.len(),
            Source::Slices(slices) => slices.len(),
        }
    }

    /// Images that are still to be computed.
    fn left(&self) -> usize {
        self.len() - self.done
    }
}

impl Queue {
    /// Begins to compute what comes: so many images at once, while at most so many requests wait.
    pub fn start(models: Vec<Arc<Model>>, most: usize, batch: usize, metrics: Arc<Metrics>) -> Self {
        let state = Arc::<State>::default();
        let worker = Worker { models, batch, metrics, state: state.clone() };
        thread::spawn(move || worker.run());
        Self { state, most }
    }

    /// Hands over a request. Whoever drops the answer before it comes is forgotten.
    pub fn ask(&self, model: usize, source: Source) -> Result<Answer, Refusal> {
        let (reply, answer) = oneshot::channel();
        let (size, said) = match &source {
            Source::Images(images) => {
                (images.first().map_or([0, 0], |one| [one.width(), one.height()]), Said::Images(Vec::new()))
            }
            Source::Slices(slices) => (slices.size(), Said::Slices(Predictions::default())),
        };
        let mut waiting = self.state.lock();
        if waiting.stopped {
            return Err(Refusal::busy("the server is ending; ask again when it is back"));
        }
        if waiting.jobs.len() >= self.most {
            // Those who have gone do not count.
            waiting.jobs.retain(|job| !job.reply.is_closed());
        }
        if waiting.jobs.len() >= self.most {
            let most = self.most;
            return Err(Refusal::busy(format!(
                "{most} requests are waiting, which is the most; ask again later"
            )));
        }
        waiting.jobs.push_back(Job { model, size, source, done: 0, said, reply });
        drop(waiting);
        self.state.changed.notify_one();
        Ok(answer)
    }

    /// Requests that wait now.
    pub fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }

    /// Ends the thread when it has computed what it is at; nobody waits for that.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.state.changed.notify_all();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.stop();
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    models: Vec<Arc<Model>>,
    batch: usize,
    metrics: Arc<Metrics>,
    state: Arc<State>,
}

impl Worker {
    fn run(&self) {
        while let Some((jobs, most)) = self.next() {
            let unfinished = self.compute(jobs, most);
            // Behind the others, so that a large volume keeps nobody waiting for all of it.
            self.state.lock().jobs.extend(unfinished);
        }
    }

    /// The requests that are computed next, of one model and size, and how many of their images. None at the end.
    fn next(&self) -> Option<(Vec<Job>, usize)> {
        let mut waiting = self.state.lock();
        loop {
            if waiting.stopped {
                return None;
            }
            waiting.jobs.retain(|job| !job.reply.is_closed());
            let Some(first) = waiting.jobs.front() else {
                waiting = self.state.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (model, size) = (first.model, first.size);
            let bytes = size[0] * size[1] * self.models[model].channels() * size_of::<f32>();
            let most = self.batch.min(BYTES_AT_ONCE / bytes.max(1)).max(1);
            let fits = |job: &Job| job.model == model && job.size == size;
            let count = together(waiting.jobs.iter().filter(|job| fits(job)).map(Job::left).sum(), most);
            let (mut jobs, mut taken, mut at) = (Vec::new(), 0, 0);
            while taken < count && at < waiting.jobs.len() {
                match fits(&waiting.jobs[at]).then(|| waiting.jobs.remove(at)).flatten() {
                    Some(job) => {
                        taken += job.left();
                        jobs.push(job);
                    }
                    None => at += 1,
                }
            }
            return Some((jobs, count));
        }
    }

    /// Computes so many images of some requests, answers those that are complete, and gives back the others.
    fn compute(&self, mut jobs: Vec<Job>, most: usize) -> Vec<Job> {
        let model = &self.models[jobs[0].model];
        let began = Instant::now();
        let (mut images, mut whose, mut faults) = (Vec::new(), Vec::new(), vec![None; jobs.len()]);
        for (at, job) in jobs.iter_mut().enumerate() {
            while job.left() > 0 && images.len() < most && faults[at].is_none() {
                match image(&mut job.source, job.done, model.has_context()) {
                    Ok(image) => {
                        images.push(image);
                        whose.push(at);
                    }
                    Err(refusal) => faults[at] = Some(refusal),
                }
                job.done += 1;
            }
        }
        let said = catch_unwind(AssertUnwindSafe(|| model.predict(&images))).unwrap_or_else(|_| {
            images
                .iter()
                .map(|_| Err(Refusal::failed("the model failed; tell whoever runs the server")))
                .collect()
        });
        let mut packed: Vec<Vec<Prediction>> = jobs.iter().map(|_| Vec::new()).collect();
        for (at, said) in whose.into_iter().zip(said) {
            match said {
                Ok(said) => packed[at].push(said),
                Err(refusal) => faults[at] = Some(refusal),
            }
        }
        self.metrics.computed(model, images.len(), began.elapsed());
        let mut unfinished = Vec::new();
        for ((mut job, said), fault) in jobs.into_iter().zip(packed).zip(faults) {
            match &mut job.said {
                Said::Images(all) => all.extend(said),
                Said::Slices(all) => all.extend(&said),
            }
            match fault {
                // Nobody hears it where the asker has gone.
                Some(refusal) => _ = job.reply.send(Err(refusal)),
                None if job.left() == 0 => _ = job.reply.send(Ok(job.said)),
                None => unfinished.push(job),
            }
        }
        unfinished
    }
}

/// How many of the images that wait are computed next, where at most so many are computed together. The others are next
/// after that, with those that have come meanwhile.
fn together(waiting: usize, most: usize) -> usize {
    if waiting >= most { most } else { 1 << waiting.max(1).ilog2() }
}

/// An image as the networks take it. Each is asked for once.
fn image(source: &mut Source, at: usize, has_context: bool) -> Result<Image, Refusal> {
    match source {
        Source::Images(images) => Ok(std::mem::replace(&mut images[at], Image::new(0, 0, 1, Vec::new()))),
        Source::Slices(slices) if has_context => Ok(slices.with_neighbours(at)?),
        Source::Slices(slices) => Ok(slices.image(at)?),
    }
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn batches_are_full_or_powers_of_two() {
        let cut = |mut waiting: usize, most: usize| {
            let mut batches = Vec::new();
            while waiting > 0 {
                batches.push(together(waiting, most));
                waiting -= batches[batches.len() - 1];
            }
            batches
        };
        assert_eq!(cut(43, 16), [16, 16, 8, 2, 1]);
        assert_eq!(cut(11, 12), [8, 2, 1]);
        assert_eq!(cut(3, 1), [1, 1, 1]);
    }
}
