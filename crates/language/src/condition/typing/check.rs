//! What the parts of a condition can be, and what in it cannot work or cannot be true.
//!
//! **Invariants:** a comparison that is reported as never true is never true, and a part that is reported as an error
//! is an error wherever it is evaluated. What is not understood is anything, of which nothing is reported.

mod calls;
mod comparisons;
mod comprehensions;

use crate::condition::evaluation::operators::ArithmeticOperator;
use crate::condition::expression::tree::{
    ChainStep, ChainStepKind, ComparisonOperator, ConditionExpr, ConditionVariable, ExprKind, IfElseExpr, SignOperator,
};
use crate::condition::typing::check::comparisons::ComparisonOperands;
use crate::condition::typing::types::{LazyType, NumberRange, PossibleTexts, ValueShape, ValueType};
use crate::diagnostic::find_similar_word;
use crate::names::is_identifier_char;
use crate::source::Span;

use crate::condition::ParsedCondition;

/// The types of the variables that a condition can read.
#[derive(Debug, Clone, Default)]
pub struct VariableTypes {
    /// `context`.
    pub context: ValueType,
    /// `output`.
    pub output: ValueType,
    /// `turn_count`.
    pub turn_count: ValueType,
    /// `history`.
    pub history: LazyType,
    /// `executions`, and `agent_execution_count`.
    pub executions: ValueType,
    /// `input`.
    pub input: ValueType,
    /// `inputs`.
    pub inputs: ValueType,
    /// `outputs`.
    pub outputs: LazyType,
    /// The item of a part.
    pub item: ValueType,
    /// `part`.
    pub part: ValueType,
}

/// The kinds of type problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeProblemKind {
    /// A comparison is never true.
    NeverTrue,
    /// A comparison with `!=` or `not in` is always true.
    AlwaysTrue,
    /// The evaluation fails.
    Fails,
    /// A key is never there.
    NoKey,
    /// A filter or a test of a template does not exist.
    UnknownName,
}

/// A part of a condition or template that does not fit the types of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeProblem {
    /// What kind of mistake.
    pub kind: TypeProblemKind,
    /// One sentence without a full stop.
    pub message: String,
    /// The bytes of the part.
    pub span: Span,
    /// What to write instead, if it is known.
    pub help: Option<SuggestedReplacement>,
}

/// A suggestion for a part that does not fit: a sentence, and an edit if the replacement is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestedReplacement {
    /// One sentence without a full stop.
    pub sentence: String,
    /// The bytes that are probably wrong, and what was probably meant.
    pub edit: Option<(Span, String)>,
}

impl SuggestedReplacement {
    /// Suggests a similar word for `written`, which occurs in the bytes `within` of the text. The edit is absent if it occurs several times.
    pub(crate) fn for_near_word(near: &str, written: &str, text: &str, within: Span) -> Self {
        let is_word = near.chars().all(is_identifier_char);
        let mut occurrences = text[within.start..within.end].match_indices(written);
        let only = occurrences.next().filter(|_| is_word && occurrences.next().is_none());
        let span = |at: usize| Span::new(within.start + at, within.start + at + written.len());
        Self {
            sentence: format!("did you mean `{near}`?"),
            edit: only.map(|(at, _)| (span(at), near.to_owned())),
        }
    }

    /// Suggests the value that a string probably means: a truth value, a number or a similar string. `literal`: its span and its source text.
    pub(crate) fn suggest_for_text(text: &str, literal: Option<(Span, &str)>, known: &ValueShape) -> Option<Self> {
        let bare = text.trim();
        let is_truth = bare.eq_ignore_ascii_case("true") || bare.eq_ignore_ascii_case("false");
        let plain = match () {
            () if known.can_be_true && known.can_be_false && is_truth => Some(bare.to_ascii_lowercase()),
            () if known.number.is_some() && bare.parse::<f64>().is_ok() => Some(bare.to_owned()),
            () => None,
        };
        if let Some(plain) = plain {
            return Some(Self {
                sentence: format!("write `{plain}` without quotes"),
                edit: literal.map(|(span, _)| (span, plain)),
            });
        }
        let Some(PossibleTexts::OneOf(texts)) = &known.text else {
            return None;
        };
        let alike = texts.iter().find(|one| one.to_lowercase() == text.to_lowercase());
        let similar_text = alike.map(String::as_str);
        let similar_text = similar_text.or_else(|| find_similar_word(text, texts.iter().map(String::as_str)))?;
        // The quotes stay, so the string must not need others.
        let is_simple = |text: &str| !text.contains(['\'', '"', '\\']) && !text.contains(char::is_control);
        let inside = literal.filter(|(span, written)| written.get(1..written.len() - 1) == Some(text) && span.end > 1);
        let inside = inside.filter(|_| is_simple(similar_text));
        Some(Self {
            sentence: format!("did you mean '{similar_text}'?"),
            edit: inside.map(|(span, _)| (Span::new(span.start + 1, span.end - 1), similar_text.to_owned())),
        })
    }
}

