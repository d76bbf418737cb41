//! Writes the draft as YAML, with the comments of the old file at the new places of their keys.

use serde_json::Value;

use super::comments::PendingComments;
use super::draft::{DraftLine, DraftMap, DraftValue, ImportRemark, UnconvertedKey};
use ensemble_language::loader::document::YamlDocument;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::{SpellingContext, needs_yaml_escape, spell_on_one_line, spell_string};

/// The longest list or string that is written on one line, in bytes.
const WIDEST: usize = 90;
/// The longest key that YAML allows without a `?` mark, with a margin.
const LONGEST_KEY: usize = 500;

/// Renders the new file with the comments of the old file. `schema` is named in the first line, for editors.
pub(super) fn render_draft(
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
        comments: PendingComments::from_document(document, remarks),
        needs_blank_line: false,
    };
    writer.write_map(map, 0, false);
    let remaining_comments = writer.comments.take_comments_before(usize::MAX);
    writer.write_comments(&remaining_comments, 0);
    writer.out
}

/// Writer of the YAML text.
struct DraftWriter<'a> {
    out: String,
    text: &'a str,
    comments: PendingComments,
    /// Whether a blank line precedes the next key of the ensemble.
    needs_blank_line: bool,
}

impl DraftWriter<'_> {
    /// Writes the lines of a map. If `inline`, the first key is written on the current line, after a dash.
    fn write_map(&mut self, map: &DraftMap, indent: usize, inline: bool) {
        let mut inline = inline;
        for line in &map.lines {
            if indent == 0 {
                let new =
                    matches!(line, DraftLine::Entry { key, .. } if matches!(key.as_str(), "agents" | "model_profiles"));
                if (new || self.needs_blank_line) && !self.out.is_empty() {
                    self.out.push('\n');
                }
                self.needs_blank_line = matches!(line, DraftLine::Entry { key, .. } if key == "agents");
            }
            match line {
                DraftLine::WrittenElsewhere(from) => self.write_comments_near(*from, indent),
                DraftLine::Unconverted(lost) => self.write_unconverted(lost, indent),
                DraftLine::Entry { key, value, from } => {
                    if !inline {
                        if let Some(from) = from {
                            self.write_comments_near(*from, indent);
                        }
                        self.write_indent(indent);
                    }
                    inline = false;
                    self.write_entry(key, value, indent);
                }
            }
        }
    }

    /// Writes a key and its value.
    fn write_entry(&mut self, key: &str, value: &DraftValue, indent: usize) {
        let key = spell_string(key, SpellingContext::Block);
        if key.len() > LONGEST_KEY {
            self.out.push_str(&format!("? {key}\n"));
            self.write_indent(indent);
            self.out.push(':');
        } else {
            self.out.push_str(&format!("{key}:"));
        }
        self.write_value(value, indent);
    }

    /// Writes a value after its key, on the same line or below.
    fn write_value(&mut self, shape: &DraftValue, indent: usize) {
        match shape {
            DraftValue::Plain(value) => match expand_value(value) {
                Some(shape) => self.write_value(&shape, indent),
                None => self.write_scalar(value, indent),
            },
            DraftValue::Map(map) if has_entries(map) => {
                self.out.push('\n');
                self.write_map(map, indent + 2, false);
            }
            DraftValue::Map(map) => {
                self.out.push_str(" {}\n");
                self.write_map(map, indent + 2, false);
            }
            DraftValue::List(items) if items.is_empty() => self.out.push_str(" []\n"),
            DraftValue::List(items) => {
                self.out.push('\n');
                for (at, (item, from)) in items.iter().enumerate() {
                    self.write_item(item, *from, indent + 2, at);
                }
            }
        }
    }

    /// Writes an item of a list, with the comments before the item.
    fn write_item(&mut self, item: &DraftValue, from: Option<Span>, indent: usize, at: usize) {
        let agents = indent == 2 && at > 0 && matches!(item, DraftValue::Map(_));
        if agents {
            self.out.push('\n');
        }
        if let Some(from) = from {
            self.write_comments_near(from, indent);
        }
        match item {
            DraftValue::Plain(value) => match expand_value(value) {
                Some(item) => self.write_item(&item, None, indent, 0),
                None => {
                    self.write_indent(indent);
                    self.out.push('-');
                    self.write_scalar(value, indent);
                }
            },
            DraftValue::Map(map) if has_entries(map) => {
                // Parts that were dropped before the first key are written above the dash.
                let first = map
                    .lines
                    .iter()
                    .position(|line| matches!(line, DraftLine::Entry { .. }));
                let (before, rest) = map.lines.split_at(first.unwrap_or(0));
                for line in before {
                    if let DraftLine::Unconverted(lost) = line {
                        self.write_unconverted(lost, indent);
                    }
                }
                self.write_indent(indent);
                self.out.push_str("- ");
                let remaining_map = DraftMap { lines: rest.to_vec() };
                self.write_map(&remaining_map, indent + 2, true);
            }
            other => {
                self.write_indent(indent);
                self.out.push('-');
                self.write_value(other, indent);
            }
        }
    }

    /// Writes a value on the current line, or a long string as a block below.
    fn write_scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) if is_block(text) => {
                self.out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
                for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                    if !line.is_empty() {
                        self.write_indent(indent + 2);
                        self.out.push_str(line);
                    }
                    self.out.push('\n');
                }
            }
            Value::String(text) if is_folded(text) => {
                self.out.push_str(if text.ends_with('\n') { " >" } else { " >-" });
                let mut column = WIDEST;
                for word in text.trim_end_matches('\n').split(' ') {
                    if column + word.len() >= WIDEST {
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
            value => self.out.push_str(&format!(" {}\n", flow_text(value))),
        }
    }

    /// Writes the comment that replaces a key, after the comments above the key.
    fn write_unconverted(&mut self, lost: &UnconvertedKey, indent: usize) {
        let above = self.comments.take_comments_before(lost.from.start);
        self.write_comments(&above, indent);
        self.comments.skip_comments_in(lost.covered_span);
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
        self.write_comments(&comments, indent);
    }

    /// Writes comments, each on a line.
    fn write_comments(&mut self, comments: &[String], indent: usize) {
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
fn has_entries(map: &DraftMap) -> bool {
    map.lines.iter().any(|line| matches!(line, DraftLine::Entry { .. }))
}

/// Returns a value that needs several lines as a map or a list. Returns `None` for a value that fits one line.
fn expand_value(value: &Value) -> Option<DraftValue> {
    match value {
        Value::Object(map) if !map.is_empty() => Some(DraftValue::Map(DraftMap {
            lines: map
                .iter()
                .map(|(key, value)| DraftLine::new_entry(key, DraftValue::Plain(value.clone()), None))
                .collect(),
        })),
        Value::Array(items) if !items.is_empty() => {
            let short =
                items.iter().all(|item| !item.is_array() && !item.is_object()) && flow_text(value).len() <= WIDEST;
            let item = |item: &Value| (DraftValue::Plain(item.clone()), None);
            (!short).then(|| DraftValue::List(items.iter().map(item).collect()))
        }
        _ => None,
    }
}

/// Renders a value on one line.
fn flow_text(value: &Value) -> String {
    spell_on_one_line(value, SpellingContext::Block)
}

/// Returns whether the string is a long line that is more readable on several lines.
fn is_folded(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.len() > WIDEST
        && !body.contains(needs_yaml_escape)
        && !body.starts_with([' ', '#'])
        && !body.ends_with(' ')
        && !body.contains("  ")
}

/// Returns whether the string is more readable as a block below its key, and can be written there unchanged.
fn is_block(text: &str) -> bool {
    let odd = |c: char| needs_yaml_escape(c) && !matches!(c, '\n' | '\t');
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.contains(odd)
        && !text.lines().any(|line| line.starts_with('\t'))
        && body.lines().next_back().is_some_and(|line| !line.trim().is_empty())
}
