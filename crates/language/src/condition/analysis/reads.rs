//! The values of the snapshot that a condition reads: for reports, and for checks before a run.

use std::sync::Arc;

use crate::condition::evaluation::operators::{
    OperatorResult, contains_value, fail_with, get_indexed_item, get_member, get_slice,
};
use crate::condition::evaluation::report::shorten_to_json;
use crate::condition::evaluation::value::{ConditionValue, ListValue, MapValue};
use crate::condition::expression::tree::{
    ChainStep, ChainStepKind, ComparisonOperator, ConditionExpr, ConditionVariable, ExprKind,
};
use crate::condition::functions::ConditionFunction;
use crate::condition::{ConditionRead, ConditionSnapshot, PartValues};
use crate::source::Span;

/// Returns the value of a variable in the snapshot.
pub(crate) fn variable_value(variable: ConditionVariable, facts: &ConditionSnapshot) -> ConditionValue {
    match variable {
        ConditionVariable::Context => ConditionValue::Map(MapValue::Context(facts.context.clone())),
        ConditionVariable::Output => facts
            .output
            .clone()
            .map_or(ConditionValue::Nothing, ConditionValue::from_shared_json),
        ConditionVariable::TurnCount => ConditionValue::Int(i64::try_from(facts.turn_count).unwrap_or(i64::MAX)),
        ConditionVariable::History => ConditionValue::List(ListValue::History(facts.history.clone())),
        ConditionVariable::Executions | ConditionVariable::AgentExecutionCount => {
            ConditionValue::Map(MapValue::Counts(facts.executions.clone()))
        }
        ConditionVariable::Input => ConditionValue::from_run_input(&facts.input),
        ConditionVariable::Inputs => ConditionValue::Map(MapValue::Context(facts.inputs.clone())),
        ConditionVariable::Outputs => ConditionValue::Map(MapValue::Outputs(facts.outputs.clone())),
        ConditionVariable::Item => read_part_variable(facts, |part| &part.item),
        ConditionVariable::Part => read_part_variable(facts, |part| &part.part),
    }
}

/// Returns the value of `item` or `part`; nothing outside of the parts of an execution.
fn read_part_variable(
    facts: &ConditionSnapshot,
    value: impl Fn(&PartValues) -> &Arc<serde_json::Value>,
) -> ConditionValue {
    let part = facts.part.as_ref();
    part.map_or(ConditionValue::Nothing, |part| {
        ConditionValue::from_shared_json(value(part).clone())
    })
}

/// Returns every part of the condition that reads a value of the snapshot, each once, in order, with a shortened value.
pub(crate) fn list_reads(text: &str, expr: &ConditionExpr, facts: &ConditionSnapshot) -> Vec<ConditionRead> {
    let mut spans: Vec<(Span, &ConditionExpr, usize)> = Vec::new();
    collect_reads(expr, &mut spans);
    let mut reads: Vec<ConditionRead> = Vec::new();
    let mut seen_expressions = std::collections::HashSet::new();
    for (span, expr, steps) in spans {
        let expression = &text[span.start..span.end];
        if seen_expressions.insert(expression) {
            let value =
                evaluate_read(expr, steps, facts).map_or(serde_json::Value::Null, |value| shorten_to_json(&value));
            reads.push(ConditionRead {
                expression: expression.to_owned(),
                value,
            });
        }
    }
    reads
}

/// Returns the reads of an expression whose evaluation fails. Shortens a chain that fails to the longest part with a value.
pub(crate) fn list_available_reads(text: &str, expr: &ConditionExpr, facts: &ConditionSnapshot) -> Vec<ConditionRead> {
    let mut spans: Vec<(Span, &ConditionExpr, usize)> = Vec::new();
    collect_reads(expr, &mut spans);
    let available = |(span, expr, steps): (Span, &ConditionExpr, usize)| {
        let (value, span) = match &expr.kind {
            ExprKind::Chain(base, suffixes) => (0..=steps).rev().find_map(|steps| {
                let value = evaluate_read(expr, steps, facts).ok()?;
                let end = steps.checked_sub(1).map_or(base.span.end, |at| suffixes[at].end);
                Some((value, Span::new(span.start, end)))
            })?,
            _ => (evaluate_read(expr, steps, facts).ok()?, span),
        };
        Some(ConditionRead {
            expression: text[span.start..span.end].to_owned(),
            value: shorten_to_json(&value),
        })
    };
    spans.into_iter().filter_map(available).collect()
}

