//! Parses tokens to an expression: the spelling of Rhai and of Python in one grammar, with the precedence of Python.
//!
//! In order of precedence, lowest first: `x if c else y`, `or`, `and`, `not`, comparisons (chained) with `in` and `is`,
//! `??`, `+ -`, `* / %`, signs and `!`, then members, indices and calls. Everything else is an error with a suggestion
//! what to write instead, so nothing unknown ever reaches the engine.

mod comprehension;
mod primary;

use crate::condition::evaluation::operators::ArithmeticOperator;
use crate::condition::expression::lexer::{ConditionToken, ConditionTokenKind, lex_condition};
use crate::condition::expression::refusals;
use crate::condition::expression::tree::{ComparisonOperator, ConditionExpr, ExprKind, IfElseExpr, SignOperator};
use crate::condition::{CompileError, DEPTH_LIMIT, PartVariables};
use crate::source::Span;

type ParseResult<T = ConditionExpr> = Result<T, CompileError>;

/// The state of parsing the tokens of a condition to an expression.
pub(crate) struct ConditionParser<'a> {
    tokens: Vec<ConditionToken<'a>>,
    at: usize,
    depth: usize,
    /// The token at which `(1, 2)` is a tuple and `{1, 2}` a set, because `in` precedes it.
    collection_at: Option<usize>,
    /// The variables of the expression in addition to those of conditions.
    names: PartVariables<'a>,
    /// The variables of the enclosing comprehensions, the outermost first.
    locals: Vec<&'a str>,
}

/// Parses the text to an expression. `names`: the additional variables of a part.
pub(crate) fn parse_expr<'a>(text: &'a str, names: PartVariables<'a>) -> ParseResult {
    if text.trim().is_empty() {
        return Err(CompileError {
            message: "the condition is blank".into(),
            span: Span::new(0, text.len()),
            help: Some("write an expression, or remove `condition`".into()),
        });
    }
    let mut parser = ConditionParser {
        tokens: lex_condition(text)?,
        at: 0,
        depth: 0,
        collection_at: None,
        names,
        locals: Vec::new(),
    };
    let expr = parser.parse_expression()?;
    parser.expect_end()?;
    Ok(expr)
}

/// Returns an error at the span; an empty help is left out.
pub(crate) fn fail_at<T>(message: impl Into<String>, span: Span, help: impl Into<String>) -> ParseResult<T> {
    let help = help.into();
    Err(CompileError {
        message: message.into(),
        span,
        help: (!help.is_empty()).then_some(help),
    })
}

