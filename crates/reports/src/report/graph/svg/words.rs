//! The width of texts, and line breaks.
//!
//! The font is unknown when the picture is rendered, so widths are estimated generously.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Estimates the width of a text in pixels. `each` is the width of a normal character.
pub(super) fn estimate_text_width(text: &str, each: f64) -> f64 {
    text.width() as f64 * each
}

/// Wraps the text into at most `most` lines of at most `columns` characters. A longer text ends with an ellipsis.
pub(super) fn wrap_text(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace().flat_map(|word| split_long_word(word, columns)) {
        let space = usize::from(word.starts_a_word && !line.is_empty());
        if line.width() + space + word.text.width() > columns && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        } else if space == 1 {
            line.push(' ');
        }
        line.push_str(&word.text);
    }
    lines.push(line);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            while last.width() + 1 > columns || last.ends_with([',', ' ']) {
                last.pop();
            }
            last.push('…');
        }
    }
    lines
}

/// A word or a part of a long word in a line.
struct WordPiece {
    text: String,
    starts_a_word: bool,
}

/// Splits a word that is too long for a line: after punctuation if possible, otherwise anywhere.
fn split_long_word(word: &str, columns: usize) -> Vec<WordPiece> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while rest.width() > columns {
        let mut used_columns = 0;
        let mut end = 0;
        let mut sign = 0;
        for (at, c) in rest.char_indices() {
            used_columns += c.width().unwrap_or(0);
            if used_columns > columns {
                break;
            }
            end = at + c.len_utf8();
            if matches!(c, '_' | '-' | '.' | ',' | '(' | '[' | '/' | ':') {
                sign = end;
            }
        }
        let end = if sign > 0 { sign } else { end.max(1) };
        let end = (end..=rest.len())
            .find(|at| rest.is_char_boundary(*at))
            .unwrap_or(rest.len());
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces.push(rest);
    let words = pieces.into_iter().filter(|piece| !piece.is_empty()).enumerate();
    words
        .map(|(at, piece)| WordPiece {
            text: piece.to_owned(),
            starts_a_word: at == 0,
        })
        .collect()
}
