//! The functions that a script calls, and the agents that it requests by name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use rhai::{Expr, FnCallExpr, Position};

use super::engine;
use ensemble_language::check::{ScriptCallMismatch, ScriptName, UnknownFunction};
use ensemble_language::diagnostic::find_similar_word;

/// Functions of the Rhai language itself.
const LANGUAGE_FUNCTIONS: [&str; 10] = [
    "Fn",
    "call",
    "curry",
    "is_shared",
    "print",
    "debug",
    "type_of",
    "is_def_var",
    "is_def_fn",
    "eval",
];
/// Largest number of reported functions.
const MAX_REPORTED_FUNCTIONS: usize = 20;

/// Functions of the engine with their numbers of parameters. Functions of the language itself have no numbers.
static ENGINE_FUNCTIONS: LazyLock<HashMap<String, BTreeSet<usize>>> = LazyLock::new(|| {
    let engine = engine::build_unlimited_engine();
    let parameters = |info: rhai::FuncInfo<'_>| Some((info.metadata.name.to_string(), info.metadata.num_params));
    let mut functions: HashMap<String, BTreeSet<usize>> = HashMap::new();
    for (name, count) in engine.collect_fn_metadata(None, parameters, true) {
        functions.entry(name).or_default().insert(count);
    }
    functions.extend(LANGUAGE_FUNCTIONS.map(|name| (name.to_owned(), BTreeSet::new())));
    functions
});

/// Call of a named function in a script.
#[derive(Debug, Clone)]
pub(super) struct ScriptFunctionCall {
    name: String,
    place: Position,
    /// The number of arguments in the parentheses.
    arguments: usize,
    /// `value.name(…)`.
    is_method: bool,
    /// Every execution of the script reaches it.
    is_certain: bool,
}

/// Returns the call of a named function. Returns `None` for an operator or a function of a module.
pub(super) fn parse_function_call(call: &FnCallExpr, place: Position, is_method: bool) -> Option<ScriptFunctionCall> {
    let is_name = call.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !call.name.contains('$');
    let is_plain = call.op_token.is_none() && call.namespace.is_empty();
    (is_name && is_plain).then(|| ScriptFunctionCall {
        name: call.name.to_string(),
        place,
        arguments: call.args.len(),
        is_method,
        is_certain: false,
    })
}

impl ScriptFunctionCall {
    /// Sets whether every execution of the script reaches the call.
    pub(super) fn with_certainty(self, is_certain: bool) -> Self {
        Self { is_certain, ..self }
    }
}

/// Returns the calls with a number of arguments that no function of the name accepts, with positions and explanations.
pub(super) fn find_argument_count_errors<'c>(
    called: impl Iterator<Item = &'c ScriptFunctionCall>,
    own: &HashMap<&str, BTreeSet<usize>>,
    text: &str,
) -> Vec<(String, Position, ScriptCallMismatch)> {
    let mut wrong_calls = Vec::new();
    for call in called {
        let empty = BTreeSet::new();
        let (native, scripted) = (ENGINE_FUNCTIONS.get(&call.name), own.get(call.name.as_str()));
        // Those of the language itself take what they are given.
        let is_unknown = native.is_none() && scripted.is_none();
        if is_unknown || native.is_some_and(BTreeSet::is_empty) || wrong_calls.len() >= MAX_REPORTED_FUNCTIONS {
            continue;
        }
        // The value before the dot is the first parameter of the engine's functions, and `this` in the script's own.
        let before_the_dot = usize::from(call.is_method);
        let native = native.unwrap_or(&empty).iter().copied();
        let native = native.filter_map(|count| count.checked_sub(before_the_dot));
        let takes: BTreeSet<usize> = native.chain(scripted.unwrap_or(&empty).iter().copied()).collect();
        if takes.contains(&call.arguments) || !occurs_only_as_call(&call.name, text) {
            continue;
        }
        let arguments = ScriptCallMismatch {
            given: call.arguments,
            takes: takes.into_iter().collect(),
            is_method: call.is_method,
            is_certain: call.is_certain,
        };
        wrong_calls.push((call.name.clone(), call.place, arguments));
    }
    wrong_calls
}

/// Returns the called functions that neither the engine nor the script has, each with its first position and a similar name.
/// Omits words that occur without a call, because a variable or a map can contain the function.
pub(super) fn find_unknown_functions<'c>(
    called: impl Iterator<Item = &'c ScriptFunctionCall>,
    own: &HashSet<&str>,
    text: &str,
) -> Vec<UnknownFunction> {
    let mut unknown_functions: Vec<UnknownFunction> = Vec::new();
    for call in called {
        let name = &call.name;
        let is_known = own.contains(name.as_str()) || ENGINE_FUNCTIONS.contains_key(name);
        if let Some(known) = unknown_functions.iter_mut().find(|other| other.name.name == *name) {
            known.is_certain |= call.is_certain;
            continue;
        }
        if is_known || unknown_functions.len() >= MAX_REPORTED_FUNCTIONS || !occurs_only_as_call(name, text) {
            continue;
        }
        let sorted = |names: &mut dyn Iterator<Item = &'_ str>| {
            let is_word = |one: &str| one.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let mut names: Vec<String> = names.filter(|one| is_word(one)).map(str::to_owned).collect();
            names.sort_unstable();
            names
        };
        // Of names that are equally similar, one of the script's own is meant.
        let mut names = sorted(&mut own.iter().copied());
        names.extend(sorted(&mut ENGINE_FUNCTIONS.keys().map(String::as_str)));
        let similar_name = find_similar_word(name, names.iter().map(String::as_str)).map(str::to_owned);
        unknown_functions.push(UnknownFunction {
            name: to_script_name((name.clone(), call.place)),
            similar: similar_name,
            is_certain: call.is_certain,
        });
    }
    unknown_functions
}

