//! Slices, list concatenation, comprehensions and generator expressions: the values are those of Python.

use super::*;

/// Rows whose expected value was computed by Python for the same text.
const PYTHON: &[(&str, &str)] = &[
    ("[1, 2, 3, 4][1:3]", "[2,3]"),
    ("[1, 2, 3, 4][:2]", "[1,2]"),
    ("[1, 2, 3, 4][2:]", "[3,4]"),
    ("[1, 2, 3, 4][:]", "[1,2,3,4]"),
    ("[1, 2, 3, 4][-3:]", "[2,3,4]"),
    ("[1, 2, 3, 4][-9:2]", "[1,2]"),
    ("[1, 2, 3, 4][:-1]", "[1,2,3]"),
    ("[1, 2, 3, 4][3:1]", "[]"),
    ("[1, 2, 3, 4][9:]", "[]"),
    ("[1, 2, 3, 4][:99]", "[1,2,3,4]"),
    ("[1, 2, 3, 4][None:2]", "[1,2]"),
    ("[1, 2, 3, 4][1:][1:]", "[3,4]"),
    ("[1, 2, 3, 4][1:][-1]", "4"),
    ("[1, 2, 3, 4][1:][0:2][1]", "3"),
    ("'hällo'[1:3]", "\"äl\""),
    ("'hällo'[-2:]", "\"lo\""),
    ("'hällo'[7:]", "\"\""),
    ("[1] + [2, 'a']", "[1,2,\"a\"]"),
    ("[] + []", "[]"),
    ("[1] + [2] + [3] == [1, 2, 3]", "true"),
    ("[1, 2] + [3][1:]", "[1,2]"),
    ("[x for x in [1, 2, 3]]", "[1,2,3]"),
    ("[x * 2 for x in [1, 2, 3] if x > 1]", "[4,6]"),
    ("[x for x in [1, 2, 3, 4] if x > 1 if x < 4]", "[2,3]"),
    (
        "[[x, y] for x in [1, 2] for y in ['a', 'b']]",
        "[[1,\"a\"],[1,\"b\"],[2,\"a\"],[2,\"b\"]]",
    ),
    ("[y for x in [[1, 2], [3]] for y in x]", "[1,2,3]"),
    ("[y for x in [[1, 2], [3]] if len(x) > 1 for y in x if y > 1]", "[2]"),
    ("[k for k in {'b': 1, 'a': 2}]", "[\"b\",\"a\"]"),
    ("[[y for y in x] for x in [[1], [2, 3]]]", "[[1],[2,3]]"),
    ("['hi' if x else 'lo' for x in [0, 1]]", "[\"lo\",\"hi\"]"),
    ("[x for x in [0, 1, '', 'a', None, [], {}]if x]", "[1,\"a\"]"),
    ("[x for x in (1, 2)]", "[1,2]"),
    ("[x for x in []]", "[]"),
    ("any(x > 2 for x in [1, 2, 3])", "true"),
    ("any(x > 5 for x in [1, 2, 3])", "false"),
    ("any(x for x in [])", "false"),
    ("all(x > 0 for x in [1, 2, 3])", "true"),
    ("all(x > 1 for x in [1, 2, 3])", "false"),
    ("all(x for x in [])", "true"),
    ("any(1 / x > 0 for x in [1, 0])", "true"),
    ("all(1 / x < 0 for x in [1, 0])", "false"),
    ("any(y == 3 for x in [[1], [3], [0]] for y in x)", "true"),
    ("all(1 / y < 9 for x in [[1], [0.1, 0]] for y in x)", "false"),
    ("sum(x * x for x in [1, 2, 3])", "14"),
    ("sum(x for x in [])", "0"),
    ("min(x - 2 for x in [1, 2, 3])", "-1"),
    ("max(len(x) for x in ['a', 'abc'])", "3"),
    ("len([x for x in [1, 2, 3] if x != 2])", "2"),
    ("any([x > 2 for x in [1, 2, 3]])", "true"),
    ("2 in [x + 1 for x in [0, 1]]", "true"),
    ("[x for x in [1, 2, 3] if not any(y == x for y in [2])]", "[1,3]"),
    ("sum([x for x in [1, 2]]) + max(y for y in [3])", "6"),
    ("[x for x in [3, 1] if x in [y for y in [1]]]", "[1]"),
];

