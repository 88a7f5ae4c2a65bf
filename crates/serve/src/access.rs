//! Who may ask: whoever knows the token, and no page that a browser got from elsewhere.
//!
//! A page of any site can make the user's browser send requests to `localhost`. It cannot read the answers unless its
//! own name is made to point here (DNS rebinding); then `Host` has that name. So without a token `Host` must be an
//! address, `localhost` or a name that was allowed. `Origin` names the page that asks: only those of this server, and
//! those that were allowed, are answered.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Shared;
use crate::options::Options;
use crate::refusal::Refusal;

/// Routes that tell nothing but whether the server runs, and whether it wants a token.
const OPEN: [&str; 5] = ["/healthz", "/v2/health/live", "/v2/health/ready", "/auth/", "/auth/token"];

/// Who may ask.
pub struct Access {
    /// BLAKE3 of the token, whose comparison takes as long whatever is compared.
    token: Option<blake3::Hash>,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Whether the page's own files are open: but for those that are given, they hold nothing of the served models.
    has_page: bool,
}

impl Access {
    pub fn new(options: &Options) -> Self {
        Self {
            token: options.token.as_ref().map(|token| blake3::hash(token.as_bytes())),
            hosts: options.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: options.origins.clone(),
            has_page: options.files.is_some(),
        }
    }

    /// Whether a token is wanted.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether this is the token.
    pub fn knows(&self, token: &[u8]) -> bool {
        self.token.is_some_and(|wanted| wanted == blake3::hash(token))
    }

    fn is_own_host(&self, host: &str) -> bool {
        let name = name_of(host).to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        is_address || name == "localhost" || self.hosts.iter().any(|host| host == name)
    }

    /// The origin of the page that asks, where it is another one that was allowed.
    fn origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
        let text = origin.to_str().unwrap_or("null");
        if self.origins.iter().any(|allowed| allowed == text) {
            return Ok(Some(origin.clone()));
        }
        let own = text.split_once("://").is_some_and(|(_, place)| {
            headers
                .get(header::HOST)
                .is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(place.as_bytes()))
        });
        match own {
            true => Ok(None),
            false => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "pages of other origins may not use this server; start it with --allow-origin if this one shall",
            )),
        }
    }

    fn check(&self, request: &Request) -> Result<Option<HeaderValue>, Refusal> {
        let headers = request.headers();
        if !self.has_token() {
            // HTTP/1.0 has no Host; browsers always send it.
            let host = headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
            let host = host.or(request.uri().host());
            if host.is_some_and(|host| !self.is_own_host(host)) {
                return Err(Refusal::new(
                    StatusCode::FORBIDDEN,
                    "the server is not known by the name in Host; call it by its address, or start it with --host NAME",
                ));
            }
        }
        let origin = self.origin(headers)?;
        let path = request.uri().path();
        let is_preflight = origin.is_some() && request.method() == Method::OPTIONS;
        let is_given = is_given(path);
        let is_file = self.has_page && request.method() == Method::GET && !has_prefix(path) && !is_given;
        if self.has_token() && !OPEN.contains(&path) && !is_preflight && !is_file {
            let given = headers.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
            let (scheme, token) = given.split_at(given.len().min(7));
            let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ") && self.knows(token);
            // A browser asks its user for a password, and gives that.
            let is_password = is_given && password(given).is_some_and(|token| self.knows(&token));
            if !is_bearer && !is_password {
                return Err(Refusal::new(
                    StatusCode::UNAUTHORIZED,
                    "this server wants its token as 'Authorization: Bearer TOKEN'; ask whoever runs it for the token",
                ));
            }
        }
        Ok(origin)
    }
}

