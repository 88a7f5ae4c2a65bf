//! The page's scripts that need no page, in Node; skips with a message without it.

use std::path::Path;
use std::process::Command;

#[test]
fn scripts_that_need_no_page() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts.mjs");
    let Ok(ran) = Command::new("node").arg(tests).output() else {
        eprintln!("skipped: the page's scripts are run by node, which is not here");
        return;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "ok\n");
}
