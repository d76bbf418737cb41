//! Tokens to an expression: Rhai's and Python's spelling in one grammar, with Python's precedence.
//!
//! From loose to tight: `x if c else y`, `or`, `and`, `not`, comparisons (chained) with `in` and `is`, `??`,
//! `+ -`, `* / %`, signs and `!`, then members, indices and calls. Everything that is no part of it is
//! refused here, with what to write instead, so that nothing unknown ever reaches the engine.

use super::ast::{Arithmetic, Choice, Comparison, Expr, Kind, Sign, Suffix, SuffixKind, Variable};
use super::functions::Function;
use super::lexer::{Token, TokenKind, tokens};
use super::refusal;
use super::{CompileError, DEPTH_LIMIT, ITEM_LIMIT};
use crate::source::Span;

type Parsed<T = Expr> = Result<T, CompileError>;

pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
    /// The token at which `(1, 2)` is a tuple and `{1, 2}` a set, since `in` stands before it.
    collection_at: Option<usize>,
}

/// The expression that the text is.
pub(super) fn parse(text: &str) -> Parsed {
    if text.trim().is_empty() {
        return Err(CompileError {
            message: "the condition is blank".into(),
            span: Span::new(0, text.len()),
            help: Some("write an expression, or leave `condition` out".into()),
        });
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        collection_at: None,
    };
    let expr = parser.expression()?;
    parser.end()?;
    Ok(expr)
}

/// An error with a help text (none if empty).
pub(super) fn error<T>(message: impl Into<String>, span: Span, help: impl Into<String>) -> Parsed<T> {
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

    /// Where the token before this one ended.
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

    /// Nothing may follow.
    fn end(&mut self) -> Parsed<()> {
        match self.kind() {
            TokenKind::End => Ok(()),
            _ => self.unexpected("expected an operator or the end of the condition"),
        }
    }

    fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        let previous = self.at.checked_sub(1).map(|at| &self.tokens[at].kind);
        Err(refusal::unexpected(expected, previous, &self.tokens[self.at]))
    }

    /// One level deeper, as far as that goes.
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

    /// `x if c else y` and everything tighter.
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

    /// Operands of one flat operator, in either spelling.
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

    /// What may stand after `is`.
    fn constant(&mut self) -> Parsed {
        let place = self.span();
        let operand = self.coalesce()?;
        match operand.kind {
            Kind::Nothing | Kind::Bool(_) => Ok(operand),
            _ => error(
                "after `is` there may be `None`, `True` or `False`",
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

    /// A value and the steps into it.
    fn chain(&mut self) -> Parsed {
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
                "this cannot be called",
                self.span(),
                "only the functions of the reference can be called, as `len(x)` or `x.len()`",
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
                return Err(refusal::unknown_function(name, span));
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

    /// Expressions with commas between them, up to the closing symbol.
    fn items(&mut self, close: &str, opened: Span) -> Parsed<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.accept(close) {
            if let (TokenKind::Name(name), TokenKind::Symbol("=")) = (self.kind(), self.second()) {
                return error(
                    format!("arguments have no names here: `{name}=`"),
                    self.span(),
                    "give the values alone, in order",
                );
            }
            items.push(self.nested(Self::expression)?);
            self.item_end(close, opened)?;
            too_many(items.len(), opened)?;
        }
        Ok(items)
    }

    /// A comma, or the closing symbol next.
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
                        "integers go up to 9223372036854775807",
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
            return error("two texts side by side", self.span(), "join them with `+`");
        }
        self.node(kind, span.start)
    }

    /// Does the brace open a map rather than a set?
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
                "a tuple may stand only after `in`",
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
                return error(format!("the key `{key}` is there twice"), place, "");
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
                    "a key is a text",
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
            _ if *self.second() == TokenKind::Symbol("(") && !refusal::is_reserved(name) => return self.call(name),
            _ => match Variable::named(name) {
                Some(variable) => Kind::Variable(variable),
                None => return Err(self.unknown(name, span)),
            },
        };
        self.advance();
        self.node(kind, span.start)
    }

    /// A name of a comprehension, or one that nobody knows.
    fn unknown(&self, name: &str, span: Span) -> CompileError {
        let mut after = self.tokens[self.at..].iter();
        match after.find(|token| token.kind == TokenKind::Name("for")) {
            Some(comprehension) => refusal::unexpected("", None, comprehension),
            None => refusal::unknown_name(name, span),
        }
    }

    fn call(&mut self, name: &str) -> Parsed {
        let span = self.span();
        let Some(function) = Function::named(name) else {
            return Err(refusal::unknown_function(name, span));
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

/// A comparison, or `is` with a constant after it.
enum Compared {
    To(Comparison),
    Is(Comparison),
}

fn too_deep<T>(span: Span) -> Parsed<T> {
    error(
        format!("the condition nests deeper than {DEPTH_LIMIT} levels"),
        span,
        "split it over several agents, or let an agent calculate the value",
    )
}

fn too_many(items: usize, opened: Span) -> Parsed<()> {
    if items > ITEM_LIMIT {
        return error(format!("more than {ITEM_LIMIT} items"), opened, "");
    }
    Ok(())
}

fn slice<T>(span: Span) -> Parsed<T> {
    error(
        "slices are not part of conditions",
        span,
        "index single items, such as `history[-1]`",
    )
}

/// Are there as many arguments as the function takes?
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
