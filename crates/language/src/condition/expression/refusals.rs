//! Error messages for expressions that are not allowed in conditions, with suggestions what to write instead.

use crate::condition::evaluation::report::clip_for_message;
use crate::condition::expression::lexer::{ConditionToken, ConditionTokenKind};
use crate::condition::expression::tree::ConditionVariable;
use crate::condition::functions::FUNCTIONS;
use crate::condition::{CompileError, PartVariables};
use crate::diagnostic::find_similar_word;
use crate::source::Span;

const ONE_EXPRESSION: &str = "write one expression, without statements, loops or assignments";
const CONTEXT_HELP: &str = "a key of the context";

/// Words with a meaning in Rhai or Python that are not part of conditions.
const RESERVED_WORDS: &[(&str, &str)] = &[
    ("let", ONE_EXPRESSION),
    ("const", ONE_EXPRESSION),
    ("while", ONE_EXPRESSION),
    ("loop", ONE_EXPRESSION),
    ("do", ONE_EXPRESSION),
    (
        "for",
        "write a comprehension in brackets, `[x for x in list]`, or in a function, `any(x for x in list)`",
    ),
    ("fn", ONE_EXPRESSION),
    ("def", ONE_EXPRESSION),
    ("return", "write only the expression"),
    ("break", ONE_EXPRESSION),
    ("continue", ONE_EXPRESSION),
    ("throw", ONE_EXPRESSION),
    ("raise", ONE_EXPRESSION),
    ("try", ONE_EXPRESSION),
    ("assert", ONE_EXPRESSION),
    ("with", ONE_EXPRESSION),
    ("class", ONE_EXPRESSION),
    ("del", ONE_EXPRESSION),
    ("pass", ONE_EXPRESSION),
    ("global", ONE_EXPRESSION),
    ("async", ONE_EXPRESSION),
    ("await", ONE_EXPRESSION),
    ("yield", ONE_EXPRESSION),
    ("import", "conditions cannot import modules"),
    ("from", "conditions cannot import modules"),
    ("export", "conditions cannot import modules"),
    ("lambda", "conditions cannot define functions"),
    ("switch", "write `x if c else y`"),
    ("match", "write `x if c else y`"),
    (
        "eval",
        "conditions cannot execute code from a string; write the expression itself",
    ),
    (
        "exec",
        "conditions cannot execute code from a string; write the expression itself",
    ),
    ("print", "conditions cannot print; write only the expression"),
    ("debug", "conditions cannot print; write only the expression"),
    ("Fn", "call one of the functions of the language reference"),
    ("call", "call one of the functions of the language reference"),
    ("curry", "call one of the functions of the language reference"),
    ("this", "conditions do not support `this`"),
    ("null", "write `None` or `()`"),
    ("nil", "write `None` or `()`"),
    ("none", "write `None` or `()`"),
    ("undefined", "write `None` or `()`"),
    ("AND", "write `and`"),
    ("OR", "write `or`"),
    ("NOT", "write `not`"),
    ("IN", "write `in`"),
    ("TRUE", "write `True` or `true`"),
    ("FALSE", "write `False` or `false`"),
    ("not", "put parentheses around it: `(not x)`"),
    ("elif", "write `x if c else y`"),
    ("and", ""),
    ("or", ""),
    ("in", ""),
    ("is", ""),
    ("else", ""),
];

/// Symbols that are not allowed in conditions, and the reasons.
const REFUSED_SYMBOLS: &[(&str, &str)] = &[
    (
        "=",
        "`=` is an assignment, and conditions cannot change values; compare with `==`",
    ),
    ("===", "compare with `==`"),
    ("!==", "compare with `!=`"),
    ("<>", "compare with `!=`"),
    ("=<", "compare with `<=`"),
    ("=>", "compare with `>=`"),
    ("**", "conditions do not support powers; write a multiplication"),
    (
        "//",
        "conditions do not support integer division or comments; write `floor(a / b)`",
    ),
    ("/*", "conditions do not support comments; use a YAML comment"),
    ("#", "conditions do not support comments; use a YAML comment"),
    ("&", "write `and` or `&&`"),
    ("|", "write `or` or `||`; conditions do not support closures"),
    ("||", "conditions do not support closures"),
    ("^", "conditions do not support bit operators"),
    ("~", "write `not`"),
    ("<<", "conditions do not support bit operators"),
    (">>", "conditions do not support bit operators"),
    ("?", "write `x if c else y`"),
    (";", ONE_EXPRESSION),
    ("->", "conditions do not support closures"),
    ("..", "conditions do not support ranges; write `a <= x < b`"),
    ("..=", "conditions do not support ranges; write `a <= x <= b`"),
    ("...", ""),
    ("::", "conditions do not support modules"),
    (
        "{",
        "write the expression without braces, and a map as `{'key': value}`",
    ),
];

/// Returns whether the word has a meaning in Rhai or Python that conditions do not support.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED_WORDS.iter().any(|(word, _)| *word == name)
}

/// Returns whether a condition has a variable or a word of this name, so that an item cannot have the name.
pub fn is_taken_name(name: &str) -> bool {
    is_word_or_variable(name) || name == PartVariables::PART
}

/// Returns whether the name is a word of the language or a variable of all conditions.
pub(crate) fn is_word_or_variable(name: &str) -> bool {
    const WORDS: [&str; 12] = [
        "and", "or", "not", "in", "is", "if", "else", "True", "true", "False", "false", "None",
    ];
    ConditionVariable::from_name(name).is_some() || is_reserved(name) || WORDS.contains(&name)
}

