//! What is meant by a word or a symbol that is not allowed in an expression.

use crate::condition::expression::tree::ConditionVariable;
use crate::condition::functions::FUNCTIONS;
use crate::diagnostic::find_similar_word;
use crate::source::Span;
use crate::yaml::edit::FixApplicability;

/// Spellings of other languages that can mean only one thing.
const FOREIGN_SPELLINGS: [(&str, &str); 18] = [
    ("=", "=="),
    ("===", "=="),
    ("!==", "!="),
    ("<>", "!="),
    ("=<", "<="),
    ("=>", ">="),
    ("null", "None"),
    ("nil", "None"),
    ("none", "None"),
    ("undefined", "None"),
    ("NULL", "None"),
    ("Null", "None"),
    ("AND", "and"),
    ("OR", "or"),
    ("NOT", "not"),
    ("IN", "in"),
    ("TRUE", "True"),
    ("FALSE", "False"),
];

/// Returns the replacement for the text at the span of an error, and whether the replacement is certain.
pub(crate) fn find_replacement(
    text: &str,
    span: Span,
    check: impl Fn(&str) -> Result<(), Span>,
) -> Option<(&'static str, FixApplicability)> {
    let original_text = text.get(span.start..span.end)?;
    let spelling = FOREIGN_SPELLINGS.iter().find(|(other, _)| *other == original_text);
    let (word, applicability) = match spelling {
        Some((_, word)) => (*word, FixApplicability::Safe),
        // A near word is a guess, which can give the condition another value.
        None => (
            find_similar_word(original_text, list_expression_words())?,
            FixApplicability::Unsafe,
        ),
    };
    let corrected = format!("{}{word}{}", &text[..span.start], &text[span.end..]);
    let is_better = match check(&corrected) {
        Ok(()) => true,
        Err(next) => next.start > span.start + word.len(),
    };
    is_better.then_some((word, applicability))
}

/// Returns all words, variables and functions of expressions.
fn list_expression_words() -> impl Iterator<Item = &'static str> {
    let words = ["and", "or", "not", "in", "is", "if", "else", "True", "False", "None"];
    let variables = ConditionVariable::ALL
        .into_iter()
        .map(|variable| -> &'static str { variable.name() });
    let functions = FUNCTIONS.iter().flat_map(|function| function.names.iter().copied());
    words.into_iter().chain(variables).chain(functions)
}
