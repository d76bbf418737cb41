//! What the parts of a template can be, and what in it cannot work.
//!
//! **Invariants:** a part that is reported as an error is an error wherever it is rendered with a value, and a key that is
//! reported as missing is never there. What is not understood is anything, of which nothing is reported.

mod calls;
mod filters;
mod infer;
mod names;
mod operators;

pub use self::filters::filter_words;

use std::collections::{HashMap, HashSet};

use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{Span as Place, parse};
use minijinja::syntax::SyntaxConfig;

use crate::condition::{Advice, Fields, Misfit, Mistake, Range, Type, says, truth};
use crate::source::Span;

/// The type of each variable; `None`: it does not exist, or nothing is known of it.
pub type Variables<'a> = dyn Fn(&str) -> Option<&'a Type> + 'a;

/// All parts of the template that do not fit what the variables can be, from left to right. A text that is no template
/// has none.
pub fn misfits<'a>(text: &str, variables: &Variables<'a>) -> Vec<Misfit> {
    if super::is_constant(text) || super::admitted(text).is_err() {
        return Vec::new();
    }
    let Ok(Stmt::Template(template)) = parse(text, super::NAME, SyntaxConfig::default()) else {
        return Vec::new();
    };
    let mut typing = Typing {
        text,
        variables,
        assigned: names::assigned(&template.children),
        asks_for_filters: ["is filter", "is test", "is not filter", "is not test"]
            .iter()
            .any(|asked| text.contains(asked)),
        scopes: Vec::new(),
        misfits: Vec::new(),
        guards: 0,
    };
    typing.statements(&template.children);
    let mut misfits = typing.misfits;
    misfits.sort_by_key(|misfit| misfit.span.start);
    misfits
}

/// The way in which a template uses a value: whether a missing key is asked for, and whether the expression must be
/// true.
#[derive(Clone, Copy)]
struct Want {
    is_asked: bool,
    is_wanted: bool,
}

impl Want {
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
    const PERHAPS: Self = Self {
        is_asked: true,
        is_wanted: false,
    };

    fn opposite(self) -> Self {
        Self {
            is_wanted: !self.is_wanted,
            ..self
        }
    }
}

struct Typing<'t, 'a> {
    text: &'t str,
    variables: &'t Variables<'a>,
    /// The names to which the template assigns values.
    assigned: HashSet<&'t str>,
    /// The template asks whether filters or tests exist.
    asks_for_filters: bool,
    /// The names of loops and `with` blocks.
    scopes: Vec<HashMap<&'t str, Type>>,
    misfits: Vec<Misfit>,
    /// The number of blocks around this place that ask for a type, or are never rendered.
    guards: usize,
}

