//! Splits the text into tokens: names, numbers, strings and symbols of Rhai and Python.
//!
//! Symbols that are not allowed in conditions (`=`, `;`, `//`, …) are tokens too, so that the parser can say what to
//! write instead.

use crate::condition::{CompileError, STRING_LIMIT};
use crate::names::{is_identifier_char, starts_identifier};
use crate::source::Span;

/// A token and its position in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConditionToken<'a> {
    pub(crate) kind: ConditionTokenKind<'a>,
    pub(crate) span: Span,
}

/// The kinds of tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ConditionTokenKind<'a> {
    /// Up to 2^63, one more than the largest integer, because the smallest integer is written with a sign.
    Int(u64),
    Float(f64),
    Text(String),
    Name(&'a str),
    Symbol(&'static str),
    End,
}

/// All symbols, longer ones first.
const SYMBOLS: &[&str] = &[
    "**=", "===", "!==", "...", "..=", "//=", "<<=", ">>=", "**", "//", "/*", "==", "!=", "<>", "<<", "<=", ">>", ">=",
    "&&", "||", "??", "?.", "?[", "=>", "->", ":=", "+=", "-=", "*=", "/=", "%=", "::", "..", "#{", "(", ")", "[", "]",
    "{", "}", ",", ".", ":", ";", "+", "-", "*", "/", "%", "<", ">", "=", "!", "?", "|", "&", "^", "~", "@", "#",
];

/// The state of splitting the text of a condition into tokens.
struct ConditionLexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<ConditionToken<'a>>,
}

/// Splits the text into tokens; the last token marks the end of the text.
pub(crate) fn lex_condition(text: &str) -> Result<Vec<ConditionToken<'_>>, CompileError> {
    let mut lexer = ConditionLexer {
        text,
        at: 0,
        tokens: Vec::with_capacity(text.len() / 4 + 1),
    };
    while lexer.skip_space() {
        let start = lexer.at;
        let kind = lexer.lex_token()?;
        lexer.tokens.push(ConditionToken {
            kind,
            span: Span::new(start, lexer.at),
        });
    }
    lexer.tokens.push(ConditionToken {
        kind: ConditionTokenKind::End,
        span: Span::new(text.len(), text.len()),
    });
    Ok(lexer.tokens)
}

/// Returns an error at the span; an empty help is left out.
fn fail_at<T>(message: impl Into<String>, span: Span, help: &str) -> Result<T, CompileError> {
    Err(CompileError {
        message: message.into(),
        span,
        help: (!help.is_empty()).then(|| help.to_owned()),
    })
}

impl<'a> ConditionLexer<'a> {
    /// Returns the text that has not been read.
    fn remaining_text(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Returns the next character without moving.
    fn peek_char(&self) -> Option<char> {
        self.remaining_text().chars().next()
    }

    /// Returns the character after the next one.
    fn peek_second_char(&self) -> Option<char> {
        self.remaining_text().chars().nth(1)
    }

    /// Returns the next character and moves past it.
    fn next_char(&mut self) -> Option<char> {
        let c = self.peek_char()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Skips white space. Returns `false` at the end of the text.
    fn skip_space(&mut self) -> bool {
        let rest = self.remaining_text();
        self.at += rest.len() - rest.trim_start().len();
        self.at < self.text.len()
    }

    /// Moves past the characters for which `keep` is true, and returns them.
    fn take_chars_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.remaining_text();
        let length = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Reads the next token, which must not be white space.
    fn lex_token(&mut self) -> Result<ConditionTokenKind<'a>, CompileError> {
        match self.peek_char() {
            Some(quote @ ('\'' | '"')) => self.lex_string(quote),
            Some(c) if c.is_ascii_digit() => self.lex_number(),
            Some('.') if self.peek_second_char().is_some_and(|c| c.is_ascii_digit()) && !self.is_after_value() => {
                self.lex_number()
            }
            Some(c) if starts_identifier(c) => self.lex_name(),
            _ => self.lex_symbol(),
        }
    }

    /// Returns whether the previous token directly before this position ends a value, so that a dot is a member access.
    fn is_after_value(&self) -> bool {
        self.tokens.last().is_some_and(|token| {
            token.span.end == self.at
                && !matches!(token.kind, ConditionTokenKind::Symbol(symbol) if !matches!(symbol, ")" | "]" | "}"))
        })
    }

    /// Reads a name. # Errors: the name is the prefix of a string, such as `f'…'`.
    fn lex_name(&mut self) -> Result<ConditionTokenKind<'a>, CompileError> {
        let start = self.at;
        let name = self.take_chars_while(is_identifier_char);
        if matches!(self.peek_char(), Some('\'' | '"')) && name.len() <= 2 && !matches!(name, "in" | "is" | "or" | "if")
        {
            return fail_at(
                format!("string prefix `{name}` is not supported"),
                Span::new(start, self.at + 1),
                "write '…' or \"…\", and join strings with `+`",
            );
        }
        Ok(ConditionTokenKind::Name(name))
    }

