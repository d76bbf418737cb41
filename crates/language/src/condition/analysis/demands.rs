//! The values with which a condition has a given answer, for examples. A condition that is too hard to invert demands
//! nothing; an example must be tried in any case.

use serde_json::{Number, Value};

use super::super::expression::tree::{ChainStepKind, ComparisonOperator, ConditionExpr, ConditionVariable, ExprKind};
use super::super::functions::ConditionFunction;
use super::super::{Condition, ValueExpression, parse_condition};
use super::paths::find_literal_path_skipping;
use super::polarity::{boundary_step, swap_comparison_sides, visit_one_solution};

/// A value that a condition reads, with the requirement that gives the condition a wanted answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueRequirement {
    /// The variable.
    pub variable: ExampleVariable,
    /// The keys that lead from the variable to the value.
    pub path: Vec<String>,
    /// The demand on the value.
    pub kind: RequiredValue,
}

/// The variables that examples can fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExampleVariable {
    /// `output`.
    Output,
    /// `outputs`; the first key is the agent.
    Outputs,
    /// `context`; the first key is an agent, or a key of an output.
    Context,
    /// `input`.
    Input,
    /// `inputs`.
    Inputs,
}

/// The kinds of demands on a value.
#[derive(Debug, Clone, PartialEq)]
pub enum RequiredValue {
    /// Anything that is true.
    True,
    /// Anything that is false.
    False,
    /// This value.
    Is(Value),
    /// Any other value.
    IsNot(Value),
    /// A text or a list that contains this.
    Has(Value),
    /// A text or a list that does not contain this.
    Lacks(Value),
    /// A text or a list of this length.
    Length(usize),
    /// The key is not there.
    Missing,
}

impl Condition {
    /// Returns requirements on the values that together give the condition this answer. Skips parts that cannot be inverted.
    pub fn list_value_requirements(text: &str, answer: bool) -> Vec<ValueRequirement> {
        let mut demands = Vec::new();
        if let Ok(expr) = parse_condition(text) {
            visit_one_solution(&expr, answer, &mut |part, answer| {
                add_part_requirements(part, answer, &mut demands)
            });
        }
        demands
    }
}

impl ValueExpression {
    /// Returns the variable and the keys, if the expression reads exactly one value that examples can fill.
    pub fn parse_example_path(text: &str) -> Option<(ExampleVariable, Vec<String>)> {
        find_example_path(&parse_condition(text).ok()?)
    }
}

/// Adds the requirement that gives this part the answer, if there is one.
fn add_part_requirements(expr: &ConditionExpr, answer: bool, demands: &mut Vec<ValueRequirement>) {
    match &expr.kind {
        ExprKind::Compare(left, rest) if let [(comparison, right)] = rest.as_slice() => {
            demands.extend(find_comparison_requirement(left, *comparison, right, answer));
        }
        ExprKind::Call(function, arguments) => {
            demands.extend(find_call_requirement(
                function.names[0],
                arguments.iter().collect(),
                answer,
            ));
        }
        ExprKind::Chain(..) => demands.extend(find_chain_requirement(expr, answer)),
        ExprKind::Variable(_) => demands.extend(requirement_on_path(expr, truth_requirement(answer))),
        _ => {}
    }
}

/// Returns the requirement that a value has this truth.
fn truth_requirement(answer: bool) -> RequiredValue {
    match answer {
        true => RequiredValue::True,
        false => RequiredValue::False,
    }
}

/// Returns the requirement for a value that is read, or for a method at the end of a chain.
fn find_chain_requirement(expr: &ConditionExpr, answer: bool) -> Option<ValueRequirement> {
    if let Some(demand) = requirement_on_path(expr, truth_requirement(answer)) {
        return Some(demand);
    }
    let ExprKind::Chain(base, suffixes) = &expr.kind else {
        return None;
    };
    let (last, before) = suffixes.split_last()?;
    let ChainStepKind::Method(function, arguments) = &last.kind else {
        return None;
    };
    let receiver = ConditionExpr::new(ExprKind::Chain(base.clone(), before.to_vec()), expr.span);
    let arguments = std::iter::once(&receiver).chain(arguments).collect();
    find_call_requirement(function.names[0], arguments, answer)
}

