//! `ensemble acp`: questions that are open when a session is closed, loaded or left, and what failed in each prompt.

use serde_json::{Value, json};

use crate::support::Workspace;
use crate::support::acp_client::Client;

/// The texts of the messages with their ids, and the texts of the user.
fn transcript(client: &Client) -> Vec<(String, String)> {
    let updates = client.updates.iter().map(|message| &message["params"]["update"]);
    updates
        .filter(|update| {
            ["agent_message_chunk", "user_message_chunk"]
                .contains(&update["sessionUpdate"].as_str().unwrap_or_default())
        })
        .map(|update| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&update["messageId"]), text(&update["content"]["text"]))
        })
        .collect()
}

fn asking_workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "ask.yaml",
        "name: ask\nmodel_profiles: {p: {provider: simulated, replies: [printed]}}\nagents:\n  - {name: q, input: {prompt: \"first?\"}}\n  \
         - {name: printer, model_profile: p, depends_on: [q]}\n",
    );
    workspace
}

fn named(workspace: &Workspace, session: &str) -> Value {
    json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []})
}

fn answer_of_q(workspace: &Workspace) -> Value {
    let journal = workspace.journal();
    let is_end = |record: &&Value| record["event"] == "execution_finished" && record["data"]["agent"] == "q";
    journal.iter().find(is_end).expect("an answer")["data"]["output"]["response"].clone()
}

#[test]
fn the_next_prompt_answers_an_open_question_also_after_the_session_was_opened_again() {
    type Reopen = fn(&mut Client, &Workspace, &str);
    let ways: [(&str, Reopen); 4] = [
        ("load", |client, workspace, session| {
            client.ask("session/load", named(workspace, session));
        }),
        ("resume", |client, workspace, session| {
            client.ask("session/resume", named(workspace, session));
        }),
        ("close and load", |client, workspace, session| {
            client.ask("session/close", json!({"sessionId": session}));
            client.ask("session/load", named(workspace, session));
        }),
        ("leave and load", |client, workspace, session| {
            std::mem::replace(client, Client::start(workspace, "ask.yaml", json!({}))).leave();
            client.ask("session/load", named(workspace, session));
        }),
    ];
    for (way, reopen) in ways {
        let workspace = asking_workspace();
        let mut client = Client::start(&workspace, "ask.yaml", json!({}));
        let session = client.session(&workspace);
        assert_eq!(
            client.prompt(&session, "go")["result"]["stopReason"],
            "end_turn",
            "{way}"
        );
        client.updates.clear();
        reopen(&mut client, &workspace, &session);
        let shown = transcript(&client);
        let question = ("q#1?".to_owned(), "first?".to_owned());
        assert_eq!(shown.contains(&question), way != "resume", "{way}: {shown:?}");
        client.updates.clear();
        assert_eq!(
            client.prompt(&session, "ans")["result"]["stopReason"],
            "end_turn",
            "{way}"
        );
        assert_eq!(
            transcript(&client).last().map(|(_, text)| text.as_str()),
            Some("printed"),
            "{way}"
        );
        assert_eq!(answer_of_q(&workspace), "ans", "{way}");
    }
}

#[test]
fn a_question_is_recorded_before_its_prompt_ends() {
    let workspace = asking_workspace();
    let mut client = Client::start(&workspace, "ask.yaml", json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, "go");
    client.kill();
    drop(client);
    let mut client = Client::start(&workspace, "ask.yaml", json!({}));
    client.ask("session/load", named(&workspace, &session));
    client.prompt(&session, "ans");
    assert_eq!(answer_of_q(&workspace), "ans");
}

#[test]
fn each_prompt_says_what_failed_in_it_and_a_loaded_session_says_the_same() {
    let workspace = Workspace::new();
    workspace.write(
        "ac.yaml",
        "name: ac\nagents:\n  - {name: bot, model_profile: p, tools: [t]}\n  - {name: n, ensemble: inner.yaml}\n\
         tools: {t: {script: 'exit 7', parameters: {type: object}}}\n\
         model_profiles: {p: {provider: simulated, replies: [{tool_calls: [{name: t}]}, one, two]}}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nagents: [{name: each, script: each.rhai, for_each: {in: [1, 2], key: item, on_error: collect}}]\n",
    );
    workspace.write(
        "each.rhai",
        "if item == 1 && input == \"go\" { throw \"bad\" } \"good\"",
    );
    let mut client = Client::start(&workspace, "ac.yaml", json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, "go");
    let failed = |client: &Client| -> Vec<(String, String)> {
        let all = transcript(client).into_iter();
        all.filter(|(_, text)| text.contains(" failed")).collect()
    };
    let first = failed(&client);
    let text = "\n\n1 of 1 tool call of `bot` failed, n: 1 of 2 parts of `each` failed";
    let texts: Vec<&str> = first.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, [text]);
    client.prompt(&session, "more");
    assert_eq!(failed(&client), first, "nothing failed in the second prompt");
    client.updates.clear();
    client.ask("session/load", named(&workspace, &session));
    assert_eq!(failed(&client), first);
}

#[test]
fn each_question_in_a_call_has_its_own_message() {
    let workspace = Workspace::new();
    let call = |word: &str| format!("{{tool_calls: [{{name: ask, arguments: {{q: {word}}}}}]}}");
    workspace.write(
        "st.yaml",
        format!(
            "name: st\nagents:\n  - {{name: bot, model_profile: p, tools: [ask], prompt: go}}\n  - {{name: person, input: {{prompt: 'really {{{{ \
             request.parameters.q }}}}?'}}}}\ntools: {{ask: {{agent: person, parameters: {{type: object, properties: {{q: {{type: \
             string}}}}}}}}}}\nmodel_profiles: {{p: {{provider: simulated, replies: [{}, {}, fin]}}}}\n",
            call("one"),
            call("two")
        ),
    );
    let mut client = Client::start(&workspace, "st.yaml", json!({}));
    let session = client.session(&workspace);
    for text in ["hi", "one!", "two!"] {
        client.prompt(&session, text);
    }
    let questions: Vec<(String, String)> = transcript(&client)
        .into_iter()
        .filter(|(_, text)| text.starts_with("really"))
        .collect();
    let texts: Vec<&str> = questions.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["really one?", "really two?"]);
    assert_ne!(questions[0].0, questions[1].0, "{questions:?}");
}
