//! The fixes of findings.

use std::path::Path;

use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::fix::fix_text;
use ensemble_language::source::Source;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::Fix;

use super::findings::Place;

/// The findings with a fix of this text whose place meets a range.
pub fn with_fixes(findings: &[Diagnostic], range: Span) -> impl Iterator<Item = (&Diagnostic, &Fix)> {
    let meets = move |finding: &&Diagnostic| finding.span.start <= range.end && range.start <= finding.span.end;
    let fixable = findings.iter().filter(meets);
    fixable.filter_map(|finding| {
        let is_here = |fix: &&Fix| *fix.file == *finding.source.name();
        Some((finding, finding.fix.as_ref().filter(is_here)?))
    })
}

/// Returns the text with all safe fixes, and with those that they make possible; `None` if there are none.
pub fn all_safe(path: &Path, text: &str, place: &Place<'_>) -> Option<String> {
    let source = Source::new(place.shown(path), text);
    let fixed = fix_text(&source, false, |source| place.check_for_fixes(path, source));
    (fixed.applied > 0).then(|| fixed.source.text().to_string())
}
