//! What the parts of a template can be, and what in it cannot work.
//!
//! **Invariants:** a part that is reported as an error is an error wherever it is rendered with a value, and a key that is
//! reported as missing is never there. What is not understood is anything, of which nothing is reported.

mod calls;
mod filters;
mod infer;
mod names;
mod operators;

pub use self::filters::list_filter_words;

use std::collections::{HashMap, HashSet};

use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{Span as Place, parse};
use minijinja::syntax::SyntaxConfig;

use crate::condition::{
    MapFields, NumberRange, SuggestedReplacement, TypeProblem, TypeProblemKind, ValueType, find_known_truth,
    is_informative_type,
};
use crate::source::Span;

/// A function that returns the type of a variable. `None`: the variable does not exist, or its type is not known.
pub type VariableTypeLookup<'a> = dyn Fn(&str) -> Option<&'a ValueType> + 'a;

/// Returns all parts of the template that do not fit the types of their variables, from left to right. Returns none if
/// the text is no template.
pub fn find_type_problems<'a>(text: &str, variables: &VariableTypeLookup<'a>) -> Vec<TypeProblem> {
    if super::contains_no_brace(text) || super::scan_checked(text).is_err() {
        return Vec::new();
    }
    let Ok(Stmt::Template(template)) = parse(text, super::TEMPLATE_NAME, SyntaxConfig::default()) else {
        return Vec::new();
    };
    let mut typing = TemplateTypeChecker {
        text,
        variables,
        assigned_names: names::collect_assigned_names(&template.children),
        asks_for_filters: ["is filter", "is test", "is not filter", "is not test"]
            .iter()
            .any(|asked| text.contains(asked)),
        scopes: Vec::new(),
        problems: Vec::new(),
        guards: 0,
    };
    typing.check_statements(&template.children);
    let mut misfits = typing.problems;
    misfits.sort_by_key(|misfit| misfit.span.start);
    misfits
}

/// The use of a value: whether the template checks its presence, and whether it must be true.
#[derive(Clone, Copy)]
struct ExpressionUse {
    is_asked: bool,
    is_wanted: bool,
}

impl ExpressionUse {
    /// A value that is used.
    const VALUE: Self = Self {
        is_asked: false,
        is_wanted: false,
    };
    /// Something of which the truth is asked.
    const TRUTH: Self = Self {
        is_asked: true,
        is_wanted: true,
    };
    /// Something that may be missing.
    const MAY_BE_MISSING: Self = Self {
        is_asked: true,
        is_wanted: false,
    };

    /// Returns the use of an operand of `not`.
    fn negate_wanted(self) -> Self {
        Self {
            is_wanted: !self.is_wanted,
            ..self
        }
    }
}

/// The state of inferring the types of a template, with the problems that were found.
struct TemplateTypeChecker<'t, 'a> {
    text: &'t str,
    variables: &'t VariableTypeLookup<'a>,
    /// The names to which the template assigns values.
    assigned_names: HashSet<&'t str>,
    /// The template asks whether filters or tests exist.
    asks_for_filters: bool,
    /// The names of loops and `with` blocks.
    scopes: Vec<HashMap<&'t str, ValueType>>,
    problems: Vec<TypeProblem>,
    /// The number of blocks around this place that ask for a type, or are never rendered.
    guards: usize,
}

