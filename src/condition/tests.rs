//! What conditions mean, row by row.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::json;

use super::*;

struct Turns {
    entries: Vec<Value>,
    asked: AtomicUsize,
}

impl History for Turns {
    fn len(&self) -> usize {
        self.entries.len()
    }
    fn field(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.fields()
            .contains(&name)
            .then(|| Arc::new(self.entries[at].get(name).cloned().unwrap_or_default()))
    }
    fn fields(&self) -> &'static [&'static str] {
        &["turn_number", "agent_name", "output_data", "success", "error"]
    }
}

struct Agents(Vec<(&'static str, u64)>);

impl Counts for Agents {
    fn count(&self, agent: &str) -> Option<u64> {
        self.0.iter().find(|(name, _)| *name == agent).map(|(_, count)| *count)
    }
    fn names(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|(name, _)| (*name).into()).collect()
    }
}

fn turns(entries: Vec<Value>) -> Arc<Turns> {
    Arc::new(Turns {
        entries,
        asked: AtomicUsize::new(0),
    })
}

fn facts() -> Facts {
    let context = json!({
        "needs_clarification": true, "score": 0.75, "count": 3, "name": "Ada", "none": null, "zero": 0, "empty": "",
        "tags": ["a", "b"], "nested": {"deep": {"x": 1, "list": [1, 2.0, {"k": "v"}]}}, "no_items": [], "no_keys": {},
        "big": 18_446_744_073_709_551_615_u64, "yes": true, "len": 7, "ünï": "é→z", "long": "x".repeat(500), "keys": 5,
        "ints": [3, 1, 2], "half": 2.5, "max": i64::MAX, "mixed": [1, "a"],
    });
    let context = context.as_object().unwrap().iter();
    Facts {
        context: Arc::new(
            context
                .map(|(key, value)| (key.as_str().into(), Arc::new(value.clone())))
                .collect(),
        ),
        output: Some(Arc::new(
            json!({"score": 8, "text": "all good", "items": [1, 2], "error": null}),
        )),
        turn_count: 2,
        history: turns(vec![
            json!({"turn_number": 1, "agent_name": "writer", "output_data": {"draft": "one"}, "success": true}),
            json!({"turn_number": 2, "agent_name": "reviewer", "output_data": {"score": 8}, "success": false}),
        ]),
        executions: Arc::new(Agents(vec![
            ("writer", 1),
            ("reviewer", 1),
            ("idle", 0),
            ("my-agent", 4),
        ])),
        input: "please write".into(),
    }
}

fn answer(text: &str, facts: &Facts) -> String {
    match Condition::compile(text) {
        Err(error) => format!("compile: {} [{}]", error.message, error.help.unwrap_or_default()),
        Ok(condition) => match condition.evaluate(facts) {
            Ok(answer) => answer.to_string(),
            Err(error) => format!("error: {}", error.message),
        },
    }
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    let facts = facts();
    let wrong: Vec<String> = rows
        .iter()
        .map(|(text, expected)| (text, expected, answer(text, &facts)))
        .filter(|(_, expected, answer)| match **expected {
            "true" | "false" => answer != *expected,
            part => !answer.contains(part) || answer == "true" || answer == "false",
        })
        .map(|(text, expected, answer)| format!("{text}\n    expected {expected}\n    got      {answer}"))
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

const T: &str = "true";
const F: &str = "false";

#[test]
fn literals_and_truth() {
    check(&[
        ("True", T),
        ("true", T),
        ("False", F),
        ("false", F),
        ("None", F),
        ("()", F),
        ("0", F),
        ("0.0", F),
        ("-0.0", F),
        ("1", T),
        ("-1", T),
        ("''", F),
        ("\"\"", F),
        ("'0'", T),
        ("[]", F),
        ("[0]", T),
        ("{}", F),
        ("#{}", F),
        ("{'a': 0}", T),
        ("#{a: 0}", T),
        ("#{'a b': 0}", T),
        ("0x10 == 16", T),
        ("0b11 == 3", T),
        ("0o17 == 15", T),
        ("1_000 == 1000", T),
        ("1e3 == 1000", T),
        ("1. == 1", T),
        (".5 == 0.5", T),
        ("1.5e-1 == 0.15", T),
        ("-9223372036854775808 < 0", T),
        ("'a\\tb\\n\\x41\\u00e9\\U0001F600\\'\\\"' == \"a\tb\\nAé😀'\\\"\"", T),
        ("'it''s'", "two texts"),
        ("'\\0\\x01' == '\\x00\\u0001'", T),
        ("'$' == \"$\"", T),
        ("'${x}' == '$' + '{x}'", T),
        ("context", T),
        ("history", T),
        ("executions", T),
        ("output", T),
        ("context.none", F),
        ("context.zero", F),
        ("context.empty", F),
        ("context.no_items", F),
        ("context.no_keys", F),
        ("context.nested", T),
        ("input", T),
        ("[1, 2, 3,] == [1, 2, 3]", T),
        ("{'a': 1, 'b': [2]} == #{b: [2.0], a: 1.0}", T),
        ("{'a': 1} == {'a': 2}", F),
    ]);
}

#[test]
fn adr_examples_and_access() {
    check(&[
        ("context.get('needs_clarification', False)", T),
        ("context.get('needs_clarification', false) == True", T),
        ("not context.get('needs_clarification', False)", F),
        ("context.get('missing', False)", F),
        ("context.get('missing')", F),
        ("context.get(\"missing\", 'x') == 'x'", T),
        ("context['score'] > 0.5", T),
        ("context.score >= 0.75 && context.count == 3", T),
        ("context.missing", F),
        ("context.missing == ()", T),
        ("context['missing'] is None", T),
        ("context.missing is not None", F),
        ("context.none is None", T),
        ("context.get('missing', {}).get('x', 5) == 5", T),
        ("context.get('nested', {}).get('deep').x == 1", T),
        ("context.nested.deep.x == 1", T),
        ("context.nested['deep']['list'][2].k == 'v'", T),
        ("context.nested.deep.list[-1]['k'] == \"v\"", T),
        ("context.nested.nope", F),
        (
            "context.nested.nope.x",
            "`context.nested.nope` is nothing, so it has no member `x`",
        ),
        (
            "context.user.name",
            "`context.user` is nothing, so it has no member `name`",
        ),
        ("context.user?.name", F),
        ("context.user?.name.first.x", F),
        ("context.nested?.deep?.x == 1", T),
        ("context.user?['name']", F),
        (
            "context.user['name']",
            "`context.user` is nothing, so it has no item 'name'",
        ),
        ("context.user.get('x')", "`context.user` is nothing"),
        ("context.user ?? 'none' == 'none'", T),
        ("context.count ?? 9 == 3", T),
        ("context.a ?? context.b ?? 1", T),
        ("context.count.x", "`context.count` is a number (3)"),
        ("context.tags.x", "is a list"),
        ("context.tags[0] == 'a'", T),
        ("context.tags[-2] == 'a'", T),
        ("context.tags[2]", "index 2 is out of range: the list has 2 items"),
        ("context.tags[-3]", "out of range"),
        ("context.tags[1.0] == 'b'", T),
        ("context.tags['a']", "an index is a whole number"),
        ("context.tags[0.5]", "an index is a whole number"),
        ("context[1]", "a map's keys are texts"),
        ("context.name[0] == 'A' and context.name[-1] == 'a'", T),
        ("context.name[9]", "the text has 3 characters"),
        ("context.len == 7", T),
        ("context.keys == 5", T),
        ("context.tags.len == 2", T),
        ("context.name.len == 3", T),
        ("context.len()> 10", T),
        ("len(context) > 10", T),
        ("context['ünï'] == 'é→z'", T),
        ("context.ünï.len() == 3", T),
        ("output.score > 7", T),
        ("output.items[0] + output.items[1] == 3", T),
        ("output.error is None", T),
        ("output.error.kind", "`output.error` is nothing"),
        ("turn_count >= 2", T),
        ("turn_count.x", "is a number"),
        ("history[-1].agent_name == 'reviewer'", T),
        ("history[-1].output_data.score == 8", T),
        ("history[0].turn_number == 1 and history[0].success", T),
        ("history[-1].success", F),
        ("history[5]", "the list has 2 items"),
        ("len(history) == 2", T),
        ("history.len() == 2", T),
        ("history.len == 2", T),
        ("history[-1].error is None", T),
        ("history[-1].agent", "has no field `agent`, only turn_number"),
        ("history[-1].get('agent', 'x') == 'x'", T),
        ("executions.writer == 1", T),
        ("executions['my-agent'] >= 4", T),
        ("executions.get('reviewer', 0) < 3", T),
        ("executions.idle == 0", T),
        ("agent_execution_count.writer == executions.writer", T),
        ("executions.nobody is None", T),
        ("'writer' in executions", T),
        ("input == 'please write'", T),
        ("input.contains('write')", T),
        ("'k' in {'k': None}", T),
        ("{'k': 5}.k == 5", T),
        ("{'k': 5}['k'] == 5", T),
        ("[1, [2, 3]][1][0] == 2", T),
    ]);
}

#[test]
fn logic() {
    check(&[
        ("true and 1", T),
        ("1 and 0", F),
        ("0 or 'x'", T),
        ("0 or ''", F),
        ("(0 or 'x') == 'x'", T),
        ("(1 and 2) == 2", T),
        ("(0 && 2) == 0", T),
        ("('' || 0) == 0", T),
        ("(None or [] or 5 or 6) == 5", T),
        ("(1 and [] and 6) == []", T),
        ("(1 == 1 and 5) == 5", T),
        ("(1 == 2 or 5) == 5", T),
        ("(1 == 1 or 5) == True", T),
        ("(1 == 2 and 5) == False", T),
        ("not 0", T),
        ("not 'x'", F),
        ("!0", T),
        ("!true", F),
        ("not not 3", T),
        ("!!3", T),
        ("not 1 == 2", T),
        ("not true or true", T),
        ("!true || true", T),
        ("not (true or true)", F),
        ("true or false and false", T),
        ("false and true or true", T),
        ("!true == false", T),
        ("not true == false", T),
        ("(not 5) == False", T),
        ("false and context.a.b", F),
        ("true or context.a.b", T),
        ("false or context.a.b", "is nothing"),
        ("false && 1 / 0 > 1", F),
        ("true || 1 / 0 > 1", T),
        ("1 if true else 0", T),
        ("1 if '' else 0", F),
        ("(1 if false else 2 if false else 3) == 3", T),
        ("1 / 0 if false else 1", T),
        ("if true { 1 } else { 0 }", T),
        ("(if 0 { 1 } else if 1 { 2 } else { 3 }) == 2", T),
        ("if false { 1 }", F),
        ("(if true { 5 } else { 1/0 }) + 1 == 6", T),
        ("1 < 2 < 3", T),
        ("1 < 3 < 3", F),
        ("3 > 2 >= 2 > 1", T),
        ("1 < 2 > 1 == 1 != 2", T),
        ("2 < 1 < 1 / 0", F),
        ("0 <= context.score <= 1", T),
        ("1 == 1 == 1", T),
        ("1 == 1 == true", F),
        ("1 in [1] == [1]", T),
        ("'a' in 'abc' in ['abc']", T),
        ("turn_count is None", F),
        ("turn_count is not None", T),
        ("True is True", T),
        ("1 is True", F),
        ("0 is False", F),
        ("1 is not True", T),
        ("None is ()", T),
        ("() == None", T),
        ("true == 1", F),
        ("false == 0", F),
        ("None == false", F),
        ("None == 0", F),
        ("'1' == 1", F),
        ("'1' != 1", T),
        ("[] == {}", F),
        ("[] == false", F),
        ("context.missing != 'x'", T),
    ]);
}

#[test]
fn membership() {
    check(&[
        ("'score' in context", T),
        ("'nope' in context", F),
        ("'nope' not in context", T),
        ("'score' !in context", F),
        ("'none' in context", T),
        ("'a' in context.tags", T),
        ("'z' not in context.tags", T),
        ("2 in [1, 2.0]", T),
        ("2 in (1, 2)", T),
        ("3 in (1, 2)", F),
        ("1 in (1,)", T),
        ("1 in ()", F),
        ("1 not in ()", T),
        ("(1) in (1, 2)", T),
        ("2 in {1, 2}", T),
        ("'k' in {'k': 1}", T),
        ("'k' in #{k: 1}", T),
        ("'x' in {}", F),
        ("'da' in context.name", T),
        ("'' in 'x'", T),
        ("1 in 'x'", "a text contains only texts"),
        ("1 in context", F),
        ("'x' in None", "`None` is nothing"),
        ("'x' in context.missing", "`context.missing` is nothing"),
        ("1 in 5", "`5` is a number"),
        ("[1] in [[1.0]]", T),
        ("'a' in ('a' if true else 'b')", T),
        ("turn_count in (1, 3)", F),
        ("turn_count + 1 in (1, 3)", T),
        ("not 'a' in 'abc'", F),
        ("1 in (1, 2) and 2 in (1, 2)", T),
        ("None in [None]", T),
        ("True in [1]", F),
        ("'a' in (context.tags)", T),
        ("'ab' in ('a') + 'b'", T),
        ("{'agent_name': 'x'} in history", F),
    ]);
}

#[test]
fn arithmetic() {
    check(&[
        ("1 + 2 * 3 == 7", T),
        ("(1 + 2) * 3 == 9", T),
        ("10 - 2 - 3 == 5", T),
        ("7 / 2 == 3.5", T),
        ("6 / 2 == 3", T),
        ("2 * 3 / 4 == 1.5", T),
        ("7 % 3 == 1", T),
        ("-7 % 3 == 2", T),
        ("7 % -3 == -2", T),
        ("-7 % -3 == -1", T),
        ("-7.5 % 2 == 0.5", T),
        ("7.5 % -2 == -0.5", T),
        ("6 % -3 == 0", T),
        ("1 == 1.0", T),
        ("[1, [2]] == [1.0, [2.0]]", T),
        ("0.1 + 0.2 != 0.3", T),
        ("-(3) == -3", T),
        ("--3 == 3", T),
        ("+3 == 3", T),
        ("-turn_count == -2", T),
        ("2 - -2 == 4", T),
        (
            "9223372036854775807 + 1",
            "the integer is too large: 9223372036854775807 + 1",
        ),
        ("-9223372036854775808 - 1", "too large"),
        ("9223372036854775807 * 2 > 0", "too large"),
        ("-9223372036854775808 / -1", "too large"),
        ("-9223372036854775808 % -1 == 0", T),
        ("-(-9223372036854775808)", "too large"),
        ("abs(-9223372036854775808)", "too large"),
        ("9223372036854775808", "compile: the integer is too large"),
        ("1 / 0", "division by zero: 1 / 0"),
        ("1.5 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("1 % 0.0", "division by zero"),
        ("1e308 * 10", "out of range"),
        ("1e999", "too large"),
        ("true + 1", "cannot add boolean and number: true + 1"),
        ("1 - false", "cannot subtract"),
        ("-true", "cannot negate"),
        ("+true", "needs a number"),
        ("'a' + 'b' == 'ab'", T),
        ("'a' + 1", "cannot add text and number: 'a' + 1"),
        ("1 + 'a'", "cannot add number and text"),
        ("'a' * 3", "cannot multiply"),
        ("[1] + [2]", "cannot add list and list"),
        ("None + 1", "cannot add nothing and number"),
        ("context.missing * 2", "cannot multiply nothing"),
        ("context.big > 9223372036854775807", T),
        ("context.max < 9223372036854775808.0", T),
        ("context.max == 9223372036854775808.0", F),
        ("9007199254740993 == 9007199254740992.0", F),
        ("9007199254740993 > 9007199254740992.0", T),
        ("1 < 1.5", T),
        ("1.5 < 2", T),
        ("-1 < -0.5", T),
        ("2 >= 2.0", T),
        ("'a' < 'b'", T),
        ("'Z' < 'a'", T),
        ("'' < 'a'", T),
        ("'abc' < 3", "cannot order text and number: 'abc' < 3"),
        ("3 > 'abc'", "cannot order number and text"),
        ("true < 2", "cannot order boolean and number"),
        ("true < false", "cannot order boolean and boolean"),
        ("[1] < [2]", "cannot order list and list: [1] < [2]"),
        ("None < 1", "cannot order nothing and number: None < 1"),
        ("None <= None", "cannot order nothing and nothing"),
        ("context.missing > 3", "cannot order nothing and number"),
        ("context.nested == {'deep': {'x': 1.0, 'list': [1, 2, {'k': 'v'}]}}", T),
        ("context.nested == context['nested']", T),
        ("context.tags == ['a', 'b']", T),
        ("context == context", T),
        ("history == history", T),
        ("executions == {'writer': 1}", F),
    ]);
}

#[test]
fn functions_in_both_forms() {
    check(&[
        ("len('é→z') == 3", T),
        ("[1, 2].len() == 2", T),
        ("len({'a': 1}) == 1", T),
        ("len(5)", "`5` is a number"),
        ("len(None)", "is nothing"),
        ("is_empty([])", T),
        ("'x'.is_empty()", F),
        ("contains([1], 1.0)", T),
        ("context.contains('score')", T),
        ("'abc'.contains('b')", T),
        ("[1, 2, 1].count(1) == 2", T),
        ("'aXbX'.count('X') == 2", T),
        ("'héllo'.find('l') == 2", T),
        ("'a'.index_of('z') == -1", T),
        ("[5, 6].index_of(6) == 1", T),
        ("first([7, 8]) == 7", T),
        ("context.tags.last() == 'b'", T),
        ("last([]) is None", T),
        ("{'a': 1, 'b': 2}.keys() == ['a', 'b']", T),
        ("sum({'a': 1, 'b': 2}.values()) == 3", T),
        ("'score' in context.keys()", T),
        ("any([0, '', 3])", T),
        ("any([])", F),
        ("all([1, 'x'])", T),
        ("all([])", T),
        ("[1, 0].all()", F),
        ("keys([1])", "a map is needed"),
        ("'abc'.startswith('ab')", T),
        ("'abc'.starts_with('b')", F),
        ("'abc'.endswith('bc')", T),
        ("ends_with('abc', 'x')", F),
        ("'a'.startswith(1)", "a text is needed here"),
        ("turn_count.startswith('a')", "`turn_count` is a number (2)"),
        ("'AbC'.lower() == 'abc'", T),
        ("to_lower('X') == 'x'", T),
        ("'ab'.upper() == 'AB'", T),
        ("'ab'.to_upper() == 'AB'", T),
        ("'  x '.strip() == 'x'", T),
        ("trim(' x') == 'x'", T),
        ("'a, b'.split(', ') == ['a', 'b']", T),
        ("' a  b '.split() == ['a', 'b']", T),
        ("'a'.split('')", "not empty"),
        ("'aXb'.replace('X', '-') == 'a-b'", T),
        ("abs(-3) == 3", T),
        ("(-2.5).abs() == 2.5", T),
        ("min(3, 1, 2) == 1", T),
        ("max(context.ints) == 3", T),
        ("min('b', 'a') == 'a'", T),
        ("max([])", "is empty"),
        ("min(5)", "a list is needed"),
        ("min(1, 'a')", "cannot order"),
        ("sum(context.ints) == 6", T),
        ("sum([]) == 0", T),
        ("sum(['a'])", "`sum` needs numbers"),
        ("round(2.5) == 2", T),
        ("round(3.5) == 4", T),
        ("round(2.567, 2) == 2.57", T),
        ("floor(-1.5) == -2", T),
        ("ceil(1.2) == 2", T),
        ("int('42') == 42", T),
        ("int(3.9) == 3", T),
        ("int('x')", "'x' is no integer"),
        ("int(true) == 1", T),
        ("float('1.5') == 1.5", T),
        ("float('nan')", "out of range"),
        ("str(6 / 2) == '3'", T),
        ("str(1.0) == str(1)", T),
        ("str(None) == 'null'", T),
        ("str('x') == 'x'", T),
        ("str(context.tags) == '[\"a\",\"b\"]'", T),
        ("str({'a': [1, True]}) == '{\"a\":[1,true]}'", T),
        ("bool('')", F),
        ("bool([0])", T),
        ("type_of(1) == 'number' and type(1.5) == 'number'", T),
        ("type_of(context) == 'map'", T),
        ("type_of(history) == 'list'", T),
        ("type_of(context.long) == 'text'", T),
        ("type_of(None) == 'nothing'", T),
        ("type_of(true) == 'boolean'", T),
        ("context.long.len() == 500", T),
        ("context.long.startswith('xx')", T),
        ("context.long + 'y' == context.long.replace('xx', 'xx') + 'y'", T),
        ("context.get(1)", F),
        ("context.tags.get(0) == 'a'", T),
        ("context.tags.get(9, 'z') == 'z'", T),
        ("get(context, 'count') == 3", T),
        ("get(context.missing, 'x')", "`context.missing` is nothing"),
        ("turn_count.get('x')", "a map or a list is needed"),
    ]);
}

#[test]
fn refusals_say_what_to_write() {
    check(&[
        ("", "the condition is blank"),
        (" \n ", "the condition is blank"),
        ("x", "unknown variable `x`"),
        ("contxt.a", "did you mean `context`?"),
        ("needs_clarification", "context.get('needs_clarification')"),
        ("lenght(x)", "did you mean"),
        ("context.gett('x')", "did you mean `get`?"),
        ("frobnicate(1)", "the functions are"),
        ("context('x')", "`context` is a variable and cannot be called"),
        ("len", "`len` is a function"),
        ("output.score = 1", "compare with `==`"),
        ("turn_count += 1", "conditions change nothing"),
        ("(x := 1)", "unknown variable"),
        ("turn_count := 1", "change nothing"),
        ("let x = 1", "one expression"),
        ("1; 2", "one expression"),
        ("while true { }", "one expression"),
        ("loop { }", "one expression"),
        ("for x in history { }", "comprehensions"),
        ("[h for h in history]", "comprehensions"),
        ("any(h.success for h in history)", "comprehensions"),
        ("lambda x: x", "no functions of their own"),
        ("|x| x", "closures"),
        ("|| 1", "closures"),
        ("eval('1')", "cannot run text"),
        ("import 'x' as y", "load nothing"),
        ("print('x')", "write nothing"),
        ("debug(1)", "write nothing"),
        ("Fn('len').call('x')", "only the functions of the reference"),
        ("'len'.call()", "only the functions of the reference"),
        ("fn f() { 1 }", "one expression"),
        ("f'x'", "no prefixes"),
        ("`x`", "write texts as"),
        ("“x”", "write texts as"),
        ("2 ** 3", "powers"),
        ("7 // 2", "integer division"),
        ("1 # x", "comments"),
        ("1 /* x */", "comments"),
        ("a ? 1 : 2", "unknown variable"),
        ("true ? 1 : 2", "write `x if c else y`"),
        ("1 <> 2", "compare with `!=`"),
        ("1 === 1", "compare with `==`"),
        ("1 & 1", "write `and`"),
        ("1 | 1", "write `or`"),
        ("1 ^ 1", "bit operators"),
        ("~1", "write `not`"),
        ("null", "write `None`"),
        ("true AND false", "write `and`"),
        ("1 == not 2", "put parentheses"),
        ("(1, 2)", "only after `in`"),
        ("[1, 2][0:1]", "slices"),
        ("[1][:1]", "slices"),
        ("{a: 1}", "write `'a'`"),
        ("{1, 2}", "expected a key"),
        ("{'a': 1, 'a': 2}", "twice"),
        ("1 is 1", "after `is`"),
        ("'abc", "no closing '"),
        ("'a\nb'", "no closing '"),
        ("'\\q'", "unknown escape"),
        ("'\\ud800'", "names no character"),
        ("'\\u12'", "names no character"),
        ("1 +", "ends too early"),
        ("(1", "`)` is missing"),
        ("[1", "`]` is missing"),
        ("context[", "ends too early"),
        ("1 2", "unexpected number"),
        ("context score", "unexpected `score`"),
        (")", "unexpected `)`"),
        ("context.", "ends too early"),
        ("context.1", "compile"),
        ("5m", "neither a number"),
        ("len()", "`len` takes 1 argument, not 0"),
        ("context.get()", "`get` takes 1 or 2 arguments, not 0"),
        ("get(context)", "`get` takes 2 or 3 arguments, not 1"),
        ("context.get('x', default=1)", "arguments have no names"),
        ("1(2)", "cannot be called"),
        ("(len)(1)", "`len` is a function"),
        ("1 if true", "the condition ends too early"),
        ("if true 1", "unexpected number"),
        ("1..2", "compile"),
        ("a::b", "compile"),
        ("x.y", "unknown variable `x`"),
        ("context.x y", "compile"),
        ("this", "no `this`"),
        ("\u{0}", "unexpected character"),
        ("1 == 1 else", "unexpected `else`"),
        ("context.items.length()", "unknown function `length`"),
        ("executions.writer()", "unknown function `writer`"),
        ("sleep(1)", "unknown function `sleep`"),
        ("timestamp()", "unknown function"),
        ("parse_json('1')", "unknown function"),
        ("in", "unexpected `in`"),
        ("and true", "unexpected `and`"),
    ]);
}

#[test]
fn places_are_bytes_of_the_users_text() {
    let facts = facts();
    for (text, part) in [
        ("true and  contxt.a", "contxt"),
        ("'é' == 'é' and 1 / 0 > 2", "1 / 0"),
        ("context.score > 0.5 and context.user.name == 'x'", "context.user.name"),
        ("context.tags[\n 9\n] == 1", "context.tags[\n 9\n]"),
        ("output.text < 3 or true", "output.text < 3"),
        ("1 < 2 < 'a'", "2 < 'a'"),
        ("1 + 2 + 'a' + 4", "1 + 2 + 'a'"),
        ("len(3)", "len(3)"),
        (
            "context.tags.len().startswith('x')",
            "context.tags.len().startswith('x')",
        ),
        ("output.score = 1", "="),
        ("(1 + (2", "(2"),
        ("context.gett('x')", "gett"),
        ("- (true)", "- (true)"),
        ("1 == 'abc", "'abc"),
    ] {
        let span = match Condition::compile(text) {
            Err(error) => error.span,
            Ok(condition) => condition.evaluate(&facts).unwrap_err().span,
        };
        let found = &text[span.start..span.end];
        assert!(
            found == part || part == "(2" && found == "(",
            "{text}: {found:?} instead of {part:?}"
        );
    }
}

#[test]
fn limits_hold() {
    let facts = facts();
    let long = |text: &str, times: usize| text.repeat(times);
    // As deep as allowed, in every way that nests.
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("not ", ""),
        ("- ", ""),
        ("!", ""),
        ("abs(", ")"),
        ("{'a':", "}"),
        ("1 if 1 else ", ""),
    ] {
        let nest = |depth: usize| format!("{}1{}", long(open, depth), long(close, depth));
        assert!(Condition::compile(&nest(31)).is_ok(), "{open}");
        for depth in [33, 1000, 50_000] {
            let error = Condition::compile(&nest(depth)).unwrap_err();
            assert!(
                error.message.contains("deeper than 32"),
                "{open} {depth}: {}",
                error.message
            );
            assert!(error.span.end <= depth * open.len() + 2 + depth * close.len());
        }
    }
    // Wide is fine.
    for (text, expected) in [
        (format!("{}true", long("turn_count == 2 and ", 3000)), "true"),
        (format!("{}false", long("turn_count == 3 or ", 3000)), "false"),
        (format!("{}1 > 0", long("1 + ", 5000)), "true"),
        (format!("{}1", long("1 < 2 == ", 1)), "false"),
        (format!("1{}", long(" <= 1", 3000)), "true"),
        (format!("[{}] != []", long("1,", 20_000)), "true"),
        (format!("context{}.x", long("?.a", 2000)), "false"),
        (
            format!("context{}", long(".nested", 2000)),
            "error: `context.nested.nested` is nothing",
        ),
        (format!("'{}' == ''", long("x", 1_000_000)), "false"),
        (long("1 or ", 300_000), "compile: the condition is longer than 1 MiB"),
        (format!("{}1", long("true and ", 30_000)), "100000 operations"),
        (format!("{}1", long("1 + ", 40_000)), "100000 operations"),
        (format!("[{}]", long("1,", 100_001)), "more than 100000 items"),
    ] {
        let answer = answer(&text, &facts);
        assert!(answer.contains(expected), "{}…: {answer}", &text[..30.min(text.len())]);
    }
    for bomb in [
        format!(
            "'{0}'{1}",
            "a",
            long(".replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')", 20)
        ),
        format!("'{0}' + '{0}' + '{0}'", long("x", 400_000)),
        format!("('{}').replace('', '0123456789')", long("x", 200_000)),
    ] {
        assert!(answer(&bomb, &facts).contains("longer than 1 MiB"));
    }
    assert!(answer(&format!("'{}'.split(',')", long(",", 100_001)), &facts).contains("100000 items"));
}

/// The worst mixture at full depth must fit into the stack of an ordinary thread.
#[test]
fn full_depth_needs_little_stack() {
    let parts = [
        ("(1 if not x and (", ") else 2)"),
        ("(a?.b ?? [1 + 2 * ", "][0] < 3 < 4)"),
        ("context.get('a', {'k': ", "})"),
    ];
    for (open, close) in parts {
        for depth in 0..20 {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth)).replace('x', "turn_count");
            let text = text.replace("a?", "context?");
            let small = std::thread::Builder::new().stack_size(1000 << 10).spawn(move || {
                if let Ok(condition) = Condition::compile(&text) {
                    let _ = (condition.evaluate(&facts()), condition.reads(&facts()));
                }
            });
            small.unwrap().join().unwrap();
        }
    }
}

