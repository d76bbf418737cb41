use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::filters::{TEST_NAMES, list_filter_words};
use super::*;
use crate::template::{Template, TemplateScope};

fn rendered(template: &str, value: &Value) -> Result<String, String> {
    let scope = TemplateScope {
        listens_to: Arc::new(["x".into()]),
        dependencies: vec![("x".into(), Arc::new(value.clone()))],
        ..TemplateScope::default()
    };
    let template = Template::compile(template).map_err(|error| error.message)?;
    template.render(&scope).map_err(|error| error.message)
}

#[test]
fn exactly_the_filters_and_tests_of_the_engine_are_known() {
    let filters: Vec<&str> = list_filter_words().map(|word| word.name).collect();
    for (names, what) in [(&filters[..], "filter"), (&TEST_NAMES[..], "test")] {
        for name in names {
            let asked = format!("{{{{ '{name}' is {what} }}}}");
            assert_eq!(rendered(&asked, &json!({})), Ok("True".to_owned()), "{name}");
        }
    }
    // Names that the engine has and that other engines have, each known exactly where the engine knows it.
    let others = [
        "center",
        "filesizeformat",
        "forceescape",
        "json",
        "random",
        "striptags",
        "tojson",
        "truncate",
        "urlencode",
        "urlize",
        "wordcount",
        "wordwrap",
        "xmlattr",
        "datetimeformat",
        "pluralize",
        "do",
        "callable",
        "uppercase",
        "divisible",
        "empty",
        "list",
        "map",
        "none",
        "true",
        "sum",
        "zip",
        "chain",
        "lines",
        "format",
    ];
    for name in others {
        for (names, what) in [(&filters[..], "filter"), (&TEST_NAMES[..], "test")] {
            let asked = rendered(&format!("{{{{ '{name}' is {what} }}}}"), &json!({}));
            let known = if names.contains(&name) { "True" } else { "False" };
            assert_eq!(asked, Ok(known.to_owned()), "{name} {what}");
        }
    }
}

/// Returns a schema and a value that it allows.
fn pair() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        (0..4_i32).prop_map(|n| (json!({"type": "integer", "minimum": 0, "maximum": 3}), json!(n))),
        (-9..9_i32).prop_map(|n| (json!({"type": "number"}), json!(f64::from(n) / 2.0))),
        any::<bool>().prop_map(|yes| (json!({"type": "boolean"}), json!(yes))),
        "[a-c]".prop_map(|text| (json!({"enum": ["a", "b", "c"]}), json!(text))),
        "[a-c ,1-3]{0,3}".prop_map(|text| (json!({"type": "string"}), json!(text))),
        Just((json!({"type": ["number", "null"]}), json!(null))),
        Just((json!({"type": ["number", "string"]}), json!("2"))),
        Just((json!({"type": "array", "items": {"type": "integer"}}), json!([]))),
        Just((json!({"type": "array", "items": {"type": "integer"}}), json!([2, 1]))),
        Just((
            json!({"type": "array", "items": {"enum": ["a", "b"]}}),
            json!(["b", "a"])
        )),
        Just((
            json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "integer"}}}),
            json!({"a": 1})
        )),
        Just((
            json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "integer"}}}),
            json!({})
        )),
        Just((json!({}), json!({"a": [1]}))),
    ];
    leaf.boxed()
}

/// Returns an expression that reads the value; every part of it is evaluated.
fn expression() -> impl Strategy<Value = String> {
    let operand = prop::sample::select(vec![
        "x.v",
        "x.v[0]",
        "x.v.a",
        "x.v['b']",
        "x.v[1:]",
        "x.v[:1]",
        "x.v[::2]",
        "-x.v",
        "(not x.v)",
        "x.v.get('a')",
        "x.v.keys()",
        "x.v.upper()",
        "1",
        "'a'",
        "['a', 2]",
        "{'a': 1}",
        "2.5",
        "none",
        "true",
        "(x.v ~ 'a')",
        "x.w",
    ]);
    let filters: Vec<&str> = [
        "abs",
        "bool",
        "capitalize",
        "count",
        "dictsort",
        "first",
        "float",
        "int",
        "items",
        "join",
        "last",
        "length",
        "lines",
        "list",
        "lower",
        "max",
        "min",
        "reverse",
        "round",
        "sort",
        "split",
        "string",
        "sum",
        "title",
        "tojson",
        "trim",
        "unique",
        "upper",
        "default('a')",
    ]
    .to_vec();
    let value = (operand, prop::collection::vec(prop::sample::select(filters), 0..3)).prop_map(|(operand, filters)| {
        let filters = filters.iter().map(|filter| format!(" | {filter}"));
        format!("({operand}{})", filters.collect::<String>())
    });
    let operator = prop::sample::select(vec![
        "+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
    ]);
    (value.clone(), operator, value, any::<bool>()).prop_map(|(left, operator, right, alone)| match alone {
        true => left,
        false => format!("{left} {operator} {right}"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_reported_of_a_template_is_so(
        (schema, value) in pair(),
        expression in expression(),
        (is_required, is_there) in prop::sample::select(vec![(true, true), (false, true), (false, false)]),
    ) {
        let required: &[&str] = if is_required { &["v"] } else { &[] };
        let schema = json!({"type": "object", "required": required, "additionalProperties": false, "properties": {"v": schema}});
        let output = if is_there { json!({"v": value}) } else { json!({}) };
        let of = ValueType::from_schema(&schema);
        let variables = |name: &str| (name == "x").then_some(&of);
        let template = format!("{{% if {expression} %}}yes{{% else %}}no{{% endif %}}");
        let outcome = rendered(&template, &output);
        let listed = format!("{{% for one in {expression} %}}{{% endfor %}}");
        let looped = rendered(&listed, &output);
        for (template, outcome) in [(&template, &outcome), (&listed, &looped)] {
            for misfit in find_type_problems(template, &variables) {
                let is_so = match misfit.kind {
                    TypeProblemKind::NeverTrue => outcome.as_deref() != Ok("yes"),
                    TypeProblemKind::AlwaysTrue => outcome.as_deref() != Ok("no"),
                    // Where a value is missing, a loop over it is empty.
                    TypeProblemKind::Fails => outcome.is_err() || misfit.message.contains("or nothing"),
                    TypeProblemKind::NoKey => is_missing(&misfit.message, &output),
                    TypeProblemKind::UnknownName => false,
                };
                prop_assert!(is_so, "{} for {} as {}: {} gave {:?}", template, output, schema, misfit.message, outcome);
            }
        }
    }
}

/// Whether the value that a message names first has no key of the name that it gives last.
fn is_missing(message: &str, output: &Value) -> bool {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let (value, key) = (quoted.next().expect("a value"), quoted.last().expect("a key"));
    let asked = format!("{{{{ ({value})['{key}'] is defined }}}}");
    rendered(&asked, output).is_ok_and(|answer| answer == "False") || rendered(&asked, output).is_err()
}
