//! The output keys of a script, from its text: the keys of the map literals with which it ends.
//!
//! The script is not run. If the last value is not a map literal or a choice between map literals, the keys are
//! unknown.

use std::collections::BTreeSet;

use rhai::{AST, ASTNode, Dynamic, Expr, Map, Stmt};

use super::{engine, workers};

/// The key under which an output that is no map is stored.
const RESPONSE: &str = "response";

/// The possible top-level keys of the output of the script; `None` if they are unknown.
pub fn output_keys(text: &str) -> Option<BTreeSet<String>> {
    let text = text.to_owned();
    let known = workers::wait(move || {
        let mut engine = engine::engine(|| false);
        // Simplified code would have lost what the author wrote.
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        let ast = engine.compile(text).ok()?;
        keys(&ast)
    });
    known.flatten()
}

fn keys(ast: &AST) -> Option<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    let mut leaves_early = false;
    ast.walk(&mut |path: &[ASTNode]| {
        leaves_early |= matches!(path.last(), Some(ASTNode::Stmt(Stmt::Return(_, flags, _))) if flags.is_empty());
        !leaves_early
    });
    (!leaves_early && ends_with(ast.statements(), &mut keys)).then_some(keys)
}

/// Adds the keys of the value of these statements; `false` where it is not known.
fn ends_with(statements: &[Stmt], keys: &mut BTreeSet<String>) -> bool {
    match statements
        .iter()
        .rev()
        .find(|statement| !matches!(statement, Stmt::Noop(_)))
    {
        Some(Stmt::Expr(expr)) => is_literal(expr, keys),
        Some(Stmt::If(flow, _)) => ends_with(flow.body.statements(), keys) && ends_with(flow.branch.statements(), keys),
        Some(Stmt::Block(block)) => ends_with(block.statements(), keys),
        // What is thrown is a failure, and no output.
        Some(Stmt::Return(_, flags, _)) => !flags.is_empty(),
        _ => false,
    }
}

fn is_literal(expr: &Expr, keys: &mut BTreeSet<String>) -> bool {
    match expr {
        Expr::Map(entries, _) => {
            keys.extend(entries.0.iter().map(|(key, _)| key.as_str().to_owned()));
            true
        }
        Expr::DynamicConstant(value, _) => of_constant(value, keys),
        Expr::Stmt(block) => ends_with(block.statements(), keys),
        Expr::StringConstant(..)
        | Expr::InterpolatedString(..)
        | Expr::IntegerConstant(..)
        | Expr::FloatConstant(..)
        | Expr::BoolConstant(..)
        | Expr::Array(..) => {
            keys.insert(RESPONSE.to_owned());
            true
        }
        _ => false,
    }
}

fn of_constant(value: &Dynamic, keys: &mut BTreeSet<String>) -> bool {
    match value.read_lock::<Map>() {
        Some(map) => keys.extend(map.keys().map(|key| key.as_str().to_owned())),
        None => {
            keys.insert(RESPONSE.to_owned());
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::output_keys;

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
            let keys = output_keys(text).unwrap_or_else(|| panic!("{text}"));
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
            assert_eq!(output_keys(text), None, "{text}");
        }
    }
}
