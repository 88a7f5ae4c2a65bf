//! Text that goes into a page, made harmless, and the few pieces of HTML that recur.

use multivalued_web::page::{HYPOTHESES_SCRIPT, HYPOTHESES_STYLE};
use serde_json::Value;

/// A whole page around its content. The viewer's component and `report.js` draw what the data say; a policy forbids
/// the page to ask the network for anything.
pub fn document(title: &str, content: &str, data: &Value) -> String {
    // Nothing in them may end the element that holds them.
    let data = data.to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{} · multivalued</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{}{HYPOTHESES_STYLE}</style>\n</head>\n\
         <body>\n<main>\n{content}\n<footer>multivalued {} · this page is complete in itself and asks nothing of the network.</footer>\n\
         </main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{HYPOTHESES_SCRIPT}{}</script>\n\
         </body>\n</html>\n",
        escaped(title),
        include_str!("style.css"),
        env!("CARGO_PKG_VERSION"),
        include_str!("report.js"),
    )
}

/// Text for content and quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Other control characters are not allowed in HTML.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A picture's file as an address that holds the picture itself.
pub fn data_address(kind: &str, bytes: &[u8]) -> String {
    format!("data:{kind};base64,{}", base64(bytes))
}

/// Bytes as text (RFC 4648).
pub fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        for sign in 0..4 {
            match sign <= three.len() {
                true => text.push(char::from(SIGNS[(bits >> (18 - 6 * sign) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

/// A number for people: four significant digits, no more.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".into()
    } else if size >= 1000.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size >= 0.001 || size == 0.0 {
        format!("{value:.4}")
    } else {
        format!("{value:.1e}")
    }
}

/// A table of two columns, the second one a number or a fact.
pub fn fact_table(rows: &[(String, String)]) -> String {
    let row = |(name, value): &(String, String)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(name), escaped(value))
    };
    format!("<table class=\"facts\">{}</table>", rows.iter().map(row).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        assert_eq!(
            escaped("<a href=\"x\">'&'</a>\u{7}"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\u{fffd}"
        );
    }

    #[test]
    fn base64_as_the_standard_shows_it() {
        // RFC 4648, section 10.
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.033_34, "0.0333"),
            (12.345, "12.35"),
            (4.0, "4"),
            (12345.6, "12346"),
            (0.000_012, "1.2e-5"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
