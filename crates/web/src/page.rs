//! The page's files, held by the program.

/// The scripts that draw one image with its weighted hypotheses, in the order they are to be loaded: `hypotheses.js`
/// says in its head how they are used. Nothing in them ends a `<script>` element, so they may stand inside of a page.
pub const HYPOTHESES_SCRIPT: &str = concat!(
    include_str!("../page/masks.js"),
    include_str!("../page/stage.js"),
    include_str!("../page/paint.js"),
    include_str!("../page/side.js"),
    include_str!("../page/hypotheses.js"),
);

/// Their styles.
pub const HYPOTHESES_STYLE: &str = include_str!("../page/hypotheses.css");

/// The viewer's page; its scripts and styles lie beside it.
pub const VIEWER_PAGE: &str = include_str!("../page/index.html");

/// The viewer's scripts, in the order they are to be loaded.
pub const VIEWER_SCRIPT: &str = concat!(
    include_str!("../page/masks.js"),
    include_str!("../page/stage.js"),
    include_str!("../page/paint.js"),
    include_str!("../page/side.js"),
    include_str!("../page/hypotheses.js"),
    include_str!("../page/worker.js"),
    include_str!("../page/files.js"),
    include_str!("../page/windows.js"),
    include_str!("../page/study.js"),
    include_str!("../page/example.js"),
    include_str!("../page/viewer.js"),
);

/// Its styles.
pub const VIEWER_STYLE: &str =
    concat!(include_str!("../page/viewer.css"), include_str!("../page/hypotheses.css"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_may_stand_inside_of_a_page() {
        for text in [HYPOTHESES_SCRIPT, HYPOTHESES_STYLE] {
            assert!(!text.to_lowercase().contains("</s") && !text.contains("<!--"));
        }
        for function in ["hypotheses:", "function dialog", "function tile"] {
            assert!(HYPOTHESES_SCRIPT.contains(function), "{function}");
        }
    }
}
