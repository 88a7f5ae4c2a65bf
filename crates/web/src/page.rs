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
