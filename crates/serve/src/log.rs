//! Lines of JSON on standard error. Nothing in them comes from a client: no names of files, no pixels, no queries.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Writes what happened, with the time in seconds since 1970.
pub fn write(event: &str, mut fields: Value) {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    fields["time"] = json!((time * 1e3).round() / 1e3);
    fields["event"] = json!(event);
    // Whoever closed standard error does not want to hear of it.
    let _ = writeln!(std::io::stderr().lock(), "{fields}");
}
