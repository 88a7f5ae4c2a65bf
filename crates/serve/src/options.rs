//! What may be asked of the server, and how much of it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a server is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What requests must carry as `Authorization: Bearer …`; none for no such demand.
    pub token: Option<String>,
    /// Names, beside `localhost` and addresses, by which browsers may call the server.
    pub hosts: Vec<String>,
    /// Origins of other pages that may use the server from a browser.
    pub origins: Vec<String>,
    /// Images of one size that are computed together.
    pub batch: usize,
    /// Whether each request is logged to standard error.
    pub log: bool,
    /// The files of the page at `/`; none for no page.
    pub files: Option<Files>,
    /// How much is taken.
    pub limits: Limits,
}

/// Gives the file of a path, such as `index.html`; the path `""` is the page itself. What tells of the served models is
/// `given.js` and the files of `given/`, which need the token where there is one.
#[derive(Clone)]
pub struct Files(Arc<Find>);

type Find = dyn Fn(&str) -> Option<File> + Send + Sync;

impl Files {
    /// Files that this finds.
    pub fn new(find: impl Fn(&str) -> Option<File> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// The file of a path.
    pub fn find(&self, path: &str) -> Option<File> {
        (self.0)(path)
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Files")
    }
}

/// A file of the page.
#[derive(Debug, Clone)]
pub struct File {
    /// Its type, such as `text/html; charset=utf-8`.
    pub content_type: &'static str,
    /// What it holds.
    pub bytes: Cow<'static, [u8]>,
}

/// How much a server takes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one request's body, as sent and once unpacked.
    pub body: u64,
    /// Bytes that all requests may hold together: bodies, images, answers.
    pub memory: u64,
    /// Requests that wait for a model.
    pub queue: usize,
    /// Connections at once.
    pub connections: usize,
    /// From the first byte of a body to the answer.
    pub request: Duration,
    /// How long a sender may say nothing in the middle of a request, and a reader take nothing of an answer.
    pub silence: Duration,
    /// How long an open connection may be without a request.
    pub idle: Duration,
    /// How long requests are answered after the server was asked to stop.
    pub grace: Duration,
    /// Images that clients may leave here to ask for them again.
    pub sessions: usize,
    /// Bytes of all of them.
    pub session_bytes: u64,
    /// How long one that is not asked for stays.
    pub session_age: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            batch: 16,
            log: false,
            files: None,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 256 << 20,
            memory: 1 << 30,
            queue: 64,
            connections: 256,
            request: Duration::from_secs(120),
            silence: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            sessions: 32,
            session_bytes: 4 << 30,
            session_age: Duration::from_secs(3600),
        }
    }
}
