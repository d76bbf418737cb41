//! Parses tokens to an expression: the spelling of Rhai and of Python in one grammar, with the precedence of Python.
//!
//! In order of precedence, lowest first: `x if c else y`, `or`, `and`, `not`, comparisons (chained) with `in` and `is`,
//! `??`, `+ -`, `* / %`, signs and `!`, then members, indices and calls. Everything else is an error with a suggestion
//! what to write instead, so nothing unknown ever reaches the engine.

mod primary;

use crate::condition::evaluation::operators::Arithmetic;
use crate::condition::expression::lexer::{Token, TokenKind, tokens};
use crate::condition::expression::refusals;
use crate::condition::expression::tree::{Choice, Comparison, Expr, Kind, Sign};
use crate::condition::{CompileError, DEPTH_LIMIT, PartNames};
use crate::source::Span;

type Parsed<T = Expr> = Result<T, CompileError>;

pub(crate) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
    /// The token at which `(1, 2)` is a tuple and `{1, 2}` a set, because `in` precedes it.
    collection_at: Option<usize>,
    /// The variables that the expression has beside those of conditions.
    names: PartNames<'a>,
}

/// Parses the text to an expression.
pub(crate) fn parse<'a>(text: &'a str, names: PartNames<'a>) -> Parsed {
    if text.trim().is_empty() {
        return Err(CompileError {
            message: "the condition is blank".into(),
            span: Span::new(0, text.len()),
            help: Some("write an expression, or remove `condition`".into()),
        });
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        collection_at: None,
        names,
    };
    let expr = parser.expression()?;
    parser.end()?;
    Ok(expr)
}

/// An error with a help text (none if it is empty).
pub(crate) fn error<T>(message: impl Into<String>, span: Span, help: impl Into<String>) -> Parsed<T> {
    let help = help.into();
    Err(CompileError {
        message: message.into(),
        span,
        help: (!help.is_empty()).then_some(help),
    })
}

