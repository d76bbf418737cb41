//! What conditions read of the snapshot, and how little.

use std::collections::BTreeSet;

use super::*;

#[test]
fn asks_for_no_more_of_the_history_than_it_reads() {
    let history = turns(
        (0..100_000)
            .map(|at| json!({"turn_number": at, "agent_name": "a"}))
            .collect(),
    );
    let facts = ConditionSnapshot {
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
            .list_reads(&facts)
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
        named(condition.list_named_agents()),
        ["writer=writer", "my-agent='my-agent'", "x='x'", "y='y'"]
    );
}

#[test]
fn the_reference_lists_every_function_and_no_other() {
    let reference = include_str!("../../../../../docs/reference/conditions.md");
    let (_, rest) = reference.split_once("<!-- functions").expect("the table of functions");
    let rows = rest.lines().skip(4).take_while(|line| line.starts_with("| "));
    let cells = rows.flat_map(|row| row.split('|').skip(1).take(2));
    let codes = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let listed: BTreeSet<&str> = codes.filter_map(|code| code.split('(').next()).collect();
    let known = functions::FUNCTIONS.iter().flat_map(|function| function.names);
    let known: BTreeSet<&str> = known.copied().chain([".len"]).collect();
    assert_eq!(listed, known);
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
        let read = Condition::compile(text).unwrap().list_reads(&facts).remove(0);
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
    let facts = ConditionSnapshot {
        output: None,
        history: turns(Vec::new()),
        turn_count: 0,
        ..facts()
    };
    for (text, expected) in [
        ("output is None", "true"),
        ("not output and not history and not turn_count", "true"),
        ("output.score > 3", "`output` is None, so it has no member `score`"),
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