#[test]
fn values_are_those_of_python() {
    let facts = facts();
    let value = |text: &str| match ValueExpression::compile(text) {
        Ok(expression) => match expression.evaluate(&facts) {
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {}", error.message),
        },
        Err(error) => format!("compile: {}", error.message),
    };
    for (text, expected) in PYTHON {
        typing::fits(text);
        assert_eq!(value(text), *expected, "{text}");
    }
}

#[test]
fn the_snapshot_can_be_iterated_and_sliced() {
    check(&[
        ("len(h for h in history) == 2", T),
        ("history[-3:] == history and len(history[-1:]) == 1", T),
        ("history[-1:][0].agent_name == 'reviewer'", T),
        ("[h.agent_name for h in history] == ['writer', 'reviewer']", T),
        ("all(h.success for h in history[-2:])", F),
        ("any(h.output_data.get('score', 0) > 7 for h in history)", T),
        ("sum(executions[name] for name in executions) == 6", T),
        ("[name for name in outputs] == ['writer', 'my-agent']", T),
        ("context.tags + ['c'] == ['a', 'b', 'c']", T),
        ("(context.tags + output.items)[-1] == 2", T),
        ("len(history + history) == 4", T),
        ("context.missing?[1:] is None", T),
        ("context.tags?[1:] == ['b']", T),
        ("max(t for t in context.tags) == 'b'", T),
        ("[first for first in context.ints] == context.ints", T),
        ("any(part == 1 for part in output.items)", T),
        // Errors name the position in the text, as outside of comprehensions.
        (
            "[x.y for x in context.ints]",
            "`x` is a number (3), so it has no member `y`",
        ),
        (
            "[x for x in context.name]",
            "is a string ('Ada'), so it cannot be iterated over",
        ),
        (
            "[x for x in context.missing]",
            "`context.missing` is None, so it cannot be iterated over",
        ),
        ("[x for x in 5]", "cannot be iterated over"),
        ("any(x for x in ['no'])", "the string 'no'"),
        (
            "any(x for x in [context.said_no])",
            "`x` is the string ' No\\n', which would count as true",
        ),
        ("[1][1.5:]", "the bound of a slice must be an integer, but 1.5"),
        ("[1]['a':]", "the bound of a slice must be an integer"),
        ("context.nested[1:]", "so it has no slices"),
        ("context.missing[1:]", "`context.missing` is None, so it has no items"),
        ("context.tags + 1", "cannot add a list and a number"),
        ("context.tags + 'c'", "cannot add a list and a string"),
        ("sum(x for x in ['a'])", "the items of `sum` must be numbers"),
        ("min(x for x in [])", "is empty"),
    ]);
}

#[test]
fn what_is_no_comprehension_says_what_to_write() {
    check(&[
        ("[x for context in [1]]", "the name `context` is taken"),
        ("[x for x in [1] for x in [2]]", "the name `x` is taken"),
        ("[[x for x in y] for x in [[1]] for y in [x]]", "the name `x` is taken"),
        ("[x for None in [1]]", "the name `None` is taken"),
        ("[1 for let in [1]]", "the name `let` is taken"),
        ("[k for k, v in context]", "one variable after `for`"),
        ("[x for x to [1]]", "unexpected `to`"),
        ("[x for x in x]", "unknown variable `x`"),
        ("any(x for x in [1]) and x", "unknown variable `x`"),
        ("[y for x in [1]]", "unknown variable `y`"),
        ("[item for itme in [1]]", "did you mean `itme`?"),
        ("[x for x in [1] if x else 2]", "put parentheses around `x if c else y`"),
        ("[1, x for x in [1]]", "write a comprehension in brackets"),
        ("[for x in [1]]", "write a comprehension in brackets"),
        (
            "str(x for x in [1])",
            "only `any`, `all`, `sum`, `len`, `min` and `max` take a generator",
        ),
        ("sum(x for x in [1], 2)", "must be the only argument"),
        ("(x for x in [1])", "write a comprehension in brackets"),
        ("{x for x in [1]}", "a key must be a string"),
        ("context.tags.any(x for x in [1])", "only `any`"),
        ("[x for x in [1]", "`]` is missing"),
        ("[1][::2]", "a slice has no step"),
        ("[1][0:1:2]", "a slice has no step"),
        ("[1][1::2]", "a slice has no step"),
        ("[1][:1:]", "a slice has no step"),
        ("[1][]", "expected a value"),
    ]);
}

