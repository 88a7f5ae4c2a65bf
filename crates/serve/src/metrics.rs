//! Numbers of the server in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::Shared;
use crate::model::Model;

/// Upper ends of the ranges of seconds that requests are counted in.
const SECONDS: [f64; 10] = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
/// The same of images that were computed together.
const IMAGES: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// What is counted.
pub struct Metrics {
    /// By route and status.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    seconds: Histogram<10>,
    batches: Histogram<6>,
    computing_microseconds: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    pub connections: AtomicU64,
    /// By model.
    images: Vec<(String, AtomicU64)>,
}

/// How often a number fell into each range.
struct Histogram<const RANGES: usize> {
    ends: [f64; RANGES],
    counts: [AtomicU64; RANGES],
    all: AtomicU64,
    /// In millionths.
    sum: AtomicU64,
}

impl<const RANGES: usize> Histogram<RANGES> {
    fn new(ends: [f64; RANGES]) -> Self {
        Self { ends, counts: ends.map(|_| AtomicU64::new(0)), all: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    fn add(&self, value: f64) {
        if let Some(at) = self.ends.iter().position(|&end| value <= end) {
            self.counts[at].fetch_add(1, Ordering::Relaxed);
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, help: &str) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut below = 0;
        for (end, count) in self.ends.iter().zip(&self.counts) {
            below += count.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{end}\"}} {below}");
        }
        let all = self.all.load(Ordering::Relaxed);
        let sum = self.sum.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum {sum}\n{name}_count {all}");
    }
}

impl Metrics {
    pub fn new(models: &[Arc<Model>]) -> Self {
        Self {
            requests: Mutex::default(),
            seconds: Histogram::new(SECONDS),
            batches: Histogram::new(IMAGES),
            computing_microseconds: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            images: models.iter().map(|model| (model.name.clone(), AtomicU64::new(0))).collect(),
        }
    }

    /// Counts a request that was answered. Routes are those of the program, never what a client wrote.
    pub fn answered(&self, route: &str, status: u16, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.to_owned(), status)).or_default() += 1;
        drop(requests);
        self.seconds.add(took.as_secs_f64());
    }

    /// Counts images that were computed together.
    pub fn computed(&self, model: &Model, count: usize, took: Duration) {
        self.batches.add(count as f64);
        self.computing_microseconds.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        if let Some((_, images)) = self.images.iter().find(|(name, _)| *name == model.name) {
            images.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    fn text(&self, shared: &Shared) -> String {
        let mut out = String::new();
        let name = "multivalued_requests_total";
        let _ = writeln!(out, "# HELP {name} Requests that were answered.\n# TYPE {name} counter");
        for ((route, status), count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(out, "{name}{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        let name = "multivalued_images_total";
        let _ = writeln!(out, "# HELP {name} Images that a model computed.\n# TYPE {name} counter");
        for (model, count) in &self.images {
            let model = model.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(out, "{name}{{model=\"{model}\"}} {}", count.load(Ordering::Relaxed));
        }
        self.seconds.write(
            &mut out,
            "multivalued_request_seconds",
            "From a request's headers to its answer.",
        );
        self.batches.write(&mut out, "multivalued_batch_images", "Images that were computed together.");
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed) as f64;
        let (resident, processor) = process();
        let numbers = [
            (
                "multivalued_computing_seconds_total",
                "counter",
                "Time in which a model computed.",
                load(&self.computing_microseconds) / 1e6,
            ),
            (
                "multivalued_received_bytes_total",
                "counter",
                "Bytes of bodies that were stated.",
                load(&self.bytes_in),
            ),
            ("multivalued_sent_bytes_total", "counter", "Bytes of answers.", load(&self.bytes_out)),
            ("multivalued_connections", "gauge", "Open connections.", load(&self.connections)),
            (
                "multivalued_queue_requests",
                "gauge",
                "Requests that wait for a model.",
                shared.queue.len() as f64,
            ),
            (
                "multivalued_held_bytes",
                "gauge",
                "Memory that requests hold, of --memory.",
                shared.budget.held() as f64,
            ),
            ("multivalued_sessions", "gauge", "Images that clients left here.", shared.sessions.len() as f64),
            ("process_resident_memory_bytes", "gauge", "Memory of the process.", resident),
            ("process_cpu_seconds_total", "counter", "Processor time of the process.", processor),
        ];
        for (name, kind, help, value) in numbers {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        out
    }
}

/// `GET /metrics`.
pub async fn show(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, shared.metrics.text(&shared))
}

/// Resident bytes and processor seconds of this process; zeros where the system does not say.
fn process() -> (f64, f64) {
    // Linux counts pages of 4 KiB and ticks of 10 ms here on all machines that this program is built for.
    let (page, tick) = (4096.0, 100.0);
    let number =
        |text: &str, at: usize| text.split_whitespace().nth(at).and_then(|word| word.parse::<f64>().ok());
    let memory = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let times = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the program's name, which may hold anything.
    let times = times.rsplit(')').next().unwrap_or_default();
    let processor = number(times, 11).unwrap_or(0.0) + number(times, 12).unwrap_or(0.0);
    (number(&memory, 1).unwrap_or(0.0) * page, processor / tick)
}
