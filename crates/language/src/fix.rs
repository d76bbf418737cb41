//! Fixes: edits of a text that mend a finding.
//!
//! A [`Mend`] has symbolic places, as the finding to which it belongs. A [`Fix`] has bytes of a text. A fix is *safe* if
//! the edit is the only one that can be meant and no run becomes another one by it: the file is refused without it, or
//! what it removes has no effect. Names that people choose (agents, inputs, profiles) can be mistaken for each other, so
//! writing another one is never safe.
//!
//! Invariant: edits that overlap are never applied together.

use std::sync::Arc;

use crate::source::{At, Route, Span};

/// Whether a fix can be applied without a look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Applicability {
    /// The edit is the only one that can be meant, and it changes the meaning of nothing that could run.
    Safe,
    /// The edit is probable, or removes something that somebody may want to keep.
    Unsafe,
}

/// A replacement of a part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The name of the text, as in its [`crate::source::Source`].
    pub file: Arc<str>,
    /// The bytes that are replaced; empty for an insertion.
    pub span: Span,
    /// What is written instead.
    pub replacement: String,
}

/// Edits that mend a finding together; they do not overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// What the fix does, in words: `write `script``.
    pub title: String,
    /// Whether it can be applied without a look at it.
    pub applicability: Applicability,
    /// The edits, in the order of the text.
    pub edits: Vec<Edit>,
}

/// A fix at symbolic places. It becomes a [`Fix`] where all its places are in the text as they are expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mend {
    /// What the fix does, in words.
    pub title: String,
    /// Whether it can be applied without a look at it.
    pub applicability: Applicability,
    /// The changes.
    pub changes: Vec<Change>,
}

/// A change at a symbolic place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Writes this string as the key, the value, or the part of a value; it is quoted as its place requires.
    Text(At, String),
    /// Writes this YAML in place of the key or the value.
    Yaml(At, String),
    /// Replaces the only occurrence of the first word in this part of a value by the second one.
    Word(At, String, String),
    /// Removes the key with its value, or the item of a list.
    Remove(Route),
    /// Removes these bytes, which are whole lines with their indentation.
    RemoveLines(Span),
    /// Adds a key to the map; the text is the key and its value on one line.
    Add(Route, String),
    /// Adds items behind the last one of a list; each text is an item on one line.
    Append(Route, Vec<String>),
}

impl Mend {
    /// A fix that changes one place.
    pub fn new(applicability: Applicability, title: impl Into<String>, change: Change) -> Self {
        Self {
            title: title.into(),
            applicability,
            changes: vec![change],
        }
    }

    /// A safe fix.
    pub fn certain(title: impl Into<String>, change: Change) -> Self {
        Self::new(Applicability::Safe, title, change)
    }

    /// An unsafe fix.
    pub fn probable(title: impl Into<String>, change: Change) -> Self {
        Self::new(Applicability::Unsafe, title, change)
    }
}

impl Applicability {
    /// Safe if this is true.
    pub fn safe_if(is_safe: bool) -> Self {
        match is_safe {
            true => Self::Safe,
            false => Self::Unsafe,
        }
    }
}

/// The text with these edits. Edits that overlap an earlier one of the list, or that do not fit the text, are left out,
/// and so are the other edits of their fix; the second value is the number of fixes that were applied.
pub fn apply<'f>(text: &str, fixes: impl IntoIterator<Item = &'f Fix>) -> (String, usize) {
    let mut taken: Vec<&Edit> = Vec::new();
    let mut applied = 0;
    for fix in fixes {
        let fits = |edit: &&Edit| text.get(edit.span.start..edit.span.end).is_some();
        // Two insertions at one place, or one at the end of another edit, would depend on their order.
        let is_free = |edit: &Edit, among: &[&Edit]| {
            among
                .iter()
                .all(|other| edit.span.end < other.span.start || other.span.end < edit.span.start)
        };
        let mut own: Vec<&Edit> = Vec::new();
        let is_whole = fix.edits.iter().all(|edit| {
            let good = fits(&edit) && is_free(edit, &taken) && own.iter().all(|other| !overlap(edit, other));
            own.push(edit);
            good
        });
        if is_whole && !own.is_empty() {
            taken.append(&mut own);
            applied += 1;
        }
    }
    taken.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let mut written = String::with_capacity(text.len());
    let mut at = 0;
    for edit in taken {
        written.push_str(&text[at..edit.span.start]);
        written.push_str(&edit.replacement);
        at = edit.span.end;
    }
    written.push_str(&text[at..]);
    (written, applied)
}

fn overlap(one: &Edit, other: &Edit) -> bool {
    one.span.start < other.span.end && other.span.start < one.span.end || one.span == other.span
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(edits: &[(usize, usize, &str)]) -> Fix {
        let edit = |&(start, end, text): &(usize, usize, &str)| Edit {
            file: "x".into(),
            span: Span::new(start, end),
            replacement: text.to_owned(),
        };
        Fix {
            title: String::new(),
            applicability: Applicability::Safe,
            edits: edits.iter().map(edit).collect(),
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
            let fixes: Vec<Fix> = fixes.iter().map(|edits| fix(edits)).collect();
            assert_eq!(apply("abcde", &fixes), (expected.to_owned(), count), "{fixes:?}");
        }
        assert_eq!(
            apply("é", &[fix(&[(1, 2, "x")])]),
            ("é".to_owned(), 0),
            "inside a character"
        );
    }
}
