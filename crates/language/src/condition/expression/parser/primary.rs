//! The part of the grammar with the highest precedence: values, and the steps after them.

use super::{ConditionParser, ParseResult, fail_at};
use crate::condition::expression::lexer::ConditionTokenKind;
use crate::condition::expression::refusals;
use crate::condition::expression::tree::{
    ChainStep, ChainStepKind, ConditionExpr, ConditionVariable, ExprKind, IfElseExpr, LocalVariable,
};
use crate::condition::functions::ConditionFunction;
use crate::condition::{CompileError, ITEM_LIMIT};
use crate::source::Span;

impl<'a> ConditionParser<'a> {
    /// Parses a value and the members, indexes and calls after it.
    pub(crate) fn parse_chain(&mut self) -> ParseResult {
        let start = self.current_span().start;
        let base = self.parse_primary()?;
        let mut suffixes = Vec::new();
        loop {
            let optional = self.is_at_symbol("?.") || self.is_at_symbol("?[");
            if self.is_at_symbol(".") || self.is_at_symbol("?.") {
                self.advance_token();
                suffixes.push(self.parse_member(optional)?);
            } else if self.is_at_symbol("[") || self.is_at_symbol("?[") {
                suffixes.push(self.parse_index(optional)?);
            } else {
                break;
            }
        }
        if self.is_at_symbol("(") {
            return fail_at(
                "this is not a function",
                self.current_span(),
                "call one of the functions of the language reference, such as `len(x)` or `x.len()`",
            );
        }
        if suffixes.is_empty() {
            return Ok(base);
        }
        self.build_node(ExprKind::Chain(Box::new(base), suffixes), start)
    }

    /// Parses a member or a method call after the dot.
    fn parse_member(&mut self, optional: bool) -> ParseResult<ChainStep> {
        let ConditionTokenKind::Name(name) = *self.current_token_kind() else {
            return self.fail_unexpected("expected a name after the dot");
        };
        let span = self.current_span();
        self.advance_token();
        let kind = if self.is_at_symbol("(") {
            let Some(function) = ConditionFunction::find_by_name(name) else {
                return Err(refusals::unknown_function_error(name, span));
            };
            let arguments = self.parse_arguments(None)?;
            check_arity(
                function,
                name,
                arguments.len() + 1,
                1,
                Span::new(span.start, self.previous_token_end()),
            )?;
            ChainStepKind::Method(function, arguments)
        } else {
            ChainStepKind::Member(name.to_owned())
        };
        Ok(ChainStep {
            kind,
            is_optional: optional,
            span,
            end: self.previous_token_end(),
        })
    }

    /// Parses `[index]` or `[from:to]`.
    fn parse_index(&mut self, optional: bool) -> ParseResult<ChainStep> {
        let opened = self.current_span();
        self.advance_token();
        self.refuse_slice_step()?;
        let index = match self.is_at_symbol(":") {
            true => None,
            false => Some(self.parse_nested(Self::parse_expression)?),
        };
        self.refuse_slice_step()?;
        if self.is_at_symbol(":") {
            return self.parse_slice_end(index, optional, opened);
        }
        self.expect_symbol("]", opened)?;
        let Some(index) = index else {
            return self.fail_unexpected("expected an index");
        };
        Ok(ChainStep {
            span: index.span,
            kind: ChainStepKind::Index(index),
            is_optional: optional,
            end: self.previous_token_end(),
        })
    }

    /// Parses the rest of a slice from the colon.
    fn parse_slice_end(&mut self, from: Option<ConditionExpr>, optional: bool, opened: Span) -> ParseResult<ChainStep> {
        self.advance_token();
        let to = match self.is_at_symbol("]") || self.is_at_symbol(":") {
            true => None,
            false => Some(self.parse_nested(Self::parse_expression)?),
        };
        if self.is_at_symbol(":") {
            return fail_slice_step(self.current_span());
        }
        self.refuse_slice_step()?;
        let end = self.previous_token_end();
        self.expect_symbol("]", opened)?;
        Ok(ChainStep {
            span: Span::new(opened.end, end),
            kind: ChainStepKind::Slice(from, to),
            is_optional: optional,
            end: self.previous_token_end(),
        })
    }

    /// Checks that there is no step of a slice: `::` is one token.
    fn refuse_slice_step(&self) -> ParseResult<()> {
        match self.is_at_symbol("::") {
            true => fail_slice_step(self.current_span()),
            false => Ok(()),
        }
    }

    /// Parses the arguments of a call in parentheses. `function`: `None` for a method, which takes no generator expression.
    fn parse_arguments(&mut self, function: Option<&'static ConditionFunction>) -> ParseResult<Vec<ConditionExpr>> {
        let opened = self.current_span();
        self.advance_token();
        match self.find_comprehension_for() {
            Some(start) => self.parse_generator_argument(function, start, opened),
            None => self.parse_expressions_until(")", opened),
        }
    }

