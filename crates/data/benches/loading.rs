//! Loading the LIDC training set (9,282 slices, 46,410 files) from its cache: finding the files, holding
//! them against the cache, reading and unpacking it must take less than 2 s on two cores.
//!
//! `cargo bench -p multivalued-data --bench loading`

use criterion::{Criterion, criterion_group, criterion_main};
use multivalued_data::dataset::{Cache, Holding, Listener, Loaded, Options};

#[path = "../tests/files/archive.rs"]
mod archive;

fn second_load(criterion: &mut Criterion) {
    let Some(folder) = archive::unpacked(&["lidc-train-a", "lidc-train-b"]) else { return };
    let caches = tempfile::tempdir().unwrap();
    let listener = Listener::new(|_| {});
    let holding = Holding::Within(0, Cache { folder: caches.path().to_owned(), listener });
    let load = || {
        let loaded = Loaded::read(folder.path(), &Options::default(), false, &holding).unwrap();
        loaded.cases.to_vec().unwrap()
    };
    assert_eq!(load().len(), 9_282);
    let mut group = criterion.benchmark_group("loading");
    group.sample_size(10);
    group.bench_function("LIDC training set, second load", |bencher| bencher.iter(load));
    group.finish();
}

criterion_group!(loading, second_load);
criterion_main!(loading);
