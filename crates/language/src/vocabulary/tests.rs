//! The tables against the schemas, the decoders and the language reference.

#![expect(
    clippy::disallowed_methods,
    reason = "the test writes the schemas that the tables say"
)]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{AgentType, CONDITION_VARIABLES, FileSection, TEMPLATE_VARIABLES, TYPE_CHOOSING_KEYS, chooses_agent_type};
use crate::loader::schema::{ENSEMBLE_SCHEMA, TEST_SCHEMA};

const REFERENCE: &str = concat!(
    include_str!("../../../../docs/reference/agents.md"),
    include_str!("../../../../docs/reference/batches.md"),
    include_str!("../../../../docs/reference/command-line.md"),
    include_str!("../../../../docs/reference/commands.md"),
    include_str!("../../../../docs/reference/conditions.md"),
    include_str!("../../../../docs/reference/exploration.md"),
    include_str!("../../../../docs/reference/external-agents.md"),
    include_str!("../../../../docs/reference/file.md"),
    include_str!("../../../../docs/reference/findings.md"),
    include_str!("../../../../docs/reference/import.md"),
    include_str!("../../../../docs/reference/models.md"),
    include_str!("../../../../docs/reference/nested.md"),
    include_str!("../../../../docs/reference/people.md"),
    include_str!("../../../../docs/reference/providers.md"),
    include_str!("../../../../docs/reference/readiness.md"),
    include_str!("../../../../docs/reference/runs.md"),
    include_str!("../../../../docs/reference/scripts.md"),
    include_str!("../../../../docs/reference/state.md"),
    include_str!("../../../../docs/reference/templates.md"),
    include_str!("../../../../docs/reference/tools.md")
);
const TESTS: &str = include_str!("../../../../docs/tests.md");

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Returns the condition that a key has a value. A key with `null` is a key that is left out.
fn has_key(key: &str) -> Value {
    json!({"required": [key], "properties": {key: {"not": {"type": "null"}}}})
}

/// Returns the condition that the key has no value, or that an agent is of one of the types that have the key, or of none.
fn agents_with(key: &str, kinds: &[&str]) -> Value {
    let types = kinds.iter().filter_map(|word| AgentType::from_word(word));
    let mut allowed: Vec<Value> = types.flat_map(AgentType::choosing_keys).map(has_key).collect();
    allowed.push(json!({"$ref": "#/$defs/untyped_agent"}));
    allowed.push(json!({"properties": {key: {"type": "null"}}}));
    json!({"anyOf": allowed})
}

/// Returns the schema with the properties and the types of agents that the table of keys says.
fn derived(mut schema: Value, is_of_tests: bool) -> Value {
    let sections = FileSection::iter_all()
        .filter(|section| section.is_test_section() == is_of_tests && !section.is_config_section());
    for section in sections {
        let part = match section.schema_definition() {
            "" => &mut schema,
            name => &mut schema["$defs"][name],
        };
        assert_eq!(part["additionalProperties"], false, "{section:?}");
        let required = part["required"].clone();
        let is_required = |key: &str| {
            required
                .as_array()
                .is_some_and(|keys| keys.iter().any(|one| one == key))
        };
        part["properties"] = section.schema_properties(is_required).into();
    }
    let all_types = ["array", "boolean", "number", "object", "string"];
    schema["$defs"]["no_value"] = json!({"not": {"type": all_types}});
    if !is_of_tests {
        schema["$defs"]["default_question"]["properties"] = FileSection::Input.schema_properties(|_| false).into();
        let all: Vec<Value> = TYPE_CHOOSING_KEYS.iter().map(|(key, _)| has_key(key)).collect();
        schema["$defs"]["untyped_agent"]["not"] = json!({"anyOf": all});
        for key in FileSection::Agent
            .iter_keys()
            .filter(|key| !key.section_kinds().is_empty() && !chooses_agent_type(key.name))
        {
            schema["$defs"]["agent"]["dependentSchemas"][key.name] = agents_with(key.name, key.section_kinds());
        }
    }
    schema
}

