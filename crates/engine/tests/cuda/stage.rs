//! Copies beside the computing: values arrive as they were sent, whatever is queued around them.

use super::gpu;
use multivalued_engine::{Device, Precision, Stage, Tensor, Var};

/// Values that belong to a round.
fn sent(round: usize, count: usize) -> (Vec<f32>, Vec<u8>) {
    let values = (0..count).map(|i| (i * 31 + round * 977) as f32 * 0.25).collect();
    let bytes = (0..count / 3 + 1).map(|i| (i * 7 + round * 13) as u8).collect();
    (values, bytes)
}

#[test]
fn alternating_copies_of_any_size_arrive_intact() {
    let cpu = Device::cpu();
    for device in [Some(&cpu), gpu(Precision::F32)].into_iter().flatten() {
        alternating_copies(device);
    }
}

fn alternating_copies(device: &Device) {
    let sizes = [1, 1000, 17, 300_001, 64, 1_000_000, 5, 999_999];
    let mut free = Some(Stage::new(device));
    let mut ahead: Option<(Stage, usize)> = None;
    let mut checked = 0;
    for round in 0..=64 {
        // As a trainer does it: a thread sends the next round's values while this round's are used.
        let mut stage = free.take().unwrap_or_else(|| Stage::new(device));
        let count = sizes[round % sizes.len()];
        let job = std::thread::spawn(move || {
            let (mut values, mut bytes) = sent(round, count);
            stage.send(&values, &bytes);
            // They may be written over at once.
            values.fill(-1.0);
            bytes.fill(255);
            (stage, round)
        });
        if let Some((stage, round)) = ahead.take() {
            let (expected, expected_bytes) = sent(round, sizes[round % sizes.len()]);
            let values = stage.values([expected.len()]);
            let bytes = stage.bytes([expected_bytes.len()]);
            free = Some(stage);
            // Work that keeps the queue full, in buffers that came from the same pool.
            let mut busy = Var::constant(Tensor::full(device, [expected.len()], round as f32));
            for _ in 0..20 {
                busy = busy.add_scalar(1.0);
            }
            let sum = busy.add(&Var::constant(values.clone())).tensor().to_vec();
            assert_eq!(values.to_vec(), expected, "round {round}");
            let bytes_expected: Vec<f32> = expected_bytes.iter().map(|&byte| f32::from(byte)).collect();
            assert_eq!(bytes.to_vec(), bytes_expected, "round {round}");
            let by_hand: Vec<f32> = expected.iter().map(|value| round as f32 + 20.0 + value).collect();
            assert_eq!(sum, by_hand, "round {round}");
            checked += 1;
        }
        ahead = Some(job.join().unwrap());
    }
    assert_eq!(checked, 64);
}

#[test]
fn what_was_sent_must_fill_the_shape() {
    let Some(device) = gpu(Precision::F32) else { return };
    let mut stage = Stage::new(device);
    stage.send(&[1.0, 2.0], &[3]);
    let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stage.values([3])));
    assert!(wrong.is_err(), "two values for three");
    assert_eq!((stage.values([2, 1]).to_vec(), stage.bytes([1]).to_vec()), (vec![1.0, 2.0], vec![3.0]));
}