#[test]
fn long_texts_of_the_snapshot_are_no_texts_of_the_condition() {
    let mut facts = facts();
    facts.output = Some(Arc::new(json!({ "response": "x".repeat(3 << 20) + "end" })));
    for (text, expected) in [
        ("output.response.endswith('end') and 'xend' in output.response", "true"),
        (
            "len(output.response) > 3000000 and output.response == output.response",
            "true",
        ),
        ("output.response + 'a'", "longer than 1 MiB"),
        ("output.response.upper()", "longer than 1 MiB"),
        ("str(output)", "longer than 1 MiB"),
    ] {
        assert!(
            answer(text, &facts).contains(expected),
            "{text}: {}",
            answer(text, &facts)
        );
    }
}

#[test]
fn asks_for_no_more_of_the_history_than_it_reads() {
    let history = turns(
        (0..100_000)
            .map(|at| json!({"turn_number": at, "agent_name": "a"}))
            .collect(),
    );
    let facts = Facts {
        history: history.clone(),
        ..facts()
    };
    for text in [
        "history[-1].agent_name == 'a'",
        "history[50000].turn_number == 50000 and len(history) == 100000",
        "history and history.last().turn_number == 99999",
    ] {
        history.asked.store(0, Ordering::Relaxed);
        assert_eq!(answer(text, &facts), "true", "{text}");
        assert!(history.asked.load(Ordering::Relaxed) <= 2, "{text}");
    }
}

