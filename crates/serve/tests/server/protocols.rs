//! Both protocols as far as no client of theirs is needed.

use std::io::Write;

use axum::body::Body;
use axum::http::Request;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::{Answer, INFER, Place, inference};

#[test]
fn metadata_say_what_can_be_asked() {
    let place = Place::small();
    assert_eq!(place.get("/v2").json()["extensions"][0], "binary_tensor_data");
    let model = place.get("/v2/models/shapes/versions/1").json();
    assert_eq!(model["inputs"][0]["shape"], serde_json::json!([-1, -1, -1, 1]));
    assert_eq!(model["outputs"].as_array().unwrap().len(), 6);
    assert_eq!(place.post("/v2/repository/index", "").json()[0]["name"], "shapes");
    for path in ["/v2/models/other", "/v2/models/shapes/versions/2", "/v2/models/other/ready"] {
        assert_eq!(place.get(path).status, 404, "{path}");
    }
    let info = place.get("/info/").json();
    assert_eq!(info["models"]["shapes"]["labels"]["50 to 90 %"], 2);
    assert_eq!(info["models"]["shapes-hypothesis-2"]["labels"]["hypothesis 2"], 1);
}

#[test]
fn bodies_may_be_packed_and_bombs_are_refused() {
    let place = Place::small();
    let text = inference(&[4, 4], &[0.25; 16]);
    let plain = place.post(INFER, text.clone()).json();
    let packed = |bytes: &[u8], coding: &str| {
        let bytes = match coding {
            "gzip" => {
                let mut out = GzEncoder::new(Vec::new(), Compression::fast());
                out.write_all(bytes).and_then(|()| out.finish()).unwrap()
            }
            _ => {
                let mut out = ZlibEncoder::new(Vec::new(), Compression::fast());
                out.write_all(bytes).and_then(|()| out.finish()).unwrap()
            }
        };
        place.ask(Request::post(INFER).header("content-encoding", coding).body(Body::from(bytes)).unwrap())
    };
    for coding in ["gzip", "deflate"] {
        assert_eq!(packed(text.as_bytes(), coding).json(), plain);
        assert_eq!(packed(&vec![b' '; 2 << 20], coding).status, 413);
    }
    assert_eq!(
        place
            .ask(Request::post(INFER).header("content-encoding", "br").body(Body::from(text)).unwrap())
            .status,
        415
    );
    assert_eq!(place.post(INFER, vec![b' '; 2 << 20]).status, 413);
}

/// A form with one file.
fn form(name: &str, file: &str, bytes: &[u8], params: &str) -> Vec<u8> {
    let head = format!(
        "--b\r\nContent-Disposition: form-data; name=\"params\"\r\n\r\n{params}\r\n--b\r\n\
         Content-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\r\n"
    );
    [head.as_bytes(), bytes, b"\r\n--b--\r\n"].concat()
}

fn sent(place: &Place, method: &str, path: &str, body: Vec<u8>) -> Answer {
    let request =
        Request::builder().method(method).uri(path).header("content-type", "multipart/form-data; boundary=b");
    place.ask(request.body(Body::from(body)).unwrap())
}

#[test]
fn sessions_begin_are_asked_and_end() {
    let place = Place::small();
    let volume =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/nifti/volume.nii")).unwrap();
    let made = sent(&place, "PUT", "/session/", form("files", "../../x.nii", &volume, "{}"));
    assert_eq!(made.status, 200, "{:?}", made.bytes);
    let id = made.json()["session_id"].as_str().unwrap().to_owned();
    assert!(id.len() == 32 && !made.bytes.windows(4).any(|part| part == b"/tmp"), "no path is told");
    assert_eq!(place.get(&format!("/session/{id}")).status, 200);
    let infer = |model: &str, params: &str| {
        sent(
            &place,
            "POST",
            &format!("/infer/{model}?image=../../etc/passwd&session_id={id}&output=json"),
            form("x", "", b"", params),
        )
    };
    let bands = infer("shapes", "{}");
    assert_eq!(bands.status, 200, "{:?}", bands.bytes);
    assert!(!bands.json()["hypotheses"].as_array().unwrap().is_empty());
    assert_eq!(infer("shapes-hypothesis-1", "{}").status, 200);
    for (model, params, status) in [
        ("other", "{}", 404),
        ("shapes-hypothesis-0", "{}", 404),
        ("shapes", "{\"answer\":\"all\"}", 400),
        ("shapes", "{\"result_extension\":\".exe\"}", 400),
        ("shapes", "[", 400),
    ] {
        let answer = infer(model, params);
        assert!(
            answer.status == status && answer.json()["detail"].is_string(),
            "{model} {params}: {:?}",
            answer.bytes
        );
    }
    let delete = Request::delete(format!("/session/{id}")).body(Body::empty()).unwrap();
    assert_eq!(place.ask(delete).status, 200);
    assert_eq!(place.get(&format!("/session/{id}")).status, 404);
    assert_eq!(infer("shapes", "{}").status, 404);
    let none = sent(&place, "POST", "/infer/shapes?image=scan", form("params", "", b"", "{}"));
    assert!(none.status == 404 && none.json()["error"].as_str().unwrap().contains("upload one"));
}

#[test]
fn errors_of_files_tell_no_path_of_the_server() {
    let place = Place::small();
    for (file, bytes) in
        [("a.nii", &b"nothing"[..]), ("b.nrrd", b"NRRD0004\n\n"), ("c.png", b"\x89PNG"), ("d", b"\x80\x04")]
    {
        let answer = sent(&place, "POST", "/infer/shapes", form("file", file, bytes, "{}"));
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(answer.status == 400 && !error.contains('/') && error.starts_with("the image"), "{error}");
    }
    let detached = b"NRRD0004\ntype: uint8\ndimension: 2\nsizes: 2 2\nencoding: raw\ndata file: ../x\n\n";
    assert_eq!(sent(&place, "POST", "/infer/shapes", form("file", "e.nhdr", detached, "{}")).status, 400);
}
