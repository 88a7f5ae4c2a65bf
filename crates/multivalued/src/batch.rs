//! The crossing from cases to tensors: which cases a step takes, which of their annotations, and how
//! they lie in memory.

use crate::recipe::Recipe;
use crate::{Error, Result};
use multivalued_data::draw::Draw;
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Case, Image, Mask};
use multivalued_engine::{Device, Pick, ResidentImages, Tensor};
use rayon::prelude::*;

/// A case as training sees it: the image's channels interleaved, equal annotations gathered.
struct Prepared {
    width: usize,
    height: usize,
    image: Vec<f32>,
    /// Distinct annotations with their weights, which sum to one.
    annotations: Vec<(Mask, f32)>,
}

/// Training cases, ready to be put into batches.
pub(crate) struct TrainingSet {
    count: usize,
    /// What augmentation starts from; empty without.
    cases: Vec<Case>,
    /// Without augmentation cases are prepared once.
    prepared: Option<Vec<Prepared>>,
    resident: Option<Resident>,
    recipe: Recipe,
}

/// All cases on a GPU, where batches are gathered, flipped and turned.
struct Resident {
    images: ResidentImages,
    /// The distinct annotations of all cases, one after the other.
    annotations: ResidentImages,
    /// Which of them is a case's first.
    first: Vec<usize>,
}

/// The share of a GPU's free memory that training cases may take.
const RESIDENT_SHARE: usize = 4;

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
    /// Mean annotated pixels of each image.
    pub areas: Vec<f32>,
    /// Which training cases these are.
    pub cases: Vec<usize>,
}

/// A batch in this machine's memory.
pub(crate) struct HostBatch {
    images: Vec<f32>,
    /// Values of 0 and 1.
    annotations: Vec<u8>,
    /// Height and width.
    size: [usize; 2],
    frame: Frame,
}

/// What a batch is besides its pixels.
struct Frame {
    weights: Vec<f32>,
    per_image: usize,
    areas: Vec<f32>,
    cases: Vec<usize>,
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
    /// Checks that the cases suit the recipe, and moves them to the device where that spares copies.
    pub fn new(cases: Vec<Case>, recipe: &Recipe, device: &Device) -> Result<Self> {
        let mismatch = |case: &Case, reason: String| {
            Err(Error::Data(multivalued_data::Error::mismatch(&case.id, reason)))
        };
        let Some(first) = cases.first() else {
            return Err(Error::Data(multivalued_data::Error::mismatch("training cases", "there are none")));
        };
        let size = |case: &Case| [case.image.width(), case.image.height()];
        for case in &cases {
            if case.image.channels() != recipe.model.input_channels {
                let (has, needs) = (case.image.channels(), recipe.model.input_channels);
                return mismatch(
                    case,
                    format!(
                        "the image has {has} channels, the model takes {needs}; set model.input_channels={has}"
                    ),
                );
            }
            if size(case) != size(first) && recipe.augment.crop.is_none() {
                let ([a, b], [c, d]) = (size(case), size(first));
                return mismatch(
                    case,
                    format!(
                        "{a}x{b} pixels, but {} has {c}x{d}: images of one batch have one size; set augment.crop=[width, height]",
                        first.id
                    ),
                );
            }
            if case.annotations.is_empty() || case.annotations.iter().all(|a| a.weight <= 0.0) {
                return mismatch(case, "no annotation with a positive weight to learn from".into());
            }
            if let Some(annotation) =
                case.annotations.iter().find(|a| a.mask.classes() != recipe.model.classes)
            {
                let (has, needs) = (annotation.mask.classes(), recipe.model.classes);
                return mismatch(
                    case,
                    format!("masks of {has} classes, the model has {needs}; set model.classes={has}"),
                );
            }
        }
        let mut set =
            Self { count: cases.len(), cases, prepared: None, resident: None, recipe: recipe.clone() };
        let still = recipe.augment == multivalued_data::augment::Augmentation::default();
        let moves = recipe.augment.only_turns() && matches!(device, Device::Cuda(_));
        if still || moves {
            set.prepared =
                Some(set.cases.par_iter().map(|case| set.prepare(case.clone())).collect::<Result<_>>()?);
            set.resident = set.made_resident(device);
        }
        if !still && set.resident.is_none() {
            set.prepared = None;
        }
        if set.prepared.is_some() {
            set.cases = Vec::new();
        }
        Ok(set)
    }

