//! Findings about a text: the message, the place, and the help.
//!
//! A [`Finding`] has a symbolic place (a route). A [`Diagnostic`] has a position in a [`SourceText`] and can be shown.
//!
//! Invariant: codes are stable; a code keeps its meaning.

use crate::source::{RouteLocation, SourceText, Span};
use crate::yaml::edit::{FixApplicability, RouteEdit, RouteFix, TextFix};

/// The severity of a finding. Ordered: errors first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// The ensemble cannot run.
    Error,
    /// The ensemble runs, but probably not as intended. `--deny-warnings` makes this an error.
    Warning,
    /// A remark that is never an error.
    Hint,
}

/// A stable code such as `E012` (errors), `W003` (warnings), `H001` (hints).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct FindingCode(pub &'static str);

impl FindingCode {
    /// The code of findings without a rule, which are shown without a code.
    pub const NONE: Self = Self("");

    /// Returns the severity of findings with this code, which the letter of the code determines.
    pub fn severity(self) -> FindingSeverity {
        match self.0.as_bytes().first() {
            Some(b'W') => FindingSeverity::Warning,
            Some(b'H') => FindingSeverity::Hint,
            _ => FindingSeverity::Error,
        }
    }
}

/// A problem at a symbolic location of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: FindingSeverity,
    /// The stable code.
    pub code: FindingCode,
    /// The message: one sentence without a full stop.
    pub message: String,
    /// The place.
    pub at: RouteLocation,
    /// Other places that explain the finding, each with a short text.
    pub related: Vec<(RouteLocation, String)>,
    /// The place in another text where the problem is; `at` is then the place that names this text.
    pub inner_source: Option<(SourceText, Span)>,
    /// The help: the action to take.
    pub help: Option<String>,
    /// A fix, if a right edit is known.
    pub fix: Option<RouteFix>,
}

/// Another position that explains a diagnostic, with a message.
#[derive(Debug, Clone)]
pub struct RelatedLocation {
    /// The text in which the place is.
    pub source: SourceText,
    /// The position, in bytes.
    pub span: Span,
    /// The description of the position.
    pub message: String,
}

/// A problem at a span of a text, ready to be shown.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// The severity.
    pub severity: FindingSeverity,
    /// The stable code.
    pub code: FindingCode,
    /// The message: one sentence without a full stop.
    pub message: String,
    /// The text in which the problem is.
    pub source: SourceText,
    /// The position of the problem, in bytes.
    pub span: Span,
    /// Other positions that explain the diagnostic.
    pub related: Vec<RelatedLocation>,
    /// The help: the action to take.
    pub help: Option<String>,
    /// A fix, if a right edit is known.
    pub fix: Option<TextFix>,
}

impl Finding {
    /// Returns an error at this location.
    pub fn new_error(code: FindingCode, at: RouteLocation, message: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Error, code, at, message)
    }

    /// Returns a warning at this location.
    pub fn new_warning(code: FindingCode, at: RouteLocation, message: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Warning, code, at, message)
    }

    /// Returns a hint at this location.
    pub fn new_hint(code: FindingCode, at: RouteLocation, message: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Hint, code, at, message)
    }

    /// Creates a finding without related locations, help and fix.
    fn new(severity: FindingSeverity, code: FindingCode, at: RouteLocation, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            at,
            related: Vec::new(),
            inner_source: None,
            help: None,
            fix: None,
        }
    }

    /// Adds the position in another text in which the problem is. The location of the finding names this text.
    #[must_use]
    pub fn with_inner_source(mut self, source: SourceText, span: Span) -> Self {
        self.inner_source = Some((source, span));
        self
    }

    /// Adds a sentence with the action to take.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a fix.
    #[must_use]
    pub fn with_fix(mut self, fix: RouteFix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Suggests a word of the language instead of the key or the value. The fix is safe if the word is only spelled differently.
    #[must_use]
    pub fn with_near_word_fix(self, near: &SimilarWord<'_>) -> Self {
        let change = RouteEdit::WriteText(self.at.clone(), near.word.to_owned());
        self.with_suggested_word_fix(near.word, FixApplicability::safe_if(near.is_same_word), change)
    }

    /// Suggests another user-defined name instead of the only occurrence of `written`.
    #[must_use]
    pub fn with_near_name_fix(self, written: &str, near: &str) -> Self {
        let change = RouteEdit::ReplaceWord(self.at.clone(), written.to_owned(), near.to_owned());
        self.with_suggested_word_fix(near, FixApplicability::Unsafe, change)
    }

    /// Returns the error that an ensemble has no agent with this name, with the most similar name or a list of the agents.
    pub fn new_unknown_agent<'n>(
        code: FindingCode,
        at: RouteLocation,
        name: &str,
        agents: impl Iterator<Item = &'n str> + Clone,
    ) -> Self {
        let finding = Self::new_error(code, at, format!("there is no agent `{name}`"));
        match find_similar_word(name, agents.clone()) {
            Some(similar_name) => finding.with_near_name_fix(name, similar_name),
            None => finding.with_help(render_agents_sentence(agents)),
        }
    }

    /// Adds a fix with the most similar choice, if one is similar enough.
    #[must_use]
    pub(crate) fn with_near_choice_fix(self, written: &str, choices: &[String]) -> Self {
        match find_similar_word(written, choices.iter().map(String::as_str)) {
            Some(similar_choice) => {
                let change = RouteEdit::WriteText(self.at.clone(), similar_choice.to_owned());
                self.with_fix(RouteFix::new_unsafe(format!("write `{similar_choice}`"), change))
            }
            None => self,
        }
    }

    /// Adds the help `did you mean …?` and the fix that writes the word.
    fn with_suggested_word_fix(self, word: &str, applicability: FixApplicability, edit: RouteEdit) -> Self {
        self.with_help(format!("did you mean `{word}`?"))
            .with_fix(RouteFix::new(applicability, format!("write `{word}`"), edit))
    }

    /// Adds another location that explains the finding.
    #[must_use]
    pub fn with_related(mut self, at: RouteLocation, label: impl Into<String>) -> Self {
        self.related.push((at, label.into()));
        self
    }
}