/// Adds the reads of the expression: the span, the expression, and the number of steps of its chain that belong to the read.
fn collect_reads<'a>(expr: &'a ConditionExpr, spans: &mut Vec<(Span, &'a ConditionExpr, usize)>) {
    match &expr.kind {
        ExprKind::Variable(_) => spans.push((expr.span, expr, 0)),
        ExprKind::Call(..) if is_lookup_call(expr) => spans.push((expr.span, expr, 0)),
        ExprKind::Compare(key, rest) if is_literal_key_membership(key, rest) => spans.push((expr.span, expr, 0)),
        ExprKind::Chain(base, suffixes) if matches!(base.kind, ExprKind::Variable(_)) => {
            let steps = suffixes.iter().take_while(|suffix| is_path_step(suffix)).count();
            let end = steps.checked_sub(1).map_or(base.span.end, |at| suffixes[at].end);
            spans.push((Span::new(base.span.start, end), expr, steps));
            for suffix in suffixes {
                match &suffix.kind {
                    ChainStepKind::Member(_) => {}
                    ChainStepKind::Index(index) => collect_reads(index, spans),
                    ChainStepKind::Slice(from, to) => {
                        from.iter().chain(to).for_each(|bound| collect_reads(bound, spans));
                    }
                    ChainStepKind::Method(_, arguments) => {
                        arguments.iter().for_each(|argument| collect_reads(argument, spans))
                    }
                }
            }
        }
        _ => expr.visit_parts(&mut |part| collect_reads(part, spans)),
    }
}

/// Returns whether the comparison asks for a literal key in a variable: `'key' in context`.
fn is_literal_key_membership(key: &ConditionExpr, rest: &[(ComparisonOperator, ConditionExpr)]) -> bool {
    matches!(rest, [(ComparisonOperator::In | ComparisonOperator::NotIn, place)] if is_variable_path(place))
        && matches!(key.kind, ExprKind::Text(_))
}

/// Returns whether the call looks up a value: `len(history)`, `get(context, 'key')`.
fn is_lookup_call(expr: &ConditionExpr) -> bool {
    match &expr.kind {
        ExprKind::Call(function, arguments) => {
            is_lookup_function(function)
                && arguments.first().is_some_and(is_variable_path)
                && arguments[1..].iter().all(is_simple_operand)
        }
        _ => false,
    }
}

/// Returns whether the function is `get` or `len`.
fn is_lookup_function(function: &ConditionFunction) -> bool {
    function.has_own_name("get") || function.has_own_name("len")
}

/// Returns whether the expression is a variable, or a chain that consists only of lookups from a variable.
fn is_variable_path(expr: &ConditionExpr) -> bool {
    match &expr.kind {
        ExprKind::Variable(_) => true,
        ExprKind::Chain(base, suffixes) => {
            matches!(base.kind, ExprKind::Variable(_)) && suffixes.iter().all(is_path_step)
        }
        _ => false,
    }
}

/// Returns whether the step looks up a value by simple operands.
fn is_path_step(suffix: &ChainStep) -> bool {
    match &suffix.kind {
        ChainStepKind::Member(_) => true,
        ChainStepKind::Index(index) => is_simple_operand(index),
        ChainStepKind::Slice(from, to) => from.iter().chain(to).all(is_simple_operand),
        ChainStepKind::Method(function, arguments) => {
            is_lookup_function(function) && arguments.iter().all(is_simple_operand)
        }
    }
}

/// Returns whether the expression is a constant or a variable path.
fn is_simple_operand(expr: &ConditionExpr) -> bool {
    match &expr.kind {
        ExprKind::Nothing | ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Text(_) => true,
        ExprKind::List(items) => items.is_empty(),
        ExprKind::Map(entries) => entries.is_empty(),
        _ => is_variable_path(expr),
    }
}

