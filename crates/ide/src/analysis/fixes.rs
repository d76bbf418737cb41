//! The fixes of findings.

use std::path::Path;

use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::fix::fix_text;
use ensemble_language::source::SourceText;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::TextFix;

use super::findings::FolderChecks;

/// Returns the findings whose spans touch the range and that have a fix of this text, each with its fix.
pub fn list_fixes_in_range(findings: &[Diagnostic], range: Span) -> impl Iterator<Item = (&Diagnostic, &TextFix)> {
    let meets = move |finding: &&Diagnostic| finding.span.start <= range.end && range.start <= finding.span.end;
    let fixable = findings.iter().filter(meets);
    fixable.filter_map(|finding| {
        let is_here = |fix: &&TextFix| *fix.file == *finding.source.name();
        Some((finding, finding.fix.as_ref().filter(is_here)?))
    })
}

/// Returns the text after all safe fixes, in rounds. Returns `None` if there are no safe fixes.
pub fn text_with_safe_fixes(path: &Path, text: &str, place: &FolderChecks<'_>) -> Option<String> {
    let source = SourceText::new(place.display_path(path), text);
    let fixed = fix_text(&source, false, |source| place.check_for_fixes(path, source));
    (fixed.applied_fixes > 0).then(|| fixed.source.text().to_string())
}
