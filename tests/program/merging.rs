//! `runs merge` through the binary: two conversations that part, and the run that continues both.

use crate::support::{Workspace, records};
use serde_json::{Value, json};

/// A bot that remembers, and says how many messages it reads and which the last one is.
fn chat() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "chat.yaml",
        r#"
name: chat
agents:
  - name: bot
    model_profile: m
    prompt: "{{ input }}"
  - name: judge
    script: judge.rhai
    depends_on: [bot]
model_profiles:
  m: {provider: simulated, script: bot.rhai}
"#,
    );
    workspace.write("bot.rhai", "`${messages.len()} messages, the last is ${prompt}`");
    workspace.write("judge.rhai", "#{ verdict: dependencies.bot.response }");
    workspace
}

fn latest_run(workspace: &Workspace) -> String {
    let runs = workspace.runs();
    let last = runs.last().and_then(|run| run.file_name()).expect("a run");
    last.to_string_lossy().into_owned()
}

/// Starts a run, forks it after its first message, and says something else to each of both.
fn part(workspace: &Workspace, left: &[&str], right: &[&str]) -> (String, String) {
    workspace.run(["run", "chat.yaml", "-i", "one"]).expect_code(0);
    let one = latest_run(workspace);
    workspace.run(["fork", &one, "--at-turn", "2"]).expect_code(0);
    let other = latest_run(workspace);
    for (run, texts) in [(&one, left), (&other, right)] {
        for text in texts {
            workspace.run(["continue", run, text]).expect_code(0);
        }
    }
    (one, other)
}

fn merge(workspace: &Workspace, arguments: &[&str]) -> String {
    let merged = workspace
        .run(["runs", "merge"].iter().chain(arguments).copied())
        .expect_code(0);
    merged.stdout.trim_end().to_owned()
}

#[test]
fn a_merged_run_is_listed_shown_compared_replayed_and_continued() {
    let workspace = chat();
    let (one, other) = part(&workspace, &["left"], &["right"]);
    let journals = || [&one, &other].map(|run| workspace.read(&format!(".ensemble/runs/{run}/journal.jsonl")));
    let before = journals();
    let merged = merge(&workspace, &[&one, &other]);
    assert_eq!(journals(), before, "the other runs stay as they are");
    let first = &records(&workspace.path().join(format!(".ensemble/runs/{merged}/journal.jsonl")))[0];
    let from = &first["data"]["forked_from"];
    assert_eq!(
        (&from["run_id"], &from["merged_with"], &from["turn"]),
        (&json!(one), &json!(other), &json!(2))
    );

    let listed = workspace
        .run(["runs", "list", "--output", "json"])
        .expect_code(0)
        .json();
    let runs = listed["runs"].as_array().expect("a list");
    let row = runs
        .iter()
        .find(|run| run["run_id"] == json!(merged))
        .expect("is listed");
    assert_eq!(
        (&row["state"], &row["turn_count"], &row["executions"]),
        (&json!("completed"), &json!(6), &json!(6))
    );
    let shown = workspace.run(["runs", "show", &merged]).expect_code(0).stdout;
    assert!(
        shown.contains(&format!("merged from {one} and {other} after turn 2")),
        "{shown}"
    );
    assert!(shown.contains("left") && shown.contains("right"), "{shown}");
    let page = workspace
        .run(["runs", "export", &merged, "--output", "html"])
        .expect_code(0)
        .stdout;
    assert!(page.contains("merged from"), "the page says where its turns come from");
    let trace = workspace
        .run(["runs", "export", &merged, "--output", "otlp"])
        .expect_code(0)
        .stdout;
    assert_eq!(trace.matches("merged_from").count(), 2, "one link to each run: {trace}");
    assert!(!trace.contains("unfinished"), "the merge has ended: {trace}");
    let compared = workspace.run(["runs", "diff", &one, &merged]).expect_code(1).stdout;
    assert!(compared.contains("is a merge of"), "{compared}");
    assert!(compared.contains("right"), "{compared}");
    workspace.run(["replay", &merged]).expect_code(0);

    let continued = workspace
        .run(["continue", &merged, "both", "--output", "json"])
        .expect_code(0);
    assert_eq!(
        continued.json()["final_state"]["verdict"],
        "7 messages, the last is both",
        "the bot remembers both runs"
    );
    assert_eq!(continued.json()["turn_count"], 8);
    let replayed = workspace.run(["replay", &merged]).expect_code(0);
    assert!(
        replayed.stdout.starts_with("✓ the same: 3 decisions"),
        "{}",
        replayed.stdout
    );
    let telling = workspace
        .run_with_stdin(["chat", "--run", &merged], "more\n")
        .expect_code(0);
    assert!(
        telling.stdout.contains("9 messages, the last is more"),
        "{}",
        telling.stdout
    );
}

