//! The values of the snapshot that a condition reads: for reports, and for checks before a run.

use std::sync::Arc;

use crate::condition::evaluation::operators::{Outcome, contains, fault, index, member};
use crate::condition::evaluation::report::shorten;
use crate::condition::evaluation::value::{Datum, List, Map};
use crate::condition::expression::tree::{Comparison, Expr, Kind, Suffix, SuffixKind, Variable};
use crate::condition::functions::Function;
use crate::condition::{Facts, PartFacts, Read};
use crate::source::Span;

/// The value of a variable.
pub(crate) fn variable(variable: Variable, facts: &Facts) -> Datum {
    match variable {
        Variable::Context => Datum::Map(Map::Context(facts.context.clone())),
        Variable::Output => facts.output.clone().map_or(Datum::Nothing, Datum::shared),
        Variable::TurnCount => Datum::Int(i64::try_from(facts.turn_count).unwrap_or(i64::MAX)),
        Variable::History => Datum::List(List::History(facts.history.clone())),
        Variable::Executions | Variable::AgentExecutionCount => Datum::Map(Map::Counts(facts.executions.clone())),
        Variable::Input => Datum::input(&facts.input),
        Variable::Inputs => Datum::Map(Map::Context(facts.inputs.clone())),
        Variable::Outputs => Datum::Map(Map::Outputs(facts.outputs.clone())),
        Variable::Item => of_part(facts, |part| &part.item),
        Variable::Part => of_part(facts, |part| &part.part),
    }
}

fn of_part(facts: &Facts, value: impl Fn(&PartFacts) -> &Arc<serde_json::Value>) -> Datum {
    let part = facts.part.as_ref();
    part.map_or(Datum::Nothing, |part| Datum::shared(value(part).clone()))
}

/// Every part of the condition that reads a value of the snapshot, each once, in order.
pub(crate) fn reads(text: &str, expr: &Expr, facts: &Facts) -> Vec<Read> {
    let mut spans: Vec<(Span, &Expr, usize)> = Vec::new();
    collect(expr, &mut spans);
    let mut reads: Vec<Read> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (span, expr, steps) in spans {
        let expression = &text[span.start..span.end];
        if seen.insert(expression) {
            let value = look(expr, steps, facts).map_or(serde_json::Value::Null, |value| shorten(&value));
            reads.push(Read {
                expression: expression.to_owned(),
                value,
            });
        }
    }
    reads
}

/// The reads in the expression: their positions, the expression, and the number of steps of its chain that belong to
/// it.
fn collect<'a>(expr: &'a Expr, spans: &mut Vec<(Span, &'a Expr, usize)>) {
    match &expr.kind {
        Kind::Variable(_) => spans.push((expr.span, expr, 0)),
        Kind::Call(..) if is_look(expr) => spans.push((expr.span, expr, 0)),
        Kind::Compare(key, rest) if is_question(key, rest) => spans.push((expr.span, expr, 0)),
        Kind::Chain(base, suffixes) if matches!(base.kind, Kind::Variable(_)) => {
            let steps = suffixes.iter().take_while(|suffix| is_step(suffix)).count();
            let end = steps.checked_sub(1).map_or(base.span.end, |at| suffixes[at].end);
            spans.push((Span::new(base.span.start, end), expr, steps));
            for suffix in suffixes {
                match &suffix.kind {
                    SuffixKind::Member(_) => {}
                    SuffixKind::Index(index) => collect(index, spans),
                    SuffixKind::Method(_, arguments) => arguments.iter().for_each(|argument| collect(argument, spans)),
                }
            }
        }
        _ => expr.parts(&mut |part| collect(part, spans)),
    }
}

/// `'key' in context`.
fn is_question(key: &Expr, rest: &[(Comparison, Expr)]) -> bool {
    matches!(rest, [(Comparison::In | Comparison::NotIn, place)] if is_path(place)) && matches!(key.kind, Kind::Text(_))
}

/// `len(history)`, `get(context, 'key')`.
fn is_look(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Call(function, arguments) => {
            looks(function) && arguments.first().is_some_and(is_path) && arguments[1..].iter().all(is_simple)
        }
        _ => false,
    }
}

fn looks(function: &Function) -> bool {
    function.is("get") || function.is("len")
}

/// A variable, or a chain that consists only of steps from a variable.
fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Variable(_) => true,
        Kind::Chain(base, suffixes) => matches!(base.kind, Kind::Variable(_)) && suffixes.iter().all(is_step),
        _ => false,
    }
}

fn is_step(suffix: &Suffix) -> bool {
    match &suffix.kind {
        SuffixKind::Member(_) => true,
        SuffixKind::Index(index) => is_simple(index),
        SuffixKind::Method(function, arguments) => looks(function) && arguments.iter().all(is_simple),
    }
}

/// A constant, or a path.
fn is_simple(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Nothing | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Text(_) => true,
        Kind::List(items) => items.is_empty(),
        Kind::Map(entries) => entries.is_empty(),
        _ => is_path(expr),
    }
}