#[test]
fn reads_name_each_part_once_with_its_value() {
    let facts = facts();
    let reads = |text: &str| -> Vec<(String, Value)> {
        let condition = Condition::compile(text).unwrap();
        condition
            .reads(&facts)
            .into_iter()
            .map(|read| (read.expression, read.value))
            .collect()
    };
    let row = |text: &str, value: Value| (text.to_owned(), value);
    assert_eq!(
        reads(
            "context.get('x', False) and output.score > 7 and turn_count < 9 or executions.writer == 1 and output.score < 3"
        ),
        [
            row("context.get('x', False)", json!(false)),
            row("output.score", json!(8)),
            row("turn_count", json!(2)),
            row("executions.writer", json!(1)),
        ]
    );
    assert_eq!(
        reads("history[-1].agent_name == 'x' and len(history) > 1 and 'score' in context and 'z' not in context.tags"),
        [
            row("history[-1].agent_name", json!("reviewer")),
            row("len(history)", json!(2)),
            row("'score' in context", json!(true)),
            row("'z' not in context.tags", json!(true)),
        ]
    );
    assert_eq!(
        reads(
            "context.user.name.lower() == 'x' or context.tags[turn_count - 1] == 'b' or context.get('nested', {}).get('deep')"
        ),
        [
            row("context.user.name", Value::Null),
            row("context.tags", json!(["a", "b"])),
            row("turn_count", json!(2)),
            row(
                "context.get('nested', {}).get('deep')",
                json!({"x": 1, "list": [1, 2.0, {"k": "v"}]})
            ),
        ]
    );
    assert_eq!(reads("1 == 1"), []);
    let long = &reads("context.long")[0].1;
    assert_eq!(long.as_str().unwrap().chars().count(), 201);
    let whole = reads("context").remove(0).1;
    assert_eq!(whole.as_object().unwrap().len(), 9, "{whole}");
}

