//! The values with which a condition has a given answer, for examples. A condition that is too hard to invert demands
//! nothing; an example must be tried in any case.

use serde_json::{Number, Value};

use super::super::expression::tree::{Comparison, Expr, Kind, SuffixKind, Variable};
use super::super::functions::Function;
use super::super::{Condition, Expression, parse};
use super::paths::find_path_through;
use super::polarity::{step_for, swap_sides, visit_enough};

/// A value that a condition reads, and its kind of demand on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The variable.
    pub of: DemandRoot,
    /// The keys that lead from the variable to the value.
    pub path: Vec<String>,
    /// The demand on the value.
    pub kind: DemandKind,
}

/// The variables that examples can fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemandRoot {
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
pub enum DemandKind {
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
    /// Returns demands on its values that give it this answer.
    pub fn demands(text: &str, answer: bool) -> Vec<Demand> {
        let mut demands = Vec::new();
        if let Ok(expr) = parse(text) {
            visit_enough(&expr, answer, &mut |part, answer| {
                add_demand(part, answer, &mut demands)
            });
        }
        demands
    }
}

impl Expression {
    /// Returns the variable and the keys that an expression reads, if it is nothing but one value.
    pub fn read_path(text: &str) -> Option<(DemandRoot, Vec<String>)> {
        find_root(&parse(text).ok()?)
    }
}

fn add_demand(expr: &Expr, answer: bool, demands: &mut Vec<Demand>) {
    match &expr.kind {
        Kind::Compare(left, rest) if let [(comparison, right)] = rest.as_slice() => {
            demands.extend(compared(left, *comparison, right, answer));
        }
        Kind::Call(function, arguments) => {
            demands.extend(called(function.names[0], arguments.iter().collect(), answer));
        }
        Kind::Chain(..) => demands.extend(method(expr, answer)),
        Kind::Variable(_) => demands.extend(demanded(expr, truth(answer))),
        _ => {}
    }
}

fn truth(answer: bool) -> DemandKind {
    match answer {
        true => DemandKind::True,
        false => DemandKind::False,
    }
}

/// A chain: a value that is read, or a method at its end.
fn method(expr: &Expr, answer: bool) -> Option<Demand> {
    if let Some(demand) = demanded(expr, truth(answer)) {
        return Some(demand);
    }
    let Kind::Chain(base, suffixes) = &expr.kind else {
        return None;
    };
    let (last, before) = suffixes.split_last()?;
    let SuffixKind::Method(function, arguments) = &last.kind else {
        return None;
    };
    let rest = Expr::new(Kind::Chain(base.clone(), before.to_vec()), expr.span);
    let arguments = std::iter::once(&rest).chain(arguments).collect();
    called(function.names[0], arguments, answer)
}

fn called(function: &str, arguments: Vec<&Expr>, answer: bool) -> Option<Demand> {
    let literal = || literal(arguments.get(1)?);
    let kind = match (function, answer) {
        ("contains", true) => DemandKind::Has(literal()?),
        ("contains", false) => DemandKind::Lacks(literal()?),
        ("starts_with" | "ends_with", true) => DemandKind::Is(literal()?),
        ("starts_with" | "ends_with", false) => DemandKind::IsNot(literal()?),
        ("is_empty", true) => DemandKind::Length(0),
        ("is_empty", false) => DemandKind::Length(1),
        ("any" | "all", true) => DemandKind::Is(vec![Value::Bool(true)].into()),
        ("any" | "all", false) => DemandKind::Is(vec![Value::Bool(false)].into()),
        ("bool", true) => DemandKind::True,
        ("bool", false) => DemandKind::False,
        _ => return None,
    };
    demanded(arguments.first()?, kind)
}

fn compared(left: &Expr, comparison: Comparison, right: &Expr, answer: bool) -> Option<Demand> {
    if matches!(comparison, Comparison::In | Comparison::NotIn) {
        return contained(left, right, (comparison == Comparison::In) == answer);
    }
    let (value, comparison, other) = match (literal(right), literal(left)) {
        (Some(other), None) => (left, comparison, other),
        (None, Some(other)) => (right, swap_sides(comparison), other),
        _ => return None,
    };
    if let Some(counted) = length_of(value) {
        let length = usize::try_from(fitting(comparison, &other, answer)?.as_u64()?).ok()?;
        return demanded(&counted, DemandKind::Length(length));
    }
    let kind = match (comparison, answer) {
        (Comparison::Equal, true) | (Comparison::Different, false) => DemandKind::Is(other),
        (Comparison::Equal, false) | (Comparison::Different, true) => DemandKind::IsNot(other),
        _ => DemandKind::Is(fitting(comparison, &other, answer)?),
    };
    demanded(value, kind)
}

