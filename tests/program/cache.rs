//! Replies that are kept on disk, and what they cost: a run with a full cache needs no model.

#![expect(clippy::disallowed_methods, reason = "tests make links")]

use std::os::unix::fs::symlink;

use crate::support::Workspace;
use crate::support::server::{Server, says};

fn asking(url: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - {{name: writer, model_profile: m}}\n  - {{name: critic, model_profile: m, depends_on: \
             [writer]}}\nmodel_profiles:\n  m: {{provider: openai, model: some-model, base_url: '{url}', cost: \
             {{input_per_million: 1, output_per_million: 1}}}}\n"
        ),
    );
    workspace
}

#[test]
fn a_warm_cache_answers_for_the_server() {
    let server = Server::with(vec![says("a draft"), says("well done")]);
    let workspace = asking(&server.url());
    let arguments = ["run", "a.yaml", "-i", "x", "--output", "json", "--cache", "replies"];
    let first = workspace.run(arguments).expect_code(0).json();
    assert_eq!(server.asked().len(), 2);
    assert_eq!(first["usage"]["cached"], 0);
    let again = workspace
        .run(arguments.into_iter().chain(["--cache-only"]))
        .expect_code(0)
        .json();
    assert_eq!(server.asked().len(), 2, "nobody was asked again");
    assert_eq!(again["final_state"], first["final_state"]);
    assert_eq!(again["usage"]["cached"], 2);
    assert!(again["usage"]["cost"].is_null(), "it costs nothing: {}", again["usage"]);
}

#[test]
fn what_the_cache_does_not_have_is_told_and_nobody_is_asked() {
    let server = Server::with(vec![says("a draft"), says("well done")]);
    let workspace = asking(&server.url());
    workspace
        .run(["run", "a.yaml", "-i", "x", "--cache", "replies"])
        .expect_code(0);
    let outcome = workspace
        .run(["run", "a.yaml", "-i", "y", "--cache", "replies", "--cache-only"])
        .expect_code(1);
    assert_eq!(server.asked().len(), 2);
    let told = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(told.contains("writer") && told.contains("cache"), "{told}");
}

#[test]
fn an_estimate_tells_what_a_run_would_cost() {
    let server = Server::with(vec![says("a draft"), says("well done")]);
    let workspace = asking(&server.url());
    let outcome = workspace
        .run(["run", "a.yaml", "-i", "x", "--output", "json"])
        .expect_code(0);
    let id = outcome.json()["run_id"].as_str().expect("an id").to_owned();
    // A million tokens now cost twice as much.
    let dearer = workspace.read("a.yaml").replace("per_million: 1", "per_million: 2");
    workspace.write("a.yaml", dearer);
    let told = workspace
        .run(["estimate", "a.yaml", "--from", &id])
        .expect_code(0)
        .stdout;
    assert!(told.contains("cost 0.0048"), "{told}");
    let shown = workspace.run(["runs", "show", &id]).expect_code(0).stdout;
    assert!(shown.contains("cost 0.0024"), "{shown}");
}

#[test]
fn an_estimate_of_the_next_message_counts_the_kept_thread() {
    let workspace = Workspace::new();
    let text = r#"
name: chat
agents:
  - {name: bot, model_profile: m, prompt: "{{ input }}"}
  - {name: forgetful, model_profile: m, prompt: "{{ input }}", conversation: {memory: none}, depends_on: [bot]}
model_profiles:
  m: {provider: simulated, replies: [sixteen letters.], cost: {input_per_million: 1000000, output_per_million: 1000000}}
"#;
    workspace.write("chat.yaml", text);
    // A message and a reply of four tokens each.
    workspace
        .run([
            "run",
            "chat.yaml",
            "-i",
            "sixteen letters!",
            "--then",
            "sixteen letters?",
        ])
        .expect_code(0);
    let estimate = |more: &[&str]| {
        let arguments = ["estimate", "chat.yaml", "--last", "--next-message"];
        workspace.run(arguments.iter().chain(more).copied())
    };
    let document = estimate(&["--output", "json"]).expect_code(0).json();
    let threads = &document["next_message"]["kept_threads"];
    assert_eq!(
        threads,
        &serde_json::json!([{"agent": "bot", "tokens": 16, "estimated": true}]),
        "{document:#}"
    );
    let usage = |at: usize| document["agents"][at]["recorded"]["usage"].clone();
    // The last message was sent with 8 tokens of the thread, the next one is sent with 16.
    assert_eq!(
        (&usage(0)["input_tokens"], &usage(0)["output_tokens"]),
        (&20.into(), &4.into())
    );
    assert_eq!((&usage(0)["cost"], &usage(0)["requests"]), (&24.0.into(), &1.into()));
    assert_eq!(usage(1)["input_tokens"], 4, "it remembers nothing");
    assert_eq!(document["turn_count"], 2);
    let told = estimate(&[]).expect_code(0).stdout;
    assert!(
        told.contains("the next message, estimated from the last message of run"),
        "{told}"
    );
    assert!(told.contains("bot keeps a thread of ~16 tokens"), "{told}");

    // The window of the file limits what is sent.
    workspace.write(
        "chat.yaml",
        text.replace("{name: bot,", "{name: bot, context_window: {max_tokens: 10},"),
    );
    let limited = estimate(&["--output", "json"]).expect_code(0).json();
    assert_eq!(limited["next_message"]["kept_threads"][0]["tokens"], 10, "{limited:#}");

    workspace.write("ask.yaml", "name: ask\nagents: [{name: you, input: 'Well?'}]\n");
    workspace.run(["run", "ask.yaml"]).expect_code(3);
    let refused = workspace
        .run(["estimate", "ask.yaml", "--last", "--next-message"])
        .expect_code(2);
    assert!(refused.stderr.contains("has not ended"), "{}", refused.stderr);
}

