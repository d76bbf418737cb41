//! Templates of Conductor as templates of this language: the names in them are replaced, everything else stays.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::template_names::{ExpressionPosition, PathReplacement, WorkflowTemplateNames};

/// Largest number of tokens in one tag. The parser of templates recurses as deep as a text is nested.
const MAX_TAG_TOKENS: usize = 120;
/// Largest number of tokens in one template.
const MAX_TEMPLATE_TOKENS: usize = 20_000;
/// Largest number of `if`, `elif` and `for` tags in one template.
const MAX_BRANCH_TAGS: usize = 60;
/// Largest depth of nested values of `set` steps.
const DEPTH: usize = 6;
/// Largest length of a converted template in bytes.
const LONGEST: usize = 200_000;

/// Words of template tags and expressions that are not variables.
const JINJA_KEYWORDS: [&str; 14] = [
    "for",
    "in",
    "if",
    "else",
    "elif",
    "and",
    "or",
    "not",
    "is",
    "true",
    "false",
    "none",
    "recursive",
    "loop",
];

/// Reason why a text cannot be converted.
pub(super) type ConversionError = &'static str;

/// Token of a template with its byte range.
type SpannedToken<'a> = (Token<'a>, usize, usize);

/// Splits a template or an expression into tokens.
///
/// # Errors
/// The text is invalid, or too large to be parsed.
pub(super) fn tokenize_template(text: &str, in_expression: bool) -> Result<Vec<SpannedToken<'_>>, ConversionError> {
    let mut pieces = Vec::new();
    let (mut in_tag, mut elifs) = (0, 0);
    for token in tokenize(text, in_expression, SyntaxConfig::default()) {
        let (token, span) = token.map_err(|_| "it is not a valid template")?;
        in_tag = match token {
            Token::VariableStart | Token::BlockStart => 0,
            _ => in_tag + 1,
        };
        elifs += usize::from(matches!(token, Token::Ident("elif" | "if" | "for")));
        if in_tag > MAX_TAG_TOKENS || pieces.len() > MAX_TEMPLATE_TOKENS || elifs > MAX_BRANCH_TAGS {
            return Err("the template is too large");
        }
        let (start, end) = (offset_to_index(span.start_offset), offset_to_index(span.end_offset));
        if text.get(start..end).is_none() {
            return Err("it is not a valid template");
        }
        pieces.push((token, start, end));
    }
    Ok(pieces)
}

/// Converts an offset of the tokenizer to a byte index.
fn offset_to_index(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Replaces the names in a template by names of this language. `local` is an additional local name.
pub(super) fn convert_template_names(
    text: &str,
    names: &WorkflowTemplateNames,
    local: Option<&str>,
) -> Result<String, ConversionError> {
    convert_names_with_depth(text, names, local, false, DEPTH)
}

/// Replaces the names in a template or an expression. `depth` limits the nested values of `set` steps.
fn convert_names_with_depth(
    text: &str,
    names: &WorkflowTemplateNames,
    local: Option<&str>,
    in_expression: bool,
    depth: usize,
) -> Result<String, ConversionError> {
    let pieces = tokenize_template(text, in_expression)?;
    let locals = list_template_local_names(&pieces);
    let mut out = String::new();
    let mut copied_end = 0;
    let mut next = 0;
    while next < pieces.len() {
        let index = next;
        next += 1;
        let (Token::Ident(word), start, end) = &pieces[index] else {
            continue;
        };
        if matches!(token_before(&pieces, index, 1), Some(Token::Pipe)) {
            if *word == "json" {
                out.push_str(&text[copied_end..*start]);
                out.push_str("tojson");
                copied_end = *end;
            }
            continue;
        }
        // The method of Python is a filter here.
        if *word == "items" && is_method_call_without_arguments(&pieces, index) {
            out.push_str(text[copied_end..*start].trim_end().trim_end_matches('.'));
            out.push_str(" | items");
            copied_end = pieces[index + 2].2;
            continue;
        }
        if !is_variable_name(&pieces, index, word) || locals.contains(word) || local == Some(*word) {
            continue;
        }
        let (keys, ends) = read_key_chain(&pieces, index);
        let (new, used) = match names.find_path_replacement(word, &keys, ExpressionPosition::Prompt) {
            PathReplacement::Path { text, used, .. } => (text, used),
            PathReplacement::Value { source, used } => {
                let depth = depth
                    .checked_sub(1)
                    .ok_or("the values of `set` steps depend on each other")?;
                (
                    format!("({})", convert_names_with_depth(&source, names, None, true, depth)?),
                    used,
                )
            }
            PathReplacement::Unknown => continue,
            PathReplacement::NoEquivalent(reason) => return Err(reason),
        };
        out.push_str(&text[copied_end..*start]);
        out.push_str(&new);
        copied_end = if used == 0 { *end } else { ends[used - 1].1 };
        next = if used == 0 { index + 1 } else { ends[used - 1].0 + 1 };
        // The list of failures has no keys.
        if new.ends_with(".failed")
            && pieces
                .get(next + 1)
                .is_some_and(|(token, ..)| matches!(token, Token::Ident("items")))
        {
            out.truncate(out.len() - new.len());
            out.push_str("{}");
        }
        if out.len() > LONGEST {
            return Err("the template is too large");
        }
    }
    out.push_str(&text[copied_end..]);
    Ok(out)
}

/// Returns the names that `for`, `set`, `with` and `macro` define in the template.
fn list_template_local_names<'a>(pieces: &[SpannedToken<'a>]) -> Vec<&'a str> {
    let mut locals = vec!["loop"];
    for (at, (token, ..)) in pieces.iter().enumerate() {
        let Token::Ident(tag @ ("for" | "set" | "with" | "macro")) = token else {
            continue;
        };
        if !matches!(token_before(pieces, at, 1), Some(Token::BlockStart)) {
            continue;
        }
        for (token, ..) in &pieces[at + 1..] {
            match token {
                Token::Ident("in") | Token::Assign | Token::BlockEnd => break,
                Token::Ident(word) if *tag != "macro" => locals.push(*word),
                _ => {}
            }
        }
    }
    locals
}

