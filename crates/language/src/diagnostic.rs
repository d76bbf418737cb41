//! Findings about a text: the message, the place, and the help.
//!
//! A [`Finding`] has a symbolic place (a route). A [`Diagnostic`] has a position in a [`Source`] and can be shown.

use crate::source::{At, Source, Span};

/// The severity of a finding. Ordered: errors first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The ensemble cannot run.
    Error,
    /// It runs, but probably not as intended. `--deny-warnings` makes it an error.
    Warning,
    /// A remark that is never an error.
    Hint,
}

/// A stable code such as `E012` (errors), `W003` (warnings), `H001` (hints).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Code(pub &'static str);

impl Code {
    /// For findings without a rule: they are shown without a code.
    pub const NONE: Self = Self("");

    /// The severity of findings with this code, which its letter defines.
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
    /// The severity.
    pub severity: Severity,
    /// The stable code.
    pub code: Code,
    /// The message: one sentence without a full stop.
    pub message: String,
    /// The place.
    pub at: At,
    /// Other places that explain the finding, each with a short text.
    pub also: Vec<(At, String)>,
    /// The place in another text where the problem is; `at` is then the place that names this text.
    pub inside: Option<(Source, Span)>,
    /// The help: what to do.
    pub help: Option<String>,
}

/// A place in another text than that of the finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The text.
    pub source: Source,
    /// The position, in bytes.
    pub span: Span,
    /// A short text about the place.
    pub label: String,
}

/// A problem at a place of a text, ready to be shown.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The stable code.
    pub code: Code,
    /// The message: one sentence without a full stop.
    pub message: String,
    /// The text in which the problem is.
    pub source: Source,
    /// The position of the problem, in bytes.
    pub span: Span,
    /// Other spans of the same text that explain it.
    pub also: Vec<(Span, String)>,
    /// Places of other texts that explain it, such as the place that names the file.
    pub elsewhere: Vec<Elsewhere>,
    /// The help: what to do.
    pub help: Option<String>,
}

impl Finding {
    /// An error at this place.
    pub fn error(code: Code, at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, at, message)
    }

    /// A warning at this place.
    pub fn warning(code: Code, at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, at, message)
    }

    /// A hint at this place.
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
            inside: None,
            help: None,
        }
    }

    /// Says that the problem is in another text, which is named at the place of the finding.
    #[must_use]
    pub fn inside(mut self, source: Source, span: Span) -> Self {
        self.inside = Some((source, span));
        self
    }

    /// Adds a sentence that says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds another place that explains the finding.
    #[must_use]
    pub fn also(mut self, at: At, label: impl Into<String>) -> Self {
        self.also.push((at, label.into()));
        self
    }
}

impl Diagnostic {
    /// The position of the problem in `source`: for a problem in another text, the first place that names this text.
    pub fn span_in(&self, source: &Source) -> Span {
        if self.source.name() == source.name() {
            return self.span;
        }
        let mut elsewhere = self.elsewhere.iter();
        let named = elsewhere.find(|place| place.source.name() == source.name());
        named.map_or(self.span, |place| place.span)
    }
}

/// The most similar of these words, if one is similar enough to be a probable correction.
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
