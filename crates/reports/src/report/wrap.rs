//! The wrapping of lines for a terminal: between words, with a hanging indent.
//!
//! Only output to a terminal is wrapped. Output to a pipe keeps its lines, so that programs can rely on them.
//! Preformatted lines are never changed: lines that begin with a blank, code blocks and tables.
//! Texts arrive in pieces while a model writes, so the wrapper keeps the last, unfinished word until it is complete.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::sanitized_writer::{StreamTextEscaper, escape_text};

/// The maximum line length, even on a wider terminal: long lines are hard to read.
const MAX_COLUMNS: usize = 80;

/// The minimum width of the parts of a line.
const MIN_COLUMNS: usize = 20;

/// The additional indent of the second and later rows of sentences of the program.
const LATER_ROW_INDENT: usize = 2;

/// The maximum length of the lines of a stream. `UNLIMITED` breaks no lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineWidth(Option<usize>);

impl LineWidth {
    /// The width of a stream that is not a terminal. Lines are never broken.
    pub const UNLIMITED: Self = Self(None);

    /// Returns the width for a terminal with this number of columns. Returns 80 columns if the terminal does not report its width.
    pub fn for_terminal(columns: Option<u16>) -> Self {
        let columns = columns.map_or(MAX_COLUMNS, usize::from);
        Self(Some(columns.clamp(MIN_COLUMNS, MAX_COLUMNS)))
    }

    /// Wraps lines of the program. Later rows of a line are indented by two more columns.
    pub fn wrap_sentences(self, text: &str) -> String {
        self.wrap_lines(text, false)
    }

    /// Wraps a question, and also breaks words that are too long for a row, so that no row starts at the left margin.
    pub fn wrap_question(self, text: &str) -> String {
        self.wrap_lines(text, true)
    }

    /// Escapes the text and wraps each of its lines.
    fn wrap_lines(self, text: &str, breaks_words: bool) -> String {
        let text = &escape_text(text);
        if self.0.is_none() {
            return text.to_owned();
        }
        let mut wrapped = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let trimmed_line = line.trim_start_matches(' ');
            let mut wrapper = TextWrapper::new(self, line.len() - trimmed_line.len());
            wrapper.kind = WrappedLineKind::Sentence;
            wrapper.breaks_words = breaks_words;
            wrapper.push_text(trimmed_line, &mut wrapped);
            wrapper.finish_text(&mut wrapped);
        }
        wrapped
    }

    /// Escapes, indents and wraps a text of another source. Every line ends with a line break.
    pub fn wrap_block(self, text: &str, indent: usize) -> String {
        let text = &escape_text(text);
        if self.0.is_none() {
            let line = |line: &str| format!("{:indent$}{line}\n", "");
            return text.lines().map(line).collect();
        }
        let mut wrapped = String::with_capacity(text.len());
        let mut wrapper = TextWrapper::new(self, indent);
        for line in text.lines() {
            wrapper.push_text(line, &mut wrapped);
            wrapper.push_text("\n", &mut wrapped);
        }
        wrapped
    }
}

/// The kind of a line, which decides how the line is wrapped and how later rows are indented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrappedLineKind {
    /// The first word has not been read.
    Unknown,
    /// One of our own sentences.
    Sentence,
    /// Text, which may be wrapped.
    Words,
    /// Preformatted text, which is not changed.
    Verbatim,
}

/// A wrapper that breaks a text that arrives in pieces into rows.
#[derive(Debug)]
pub(super) struct TextWrapper {
    width: LineWidth,
    /// The columns before every row.
    indent: usize,
    /// The additional columns before later rows of the same line.
    later_indent: usize,
    kind: WrappedLineKind,
    /// The columns that the current row contains; 0: the row is empty.
    column: usize,
    /// The blanks after the last word, which are written before the next word unless a new row starts there.
    blanks: String,
    /// A word whose end has not been read.
    word: String,
    /// The marks that opened the current code block.
    fence: Option<String>,
    speller: StreamTextEscaper,
    /// True if a word that is longer than a row is broken.
    breaks_words: bool,
}