#[test]
fn the_times_of_a_merged_run_are_those_of_the_runs_that_executed_its_turns() {
    let workspace = chat();
    let (one, other) = part(&workspace, &["left"], &["right"]);
    for order in ["sequence", "side-by-side"] {
        let merged = merge(&workspace, &[&one, &other, "--order", order]);
        for arguments in [
            &["resume", &merged][..],
            &["runs", "show", &merged],
            &["runs", "show", &merged, "-v"],
            &["runs", "export", &merged, "--output", "html"],
            &["runs", "export", &merged, "--output", "markdown"],
            &["runs", "export", &merged, "--output", "json"],
        ] {
            let outcome = workspace.run(arguments).expect_code(0);
            let text = format!("{}{}", outcome.stdout, outcome.stderr);
            let is_negative = |word: &str| {
                let number = word.trim_start_matches(|mark| "·(>:".contains(mark));
                number
                    .trim_end_matches([',', ')'])
                    .parse::<f64>()
                    .is_ok_and(|seconds| seconds < 0.0)
            };
            let negative = text.split_whitespace().find(|word| is_negative(word));
            assert_eq!(negative, None, "{arguments:?}: {text}");
        }
    }
}

#[test]
fn messages_alternate_side_by_side() {
    let workspace = chat();
    let (one, other) = part(&workspace, &["l1", "l2"], &["r1"]);
    let texts = |run: &str| -> Vec<String> {
        let journal = records(&workspace.path().join(format!(".ensemble/runs/{run}/journal.jsonl")));
        let added = journal.iter().filter(|record| record["event"] == "message_added");
        added
            .filter_map(|record| record["data"]["text"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(texts(&merge(&workspace, &[&one, &other])), ["l1", "l2", "r1"]);
    let side_by_side = merge(&workspace, &[&one, &other, "--order", "side-by-side"]);
    assert_eq!(texts(&side_by_side), ["l1", "r1", "l2"]);
    let swapped = merge(&workspace, &[&other, &one, "--order", "sequence"]);
    assert_eq!(texts(&swapped), ["r1", "l1", "l2"]);
    // A request of `l2` did not contain `r1`, and the messages of the run say so.
    let sent = workspace
        .run(["runs", "show", &side_by_side, "--messages", "bot@7", "--output", "json"])
        .expect_code(0)
        .json();
    let remembered = sent[0]["remembered"].as_array().expect("a list");
    let contents: Vec<&Value> = remembered.iter().map(|message| &message["content"]).collect();
    assert_eq!(
        contents,
        ["one", "1 messages, the last is one", "l1", "3 messages, the last is l1"]
    );
}

#[test]
fn a_merged_run_can_be_forked_and_merged_again() {
    let workspace = chat();
    let (one, other) = part(&workspace, &["left"], &["right"]);
    let merged = merge(&workspace, &[&one, &other]);
    workspace.run(["fork", &merged, "--at-turn", "6"]).expect_code(0);
    let fork = latest_run(&workspace);
    for (run, text) in [(&merged, "third"), (&fork, "fourth")] {
        workspace.run(["continue", run, text]).expect_code(0);
    }
    let again = merge(&workspace, &[&merged, &fork]);
    let last = workspace
        .run(["continue", &again, "last", "--output", "json"])
        .expect_code(0);
    assert_eq!(last.json()["final_state"]["verdict"], "11 messages, the last is last");
    workspace.run(["replay", &again]).expect_code(0);
}

#[test]
fn runs_that_cannot_be_merged_say_why_and_what_to_do() {
    let workspace = chat();
    let (one, other) = part(&workspace, &["left"], &[]);
    workspace.run(["run", "chat.yaml", "-i", "one"]).expect_code(0);
    let unrelated = latest_run(&workspace);
    workspace.run(["run", "chat.yaml", "-i", "two"]).expect_code(0);
    let two = latest_run(&workspace);
    let (left, right) = part(&workspace, &["left"], &["right"]);
    workspace.run(["runs", "merge", &left, &right]).expect_code(0);
    let merge = latest_run(&workspace);
    workspace.write("ask.yaml", "name: ask\nagents: [{name: you, input: 'Well?'}]\n");
    workspace.run(["run", "ask.yaml"]).expect_code(3);
    let ask = latest_run(&workspace);
    workspace.run(["fork", &ask, "--at-turn", "0"]).expect_code(3);
    let asked = latest_run(&workspace);
    workspace.run(["runs", "merge", &ask, &asked]).expect_code(2);
    for (a, b, why, help) in [
        (
            &one,
            &one,
            "cannot be merged with itself",
            "ensemble fork RUN --at-turn N",
        ),
        (&one, &other, "adds no message to", "ensemble continue"),
        (&merge, &left, "is a merge that already contains", "ensemble continue"),
        (&right, &merge, "is a merge that already contains", "ensemble continue"),
        (
            &one,
            &unrelated,
            "have no common beginning",
            "ensemble fork RUN --at-turn N",
        ),
        (&one, &two, "began with another input", "ensemble fork RUN --at-turn N"),
        (&one, &ask, "have different ensembles", "--ensemble FILE"),
    ] {
        let runs = workspace.runs().len();
        let refused = workspace.run(["runs", "merge", a, b]).expect_code(2);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("help: ") && refused.stderr.contains(help),
            "{}",
            refused.stderr
        );
        assert_eq!(workspace.runs().len(), runs, "nothing is written");
    }
}

#[test]
fn an_estimate_of_the_next_message_of_a_fresh_merge_counts_the_thread_of_both_runs() {
    let workspace = Workspace::new();
    workspace.write(
        "chat.yaml",
        "name: chat\nagents: [{name: bot, model_profile: m, prompt: '{{ input }}'}]\n\
         model_profiles: {m: {provider: simulated, replies: [sixteen letters.]}}\n",
    );
    // Each message and each reply has four tokens.
    workspace
        .run(["run", "chat.yaml", "-i", "sixteen letters!"])
        .expect_code(0);
    let one = latest_run(&workspace);
    workspace.run(["fork", &one, "--at-turn", "1"]).expect_code(0);
    let other = latest_run(&workspace);
    for run in [&one, &one, &other] {
        workspace.run(["continue", run, "sixteen letters?"]).expect_code(0);
    }
    let estimate = |run: &str| {
        let arguments = [
            "estimate",
            "chat.yaml",
            "--next-message",
            "--output",
            "json",
            "--from",
            run,
        ];
        let document = workspace.run(arguments).expect_code(0).json();
        document["agents"][0]["recorded"]["usage"]["input_tokens"].clone()
    };
    assert_eq!((estimate(&one), estimate(&other)), (json!(28), json!(20)));
    for order in [[&one, &other], [&other, &one]] {
        let merged = merge(&workspace, &[order[0], order[1]]);
        // Four messages with their replies, and a new message.
        assert_eq!(estimate(&merged), 36, "{merged}");
    }
}
