//! Reading, computing and writing at once: images are opened in groups ahead of the model, slices of one size are
//! predicted together, and finished images are written by several threads.
//!
//! Groups depend on the images alone, so that the same images are predicted in the same batches however fast the
//! disk is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use multivalued_data::dataset::Slices;
use multivalued_data::fingerprint::{Fingerprint, Warnings};
use multivalued_data::import::Limits;
use multivalued_data::{Image, Prediction};
use rayon::prelude::*;

use super::existing::{State, is_complete};
use super::inputs::Input;
use super::output::Written;
use super::predicted::Predicted;
use crate::exit::{Failure, Outcome};
use crate::run::counting::Counting;
use crate::run::keep::Keep;
use crate::run::model::RunModel;

/// A group of images ends where it has so many slices,
const SLICES_TOGETHER: usize = 256;
/// or so many bytes.
const BYTES_TOGETHER: u64 = 64 << 20;
/// The next group is read where those on their way take no more than this.
const BYTES_AHEAD: u64 = 256 << 20;
/// Most bytes of f32 that the model is given at once, unless one slice has more.
const BYTES_AT_ONCE: usize = 256 << 20;

/// Threads that write.
const MOST_WRITERS: usize = 16;

/// An image, its folder, and what is known of it.
pub struct Task<'a> {
    pub input: &'a Input,
    pub folder: &'a Path,
    pub state: &'a State,
}

/// What becomes of images on their way.
pub struct Queue<'a> {
    pub tasks: &'a [Task<'a>],
    pub model: &'a RunModel,
    /// What the training images were like.
    pub fingerprint: Option<&'a Fingerprint>,
    /// Slices of one size that are predicted together.
    pub batch: usize,
    /// What is kept of each prediction.
    pub keep: &'a Keep,
    /// Writes an image's results.
    pub write: &'a (dyn Fn(&Finished) -> Outcome<Written> + Sync),
}

/// What happened to an image.
pub enum Event {
    /// Its prediction is complete already.
    Complete,
    /// It cannot be predicted, or its results cannot be written.
    Failed(Failure),
    /// It was predicted and written.
    Written(Written),
    /// Nothing more can be done.
    Fatal(Failure),
}

/// An image whose files were read.
struct Opened<'a> {
    task: &'a Task<'a>,
    slices: Slices,
    /// BLAKE3 of its values.
    pixels: String,
    warnings: Warnings,
    predicted: Vec<Predicted>,
    _held: Held<'a>,
}

/// An image that was predicted.
pub struct Finished<'a> {
    pub task: &'a Task<'a>,
    pub slices: Slices,
    /// BLAKE3 of its values.
    pub pixels: String,
    pub warnings: Warnings,
    /// By slice.
    pub predicted: Vec<Predicted>,
    _held: Held<'a>,
}

