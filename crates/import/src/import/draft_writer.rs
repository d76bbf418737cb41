//! Writes the draft as YAML, with the comments of the old file at the new places of their keys.

use serde_json::Value;

use super::comments::UnwrittenComments;
use super::draft::{DraftMap, DraftMapLine, DraftValue, ImportRemark, UnconvertedKeyComment};
use ensemble_language::loader::document::YamlDocument;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::{SpellingContext, needs_yaml_escape, spell_on_one_line, spell_string};

/// The longest list or string that is written on one line, in bytes.
const MAX_LINE_BYTES: usize = 90;
/// The longest key that YAML allows without a `?` mark, with a margin.
const MAX_KEY_BYTES: usize = 500;

/// Renders the new file with the comments of the old file. `schema` is named in the first line, for editors.
pub(super) fn render_draft_as_yaml(
    map: &DraftMap,
    document: &YamlDocument,
    remarks: &[ImportRemark],
    schema: Option<&str>,
) -> String {
    let mut writer = DraftWriter {
        out: schema.map_or_else(String::new, |schema| {
            format!("# yaml-language-server: $schema={schema}\n")
        }),
        text: document.source().text(),
        comments: UnwrittenComments::from_document_and_remarks(document, remarks),
        needs_blank_line: false,
    };
    writer.write_map_lines(map, 0, false);
    let remaining_comments = writer.comments.take_comments_before(usize::MAX);
    writer.write_comment_lines(&remaining_comments, 0);
    writer.out
}

/// Writer of the YAML text.
struct DraftWriter<'a> {
    out: String,
    text: &'a str,
    comments: UnwrittenComments,
    /// Whether a blank line precedes the next key of the ensemble.
    needs_blank_line: bool,
}

impl DraftWriter<'_> {
    /// Writes the lines of a map. If `inline`, the first key is written on the current line, after a dash.
    fn write_map_lines(&mut self, map: &DraftMap, indent: usize, inline: bool) {
        let mut inline = inline;
        for line in &map.lines {
            if indent == 0 {
                let new = matches!(line, DraftMapLine::Entry { key, .. } if matches!(key.as_str(), "agents" | "model_profiles"));
                if (new || self.needs_blank_line) && !self.out.is_empty() {
                    self.out.push('\n');
                }
                self.needs_blank_line = matches!(line, DraftMapLine::Entry { key, .. } if key == "agents");
            }
            match line {
                DraftMapLine::WrittenElsewhere(from) => self.write_comments_near(*from, indent),
                DraftMapLine::Unconverted(lost) => self.write_comment_of_key(lost, indent),
                DraftMapLine::Entry { key, value, from } => {
                    if !inline {
                        if let Some(from) = from {
                            self.write_comments_near(*from, indent);
                        }
                        self.write_indent(indent);
                    }
                    inline = false;
                    self.write_key_and_value(key, value, indent);
                }
            }
        }
    }

    /// Writes a key and its value.
    fn write_key_and_value(&mut self, key: &str, value: &DraftValue, indent: usize) {
        let key = spell_string(key, SpellingContext::Block);
        if key.len() > MAX_KEY_BYTES {
            self.out.push_str(&format!("? {key}\n"));
            self.write_indent(indent);
            self.out.push(':');
        } else {
            self.out.push_str(&format!("{key}:"));
        }
        self.write_value_after_key(value, indent);
    }

    /// Writes a value after its key, on the same line or below.
    fn write_value_after_key(&mut self, shape: &DraftValue, indent: usize) {
        match shape {
            DraftValue::Plain(value) => match expand_multiline_value(value) {
                Some(shape) => self.write_value_after_key(&shape, indent),
                None => self.write_single_value(value, indent),
            },
            DraftValue::Map(map) if has_entry_lines(map) => {
                self.out.push('\n');
                self.write_map_lines(map, indent + 2, false);
            }
            DraftValue::Map(map) => {
                self.out.push_str(" {}\n");
                self.write_map_lines(map, indent + 2, false);
            }
            DraftValue::List(items) if items.is_empty() => self.out.push_str(" []\n"),
            DraftValue::List(items) => {
                self.out.push('\n');
                for (at, (item, from)) in items.iter().enumerate() {
                    self.write_list_item(item, *from, indent + 2, at);
                }
            }
        }
    }

    /// Writes an item of a list, with the comments before the item.
    fn write_list_item(&mut self, item: &DraftValue, from: Option<Span>, indent: usize, at: usize) {
        let agents = indent == 2 && at > 0 && matches!(item, DraftValue::Map(_));
        if agents {
            self.out.push('\n');
        }
        if let Some(from) = from {
            self.write_comments_near(from, indent);
        }
        match item {
            DraftValue::Plain(value) => match expand_multiline_value(value) {
                Some(item) => self.write_list_item(&item, None, indent, 0),
                None => {
                    self.write_indent(indent);
                    self.out.push('-');
                    self.write_single_value(value, indent);
                }
            },
            DraftValue::Map(map) if has_entry_lines(map) => {
                // Parts that were dropped before the first key are written above the dash.
                let first = map
                    .lines
                    .iter()
                    .position(|line| matches!(line, DraftMapLine::Entry { .. }));
                let (before, rest) = map.lines.split_at(first.unwrap_or(0));
                for line in before {
                    if let DraftMapLine::Unconverted(lost) = line {
                        self.write_comment_of_key(lost, indent);
                    }
                }
                self.write_indent(indent);
                self.out.push_str("- ");
                let remaining_map = DraftMap { lines: rest.to_vec() };
                self.write_map_lines(&remaining_map, indent + 2, true);
            }
            other => {
                self.write_indent(indent);
                self.out.push('-');
                self.write_value_after_key(other, indent);
            }
        }
    }

    /// Writes a value on the current line, or a long string as a block below.
    fn write_single_value(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) if should_be_block(text) => {
                self.out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
                for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                    if !line.is_empty() {
                        self.write_indent(indent + 2);
                        self.out.push_str(line);
                    }
                    self.out.push('\n');
                }
            }
            Value::String(text) if should_be_folded(text) => {
                self.out.push_str(if text.ends_with('\n') { " >" } else { " >-" });
                let mut column = MAX_LINE_BYTES;
                for word in text.trim_end_matches('\n').split(' ') {
                    if column + word.len() >= MAX_LINE_BYTES {
                        self.out.push('\n');
                        self.write_indent(indent + 2);
                        column = 0;
                    } else {
                        self.out.push(' ');
                    }
                    self.out.push_str(word);
                    column += word.len() + 1;
                }
                self.out.push('\n');
            }
            value => self.out.push_str(&format!(" {}\n", render_on_one_line(value))),
        }
    }

    /// Writes the comment that replaces a key, after the comments above the key.
    fn write_comment_of_key(&mut self, lost: &UnconvertedKeyComment, indent: usize) {
        let above = self.comments.take_comments_before(lost.from.start);
        self.write_comment_lines(&above, indent);
        self.comments.skip_comments_in_span(lost.covered_span);
        for line in &lost.lines {
            self.write_indent(indent);
            self.out.push_str(format!("# {line}").trim_end());
            self.out.push('\n');
        }
    }

    /// Writes the comments above the key and on its line.
    fn write_comments_near(&mut self, from: Span, indent: usize) {
        let remaining_text = &self.text[from.start..];
        let line_end = from.start + remaining_text.find('\n').unwrap_or(remaining_text.len());
        let comments = self.comments.take_comments_before(line_end);
        self.write_comment_lines(&comments, indent);
    }

    /// Writes comments, each on a line.
    fn write_comment_lines(&mut self, comments: &[String], indent: usize) {
        for comment in comments {
            self.write_indent(indent);
            self.out.push_str(comment);
            self.out.push('\n');
        }
    }

    /// Writes spaces.
    fn write_indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// Returns whether the map has an entry, and not only comments.
