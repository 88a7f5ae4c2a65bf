//! Bodies of requests: read within limits of size, time and memory, and unpacked.

use std::io::Read;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::Shared;
use crate::budget::{Budget, Held};
use crate::refusal::Refusal;

/// Of a body that is too large so much more is taken, and thrown away, so that a client that sends first and listens
/// afterwards hears why.
const THROWN_AWAY: u64 = 1 << 30;
/// For so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Memory is taken in such steps where a body does not say how long it is.
const STEP: u64 = 1 << 20;

/// A body, and the memory it takes.
#[derive(Debug)]
pub struct Content {
    pub bytes: Bytes,
    pub held: Held,
}

/// Reads a body.
pub async fn read(shared: &Shared, headers: &HeaderMap, mut body: Body) -> Result<Content, Refusal> {
    let limits = &shared.options.limits;
    let stated =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|length| length > limits.body) {
        throw_away(&mut body).await;
        return Err(too_large(limits.body));
    }
    let deadline = Instant::now() + limits.request;
    let mut held = match shared.budget.take(stated.unwrap_or(STEP)) {
        Ok(held) => held,
        Err(refusal) => {
            throw_away(&mut body).await;
            return Err(refusal);
        }
    };
    let mut room = stated.unwrap_or(STEP);
    let mut bytes = Vec::new();
    loop {
        let frame = timeout(limits.silence, body.frame());
        let frame = match timeout_at(deadline, frame).await {
            Ok(Ok(Some(Ok(frame)))) => frame,
            Ok(Ok(None)) => break,
            Ok(Ok(Some(Err(_)))) => return Err(Refusal::bad("the body broke off; send it again")),
            _ => {
                let seconds = limits.silence.as_secs();
                return Err(Refusal::new(
                    axum::http::StatusCode::REQUEST_TIMEOUT,
                    format!(
                        "the body came too slowly: nothing for {seconds} s, or not all in time; send it again"
                    ),
                ));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() as u64 + data.len() as u64;
        if length > limits.body {
            drop(bytes);
            throw_away(&mut body).await;
            return Err(too_large(limits.body));
        }
        while length > room {
            held.join(shared.budget.take(STEP)?);
            room += STEP;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Content { bytes: bytes.into(), held })
}

fn too_large(most: u64) -> Refusal {
    Refusal::too_large(format!(
        "the body is larger than {most} bytes; send fewer or smaller images, or raise the server's --body"
    ))
}

async fn throw_away(body: &mut Body) {
    let mut taken = 0;
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            taken += frame.data_ref().map_or(0, Bytes::len) as u64;
            if taken > THROWN_AWAY {
                break;
            }
        }
    };
    let _ = timeout(PATIENCE, all).await;
}

/// Unpacks a body as its `Content-Encoding` says.
pub fn unpacked(
    content: Content,
    encoding: Option<&str>,
    most: u64,
    budget: &Budget,
) -> Result<Content, Refusal> {
    let packed = content.bytes.clone();
    let reader: Box<dyn Read + '_> = match encoding.map(str::trim) {
        None | Some("" | "identity") => return Ok(content),
        Some("gzip") => Box::new(MultiGzDecoder::new(&packed[..])),
        Some("deflate") => Box::new(ZlibDecoder::new(&packed[..])),
        Some(_) => {
            return Err(Refusal::new(
                axum::http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body has an unknown Content-Encoding; send it plain, or as gzip or deflate",
            ));
        }
    };
    let mut reader = reader.take(most + 1);
    let (mut bytes, mut held, mut step) = (Vec::new(), content.held, vec![0; 1 << 16]);
    let mut room = packed.len() as u64;
    loop {
        let count = match reader.read(&mut step) {
            Ok(0) => break,
            Ok(count) => count,
            Err(_) => return Err(Refusal::bad("the body cannot be unpacked; send it again, or plain")),
        };
        bytes.extend_from_slice(&step[..count]);
        if bytes.len() as u64 > most {
            return Err(too_large(most));
        }
        while bytes.len() as u64 > room {
            held.join(budget.take(STEP)?);
            room += STEP;
        }
    }
    Ok(Content { bytes: bytes.into(), held })
}