impl Queue<'_> {
    /// Predicts all images and tells what happened to each, in the order in which it happened. The first error,
    /// or the first that `tell` gives, ends the work; what is being written is finished.
    pub fn run(&self, mut tell: impl FnMut(Event) -> Outcome) -> Outcome {
        let (room, stop) = (Room::default(), AtomicBool::new(false));
        let (room, stop) = (&room, &stop);
        let writers = rayon::current_num_threads().clamp(2, MOST_WRITERS);
        thread::scope(|scope| {
            let (events, told) = channel();
            let (send_group, groups) = sync_channel(1);
            let (send_finished, finished) = sync_channel(2 * writers);
            let finished = std::sync::Arc::new(Mutex::new(finished));
            for _ in 0..writers {
                let (finished, events) = (finished.clone(), events.clone());
                scope.spawn(move || self.write_all(&finished, &events, stop));
            }
            drop(finished);
            let of_reader = events.clone();
            scope.spawn(move || self.read_all(room, &send_group, &of_reader, stop));
            scope.spawn(move || {
                for group in groups {
                    self.predict_group(group, &send_finished, &events, stop);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut end = Ok(());
            for event in told {
                let taken = match event {
                    Event::Fatal(failure) => Err(failure),
                    event => tell(event),
                };
                if taken.is_err() {
                    stop.store(true, Ordering::Relaxed);
                    end = end.and(taken);
                }
            }
            end
        })
    }

    fn read_all<'a>(
        &'a self,
        room: &'a Room,
        send: &SyncSender<Vec<Opened<'a>>>,
        events: &Sender<Event>,
        stop: &AtomicBool,
    ) {
        let (mut group, mut slices, mut bytes) = (Vec::new(), 0, 0);
        for task in self.tasks {
            if group.is_empty() {
                room.wait();
            }
            if stop.load(Ordering::Relaxed) {
                return;
            }
            match self.open(task, room) {
                Ok(Some(opened)) => {
                    slices += opened.slices.len();
                    bytes += opened.slices.bytes();
                    group.push(opened);
                }
                // Nobody listens only where all is over.
                Ok(None) => _ = events.send(Event::Complete),
                Err(failure) => _ = events.send(Event::Failed(failure)),
            }
            if slices >= SLICES_TOGETHER || bytes >= BYTES_TOGETHER {
                (slices, bytes) = (0, 0);
                if send.send(std::mem::take(&mut group)).is_err() {
                    return;
                }
            }
        }
        let _ = send.send(group);
    }

    /// Reads an image; none where its prediction is complete.
    fn open<'a>(&self, task: &'a Task<'a>, room: &'a Room) -> Outcome<Option<Opened<'a>>> {
        let channels = self.model.recipe().image_channels();
        let slices = Slices::open_for(&task.input.files, channels, &Limits::default())?;
        let mut hasher = blake3::Hasher::new();
        let mut warnings = Warnings::default();
        for z in 0..slices.len() {
            let image = slices.image(z)?;
            hash(&mut hasher, &image);
            warnings.add(self.fingerprint, &image);
        }
        let pixels = hasher.finalize().to_hex().to_string();
        match task.state {
            State::Begun(document) if is_complete(task.folder, document, &pixels) => return Ok(None),
            _ => {}
        }
        let _held = room.hold(slices.bytes());
        Ok(Some(Opened { task, slices, pixels, warnings, predicted: Vec::new(), _held }))
    }

    /// Predicts a group's slices by their size, and hands on each image when its last slice is predicted.
    fn predict_group<'a>(
        &self,
        group: Vec<Opened<'a>>,
        send: &SyncSender<Finished<'a>>,
        events: &Sender<Event>,
        stop: &AtomicBool,
    ) {
        let mut by_size: BTreeMap<[usize; 2], Vec<(usize, usize)>> = BTreeMap::new();
        for (at, opened) in group.iter().enumerate() {
            let places = (0..opened.slices.len()).map(|z| (at, z));
            by_size.entry(opened.slices.size()).or_default().extend(places);
        }
        // One count at a time: that of the images, or that of the only one's slices.
        let alone = self.tasks.len() == 1;
        let mut counting =
            Counting::new(if alone { group.iter().map(|one| one.slices.len()).sum() } else { 0 });
        let mut group: Vec<Option<Opened>> = group.into_iter().map(Some).collect();
        let channels = self.model.recipe().model.input_channels;
        for ([width, height], places) in by_size {
            let most = BYTES_AT_ONCE / (width * height * channels * size_of::<f32>()).max(1);
            for some in places.chunks(self.batch.min(most).max(1)) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(failure) = self.predict_some(some, &mut group, events) {
                    let _ = events.send(Event::Fatal(failure));
                    return;
                }
                for &(at, _) in some {
                    let is_done = |one: &mut Opened| one.predicted.len() == one.slices.len();
                    let Some(done) = group[at].take_if(is_done) else { continue };
                    let Opened { task, slices, pixels, warnings, predicted, _held } = done;
                    // Nobody takes it only where all is over.
                    let _ = send.send(Finished { task, slices, pixels, warnings, predicted, _held });
                }
                counting.reached(some.last().map_or(0, |&(_, z)| z + 1));
            }
        }
    }

    /// Predicts slices of one size. An image that cannot be predicted leaves the group.
    fn predict_some(
        &self,
        places: &[(usize, usize)],
        group: &mut [Option<Opened>],
        events: &Sender<Event>,
    ) -> Outcome {
        let fail = |opened: &mut Option<Opened>, failure| {
            if opened.take().is_some() {
                let _ = events.send(Event::Failed(failure));
            }
        };
        let (mut images, mut whose) = (Vec::new(), Vec::new());
        for &(at, z) in places {
            let Some(opened) = &group[at] else { continue };
            match self.image(opened, z) {
                Ok(image) => {
                    images.push(image);
                    whose.push(at);
                }
                Err(failure) => fail(&mut group[at], failure),
            }
        }
        let keeps: Vec<Keep> = whose
            .iter()
            .map(|&at| match &group[at] {
                Some(opened) if opened.slices.len() > 1 => self.keep.of_slices(),
                _ => *self.keep,
            })
            .collect();
        for (at, said) in whose.into_iter().zip(self.predict(&images, &keeps)?) {
            let Some(opened) = &mut group[at] else { continue };
            match said {
                Ok(predicted) => opened.predicted.push(predicted),
                Err(failure) => {
                    let failure = Failure::at(opened.task.input.files[0].display(), failure);
                    fail(&mut group[at], failure);
                }
            }
        }
        Ok(())
    }

    /// A slice that the model can take, with its neighbours where it takes them, too.
    fn image(&self, opened: &Opened, z: usize) -> Outcome<Image> {
        let slices = &opened.slices;
        let image = match self.model.recipe().data.context {
            0 => slices.image(z)?,
            _ => slices.with_neighbours(z)?,
        };
        let place = opened.task.input.files[0].display();
        self.model.mixture().check(&[&image]).map_err(|error| Failure::at(place, error))?;
        Ok(image)
    }

    /// What the model says of images of one size, and what is kept of it, or why it says nothing of one.
    fn predict(&self, images: &[Image], keeps: &[Keep]) -> Outcome<Vec<Outcome<Predicted>>> {
        let all: Vec<&Image> = images.iter().collect();
        let said: Vec<Outcome<Prediction>> = match self.model.mixture().predict(&all).map_err(Failure::from) {
            Ok(said) => said.into_iter().map(Ok).collect(),
            Err(failure) if !failure.is_users() => return Err(failure),
            // One of them is at fault.
            Err(_) => {
                let alone = |image: &&Image| Ok(self.model.mixture().predict(&[image])?.swap_remove(0));
                all.iter().map(alone).collect()
            }
        };
        let kept = said.into_par_iter().zip(keeps).map(|(said, keep)| {
            let said = said?;
            let (kept, loss) = keep.of(&said)?;
            Ok(Predicted::new(&said, &kept, loss))
        });
        Ok(kept.collect())
    }

    fn write_all(&self, finished: &Mutex<Receiver<Finished>>, events: &Sender<Event>, stop: &AtomicBool) {
        loop {
            let next = finished.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(one) = next else { return };
            // What was computed before the end is taken and let go, so that nobody waits for room.
            if stop.load(Ordering::Relaxed) {
                continue;
            }
            let event = match (self.write)(&one) {
                Ok(written) => Event::Written(written),
                Err(failure) if failure.is_users() => Event::Failed(failure),
                Err(failure) => Event::Fatal(failure),
            };
            let _ = events.send(event);
        }
    }
}

/// Adds an image's size and values to a hash.
fn hash(hasher: &mut blake3::Hasher, image: &Image) {
    for number in [image.width(), image.height(), image.channels()] {
        hasher.update(&(number as u64).to_le_bytes());
    }
    for values in image.pixels().chunks(1 << 12) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
}

/// Bytes of the images that are on their way.
#[derive(Default)]
struct Room {
    held: Mutex<u64>,
    freed: Condvar,
}

impl Room {
    /// Waits until few enough are.
    fn wait(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.freed.wait_while(held, |held| *held > BYTES_AHEAD));
    }

    fn hold(&self, bytes: u64) -> Held<'_> {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        Held { room: self, bytes }
    }
}

/// Given back where an image is written, or fails.
struct Held<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.room.held.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.room.freed.notify_all();
    }
}