fn has_entry_lines(map: &DraftMap) -> bool {
    map.lines.iter().any(|line| matches!(line, DraftMapLine::Entry { .. }))
}

/// Returns a value that needs several lines as a map or a list. Returns `None` for a value that fits one line.
fn expand_multiline_value(value: &Value) -> Option<DraftValue> {
    match value {
        Value::Object(map) if !map.is_empty() => Some(DraftValue::Map(DraftMap {
            lines: map
                .iter()
                .map(|(key, value)| DraftMapLine::new_entry(key, DraftValue::Plain(value.clone()), None))
                .collect(),
        })),
        Value::Array(items) if !items.is_empty() => {
            let short = items.iter().all(|item| !item.is_array() && !item.is_object())
                && render_on_one_line(value).len() <= MAX_LINE_BYTES;
            let item = |item: &Value| (DraftValue::Plain(item.clone()), None);
            (!short).then(|| DraftValue::List(items.iter().map(item).collect()))
        }
        _ => None,
    }
}

/// Renders a value on one line.
fn render_on_one_line(value: &Value) -> String {
    spell_on_one_line(value, SpellingContext::Block)
}

/// Returns whether the string is a long line that is more readable on several lines.
fn should_be_folded(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.len() > MAX_LINE_BYTES
        && !body.contains(needs_yaml_escape)
        && !body.starts_with([' ', '#'])
        && !body.ends_with(' ')
        && !body.contains("  ")
}

/// Returns whether the string is more readable as a block below its key, and can be written there unchanged.
fn should_be_block(text: &str) -> bool {
    let odd = |c: char| needs_yaml_escape(c) && !matches!(c, '\n' | '\t');
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.contains(odd)
        && !text.lines().any(|line| line.starts_with('\t'))
        && body.lines().next_back().is_some_and(|line| !line.trim().is_empty())
}
