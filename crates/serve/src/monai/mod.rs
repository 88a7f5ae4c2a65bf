//! MONAI Label's routes, as far as its plugin for 3D Slicer needs them to segment: information, sessions, inference,
//! and a login whose password is the server's token.
//!
//! | file | what it is for |
//! |---|---|
//! | here | routes, and what is told of the models |
//! | `sessions` | images that clients leave here |
//! | `multipart` | forms with files, both ways |
//! | `answer` | predictions as one file |
//!
//! Of what a client states as the image's name nothing is read: images come with a request or lie in a session.

mod answer;
mod multipart;
pub mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use multivalued_data::dataset::Slices;
use multivalued_data::fingerprint::Warnings;
use multivalued_data::import;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use crate::Shared;
use crate::answering::{blocking, holding, json_answer};
use crate::body;
use crate::model::Model;
use crate::queue::{Said, Source};
use crate::refusal::Refusal;
use answer::{Form, Spoken};
use sessions::Stored;

/// Hypotheses that the list of models has as models of their own, since the plugin (0.8.5) sends no `config`.
const LISTED: usize = 3;
/// What stands between a model's name and the number of a hypothesis.
const OF_HYPOTHESIS: &str = "-hypothesis-";

/// The routes.
pub fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/info/", get(info))
        .route("/info", get(info))
        .route("/session/", put(create_session))
        .route("/session", put(create_session))
        .route("/session/{id}", get(show_session).delete(end_session))
        .route("/infer/{model}", post(infer))
        .route("/auth/", get(auth))
        .route("/auth/token", post(login))
        .route("/auth/token/valid", get(|| async { "{}" }))
}

async fn info(State(shared): State<Arc<Shared>>) -> Response {
    let mut models = Map::new();
    for model in &shared.models {
        let classes = model.classes();
        models
            .insert(model.name.clone(), described(answer::band_names(classes), "where the hypotheses agree"));
        for rank in 1..=LISTED {
            let name = format!("{}{OF_HYPOTHESIS}{rank}", model.name);
            let what = format!("the hypothesis that is number {rank} by probability");
            models.entry(name).or_insert(described(answer::hypothesis_names(rank, classes), &what));
        }
    }
    let mut labels: Vec<&str> = Vec::new();
    for label in models.values().flat_map(|model| model["labels"].as_object()).flat_map(Map::keys) {
        if !labels.contains(&label.as_str()) {
            labels.push(label);
        }
    }
    json_answer(&json!({
        "name": "multivalued",
        "description": "Several plausible masks of an image, each with a probability",
        "version": env!("CARGO_PKG_VERSION"),
        "labels": labels,
        "models": models,
        "trainers": {},
        "strategies": {},
        "scoring": {},
        "train_stats": {},
        "datastore": {},
    }))
}

/// What is told of a model. The first entry of each list in `config` is what is answered unless another is asked for.
fn described(labels: Vec<String>, what: &str) -> Value {
    let labels: Map<String, Value> = labels.into_iter().zip((1..).map(|label: u32| json!(label))).collect();
    let ranks = (1..=LISTED).map(|rank| format!("hypothesis {rank}"));
    let forms: Vec<String> =
        ["probability bands".to_owned()].into_iter().chain(ranks).chain(["segments".to_owned()]).collect();
    json!({
        "type": "segmentation",
        "dimension": 3,
        "description": what,
        "labels": labels,
        "config": { "answer": forms, "result_extension": ENDINGS },
    })
}

/// What answers may be written as.
const ENDINGS: [&str; 4] = [".nrrd", ".nii.gz", ".nii", ".seg.nrrd"];

/// A query's value.
fn query(request: &Request, key: &str) -> Option<String> {
    let query = request.uri().query().unwrap_or("").as_bytes();
    form_urlencoded::parse(query).find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
}

fn boundary_of(headers: &HeaderMap) -> Result<String, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    multipart::boundary(kind).map(str::to_owned)
}

