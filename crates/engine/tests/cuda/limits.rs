//! Every way that kernels cut channels and images into tiles, with the shared memory of the GPU at hand and with less.

use crate::cases::{self, Sizes};
use crate::{PRECISIONS, Worst, check, check_on, found, judge, sizes};
use multivalued_engine::Device;

/// Channels that fill the tiles of kernels in every way, and images that are cut into every kind of tile.
fn channel_sizes() -> Vec<Sizes> {
    let channels = [
        (8, 24),
        (16, 16),
        (32, 32),
        (96, 32),
        (32, 96),
        (64, 64),
        (64, 192),
        (128, 64),
        (136, 128),
        (256, 40),
    ];
    let images = [(20, 20), (16, 24), (33, 41), (10, 10), (45, 3)];
    let pairs = channels.iter().zip(images.iter().cycle()).enumerate();
    pairs
        .map(|(i, (&(channels, other_channels), &(height, width)))| Sizes {
            batch: 1 + i % 3,
            height,
            width,
            channels,
            other_channels,
            repeats: 1,
            seed: 50 + i as u64,
        })
        .collect()
}

#[test]
fn convolutions_of_many_channels_are_those_of_the_cpu() {
    for precision in PRECISIONS {
        let mut worst = Worst::new();
        for sizes in channel_sizes() {
            cases::convolutions(sizes).iter().for_each(|call| check(call, sizes.seed, precision, &mut worst));
        }
        judge(precision, &worst);
    }
}

#[test]
fn every_kernel_works_with_the_shared_memory_of_other_gpus() {
    // Compute capability 8.6, 8.9 and 12.0; and 8.0.
    for kib in [99, 163] {
        for precision in PRECISIONS {
            let Some(device) = found(Device::cuda_limited(0, precision, kib << 10)) else { return };
            let mut worst = Worst::new();
            for sizes in [channel_sizes(), sizes(8)].concat() {
                for family in [cases::convolutions, cases::images, cases::matrices, cases::values] {
                    let calls = family(sizes);
                    calls.iter().for_each(|call| check_on(&device, call, sizes.seed, precision, &mut worst));
                }
            }
            judge(precision, &worst);
        }
    }
}
