//! What values should be so that a condition has a given answer, for examples. A condition that is too hard to turn round
//! gives no wishes; an example must be tried in any case.

use serde_json::{Number, Value};

use super::ast::{Comparison, Expr, Kind, SuffixKind, Variable};
use super::{Condition, Expression, parse};

/// A value that a condition reads, and what it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Wished {
    /// The variable.
    pub of: Place,
    /// The keys that lead from the variable to the value.
    pub path: Vec<String>,
    /// What it should be.
    pub wish: Wish,
}

/// The variables that examples can fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
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

/// What a value should be.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
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
    /// What its values should be so that it has this answer.
    pub fn wishes(text: &str, answer: bool) -> Vec<Wished> {
        let mut wishes = Vec::new();
        if let Ok(expr) = parse(text) {
            wish(&expr, answer, &mut wishes);
        }
        wishes
    }
}

impl Expression {
    /// The value that an expression reads, if it is nothing but one.
    pub fn place(text: &str) -> Option<(Place, Vec<String>)> {
        place(&parse(text).ok()?)
    }
}

fn wish(expr: &Expr, answer: bool, wishes: &mut Vec<Wished>) {
    match &expr.kind {
        Kind::Not(inner) => wish(inner, !answer, wishes),
        Kind::And(operands) if answer => operands.iter().for_each(|one| wish(one, true, wishes)),
        Kind::Or(operands) if !answer => operands.iter().for_each(|one| wish(one, false, wishes)),
        Kind::And(operands) | Kind::Or(operands) => operands.iter().take(1).for_each(|one| wish(one, answer, wishes)),
        Kind::Compare(left, rest) if let [(comparison, right)] = rest.as_slice() => {
            wishes.extend(compared(left, *comparison, right, answer));
        }
        Kind::Call(function, arguments) => {
            wishes.extend(called(function.names[0], arguments.iter().collect(), answer));
        }
        Kind::Chain(..) => wishes.extend(method(expr, answer)),
        Kind::Variable(_) => wishes.extend(wished(expr, if answer { Wish::True } else { Wish::False })),
        _ => {}
    }
}

/// A chain: a value that is read, or a method at its end.
fn method(expr: &Expr, answer: bool) -> Option<Wished> {
    if let Some(wished) = wished(expr, if answer { Wish::True } else { Wish::False }) {
        return Some(wished);
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

fn called(function: &str, arguments: Vec<&Expr>, answer: bool) -> Option<Wished> {
    let literal = || literal(arguments.get(1)?);
    let wish = match (function, answer) {
        ("contains", true) => Wish::Has(literal()?),
        ("contains", false) => Wish::Lacks(literal()?),
        ("starts_with" | "ends_with", true) => Wish::Is(literal()?),
        ("starts_with" | "ends_with", false) => Wish::IsNot(literal()?),
        ("is_empty", true) => Wish::Length(0),
        ("is_empty", false) => Wish::Length(1),
        ("any" | "all", true) => Wish::Is(vec![Value::Bool(true)].into()),
        ("any" | "all", false) => Wish::Is(vec![Value::Bool(false)].into()),
        ("bool", true) => Wish::True,
        ("bool", false) => Wish::False,
        _ => return None,
    };
    wished(arguments.first()?, wish)
}

fn compared(left: &Expr, comparison: Comparison, right: &Expr, answer: bool) -> Option<Wished> {
    if matches!(comparison, Comparison::In | Comparison::NotIn) {
        return contained(left, right, (comparison == Comparison::In) == answer);
    }
    let (value, comparison, other) = match (literal(right), literal(left)) {
        (Some(other), None) => (left, comparison, other),
        (None, Some(other)) => (right, mirrored(comparison), other),
        _ => return None,
    };
    if let Some(counted) = length_of(value) {
        let length = usize::try_from(fitting(comparison, &other, answer)?.as_u64()?).ok()?;
        return wished(&counted, Wish::Length(length));
    }
    let wish = match (comparison, answer) {
        (Comparison::Equal, true) | (Comparison::Different, false) => Wish::Is(other),
        (Comparison::Equal, false) | (Comparison::Different, true) => Wish::IsNot(other),
        _ => Wish::Is(fitting(comparison, &other, answer)?),
    };
    wished(value, wish)
}

fn contained(left: &Expr, right: &Expr, answer: bool) -> Option<Wished> {
    if let (Some(Value::Array(values)), Some(_)) = (literal(right), place(left)) {
        let first = values.first()?.clone();
        return wished(left, if answer { Wish::Is(first) } else { Wish::IsNot(first) });
    }
    let item = literal(left)?;
    let (of, mut path) = place(right)?;
    if let (true, Value::String(key)) = (path.is_empty() && of != Place::Input, &item) {
        // A key of the variable itself.
        path.push(key.clone());
        let wish = if answer { Wish::True } else { Wish::Missing };
        return Some(Wished { of, path, wish });
    }
    wished(right, if answer { Wish::Has(item) } else { Wish::Lacks(item) })
}

fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessEqual => Comparison::GreaterEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterEqual => Comparison::LessEqual,
        other => other,
    }
}