impl<'t> TemplateTypeChecker<'t, '_> {
    /// Checks all statements in order.
    fn check_statements(&mut self, all: &[Stmt<'t>]) {
        all.iter().for_each(|one| self.check_statement(one));
    }

    /// Checks a statement and all statements inside it.
    fn check_statement(&mut self, one: &Stmt<'t>) {
        match one {
            Stmt::Template(_) | Stmt::EmitRaw(_) | Stmt::Extends(_) | Stmt::Include(_) => {}
            Stmt::Import(_) | Stmt::FromImport(_) => {}
            Stmt::EmitExpr(emit) => drop(self.infer_type(&emit.expr, ExpressionUse::VALUE)),
            Stmt::ForLoop(each) => {
                let over = self.infer_type(&each.iter, ExpressionUse::VALUE);
                self.check_iterable(&over, whole_span(&each.iter));
                let mut names = HashMap::from([("loop", loop_variable_type())]);
                match &each.target {
                    Expr::Var(target) => drop(names.insert(target.id, infer_loop_item_type(&over))),
                    target => names::list_target_names(target)
                        .into_iter()
                        .for_each(|name| drop(names.insert(name, ValueType::any_value()))),
                }
                self.scopes.push(names);
                if let Some(filter) = &each.filter_expr {
                    self.infer_type(filter, ExpressionUse::TRUTH);
                }
                self.check_statements(&each.body);
                self.scopes.pop();
                self.check_statements(&each.else_body);
            }
            Stmt::IfCond(choice) => {
                let condition_truth = find_known_truth(&self.infer_type(&choice.expr, ExpressionUse::TRUTH));
                let is_guard = names::contains_type_test(&choice.expr);
                self.visit_without_reports(is_guard || condition_truth == Some(false), |it| {
                    it.check_statements(&choice.true_body)
                });
                self.visit_without_reports(is_guard || condition_truth == Some(true), |it| {
                    it.check_statements(&choice.false_body)
                });
            }
            Stmt::WithBlock(with) => {
                let mut names = HashMap::new();
                for (target, value) in &with.assignments {
                    let of = self.infer_type(value, ExpressionUse::VALUE);
                    match target {
                        Expr::Var(target) => drop(names.insert(target.id, of)),
                        target => names::list_target_names(target)
                            .into_iter()
                            .for_each(|name| drop(names.insert(name, ValueType::any_value()))),
                    }
                }
                self.scopes.push(names);
                self.check_statements(&with.body);
                self.scopes.pop();
            }
            Stmt::Set(set) => drop(self.infer_type(&set.expr, ExpressionUse::VALUE)),
            Stmt::SetBlock(set) => {
                set.filter
                    .iter()
                    .for_each(|filter| drop(self.infer_type(filter, ExpressionUse::VALUE)));
                self.check_statements(&set.body);
            }
            Stmt::AutoEscape(block) => self.check_statements(&block.body),
            Stmt::FilterBlock(block) => {
                self.infer_type(&block.filter, ExpressionUse::VALUE);
                self.check_statements(&block.body);
            }
            Stmt::Block(block) => self.check_statements(&block.body),
            Stmt::Macro(block) => self.check_statements(&block.body),
            Stmt::CallBlock(call) => {
                self.infer_call(&call.call, ExpressionUse::VALUE);
                self.check_statements(&call.macro_decl.body);
            }
            Stmt::Do(call) => drop(self.infer_call(&call.call, ExpressionUse::VALUE)),
        }
    }

    /// Calls `visit`. If `is_guarded` is true, ignores type problems in it, because a type test was made before.
    fn visit_without_reports(&mut self, is_guarded: bool, visit: impl FnOnce(&mut Self)) {
        self.guards += usize::from(is_guarded);
        visit(self);
        self.guards -= usize::from(is_guarded);
    }

    /// Reports a value that cannot be iterated over.
    fn check_iterable(&mut self, of: &ValueType, place: Span) {
        if is_informative_type(of)
            && !can_have_shape(of, |shape| {
                shape.list.is_some() || shape.map.is_some() || shape.text.is_some()
            })
        {
            let message = format!("`{}` is {of}, so it cannot be looped over", self.part_text(place));
            self.report_problem(TypeProblemKind::Fails, place, message, None);
        }
    }

    /// Returns the source text of a part.
    fn part_text(&self, place: Span) -> &'t str {
        self.text.get(place.start..place.end).unwrap_or_default()
    }

    /// Adds a problem, unless a type test guards the part. Unknown names are always reported.
    fn report_problem(
        &mut self,
        mistake: TypeProblemKind,
        span: Span,
        message: String,
        help: Option<SuggestedReplacement>,
    ) {
        if (self.guards == 0 || mistake == TypeProblemKind::UnknownName)
            && self.text.get(span.start..span.end).is_some()
        {
            self.problems.push(TypeProblem {
                kind: mistake,
                message,
                span,
                help,
            });
        }
    }

    /// Returns the span of the last occurrence of a word in a part of the template, or the part itself.
    fn find_last_word(&self, word: &str, place: Span) -> Span {
        let last_start = self.part_text(place).rfind(word).map(|at| place.start + at);
        last_start.map_or(place, |start| Span::new(start, start + word.len()))
    }

    /// Returns the type of a variable; any type if it is not known.
    fn variable_type(&self, name: &str) -> ValueType {
        self.find_known_type(name).cloned().unwrap_or_default()
    }

    /// Returns the type of a variable, unless the template assigns to the name.
    fn find_known_type(&self, name: &str) -> Option<&ValueType> {
        let scope_type = self.scopes.iter().rev().find_map(|names| names.get(name));
        match self.assigned_names.contains(name) {
            true => None,
            false => scope_type.or_else(|| (self.variables)(name)),
        }
    }

    /// Returns whether the name is a variable of the run, and no variable of the template.
    fn is_run_value(&self, name: &str) -> bool {
        let is_local = self.scopes.iter().any(|names| names.contains_key(name));
        !is_local && !self.assigned_names.contains(name) && (self.variables)(name).is_some()
    }
}

