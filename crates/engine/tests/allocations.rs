//! After the first steps a training step allocates nothing large: tensors come from the device's pool,
//! working memory from the threads' own. A counting allocator watches.
#![allow(unsafe_code)] // A global allocator cannot be written without.

use multivalued_engine::{
    Adam, AdamOptions, Corners, Device, ParameterId, Parameters, Stepped, Tape, Tensor, Var,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size from which an allocation counts as large.
const LARGE: usize = 64 * 1024;

/// Counts large allocations, and hands everything on to the system's allocator.
struct Counting;

static LARGE_COUNT: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every request goes to `System` as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGE {
            LARGE_COUNT.fetch_add(1, Ordering::Relaxed);
            LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A U-Net with channel counts that fill no vector, one that goes Winograd's way, and every operation
/// that works on large tensors.
struct Network {
    parameters: Parameters,
    layers: Vec<(&'static str, ParameterId)>,
    image: Tensor,
    code: Tensor,
    target: Tensor,
}

const BATCH: usize = 4;
const CODES: usize = 3;
const SIZE: usize = 48;

impl Network {
    fn new(device: &Device) -> Self {
        let mut next = 1u32;
        let mut draw = |shape: &[usize], scale: f32| {
            let values: Vec<f32> = (0..shape.iter().product())
                .map(|_| {
                    next = next.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                    (next >> 8) as f32 / (1 << 23) as f32 - 1.0
                })
                .map(|value| value * scale)
                .collect();
            Tensor::from_slice(device, shape, &values)
        };
        let shapes: [(&str, &[usize]); 9] = [
            ("in", &[3, 3, 3, 20]),
            ("block", &[3, 3, 20, 20]),
            ("down", &[3, 3, 20, 32]),
            ("deep", &[3, 3, 32, 32]),
            ("up", &[3, 3, 52, 17]),
            ("narrow", &[1, 1, 17, 20]),
            ("head", &[1, 1, 20, 1]),
            ("scale", &[32]),
            ("code", &[5, 17]),
        ];
        let mut parameters = Parameters::new();
        let layers = shapes.map(|(name, shape)| (name, parameters.add(name, draw(shape, 0.1)))).into();
        let image = draw(&[BATCH, SIZE, SIZE, 3], 1.0);
        let (code, target) = (draw(&[BATCH * CODES, 5], 1.0), draw(&[BATCH, SIZE, SIZE, 1], 1.0));
        Self { parameters, layers, image, code, target }
    }

    fn step(&mut self, adam: &mut Adam) -> Stepped {
        let device = self.image.device();
        let tape = Tape::recording(&self.parameters);
        let p = |name: &str| {
            let (_, id) = self.layers.iter().find(|layer| layer.0 == name).expect("a layer of that name");
            tape.get(*id)
        };
        let constant = |tensor: &Tensor| Var::constant(tensor.clone());
        let zeros = |n: usize| Var::constant(Tensor::zeros(&device, [n]));
        let fine = constant(&self.image).conv2d_relu(&p("in"), None);
        let fine = fine.conv2d_add_relu(&p("block"), Some(&zeros(20)), &fine);
        let coarse = fine.resize_bilinear(SIZE / 2, SIZE / 2, Corners::HalfPixel);
        let coarse = coarse.conv2d(&p("down"), None).group_norm_relu(4, &p("scale"), &zeros(32), 1e-5);
        let deep =
            coarse.conv2d(&p("deep"), None).group_norm_add_relu(4, &p("scale"), &zeros(32), 1e-5, &coarse);
        let joined = Var::concat_channels(&[&deep.resize_bilinear(SIZE, SIZE, Corners::Aligned), &fine]);
        let code = constant(&self.code).linear(&p("code"), &zeros(17));
        let features = joined.conv2d(&p("up"), None).add_sample_bias_relu(&code);
        let logits = features.conv2d_relu(&p("narrow"), None).conv2d(&p("head"), None);
        let masks = logits.sigmoid().reshape([BATCH * CODES, SIZE * SIZE]);
        let targets = constant(&self.target).reshape([BATCH, SIZE * SIZE]);
        let terms = [
            logits.bce_with_logits(&self.target).mean(),
            masks.batched_inner_products(&targets, BATCH).mean(),
            masks.batched_inner_products(&masks, BATCH).mean(),
            masks.l2_normalise().squared_error(&masks).mean(),
            masks.gather_rows(&[0, 0, 5]).softmax().ln().mean(),
            masks.matmul(&masks.transpose()).mean(),
            deep.global_average_pool().batch_norm(1e-5).0.mul(&deep.global_average_pool()).mean(),
        ];
        let loss = terms.iter().skip(1).fold(terms[0].clone(), |sum, term| sum.add(&term.scale(0.01)));
        drop((fine, coarse, deep, joined, features, logits, masks));
        let gradients = tape.backward(&loss);
        adam.step(&mut self.parameters, &gradients, 1e-3)
    }
}

#[test]
fn a_training_step_after_warm_up_allocates_nothing_large() {
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        let device = Device::cpu();
        let mut network = Network::new(&device);
        let mut adam = Adam::new(&network.parameters, AdamOptions::default());
        let mut steps = |network: &mut Network, count: usize| {
            for _ in 0..count {
                let stepped = pool.install(|| {
                    let mut network = std::panic::AssertUnwindSafe(&mut *network);
                    network.step(&mut adam)
                });
                assert!(matches!(stepped, Stepped::Moved { gradient_norm } if gradient_norm > 0.0));
            }
        };
        steps(&mut network, 3);
        let tensors = device.allocations();
        LARGE_COUNT.store(0, Ordering::Relaxed);
        LARGEST.store(0, Ordering::Relaxed);
        steps(&mut network, 3);
        let (count, largest) = (LARGE_COUNT.load(Ordering::Relaxed), LARGEST.load(Ordering::Relaxed));
        assert_eq!(device.allocations(), tensors, "tensors allocated in warm steps on {threads} threads");
        // With one thread the steps repeat each other; with more, a thread may meet a task for the
        // first time and grow its working memory.
        if threads == 1 {
            assert_eq!(
                count, 0,
                "allocations over {LARGE} bytes in three warm steps, the largest of {largest}"
            );
        }
    }
}