#[test]
fn keys_that_checks_want_to_know() {
    let condition = Condition::compile(
        "executions.writer > 1 and executions['my-agent'] or agent_execution_count.get('x', 0) < 2 and 'y' in executions \
         and context.get('a').b and get(context, \"c\") and context[output.d] and 'e' not in context and context.contains('f')",
    )
    .unwrap();
    let named = |keys: Vec<(String, Span)>| -> Vec<String> {
        let text = condition.text().clone();
        keys.iter()
            .map(|(key, span)| format!("{key}={}", &text[span.start..span.end]))
            .collect()
    };
    assert_eq!(
        named(condition.agents_read()),
        ["writer=writer", "my-agent='my-agent'", "x='x'", "y='y'"]
    );
    assert_eq!(
        named(condition.context_keys_read()),
        ["a='a'", "c=\"c\"", "e='e'", "f='f'"]
    );
}

#[test]
fn constants_are_known_before_a_run() {
    for (text, expected) in [
        ("true", Some(true)),
        ("1 > 2", Some(false)),
        ("1 / 0", None),
        ("turn_count == turn_count", None),
        ("'a' in ['a']", Some(true)),
    ] {
        assert_eq!(Condition::compile(text).unwrap().constant(), expected, "{text}");
    }
}

#[test]
fn the_reference_lists_every_function() {
    let reference = include_str!("mod.rs");
    for name in functions::FUNCTIONS.iter().flat_map(|function| function.names) {
        let listed = reference.lines().filter(|line| line.starts_with("//! |"));
        let mut named =
            listed.filter(|line| line.contains(&format!("`{name}(")) || line.contains(&format!("`{name}`")));
        assert!(named.next().is_some(), "{name}");
    }
}

