//! The page at `/`: the viewer's files, the served models among them.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};

use crate::Shared;
use crate::refusal::Refusal;

const OWN_PAGES: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

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
    let file = shared.options.files.as_ref().and_then(|files| files.find(path));
    let Some(file) = file else {
        return Refusal::missing("there is no such file or route; docs/serve.md has a list").into_response();
    };
    let mut response = ([(header::CONTENT_TYPE, file.content_type)], file.bytes.into_owned()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // No page from elsewhere may load these as its own scripts: they bring models.
    headers.insert(OWN_PAGES, HeaderValue::from_static("same-origin"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
