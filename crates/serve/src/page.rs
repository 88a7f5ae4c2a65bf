//! The page at `/`: the viewer's files where the program has them, else the models and routes as plain HTML.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};

use crate::Shared;
use crate::refusal::Refusal;

/// The page's routes: whatever no protocol has.
pub fn routes() -> Router<Arc<Shared>> {
    Router::new().fallback(show)
}

async fn show(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path();
    let path = path.strip_prefix('/').unwrap_or(path);
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Refusal::missing("there is no such route; docs/serve.md has a list").into_response();
    }
    let mut response = match (shared.options.files, path) {
        (Some(files), path) => match files(path) {
            Some(file) => {
                ([(header::CONTENT_TYPE, file.content_type)], file.bytes.into_owned()).into_response()
            }
            None => {
                return Refusal::missing("there is no such file or route; docs/serve.md has a list")
                    .into_response();
            }
        },
        (None, "") => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], plain(&shared)).into_response(),
        _ => return Refusal::missing("there is no such route; docs/serve.md has a list").into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Models and routes.
fn plain(shared: &Shared) -> String {
    let mut out = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>multivalued serve</title>\
         <style>body{font:16px sans-serif;max-width:46em;margin:3em auto;padding:0 1em}code{background:#eee}</style>\
         <h1>multivalued serve</h1><p>One image in, several plausible masks with probabilities out.</p><h2>Models</h2><ul>",
    );
    for model in &shared.models {
        let name = model.name.replace('&', "&amp;").replace('<', "&lt;");
        let (channels, classes) = (model.channels(), model.classes());
        let _ = write!(out, "<li><b>{name}</b>: {channels} channel(s) in, {classes} class(es) out");
    }
    out.push_str("</ul><h2>Routes</h2><ul>");
    for (routes, what) in [
        (
            "GET /v2, /v2/health/live, /v2/health/ready, /v2/models/NAME; POST /v2/models/NAME/infer",
            "Open Inference Protocol (tritonclient)",
        ),
        ("GET /info/; PUT /session/; POST /infer/NAME", "MONAI Label (3D Slicer)"),
        ("GET /healthz, /metrics", "health, Prometheus"),
    ] {
        let _ = write!(out, "<li><code>{routes}</code>: {what}");
    }
    out + "</ul></html>\n"
}