impl Diagnostic {
    /// Returns the span of the problem in `source`. If the problem is in another text, returns the first related span in `source`.
    pub fn find_span_in(&self, source: &SourceText) -> Span {
        if self.source.name() == source.name() {
            return self.span;
        }
        let mut related = self.related.iter();
        let related_place = related.find(|place| place.source.name() == source.name());
        related_place.map_or(self.span, |place| place.span)
    }
}

/// A word that is similar to another word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimilarWord<'w> {
    /// The most similar word.
    pub word: &'w str,
    /// Whether both are the same word, apart from case, hyphens and underscores. Any other word is only a guess.
    pub is_same_word: bool,
}

/// Returns the most similar of these words, if one is similar enough to be a probable correction.
pub fn find_similar_word<'w>(word: &str, candidates: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    find_nearest_word(word, candidates).map(|near| near.word)
}

/// Returns the most similar of the first 1000 words, and whether it is the same word in another spelling.
pub fn find_nearest_word<'w>(word: &str, candidates: impl Iterator<Item = &'w str>) -> Option<SimilarWord<'w>> {
    const MOST: usize = 1000;
    const LONGEST: usize = 64;
    let length = word.chars().take(LONGEST + 1).count();
    if length > LONGEST {
        return None;
    }
    let max_distance = (length / 3).max(1);
    let mut best: Option<(usize, &'w str)> = None;
    for candidate in candidates.take(MOST) {
        if candidate.len().abs_diff(word.len()) > max_distance {
            continue;
        }
        let distance = strsim::damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase());
        // Words without a common letter are not similar, however short they are.
        let has_common_letter = distance < length.max(candidate.chars().count());
        if has_common_letter && distance <= max_distance && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    let letters = |word: &str| word.to_lowercase().replace(['-', '_'], "");
    best.map(|(_, near)| SimilarWord {
        word: near,
        is_same_word: letters(near) == letters(word),
    })
}

/// Renders the sentence `the agents are …` with at most eight names.
pub fn render_agents_sentence<'n>(mut agents: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 8;
    let shown_agents: Vec<String> = agents.by_ref().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if agents.next().is_some() { ", …" } else { "" };
    format!("the agents are {}{more}", shown_agents.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_the_same_word_only_in_another_spelling() {
        let near = |word: &str, words: &[&'static str]| find_nearest_word(word, words.iter().copied());
        let found = |word, is_same_word| Some(SimilarWord { word, is_same_word });
        assert_eq!(near("scrpt", &["name", "script", "model"]), found("script", false));
        assert_eq!(near("scripts", &["skript", "script"]), found("script", false));
        assert_eq!(near("writer3", &["writer1", "writer2"]), found("writer1", false));
        assert_eq!(near("Script", &["scripts", "script"]), found("script", true));
        assert_eq!(near("max-turns", &["max_turns"]), found("max_turns", true));
        assert_eq!(near("maxturns", &["max_turns"]), found("max_turns", true));
        assert_eq!(near("execution", &["executions"]), found("executions", false));
        assert_eq!(near("abc", &["xyz"]), None);
        assert_eq!(near("s", &["x", "t"]), None, "no common letter");
        assert_eq!(near("s", &["x", "sa"]), found("sa", false));
    }
}
