//! The outputs of a script, from its text: the map literals with which it ends.
//!
//! The script is not run. If the last value is not a map literal or a choice between map literals, the outputs are
//! unknown.

use std::collections::{BTreeMap, BTreeSet};

use rhai::{AST, ASTNode, Array, Dynamic, Expr, Map, Stmt};

use ensemble_language::condition::{MapFields, NumberRange, ValueType};
use ensemble_language::data::RESPONSE_KEY;

/// Output that the text of a script shows: the types of its values by key.
pub type LiteralOutput = BTreeMap<String, ValueType>;

/// Returns the top-level keys of all outputs.
pub fn collect_output_keys(outputs: &[LiteralOutput]) -> BTreeSet<String> {
    outputs.iter().flat_map(BTreeMap::keys).cloned().collect()
}

/// Returns the type of an output that can be any of these outputs.
pub fn unify_output_types(outputs: &[LiteralOutput]) -> ValueType {
    let output_type = |output: &LiteralOutput| ValueType::map_with_fields(MapFields::with_exact_keys(output.clone()));
    outputs
        .iter()
        .map(output_type)
        .fold(ValueType::impossible_value(), ValueType::union_with)
}

/// Returns the keys whose value is `true` in every output that has the key, and that another output does not have.
pub fn list_latched_keys(outputs: &[LiteralOutput]) -> BTreeSet<String> {
    let written_true = ValueType::exact_value_type(&true.into());
    let is_latched = |key: &String| {
        let mut written_types = outputs.iter().filter_map(|output| output.get(key));
        written_types.all(|of| *of == written_true) && outputs.iter().any(|output| !output.contains_key(key))
    };
    collect_output_keys(outputs).into_iter().filter(is_latched).collect()
}

/// Infers the possible outputs from the end of the script. Returns `None` if they are unknown.
pub(super) fn infer_outputs(ast: &AST) -> Option<Vec<LiteralOutput>> {
    let mut outputs = Vec::new();
    let mut leaves_early = false;
    ast.walk(&mut |path: &[ASTNode]| {
        leaves_early |= matches!(path.last(), Some(ASTNode::Stmt(Stmt::Return(_, flags, _))) if flags.is_empty());
        !leaves_early
    });
    (!leaves_early && collect_outputs_of_statements(ast.statements(), &mut outputs)).then_some(outputs)
}

/// Adds the possible outputs of the last statement. Returns `false` if they are unknown.
fn collect_outputs_of_statements(statements: &[Stmt], outputs: &mut Vec<LiteralOutput>) -> bool {
    match statements
        .iter()
        .rev()
        .find(|statement| !matches!(statement, Stmt::Noop(_)))
    {
        Some(Stmt::Expr(expr)) => collect_outputs_of_expression(expr, outputs),
        Some(Stmt::If(flow, _)) => {
            collect_outputs_of_statements(flow.body.statements(), outputs)
                && collect_outputs_of_statements(flow.branch.statements(), outputs)
        }
        Some(Stmt::Block(block)) => collect_outputs_of_statements(block.statements(), outputs),
        // What is thrown is a failure, and no output.
        Some(Stmt::Return(_, flags, _)) => !flags.is_empty(),
        _ => false,
    }
}

/// Adds the possible outputs of the expression. Returns `false` if they are unknown.
fn collect_outputs_of_expression(expr: &Expr, outputs: &mut Vec<LiteralOutput>) -> bool {
    match expr {
        Expr::Map(entries, _) => {
            let entries = entries.0.iter();
            let entry = |(key, value): &(rhai::Ident, Expr)| (key.as_str().to_owned(), infer_type(value));
            outputs.push(entries.map(entry).collect());
            true
        }
        Expr::DynamicConstant(value, _) => {
            outputs.push(output_from_constant(value));
            true
        }
        Expr::Stmt(block) => collect_outputs_of_statements(block.statements(), outputs),
        Expr::StringConstant(..)
        | Expr::InterpolatedString(..)
        | Expr::IntegerConstant(..)
        | Expr::FloatConstant(..)
        | Expr::BoolConstant(..)
        | Expr::Array(..) => {
            // How a text becomes an output is not decided here.
            let of = match expr {
                Expr::StringConstant(..) | Expr::InterpolatedString(..) => ValueType::any_value(),
                _ => infer_type(expr),
            };
            outputs.push(output_with_response(of));
            true
        }
        _ => false,
    }
}