/// Returns the requirement on the first argument for which the call has this answer.
fn find_call_requirement(function: &str, arguments: Vec<&ConditionExpr>, answer: bool) -> Option<ValueRequirement> {
    let literal = || literal_to_json(arguments.get(1)?);
    let kind = match (function, answer) {
        ("contains", true) => RequiredValue::Has(literal()?),
        ("contains", false) => RequiredValue::Lacks(literal()?),
        ("starts_with" | "ends_with", true) => RequiredValue::Is(literal()?),
        ("starts_with" | "ends_with", false) => RequiredValue::IsNot(literal()?),
        ("is_empty", true) => RequiredValue::Length(0),
        ("is_empty", false) => RequiredValue::Length(1),
        ("any" | "all", true) => RequiredValue::Is(vec![Value::Bool(true)].into()),
        ("any" | "all", false) => RequiredValue::Is(vec![Value::Bool(false)].into()),
        ("bool", true) => RequiredValue::True,
        ("bool", false) => RequiredValue::False,
        _ => return None,
    };
    requirement_on_path(arguments.first()?, kind)
}

/// Returns the requirement for which the comparison with a literal has this answer.
fn find_comparison_requirement(
    left: &ConditionExpr,
    comparison: ComparisonOperator,
    right: &ConditionExpr,
    answer: bool,
) -> Option<ValueRequirement> {
    if matches!(comparison, ComparisonOperator::In | ComparisonOperator::NotIn) {
        return find_membership_requirement(left, right, (comparison == ComparisonOperator::In) == answer);
    }
    let (value, comparison, other) = match (literal_to_json(right), literal_to_json(left)) {
        (Some(other), None) => (left, comparison, other),
        (None, Some(other)) => (right, swap_comparison_sides(comparison), other),
        _ => return None,
    };
    if let Some(counted) = find_length_operand(value) {
        let length = usize::try_from(find_boundary_value(comparison, &other, answer)?.as_u64()?).ok()?;
        return requirement_on_path(&counted, RequiredValue::Length(length));
    }
    let kind = match (comparison, answer) {
        (ComparisonOperator::Equal, true) | (ComparisonOperator::Different, false) => RequiredValue::Is(other),
        (ComparisonOperator::Equal, false) | (ComparisonOperator::Different, true) => RequiredValue::IsNot(other),
        _ => RequiredValue::Is(find_boundary_value(comparison, &other, answer)?),
    };
    requirement_on_path(value, kind)
}

/// Returns the requirement for which `left in right` has this answer.
fn find_membership_requirement(left: &ConditionExpr, right: &ConditionExpr, answer: bool) -> Option<ValueRequirement> {
    if let (Some(Value::Array(values)), Some(_)) = (literal_to_json(right), find_example_path(left)) {
        let first = values.first()?.clone();
        return requirement_on_path(
            left,
            if answer {
                RequiredValue::Is(first)
            } else {
                RequiredValue::IsNot(first)
            },
        );
    }
    let item = literal_to_json(left)?;
    let (of, mut path) = find_example_path(right)?;
    if let (true, Value::String(key)) = (path.is_empty() && of != ExampleVariable::Input, &item) {
        // A key of the variable itself.
        path.push(key.clone());
        let kind = if answer {
            RequiredValue::True
        } else {
            RequiredValue::Missing
        };
        return Some(ValueRequirement {
            variable: of,
            path,
            kind,
        });
    }
    requirement_on_path(
        right,
        if answer {
            RequiredValue::Has(item)
        } else {
            RequiredValue::Lacks(item)
        },
    )
}

/// Returns a number at the boundary for which the comparison with `other` has this answer.
fn find_boundary_value(comparison: ComparisonOperator, other: &Value, answer: bool) -> Option<Value> {
    let step = boundary_step(comparison, answer);
    match other.as_i64() {
        Some(integer) => integer.checked_add(step).map(Value::from),
        None => Number::from_f64(other.as_f64()? + step as f64).map(Value::Number),
    }
}

/// Returns the operand of `len(x)` or `x.len()`.
fn find_length_operand(expr: &ConditionExpr) -> Option<ConditionExpr> {
    match &expr.kind {
        ExprKind::Call(function, arguments) if function.has_own_name("len") => arguments.first().cloned(),
        ExprKind::Chain(base, suffixes) => {
            let (last, before) = suffixes.split_last()?;
            let is_length = matches!(&last.kind, ChainStepKind::Method(function, _) if function.has_own_name("len"));
            is_length.then(|| ConditionExpr::new(ExprKind::Chain(base.clone(), before.to_vec()), expr.span))
        }
        _ => None,
    }
}

/// Builds the requirement, if the expression reads exactly one value that examples can fill.
fn requirement_on_path(expr: &ConditionExpr, kind: RequiredValue) -> Option<ValueRequirement> {
    let (of, path) = find_example_path(expr)?;
    Some(ValueRequirement {
        variable: of,
        path,
        kind,
    })
}