#[test]
fn the_schemas_are_derived_from_the_table() {
    for (name, text, is_of_tests) in [
        ("ensemble.schema.json", ENSEMBLE_SCHEMA, false),
        ("test.schema.json", TEST_SCHEMA, true),
    ] {
        let derived = derived(parse(text), is_of_tests);
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            let path = format!("{}/../../docs/schema/{name}", env!("CARGO_MANIFEST_DIR"));
            let text = serde_json::to_string_pretty(&derived).expect("JSON") + "\n";
            std::fs::write(path, text).expect("the schema is written");
        }
        for section in FileSection::iter_all().filter(|section| section.is_test_section() == is_of_tests) {
            let part = |schema: &Value| match section.schema_definition() {
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
    for (at, section) in FileSection::iter_all().enumerate() {
        assert_eq!(section as usize, at, "{section:?}");
        let names: BTreeSet<&str> = section.key_names().collect();
        assert_eq!(names.len(), section.iter_keys().count(), "{section:?} has a key twice");
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
    for section in FileSection::iter_all() {
        for key in section.iter_keys() {
            let known: Vec<&str> = match section {
                FileSection::Agent | FileSection::Defaults | FileSection::Conversation => agent_types.clone(),
                _ => section.key_names().collect(),
            };
            for kind in key.section_kinds() {
                assert!(known.contains(kind), "{section:?}.{}: {kind}", key.name);
            }
        }
    }
    for key in FileSection::Defaults.iter_keys() {
        let of_agents = FileSection::Agent.find_key(key.name).expect("a key of agents");
        assert_eq!(key.section_kinds(), of_agents.section_kinds(), "{}", key.name);
        for word in &agent_types {
            let is_given = key.is_default_for(Some(word));
            assert!(!is_given || key.is_key_of_kind(word), "{} is given to {word}", key.name);
        }
    }
    for (key, agent_type) in TYPE_CHOOSING_KEYS {
        let row = FileSection::Agent.find_key(key).expect("a row");
        assert_eq!(row.section_kinds(), [agent_type.word()], "{key}");
    }
}

/// A key without a decoder takes any value.
#[test]
fn every_key_of_a_test_file_has_a_decoder() {
    use crate::loader::load_test_file;
    use crate::source::SourceText;

    let stub = |stub: Value| json!({"cases": [{"name": "x", "stubs": {"a": stub}}]});
    let case = |case: Value| json!({"cases": [case]});
    let rows = |section: FileSection, key: &str, wrong: Value| -> Value {
        let with = |mut sound: Value| {
            sound[key] = wrong.clone();
            sound
        };
        match section {
            FileSection::TestFile => with(json!({"cases": [{"name": "x"}]})),
            FileSection::Case => case(with(json!({"name": "x", "live": true}))),
            FileSection::Stub if matches!(key, "json" | "fail" | "parts" | "replies") => stub(with(json!({}))),
            FileSection::Stub if key == "kind" => stub(with(json!({"fail": "x"}))),
            FileSection::Stub => stub(with(json!({"text": "x"}))),
            FileSection::StubReply if matches!(key, "text" | "error") => stub(json!({"replies": [with(json!({}))]})),
            FileSection::StubReply => stub(json!({"replies": [with(json!({"tool": "x"}))]})),
            FileSection::Expect => case(json!({"name": "x", "live": true, "expect": with(json!({}))})),
            _ => {
                let judge = with(json!({"criterion": "x", "model_profile": "p"}));
                case(json!({"name": "x", "live": true, "expect": {"judge": [judge]}}))
            }
        }
    };
    for section in FileSection::iter_all().filter(|section| section.is_test_section()) {
        for key in section.iter_keys().filter(|key| !takes_anything(&key.to_schema())) {
            let file = rows(section, key.name, json!([[[{}]]]));
            let loaded = load_test_file(&SourceText::new("x", file.to_string()));
            let is_refused = loaded
                .findings
                .iter()
                .any(|finding| finding.at.route.to_string().contains(key.name));
            assert!(is_refused, "{section:?}.{} takes any value: {file}", key.name);
        }
    }
}

fn takes_anything(schema: &Value) -> bool {
    ["type", "enum", "oneOf", "anyOf", "const", "$ref"]
        .iter()
        .all(|word| schema.get(word).is_none())
}

/// A table of a page: the cells of each row, the header first.
type Table = Vec<Vec<&'static str>>;

fn tables(page: &'static str) -> Vec<Table> {
    let mut tables: Vec<Table> = vec![Vec::new()];
    for line in page.lines().filter(|line| !line.starts_with("|-")) {
        match (line.strip_prefix("| "), tables.last_mut()) {
            (Some(row), Some(table)) => table.push(row.trim_end_matches(" |").split(" | ").collect()),
            _ => tables.push(Vec::new()),
        }
    }
    tables.retain(|table| !table.is_empty());
    tables
}

/// Returns the words in backticks in the first column, below the header.
fn names(table: &Table) -> BTreeSet<&'static str> {
    let cells = table.iter().skip(1).map(|row| row[0]);
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The sections that the reference describes in sentences, or together with another one.
const WITHOUT_TABLE: [FileSection; 12] = [
    FileSection::Defaults,
    FileSection::Combine,
    FileSection::Responses,
    FileSection::Strategy,
    FileSection::Reply,
    FileSection::CalledTool,
    FileSection::Permissions,
    FileSection::Setting,
    FileSection::Cost,
    FileSection::RateLimit,
    FileSection::Header,
    FileSection::Config,
];

/// Keys that the reference describes outside of the table of their section, and rows of tables that are no key.
const ELSEWHERE: [(FileSection, &str); 6] = [
    (FileSection::Ensemble, "x-…"),
    (FileSection::Agent, "parameters"),
    (FileSection::Tool, "script"),
    (FileSection::Tool, "agent"),
    (FileSection::Tool, "ensemble"),
    (FileSection::Tool, "mcp"),
];

#[test]
fn the_reference_has_every_key_with_its_default_and_no_other() {
    let of_language = tables(REFERENCE);
    let of_tests = tables(TESTS);
    for section in FileSection::iter_all().filter(|section| !WITHOUT_TABLE.contains(section)) {
        let tables = if section.is_test_section() {
            &of_tests
        } else {
            &of_language
        };
        let elsewhere = |name: &str| ELSEWHERE.contains(&(section, name));
        let keys: BTreeSet<&str> = section.key_names().filter(|name| !elsewhere(name)).collect();
        let missing = |table: &Table| keys.difference(&names(table)).count();
        let table = tables
            .iter()
            .min_by_key(|table| (missing(table), names(table).len()))
            .expect("a table");
        let listed: BTreeSet<&str> = names(table).into_iter().filter(|name| !elsewhere(name)).collect();
        assert_eq!(listed, keys, "{section:?}");
        if section.is_test_section() {
            continue;
        }
        for key in section.iter_keys() {
            let default = match &key.to_schema()["default"] {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let is_of_key = |row: &&Vec<&str>| row[0].contains(&format!("`{}`", key.name));
            let says = table.iter().find(is_of_key).and_then(|row| row.last());
            assert!(
                says.is_some_and(|says| says.contains(&default)),
                "{section:?}.{}: {default}, {says:?}",
                key.name
            );
        }
    }
}

#[test]
fn the_reference_mentions_every_key_of_sections_without_a_table() {
    for section in FileSection::iter_all() {
        let page = if section.is_test_section() { TESTS } else { REFERENCE };
        let tables = tables(page);
        let keys: BTreeSet<&str> = section.key_names().collect();
        let has_table = tables.iter().any(|table| names(table) == keys);
        if !WITHOUT_TABLE.contains(&section) {
            continue;
        }
        assert!(!has_table, "{section:?} has a table now");
        if section == FileSection::Defaults {
            // They are keys of agents, which have a table.
            continue;
        }
        for key in keys {
            let is_mentioned = [
                format!("`{key}`"),
                format!("`{key}:"),
                format!("{key}: "),
                format!("{key}:\n"),
            ];
            assert!(
                is_mentioned.iter().any(|form| page.contains(form.as_str())),
                "{section:?}.{key}"
            );
        }
    }
}

#[test]
fn the_reference_has_every_variable_and_no_other() {
    let tables = tables(REFERENCE);
    let other_names = ["agent_execution_count", "part"];
    for (words, mark) in [
        (&CONDITION_VARIABLES[..], "output"),
        (&TEMPLATE_VARIABLES[..], "transcript"),
    ] {
        let known: BTreeSet<&str> = words.iter().map(|word| word.name).collect();
        let is_of_variables = |table: &&Table| table[0][0] == "variable" && names(table).contains(mark);
        let table = tables.iter().find(is_of_variables).expect("a table of variables");
        let without = |names: BTreeSet<&'static str>| -> BTreeSet<&str> {
            names.into_iter().filter(|name| !other_names.contains(name)).collect()
        };
        assert_eq!(without(names(table)), without(known));
    }
}
