//! The real data, where its archives lie beside the checkout, and outputs of the kind a model would
//! give for it.

// The tests and each benchmark use their own part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use multivalued_data::draw::Draw;
use multivalued_data::{Case, Hypothesis, Mask, Prediction};

/// Each unpacked archive is tens of thousands of files, read by all cores: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Unpacked archives, removed when dropped.
pub struct Unpacked {
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Unpacked {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Unpacks archives; none, with a message, where they or the programs to unpack them are absent.
pub fn unpacked(names: &[&str]) -> Option<Unpacked> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Many small files: where there is a file system in memory, that one.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for name in names {
        let archive =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../../shared/data/{name}.tar.zst"));
        if !archive.is_file() {
            eprintln!("skipped: {} is not there", archive.display());
            return None;
        }
        let unpacking = Command::new("zstd").arg("-dc").arg(&archive).stdout(Stdio::piped()).spawn();
        let Ok(mut unpacking) = unpacking else {
            eprintln!("skipped: the zstd program is not there");
            return None;
        };
        let stream = unpacking.stdout.take().unwrap();
        let done = Command::new("tar").arg("-x").arg("-C").arg(folder.path()).stdin(stream).status().unwrap();
        assert!(done.success() && unpacking.wait().unwrap().success(), "{name} cannot be unpacked");
    }
    Some(Unpacked { folder, _turn: turn })
}

/// Sixteen outputs for a case: its readers' masks, moved by up to two pixels, some of them widened, with
/// random probabilities.
pub fn sixteen_outputs(case: &Case) -> Prediction {
    let draw = &mut Draw::new(1, &["outputs", &case.id], 0);
    let mut hypotheses: Vec<Hypothesis> = (0..16)
        .map(|code| {
            let mask = &case.annotations[draw.index(case.annotations.len())].mask;
            let [right, down] = [0, 1].map(|_| draw.index(5) as isize - 2);
            let reach = draw.index(2);
            let probability = draw.uniform(0.1, 1.0) as f32;
            Hypothesis { mask: moved(mask, right, down, reach), probability, code }
        })
        .collect();
    let sum: f32 = hypotheses.iter().map(|hypothesis| hypothesis.probability).sum();
    hypotheses.iter_mut().for_each(|hypothesis| hypothesis.probability /= sum);
    hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    Prediction::stated(hypotheses)
}

/// A mask moved, each of its pixels a square of `reach` pixels around it.
fn moved(mask: &Mask, right: isize, down: isize, reach: usize) -> Mask {
    let (width, height) = (mask.width(), mask.height());
    let mut wide = Mask::empty(width, height, 1);
    for (at, _) in mask.labels().iter().enumerate().filter(|(_, label)| **label == 1) {
        let x = (at % width).saturating_add_signed(right);
        let y = (at / width).saturating_add_signed(down);
        for row in y.saturating_sub(reach)..(y + reach + 1).min(height) {
            wide.fill_row(0, row, x.saturating_sub(reach).min(width)..(x + reach + 1).min(width));
        }
    }
    wide
}
