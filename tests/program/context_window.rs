//! `context_window` through the binary: what a model is shown, and what is said of the rest.

use crate::support::server::{Asked, Server, answer, says};
use crate::support::{Outcome, Workspace};
use serde_json::Value;

/// An agent that speaks in every turn, and whose model repeats what it was shown.
fn talker(window: &str) -> String {
    format!(
        "name: talk
agents:
  - name: talker
    model_profile: mirror
    system_prompt: Be brief.
    prompt: \"question {{{{ execution }}}}\"
    context_window: {window}
    conversation: {{max_turns: 6, trigger: every_turn}}
model_profiles:
  mirror: {{provider: simulated, script: mirror.rhai}}
  scribe: {{provider: simulated, script: scribe.rhai}}
"
    )
}

/// Says what it was shown, one letter a message and the number of the question: `s1 u2 u3`.
const MIRROR: &str = r#"
let shown = [];
for message in messages {
    if message.role == "system" { shown.push("s"); }
    if message.role == "user" { shown.push(if message.content.starts_with("question ") { "u" + message.content.sub_string(9) } else { "+" }); }
}
let text = "";
for word in shown { text += word + " "; }
text.trim();
text
"#;

const SCRIBE: &str =
    r#""they spoke (" + prompt.split("\n").filter(|line| line.starts_with("User: ")).len() + " questions)""#;

fn run(window: &str) -> (Workspace, Outcome) {
    let workspace = Workspace::new();
    workspace.write("talk.yaml", talker(window));
    workspace.write("mirror.rhai", MIRROR);
    workspace.write("scribe.rhai", SCRIBE);
    workspace.write(
        "keep.rhai",
        "let last = messages.pop(); [messages[0], messages[1], last]",
    );
    let outcome = workspace.run(["run", "talk.yaml", "-v", "--output", "json"]);
    (workspace, outcome)
}

/// What the model was shown in each execution.
fn shown(outcome: &Outcome) -> Vec<String> {
    let result = outcome.json();
    let history = result["conversation_history"].as_array().expect("a history");
    let said = |entry: &Value| entry["output_data"]["response"].as_str().unwrap_or("failed").to_owned();
    history.iter().map(said).collect()
}

#[test]
fn every_strategy_shows_the_model_what_it_promises() {
    let table = [
        (
            "{max_messages: 8}",
            [
                "s u1",
                "s u1 u2",
                "s u1 u2 u3",
                "s u1 u2 u3 u4",
                "s u2 u3 u4 u5",
                "s u3 u4 u5 u6",
            ],
        ),
        (
            "{max_messages: 8, min_recent_turns: 1, strategy: middle_out}",
            [
                "s u1",
                "s u1 u2",
                "s u1 u2 u3",
                "s u1 u2 u3 u4",
                "s u1 u2 u4 u5",
                "s u1 u2 u5 u6",
            ],
        ),
        (
            "{strategy: {recent_turns_only: 2}}",
            ["s u1", "s u1 u2", "s u2 u3", "s u3 u4", "s u4 u5", "s u5 u6"],
        ),
        (
            "{max_messages: 5, strategy: {custom: keep.rhai}}",
            ["s u1", "s u1 u2", "s u1 u3", "s u1 u4", "s u1 u5", "s u1 u6"],
        ),
        (
            "{max_messages: 4, min_recent_turns: 1, preserve_system_message: false}",
            ["s u1", "s u1 u2", "u2 u3", "u3 u4", "u4 u5", "u5 u6"],
        ),
    ];
    for (window, expected) in table {
        let (_, outcome) = run(window);
        assert_eq!(shown(&outcome.expect_code(0)), expected, "{window}");
    }
}