impl From<String> for SuggestedReplacement {
    fn from(words: String) -> Self {
        Self {
            sentence: words,
            edit: None,
        }
    }
}

impl ParsedCondition {
    /// Returns all parts that do not fit the types of the variables, from left to right.
    pub fn find_type_problems(&self, known: &VariableTypes) -> Vec<TypeProblem> {
        let mut typing = ConditionTypeChecker {
            text: &self.text,
            known,
            problems: Vec::new(),
            is_unreachable: false,
            locals: Vec::new(),
        };
        typing.infer_type(&self.expr, true);
        typing.problems
    }

    /// Infers the type of the value of the expression.
    pub fn infer_type(&self, known: &VariableTypes) -> ValueType {
        let mut typing = ConditionTypeChecker {
            text: &self.text,
            known,
            problems: Vec::new(),
            is_unreachable: false,
            locals: Vec::new(),
        };
        typing.infer_type(&self.expr, true)
    }
}

/// The meaning of a key that a map does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingKeyMeaning {
    Reported,
    /// The expression asks whether there is the key.
    Expected,
    /// Another check reports it.
    ReportedElsewhere,
}

impl MissingKeyMeaning {
    /// Creates the meaning. `is_checked`: another check reports the key. `is_asked`: the expression asks for its presence.
    fn new(is_checked: bool, is_asked: bool) -> Self {
        match (is_checked, is_asked) {
            (true, _) => Self::ReportedElsewhere,
            (false, true) => Self::Expected,
            (false, false) => Self::Reported,
        }
    }
}

/// The state of inferring the types of a condition, with the problems that were found.
struct ConditionTypeChecker<'t> {
    text: &'t str,
    known: &'t VariableTypes,
    problems: Vec<TypeProblem>,
    /// Whether the part that is looked at is never evaluated.
    is_unreachable: bool,
    /// The types of the variables of the enclosing comprehensions, the outermost first.
    locals: Vec<ValueType>,
}