    /// Reads a symbol. # Errors: the character is no symbol; the help names its replacement.
    fn lex_symbol(&mut self) -> Result<ConditionTokenKind<'a>, CompileError> {
        let rest = self.remaining_text().as_bytes();
        // The first byte is enough to exclude most symbols.
        let first = rest.first().copied().unwrap_or_default();
        let mut possible = SYMBOLS.iter().filter(|symbol| symbol.as_bytes()[0] == first);
        if let Some(symbol) = possible.find(|symbol| rest.starts_with(symbol.as_bytes())) {
            self.at += symbol.len();
            return Ok(ConditionTokenKind::Symbol(symbol));
        }
        let start = self.at;
        let c = self.next_char().unwrap_or_default();
        let help = match c {
            '`' | '“' | '”' | '„' | '‘' | '’' | '«' | '»' => "write strings as '…' or \"…\"",
            '≠' => "write `!=`",
            '≤' => "write `<=`",
            '≥' => "write `>=`",
            '∧' => "write `and`",
            '∨' => "write `or`",
            '¬' => "write `not`",
            '×' => "write `*`",
            '−' | '–' | '—' => "write `-`",
            '$' => "write names without `$`",
            _ => "",
        };
        fail_at(
            format!("unexpected character `{}`", c.escape_debug()),
            Span::new(start, self.at),
            help,
        )
    }

    /// Reads a number: decimal, `0x`, `0o` or `0b`. # Errors: the number is too large or malformed.
    fn lex_number(&mut self) -> Result<ConditionTokenKind<'a>, CompileError> {
        let start = self.at;
        let radix = match self.remaining_text().as_bytes() {
            [b'0', b'x' | b'X', ..] => 16,
            [b'0', b'o' | b'O', ..] => 8,
            [b'0', b'b' | b'B', ..] => 2,
            _ => 10,
        };
        let kind = if radix == 10 {
            self.lex_decimal(start)
        } else {
            self.at += 2;
            let digits = self
                .take_chars_while(|c| c == '_' || c.is_digit(radix))
                .replace('_', "");
            self.build_int_token(start, u64::from_str_radix(&digits, radix).ok(), digits.is_empty())
        }?;
        if self.peek_char().is_some_and(is_identifier_char) {
            self.take_chars_while(is_identifier_char);
            let number_text = &self.text[start..self.at];
            return fail_at(
                format!("`{number_text}` is neither a number nor a name"),
                Span::new(start, self.at),
                "a name must start with a letter or `_`",
            );
        }
        Ok(kind)
    }

    /// Reads a decimal integer or float that begins at `start`.
    fn lex_decimal(&mut self, start: usize) -> Result<ConditionTokenKind<'a>, CompileError> {
        let digit = |c: char| c == '_' || c.is_ascii_digit();
        self.take_chars_while(digit);
        let mut float = false;
        if self.peek_char() == Some('.')
            && !self
                .peek_second_char()
                .is_some_and(|c| starts_identifier(c) || c == '.')
        {
            float = true;
            self.next_char();
            self.take_chars_while(digit);
        }
        let mut after = self.remaining_text().chars().skip(1);
        let exponent = matches!(self.peek_char(), Some('e' | 'E'))
            && match after.next() {
                Some('+' | '-') => after.next().is_some_and(|c| c.is_ascii_digit()),
                next => next.is_some_and(|c| c.is_ascii_digit()),
            };
        if exponent {
            float = true;
            self.at += 2;
            self.take_chars_while(digit);
        }
        let number_text = self.text[start..self.at].replace('_', "");
        if !float {
            return self.build_int_token(start, number_text.parse().ok(), false);
        }
        match number_text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(ConditionTokenKind::Float(number)),
            _ => fail_at("the number is too large", Span::new(start, self.at), ""),
        }
    }

    /// Builds an integer token. `value`: `None` if the digits overflow. `empty`: there are no digits.
    fn build_int_token(
        &self,
        start: usize,
        value: Option<u64>,
        empty: bool,
    ) -> Result<ConditionTokenKind<'a>, CompileError> {
        let span = Span::new(start, self.at);
        match value {
            _ if empty => fail_at("the number has no digits", span, ""),
            Some(value) if value <= i64::MAX.unsigned_abs() + 1 => Ok(ConditionTokenKind::Int(value)),
            _ => fail_at(
                "the integer is too large",
                span,
                "the largest integer is 9223372036854775807; write a larger number with a decimal point",
            ),
        }
    }

    /// Reads a string in the quotes `quote`. # Errors: the string is not closed on its line.
    fn lex_string(&mut self, quote: char) -> Result<ConditionTokenKind<'a>, CompileError> {
        let start = self.at;
        self.next_char();
        let mut text = String::new();
        loop {
            let plain = self.take_chars_while(|c| c != quote && c != '\\' && c != '\n');
            text.push_str(plain);
            match self.peek_char() {
                Some('\\') => self.lex_escape(&mut text)?,
                Some(c) if c == quote => break,
                _ => {
                    return fail_at(
                        format!("the string has no closing {quote}"),
                        Span::new(start, self.at),
                        "a string must end on the line where it starts; write a line break as `\\n`",
                    );
                }
            }
        }
        self.next_char();
        if text.len() > STRING_LIMIT {
            return fail_at("the string is longer than 1 MiB", Span::new(start, self.at), "");
        }
        Ok(ConditionTokenKind::Text(text))
    }

    /// Reads an escape sequence, and adds its character to `text`.
    fn lex_escape(&mut self, text: &mut String) -> Result<(), CompileError> {
        let start = self.at;
        self.next_char();
        let digits = match self.next_char() {
            Some('n') => return push_char(text, '\n'),
            Some('t') => return push_char(text, '\t'),
            Some('r') => return push_char(text, '\r'),
            Some('0') => return push_char(text, '\0'),
            Some(c @ ('\\' | '\'' | '"')) => return push_char(text, c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => {
                return fail_at(
                    "unknown escape sequence",
                    Span::new(start, self.at),
                    "write a backslash as `\\\\`",
                );
            }
        };
        let number: String = self
            .remaining_text()
            .chars()
            .take(digits)
            .take_while(char::is_ascii_hexdigit)
            .collect();
        self.at += number.len();
        let character = (number.len() == digits)
            .then(|| u32::from_str_radix(&number, 16).ok().and_then(char::from_u32))
            .flatten();
        match character {
            Some(c) => push_char(text, c),
            None => fail_at(
                "the escape sequence is not a character",
                Span::new(start, self.at),
                "write `\\xHH`, `\\uHHHH` or `\\UHHHHHHHH`",
            ),
        }
    }
}

/// Appends the character. Never fails.
fn push_char(text: &mut String, c: char) -> Result<(), CompileError> {
    text.push(c);
    Ok(())
}
