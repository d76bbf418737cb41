//! Filters, tests, functions and methods of templates.

use minijinja::machinery::ast::{Call, Expr, Filter, Test};

use super::filters::{TESTS, filter_words, find_filter};
use super::infer::text_of;
use super::{Typing, Want, can, span, whole};
use crate::condition::{Advice, Mistake, Type, says};
use crate::diagnostic::did_you_mean;
use crate::source::Span;
use crate::template::METHODS;

impl<'t> Typing<'t, '_> {
    pub(super) fn filter(&mut self, filter: &Filter<'t>, place: Span) -> Type {
        let row = find_filter(filter.name);
        if row.is_none() {
            self.unknown("filter", filter.name, filter_words().map(|word| word.name), place);
        }
        let want = match filter.name {
            "default" | "d" => Want::PERHAPS,
            _ => Want::VALUE,
        };
        let of = match &filter.expr {
            Some(expr) => self.infer(expr, want),
            None => Type::text(),
        };
        self.arguments(&filter.args);
        if let Some((needed, fits)) = row.and_then(|row| row.needs)
            && says(&of)
            && !can(&of, fits)
        {
            let place = filter.expr.as_ref().map_or(place, whole);
            let message = format!(
                "`{}` is {of}, but the filter `{}` needs {needed}",
                self.words(place),
                filter.name
            );
            self.report(Mistake::Fails, place, message, None);
            return Type::any();
        }
        row.map_or(Type::any(), |row| (row.result)(&of))
    }

    pub(super) fn test(&mut self, test: &Test<'t>, place: Span) -> Type {
        if !TESTS.contains(&test.name) {
            self.unknown("test", test.name, TESTS.into_iter(), place);
        }
        self.infer(&test.expr, Want::PERHAPS);
        self.arguments(&test.args);
        Type::boolean()
    }

    /// Reports a filter or a test that does not exist.
    fn unknown(&mut self, what: &str, name: &str, known: impl Iterator<Item = &'static str>, place: Span) {
        if name.starts_with("__kept") || self.asks_for_filters {
            return;
        }
        let place = self.place_of(name, place);
        let help = match did_you_mean(name, known) {
            Some(near) => Advice::near(near, name, self.text, place),
            None => Advice::from(instead(name).map_or_else(
                || format!("the {what}s are those of MiniJinja"),
                |instead| format!("write {instead}"),
            )),
        };
        self.report(
            Mistake::Unknown,
            place,
            format!("there is no {what} `{name}`"),
            Some(help),
        );
    }

    pub(super) fn call(&mut self, call: &Call<'t>, want: Want) -> Type {
        let of = match &call.expr {
            Expr::Var(var) => {
                if self.is_of_run(var.id) {
                    let message = format!("`{}` is a value and no function", var.id);
                    self.report(Mistake::Fails, span(call.expr.span()), message, None);
                }
                Type::any()
            }
            Expr::GetAttr(one) => {
                let of = self.infer(&one.expr, want);
                self.method(&one.expr, one.name, span(one.span()), &of, call)
            }
            other => {
                self.infer(other, Want::VALUE);
                Type::any()
            }
        };
        self.arguments(&call.args);
        of
    }

    /// Maps of the run have a few methods; other values have none.
    fn method(&mut self, base: &Expr<'t>, name: &str, place: Span, of: &Type, call: &Call<'t>) -> Type {
        if matches!(base, Expr::Var(var) if ["loop", "self", "super"].contains(&var.id)) {
            return Type::any();
        }
        let is_plain = says(of) && !can(of, |shape| shape.map.is_some());
        if is_plain || self.is_value_of_run(base) && !METHODS.contains(&name) {
            let place = self.place_of(name, place);
            let what = match says(of) {
                true => format!("is {of}, which"),
                false => "is a value, which".to_owned(),
            };
            let message = format!("`{}` {what} has no method `{name}`", self.words(whole(base)));
            let words = self.words(whole(base));
            let help = instead(name).map(|filter| format!("write `{words} | {filter}`").into());
            self.report(Mistake::Fails, place, message, help);
            return Type::any();
        }
        match (name, call.args.as_slice()) {
            ("keys", []) => Type::list(Type::text()),
            ("items" | "values", []) => Type::list(Type::any()),
            ("get", [minijinja::machinery::ast::CallArg::Pos(key)]) => match text_of(key) {
                Some(key) => of.key(&key),
                None => Type::any(),
            },
            _ => Type::any(),
        }
    }

    /// Returns whether the expression gives a value of the run: the value of a variable, or a part of one.
    fn is_value_of_run(&self, expr: &Expr<'t>) -> bool {
        match expr {
            Expr::Var(var) => self.is_of_run(var.id),
            Expr::GetAttr(one) => self.is_value_of_run(&one.expr),
            Expr::GetItem(one) => self.is_value_of_run(&one.expr),
            _ => false,
        }
    }
}

/// The filter for a method of Python, or for a filter of Jinja2 that MiniJinja does not have.
fn instead(method: &str) -> Option<&'static str> {
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
