//! The budget of a conversation: which messages share it, and what is left of it.

use serde_json::{Value, json};

use super::ui_chat::{complete, reply, request};
use crate::support::acp_client::Client;
use crate::support::page::Page;
use crate::support::terminal::Terminal;
use crate::support::{Workspace, eventually};

/// Each message of eight characters and its reply cost four tokens, each at a price of 1.
fn workspace(limits: &str) -> Workspace {
    let workspace = Workspace::new();
    write_ensemble(&workspace, "a.yaml", limits);
    workspace
}

fn write_ensemble(workspace: &Workspace, name: &str, limits: &str) {
    workspace.write(
        name,
        format!(
            "name: a\nconversation_limits: {{{limits}}}\nagents: [{{name: a, model_profile: m, prompt: \"{{{{ input }}}}\", conversation: \
             {{memory: none}}}}]\nmodel_profiles: {{m: {{provider: simulated, replies: [aaaaaaaa], cost: {{input_per_million: 1000000, \
             output_per_million: 1000000}}}}}}\n"
        ),
    );
}

const MESSAGE: &str = "12345678";

fn continued(workspace: &Workspace, code: i32) -> Value {
    let outcome = workspace.run(["continue", "--last", MESSAGE, "--output", "json"]);
    outcome.expect_code(code).json()
}

#[test]
fn acp_budgets_of_tokens_and_cost_are_those_of_the_whole_conversation() {
    for (limit, left) in [
        ("max_total_tokens: 7", "remaining_tokens"),
        ("max_cost: 7", "remaining_cost"),
    ] {
        let workspace = workspace(limit);
        let first = workspace.run(["run", "a.yaml", "--input", MESSAGE, "--output", "json"]);
        let first = first.expect_code(0).json();
        assert_eq!(first["budget"][left].as_f64(), Some(3.0), "{}", first["budget"]);
        assert_eq!(first["budget"]["scope"], "conversation");
        let second = continued(&workspace, 0);
        assert_eq!(second["budget"][left].as_f64(), Some(0.0), "{}", second["budget"]);

        let third = continued(&workspace, 4);
        assert_eq!(third["completion_reason"], "token_budget");
        assert_eq!(third["usage"]["requests"], 2, "nothing is paid");
        let detail = third["detail"].as_str().expect("a sentence");
        assert!(
            detail.contains("8") && detail.contains("in the whole conversation; no agent received the new message"),
            "{detail}"
        );
        let told = workspace.run(["continue", "--last", MESSAGE]).expect_code(4).stderr;
        assert!(told.contains("in the whole conversation"), "{told}");
        assert!(told.contains("0 of "), "{told}");
        assert!(told.contains("--ensemble FILE"), "{told}");
        let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
        assert!(shown.contains("budget: 0 of "), "{shown}");
        assert!(
            shown.contains("continue with a higher limit in FILE: ensemble continue ")
                && shown.contains(" --ensemble FILE"),
            "{shown}"
        );
        assert!(!shown.contains("continue with a new message"), "{shown}");
        let shown = workspace
            .run(["runs", "show", "--last", "--output", "json"])
            .expect_code(0)
            .json();
        assert_eq!(shown["budget"][left].as_f64(), Some(0.0), "{}", shown["budget"]);
        workspace.run(["replay", "--last"]).expect_code(0);
        workspace.run(["resume", "--last"]).expect_code(4);
        workspace.run(["fork", "--last", "--at-turn", "2"]).expect_code(0);

        write_ensemble(&workspace, "more.yaml", &limit.replace('7', "99"));
        let more = workspace.run([
            "continue",
            "--last",
            MESSAGE,
            "--ensemble",
            "more.yaml",
            "--output",
            "json",
        ]);
        let more = more.expect_code(0).json();
        assert_eq!(more["budget"][left].as_f64(), Some(87.0), "{}", more["budget"]);
        workspace.run(["replay", "--last"]).expect_code(0);
    }
}

#[test]
fn a_budget_of_each_message_starts_again() {
    let workspace = workspace("max_total_tokens: 7, budget: message");
    workspace.run(["run", "a.yaml", "--input", MESSAGE]).expect_code(0);
    for _ in 0..3 {
        let result = continued(&workspace, 0);
        assert_eq!(
            result["budget"],
            json!({"scope": "message", "max_total_tokens": 7, "remaining_tokens": 3})
        );
    }
    let told = workspace.run(["continue", "--last", MESSAGE]).expect_code(0).stderr;
    assert!(told.contains("3 of 7 tokens are left for this message"), "{told}");
    let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
    assert!(
        shown.contains("budget: 3 of 7 tokens are left for this message"),
        "{shown}"
    );
    assert!(shown.contains("continue with a new message"), "{shown}");
}

#[test]
fn a_fork_pays_from_the_budget_for_the_turns_that_it_shares() {
    let workspace = workspace("max_total_tokens: 7");
    workspace.run(["run", "a.yaml", "--input", MESSAGE]).expect_code(0);
    continued(&workspace, 0);
    let forked = workspace.run(["fork", "--last", "--at-turn", "1", "--output", "json"]);
    let forked = forked.expect_code(0).json();
    assert_eq!(forked["budget"]["remaining_tokens"], 3);
    continued(&workspace, 0);
    continued(&workspace, 4);
}

