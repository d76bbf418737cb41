//! `# ensemble: allow(CODE) reason`: a comment that allows a finding, which the author has examined and accepts.
//!
//! A comment at the end of a line applies to that line; a comment on its own line applies to the next line that is not
//! a comment. Only warnings and hints can be allowed, because an ensemble with an error cannot run. A comment that
//! allows nothing or has no reason is itself a finding. Otherwise comments would remain after their reason has
//! disappeared.

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::loader::Document;
use crate::loader::codes;
use crate::loader::explain;
use crate::source::{Source, Span};
use crate::yaml::edit::{Applicability, Edit, Fix};

/// The form of the comment.
const FORM: &str = "write `# ensemble: allow(CODE) reason`";

/// Drops the allowed findings, and adds findings about invalid comments. Only if all checks have run (`complete`) is it
/// known that a comment allows nothing. A finding that only an option asks for can be allowed without the option.
pub fn apply_allowances(document: &Document, mut diagnostics: Vec<Diagnostic>, complete: bool) -> Vec<Diagnostic> {
    let source = document.source();
    let mut complaints = Vec::new();
    for comment in document.allowances() {
        let line = line_of(source, *comment);
        let Some(allowance) = Allowance::read(source, *comment) else {
            complaints.push(complaint(
                source,
                *comment,
                "this `allow` comment is not valid".to_owned(),
                FORM,
            ));
            continue;
        };
        for (name, span) in &allowance.codes {
            match allowable(name) {
                Ok(code) => {
                    let before = diagnostics.len();
                    diagnostics.retain(|finding| {
                        finding.code != code || source.place(finding.span_in(source).start).line != line
                    });
                    let is_judged = complete && code != codes::UNANSWERED;
                    if diagnostics.len() == before && is_judged {
                        let message = format!("there is no {name} on line {line} that this comment could allow");
                        let help = "remove the comment, or move it to the line of the finding or the line above";
                        let mut complaint = complaint(source, *span, message, help);
                        complaint.fix = (allowance.codes.len() == 1).then(|| removal(source, *comment));
                        complaints.push(complaint);
                    }
                }
                Err((message, help)) => {
                    let mut complaint = complaint(source, *span, message, &help);
                    let near = explain::find(name).is_none().then(|| explain::nearest(name)).flatten();
                    complaint.fix = near.map(|near| {
                        let title = format!("write `{near}`");
                        edited(source, title, *span, near.to_string())
                    });
                    complaints.push(complaint);
                }
            }
        }
        if !allowance.has_reason {
            let message = "this `allow` comment gives no reason".to_owned();
            complaints.push(complaint(source, *comment, message, FORM));
        }
    }
    diagnostics.append(&mut complaints);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span_in(source).start, diagnostic.severity));
    diagnostics
}

/// A comment that allows findings.
struct Allowance<'s> {
    codes: Vec<(&'s str, Span)>,
    has_reason: bool,
}

impl<'s> Allowance<'s> {
    fn read(source: &'s Source, comment: Span) -> Option<Self> {
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

/// The code, if its findings can be allowed; otherwise the error message and the help text.
fn allowable(name: &str) -> Result<Code, (String, String)> {
    let Some(code) = explain::find(name) else {
        let help = match explain::nearest(name) {
            Some(guess) => format!("did you mean `{guess}`?"),
            None => "`ensemble explain` lists all codes".to_owned(),
        };
        return Err((format!("there is no code `{name}`"), help));
    };
    if code.severity() == Severity::Error {
        let message = format!("{} is an error and cannot be allowed", code.0);
        return Err((message, "an ensemble with an error cannot run".to_owned()));
    }
    if code == codes::ALLOWANCE {
        let message = format!("{} is about `allow` comments and cannot be allowed by one", code.0);
        return Err((message, format!("pass `--allow {}` to `validate`", code.0)));
    }
    Ok(code)
}

/// The line to which a comment applies.
fn line_of(source: &Source, comment: Span) -> usize {
    let own = source.place(comment.start).line;
    let is_comment = |line: usize| source.line(line).trim_start().starts_with('#');
    let mut line = own;
    while is_comment(line) {
        line += 1;
    }
    line
}

/// Removes a comment, with its line if nothing else is on it.
fn removal(source: &Source, comment: Span) -> Fix {
    let text = source.text();
    let before = text[..comment.start].trim_end_matches([' ', '\t']);
    let is_alone = before.is_empty() || before.ends_with('\n');
    let has_end = text[comment.end..].starts_with('\n');
    let span = match is_alone && has_end {
        true => Span::new(before.len(), comment.end + 1),
        false => Span::new(before.len(), comment.end),
    };
    edited(source, "remove the comment".to_owned(), span, String::new())
}

/// A fix that is probably what is meant.
fn edited(source: &Source, title: String, span: Span, replacement: String) -> Fix {
    Fix {
        title,
        applicability: Applicability::Unsafe,
        file: source.name().into(),
        edits: vec![Edit::new(span, replacement)],
    }
}

fn complaint(source: &Source, span: Span, message: String, help: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        code: codes::ALLOWANCE,
        message,
        source: source.clone(),
        span,
        related: Vec::new(),
        help: Some(help.to_owned()),
        fix: None,
    }
}