impl TextWrapper {
    /// Creates a wrapper whose rows start with this number of blanks.
    pub(super) fn new(width: LineWidth, indent: usize) -> Self {
        Self {
            width,
            indent,
            later_indent: 0,
            kind: WrappedLineKind::Unknown,
            column: 0,
            blanks: String::new(),
            word: String::new(),
            fence: None,
            speller: StreamTextEscaper::default(),
            breaks_words: false,
        }
    }

    /// Adds a piece of the text, and writes all complete words.
    pub(super) fn push_text(&mut self, text: &str, out: &mut String) {
        let text = &self.speller.escape_chunk(text);
        if self.width.0.is_none() {
            for line in text.split_inclusive('\n') {
                self.write_unwrapped(line.trim_end_matches('\n'), out);
                if line.ends_with('\n') {
                    self.write_line_break(out);
                }
            }
            return;
        }
        for character in text.chars() {
            match character {
                '\n' => {
                    self.write_pending_word(out);
                    self.write_line_break(out);
                }
                ' ' | '\t' if self.kind == WrappedLineKind::Unknown && self.word.is_empty() => {
                    self.kind = WrappedLineKind::Verbatim;
                    self.write_unwrapped(character.encode_utf8(&mut [0; 4]), out);
                }
                _ if self.kind == WrappedLineKind::Verbatim => {
                    self.write_unwrapped(character.encode_utf8(&mut [0; 4]), out)
                }
                ' ' | '\t' => {
                    self.write_pending_word(out);
                    if self.kind == WrappedLineKind::Verbatim {
                        self.write_unwrapped(character.encode_utf8(&mut [0; 4]), out);
                    } else {
                        self.blanks.push(' ');
                    }
                }
                character => {
                    if can_break_before(&self.word, character) {
                        self.write_pending_word(out);
                    }
                    self.word.push(character);
                }
            }
        }
    }

    /// Writes the last word. The next piece starts a new line of the text.
    pub(super) fn finish_text(&mut self, out: &mut String) {
        self.write_pending_word(out);
        self.blanks.clear();
        self.kind = WrappedLineKind::Unknown;
    }

    /// Ends the current line, if there is one.
    pub(super) fn close_line(&mut self, out: &mut String) {
        self.finish_text(out);
        if self.column > 0 {
            self.write_line_break(out);
        }
    }

    /// Writes a line break, drops pending blanks and resets the state of the line.
    fn write_line_break(&mut self, out: &mut String) {
        out.push('\n');
        self.column = 0;
        self.later_indent = 0;
        self.blanks.clear();
        self.kind = WrappedLineKind::Unknown;
    }

    /// Writes text without wrapping.
    fn write_unwrapped(&mut self, text: &str, out: &mut String) {
        if text.is_empty() {
            return;
        }
        if self.column == 0 {
            self.write_row_indent(self.indent, out);
        }
        out.push_str(text);
        self.column += 1;
    }

    /// Writes the indent of a row.
    fn write_row_indent(&mut self, indent: usize, out: &mut String) {
        out.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
    }

