//! The forms of the designer over a real socket: keys of agents and of the file, and edits that are refused because they have no effect.

use crate::support::Workspace;
use crate::support::page::Page;
use serde_json::{Value, json};

const FILE: &str = "ensembles/e.yaml";
const TEXT: &str = "\
name: e # kept
agents:
  - name: writer
    model: simulated/x # kept too
    prompt: Write.
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(FILE, TEXT);
    workspace.write("ensembles/count.rhai", "#{ n: execution }");
    workspace
}

/// Returns the text after the edit, or why it is refused.
fn edited(page: &Page, text: &str, edit: &Value) -> Result<String, String> {
    let answer = page.post("/api/design/edit", &json!({"file": FILE, "text": text, "edit": edit}));
    let document = answer.json();
    if answer.status != 200 {
        return Err(document["error"]["message"].as_str().expect("a message").to_owned());
    }
    let edits = document["edits"].as_array().expect("edits");
    assert_eq!(edits.len(), 1);
    let at = |key: &str| usize::try_from(edits[0][key].as_u64().expect("a number")).expect("a place");
    let new = edits[0]["text"].as_str().expect("a text");
    Ok(format!("{}{new}{}", &text[..at("start")], &text[at("end")..]))
}

fn set(agent: Option<&str>, path: &[&str], value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({"do": "set_value", "agent": agent, "path": path, "value": value})
}

#[test]
fn a_loop_with_a_limit_is_built_from_nothing_without_touching_the_text() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let critic = json!({"do": "add_agent", "name": "critic", "kind": "model", "value": "simulated/y", "prompt": "Judge {{ writer.response }}", "listens_to": ["writer"]});
    let steps = [
        set(
            Some("writer"),
            &["prompt"],
            "Write about {{ inputs.topic }}. {{ critic.notes }}",
        ),
        json!({"do": "set_value", "path": ["inputs"], "yaml": "topic: {type: string, default: sea}"}),
        critic,
        set(
            Some("critic"),
            &["output_schema"],
            json!({"type": "object", "required": ["good"], "properties": {"good": {"type": "boolean"}, "notes": {"type": "string"}}}),
        ),
        set(Some("writer"), &["conversation", "max_turns"], 3),
        set(Some("critic"), &["conversation", "max_turns"], 3),
        json!({"do": "connect", "agent": "writer", "to": "critic", "condition": "not output.good", "feedback": true}),
        set(None, &["conversation_limits", "max_total_turns"], 6),
        json!({"do": "set_value", "path": ["result"], "yaml": "text: outputs.writer.response"}),
        json!({"do": "set_value", "path": ["success"], "value": "outputs.critic.good"}),
    ];
    let mut text = TEXT.to_owned();
    for step in &steps {
        let before = text.clone();
        // The prompt names an input and an agent that come later.
        let is_early = step == &steps[0];
        match edited(&page, &text, step) {
            Ok(new) => text = new,
            Err(why) if is_early => assert!(why.contains("inputs") || why.contains("critic"), "{why}"),
            Err(why) => panic!("{step}: {why}\n{before}"),
        }
    }
    text = edited(&page, &text, &steps[0]).expect("the names are known now");
    let loop_keys = "    conversation:\n      max_turns: 3\n    dependencies:\n      - agent_name: critic\n        condition: not output.good\n        feedback: true\n";
    for part in ["name: e # kept\n", "    model: simulated/x # kept too\n", loop_keys] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    workspace.write(FILE, &text);
    let found = workspace.run(["validate", FILE, "--format", "json"]).expect_code(0);
    assert!(!found.stdout.contains("\"error\""), "{}", found.stdout);
}

#[test]
fn an_edit_without_an_effect_is_refused_with_its_fix() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let two = format!("{TEXT}  - {{name: counter, script: count.rhai, depends_on: [writer]}}\n");
    let feedback = json!({"do": "connect", "agent": "writer", "to": "counter", "feedback": true});
    let any_of =
        json!({"do": "set_key", "agent": "counter", "at": 0, "to": "writer", "key": "max_executions", "value": 9});
    for (edit, parts) in [
        (
            feedback,
            ["runs only once", "set the agent's `conversation.max_turns` above 1"],
        ),
        (any_of, ["max_executions", "9"]),
        (set(Some("counter"), &["prompt"], "Count."), ["prompt", "script"]),
        (set(Some("counter"), &["config"], json!({"a": 1})), ["", ""]),
        (set(Some("writer"), &["script"], "count.rhai"), ["script", "model"]),
        (
            set(None, &["conversation_limits", "max_cost"], 1),
            ["max_cost", "price"],
        ),
        (
            set(None, &["conversation_limits", "max_total_turns"], 0),
            ["an integer of at least 1", "found the integer 0"],
        ),
        (
            set(Some("writer"), &["max_turns"], 3),
            ["`max_turns` of `writer`", "cannot be set here"],
        ),
        (
            set(Some("writer"), &["name"], "x"),
            ["`name` of `writer`", "cannot be set here"],
        ),
        (
            set(Some("writer"), &["prompt"], "Write."),
            ["`prompt` of `writer`", "already has this value"],
        ),
        (
            json!({"do": "set_value", "path": ["inputs"], "yaml": "a: [1"}),
            ["is not YAML", "line "],
        ),
    ] {
        let outcome = edited(&page, &two, &edit);
        if edit["path"] == json!(["config"]) {
            // A script reads all of its `parameters`.
            outcome.expect("an effect");
            continue;
        }
        let why = outcome.expect_err(&edit.to_string());
        assert!(parts.iter().all(|part| why.contains(part)), "{edit}: {why}");
    }
}