impl<'a> ConditionParser<'a> {
    /// Returns the kind of the current token.
    fn current_token_kind(&self) -> &ConditionTokenKind<'a> {
        &self.tokens[self.at].kind
    }

    /// Returns the span of the current token.
    fn current_span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// Returns the kind of the token after the current one.
    fn next_token_kind(&self) -> &ConditionTokenKind<'a> {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    /// Moves to the next token, but not beyond the end token.
    fn advance_token(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// Returns the byte at which the previous token ends.
    fn previous_token_end(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |at| self.tokens[at].span.end)
    }

    /// Returns whether the current token is this symbol.
    fn is_at_symbol(&self, symbol: &str) -> bool {
        matches!(self.current_token_kind(), ConditionTokenKind::Symbol(here) if *here == symbol)
    }

    /// Returns whether the current token is this word.
    fn is_at_word(&self, word: &str) -> bool {
        matches!(self.current_token_kind(), ConditionTokenKind::Name(here) if *here == word)
    }

    /// Moves past the symbol if it is the current token, and returns whether it was.
    fn accept_symbol(&mut self, symbol: &str) -> bool {
        let is_next = self.is_at_symbol(symbol);
        if is_next {
            self.advance_token();
        }
        is_next
    }

    /// Moves past the word if it is the current token, and returns whether it was.
    fn accept_word(&mut self, word: &str) -> bool {
        let is_next = self.is_at_word(word);
        if is_next {
            self.advance_token();
        }
        is_next
    }

    /// Moves past the closing symbol. # Errors: another token is here; `opened` is the span of the opening symbol.
    fn expect_symbol(&mut self, symbol: &str, opened: Span) -> ParseResult<()> {
        if self.accept_symbol(symbol) {
            return Ok(());
        }
        if *self.current_token_kind() == ConditionTokenKind::End {
            return fail_at(
                format!("`{symbol}` is missing"),
                opened,
                format!("close this with `{symbol}`"),
            );
        }
        self.fail_unexpected(&format!("expected `{symbol}`"))
    }

    /// Checks that the current token is the end of the text.
    fn expect_end(&mut self) -> ParseResult<()> {
        match self.current_token_kind() {
            ConditionTokenKind::End => Ok(()),
            _ => self.fail_unexpected("expected an operator or the end of the condition"),
        }
    }

    /// Returns the error about the current token; `expected` is the message if nothing better is known.
    fn fail_unexpected<T>(&self, expected: &str) -> ParseResult<T> {
        let previous = self.at.checked_sub(1).map(|at| &self.tokens[at].kind);
        Err(refusals::unexpected_token_error(
            expected,
            previous,
            &self.tokens[self.at],
        ))
    }

    /// Parses one level deeper. # Errors: the nesting exceeds the depth limit.
    fn parse_nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= DEPTH_LIMIT {
            return fail_too_deep(self.current_span());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Builds the expression from byte `start` to the previous token. # Errors: the expression is too deep.
    fn build_node(&self, kind: ExprKind, start: usize) -> ParseResult {
        let expr = ConditionExpr::new(kind, Span::new(start, self.previous_token_end()));
        if expr.height > DEPTH_LIMIT {
            return fail_too_deep(expr.span);
        }
        Ok(expr)
    }

    /// Parses `x if c else y`, or an expression with a higher precedence.
    fn parse_expression(&mut self) -> ParseResult {
        let start = self.current_span().start;
        let then = self.parse_or()?;
        if !self.accept_word("if") {
            return Ok(then);
        }
        let condition = self.parse_or()?;
        if !self.accept_word("else") {
            return self.fail_unexpected("expected `else`");
        }
        let otherwise = self.parse_nested(Self::parse_expression)?;
        let choice = IfElseExpr {
            condition,
            then,
            otherwise,
        };
        self.build_node(ExprKind::IfElse(Box::new(choice)), start)
    }

    /// Parses operands with one operator between them, as one flat node; the operator has a word and a symbol.
    fn parse_operand_chain(
        &mut self,
        (word, symbol): (&str, &str),
        operand: fn(&mut Self) -> ParseResult,
        kind: fn(Vec<ConditionExpr>) -> ExprKind,
    ) -> ParseResult {
        let start = self.current_span().start;
        let first = operand(self)?;
        if !self.is_at_word(word) && !self.is_at_symbol(symbol) {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.accept_word(word) || self.accept_symbol(symbol) {
            operands.push(operand(self)?);
        }
        self.build_node(kind(operands), start)
    }

    /// Parses operands with `or` or `||` between them.
    fn parse_or(&mut self) -> ParseResult {
        self.parse_operand_chain(("or", "||"), Self::parse_and, ExprKind::Or)
    }

    /// Parses operands with `and` or `&&` between them.
    fn parse_and(&mut self) -> ParseResult {
        self.parse_operand_chain(("and", "&&"), Self::parse_not, ExprKind::And)
    }

    /// Parses `not` before a comparison, or a comparison.
    fn parse_not(&mut self) -> ParseResult {
        let start = self.current_span().start;
        if !self.accept_word("not") {
            return self.parse_comparison();
        }
        let operand = self.parse_nested(Self::parse_not)?;
        self.build_node(ExprKind::Not(Box::new(operand)), start)
    }

    /// Parses a chain of comparisons, or a single operand.
    fn parse_comparison(&mut self) -> ParseResult {
        let start = self.current_span().start;
        let first = self.parse_coalesce()?;
        let mut comparisons = Vec::new();
        while let Some(comparison) = self.parse_comparison_operator()? {
            let operand = match comparison {
                ParsedComparison::IsConstant(comparison) => (comparison, self.parse_is_constant()?),
                ParsedComparison::ByOperator(comparison) => {
                    if matches!(comparison, ComparisonOperator::In | ComparisonOperator::NotIn) {
                        self.collection_at = Some(self.at);
                    }
                    (comparison, self.parse_coalesce()?)
                }
            };
            comparisons.push(operand);
        }
        if comparisons.is_empty() {
            return Ok(first);
        }
        self.build_node(ExprKind::Compare(Box::new(first), comparisons), start)
    }

    /// Parses a comparison operator, if there is one. `is` and `is not` need a constant after them.
    fn parse_comparison_operator(&mut self) -> ParseResult<Option<ParsedComparison>> {
        use ComparisonOperator as C;
        let next_in = matches!(self.next_token_kind(), ConditionTokenKind::Name("in"));
        let comparison = match self.current_token_kind() {
            ConditionTokenKind::Symbol("==") => C::Equal,
            ConditionTokenKind::Symbol("!=") => C::Different,
            ConditionTokenKind::Symbol("<") => C::Less,
            ConditionTokenKind::Symbol("<=") => C::LessEqual,
            ConditionTokenKind::Symbol(">") => C::Greater,
            ConditionTokenKind::Symbol(">=") => C::GreaterEqual,
            ConditionTokenKind::Name("in") => C::In,
            ConditionTokenKind::Name("not") | ConditionTokenKind::Symbol("!") if next_in => {
                self.advance_token();
                C::NotIn
            }
            ConditionTokenKind::Name("is") => {
                self.advance_token();
                let not = self.accept_word("not");
                return Ok(Some(ParsedComparison::IsConstant(if not {
                    C::Different
                } else {
                    C::Equal
                })));
            }
            _ => return Ok(None),
        };
        self.advance_token();
        Ok(Some(ParsedComparison::ByOperator(comparison)))
    }

    /// Parses the constant after `is`: `None`, `True` or `False`.
    fn parse_is_constant(&mut self) -> ParseResult {
        let place = self.current_span();
        let operand = self.parse_coalesce()?;
        match operand.kind {
            ExprKind::Nothing | ExprKind::Bool(_) => Ok(operand),
            _ => fail_at(
                "expected `None`, `True` or `False` after `is`",
                Span::new(place.start, operand.span.end.max(place.end)),
                "compare other values with `==` or `!=`",
            ),
        }
    }

    /// Parses operands with `??` between them.
    fn parse_coalesce(&mut self) -> ParseResult {
        self.parse_operand_chain(("", "??"), Self::parse_sum, ExprKind::Coalesce)
    }

    /// Parses operands with `+` or `-` between them.
    fn parse_sum(&mut self) -> ParseResult {
        self.parse_arithmetic(Self::parse_product, |symbol| match symbol {
            "+" => Some(ArithmeticOperator::Add),
            "-" => Some(ArithmeticOperator::Subtract),
            _ => None,
        })
    }

    /// Parses operands with `*`, `/` or `%` between them.
    fn parse_product(&mut self) -> ParseResult {
        self.parse_arithmetic(Self::parse_sign, |symbol| match symbol {
            "*" => Some(ArithmeticOperator::Multiply),
            "/" => Some(ArithmeticOperator::Divide),
            "%" => Some(ArithmeticOperator::Remainder),
            _ => None,
        })
    }

    /// Parses operands with arithmetic operators between them, as one flat node. `operator` maps the symbols of this level.
    fn parse_arithmetic(
        &mut self,
        operand: fn(&mut Self) -> ParseResult,
        operator: fn(&'static str) -> Option<ArithmeticOperator>,
    ) -> ParseResult {
        let start = self.current_span().start;
        let first = operand(self)?;
        let mut operations = Vec::new();
        while let ConditionTokenKind::Symbol(symbol) = *self.current_token_kind() {
            let Some(operator) = operator(symbol) else {
                break;
            };
            self.advance_token();
            operations.push((operator, operand(self)?));
        }
        if operations.is_empty() {
            return Ok(first);
        }
        self.build_node(ExprKind::Arithmetic(Box::new(first), operations), start)
    }

    /// Parses `-x`, `+x` or `!x`, or a chain.
    fn parse_sign(&mut self) -> ParseResult {
        let start = self.current_span().start;
        if self.accept_symbol("!") {
            let operand = self.parse_nested(Self::parse_sign)?;
            return self.build_node(ExprKind::Not(Box::new(operand)), start);
        }
        let sign = match self.current_token_kind() {
            ConditionTokenKind::Symbol("-") => SignOperator::Minus,
            ConditionTokenKind::Symbol("+") => SignOperator::Plus,
            _ => return self.parse_chain(),
        };
        self.advance_token();
        if let (SignOperator::Minus, &ConditionTokenKind::Int(number)) = (sign, self.current_token_kind())
            && number == i64::MIN.unsigned_abs()
        {
            self.advance_token();
            return self.build_node(ExprKind::Int(i64::MIN), start);
        }
        let operand = self.parse_nested(Self::parse_sign)?;
        match (sign, &operand.kind) {
            (SignOperator::Minus, ExprKind::Int(number)) if *number > 0 => {
                self.build_node(ExprKind::Int(-number), start)
            }
            (SignOperator::Minus, ExprKind::Float(number)) => self.build_node(ExprKind::Float(-number), start),
            _ => self.build_node(ExprKind::Sign(sign, Box::new(operand)), start),
        }
    }
}

/// A parsed comparison operator, by the operand that may follow.
enum ParsedComparison {
    ByOperator(ComparisonOperator),
    IsConstant(ComparisonOperator),
}

/// Returns the error about an expression that is nested too deeply.
fn fail_too_deep<T>(span: Span) -> ParseResult<T> {
    fail_at(
        format!("the condition is nested deeper than {DEPTH_LIMIT} levels"),
        span,
        "split the condition over several agents, or calculate the value in an agent",
    )
}
