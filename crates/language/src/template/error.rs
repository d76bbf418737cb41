//! The errors of templates, each at its place in the text.

use std::sync::Arc;

use minijinja::ErrorKind;

use super::syntax::iter_tags;
use super::{MAX_BYTES, OTHER_TEMPLATE_ERROR, PARSER_DEPTH_ERROR, VARIABLES, too_deep_message};
use crate::names::is_identifier_char;
use crate::source::Span;

/// An error of a text that is not a template, or cannot be rendered, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line}, column {column})")]
pub struct TemplateError {
    /// One sentence without a full stop.
    pub message: String,
    /// Line in the template, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The part of the template that causes the error, if it is known.
    pub span: Option<Span>,
}

/// Returns whether `word` is a part of an agent's name with hyphens or dots, as a template reads such a name.
fn is_name_part(agent: &str, word: &str) -> bool {
    agent.contains(['-', '.']) && agent.split(['-', '.']).any(|part| part == word)
}

/// Returns the span of the first whole word `word` inside `{{ … }}` or `{% … %}`.
pub(super) fn find_word_in_tags(text: &str, word: &str) -> Option<Span> {
    iter_tags(text).find_map(|tag| {
        let inside = &text[tag.inner_span.start..tag.inner_span.end];
        let start = tag.inner_span.start + find_whole_word(inside, word)?;
        Some(Span::new(start, start + word.len()))
    })
}

/// Returns the position of `word` as a whole word that does not follow a dot.
fn find_whole_word(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(at, _)| at).find(|&at| {
        !text[..at].ends_with(|c| is_identifier_char(c) || c == '.')
            && !text[at + word.len()..].starts_with(is_identifier_char)
    })
}

impl TemplateError {
    /// Converts an error of the engine for this text.
    pub(super) fn from_engine_error(text: &str, error: &minijinja::Error) -> Self {
        Self::from_mapped_engine_error(text, error, |span| span)
    }

    /// Converts an error of the engine. `original` maps a span of the compiled text to this text.
    pub(super) fn from_mapped_engine_error(
        text: &str,
        error: &minijinja::Error,
        original: impl Fn(Span) -> Span,
    ) -> Self {
        let message = match (error.kind(), error.detail()) {
            (ErrorKind::OutOfFuel, _) => "the template needs too many steps".to_owned(),
            (ErrorKind::WriteFailure, _) => format!("the rendered text is longer than {MAX_BYTES} bytes"),
            (ErrorKind::TemplateNotFound, _) => OTHER_TEMPLATE_ERROR.to_owned(),
            (_, Some(PARSER_DEPTH_ERROR)) => too_deep_message(),
            (_, Some(detail)) => detail.to_owned(),
            (kind, None) => kind.to_string(),
        };
        let span = error
            .range()
            .map(|range| Span {
                start: range.start,
                end: range.end,
            })
            .map(original)
            .filter(|span| text.get(span.start..span.end).is_some());
        let mut built = Self::with_message(text, message, span);
        if span.is_none()
            && let Some(line) = error.line()
        {
            built.line = line;
        }
        built
    }

    /// Creates an error at the span, or at the start of the text without a span.
    pub(super) fn with_message(text: &str, message: String, span: Option<Span>) -> Self {
        let before = &text[..span.map_or(0, |span| span.start)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            message,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            span,
        }
    }
}

/// Builds the error about an unknown variable, with advice for names of agents with hyphens or dots.
pub(super) fn unknown_variable_error(text: &str, name: &str, listens_to: &[Arc<str>]) -> TemplateError {
    let dashed = listens_to.iter().find(|agent| is_name_part(agent, name));
    let message = match dashed {
        Some(agent) => format!("unknown variable `{name}`; write `dependencies[\"{agent}\"]` for that agent"),
        None => format!(
            "unknown variable `{name}`; the variables are {} and the agents that this agent depends on",
            VARIABLES.join(", ")
        ),
    };
    TemplateError::with_message(text, message, find_word_in_tags(text, name))
}
