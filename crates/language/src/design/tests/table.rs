//! What exactly is written.

use super::*;

const BLOCK: &str = "\
name: e
agents:
  - name: a
    script: x # runs x
    # of a

  # about b
  - name: b
    script: y
    depends_on: [a]  # short

limits: 1
";

#[track_caller]
fn is(text: &str, command: &DesignCommand, expected: &str) {
    let new = edited(text, command).unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert_eq!(new, expected, "{command:?}\n{new}");
}

#[test]
fn an_agent_is_added_in_the_style_of_the_last_one() {
    let with = |new: &str| BLOCK.replace("# short\n", &format!("# short\n{new}"));
    is(BLOCK, &add("c", &[]), &with("\n  - name: c\n    script: x.rhai\n"));
    is(
        BLOCK,
        &add("c", &["a", "b"]),
        &with("\n  - name: c\n    script: x.rhai\n    depends_on: [a, b]\n"),
    );
    let model = DesignCommand::AddAgent {
        name: "c".to_owned(),
        kind: "model".to_owned(),
        value: "simulated/x".to_owned(),
        prompt: Some("Say: {{ input }}\nNow".to_owned()),
        listens_to: Vec::new(),
    };
    is(
        BLOCK,
        &model,
        &with("\n  - name: c\n    model: simulated/x\n    prompt: \"Say: {{ input }}\\nNow\"\n"),
    );
    let input = DesignCommand::AddAgent {
        name: "c".to_owned(),
        kind: "input".to_owned(),
        value: "Is it good?".to_owned(),
        prompt: None,
        listens_to: vec!["b".to_owned()],
    };
    is(
        BLOCK,
        &input,
        &with("\n  - name: c\n    input:\n      prompt: Is it good?\n    depends_on: [b]\n"),
    );
    for (text, expected) in [
        (
            "agents:\n- {name: a, script: x} # a",
            "agents:\n- {name: a, script: x} # a\n- {name: c, script: x.rhai}",
        ),
        (
            "agents: [{name: a, script: x}]\n",
            "agents: [{name: a, script: x}, {name: c, script: x.rhai}]\n",
        ),
        (
            "agents: [\r\n  {name: a, script: x} # a\r\n]\r\n",
            "agents: [\r\n  {name: a, script: x}, # a\r\n  {name: c, script: x.rhai}\r\n]\r\n",
        ),
        ("agents: []\n", "agents: [{name: c, script: x.rhai}]\n"),
        (
            "agents: # none\nname: e\n",
            "agents: # none\n  - name: c\n    script: x.rhai\nname: e\n",
        ),
        (
            "name: e # e\n",
            "name: e # e\nagents:\n  - name: c\n    script: x.rhai\n",
        ),
        (
            "agents:\n  - name: a\n    prompt: |+\n      x\n\nname: e\n",
            "agents:\n  - name: a\n    prompt: |+\n      x\n\n  - name: c\n    script: x.rhai\nname: e\n",
        ),
    ] {
        is(text, &add("c", &[]), expected);
    }
}

#[test]
fn an_agent_is_removed_with_what_names_it() {
    let text = "\
name: e
agents:
  # the first
  - name: a # is a
    script: x
    # of a

  - name: b
    script: y
    depends_on: [a]

  - name: c
    script: z
    depends_on:
      - b
      - a # too
    dependencies: []
conversation_limits:
  max_total_turns: 3
  max_agent_executions: {a: 2}
";
    let expected = "\
name: e
agents:
  # the first
  # is a
    # of a

  - name: b
    script: y

  - name: c
    script: z
    depends_on:
      - b
      # too
    dependencies: []
conversation_limits:
  max_total_turns: 3
";
    is(text, &remove("a"), expected);
    is(
        "agents:\n- {name: a, script: x}\n- {name: b, script: y, depends_on: [a], dependencies: [{agent_name: a, condition: x && !y}, {agent_name: c}]}\n- {name: c, script: z}\n",
        &remove("a"),
        "agents:\n- {name: b, script: y, dependencies: [{agent_name: c}]}\n- {name: c, script: z}\n",
    );
    is(
        "agents:\n  - name: a\n    script: x\n\n  - name: b\n    script: y\nname: e\n",
        &remove("b"),
        "agents:\n  - name: a\n    script: x\nname: e\n",
    );
    is(
        "agents:\n  - name: a\n    script: x\n\n  - name: b\n    script: y\n\nname: e\n",
        &remove("b"),
        "agents:\n  - name: a\n    script: x\n\nname: e\n",
    );
}

