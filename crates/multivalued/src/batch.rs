//! The crossing from cases to tensors: which cases a step takes, which of their annotations, and how
//! they lie in memory.

#[cfg(test)]
mod cuda;
mod host;
mod order;
mod resident;

pub(crate) use host::{HostBatch, Sent};

use crate::collective::Ranks;
use crate::recipe::Recipe;
use crate::{Error, Result};
use host::Frame;
use multivalued_data::augment::{Augmentation, Drawn};
use multivalued_data::draw::Draw;
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Annotation, Case, CaseList, Image, Mask};
use multivalued_engine::{Device, Tensor};
use order::Order;
use rayon::prelude::*;
use resident::Resident;
use std::ops::Range;
use std::sync::Arc;

/// A case as training sees it: the image's channels interleaved, equal annotations gathered.
struct Prepared {
    width: usize,
    height: usize,
    image: Vec<f32>,
    annotations: Annotations,
}

/// Distinct annotations with their weights, which sum to one.
type Annotations = Vec<(Mask, f32)>;

/// Training cases, ready to be put into batches.
pub(crate) struct TrainingSet {
    count: usize,
    held: Held,
    order: Order,
    recipe: Recipe,
    /// Who share the batches.
    ranks: Ranks,
}

/// Where a training set's cases are.
enum Held {
    /// In this machine's memory, to be augmented anew for every batch; or on its disk, to be read for it.
    Cases(CaseList),
    /// In this machine's memory, prepared once since nothing is augmented.
    Prepared(Vec<Prepared>),
    /// On a GPU, which makes batches of them.
    Resident(Box<Resident>),
}

/// What one step takes.
pub(crate) struct Batch {
    /// [images, height, width, channels]
    pub images: Tensor,
    /// [images·per_image, height·width·output channels], rows of zeros where an image has fewer.
    pub annotations: Tensor,
    /// The annotations' weights; each image's sum to one.
    pub weights: Vec<f32>,
    /// Annotations per image, padding included.
    pub per_image: usize,
    /// [images]: the annotated pixels of each, averaged over its annotations. A tensor, since they are known
    /// only there where a GPU augments.
    pub areas: Tensor,
    /// Which training cases the step takes, those of other ranks included.
    pub cases: Vec<usize>,
    /// Which of them this batch has: all, or a rank's part.
    pub own: Range<usize>,
}

/// Pixels with channels interleaved, as the engine wants them.
pub(crate) fn interleaved(image: &Image) -> Vec<f32> {
    let (pixels, channels) = (image.width() * image.height(), image.channels());
    (0..pixels * channels).map(|i| image.plane(i % channels)[i / channels]).collect()
}

/// Writes a mask as the network's targets: one value per pixel, or one per class with the background
/// first.
fn write_targets(mask: &Mask, output_channels: usize, out: &mut [u8]) {
    let pixels = mask.width() * mask.height();
    for class in 0..mask.classes() {
        for (i, &word) in mask.plane(class).iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                let pixel = i * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if pixel < pixels {
                    let channel = if output_channels == 1 { 0 } else { class + 1 };
                    out[pixel * output_channels + channel] = 1;
                }
            }
        }
    }
    if output_channels > 1 {
        for pixel in out.chunks_exact_mut(output_channels) {
            if pixel[1..].iter().all(|&value| value == 0) {
                pixel[0] = 1;
            }
        }
    }
}

impl TrainingSet {
    /// Checks that the cases suit the recipe, and moves them to the device where that spares copies. Cases on disk
    /// stay there.
    pub fn new(cases: impl Into<CaseList>, recipe: &Recipe, device: &Device) -> Result<Self> {
        let cases = cases.into();
        let cases = match recipe.data.grid() {
            Some(grid) => cases.resampled(grid)?,
            None => cases,
        };
        if cases.is_empty() {
            return Err(Error::Data(multivalued_data::Error::mismatch("training cases", "there are none")));
        }
        let size = |at: usize| [cases.size(at)[0], cases.size(at)[1]];
        let first = (cases.id(0), size(0));
        cases.map(|_, case| {
            let fault = unsuitable(&case, first, recipe);
            fault.map_or(Ok(()), |fault| Err(Error::Data(multivalued_data::Error::mismatch(&case.id, fault))))
        })?;
        let mut set = Self {
            count: cases.len(),
            held: Held::Cases(CaseList::default()),
            order: Order::new(cases.len(), recipe.train.batch, recipe.train.seed),
            recipe: recipe.clone(),
            ranks: Ranks::alone(),
        };
        let alike = (0..cases.len()).all(|at| size(at) == size(0));
        let resident = match device.free_bytes() {
            Some(free) if alike && !cases.is_on_disk() => Resident::new(&set, &all(&cases)?, device, free)?,
            _ => None,
        };
        set.held = match resident {
            Some(resident) => Held::Resident(Box::new(resident)),
            None if recipe.augment == Augmentation::default() && !cases.is_on_disk() => {
                Held::Prepared(cases.map(|_, case| set.prepare(Arc::unwrap_or_clone(case)))?)
            }
            None => Held::Cases(cases),
        };
        Ok(set)
    }