    /// Parses expressions separated by commas, and the closing symbol.
    fn parse_expressions_until(&mut self, close: &str, opened: Span) -> ParseResult<Vec<ConditionExpr>> {
        let mut items = Vec::new();
        while !self.accept_symbol(close) {
            if let (ConditionTokenKind::Name(name), ConditionTokenKind::Symbol("=")) =
                (self.current_token_kind(), self.next_token_kind())
            {
                return fail_at(
                    format!("named arguments are not supported: `{name}=`"),
                    self.current_span(),
                    "write only the values, in order",
                );
            }
            items.push(self.parse_nested(Self::parse_expression)?);
            self.expect_item_end(close, opened)?;
            check_item_count(items.len(), opened)?;
        }
        Ok(items)
    }

    /// Checks that a comma or the closing symbol follows, and moves past the comma.
    fn expect_item_end(&mut self, close: &str, opened: Span) -> ParseResult<()> {
        if self.accept_symbol(",") || self.is_at_symbol(close) {
            return Ok(());
        }
        if *self.current_token_kind() == ConditionTokenKind::End {
            return self.expect_symbol(close, opened);
        }
        self.fail_unexpected(&format!("expected `,` or `{close}`"))
    }

    /// Parses a literal, a name, a call, or a group in brackets.
    fn parse_primary(&mut self) -> ParseResult {
        let span = self.current_span();
        let collection = self.collection_at.take() == Some(self.at);
        let kind = match self.current_token_kind() {
            ConditionTokenKind::Int(number) => match i64::try_from(*number) {
                Ok(number) => ExprKind::Int(number),
                Err(_) => {
                    return fail_at(
                        "the integer is too large",
                        span,
                        "the largest integer is 9223372036854775807",
                    );
                }
            },
            ConditionTokenKind::Float(number) => ExprKind::Float(*number),
            ConditionTokenKind::Text(text) => ExprKind::Text(text.clone()),
            ConditionTokenKind::Name(name) => return self.parse_name(name),
            ConditionTokenKind::Symbol("(") => return self.parse_parentheses(collection),
            ConditionTokenKind::Symbol("[") => {
                self.advance_token();
                if let Some(start) = self.find_comprehension_for() {
                    let comprehension = self.parse_nested(|parser| parser.parse_comprehension(start, false))?;
                    self.expect_symbol("]", span)?;
                    return self.build_node(ExprKind::Comprehension(Box::new(comprehension)), span.start);
                }
                let items = self.parse_expressions_until("]", span)?;
                return self.build_node(ExprKind::List(items), span.start);
            }
            ConditionTokenKind::Symbol("#{") => return self.parse_map(true),
            ConditionTokenKind::Symbol("{") if collection && !self.is_map_start() => {
                self.advance_token();
                let items = self.parse_expressions_until("}", span)?;
                return self.build_node(ExprKind::List(items), span.start);
            }
            ConditionTokenKind::Symbol("{") => return self.parse_map(false),
            _ => return self.fail_unexpected("expected a value"),
        };
        self.advance_token();
        if let ConditionTokenKind::Text(_) = self.current_token_kind() {
            return fail_at(
                "two strings without an operator between them",
                self.current_span(),
                "join them with `+`",
            );
        }
        self.build_node(kind, span.start)
    }

    /// Returns whether the brace at this position begins a map, and not a set.
    fn is_map_start(&self) -> bool {
        let after = |step: usize| self.tokens.get(self.at + step).map(|token| &token.kind);
        matches!(after(1), Some(ConditionTokenKind::Symbol("}")))
            || matches!(after(2), Some(ConditionTokenKind::Symbol(":")))
    }

    /// Parses `(a)` and `()`. After `in`, parses a tuple as a list.
    fn parse_parentheses(&mut self, collection: bool) -> ParseResult {
        let opened = self.current_span();
        self.advance_token();
        if self.accept_symbol(")") {
            let kind = if collection {
                ExprKind::List(Vec::new())
            } else {
                ExprKind::Nothing
            };
            return self.build_node(kind, opened.start);
        }
        let first = self.parse_nested(Self::parse_expression)?;
        if !self.is_at_symbol(",") {
            self.expect_symbol(")", opened)?;
            return Ok(first);
        }
        if !collection {
            return fail_at(
                "a tuple is only allowed after `in`",
                self.current_span(),
                "write a list: `[a, b]`",
            );
        }
        self.advance_token();
        let mut items = vec![first];
        items.append(&mut self.parse_expressions_until(")", opened)?);
        self.build_node(ExprKind::List(items), opened.start)
    }

    /// Parses a map; `rhai`: its keys may be names without quotes.
    fn parse_map(&mut self, rhai: bool) -> ParseResult {
        let opened = self.current_span();
        self.advance_token();
        let mut entries: Vec<(String, ConditionExpr)> = Vec::new();
        let mut keys = std::collections::HashSet::new();
        while !self.accept_symbol("}") {
            let place = self.current_span();
            let key = self.parse_key(rhai)?;
            if !keys.insert(key.clone()) {
                return fail_at(format!("duplicate key `{key}`"), place, "");
            }
            if !self.accept_symbol(":") {
                return self.fail_unexpected("expected `:` after the key");
            }
            entries.push((key, self.parse_nested(Self::parse_expression)?));
            self.expect_item_end("}", opened)?;
            check_item_count(entries.len(), opened)?;
        }
        self.build_node(ExprKind::Map(entries), opened.start)
    }