/// A number at the boundary for which the comparison has this answer.
fn fitting(comparison: Comparison, other: &Value, answer: bool) -> Option<Value> {
    let step = match (comparison, answer) {
        (Comparison::Less, true) | (Comparison::GreaterEqual, false) => -1,
        (Comparison::Greater, true) | (Comparison::LessEqual, false) => 1,
        (Comparison::Different, true) | (Comparison::Equal, false) => 1,
        _ => 0,
    };
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

fn wished(expr: &Expr, wish: Wish) -> Option<Wished> {
    let (of, path) = place(expr)?;
    Some(Wished { of, path, wish })
}

/// The variable and the keys, if the expression reads nothing but one value.
fn place(expr: &Expr) -> Option<(Place, Vec<String>)> {
    let (base, suffixes) = match &expr.kind {
        Kind::Variable(_) => (expr, &[][..]),
        Kind::Chain(base, suffixes) => (&**base, suffixes.as_slice()),
        Kind::Call(function, arguments) if is_around(function.names[0]) => return place(arguments.first()?),
        _ => return None,
    };
    let Kind::Variable(variable) = base.kind else {
        return None;
    };
    let of = match variable {
        Variable::Output => Place::Output,
        Variable::Outputs => Place::Outputs,
        Variable::Context => Place::Context,
        Variable::Input => Place::Input,
        Variable::Inputs => Place::Inputs,
        _ => return None,
    };
    let mut path = Vec::new();
    for suffix in suffixes {
        match &suffix.kind {
            SuffixKind::Member(key) => path.push(key.clone()),
            SuffixKind::Index(index) => path.push(text(index)?),
            SuffixKind::Method(function, arguments) if function.is("get") => path.push(text(arguments.first()?)?),
            SuffixKind::Method(function, _) if is_around(function.names[0]) => {}
            SuffixKind::Method(..) => return None,
        }
    }
    Some((of, path))
}

/// Functions that leave the values of examples as they are.
fn is_around(function: &str) -> bool {
    matches!(function, "lower" | "strip" | "str" | "int" | "float" | "round")
}

fn text(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Text(text) => Some(text.clone()),
        _ => None,
    }
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

    use super::{Wish, Wished};
    use crate::condition::Condition;

    fn told(text: &str, answer: bool) -> Vec<(String, Wish)> {
        let wishes = Condition::wishes(text, answer);
        let told = |Wished { of, path, wish }: Wished| (format!("{of:?}.{}", path.join(".")), wish);
        wishes.into_iter().map(told).collect()
    }

    #[test]
    fn a_wish_is_at_the_boundary_of_the_answer() {
        use Wish::{False, Has, Is, IsNot, Lacks, Length, Missing, True};
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
            assert_eq!(told(text, true), [(place.to_owned(), yes)], "{text}");
            assert_eq!(told(text, false), [(place.to_owned(), no)], "{text}");
        }
    }

    #[test]
    fn what_cannot_be_turned_round_gives_no_wish() {
        for text in [
            "output.a == output.b",
            "history[0].success",
            "output.a + 1 > 2",
            "output[0]",
            "turn_count > 1",
        ] {
            assert_eq!(told(text, true), [], "{text}");
        }
        assert_eq!(told("output.a and output.b", true).len(), 2);
        assert_eq!(told("output.a and output.b", false).len(), 1);
    }
}