/// The value of a read, computed without the engine.
fn look(expr: &Expr, steps: usize, facts: &Facts) -> Outcome {
    match &expr.kind {
        Kind::Chain(base, suffixes) => {
            let mut value = look(base, 0, facts)?;
            for suffix in &suffixes[..steps.min(suffixes.len())] {
                if suffix.optional && matches!(value, Datum::Nothing) {
                    return Ok(value);
                }
                value = step(&value, suffix, facts)?;
            }
            Ok(value)
        }
        Kind::Compare(key, rest) => match rest.as_slice() {
            [(comparison, place)] => {
                let found = contains(&whole(place, facts)?, &whole(key, facts)?)?;
                Ok(Datum::Bool(found == (*comparison == Comparison::In)))
            }
            _ => fault(""),
        },
        Kind::Call(function, arguments) => {
            let arguments = arguments.iter().map(|argument| whole(argument, facts));
            (function.run)(&arguments.collect::<Result<Vec<_>, _>>()?)
        }
        Kind::Variable(name) => Ok(variable(*name, facts)),
        Kind::Nothing => Ok(Datum::Nothing),
        Kind::Bool(value) => Ok(Datum::Bool(*value)),
        Kind::Int(value) => Ok(Datum::Int(*value)),
        Kind::Float(value) => Ok(Datum::Float(*value)),
        Kind::Text(text) => Ok(Datum::text(text.as_str())),
        Kind::List(_) => Ok(Datum::list([])),
        Kind::Map(_) => Ok(Datum::Map(Map::Own([].into()))),
        _ => fault(""),
    }
}

fn whole(expr: &Expr, facts: &Facts) -> Outcome {
    look(expr, usize::MAX, facts)
}

fn step(value: &Datum, suffix: &Suffix, facts: &Facts) -> Outcome {
    match &suffix.kind {
        SuffixKind::Member(name) => member(value, name),
        SuffixKind::Index(at) => index(value, &whole(at, facts)?),
        SuffixKind::Method(function, arguments) => {
            let mut all = vec![value.clone()];
            for argument in arguments {
                all.push(whole(argument, facts)?);
            }
            (function.run)(&all)
        }
    }
}

/// A key with which a condition reads a member of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRead {
    /// The literal key.
    pub key: String,
    /// Its position.
    pub span: Span,
    /// Whether the condition only tests whether the key exists.
    pub is_question: bool,
}

/// The literal keys with which members of the variables are read.
pub(crate) fn keys_read(expr: &Expr, of: &[Variable]) -> Vec<KeyRead> {
    let mut keys = Vec::new();
    collect_keys(expr, of, &mut keys);
    keys
}

/// The agents whose executions are counted, or whose outputs are read, by a literal name, with the position of each
/// name.
pub(crate) fn agents_read(expr: &Expr) -> Vec<(String, Span)> {
    let read = keys_read(
        expr,
        &[Variable::Executions, Variable::AgentExecutionCount, Variable::Outputs],
    );
    read.into_iter().map(|read| (read.key, read.span)).collect()
}

fn collect_keys(expr: &Expr, of: &[Variable], keys: &mut Vec<KeyRead>) {
    let is_one = |expr: &Expr| matches!(expr.kind, Kind::Variable(variable) if of.contains(&variable));
    match &expr.kind {
        Kind::Chain(base, suffixes) if is_one(base) => match suffixes.first().map(|first| (&first.kind, first.span)) {
            Some((SuffixKind::Member(name), span)) => keys.push(KeyRead {
                key: name.clone(),
                span,
                is_question: false,
            }),
            Some((SuffixKind::Index(index), _)) => literal(index, false, keys),
            Some((SuffixKind::Method(function, arguments), _)) if by_key(function) => {
                let is_question = !function.is("get");
                arguments
                    .first()
                    .into_iter()
                    .for_each(|key| literal(key, is_question, keys));
            }
            _ => {}
        },
        Kind::Call(function, arguments) if by_key(function) => {
            if let [place, key, ..] = arguments.as_slice()
                && is_one(place)
            {
                literal(key, !function.is("get"), keys);
            }
        }
        Kind::Compare(first, rest) => {
            let mut left = &**first;
            for (comparison, right) in rest {
                if matches!(comparison, Comparison::In | Comparison::NotIn) && is_one(right) {
                    literal(left, true, keys);
                }
                left = right;
            }
        }
        _ => {}
    }
    expr.parts(&mut |part| collect_keys(part, of, keys));
}

fn by_key(function: &Function) -> bool {
    function.is("get") || function.is("contains")
}

fn literal(expr: &Expr, is_question: bool, keys: &mut Vec<KeyRead>) {
    if let Kind::Text(text) = &expr.kind {
        keys.push(KeyRead {
            key: text.clone(),
            span: expr.span,
            is_question,
        });
    }
}
