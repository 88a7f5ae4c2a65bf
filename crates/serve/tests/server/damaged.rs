//! Requests that are damaged in their lines, headers and bodies: answered, never a panic. Some thousand reach a route each
//! time; as many as `MULTIVALUED_DAMAGED` says where it is set.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri};

use super::damage::{check_damaged, seeds};
use super::{INFER, Place, inference};

/// Requests that reach a route in each run of the tests.
const SOME: usize = 2000;
/// Of so many that are made at most: others are no HTTP, or are refused before a route sees them.
const MADE: usize = 3;
/// How those are refused: by the check of access, and by the list of routes.
const BEFORE_ROUTES: [u16; 4] = [401, 403, 404, 405];

/// A whole request as one text: line, headers, body.
fn written(line: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let head = [&[line], headers].concat().join("\r\n");
    [head.as_bytes(), b"\r\n\r\n", body].concat()
}

/// The request of such a text; none where no HTTP parser would let it pass.
fn parsed(text: &[u8]) -> Option<Request<Body>> {
    let end = text.windows(4).position(|four| four == b"\r\n\r\n")?;
    let mut lines =
        text[..end].split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut words = lines.next()?.splitn(2, |&byte| byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let uri = Uri::try_from(words.next()?).ok()?;
    let mut request = Request::builder().method(method).uri(uri);
    for line in lines {
        let at = line.iter().position(|&byte| byte == b':')?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        request = request.header(name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?);
    }
    request.body(Body::from(text[end + 4..].to_vec())).ok()
}

fn sound() -> Vec<Vec<u8>> {
    let form = ["content-type: multipart/form-data; boundary=limit", "host: localhost"];
    let file = |name: &str, bytes: &[u8], params: &str| {
        let head = format!(
            "--limit\r\nContent-Disposition: form-data; name=\"params\"\r\n\r\n{params}\r\n--limit\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        );
        [head.as_bytes(), bytes, b"\r\n--limit--\r\n"].concat()
    };
    let json = r#"{"id":"a","parameters":{"top":2,"binary_data_output":true},"inputs":[{"name":"image","shape":[2,3,1],"datatype":"INT16","parameters":{"binary_data_size":12}}],"outputs":[{"name":"masks","parameters":{"binary_data":false}},{"name":"mean"}]}"#;
    let binary = [json.as_bytes(), &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]].concat();
    let length = format!("inference-header-content-length: {}", json.len());
    let line = format!("POST {INFER}");
    let packed = {
        use std::io::Write;
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(&binary).and_then(|()| out.finish()).unwrap()
    };
    let mut all = vec![
        written(
            &line,
            &["content-type: application/json"],
            inference(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).as_bytes(),
        ),
        written(&line, &[&length, "accept-encoding: gzip"], &binary),
        written(&line, &[&length, "content-encoding: gzip"], &packed),
        written(
            "GET /v2/models/shapes/versions/1/ready",
            &["origin: http://localhost", "host: localhost"],
            b"",
        ),
        written("GET /session/00000000000000000000000000000000", &["authorization: Bearer x"], b""),
        written(
            "POST /auth/token",
            &["content-type: application/x-www-form-urlencoded"],
            b"username=a&password=b%20c",
        ),
    ];
    for (target, params) in [
        ("nifti", r#"{"answer":"segments"}"#),
        ("headed", r#"{"result_extension":".nii.gz"}"#),
        ("raster", "{}"),
        ("npy", "{}"),
    ] {
        for bytes in seeds(target) {
            all.push(written(
                "POST /infer/shapes?image=a&output=all",
                &form,
                &file("a.nii.gz", &bytes, params),
            ));
            all.push(written("PUT /session/?expiry=5", &form, &file("a.seg.nrrd", &bytes, params)));
        }
    }
    all
}

#[test]
fn damaged_requests() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let shown = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        shown(info);
    }));
    let count = std::env::var("MULTIVALUED_DAMAGED").ok().and_then(|text| text.parse().ok()).unwrap_or(SOME);
    let place = Place::small();
    let question = inference(&[4, 4], &[0.5; 16]);
    let before = place.post(INFER, question.clone()).json();
    let [made, asked, reached, answered] = [0, 0, 0, 0].map(AtomicUsize::new);
    check_damaged("requests", &sound(), (MADE * count) as u64, |text| {
        if reached.load(Ordering::Relaxed) >= count {
            return;
        }
        made.fetch_add(1, Ordering::Relaxed);
        let Some(request) = parsed(text) else { return };
        let answer = place.ask(request);
        assert_ne!(answer.status, 500, "{:?}", answer.bytes);
        assert_eq!(PANICS.load(Ordering::Relaxed), 0);
        asked.fetch_add(1, Ordering::Relaxed);
        let by_route = !BEFORE_ROUTES.contains(&answer.status.as_u16());
        reached.fetch_add(usize::from(by_route), Ordering::Relaxed);
        answered.fetch_add(usize::from(answer.status == 200), Ordering::Relaxed);
    });
    let [made, asked, reached, answered] = [made, asked, reached, answered].map(AtomicUsize::into_inner);
    eprintln!(
        "{made} damaged requests: {asked} were asked, {reached} reached a route, {answered} were answered with 200"
    );
    assert!(reached >= count && answered > 0 && answered < reached, "{made} {asked} {reached} {answered}");
    assert_eq!(place.post(INFER, question).json(), before, "the server is as it was");
}
