//! What is answered where nothing else can be: a status, the reason and the remedy.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// After how many seconds a client may ask again.
const RETRY_AFTER: &str = "1";

/// Why a request is not answered.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub status: StatusCode,
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// 400: the request is at fault.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404: there is no such thing.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 413: more than the server takes.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// 503: not now.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// 500: the server is at fault.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The time of a request is over.
    pub fn late(seconds: u64) -> Self {
        let message =
            format!("no answer within {seconds} s; ask for less at once, or raise the server's --timeout");
        Self::new(StatusCode::GATEWAY_TIMEOUT, message)
    }
}

/// Without the places of files, which are the server's own.
impl From<multivalued_data::Error> for Refusal {
    fn from(error: multivalued_data::Error) -> Self {
        use multivalued_data::Error;
        match error {
            Error::File { reason, .. } | Error::Dataset { reason, .. } => {
                Self::bad(format!("the image {reason}"))
            }
            Error::Memory { .. } => Self::busy(
                "the server has too little memory for this image now; ask again later, or send a smaller one",
            ),
            Error::Io { source, .. } => {
                Self::failed(format!("the server cannot read or write: {source}; tell whoever runs it"))
            }
            Error::Mismatch { what, reason } => Self::bad(format!("{what}: {reason}")),
            _ => Self::failed("the server failed; tell whoever runs it"),
        }
    }
}

impl From<multivalued::Error> for Refusal {
    fn from(error: multivalued::Error) -> Self {
        match error {
            multivalued::Error::Data(error) => error.into(),
            error @ multivalued::Error::NotFinite { .. } => Self::bad(error.to_string()),
            error @ multivalued::Error::Device(_) => Self::failed(error.to_string()),
            _ => Self::failed("the model failed; tell whoever runs the server"),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        // One name for the Open Inference Protocol, one for MONAI Label.
        let body = json!({ "error": self.message, "detail": self.message });
        let json = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, json, body.to_string()).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