/// Returns whether a parenthesis follows the word at every occurrence in the text.
fn occurs_only_as_call(word: &str, text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let occurrences = text.match_indices(word).filter(|(at, _)| {
        let after = &text[at + word.len()..];
        !text[..*at].ends_with(is_word) && !after.starts_with(is_word)
    });
    let mut occurrences = occurrences.map(|(at, _)| text[at + word.len()..].trim_start());
    occurrences.all(|after| after.starts_with('('))
}

/// Returns the target agents in a literal list of requests. Returns `None` for another expression or an empty list.
pub(super) fn parse_request_targets(value: &Expr) -> Option<Vec<(String, Position)>> {
    let Expr::Array(requests, _) = value else {
        return None;
    };
    let target = |request: &Expr| {
        let Expr::Map(entries, _) = request else { return None };
        let of = |name: &str| entries.0.iter().find(|(key, _)| key.as_str() == name);
        match of("target_agent").or_else(|| of("target_agent_type")) {
            Some((_, Expr::StringConstant(text, place))) => Some((text.to_string(), *place)),
            _ => None,
        }
    };
    (!requests.is_empty()).then(|| requests.iter().filter_map(target).collect())
}

/// Converts a name and its position to the form for reports.
pub(super) fn to_script_name((name, place): (String, Position)) -> ScriptName {
    ScriptName {
        name,
        place: (place.line().unwrap_or(0), place.position().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use crate::analyze_script;

    /// `lenn 1:9 len`.
    fn unknown(text: &str) -> Vec<String> {
        let names = analyze_script("a.rhai", text).names.unwrap_or_else(|| panic!("{text}"));
        let unknown = names.unknown_functions.iter();
        let shown = unknown.map(|one| {
            let (line, column) = one.name.place;
            format!(
                "{} {line}:{column} {}",
                one.name.name,
                one.similar.as_deref().unwrap_or("-")
            )
        });
        shown.collect()
    }

    #[test]
    fn calls_that_every_execution_reaches() {
        let is_certain = |text: &str| {
            let names = analyze_script("a.rhai", text).names.unwrap_or_else(|| panic!("{text}"));
            let unknown = names.unknown_functions.iter().map(|one| one.is_certain);
            let all: Vec<bool> = unknown
                .chain(names.miscalled.iter().map(|(_, one)| one.is_certain))
                .collect();
            assert_eq!(all.len(), 1, "{text}");
            all[0]
        };
        for text in [
            "oops(input)",
            "let x = [1]; x.join(\",\")",
            "#{text: `a ${oops(1)}`}",
            "let x = 1; x = [oops(1)]; x",
            "return oops(1)",
            "if oops(1) { 1 } else { 2 }",
            "for x in oops(1) { }",
            "oops(1) && input",
            "if input == \"\" { 1 } oops(1)",
            "if input == \"\" { oops(1) } oops(1)",
            "let f = |x| x; oops(1)",
            "to_upper()",
            "switch oops(1) { 1 => 2, _ => 3 }",
        ] {
            assert!(is_certain(text), "{text}");
        }
        for text in [
            "if input == \"\" { oops(1) }",
            "if input == \"\" { return 1; } oops(1)",
            "if input == \"\" { throw 1; } oops(1)",
            "for x in [1] { oops(x) }",
            "while input == \"\" { oops(1); }",
            "input == \"\" && oops(1)",
            "input == \"\" || oops(1)",
            "input ?? oops(1)",
            "try { oops(1) } catch { 1 }",
            "fn f() { oops(1) } f()",
            "[1].map(|x| oops(x))",
            "switch input { 1 => oops(1), _ => 3 }",
        ] {
            assert!(!is_certain(text), "{text}");
        }
    }

    #[test]
    fn functions_that_nobody_defines() {
        let rows: &[(&str, &[&str])] = &[
            ("shuot(input)", &["shuot 1:1 -"]),
            ("input.to_uper()", &["to_uper 1:7 to_upper"]),
            ("fn greet(x) { x } gret(1)", &["gret 1:19 greet"]),
            ("fn f() { oops_one() } f()", &["oops_one 1:10 -"]),
            ("[1].map(|x| oops_two(x))", &["oops_two 1:13 -"]),
            ("let x = oops_one();\nx + oops_one()", &["oops_one 1:9 -"]),
            ("import_it(); 1", &["import_it 1:1 -"]),
        ];
        for (text, expected) in rows {
            assert_eq!(unknown(text), *expected, "{text}");
        }
        for text in [
            "fn greet(x) { x } greet(1)",
            "let f = |x| x + 1; f.call(1)",
            "let m = #{shout: |x| x}; m.shout(1)",
            "let m = #{}; m.shout = |x| x; m.shout(1)",
            "let f = Fn(\"len\"); f.call(input)",
            "print(1); debug(1); type_of(1); is_def_var(\"x\"); is_def_fn(\"f\", 1); 1",
            "input.len() + input.to_upper().len() + [1].reduce(|a, b| a + b, 0)",
            "parse_json(input).get(\"a\", to_json(#{}))",
            "context.keys().len() + context.get(\"a\", 1) + max(1, 2) + abs(-1)",
            "let x = [3, 1]; x.sort(); x.push(2); x.pop(); x.extract(0); x.filter(|v| v > 1)",
            "\"a b\".split().map(|w| w.trim()); \"a\".contains(\"b\"); parse_int(\"1\"); range(0, 1); \"x\".index_of(\"y\")",
            "1.0.sqrt() + 2.0.floor() + PI(); #{a: 1}.keys(); #{a: 1}.values(); #{a: 1}.mixin(#{}); 5.to_string(); 5.to_float()",
        ] {
            assert_eq!(unknown(text), [""; 0], "{text}");
            assert_eq!(miscalled(text), [""; 0], "{text}");
        }
    }

    /// `len 1:7 2 of 0`.
    fn miscalled(text: &str) -> Vec<String> {
        let names = analyze_script("a.rhai", text).names.unwrap_or_else(|| panic!("{text}"));
        let shown = names.miscalled.iter().map(|(name, arguments)| {
            let (line, column) = name.place;
            let takes: Vec<String> = arguments.takes.iter().map(usize::to_string).collect();
            let takes = takes.join("|");
            format!("{} {line}:{column} {} of {takes}", name.name, arguments.given)
        });
        shown.collect()
    }

    #[test]
    fn calls_with_a_number_of_arguments_that_no_function_takes() {
        let rows: &[(&str, &[&str])] = &[
            ("input.to_upper(1)", &["to_upper 1:7 1 of 0"]),
            ("to_upper()", &["to_upper 1:1 0 of 1"]),
            ("fn greet(x) { x } greet()", &["greet 1:19 0 of 1"]),
            (
                "fn greet(x) { x } fn greet(x, y) { x + y } greet(1, 2, 3)",
                &["greet 1:44 3 of 1|2"],
            ),
            ("fn add(x) { this + x } let a = 1; a.add(1, 2)", &["add 1:37 2 of 1"]),
            ("[1].map(|x| parse_json(x, 1, 2))", &["parse_json 1:13 3 of 1"]),
            ("fn f(a) { parse_json() } f(1)", &["parse_json 1:11 0 of 1"]),
        ];
        for (text, expected) in rows {
            assert_eq!(miscalled(text), *expected, "{text}");
        }
        for text in [
            "let f = |x| x + 1; f.call(1, 2)",
            "fn f(a) { a } f.call(1)",
            "let len = |x| x; len.call(1)",
            "#{len: |x, y| x}.len(1, 2)",
            "fn add(x) { this + x } let a = 1; a.add(1)",
            "fn len(a, b, c) { a } len(1, 2, 3) + [1].len()",
            "nobody(1, 2)",
            "print(1); type_of(1); curry(|x| x, 1)",
        ] {
            assert_eq!(miscalled(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn agents_that_are_requested_by_name() {
        let rows: &[(&str, bool, &[&str])] = &[
            (
                "#{agent_requests: [#{target_agent: \"a\"}, #{target_agent_type: \"b\", priority: 1}]}",
                true,
                &["a", "b"],
            ),
            ("let m = #{agent_requests: [#{target_agent: \"a\"}]}; m", true, &["a"]),
            (
                "if true { #{agent_requests: [#{target_agent: \"a\"}]} } else { #{} }",
                true,
                &["a"],
            ),
            (
                "fn f() { #{agent_requests: [#{target_agent: \"a\"}]} } f()",
                true,
                &["a"],
            ),
            ("#{agent_requests: [#{target_agent: input}]}", true, &[]),
            ("#{agent_requests: []}", false, &[]),
            ("#{agent_requests: input}", false, &[]),
            ("#{plan: #{agent_requests: [#{target_agent: \"a\"}]}}", false, &[]),
            ("#{other: [#{target_agent: \"a\"}]}", false, &[]),
        ];
        for (text, requests, targets) in rows {
            let names = analyze_script("a.rhai", text).names.expect("a script");
            let found: Vec<&str> = names.requested.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(
                (names.requests.is_some(), found.as_slice()),
                (*requests, *targets),
                "{text}"
            );
        }
    }
}