    /// Writes the pending word, after a row break if it does not fit.
    fn write_pending_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if self.column == 0 && self.kind != WrappedLineKind::Verbatim {
            self.detect_line_kind(&word);
        }
        if self.kind == WrappedLineKind::Verbatim {
            self.write_unwrapped(&word, out);
            return;
        }
        let max_columns = self.width.0.unwrap_or(usize::MAX);
        let columns = display_width(&word);
        let has_words = self.column > self.indent;
        if self.column == 0 {
            self.write_row_indent(self.indent, out);
        } else if has_words && self.column + self.blanks.len() + columns > max_columns {
            out.push('\n');
            self.write_row_indent(self.indent + self.later_indent, out);
        } else {
            out.push_str(&self.blanks);
            self.column += self.blanks.len();
        }
        self.blanks.clear();
        if self.breaks_words && self.column + columns > max_columns {
            return self.write_word_in_pieces(&word, max_columns, out);
        }
        out.push_str(&word);
        self.column += columns;
    }

    /// Writes a word that does not fit into a row, broken into several rows.
    fn write_word_in_pieces(&mut self, word: &str, most: usize, out: &mut String) {
        for character in word.chars() {
            let columns = character.width().unwrap_or(0);
            if self.column + columns > most {
                out.push('\n');
                self.write_row_indent(self.indent + self.later_indent, out);
            }
            out.push(character);
            self.column += columns;
        }
    }

    /// Determines the kind of the line from its first word.
    fn detect_line_kind(&mut self, word: &str) {
        if self.kind == WrappedLineKind::Sentence {
            self.later_indent = LATER_ROW_INDENT;
            return;
        }
        let marks: String = word.chars().take_while(|c| matches!(c, '`' | '~')).collect();
        let is_fence = marks.len() >= 3 && (marks.starts_with("```") || marks.starts_with("~~~"));
        let was_inside = self.fence.is_some();
        if is_fence {
            match &self.fence {
                Some(open) if marks.starts_with(open.as_str()) => self.fence = None,
                Some(_) => {}
                None => self.fence = Some(marks),
            }
        }
        self.kind = match is_fence || was_inside || word.starts_with('|') {
            true => WrappedLineKind::Verbatim,
            false => WrappedLineKind::Words,
        };
        self.later_indent = later_row_indent(word);
    }
}

/// Returns the indent of later rows after this first word: below the text of a list item, or a little more after `key:`.
fn later_row_indent(word: &str) -> usize {
    let is_bullet = matches!(word, "-" | "*" | "+" | "•" | "·" | "–" | ">");
    let digits = word.trim_end_matches(['.', ')']);
    let is_number = digits.len() + 1 == word.len() && digits.len() < 4 && digits.bytes().all(|b| b.is_ascii_digit());
    if is_bullet || (is_number && !digits.is_empty()) {
        return word.width() + 1;
    }
    // Our own label, with a style.
    if word.starts_with('\u{1b}') {
        LATER_ROW_INDENT
    } else {
        0
    }
}

/// Returns whether a row can end between the word and this character without a blank: next to characters with two columns.
///
/// Closing punctuation and combined characters are excluded.
fn can_break_before(word: &str, next: char) -> bool {
    let Some(last) = word.chars().next_back() else {
        return false;
    };
    let is_wide = |character: char| character.width() == Some(2);
    let closes = "、。，．！？：；）］｝」』】〉》〕ー々…";
    let opens = "（［｛「『【〈《〔";
    let joins = last == '\u{200d}' || next.width() == Some(0) || closes.contains(next) || opens.contains(last);
    (is_wide(last) || is_wide(next)) && !joins
}

/// Indents all lines after the first one, so that no other line starts at the left margin.
pub fn indent_later_lines(text: &str) -> String {
    let text = escape_text(text);
    let mut lines = text.trim_end().split('\n');
    let mut hanging = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let indent = if line.is_empty() || line.starts_with(' ') {
            ""
        } else {
            "  "
        };
        hanging.push_str(&format!("\n{indent}{line}"));
    }
    hanging
}

/// Returns the columns of a word on a terminal, without styles.
pub(super) fn display_width(word: &str) -> usize {
    if word.contains('\u{1b}') {
        return anstream::adapter::strip_str(word).to_string().width();
    }
    word.width()
}

/// Returns the start of a text up to this number of columns, with an ellipsis if it was shortened.
pub(super) fn truncate_to_width(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        if short.width() + character.width().unwrap_or(0) + 1 > most {
            break;
        }
        short.push(character);
    }
    short + "…"
}

#[cfg(test)]
mod tests;