#[test]
fn a_summary_stands_for_what_is_left_out_and_is_paid_for_once() {
    let (workspace, outcome) = run("{max_messages: 8, min_recent_turns: 1, strategy: {summarize: scribe}}");
    let outcome = outcome.expect_code(0);
    let expected = ["s u1", "s u1 u2", "s u1 u2 u3", "s u1 u2 u3 u4", "s + u5", "s + u5 u6"];
    assert_eq!(shown(&outcome), expected);
    assert_eq!(outcome.json()["usage"]["requests"], 7, "six answers and one summary");
    let journal = workspace.journal();
    let exchange = |at: usize| {
        let mut ends = journal.iter().filter(|record| record["event"] == "execution_finished");
        ends.nth(at).expect("an end")["data"]["exchange"][0]["metadata"]["dropped"].clone()
    };
    assert_eq!(exchange(4)["messages"], 8);
    assert_eq!(exchange(4)["summary"], "they spoke (4 questions)");
    let mut written = exchange(4);
    let requests = written.as_object_mut().and_then(|note| note.remove("summary_requests"));
    let requests = requests.expect("the request of the summary");
    assert_eq!(requests[0]["reply"], "they spoke (4 questions)");
    assert_eq!(exchange(5), written, "the same summary serves, without another request");
    assert!(exchange(3).is_null());

    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let told = "context window: 8 messages of about";
    let show = workspace.run(["runs", "show", &id]).expect_code(0);
    assert_eq!(show.stdout.matches(told).count(), 2, "{}", show.stdout);
    assert!(show.stdout.contains("they spoke (4 questions)"), "{}", show.stdout);

    // Whoever goes on finds the summary in the thread, and it grows from there.
    let more = workspace
        .run(["continue", &id, "more", "--output", "json"])
        .expect_code(0);
    assert_eq!(shown(&more)[6..8], ["s + u5 u6 u7", "s + u8"]);
    let journal = workspace.read(&format!(".ensemble/runs/{id}/journal.jsonl"));
    assert!(journal.contains("they spoke (3 questions)"), "only what is new is read");
}

#[test]
fn what_was_left_out_is_told_to_those_who_ask() {
    let workspace = Workspace::new();
    workspace.write("talk.yaml", talker("{max_messages: 6, min_recent_turns: 1}"));
    workspace.write("mirror.rhai", MIRROR);
    workspace.write("scribe.rhai", SCRIBE);
    let line = "context window: 2 messages of about 4 tokens (estimated at 4 bytes a token) were not sent";
    let verbose = workspace.run(["run", "talk.yaml", "-v"]).expect_code(0);
    assert!(verbose.stderr.contains(line), "{}", verbose.stderr);
    let plain = workspace.run(["run", "talk.yaml"]).expect_code(0);
    assert!(!plain.stderr.contains("context window"), "{}", plain.stderr);
}

#[test]
fn a_window_that_is_too_small_is_a_warning() {
    let (_, outcome) = run("{max_tokens: 5}");
    let result = outcome.expect_code(0).json();
    let warnings = result["warnings"].to_string();
    let words = "the context window is too small: at most 5 tokens are allowed";
    assert!(warnings.contains(words), "{warnings}");
    assert!(warnings.contains("the 3 latest turns (`min_recent_turns`) are always sent, and so are the instructions"));
}

