//! What is said of the values of a condition before a run is true of its values.

use proptest::prelude::*;

use super::*;
use crate::condition::typing::check::truth;

fn exactly<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Type {
    let entry = |(key, value): (&str, Value)| (key.to_owned(), Type::of_value(&value));
    Type::map(Fields::exactly(entries.into_iter().map(entry)))
}

/// Types that admit the values of these facts, and little else.
fn known(facts: &Facts) -> Known {
    let of = |map: &Context| exactly(map.iter().map(|(key, value)| (&**key, (**value).clone())));
    let entry = |at: usize| {
        let fields = facts.history.fields().iter();
        exactly(fields.map(|name| (*name, (*facts.history.field(at, name).unwrap()).clone())))
    };
    let history = (0..facts.history.len()).map(entry).fold(Type::never(), Type::or);
    let outputs = facts.outputs.agents();
    let counts = facts.executions.names();
    let executions: Vec<(&str, Value)> = counts
        .iter()
        .map(|name| (&**name, facts.executions.count(name).into()))
        .collect();
    let outputs: Vec<(&str, Value)> = outputs
        .iter()
        .map(|name| (&**name, (*facts.outputs.output(name).unwrap()).clone()))
        .collect();
    Known {
        context: of(&facts.context),
        output: Type::of_value(facts.output.as_deref().unwrap()),
        turn_count: Type::count(facts.turn_count),
        history: Type::list(history).into(),
        executions: exactly(executions),
        input: Type::text(),
        inputs: of(&facts.inputs),
        outputs: exactly(outputs).into(),
        item: Type::any(),
        part: Type::any(),
    }
}

/// The inferred type admits the value, and knows its truth only if it has it.
pub(super) fn fits(text: &str) {
    let facts = facts();
    let known = known(&facts);
    if let (Ok(reading), Ok(expression)) = (Expression::read(text), Expression::compile(text))
        && let Ok(value) = expression.evaluate(&facts)
    {
        let of = reading.value(&known);
        assert!(of.admits(&value), "{text} is {of}, and gave {value}");
    }
    if let (Ok(reading), Ok(condition)) = (Condition::read(text), Condition::compile(text)) {
        let of = reading.value(&known);
        if let (Some(said), Ok(answer)) = (truth(&of), condition.evaluate(&facts)) {
            assert_eq!(said, answer, "{text} is {of}");
        }
    }
}

/// A schema, and a value that it allows.
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

/// A comparison, a call or a path that reads the output.
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
    let of_texts = Type::map(Fields {
        known: std::collections::BTreeMap::new(),
        others: Some(Type::text()),
        strict: false,
    });
    for either in [counted.clone().or(of_texts.clone()), of_texts.or(counted)] {
        for value in [json!({"a": 1}), json!({"a": "x"}), json!({"b": "x"}), json!({})] {
            assert!(either.admits(&value), "{value} is not {either}");
        }
        assert!(!either.admits(&json!({"a": true})), "{either}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_type_admits_what_its_schema_allows(first in pair(), second in pair()) {
        for (schema, value) in [&first, &second] {
            let of = Type::of_schema(schema);
            prop_assert!(of.admits(value), "{} {} {}", schema, value, of);
            prop_assert!(Type::of_value(value).admits(value), "{}", value);
            let both = Type::of_schema(&first.0).or(Type::of_schema(&second.0));
            prop_assert!(both.admits(value), "{} {} {}", first.0, second.0, value);
        }
    }

    #[test]
    fn what_is_reported_of_a_question_is_so((schema, value) in pair(), question in question()) {
        let output = json!({"type": "object", "required": ["x"], "properties": {"x": schema}});
        let known = Known { output: Type::of_schema(&output), ..Known::default() };
        let facts = Facts { output: Some(Arc::new(json!({"x": value}))), ..facts() };
        let Ok(reading) = Condition::read(&question) else { return Ok(()) };
        let answer = Condition::compile(&question).unwrap().evaluate(&facts);
        for misfit in reading.misfits(&known) {
            let is_so = match misfit.mistake {
                Mistake::Never => answer != Ok(true),
                Mistake::Always => answer != Ok(false),
                Mistake::Fails => answer.is_err(),
                Mistake::NoKey | Mistake::Unknown => true,
            };
            prop_assert!(is_so, "{} for {}: {} gave {:?}", question, output, misfit.message, answer);
        }
    }
}