#[test]
fn loops_end_soon_whatever_they_do() {
    let facts = ConditionSnapshot {
        output: Some(Arc::new(json!({
            "list": (0..60_000).collect::<Vec<_>>(), "big": vec!["x".repeat(1000); 5000], "text": "ab".repeat(250_000),
        }))),
        ..facts()
    };
    for (text, expected) in [
        ("len([x for x in output.list[:9000]]) == 9000", "true"),
        (
            "any(x == y for x in output.list for y in [-1, -2])",
            "operations, which is the limit",
        ),
        ("len([x for x in output.list + output.list])", "more than 100000 items"),
        ("len([x + x for x in [output.list]])", "more than 100000 items"),
        (
            "len([[x] + output.list for x in output.list[:9000]]) > 0",
            "processes more than 10000000 items",
        ),
        ("len([x in output.list for x in ['a', *]]) > 0", "unexpected `*`"),
        (
            "any(output.list == output.list[:] for x in output.list[:9000] if 0)",
            "false",
        ),
        (
            "all(output == output for x in output.list)",
            "processes more than 10000000 items",
        ),
        (
            "len([output.text + 'x' for x in output.list])",
            "processes more than 64 MiB of text",
        ),
        ("len([str(output.big)[:3] for x in output.list])", "longer than 1 MiB"),
        (
            "len([str(output.big[:900])[:3] for x in output.list])",
            "processes more than 64 MiB of text",
        ),
    ] {
        assert!(
            answer(text, &facts).contains(expected),
            "{text}: {}",
            answer(text, &facts)
        );
    }
    let copies = ValueExpression::compile("[output.big for x in output.list[:1000]]");
    assert!(copies.is_err(), "an expression of the ensemble has no output");
    let copies =
        ValueExpression::compile("[context.long * 1 if 0 else context for x in history for y in history]").unwrap();
    assert_eq!(copies.evaluate(&facts).unwrap().as_array().unwrap().len(), 4);
    let many = ValueExpression::compile("[inputs.big for x in inputs.list]").unwrap();
    let facts = ConditionSnapshot {
        inputs: Arc::new(
            [
                ("big".into(), Arc::new(json!("x".repeat(100_000)))),
                ("list".into(), Arc::new(json!((0..1000).collect::<Vec<_>>()))),
            ]
            .into_iter()
            .collect(),
        ),
        ..facts
    };
    assert!(
        many.evaluate(&facts)
            .unwrap_err()
            .message
            .contains("larger than 64 MiB")
    );
}

#[test]
fn a_slice_of_the_history_reads_only_its_items() {
    let entries = (0..50_000).map(|at| json!({"turn_number": at, "agent_name": "writer", "success": true}));
    let history = Arc::new(Turns {
        entries: entries.collect(),
        asked: AtomicUsize::new(0),
    });
    let facts = ConditionSnapshot {
        history: history.clone(),
        ..facts()
    };
    assert_eq!(
        answer("all(h.turn_number > 49996 for h in history[-3:])", &facts),
        "true"
    );
    assert_eq!(history.asked.load(Ordering::Relaxed), 3);
    assert_eq!(answer("any(h.turn_number == 1 for h in history)", &facts), "true");
    assert_eq!(history.asked.load(Ordering::Relaxed), 5);
}

/// Returns the notes of an evaluation, as sentences.
fn notes(text: &str) -> Vec<String> {
    let (_, notes) = Condition::compile(text).unwrap().evaluate_with_notes(&facts());
    notes.iter().map(|note| note.describe(Some("critic"))).collect()
}