#[test]
fn the_forms_have_the_keys_of_the_language() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let keys = page.get("/api/design/keys");
    let find = |list: &Value, name: &str| -> Value {
        let mut keys = list.as_array().expect("keys").iter();
        keys.find(|key| key["name"] == name)
            .unwrap_or_else(|| panic!("{name}"))
            .clone()
    };
    assert_eq!(
        find(&keys["agent"], "prompt")["kinds"],
        json!(["llm", "ensemble", "acp"])
    );
    let turns = find(&find(&keys["agent"], "conversation")["inner"], "max_turns");
    assert_eq!(
        (&turns["schema"]["type"], &turns["schema"]["default"]),
        (&json!("integer"), &json!(1))
    );
    let choices = find(&find(&keys["agent"], "input")["inner"], "choices");
    assert_eq!(choices["schema"]["items"]["type"], "string");
    find(&find(&keys["file"], "conversation_limits")["inner"], "max_cost");
    find(&keys["dependency"], "requires_all");
    let found = page.done("/api/design/examine", &json!({"file": FILE, "text": TEXT}));
    assert_eq!(
        (&found["values"]["name"], &found["values"]["agents"]),
        (&json!("e"), &Value::Null)
    );
    let writer = &found["agents"][0];
    assert_eq!(
        (&writer["type"], &writer["values"]["prompt"]),
        (&json!("llm"), &json!("Write."))
    );
}

#[test]
fn keys_without_a_value_are_filled_by_the_forms() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let text = "name: e\ninputs: # of a run\nconversation_limits:\nagents:\n  - name: writer\n    model: simulated/x\n    prompt: # later\n    conversation:\n    depends_on:\n";
    let steps = [
        (
            set(Some("writer"), &["prompt"], "Write."),
            "    prompt: Write. # later\n",
        ),
        (
            set(Some("writer"), &["conversation", "max_turns"], 3),
            "    conversation:\n      max_turns: 3\n",
        ),
        (
            set(None, &["conversation_limits", "max_total_turns"], 6),
            "conversation_limits:\n  max_total_turns: 6\n",
        ),
        (
            set(None, &["inputs", "topic"], json!({"type": "string"})),
            "inputs: # of a run\n  topic:\n    type: string\n",
        ),
        (
            set(None, &["inputs", "topic", "default"], "the sea"),
            "    type: string\n    default: the sea\n",
        ),
    ];
    let mut now = text.to_owned();
    for (step, part) in &steps {
        now = edited(&page, &now, step).unwrap_or_else(|why| panic!("{step}: {why}\n{now}"));
        assert!(now.contains(part), "{part}\n{now}");
    }
    workspace.write(FILE, &now);
    workspace.run(["validate", FILE]).expect_code(0);
}

#[test]
fn inputs_have_rows_whose_keys_come_from_the_table() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let keys = page.get("/api/design/keys");
    let mut file_keys = keys["file"].as_array().expect("keys").iter();
    let inputs = file_keys.find(|key| key["name"] == "inputs").expect("inputs");
    let of_each = &inputs["schema"]["additionalProperties"]["properties"];
    for key in ["type", "default", "description", "enum", "minimum", "maximum"] {
        assert!(of_each[key]["description"].is_string(), "{key}: {of_each}");
    }
    // What does not fit is refused with its reason.
    let text = format!("{TEXT}inputs:\n  rounds:\n    type: integer\n    default: 2\n");
    for (edit, part) in [
        (
            set(None, &["inputs", "rounds", "default"], "two"),
            "the default of the input `rounds` does not match its schema",
        ),
        (
            set(None, &["inputs", "rounds", "type"], "string"),
            "the default of the input `rounds` does not match its schema",
        ),
        (
            set(None, &["inputs", "rounds", "typ"], "string"),
            "`inputs.rounds.typ` of the file cannot be set here",
        ),
        (
            set(None, &["inputs", "1st"], json!({})),
            "'1st' is not a valid name of an input",
        ),
    ] {
        let why = edited(&page, &text, &edit).expect_err(&edit.to_string());
        assert!(why.contains(part), "{edit}: {why}");
    }
    // An input that a prompt reads stays.
    let used = text.replace("prompt: Write.", "prompt: 'Write {{ inputs.rounds }}'");
    let why = edited(&page, &used, &set(None, &["inputs", "rounds"], Value::Null)).expect_err("it is used");
    assert!(why.contains("inputs.rounds") || why.contains("`rounds`"), "{why}");
}
