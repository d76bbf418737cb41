//! `ensemble acp`: loading, resuming and closing a session with an open question or a running prompt, and what a load sends.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::acp_client::Client;
use crate::support::{Workspace, eventually};

const QUESTION: &str = "name: qq\nagents:\n  - {name: q, input: {prompt: \"first?\"}}\n";

/// The updates of a session as a client shows them: messages with their pieces joined, cards and the plan.
#[derive(Debug, Default, PartialEq)]
struct View {
    messages: Vec<(String, String)>,
    users: Vec<(String, String)>,
    cards: BTreeMap<String, Value>,
    plan: Value,
}

impl View {
    fn apply_update(&mut self, update: &Value) {
        let kind = update["sessionUpdate"].as_str().expect("a kind");
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" => {
                let messages = match kind {
                    "user_message_chunk" => &mut self.users,
                    _ => &mut self.messages,
                };
                let id = update["messageId"].as_str().expect("an id");
                let text = update["content"]["text"].as_str().expect("a text");
                match messages.iter_mut().find(|(known, _)| known == id) {
                    Some((_, all)) => all.push_str(text),
                    None => messages.push((id.to_owned(), text.to_owned())),
                }
            }
            "tool_call" | "tool_call_update" => {
                let id = update["toolCallId"].as_str().expect("an id").to_owned();
                let card = self.cards.entry(id).or_insert_with(|| json!({}));
                for (key, value) in update.as_object().expect("an object") {
                    if key != "sessionUpdate" {
                        card[key] = value.clone();
                    }
                }
            }
            "plan" => self.plan = update["entries"].clone(),
            _ => {}
        }
    }
}

/// A client with one session, which permits everything and takes the first of the offered choices.
struct SessionClient<'w> {
    workspace: &'w Workspace,
    client: Client,
    session: String,
    view: View,
}

impl<'w> SessionClient<'w> {
    fn start(workspace: &'w Workspace) -> Self {
        let mut client = Client::start(workspace, "a.yaml", json!({}));
        let session = client.session(workspace);
        Self {
            workspace,
            client,
            session,
            view: View::default(),
        }
    }

    /// Waits for the response to a request, and answers what the server asks meanwhile.
    fn wait_for_response(&mut self, id: u64) -> Value {
        loop {
            let message = self.client.next();
            let is_request = message.get("method").is_some() && message.get("id").is_some();
            if is_request {
                let options = &message["params"]["options"];
                let chosen = json!({"outcome": {"outcome": "selected", "optionId": options[0]["optionId"]}});
                self.client
                    .send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": chosen}));
            } else if message["id"] == id {
                return message;
            } else if message.get("method").is_some() {
                self.view.apply_update(&message["params"]["update"]);
            }
        }
    }

    fn prompt(&mut self, text: &str) -> Value {
        let id = self.client.begin_prompt(&self.session, text);
        self.wait_for_response(id)
    }

    fn request(&mut self, method: &str) -> Value {
        let id = self.client.begin(method, self.parameters());
        self.wait_for_response(id)
    }

    fn parameters(&self) -> Value {
        json!({"sessionId": self.session, "cwd": self.workspace.path(), "mcpServers": []})
    }

    fn load(&mut self) {
        self.view = View::default();
        let answer = self.request("session/load");
        assert!(answer["result"].is_object(), "{answer}");
    }

    fn close(&mut self) {
        let id = self.client.begin("session/close", json!({"sessionId": self.session}));
        assert_eq!(self.wait_for_response(id)["result"], json!({}));
    }

    /// Kills the server, and loads the session in another one.
    fn reload(&mut self) {
        self.client.kill();
        self.client = Client::start(self.workspace, "a.yaml", json!({}));
        self.load();
    }

    /// The messages of this kind of id.
    fn message(&self, id: &str) -> Option<&str> {
        let mut messages = self.view.messages.iter().chain(&self.view.users);
        messages.find(|(known, _)| known == id).map(|(_, text)| text.as_str())
    }
}

fn workspace(file: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.yaml", file);
    workspace
}

/// The answers in the journal of the outermost run.
fn answers(workspace: &Workspace) -> Vec<String> {
    let journal = workspace.journal().into_iter();
    let answers = journal.filter_map(|record| record["data"]["answer"]["answer"].as_str().map(str::to_owned));
    answers.collect()
}

