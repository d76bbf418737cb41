//! What is wrong with what a run is given: answers, context and inputs.

use super::errors::check;
use super::show;
use crate::loader::{AgentAnswers, load_answers, load_context};
use crate::source::SourceText;

#[test]
fn prepared_answers() {
    let read = |text: &str| load_answers(&SourceText::new("answers.yaml", text));
    let values = read("a: text\nb: [one, {k: 1}, 3]\nc: {x: [1]}\nd: yes\ne: 1.50\n").unwrap();
    let [a, b, c, d, e] = values.as_slice() else {
        panic!("{values:?}")
    };
    assert_eq!(a.1, AgentAnswers::Always("text".into()));
    assert_eq!(
        b.1,
        AgentAnswers::Each(vec!["one".into(), serde_json::json!({"k": 1}), "3".into()])
    );
    assert_eq!(c.1, AgentAnswers::Always(serde_json::json!({"x": [1]})));
    assert_eq!(
        (&d.1, &e.1),
        (
            &AgentAnswers::Always("yes".into()),
            &AgentAnswers::Always("1.50".into())
        )
    );
    for (text, expected) in [
        ("- a", "E014 1:1 expected a map from agents to answers"),
        ("a: []", "E018 1:4 this list of answers is empty"),
        ("a: [[x]]", "E014 1:5 expected an answer"),
        ("a:", "E014 1:1 expected an answer (a string or a map), found nothing"),
        ("a: {b: .inf}", "E008 1:8"),
    ] {
        let problems = show(&read(text).unwrap_err());
        assert!(
            problems.len() == 1 && problems[0].starts_with(expected),
            "{text}: {problems:?}"
        );
    }
}

#[test]
fn a_context() {
    let read = |text: &str| load_context(&SourceText::new("context", text));
    let json = "{\n\t\"a\": \"\\ud83d\\ude00\",\n\t\"b\": [1, 2.5, null]\n}\n";
    let expected = serde_json::json!({"a": "😀", "b": [1, 2.5, null]});
    assert_eq!(serde_json::Value::Object(read(json).unwrap()), expected);
    assert_eq!(
        serde_json::Value::Object(read("a: 😀\nb: [1, 2.5, ~]\n").unwrap()),
        expected
    );
    assert_eq!(
        show(&read("[1]").unwrap_err()),
        ["E014 1:1 expected a map, found a list"]
    );
    assert_eq!(
        show(&read("é: .nan").unwrap_err()),
        ["E008 1:4 .nan cannot be represented in JSON"]
    );
    assert!(show(&read("{\"a\": 1,,}").unwrap_err())[0].starts_with("E001 1:9"));
}

#[test]
fn inputs_of_a_run() {
    let rows: &[(&str, &[&str])] = &[
        (
            "[a]",
            &["E014 2:9 expected a map from names to JSON Schemas, found a list"],
        ),
        ("{a-b: {}}", &["E017 2:10 'a-b' is not a valid name of an input"]),
        (
            "{1a: {}, _a1: true}",
            &["E017 2:10 '1a' is not a valid name of an input"],
        ),
        (
            "{a: string}",
            &["E014 2:13 expected a JSON Schema (a map), found the string 'string'"],
        ),
        ("{a: {type: strnig}}", &["E029 2:13 this is not a valid JSON Schema"]),
        (
            "{a: {type: integer, default: x}, b: {default: 1}}",
            &["E038 2:38 the default of the input `a` does not match its schema: \"x\" is not of type \"integer\""],
        ),
    ];
    for (inputs, expected) in rows {
        check(
            &format!("name: e\ninputs: {inputs}\nagents: [{{name: a, script: x}}]\n"),
            expected,
        );
    }
}
