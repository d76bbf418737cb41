//! The part of the grammar with the highest precedence: values, and the steps after them.

use super::{Parsed, Parser, error};
use crate::condition::expression::lexer::TokenKind;
use crate::condition::expression::refusals;
use crate::condition::expression::tree::{Choice, Expr, Kind, Suffix, SuffixKind, Variable};
use crate::condition::functions::Function;
use crate::condition::{CompileError, ITEM_LIMIT};
use crate::source::Span;

impl<'a> Parser<'a> {
    /// A value and the steps after it.
    pub(crate) fn chain(&mut self) -> Parsed {
        let start = self.span().start;
        let base = self.primary()?;
        let mut suffixes = Vec::new();
        loop {
            let optional = self.is("?.") || self.is("?[");
            if self.is(".") || self.is("?.") {
                self.advance();
                suffixes.push(self.member(optional)?);
            } else if self.is("[") || self.is("?[") {
                suffixes.push(self.index(optional)?);
            } else {
                break;
            }
        }
        if self.is("(") {
            return error(
                "this is not a function",
                self.span(),
                "call one of the functions of the language reference, as `len(x)` or `x.len()`",
            );
        }
        if suffixes.is_empty() {
            return Ok(base);
        }
        self.node(Kind::Chain(Box::new(base), suffixes), start)
    }

    fn member(&mut self, optional: bool) -> Parsed<Suffix> {
        let TokenKind::Name(name) = *self.kind() else {
            return self.unexpected("expected a name after the dot");
        };
        let span = self.span();
        self.advance();
        let kind = if self.is("(") {
            let Some(function) = Function::named(name) else {
                return Err(refusals::unknown_function(name, span));
            };
            let arguments = self.arguments()?;
            arity(
                function,
                name,
                arguments.len() + 1,
                1,
                Span::new(span.start, self.last_end()),
            )?;
            SuffixKind::Method(function, arguments)
        } else {
            SuffixKind::Member(name.to_owned())
        };
        Ok(Suffix {
            kind,
            optional,
            span,
            end: self.last_end(),
        })
    }

    fn index(&mut self, optional: bool) -> Parsed<Suffix> {
        let opened = self.span();
        self.advance();
        if self.is(":") {
            return slice(self.span());
        }
        let index = self.nested(Self::expression)?;
        if self.is(":") {
            return slice(self.span());
        }
        self.expect("]", opened)?;
        Ok(Suffix {
            span: index.span,
            kind: SuffixKind::Index(index),
            optional,
            end: self.last_end(),
        })
    }

