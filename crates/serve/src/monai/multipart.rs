//! `multipart/form-data`, as clients send it and as answers have it.

use memchr::memmem;

use crate::refusal::Refusal;

/// Most parts of a request.
const MOST: usize = 16;

/// A part of a request.
#[derive(Debug, PartialEq)]
pub struct Part<'a> {
    /// The field's name.
    pub name: String,
    /// The name of a file; none where the part is a plain value.
    pub file: Option<String>,
    pub bytes: &'a [u8],
}

/// The boundary that a `Content-Type` states.
pub fn boundary(content_type: &str) -> Result<&str, Refusal> {
    let wrong = || Refusal::bad("send the file as multipart/form-data with a boundary");
    let (kind, rest) = content_type.split_once(';').ok_or_else(wrong)?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Err(wrong());
    }
    let boundary = rest.split(';').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    });
    // RFC 2046 has at most 70 characters.
    boundary.filter(|boundary| (1..=70).contains(&boundary.len())).ok_or_else(wrong)
}

/// The parts of a body.
pub fn parts<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Part<'a>>, Refusal> {
    let broken = || Refusal::bad("the multipart body is broken off or has no boundaries; send it again");
    let line = format!("--{boundary}");
    let between = format!("\r\n--{boundary}");
    let first = memmem::find(body, line.as_bytes()).ok_or_else(broken)?;
    // What precedes the first boundary means nothing.
    let mut rest = &body[first + line.len()..];
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        if parts.len() == MOST {
            return Err(Refusal::bad(format!("a request has at most {MOST} parts; send fewer")));
        }
        // Blanks may follow a boundary.
        let end = memmem::find(rest, b"\r\n").ok_or_else(broken)?;
        rest = &rest[end..];
        let (head, content) = match rest.strip_prefix(b"\r\n\r\n") {
            Some(content) => (&b""[..], content),
            None => {
                let end = memmem::find(rest, b"\r\n\r\n").ok_or_else(broken)?;
                (&rest[2..end], &rest[end + 4..])
            }
        };
        let end = memmem::find(content, between.as_bytes()).ok_or_else(broken)?;
        let (name, file) = disposition(&String::from_utf8_lossy(head)).ok_or_else(broken)?;
        parts.push(Part { name, file, bytes: &content[..end] });
        rest = &content[end + between.len()..];
    }
}

/// Name and file name of a part.
fn disposition(head: &str) -> Option<(String, Option<String>)> {
    let line = head.split("\r\n").find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let value = |key: &str| {
        // Quoted values may hold semicolons; of escapes clients use none but %22.
        let at = line.match_indices(key).map(|(at, _)| at).find(|&at| {
            let before = line[..at].trim_end().chars().next_back();
            before.is_none_or(|sign| sign == ';')
        })?;
        let rest = line[at + key.len()..].trim_start().strip_prefix('=')?.trim_start();
        match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split(';').next().map(str::trim),
        }
        .map(str::to_owned)
    };
    Some((value("name")?, value("filename")))
}

/// A body of one value in JSON and one file. The boundary occurs in neither.
pub fn answer(params: &str, file: &str, bytes: &[u8], boundary: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes.len() + params.len() + 512);
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"params\"\r\nContent-Type: application/json\r\n\r\n\
         {params}\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"image\"; filename=\"{file}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(bytes);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_and_what_was_written_is_read() {
        let body = answer("{\"a\":1}", "x.nrrd", b"\r\n--not the boundary\r\n\0", "limit");
        let found = parts(&body, "limit").unwrap();
        assert_eq!(found[0], Part { name: "params".into(), file: None, bytes: b"{\"a\":1}" });
        assert_eq!(
            (found[1].file.as_deref(), found[1].bytes),
            (Some("x.nrrd"), &b"\r\n--not the boundary\r\n\0"[..])
        );
        let odd = b"preamble--b  \r\ncontent-disposition: form-data; name=\"a;b\" ; filename=c.nii.gz\r\n\r\n\r\n--b--";
        let found = parts(odd, "b").unwrap();
        assert_eq!(found, [Part { name: "a;b".into(), file: Some("c.nii.gz".into()), bytes: b"" }]);
    }

    #[test]
    fn broken_bodies_are_refused() {
        for body in
            [&b""[..], b"--b", b"--b\r\n", b"--b\r\n\r\n", b"--b\r\n\r\nx\r\n--b--", b"--b\r\nname\r\n\r\nx"]
        {
            assert!(parts(body, "b").is_err(), "{body:?}");
        }
        let many = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n".repeat(17) + "--b--";
        assert!(parts(many.as_bytes(), "b").unwrap_err().message.contains("at most 16"));
    }

    #[test]
    fn boundaries_are_stated() {
        assert_eq!(boundary("multipart/form-data; boundary=abc").unwrap(), "abc");
        assert_eq!(boundary("Multipart/Form-Data; charset=x; Boundary=\"a b\"").unwrap(), "a b");
        for other in ["", "application/json", "multipart/form-data", "multipart/form-data; boundary="] {
            assert!(boundary(other).is_err(), "{other}");
        }
    }
}