    /// From now on a batch is this rank's part of it.
    pub fn share_among(&mut self, ranks: &Ranks) -> Result<()> {
        let images = self.recipe.train.batch.min(self.count);
        if ranks.size() > images {
            let reason = format!(
                "a batch of {images} images is too small for {} ranks, each of which takes a part of it; use fewer \
                 ranks or a larger batch",
                ranks.size()
            );
            return Err(Error::recipe("train.batch", reason));
        }
        self.ranks = ranks.clone();
        Ok(())
    }

    /// The cases of a step, and which of them are this rank's.
    fn of_step(&self, step: u64) -> (Vec<usize>, Range<usize>) {
        let cases = self.order.of_step(step);
        let own = self.ranks.own_part(cases.len());
        (cases, own)
    }

    /// Whether each batch is read from disk.
    pub fn is_on_disk(&self) -> bool {
        matches!(&self.held, Held::Cases(cases) if cases.is_on_disk())
    }

    /// Reads the cases of a step, one after the other; none where they need no reading.
    pub fn read(&self, step: u64) -> Result<Vec<Arc<Case>>> {
        match &self.held {
            Held::Cases(cases) => {
                let (order, own) = self.of_step(step);
                Ok(cases.get_all(order[own].iter().copied())?)
            }
            Held::Prepared(_) | Held::Resident(_) => Ok(Vec::new()),
        }
    }

