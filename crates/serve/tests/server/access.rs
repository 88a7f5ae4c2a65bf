//! Who may ask.

use axum::body::Body;
use axum::http::Request;
use multivalued_serve::{File, Files, Options};

use super::Place;

#[test]
fn without_a_token_names_that_point_here_and_other_pages_are_refused() {
    let place = Place::new(Options {
        hosts: vec!["scanner.example".into()],
        origins: vec!["https://viewer.example".into()],
        ..Options::default()
    });
    let asked = |method: &str, host: &str, origin: Option<&str>| {
        let mut request = Request::builder().method(method).uri("/v2").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        place.ask(request.body(Body::empty()).unwrap())
    };
    for (host, origin, status) in [
        ("localhost:8000", None, 200),
        ("127.0.0.1:8000", None, 200),
        ("scanner.example", None, 200),
        ("evil.example:8000", None, 403),
        ("localhost:8000", Some("http://localhost:8000"), 200),
        ("localhost:8000", Some("http://evil.example"), 403),
        ("localhost:8000", Some("http://localhost:9000"), 403),
        ("localhost:8000", Some("null"), 403),
        ("evil.example", Some("http://evil.example"), 403),
        ("localhost:8000", Some("https://viewer.example"), 200),
    ] {
        let answer = asked("GET", host, origin);
        assert_eq!(answer.status, status, "{host} {origin:?}");
        let allowed = answer.headers.get("access-control-allow-origin").is_some();
        assert_eq!(allowed, origin == Some("https://viewer.example"), "{host} {origin:?}");
        if status == 403 {
            let error = answer.json()["error"].to_string();
            assert!(error.contains("--host") || error.contains("--allow-origin"), "{error}");
        }
    }
    assert_eq!(asked("OPTIONS", "localhost", Some("https://viewer.example")).status, 204);
}

#[test]
fn with_a_token_all_but_health_want_it() {
    let files = Files::new(|path| {
        let known = ["a.js", "given.js", "given/model-1.js"];
        known.contains(&path).then_some(File { content_type: "text/javascript", bytes: b"1".into() })
    });
    let token = Some("secret".to_owned());
    let place = Place::new(Options { token, files: Some(files), ..Options::default() });
    let asked = |path: &str, header: &str| {
        let request = Request::get(path).header("authorization", header).header("host", "any.example");
        place.ask(request.body(Body::empty()).unwrap())
    };
    for path in ["/v2", "/info/", "/metrics", "/v2/models/shapes", "/session/x"] {
        for header in ["", "Bearer", "Bearer ", "Bearer wrong", "Basic secret", "secret", "Bearer secret2"] {
            let answer = asked(path, header);
            assert_eq!(answer.status, 401, "{path} {header}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
        assert_ne!(asked(path, "bearer secret").status, 401, "{path}");
    }
    // What tells of the served models: by a header, or as the password that a browser asks for.
    for path in ["/given.js", "/given/model-1.js"] {
        for header in ["", "Bearer wrong", "Basic c2VjcmV0", "Basic YTp3cm9uZw=="] {
            let answer = asked(path, header);
            assert_eq!(answer.status, 401, "{path} {header}");
            assert!(answer.headers["www-authenticate"].to_str().unwrap().starts_with("Basic "), "{path}");
        }
        for header in ["Bearer secret", "Basic YTpzZWNyZXQ="] {
            let answer = asked(path, header);
            assert_eq!(answer.status, 200, "{path} {header}");
            assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin");
        }
    }
    assert_eq!(asked("/v2", "Basic YTpzZWNyZXQ=").status, 401, "passwords are for the page alone");
    for path in ["/healthz", "/v2/health/live", "/v2/health/ready", "/auth/", "/a.js"] {
        assert_eq!(place.get(path).status, 200, "{path}");
    }
    assert_eq!(place.get("/auth/").json()["enabled"], true);
    let login = |body: &'static str| place.post("/auth/token", body);
    assert_eq!(login("username=a&password=wrong").status, 401);
    assert_eq!(login("username=a&password=secret&grant_type=password").json()["access_token"], "secret");
    assert_eq!(Place::small().post("/auth/token", "password=").status, 401, "there is no token to know");
}

#[test]
fn the_page_has_its_files_and_nothing_else() {
    let files =
        Files::new(|path| path.is_empty().then_some(File { content_type: "text/html", bytes: b"1".into() }));
    let plain = Place::new(Options { files: Some(files), ..Options::default() });
    assert_eq!(Place::small().get("/").status, 404, "no page is there unless it is given");
    let page = plain.get("/");
    assert_eq!((page.status.as_u16(), &page.bytes[..]), (200, &b"1"[..]));
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    for path in ["/../Cargo.toml", "/%2e%2e/Cargo.toml", "/etc/passwd", "/v2/models/..%2f..%2fshapes"] {
        let answer = plain.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.json()["error"].is_string(), "{path}");
    }
}
