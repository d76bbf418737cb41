//! Inputs of a run that goes on from another, or is decided again: by the same text, or by one that declares others.

use crate::support::{Outcome, Workspace};
use serde_json::{Value, json};

/// An agent that runs twice and tells its topic; another runs beside it only if the topic is a lake.
const AGENTS: &str = "agents:\n\
    \x20 - {name: one, script: show.rhai, conversation: {max_turns: 3, trigger: every_turn}}\n\
    \x20 - {name: two, script: show.rhai, dependencies: [{agent_name: one, condition: \"context.topic == 'lake'\"}]}\n\
    conversation_limits: {max_total_turns: 2, on_limit: succeed}\n";

/// A topic, and what else is declared.
fn declaring(more: &str) -> String {
    format!("name: a\ninputs:\n  topic: {{type: string}}\n{more}{AGENTS}")
}

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("free.yaml", format!("name: a\n{AGENTS}"));
    workspace.write("a.yaml", declaring(""));
    workspace.write("more.yaml", declaring("  rounds: {type: integer, default: 2}\n"));
    workspace.write("show.rhai", "#{ seen: inputs.topic, told: context.topic }");
    workspace
}

fn command(workspace: &Workspace, line: &str) -> Outcome {
    workspace.run(line.split(' '))
}

fn json_of(workspace: &Workspace, line: &str) -> Outcome {
    command(workspace, &format!("{line} --output json")).expect_code(0)
}

fn id(outcome: &Outcome) -> String {
    outcome.json()["run_id"].as_str().expect("an id").to_owned()
}

/// What each execution said of the topic, in order.
fn seen(outcome: &Outcome) -> Vec<Value> {
    let result = outcome.json();
    let history = result["conversation_history"].as_array().expect("a history");
    let said = |entry: &Value| {
        let output = &entry["output_data"];
        if !output["seen"].is_null() {
            assert_eq!(output["seen"], output["told"], "the inputs are in the context: {entry}");
        }
        output["seen"].clone()
    };
    history.iter().map(said).collect()
}

#[test]
fn a_text_that_declares_inputs_takes_them_from_the_context_of_the_run_before_and_from_set() {
    let workspace = workspace();
    let run = id(&json_of(&workspace, "run free.yaml --set topic=sea"));
    let last = |line: &str| seen(&json_of(&workspace, line)).pop().expect("an execution");
    let fork = format!("fork {run} --at-turn 1 --ensemble a.yaml");
    let topic = |line: &str| json_of(&workspace, line).json()["inputs"]["topic"].clone();
    assert_eq!(topic(&fork), "sea");
    assert_eq!(last(&format!("{fork} --set topic=lake")), "lake");
    assert_eq!(last(&format!("{fork} --set topic=3")), "3", "the text is meant");
    assert_eq!(last(&format!("rerun {run} --from one@2 --ensemble a.yaml")), "sea");
    command(&workspace, "replay --last").expect_code(0);
    // What a fork put into the context counts, too.
    let with = id(&json_of(&workspace, "run free.yaml"));
    let with = id(&json_of(
        &workspace,
        &format!("fork {with} --at-turn 1 --set topic=pond"),
    ));
    assert_eq!(topic(&format!("fork {with} --at-turn 1 --ensemble a.yaml")), "pond");
}

#[test]
fn set_gives_what_the_run_before_lacks_or_has_otherwise() {
    let workspace = workspace();
    for (given, wrong) in [
        ("", "the input `topic` is missing (string)"),
        (
            " --set topic=[1]",
            "the input `topic` does not match its schema: [1] is not of type",
        ),
    ] {
        let ran = command(&workspace, &format!("run free.yaml{given} --output json")).expect_code(0);
        let fork = format!("fork {} --at-turn 1 --ensemble a.yaml", id(&ran));
        let refused = command(&workspace, &fork).expect_code(2);
        assert!(refused.stderr.contains(wrong), "{}", refused.stderr);
        let forked = json_of(&workspace, &format!("{fork} --set topic=lake"));
        assert_eq!(seen(&forked).pop(), Some(json!("lake")));
        assert_eq!(forked.sequence(), ["1 one", "2 one", "2 two"]);
        command(&workspace, &format!("replay {}", id(&forked))).expect_code(0);
        let before_it_was_set = json_of(&workspace, &format!("fork {} --at-turn 0", id(&forked)));
        assert_eq!(seen(&before_it_was_set).pop(), Some(json!("lake")));
    }
}

#[test]
fn a_resumed_run_takes_declared_inputs_from_its_context() {
    let workspace = Workspace::new();
    let agents = "agents:\n  - {name: you, input: 'Well?'}\n  - {name: one, script: show.rhai, depends_on: [you]}\n";
    workspace.write("free.yaml", format!("name: a\n{agents}"));
    workspace.write(
        "a.yaml",
        format!("name: a\ninputs:\n  topic: {{type: string}}\n{agents}"),
    );
    workspace.write("show.rhai", "#{ seen: inputs.topic, told: context.topic }");
    let waiting = command(&workspace, "run free.yaml --set topic=sea --output json");
    let resume = format!("resume {} --ensemble a.yaml --answer you=yes", id(&waiting));
    let resumed = json_of(&workspace, &resume);
    assert_eq!(resumed.json()["final_state"]["seen"], "sea");
}

