//! What the parts of a condition can be, and what in it cannot work or cannot be true.
//!
//! **Invariants:** a comparison that is reported as never true is never true, and a part that is reported as an error
//! is an error wherever it is evaluated. What is not understood is anything, of which nothing is reported.

mod calls;
mod comparisons;

use crate::condition::evaluation::operators::Arithmetic;
use crate::condition::expression::tree::{Choice, Comparison, Expr, Kind, Sign, Suffix, SuffixKind, Variable};
use crate::condition::typing::check::comparisons::Pair;
use crate::condition::typing::types::{Later, Range, Shape, Texts, Type};
use crate::diagnostic::did_you_mean;
use crate::names::is_identifier_char;
use crate::source::Span;

use crate::condition::Reading;

/// The types of the variables of a condition.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// `context`.
    pub context: Type,
    /// `output`.
    pub output: Type,
    /// `turn_count`.
    pub turn_count: Type,
    /// `history`.
    pub history: Later,
    /// `executions`, and `agent_execution_count`.
    pub executions: Type,
    /// `input`.
    pub input: Type,
    /// `inputs`.
    pub inputs: Type,
    /// `outputs`.
    pub outputs: Later,
    /// The item of a part.
    pub item: Type,
    /// `part`.
    pub part: Type,
}

/// An error in a part of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A comparison is never true.
    Never,
    /// A comparison with `!=` or `not in` is always true.
    Always,
    /// The evaluation fails.
    Fails,
    /// A key is never there.
    NoKey,
    /// A filter or a test of a template does not exist.
    Unknown,
}

/// A part of a condition that is not what its author meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// What kind of mistake.
    pub mistake: Mistake,
    /// One sentence without a full stop.
    pub message: String,
    /// The bytes of the part.
    pub span: Span,
    /// What to write instead, if it is known.
    pub help: Option<Advice>,
}

/// The replacement of a part that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// One sentence without a full stop.
    pub words: String,
    /// The bytes that are probably wrong, and what was probably meant.
    pub edit: Option<(Span, String)>,
}

impl Advice {
    /// A word that was probably meant in place of `written`, which is somewhere in these bytes of the text.
    pub(crate) fn near(near: &str, written: &str, text: &str, within: Span) -> Self {
        let is_word = near.chars().all(is_identifier_char);
        let mut found = text[within.start..within.end].match_indices(written);
        let only = found.next().filter(|_| is_word && found.next().is_none());
        let span = |at: usize| Span::new(within.start + at, within.start + at + written.len());
        Self {
            words: format!("did you mean `{near}`?"),
            edit: only.map(|(at, _)| (span(at), near.to_owned())),
        }
    }

    /// Returns the value that a string probably means, whose literal has these bytes: a truth value, a number, or
    /// another string.
    pub(crate) fn instead_of(text: &str, literal: Option<(Span, &str)>, known: &Shape) -> Option<Self> {
        let bare = text.trim();
        let is_truth = bare.eq_ignore_ascii_case("true") || bare.eq_ignore_ascii_case("false");
        let plain = match () {
            () if known.yes && known.no && is_truth => Some(bare.to_ascii_lowercase()),
            () if known.number.is_some() && bare.parse::<f64>().is_ok() => Some(bare.to_owned()),
            () => None,
        };
        if let Some(plain) = plain {
            return Some(Self {
                words: format!("write `{plain}` without quotes"),
                edit: literal.map(|(span, _)| (span, plain)),
            });
        }
        let Some(Texts::OneOf(texts)) = &known.text else {
            return None;
        };
        let alike = texts.iter().find(|one| one.to_lowercase() == text.to_lowercase());
        let near = alike.map(String::as_str);
        let near = near.or_else(|| did_you_mean(text, texts.iter().map(String::as_str)))?;
        // The quotes stay, so the string must not need others.
        let is_simple = |text: &str| !text.contains(['\'', '"', '\\']) && !text.contains(char::is_control);
        let inside = literal.filter(|(span, written)| written.get(1..written.len() - 1) == Some(text) && span.end > 1);
        let inside = inside.filter(|_| is_simple(near));
        Some(Self {
            words: format!("did you mean '{near}'?"),
            edit: inside.map(|(span, _)| (Span::new(span.start + 1, span.end - 1), near.to_owned())),
        })
    }
}