/// Returns the span of a whole expression. The span of the parser begins at the last operator of the expression.
fn whole_span(expr: &Expr<'_>) -> Span {
    Span::new(find_first_operand_start(expr), to_span(expr.span()).end)
}

/// Returns the byte at which the first operand of the expression begins.
fn find_first_operand_start(expr: &Expr<'_>) -> usize {
    let own_start = to_span(expr.span()).start;
    let first = match expr {
        Expr::GetAttr(one) => Some(&one.expr),
        Expr::GetItem(one) => Some(&one.expr),
        Expr::Slice(one) => Some(&one.expr),
        Expr::Call(one) => Some(&one.expr),
        Expr::Test(one) => Some(&one.expr),
        Expr::Compare(one) => Some(&one.expr),
        Expr::BinOp(two) => Some(&two.left),
        Expr::IfExpr(choice) => Some(&choice.true_expr),
        Expr::Filter(one) => one.expr.as_ref(),
        _ => None,
    };
    first.map_or(own_start, |first| own_start.min(find_first_operand_start(first)))
}

/// Converts a span of MiniJinja.
fn to_span(place: Place) -> Span {
    Span::new(place.start_offset as usize, place.end_offset as usize)
}

/// Returns whether the type can have such a shape. An unknown type can have any shape.
fn can_have_shape(of: &ValueType, fits: impl Fn(&crate::condition::ValueShape) -> bool) -> bool {
    of.known_shape().is_none_or(fits)
}

/// Returns the type of the items of a loop over the value: items, keys or characters.
fn infer_loop_item_type(of: &ValueType) -> ValueType {
    let Some(shape) = of.known_shape() else {
        return ValueType::any_value();
    };
    let of_text = || ValueType::any_text();
    let items = shape.list.clone();
    let keys = shape.map.as_ref().map(|_| of_text());
    let characters = shape.text.as_ref().map(|_| of_text());
    [items, keys, characters]
        .into_iter()
        .flatten()
        .reduce(ValueType::union_with)
        .unwrap_or_default()
}

/// Returns the type of the variable `loop` inside a loop.
fn loop_variable_type() -> ValueType {
    let count = || ValueType::number_up_to(u64::MAX);
    let all = [
        ("index", count()),
        ("index0", count()),
        ("revindex", count()),
        ("revindex0", count()),
        ("length", count()),
        ("first", ValueType::any_boolean()),
        ("last", ValueType::any_boolean()),
        ("depth", count()),
        ("depth0", count()),
        ("previtem", ValueType::any_value()),
        ("nextitem", ValueType::any_value()),
    ];
    ValueType::map_with_fields(MapFields::with_exact_keys(all.map(|(key, of)| (key.to_owned(), of))))
}

/// Returns the type of all numbers.
fn any_number_type() -> ValueType {
    ValueType::number_in_range(NumberRange::ALL)
}

#[cfg(test)]
mod tests;
