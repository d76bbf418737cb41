//! Keys behind which nothing is written, and maps of named values.

use serde_json::json;

use super::*;

#[track_caller]
fn is(text: &str, command: &DesignCommand, expected: &str) {
    let new = edited(text, command).unwrap_or_else(|why| panic!("{command:?}: {why}\n{text}"));
    assert_eq!(new, expected, "{command:?}\n{new}");
}

#[test]
fn a_key_without_a_value_is_filled() {
    let turns = &["conversation", "max_turns"][..];
    for (text, path, value, expected) in [
        (
            "    conversation:\n",
            turns,
            json!(2),
            "    conversation:\n      max_turns: 2\n",
        ),
        (
            "    conversation: # how long\n    script: x\n",
            turns,
            json!(2),
            "    conversation: # how long\n      max_turns: 2\n    script: x\n",
        ),
        (
            "    conversation:\n\n    # about the script\n    script: x\n",
            turns,
            json!(2),
            "    conversation:\n      max_turns: 2\n\n    # about the script\n    script: x\n",
        ),
        (
            "    \"conversation\" :\n",
            turns,
            json!(2),
            "    \"conversation\" :\n      max_turns: 2\n",
        ),
        (
            "    conversation: ~ # none\n",
            turns,
            json!(2),
            "    conversation: {max_turns: 2} # none\n",
        ),
        (
            "    conversation:\n      max_turns: # soon\n    script: x\n",
            turns,
            json!(2),
            "    conversation:\n      max_turns: 2 # soon\n    script: x\n",
        ),
        (
            "    prompt:\n",
            &["prompt"][..],
            json!("Say: it # now"),
            "    prompt: \"Say: it # now\"\n",
        ),
        (
            "    prompt: # why\n    model: m\n",
            &["prompt"][..],
            json!("Go"),
            "    prompt: Go # why\n    model: m\n",
        ),
        ("    prompt: null\n", &["prompt"][..], json!("Go"), "    prompt: Go\n"),
        (
            "    tools:\n    model: m\n",
            &["tools"][..],
            json!(["a", "b"]),
            "    tools: [a, b]\n    model: m\n",
        ),
        (
            "    output_schema: # later\n    model: m\n",
            &["output_schema"][..],
            json!({"type": "object", "required": ["good"]}),
            "    output_schema: # later\n      type: object\n      required: [good]\n    model: m\n",
        ),
    ] {
        let agent = |keys: &str| format!("agents:\n  - name: a\n{keys}");
        for end in ["", "limits:\n"] {
            let around = |keys: &str| format!("{}{end}", agent(keys));
            is(&around(text), &set(Some("a"), path, value.clone()), &around(expected));
            let unended = around(text).trim_end().to_owned();
            let new =
                edited(&unended, &set(Some("a"), path, value.clone())).unwrap_or_else(|why| panic!("{why}\n{unended}"));
            assert_eq!(new.trim_end(), around(expected).trim_end());
        }
        let crlf = agent(text).replace('\n', "\r\n");
        is(
            &crlf,
            &set(Some("a"), path, value),
            &agent(expected).replace('\n', "\r\n"),
        );
    }
}

#[test]
fn a_key_without_a_value_is_filled_in_braces_and_first_in_an_item() {
    let turns = &["conversation", "max_turns"][..];
    for (text, path, value, expected) in [
        (
            "{name: a, conversation: , script: x}",
            turns,
            json!(2),
            "{name: a, conversation: {max_turns: 2} , script: x}",
        ),
        (
            "{name: a, conversation:, script: x}",
            turns,
            json!(2),
            "{name: a, conversation: {max_turns: 2}, script: x}",
        ),
        (
            "{name: a, conversation: }",
            turns,
            json!(2),
            "{name: a, conversation: {max_turns: 2} }",
        ),
        (
            "{name: a, conversation}",
            turns,
            json!(2),
            "{name: a, conversation: {max_turns: 2}}",
        ),
        (
            "{name: a, prompt: }",
            &["prompt"][..],
            json!("a, b"),
            "{name: a, prompt: \"a, b\" }",
        ),
        (
            "conversation:\n    name: a",
            turns,
            json!(2),
            "conversation:\n      max_turns: 2\n    name: a",
        ),
    ] {
        let file = |agent: &str| format!("agents:\n  - {agent}\nname: e\n");
        is(&file(text), &set(Some("a"), path, value), &file(expected));
    }
    let lists =
        "agents:\n  - name: a\n    script: x\n  - name: b\n    script: y\n    depends_on:\n    dependencies: ~\n";
    is(
        lists,
        &connect("b", "a", Some("output.n"), false),
        &lists.replace(
            "dependencies: ~",
            "dependencies: [{agent_name: a, condition: output.n}]",
        ),
    );
    let short = "agents: [{name: a, script: x}, {name: b, script: y, depends_on: }]\n";
    is(
        short,
        &connect("b", "a", None, false),
        &short.replace("depends_on: ", "depends_on: [a] "),
    );
    let block = "agents:\n  - name: a\n    script: x\n  - name: b\n    script: y\n    depends_on:\n";
    is(block, &connect("b", "a", None, false), &format!("{block}      - a\n"));
    let open = "agents:\n  - name: a\n    script: x\n  - name: b\n    script: y\n    dependencies:\n      - agent_name: a\n        condition:\n        max_executions:\n";
    is(
        open,
        &condition("b", 0, "a", Some("output.n > 1")),
        &open.replace("condition:", "condition: output.n > 1"),
    );
    is(
        open,
        &key("b", 0, "a", "max_executions", 3),
        &open.replace("max_executions:", "max_executions: 3"),
    );
}