    /// Whether the cases are on a GPU, so that batches take no time on this machine's processor.
    pub fn is_resident(&self) -> bool {
        matches!(self.held, Held::Resident(_))
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Makes cases such that no loss of theirs is finite.
    #[cfg(test)]
    pub fn poison(&mut self, cases: &[usize]) {
        let Held::Prepared(prepared) = &mut self.held else { panic!("cases that are not augmented") };
        cases.iter().for_each(|&case| prepared[case].image.fill(f32::NAN));
    }

    /// Normalises the image and gathers annotations that are the same output.
    fn prepare(&self, mut case: Case) -> Result<Prepared> {
        self.recipe.data.normalise.apply(&mut case.image);
        let (width, height) = (case.image.width(), case.image.height());
        let annotations = self.distinct(case.annotations)?;
        Ok(Prepared { width, height, image: interleaved(&case.image), annotations })
    }

    /// Gathers annotations that are the same output.
    fn distinct(&self, all: Vec<Annotation>) -> Result<Annotations> {
        let same = f64::from(self.recipe.assignment.same_iou);
        let mut annotations = Annotations::new();
        for annotation in all.into_iter().filter(|annotation| annotation.weight > 0.0) {
            let mut place = None;
            for (i, (mask, _)) in annotations.iter().enumerate() {
                if iou(mask, &annotation.mask)? >= same {
                    place = Some(i);
                    break;
                }
            }
            match place {
                Some(i) => annotations[i].1 += annotation.weight,
                None => annotations.push((annotation.mask, annotation.weight)),
            }
        }
        let total: f32 = annotations.iter().map(|(_, weight)| weight).sum();
        annotations.iter_mut().for_each(|(_, weight)| *weight /= total);
        Ok(annotations)
    }

    /// Steps in one pass over the cases; a last, smaller batch is left out where there are others.
    pub fn steps_per_epoch(&self) -> u64 {
        self.order.steps_per_epoch()
    }

    /// The batch of a step, which depends on the recipe and the step's number alone.
    pub fn batch(&self, step: u64, device: &Device) -> Result<Batch> {
        match &self.held {
            Held::Resident(resident) => Ok(resident.batch(self, step)),
            _ => Ok(self.host_batch(step)?.on(device)),
        }
    }

    /// How the image at a place of a step's batch is changed.
    fn drawn(&self, step: u64, place: usize) -> Drawn {
        let sample = step * self.recipe.train.batch as u64 + place as u64;
        self.recipe.augment.draw(self.recipe.train.seed, sample)
    }

    /// The batch of a step in this machine's memory. Panics where the cases are on a GPU.
    pub fn host_batch(&self, step: u64) -> Result<HostBatch> {
        let Held::Cases(cases) = &self.held else { return self.host_batch_of(step, &[]) };
        let (order, own) = self.of_step(step);
        let read = order[own].par_iter().map(|&at| cases.get(at)).collect::<Vec<_>>();
        self.host_batch_of(step, &read.into_iter().collect::<std::result::Result<Vec<_>, _>>()?)
    }

    /// The same of cases that were [read](Self::read) before.
    pub fn host_batch_of(&self, step: u64, cases: &[Arc<Case>]) -> Result<HostBatch> {
        let (order, own) = self.of_step(step);
        let augmented: Vec<Prepared>;
        let chosen: Vec<&Prepared> = match &self.held {
            Held::Prepared(prepared) => order[own.clone()].iter().map(|&i| &prepared[i]).collect(),
            Held::Cases(_) => {
                augmented = cases
                    .par_iter()
                    .enumerate()
                    .map(|(place, case)| self.prepare(self.drawn(step, own.start + place).apply(case)))
                    .collect::<Result<_>>()?;
                augmented.iter().collect()
            }
            Held::Resident(_) => panic!("cases on a GPU are put into batches there"),
        };
        let annotations: Vec<&Annotations> = chosen.iter().map(|case| &case.annotations).collect();
        let (frame, drawn) = self.frame(step, &annotations, order, own);
        let (width, height) = (chosen[0].width, chosen[0].height);
        let output_channels = self.recipe.model.output_channels();
        let size = width * height * output_channels;
        let mut annotations = vec![0u8; chosen.len() * frame.per_image * size];
        let mut areas = vec![0.0; chosen.len()];
        for (b, (case, drawn)) in chosen.iter().zip(&drawn).enumerate() {
            for (k, &(annotation, weight)) in drawn.iter().enumerate() {
                let mask = &case.annotations[annotation].0;
                let row = b * frame.per_image + k;
                write_targets(mask, output_channels, &mut annotations[row * size..][..size]);
                let area: usize = (0..mask.classes()).map(|class| mask.area(class)).sum();
                areas[b] += weight * area as f32;
            }
        }
        let images = chosen.iter().flat_map(|case| case.image.iter().copied()).collect();
        Ok(HostBatch { images, annotations, size: [height, width], areas, frame })
    }

    /// Which annotations a step draws of each image, and what follows for the batch.
    fn frame(
        &self,
        step: u64,
        chosen: &[&Annotations],
        cases: Vec<usize>,
        own: Range<usize>,
    ) -> (Frame, Vec<Vec<(usize, f32)>>) {
        let mut draw = Draw::new(self.recipe.train.seed, &["annotations"], step);
        // What was drawn for the images of earlier ranks.
        (0..own.start * self.recipe.train.annotations).for_each(|_| _ = draw.unit());
        let drawn: Vec<Vec<(usize, f32)>> = chosen
            .iter()
            .map(|all| draw_annotations(all, self.recipe.train.annotations, &mut draw))
            .collect();
        let per_image = drawn.iter().map(Vec::len).max().unwrap_or(1);
        let mut weights = vec![0.0; chosen.len() * per_image];
        for (b, drawn) in drawn.iter().enumerate() {
            for (k, &(_, weight)) in drawn.iter().enumerate() {
                weights[b * per_image + k] = weight;
            }
        }
        (Frame { weights, per_image, cases, own }, drawn)
    }
}

fn all(cases: &CaseList) -> Result<Vec<Arc<Case>>> {
    Ok(cases.iter().collect::<std::result::Result<_, _>>()?)
}

/// Why a recipe cannot learn from a case; `first` is the id and size of the first one.
fn unsuitable(case: &Case, first: (&str, [usize; 2]), recipe: &Recipe) -> Option<String> {
    let (has, needs) = (case.image.channels(), recipe.model.input_channels);
    if has != needs {
        return Some(format!(
            "the image has {has} channels, the model takes {needs}; set model.input_channels={has}"
        ));
    }
    if let Some(fault) = case.image.fault() {
        return Some(fault);
    }
    let ([width, height], (id, size)) = ([case.image.width(), case.image.height()], first);
    if [width, height] != size && recipe.augment.crop.is_none() {
        return Some(format!(
            "{width}x{height} pixels, but {id} has {}x{}: images of one batch have one size; set data.resize=[width, height] or augment.crop=[width, height]",
            size[0], size[1]
        ));
    }
    if case.annotations.iter().all(|a| a.weight <= 0.0) {
        return Some("no annotation with a positive weight to learn from".into());
    }
    let needs = recipe.model.classes;
    let has = case.annotations.iter().map(|a| a.mask.classes()).find(|&classes| classes != needs)?;
    Some(format!("masks of {has} classes, the model has {needs}; set model.classes={has}"))
}

/// All annotations with their weights, or `count` draws by weight.
fn draw_annotations(all: &Annotations, count: usize, draw: &mut Draw) -> Vec<(usize, f32)> {
    if count == 0 {
        return all.iter().enumerate().map(|(i, (_, weight))| (i, *weight)).collect();
    }
    let mut drawn: Vec<(usize, f32)> = Vec::new();
    for _ in 0..count {
        let mut rest = draw.unit() as f32;
        let last = all.len() - 1;
        let index = all
            .iter()
            .position(|(_, weight)| {
                rest -= weight;
                rest < 0.0
            })
            .unwrap_or(last);
        match drawn.iter_mut().find(|(other, _)| *other == index) {
            Some((_, weight)) => *weight += 1.0 / count as f32,
            None => drawn.push((index, 1.0 / count as f32)),
        }
    }
    drawn
}
