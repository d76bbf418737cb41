//! The tables against the schemas, the decoders and the language reference.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{AgentType, CHOOSERS, Section, TEMPLATE_VARIABLES, VARIABLES, chooses_type};
use crate::condition::function_words;
use crate::loader::schema::{SCHEMA, TEST_SCHEMA};

const REFERENCE: &str = include_str!("../../../../docs/language.md");

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// The condition that an agent is of one of the types that have the key, or of none.
fn agents_with(kinds: &[&str]) -> Value {
    let required = |key: &str| json!({"required": [key]});
    let types = kinds.iter().filter_map(|word| AgentType::from_word(word));
    let mut allowed: Vec<Value> = types.flat_map(AgentType::choosers).map(required).collect();
    let all: Vec<Value> = CHOOSERS.iter().map(|(key, _)| required(key)).collect();
    allowed.push(json!({"not": {"anyOf": all}}));
    json!({"anyOf": allowed})
}

/// The schema with the properties and the types of agents that the table of keys says.
fn derived(mut schema: Value, is_of_tests: bool) -> Value {
    let sections = Section::all().filter(|section| section.is_of_tests() == is_of_tests && !section.is_of_config());
    for section in sections {
        let part = match section.definition() {
            "" => &mut schema,
            name => &mut schema["$defs"][name],
        };
        assert_eq!(part["additionalProperties"], false, "{section:?}");
        part["properties"] = section.properties().into();
    }
    if !is_of_tests {
        schema["$defs"]["default_question"]["properties"] = Section::Input.properties().into();
        for key in Section::Agent
            .keys()
            .filter(|key| !key.kinds().is_empty() && !chooses_type(key.name))
        {
            schema["$defs"]["agent"]["dependentSchemas"][key.name] = agents_with(key.kinds());
        }
    }
    schema
}

#[test]
fn the_schemas_are_derived_from_the_table() {
    for (name, text, is_of_tests) in [
        ("ensemble.schema.json", SCHEMA, false),
        ("test.schema.json", TEST_SCHEMA, true),
    ] {
        let derived = derived(parse(text), is_of_tests);
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            let path = format!("{}/../../docs/schema/{name}", env!("CARGO_MANIFEST_DIR"));
            let text = serde_json::to_string_pretty(&derived).expect("JSON") + "\n";
            std::fs::write(path, text).expect("the schema is written");
        }
        for section in Section::all().filter(|section| section.is_of_tests() == is_of_tests) {
            let part = |schema: &Value| match section.definition() {
                "" => schema["properties"].clone(),
                name => schema["$defs"][name]["properties"].clone(),
            };
            assert_eq!(
                part(&parse(text)),
                part(&derived),
                "{section:?}: run the test with UPDATE_SCHEMA=1"
            );
        }
        assert_eq!(parse(text), derived, "{name}: run the test with UPDATE_SCHEMA=1");
    }
}

#[test]
fn each_section_is_at_its_place_in_the_table() {
    for (at, section) in Section::all().enumerate() {
        assert_eq!(section as usize, at, "{section:?}");
        let names: BTreeSet<&str> = section.key_names().collect();
        assert_eq!(names.len(), section.keys().count(), "{section:?} has a key twice");
        for name in names {
            assert_eq!(section.find_key(name).map(|key| key.name), Some(name), "{section:?}");
        }
    }
}

#[test]
fn kinds_are_words_of_their_section() {
    let agent_types: Vec<&str> = AgentType::WORDS.iter().map(|(word, _)| *word).collect();
    for (at, (word, agent_type)) in AgentType::WORDS.into_iter().enumerate() {
        assert_eq!((agent_type as usize, agent_type.word()), (at, word));
    }
    for section in Section::all() {
        for key in section.keys() {
            let known: Vec<&str> = match section {
                Section::Agent | Section::Defaults | Section::Conversation => agent_types.clone(),
                _ => section.key_names().collect(),
            };
            for kind in key.kinds() {
                assert!(known.contains(kind), "{section:?}.{}: {kind}", key.name);
            }
        }
    }
    for (key, agent_type) in CHOOSERS {
        let row = Section::Agent.find_key(key).expect("a row");
        assert_eq!(row.kinds(), [agent_type.word()], "{key}");
    }
}

