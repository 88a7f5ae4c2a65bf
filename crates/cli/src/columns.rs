//! Tables for a terminal of 80 columns: lines broken between words, long names shortened in the middle.

use std::io::IsTerminal;

use crate::terminal::shown;

/// What a usual terminal is wide.
const WIDTH: usize = 80;
/// What a narrow column shows of a name or a score with its interval.
const NARROW: usize = 16;
/// Between two columns.
const GAP: usize = 2;

/// Lines that are broken between words where they are too long.
pub fn wrapped(text: &str) -> String {
    text.lines().flat_map(|line| broken(line, WIDTH)).collect::<Vec<_>>().join("\n")
}

/// A line in pieces of at most `room` characters, broken between words; a word that is longer is cut.
fn broken(line: &str, room: usize) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    if length(line) <= room {
        return vec![line.to_owned()];
    }
    let mut pieces = vec![String::new()];
    for word in line.split_whitespace() {
        let mut letters = word.chars().peekable();
        while letters.peek().is_some() {
            let part: String = letters.by_ref().take(room).collect();
            match pieces.last_mut() {
                Some(last) if last.is_empty() => *last = part,
                Some(last) if length(last) + 1 + length(&part) <= room => *last = format!("{last} {part}"),
                _ => pieces.push(part),
            }
        }
    }
    pieces
}

/// A name of at most so many characters; of a longer one the middle is left out.
pub fn shortened(name: &str, most: usize) -> String {
    let name: Vec<char> = shown(name).chars().collect();
    if name.len() <= most {
        return name.into_iter().collect();
    }
    let kept = most.saturating_sub(1);
    let (head, tail) = (&name[..kept.div_ceil(2)], &name[name.len() - kept / 2..]);
    head.iter().chain(['…'].iter()).chain(tail).collect()
}

/// Lines of two columns, the first one padded. On a terminal what is too long for the second one goes on below,
/// in the same column; elsewhere a row is one line, so that it can be searched for.
pub fn two_columns(rows: &[(String, String)]) -> String {
    two_columns_within(rows, if std::io::stdout().is_terminal() { WIDTH } else { usize::MAX })
}

fn two_columns_within(rows: &[(String, String)], width: usize) -> String {
    let first = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(first + GAP).max(NARROW);
    let mut lines = Vec::new();
    for (left, right) in rows {
        for (at, part) in broken(&shown(right), room).iter().enumerate() {
            let left = if at == 0 { left } else { "" };
            lines.push(format!("{left:<first$}  {part}").trim_end().to_owned());
        }
    }
    lines.join("\n")
}

/// Columns under each other: the first row is the head. Where they are too wide for a terminal their cells are
/// shortened, and where that is not enough the columns after the first go on in further tables below.
pub fn table(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(String::new(), |text| shown(text));
    let natural: Vec<usize> = (0..count)
        .map(|column| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0))
        .collect();
    let first = natural.first().map_or(0, |&width| width.min(2 * NARROW));
    let mut tables = Vec::new();
    let mut from = 1;
    while from < count || tables.is_empty() {
        // As many columns as fit when they are narrow, at least one.
        let mut to = from;
        let mut room = WIDTH - first;
        while to < count && (to == from || room >= GAP + natural[to].min(NARROW)) {
            room = room.saturating_sub(GAP + natural[to].min(NARROW));
            to += 1;
        }
        // Then as wide as they may be together.
        let fits = |most: usize| {
            first + natural[from..to].iter().map(|&width| GAP + width.min(most)).sum::<usize>() <= WIDTH
        };
        let most = (NARROW..=WIDTH).rev().find(|&most| fits(most)).unwrap_or(NARROW);
        let line = |row: &Vec<String>| {
            let mut line = format!("{:<first$}", shortened(&cell(row, 0), first));
            for column in from..to {
                let width = natural[column].min(most);
                line += &format!("  {:<width$}", shortened(&cell(row, column), width));
            }
            line.trim_end().to_owned()
        };
        tables.push(rows.iter().map(line).collect::<Vec<_>>().join("\n"));
        from = to.max(from + 1);
    }
    tables.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn long_lines_are_broken_between_words_and_short_ones_left_alone() {
        let table = "score    mean\n  a      0.5";
        assert_eq!(wrapped(table), table);
        let words = wrapped(&"word ".repeat(40));
        assert!(words.lines().all(|line| line.len() <= 80 && !line.starts_with(' ')), "{words}");
        assert_eq!(words.split_whitespace().count(), 40);
        assert_eq!(broken("ab cdefghij kl", 4), ["ab", "cdef", "ghij", "kl"]);
    }

    #[test]
    fn a_long_value_stays_in_its_column() {
        let rows = [
            ("size".to_owned(), "1 x 1".to_owned()),
            (
                "fault".into(),
                format!("a\nb/{}.png is not what {}", "x".repeat(100), "it should be ".repeat(9)),
            ),
        ];
        let text = two_columns_within(&rows, 80);
        assert!(widest(&text) <= 80 && text.lines().count() > 3, "{text}");
        assert!(text.lines().skip(2).all(|line| line.starts_with("       ")), "{text}");
        assert!(text.contains(r"a\nb/xxx"), "{text}");
        assert_eq!(two_columns_within(&rows, usize::MAX).lines().count(), 2);
    }

    #[test]
    fn names_lose_their_middle() {
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghijk", 10), "abcde…hijk");
        assert_eq!(shortened("a\nb", 4), r"a\nb");
    }

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["a".into(), "bb".into()], vec!["ccc".into(), "d".into()]];
        assert_eq!(table(&rows), "a    bb\nccc  d");
    }

    #[test]
    fn a_table_of_any_size_fits_a_terminal() {
        let long = "a-run-with-a-name-that-says-everything-about-it-and-more";
        for columns in 1..12 {
            let name = |at: usize| format!("{long}-{at}");
            let head: Vec<String> =
                std::iter::once("score".to_owned()).chain((0..columns).map(name)).collect();
            let score = |at: usize| format!("*0.{at:04} ±0.0123");
            let row = std::iter::once("mode_probability_std".to_owned()).chain((0..columns).map(score));
            let text = table(&[head, row.collect()]);
            assert!(widest(&text) <= 80, "{text}");
            for at in 0..columns {
                assert!(text.contains(&score(at)), "every score is whole: {text}");
            }
        }
    }
}
