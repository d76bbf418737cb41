//! The outputs of a script, from its text: the map literals with which it ends.
//!
//! The script is not run. If the last value is not a map literal or a choice between map literals, the outputs are
//! unknown.

use std::collections::{BTreeMap, BTreeSet};

use rhai::{AST, ASTNode, Dynamic, Expr, Map, Stmt};

use super::{engine, workers};

/// The key under which an output that is no map is stored.
const RESPONSE: &str = "response";

/// A possible output: its keys, and whether the value of each is written as `true`.
pub type WrittenOutput = BTreeMap<String, bool>;

/// The possible outputs of the script; `None` if they are unknown.
pub fn written_outputs(text: &str) -> Option<Vec<WrittenOutput>> {
    let text = text.to_owned();
    let known = workers::wait(move || {
        let mut engine = engine::engine(|| false);
        // Simplified code would have lost what the author wrote.
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        let ast = engine.compile(text).ok()?;
        outputs(&ast)
    });
    known.flatten()
}

/// The top-level keys of these outputs.
pub fn keys_of(outputs: &[WrittenOutput]) -> BTreeSet<String> {
    outputs.iter().flat_map(BTreeMap::keys).cloned().collect()
}

/// The keys that are written only as `true`, and that other outputs do not have.
pub fn latched_keys(outputs: &[WrittenOutput]) -> BTreeSet<String> {
    let is_latched = |key: &String| {
        let mut written = outputs.iter().filter_map(|output| output.get(key));
        written.all(|is_true| *is_true) && outputs.iter().any(|output| !output.contains_key(key))
    };
    keys_of(outputs).into_iter().filter(is_latched).collect()
}

fn outputs(ast: &AST) -> Option<Vec<WrittenOutput>> {
    let mut outputs = Vec::new();
    let mut leaves_early = false;
    ast.walk(&mut |path: &[ASTNode]| {
        leaves_early |= matches!(path.last(), Some(ASTNode::Stmt(Stmt::Return(_, flags, _))) if flags.is_empty());
        !leaves_early
    });
    (!leaves_early && ends_with(ast.statements(), &mut outputs)).then_some(outputs)
}

/// Adds the possible values of these statements; `false` where they are not known.
fn ends_with(statements: &[Stmt], outputs: &mut Vec<WrittenOutput>) -> bool {
    match statements
        .iter()
        .rev()
        .find(|statement| !matches!(statement, Stmt::Noop(_)))
    {
        Some(Stmt::Expr(expr)) => is_literal(expr, outputs),
        Some(Stmt::If(flow, _)) => {
            ends_with(flow.body.statements(), outputs) && ends_with(flow.branch.statements(), outputs)
        }
        Some(Stmt::Block(block)) => ends_with(block.statements(), outputs),
        // What is thrown is a failure, and no output.
        Some(Stmt::Return(_, flags, _)) => !flags.is_empty(),
        _ => false,
    }
}

fn is_literal(expr: &Expr, outputs: &mut Vec<WrittenOutput>) -> bool {
    match expr {
        Expr::Map(entries, _) => {
            let entries = entries.0.iter();
            let entry = |(key, value): &(rhai::Ident, Expr)| {
                (key.as_str().to_owned(), matches!(value, Expr::BoolConstant(true, _)))
            };
            outputs.push(entries.map(entry).collect());
            true
        }
        Expr::DynamicConstant(value, _) => {
            outputs.push(of_constant(value));
            true
        }
        Expr::Stmt(block) => ends_with(block.statements(), outputs),
        Expr::StringConstant(..)
        | Expr::InterpolatedString(..)
        | Expr::IntegerConstant(..)
        | Expr::FloatConstant(..)
        | Expr::BoolConstant(..)
        | Expr::Array(..) => {
            outputs.push(response());
            true
        }
        _ => false,
    }
}

fn response() -> WrittenOutput {
    WrittenOutput::from([(RESPONSE.to_owned(), false)])
}

fn of_constant(value: &Dynamic) -> WrittenOutput {
    match value.read_lock::<Map>() {
        Some(map) => {
            let entry = |(key, value): (_, &Dynamic)| (ToString::to_string(key), value.as_bool() == Ok(true));
            map.iter().map(entry).collect()
        }
        None => response(),
    }
}

#[cfg(test)]
mod tests {
    use super::{keys_of, latched_keys, written_outputs};

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
            let keys = keys_of(&written_outputs(text).unwrap_or_else(|| panic!("{text}")));
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
            let keys = latched_keys(&written_outputs(text).unwrap_or_else(|| panic!("{text}")));
            assert_eq!(keys.iter().map(String::as_str).collect::<Vec<_>>(), *expected, "{text}");
        }
    }
}