    /// `(a, b)` of a call.
    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let opened = self.span();
        self.advance();
        self.items(")", opened)
    }

    /// Expressions separated by commas, up to the closing symbol.
    fn items(&mut self, close: &str, opened: Span) -> Parsed<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.accept(close) {
            if let (TokenKind::Name(name), TokenKind::Symbol("=")) = (self.kind(), self.second()) {
                return error(
                    format!("named arguments are not supported: `{name}=`"),
                    self.span(),
                    "write only the values, in order",
                );
            }
            items.push(self.nested(Self::expression)?);
            self.item_end(close, opened)?;
            too_many(items.len(), opened)?;
        }
        Ok(items)
    }

    /// Expects a comma or the closing symbol.
    fn item_end(&mut self, close: &str, opened: Span) -> Parsed<()> {
        if self.accept(",") || self.is(close) {
            return Ok(());
        }
        if *self.kind() == TokenKind::End {
            return self.expect(close, opened);
        }
        self.unexpected(&format!("expected `,` or `{close}`"))
    }

    fn primary(&mut self) -> Parsed {
        let span = self.span();
        let collection = self.collection_at.take() == Some(self.at);
        let kind = match self.kind() {
            TokenKind::Int(number) => match i64::try_from(*number) {
                Ok(number) => Kind::Int(number),
                Err(_) => {
                    return error(
                        "the integer is too large",
                        span,
                        "the largest integer is 9223372036854775807",
                    );
                }
            },
            TokenKind::Float(number) => Kind::Float(*number),
            TokenKind::Text(text) => Kind::Text(text.clone()),
            TokenKind::Name(name) => return self.name(name),
            TokenKind::Symbol("(") => return self.parentheses(collection),
            TokenKind::Symbol("[") => {
                self.advance();
                let items = self.items("]", span)?;
                return self.node(Kind::List(items), span.start);
            }
            TokenKind::Symbol("#{") => return self.map(true),
            TokenKind::Symbol("{") if collection && !self.is_map() => {
                self.advance();
                let items = self.items("}", span)?;
                return self.node(Kind::List(items), span.start);
            }
            TokenKind::Symbol("{") => return self.map(false),
            _ => return self.unexpected("expected a value"),
        };
        self.advance();
        if let TokenKind::Text(_) = self.kind() {
            return error(
                "two strings without an operator between them",
                self.span(),
                "join them with `+`",
            );
        }
        self.node(kind, span.start)
    }

    /// Returns whether the brace begins a map and not a set.
    fn is_map(&self) -> bool {
        let after = |step: usize| self.tokens.get(self.at + step).map(|token| &token.kind);
        matches!(after(1), Some(TokenKind::Symbol("}"))) || matches!(after(2), Some(TokenKind::Symbol(":")))
    }

    /// `(a)`, `()`, or after `in` a tuple.
    fn parentheses(&mut self, collection: bool) -> Parsed {
        let opened = self.span();
        self.advance();
        if self.accept(")") {
            let kind = if collection {
                Kind::List(Vec::new())
            } else {
                Kind::Nothing
            };
            return self.node(kind, opened.start);
        }
        let first = self.nested(Self::expression)?;
        if !self.is(",") {
            self.expect(")", opened)?;
            return Ok(first);
        }
        if !collection {
            return error(
                "a tuple is only allowed after `in`",
                self.span(),
                "write a list: `[a, b]`",
            );
        }
        self.advance();
        let mut items = vec![first];
        items.append(&mut self.items(")", opened)?);
        self.node(Kind::List(items), opened.start)
    }

    fn map(&mut self, rhai: bool) -> Parsed {
        let opened = self.span();
        self.advance();
        let mut entries: Vec<(String, Expr)> = Vec::new();
        let mut keys = std::collections::HashSet::new();
        while !self.accept("}") {
            let place = self.span();
            let key = self.key(rhai)?;
            if !keys.insert(key.clone()) {
                return error(format!("duplicate key `{key}`"), place, "");
            }
            if !self.accept(":") {
                return self.unexpected("expected `:` after the key");
            }
            entries.push((key, self.nested(Self::expression)?));
            self.item_end("}", opened)?;
            too_many(entries.len(), opened)?;
        }
        self.node(Kind::Map(entries), opened.start)
    }

    fn key(&mut self, rhai: bool) -> Parsed<String> {
        let key = match self.kind() {
            TokenKind::Text(text) => text.clone(),
            TokenKind::Name(name) if rhai => (*name).to_owned(),
            TokenKind::Name(name) => {
                return error(
                    "a key must be a string",
                    self.span(),
                    format!("write `'{name}'`, or a Rhai map: `#{{ {name}: … }}`"),
                );
            }
            _ => return self.unexpected("expected a key"),
        };
        self.advance();
        Ok(key)
    }

    /// A constant, a variable, a call, or Rhai's `if`.
    fn name(&mut self, name: &'a str) -> Parsed {
        let span = self.span();
        let kind = match name {
            "True" | "true" => Kind::Bool(true),
            "False" | "false" => Kind::Bool(false),
            "None" => Kind::Nothing,
            "if" => return self.choice(),
            _ if *self.second() == TokenKind::Symbol("(") && !refusals::is_reserved(name) => return self.call(name),
            _ => match self.names.variable(name).or_else(|| Variable::named(name)) {
                Some(variable) => Kind::Variable(variable),
                None => return Err(self.unknown(name, span)),
            },
        };
        self.advance();
        self.node(kind, span.start)
    }

    /// An unknown name, or a name of a comprehension.
    fn unknown(&self, name: &str, span: Span) -> CompileError {
        let mut after = self.tokens[self.at..].iter();
        match after.find(|token| token.kind == TokenKind::Name("for")) {
            Some(comprehension) => refusals::unexpected("", None, comprehension),
            None => refusals::unknown_name(name, span, self.names),
        }
    }

    fn call(&mut self, name: &str) -> Parsed {
        let span = self.span();
        let Some(function) = Function::named(name) else {
            return Err(refusals::unknown_function(name, span));
        };
        self.advance();
        let arguments = self.arguments()?;
        arity(
            function,
            name,
            arguments.len(),
            0,
            Span::new(span.start, self.last_end()),
        )?;
        self.node(Kind::Call(function, arguments), span.start)
    }

    /// `if c { x } else { y }`.
    fn choice(&mut self) -> Parsed {
        let start = self.span().start;
        self.advance();
        let condition = self.nested(Self::expression)?;
        let then = self.block()?;
        let otherwise = if !self.accept_word("else") {
            self.node(Kind::Nothing, self.last_end())?
        } else if self.is_word("if") {
            self.nested(Self::choice)?
        } else {
            self.block()?
        };
        let choice = Choice {
            condition,
            then,
            otherwise,
        };
        self.node(Kind::Choice(Box::new(choice)), start)
    }

    fn block(&mut self) -> Parsed {
        let opened = self.span();
        if !self.accept("{") {
            return self.unexpected("expected `{`");
        }
        let value = self.nested(Self::expression)?;
        self.expect("}", opened)?;
        Ok(value)
    }
}

fn too_many(items: usize, opened: Span) -> Parsed<()> {
    if items > ITEM_LIMIT {
        return error(format!("more than {ITEM_LIMIT} items"), opened, "");
    }
    Ok(())
}

fn slice<T>(span: Span) -> Parsed<T> {
    error(
        "conditions do not support slices",
        span,
        "use the index of one item, such as `history[-1]`",
    )
}

/// Checks the number of arguments of the function.
fn arity(function: &Function, name: &str, given: usize, before: usize, span: Span) -> Parsed<()> {
    if (function.least..=function.most).contains(&given) {
        return Ok(());
    }
    let (least, most, given) = (function.least - before, function.most - before, given - before);
    let takes = match (least, most) {
        (least, most) if least == most => least.to_string(),
        (least, most) if most - least == 1 => format!("{least} or {most}"),
        (least, most) => format!("{least} to {most}"),
    };
    let plural = if takes == "1" { "" } else { "s" };
    error(
        format!("`{name}` takes {takes} argument{plural}, not {given}"),
        span,
        "",
    )
}
