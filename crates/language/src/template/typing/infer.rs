//! What an expression of a template gives.

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};

use super::{ExpressionUse, TemplateTypeChecker, any_number_type, can_have_shape, to_span, whole_span};
use crate::condition::{
    MapFields, SuggestedReplacement, TypeProblemKind, ValueType, find_known_truth, is_informative_type,
};
use crate::diagnostic::find_similar_word;
use crate::source::Span;
use crate::template::view;

impl<'t> TemplateTypeChecker<'t, '_> {
    /// Infers the type of the expression, and reports its problems. `want`: the use of its value.
    pub(super) fn infer_type(&mut self, expr: &Expr<'t>, want: ExpressionUse) -> ValueType {
        match expr {
            Expr::Var(var) => self.variable_type(var.id),
            Expr::Const(value) => ValueType::exact_value_type(&view::to_json(&value.value)),
            Expr::GetAttr(one) => {
                let place = self.find_last_word(one.name, to_span(one.span()));
                self.infer_member(&one.expr, one.name, place, want)
            }
            Expr::GetItem(one) => match as_constant_text(&one.subscript_expr) {
                Some(name) => {
                    let place = span_inside_quotes(to_span(one.subscript_expr.span()));
                    self.infer_member(&one.expr, &name, place, want)
                }
                None => {
                    let of = self.infer_type(&one.expr, want);
                    self.infer_type(&one.subscript_expr, ExpressionUse::VALUE);
                    optional_item_type(&of)
                }
            },
            Expr::Slice(one) => {
                let of = self.infer_type(&one.expr, want);
                let bounds = [&one.start, &one.stop, &one.step].into_iter().flatten();
                bounds.for_each(|bound| drop(self.infer_type(bound, ExpressionUse::VALUE)));
                infer_slice_type(&of)
            }
            Expr::UnaryOp(one) => match one.op {
                UnaryOpKind::Not => match find_known_truth(&self.infer_type(&one.expr, want.negate_wanted())) {
                    Some(is_true) => ValueType::exact_value_type(&(!is_true).into()),
                    None => ValueType::any_boolean(),
                },
                UnaryOpKind::Neg => self.infer_negative(&one.expr),
            },
            Expr::BinOp(two) => match to_comparison(two.op) {
                Some(comparison) => {
                    let left = self.infer_type(&two.left, ExpressionUse::VALUE);
                    let right = self.infer_type(&two.right, ExpressionUse::VALUE);
                    self.infer_comparison((&two.left, &left), (&two.right, &right), comparison, want)
                }
                None => self.infer_binary(two.op, &two.left, &two.right, want),
            },
            Expr::Compare(chain) => {
                let (mut left_expr, mut left) = (&chain.expr, self.infer_type(&chain.expr, ExpressionUse::VALUE));
                let mut all = ValueType::any_boolean();
                for next in &chain.ops {
                    let right = self.infer_type(&next.expr, ExpressionUse::VALUE);
                    let comparison_type =
                        self.infer_comparison((left_expr, &left), (&next.expr, &right), next.op, want);
                    if find_known_truth(&comparison_type) == Some(false) {
                        all = comparison_type;
                    }
                    (left_expr, left) = (&next.expr, right);
                }
                all
            }
            Expr::IfExpr(choice) => {
                let known_truth = find_known_truth(&self.infer_type(&choice.test_expr, ExpressionUse::TRUTH));
                let is_guard = super::names::contains_type_test(&choice.test_expr);
                let mut then = ValueType::impossible_value();
                self.visit_without_reports(is_guard || known_truth == Some(false), |it| {
                    then = it.infer_type(&choice.true_expr, want)
                });
                let mut otherwise = ValueType::nothing_value();
                if let Some(expr) = &choice.false_expr {
                    self.visit_without_reports(is_guard || known_truth == Some(true), |it| {
                        otherwise = it.infer_type(expr, want)
                    });
                }
                then.union_with(otherwise)
            }
            Expr::Filter(filter) => self.infer_filter(filter, whole_span(expr)),
            Expr::Test(test) => self.infer_test(test, whole_span(expr)),
            Expr::Call(call) => self.infer_call(call, want),
            Expr::List(list) => {
                let items: Vec<ValueType> = list
                    .items
                    .iter()
                    .map(|item| self.infer_type(item, ExpressionUse::VALUE))
                    .collect();
                ValueType::list_with_items(
                    items
                        .into_iter()
                        .fold(ValueType::impossible_value(), ValueType::union_with),
                )
            }
            Expr::Tuple(tuple) => {
                tuple
                    .items
                    .iter()
                    .for_each(|item| drop(self.infer_type(item, ExpressionUse::VALUE)));
                ValueType::any_value()
            }
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for (key, value) in map.keys.iter().zip(&map.values) {
                    let of = self.infer_type(value, ExpressionUse::VALUE);
                    entries.push(as_constant_text(key).map(|key| (key, of)));
                }
                let entries: Option<Vec<(String, ValueType)>> = entries.into_iter().collect();
                entries.map_or_else(ValueType::any_value, |entries| {
                    ValueType::map_with_fields(MapFields::with_exact_keys(entries))
                })
            }
        }
    }

    /// Checks the arguments of a call.
    pub(super) fn check_arguments(&mut self, all: &[CallArg<'t>]) {
        for argument in all {
            let (CallArg::Pos(expr) | CallArg::Kwarg(_, expr) | CallArg::PosSplat(expr) | CallArg::KwargSplat(expr)) =
                argument;
            self.infer_type(expr, ExpressionUse::VALUE);
        }
    }

    /// Infers the type of a key of a value, without copying the types of a whole variable.
    fn infer_member(&mut self, base: &Expr<'t>, name: &str, place: Span, want: ExpressionUse) -> ValueType {
        let at = whole_span(base);
        if let Expr::Var(var) = base {
            let Some(of) = self.find_known_type(var.id) else {
                return ValueType::any_value();
            };
            let lookup = look_up_key(of, name);
            return self.resolve_lookup(lookup, name, at, place, want);
        }
        let of = self.infer_type(base, want);
        let lookup = look_up_key(&of, name);
        self.resolve_lookup(lookup, name, at, place, want)
    }

    /// Returns the type of the lookup, or reports the missing key. `place`: the span of the key.
    fn resolve_lookup(
        &mut self,
        found: KeyLookup,
        name: &str,
        base: Span,
        place: Span,
        want: ExpressionUse,
    ) -> ValueType {
        let (message, help) = match found {
            KeyLookup::Found(of) => return of,
            KeyLookup::Missing { near, known } => {
                let message = format!("`{}` has no key `{name}`", self.part_text(base));
                if want.is_asked && near.is_none() {
                    return ValueType::nothing_value();
                }
                let help = match near {
                    Some(similar_key) => SuggestedReplacement::for_near_word(&similar_key, name, self.text, place),
                    None if known.is_empty() => "the value has no keys".to_owned().into(),
                    None => format!("the known keys are {}", known.join(", ")).into(),
                };
                (message, help)
            }
            KeyLookup::NoMap(what) => {
                let message = format!("`{}` is {what}, so it has no key `{name}`", self.part_text(base));
                if want.is_asked {
                    return ValueType::nothing_value();
                }
                (
                    message,
                    "print the value itself, or read the key of a map".to_owned().into(),
                )
            }
        };
        self.report_problem(
            TypeProblemKind::NoKey,
            place,
            format!("{message}, so this is empty"),
            Some(help),
        );
        ValueType::nothing_value()
    }

    /// Infers the type of `-operand`, and reports an operand that is never a number.
    fn infer_negative(&mut self, operand: &Expr<'t>) -> ValueType {
        let of = self.infer_type(operand, ExpressionUse::VALUE);
        if is_informative_type(&of) && !can_have_shape(&of, |shape| shape.number.is_some()) {
            let message = format!(
                "`{}` is {of}, but must be a number",
                self.part_text(whole_span(operand))
            );
            self.report_problem(TypeProblemKind::Fails, whole_span(operand), message, None);
        }
        any_number_type()
    }
}

