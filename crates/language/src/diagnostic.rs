//! What is wrong with a text, where, and what to do about it.
//!
//! A [`Finding`] points by route, as the rooms above know places. A [`Diagnostic`] has been resolved
//! against a [`Source`] and can be shown.

use crate::source::{At, Source, Span};

/// How much a finding matters. Ordered: errors first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The ensemble cannot run.
    Error,
    /// It runs, and probably not as meant. `--deny-warnings` makes it fail.
    Warning,
    /// Good to know; never fails anything.
    Hint,
}

/// A stable code such as `E012` (errors), `W003` (warnings), `H001` (hints).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Code(pub &'static str);

impl Code {
    /// For what is said beside the rules: it is shown without a code.
    pub const NONE: Self = Self("");

    /// How much findings of this code matter: its letter says so.
    pub fn severity(self) -> Severity {
        match self.0.as_bytes().first() {
            Some(b'W') => Severity::Warning,
            Some(b'H') => Severity::Hint,
            _ => Severity::Error,
        }
    }
}

/// A problem at a symbolic place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Its stable code.
    pub code: Code,
    /// One sentence without a full stop: what is wrong.
    pub message: String,
    /// Where.
    pub at: At,
    /// Other places that explain it, each with a few words.
    pub also: Vec<(At, String)>,
    /// What to do.
    pub help: Option<String>,
}

/// A problem at a place of a text, ready to be shown.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// Its stable code.
    pub code: Code,
    /// One sentence without a full stop: what is wrong.
    pub message: String,
    /// The text it is about.
    pub source: Source,
    /// The bytes it is about.
    pub span: Span,
    /// Other spans of the same text that explain it.
    pub also: Vec<(Span, String)>,
    /// What to do.
    pub help: Option<String>,
}

impl Finding {
    /// An error that names its place.
    pub fn error(code: Code, at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, at, message)
    }

    /// A warning that names its place.
    pub fn warning(code: Code, at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, at, message)
    }

    /// A hint that names its place.
    pub fn hint(code: Code, at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Hint, code, at, message)
    }

    fn new(severity: Severity, code: Code, at: At, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            at,
            also: Vec::new(),
            help: None,
        }
    }

    /// With a sentence that says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// With another place that explains it.
    #[must_use]
    pub fn also(mut self, at: At, label: impl Into<String>) -> Self {
        self.also.push((at, label.into()));
        self
    }
}

/// The nearest of some words, if one is near enough to have been meant.
pub fn did_you_mean<'w>(word: &str, candidates: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    const MOST: usize = 1000;
    const LONGEST: usize = 64;
    let length = word.chars().take(LONGEST + 1).count();
    if length > LONGEST {
        return None;
    }
    let near = (length / 3).max(1);
    candidates
        .take(MOST)
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= near)
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
