//! Findings about a text: the message, the place, and the help.
//!
//! A [`Finding`] has a symbolic place (a route). A [`Diagnostic`] has a position in a [`Source`] and can be shown.
//!
//! Invariant: codes are stable; a code keeps its meaning.

use crate::source::{At, Source, Span};
use crate::yaml::edit::{Applicability, Fix, RouteEdit, RouteFix};

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
    /// A fix, if a right edit is known.
    pub fix: Option<RouteFix>,
}

/// Another place that explains a finding.
#[derive(Debug, Clone)]
pub struct Related {
    /// The text in which the place is.
    pub source: Source,
    /// The position, in bytes.
    pub span: Span,
    /// What is there.
    pub message: String,
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
    /// Other places that explain it.
    pub related: Vec<Related>,
    /// The help: what to do.
    pub help: Option<String>,
    /// A fix, if a right edit is known.
    pub fix: Option<Fix>,
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
            fix: None,
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

    /// Adds a fix.
    #[must_use]
    pub fn with_fix(mut self, fix: RouteFix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Suggests a word of the language in place of the key or the value: safe if it is the only one that is near.
    #[must_use]
    pub fn meant(self, near: &Near<'_>) -> Self {
        let change = RouteEdit::WriteText(self.at.clone(), near.word.to_owned());
        self.suggest(near.word, Applicability::safe_if(near.is_only), change)
    }

    /// Suggests another name that somebody chose, in place of the only occurrence of this one.
    #[must_use]
    pub fn meant_name(self, written: &str, near: &str) -> Self {
        let change = RouteEdit::ReplaceWord(self.at.clone(), written.to_owned(), near.to_owned());
        self.suggest(near, Applicability::Unsafe, change)
    }

    /// Returns the error that an ensemble has no agent of this name, with the most similar name or a list of the agents.
    pub fn unknown_agent<'n>(code: Code, at: At, name: &str, agents: impl Iterator<Item = &'n str> + Clone) -> Self {
        let finding = Self::error(code, at, format!("there is no agent `{name}`"));
        match did_you_mean(name, agents.clone()) {
            Some(near) => finding.meant_name(name, near),
            None => finding.help(list_agents(agents)),
        }
    }

    /// Offers the choice that is most similar to the value, if one is similar enough.
    #[must_use]
    pub(crate) fn meant_choice(self, written: &str, choices: &[String]) -> Self {
        match did_you_mean(written, choices.iter().map(String::as_str)) {
            Some(near) => {
                let change = RouteEdit::WriteText(self.at.clone(), near.to_owned());
                self.with_fix(RouteFix::not_safe(format!("write `{near}`"), change))
            }
            None => self,
        }
    }

    fn suggest(self, word: &str, applicability: Applicability, edit: RouteEdit) -> Self {
        self.help(format!("did you mean `{word}`?")).with_fix(RouteFix::new(
            applicability,
            format!("write `{word}`"),
            edit,
        ))
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
        let mut related = self.related.iter();
        let named = related.find(|place| place.source.name() == source.name());
        named.map_or(self.span, |place| place.span)
    }
}

/// A word that is similar to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Near<'w> {
    /// The most similar word.
    pub word: &'w str,
    /// Whether no other word is similar enough to be meant.
    pub is_only: bool,
}

/// The most similar of these words, if one is similar enough to be a probable correction.
pub fn did_you_mean<'w>(word: &str, candidates: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    nearest(word, candidates).map(|near| near.word)
}

/// The most similar of these words, if one is similar enough to be a probable correction, and whether it is the only one.
pub fn nearest<'w>(word: &str, candidates: impl Iterator<Item = &'w str>) -> Option<Near<'w>> {
    const MOST: usize = 1000;
    const LONGEST: usize = 64;
    let length = word.chars().take(LONGEST + 1).count();
    if length > LONGEST {
        return None;
    }
    let most = (length / 3).max(1);
    let mut best: Option<(usize, Near<'w>)> = None;
    for candidate in candidates.take(MOST) {
        if candidate.len().abs_diff(word.len()) > most {
            continue;
        }
        let distance = strsim::damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase());
        if distance > most || best.is_some_and(|(_, near)| near.word == candidate) {
            continue;
        }
        let is_only = best.is_none();
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((
                distance,
                Near {
                    word: candidate,
                    is_only,
                },
            ));
        } else if let Some((_, near)) = &mut best {
            near.is_only = false;
        }
    }
    best.map(|(_, near)| near)
}

/// Returns the sentence that names the agents of an ensemble; of many agents, only the first.
pub fn list_agents<'n>(mut agents: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = agents.by_ref().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if agents.next().is_some() { ", …" } else { "" };
    format!("the agents are {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_only_one_meant_if_no_other_is_near() {
        let near = |word: &str, words: &[&'static str]| nearest(word, words.iter().copied());
        let found = |word, is_only| Some(Near { word, is_only });
        assert_eq!(near("scrpt", &["name", "script", "model"]), found("script", true));
        assert_eq!(near("scripts", &["skript", "script"]), found("script", false));
        assert_eq!(near("writer3", &["writer1", "writer2"]), found("writer1", false));
        assert_eq!(near("scrpt", &["script", "script"]), found("script", true));
        assert_eq!(near("abc", &["xyz"]), None);
    }
}