/// Returns the span of a string literal without its quotes.
fn span_inside_quotes(place: Span) -> Span {
    match place.end - place.start {
        0 | 1 => place,
        _ => Span::new(place.start + 1, place.end - 1),
    }
}

enum KeyLookup {
    Found(ValueType),
    Missing { near: Option<String>, known: Vec<String> },
    NoMap(String),
}

/// Looks up a key in the type. An unknown type has every key.
fn look_up_key(of: &ValueType, name: &str) -> KeyLookup {
    let Some(shape) = of.known_shape().filter(|_| is_informative_type(of)) else {
        return KeyLookup::Found(ValueType::any_value());
    };
    if shape.map.is_none() {
        return KeyLookup::NoMap(of.to_string());
    }
    let Some(fields) = of.map_fields() else {
        return KeyLookup::Found(ValueType::any_value());
    };
    match fields.find_value_type(name) {
        Some(value_type) => KeyLookup::Found(value_type),
        None => {
            let similar_key = find_similar_word(name, fields.known_keys.keys().map(String::as_str)).map(str::to_owned);
            let known_keys = fields
                .known_keys
                .keys()
                .take(12)
                .map(|key| format!("`{key}`"))
                .collect();
            KeyLookup::Missing {
                near: similar_key,
                known: known_keys,
            }
        }
    }
}

/// Returns the type of an item of a list, which may be missing.
fn optional_item_type(of: &ValueType) -> ValueType {
    let Some(shape) = of.known_shape() else {
        return ValueType::any_value();
    };
    match (&shape.list, &shape.text, &shape.map) {
        (Some(item), None, None) => item.clone().union_with(ValueType::nothing_value()),
        _ => ValueType::any_value(),
    }
}

/// Returns the text of a string literal.
pub(super) fn as_constant_text(expr: &Expr<'_>) -> Option<String> {
    match expr {
        Expr::Const(value) => value.value.as_str().map(str::to_owned),
        _ => None,
    }
}

/// Converts an operator to a comparison; `None` for other operators.
fn to_comparison(op: BinOpKind) -> Option<CompareOpKind> {
    Some(match op {
        BinOpKind::Eq => CompareOpKind::Eq,
        BinOpKind::Ne => CompareOpKind::Ne,
        BinOpKind::Lt => CompareOpKind::Lt,
        BinOpKind::Lte => CompareOpKind::Lte,
        BinOpKind::Gt => CompareOpKind::Gt,
        BinOpKind::Gte => CompareOpKind::Gte,
        BinOpKind::In => CompareOpKind::In,
        _ => return None,
    })
}

/// Returns the type of a slice: a part of a text, items of a list, or an empty list of nothing. Other values have no slices.
fn infer_slice_type(of: &ValueType) -> ValueType {
    let Some(shape) = of.known_shape() else {
        return ValueType::any_value();
    };
    let text = shape.text.as_ref().map(|_| ValueType::any_text());
    let items = shape.list.clone().map(ValueType::list_with_items);
    let nothing = shape
        .can_be_nothing
        .then(|| ValueType::list_with_items(ValueType::impossible_value()));
    [text, items, nothing]
        .into_iter()
        .flatten()
        .reduce(ValueType::union_with)
        .unwrap_or_default()
}