/// Computes the value of a read with the first `steps` steps of its chain, without the engine.
fn evaluate_read(expr: &ConditionExpr, steps: usize, facts: &ConditionSnapshot) -> OperatorResult {
    match &expr.kind {
        ExprKind::Chain(base, suffixes) => {
            let mut value = evaluate_read(base, 0, facts)?;
            for suffix in &suffixes[..steps.min(suffixes.len())] {
                if suffix.is_optional && matches!(value, ConditionValue::Nothing) {
                    return Ok(value);
                }
                value = apply_step(&value, suffix, facts)?;
            }
            Ok(value)
        }
        ExprKind::Compare(key, rest) => match rest.as_slice() {
            [(comparison, place)] => {
                let is_contained = contains_value(&evaluate_whole(place, facts)?, &evaluate_whole(key, facts)?)?;
                Ok(ConditionValue::Bool(
                    is_contained == (*comparison == ComparisonOperator::In),
                ))
            }
            _ => fail_with(""),
        },
        ExprKind::Call(function, arguments) => {
            let arguments = arguments.iter().map(|argument| evaluate_whole(argument, facts));
            (function.run)(&arguments.collect::<Result<Vec<_>, _>>()?)
        }
        ExprKind::Variable(name) => Ok(variable_value(*name, facts)),
        ExprKind::Nothing => Ok(ConditionValue::Nothing),
        ExprKind::Bool(value) => Ok(ConditionValue::Bool(*value)),
        ExprKind::Int(value) => Ok(ConditionValue::Int(*value)),
        ExprKind::Float(value) => Ok(ConditionValue::Float(*value)),
        ExprKind::Text(text) => Ok(ConditionValue::new_text(text.as_str())),
        ExprKind::List(_) => Ok(ConditionValue::new_list([])),
        ExprKind::Map(_) => Ok(ConditionValue::Map(MapValue::Own([].into()))),
        _ => fail_with(""),
    }
}

/// Computes the value of a read with all steps of its chain.
fn evaluate_whole(expr: &ConditionExpr, facts: &ConditionSnapshot) -> OperatorResult {
    evaluate_read(expr, usize::MAX, facts)
}

/// Applies one step of a chain to the value.
fn apply_step(value: &ConditionValue, suffix: &ChainStep, facts: &ConditionSnapshot) -> OperatorResult {
    match &suffix.kind {
        ChainStepKind::Member(name) => get_member(value, name),
        ChainStepKind::Index(at) => get_indexed_item(value, &evaluate_whole(at, facts)?),
        ChainStepKind::Slice(from, to) => {
            let bound = |bound: &Option<ConditionExpr>| match bound {
                Some(bound) => evaluate_whole(bound, facts),
                None => Ok(ConditionValue::Nothing),
            };
            get_slice(value, &bound(from)?, &bound(to)?)
        }
        ChainStepKind::Method(function, arguments) => {
            let mut all = vec![value.clone()];
            for argument in arguments {
                all.push(evaluate_whole(argument, facts)?);
            }
            (function.run)(&all)
        }
    }
}

/// A literal key by which a condition reads a member of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionKeyRead {
    /// The literal key.
    pub key: String,
    /// Its position.
    pub span: Span,
    /// Whether the condition asks whether the key exists.
    pub is_question: bool,
}

/// Returns the literal keys by which the expression reads members of these variables.
pub(crate) fn list_literal_key_reads(expr: &ConditionExpr, of: &[ConditionVariable]) -> Vec<ConditionKeyRead> {
    let (mut keys, mut asked) = (Vec::new(), Vec::new());
    collect_null_checked_spans(expr, &mut asked);
    collect_read_keys(expr, of, &asked, &mut keys);
    keys
}

/// Adds the spans of reads that an operator compares with nothing.
fn collect_null_checked_spans(expr: &ConditionExpr, asked: &mut Vec<Span>) {
    match &expr.kind {
        ExprKind::Compare(first, rest) => {
            let mut left = &**first;
            for (comparison, right) in rest {
                let questions = [(left, right), (right, left)].into_iter();
                let questions = questions.filter(|(_, other)| comparison.asks_presence(other));
                asked.extend(questions.map(|(operand, _)| operand.span));
                left = right;
            }
        }
        ExprKind::Coalesce(operands) => {
            let before_last = operands.iter().rev().skip(1);
            asked.extend(before_last.map(|operand| operand.span));
        }
        _ => {}
    }
    expr.visit_parts(&mut |part| collect_null_checked_spans(part, asked));
}