#[test]
fn a_dependency_is_added_where_the_others_are() {
    let of_a = |new: &str| BLOCK.replace("    # of a\n", &format!("    # of a\n{new}"));
    is(BLOCK, &connect("a", "b", None, false), &of_a("    depends_on: [b]\n"));
    is(
        BLOCK,
        &connect("a", "b", Some(" output.n > 1 "), true),
        &of_a("    dependencies:\n      - agent_name: b\n        condition: output.n > 1\n        feedback: true\n"),
    );
    for (list, to, condition, expected) in [
        ("depends_on: [a]", "c", None, "depends_on: [a, c]"),
        ("depends_on:\n  - a # a", "c", None, "depends_on:\n  - a # a\n  - c"),
        (
            "dependencies:\n  - agent_name: a",
            "c",
            None,
            "dependencies:\n  - agent_name: a\n  - agent_name: c",
        ),
        (
            "dependencies: [{agent_name: a}]",
            "c",
            Some("x in ['y', 'z']"),
            "dependencies: [{agent_name: a}, {agent_name: c, condition: \"x in ['y', 'z']\"}]",
        ),
        (
            "dependencies:\n  - {agent_name: a}",
            "c",
            Some("output == 'y'"),
            "dependencies:\n  - {agent_name: a}\n  - {agent_name: c, condition: output == 'y'}",
        ),
    ] {
        let text = |list: &str| {
            let list = list.replace('\n', "\n  ");
            format!("agents:\n- {{name: a, script: x}}\n- name: b\n  {list}\n  script: y\n- {{name: c, script: z}}\n")
        };
        is(&text(list), &connect("b", to, condition, false), &text(expected));
    }
}

#[test]
fn a_condition_is_written_in_its_style() {
    for (item, new, expected) in [
        (
            "{agent_name: a}",
            Some("output.n"),
            "{agent_name: a, condition: output.n}",
        ),
        (
            "{agent_name: a, condition: x, feedback: true}",
            None,
            "{agent_name: a, feedback: true}",
        ),
        (
            "{agent_name: a, condition: x}",
            Some("y, z"),
            "{agent_name: a, condition: \"y, z\"}",
        ),
        (
            "agent_name: a # a",
            Some("x == 'y'"),
            "agent_name: a # a\n    condition: x == 'y'",
        ),
        (
            "agent_name: a\n    condition: 'it' # c",
            Some("'x' == y"),
            "agent_name: a\n    condition: '''x'' == y' # c",
        ),
        (
            "agent_name: a\n    condition: \"it\"",
            Some("'x' == \"y\""),
            "agent_name: a\n    condition: \"'x' == \\\"y\\\"\"",
        ),
        (
            "agent_name: a\n    condition: x # c",
            Some("true"),
            "agent_name: a\n    condition: \"true\" # c",
        ),
        (
            "agent_name: a\n    condition: x",
            Some("y: z"),
            "agent_name: a\n    condition: \"y: z\"",
        ),
        ("agent_name: a\n    condition: x # c", None, "agent_name: a\n    # c"),
        (
            "agent_name: a\n    condition: |\n      x\n      y",
            Some("z"),
            "agent_name: a\n    condition: z",
        ),
    ] {
        let text = |item: &str| {
            format!("agents:\n- {{name: a, script: x}}\n- name: b\n  script: y\n  dependencies:\n  - {item}\n")
        };
        is(&text(item), &condition("b", 0, "a", new), &text(expected));
    }
    for (lists, expected) in [
        ("depends_on: [a]", "dependencies: [{agent_name: a, condition: x}]"),
        (
            "depends_on:\n  - a # a",
            "dependencies:\n  - {agent_name: a, condition: x} # a",
        ),
        (
            "depends_on: [a, c]",
            "depends_on: [c]\n  dependencies:\n    - agent_name: a\n      condition: x",
        ),
        (
            "depends_on: [a]\n  dependencies:\n  - agent_name: c",
            "dependencies:\n  - agent_name: c\n  - agent_name: a\n    condition: x",
        ),
    ] {
        let text = |lists: &str| {
            format!("agents:\n- {{name: a, script: x}}\n- {{name: c, script: x}}\n- name: b\n  script: y\n  {lists}\n")
        };
        is(&text(lists), &condition("b", 0, "a", Some("x")), &text(expected));
    }
}

