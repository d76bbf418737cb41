//! The text of a file as the page has it, and back.
//!
//! A field of a browser knows one line end only. **Invariant:** a text that is shown and written again without a change has
//! the same bytes, and a line that was not changed keeps its line end.

use ensemble_language::data::{split_byte_order_mark, strip_byte_order_mark};

/// Returns the text without a byte order mark, with `\n` as line end.
pub(super) fn to_page_text(disk: &str) -> String {
    let text = strip_byte_order_mark(disk);
    match text.contains('\r') {
        true => text.replace("\r\n", "\n").replace('\r', "\n"),
        false => text.to_owned(),
    }
}

/// Returns the text of the page with the byte order mark and the line ends of the file.
pub(super) fn to_disk_text(disk: &str, page: &str) -> String {
    let (mark, disk) = split_byte_order_mark(disk);
    if !disk.contains('\r') {
        return format!("{mark}{page}");
    }
    let old = split_lines_with_ends(disk);
    let count = |end: &str| old.iter().filter(|line| line.1 == end).count();
    // Of ends that are equally frequent, the last one of these.
    let usual = ["\r", "\n", "\r\n"]
        .into_iter()
        .max_by_key(|end| count(end))
        .unwrap_or("\n");
    if count(usual) == old.iter().filter(|line| !line.1.is_empty()).count() {
        return format!("{mark}{}", page.replace('\n', usual));
    }
    let new = split_lines_with_ends(page);
    let mut ends: Vec<&str> = vec![usual; new.len()];
    // A line in the place of another one keeps its end, too.
    for same in ensemble_diff::find_matching_lines(&lines_without_ends(&old), &lines_without_ends(&new)) {
        for (before, after) in same.before.zip(same.after) {
            ends[after] = old[before].1;
        }
    }
    let mut text = mark.to_owned();
    for ((line, end), kept) in new.iter().zip(ends) {
        text.push_str(line);
        // The last line of either text may have no end.
        text.push_str(match (end.is_empty(), kept.is_empty()) {
            (true, _) => "",
            (false, true) => usual,
            (false, false) => kept,
        });
    }
    text
}

/// Returns the lines without their ends.
fn lines_without_ends<'t>(lines: &[(&'t str, &'t str)]) -> Vec<&'t str> {
    lines.iter().map(|(text, _)| *text).collect()
}

/// Splits a text into lines, each with its end. The last line has none.
fn split_lines_with_ends(text: &str) -> Vec<(&str, &str)> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r']) {
        let length = if rest[at..].starts_with("\r\n") { 2 } else { 1 };
        lines.push((&rest[..at], &rest[at..at + length]));
        rest = &rest[at + length..];
    }
    lines.push((rest, ""));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_keeps_its_end() {
        for (disk, page, expected) in [
            ("a\nb\n", "a\nx\n", "a\nx\n"),
            ("a\r\nb\r\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
            ("\u{feff}a\r\nb", "a\nb\n", "\u{feff}a\r\nb\r\n"),
            ("\u{feff}a\n", "b\n", "\u{feff}b\n"),
            ("a\nb\r\nc\r\nd\n", "a\nb\nx\nc\nd\n", "a\nb\r\nx\r\nc\r\nd\n"),
            ("a\nb\nc\r\n", "a\nb\nx\n", "a\nb\nx\r\n"),
            ("a\rb\r\nc\n", "a\nb\nc\n", "a\rb\r\nc\n"),
            ("a\nb\r\nc", "a\nb\nc\n", "a\nb\r\nc\r\n"),
            ("", "a\n", "a\n"),
        ] {
            assert_eq!(to_disk_text(disk, page), expected, "{disk:?} {page:?}");
            assert_eq!(to_disk_text(disk, &to_page_text(disk)), disk);
        }
    }
}
