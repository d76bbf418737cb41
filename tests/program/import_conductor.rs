//! `import` of workflows of Conductor: the agents run in the order in which Conductor runs its steps.

use crate::support::Workspace;

/// A loop, a parallel group, a question to a person, a script with an exit code, and two ends.
const SHIP: &str = r#"
workflow:
  name: ship
  description: Writes and ships.
  entry_point: writer
  runtime: {provider: claude, default_model: claude-x}
  limits: {max_iterations: 20}
  input:
    topic: {type: string}
    length: {type: number, required: false}
agents:
  - name: writer
    prompt: "Write about {{ workflow.input.topic }}. {% if reviewer is defined %}{{ reviewer.output.notes }}{% endif %}"
    routes: [{to: reviewer}]
  - name: reviewer
    prompt: "Read {{ writer.output.result }}"
    output: {score: {type: number, minimum: 0}, notes: {type: string, nullable: true}}
    routes:
      - {to: checks, when: "{{ output.score >= 8 }}"}
      - {to: writer, when: "score < 8"}
      - {to: $end}
  - {name: style, prompt: Style., output: {ok: {type: boolean}}}
  - {name: facts, prompt: Facts.}
  - name: gate
    type: human_gate
    prompt: "Ship {{ checks.outputs.facts.result }}?"
    options:
      - {label: Yes please, value: ship, route: publish}
      - {label: No, value: revise, route: writer, prompt_for: why}
  - name: publish
    type: script
    command: test
    args: ["1", "=", "1"]
    routes:
      - {to: done, when: "exit_code == 0"}
      - {to: broken}
  - {name: done, type: terminate, status: success, reason: fine}
  - {name: broken, type: terminate, status: failed, reason: "it's over"}
  - {name: nowhere, prompt: Never.}
parallel:
  - {name: checks, agents: [style, facts], failure_mode: fail_fast, routes: [{to: gate}]}
output:
  text: "{{ writer.output.result }}"
  why: "{{ gate.output.additional_input.why | default('nothing') }}"
  line: "{{ reviewer.output.score }} points{% if gate is defined %}, asked{% endif %}"
"#;

/// The new file with simulated models that give these replies, one after the other.
fn simulated(workspace: &Workspace, name: &str, replies: &[(&str, &str)]) {
    let mut text = workspace.read(name);
    for (agent, replies) in replies {
        let at = text.find(&format!("- name: {agent}\n")).expect("the agent");
        let line = at + text[at..].find("model_profile: ").expect("its profile");
        let end = line + text[line..].find('\n').expect("a line");
        text.replace_range(line..end, &format!("model_profile: of-{agent}"));
        text.push_str(&format!("  of-{agent}: {{provider: simulated, replies: {replies}}}\n"));
    }
    workspace.write(name, &text);
}

fn shipped() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("old/ship.yaml", SHIP);
    let imported = workspace
        .run(["import", "old/ship.yaml", "-o", "ship.yaml"])
        .expect_code(1);
    assert!(
        imported
            .stderr
            .contains("the step `nowhere` is left out: no route leads to it")
            && imported.stderr.contains("old/ship.yaml:39:12")
            && imported.stderr.contains("1 thing to check"),
        "{}",
        imported.stderr
    );
    workspace
        .run(["validate", "ship.yaml", "--deny-warnings"])
        .expect_code(0);
    simulated(
        &workspace,
        "ship.yaml",
        &[
            ("writer", "[one, two]"),
            (
                "reviewer",
                r#"['{"score": 5, "notes": "more"}', '{"score": 9, "notes": null}']"#,
            ),
            ("style", r#"['{"ok": true}']"#),
            ("facts", "[all true]"),
        ],
    );
    workspace
}

#[test]
fn steps_run_in_the_order_of_the_routes() {
    let workspace = shipped();
    let arguments = [
        "run",
        "ship.yaml",
        "--set",
        "topic=tea",
        "--answer",
        "gate=ship",
        "--output",
        "json",
    ];
    let run = workspace.run(arguments).expect_code(0);
    assert_eq!(
        run.sequence(),
        [
            "1 writer",
            "2 reviewer",
            "3 writer",
            "4 reviewer",
            "5 style",
            "5 facts",
            "6 gate",
            "7 publish",
            "8 done"
        ]
    );
    let result = &run.json()["result"];
    assert_eq!(result["text"], "two");
    assert_eq!(result["why"], "nothing");
    assert_eq!(result["line"], "9 points, asked");
    assert_eq!(run.json()["inputs"]["length"], 0);
}