/// Returns an output with a value of this type under `response`.
fn output_with_response(of: ValueType) -> LiteralOutput {
    LiteralOutput::from([(RESPONSE_KEY.to_owned(), of)])
}

/// Infers the type of an expression from its text.
fn infer_type(expr: &Expr) -> ValueType {
    match expr {
        Expr::BoolConstant(value, _) => ValueType::exact_value_type(&(*value).into()),
        Expr::IntegerConstant(value, _) => ValueType::exact_value_type(&(*value).into()),
        Expr::FloatConstant(value, _) => ValueType::number_in_range(NumberRange::from_bounds(**value, **value)),
        Expr::StringConstant(text, _) => ValueType::text_among([text.as_str()]),
        Expr::InterpolatedString(..) => ValueType::any_text(),
        Expr::Unit(_) => ValueType::nothing_value(),
        Expr::Array(items, _) => ValueType::list_with_items(
            items
                .iter()
                .map(infer_type)
                .fold(ValueType::impossible_value(), ValueType::union_with),
        ),
        Expr::Map(entries, _) => {
            let entry = |(key, value): &(rhai::Ident, Expr)| (key.as_str().to_owned(), infer_type(value));
            ValueType::map_with_fields(MapFields::with_exact_keys(entries.0.iter().map(entry)))
        }
        Expr::DynamicConstant(value, _) => type_of_constant(value),
        Expr::And(..) | Expr::Or(..) => ValueType::any_boolean(),
        _ => ValueType::any_value(),
    }
}

/// Returns the type of a constant value.
fn type_of_constant(value: &Dynamic) -> ValueType {
    if let Some(map) = value.read_lock::<Map>() {
        let entry = |(key, value): (_, &Dynamic)| (ToString::to_string(key), type_of_constant(value));
        return ValueType::map_with_fields(MapFields::with_exact_keys(map.iter().map(entry)));
    }
    if let Some(items) = value.read_lock::<Array>() {
        return ValueType::list_with_items(
            items
                .iter()
                .map(type_of_constant)
                .fold(ValueType::impossible_value(), ValueType::union_with),
        );
    }
    if value.is_unit() {
        return ValueType::nothing_value();
    }
    if let Ok(value) = value.as_bool() {
        return ValueType::exact_value_type(&value.into());
    }
    if let Ok(value) = value.as_int() {
        return ValueType::exact_value_type(&value.into());
    }
    if let Ok(value) = value.as_float() {
        return ValueType::number_in_range(NumberRange::from_bounds(value, value));
    }
    match value.as_immutable_string_ref() {
        Ok(text) => ValueType::text_among([text.as_str()]),
        Err(_) => ValueType::any_value(),
    }
}