impl<'a> Parser<'a> {
    fn kind(&self) -> &TokenKind<'a> {
        &self.tokens[self.at].kind
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn second(&self) -> &TokenKind<'a> {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// The end of the previous token.
    fn last_end(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |at| self.tokens[at].span.end)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.kind(), TokenKind::Symbol(here) if *here == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), TokenKind::Name(here) if *here == word)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &str, opened: Span) -> Parsed<()> {
        if self.accept(symbol) {
            return Ok(());
        }
        if *self.kind() == TokenKind::End {
            return error(
                format!("`{symbol}` is missing"),
                opened,
                format!("close this with `{symbol}`"),
            );
        }
        self.unexpected(&format!("expected `{symbol}`"))
    }

    /// Checks that nothing follows.
    fn end(&mut self) -> Parsed<()> {
        match self.kind() {
            TokenKind::End => Ok(()),
            _ => self.unexpected("expected an operator or the end of the condition"),
        }
    }

    fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        let previous = self.at.checked_sub(1).map(|at| &self.tokens[at].kind);
        Err(refusals::unexpected(expected, previous, &self.tokens[self.at]))
    }

    /// Enters one level of nesting, up to the limit.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_LIMIT {
            return too_deep(self.span());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn node(&self, kind: Kind, start: usize) -> Parsed {
        let expr = Expr::new(kind, Span::new(start, self.last_end()));
        if expr.height > DEPTH_LIMIT {
            return too_deep(expr.span);
        }
        Ok(expr)
    }

    /// `x if c else y`, and everything with higher precedence.
    fn expression(&mut self) -> Parsed {
        let start = self.span().start;
        let then = self.or()?;
        if !self.accept_word("if") {
            return Ok(then);
        }
        let condition = self.or()?;
        if !self.accept_word("else") {
            return self.unexpected("expected `else`");
        }
        let otherwise = self.nested(Self::expression)?;
        let choice = Choice {
            condition,
            then,
            otherwise,
        };
        self.node(Kind::Choice(Box::new(choice)), start)
    }

    /// The operands of one flat operator, in either spelling.
    fn flat(
        &mut self,
        (word, symbol): (&str, &str),
        operand: fn(&mut Self) -> Parsed,
        kind: fn(Vec<Expr>) -> Kind,
    ) -> Parsed {
        let start = self.span().start;
        let first = operand(self)?;
        if !self.is_word(word) && !self.is(symbol) {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.accept_word(word) || self.accept(symbol) {
            operands.push(operand(self)?);
        }
        self.node(kind(operands), start)
    }

    fn or(&mut self) -> Parsed {
        self.flat(("or", "||"), Self::and, Kind::Or)
    }

    fn and(&mut self) -> Parsed {
        self.flat(("and", "&&"), Self::not, Kind::And)
    }

    fn not(&mut self) -> Parsed {
        let start = self.span().start;
        if !self.accept_word("not") {
            return self.comparison();
        }
        let operand = self.nested(Self::not)?;
        self.node(Kind::Not(Box::new(operand)), start)
    }

    fn comparison(&mut self) -> Parsed {
        let start = self.span().start;
        let first = self.coalesce()?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparison_operator()? {
            let operand = match comparison {
                Compared::Is(comparison) => (comparison, self.constant()?),
                Compared::To(comparison) => {
                    if matches!(comparison, Comparison::In | Comparison::NotIn) {
                        self.collection_at = Some(self.at);
                    }
                    (comparison, self.coalesce()?)
                }
            };
            rest.push(operand);
        }
        if rest.is_empty() {
            return Ok(first);
        }
        self.node(Kind::Compare(Box::new(first), rest), start)
    }

    fn comparison_operator(&mut self) -> Parsed<Option<Compared>> {
        use Comparison as C;
        let next_in = matches!(self.second(), TokenKind::Name("in"));
        let comparison = match self.kind() {
            TokenKind::Symbol("==") => C::Equal,
            TokenKind::Symbol("!=") => C::Different,
            TokenKind::Symbol("<") => C::Less,
            TokenKind::Symbol("<=") => C::LessEqual,
            TokenKind::Symbol(">") => C::Greater,
            TokenKind::Symbol(">=") => C::GreaterEqual,
            TokenKind::Name("in") => C::In,
            TokenKind::Name("not") | TokenKind::Symbol("!") if next_in => {
                self.advance();
                C::NotIn
            }
            TokenKind::Name("is") => {
                self.advance();
                let not = self.accept_word("not");
                return Ok(Some(Compared::Is(if not { C::Different } else { C::Equal })));
            }
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(Compared::To(comparison)))
    }

    /// The values that may follow `is`.
    fn constant(&mut self) -> Parsed {
        let place = self.span();
        let operand = self.coalesce()?;
        match operand.kind {
            Kind::Nothing | Kind::Bool(_) => Ok(operand),
            _ => error(
                "expected `None`, `True` or `False` after `is`",
                Span::new(place.start, operand.span.end.max(place.end)),
                "compare other values with `==` or `!=`",
            ),
        }
    }

    fn coalesce(&mut self) -> Parsed {
        self.flat(("", "??"), Self::sum, Kind::Coalesce)
    }

    fn sum(&mut self) -> Parsed {
        self.arithmetic(Self::product, |symbol| match symbol {
            "+" => Some(Arithmetic::Add),
            "-" => Some(Arithmetic::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Parsed {
        self.arithmetic(Self::sign, |symbol| match symbol {
            "*" => Some(Arithmetic::Multiply),
            "/" => Some(Arithmetic::Divide),
            "%" => Some(Arithmetic::Remainder),
            _ => None,
        })
    }

    fn arithmetic(
        &mut self,
        operand: fn(&mut Self) -> Parsed,
        operator: fn(&'static str) -> Option<Arithmetic>,
    ) -> Parsed {
        let start = self.span().start;
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let TokenKind::Symbol(symbol) = *self.kind() {
            let Some(operator) = operator(symbol) else {
                break;
            };
            self.advance();
            rest.push((operator, operand(self)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        self.node(Kind::Arithmetic(Box::new(first), rest), start)
    }

    fn sign(&mut self) -> Parsed {
        let start = self.span().start;
        if self.accept("!") {
            let operand = self.nested(Self::sign)?;
            return self.node(Kind::Not(Box::new(operand)), start);
        }
        let sign = match self.kind() {
            TokenKind::Symbol("-") => Sign::Minus,
            TokenKind::Symbol("+") => Sign::Plus,
            _ => return self.chain(),
        };
        self.advance();
        if let (Sign::Minus, &TokenKind::Int(number)) = (sign, self.kind())
            && number == i64::MIN.unsigned_abs()
        {
            self.advance();
            return self.node(Kind::Int(i64::MIN), start);
        }
        let operand = self.nested(Self::sign)?;
        match (sign, &operand.kind) {
            (Sign::Minus, Kind::Int(number)) if *number > 0 => self.node(Kind::Int(-number), start),
            (Sign::Minus, Kind::Float(number)) => self.node(Kind::Float(-number), start),
            _ => self.node(Kind::Sign(sign, Box::new(operand)), start),
        }
    }
}

/// A comparison, or `is` with a constant after it.
enum Compared {
    To(Comparison),
    Is(Comparison),
}

fn too_deep<T>(span: Span) -> Parsed<T> {
    error(
        format!("the condition is nested deeper than {DEPTH_LIMIT} levels"),
        span,
        "split the condition over several agents, or calculate the value in an agent",
    )
}
