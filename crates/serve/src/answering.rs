//! What the protocols share.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::refusal::Refusal;

/// Does some work outside of the threads that serve connections.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    spawn_blocking(work).await.map_err(|_| Refusal::failed("the server failed; tell whoever runs it"))
}

/// JSON as an answer.
pub fn json_answer(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}