/// Returns the output for a constant value: the keys of a map, or the value under `response`.
fn output_from_constant(value: &Dynamic) -> LiteralOutput {
    match value.read_lock::<Map>() {
        Some(map) => {
            let entry = |(key, value): (_, &Dynamic)| (ToString::to_string(key), type_of_constant(value));
            map.iter().map(entry).collect()
        }
        None => output_with_response(type_of_constant(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::{LiteralOutput, collect_output_keys, list_latched_keys, unify_output_types};

    fn written_outputs(text: &str) -> Option<Vec<LiteralOutput>> {
        crate::analyze_script("a.rhai", text).outputs
    }

    #[test]
    fn keys_are_known_only_where_the_text_tells_them() {
        let known: &[(&str, &[&str])] = &[
            ("#{a: 1, b: execution}", &["a", "b"]),
            ("let x = 1; #{ \"a b\": x }", &["a b"]),
            (
                "if execution > 1 { #{a: 1} } else if execution > 0 { throw \"no\"; } else { #{b: 1} }",
                &["a", "b"],
            ),
            ("#{a: #{inner: 1}}", &["a"]),
            ("fn f(x) { x + 1 } #{a: f(1)}", &["a"]),
            ("{ let y = 2; #{y: y} }", &["y"]),
            ("`text ${input}`", &["response"]),
            ("7", &["response"]),
        ];
        for (text, expected) in known {
            let keys = collect_output_keys(&written_outputs(text).unwrap_or_else(|| panic!("{text}")));
            assert_eq!(keys.iter().map(String::as_str).collect::<Vec<_>>(), *expected, "{text}");
        }
        for text in [
            "let m = #{a: 1}; m.b = 2; m",
            "dependencies.a",
            "#{a: 1} + #{b: 2}",
            "if x { return #{b: 1}; } #{a: 1}",
            "if execution > 1 { #{a: 1} }",
            "parse_json(input)",
            "let f = || 1; f.call()",
            "switch x { 1 => #{a: 1}, _ => #{b: 1} }",
            "#{a: ",
            "",
        ] {
            assert_eq!(written_outputs(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_is_latched_if_nothing_takes_it_back() {
        let rows: &[(&str, &[&str])] = &[
            ("if execution < 2 { #{more: true} } else { #{text: input} }", &["more"]),
            ("if execution < 2 { #{more: true, n: 1} } else { \"done\" }", &["more"]),
            ("if execution < 2 { #{more: true} } else { #{more: false} }", &[]),
            (
                "if execution < 2 { #{more: true} } else { #{more: execution < 3} }",
                &[],
            ),
            ("if execution < 2 { #{more: true} } else { throw \"no\"; }", &[]),
            ("#{more: true}", &[]),
            (
                "if execution < 2 { #{more: true} } else if execution < 3 { #{more: false} } else { #{} }",
                &[],
            ),
            ("if execution < 2 { #{more: 1} } else { #{} }", &[]),
        ];
        for (text, expected) in rows {
            let keys = list_latched_keys(&written_outputs(text).unwrap_or_else(|| panic!("{text}")));
            assert_eq!(keys.iter().map(String::as_str).collect::<Vec<_>>(), *expected, "{text}");
        }
    }

    #[test]
    fn what_an_output_can_be_is_known_from_its_literals() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            (
                "#{a: 1}",
                &[r#"{"a":1}"#],
                &[r#"{"a":2}"#, r#"{"a":"1"}"#, "{}", r#"{"a":1,"b":1}"#],
            ),
            ("#{a: 1.5, b: -2}", &[r#"{"a":1.5,"b":-2}"#], &[r#"{"a":1,"b":-2}"#]),
            ("#{a: \"x\"}", &[r#"{"a":"x"}"#], &[r#"{"a":"y"}"#]),
            (
                "#{a: `x${input}`}",
                &[r#"{"a":"x"}"#, r#"{"a":"other"}"#],
                &[r#"{"a":1}"#],
            ),
            ("#{a: ()}", &[r#"{"a":null}"#], &[r#"{"a":""}"#]),
            (
                "#{a: execution > 1 && input == \"\"}",
                &[r#"{"a":true}"#, r#"{"a":false}"#],
                &[r#"{"a":1}"#],
            ),
            (
                "#{a: [1, \"x\"]}",
                &[r#"{"a":[]}"#, r#"{"a":["x",1]}"#],
                &[r#"{"a":[2]}"#, r#"{"a":1}"#],
            ),
            (
                "#{a: #{b: true}}",
                &[r#"{"a":{"b":true}}"#],
                &[r#"{"a":{"b":false}}"#, r#"{"a":{}}"#],
            ),
            ("#{a: input}", &[r#"{"a":1}"#, r#"{"a":[{}]}"#], &["{}"]),
            (
                "if execution > 1 { #{a: 1} } else { #{a: \"x\", b: 2} }",
                &[r#"{"a":1}"#, r#"{"a":"x","b":2}"#],
                &[r#"{"a":2}"#, r#"{"a":true}"#, r#"{"a":1,"c":1}"#],
            ),
            ("7", &[r#"{"response":7}"#], &[r#"{"response":8}"#]),
            ("\"7\"", &[r#"{"response":7}"#, r#"{"response":"7"}"#], &["{}"]),
        ];
        for (text, can_be, cannot_be) in rows {
            let of = unify_output_types(&written_outputs(text).unwrap_or_else(|| panic!("{text}")));
            let admits = |json: &str| of.contains_value(&serde_json::from_str(json).expect("JSON"));
            can_be
                .iter()
                .for_each(|json| assert!(admits(json), "{text} can be {json}"));
            cannot_be
                .iter()
                .for_each(|json| assert!(!admits(json), "{text} cannot be {json}"));
        }
    }
}
