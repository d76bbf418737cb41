//! Filters, tests, functions and methods of templates.

use minijinja::machinery::ast::{Call, Expr, Filter, Test};

use super::filters::{TEST_NAMES, find_filter, list_filter_words};
use super::infer::as_constant_text;
use super::{ExpressionUse, TemplateTypeChecker, can_have_shape, to_span, whole_span};
use crate::condition::{SuggestedReplacement, TypeProblemKind, ValueType, is_informative_type};
use crate::diagnostic::find_similar_word;
use crate::source::Span;
use crate::template::MAP_METHODS;

impl<'t> TemplateTypeChecker<'t, '_> {
    /// Infers the type of a filter, and reports an unknown filter and an operand that never fits.
    pub(super) fn infer_filter(&mut self, filter: &Filter<'t>, place: Span) -> ValueType {
        let row = find_filter(filter.name);
        if row.is_none() {
            self.report_unknown_name("filter", filter.name, list_filter_words().map(|word| word.name), place);
        }
        let want = match filter.name {
            "default" | "d" => ExpressionUse::MAY_BE_MISSING,
            _ => ExpressionUse::VALUE,
        };
        let of = match &filter.expr {
            Some(expr) => self.infer_type(expr, want),
            None => ValueType::any_text(),
        };
        self.check_arguments(&filter.args);
        if let Some((needed, fits)) = row.and_then(|row| row.needs)
            && is_informative_type(&of)
            && !can_have_shape(&of, fits)
        {
            let place = filter.expr.as_ref().map_or(place, whole_span);
            let message = format!(
                "`{}` is {of}, but the filter `{}` needs {needed}",
                self.part_text(place),
                filter.name
            );
            self.report_problem(TypeProblemKind::Fails, place, message, None);
            return ValueType::any_value();
        }
        row.map_or(ValueType::any_value(), |row| (row.result)(&of))
    }

    /// Infers the type of a test, which is a boolean, and reports an unknown test.
    pub(super) fn infer_test(&mut self, test: &Test<'t>, place: Span) -> ValueType {
        if !TEST_NAMES.contains(&test.name) {
            self.report_unknown_name("test", test.name, TEST_NAMES.into_iter(), place);
        }
        self.infer_type(&test.expr, ExpressionUse::MAY_BE_MISSING);
        self.check_arguments(&test.args);
        ValueType::any_boolean()
    }

    /// Reports an unknown filter or test (`what`), with a similar name as help.
    fn report_unknown_name(&mut self, what: &str, name: &str, known: impl Iterator<Item = &'static str>, place: Span) {
        if name.starts_with("__kept") || self.asks_for_filters {
            return;
        }
        let place = self.find_last_word(name, place);
        let help = match find_similar_word(name, known) {
            Some(similar_name) => SuggestedReplacement::for_near_word(similar_name, name, self.text, place),
            None => SuggestedReplacement::from(find_filter_for_method(name).map_or_else(
                || format!("use a {what} of MiniJinja"),
                |instead| format!("write {instead}"),
            )),
        };
        self.report_problem(
            TypeProblemKind::UnknownName,
            place,
            format!("there is no {what} `{name}`"),
            Some(help),
        );
    }

    /// Infers the type of a call, and reports a call of a value.
    pub(super) fn infer_call(&mut self, call: &Call<'t>, want: ExpressionUse) -> ValueType {
        let of = match &call.expr {
            Expr::Var(var) => {
                if self.is_run_value(var.id) {
                    let message = format!("`{}` is a value, not a function", var.id);
                    self.report_problem(TypeProblemKind::Fails, to_span(call.expr.span()), message, None);
                }
                ValueType::any_value()
            }
            Expr::GetAttr(one) => {
                let of = self.infer_type(&one.expr, want);
                self.infer_method_call(&one.expr, one.name, to_span(one.span()), &of, call)
            }
            other => {
                self.infer_type(other, ExpressionUse::VALUE);
                ValueType::any_value()
            }
        };
        self.check_arguments(&call.args);
        of
    }

    /// Infers the type of a method call, and reports methods that the value does not have.
    fn infer_method_call(
        &mut self,
        base: &Expr<'t>,
        name: &str,
        place: Span,
        of: &ValueType,
        call: &Call<'t>,
    ) -> ValueType {
        if matches!(base, Expr::Var(var) if ["loop", "self", "super"].contains(&var.id)) {
            return ValueType::any_value();
        }
        let is_plain = is_informative_type(of) && !can_have_shape(of, |shape| shape.map.is_some());
        if is_plain || self.is_run_value_expr(base) && !MAP_METHODS.contains(&name) {
            let place = self.find_last_word(name, place);
            let description = match is_informative_type(of) {
                true => format!("is {of}, which"),
                false => "is a value, which".to_owned(),
            };
            let message = format!(
                "`{}` {description} has no method `{name}`",
                self.part_text(whole_span(base))
            );
            let words = self.part_text(whole_span(base));
            let help = find_filter_for_method(name).map(|filter| format!("write `{words} | {filter}`").into());
            self.report_problem(TypeProblemKind::Fails, place, message, help);
            return ValueType::any_value();
        }
        match (name, call.args.as_slice()) {
            ("keys", []) => ValueType::list_with_items(ValueType::any_text()),
            ("items" | "values", []) => ValueType::list_with_items(ValueType::any_value()),
            ("get", [minijinja::machinery::ast::CallArg::Pos(key)]) => match as_constant_text(key) {
                Some(key) => of.key_type(&key),
                None => ValueType::any_value(),
            },
            _ => ValueType::any_value(),
        }
    }

    /// Returns whether the expression is a variable of the run, or a part of one.
    fn is_run_value_expr(&self, expr: &Expr<'t>) -> bool {
        match expr {
            Expr::Var(var) => self.is_run_value(var.id),
            Expr::GetAttr(one) => self.is_run_value_expr(&one.expr),
            Expr::GetItem(one) => self.is_run_value_expr(&one.expr),
            _ => false,
        }
    }
}

/// Returns the filter for a method of Python, or for a filter of Jinja2 that MiniJinja does not have.
fn find_filter_for_method(method: &str) -> Option<&'static str> {
    Some(match method {
        "upper" => "upper",
        "lower" => "lower",
        "strip" | "trim" => "trim",
        "title" => "title",
        "capitalize" => "capitalize",
        "replace" => "replace(…)",
        "split" => "split(…)",
        "splitlines" => "lines",
        "join" => "join(…)",
        "len" | "length" | "count" | "size" | "wordcount" => "length",
        "reverse" => "reverse",
        "to_json" | "json" => "tojson",
        "str" => "string",
        _ => return None,
    })
}