/// Builds the error about a token that is not allowed here. `expected`: the message if nothing better is known.
pub(crate) fn unexpected_token_error(
    expected: &str,
    previous: Option<&ConditionTokenKind<'_>>,
    token: &ConditionToken<'_>,
) -> CompileError {
    let (message, help) = match &token.kind {
        ConditionTokenKind::End => ("unexpected end of the condition".to_owned(), expected.to_owned()),
        ConditionTokenKind::Symbol(symbol) => {
            let assigns = symbol.len() > 1 && symbol.ends_with('=') && !matches!(*symbol, "==" | "!=" | "<=" | ">=");
            let help = match REFUSED_SYMBOLS.iter().find(|(refused, _)| refused == symbol) {
                Some(&(_, help)) => help.to_owned(),
                None if assigns => "conditions cannot change values; compare with `==`".to_owned(),
                None => expected.to_owned(),
            };
            (format!("unexpected `{symbol}`"), help)
        }
        ConditionTokenKind::Name(name) => {
            let help = find_reserved_help(name).unwrap_or_else(|| match previous {
                Some(ConditionTokenKind::Name(before)) if !is_reserved(before) => {
                    adjacent_names_help(before, name, expected)
                }
                _ => operator_word_question(name).unwrap_or_else(|| expected.to_owned()),
            });
            (format!("unexpected `{}`", clip_for_message(name)), help)
        }
        ConditionTokenKind::Int(_) | ConditionTokenKind::Float(_) => {
            ("unexpected number".to_owned(), expected.to_owned())
        }
        ConditionTokenKind::Text(_) => ("unexpected string".to_owned(), expected.to_owned()),
    };
    CompileError {
        message,
        span: token.span,
        help: Some(help),
    }
}

/// Returns the help for two names without an operator between them.
fn adjacent_names_help(before: &str, name: &str, expected: &str) -> String {
    operator_word_question(name)
        .or_else(|| find_reserved_help(before))
        .unwrap_or_else(|| expected.to_owned())
}

/// Returns the help for a reserved word.
fn find_reserved_help(name: &str) -> Option<String> {
    RESERVED_WORDS
        .iter()
        .find(|(word, help)| *word == name && !help.is_empty())
        .map(|(_, help)| (*help).to_owned())
}

/// Returns the question `did you mean …?` with a similar operator word.
fn operator_word_question(name: &str) -> Option<String> {
    find_similar_word(name, ["and", "or", "not", "in", "is", "if", "else"].into_iter())
        .map(|word| format!("did you mean `{word}`?"))
}

/// Builds the error about an unknown variable, with a similar name as help.
pub(crate) fn unknown_name_error(name: &str, span: Span, names: PartVariables<'_>, locals: &[&str]) -> CompileError {
    if let Some((_, help)) = RESERVED_WORDS.iter().find(|(word, _)| *word == name) {
        let help = if help.is_empty() { "expected a value" } else { *help };
        return new_compile_error(format!("unexpected `{name}`"), span, help.to_owned());
    }
    let clipped_name = clip_for_message(name);
    let constants = ["True", "False", "None"].into_iter();
    let mut known_names: Vec<&str> = locals.iter().copied().chain(names.list_names()).collect();
    known_names.extend(
        ConditionVariable::ALL
            .into_iter()
            .map(|variable| -> &str { variable.name() }),
    );
    let similar_name = find_similar_word(name, known_names.iter().copied().chain(constants));
    let help = match similar_name {
        Some(similar_name) => format!("did you mean `{similar_name}`?"),
        None if FUNCTIONS.iter().any(|function| function.names.contains(&name)) => {
            format!("`{clipped_name}` is a function: write `{clipped_name}(…)`")
        }
        None => {
            format!(
                "write {CONTEXT_HELP} as `context.get('{clipped_name}')` and a string as `'{clipped_name}'`; the variables are {}",
                known_names.join(", ")
            )
        }
    };
    new_compile_error(format!("unknown variable `{clipped_name}`"), span, help)
}

/// Builds the error about a call of an unknown function, with a similar name as help.
pub(crate) fn unknown_function_error(name: &str, span: Span) -> CompileError {
    let clipped_name = clip_for_message(name);
    if let Some(help) = find_reserved_help(name) {
        return new_compile_error(format!("conditions do not support `{clipped_name}`"), span, help);
    }
    if let Some(variable) = ConditionVariable::from_name(name) {
        return new_compile_error(
            format!("`{clipped_name}` is a variable, not a function"),
            span,
            format!("write `{}['key']` or `{}.key`", variable.name(), variable.name()),
        );
    }
    let names = FUNCTIONS.iter().flat_map(|function| function.names.iter().copied());
    let is_completion = |candidate: &&str| candidate.len() > 2 && name.to_lowercase().starts_with(*candidate);
    let help = match find_similar_word(name, names.clone()).or_else(|| names.clone().find(is_completion)) {
        Some(similar_name) => format!("did you mean `{similar_name}`?"),
        None => {
            let all: Vec<&str> = FUNCTIONS.iter().map(|function| function.names[0]).collect();
            format!("the functions are {}", all.join(", "))
        }
    };
    new_compile_error(format!("unknown function `{clipped_name}`"), span, help)
}

/// Creates an error with help.
fn new_compile_error(message: String, span: Span, help: String) -> CompileError {
    CompileError {
        message,
        span,
        help: Some(help),
    }
}
