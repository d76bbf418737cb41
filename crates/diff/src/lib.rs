//! Differences of texts, line by line, by Myers' algorithm.
//!
//! This crate is the only one that uses `similar`. Its algorithms are generic, so every crate that used them would compile its
//! own copy.

use std::ops::Range;

use similar::{ChangeTag, DiffOp, TextDiff};

/// The change of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineChange {
    /// Both texts have the line.
    Kept,
    /// Only the text before has the line.
    Removed,
    /// Only the text after has the line.
    Added,
}

/// Lines of both texts that correspond to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchingLines {
    /// The numbers of the lines before, from 0.
    pub before: Range<usize>,
    /// The numbers of the lines after, from 0.
    pub after: Range<usize>,
}

/// Returns the unified diff with three lines around each change. Empty: the texts are equal.
pub fn render_unified_diff(name: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(3)
        .header(name, name)
        .to_string()
}

/// Returns the changed lines in groups, each with so many lines `around` it. A line keeps its end.
pub fn group_changed_lines(before: &str, after: &str, around: usize) -> Vec<Vec<(LineChange, String)>> {
    let diff = TextDiff::from_lines(before, after);
    let mut groups = Vec::new();
    for group in diff.grouped_ops(around) {
        let mut lines = Vec::new();
        for op in &group {
            for line in diff.iter_changes(op) {
                lines.push((line_change_from_tag(line.tag()), line.value().to_owned()));
            }
        }
        groups.push(lines);
    }
    groups
}

/// Returns the lines that are equal in both lists, or in the place of each other.
pub fn find_matching_lines(before: &[&str], after: &[&str]) -> Vec<MatchingLines> {
    let diff = TextDiff::from_slices(before, after);
    let corresponding = |op: &&DiffOp| matches!(op, DiffOp::Equal { .. } | DiffOp::Replace { .. });
    let ops = diff.ops().iter().filter(corresponding);
    ops.map(|op| MatchingLines {
        before: op.old_range(),
        after: op.new_range(),
    })
    .collect()
}

fn line_change_from_tag(tag: ChangeTag) -> LineChange {
    match tag {
        ChangeTag::Equal => LineChange::Kept,
        ChangeTag::Delete => LineChange::Removed,
        ChangeTag::Insert => LineChange::Added,
    }
}
