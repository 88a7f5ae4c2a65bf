//! The Open Inference Protocol, version 2, over REST, with Triton's binary tensors: health, metadata, inference.
//!
//! | file | what it is for |
//! |---|---|
//! | here | routes and metadata |
//! | `request` | a request's JSON, without room for more than a request may hold |
//! | `tensor` | the input tensor as images |
//! | `answer` | predictions as output tensors |

mod answer;
mod request;
mod tensor;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::Shared;
use crate::answering::{blocking, holding, json_answer};
use crate::body::{self, Content};
use crate::budget::Held;
use crate::model::Model;
use crate::queue::{Said, Source};
use crate::refusal::Refusal;
use answer::Wanted;

/// The only version of a model: its folder is fixed when the server starts.
const VERSION: &str = "1";

/// Where a request says how many of its bytes are JSON.
const HEADER_LENGTH: &str = "inference-header-content-length";

/// The protocol's routes.
pub fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v2", get(server))
        .route("/v2/", get(server))
        .route("/v2/health/live", get(|| async { StatusCode::OK }))
        .route("/v2/health/ready", get(ready))
        .route("/v2/repository/index", post(index))
        .route("/v2/models/{model}", get(model))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/infer", post(infer))
        .route("/v2/models/{model}/versions/{version}", get(model))
        .route("/v2/models/{model}/versions/{version}/ready", get(model_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer))
}

async fn server() -> Response {
    json_answer(&json!({
        "name": "multivalued",
        "version": env!("CARGO_PKG_VERSION"),
        "extensions": ["binary_tensor_data"],
    }))
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match shared.is_ending() {
        true => Refusal::busy("the server is ending; ask again when it is back").into_response(),
        false => StatusCode::OK.into_response(),
    }
}

async fn index(State(shared): State<Arc<Shared>>) -> Response {
    let row = |model: &Arc<Model>| json!({ "name": model.name, "version": VERSION, "state": "READY", "reason": "" });
    json_answer(&shared.models.iter().map(row).collect())
}

/// A model of a path, which may name its version.
fn found(shared: &Shared, path: &[(String, String)]) -> Result<(usize, Arc<Model>), Refusal> {
    let part = |key: &str| path.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    if part("version").is_some_and(|version| version != VERSION) {
        return Err(Refusal::missing(format!(
            "the models have version {VERSION} alone; ask for that, or for none"
        )));
    }
    let (at, model) = part("model").and_then(|name| shared.model(name)).ok_or_else(|| {
        let names: Vec<&str> = shared.models.iter().map(|model| model.name.as_str()).collect();
        Refusal::missing(format!("there is no such model; there are: {}", names.join(", ")))
    })?;
    Ok((at, model.clone()))
}

type Parts = Path<Vec<(String, String)>>;

async fn model(State(shared): State<Arc<Shared>>, Path(path): Parts) -> Result<Response, Refusal> {
    let (_, model) = found(&shared, &path)?;
    let (channels, classes) = (model.channels(), model.classes());
    let tensor = |name: &str, datatype: &str, shape: Value| json!({ "name": name, "datatype": datatype, "shape": shape });
    let outputs: Vec<Value> = answer::OUTPUTS
        .iter()
        .map(|output| tensor(output.name(), output.datatype(), output.shape(classes)))
        .collect();
    Ok(json_answer(&json!({
        "name": model.name,
        "versions": [VERSION],
        "platform": "multivalued",
        "inputs": [tensor("image", "FP32", json!([-1, -1, -1, channels]))],
        "outputs": outputs,
    })))
}

async fn model_ready(State(shared): State<Arc<Shared>>, Path(path): Parts) -> Result<Response, Refusal> {
    found(&shared, &path)?;
    Ok(ready(State(shared)).await)
}

async fn infer(
    State(shared): State<Arc<Shared>>,
    Path(path): Parts,
    request: Request,
) -> Result<Response, Refusal> {
    let limits = &shared.options.limits;
    let deadline = Instant::now() + limits.request;
    let (at, model) = found(&shared, &path)?;
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let content = body::read(&shared, &headers, body).await?;
    let packing = answer::Packing::of(&headers);
    let asked = {
        let (shared, model) = (shared.clone(), model.clone());
        blocking(move || Asked::read(&shared, &model, &headers, content)).await??
    };
    let Asked { images, wanted, warnings, mut held } = asked;
    let size = [images[0].width(), images[0].height()];
    let receiver = shared.queue.ask(at, Source::Images(images))?;
    let said = match timeout_at(deadline, receiver).await {
        Ok(Ok(said)) => said?,
        Ok(Err(_)) => return Err(Refusal::busy("the server is ending; ask again when it is back")),
        Err(_) => return Err(Refusal::late(limits.request.as_secs())),
    };
    let Said::Images(said) = said else { unreachable!("images were asked for") };
    blocking(move || {
        let said = wanted.kept(said)?;
        held.join(shared.budget.take(wanted.bytes(&said, size))?);
        Ok(holding(wanted.answer(&model.name, VERSION, &said, &warnings, packing)?, held))
    })
    .await?
}

/// What a request asks for.
struct Asked {
    images: Vec<multivalued_data::Image>,
    wanted: Wanted,
    warnings: Vec<String>,
    held: Held,
}

impl Asked {
    fn read(shared: &Shared, model: &Model, headers: &HeaderMap, content: Content) -> Result<Self, Refusal> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let encoding = text(header::CONTENT_ENCODING.as_str());
        let content = body::unpacked(content, encoding, shared.options.limits.body, &shared.budget)?;
        let length = match text(HEADER_LENGTH) {
            None => content.bytes.len(),
            Some(length) => {
                let length = length.parse().ok().filter(|&length| length <= content.bytes.len());
                length.ok_or_else(|| {
                    Refusal::bad(format!("{HEADER_LENGTH} is no number of bytes within the body; correct it"))
                })?
            }
        };
        let (json, binary) = content.bytes.split_at(length);
        let request = request::Request::read(json)?;
        let mut held = content.held;
        let wanted = Wanted::of(&request)?;
        let images = tensor::images(request, binary, model.channels(), |bytes| {
            held.join(shared.budget.take(bytes)?);
            Ok(())
        })?;
        model.mixture.check(&images.iter().collect::<Vec<_>>())?;
        let warnings = model.warnings(images.iter());
        Ok(Self { images, wanted, warnings, held })
    }
}