impl From<String> for Advice {
    fn from(words: String) -> Self {
        Self { words, edit: None }
    }
}

impl Reading {
    /// All parts that do not fit what the variables can be, from left to right.
    pub fn misfits(&self, known: &Known) -> Vec<Misfit> {
        let mut typing = Typing {
            text: &self.text,
            known,
            misfits: Vec::new(),
            dead: false,
        };
        typing.infer(&self.expr, true);
        typing.misfits
    }

    /// Returns the type of the value of the expression.
    pub fn value(&self, known: &Known) -> Type {
        let mut typing = Typing {
            text: &self.text,
            known,
            misfits: Vec::new(),
            dead: false,
        };
        typing.infer(&self.expr, true)
    }
}

struct Typing<'t> {
    text: &'t str,
    known: &'t Known,
    misfits: Vec<Misfit>,
    /// Whether the part that is looked at is never evaluated.
    dead: bool,
}

impl Typing<'_> {
    fn words(&self, span: Span) -> &str {
        &self.text[span.start..span.end]
    }

    fn report(&mut self, mistake: Mistake, span: Span, message: String, help: Option<Advice>) {
        if !self.dead {
            self.misfits.push(Misfit {
                mistake,
                message,
                span,
                help,
            });
        }
    }

    /// Infers the type of the expression. `wanted`: the type makes the condition true rather than false.
    fn infer(&mut self, expr: &Expr, wanted: bool) -> Type {
        match &expr.kind {
            Kind::Nothing => Type::nothing(),
            Kind::Bool(value) => Type::of_value(&(*value).into()),
            #[expect(clippy::cast_precision_loss, reason = "a wider range would only be less exact")]
            Kind::Int(value) => match value.unsigned_abs() < 1 << 53 {
                true => Type::number(Range::between(*value as f64, *value as f64)),
                false => Type::number(Range::ALL),
            },
            Kind::Float(value) => Type::number(Range::between(*value, *value)),
            Kind::Text(text) => Type::one_of([text.as_str()]),
            Kind::List(items) => {
                let items: Vec<Type> = items.iter().map(|item| self.infer(item, wanted)).collect();
                Type::list(items.into_iter().fold(Type::never(), Type::or))
            }
            Kind::Map(entries) => {
                let entry = |(key, value): &(String, Expr)| (key.clone(), self.infer(value, wanted));
                let entries: Vec<(String, Type)> = entries.iter().map(entry).collect();
                Type::map(crate::condition::typing::types::Fields::exactly(entries))
            }
            Kind::Variable(variable) => self.variable(*variable),
            Kind::Chain(base, suffixes) => self.chain(base, suffixes, wanted),
            Kind::Call(function, arguments) => {
                let types: Vec<Type> = arguments.iter().map(|one| self.infer(one, wanted)).collect();
                let spans: Vec<Span> = arguments.iter().map(|one| one.span).collect();
                self.call(function, &types, &spans, arguments.get(1), expr.span)
            }
            Kind::Sign(sign, operand) => self.sign(*sign, operand, wanted),
            Kind::Not(operand) => {
                self.infer(operand, !wanted);
                Type::boolean()
            }
            Kind::Arithmetic(first, rest) => self.arithmetic(first, rest, wanted),
            Kind::Compare(first, rest) => self.comparisons(first, rest, wanted),
            Kind::And(operands) => self.operands(operands, wanted, false),
            Kind::Or(operands) => self.operands(operands, wanted, true),
            Kind::Coalesce(operands) => {
                let operands: Vec<Type> = operands.iter().map(|one| self.infer(one, wanted)).collect();
                operands.into_iter().fold(Type::never(), Type::or)
            }
            Kind::Choice(choice) => self.choice(choice, wanted),
        }
    }

    fn variable(&self, variable: Variable) -> Type {
        let known = self.known;
        match variable {
            Variable::Context => &known.context,
            Variable::Output => &known.output,
            Variable::TurnCount => &known.turn_count,
            Variable::History => &*known.history,
            Variable::Executions | Variable::AgentExecutionCount => &known.executions,
            Variable::Input => &known.input,
            Variable::Inputs => &known.inputs,
            Variable::Outputs => &*known.outputs,
            Variable::Item => &known.item,
            Variable::Part => &known.part,
        }
        .clone()
    }

    /// `and` and `or`. Behind an operand that always decides, nothing is evaluated.
    fn operands(&mut self, operands: &[Expr], wanted: bool, decides: bool) -> Type {
        let was_dead = self.dead;
        let mut whole = Type::never();
        for operand in operands {
            let of = self.infer(operand, wanted);
            self.dead = self.dead || truth(&of) == Some(decides);
            whole = whole.or(of);
        }
        self.dead = was_dead;
        whole
    }

    fn choice(&mut self, choice: &Choice, wanted: bool) -> Type {
        let asked = truth(&self.infer(&choice.condition, wanted));
        let was_dead = self.dead;
        self.dead = was_dead || asked == Some(false);
        let then = self.infer(&choice.then, wanted);
        self.dead = was_dead || asked == Some(true);
        let otherwise = self.infer(&choice.otherwise, wanted);
        self.dead = was_dead;
        then.or(otherwise)
    }

    fn sign(&mut self, sign: Sign, operand: &Expr, wanted: bool) -> Type {
        let of = self.infer(operand, wanted);
        let Some(shape) = of.shape() else {
            return Type::number(Range::ALL);
        };
        match shape.number {
            Some(range) if sign == Sign::Plus => Type::number(range),
            Some(range) => Type::number(Range {
                low: -range.high,
                above_low: range.below_high,
                high: -range.low,
                below_high: range.above_low,
            }),
            None => {
                self.not_a(&of, "a number", operand.span);
                Type::any()
            }
        }
    }

    fn arithmetic(&mut self, first: &Expr, rest: &[(Arithmetic, Expr)], wanted: bool) -> Type {
        let mut left = self.infer(first, wanted);
        for (operator, operand) in rest {
            let right = self.infer(operand, wanted);
            let is_number = can_be(&left, |shape| shape.number.is_some()) && can_be(&right, |it| it.number.is_some());
            let is_text = matches!(operator, Arithmetic::Add)
                && can_be(&left, |shape| shape.text.is_some())
                && can_be(&right, |shape| shape.text.is_some());
            if !is_number && !is_text && says(&left) && says(&right) {
                let span = Span::new(first.span.start, operand.span.end);
                let message = format!("{left} and {right} cannot be calculated with each other");
                self.report(Mistake::Fails, span, message, None);
                return Type::any();
            }
            left = match (is_number, is_text) {
                (true, false) => Type::number(Range::ALL),
                (false, true) => Type::text(),
                _ => Type::number(Range::ALL).or(Type::text()),
            };
        }
        left
    }

    fn comparisons(&mut self, first: &Expr, rest: &[(Comparison, Expr)], wanted: bool) -> Type {
        let mut left_expr = first;
        // What is compared further need not be true.
        let mut left = self.infer(first, false);
        let mut never = false;
        for (comparison, right_expr) in rest {
            let right = self.infer(right_expr, false);
            let pair = Pair {
                left: &left,
                left_expr,
                right: &right,
                right_expr,
            };
            never |= self.compare(&pair, *comparison, wanted);
            (left_expr, left) = (right_expr, right);
        }
        match never {
            true => Type::of_value(&false.into()),
            false => Type::boolean(),
        }
    }

    fn not_a(&mut self, of: &Type, needed: &str, span: Span) {
        if says(of) {
            let message = format!("`{}` is {of}, but must be {needed}", self.words(span));
            self.report(Mistake::Fails, span, message, None);
        }
    }

    fn chain(&mut self, base: &Expr, suffixes: &[Suffix], wanted: bool) -> Type {
        let mut of = self.infer(base, wanted);
        let mut before = base.span;
        for (depth, suffix) in suffixes.iter().enumerate() {
            // What is missing directly in these is reported by the checks of keys.
            let is_checked = depth == 0
                && matches!(
                    base.kind,
                    Kind::Variable(Variable::Context | Variable::Output | Variable::Inputs)
                );
            of = match &suffix.kind {
                SuffixKind::Member(name) => self.member(&of, name, before, suffix.span, is_checked),
                SuffixKind::Index(index) => match &index.kind {
                    Kind::Text(name) => self.member(&of, name, before, index.span, is_checked),
                    _ => {
                        self.infer(index, wanted);
                        of.any_item()
                    }
                },
                SuffixKind::Method(function, arguments) => {
                    let mut types = vec![of];
                    types.extend(arguments.iter().map(|one| self.infer(one, wanted)));
                    let spans: Vec<Span> = std::iter::once(before)
                        .chain(arguments.iter().map(|one| one.span))
                        .collect();
                    let key = arguments.first().filter(|_| !is_checked);
                    self.call(function, &types, &spans, key, suffix.span)
                }
            };
            before = Span::new(base.span.start, suffix.end);
        }
        of
    }

    fn member(&mut self, of: &Type, name: &str, base: Span, span: Span, is_checked: bool) -> Type {
        let Some(shape) = of.shape() else {
            return Type::any();
        };
        let is_length = name == "len" && (shape.text.is_some() || shape.list.is_some());
        if shape.map.is_none() {
            if is_length {
                return Type::count(u64::MAX);
            }
            if says(of) {
                let message = format!("`{}` is {of}, so it has no member `{name}`", self.words(base));
                self.report(Mistake::Fails, span, message, None);
            }
            return Type::any();
        }
        let Some(fields) = of.fields() else {
            return Type::any();
        };
        match fields.get(name) {
            Some(found) => found,
            None => {
                let near = did_you_mean(name, fields.known.keys().map(String::as_str));
                let keys: Vec<String> = fields.known.keys().take(12).map(|key| format!("`{key}`")).collect();
                let help = match near {
                    Some(near) => Advice::near(near, name, self.text, span),
                    None => format!("the known keys are {}", keys.join(", ")).into(),
                };
                let (mistake, message) = match fields.strict {
                    true => (Mistake::Fails, format!("`{}` has no field `{name}`", self.words(base))),
                    false => (Mistake::NoKey, format!("`{}` has no key `{name}`", self.words(base))),
                };
                if !is_checked {
                    self.report(mistake, span, message, Some(help));
                }
                Type::nothing()
            }
        }
    }
}

/// Returns whether the type says something that can be held against the text: it is known, and not only nothing, which
/// stands for a key that is missing.
pub(crate) fn says(of: &Type) -> bool {
    of.shape().is_some_and(|shape| {
        let only_nothing = Shape {
            nothing: shape.nothing,
            ..Shape::default()
        };
        *shape != only_nothing
    })
}

fn can_be(of: &Type, fits: impl Fn(&Shape) -> bool) -> bool {
    of.shape().is_none_or(fits)
}

/// The truth of the value, if it is known.
pub(crate) fn truth(of: &Type) -> Option<bool> {
    let shape = of.shape()?;
    match () {
        () if *of == Type::of_value(&true.into()) => Some(true),
        () if !shape.yes
            && shape.number.is_none()
            && shape.text.is_none()
            && shape.list.is_none()
            && shape.map.is_none() =>
        {
            (shape.no || shape.nothing).then_some(false)
        }
        () => None,
    }
}