/// Returns the variable and the keys, if the expression reads exactly one value that examples can fill.
fn find_example_path(expr: &ConditionExpr) -> Option<(ExampleVariable, Vec<String>)> {
    let (variable, path) = find_literal_path_skipping(expr, &keeps_example_value)?;
    let of = match variable {
        ConditionVariable::Output => ExampleVariable::Output,
        ConditionVariable::Outputs => ExampleVariable::Outputs,
        ConditionVariable::Context => ExampleVariable::Context,
        ConditionVariable::Input => ExampleVariable::Input,
        ConditionVariable::Inputs => ExampleVariable::Inputs,
        _ => return None,
    };
    Some((of, path))
}

/// Returns whether a value that fulfils a requirement still does so after this function, such as `lower` or `strip`.
fn keeps_example_value(function: &ConditionFunction) -> bool {
    matches!(function.names[0], "lower" | "strip" | "str" | "int" | "float" | "round")
}

/// Converts a literal expression to JSON. Returns `None` if the expression is no literal.
fn literal_to_json(expr: &ConditionExpr) -> Option<Value> {
    Some(match &expr.kind {
        ExprKind::Nothing => Value::Null,
        ExprKind::Bool(value) => (*value).into(),
        ExprKind::Int(value) => (*value).into(),
        ExprKind::Float(value) => Value::Number(Number::from_f64(*value)?),
        ExprKind::Text(text) => text.as_str().into(),
        ExprKind::List(items) => items.iter().map(literal_to_json).collect::<Option<Vec<_>>>()?.into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RequiredValue, ValueRequirement};
    use crate::condition::Condition;

    fn shown(text: &str, answer: bool) -> Vec<(String, RequiredValue)> {
        let demands = Condition::list_value_requirements(text, answer);
        let shown = |ValueRequirement {
                         variable: of,
                         path,
                         kind,
                     }: ValueRequirement| (format!("{of:?}.{}", path.join(".")), kind);
        demands.into_iter().map(shown).collect()
    }

    #[test]
    fn a_demand_is_at_the_boundary_of_the_answer() {
        use RequiredValue::{False, Has, Is, IsNot, Lacks, Length, Missing, True};
        let rows = [
            ("output.a", "Output.a", True, False),
            ("not output.a", "Output.a", False, True),
            ("output.a >= 8", "Output.a", Is(json!(8)), Is(json!(7))),
            ("output.a > 8", "Output.a", Is(json!(9)), Is(json!(8))),
            ("output.a < 8", "Output.a", Is(json!(7)), Is(json!(8))),
            ("8 < output.a", "Output.a", Is(json!(9)), Is(json!(8))),
            ("output.a <= 0.5", "Output.a", Is(json!(0.5)), Is(json!(1.5))),
            ("outputs.w.a == 'x'", "Outputs.w.a", Is(json!("x")), IsNot(json!("x"))),
            (
                "context.get('k', 1) != 'x'",
                "Context.k",
                IsNot(json!("x")),
                Is(json!("x")),
            ),
            (
                "output['a'].lower() in ['x', 'y']",
                "Output.a",
                Is(json!("x")),
                IsNot(json!("x")),
            ),
            ("'x' in output.tags", "Output.tags", Has(json!("x")), Lacks(json!("x"))),
            ("'x' in output", "Output.x", True, Missing),
            ("'x' not in input", "Input.", Lacks(json!("x")), Has(json!("x"))),
            ("len(output.tags) > 2", "Output.tags", Length(3), Length(2)),
            ("output.tags.len() == 0", "Output.tags", Length(0), Length(1)),
            (
                "inputs.name.startswith('x')",
                "Inputs.name",
                Is(json!("x")),
                IsNot(json!("x")),
            ),
            (
                "output.text.contains('x')",
                "Output.text",
                Has(json!("x")),
                Lacks(json!("x")),
            ),
        ];
        for (text, place, yes, no) in rows {
            assert_eq!(shown(text, true), [(place.to_owned(), yes)], "{text}");
            assert_eq!(shown(text, false), [(place.to_owned(), no)], "{text}");
        }
    }

    #[test]
    fn what_cannot_be_inverted_demands_nothing() {
        for text in [
            "output.a == output.b",
            "history[0].success",
            "output.a + 1 > 2",
            "output[0]",
            "turn_count > 1",
        ] {
            assert_eq!(shown(text, true), [], "{text}");
        }
        assert_eq!(shown("output.a and output.b", true).len(), 2);
        assert_eq!(shown("output.a and output.b", false).len(), 1);
    }
}