#[test]
fn a_script_that_selects_wrongly_is_told_why() {
    let scripts = [
        ("[]", "the last user message and the latest reply after it must be kept"),
        ("42", "its last value is not a list of messages but 42"),
        ("throw \"no\"", "no"),
        (
            "messages[0].content = \"other\"; messages",
            "item 1 is not one of the messages, or is out of order",
        ),
    ];
    for (script, words) in scripts {
        let workspace = Workspace::new();
        workspace.write("talk.yaml", talker("{strategy: {custom: keep.rhai}}"));
        workspace.write("mirror.rhai", MIRROR);
        workspace.write("scribe.rhai", SCRIBE);
        workspace.write("keep.rhai", script);
        let outcome = workspace.run(["run", "talk.yaml"]).expect_code(1);
        let told = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(
            told.contains(&format!("context_window: keep.rhai: {words}")) || told.contains(words),
            "{script}: {told}"
        );
    }
    let workspace = Workspace::new();
    workspace.write("talk.yaml", talker("{strategy: {custom: nowhere.rhai}}"));
    workspace.write("mirror.rhai", MIRROR);
    workspace.write("scribe.rhai", SCRIBE);
    let outcome = workspace.run(["run", "talk.yaml"]).expect_code(2);
    assert!(
        outcome
            .stderr
            .contains("context_window: nowhere.rhai: there is no such file"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_unknown_profile_that_sums_up_is_told() {
    let workspace = Workspace::new();
    workspace.write("mirror.rhai", MIRROR);
    workspace.write("scribe.rhai", SCRIBE);
    workspace.write("talk.yaml", talker("{max_tokens: 50, strategy: {summarize: scrib}}"));
    let outcome = workspace.run(["validate", "talk.yaml"]).expect_code(0);
    assert!(outcome.stdout.contains("did you mean `scribe`?"), "{}", outcome.stdout);
}

/// The bytes of all messages of a request.
fn size(asked: &Asked) -> usize {
    let messages = asked.body["messages"].as_array().expect("messages");
    let texts = messages
        .iter()
        .map(|message| message["content"].as_str().unwrap_or_default());
    texts.map(str::len).sum()
}

#[test]
fn what_a_model_has_accepted_is_remembered_for_its_profile() {
    const MOST: usize = 1_000;
    let server = Server::new(|_, asked: &Asked| match size(asked) > MOST {
        true => answer("400 Bad Request", &[], "prompt is too long: 300 tokens > 250 maximum"),
        false => says(&"word ".repeat(20)),
    });
    let workspace = Workspace::new();
    let url = server.url();
    workspace.write(
        "a.yaml",
        format!(
            "name: long\nagents:\n  - {{name: one, model_profile: m, system_prompt: Be brief., prompt: 'question {{{{ execution }}}}', \
             conversation: {{max_turns: 16, trigger: every_turn}}}}\n  - {{name: two, model_profile: m, prompt: 'question {{{{ \
             execution }}}}', depends_on: [one], conversation: {{max_turns: 16, trigger: every_turn}}}}\nmodel_profiles:\n  m: \
             {{provider: openai, model: x, base_url: '{url}', retry: {{max_attempts: 1}}}}\n"
        ),
    );
    let result = workspace
        .run(["run", "a.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    let asked = server.asked();
    let refused = asked.iter().filter(|asked| size(asked) > MOST).count();
    assert_eq!((refused, asked.len()), (1, 33), "{result:#}");
    let warnings = result["warnings"].as_array().expect("warnings").clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    // The latest messages are sent, and what is left out is noted.
    let last = &asked.last().expect("a request").body["messages"];
    let last = last.as_array().expect("messages");
    assert_eq!(last.last().expect("a message")["content"], "question 16");
    assert!(last.len() >= 5, "{last:?}");
    let shown = workspace
        .run(["runs", "show", "--messages", "two"])
        .expect_code(0)
        .stdout;
    assert!(shown.contains("context window: "), "{shown}");
    workspace.run(["replay", "--last"]).expect_code(0);
    assert_eq!(server.asked().len(), 33);
}

#[test]
fn a_summary_by_the_agents_own_model_uses_up_no_replies_of_the_agent() {
    let workspace = Workspace::new();
    workspace.write(
        "talk.yaml",
        "name: talk\nagents: [{name: a, model_profile: m, prompt: '{{ input }}', context_window: {max_messages: 6, \
         min_recent_turns: 1, strategy: summarize}}]\nmodel_profiles: {m: {provider: simulated, replies: [r1, r2, r3, r4, r5, r6, r7]}}\n",
    );
    let mut arguments = vec!["run", "talk.yaml", "--output", "json", "-i", "one"];
    for text in ["two", "three", "four", "five"] {
        arguments.extend(["--then", text]);
    }
    let result = workspace.run(arguments).expect_code(0).json();
    assert_eq!(result["final_state"]["response"], "r5", "{result:#}");
    assert_eq!(result["usage"]["summaries"], 1, "{}", result["usage"]);
    assert_eq!(result["usage"]["requests"], 6, "{}", result["usage"]);
}