/// Returns the agents whose executions are counted or whose outputs are read by a literal name, with the span of each name.
pub(crate) fn list_named_agents(expr: &ConditionExpr) -> Vec<(String, Span)> {
    let read = list_literal_key_reads(
        expr,
        &[
            ConditionVariable::Executions,
            ConditionVariable::AgentExecutionCount,
            ConditionVariable::Outputs,
        ],
    );
    read.into_iter().map(|read| (read.key, read.span)).collect()
}

/// Returns the agents that the expression reads by literal names; `None` if it can also depend on other agents.
pub(crate) fn list_read_agents(expr: &ConditionExpr) -> Option<Vec<String>> {
    let named = list_named_agents(expr);
    let (mut is_open, mut by_agent) = (false, 0);
    count_agent_variables(expr, &mut is_open, &mut by_agent);
    let is_all = !is_open && by_agent == named.len();
    is_all.then(|| named.into_iter().map(|(name, _)| name).collect())
}

/// Counts the variables whose members are agents. `is_open`: another variable depends on any agent.
fn count_agent_variables(expr: &ConditionExpr, is_open: &mut bool, by_agent: &mut usize) {
    use ConditionVariable::{AgentExecutionCount, Context, Executions, History, Outputs, TurnCount};
    match expr.kind {
        ExprKind::Variable(Executions | AgentExecutionCount | Outputs) => *by_agent += 1,
        ExprKind::Variable(Context | History | TurnCount) => *is_open = true,
        _ => {}
    }
    expr.visit_parts(&mut |part| count_agent_variables(part, is_open, by_agent));
}

/// Adds the literal keys by which members of the variables `of` are read. `asked`: the spans of reads whose presence is checked.
fn collect_read_keys(expr: &ConditionExpr, of: &[ConditionVariable], asked: &[Span], keys: &mut Vec<ConditionKeyRead>) {
    let is_one = |expr: &ConditionExpr| matches!(expr.kind, ExprKind::Variable(variable) if of.contains(&variable));
    match &expr.kind {
        ExprKind::Chain(base, suffixes) if is_one(base) => {
            let is_asked = |first: &ChainStep| {
                first.is_optional
                    || suffixes
                        .get(1)
                        .map_or(asked.contains(&expr.span), |next| next.is_optional)
            };
            let is_question = suffixes.first().is_some_and(is_asked);
            match suffixes.first().map(|first| (&first.kind, first.span)) {
                Some((ChainStepKind::Member(name), span)) => keys.push(ConditionKeyRead {
                    key: name.clone(),
                    span,
                    is_question,
                }),
                Some((ChainStepKind::Index(index), _)) => push_literal_key(index, is_question, keys),
                Some((ChainStepKind::Method(function, arguments), _)) if has_key_argument(function) => {
                    let key = arguments.first().into_iter();
                    key.for_each(|key| push_literal_key(key, true, keys));
                }
                _ => {}
            }
        }
        ExprKind::Call(function, arguments) if has_key_argument(function) => {
            if let [place, key, ..] = arguments.as_slice()
                && is_one(place)
            {
                push_literal_key(key, true, keys);
            }
        }
        ExprKind::Compare(first, rest) => {
            let mut left = &**first;
            for (comparison, right) in rest {
                if matches!(comparison, ComparisonOperator::In | ComparisonOperator::NotIn) && is_one(right) {
                    push_literal_key(left, true, keys);
                }
                left = right;
            }
        }
        _ => {}
    }
    expr.visit_parts(&mut |part| collect_read_keys(part, of, asked, keys));
}

/// Returns whether the function is `get` or `contains`.
fn has_key_argument(function: &ConditionFunction) -> bool {
    function.has_own_name("get") || function.has_own_name("contains")
}

/// Adds the key, if the expression is a literal text.
fn push_literal_key(expr: &ConditionExpr, is_question: bool, keys: &mut Vec<ConditionKeyRead>) {
    if let ExprKind::Text(text) = &expr.kind {
        keys.push(ConditionKeyRead {
            key: text.clone(),
            span: expr.span,
            is_question,
        });
    }
}
