//! Edits of YAML texts: for the fixes of findings, renames, the designer, the import, and the expectations of tests.
//!
//! A [`RouteFix`] has symbolic places, as the finding to which it belongs. A [`TextFix`] has bytes of a text. A fix is *safe* if
//! the edit is the only one that can be meant and no run changes because of it: the file is refused without it, or what it
//! removes has no effect. Names that people choose (agents, inputs, profiles) can be mistaken for each other, so
//! writing another one is never safe.

mod editor;
mod lines;
mod node_location;
mod omitted_value;
mod spelling;
mod value_rewrite;

use std::sync::Arc;

use serde_json::Value;

use super::document::YamlDocument;
use crate::source::{Route, RouteLocation, SourceText, Span};
use editor::YamlEditor;

pub use spelling::{SpellingContext, needs_yaml_escape, quote_single, quote_text, spell_on_one_line, spell_string};
pub use value_rewrite::node_to_json;
pub(crate) use value_rewrite::scalar_to_json;

/// The certainty of a fix: whether it can be applied without a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FixApplicability {
    /// The edit is the only one that can be meant, and it changes the meaning of nothing that could run.
    Safe,
    /// The edit is probable, or removes something that the user may want to keep.
    Unsafe,
}

/// A replacement of a part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    /// The bytes that are replaced; empty for an insertion.
    pub span: Span,
    /// The new text.
    pub replacement: String,
}

/// Edits of one text that belong together; they do not overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFix {
    /// The effect of the fix, in words: `write `script``.
    pub title: String,
    /// Whether it can be applied without a look at it.
    pub applicability: FixApplicability,
    /// The name of the text, as in its [`SourceText`].
    pub file: Arc<str>,
    /// The edits, in the order of the text.
    pub edits: Vec<TextEdit>,
}

/// A fix at symbolic places. It becomes a [`TextFix`] if all its places are in the text as they are expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteFix {
    /// The effect of the fix, in words.
    pub title: String,
    /// Whether it can be applied without a look at it.
    pub applicability: FixApplicability,
    /// The edits.
    pub edits: Vec<RouteEdit>,
}

/// An edit at a symbolic place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteEdit {
    /// Writes this string as the key, the value, or the part of a value; its style stays.
    WriteText(RouteLocation, String),
    /// Writes this YAML instead of the key or the value.
    WriteYaml(RouteLocation, String),
    /// Replaces the only occurrence of the first word in this part of a value by the second one.
    ReplaceWord(RouteLocation, String, String),
    /// Makes the value at the route this one, with as few edits as possible.
    Rewrite(Route, Value),
    /// Removes the key with its value, or the item of a list. Comments stay.
    Remove(Route),
    /// Removes these bytes, which are whole lines with their indentation. Comments stay.
    RemoveLines(Span),
    /// Adds a key behind the last one of the map.
    AddKey(Route, String, Value),
    /// Adds items behind the last one of the list.
    AppendItems(Route, Vec<Value>),
}

impl TextEdit {
    /// Creates the edit that replaces the bytes of the span.
    pub fn new(span: Span, replacement: impl Into<String>) -> Self {
        Self {
            span,
            replacement: replacement.into(),
        }
    }

    /// Creates the edit that inserts a text.
    fn insert_at(at: usize, text: impl Into<String>) -> Self {
        Self::new(Span::new(at, at), text)
    }

    /// Creates the edit that removes the bytes of the span.
    fn remove_span(span: Span) -> Self {
        Self::new(span, "")
    }
}

impl RouteFix {
    /// Creates a fix with one edit.
    pub fn new(applicability: FixApplicability, title: impl Into<String>, edit: RouteEdit) -> Self {
        Self {
            title: title.into(),
            applicability,
            edits: vec![edit],
        }
    }

    /// Creates a safe fix with one edit.
    pub fn new_safe(title: impl Into<String>, edit: RouteEdit) -> Self {
        Self::new(FixApplicability::Safe, title, edit)
    }

    /// Creates an unsafe fix with one edit.
    pub fn new_unsafe(title: impl Into<String>, edit: RouteEdit) -> Self {
        Self::new(FixApplicability::Unsafe, title, edit)
    }
}

/// A resolver of the fixes of one text to bytes.
pub(crate) struct FixResolver<'t> {
    editor: YamlEditor<'t>,
    file: &'t str,
}

impl<'t> FixResolver<'t> {
    pub(crate) fn new(source: &'t SourceText, document: Option<&'t YamlDocument>) -> Self {
        Self {
            editor: YamlEditor::new(source, document),
            file: source.name(),
        }
    }

    /// Resolves the edits of a fix to bytes. Returns `None` if a location is not written as the fix needs it.
    pub(crate) fn resolve_fix(&self, fix: &RouteFix) -> Option<TextFix> {
        let edits = fix.edits.iter().map(|edit| self.editor.resolve_edits(edit));
        let edits = edits.collect::<Option<Vec<_>>>()?.concat();
        Some(TextFix {
            title: fix.title.clone(),
            applicability: fix.applicability,
            file: self.file.into(),
            edits: sort_disjoint_edits(edits)?,
        })
    }
}

impl FixApplicability {
    /// Returns `Safe` if the condition is true.
    pub fn safe_if(is_safe: bool) -> Self {
        match is_safe {
            true => Self::Safe,
            false => Self::Unsafe,
        }
    }
}

/// Applies one edit and returns the new text. Anchors, aliases and tags may be lost, so the caller must check the value.
/// Returns `None` if the location is not written as the edit needs it.
pub(crate) fn apply_route_edit(document: &YamlDocument, edit: &RouteEdit) -> Option<String> {
    let mut editor = YamlEditor::new(document.source(), Some(document));
    editor.removes_anchors = true;
    let edits = sort_disjoint_edits(editor.resolve_edits(edit)?)?;
    Some(apply_edits(document.source().text(), &edits))
}

