//! `graph` through the binary.

mod support;

use support::Workspace;

const TEAM: &str = r#"
name: team
agents:
  - name: writer
    model_profile: m
    dependencies:
      - {agent_name: reviewer, feedback: true, condition: 'output["ok"] == false', max_executions: 2}
    conversation: {max_turns: 3}
  - {name: reviewer, script: reviewer.rhai, depends_on: [writer], conversation: {max_turns: 2}}
  - {name: asked, input: {prompt: Well?, default: fine}}
  - name: closing
    ensemble: other
    dependencies:
      - {agent_name: asked, on: failure}
      - {agent_name: reviewer, requires_all: false, on: any, condition: output.never == 1}
      - {agent_name: writer, requires_all: false, feedback: true, condition: output.never == 1}
model_profiles:
  m: {provider: simulated, replies: [a]}
conversation_limits: {max_agent_executions: {asked: 7}}
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    workspace.write(
        "other.yaml",
        "name: other\nagents: [{name: a, script: reviewer.rhai}]\n",
    );
    workspace.write("reviewer.rhai", "#{ ok: execution > 1, never: 0 }");
    workspace
}

#[test]
fn mermaid_is_the_default() {
    let expected = "\
---
title: \"team\"
---
flowchart TD
    n0([\"writer<br/>llm<br/>at most 3 times\"])
    n1[\"reviewer<br/>script<br/>at most 2 times\"]
    n2[/\"asked<br/>input<br/>ends the conversation at 7\"/]
    n3[[\"closing<br/>ensemble\"]]
    n1 -.->|\"if output[#quot;ok#quot;] == false<br/>at most 2 times\"| n0
    n0 --> n1
    n2 -->|\"on failure\"| n3
    n1 --o|\"on success or failure<br/>if output.never == 1\"| n3
    n0 -.-o|\"if output.never == 1\"| n3
";
    let workspace = workspace();
    assert_eq!(workspace.run(["graph", "team"]).expect_code(0).stdout, expected);
}

#[test]
fn dot_tells_kinds_and_edges_apart() {
    let workspace = workspace();
    let dot = workspace
        .run(["graph", "team.yaml", "--format", "dot"])
        .expect_code(0)
        .stdout;
    for line in [
        "digraph \"team\" {",
        "    n0 [label=\"writer\\nllm\\nat most 3 times\", shape=box, style=\"rounded\"];",
        "    n2 [label=\"asked\\ninput\\nends the conversation at 7\", shape=parallelogram];",
        "    n1 -> n0 [label=\"if output[\\\"ok\\\"] == false\\nat most 2 times\", style=dashed, constraint=false];",
        "    n0 -> n1 [];",
        "    n2 -> n3 [label=\"on failure\"];",
        "    n1 -> n3 [label=\"on success or failure\\nif output.never == 1\", arrowhead=odot];",
        "}",
    ] {
        assert!(dot.lines().any(|found| found == line), "{line}\n{dot}");
    }
}

#[test]
fn plain_text_lists_whom_each_agent_listens_to() {
    let expected = "\
team

writer (llm, at most 3 times)
  <.. reviewer: if output[\"ok\"] == false, at most 2 times

reviewer (script, at most 2 times)
  <-- writer

asked (input, ends the conversation at 7)

closing (ensemble)
  <-- asked: on failure
  o-- reviewer: on success or failure, if output.never == 1
  o.. writer: if output.never == 1

<-- listens to
o-- listens to one of these
<.. listens back to (feedback)
o.. listens back to one of these (feedback)
";
    let workspace = workspace();
    let text = workspace
        .run(["graph", "team", "--format", "ascii"])
        .expect_code(0)
        .stdout;
    assert_eq!(text, expected);
}

#[test]
fn a_run_is_laid_over_the_picture() {
    let workspace = workspace();
    workspace.run(["run", "team", "-i", "x"]).expect_code(0);
    let runs = workspace.runs();
    let id = runs[0].file_name().expect("a name").to_string_lossy().into_owned();
    let text = workspace
        .run(["graph", "--run", &id, "--format", "ascii"])
        .expect_code(0)
        .stdout;
    for line in [
        "writer (llm, at most 3 times, ran 2 times)",
        "reviewer (script, at most 2 times, ran 2 times)",
        "asked (input, ends the conversation at 7, ran once)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("closing (ensemble, did not run: "), "{text}");
    let drawn = workspace.run(["graph", "team", "--run", &id]).expect_code(0).stdout;
    assert!(drawn.contains("    class n3 idle\n"), "{drawn}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let workspace = workspace();
    workspace.write("bad.yaml", "name: bad\n");
    let outcome = workspace.run(["graph", "bad.yaml"]).expect_code(2);
    assert!(outcome.stderr.contains("error[E013]"), "{}", outcome.stderr);
    workspace.run(["graph"]).expect_code(2);
    workspace.run(["graph", "--run", "nope"]).expect_code(2);
    workspace.run(["graph", "team", "--format", "svg"]).expect_code(2);
}
