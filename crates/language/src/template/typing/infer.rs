//! What an expression of a template gives.

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};

use super::{Typing, Want, can, number, span, whole};
use crate::condition::{Advice, Fields, Mistake, Type, says, truth};
use crate::diagnostic::did_you_mean;
use crate::source::Span;
use crate::template::view;

impl<'t> Typing<'t, '_> {
    pub(super) fn infer(&mut self, expr: &Expr<'t>, want: Want) -> Type {
        match expr {
            Expr::Var(var) => self.variable(var.id),
            Expr::Const(value) => Type::of_value(&view::to_json(&value.value)),
            Expr::GetAttr(one) => {
                let place = self.place_of(one.name, span(one.span()));
                self.member(&one.expr, one.name, place, want)
            }
            Expr::GetItem(one) => match text_of(&one.subscript_expr) {
                Some(name) => {
                    let place = inside_quotes(span(one.subscript_expr.span()));
                    self.member(&one.expr, &name, place, want)
                }
                None => {
                    let of = self.infer(&one.expr, want);
                    self.infer(&one.subscript_expr, Want::VALUE);
                    item(&of)
                }
            },
            Expr::Slice(one) => {
                let of = self.infer(&one.expr, want);
                let bounds = [&one.start, &one.stop, &one.step].into_iter().flatten();
                bounds.for_each(|bound| drop(self.infer(bound, Want::VALUE)));
                sliced(&of)
            }
            Expr::UnaryOp(one) => match one.op {
                UnaryOpKind::Not => match truth(&self.infer(&one.expr, want.opposite())) {
                    Some(is_true) => Type::of_value(&(!is_true).into()),
                    None => Type::boolean(),
                },
                UnaryOpKind::Neg => self.negative(&one.expr),
            },
            Expr::BinOp(two) => match compared(two.op) {
                Some(comparison) => {
                    let left = self.infer(&two.left, Want::VALUE);
                    let right = self.infer(&two.right, Want::VALUE);
                    self.compare((&two.left, &left), (&two.right, &right), comparison, want)
                }
                None => self.binary(two.op, &two.left, &two.right, want),
            },
            Expr::Compare(chain) => {
                let (mut left_expr, mut left) = (&chain.expr, self.infer(&chain.expr, Want::VALUE));
                let mut all = Type::boolean();
                for next in &chain.ops {
                    let right = self.infer(&next.expr, Want::VALUE);
                    let one = self.compare((left_expr, &left), (&next.expr, &right), next.op, want);
                    if truth(&one) == Some(false) {
                        all = one;
                    }
                    (left_expr, left) = (&next.expr, right);
                }
                all
            }
            Expr::IfExpr(choice) => {
                let asked = truth(&self.infer(&choice.test_expr, Want::TRUTH));
                let is_guard = super::names::asks_for_type(&choice.test_expr);
                let mut then = Type::never();
                self.guarded(is_guard || asked == Some(false), |it| {
                    then = it.infer(&choice.true_expr, want)
                });
                let mut otherwise = Type::nothing();
                if let Some(expr) = &choice.false_expr {
                    self.guarded(is_guard || asked == Some(true), |it| otherwise = it.infer(expr, want));
                }
                then.or(otherwise)
            }
            Expr::Filter(filter) => self.filter(filter, whole(expr)),
            Expr::Test(test) => self.test(test, whole(expr)),
            Expr::Call(call) => self.call(call, want),
            Expr::List(list) => {
                let items: Vec<Type> = list.items.iter().map(|item| self.infer(item, Want::VALUE)).collect();
                Type::list(items.into_iter().fold(Type::never(), Type::or))
            }
            Expr::Tuple(tuple) => {
                tuple.items.iter().for_each(|item| drop(self.infer(item, Want::VALUE)));
                Type::any()
            }
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for (key, value) in map.keys.iter().zip(&map.values) {
                    let of = self.infer(value, Want::VALUE);
                    entries.push(text_of(key).map(|key| (key, of)));
                }
                let entries: Option<Vec<(String, Type)>> = entries.into_iter().collect();
                entries.map_or_else(Type::any, |entries| Type::map(Fields::exactly(entries)))
            }
        }
    }

    pub(super) fn arguments(&mut self, all: &[CallArg<'t>]) {
        for one in all {
            let (CallArg::Pos(expr) | CallArg::Kwarg(_, expr) | CallArg::PosSplat(expr) | CallArg::KwargSplat(expr)) =
                one;
            self.infer(expr, Want::VALUE);
        }
    }

    /// A key of a value. What a whole map of the run holds is not copied for that.
    fn member(&mut self, base: &Expr<'t>, name: &str, place: Span, want: Want) -> Type {
        let at = whole(base);
        if let Expr::Var(var) = base {
            let Some(of) = self.known(var.id) else {
                return Type::any();
            };
            let found = lookup(of, name);
            return self.found(found, name, at, place, want);
        }
        let of = self.infer(base, want);
        let found = lookup(&of, name);
        self.found(found, name, at, place, want)
    }

    fn found(&mut self, found: Lookup, name: &str, base: Span, place: Span, want: Want) -> Type {
        let (message, help) = match found {
            Lookup::Found(of) => return of,
            Lookup::Missing { near, known } => {
                let message = format!("`{}` has no key `{name}`", self.words(base));
                if want.is_asked && near.is_none() {
                    return Type::nothing();
                }
                let help = match near {
                    Some(near) => Advice::near(&near, name, self.text, place),
                    None if known.is_empty() => "it has no keys".to_owned().into(),
                    None => format!("the known keys are {}", known.join(", ")).into(),
                };
                (message, help)
            }
            Lookup::NoMap(what) => {
                let message = format!("`{}` is {what}, so it has no key `{name}`", self.words(base));
                if want.is_asked {
                    return Type::nothing();
                }
                (
                    message,
                    "print the value itself, or read the key of a map".to_owned().into(),
                )
            }
        };
        self.report(
            Mistake::NoKey,
            place,
            format!("{message}, so this is empty"),
            Some(help),
        );
        Type::nothing()
    }

    fn negative(&mut self, operand: &Expr<'t>) -> Type {
        let of = self.infer(operand, Want::VALUE);
        if says(&of) && !can(&of, |shape| shape.number.is_some()) {
            let message = format!("`{}` is {of}, but must be a number", self.words(whole(operand)));
            self.report(Mistake::Fails, whole(operand), message, None);
        }
        number()
    }
}

