//! `# ensemble: allow(CODE) reason`: a finding that somebody has looked at and means to keep.
//!
//! A comment at the end of a line speaks of that line, one on a line of its own of the next line that is no
//! comment. Warnings and hints go; errors stay, since an ensemble with one cannot run. A comment that does
//! nothing, or does not say why, is itself a finding: else allowances outlive what they were written for.

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::loader::{Document, codes, explain};
use crate::source::{Source, Span};

/// How it is written.
const FORM: &str = "write `# ensemble: allow(CODE) reason`";

/// Drops what is allowed and adds what is wrong with the comments. Only where all checks have run
/// (`complete`) can it be said that a comment allows nothing.
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
                    diagnostics.retain(|finding| finding.code != code || source.place(finding.span.start).line != line);
                    if diagnostics.len() == before && complete {
                        let message = format!("there is no {name} on line {line} that this comment could allow");
                        let help = "remove the comment, or move it to the line of the finding or the line above";
                        complaints.push(complaint(source, *span, message, help));
                    }
                }
                Err((message, help)) => complaints.push(complaint(source, *span, message, &help)),
            }
        }
        if !allowance.has_reason {
            let message = "this `allow` comment gives no reason".to_owned();
            complaints.push(complaint(source, *comment, message, FORM));
        }
    }
    diagnostics.append(&mut complaints);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.severity));
    diagnostics
}

/// One comment.
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

/// The code, if findings of it can be allowed; else why not, and what to do.
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

/// The line that a comment speaks of.
fn line_of(source: &Source, comment: Span) -> usize {
    let own = source.place(comment.start).line;
    let is_comment = |line: usize| source.line(line).trim_start().starts_with('#');
    let mut line = own;
    while is_comment(line) {
        line += 1;
    }
    line
}

fn complaint(source: &Source, span: Span, message: String, help: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        code: codes::ALLOWANCE,
        message,
        source: source.clone(),
        span,
        also: Vec::new(),
        help: Some(help.to_owned()),
    }
}