/// The messages that the user added to the run.
fn added_messages(workspace: &Workspace) -> Vec<String> {
    let journal = workspace.journal().into_iter();
    let added = journal.filter(|record| record["event"] == "message_added");
    added
        .map(|record| record["data"]["text"].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn an_open_question_survives_loads_closes_and_kills_and_the_next_prompt_is_its_answer() {
    type Act = fn(&mut SessionClient<'_>);
    let acts: [(&str, Act); 5] = [
        ("load", |client| client.load()),
        ("resume", |client| {
            assert!(client.request("session/resume")["result"].is_object());
        }),
        ("close and load", |client| {
            client.close();
            client.load();
        }),
        ("kill and load", |client| client.reload()),
        ("twice", |client| {
            client.load();
            client.reload();
        }),
    ];
    for default in ["", ", default: none"] {
        for (name, act) in acts {
            let workspace = workspace(&QUESTION.replace("\"first?\"", &format!("\"first?\"{default}")));
            let mut client = SessionClient::start(&workspace);
            assert_eq!(client.prompt("hi")["result"]["stopReason"], "end_turn");
            assert_eq!(client.message("q#1?"), Some("first?"), "{name}");
            act(&mut client);
            assert_eq!(client.message("q#1?"), Some("first?"), "{name}");
            assert_eq!(client.prompt("ans")["result"]["stopReason"], "end_turn", "{name}");
            assert_eq!(answers(&workspace), ["ans"], "{name}");
            client.load();
            let told = (client.message("q#1?"), client.message("q#1!"));
            assert_eq!(told, (Some("first?"), Some("ans")), "{name}");
            assert_eq!(client.view.messages.len(), 1, "{name}: {:?}", client.view);
        }
    }
}

#[test]
fn a_run_with_an_open_question_is_free_for_other_processes() {
    let workspace = workspace(QUESTION);
    let mut client = SessionClient::start(&workspace);
    client.prompt("hi");
    workspace
        .run(["resume", &client.session, "--answer", "q=from elsewhere"])
        .expect_code(0);
    // The client was shown the question, and learns that another answer was used.
    let late = client.prompt("mine");
    let told = late["error"]["message"].as_str().unwrap_or_default();
    assert!(
        told.contains("from elsewhere") && told.contains("was not used"),
        "{late}"
    );
    assert_eq!(client.prompt("and more")["result"]["stopReason"], "end_turn");
    assert_eq!(client.message("q#2?"), Some("first?"), "{:?}", client.view);
    assert_eq!(added_messages(&workspace), ["and more"]);
}

#[test]
fn a_question_with_a_time_limit_waits_in_the_server_until_the_session_is_closed() {
    let workspace = workspace(&QUESTION.replace("\"first?\"", "\"first?\", timeout_seconds: 90"));
    let mut client = SessionClient::start(&workspace);
    client.prompt("hi");
    client.load();
    assert_eq!(client.message("q#1?"), Some("first?"), "{:?}", client.view);
    client.close();
    workspace
        .run(["resume", &client.session, "--answer", "q=from elsewhere"])
        .expect_code(0);
    assert_eq!(answers(&workspace), ["from elsewhere"]);
}

#[test]
fn a_load_while_a_prompt_runs_is_refused_and_the_prompt_goes_on() {
    let workspace = workspace(
        "name: slow\nagents: [{name: a, script: 'touch begun; until [ -e goes ]; do sleep 0.05; done; echo done'}]\n",
    );
    let mut client = SessionClient::start(&workspace);
    let prompt = client.client.begin_prompt(&client.session, "x");
    eventually("the script runs", || {
        workspace.path().join("begun").exists().then_some(())
    });
    let refused = client.request("session/load");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert!(
        refused.to_string().contains("a prompt of the session is running"),
        "{refused}"
    );
    assert!(client.request("session/resume")["result"].is_object());
    workspace.write("goes", "");
    assert_eq!(client.wait_for_response(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(client.message("a#1"), Some("done"));
    assert_eq!(client.prompt("z")["result"]["stopReason"], "end_turn");
    assert_eq!(client.message("a#2"), Some("done"), "{:?}", client.view);
}

#[test]
fn a_closed_session_gives_back_the_lock_of_its_run() {
    let workspace =
        workspace("name: slow\nagents: [{name: a, script: '[ -e done ] || { touch begun; sleep 60; }; echo awake'}]\n");
    let mut client = SessionClient::start(&workspace);
    let prompt = client.client.begin_prompt(&client.session, "x");
    eventually("the script runs", || {
        workspace.path().join("begun").exists().then_some(())
    });
    // The requests follow each other without a pause.
    client
        .client
        .begin("session/close", json!({"sessionId": client.session}));
    let load = client.client.begin("session/load", client.parameters());
    workspace.write("done", "");
    let (mut is_cancelled, mut is_loaded) = (false, false);
    while !(is_cancelled && is_loaded) {
        let message = client.client.next();
        is_cancelled |= message["id"] == prompt && message["result"]["stopReason"] == "cancelled";
        if message["id"] == load {
            assert!(message["result"].is_object(), "{message}");
            is_loaded = true;
        }
    }
    assert_eq!(client.prompt("/resume")["result"]["stopReason"], "end_turn");
    assert_eq!(client.message("a#1"), Some("awake"), "{:?}", client.view);
}

#[test]
fn each_question_of_a_tool_has_its_own_id() {
    let workspace = workspace(ASKING);
    let mut client = SessionClient::start(&workspace);
    for text in ["hi", "one!", "two!"] {
        assert_eq!(client.prompt(text)["result"]["stopReason"], "end_turn", "{text}");
    }
    let expected = [
        ("bot/ask#1.person#1?", "really one?"),
        ("bot/ask#2.person#1?", "really two?"),
    ];
    for (id, text) in expected {
        assert_eq!(client.message(id), Some(text), "{:?}", client.view.messages);
    }
    let live = std::mem::take(&mut client.view.messages);
    client.reload();
    assert_eq!(client.view.messages, live);
    assert_eq!(client.message("bot/ask#2.person#1!"), Some("two!"));
}

const ASKING: &str = "name: st\nagents:\n  - {name: bot, model_profile: p, prompt: go, tools: [ask]}\n  - {name: person, input: \
    {prompt: \"really {{ request.parameters.q }}?\"}}\ntools:\n  ask: {agent: person, description: d, permission: allow, parameters: \
    {type: object, properties: {q: {type: string}}}}\nmodel_profiles: {p: {provider: simulated, replies: [{text: I ask, tool_calls: \
    [{name: ask, arguments: {q: one}}]}, {text: again, tool_calls: [{name: ask, arguments: {q: two}}]}, fin]}}\n";

#[test]
fn the_last_message_is_about_the_failures_of_its_prompt_and_is_loaded() {
    let workspace = workspace(
        "name: ac8\nagents: [{name: bot, model_profile: p, prompt: go, tools: [t]}]\ntools: {t: {script: 'exit 7', permission: allow, \
         description: d, parameters: {type: object}}}\nmodel_profiles: {p: {provider: simulated, replies: [{text: aa, tool_calls: \
         [{name: t}]}, bb, cc, {text: dd, tool_calls: [{name: t}]}, ee]}}\n",
    );
    let mut client = SessionClient::start(&workspace);
    let failed = |client: &SessionClient<'_>| -> Vec<(String, String)> {
        let messages = client.view.messages.iter();
        let failed = messages.filter(|(_, text)| text.contains("failed"));
        failed.cloned().collect()
    };
    client.prompt("hi");
    assert_eq!(failed(&client).len(), 1, "{:?}", client.view);
    client.prompt("more");
    assert_eq!(
        failed(&client).len(),
        1,
        "nothing failed in the second prompt: {:?}",
        client.view
    );
    client.load();
    client.prompt("again");
    let live = failed(&client);
    let texts: Vec<&str> = live.iter().map(|(_, text)| text.trim()).collect();
    assert_eq!(
        texts,
        ["1 of 1 tool calls of `bot` failed"; 2].map(|text| text.replace("calls", "call"))
    );
    assert_ne!(live[0].0, live[1].0);
    client.reload();
    assert_eq!(failed(&client), live);
}

#[test]
fn a_message_to_a_run_that_asks_first_follows_after_the_answer() {
    let workspace = workspace(
        "name: cut\nagents:\n  - {name: a, script: '[ -e done ] || { touch begun; sleep 60; }; echo awake'}\n  - {name: q, input: {prompt: \"first?\"}, \
         depends_on: [a]}\n",
    );
    let mut client = SessionClient::start(&workspace);
    client.client.begin_prompt(&client.session, "go");
    eventually("the script runs", || {
        workspace.path().join("begun").exists().then_some(())
    });
    workspace.write("done", "");
    client.reload();
    assert_eq!(client.prompt("and more")["result"]["stopReason"], "end_turn");
    assert_eq!(client.message("q#1?"), Some("first?"), "{:?}", client.view);
    assert_eq!(client.prompt("yes")["result"]["stopReason"], "end_turn");
    assert_eq!(answers(&workspace), ["yes"]);
    assert_eq!(added_messages(&workspace), ["and more"]);
}

#[test]
fn a_message_whose_question_was_answered_elsewhere_comes_before_later_messages() {
    let workspace = workspace(
        "name: cut\nagents:\n  - {name: a, script: '[ -e done ] || { touch begun; sleep 60; }; echo awake'}\n  - {name: q, input: {prompt: \"first?\"}, \
         depends_on: [a]}\n",
    );
    let mut client = SessionClient::start(&workspace);
    client.client.begin_prompt(&client.session, "go");
    eventually("the script runs", || {
        workspace.path().join("begun").exists().then_some(())
    });
    workspace.write("done", "");
    client.reload();
    client.prompt("earlier");
    workspace
        .run(["resume", &client.session, "--answer", "q=elsewhere"])
        .expect_code(0);
    assert!(client.prompt("mine")["error"].is_object(), "the question is answered");
    client.prompt("later");
    client.prompt("yes");
    assert_eq!(answers(&workspace), ["elsewhere", "yes"]);
    assert_eq!(added_messages(&workspace), ["earlier", "later"]);
}

/// An ensemble whose first question ends by itself, and whose script then runs until the file `go` is there.
const RUNS_ON: &str = "name: late\nagents:\n  - {name: q, input: {prompt: \"one?\", timeout_seconds: 1, default: none}}\n  - {name: slow, script: \
                       'touch begun; while [ ! -e go ]; do sleep 0.05; done; echo awake', depends_on: [q]}\n";

/// Starts a prompt whose question ends by itself, so that the run continues without a prompt.
fn start_run_without_prompt(workspace: &Workspace) -> SessionClient<'_> {
    let mut client = SessionClient::start(workspace);
    assert_eq!(client.prompt("go")["result"]["stopReason"], "end_turn");
    eventually("the script runs", || {
        workspace.path().join("begun").exists().then_some(())
    });
    assert!(
        client.prompt("late")["error"].is_object(),
        "the question has its default"
    );
    client
}

#[test]
fn a_prompt_that_waits_for_the_end_of_a_run_is_cancelled() {
    let workspace = workspace(RUNS_ON);
    let mut client = start_run_without_prompt(&workspace);
    let prompt = client.client.begin_prompt(&client.session, "again");
    client
        .client
        .send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": client.session}}));
    assert_eq!(client.wait_for_response(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(added_messages(&workspace), Vec::<String>::new());
}

#[test]
fn a_prompt_that_waits_for_the_end_of_a_run_is_not_answered_by_that_end() {
    let workspace = workspace(RUNS_ON);
    let mut client = start_run_without_prompt(&workspace);
    let prompt = client.client.begin_prompt(&client.session, "again");
    workspace.write("go", "");
    assert_eq!(client.wait_for_response(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(client.message("slow#1"), Some("awake"), "{:?}", client.view);
    assert_eq!(client.message("q#2?"), Some("one?"), "{:?}", client.view);
    assert_eq!(added_messages(&workspace), ["again"]);
}

/// Random numbers of a test, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The keys of an agent of a random conversation.
const AGENTS: [&str; 7] = [
    "input: {prompt: \"What?\"}",
    "input: {prompt: \"Which?\", choices: [\"yes\", \"no\"]}",
    "ensemble: inner.yaml",
    "ensemble: inner.yaml, for_each: {in: [x, y], key: item}",
    "model_profile: p, prompt: go, tools: [bad]",
    "model_profile: asks, prompt: go, tools: [ask]",
    "script: each.rhai, for_each: {in: [1, 2], key: item, on_error: collect}",
];

/// The random conversations of a test.
const SEEDS: std::ops::Range<u64> = 0..8;

/// A random conversation with questions, answers, nested runs, parts, and tools that fail.
fn random_ensemble(dice: &mut Dice) -> String {
    let mut file = "name: random\ntools:\n  bad: {script: 'exit 7', permission: allow, description: d, parameters: {type: object}}\n  ask: {agent: \
        person, permission: allow, description: d, parameters: {type: object, properties: {q: {type: string}}}}\nmodel_profiles:\n  p: \
        {provider: simulated, replies: [{text: I try, tool_calls: [{name: bad}]}, tried]}\n  asks: {provider: simulated, replies: [{text: I ask, tool_calls: [{name: ask, \
        arguments: {q: one}}]}, {text: again, tool_calls: [{name: ask, arguments: {q: two}}]}, fin]}\nconversation_limits: {max_total_turns: 40}\nagents:\n  \
        - {name: person, input: {prompt: \"really {{ request.parameters.q }}?\"}}\n"
        .to_owned();
    for number in 0..1 + dice.roll(3) {
        let keys = AGENTS[dice.roll(AGENTS.len() as u64) as usize];
        let depends = match number {
            0 => String::new(),
            _ if dice.roll(2) == 0 => String::new(),
            _ => format!(", depends_on: [a{}]", number - 1),
        };
        file.push_str(&format!("  - {{name: a{number}, {keys}{depends}}}\n"));
    }
    if !file.contains("tools: [ask]") {
        // An agent that is no tool would run by itself.
        file.push_str("  - {name: unused, model_profile: asks, prompt: go, tools: [ask]}\n");
    }
    file
}

#[test]
fn a_load_sends_what_was_sent_live_with_the_same_ids() {
    let inner = "name: inner\ntools: {bad: {script: 'exit 7', permission: allow, description: d, parameters: {type: object}}}\nmodel_profiles: {p: \
        {provider: simulated, replies: [{text: I try, tool_calls: [{name: bad}]}, tried]}}\nagents:\n  - {name: q, input: {prompt: \"inner?\"}}\n  - {name: bot, model_profile: p, \
        prompt: go, tools: [bad], depends_on: [q]}\n";
    for seed in SEEDS {
        let mut dice = Dice(seed);
        let file = random_ensemble(&mut dice);
        let workspace = workspace(&file);
        workspace.write("inner.yaml", inner);
        workspace.write("each.rhai", "if item == 1 { throw \"bad\" } \"good\"");
        let mut client = SessionClient::start(&workspace);
        let texts: Vec<String> = (0..7).map(|number| format!("p{number}")).collect();
        let mut log = String::new();
        for text in &texts {
            let answer = client.prompt(text);
            log.push_str(&format!("{text}: {answer}\n"));
            assert!(answer["result"].is_object(), "seed {seed}\n{file}\n{log}");
            let act = dice.roll(8);
            log.push_str(&format!("act {act}\n"));
            match act {
                0 => client.load(),
                1 => {
                    client.close();
                    client.load();
                }
                2 => client.reload(),
                _ => {}
            }
        }
        let live = std::mem::take(&mut client.view);
        client.reload();
        let loaded = std::mem::take(&mut client.view);
        let about = format!("seed {seed}\n{file}\n{log}");
        assert_eq!(loaded.messages, live.messages, "{about}");
        assert_eq!(loaded.cards, live.cards, "{about}");
        assert_eq!(loaded.plan, live.plan, "{about}");
        for user in &live.users {
            assert!(loaded.users.contains(user), "{user:?}: {:?}\n{about}", loaded.users);
        }
        for text in &texts {
            let is_told = loaded.users.iter().any(|(_, told)| told == text);
            assert!(is_told, "{text}: {:?}\n{about}", loaded.users);
        }
    }
}