#[test]
fn the_answer_of_a_person_leads_back_with_its_text() {
    let workspace = shipped();
    workspace.write("answers.yaml", "gate: [revise, ship]\ngate-why: too short\n");
    let arguments = [
        "run",
        "ship.yaml",
        "--set",
        "topic=tea",
        "--answers",
        "answers.yaml",
        "--output",
        "json",
    ];
    let run = workspace.run(arguments).expect_code(0);
    let sequence = run.sequence();
    let tail: Vec<&str> = sequence[6..]
        .iter()
        .map(|one| one.split(' ').nth(1).unwrap_or_default())
        .collect();
    assert_eq!(
        tail,
        [
            "gate", "gate-why", "writer", "reviewer", "style", "facts", "gate", "publish", "done"
        ]
    );
    assert_eq!(run.json()["result"]["why"], "too short");
}

#[test]
fn an_exit_code_decides_the_route() {
    let workspace = Workspace::new();
    workspace.write(
        "old/ship.yaml",
        SHIP.replace("\"1\", \"=\", \"1\"", "\"1\", \"=\", \"2\""),
    );
    workspace
        .run(["import", "old/ship.yaml", "-o", "ship.yaml"])
        .expect_code(1);
    simulated(
        &workspace,
        "ship.yaml",
        &[
            ("writer", "[one]"),
            ("reviewer", r#"['{"score": 9, "notes": null}']"#),
            ("style", r#"['{"ok": true}']"#),
            ("facts", "[all true]"),
        ],
    );
    let arguments = [
        "run",
        "ship.yaml",
        "--set",
        "topic=tea",
        "--answer",
        "gate=ship",
        "--output",
        "json",
    ];
    let run = workspace.run(arguments).expect_code(1);
    assert_eq!(run.sequence().last().map(String::as_str), Some("6 broken"));
    let history = &run.json()["conversation_history"];
    let last = history.as_array().and_then(|all| all.last()).expect("an execution");
    assert!(last["error"].to_string().contains("it's over"), "{last}");
}

#[test]
fn lists_inner_workflows_and_computed_values_are_imported() {
    let workspace = Workspace::new();
    workspace.write(
        "old/outer.yaml",
        r#"
workflow:
  name: outer
  entry_point: slug
  runtime: {provider: claude, default_model: claude-x}
  input: {topic: {type: string}}
agents:
  - {name: slug, type: set, value: "{{ workflow.input.topic | upper }}-1", routes: [{to: finder}]}
  - name: finder
    prompt: Find.
    output: {names: {type: array, items: {type: string}}}
    routes: [{to: each}]
  - {name: pause, type: wait, duration: 10ms, routes: [{to: sum}]}
  - name: sum
    prompt: "{{ slug.output }}: {% for r in each.outputs %}{{ r.said }};{% endfor %}"
    routes: [{to: $end}]
for_each:
  - name: each
    type: for_each
    source: finder.output.names
    as: name
    failure_mode: continue_on_error
    agent: {name: one, type: workflow, workflow: ./inner.yaml, input_mapping: {who: "{{ name }} {{ _index }}"}}
    routes: [{to: pause}]
output:
  slug: "{{ slug.output }}"
  first: "{{ each.outputs[0].said }}"
  count: "{{ each.outputs | length }}"
"#,
    );
    workspace.write(
        "old/inner.yaml",
        r#"
workflow:
  name: inner
  entry_point: say
  input: {who: {type: string}}
agents:
  - {name: say, type: script, command: echo, args: ['{"heard": true}'], routes: [{to: $end}]}
output: {said: "hello {{ workflow.input.who }}"}
"#,
    );
    let imported = workspace.run(["import", "old", "-o", "new"]).expect_code(0);
    assert_eq!(
        imported.stdout,
        "wrote new/inner.yaml\nwrote new/outer.yaml\n2 files imported\n"
    );
    workspace.run(["validate", "new", "--deny-warnings"]).expect_code(0);
    simulated(
        &workspace,
        "new/outer.yaml",
        &[("finder", r#"['{"names": ["ann", "ben"]}']"#), ("sum", "[done]")],
    );
    let run = workspace
        .run(["run", "new/outer.yaml", "--set", "topic=tea", "--output", "json"])
        .expect_code(0);
    assert_eq!(run.sequence(), ["1 slug", "2 finder", "3 each", "4 pause", "5 sum"]);
    let result = &run.json()["result"];
    assert_eq!(result["slug"], "TEA-1");
    assert_eq!(result["first"], "hello ann 0");
    assert_eq!(result["count"], 2);
}

#[test]
fn the_program_of_a_file_can_be_named() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: a, script: echo a}\n");
    let refused = workspace
        .run(["import", "a.yaml", "--from", "conductor"])
        .expect_code(2);
    assert!(
        refused.stderr.contains("error: this is not a workflow of Conductor"),
        "{}",
        refused.stderr
    );
    workspace.run(["import", "a.yaml", "--from", "llm-orc"]).expect_code(0);
    workspace.run(["import", "a.yaml", "--from", "other"]).expect_code(2);
}