/// Whether a path belongs to a protocol and not to the page.
fn has_prefix(path: &str) -> bool {
    let protocols = ["/v2", "/info", "/session", "/infer", "/auth", "/metrics", "/healthz"];
    protocols
        .iter()
        .any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Whether a file of the page tells of the served models. A page's scripts cannot carry `Authorization: Bearer`; so the
/// browser is made to ask for the token as a password, whatever the user's name.
fn is_given(path: &str) -> bool {
    path == "/given.js" || path.starts_with("/given/")
}

/// The password of `Basic`, RFC 7617.
fn password(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = authorization.split_at_checked(6)?;
    let mut said = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for &sign in rest.trim_ascii().iter().filter(|sign| **sign != b'=') {
        let value = match sign {
            b'A'..=b'Z' => sign - b'A',
            b'a'..=b'z' => sign - b'a' + 26,
            b'0'..=b'9' => sign - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            said.push((bits >> count & 255) as u8);
        }
    }
    let colon = said.iter().position(|&sign| sign == b':')?;
    scheme.eq_ignore_ascii_case(b"basic ").then(|| said.split_off(colon + 1))
}

/// The name of `name:port` or `[address]:port`.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (name.ends_with(']') || !name.contains(':')) =>
        {
            name
        }
        _ => host,
    }
}

/// Lets a request pass, or answers it.
pub async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let is_preflight = request.method() == Method::OPTIONS;
    let is_given = is_given(request.uri().path());
    match shared.access.check(&request) {
        Err(refusal) => {
            let mut response = refusal.into_response();
            if is_given && response.status() == StatusCode::UNAUTHORIZED {
                let wanted =
                    HeaderValue::from_static("Basic realm=\"the token of multivalued serve, as password\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, wanted);
            }
            response
        }
        Ok(None) => next.run(request).await,
        Ok(Some(origin)) => {
            let mut response = match is_preflight {
                true => StatusCode::NO_CONTENT.into_response(),
                false => next.run(request).await,
            };
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::VARY, HeaderValue::from_static("Origin"));
            let fixed = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
                (
                    header::ACCESS_CONTROL_ALLOW_HEADERS,
                    "Authorization, Content-Type, Content-Encoding, Inference-Header-Content-Length",
                ),
                (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Inference-Header-Content-Length, Retry-After"),
            ];
            fixed
                .into_iter()
                .for_each(|(name, value)| _ = headers.insert(name, HeaderValue::from_static(value)));
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_localhost_or_names_that_were_allowed() {
        let options = Options { hosts: vec!["Scanner.example".into()], ..Options::default() };
        let access = Access::new(&options);
        for host in [
            "localhost",
            "LOCALHOST:8000",
            "localhost.:80",
            "127.0.0.1:8000",
            "[::1]:8000",
            "::1",
            "10.0.0.7",
            "scanner.example:1",
        ] {
            assert!(access.is_own_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "x@localhost:y",
        ] {
            assert!(!access.is_own_host(host), "{host}");
        }
    }

    #[test]
    fn the_token_alone_is_the_token() {
        let access = Access::new(&Options { token: Some("secret".into()), ..Options::default() });
        assert!(access.knows(b"secret"));
        assert!(!access.knows(b"secre") && !access.knows(b"") && !access.knows(b"secret "));
        assert!(!Access::new(&Options::default()).knows(b""));
    }

    #[test]
    fn passwords_are_read_as_browsers_send_them() {
        assert_eq!(password(b"Basic YTpzZWNyZXQ=").unwrap(), b"secret");
        assert_eq!(
            password(b"basic OnNlOmNyZXQ=").unwrap(),
            b"se:cret",
            "the name has no colon, the password may"
        );
        for wrong in ["", "Basic", "Basic c2VjcmV0", "Bearer YTpzZWNyZXQ=", "Basic YTpz*", "Basic \u{e4}"] {
            assert!(password(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(is_given("/given.js") && is_given("/given/model-1.js") && !is_given("/viewer.js"));
    }

    #[test]
    fn protocols_are_told_apart_from_files_of_the_page() {
        for path in ["/v2", "/v2/models/a", "/info/", "/metrics"] {
            assert!(has_prefix(path), "{path}");
        }
        for path in ["/", "/viewer.js", "/v2x", "/information"] {
            assert!(!has_prefix(path), "{path}");
        }
    }
}
