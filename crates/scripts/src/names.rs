//! The names that a script reads, from its text.
//!
//! The script is parsed and not run. A key that the script tests in any way counts as one that may be missing, and is not
//! listed.

use std::collections::{BTreeSet, HashMap, HashSet};

use rhai::{AST, ASTFlags, ASTNode, BinaryExpr, Expr, FnCallExpr, Position, Stmt};

use super::calls::{self, ScriptFunctionCall, to_script_name};
use ensemble_language::check::{ScriptText, ScriptVariableKeyRead};

/// Variables whose keys are collected.
const KEYED_VARIABLES: [&str; 4] = ["dependencies", "context", "inputs", "parameters"];
/// Prefix of the names that the engine gives to closures.
const CLOSURE_PREFIX: &str = "anon$";

/// Collects the names, keys, calls and requests in the text of the script.
pub(super) fn collect_script_names(name: String, text: String, ast: &AST) -> ScriptText {
    let functions: HashSet<&str> = ast.iter_functions().map(|function| function.name).collect();
    let mut main = ScriptNames {
        is_main: true,
        ..ScriptNames::default()
    };
    let mut path = Vec::new();
    for statement in ast.statements() {
        statement.walk(&mut path, &mut |path: &[ASTNode]| main.collect_from_node(path));
    }
    let is_closure = |name: &str| name.starts_with(CLOSURE_PREFIX);
    let (in_functions, mut in_closures) = (
        collect_names_in_functions(ast, &|name| !is_closure(name)),
        collect_names_in_functions(ast, &is_closure),
    );
    // A parameter that is not captured is another variable.
    let hidden = |variable: &str| {
        let has_it = |function: rhai::ScriptFnMetadata<'_>| function.params.contains(&variable);
        let mut closures = ast.iter_functions().filter(|function| is_closure(function.name));
        main.defined.contains(variable)
            || in_closures.defined.contains(variable)
            || (closures.any(has_it) && !main.captured.contains(variable))
    };
    let free = |names: &ScriptNames| {
        let names = names.free.iter().filter(|(name, _)| !functions.contains(name.as_str()));
        keep_first_positions(names.map(|(name, place)| (name.clone(), *place)))
    };
    main.keys.append(&mut in_closures.keys);
    main.tested.append(&mut in_closures.tested);
    main.tested_names.append(&mut in_closures.tested_names);
    let keys = main
        .keys
        .iter()
        .filter(|one| !hidden(&one.variable) && !main.is_tested_before_use(one));
    let keys: Vec<&ScriptKeyRead> = keys.collect();
    let may_be_missing = |variable: &str, key: &str| {
        let mut reads = keys.iter().filter(|one| one.variable == variable && one.key == key);
        reads.all(|one| one.may_be_missing)
    };
    let places = keys
        .iter()
        .map(|one| ((one.variable.clone(), one.key.clone()), one.place));
    let keys = keep_first_positions(places)
        .into_iter()
        .map(|((variable, key), place)| ScriptVariableKeyRead {
            may_be_missing: may_be_missing(&variable, &key),
            variable,
            key: to_script_name((key, place)),
        });
    let all = [&main, &in_functions, &in_closures];
    let calls = || all.iter().flat_map(|names| &names.calls);
    let mut own_functions: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for function in ast.iter_functions() {
        own_functions
            .entry(function.name)
            .or_default()
            .insert(function.params.len());
    }
    let requested = all.iter().flat_map(|names| names.requested.iter().cloned());
    ScriptText {
        free: free(&main).into_iter().map(to_script_name).collect(),
        free_in_functions: free(&in_functions).into_iter().map(to_script_name).collect(),
        keys: keys.collect(),
        unknown_functions: calls::find_unknown_functions(calls(), &functions, &text),
        miscalled: calls::find_argument_count_errors(calls(), &own_functions, &text)
            .into_iter()
            .map(|(name, place, arguments)| (to_script_name((name, place)), arguments))
            .collect(),
        requests: all
            .iter()
            .find_map(|names| names.requests)
            .map(|place| to_script_name(("agent_requests".to_owned(), place))),
        requested: keep_first_positions(requested)
            .into_iter()
            .map(to_script_name)
            .collect(),
        name,
        text,
    }
}