async fn create_session(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let expiry = query(&request, "expiry").and_then(|text| text.parse().ok()).filter(|&seconds| seconds > 0);
    let boundary = boundary_of(request.headers())?;
    let (parts, body) = request.into_parts();
    let content = body::read(&shared, &parts.headers, body).await?;
    let id = {
        let shared = shared.clone();
        blocking(move || {
            let parts = multipart::parts(&content.bytes, &boundary)?;
            let mut files = parts.iter().filter_map(|part| Some((part.file.as_ref()?, part.bytes)));
            let (Some((name, bytes)), None) = (files.next(), files.next()) else {
                return Err(Refusal::bad(
                    "a session has one file: one image, or a volume in one file; send that",
                ));
            };
            shared.sessions.keep(shared.sessions.store(name, bytes)?, expiry.map(Duration::from_secs))
        })
        .await??
    };
    Ok(json_answer(&json!({ "session_id": id, "session_info": {} })))
}

async fn show_session(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    shared.sessions.file(&id)?;
    // Something that counts as true in the client.
    Ok(json_answer(&json!({ "session_id": id })))
}

async fn end_session(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Result<Response, Refusal> {
    shared.sessions.remove(&id)?;
    Ok(json_answer(&json!({ "session_id": id })))
}

async fn auth(State(shared): State<Arc<Shared>>) -> Response {
    json_answer(&json!({ "enabled": shared.access.has_token() }))
}

/// The user's name may be any; the password is the server's token.
async fn login(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let content = body::read(&shared, &parts.headers, body).await?;
    let given = form_urlencoded::parse(&content.bytes).find(|(name, _)| name == "password");
    let (_, given) = given.unwrap_or_default();
    match shared.access.knows(given.as_bytes()) {
        true => Ok(json_answer(&json!({ "access_token": given, "token_type": "Bearer" }))),
        false => Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "the password is the server's token; ask whoever runs it for the token",
        )),
    }
}

/// The model of a name, and the hypothesis that the name may ask for.
fn found(shared: &Shared, name: &str) -> Result<(usize, Arc<Model>, Option<Form>), Refusal> {
    if let Some((at, model)) = shared.model(name) {
        return Ok((at, model.clone(), None));
    }
    let of_hypothesis = name.rsplit_once(OF_HYPOTHESIS).and_then(|(model, rank)| {
        let rank = rank.parse().ok().filter(|&rank| rank > 0)?;
        shared.model(model).map(|(at, model)| (at, model.clone(), Some(Form::Hypothesis(rank))))
    });
    of_hypothesis.ok_or_else(|| {
        let names: Vec<&str> = shared.models.iter().map(|model| model.name.as_str()).collect();
        Refusal::missing(format!("there is no such model; there are: {}", names.join(", ")))
    })
}

/// What a request for an inference asks for.
struct Asked {
    file: Arc<Stored>,
    form: Form,
    ending: &'static str,
}

