//! `serve`: models behind HTTP, for programs that speak the Open Inference Protocol or MONAI Label.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use multivalued::Limit;
use multivalued::predict::views_per_batch;
use multivalued_data::files;
use multivalued_data::memory::available;
use multivalued_serve::{Files, Limits, Model, Options, Server};
use multivalued_web::viewer::{self, Given};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::options::bytes;
use super::view::given::Bundle;
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::run::RunFolder;
use crate::run::likeness;
use crate::run::model::{RunModel, usual_memory};
use crate::terminal::{complain, say};

/// Where the token may stand instead of on the command line, which others on the machine can read.
const TOKEN_VARIABLE: &str = "MULTIVALUED_TOKEN";
/// No token is longer.
const MOST_TOKEN_BYTES: u64 = 1 << 12;

/// Serve models over HTTP: Open Inference Protocol (tritonclient), MONAI Label (3D Slicer), and a page at /
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued serve models/lidc\n  multivalued serve models/lidc nodules=runs/mine --port 9000\n  \
multivalued serve models/lidc --address 0.0.0.0 --token-file token.txt\n\nSIGTERM and Ctrl-C answer what was asked \
and end the server; a second one ends it at once. docs/serve.md has the tensors, limits and metrics, docs/slicer.md \
the settings of 3D Slicer."
)]
pub struct Serve {
    /// Runs' folders, or models'; NAME=FOLDER gives another name than the folder's own
    #[arg(required = true, num_args = 1.., value_name = "MODEL")]
    models: Vec<String>,
    /// The address to listen on; other machines reach the server by one of this machine's own, or 0.0.0.0 for all
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// The port to listen on; 0 for any that is free
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// What clients must send as 'Authorization: Bearer TOKEN' [default: the variable MULTIVALUED_TOKEN, else nothing]
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with the token, which others cannot read as they can read a command line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A name by which browsers may call the server, beside localhost and addresses; may be given several times
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Another page, such as https://viewer.example, that may use the server from a browser; may be given several times
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// The largest request
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = bytes)]
    body: u64,
    /// Memory for requests and computing, half for each [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
    /// Requests that may wait for a model; others are told to come back (503)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    queue: u32,
    /// Connections at once; others wait
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Seconds from a request to its answer, at most
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: u32,
    /// Seconds that a client may send or take nothing in the middle of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    silence: u32,
    /// Seconds in which requests are still answered when the server is asked to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=3600))]
    grace: u32,
    /// Images that clients of MONAI Label may leave here
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,
    /// Disk space for them, in the folder of temporary files
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = bytes)]
    session_space: u64,
    /// Minutes that one stays without being asked for
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_080))]
    session_minutes: u32,
    /// Lines on standard error: one of JSON for each request, or none
    #[arg(long, value_enum, default_value_t = Log::Json)]
    log: Log,
    /// Views of each image to average [default: the recipe's predict.views]
    #[arg(long, value_name = "N")]
    views: Option<usize>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Log {
    /// A line for each request, without names of files or pixels
    Json,
    /// Nothing
    Off,
}