/// Collects the names in the bodies of the functions that `is_meant` selects.
fn collect_names_in_functions(ast: &AST, is_meant: &dyn Fn(&str) -> bool) -> ScriptNames {
    let mut bodies = ast.clone();
    bodies.clear_statements();
    bodies.retain_functions(|_, _, name, _| is_meant(name));
    let mut names = ScriptNames::default();
    bodies.walk(&mut |path: &[ASTNode]| names.collect_from_node(path));
    names
}

/// Keeps the first position of each key, in order.
fn keep_first_positions<K: PartialEq>(all: impl Iterator<Item = (K, Position)>) -> Vec<(K, Position)> {
    let mut first: Vec<(K, Position)> = Vec::new();
    for (key, place) in all {
        if !first.iter().any(|(known, _)| *known == key) {
            first.push((key, place));
        }
    }
    first
}

/// Read of a key of a variable.
struct ScriptKeyRead {
    variable: String,
    key: String,
    place: Position,
    /// The variable that holds its value afterwards.
    held_by: Option<String>,
    /// Whether the value is compared or passed on.
    may_be_missing: bool,
}

/// Names in one part of a script.
#[derive(Default)]
struct ScriptNames {
    free: Vec<(String, Position)>,
    keys: Vec<ScriptKeyRead>,
    /// The keys that are tested: variable and key.
    tested: BTreeSet<(String, String)>,
    /// The variables that are tested for nothing.
    tested_names: BTreeSet<String>,
    /// The variables that the script defines or changes.
    defined: HashSet<String>,
    captured: HashSet<String>,
    /// The functions that are called.
    calls: Vec<ScriptFunctionCall>,
    /// Whether this is the part outside of functions and closures.
    is_main: bool,
    /// The `return` and `throw` statements so far.
    exits: usize,
    /// The place of `agent_requests` in a map.
    requests: Option<Position>,
    /// The agents that are requested.
    requested: Vec<(String, Position)>,
}

impl ScriptNames {
    /// Returns whether the script tests the key, or tests the variable that stores its value.
    fn is_tested_before_use(&self, read: &ScriptKeyRead) -> bool {
        let is_held = read
            .held_by
            .as_ref()
            .is_some_and(|name| self.tested_names.contains(name));
        is_held || self.tested.contains(&(read.variable.clone(), read.key.clone()))
    }