#[test]
fn the_usage_of_an_abandoned_turn_counts() {
    for (more, code) in [("", 4), (", budget: message", 0)] {
        let workspace = Workspace::new();
        workspace.write(
            "a.yaml",
            format!(
                "name: a\nconversation_limits: {{max_total_tokens: 3{more}}}\nagents: [{{name: a, model_profile: m, tools: [hang], prompt: \"{{{{ \
                 input }}}}\", conversation: {{memory: none}}}}]\nmodel_profiles: {{m: {{provider: simulated, replies: [{{text: aaaaaaaa, \
                 tool_calls: [{{name: hang}}]}}, a]}}}}\ntools: {{hang: {{script: hang.sh, parameters: {{type: object}}}}}}\n"
            ),
        );
        workspace.write("hang.sh", "echo x > under_way\nsleep 300");
        let running = workspace.spawn(["run", "a.yaml", "--input", MESSAGE]);
        eventually("the tool", || workspace.path().join("under_way").exists().then_some(()));
        running.signal("INT");
        running.finish().expect_code(130);
        let result = workspace
            .run(["continue", "--last", "1", "--output", "json"])
            .expect_code(code);
        let requests = result.json()["usage"]["requests"].clone();
        assert_eq!(requests, if code == 4 { 1 } else { 2 });
    }
}

#[test]
fn a_chat_says_when_little_of_its_budget_is_left_and_goes_on_to_its_end() {
    let workspace = workspace("max_total_tokens: 9");
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in(&format!("{MESSAGE}\n"));
    terminal.wait_for("aaaaaaaa");
    terminal.wait_for("> ");
    terminal.type_in(&format!("{MESSAGE}\n"));
    terminal.wait_for("budget: 1 of 9 tokens are left for this conversation");
    terminal.wait_for("> ");
    terminal.type_in(&format!("{MESSAGE}\n"));
    terminal.wait_for("> ");
    terminal.type_in(&format!("{MESSAGE}\n"));
    terminal.wait_for("no agent received the new message");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    let (code, _) = terminal.finish();
    assert_eq!(code, 4);

    let workspace = self::workspace("max_total_tokens: 9");
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("> ");
    terminal.type_in(&format!("{MESSAGE}\n"));
    terminal.wait_for("aaaaaaaa");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0);
    assert!(!text.contains("left"), "{text}");
}

fn usage_updates(client: &Client) -> Vec<Value> {
    let updates = client.updates.iter().map(|message| &message["params"]["update"]);
    let of_usage = updates.filter(|update| update["sessionUpdate"] == "usage_update");
    of_usage.cloned().collect()
}

/// The usage updates of a session with two prompts, and the stop reason of the second.
fn session_updates(limits: &str) -> (Vec<Value>, Value) {
    let workspace = workspace(limits);
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, MESSAGE)["result"]["stopReason"], "end_turn");
    let stop = client.prompt(&session, MESSAGE)["result"]["stopReason"].clone();
    (usage_updates(&client), stop)
}

#[test]
fn acp_usage_updates_state_what_is_left_of_the_budget() {
    let numbers = |updates: &[Value]| -> Vec<(u64, u64)> {
        let number = |update: &Value, key: &str| update[key].as_u64().expect("a number");
        let pairs = updates.iter();
        pairs
            .map(|update| (number(update, "used"), number(update, "size")))
            .collect()
    };
    let (updates, stop) = session_updates("max_total_tokens: 4");
    assert_eq!((numbers(&updates), stop), (vec![(4, 4)], json!("max_tokens")));
    let (updates, stop) = session_updates("max_total_tokens: 9");
    assert_eq!((numbers(&updates), stop), (vec![(4, 9), (8, 9)], json!("end_turn")));
    assert_eq!(
        updates[1]["_meta"]["ensemble"]["budget"],
        json!({"scope": "conversation", "max_total_tokens": 9, "remaining_tokens": 1})
    );
    let (updates, stop) = session_updates("max_total_tokens: 9, budget: message");
    assert_eq!((numbers(&updates), stop), (vec![(4, 9), (4, 9)], json!("end_turn")));
    // A budget that is only a cost is converted at the average price.
    let (updates, stop) = session_updates("max_cost: 16");
    assert_eq!((numbers(&updates), stop), (vec![(4, 16), (8, 16)], json!("end_turn")));
    assert_eq!(
        updates[1]["_meta"]["ensemble"]["budget"]["remaining_cost"].as_f64(),
        Some(8.0)
    );
    assert_eq!(session_updates("max_total_turns: 5").0, [] as [Value; 0]);
}

#[test]
fn a_client_is_told_that_no_agent_received_its_message() {
    let workspace = workspace("max_total_tokens: 4");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, MESSAGE);
    client.updates.clear();
    client.prompt(&session, MESSAGE);
    let updates = client.updates.iter().map(|message| &message["params"]["update"]);
    let said: Vec<&str> = updates
        .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("no agent received the new message"), "{said:?}");
    client.leave();

    workspace.write("ensembles/a.yaml", workspace.read("a.yaml"));
    let page = Page::start(&workspace);
    let first = reply(&page, "a", &[("user", MESSAGE)]);
    let next = request("a", &[("user", MESSAGE), ("assistant", &first), ("user", MESSAGE)]);
    let refused = complete(&page, &next);
    assert_eq!(refused.status, 402, "{refused:?}");
    let error = refused.json()["error"]["message"].to_string();
    assert!(error.contains("no agent received the new message"), "{error}");
}

#[test]
fn the_usage_of_a_nested_run_counts_once() {
    let workspace = workspace("max_total_tokens: 100");
    workspace.write(
        "outer.yaml",
        "name: outer\nconversation_limits: {max_total_tokens: 90}\nagents: [{name: team, ensemble: a.yaml, prompt: \"{{ input }}\"}]\n",
    );
    let mut client = Client::start(&workspace, "outer.yaml", json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, MESSAGE);
    let updates = usage_updates(&client);
    let used: Vec<&Value> = updates.iter().map(|update| &update["used"]).collect();
    assert_eq!(used, [4]);
}
