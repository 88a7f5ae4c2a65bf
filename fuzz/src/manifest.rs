//! Manifests.

use std::fs;
use std::path::Path;

use multivalued_data::dataset::{Layout, Options, inspect};

/// What rows may name: two images and two masks of 2x2 pixels.
pub fn prepare(folder: &Path) {
    let header =
        "ObjectType = Image\nNDims = 2\nDimSize = 2 2\nElementType = MET_UCHAR\nElementDataFile = LOCAL\n";
    for (name, pixels) in
        [("a.mha", [0, 9, 0, 9]), ("b.mha", [1, 2, 3, 4]), ("m.mha", [0, 1, 1, 0]), ("n.mha", [0; 4])]
    {
        fs::write(folder.join(name), [header.as_bytes(), &pixels].concat()).unwrap();
    }
}

/// The same text as JSON lines and as CSV: what is in it, or a refusal that names the manifest.
pub fn check(folder: &Path, bytes: &[u8]) {
    for name in ["manifest.jsonl", "manifest.csv"] {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        match inspect(&path, &Options::default()) {
            Ok(found) => assert_eq!(found.layout, Layout::Manifest.to_string()),
            Err(fault) => assert!(fault.to_string().contains("manifest."), "{fault}"),
        }
    }
}