    /// Collects the names of one node. Always returns true, so that the walk continues.
    fn collect_from_node(&mut self, path: &[ASTNode<'_>]) -> bool {
        match path.last() {
            Some(ASTNode::Expr(expr)) => self.collect_from_expression(expr, path),
            Some(ASTNode::Stmt(statement)) => self.collect_from_statement(statement, path),
            _ => {}
        }
        true
    }

    /// Collects the variables that a statement defines, and its calls and exits.
    fn collect_from_statement(&mut self, statement: &Stmt, path: &[ASTNode<'_>]) {
        match statement {
            Stmt::Return(..) => self.exits += 1,
            Stmt::Var(var, ..) => drop(self.defined.insert(var.0.name.to_string())),
            Stmt::For(parts, _) => {
                self.defined.insert(parts.0.name.to_string());
                self.defined.extend(parts.1.iter().map(|name| name.name.to_string()));
            }
            Stmt::TryCatch(flow, _) => self
                .defined
                .extend(as_variable(&flow.expr).map(|(name, _)| name.to_owned())),
            Stmt::Assignment(assignment) => self
                .defined
                .extend(find_chain_root(&assignment.1.lhs).map(str::to_owned)),
            Stmt::FnCall(call, place) => {
                self.collect_tests_and_captures(call);
                self.record_function_call(calls::parse_function_call(call, *place, false), path);
            }
            _ => {}
        }
    }

    /// Collects the variables, key reads, calls and requests of an expression.
    fn collect_from_expression(&mut self, expr: &Expr, path: &[ASTNode<'_>]) {
        match expr {
            Expr::Variable(parts, _, place) if parts.0.is_none() && parts.2.is_empty() => {
                self.free.push((parts.1.to_string(), *place));
            }
            Expr::Dot(both, flags, _) | Expr::Index(both, flags, _) => self.collect_key_read(expr, both, *flags, path),
            Expr::FnCall(call, place) => {
                self.collect_tests_and_captures(call);
                self.record_function_call(calls::parse_function_call(call, *place, false), path);
            }
            Expr::MethodCall(call, place) => {
                self.record_function_call(calls::parse_function_call(call, *place, true), path)
            }
            Expr::Map(entries, _) if !is_item_of_literal(path) => {
                for (key, value) in entries.0.iter().filter(|(key, _)| key.as_str() == "agent_requests") {
                    if let Some(targets) = calls::parse_request_targets(value) {
                        self.requests.get_or_insert(key.pos);
                        self.requested.extend(targets);
                    }
                }
            }
            Expr::Coalesce(operands, _) => operands.iter().for_each(|one| self.record_test(one)),
            _ => {}
        }
    }

    /// Records the call, and whether every execution reaches the call.
    fn record_function_call(&mut self, call: Option<ScriptFunctionCall>, path: &[ASTNode<'_>]) {
        let outer_exits = path
            .iter()
            .filter(|node| matches!(node, ASTNode::Stmt(Stmt::Return(..))));
        let is_certain = self.is_main && self.exits == outer_exits.count() && is_unconditional(path);
        self.calls.extend(call.map(|call| call.with_certainty(is_certain)));
    }

    /// Collects the tests of a call: comparisons with nothing, lookups of a key and checks of a type. Collects captures of closures.
    fn collect_tests_and_captures(&mut self, call: &FnCallExpr) {
        let args = &call.args;
        match call.name.as_str() {
            "==" | "!=" if args.iter().any(|one| matches!(one, Expr::Unit(_))) => {
                args.iter().for_each(|one| self.record_test(one));
            }
            "contains" => {
                if let [place, Expr::StringConstant(key, _)] = args.as_slice()
                    && let Some((name, _)) = as_variable(place)
                {
                    self.tested.insert((name.to_owned(), key.to_string()));
                }
            }
            "type_of" | "is_def_var" | "get" => args.iter().for_each(|one| self.record_test(one)),
            "curry" => self
                .captured
                .extend(args.iter().filter_map(|one| Some(as_variable(one)?.0.to_owned()))),
            _ => {}
        }
    }

    /// Collects a read of `variable.key…` or `variable["key"]…`.
    fn collect_key_read(&mut self, expr: &Expr, both: &BinaryExpr, flags: ASTFlags, path: &[ASTNode<'_>]) {
        let Some((name, _)) = as_variable(&both.lhs).filter(|(name, _)| KEYED_VARIABLES.contains(name)) else {
            return;
        };
        if let Expr::MethodCall(call, _) = first_chain_step(&both.rhs) {
            if let Some(Expr::StringConstant(key, _)) = call.args.first() {
                self.tested.insert((name.to_owned(), key.to_string()));
            }
            return;
        }
        let Some((key, place)) = as_constant_key(first_chain_step(&both.rhs)) else {
            return;
        };
        if has_optional_access(&both.rhs) || flags.contains(ASTFlags::NEGATED) || ends_with_type_of_call(&both.rhs) {
            self.tested.insert((name.to_owned(), key.to_owned()));
        }
        let held_by = match path.iter().rev().nth(1) {
            Some(ASTNode::Stmt(Stmt::Var(var, ..))) if std::ptr::eq(&raw const var.1, expr) => {
                Some(var.0.name.to_string())
            }
            _ => None,
        };
        self.keys.push(ScriptKeyRead {
            variable: name.to_owned(),
            key: key.to_owned(),
            place,
            held_by,
            may_be_missing: is_compared_or_passed_on(expr, path),
        });
    }

    /// Records the variable or the key as tested.
    fn record_test(&mut self, expr: &Expr) {
        match expr {
            Expr::Dot(both, ..) | Expr::Index(both, ..) => {
                if let (Some((name, _)), Some((key, _))) =
                    (as_variable(&both.lhs), as_constant_key(first_chain_step(&both.rhs)))
                {
                    self.tested.insert((name.to_owned(), key.to_owned()));
                }
            }
            other => self
                .tested_names
                .extend(as_variable(other).map(|(name, _)| name.to_owned())),
        }
    }
}

/// Returns whether no statement and no operator on the path can skip the last node.
fn is_unconditional(path: &[ASTNode<'_>]) -> bool {
    path.windows(2).all(|nodes| {
        let [outer, inner] = nodes else { return false };
        let is_inner = |expr: &Expr| matches!(inner, ASTNode::Expr(one) if std::ptr::eq(*one, expr));
        match outer {
            ASTNode::Stmt(Stmt::If(flow, _) | Stmt::While(flow, _)) => is_inner(&flow.expr),
            ASTNode::Stmt(Stmt::Switch(parts, _)) => is_inner(&parts.0),
            ASTNode::Stmt(Stmt::For(parts, _)) => is_inner(&parts.2.expr),
            ASTNode::Stmt(Stmt::Do(..) | Stmt::TryCatch(..)) => false,
            ASTNode::Expr(Expr::And(operands, _) | Expr::Or(operands, _) | Expr::Coalesce(operands, _)) => {
                operands.first().is_some_and(is_inner)
            }
            // `a?.b(c())` may stop before the call.
            ASTNode::Expr(Expr::Dot(both, flags, _) | Expr::Index(both, flags, _)) => {
                !flags.contains(ASTFlags::NEGATED) || is_inner(&both.lhs)
            }
            _ => true,
        }
    })
}

/// Returns whether the expression is an item of a literal list or map.
fn is_item_of_literal(path: &[ASTNode<'_>]) -> bool {
    let outer = path.iter().rev().nth(1);
    matches!(outer, Some(ASTNode::Expr(Expr::Map(..) | Expr::Array(..))))
}

/// Returns whether the expression is compared, stored, matched, or passed to a function.
fn is_compared_or_passed_on(expr: &Expr, path: &[ASTNode<'_>]) -> bool {
    let is_weak = |call: &FnCallExpr| call.op_token.is_none() || matches!(call.name.as_str(), "==" | "!=");
    match path.iter().rev().nth(1) {
        Some(ASTNode::Expr(Expr::FnCall(call, _) | Expr::MethodCall(call, _))) => is_weak(call),
        Some(ASTNode::Stmt(Stmt::FnCall(call, _))) => is_weak(call),
        Some(ASTNode::Stmt(Stmt::Switch(parts, _))) => std::ptr::eq(&raw const parts.0, expr),
        // What is done with the value afterwards is not looked at.
        Some(ASTNode::Stmt(Stmt::Var(..) | Stmt::Assignment(..))) => true,
        _ => false,
    }
}

/// Returns the variable with its position. Returns `None` for another expression.
fn as_variable(expr: &Expr) -> Option<(&str, Position)> {
    match expr {
        Expr::Variable(parts, _, place) => Some((&parts.1, *place)),
        _ => None,
    }
}

/// Returns the variable at the start of a chain of members.
fn find_chain_root(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Dot(both, ..) | Expr::Index(both, ..) => find_chain_root(&both.lhs),
        other => as_variable(other).map(|(name, _)| name),
    }
}

/// Returns the first step of the rest of a chain.
fn first_chain_step(rest: &Expr) -> &Expr {
    match rest {
        Expr::Dot(both, ..) | Expr::Index(both, ..) => &both.lhs,
        other => other,
    }
}

/// Returns whether the rest of the chain begins with an access that accepts a missing value (`?.` or `?[`).
fn has_optional_access(rest: &Expr) -> bool {
    matches!(rest, Expr::Dot(_, flags, _) | Expr::Index(_, flags, _) if flags.contains(ASTFlags::NEGATED))
}

/// Returns whether the rest of the chain has the form `.key.type_of()`.
fn ends_with_type_of_call(rest: &Expr) -> bool {
    matches!(rest, Expr::Dot(both, ..) if matches!(first_chain_step(&both.rhs), Expr::MethodCall(call, _) if call.name == "type_of"))
}

/// Returns a property or constant text as a key with its position. Returns `None` for another expression.
fn as_constant_key(expr: &Expr) -> Option<(&str, Position)> {
    match expr {
        Expr::Property(parts, place) => Some((&parts.2, *place)),
        Expr::StringConstant(text, place) => Some((text, *place)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ensemble_language::check::ScriptText;

    fn names(name: &str, text: &str) -> Option<Arc<ScriptText>> {
        crate::analyze_script(name, text).names
    }

    /// Free names, those in functions, and keys: `x 1:5`, `context.a 1:1`.
    fn read(text: &str) -> [Vec<String>; 3] {
        let found = names("a.rhai", text).unwrap_or_else(|| panic!("{text}"));
        let place = |(line, column): (usize, usize)| format!("{line}:{column}");
        let named = |names: &[ensemble_language::check::ScriptName]| {
            let named = names.iter();
            named.map(|one| format!("{} {}", one.name, place(one.place))).collect()
        };
        let keys = found.keys.iter();
        let keys = keys.map(|one| {
            let mark = if one.may_be_missing && one.variable == "parameters" {
                "?"
            } else {
                ""
            };
            format!("{}.{}{mark} {}", one.variable, one.key.name, place(one.key.place))
        });
        [named(&found.free), named(&found.free_in_functions), keys.collect()]
    }

    #[test]
    fn variables_that_the_script_does_not_define_are_free() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("input + inptu + inptu", &["input 1:1", "inptu 1:9"], &[]),
            ("let x = 1;\nx + y", &["y 2:5"], &[]),
            ("for (a, i) in [1] { a + i }", &[], &[]),
            ("try { 1 } catch (e) { e }", &[], &[]),
            ("if true { let x = 1; } x", &["x 1:24"], &[]),
            ("x = 1; x", &["x 1:1"], &[]),
            ("[1].map(|a| a + b)", &["b 1:17"], &[]),
            ("let b = 1; [1].map(|a| [2].map(|c| a + b + c))", &[], &[]),
            ("fn f(a) { a + input } f(1)", &[], &["input 1:15"]),
            ("fn f(a) { let b = a; [b].map(|c| b + c) } [1].map(f)", &[], &[]),
            ("const N = 1; fn f() { global::N } f()", &[], &[]),
            ("`${input} ${oops}`", &["input 1:4", "oops 1:13"], &[]),
            ("#{a: 1}.a; \"x\".len()", &[], &[]),
            ("switch input { 1 => a, _ => 2 }", &["input 1:8", "a 1:21"], &[]),
        ];
        for (text, free, in_functions) in rows {
            let [found, found_in_functions, _] = read(text);
            assert_eq!(found, *free, "{text}");
            assert_eq!(found_in_functions, *in_functions, "{text}");
        }
    }

    #[test]
    fn keys_that_are_read_without_a_test() {
        let rows: &[(&str, &[&str])] = &[
            (
                "dependencies.a.b + dependencies[\"c\"]",
                &["dependencies.a 1:14", "dependencies.c 1:33"],
            ),
            ("let x = context.a;\ninputs.b + x", &["context.a 1:17", "inputs.b 2:8"]),
            ("[1].filter(|n| n > context.a)", &["context.a 1:28"]),
            ("context.a.len()", &["context.a 1:9"]),
            ("dependencies[input]", &[]),
            ("parameters.a", &["parameters.a 1:12"]),
            ("parameters.a + 1", &["parameters.a 1:12"]),
            ("f(parameters.a)", &["parameters.a? 1:14"]),
            ("parameters.a == 1", &["parameters.a? 1:12"]),
            ("switch parameters.a { 1 => 2, _ => 3 }", &["parameters.a? 1:19"]),
            ("let a = parameters.a; a", &["parameters.a? 1:20"]),
            ("parameters.a == 1 || parameters.a", &["parameters.a 1:12"]),
            ("parameters.get(\"a\", 1)", &[]),
            ("parameters.a ?? 1", &[]),
            ("request.context.a", &[]),
            ("dependencies.keys()", &[]),
            ("dependencies.get(\"a\", 1); dependencies.a", &[]),
            ("if \"a\" in dependencies { dependencies.a.b }", &[]),
            ("if dependencies.contains(\"a\") { dependencies.a.b }", &[]),
            ("if dependencies.a != () { dependencies.a.b }", &[]),
            ("dependencies.a ?? 1", &[]),
            ("dependencies.a?.b", &[]),
            ("type_of(dependencies.a)", &[]),
            ("dependencies.a.type_of()", &[]),
            ("let a = dependencies.a; if a == () { 1 }", &[]),
            ("let dependencies = #{}; dependencies.a", &[]),
            ("dependencies.a = 1; dependencies.a", &[]),
            ("[#{}].map(|context| context.a)", &[]),
            ("for context in [#{}] { context.a }", &[]),
            ("fn f(context) { context.a } f(1)", &[]),
        ];
        for (text, keys) in rows {
            assert_eq!(read(text)[2], *keys, "{text}");
        }
        assert_eq!(names("a.rhai", "let = 1"), None);
    }
}
