//! What is meant by a word or a symbol that is not allowed in an expression.

use crate::condition::expression::tree::Variable;
use crate::condition::functions::FUNCTIONS;
use crate::diagnostic::nearest;
use crate::source::Span;
use crate::yaml::edit::Applicability;

/// Spellings of other languages that can mean only one thing.
const SPELLINGS: [(&str, &str); 18] = [
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

/// Returns the replacement at the position of an error, and whether it is certain.
pub(crate) fn instead(
    text: &str,
    span: Span,
    check: impl Fn(&str) -> Result<(), Span>,
) -> Option<(&'static str, Applicability)> {
    let written = text.get(span.start..span.end)?;
    let spelling = SPELLINGS.iter().find(|(other, _)| *other == written);
    let (word, applicability) = match spelling {
        Some((_, word)) => (*word, Applicability::Safe),
        None => {
            let near = nearest(written, names())?;
            (near.word, Applicability::safe_if(near.is_only))
        }
    };
    let corrected = format!("{}{word}{}", &text[..span.start], &text[span.end..]);
    let is_better = match check(&corrected) {
        Ok(()) => true,
        Err(next) => next.start > span.start + word.len(),
    };
    is_better.then_some((word, applicability))
}

/// The words of expressions.
fn names() -> impl Iterator<Item = &'static str> {
    let words = ["and", "or", "not", "in", "is", "if", "else", "True", "False", "None"];
    let variables = Variable::ALL
        .into_iter()
        .map(|variable| -> &'static str { variable.name() });
    let functions = FUNCTIONS.iter().flat_map(|function| function.names.iter().copied());
    words.into_iter().chain(variables).chain(functions)
}