#[test]
fn a_map_gets_more_keys_and_keeps_its_comments() {
    let text = "name: e\nmodel_profiles:\n  # the first\n  one:\n    provider: simulated # so far\n    replies:\nagents:\n  - {name: a, script: x}\n";
    let value = json!({"one": {"provider": "simulated", "replies": ["a"]}, "two": {"provider": "simulated"}, "three": {"provider": "ollama"}});
    let profiles = set(None, &["model_profiles"], value);
    is(
        text,
        &profiles,
        &text.replace(
            "    replies:\n",
            "    replies: [a]\n  two:\n    provider: simulated\n  three:\n    provider: ollama\n",
        ),
    );
    let braces = "agents:\n  - {name: a, script: x, config: {k: 1}} # kept\n";
    let one = set(Some("a"), &["config"], json!({"k": 1, "m": [2]}));
    is(braces, &one, &braces.replace("{k: 1}", "{k: 1, m: [2]}"));
    let two = set(Some("a"), &["config"], json!({"k": 2, "m": 3, "l": 4}));
    is(braces, &two, &braces.replace("{k: 1}", "{k: 2, m: 3, l: 4}"));
}

#[test]
fn keys_of_the_file_without_a_value_are_filled() {
    let text = "name: e\nconversation_limits: # none yet\ninputs:\nresult:\nagents:\n  - {name: a, script: x}\n";
    let limits = set(None, &["conversation_limits", "max_total_turns"], 4);
    is(
        text,
        &limits,
        &text.replace("# none yet\n", "# none yet\n  max_total_turns: 4\n"),
    );
    let result = set(None, &["result"], json!({"text": "outputs.a.n"}));
    is(
        text,
        &result,
        &text.replace("result:\n", "result:\n  text: outputs.a.n\n"),
    );
    let name = set(None, &["result"], "a");
    is(text, &name, &text.replace("result:\n", "result: a\n"));
}

#[test]
fn an_input_has_its_keys() {
    let text = "name: e\ninputs: # of a run\nagents:\n  - {name: a, script: x}\n";
    let kind = set(None, &["inputs", "topic", "type"], "string");
    let with = |keys: &str| text.replace("# of a run\n", &format!("# of a run\n  topic:\n{keys}"));
    let typed = with("    type: string\n");
    is(text, &kind, &typed);
    let default = set(None, &["inputs", "topic", "default"], "the sea");
    let preset = with("    type: string\n    default: the sea\n");
    is(&typed, &default, &preset);
    is(
        &preset,
        &set(None, &["inputs", "topic", "default"], Value::Null),
        &typed,
    );
    // An input without keys stays an input.
    is(
        &typed,
        &set(None, &["inputs", "topic", "type"], Value::Null),
        &text.replace("# of a run\n", "# of a run\n  topic:\n    {}\n"),
    );
    is(
        &typed,
        &set(None, &["inputs", "topic"], Value::Null),
        "name: e\n# of a run\nagents:\n  - {name: a, script: x}\n",
    );
    let any = "inputs: {topic: true, rounds: {type: integer}}\nagents: [{name: a, script: x}]\n";
    is(any, &kind, &any.replace("topic: true", "topic: {type: string}"));
    is(
        any,
        &set(None, &["inputs", "tone"], json!({"type": "string", "default": "dry"})),
        &any.replace("integer}}", "integer}, tone: {type: string, default: dry}}"),
    );
    for path in [
        &["inputs", "topic", "typ"][..],
        &["inputs", "topic", "default", "x"],
        &["result", "x"],
    ] {
        let refused = edited(any, &set(None, path, 1)).expect_err("it is no key");
        assert!(
            refused.ends_with("of the file cannot be set here; edit the text"),
            "{refused}"
        );
    }
}
