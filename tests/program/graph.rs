//! `graph` through the binary.

use crate::support::Workspace;

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
    n2[/\"asked<br/>input<br/>ends the conversation at execution 7\"/]
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
        "    n2 [label=\"asked\\ninput\\nends the conversation at execution 7\", shape=parallelogram];",
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

asked (input, ends the conversation at execution 7)

closing (ensemble)
  <-- asked: on failure
  o-- reviewer: on success or failure, if output.never == 1
  o.. writer: if output.never == 1

<-- listens to
o-- listens to one of these
<.. listens to (feedback)
o.. listens to one of these (feedback)
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
        &format!("run {id}: completed"),
        "writer (llm, at most 3 times, ran 2 times)",
        "  <.. reviewer: if output[\"ok\"] == false, at most 2 times, started once",
        "reviewer (script, at most 2 times, ran 2 times)",
        "  <-- writer: started 2 times",
        "asked (input, ends the conversation at execution 7, ran once)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("closing (ensemble, did not run: "), "{text}");
    let drawn = workspace.run(["graph", "team", "--run", &id]).expect_code(0).stdout;
    for piece in [
        "    class n3 idle\n",
        "    linkStyle 2,3,4 opacity:0.4\n",
        "    linkStyle 0,1 stroke-width:3px\n",
    ] {
        assert!(drawn.contains(piece), "{piece}{drawn}");
    }
    let dot = workspace
        .run(["graph", "--run", &id, "--format", "dot"])
        .expect_code(0)
        .stdout;
    for piece in [
        "n0 -> n1 [label=\"started 2 times\", penwidth=2];",
        "color=gray, fontcolor=gray];",
    ] {
        assert!(dot.contains(piece), "{piece}\n{dot}");
    }
}

#[test]
fn a_picture_of_its_own_needs_no_other_program() {
    let workspace = workspace();
    let drawn = workspace
        .run(["graph", "team", "--format", "svg"])
        .expect_code(0)
        .stdout;
    assert!(drawn.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ensemble-graph\" role=\"img\""));
    for piece in [
        "<title>team: who listens to whom</title>",
        ">writer</text>",
        "writer listens to reviewer (feedback): if output[&quot;ok&quot;] == false, at most 2 times</title>",
        "@media (prefers-color-scheme: dark)",
    ] {
        assert!(drawn.contains(piece), "{piece}\n{drawn}");
    }
    assert!(drawn.ends_with("</svg>\n"));
}

#[test]
fn failures_of_a_run_are_marked() {
    let workspace = Workspace::new();
    workspace.write(
        "mend.yaml",
        "
name: mend
agents:
  - name: fetch
    script: fetch.rhai
    dependencies: [{agent_name: repair, feedback: true}]
    conversation: {max_turns: 2}
  - {name: repair, script: repair.rhai, dependencies: [{agent_name: fetch, on: failure}]}
",
    );
    workspace.write("fetch.rhai", "if execution == 1 { throw \"no line\" } 1");
    workspace.write("repair.rhai", "2");
    workspace.run(["run", "mend"]).expect_code(0);
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let overlaid = |form: &str| {
        workspace
            .run(["graph", "--run", &id, "--format", form])
            .expect_code(0)
            .stdout
    };
    assert!(overlaid("ascii").contains("fetch (script, at most 2 times, ran 2 times, 1 failed)\n"));
    assert!(overlaid("mermaid").contains("    class n0 failed\n"));
    assert!(overlaid("dot").contains("ran 2 times, 1 failed\", shape=box, color=red];\n"));
    assert!(overlaid("svg").contains("<g class=\"agent failed\"><title>fetch, "));
}

#[test]
fn a_list_is_a_stack_with_the_counts_of_its_parts() {
    let workspace = Workspace::new();
    workspace.write(
        "map.yaml",
        "
name: map
agents:
  - {name: each, script: each.rhai, for_each: {in: [1, 2, 3], on_error: collect}}
  - {name: again, script: each.rhai, for_each: {in: \"outputs.each.items\"}, dependencies: [{agent_name: each, on: failure}]}
",
    );
    workspace.write("each.rhai", "if item == 2 { throw \"no\" } 1");
    workspace.run(["run", "map"]).expect_code(0);
    let drawn = |form: &str| {
        workspace
            .run(["graph", "--last", "--format", form])
            .expect_code(0)
            .stdout
    };
    let text = drawn("ascii");
    assert!(
        text.contains("each (script, for each of 3 items, ran once; 3 parts, 1 failed)\n"),
        "{text}"
    );
    assert!(
        text.contains("again (script, for each of outputs.each.items, did not run"),
        "{text}"
    );
    assert!(drawn("dot").contains("shape=box, peripheries=2"));
    assert!(
        drawn("mermaid").contains("n0[\"each<br/>script<br/>for each of 3 items<br/>ran once; 3 parts, 1 failed\"]")
    );
    let front = drawn("svg").matches("class=\"shape script\"").count();
    assert_eq!(front, 6, "each of the two stacks has three shapes");
}

#[test]
fn an_edited_file_shows_the_run_on_what_is_still_there() {
    let workspace = workspace();
    workspace.run(["run", "team", "-i", "x"]).expect_code(0);
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let edited = TEAM.replace(
        "reviewer.rhai, depends_on: [writer]",
        "reviewer.rhai, dependencies: [{agent_name: asked, feedback: true}, {agent_name: writer}]",
    );
    workspace.write("edited.yaml", &edited);
    let text = workspace
        .run(["graph", "edited.yaml", "--run", &id, "--format", "ascii"])
        .expect_code(0)
        .stdout;
    assert!(text.contains("  <.. asked\n  <-- writer: started 2 times\n"), "{text}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let workspace = workspace();
    workspace.write("bad.yaml", "name: bad\n");
    let outcome = workspace.run(["graph", "bad.yaml"]).expect_code(2);
    assert!(outcome.stderr.contains("error[E013]"), "{}", outcome.stderr);
    workspace.run(["graph"]).expect_code(2);
    workspace.run(["graph", "--run", "nope"]).expect_code(2);
    workspace.run(["graph", "team", "--format", "png"]).expect_code(2);
}