    /// Parses the key of a map; `rhai`: the key may be a name without quotes.
    fn parse_key(&mut self, rhai: bool) -> ParseResult<String> {
        let key = match self.current_token_kind() {
            ConditionTokenKind::Text(text) => text.clone(),
            ConditionTokenKind::Name(name) if rhai => (*name).to_owned(),
            ConditionTokenKind::Name(name) => {
                return fail_at(
                    "a key must be a string",
                    self.current_span(),
                    format!("write `'{name}'`, or a Rhai map: `#{{ {name}: … }}`"),
                );
            }
            _ => return self.fail_unexpected("expected a key"),
        };
        self.advance_token();
        Ok(key)
    }

    /// Parses a constant, a variable, a call, or an `if` of Rhai.
    fn parse_name(&mut self, name: &'a str) -> ParseResult {
        let span = self.current_span();
        let kind = match name {
            "True" | "true" => ExprKind::Bool(true),
            "False" | "false" => ExprKind::Bool(false),
            "None" => ExprKind::Nothing,
            "if" => return self.parse_if_else(),
            _ if *self.next_token_kind() == ConditionTokenKind::Symbol("(") && !refusals::is_reserved(name) => {
                return self.parse_call(name);
            }
            _ => match self.resolve_name(name) {
                Some(kind) => kind,
                None => return Err(self.unknown_name_error(name, span)),
            },
        };
        self.advance_token();
        self.build_node(kind, span.start)
    }

    /// Builds the error for an unknown name, or for a comprehension in a wrong place.
    fn unknown_name_error(&self, name: &str, span: Span) -> CompileError {
        let mut after = self.tokens[self.at..].iter();
        match after.find(|token| token.kind == ConditionTokenKind::Name("for")) {
            Some(comprehension) if self.locals.is_empty() => refusals::unexpected_token_error("", None, comprehension),
            _ => refusals::unknown_name_error(name, span, self.names, &self.locals),
        }
    }

    /// Resolves a variable of an enclosing comprehension, of a part, or of all conditions.
    fn resolve_name(&self, name: &str) -> Option<ExprKind> {
        if let Some(number) = self.locals.iter().position(|local| *local == name) {
            return Some(ExprKind::Local(LocalVariable {
                name: name.into(),
                number,
            }));
        }
        let variable = self.names.find_part_variable(name);
        let variable = variable.or_else(|| ConditionVariable::from_name(name))?;
        Some(ExprKind::Variable(variable))
    }

    /// Parses the call of a function by name.
    fn parse_call(&mut self, name: &str) -> ParseResult {
        let span = self.current_span();
        let Some(function) = ConditionFunction::find_by_name(name) else {
            return Err(refusals::unknown_function_error(name, span));
        };
        self.advance_token();
        let arguments = self.parse_arguments(Some(function))?;
        check_arity(
            function,
            name,
            arguments.len(),
            0,
            Span::new(span.start, self.previous_token_end()),
        )?;
        self.build_node(ExprKind::Call(function, arguments), span.start)
    }

    /// Parses `if c { x } else { y }`. Without `else`, the value is nothing.
    fn parse_if_else(&mut self) -> ParseResult {
        let start = self.current_span().start;
        self.advance_token();
        let condition = self.parse_nested(Self::parse_expression)?;
        let then = self.parse_block()?;
        let otherwise = if !self.accept_word("else") {
            self.build_node(ExprKind::Nothing, self.previous_token_end())?
        } else if self.is_at_word("if") {
            self.parse_nested(Self::parse_if_else)?
        } else {
            self.parse_block()?
        };
        let choice = IfElseExpr {
            condition,
            then,
            otherwise,
        };
        self.build_node(ExprKind::IfElse(Box::new(choice)), start)
    }

    /// Parses `{ expression }`.
    fn parse_block(&mut self) -> ParseResult {
        let opened = self.current_span();
        if !self.accept_symbol("{") {
            return self.fail_unexpected("expected `{`");
        }
        let value = self.parse_nested(Self::parse_expression)?;
        self.expect_symbol("}", opened)?;
        Ok(value)
    }
}

/// Checks the number of items of a list, map or call against the limit.
fn check_item_count(items: usize, opened: Span) -> ParseResult<()> {
    if items > ITEM_LIMIT {
        return fail_at(format!("more than {ITEM_LIMIT} items, which is the limit"), opened, "");
    }
    Ok(())
}

/// Returns the error about a slice with a step.
fn fail_slice_step<T>(span: Span) -> ParseResult<T> {
    fail_at("a slice has no step", span, "write `[from:to]`, such as `history[-3:]`")
}

/// Checks the number of arguments. `given` includes the value before the dot, `before` is the number of such values.
fn check_arity(function: &ConditionFunction, name: &str, given: usize, before: usize, span: Span) -> ParseResult<()> {
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
    fail_at(
        format!("`{name}` takes {takes} argument{plural}, not {given}"),
        span,
        "",
    )
}
