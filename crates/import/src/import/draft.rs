//! The new file before it is written: values with their places in the old file, and the parts that were not converted.

use serde_json::Value;

use ensemble_language::loader::document::YamlEntry;
use ensemble_language::source::{SourceText, Span};
use ensemble_language::yaml::edit::needs_yaml_escape;

/// Map of the new file.
#[derive(Debug, Clone, Default)]
pub(super) struct DraftMap {
    pub(super) lines: Vec<DraftMapLine>,
}

/// Line of a map in the new file: an entry, a comment, or the place of an old key.
#[derive(Debug, Clone)]
pub(super) enum DraftMapLine {
    /// A key and its value; `from` is the old key.
    Entry {
        key: String,
        value: DraftValue,
        from: Option<Span>,
    },
    /// A part that was not converted.
    Unconverted(UnconvertedKeyComment),
    /// An old key that is written elsewhere; the comments above it are written here.
    WrittenElsewhere(Span),
}

/// Value of the new file, with positions in the old file.
#[derive(Debug, Clone)]
pub(super) enum DraftValue {
    Plain(Value),
    Map(DraftMap),
    /// The items, each with its place in the old file.
    List(Vec<(DraftValue, Option<Span>)>),
}

/// Comment that replaces a key that was not converted.
#[derive(Debug, Clone)]
pub(super) struct UnconvertedKeyComment {
    /// The old key.
    pub(super) from: Span,
    /// The range of the old file that it covers; comments in this range are part of the text.
    pub(super) covered_span: Span,
    /// The lines of the comment.
    pub(super) lines: Vec<String>,
}

impl UnconvertedKeyComment {
    /// Creates the comment with the reason, the replacement and the text of the key.
    pub(super) fn for_entry(source: &SourceText, entry: &YamlEntry, why: &str, instead: &str) -> Self {
        let covers = Span::new(entry.key_span.start, entry.value.span.end.max(entry.key_span.end));
        // An alias is at another place than its value.
        let covered_span = if entry.value.span.start < entry.key_span.end {
            entry.key_span
        } else {
            covers
        };
        let mut lines = vec![format!("not converted: {why}"), format!("  {instead}")];
        let column = source.line_column(covered_span.start).column - 1;
        for line in source.text()[covered_span.start..covered_span.end].trim_end().lines() {
            let blanks = line.chars().take_while(|c| *c == ' ').take(column).count();
            lines.push(format!("  | {}", line[blanks..].trim_end()));
        }
        Self {
            from: entry.key_span,
            covered_span,
            lines: lines.iter().map(|line| to_comment_line(line)).collect(),
        }
    }
}

/// Comment of the import near a position of the old file.
#[derive(Debug, Clone)]
pub(super) struct ImportRemark {
    /// The byte in the old file; beyond its end for places in other files.
    pub(super) at: usize,
    pub(super) lines: Vec<String>,
}

impl ImportRemark {
    /// Creates the remark about a finding: the problem, and its solution.
    pub(super) fn new(at: usize, message: &str, help: &str) -> Self {
        Self {
            at,
            lines: vec![
                to_comment_line(&format!("look at this: {message}")),
                to_comment_line(&format!("  {help}")),
            ],
        }
    }
}

/// Replaces characters that would end the comment, or that YAML does not allow, by spaces.
fn to_comment_line(text: &str) -> String {
    text.chars()
        .map(|c| if needs_yaml_escape(c) { ' ' } else { c })
        .collect()
}

impl DraftMap {
    /// Adds an entry with a JSON value. `from` is the position of the old key.
    pub(super) fn put_plain_value(&mut self, key: &str, value: impl Into<Value>, from: Option<Span>) {
        self.lines
            .push(DraftMapLine::new_entry(key, DraftValue::Plain(value.into()), from));
    }

    /// Adds an entry with a draft value.
    pub(super) fn put_draft_value(&mut self, key: &str, value: DraftValue, from: Span) {
        self.lines.push(DraftMapLine::new_entry(key, value, Some(from)));
    }

    /// Adds a comment that replaces a key.
    pub(super) fn put_comment(&mut self, lost: UnconvertedKeyComment) {
        self.lines.push(DraftMapLine::Unconverted(lost));
    }

    /// Returns the value of the key, for changes.
    pub(super) fn get_value_mut(&mut self, name: &str) -> Option<&mut DraftValue> {
        self.lines.iter_mut().find_map(|line| match line {
            DraftMapLine::Entry { key, value, .. } if key == name => Some(value),
            _ => None,
        })
    }

    /// Returns the index of the line with this key.
    pub(super) fn find_line_index(&self, name: &str) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| matches!(line, DraftMapLine::Entry { key, .. } if key == name))
    }
}

impl DraftMapLine {
    /// Creates an entry.
    pub(super) fn new_entry(key: &str, value: DraftValue, from: Option<Span>) -> Self {
        Self::Entry {
            key: key.to_owned(),
            value,
            from,
        }
    }
}