fn inside_quotes(place: Span) -> Span {
    match place.end - place.start {
        0 | 1 => place,
        _ => Span::new(place.start + 1, place.end - 1),
    }
}

enum Lookup {
    Found(Type),
    Missing { near: Option<String>, known: Vec<String> },
    NoMap(String),
}

fn lookup(of: &Type, name: &str) -> Lookup {
    let Some(shape) = of.shape().filter(|_| says(of)) else {
        return Lookup::Found(Type::any());
    };
    if shape.map.is_none() {
        return Lookup::NoMap(of.to_string());
    }
    let Some(fields) = of.fields() else {
        return Lookup::Found(Type::any());
    };
    match fields.get(name) {
        Some(found) => Lookup::Found(found),
        None => {
            let near = did_you_mean(name, fields.known.keys().map(String::as_str)).map(str::to_owned);
            let known = fields.known.keys().take(12).map(|key| format!("`{key}`")).collect();
            Lookup::Missing { near, known }
        }
    }
}

/// An item of a list, which may not be there.
fn item(of: &Type) -> Type {
    let Some(shape) = of.shape() else {
        return Type::any();
    };
    match (&shape.list, &shape.text, &shape.map) {
        (Some(item), None, None) => item.clone().or(Type::nothing()),
        _ => Type::any(),
    }
}

pub(super) fn text_of(expr: &Expr<'_>) -> Option<String> {
    match expr {
        Expr::Const(value) => value.value.as_str().map(str::to_owned),
        _ => None,
    }
}

fn compared(op: BinOpKind) -> Option<CompareOpKind> {
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

/// Returns the type of a slice: a part of a text, some items of a list, and an empty list of nothing. Other values have
/// no slices.
fn sliced(of: &Type) -> Type {
    let Some(shape) = of.shape() else {
        return Type::any();
    };
    let text = shape.text.as_ref().map(|_| Type::text());
    let items = shape.list.clone().map(Type::list);
    let nothing = shape.nothing.then(|| Type::list(Type::never()));
    [text, items, nothing]
        .into_iter()
        .flatten()
        .reduce(Type::or)
        .unwrap_or_default()
}