#[test]
fn what_a_fork_set_stays_in_a_fork_of_it() {
    let workspace = workspace();
    let run = id(&json_of(&workspace, "run a.yaml --set topic=sea"));
    for turn in [0, 1] {
        let set = id(&json_of(
            &workspace,
            &format!("fork {run} --at-turn {turn} --set topic=lake"),
        ));
        for at in turn..=1 {
            let forked = json_of(&workspace, &format!("fork {set} --at-turn {at}"));
            assert_eq!(
                seen(&forked).pop(),
                Some(json!("lake")),
                "set at {turn}, forked at {at}"
            );
            command(&workspace, &format!("replay {}", id(&forked))).expect_code(0);
            let forked = json_of(&workspace, &format!("fork {set} --at-turn {at} --set topic=pond"));
            assert_eq!(seen(&forked).pop(), Some(json!("pond")));
        }
    }
}

#[test]
fn the_turns_of_another_text_are_not_decided_again_in_a_fork_of_a_fork() {
    let workspace = workspace();
    workspace.write(
        "other.yaml",
        declaring("").replace("agents:\n", "agents:\n  - {name: zero, script: show.rhai}\n"),
    );
    let run = id(&json_of(&workspace, "run a.yaml --set topic=sea"));
    let edited = id(&json_of(
        &workspace,
        &format!("fork {run} --at-turn 1 --ensemble other.yaml"),
    ));
    let forked = id(&json_of(&workspace, &format!("fork {edited} --at-turn 2")));
    for run in [edited, forked] {
        command(&workspace, &format!("replay {run}")).expect_code(0);
    }
}

#[test]
fn an_added_input_keeps_what_was_executed() {
    let workspace = workspace();
    let one = "agents:\n\
        \x20 - {name: root, script: say.sh}\n\
        \x20 - {name: next, script: say.sh, depends_on: [root]}\n";
    let topic = "inputs:\n  topic: {type: string}\n";
    workspace.write("say.sh", "echo \"$ENSEMBLE_AGENT_NAME\" >> side.txt; echo '{}'");
    workspace.write("free.yaml", format!("name: a\n{one}"));
    workspace.write("a.yaml", format!("name: a\n{topic}{one}"));
    workspace.write("more.yaml", format!("name: a\n{topic}  rounds: {{default: 2}}\n{one}"));
    workspace.write(
        "other.yaml",
        format!("name: a\ninputs: {{rounds: {{default: 2}}}}\n{one}"),
    );
    for (from, to, executed) in [
        ("a.yaml", "more.yaml", ""),
        ("free.yaml", "a.yaml", ""),
        ("free.yaml", "other.yaml", ""),
        ("more.yaml", "a.yaml", "root\nnext\n"),
        ("a.yaml", "other.yaml", "root\nnext\n"),
    ] {
        let run = id(&json_of(&workspace, &format!("run {from} --set topic=sea")));
        workspace.write("side.txt", "");
        let forked = json_of(&workspace, &format!("fork {run} --at-turn 0 --ensemble {to}"));
        assert_eq!(workspace.read("side.txt"), executed, "from {from} to {to}");
        assert_eq!(forked.json()["final_state"]["topic"], "sea");
    }
}

#[test]
fn replay_by_another_text_gives_its_inputs_as_a_fork_does() {
    let workspace = workspace();
    let run = id(&json_of(&workspace, "run free.yaml --set topic=lake"));
    for condition in ["inputs.rounds == 2", "context.rounds == 2", "inputs.topic == 'lake'"] {
        let more = declaring("  rounds: {type: integer, default: 2}\n");
        workspace.write("more.yaml", more.replace("context.topic == 'lake'", condition));
        let replayed = command(&workspace, &format!("replay {run} --ensemble more.yaml")).expect_code(0);
        assert!(
            replayed.stdout.starts_with("✓ the same"),
            "{condition}: {}",
            replayed.stdout
        );
    }
    workspace.write("more.yaml", declaring("  rounds: {type: integer}\n"));
    let refused = command(&workspace, &format!("replay {run} --ensemble more.yaml")).expect_code(2);
    assert!(
        refused.stderr.contains("the input `rounds` is missing (integer)"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_fork_sets_inputs_and_what_the_context_has_and_nothing_else() {
    let workspace = workspace();
    let run = id(&json_of(&workspace, "run more.yaml --set topic=sea"));
    let started = workspace.runs().len();
    let refused = command(
        &workspace,
        &format!("fork {run} --at-turn 1 --set ronds=7 --set topic=3 --set tone=dry"),
    );
    let refused = refused.expect_code(2);
    for told in [
        "there is no input `ronds`; did you mean `rounds`?",
        "there is no input `tone`",
    ] {
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    assert_eq!(workspace.runs().len(), started, "no run was started");
    // An input that an edited text does not take any more is none, though the context has it.
    let fork = format!("fork {run} --at-turn 1 --ensemble a.yaml --set rounds=3");
    command(&workspace, &fork).expect_code(2);
    // What an agent said can be replaced.
    let forked = json_of(&workspace, &format!("fork {run} --at-turn 1 --set seen=pond"));
    assert_eq!(forked.sequence(), ["1 one", "2 one"]);
    json_of(
        &workspace,
        &format!("fork {run} --at-turn 1 --ensemble free.yaml --set anything=1"),
    );
}
