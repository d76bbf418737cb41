//! The words of conditions, templates and Rhai scripts, with their places.
//!
//! It is enough to find names. What a text means is decided by the language itself.

use ensemble_language::names::is_identifier_char;
use ensemble_language::source::Span;
use ensemble_language::template::iter_tags;

/// The kinds of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeWordKind {
    /// A name or a keyword.
    Name,
    /// A string; its span is that of the text between the quotes.
    Text,
    /// Anything else, such as `.` and `?.`.
    Symbol,
}

/// A word of code with its span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeWord<'a> {
    pub(super) kind: CodeWordKind,
    pub(super) text: &'a str,
    pub(super) span: Span,
}

/// Returns the words of a condition or an expression.
pub(super) fn lex_condition_words(text: &str) -> Vec<CodeWord<'_>> {
    let mut words = Vec::new();
    lex_range(text, 0, text.len(), LexerDialect::Plain, &mut words);
    words
}

/// Returns the words inside of the tags of a template.
pub(super) fn lex_template_words(text: &str) -> Vec<CodeWord<'_>> {
    let mut words = Vec::new();
    for tag in iter_tags(text) {
        lex_range(
            text,
            tag.inner_span.start,
            tag.inner_span.end,
            LexerDialect::Plain,
            &mut words,
        );
    }
    words
}

/// Returns the words of a Rhai script, without comments.
pub(super) fn lex_rhai_words(text: &str) -> Vec<CodeWord<'_>> {
    let mut words = Vec::new();
    lex_range(text, 0, text.len(), LexerDialect::Rhai, &mut words);
    words
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LexerDialect {
    Plain,
    Rhai,
}

/// Adds the words of the text between two offsets.
fn lex_range<'a>(text: &'a str, start: usize, end: usize, dialect: LexerDialect, words: &mut Vec<CodeWord<'a>>) {
    let mut at = start;
    while let Some(c) = text[at..end].chars().next() {
        let rest = &text[at..end];
        let (kind, from, to, next) = match c {
            _ if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            _ if dialect == LexerDialect::Rhai && (rest.starts_with("//") || rest.starts_with("/*")) => {
                at += comment_length(rest);
                continue;
            }
            '\'' | '"' => lex_string(rest, c, at),
            '`' if dialect == LexerDialect::Rhai => lex_string(rest, c, at),
            _ if is_identifier_char(c) => {
                let length = rest.find(|c: char| !is_identifier_char(c));
                let next = at + length.unwrap_or(rest.len());
                (CodeWordKind::Name, at, next, next)
            }
            _ => {
                let pair = ["?.", "?[", "=="].iter().find(|pair| rest.starts_with(**pair));
                let next = at + pair.map_or(c.len_utf8(), |pair| pair.len());
                (CodeWordKind::Symbol, at, next, next)
            }
        };
        words.push(CodeWord {
            kind,
            text: &text[from..to],
            span: Span::new(from, to),
        });
        at = next;
    }
}

/// Returns the length of the comment at the start of the text. Block comments can be nested.
fn comment_length(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(c) = rest[at..].chars().next() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += c.len_utf8();
        }
    }
    rest.len()
}

/// Lexes the string at the start of `rest`, whose offset is `at`. Returns the kind, the start and end of its content, and
/// the end of the string.
fn lex_string(rest: &str, quote: char, at: usize) -> (CodeWordKind, usize, usize, usize) {
    let mut chars = rest.char_indices().skip(1);
    while let Some((found, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            _ if c == quote => return (CodeWordKind::Text, at + 1, at + found, at + found + 1),
            _ => {}
        }
    }
    (CodeWordKind::Text, at + 1, at + rest.len(), at + rest.len())
}

/// A read of a variable, with its literal key if there is one: `outputs.writer`, `dependencies["writer"]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VariableRead<'a> {
    /// The variable.
    pub(super) base: CodeWord<'a>,
    /// The first key.
    pub(super) key: Option<LiteralKey<'a>>,
}

/// A literal key after a dot or in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LiteralKey<'a> {
    pub(super) word: CodeWord<'a>,
    /// For `.key`: where the dot begins.
    pub(super) dot: Option<usize>,
}

/// Returns all reads of variables, in the order of the text.
pub(super) fn list_variable_reads<'a>(words: &[CodeWord<'a>]) -> Vec<VariableRead<'a>> {
    let is = |at: usize, texts: &[&str]| {
        let word = words.get(at);
        word.is_some_and(|word| word.kind == CodeWordKind::Symbol && texts.contains(&word.text))
    };
    let of_kind = |at: usize, kind: CodeWordKind| words.get(at).copied().filter(|word| word.kind == kind);
    let mut reads = Vec::new();
    for (at, base) in words.iter().enumerate() {
        let is_member = at > 0 && is(at - 1, &[".", "?."]);
        if base.kind != CodeWordKind::Name || is_member || base.text.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let follows_in = at >= 2 && of_kind(at - 1, CodeWordKind::Name).is_some_and(|word| word.text == "in");
        let key = if is(at + 1, &["[", "?["]) {
            of_kind(at + 2, CodeWordKind::Text)
                .filter(|_| is(at + 3, &["]"]))
                .map(|word| LiteralKey { word, dot: None })
        } else if is(at + 1, &[".", "?."]) {
            of_kind(at + 2, CodeWordKind::Name).and_then(|word| match is(at + 3, &["("]) {
                true => of_kind(at + 4, CodeWordKind::Text)
                    .filter(|_| matches!(word.text, "get" | "contains"))
                    .map(|word| LiteralKey { word, dot: None }),
                false => Some(LiteralKey {
                    word,
                    dot: Some(words[at + 1].span.start),
                }),
            })
        } else if follows_in {
            of_kind(at - 2, CodeWordKind::Text).map(|word| LiteralKey { word, dot: None })
        } else {
            None
        };
        reads.push(VariableRead { base: *base, key });
    }
    reads
}