    /// Copies all cases to a GPU, where there is one and they fit.
    fn made_resident(&self, device: &Device) -> Option<Resident> {
        let Device::Cuda(cuda) = device else { return None };
        let prepared = self.prepared.as_ref()?;
        let (width, height) = (prepared[0].width, prepared[0].height);
        let (channels, outputs) = (self.recipe.model.input_channels, self.recipe.model.output_channels());
        let count: usize = prepared.iter().map(|case| case.annotations.len()).sum();
        let bytes = width * height * (prepared.len() * channels * 4 + count * outputs);
        if bytes > cuda.free_bytes() / RESIDENT_SHARE {
            return None;
        }
        let images: Vec<f32> = prepared.iter().flat_map(|case| case.image.iter().copied()).collect();
        let size = width * height * outputs;
        let mut annotations = vec![0u8; count * size];
        let mut first = Vec::with_capacity(prepared.len());
        let mut rows = annotations.chunks_exact_mut(size);
        let mut row = 0;
        for case in prepared {
            first.push(row);
            row += case.annotations.len();
            for ((mask, _), target) in case.annotations.iter().zip(rows.by_ref()) {
                write_targets(mask, outputs, target);
            }
        }
        let shape = |images, channels| [images, height, width, channels];
        Some(Resident {
            images: ResidentImages::of_values(cuda, shape(prepared.len(), channels), &images),
            annotations: ResidentImages::of_bytes(cuda, shape(count, outputs), &annotations),
            first,
        })
    }

    /// Whether batches take time on this machine's processor.
    pub fn is_resident(&self) -> bool {
        self.resident.is_some()
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Normalises the image and gathers annotations that are the same output.
    fn prepare(&self, mut case: Case) -> Result<Prepared> {
        self.recipe.data.normalise.apply(&mut case.image);
        let same = f64::from(self.recipe.assignment.same_iou);
        let mut annotations: Vec<(Mask, f32)> = Vec::new();
        for annotation in case.annotations.into_iter().filter(|annotation| annotation.weight > 0.0) {
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
        let (width, height) = (case.image.width(), case.image.height());
        Ok(Prepared { width, height, image: interleaved(&case.image), annotations })
    }

    /// Steps in one pass over the cases; a last, smaller batch is left out where there are others.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.count / self.recipe.train.batch).max(1) as u64
    }

    /// The cases of a step: each epoch is a new order, drawn from the seed and the epoch alone.
    fn order(&self, step: u64) -> Vec<usize> {
        let per_epoch = self.steps_per_epoch();
        let mut draw = Draw::new(self.recipe.train.seed, &["order"], step / per_epoch);
        let mut order: Vec<usize> = (0..self.count).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, draw.index(i + 1));
        }
        let first = (step % per_epoch) as usize * self.recipe.train.batch;
        order.into_iter().skip(first).take(self.recipe.train.batch).collect()
    }

    /// The batch of a step, which depends on the recipe and the step's number alone.
    pub fn batch(&self, step: u64, device: &Device) -> Result<Batch> {
        match (&self.resident, &self.prepared) {
            (Some(resident), Some(prepared)) => Ok(self.gathered(resident, prepared, step)),
            _ => Ok(self.host_batch(step)?.on(device)),
        }
    }

    /// The batch of a step, from cases that are on the GPU.
    fn gathered(&self, resident: &Resident, prepared: &[Prepared], step: u64) -> Batch {
        let order = self.order(step);
        let chosen: Vec<&Prepared> = order.iter().map(|&i| &prepared[i]).collect();
        let (frame, drawn) = self.frame(step, &chosen, order);
        let size = [chosen[0].width, chosen[0].height];
        let images: Vec<Pick> = (frame.cases.iter().enumerate())
            .map(|(place, &case)| {
                let drawn = self.recipe.augment.draw(self.recipe.train.seed, self.sample(step, place));
                let turn = drawn.turn(size).expect("cases are resident where they are only turned");
                Pick { image: Some(case), turn }
            })
            .collect();
        let annotations: Vec<Pick> = (images.iter().zip(&drawn))
            .flat_map(|(&pick, drawn)| {
                let first = resident.first[pick.image.expect("every image is there")];
                (0..frame.per_image)
                    .map(move |k| Pick { image: drawn.get(k).map(|(i, _)| first + i), ..pick })
            })
            .collect();
        let rows = annotations.len();
        let annotations = resident.annotations.gather(&annotations);
        let values = annotations.shape().volume() / rows;
        frame.with(resident.images.gather(&images), annotations.reshaped([rows, values]))
    }

    /// The number that a place in a step's batch has among all samples.
    fn sample(&self, step: u64, place: usize) -> u64 {
        step * self.recipe.train.batch as u64 + place as u64
    }

    /// The batch of a step in this machine's memory.
    pub fn host_batch(&self, step: u64) -> Result<HostBatch> {
        let order = self.order(step);
        let augmented: Vec<Prepared>;
        let chosen: Vec<&Prepared> = match &self.prepared {
            Some(prepared) => order.iter().map(|&i| &prepared[i]).collect(),
            None => {
                let seed = self.recipe.train.seed;
                augmented = order
                    .par_iter()
                    .enumerate()
                    .map(|(place, &i)| {
                        let drawn = self.recipe.augment.draw(seed, self.sample(step, place));
                        self.prepare(drawn.apply(&self.cases[i]))
                    })
                    .collect::<Result<_>>()?;
                augmented.iter().collect()
            }
        };
        let (frame, drawn) = self.frame(step, &chosen, order);
        let (width, height) = (chosen[0].width, chosen[0].height);
        let output_channels = self.recipe.model.output_channels();
        let size = width * height * output_channels;
        let mut annotations = vec![0u8; chosen.len() * frame.per_image * size];
        for (b, (case, drawn)) in chosen.iter().zip(&drawn).enumerate() {
            for (k, &(annotation, _)) in drawn.iter().enumerate() {
                let mask = &case.annotations[annotation].0;
                let row = b * frame.per_image + k;
                write_targets(mask, output_channels, &mut annotations[row * size..][..size]);
            }
        }
        let images = chosen.iter().flat_map(|case| case.image.iter().copied()).collect();
        Ok(HostBatch { images, annotations, size: [height, width], frame })
    }

    /// Which annotations a step draws of each image, and what follows for the batch.
    fn frame(&self, step: u64, chosen: &[&Prepared], cases: Vec<usize>) -> (Frame, Vec<Vec<(usize, f32)>>) {
        let mut draw = Draw::new(self.recipe.train.seed, &["annotations"], step);
        let drawn: Vec<Vec<(usize, f32)>> = chosen
            .iter()
            .map(|case| draw_annotations(case, self.recipe.train.annotations, &mut draw))
            .collect();
        let per_image = drawn.iter().map(Vec::len).max().unwrap_or(1);
        let mut weights = vec![0.0; chosen.len() * per_image];
        let mut areas = vec![0.0; chosen.len()];
        for (b, (case, drawn)) in chosen.iter().zip(&drawn).enumerate() {
            for (k, &(annotation, weight)) in drawn.iter().enumerate() {
                let mask = &case.annotations[annotation].0;
                weights[b * per_image + k] = weight;
                let area: usize = (0..mask.classes()).map(|class| mask.area(class)).sum();
                areas[b] += weight * area as f32;
            }
        }
        (Frame { weights, per_image, areas, cases }, drawn)
    }
}

