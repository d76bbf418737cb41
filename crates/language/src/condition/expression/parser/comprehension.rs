//! List comprehensions, and generator expressions as the only argument of a function.

use super::{ConditionParser, ParseResult, fail_at};
use crate::condition::expression::lexer::ConditionTokenKind;
use crate::condition::expression::refusals::{self, is_word_or_variable};
use crate::condition::expression::tree::{Comprehension, ComprehensionClause, ConditionExpr, ExprKind, LocalVariable};
use crate::condition::functions::ConditionFunction;
use crate::source::Span;

/// The functions that may have a generator expression as their argument.
const GENERATOR_FUNCTIONS: [&str; 6] = ["any", "all", "sum", "len", "min", "max"];

impl<'a> ConditionParser<'a> {
    /// Returns the index of the first `for` token of the comprehension whose element begins here. Returns `None` if a comma
    /// or the closing bracket comes first.
    pub(super) fn find_comprehension_for(&self) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token.kind {
                ConditionTokenKind::Symbol("(" | "[" | "{" | "#{" | "?[") => depth += 1,
                ConditionTokenKind::Symbol(")" | "]" | "}") => depth = depth.checked_sub(1)?,
                ConditionTokenKind::Symbol(",") if depth == 0 => return None,
                ConditionTokenKind::Name("for") if depth == 0 => return (at > self.at).then_some(at),
                _ => {}
            }
        }
        None
    }

    /// Parses a generator expression that is the only argument of a function, and the closing parenthesis.
    pub(super) fn parse_generator_argument(
        &mut self,
        function: Option<&'static ConditionFunction>,
        start: usize,
        opened: Span,
    ) -> ParseResult<Vec<ConditionExpr>> {
        if !function.is_some_and(|function| GENERATOR_FUNCTIONS.contains(&function.names[0])) {
            return fail_at(
                "only `any`, `all`, `sum`, `len`, `min` and `max` take a generator expression",
                self.tokens[start].span,
                "write a list in brackets: `[x for x in list]`",
            );
        }
        let element_start = self.current_span().start;
        let comprehension = self.parse_nested(|parser| parser.parse_comprehension(start, true))?;
        let argument = self.build_node(ExprKind::Comprehension(Box::new(comprehension)), element_start)?;
        if self.is_at_symbol(",") {
            return fail_at(
                "a generator expression must be the only argument",
                self.current_span(),
                "write a list in brackets: `[x for x in list]`",
            );
        }
        self.expect_symbol(")", opened)?;
        Ok(vec![argument])
    }

    /// Parses a comprehension whose element begins here. `start`: the index of its first `for` token.
    pub(super) fn parse_comprehension(&mut self, start: usize, is_generator: bool) -> ParseResult<Comprehension> {
        let element_at = self.at;
        let outer_locals = self.locals.len();
        self.at = start;
        let mut clauses = Vec::new();
        while self.accept_word("for") {
            clauses.push(self.parse_clause()?);
        }
        let end = self.at;
        self.at = element_at;
        let element = self.parse_nested(Self::parse_expression)?;
        if self.at != start {
            return self.fail_unexpected("expected `for`");
        }
        self.at = end;
        self.locals.truncate(outer_locals);
        Ok(Comprehension {
            element,
            clauses,
            is_generator,
        })
    }

    /// Parses the rest of a clause after `for`. The variable is in scope after the clause, but not in its own source.
    fn parse_clause(&mut self) -> ParseResult<ComprehensionClause> {
        let span = self.current_span();
        let ConditionTokenKind::Name(name) = *self.current_token_kind() else {
            return self.fail_unexpected("expected the name of a variable after `for`");
        };
        if is_word_or_variable(name) || self.names.find_part_variable(name).is_some() || self.locals.contains(&name) {
            return fail_at(
                format!("the name `{name}` is taken"),
                span,
                "write another name for the variable of the comprehension",
            );
        }
        self.advance_token();
        if self.is_at_symbol(",") {
            return fail_at(
                "a comprehension has one variable after `for`",
                self.current_span(),
                "iterate over the keys of a map, and read the values with `map[key]`",
            );
        }
        if !self.accept_word("in") {
            return self.fail_unexpected("expected `in` after the variable");
        }
        self.collection_at = Some(self.at);
        let source = self.parse_nested(Self::parse_or)?;
        let number = self.locals.len();
        self.locals.push(name);
        let mut filters = Vec::new();
        while self.accept_word("if") {
            filters.push(self.parse_nested(Self::parse_or)?);
            if self.is_at_word("else") {
                let error = refusals::unexpected_token_error("", None, &self.tokens[self.at]);
                return fail_at(
                    error.message,
                    error.span,
                    "put parentheses around `x if c else y`, or write it before `for`",
                );
            }
        }
        Ok(ComprehensionClause {
            variable: LocalVariable {
                name: name.into(),
                number,
            },
            source,
            filters,
        })
    }
}