/// Returns whether the token is the name in `.NAME()`.
fn is_method_call_without_arguments(pieces: &[SpannedToken<'_>], at: usize) -> bool {
    matches!(token_before(pieces, at, 1), Some(Token::Dot))
        && matches!(pieces.get(at + 1), Some((Token::ParenOpen, ..)))
        && matches!(pieces.get(at + 2), Some((Token::ParenClose, ..)))
}

/// Returns the token `back` positions before this index.
fn token_before<'p, 'a>(pieces: &'p [SpannedToken<'a>], at: usize, back: usize) -> Option<&'p Token<'a>> {
    at.checked_sub(back).map(|at| &pieces[at].0)
}

/// Returns whether the word is a variable, and not a keyword, member, test, filter, argument name or tag.
fn is_variable_name(pieces: &[SpannedToken<'_>], at: usize, word: &str) -> bool {
    if JINJA_KEYWORDS.contains(&word) {
        return false;
    }
    let is_test = match token_before(pieces, at, 1) {
        Some(Token::Ident("is")) => true,
        Some(Token::Ident("not")) => matches!(token_before(pieces, at, 2), Some(Token::Ident("is"))),
        Some(Token::Dot | Token::BlockStart) => true,
        _ => false,
    };
    let after = pieces.get(at + 1).map(|piece| &piece.0);
    let keyword =
        matches!(after, Some(Token::Assign)) && !matches!(token_before(pieces, at, 1), Some(Token::Ident("set")));
    !is_test && !keyword && !matches!(after, Some(Token::ParenOpen))
}

/// Returns the keys after a name, and for each key the index and the end of its last token.
fn read_key_chain<'a>(pieces: &[SpannedToken<'a>], at: usize) -> (Vec<&'a str>, Vec<(usize, usize)>) {
    let mut keys = Vec::new();
    let mut ends = Vec::new();
    let mut next = at + 1;
    loop {
        match (pieces.get(next), pieces.get(next + 1), pieces.get(next + 2)) {
            (Some((Token::Dot, ..)), Some((Token::Ident(key), _, end)), after)
                if !matches!(after, Some((Token::ParenOpen, ..))) =>
            {
                keys.push(*key);
                ends.push((next + 1, *end));
                next += 2;
            }
            (Some((Token::BracketOpen, ..)), Some((Token::Str(key), ..)), Some((Token::BracketClose, _, end))) => {
                keys.push(*key);
                ends.push((next + 2, *end));
                next += 3;
            }
            _ => return (keys, ends),
        }
    }
}

/// Converts a template without blocks to one expression of Conductor: its only expression, or the concatenated parts.
pub(super) fn template_to_expression(text: &str) -> Option<String> {
    let text = text.trim();
    let mut parts = Vec::new();
    let mut from = None;
    for (token, start, end) in tokenize_template(text, false).ok()? {
        match token {
            Token::TemplateData(raw) => parts.push(super::template_names::quote_string_literal(raw)),
            Token::VariableStart => from = Some(end),
            Token::VariableEnd => parts.push(text.get(from?..start)?.trim().to_owned()),
            Token::BlockStart => return None,
            _ => {}
        }
    }
    match &parts[..] {
        [] => Some("''".to_owned()),
        [one] => Some(one.clone()),
        many => Some(
            many.iter()
                .map(|part| format!("({part})"))
                .collect::<Vec<_>>()
                .join(" ~ "),
        ),
    }
}
