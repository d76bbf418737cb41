//! What is said of the values of a condition before a run is true of its values.

use proptest::prelude::*;

use super::*;
use crate::condition::typing::check::find_known_truth;

fn exactly<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> ValueType {
    let entry = |(key, value): (&str, Value)| (key.to_owned(), ValueType::exact_value_type(&value));
    ValueType::map_with_fields(MapFields::with_exact_keys(entries.into_iter().map(entry)))
}

/// Types that admit the values of these facts, and little else.
fn known(facts: &ConditionSnapshot) -> VariableTypes {
    let of = |map: &RunContext| exactly(map.iter().map(|(key, value)| (&**key, (**value).clone())));
    let entry = |at: usize| {
        let fields = facts.history.field_names().iter();
        exactly(fields.map(|name| (*name, (*facts.history.field_value(at, name).unwrap()).clone())))
    };
    let history = (0..facts.history.len())
        .map(entry)
        .fold(ValueType::impossible_value(), ValueType::union_with);
    let outputs = facts.outputs.agents_with_output();
    let counts = facts.executions.agent_names();
    let executions: Vec<(&str, Value)> = counts
        .iter()
        .map(|name| (&**name, facts.executions.execution_count(name).into()))
        .collect();
    let outputs: Vec<(&str, Value)> = outputs
        .iter()
        .map(|name| (&**name, (*facts.outputs.latest_output(name).unwrap()).clone()))
        .collect();
    VariableTypes {
        context: of(&facts.context),
        output: ValueType::exact_value_type(facts.output.as_deref().unwrap()),
        turn_count: ValueType::number_up_to(facts.turn_count),
        history: ValueType::list_with_items(history).into(),
        executions: exactly(executions),
        input: ValueType::any_text(),
        inputs: of(&facts.inputs),
        outputs: exactly(outputs).into(),
        item: ValueType::any_value(),
        part: ValueType::any_value(),
    }
}

/// The inferred type admits the value, and knows its truth only if it has it.
pub(super) fn fits(text: &str) {
    let facts = facts();
    let known = known(&facts);
    if let (Ok(reading), Ok(expression)) = (ValueExpression::parse(text), ValueExpression::compile(text))
        && let Ok(value) = expression.evaluate(&facts)
    {
        let of = reading.infer_type(&known);
        assert!(of.contains_value(&value), "{text} is {of}, and gave {value}");
    }
    if let (Ok(reading), Ok(condition)) = (Condition::parse(text), Condition::compile(text)) {
        let of = reading.infer_type(&known);
        if let (Some(said), Ok(answer)) = (find_known_truth(&of), condition.evaluate(&facts)) {
            assert_eq!(said, answer, "{text} is {of}");
        }
    }
}

/// Returns a schema, and a value that it allows.
fn pair() -> impl Strategy<Value = (Value, Value)> {
    let words = proptest::collection::btree_set("[a-c]{1,2}", 1..4);
    let leaf = prop_oneof![
        (words, any::<prop::sample::Index>()).prop_map(|(words, at)| {
            let words: Vec<String> = words.into_iter().collect();
            (json!({"enum": words}), json!(at.get(&words)))
        }),
        any::<bool>().prop_map(|value| (json!({"type": "boolean"}), json!(value))),
        (-5..5_i32, 0..5_i32, 0..5_i32).prop_map(|(low, up, more)| (
            json!({"type": "integer", "minimum": low, "maximum": low + up + more}),
            json!(low + up)
        )),
        (-5..5_i32, 1..9_i32).prop_map(|(low, up)| (
            json!({"type": "number", "exclusiveMinimum": low}),
            json!(f64::from(low) + 0.5 * f64::from(up))
        )),
        "[a-c]{0,2}".prop_map(|text| (json!({"type": "string"}), json!(text))),
        Just((json!({"type": ["null", "string"]}), json!(null))),
        (0..4_i32).prop_map(|value| (json!({"const": value}), json!(value))),
        (0..4_i32).prop_map(|value| (json!({"anyOf": [{"const": "a"}, {"type": "number"}]}), json!(value))),
        (0..4_i32).prop_map(|value| (json!({"allOf": [{"minimum": 0}, {"type": "number"}]}), json!(value))),
        Just((json!(true), json!("x"))),
    ];
    leaf.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..3).prop_map(|items| {
                let schemas: Vec<&Value> = items.iter().map(|(schema, _)| schema).collect();
                let values: Vec<&Value> = items.iter().map(|(_, value)| value).collect();
                (json!({"type": "array", "items": {"anyOf": schemas}}), json!(values))
            }),
            (proptest::collection::btree_map("[a-c]", (inner, any::<bool>()), 1..4), any::<bool>(), any::<bool>()).prop_map(
                |(entries, closed, more)| {
                    let properties: serde_json::Map<String, Value> =
                        entries.iter().map(|(key, ((schema, _), _))| (key.clone(), schema.clone())).collect();
                    let required: Vec<&String> =
                        entries.iter().filter(|(_, (_, always))| *always).map(|(key, _)| key).collect();
                    let mut value: serde_json::Map<String, Value> = entries
                        .iter()
                        .filter(|(key, (_, always))| *always || key.as_str() == "a")
                        .map(|(key, ((_, value), _))| (key.clone(), value.clone()))
                        .collect();
                    if more && !closed {
                        value.insert("more".into(), json!(1));
                    }
                    let schema = json!({"type": "object", "required": required, "properties": properties, "additionalProperties": !closed});
                    (schema, value.into())
                }
            ),
        ]
    })
}