#[test]
fn a_key_that_is_not_there_is_noted() {
    for (text, expected) in [
        (
            "output.aproved",
            "`output.aproved`: the output of `critic` has no `aproved`; it has `score`, `text`, `items`, `error`",
        ),
        (
            "not output['aproved']",
            "`output['aproved']`: the output of `critic` has no `aproved`; it has `score`, `text`, `items`, `error`",
        ),
        (
            "outputs.writer.text == 'x'",
            "`outputs.writer.text`: the output of `writer` has no `text`; it has `draft`",
        ),
        (
            "outputs['writer'].text or True",
            "`outputs['writer'].text`: the output of `writer` has no `text`; it has `draft`",
        ),
        (
            "outputs.idle",
            "`outputs.idle`: `outputs` has no `idle`; it has `writer`, `my-agent`",
        ),
        (
            "context.nested.nope",
            "`context.nested.nope`: `context.nested` has no `nope`; it has `deep`",
        ),
        (
            "context.no_keys.x",
            "`context.no_keys.x`: `context.no_keys` has no `x`; it is empty",
        ),
        (
            "history[0].output_data.text",
            "`history[0].output_data.text`: `history[0].output_data` has no `text`; it has `draft`",
        ),
        (
            "any(h.output_data.text for h in history[:1])",
            "`h.output_data.text`: `h.output_data` has no `text`; it has `draft`",
        ),
        (
            "output.aproved is True",
            "`output.aproved`: the output of `critic` has no `aproved`; it has `score`, `text`, `items`, `error`",
        ),
        (
            "output.score == '8'",
            "`output.score == '8'`: 8 is a number and '8' is a string, so they are never equal",
        ),
        (
            "output.text != True",
            "`output.text != True`: 'all good' is a string and true is a Boolean, so they are never equal",
        ),
        (
            "1 < output.score == 'x'",
            "`output.score == 'x'`: 8 is a number and 'x' is a string, so they are never equal",
        ),
    ] {
        assert_eq!(notes(text), [expected], "{text}");
    }
    let context = notes("context.mising");
    assert!(
        context[0].starts_with("`context.mising`: the context has no `mising`; it has `needs_clarification`"),
        "{context:?}"
    );
    assert!(context[0].ends_with("and 12 more"), "{context:?}");
    assert_eq!(notes("output.a or output.a or output.b").len(), 2);
    assert_eq!(notes("any(context.nested[k] for k in ['x', 'y', 'x'])").len(), 2);
}

#[test]
fn whoever_asks_on_purpose_is_not_told() {
    for text in [
        "output.get('aproved')",
        "output?.aproved",
        "outputs.idle?.draft",
        "outputs?.idle",
        "'aproved' in output",
        "output.aproved is None",
        "output.aproved is not None",
        "output.aproved == None",
        "None != output.aproved",
        "output.aproved == ()",
        "output.aproved ?? 1",
        "output.aproved == None == output.error",
        "output.error",
        "context.none",
        "context['none']",
        "output.score == 8",
        "output.score == None",
        "output.text == 'x'",
        "output.score == [1]",
        "'8' in [8]",
        "False and output.aproved",
        "output.text if True else output.aproved",
    ] {
        assert_eq!(notes(text), [""; 0], "{text}");
    }
    // Only the last step is asked about.
    assert_eq!(notes("context.nested.a.b is None").len(), 1);
    // The notes of one evaluation are not those of the next.
    assert_eq!(notes("output.aproved").len(), 1);
    assert_eq!(notes("output.score"), [""; 0]);
}

#[test]
fn the_help_for_a_member_of_nothing_is_the_optional_step() {
    for (text, expected) in [
        (
            "outputs.idle.draft",
            "write `outputs.idle?.draft` if the value may be missing",
        ),
        (
            "outputs.idle['draft']",
            "write `outputs.idle?['draft']` if the value may be missing",
        ),
        (
            "context.none.get('x')",
            "write `context.none?.get('x')` if the value may be missing",
        ),
        (
            "context.none[1:]",
            "write `context.none?[1:]` if the value may be missing",
        ),
    ] {
        let error = Condition::compile(text).unwrap().evaluate(&facts()).unwrap_err();
        assert_eq!(error.help.as_deref(), Some(expected), "{text}");
    }
}