fn contained(left: &Expr, right: &Expr, answer: bool) -> Option<Demand> {
    if let (Some(Value::Array(values)), Some(_)) = (literal(right), find_root(left)) {
        let first = values.first()?.clone();
        return demanded(
            left,
            if answer {
                DemandKind::Is(first)
            } else {
                DemandKind::IsNot(first)
            },
        );
    }
    let item = literal(left)?;
    let (of, mut path) = find_root(right)?;
    if let (true, Value::String(key)) = (path.is_empty() && of != DemandRoot::Input, &item) {
        // A key of the variable itself.
        path.push(key.clone());
        let kind = if answer { DemandKind::True } else { DemandKind::Missing };
        return Some(Demand { of, path, kind });
    }
    demanded(
        right,
        if answer {
            DemandKind::Has(item)
        } else {
            DemandKind::Lacks(item)
        },
    )
}

/// A number at the boundary for which the comparison has this answer.
fn fitting(comparison: Comparison, other: &Value, answer: bool) -> Option<Value> {
    let step = step_for(comparison, answer);
    match other.as_i64() {
        Some(whole) => whole.checked_add(step).map(Value::from),
        None => Number::from_f64(other.as_f64()? + step as f64).map(Value::Number),
    }
}

/// The value whose length this is.
fn length_of(expr: &Expr) -> Option<Expr> {
    match &expr.kind {
        Kind::Call(function, arguments) if function.is("len") => arguments.first().cloned(),
        Kind::Chain(base, suffixes) => {
            let (last, before) = suffixes.split_last()?;
            let is_length = matches!(&last.kind, SuffixKind::Method(function, _) if function.is("len"));
            is_length.then(|| Expr::new(Kind::Chain(base.clone(), before.to_vec()), expr.span))
        }
        _ => None,
    }
}

fn demanded(expr: &Expr, kind: DemandKind) -> Option<Demand> {
    let (of, path) = find_root(expr)?;
    Some(Demand { of, path, kind })
}

/// Finds the variable and the keys, if the expression reads nothing but one value that examples can fill.
fn find_root(expr: &Expr) -> Option<(DemandRoot, Vec<String>)> {
    let (variable, path) = find_path_through(expr, &keeps_examples)?;
    let of = match variable {
        Variable::Output => DemandRoot::Output,
        Variable::Outputs => DemandRoot::Outputs,
        Variable::Context => DemandRoot::Context,
        Variable::Input => DemandRoot::Input,
        Variable::Inputs => DemandRoot::Inputs,
        _ => return None,
    };
    Some((of, path))
}

/// Returns whether the function leaves the values of examples as they are.
fn keeps_examples(function: &Function) -> bool {
    matches!(function.names[0], "lower" | "strip" | "str" | "int" | "float" | "round")
}

fn literal(expr: &Expr) -> Option<Value> {
    Some(match &expr.kind {
        Kind::Nothing => Value::Null,
        Kind::Bool(value) => (*value).into(),
        Kind::Int(value) => (*value).into(),
        Kind::Float(value) => Value::Number(Number::from_f64(*value)?),
        Kind::Text(text) => text.as_str().into(),
        Kind::List(items) => items.iter().map(literal).collect::<Option<Vec<_>>>()?.into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Demand, DemandKind};
    use crate::condition::Condition;

    fn shown(text: &str, answer: bool) -> Vec<(String, DemandKind)> {
        let demands = Condition::demands(text, answer);
        let shown = |Demand { of, path, kind }: Demand| (format!("{of:?}.{}", path.join(".")), kind);
        demands.into_iter().map(shown).collect()
    }

    #[test]
    fn a_demand_is_at_the_boundary_of_the_answer() {
        use DemandKind::{False, Has, Is, IsNot, Lacks, Length, Missing, True};
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
