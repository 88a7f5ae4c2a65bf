//! How fast tasks are generated, truth and oracle included: 2,000 `shapes` cases at 160x160 must take
//! less than 2 s on two cores.

use criterion::{Criterion, criterion_group, criterion_main};
use multivalued_data::synthetic::{Task, TaskName, oracle_ged};
use rayon::prelude::*;
use std::hint::black_box;

fn generation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generate");
    group.sample_size(10);
    for (name, count) in [
        (TaskName::Shapes, 2000),
        (TaskName::ShapesVarying, 2000),
        (TaskName::LungOpacity, 100),
        (TaskName::Raters, 100),
    ] {
        let size = name.usual_size();
        let task = Task::new(name, size, 1).expect("a valid size");
        group.bench_function(format!("{count} {name} at {size}x{size}"), |bencher| {
            bencher.iter(|| {
                let cases = task.generate("train", count);
                let floors: Vec<_> = cases.par_iter().map(oracle_ged).collect();
                black_box((cases, floors))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, generation);
criterion_main!(benches);