async fn infer(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let limits = &shared.options.limits;
    let deadline = Instant::now() + limits.request;
    let (at, model, form) = found(&shared, &name)?;
    let session = query(&request, "session_id").filter(|id| !id.is_empty());
    let output = query(&request, "output");
    let boundary = boundary_of(request.headers()).ok();
    let (parts, body) = request.into_parts();
    let content = body::read(&shared, &parts.headers, body).await?;
    let late = || Refusal::late(limits.request.as_secs());
    let _turn = timeout_at(deadline, shared.volumes.acquire()).await.map_err(|_| late())?;
    let (asked, slices, warnings, mut held) = {
        let (shared, model) = (shared.clone(), model.clone());
        blocking(move || {
            let asked = Asked::read(&shared, form, session.as_deref(), boundary.as_deref(), &content.bytes)?;
            drop(content);
            let limits =
                import::Limits { bytes: shared.options.limits.memory / 2, ..import::Limits::default() };
            let slices =
                Slices::open_for(std::slice::from_ref(&asked.file.path), model.image_channels(), &limits)?;
            let held = shared.budget.take(slices.bytes())?;
            if slices.channels() != model.image_channels() {
                let (has, takes) = (slices.channels(), model.image_channels());
                return Err(Refusal::bad(format!(
                    "the image has {has} channels, the model takes {takes}; convert it"
                )));
            }
            let mut warnings = Warnings::default();
            for z in 0..slices.len() {
                warnings.add(model.fingerprint.as_ref(), &slices.image(z)?);
            }
            Ok((asked, Arc::new(slices), warnings.sentences(), held))
        })
        .await??
    };
    let receiver = shared.queue.ask(at, Source::Slices(slices.clone()))?;
    let said = match timeout_at(deadline, receiver).await {
        Ok(Ok(said)) => said?,
        Ok(Err(_)) => return Err(Refusal::busy("the server is ending; ask again when it is back")),
        Err(_) => return Err(late()),
    };
    let Said::Slices(said) = said else { unreachable!("slices were asked for") };
    let shared = shared.clone();
    blocking(move || {
        let spoken = Spoken { slices: &slices, said: &said, file: &asked.file };
        let mut answered = spoken.answer(asked.form, asked.ending)?;
        answered.params["warnings"] = json!(warnings);
        if output.as_deref() == Some("json") {
            return Ok(json_answer(&answered.params));
        }
        held.join(shared.budget.take(2 * answered.bytes.len() as u64)?);
        let file = format!("{}{}", sessions::name(), answered.ending);
        if output.as_deref() == Some("image") {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")),
            ];
            return Ok(holding((headers, answered.bytes).into_response(), held));
        }
        let boundary = sessions::name();
        let body = multipart::answer(&answered.params.to_string(), &file, &answered.bytes, &boundary);
        let kind = format!("multipart/form-data; boundary={boundary}");
        Ok(holding(([(header::CONTENT_TYPE, kind)], body).into_response(), held))
    })
    .await?
}

impl Asked {
    fn read(
        shared: &Shared,
        form: Option<Form>,
        session: Option<&str>,
        boundary: Option<&str>,
        body: &[u8],
    ) -> Result<Self, Refusal> {
        let parts = match boundary {
            Some(boundary) => multipart::parts(body, boundary)?,
            None => Vec::new(),
        };
        let params = parts.iter().find(|part| part.name == "params").map_or(&b"{}"[..], |part| part.bytes);
        let params: Params = serde_json::from_slice(params)
            .map_err(|error| Refusal::bad(format!("'params' is not as wanted: {error}; correct it")))?;
        let file = match session {
            Some(id) => shared.sessions.file(id)?,
            None => {
                let file = parts.iter().find(|part| part.name == "file");
                let file = file.ok_or_else(|| {
                    Refusal::missing(
                        "the server keeps no images of its own: upload one as a session, or send it as 'file'",
                    )
                })?;
                Arc::new(shared.sessions.store(file.file.as_deref().unwrap_or(""), file.bytes)?)
            }
        };
        let ending = match params.result_extension.as_deref() {
            None => ".nrrd",
            Some(wanted) => ENDINGS.into_iter().find(|ending| *ending == wanted).ok_or_else(|| {
                Refusal::bad(format!(
                    "the parameter 'result_extension' is one of {}; correct it",
                    ENDINGS.join(", ")
                ))
            })?,
        };
        // Slicer's plugin always asks for .nrrd, and says by the upload's name that it takes segments.
        let wants_segments = ending == ".seg.nrrd" || file.wants_segments;
        let form = match (params.answer.as_deref(), form) {
            (_, Some(form)) => form,
            (Some(text), None) => Form::named(text)?,
            (None, None) if wants_segments => Form::Segments,
            (None, None) => Form::Bands,
        };
        let ending = match (form, ending) {
            (Form::Segments, _) => ".seg.nrrd",
            (_, ".seg.nrrd") => ".nrrd",
            (_, ending) => ending,
        };
        Ok(Self { file, form, ending })
    }
}

/// Of what a client states beside the image, what means something here.
#[derive(serde::Deserialize)]
struct Params {
    answer: Option<String>,
    result_extension: Option<String>,
}