impl Serve {
    pub fn run(&self) -> Outcome {
        let named =
            self.models.iter().map(|model| named(model)).collect::<Outcome<Vec<(String, PathBuf)>>>()?;
        let mut names = BTreeSet::new();
        if let Some((name, path)) = named.iter().find(|(name, _)| !names.insert(name)) {
            let reason =
                format!("a model named '{name}' is served already; write OTHER_NAME={}", path.display());
            return Err(Failure::user(path.display(), reason));
        }
        let token = self.token()?;
        if token.is_none() && !self.address.is_loopback() {
            complain(&format!(
                "warning: --address {}: whoever reaches it may use the models; give --token-file or {TOKEN_VARIABLE}",
                self.address
            ));
        }
        // Before the models are read, which takes longer.
        let place = SocketAddr::new(self.address, self.port);
        let listener = TcpListener::bind(place)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| {
                let reason = format!("{error}; is another server there? Choose another --port or --address");
                Failure::user(place, reason)
            })?;
        let device = self.device.open_to_predict()?;
        let half = self.memory.map(|bytes| bytes / 2);
        let limit =
            Limit { bytes: half.or_else(|| usual_memory(&device).map(|bytes| bytes / 2)), told: None };
        let open = |(name, path): (String, PathBuf)| {
            let model = RunModel::of_path(&path, &device)?.with_views(self.views)?.within(&limit);
            let fingerprint = likeness::fingerprint(&RunFolder::at(&path))?;
            Ok(Model { name, mixture: model.into_mixture(), fingerprint })
        };
        let files = viewer_files(&named);
        let all: Vec<String> = named.iter().map(|(name, _)| name.clone()).collect();
        let models = named.into_iter().map(open).collect::<Outcome<Vec<Model>>>()?;
        let seconds = |count: u32| Duration::from_secs(u64::from(count));
        let limits = Limits {
            body: self.body,
            // A GPU has memory of its own; requests are held in the machine's.
            memory: half.unwrap_or_else(|| available() / 4),
            queue: self.queue as usize,
            connections: self.connections as usize,
            request: seconds(self.timeout),
            silence: seconds(self.silence),
            grace: seconds(self.grace),
            sessions: self.sessions as usize,
            session_bytes: self.session_space,
            session_age: seconds(60 * self.session_minutes),
            ..Limits::default()
        };
        let options = Options {
            token,
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            batch: views_per_batch(&device),
            log: self.log == Log::Json,
            files: Some(files),
            limits,
        };
        let folder = std::env::temp_dir();
        let server = Server::new(models, options).map_err(|error| Failure::io(&folder, &error))?;
        let stop = signals()?;
        let place = listener.local_addr().map_err(|error| Failure::user(place, error))?;
        say(&format!("serving {} on http://{place}/", all.join(", ")))?;
        let complete = multivalued_serve::serve(&server, listener, &stop)
            .map_err(|error| Failure::Io(format!("http://{place}/: {error}")))?;
        match complete {
            true => Ok(()),
            false => Err(Failure::BelowBound(format!(
                "--grace {}: some requests were not answered in this time",
                self.grace
            ))),
        }
    }

    /// The token, from wherever it is given.
    fn token(&self) -> Outcome<Option<String>> {
        let (place, token) = match (&self.token, &self.token_file) {
            (Some(token), _) => ("--token".to_owned(), token.clone()),
            (None, Some(file)) => {
                let text = String::from_utf8(files::read(file, MOST_TOKEN_BYTES)?);
                let text =
                    text.map_err(|_| Failure::user(file.display(), "is no text; write the token alone"))?;
                (file.display().to_string(), text.trim_end().to_owned())
            }
            (None, None) => match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => (TOKEN_VARIABLE.to_owned(), token),
                Err(_) => return Ok(None),
            },
        };
        match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Some(token)),
            false => Err(Failure::user(
                place,
                "a token is one word of letters, digits and signs; write such a one",
            )),
        }
    }
}

/// Name and folder of `FOLDER` or `NAME=FOLDER`.
fn named(model: &str) -> Outcome<(String, PathBuf)> {
    let path = Path::new(model);
    let (name, path) = match model.split_once('=').filter(|_| !path.exists()) {
        Some((name, path)) => (name.to_owned(), PathBuf::from(path)),
        None => {
            let whole = path.canonicalize().map_err(|error| Failure::io(path, &error))?;
            let name =
                whole.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned());
            (name, path.to_owned())
        }
    };
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => Ok((name, path)),
        false => Err(Failure::user(
            model,
            "a served model's name has letters, digits, '-', '_' and '.'; write NAME=FOLDER with such a name",
        )),
    }
}

/// Raised by the first signal that asks to end; the second one ends the process.
fn signals() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|error| Failure::Io(format!("signals cannot be heard: {error}")))?;
    }
    Ok(stop)
}

/// The viewer, which the server shows beside its routes, with the served models in front. One that is too large for a
/// page is left out.
fn viewer_files(named: &[(String, PathBuf)]) -> Files {
    let (mut given, mut bundles) = (Given::default(), Vec::new());
    for (at, (name, path)) in named.iter().enumerate() {
        let script = format!("given/model-{}", at + 1);
        match Bundle::of_model(&script, path) {
            Ok(bundle) => {
                given.models.push((script, name.clone()));
                bundles.push(bundle);
            }
            Err(failure) => {
                let reason = failure.message().unwrap_or_default();
                complain(&format!("note: the page at / does not offer {name}: {reason}"));
            }
        }
    }
    bundles.push(Bundle { path: "given.js".into(), file: viewer::given(&given) });
    Files::new(move |path| {
        let own = bundles.iter().find(|bundle| bundle.path == path).map(|bundle| bundle.file.clone());
        let multivalued_web::File { content_type, bytes } = own.or_else(|| multivalued_web::file(path))?;
        Some(multivalued_serve::File { content_type, bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_by_their_folder_or_by_the_user() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("lidc");
        std::fs::create_dir(&folder).unwrap();
        let text = folder.to_string_lossy();
        assert_eq!(named(&text).unwrap(), ("lidc".into(), folder.clone()));
        assert_eq!(named(&format!("a-b={text}")).unwrap(), ("a-b".into(), folder.clone()));
        for wrong in [format!("a b={text}"), format!("={text}"), format!("a/b={text}")] {
            assert!(format!("{:?}", named(&wrong).unwrap_err()).contains("NAME=FOLDER"), "{wrong}");
        }
        assert!(matches!(named("none").unwrap_err(), Failure::Missing(_)));
    }
}