#[test]
fn a_key_of_a_dependency_is_written_where_it_is_not_the_default() {
    for (lists, name, value, expected) in [
        (
            "depends_on: [a] # short",
            "feedback",
            Value::from(true),
            "dependencies: [{agent_name: a, feedback: true}] # short",
        ),
        (
            "depends_on:\n  - a # a",
            "on",
            "failure".into(),
            "dependencies:\n  - {agent_name: a, on: failure} # a",
        ),
        (
            "depends_on: [a, c]",
            "feedback",
            true.into(),
            "depends_on: [c]\n  dependencies:\n    - agent_name: a\n      feedback: true",
        ),
        (
            "dependencies:\n  - agent_name: a # a\n    condition: x",
            "feedback",
            true.into(),
            "dependencies:\n  - agent_name: a # a\n    condition: x\n    feedback: true",
        ),
        (
            "dependencies:\n  - agent_name: a\n    feedback: true # loop\n    condition: x",
            "feedback",
            false.into(),
            "dependencies:\n  - agent_name: a\n    # loop\n    condition: x",
        ),
        (
            "dependencies: [{agent_name: a, feedback: false}]",
            "feedback",
            true.into(),
            "dependencies: [{agent_name: a, feedback: true}]",
        ),
        (
            "dependencies:\n  - agent_name: a\n    on: 'any' # c",
            "on",
            "failure".into(),
            "dependencies:\n  - agent_name: a\n    on: failure # c",
        ),
        (
            "dependencies: [{agent_name: a}]",
            "wait_for",
            "settled".into(),
            "dependencies: [{agent_name: a, wait_for: settled}]",
        ),
        (
            "dependencies: [{agent_name: a, max_executions: 2}]",
            "max_executions",
            3.into(),
            "dependencies: [{agent_name: a, max_executions: 3}]",
        ),
        (
            "dependencies: [{agent_name: a, max_executions: 2}]",
            "max_executions",
            Value::Null,
            "dependencies: [{agent_name: a}]",
        ),
        (
            "dependencies:\n  - agent_name: a",
            "max_executions",
            1.into(),
            "dependencies:\n  - agent_name: a\n    max_executions: 1",
        ),
    ] {
        let text = |lists: &str| {
            format!("agents:\n- {{name: a, script: x}}\n- {{name: c, script: x}}\n- name: b\n  script: y\n  {lists}\n")
        };
        is(&text(lists), &key("b", 0, "a", name, value), &text(expected));
    }
}

#[test]
fn a_dependency_is_removed_with_an_empty_list() {
    is(
        BLOCK,
        &disconnect("b", 0, "a"),
        &BLOCK.replace("    depends_on: [a]  # short\n", "    # short\n"),
    );
    let text = |lists: &str| format!("agents:\n- {{name: a, script: x}}\n- name: b\n  script: y\n  {lists}\n");
    for (lists, at, expected) in [
        ("depends_on: [a, c]", 0, "depends_on: [c]"),
        ("depends_on: [c, a]", 1, "depends_on: [c]"),
        (
            "depends_on: [c]\n  dependencies: [{agent_name: a}]",
            1,
            "depends_on: [c]",
        ),
        (
            "dependencies:\n  - agent_name: a\n    condition: x\n  - agent_name: c",
            0,
            "dependencies:\n  - agent_name: c",
        ),
    ] {
        is(&text(lists), &disconnect("b", at, "a"), &text(expected));
    }
}

