//! Whatever the keys and values of an ensemble: what comes out has no error, and values keep what they are.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{errors, imported, try_import};
use ensemble_language::loader;
use ensemble_language::source::SourceText;

/// Returns a value of any sort, such as people write and such as they do not.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(0), Just(1), Just(-1), Just(30), any::<i64>()].prop_map(Value::from),
        prop_oneof![Just(0.5), Just(-2.5), Just(1e300)].prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[ -~\n\t#:'\"{}%]{0,30}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(KEYS), inner), 0..4).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

const WORDS: &[&str] = &[
    "a",
    "b",
    "c d",
    "small",
    "gone",
    "known.py",
    "x.py",
    "inner",
    "${a.ok}",
    "${b.x.y} == 'z'",
    "${a.ok} == 3",
    "ollama",
    "mock",
    "anthropic-claude-pro-max",
    "output.ok",
    "no",
    "{{ x }}",
    "{% if %}",
    "script",
    "json",
    "echo a | b",
    "null",
    "1e5",
    "0x1f",
    "~",
    "- a",
    "a: b",
    "a #b",
    "# c",
    "",
    " ",
    "\n",
    "a\nb",
    " a\n  b\n\n",
    "a\n\tb\n",
    "'",
    "\"",
    "\\",
    "%",
    "@",
    "`",
    "p/get_user_input.py",
    "not-carried-over",
];

const KEYS: &[&str] = &[
    "name",
    "script",
    "model_profile",
    "model",
    "provider",
    "ensemble",
    "input",
    "loop",
    "dispatch",
    "depends_on",
    "dependencies",
    "when",
    "fan_out",
    "input_key",
    "input_scope",
    "system_prompt",
    "prompt",
    "role",
    "parameters",
    "config",
    "temperature",
    "max_tokens",
    "options",
    "output_format",
    "fallback_model_profile",
    "timeout_seconds",
    "type",
    "cache",
    "description",
    "conversation",
    "output_schema",
    "retry",
    "on_error",
    "agent_name",
    "condition",
    "feedback",
    "body",
    "until",
    "max_iterations",
    "carry",
    "max_turns",
    "choices",
    "max_attempts",
    "max_executions",
    "requires_all",
    "trigger",
    "state_key",
    "seed",
    "top_p",
    "x y",
    "<<",
    "yes",
];

const TOP: &[&str] = &[
    "name",
    "description",
    "default_task",
    "task",
    "default_input",
    "model_profiles",
    "coordinator",
    "synthesis",
    "validation",
    "conversation_limits",
    "test_mode",
    "output_schema",
    "topaz_skill",
    "execution",
    "tools",
    "x",
];

/// Returns a value that often fits its key.
fn value_for(key: &'static str) -> BoxedStrategy<Value> {
    let names = proptest::collection::vec(proptest::sample::select(&["a", "b", "c d", "d", "zz"][..]), 0..3);
    let fitting: BoxedStrategy<Value> = match key {
        "script" => proptest::sample::select(&["known.py", "x.py", "echo a"][..])
            .prop_map(Value::from)
            .boxed(),
        "model_profile" | "fallback_model_profile" => proptest::sample::select(&["small", "big", "alone", "gone"][..])
            .prop_map(Value::from)
            .boxed(),
        "depends_on" => names.prop_map(Value::from).boxed(),
        "when" => proptest::sample::select(&["${a.ok}", "${b.x} == 'y'", "${d.n} == 2"][..])
            .prop_map(Value::from)
            .boxed(),
        "loop" => Just(json!({"body": "inner", "until": "${v.ok}", "max_iterations": 2, "carry": "${v.t}"})).boxed(),
        "dependencies" => names
            .prop_map(|names| {
                names
                    .iter()
                    .map(|name| json!({"agent_name": name, "condition": "output.ok"}))
                    .collect()
            })
            .boxed(),
        "model_profiles" => {
            Just(json!({"small": {"model": "m", "provider": "p", "fallback_model_profile": "small"}, "b": 1})).boxed()
        }
        "coordinator" => {
            Just(json!({"model_profile": "small", "synthesis_prompt": "x {{", "output_format": "json"})).boxed()
        }
        "conversation_limits" => {
            Just(json!({"max_total_turns": 5, "timeout_seconds": 0, "max_agent_executions": {"a": 1, "q": 2}})).boxed()
        }
        _ => any_value().boxed(),
    };
    prop_oneof![3 => fitting, 1 => any_value()].boxed()
}

fn pairs(keys: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<(String, Value)>> {
    let pair = proptest::sample::select(keys).prop_flat_map(|key| (Just(key.to_owned()), value_for(key)));
    proptest::collection::vec(pair, 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the keys and their values: the new file has no error, and every lost thing says what to write instead.
    #[test]
    fn whatever_comes_out_is_valid(
        top in pairs(TOP, 5),
        agents in proptest::collection::vec((proptest::sample::select(&["a", "b", "c d", "d", "é"][..]), pairs(KEYS, 7)), 1..5),
        odd in proptest::option::of(any_value()),
        comment in "[ -~é]{0,20}",
    ) {
        let mut whole = serde_json::Map::new();
        whole.extend(top);
        let mut list: Vec<Value> = agents.into_iter().map(|(name, keys)| {
            let mut agent = serde_json::Map::new();
            agent.insert("name".to_owned(), json!(name));
            agent.extend(keys);
            Value::Object(agent)
        }).collect();
        list.extend(odd);
        whole.insert("agents".to_owned(), Value::from(list));
        let block = serde_yaml::to_string(&whole).expect("YAML");
        let flow = Value::Object(whole).to_string();
        for text in [format!("# {comment}\n{block}# {comment}\n"), flow] {
            // What is refused is refused by the reader of YAML: a text that another writer has made too liberally.
            let Ok(document) = loader::parse_yaml(&SourceText::new("old.yaml", text.as_str())) else { continue };
            prop_assert!(document.root().get("agents").is_some());
            let new = match try_import(&text) {
                Ok(new) => new,
                Err(complaint) => return Err(TestCaseError::fail(format!("{complaint}\n{text}"))),
            };
            let found = errors(&new.text);
            prop_assert!(found.is_empty(), "{found:?}\n{text}\n=>\n{}", new.text);
            prop_assert!(new.unconverted.iter().all(|one| one.help.is_some()));
        }
    }

    /// What scripts are given arrives as it was, however it is written.
    #[test]
    fn values_keep_what_they_are(value in any_value()) {
        let old = json!({"name": "e", "agents": [{"name": "a", "script": "known.py", "config": {"value": value}}]});
        let new = imported(&old.to_string());
        let read = value_of(&new.text);
        prop_assert_eq!(&read, &value, "\n{}", new.text);
        let second: Value = serde_yaml::from_str(&new.text).expect("YAML");
        prop_assert_eq!(&second["agents"][0]["config"]["value"], &value, "\n{}", new.text);
    }
}

/// What is plain for one reader of YAML is not for another.
#[test]
fn texts_in_lists_are_read_alike_by_others() {
    for text in ["/:?", "a:?b", "a,b", "a: b", "a:b"] {
        let value = json!([text, {"k": [text]}]);
        let old = json!({"name": "e", "agents": [{"name": "a", "script": "known.py", "config": {"value": value}}]});
        let new = imported(&old.to_string());
        assert_eq!(value_of(&new.text), value, "{}", new.text);
        let second: Value = serde_yaml::from_str(&new.text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(second["agents"][0]["config"]["value"], value, "{}", new.text);
    }
}

/// Returns the value in the only agent's configuration, as the loader reads it.
fn value_of(text: &str) -> Value {
    let loaded = loader::load_ensemble(&SourceText::new("new.yaml", text));
    let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{text}"));
    ensemble.agents[0].config["value"].clone()
}