impl ConditionTypeChecker<'_> {
    /// Returns the source text of a part.
    fn part_text(&self, span: Span) -> &str {
        &self.text[span.start..span.end]
    }

    /// Adds a problem, unless the part is never evaluated.
    fn report_problem(
        &mut self,
        mistake: TypeProblemKind,
        span: Span,
        message: String,
        help: Option<SuggestedReplacement>,
    ) {
        if !self.is_unreachable {
            self.problems.push(TypeProblem {
                kind: mistake,
                message,
                span,
                help,
            });
        }
    }

    /// Infers the type of the expression, and reports its problems. `wanted`: a true value makes the condition true.
    fn infer_type(&mut self, expr: &ConditionExpr, wanted: bool) -> ValueType {
        match &expr.kind {
            ExprKind::Nothing => ValueType::nothing_value(),
            ExprKind::Bool(value) => ValueType::exact_value_type(&(*value).into()),
            #[expect(clippy::cast_precision_loss, reason = "a wider range would only be less exact")]
            ExprKind::Int(value) => match value.unsigned_abs() < 1 << 53 {
                true => ValueType::number_in_range(NumberRange::from_bounds(*value as f64, *value as f64)),
                false => ValueType::number_in_range(NumberRange::ALL),
            },
            ExprKind::Float(value) => ValueType::number_in_range(NumberRange::from_bounds(*value, *value)),
            ExprKind::Text(text) => ValueType::text_among([text.as_str()]),
            ExprKind::List(items) => {
                let items: Vec<ValueType> = items.iter().map(|item| self.infer_type(item, wanted)).collect();
                ValueType::list_with_items(
                    items
                        .into_iter()
                        .fold(ValueType::impossible_value(), ValueType::union_with),
                )
            }
            ExprKind::Map(entries) => {
                let entry = |(key, value): &(String, ConditionExpr)| (key.clone(), self.infer_type(value, wanted));
                let entries: Vec<(String, ValueType)> = entries.iter().map(entry).collect();
                ValueType::map_with_fields(crate::condition::typing::types::MapFields::with_exact_keys(entries))
            }
            ExprKind::Variable(variable) => self.variable_type(*variable),
            ExprKind::Local(local) => self.locals.get(local.number).cloned().unwrap_or_default(),
            ExprKind::Comprehension(comprehension) => self.infer_comprehension(comprehension, wanted),
            ExprKind::Chain(base, suffixes) => self.infer_chain(base, suffixes, wanted, false),
            ExprKind::Call(function, arguments) => {
                let types: Vec<ValueType> = arguments.iter().map(|one| self.infer_type(one, wanted)).collect();
                let spans: Vec<Span> = arguments.iter().map(|one| one.span).collect();
                self.infer_call(function, &types, &spans, arguments.get(1), expr.span)
            }
            ExprKind::Sign(sign, operand) => self.infer_sign(*sign, operand, wanted),
            ExprKind::Not(operand) => {
                self.infer_type(operand, !wanted);
                ValueType::any_boolean()
            }
            ExprKind::Arithmetic(first, rest) => self.infer_arithmetic(first, rest, wanted),
            ExprKind::Compare(first, rest) => self.infer_comparisons(first, rest, wanted),
            ExprKind::And(operands) => self.infer_operands(operands, wanted, false),
            ExprKind::Or(operands) => self.infer_operands(operands, wanted, true),
            ExprKind::Coalesce(operands) => {
                let last = operands.len().saturating_sub(1);
                let operands = operands.iter().enumerate();
                let operands: Vec<ValueType> = operands
                    .map(|(at, one)| self.infer_operand_type(one, wanted, at < last))
                    .collect();
                operands
                    .into_iter()
                    .fold(ValueType::impossible_value(), ValueType::union_with)
            }
            ExprKind::IfElse(choice) => self.infer_if_else(choice, wanted),
        }
    }

    /// Returns the type of the variable.
    fn variable_type(&self, variable: ConditionVariable) -> ValueType {
        let variable_types = self.known;
        match variable {
            ConditionVariable::Context => &variable_types.context,
            ConditionVariable::Output => &variable_types.output,
            ConditionVariable::TurnCount => &variable_types.turn_count,
            ConditionVariable::History => &*variable_types.history,
            ConditionVariable::Executions | ConditionVariable::AgentExecutionCount => &variable_types.executions,
            ConditionVariable::Input => &variable_types.input,
            ConditionVariable::Inputs => &variable_types.inputs,
            ConditionVariable::Outputs => &*variable_types.outputs,
            ConditionVariable::Item => &variable_types.item,
            ConditionVariable::Part => &variable_types.part,
        }
        .clone()
    }

    /// Infers the type of `and` or `or`. Reports nothing behind an operand that always decides (`decides`).
    fn infer_operands(&mut self, operands: &[ConditionExpr], wanted: bool, decides: bool) -> ValueType {
        let was_dead = self.is_unreachable;
        let mut combined_type = ValueType::impossible_value();
        for operand in operands {
            let of = self.infer_type(operand, wanted);
            self.is_unreachable = self.is_unreachable || find_known_truth(&of) == Some(decides);
            combined_type = combined_type.union_with(of);
        }
        self.is_unreachable = was_dead;
        combined_type
    }

    /// Infers the type of both branches. Reports nothing in a branch that is never evaluated.
    fn infer_if_else(&mut self, choice: &IfElseExpr, wanted: bool) -> ValueType {
        let condition_truth = find_known_truth(&self.infer_type(&choice.condition, wanted));
        let was_dead = self.is_unreachable;
        self.is_unreachable = was_dead || condition_truth == Some(false);
        let then = self.infer_type(&choice.then, wanted);
        self.is_unreachable = was_dead || condition_truth == Some(true);
        let otherwise = self.infer_type(&choice.otherwise, wanted);
        self.is_unreachable = was_dead;
        then.union_with(otherwise)
    }

    /// Infers the type of a number with a sign, and reports an operand that is never a number.
    fn infer_sign(&mut self, sign: SignOperator, operand: &ConditionExpr, wanted: bool) -> ValueType {
        let of = self.infer_type(operand, wanted);
        let Some(shape) = of.known_shape() else {
            return ValueType::number_in_range(NumberRange::ALL);
        };
        match shape.number {
            Some(range) if sign == SignOperator::Plus => ValueType::number_in_range(range),
            Some(range) => ValueType::number_in_range(NumberRange {
                low: -range.high,
                excludes_low: range.excludes_high,
                high: -range.low,
                excludes_high: range.excludes_low,
            }),
            None => {
                self.report_wrong_type(&of, "a number", operand.span);
                ValueType::any_value()
            }
        }
    }

    /// Infers the type of a chain of arithmetic operations, and reports operands that never fit.
    fn infer_arithmetic(
        &mut self,
        first: &ConditionExpr,
        rest: &[(ArithmeticOperator, ConditionExpr)],
        wanted: bool,
    ) -> ValueType {
        let mut left = self.infer_type(first, wanted);
        for (operator, operand) in rest {
            let right = self.infer_type(operand, wanted);
            let is_number = can_have_shape(&left, |shape| shape.number.is_some())
                && can_have_shape(&right, |it| it.number.is_some());
            let is_text = matches!(operator, ArithmeticOperator::Add)
                && can_have_shape(&left, |shape| shape.text.is_some())
                && can_have_shape(&right, |shape| shape.text.is_some());
            let is_list = matches!(operator, ArithmeticOperator::Add)
                && can_have_shape(&left, |shape| shape.list.is_some())
                && can_have_shape(&right, |shape| shape.list.is_some());
            if !is_number && !is_text && !is_list && is_informative_type(&left) && is_informative_type(&right) {
                let span = Span::new(first.span.start, operand.span.end);
                let message = format!("cannot calculate with {left} and {right}");
                self.report_problem(TypeProblemKind::Fails, span, message, None);
                return ValueType::any_value();
            }
            let lists = || ValueType::list_with_items(left.iterated_item_type().union_with(right.iterated_item_type()));
            let results = [
                is_number.then(|| ValueType::number_in_range(NumberRange::ALL)),
                is_text.then(ValueType::any_text),
                is_list.then(lists),
            ];
            let results = results.into_iter().flatten();
            left = results.fold(ValueType::impossible_value(), ValueType::union_with);
        }
        left
    }

    /// Infers the type of chained comparisons, and reports comparisons with only one possible result.
    fn infer_comparisons(
        &mut self,
        first: &ConditionExpr,
        rest: &[(ComparisonOperator, ConditionExpr)],
        wanted: bool,
    ) -> ValueType {
        let mut left_expr = first;
        // What is compared further need not be true.
        let is_asked = rest
            .first()
            .is_some_and(|(comparison, other)| comparison.asks_presence(other));
        let mut left = self.infer_operand_type(first, false, is_asked);
        let mut never = false;
        for (comparison, right_expr) in rest {
            let right = self.infer_operand_type(right_expr, false, comparison.asks_presence(left_expr));
            let pair = ComparisonOperands {
                left: &left,
                left_expr,
                right: &right,
                right_expr,
            };
            never |= self.check_never_true(&pair, *comparison, wanted);
            (left_expr, left) = (right_expr, right);
        }
        match never {
            true => ValueType::exact_value_type(&false.into()),
            false => ValueType::any_boolean(),
        }
    }

    /// Reports that the part never has the type `needed`, if its type is known.
    fn report_wrong_type(&mut self, of: &ValueType, needed: &str, span: Span) {
        if is_informative_type(of) {
            let message = format!("`{}` is {of}, but must be {needed}", self.part_text(span));
            self.report_problem(TypeProblemKind::Fails, span, message, None);
        }
    }

    /// Infers the type of an operand. `is_asked`: the operator asks whether there is a value, so the last key may be missing.
    fn infer_operand_type(&mut self, expr: &ConditionExpr, wanted: bool, is_asked: bool) -> ValueType {
        match &expr.kind {
            ExprKind::Chain(base, suffixes) => self.infer_chain(base, suffixes, wanted, is_asked),
            _ => self.infer_type(expr, wanted),
        }
    }

    /// Infers the type of a value and the steps after it.
    fn infer_chain(&mut self, base: &ConditionExpr, suffixes: &[ChainStep], wanted: bool, is_asked: bool) -> ValueType {
        let mut of = self.infer_type(base, wanted);
        let mut before = base.span;
        let mut can_stop = false;
        for (depth, suffix) in suffixes.iter().enumerate() {
            can_stop |= suffix.is_optional && of.known_shape().is_some_and(|shape| shape.can_be_nothing);
            // `a?.b` and `a.b?.c` ask whether there is a `b`.
            let asks = suffix.is_optional || suffixes.get(depth + 1).map_or(is_asked, |next| next.is_optional);
            // What is missing directly in these is reported by the checks of keys.
            let is_checked = depth == 0
                && matches!(
                    base.kind,
                    ExprKind::Variable(
                        ConditionVariable::Context | ConditionVariable::Output | ConditionVariable::Inputs
                    )
                );
            of = match &suffix.kind {
                ChainStepKind::Member(name) => self.infer_member(
                    &of,
                    name,
                    (before, suffix.span),
                    MissingKeyMeaning::new(is_checked, asks),
                ),
                ChainStepKind::Index(index) => match &index.kind {
                    ExprKind::Text(name) => self.infer_member(
                        &of,
                        name,
                        (before, index.span),
                        MissingKeyMeaning::new(is_checked, asks),
                    ),
                    _ => {
                        self.infer_type(index, wanted);
                        of.iterated_item_type()
                    }
                },
                ChainStepKind::Slice(from, to) => self.infer_slice(&of, before, from.as_ref(), to.as_ref()),
                ChainStepKind::Method(function, arguments) => {
                    let mut types = vec![of];
                    types.extend(arguments.iter().map(|one| self.infer_type(one, wanted)));
                    let spans: Vec<Span> = std::iter::once(before)
                        .chain(arguments.iter().map(|one| one.span))
                        .collect();
                    let key = arguments.first().filter(|_| !is_checked);
                    self.infer_call(function, &types, &spans, key, suffix.span)
                }
            };
            before = Span::new(base.span.start, suffix.end);
        }
        match can_stop {
            true => of.union_with(ValueType::nothing_value()),
            false => of,
        }
    }

    /// Infers the type of a member of a value, and reports a member that never exists. The spans are those of the value and of the name.
    fn infer_member(
        &mut self,
        of: &ValueType,
        name: &str,
        (base, span): (Span, Span),
        missing: MissingKeyMeaning,
    ) -> ValueType {
        let Some(shape) = of.known_shape() else {
            return ValueType::any_value();
        };
        let is_length = name == "len" && (shape.text.is_some() || shape.list.is_some());
        if shape.map.is_none() {
            if is_length {
                return ValueType::number_up_to(u64::MAX);
            }
            if is_informative_type(of) {
                let message = format!("`{}` is {of}, so it has no member `{name}`", self.part_text(base));
                self.report_problem(TypeProblemKind::Fails, span, message, None);
            }
            return ValueType::any_value();
        }
        let Some(fields) = of.map_fields() else {
            return ValueType::any_value();
        };
        match fields.find_value_type(name) {
            Some(value_type) => value_type,
            None => {
                let similar_key = find_similar_word(name, fields.known_keys.keys().map(String::as_str));
                let keys: Vec<String> = fields
                    .known_keys
                    .keys()
                    .take(12)
                    .map(|key| format!("`{key}`"))
                    .collect();
                let help = match similar_key {
                    Some(similar_key) => SuggestedReplacement::for_near_word(similar_key, name, self.text, span),
                    None => {
                        let more = if fields.known_keys.len() > keys.len() {
                            ", …"
                        } else {
                            ""
                        };
                        format!("the known keys are {}{more}", keys.join(", ")).into()
                    }
                };
                let (mistake, message) = match fields.is_strict {
                    true => (
                        TypeProblemKind::Fails,
                        format!("`{}` has no field `{name}`", self.part_text(base)),
                    ),
                    false => (
                        TypeProblemKind::NoKey,
                        format!("`{}` has no key `{name}`", self.part_text(base)),
                    ),
                };
                let is_reported = match missing {
                    MissingKeyMeaning::Reported => true,
                    MissingKeyMeaning::Expected => mistake != TypeProblemKind::NoKey,
                    MissingKeyMeaning::ReportedElsewhere => false,
                };
                if is_reported {
                    self.report_problem(mistake, span, message, Some(help));
                }
                ValueType::nothing_value()
            }
        }
    }
}

/// Returns whether the type is known and is more than only nothing, which a missing key has.
pub(crate) fn is_informative_type(of: &ValueType) -> bool {
    of.known_shape().is_some_and(|shape| {
        let only_nothing = ValueShape {
            can_be_nothing: shape.can_be_nothing,
            ..ValueShape::default()
        };
        *shape != only_nothing
    })
}

/// Returns whether the type can have such a shape. An unknown type can have any shape.
fn can_have_shape(of: &ValueType, fits: impl Fn(&ValueShape) -> bool) -> bool {
    of.known_shape().is_none_or(fits)
}

/// Returns the truth of a value of this type, if all its values have the same truth.
pub(crate) fn find_known_truth(of: &ValueType) -> Option<bool> {
    let shape = of.known_shape()?;
    match () {
        () if *of == ValueType::exact_value_type(&true.into()) => Some(true),
        () if !shape.can_be_true
            && shape.number.is_none()
            && shape.text.is_none()
            && shape.list.is_none()
            && shape.map.is_none() =>
        {
            (shape.can_be_false || shape.can_be_nothing).then_some(false)
        }
        () => None,
    }
}
