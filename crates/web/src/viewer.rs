//! The viewer's files by their paths, for whoever serves them or writes them into a folder.
//!
//! ```text
//! index.html        the page
//! viewer.css        its styles
//! viewer.js         its scripts
//! engine.js         the WebAssembly module, gzipped, as base64
//! models/NAME.js    a shipped model, as base64
//! given.js          which models and files are loaded at once: none, unless whoever serves the page says otherwise
//! ```
//!
//! All bytes come as classic scripts, since a page that was opened from a disk (`file://`) may load nothing else.

use std::borrow::Cow;

use serde_json::json;

use crate::page;

/// A file of the viewer.
#[derive(Debug, Clone)]
pub struct File {
    /// Its media type.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: Cow<'static, [u8]>,
}

/// The media type of scripts.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All paths that [`file`] knows; the page is `index.html`.
pub const PATHS: [&str; 7] =
    ["index.html", "viewer.css", "viewer.js", "engine.js", "models/lidc.js", "models/shapes.js", "given.js"];

/// A model that comes with the program.
#[derive(Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// Its files by their names.
    pub files: [(&'static str, &'static [u8]); 4],
}

macro_rules! shipped {
    ($name:literal) => {
        Shipped {
            name: $name,
            files: [
                ("B3SUMS", include_bytes!(concat!("../../../models/", $name, "/B3SUMS"))),
                ("fingerprint.json", include_bytes!(concat!("../../../models/", $name, "/fingerprint.json"))),
                (
                    "model.safetensors",
                    include_bytes!(concat!("../../../models/", $name, "/model.safetensors")),
                ),
                ("recipe.toml", include_bytes!(concat!("../../../models/", $name, "/recipe.toml"))),
            ],
        }
    };
}

/// The models that come with the program.
pub static SHIPPED: [Shipped; 2] = [shipped!("lidc"), shipped!("shapes")];

/// The viewer's WebAssembly module, gzipped; `engine.txt` beside it says what it was made of.
pub const ENGINE: &[u8] = include_bytes!("../page/engine.wasm.gz");

/// A file of the viewer by its path, which may begin with a slash; none where there is no such file. The path is
/// compared with known ones and never reaches a file system.
pub fn file(path: &str) -> Option<File> {
    let text = |content_type, text: &'static str| File { content_type, bytes: text.as_bytes().into() };
    Some(match path.trim_start_matches('/') {
        "" | "index.html" => text("text/html; charset=utf-8", page::VIEWER_PAGE),
        "viewer.css" => text("text/css; charset=utf-8", page::VIEWER_STYLE),
        "viewer.js" => text(SCRIPT, page::VIEWER_SCRIPT),
        "engine.js" => files_script("engine", &[("engine.wasm.gz", ENGINE)]),
        "models/lidc.js" => shipped_script(&SHIPPED[0]),
        "models/shapes.js" => shipped_script(&SHIPPED[1]),
        "given.js" => given(&Given::default()),
        _ => return None,
    })
}

fn shipped_script(model: &Shipped) -> File {
    files_script(&format!("models/{}", model.name), &model.files)
}

/// What a page loads at once. Names are those of scripts beside the page, without `.js`.
#[derive(Debug, Default)]
pub struct Given {
    /// Models' scripts and their names for people, shipped ones among them; the first is the one to begin with.
    pub models: Vec<(String, String)>,
    /// The scripts of images, each with its name for people.
    pub images: Vec<(String, String)>,
}

/// The script that says what a page loads at once.
pub fn given(given: &Given) -> File {
    let entry = |(script, name): &(String, String)| json!({ "script": script, "name": name });
    let said = json!({
        "models": given.models.iter().map(entry).collect::<Vec<_>>(),
        "images": given.images.iter().map(entry).collect::<Vec<_>>(),
    });
    let text = format!("Multivalued.given = {};\n", harmless(&said.to_string()));
    File { content_type: SCRIPT, bytes: text.into_bytes().into() }
}

/// A script that hands files to the page under the name by which it asked for them.
pub fn files_script(name: &str, files: &[(&str, &[u8])]) -> File {
    let mut text = format!("Multivalued.bring({}, [\n", harmless(&json!(name).to_string()));
    for (file, bytes) in files {
        text += &format!("[{}, \"", harmless(&json!(file).to_string()));
        base64(bytes, &mut text);
        text += "\"],\n";
    }
    text += "]);\n";
    File { content_type: SCRIPT, bytes: text.into_bytes().into() }
}

/// JSON as it may stand in a script.
fn harmless(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// RFC 4648.
fn base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.reserve(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            out.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_file_and_no_other_has() {
        for path in PATHS {
            let found = file(path).unwrap();
            assert!(!found.bytes.is_empty(), "{path}");
            assert_eq!(found.bytes, file(&format!("/{path}")).unwrap().bytes);
        }
        assert_eq!(file("/").unwrap().bytes, file("index.html").unwrap().bytes);
        for path in ["..", "../Cargo.toml", "models", "models/../index.html", "index.html/", "index.html?x"] {
            assert!(file(path).is_none(), "{path}");
        }
    }

    #[test]
    fn bytes_and_names_in_scripts() {
        let mut text = String::new();
        for (bytes, wanted) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            text.clear();
            base64(bytes.as_bytes(), &mut text);
            assert_eq!(text, wanted);
        }
        let script = files_script("given/1", &[("a</script>\".png", b"foo")]);
        let script = String::from_utf8(script.bytes.into_owned()).unwrap();
        assert_eq!(
            script,
            "Multivalued.bring(\"given/1\", [\n[\"a\\u003c/script>\\\".png\", \"Zm9v\"],\n]);\n"
        );
    }
}