#[test]
fn engine_and_reads_agree() {
    let facts = facts();
    for text in [
        "context.score",
        "context.get('count', 1)",
        "context.get('nope', 7)",
        "output.items[1]",
        "history[-2].output_data.draft",
        "executions.get('idle', 4)",
        "len(context.tags)",
        "context.nested.deep.list[-1].k",
        "context.user?.name",
        "input",
        "turn_count",
        "context['ünï']",
        "context.tags[turn_count - 2]",
    ] {
        let read = Condition::compile(text).unwrap().reads(&facts).remove(0);
        let literal = read.value.to_string().replace("null", "None");
        if !read.value.is_array() {
            assert_eq!(
                answer(&format!("{text} == {literal}"), &facts),
                "true",
                "{text} {literal}"
            );
        }
    }
}

#[test]
fn before_anything_has_happened() {
    let facts = Facts {
        output: None,
        history: turns(Vec::new()),
        turn_count: 0,
        ..facts()
    };
    for (text, expected) in [
        ("output is None", "true"),
        ("not output and not history and not turn_count", "true"),
        ("output.score > 3", "`output` is nothing, so it has no member `score`"),
        ("output?.score is None", "true"),
        (
            "history[-1].agent_name == 'a'",
            "index -1 is out of range: the list has 0 items",
        ),
        ("history.last()?.agent_name is None", "true"),
    ] {
        assert!(
            answer(text, &facts).contains(expected),
            "{text}: {}",
            answer(text, &facts)
        );
    }
}

