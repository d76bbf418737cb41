//! The fixes of findings.

use std::path::Path;
use std::sync::Arc;

use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::fix::{self, Applicability, Fix};
use ensemble_language::source::Span;

use super::findings::Place;

/// The most rounds of fixes: one may make room for another.
const ROUNDS: usize = 10;

/// The findings with a fix of this text whose place meets a range.
pub fn with_fixes(findings: &[Diagnostic], range: Span) -> impl Iterator<Item = (&Diagnostic, &Fix)> {
    let meets = move |finding: &&Diagnostic| finding.span.start <= range.end && range.start <= finding.span.end;
    let fixable = findings.iter().filter(meets);
    fixable.filter_map(|finding| {
        let is_here = |fix: &&Fix| fix.edits.iter().all(|edit| &*edit.file == finding.source.name());
        Some((finding, finding.fix.as_ref().filter(is_here)?))
    })
}

/// The text with all safe fixes, and with those that they make possible; `None` if there are none.
pub fn all_safe(path: &Path, text: &Arc<str>, place: &Place<'_>) -> Option<Arc<str>> {
    let mut fixed = Arc::clone(text);
    for _ in 0..ROUNDS {
        let found = place.check(path, &fixed, &|| true)?;
        let whole = Span::new(0, fixed.len());
        let safe = with_fixes(&found, whole).map(|(_, fix)| fix);
        let safe = safe.filter(|fix| fix.applicability == Applicability::Safe);
        match fix::apply(&fixed, safe) {
            (_, 0) => break,
            (next, _) => fixed = next.into(),
        }
    }
    (fixed != *text).then_some(fixed)
}

/// What differs between two texts: the bytes of the first, and the text that takes their place.
pub fn difference<'n>(old: &str, new: &'n str) -> (Span, &'n str) {
    let same = |(a, b): &(char, char)| a == b;
    let start: usize = old
        .chars()
        .zip(new.chars())
        .take_while(same)
        .map(|(c, _)| c.len_utf8())
        .sum();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let ends = old_rest.chars().rev().zip(new_rest.chars().rev());
    let end: usize = ends.take_while(same).map(|(c, _)| c.len_utf8()).sum();
    (Span::new(start, old.len() - end), &new_rest[..new_rest.len() - end])
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(difference(old, new), (Span::new(start, end), text), "{old} {new}");
        }
    }
}
