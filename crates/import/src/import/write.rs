//! Writes the draft as YAML, with the comments of the old file at the new places of their keys.

use serde_json::Value;

use super::comments::Comments;
use super::draft::{Line, Lost, Map, Remark, Shape};
use ensemble_language::loader::document::Document;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::{Style, is_odd, spell_flow, spell_text};

/// The longest list or string that is written on one line, in bytes.
const WIDEST: usize = 90;
/// The longest key that YAML allows without a `?` mark, with a margin.
const LONGEST_KEY: usize = 500;

/// Writes the new file; `schema` is the schema for editors, named in the first line.
pub(super) fn write(map: &Map, document: &Document, remarks: &[Remark], schema: Option<&str>) -> String {
    let mut writer = Writer {
        out: schema.map_or_else(String::new, |schema| {
            format!("# yaml-language-server: $schema={schema}\n")
        }),
        text: document.source().text(),
        comments: Comments::of(document, remarks),
        apart: false,
    };
    writer.map(map, 0, false);
    let rest = writer.comments.until(usize::MAX);
    writer.say(&rest, 0);
    writer.out
}

struct Writer<'a> {
    out: String,
    text: &'a str,
    comments: Comments,
    /// Whether a blank line precedes the next key of the ensemble.
    apart: bool,
}

impl Writer<'_> {
    /// `inline`: the first key is written on the current line, after a dash.
    fn map(&mut self, map: &Map, indent: usize, inline: bool) {
        let mut inline = inline;
        for line in &map.lines {
            if indent == 0 {
                let new =
                    matches!(line, Line::Entry { key, .. } if matches!(key.as_str(), "agents" | "model_profiles"));
                if (new || self.apart) && !self.out.is_empty() {
                    self.out.push('\n');
                }
                self.apart = matches!(line, Line::Entry { key, .. } if key == "agents");
            }
            match line {
                Line::Pass(from) => self.comments_of(*from, indent),
                Line::Lost(lost) => self.lost(lost, indent),
                Line::Entry { key, value, from } => {
                    if !inline {
                        if let Some(from) = from {
                            self.comments_of(*from, indent);
                        }
                        self.pad(indent);
                    }
                    inline = false;
                    self.entry(key, value, indent);
                }
            }
        }
    }

    fn entry(&mut self, key: &str, value: &Shape, indent: usize) {
        let key = spell_text(key, Style::Block);
        if key.len() > LONGEST_KEY {
            self.out.push_str(&format!("? {key}\n"));
            self.pad(indent);
            self.out.push(':');
        } else {
            self.out.push_str(&format!("{key}:"));
        }
        self.shape(value, indent);
    }

    /// A value behind its key.
    fn shape(&mut self, shape: &Shape, indent: usize) {
        match shape {
            Shape::Plain(value) => match expanded(value) {
                Some(shape) => self.shape(&shape, indent),
                None => self.scalar(value, indent),
            },
            Shape::Map(map) if has_entries(map) => {
                self.out.push('\n');
                self.map(map, indent + 2, false);
            }
            Shape::Map(map) => {
                self.out.push_str(" {}\n");
                self.map(map, indent + 2, false);
            }
            Shape::List(items) if items.is_empty() => self.out.push_str(" []\n"),
            Shape::List(items) => {
                self.out.push('\n');
                for (at, (item, from)) in items.iter().enumerate() {
                    self.item(item, *from, indent + 2, at);
                }
            }
        }
    }

    fn item(&mut self, item: &Shape, from: Option<Span>, indent: usize, at: usize) {
        let agents = indent == 2 && at > 0 && matches!(item, Shape::Map(_));
        if agents {
            self.out.push('\n');
        }
        if let Some(from) = from {
            self.comments_of(from, indent);
        }
        match item {
            Shape::Plain(value) => match expanded(value) {
                Some(item) => self.item(&item, None, indent, 0),
                None => {
                    self.pad(indent);
                    self.out.push('-');
                    self.scalar(value, indent);
                }
            },
            Shape::Map(map) if has_entries(map) => {
                // Parts that were dropped before the first key are written above the dash.
                let first = map.lines.iter().position(|line| matches!(line, Line::Entry { .. }));
                let (before, rest) = map.lines.split_at(first.unwrap_or(0));
                for line in before {
                    if let Line::Lost(lost) = line {
                        self.lost(lost, indent);
                    }
                }
                self.pad(indent);
                self.out.push_str("- ");
                let rest = Map { lines: rest.to_vec() };
                self.map(&rest, indent + 2, true);
            }
            other => {
                self.pad(indent);
                self.out.push('-');
                self.shape(other, indent);
            }
        }
    }

    /// A value on its line, or a string below it.
    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) if is_block(text) => {
                self.out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
                for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                    if !line.is_empty() {
                        self.pad(indent + 2);
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
                        self.pad(indent + 2);
                        column = 0;
                    } else {
                        self.out.push(' ');
                    }
                    self.out.push_str(word);
                    column += word.len() + 1;
                }
                self.out.push('\n');
            }
            value => self.out.push_str(&format!(" {}\n", flow(value))),
        }
    }

    fn lost(&mut self, lost: &Lost, indent: usize) {
        let above = self.comments.until(lost.from.start);
        self.say(&above, indent);
        self.comments.skip(lost.covers);
        for line in &lost.lines {
            self.pad(indent);
            self.out.push_str(format!("# {line}").trim_end());
            self.out.push('\n');
        }
    }

    /// The comments above a key and behind it.
    fn comments_of(&mut self, from: Span, indent: usize) {
        let rest = &self.text[from.start..];
        let line_end = from.start + rest.find('\n').unwrap_or(rest.len());
        let comments = self.comments.until(line_end);
        self.say(&comments, indent);
    }

    fn say(&mut self, comments: &[String], indent: usize) {
        for comment in comments {
            self.pad(indent);
            self.out.push_str(comment);
            self.out.push('\n');
        }
    }

    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn has_entries(map: &Map) -> bool {
    map.lines.iter().any(|line| matches!(line, Line::Entry { .. }))
}

/// A value that needs several lines.
fn expanded(value: &Value) -> Option<Shape> {
    match value {
        Value::Object(map) if !map.is_empty() => Some(Shape::Map(Map {
            lines: map
                .iter()
                .map(|(key, value)| Line::entry(key, Shape::Plain(value.clone()), None))
                .collect(),
        })),
        Value::Array(items) if !items.is_empty() => {
            let short = items.iter().all(|item| !item.is_array() && !item.is_object()) && flow(value).len() <= WIDEST;
            let item = |item: &Value| (Shape::Plain(item.clone()), None);
            (!short).then(|| Shape::List(items.iter().map(item).collect()))
        }
        _ => None,
    }
}

/// A value on one line.
fn flow(value: &Value) -> String {
    spell_flow(value, Style::Block)
}

/// Returns whether it is one long line that is more readable on several lines.
fn is_folded(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.len() > WIDEST
        && !body.contains(is_odd)
        && !body.starts_with([' ', '#'])
        && !body.ends_with(' ')
        && !body.contains("  ")
}

/// Returns whether the string is more readable below its key, and can be written there unchanged.
fn is_block(text: &str) -> bool {
    let odd = |c: char| is_odd(c) && !matches!(c, '\n' | '\t');
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.contains(odd)
        && !text.lines().any(|line| line.starts_with('\t'))
        && body.lines().next_back().is_some_and(|line| !line.trim().is_empty())
}
