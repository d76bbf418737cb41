//! `# ensemble: allow(CODE) reason`: a comment that allows a finding, which the author has examined and accepts.
//!
//! A comment at the end of a line applies to that line; a comment on its own line applies to the next line that is not
//! a comment. Only warnings and hints can be allowed, because an ensemble with an error cannot run. A comment that
//! allows nothing or has no reason is itself a finding. Otherwise comments would remain after their reason has
//! disappeared.

use crate::diagnostic::{Diagnostic, FindingCode, FindingSeverity};
use crate::loader::YamlDocument;
use crate::loader::code_explanations;
use crate::loader::codes;
use crate::source::{SourceText, Span};
use crate::yaml::edit::{FixApplicability, TextEdit, TextFix};

/// Help text with the form of an allowance comment.
const ALLOWANCE_HELP: &str = "write `# ensemble: allow(CODE) reason`";

/// Drops the diagnostics that comments allow, and adds diagnostics about invalid comments. If `complete` is true, all
/// checks have run, and comments that allow nothing are reported too.
pub fn filter_allowed_diagnostics(
    document: &YamlDocument,
    mut diagnostics: Vec<Diagnostic>,
    complete: bool,
) -> Vec<Diagnostic> {
    let source = document.source();
    let mut complaints = Vec::new();
    for comment in document.allowance_comments() {
        let line = find_allowed_line(source, *comment);
        let Some(allowance) = AllowanceComment::parse(source, *comment) else {
            complaints.push(allowance_diagnostic(
                source,
                *comment,
                "this `allow` comment is not valid".to_owned(),
                ALLOWANCE_HELP,
            ));
            continue;
        };
        for (name, span) in &allowance.codes {
            match parse_allowable_code(name) {
                Ok(code) => {
                    let before = diagnostics.len();
                    diagnostics.retain(|finding| {
                        finding.code != code || source.line_column(finding.find_span_in(source).start).line != line
                    });
                    let is_judged = complete && code != codes::UNANSWERED;
                    if diagnostics.len() == before && is_judged {
                        let message = format!("there is no {name} on line {line} for this comment to allow");
                        let help = "remove the comment, or move it to the line of the finding or the line above";
                        let mut complaint = allowance_diagnostic(source, *span, message, help);
                        complaint.fix = (allowance.codes.len() == 1).then(|| build_comment_removal(source, *comment));
                        complaints.push(complaint);
                    }
                }
                Err((message, help)) => {
                    let mut complaint = allowance_diagnostic(source, *span, message, &help);
                    let similar_code = code_explanations::find_code(name)
                        .is_none()
                        .then(|| code_explanations::find_nearest_code(name))
                        .flatten();
                    complaint.fix = similar_code.map(|near| {
                        let title = format!("write `{near}`");
                        build_unsafe_fix(source, title, *span, near.to_string())
                    });
                    complaints.push(complaint);
                }
            }
        }
        if !allowance.has_reason {
            let message = "this `allow` comment has no reason".to_owned();
            complaints.push(allowance_diagnostic(source, *comment, message, ALLOWANCE_HELP));
        }
    }
    diagnostics.append(&mut complaints);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.find_span_in(source).start, diagnostic.severity));
    diagnostics
}

/// A comment that allows findings.
struct AllowanceComment<'s> {
    codes: Vec<(&'s str, Span)>,
    has_reason: bool,
}

impl<'s> AllowanceComment<'s> {
    /// Parses a comment `# ensemble: allow(CODE, …) reason`. Returns `None` if the comment has another form.
    fn parse(source: &'s SourceText, comment: Span) -> Option<Self> {
        let text = &source.text()[comment.start..comment.end];
        let (before, rest) = text.split_once('(')?;
        if !before.trim_end().ends_with("allow") {
            return None;
        }
        let (inside, reason) = rest.split_once(')')?;
        let mut start = comment.start + before.len() + 1;
        let mut codes = Vec::new();
        for part in inside.split(',') {
            let from = start + part.len() - part.trim_start().len();
            let name = part.trim();
            codes.push((name, Span::new(from, from + name.len())));
            start += part.len() + 1;
        }
        Some(Self {
            codes,
            has_reason: reason.chars().any(char::is_alphanumeric),
        })
    }
}

/// Parses a code whose findings can be allowed. Otherwise returns the error message and the help text.
fn parse_allowable_code(name: &str) -> Result<FindingCode, (String, String)> {
    let Some(code) = code_explanations::find_code(name) else {
        let help = match code_explanations::find_nearest_code(name) {
            Some(guess) => format!("did you mean `{guess}`?"),
            None => "`ensemble explain` lists all codes".to_owned(),
        };
        return Err((format!("there is no code `{name}`"), help));
    };
    if code.severity() == FindingSeverity::Error {
        let message = format!("{} is an error and cannot be allowed", code.0);
        return Err((
            message,
            "fix the error: an ensemble with an error cannot run".to_owned(),
        ));
    }
    if code == codes::ALLOWANCE {
        let message = format!("{} is about `allow` comments, so no comment can allow it", code.0);
        return Err((message, format!("pass `--allow {}` to `validate`", code.0)));
    }
    Ok(code)
}

/// Returns the number of the line to which a comment applies: its own line, or the next line that is not a comment.
fn find_allowed_line(source: &SourceText, comment: Span) -> usize {
    let own_line = source.line_column(comment.start).line;
    let is_comment = |line: usize| source.line_text(line).trim_start().starts_with('#');
    let mut line = own_line;
    while is_comment(line) {
        line += 1;
    }
    line
}

/// Builds a fix that removes a comment, and the whole line if the comment is alone on it.
fn build_comment_removal(source: &SourceText, comment: Span) -> TextFix {
    let text = source.text();
    let before = text[..comment.start].trim_end_matches([' ', '\t']);
    let is_alone = before.is_empty() || before.ends_with('\n');
    let has_end = text[comment.end..].starts_with('\n');
    let span = match is_alone && has_end {
        true => Span::new(before.len(), comment.end + 1),
        false => Span::new(before.len(), comment.end),
    };
    build_unsafe_fix(source, "remove the comment".to_owned(), span, String::new())
}

/// Builds an unsafe fix with one edit.
fn build_unsafe_fix(source: &SourceText, title: String, span: Span, replacement: String) -> TextFix {
    TextFix {
        title,
        applicability: FixApplicability::Unsafe,
        file: source.name().into(),
        edits: vec![TextEdit::new(span, replacement)],
    }
}

/// Builds the warning about an invalid allowance comment.
fn allowance_diagnostic(source: &SourceText, span: Span, message: String, help: &str) -> Diagnostic {
    Diagnostic {
        severity: FindingSeverity::Warning,
        code: codes::ALLOWANCE,
        message,
        source: source.clone(),
        span,
        related: Vec::new(),
        help: Some(help.to_owned()),
        fix: None,
    }
}
