//! The server's routes, called without a connection. Real clients, connections and load: `scripts/test-serve`.

#[path = "../../../data/tests/damage/mod.rs"]
mod damage;

mod access;
mod damaged;
mod protocols;
mod together;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use multivalued::{Network, Predictor, Recipe};
use multivalued_engine::Device;
use multivalued_serve::{Limits, Model, Options, Server};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower_service::Service;

/// A server of an untrained model, which says something else of every image.
struct Place {
    runtime: Runtime,
    server: Server,
}

/// What was answered.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    bytes: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }
}

fn predictor() -> Predictor {
    let mut recipe = Recipe::open("shapes-tiny").unwrap();
    // All codes' outputs, so that lists are long, and of different lengths.
    recipe.set("predict.min_probability=0.05").unwrap();
    recipe.set("predict.merge_iou=1").unwrap();
    Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe)
}

impl Place {
    fn new(options: Options) -> Self {
        let model = Model { name: "shapes".into(), mixture: predictor().into(), fingerprint: None };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        Self { runtime, server: Server::new(vec![model], options).unwrap() }
    }

    /// With limits that small requests reach.
    fn small() -> Self {
        let limits = Limits { body: 1 << 20, memory: 64 << 20, sessions: 8, ..Limits::default() };
        Self::new(Options { limits, ..Options::default() })
    }

    fn router(&self) -> Router {
        self.server.router()
    }

    fn ask(&self, request: Request<Body>) -> Answer {
        self.runtime.block_on(ask(self.router(), request))
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).body(Body::empty()).unwrap())
    }

    fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.ask(Request::post(path).body(body.into()).unwrap())
    }
}

async fn ask(mut router: Router, request: Request<Body>) -> Answer {
    let response = router.call(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Answer { status: parts.status, headers: parts.headers, bytes: body.collect().await.unwrap().to_bytes() }
}

/// An inference in JSON.
fn inference(shape: &[usize], values: &[f32]) -> String {
    let input = serde_json::json!({ "name": "image", "shape": shape, "datatype": "FP32", "data": values });
    serde_json::json!({ "inputs": [input] }).to_string()
}

const INFER: &str = "/v2/models/shapes/infer";