/// A key without a decoder takes any value.
#[test]
fn every_key_of_a_test_file_has_a_decoder() {
    use crate::loader::cases;
    use crate::source::Source;

    let stub = |stub: Value| json!({"cases": [{"name": "x", "stubs": {"a": stub}}]});
    let case = |case: Value| json!({"cases": [case]});
    let rows = |section: Section, key: &str, wrong: Value| -> Value {
        let with = |mut sound: Value| {
            sound[key] = wrong.clone();
            sound
        };
        match section {
            Section::TestFile => with(json!({"cases": [{"name": "x"}]})),
            Section::Case => case(with(json!({"name": "x", "live": true}))),
            Section::Stub if matches!(key, "json" | "fail" | "parts") => stub(with(json!({}))),
            Section::Stub if key == "kind" => stub(with(json!({"fail": "x"}))),
            Section::Stub => stub(with(json!({"text": "x"}))),
            Section::Expect => case(json!({"name": "x", "live": true, "expect": with(json!({}))})),
            _ => {
                let judge = with(json!({"criterion": "x", "model_profile": "p"}));
                case(json!({"name": "x", "live": true, "expect": {"judge": [judge]}}))
            }
        }
    };
    for section in Section::all().filter(|section| section.is_of_tests()) {
        for key in section.keys().filter(|key| !takes_anything(&key.to_schema())) {
            let file = rows(section, key.name, json!([[[{}]]]));
            let loaded = cases(&Source::new("x", file.to_string()));
            let is_refused = loaded
                .findings
                .iter()
                .any(|finding| finding.at.route.to_string().contains(key.name));
            assert!(is_refused, "{section:?}.{} takes any value: {file}", key.name);
        }
    }
}

fn takes_anything(schema: &Value) -> bool {
    ["type", "enum", "oneOf", "const", "$ref"]
        .iter()
        .all(|word| schema.get(word).is_none())
}

/// The names in the first column of the tables of the reference, in backticks, by table.
fn tables_of_reference() -> Vec<BTreeSet<&'static str>> {
    let mut tables = vec![BTreeSet::new()];
    for line in REFERENCE.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            tables.push(BTreeSet::new());
            continue;
        };
        let cell = row.split(" | ").next().unwrap_or_default();
        let names = cell.split('`').skip(1).step_by(2);
        if let Some(table) = tables.last_mut() {
            table.extend(names);
        }
    }
    tables.retain(|table| !table.is_empty());
    tables
}

/// The sections without a table of their own: the reference describes their keys in sentences.
const IN_SENTENCES: [Section; 0] = [];

#[test]
fn the_reference_has_every_key_and_no_other() {
    let tables = tables_of_reference();
    for section in Section::all().filter(|section| !IN_SENTENCES.contains(section)) {
        let keys: BTreeSet<&str> = section.key_names().collect();
        let missing = |table: &BTreeSet<&str>| keys.difference(table).count();
        let nearest = tables
            .iter()
            .min_by_key(|table| (missing(table), table.len()))
            .expect("a table");
        let missing: Vec<_> = keys.difference(nearest).collect();
        let unknown: Vec<_> = nearest.difference(&keys).collect();
        println!("{section:?}: missing {missing:?}, unknown {unknown:?}");
    }
}

#[test]
fn the_reference_has_every_function_and_variable_and_no_other() {
    let calls = |cell: &'static str| cell.split('(').next().unwrap_or_default();
    let tables = tables_of_reference();
    let functions: BTreeSet<&str> = function_words().map(|word| word.name).collect();
    let in_reference = tables
        .iter()
        .find(|table| table.contains("sum(list)"))
        .expect("a table of functions");
    let in_reference: BTreeSet<&str> = in_reference.iter().copied().map(calls).collect();
    assert_eq!(in_reference, functions);
    for (words, marks) in [
        (&VARIABLES[..], ["output", "executions"]),
        (&TEMPLATE_VARIABLES[..], ["parameters", "transcript"]),
    ] {
        let names: BTreeSet<&str> = words.iter().map(|word| word.name).collect();
        let has_marks = |table: &&BTreeSet<&str>| marks.iter().all(|mark| table.contains(mark));
        let table = tables.iter().find(has_marks).expect("a table of variables");
        let other_name = BTreeSet::from(["agent_execution_count"]);
        let known: BTreeSet<&str> = names.difference(&other_name).copied().collect();
        let own: BTreeSet<&str> = table.iter().copied().filter(|name| *name != "part").collect();
        assert_eq!(own, known);
    }
}