/// Returns a comparison, a call or a path that reads the output.
fn question() -> impl Strategy<Value = String> {
    let path = prop_oneof![
        Just("output.x".to_owned()),
        "[a-c]".prop_map(|key| format!("output.x.{key}")),
        "[a-c]".prop_map(|key| format!("output.x.get('{key}')")),
        Just("output.x[0]".to_owned()),
        Just("lower(output.x)".to_owned()),
        Just("len(output.x)".to_owned()),
        Just("-output.x".to_owned()),
        Just("(output.x + 1)".to_owned()),
        Just("(output.x ?? 'a')".to_owned()),
        Just("first(output.x)".to_owned()),
    ];
    let literal = prop_oneof![
        "'[a-c]{0,2}'",
        (-6..12_i32).prop_map(|value| value.to_string()),
        Just("True".to_owned()),
        Just("None".to_owned()),
        Just("['a', 2]".to_owned()),
        Just("output.x".to_owned()),
    ];
    let operator = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">=", "in", "not in"]);
    (path, operator, literal, any::<bool>()).prop_map(|(path, operator, literal, turned)| match turned {
        true => format!("{literal} {operator} {path}"),
        false => format!("{path} {operator} {literal}"),
    })
}

/// A key that only one of two maps names can be one of the other keys of the other map.
#[test]
fn one_of_two_maps_is_either_of_them() {
    let counted = exactly([("a", 1.into())]);
    let of_texts = ValueType::map_with_fields(MapFields {
        known_keys: std::collections::BTreeMap::new(),
        other_values: Some(ValueType::any_text()),
        is_strict: false,
    });
    for either in [
        counted.clone().union_with(of_texts.clone()),
        of_texts.union_with(counted),
    ] {
        for value in [json!({"a": 1}), json!({"a": "x"}), json!({"b": "x"}), json!({})] {
            assert!(either.contains_value(&value), "{value} is not {either}");
        }
        assert!(!either.contains_value(&json!({"a": true})), "{either}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_type_admits_what_its_schema_allows(first in pair(), second in pair()) {
        for (schema, value) in [&first, &second] {
            let of = ValueType::from_schema(schema);
            prop_assert!(of.contains_value(value), "{} {} {}", schema, value, of);
            prop_assert!(ValueType::exact_value_type(value).contains_value(value), "{}", value);
            let both = ValueType::from_schema(&first.0).union_with(ValueType::from_schema(&second.0));
            prop_assert!(both.contains_value(value), "{} {} {}", first.0, second.0, value);
        }
    }

    #[test]
    fn what_is_reported_of_a_question_is_so((schema, value) in pair(), question in question()) {
        let output = json!({"type": "object", "required": ["x"], "properties": {"x": schema}});
        let known = VariableTypes { output: ValueType::from_schema(&output), ..VariableTypes::default() };
        let facts = ConditionSnapshot { output: Some(Arc::new(json!({"x": value}))), ..facts() };
        let Ok(reading) = Condition::parse(&question) else { return Ok(()) };
        let answer = Condition::compile(&question).unwrap().evaluate(&facts);
        for misfit in reading.find_type_problems(&known) {
            let is_so = match misfit.kind {
                TypeProblemKind::NeverTrue => answer != Ok(true),
                TypeProblemKind::AlwaysTrue => answer != Ok(false),
                TypeProblemKind::Fails => answer.is_err(),
                TypeProblemKind::NoKey | TypeProblemKind::UnknownName => true,
            };
            prop_assert!(is_so, "{} for {}: {} gave {:?}", question, output, misfit.message, answer);
        }
    }
}