/// Whatever the text: no panic, and every place lies within it.
fn survives(text: &str) {
    let facts = facts();
    let span = match Condition::compile(text) {
        Err(error) => error.span,
        Ok(condition) => {
            for read in condition.reads(&facts) {
                assert!(text.contains(&read.expression));
            }
            condition.agents_read();
            condition.context_keys_read();
            condition.constant();
            match condition.evaluate(&facts) {
                Ok(_) => return,
                Err(error) => {
                    assert!(
                        !error.message.contains("past a limit of the sandbox"),
                        "{text}: {}",
                        error.message
                    );
                    error.span
                }
            }
        }
    };
    assert!(text.get(span.start..span.end).is_some(), "{text:?} {span:?}");
}

const WORDS: &[&str] = &[
    "context",
    "output",
    "turn_count",
    "history",
    "executions",
    "input",
    ".",
    "?.",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "#{",
    ",",
    ":",
    "and",
    "or",
    "not",
    "in",
    "is",
    "if",
    "else",
    "None",
    "True",
    "()",
    "&&",
    "||",
    "!",
    "==",
    "!=",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "??",
    "1",
    "0",
    "2.5",
    "-1",
    "'a'",
    "\"score\"",
    "tags",
    "nested",
    "len",
    "get",
    "keys",
    ".get(",
    ".len()",
    "min(",
    "replace(",
    "split(",
    "round(",
    "str(",
    "9223372036854775807",
    "=",
    ";",
    "//",
    "**",
    "let",
    "for",
    "x",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,80}") {
        survives(&text);
    }

    #[test]
    fn no_row_of_words_makes_it_panic(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..30), tight in any::<bool>()) {
        survives(&words.join(if tight { "" } else { " " }));
    }

    #[test]
    fn what_is_well_formed_is_taken(text in well_formed()) {
        prop_assert!(Condition::compile(&text).is_ok(), "{}", text);
        survives(&text);
    }
}

/// Expressions that the grammar must accept.
fn well_formed() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "1",
        "0",
        "2.5",
        "-3",
        "'a'",
        "''",
        "None",
        "True",
        "()",
        "[]",
        "{}",
        "context",
        "output.score",
        "history[-1]",
        "turn_count",
        "context.nested.deep",
        "context.tags",
        "executions.writer",
        "input",
        "context.missing",
        "context?.user?.name",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 40, 3, |inner| {
        let binary = proptest::sample::select(vec![
            "and", "or", "&&", "||", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "-", "*", "/", "%", "??",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, operator, b)| format!("({a}) {operator} ({b})")),
            inner.clone().prop_map(|a| format!("not ({a})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            inner.clone().prop_map(|a| format!("({a}) is not None")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}).get({b}, 1)")),
            inner.clone().prop_map(|a| format!("({a})?.name")),
            inner.clone().prop_map(|a| format!("len({a})")),
            inner.clone().prop_map(|a| format!("str({a})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("[{a}, {b}, {{'k': {c}}}]")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a}) < ({b}) < ({c})")),
        ]
    })
}