#[test]
fn no_reply_is_written_through_a_link() {
    let server = Server::new(|_, _| says("a draft"));
    let run = |workspace: &Workspace, file: &str| {
        let told = workspace.run(["run", file, "-i", "x", "--cache", "replies"]);
        format!("{}{}", told.stdout, told.stderr)
    };
    // The folder of an agent, and that of an agent inside of it.
    for (file, link) in [("a.yaml", "replies/writer"), ("outer.yaml", "replies/team")] {
        let workspace = asking(&server.url());
        workspace.write("outer.yaml", "name: outer\nagents: [{name: team, ensemble: a.yaml}]\n");
        let elsewhere = workspace.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).expect("made");
        std::fs::create_dir(workspace.path().join("replies")).expect("made");
        symlink(&elsewhere, workspace.path().join(link)).expect("linked");
        let told = run(&workspace, file);
        assert_eq!(
            std::fs::read_dir(&elsewhere).expect("a folder").count(),
            0,
            "{link}: {told}"
        );
        assert!(told.contains("is a symbolic link"), "{link}: {told}");
    }
    // The file of a reply.
    let workspace = asking(&server.url());
    run(&workspace, "a.yaml");
    let folder = workspace.path().join("replies/writer");
    let entries: Vec<_> = std::fs::read_dir(&folder).expect("a folder").flatten().collect();
    let precious = workspace.write("precious", "mine");
    for entry in entries {
        std::fs::remove_file(entry.path()).expect("removed");
        symlink(&precious, entry.path()).expect("linked");
    }
    run(&workspace, "a.yaml");
    assert_eq!(workspace.read("precious"), "mine");
}

#[test]
fn an_estimate_of_the_next_message_has_a_message_that_was_answered_as_its_basis() {
    let workspace = Workspace::new();
    let text = "name: chat\nconversation_limits: {max_total_tokens: 7}\nagents: [{name: bot, model_profile: m, prompt: '{{ input }}'}]\n\
                model_profiles: {m: {provider: simulated, replies: [sixteen letters.]}}\n";
    workspace.write("chat.yaml", text);
    workspace
        .run(["run", "chat.yaml", "-i", "sixteen letters!"])
        .expect_code(0);
    // The budget refuses the second message, so nothing runs.
    workspace.run(["continue", "--last", "and?"]).expect_code(4);
    let estimate = |more: &[&str]| {
        let arguments = ["estimate", "chat.yaml", "--last", "--next-message"];
        workspace.run(arguments.iter().chain(more).copied()).expect_code(0)
    };
    let document = estimate(&["--output", "json"]).json();
    let recorded = &document["agents"][0]["recorded"];
    assert_eq!(recorded["usage"]["requests"], 1, "{document:#}");
    assert_eq!(document["next_message"]["kept_threads"][0]["tokens"], 8, "{document:#}");
    // The first message was sent with no thread, the next one is sent with 8 tokens of it.
    assert_eq!(recorded["usage"]["input_tokens"], 12, "{document:#}");
    let told = estimate(&[]).stdout;
    assert!(!told.contains("-0 ms"), "{told}");
}

#[test]
fn the_requests_of_summaries_do_not_repeat_the_kept_thread() {
    let workspace = Workspace::new();
    let text = "name: chat\nagents: [{name: bot, model_profile: m, prompt: '{{ input }}', tools: [find]}]\n\
                tools: {find: {script: 'seq 1 400', parameters: {type: object}, summarize_above: 100, summarize_with: brief}}\n\
                model_profiles:\n  m: {provider: simulated, replies: [{tool_calls: [{name: find}]}, done, {tool_calls: [{name: find}]}, done]}\n  \
                brief: {provider: simulated, replies: [in short]}\n";
    workspace.write("chat.yaml", text);
    workspace
        .run(["run", "chat.yaml", "-i", "one", "--then", "two"])
        .expect_code(0);
    let arguments = ["estimate", "chat.yaml", "--last", "--output", "json"];
    let estimate = |more: &[&str]| {
        workspace
            .run(arguments.iter().chain(more).copied())
            .expect_code(0)
            .json()
    };
    let next = estimate(&["--next-message"]);
    let usage = &next["agents"][0]["recorded"]["usage"];
    assert_eq!(
        (&usage["requests"], &usage["summaries"]),
        (&3.into(), &1.into()),
        "{next:#}"
    );
    let whole = estimate(&[])["agents"][0]["recorded"]["usage"]["input_tokens"].as_u64();
    let next_tokens = usage["input_tokens"].as_u64();
    // Both requests of the agent contain the growth of the thread, and the summary does not: it only reads the result.
    let journal = workspace.journal();
    let last_message = journal.iter().rposition(|record| record["event"] == "message_added");
    let finished = journal.iter().skip(last_message.unwrap_or_default());
    let last = finished
        .filter(|record| record["event"] == "execution_finished")
        .find_map(|record| record["data"]["usage"]["input_tokens"].as_u64());
    assert!(
        next_tokens > last && next_tokens < whole,
        "{last:?} {next_tokens:?} {whole:?}"
    );
    let added = next_tokens.unwrap_or_default() - last.unwrap_or_default();
    // Both messages have the same length, so the growth in two requests is the kept thread.
    assert_eq!(next["next_message"]["kept_threads"][0]["tokens"], added, "{next:#}");
}
