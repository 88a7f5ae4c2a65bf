//! Counts and logs every request.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use crate::{Shared, log};

/// Notes a request and its answer. One whose sender has gone is not answered, and noted as such.
pub async fn record(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let method = match request.method().as_str() {
        known @ ("GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS") => known.to_owned(),
        _ => "other".to_owned(),
    };
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    let mut noted = Noted { shared, route, method, length, began: Instant::now(), answer: None };
    let response = next.run(request).await;
    let sent = response.body().size_hint().exact().unwrap_or(0);
    noted.answer = Some((response.status().as_u16(), sent));
    response
}

/// A request that is noted when it is over, however it ends.
struct Noted {
    shared: Arc<Shared>,
    route: String,
    method: String,
    length: u64,
    began: Instant,
    answer: Option<(u16, u64)>,
}

/// What is counted as the status of a request whose sender has gone.
const GONE: u16 = 499;

impl Drop for Noted {
    fn drop(&mut self) {
        let (took, metrics) = (self.began.elapsed(), &self.shared.metrics);
        let (status, sent) = self.answer.unwrap_or((GONE, 0));
        metrics.answered(&self.route, status, took);
        metrics.bytes_in.fetch_add(self.length, Ordering::Relaxed);
        metrics.bytes_out.fetch_add(sent, Ordering::Relaxed);
        if self.shared.options.log {
            let milliseconds = (took.as_secs_f64() * 1e6).round() / 1e3;
            log::write(
                "request",
                json!({
                    "method": self.method,
                    "route": self.route,
                    "status": status,
                    "ms": milliseconds,
                    "received": self.length,
                    "sent": sent,
                }),
            );
        }
    }
}