/// Sorts the edits by position. Returns `None` if some of them overlap.
fn sort_disjoint_edits(mut edits: Vec<TextEdit>) -> Option<Vec<TextEdit>> {
    edits.sort_by_key(|edit| edit.span);
    let is_apart = edits.is_sorted_by(|one, other| one.span.end <= other.span.start);
    is_apart.then_some(edits)
}

/// Applies the edits, which must be sorted and must not overlap.
pub fn apply_edits<'e>(text: &str, edits: impl IntoIterator<Item = &'e TextEdit>) -> String {
    let mut edited = String::with_capacity(text.len() + 100);
    let mut at = 0;
    for edit in edits {
        edited.push_str(text.get(at..edit.span.start).unwrap_or_default());
        edited.push_str(&edit.replacement);
        at = edit.span.end;
    }
    edited.push_str(text.get(at..).unwrap_or_default());
    edited
}

/// Returns the shortest single edit that changes the text `before` to the text `after`.
pub fn compute_text_edit(before: &str, after: &str) -> TextEdit {
    let common = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        let same = pairs.take_while(|(one, other)| one == other);
        same.map(|(c, _)| c.len_utf8()).sum()
    };
    let start = common(&mut before.chars().zip(after.chars()));
    let (old, new) = (&before[start..], &after[start..]);
    let end = common(&mut old.chars().rev().zip(new.chars().rev()));
    TextEdit::new(Span::new(start, before.len() - end), &new[..new.len() - end])
}

/// Applies the fixes, and returns the text and the number of applied fixes. A fix that overlaps or touches an earlier
/// fix, or does not fit the text, is left out.
pub fn apply_fixes<'f>(text: &str, fixes: impl IntoIterator<Item = &'f TextFix>) -> (String, usize) {
    let mut accepted_edits: Vec<&TextEdit> = Vec::new();
    let mut applied = 0;
    for fix in fixes {
        let fits = |edit: &&TextEdit| text.get(edit.span.start..edit.span.end).is_some();
        // Two insertions at one place, or one at the end of another edit, would depend on their order.
        let is_free = |edit: &TextEdit, among: &[&TextEdit]| {
            among
                .iter()
                .all(|other| edit.span.end < other.span.start || other.span.end < edit.span.start)
        };
        let mut fix_edits: Vec<&TextEdit> = Vec::new();
        let is_whole = fix.edits.iter().all(|edit| {
            let good = fits(&edit)
                && is_free(edit, &accepted_edits)
                && fix_edits.iter().all(|other| !edits_overlap(edit, other));
            fix_edits.push(edit);
            good
        });
        if is_whole && !fix_edits.is_empty() {
            accepted_edits.append(&mut fix_edits);
            applied += 1;
        }
    }
    accepted_edits.sort_by_key(|edit| edit.span);
    (apply_edits(text, accepted_edits), applied)
}

/// Returns whether the edits replace a common byte, or have the same span.
fn edits_overlap(one: &TextEdit, other: &TextEdit) -> bool {
    one.span.start < other.span.end && other.span.start < one.span.end || one.span == other.span
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(edits: &[(usize, usize, &str)]) -> TextFix {
        let edit = |&(start, end, text): &(usize, usize, &str)| TextEdit {
            span: Span::new(start, end),
            replacement: text.to_owned(),
        };
        TextFix {
            title: String::new(),
            applicability: FixApplicability::Safe,
            file: "x".into(),
            edits: edits.iter().map(edit).collect(),
        }
    }

    #[test]
    fn the_difference_is_what_both_ends_leave() {
        for (old, new, start, end, text) in [
            ("abc", "axc", 1, 2, "x"),
            ("abc", "abc", 3, 3, ""),
            ("aa", "aaa", 2, 2, "a"),
            ("é1", "é2", 2, 3, "2"),
            ("", "x", 0, 0, "x"),
            ("xyz", "", 0, 3, ""),
        ] {
            let edit = compute_text_edit(old, new);
            assert_eq!(edit, TextEdit::new(Span::new(start, end), text), "{old} {new}");
            assert_eq!(apply_edits(old, [&edit]), new);
        }
    }

    #[test]
    fn edits_that_overlap_are_left_for_the_next_round() {
        type Case = (&'static [&'static [(usize, usize, &'static str)]], &'static str, usize);
        let cases: [Case; 7] = [
            (&[&[(0, 1, "A")], &[(4, 5, "E")]], "AbcdE", 2),
            (&[&[(4, 5, "E")], &[(0, 1, "A")]], "AbcdE", 2),
            (&[&[(0, 3, "-")], &[(2, 4, "+")]], "-de", 1),
            (&[&[(0, 3, "-")], &[(0, 3, "-")]], "-de", 1),
            (&[&[(0, 1, "A"), (1, 2, "B")]], "ABcde", 1),
            (&[&[(1, 2, "B")], &[(0, 1, "A"), (1, 2, "X")]], "aBcde", 1),
            (&[&[(9, 12, "?")]], "abcde", 0),
        ];
        for (fixes, expected, count) in cases {
            let fixes: Vec<TextFix> = fixes.iter().map(|edits| fix(edits)).collect();
            assert_eq!(apply_fixes("abcde", &fixes), (expected.to_owned(), count), "{fixes:?}");
        }
        assert_eq!(
            apply_fixes("é", &[fix(&[(1, 2, "x")])]),
            ("é".to_owned(), 0),
            "inside a character"
        );
    }
}
