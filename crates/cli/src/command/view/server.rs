//! A web server for the viewer: HTTP/1.1 on 127.0.0.1, GET of a fixed list of files. No path of a request reaches the
//! file system.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use multivalued_web::viewer::{self, File};

use super::given::Bundle;
use crate::exit::Outcome;

/// A request that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(20);
/// Requests that are answered at once; a browser makes six.
const AT_ONCE: usize = 32;
/// Bytes of a request's head.
const MOST_HEAD: u64 = 1 << 14;

/// Listens, and knows the files that are there beside the viewer's own.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    bundles: Arc<Vec<Bundle>>,
}

impl Server {
    /// Listens on a port of 127.0.0.1; 0 for a free one.
    pub fn bind(port: u16, bundles: Vec<Bundle>) -> Outcome<Self> {
        let what = format!("127.0.0.1:{port}");
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = bound.map_err(|error| super::refused(&what, &error))?;
        let address = listener.local_addr().map_err(|error| super::refused(&what, &error))?;
        Ok(Self { listener, address, bundles: Arc::new(bundles) })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers until the process ends.
    pub fn run(&self) -> Outcome {
        let busy = Arc::new(AtomicUsize::new(0));
        for stream in self.listener.incoming() {
            // A connection that was lost before it was taken is nobody's any more.
            let Ok(stream) = stream else { continue };
            if busy.fetch_add(1, Ordering::SeqCst) >= AT_ONCE {
                busy.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let (busy, bundles, port) = (busy.clone(), self.bundles.clone(), self.address.port());
            thread::spawn(move || {
                // Whoever went away does not hear that it failed.
                let _ = answer(&stream, &bundles, port);
                busy.fetch_sub(1, Ordering::SeqCst);
            });
        }
        Ok(())
    }
}

/// Reads one request and answers it.
fn answer(stream: &TcpStream, bundles: &[Bundle], port: u16) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.take(MOST_HEAD)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut host = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("host") {
            host = Some(value.trim().to_owned());
        }
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // A page from elsewhere that has its name lead here would be answered under that name, and may see nothing.
    let is_ours =
        host.is_none_or(|host| [format!("127.0.0.1:{port}"), format!("localhost:{port}")].contains(&host));
    let (status, file) = match (method, is_ours) {
        ("GET" | "HEAD", true) => match found(target, bundles) {
            Some(file) => ("200 OK", file),
            None => ("404 Not Found", plain("There is no such file.")),
        },
        (_, false) => ("403 Forbidden", plain("The viewer answers under its own address alone.")),
        _ => ("405 Method Not Allowed", plain("Only GET is answered.")),
    };
    let mut out = io::BufWriter::new(stream);
    write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\n",
        file.content_type,
        file.bytes.len()
    )?;
    if method != "HEAD" {
        out.write_all(&file.bytes)?;
    }
    out.flush()
}

/// The file of a request's target, without what follows a question mark.
fn found(target: &str, bundles: &[Bundle]) -> Option<File> {
    let path = target.split('?').next()?.strip_prefix('/')?;
    let own = bundles.iter().find(|bundle| bundle.path == path).map(|bundle| bundle.file.clone());
    own.or_else(|| viewer::file(path))
}

fn plain(words: &'static str) -> File {
    File { content_type: "text/plain; charset=utf-8", bytes: words.as_bytes().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    }

    #[test]
    fn a_fixed_list_of_files_is_answered_under_the_servers_own_name() {
        let bundle = Bundle { path: "given.js".into(), file: plain("given") };
        let server = Server::bind(0, vec![bundle]).unwrap();
        let address = server.address;
        thread::spawn(move || server.run());
        let get = |path: &str| asked(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        assert!(get("/").starts_with("HTTP/1.1 200 OK") && get("/index.html").contains("<!doctype html>"));
        assert!(get("/given.js?x=1").ends_with("\r\n\r\ngiven"), "in place of the viewer's own");
        for path in ["/../Cargo.toml", "/%2e%2e/Cargo.toml", "//etc/passwd", "/models/", "index.html", ""] {
            assert!(get(path).starts_with("HTTP/1.1 404"), "{path}");
        }
        let foreign = asked(address, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
        assert!(asked(address, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let head = asked(address, "HEAD /viewer.js HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    }
}