#[test]
fn what_cannot_be_done_is_told() {
    let merged = "x: &x {depends_on: [a]}\nagents:\n- {name: a, script: x}\n- {<<: *x, name: b, script: y}\n";
    for (text, command, expected) in [
        (BLOCK, add("a", &[]), "an agent `a` already exists; choose another name"),
        (BLOCK, add("-", &[]), "`-` cannot be the name of an agent"),
        (BLOCK, add("c", &["z"]), "there is no agent `z`"),
        (BLOCK, remove("z"), "there is no agent `z`"),
        ("agents: [{name: a}]", remove("a"), "`a` is the only agent"),
        (
            "agents: [{name: a}, {name: a}]",
            remove("a"),
            "two agents have the name `a`",
        ),
        (BLOCK, connect("b", "a", None, false), "`b` already listens to `a`"),
        (
            BLOCK,
            condition("b", 0, "a", None),
            "`b` already listens to `a` without a condition",
        ),
        (BLOCK, condition("b", 0, "a", Some(" ")), "the condition is blank"),
        (
            BLOCK,
            key("b", 0, "a", "feedback", false),
            "`feedback` of the dependency of `b` on `a` already has this value",
        ),
        (
            BLOCK,
            key("b", 0, "a", "feedback", "yes"),
            "`feedback` is true or false, not \"yes\"",
        ),
        (
            BLOCK,
            key("b", 0, "a", "on", "error"),
            "`on` is success or failure or any, not \"error\"",
        ),
        (
            BLOCK,
            key("b", 0, "a", "max_executions", 0),
            "`max_executions` is a whole number of at least 1, not 0",
        ),
        (
            BLOCK,
            key("b", 0, "a", "condition", "x"),
            "`condition` of a dependency cannot be set here",
        ),
        (
            BLOCK,
            key("b", 0, "b", "feedback", true),
            "dependency 1 of `b` is not on `b`",
        ),
        (BLOCK, disconnect("b", 0, "b"), "dependency 1 of `b` is not on `b`"),
        (BLOCK, disconnect("b", 7, "a"), "dependency 8 of `b` is not on `a`"),
        ("agents: [\n", remove("a"), "while it is not YAML: line"),
        ("agents: x\n", add("a", &[]), "`agents` is not a list"),
        (merged, disconnect("b", 0, "a"), "without changing something else"),
        (
            "agents: [{name: a, x: &x 1}, {name: b, x: *x}]",
            remove("a"),
            "without changing something else",
        ),
    ] {
        let why = edited(text, &command).expect_err("it cannot be done");
        assert!(why.contains(expected), "{command:?}: {why}");
    }
}

#[test]
fn a_key_of_an_agent_or_of_the_file_is_set_where_it_is_missing_and_changed_where_it_is() {
    let turns = &["conversation", "max_turns"];
    let with = |new: &str| {
        BLOCK.replace(
            "    depends_on: [a]  # short\n",
            &format!("    depends_on: [a]  # short\n{new}"),
        )
    };
    let once = with("    conversation:\n      max_turns: 3\n");
    is(BLOCK, &set(Some("b"), turns, 3), &once);
    is(
        &once,
        &set(Some("b"), turns, 4),
        &once.replace("max_turns: 3", "max_turns: 4"),
    );
    is(&once, &set(Some("b"), turns, Value::Null), BLOCK);
    is(
        BLOCK,
        &set(Some("a"), &["script"], "z"),
        &BLOCK.replace("script: x #", "script: z #"),
    );
    let file = set(None, &["default_task"], "Go");
    is(
        BLOCK,
        &file,
        &BLOCK.replace("limits: 1\n", "limits: 1\ndefault_task: Go\n"),
    );
    let short = "agents:\n  - {name: a, input: 'Good?'}\n";
    let long = "agents:\n  - {name: a, input: {prompt: Good?, default: \"yes\"}}\n";
    is(short, &set(Some("a"), &["input", "default"], "yes"), long);
    for (path, value, why) in [
        (
            &["max_turns"][..],
            Value::from(3),
            "`max_turns` of `a` cannot be set here; edit the text",
        ),
        (&["name"], "x".into(), "`name` of `a` cannot be set here; edit the text"),
        (
            &["depends_on"],
            "b".into(),
            "`depends_on` of `a` cannot be set here; edit the text",
        ),
        (
            &["script", "x"],
            "b".into(),
            "`script.x` of `a` cannot be set here; edit the text",
        ),
        (&["script"], "x".into(), "`script` of `a` already has this value"),
        (&["prompt"], Value::Null, "`prompt` of `a` already has this value"),
    ] {
        let refused = edited(BLOCK, &set(Some("a"), path, value)).expect_err("it is refused");
        assert_eq!(refused, why);
    }
    let refused = edited(BLOCK, &set(None, &["agents"], "x")).expect_err("it is refused");
    assert_eq!(refused, "`agents` of the file cannot be set here; edit the text");
}

#[test]
fn whether_a_dependency_must_hold_is_set() {
    let with = |keys: &str| BLOCK.replace("depends_on: [a]", &format!("dependencies: [{{agent_name: a{keys}}}]"));
    let any_of = with(", requires_all: false");
    is(BLOCK, &key("b", 0, "a", "requires_all", false), &any_of);
    is(&any_of, &key("b", 0, "a", "requires_all", true), &with(""));
}
