//! `view`: the viewer in a browser, served to this machine alone or written as a folder.

pub(super) mod given;
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use multivalued_web::viewer::{self, Given};

use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::terminal::{complain, say};
use given::Bundle;
use server::Server;

/// Look at images and their plausible outlines in a browser; nothing leaves this machine
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued view\n  multivalued view models/lidc slice.png\n  multivalued view runs/mine \
CT/ CT-masks/\n  multivalued view shapes --out viewer\n\nThe page computes by itself, in WebAssembly: images are \
dropped into it and sent nowhere. It is served on 127.0.0.1 until Ctrl-C. With --out it is a folder that any web server \
or a browser alone (index.html) shows. Models beside those of the program, and images, may be dropped as well \
(docs/viewer.md)."
)]
pub struct View {
    /// A run's folder, a model's, or lidc or shapes, which come with the program [default: lidc]; an image may stand
    /// here, too
    model: Option<PathBuf>,
    /// Images, DICOM series, and readers' masks of them, to be opened at once
    images: Vec<PathBuf>,
    /// Write the viewer into this new folder in place of serving it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["port", "no_open"])]
    out: Option<PathBuf>,
    /// The port to serve on [default: a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Do not open the browser, only say the address
    #[arg(long)]
    no_open: bool,
}

impl View {
    pub fn run(&self) -> Outcome {
        let bundles = self.bundles()?;
        match &self.out {
            Some(out) => write(out, &bundles),
            None => {
                let server = Server::bind(self.port.unwrap_or(0), bundles)?;
                let address = server.address();
                say(&format!("The viewer is at {address} until Ctrl-C."))?;
                if !self.no_open && !opened(&address) {
                    complain("note: no browser could be opened; open the address yourself");
                }
                server.run()
            }
        }
    }

    /// The page's scripts that are made for these arguments.
    fn bundles(&self) -> Outcome<Vec<Bundle>> {
        let mut images = self.images.clone();
        let mut given = Given::default();
        let mut bundles = Vec::new();
        match &self.model {
            None => {}
            Some(path) => match given::named(path) {
                Some(name) => given.models.push((format!("models/{name}"), name)),
                None if given::is_model(path) => {
                    let name = given::name(path);
                    let script = "given/model".to_owned();
                    bundles.push(Bundle::of_model(&script, path)?);
                    given.models.push((script, name));
                }
                None => images.insert(0, path.clone()),
            },
        }
        for (at, path) in images.iter().enumerate() {
            let script = format!("given/image-{}", at + 1);
            bundles.push(Bundle::of_images(&script, path)?);
            given.images.push((script, given::name(path)));
        }
        bundles.push(Bundle { path: "given.js".into(), file: viewer::given(&given) });
        Ok(bundles)
    }
}

/// Writes the viewer into a folder.
fn write(out: &Path, bundles: &[Bundle]) -> Outcome {
    folder::make_empty(out)?;
    for inner in ["models", "given"] {
        folder::make(&out.join(inner))?;
    }
    for path in viewer::PATHS {
        let own = bundles.iter().find(|bundle| bundle.path == path).map(|bundle| bundle.file.clone());
        if let Some(file) = own.or_else(|| viewer::file(path)) {
            folder::write(&out.join(path), &file.bytes)?;
        }
    }
    for bundle in bundles.iter().filter(|bundle| !viewer::PATHS.contains(&bundle.path.as_str())) {
        folder::write(&out.join(&bundle.path), &bundle.file.bytes)?;
    }
    say(&format!("{}: open it in a browser", out.join("index.html").display()))
}

/// Opens an address in the user's browser; says whether there was a program for it.
fn opened(address: &str) -> bool {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        // The empty text is the window's title, which `start` takes first.
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

/// The system's refusal, with what was tried.
fn refused(what: &str, error: &std::io::Error) -> Failure {
    Failure::user(what, format!("{error}; choose another --port, or leave it out"))
}
