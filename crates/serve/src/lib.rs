//! The server: loaded models behind the Open Inference Protocol and MONAI Label's routes.
//!
//! | file | what it is for |
//! |---|---|
//! | `options` | what may be asked of the server, and how much of it |
//! | `model`, `queue` | a model with its name; images that wait for it, computed together |
//! | `inference/` | the Open Inference Protocol, version 2, as `tritonclient` speaks it |
//! | `monai/` | MONAI Label's routes, as its plugin for 3D Slicer speaks them |
//! | `page` | the page at `/`: the viewer |
//! | `access` | who may ask: token, `Host`, `Origin` |
//! | `answering` | what the protocols share |
//! | `body`, `budget` | requests' bodies, and the memory that requests hold together |
//! | `connection`, `runtime` | connections, slow ones too, the end of the server, and its threads |
//! | `metrics`, `log`, `record` | numbers for Prometheus, lines of JSON, and who writes them |
//! | `refusal` | what is answered where nothing else can be |
//!
//! A request's way: `connection`, `record`, `access`, then a route of a protocol. The route reads the body, makes images
//! of it outside of the threads that serve connections, hands them to the queue, waits, and makes an answer of what the
//! model says.

mod access;
mod answering;
mod body;
mod budget;
mod connection;
mod inference;
mod log;
mod metrics;
mod model;
mod monai;
mod options;
mod page;
mod queue;
mod record;
mod refusal;
mod runtime;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use access::Access;
use budget::Budget;
use metrics::Metrics;
pub use model::Model;
use monai::sessions::Sessions;
pub use options::{File, Files, Limits, Options};
use queue::Queue;
pub use runtime::serve;

/// Volumes that are read, or made files of, at once: each may take as much memory as a request may.
const VOLUMES_AT_ONCE: usize = 2;

/// Models that are served.
pub struct Server {
    shared: Arc<Shared>,
}

/// What all requests see.
struct Shared {
    models: Vec<Arc<Model>>,
    options: Options,
    access: Access,
    budget: Budget,
    queue: Queue,
    sessions: Sessions,
    volumes: Semaphore,
    metrics: Arc<Metrics>,
    /// Whether the server takes no further connections.
    ending: AtomicBool,
}

impl Server {
    /// A server of these models, whose names differ. An error where the folder of sessions cannot be made.
    pub fn new(models: Vec<Model>, options: Options) -> std::io::Result<Self> {
        let models: Vec<Arc<Model>> = models.into_iter().map(Arc::new).collect();
        let metrics = Arc::new(Metrics::new(&models));
        let shared = Shared {
            access: Access::new(&options),
            budget: Budget::new(options.limits.memory),
            queue: Queue::start(models.clone(), options.limits.queue, options.batch, metrics.clone()),
            sessions: Sessions::new(&options.limits)?,
            volumes: Semaphore::new(VOLUMES_AT_ONCE),
            metrics,
            ending: AtomicBool::new(false),
            models,
            options,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// All routes, to be called without a connection.
    pub fn router(&self) -> Router {
        let shared = self.shared.clone();
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/metrics", get(metrics::show))
            .merge(inference::routes())
            .merge(monai::routes())
            .merge(page::routes())
            .method_not_allowed_fallback(|| async {
                let message = "this route takes other methods; docs/serve.md has a list";
                refusal::Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message)
            })
            .layer(from_fn_with_state(shared.clone(), access::check))
            .layer(from_fn_with_state(shared.clone(), record::record))
            .with_state(shared)
    }

    /// Answers whoever connects until `stop` is over. What was asked before is then answered, for as long as
    /// [`Limits::grace`] says; whether all of it was.
    pub async fn run(&self, listener: TcpListener, stop: impl Future<Output = ()>) -> bool {
        let complete = connection::serve(listener, self.router(), &self.shared, stop).await;
        self.shared.queue.stop();
        self.shared.sessions.clear();
        complete
    }
}

impl Shared {
    /// The model of a name.
    fn model(&self, name: &str) -> Option<(usize, &Arc<Model>)> {
        self.models.iter().enumerate().find(|(_, model)| model.name == name)
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}