impl HostBatch {
    /// The batch on a device.
    pub fn on(self, device: &Device) -> Batch {
        let Self { images, annotations, size: [height, width], frame } = self;
        let (count, rows) = (frame.cases.len(), frame.weights.len());
        let channels = images.len() / (count * height * width);
        let images = Tensor::from_slice(device, [count, height, width, channels], &images);
        let size = annotations.len() / rows;
        let annotations = match device {
            // A quarter of the bytes cross.
            Device::Cuda(cuda) => {
                let shape = [rows, height, width, size / (height * width)];
                let picks: Vec<Pick> = (0..rows).map(Pick::plain).collect();
                ResidentImages::of_bytes(cuda, shape, &annotations).gather(&picks).reshaped([rows, size])
            }
            _ => {
                let values: Vec<f32> = annotations.into_iter().map(f32::from).collect();
                Tensor::from_slice(device, [rows, size], &values)
            }
        };
        frame.with(images, annotations)
    }
}

impl Frame {
    fn with(self, images: Tensor, annotations: Tensor) -> Batch {
        let Self { weights, per_image, areas, cases } = self;
        Batch { images, annotations, weights, per_image, areas, cases }
    }
}

/// All annotations with their weights, or `count` draws by weight.
fn draw_annotations(case: &Prepared, count: usize, draw: &mut Draw) -> Vec<(usize, f32)> {
    if count == 0 {
        return case.annotations.iter().enumerate().map(|(i, (_, weight))| (i, *weight)).collect();
    }
    let mut drawn: Vec<(usize, f32)> = Vec::new();
    for _ in 0..count {
        let mut rest = draw.unit() as f32;
        let last = case.annotations.len() - 1;
        let index = case
            .annotations
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