impl<'t> Typing<'t, '_> {
    fn statements(&mut self, all: &[Stmt<'t>]) {
        all.iter().for_each(|one| self.statement(one));
    }

    fn statement(&mut self, one: &Stmt<'t>) {
        match one {
            Stmt::Template(_) | Stmt::EmitRaw(_) | Stmt::Extends(_) | Stmt::Include(_) => {}
            Stmt::Import(_) | Stmt::FromImport(_) => {}
            Stmt::EmitExpr(emit) => drop(self.infer(&emit.expr, Want::VALUE)),
            Stmt::ForLoop(each) => {
                let over = self.infer(&each.iter, Want::VALUE);
                self.must_be_list(&over, whole(&each.iter));
                let mut names = HashMap::from([("loop", loop_variable())]);
                match &each.target {
                    Expr::Var(target) => drop(names.insert(target.id, iterated(&over))),
                    target => names::of_target(target)
                        .into_iter()
                        .for_each(|name| drop(names.insert(name, Type::any()))),
                }
                self.scopes.push(names);
                if let Some(filter) = &each.filter_expr {
                    self.infer(filter, Want::TRUTH);
                }
                self.statements(&each.body);
                self.scopes.pop();
                self.statements(&each.else_body);
            }
            Stmt::IfCond(choice) => {
                let asked = truth(&self.infer(&choice.expr, Want::TRUTH));
                let is_guard = names::asks_for_type(&choice.expr);
                self.guarded(is_guard || asked == Some(false), |it| it.statements(&choice.true_body));
                self.guarded(is_guard || asked == Some(true), |it| it.statements(&choice.false_body));
            }
            Stmt::WithBlock(with) => {
                let mut names = HashMap::new();
                for (target, value) in &with.assignments {
                    let of = self.infer(value, Want::VALUE);
                    match target {
                        Expr::Var(target) => drop(names.insert(target.id, of)),
                        target => names::of_target(target)
                            .into_iter()
                            .for_each(|name| drop(names.insert(name, Type::any()))),
                    }
                }
                self.scopes.push(names);
                self.statements(&with.body);
                self.scopes.pop();
            }
            Stmt::Set(set) => drop(self.infer(&set.expr, Want::VALUE)),
            Stmt::SetBlock(set) => {
                set.filter
                    .iter()
                    .for_each(|filter| drop(self.infer(filter, Want::VALUE)));
                self.statements(&set.body);
            }
            Stmt::AutoEscape(block) => self.statements(&block.body),
            Stmt::FilterBlock(block) => {
                self.infer(&block.filter, Want::VALUE);
                self.statements(&block.body);
            }
            Stmt::Block(block) => self.statements(&block.body),
            Stmt::Macro(block) => self.statements(&block.body),
            Stmt::CallBlock(call) => {
                self.call(&call.call, Want::VALUE);
                self.statements(&call.macro_decl.body);
            }
            Stmt::Do(call) => drop(self.call(&call.call, Want::VALUE)),
        }
    }

    /// Ignores findings in an expression that follows a question for the type.
    fn guarded(&mut self, is_guarded: bool, visit: impl FnOnce(&mut Self)) {
        self.guards += usize::from(is_guarded);
        visit(self);
        self.guards -= usize::from(is_guarded);
    }

    fn must_be_list(&mut self, of: &Type, place: Span) {
        if says(of)
            && !can(of, |shape| {
                shape.list.is_some() || shape.map.is_some() || shape.text.is_some()
            })
        {
            let message = format!("`{}` is {of}, so it cannot be looped over", self.words(place));
            self.report(Mistake::Fails, place, message, None);
        }
    }

    fn words(&self, place: Span) -> &'t str {
        self.text.get(place.start..place.end).unwrap_or_default()
    }

    fn report(&mut self, mistake: Mistake, span: Span, message: String, help: Option<Advice>) {
        if (self.guards == 0 || mistake == Mistake::Unknown) && self.text.get(span.start..span.end).is_some() {
            self.misfits.push(Misfit {
                mistake,
                message,
                span,
                help,
            });
        }
    }

    /// The last place of a word in a part of the template.
    fn place_of(&self, word: &str, place: Span) -> Span {
        let found = self.words(place).rfind(word).map(|at| place.start + at);
        found.map_or(place, |start| Span::new(start, start + word.len()))
    }

    /// Returns the type of a name.
    fn variable(&self, name: &str) -> Type {
        self.known(name).cloned().unwrap_or_default()
    }

    /// The type of a name, if it is not assigned to.
    fn known(&self, name: &str) -> Option<&Type> {
        let own = self.scopes.iter().rev().find_map(|names| names.get(name));
        match self.assigned.contains(name) {
            true => None,
            false => own.or_else(|| (self.variables)(name)),
        }
    }

    /// Returns whether the name stands for a value of the run.
    fn is_of_run(&self, name: &str) -> bool {
        let is_local = self.scopes.iter().any(|names| names.contains_key(name));
        !is_local && !self.assigned.contains(name) && (self.variables)(name).is_some()
    }
}

/// The bytes of a whole expression; the place that the parser gives begins at its last operator.
fn whole(expr: &Expr<'_>) -> Span {
    Span::new(start(expr), span(expr.span()).end)
}

fn start(expr: &Expr<'_>) -> usize {
    let own = span(expr.span()).start;
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
    first.map_or(own, |first| own.min(start(first)))
}

fn span(place: Place) -> Span {
    Span::new(place.start_offset as usize, place.end_offset as usize)
}

fn can(of: &Type, fits: impl Fn(&crate::condition::Shape) -> bool) -> bool {
    of.shape().is_none_or(fits)
}

/// Returns the type of the items of a loop over the value: items, keys or characters.
fn iterated(of: &Type) -> Type {
    let Some(shape) = of.shape() else {
        return Type::any();
    };
    let of_text = || Type::text();
    let items = shape.list.clone();
    let keys = shape.map.as_ref().map(|_| of_text());
    let characters = shape.text.as_ref().map(|_| of_text());
    [items, keys, characters]
        .into_iter()
        .flatten()
        .reduce(Type::or)
        .unwrap_or_default()
}

/// `loop` inside a loop.
fn loop_variable() -> Type {
    let count = || Type::count(u64::MAX);
    let all = [
        ("index", count()),
        ("index0", count()),
        ("revindex", count()),
        ("revindex0", count()),
        ("length", count()),
        ("first", Type::boolean()),
        ("last", Type::boolean()),
        ("depth", count()),
        ("depth0", count()),
        ("previtem", Type::any()),
        ("nextitem", Type::any()),
    ];
    Type::map(Fields::exactly(all.map(|(key, of)| (key.to_owned(), of))))
}

fn number() -> Type {
    Type::number(Range::ALL)
}

#[cfg(test)]
mod tests;
