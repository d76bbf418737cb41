//! `runs diff`, `runs export`, `runs prune` and `estimate` through the binary.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::path::PathBuf;

use crate::support::{Outcome, Workspace};
use serde_json::{Value, json};

const PAIR: &str = r#"
name: pair
agents:
  - name: writer
    model_profile: p
    prompt: Write.
  - name: critic
    script: critic.rhai
    dependencies: [{agent_name: writer, condition: "'fine' in output.response"}]
  - name: rescue
    script: rescue.rhai
    dependencies: [{agent_name: writer, condition: "'fine' not in output.response"}]
model_profiles:
  p: {provider: simulated, replies: ["a fine draft\nof two lines\nand a third"]}
"#;

fn pair() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.yaml", PAIR);
    workspace.write("critic.rhai", "#{ verdict: #{ good: true, words: 8 } }");
    workspace.write("rescue.rhai", "#{ verdict: #{ good: false } }");
    workspace
}

fn run(workspace: &Workspace, arguments: &[&str]) -> String {
    let words = ["run"].iter().chain(arguments).chain(["--output", "json"].iter());
    let outcome = workspace.run(words.copied());
    outcome.json()["run_id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn says(outcome: &Outcome, texts: &[&str]) {
    for text in texts {
        assert!(outcome.stdout.contains(text), "{text:?} in\n{}", outcome.stdout);
    }
}

#[test]
fn two_runs_that_did_the_same_are_the_same() {
    let workspace = pair();
    let (a, b) = (run(&workspace, &["a.yaml"]), run(&workspace, &["a.yaml"]));
    let same = workspace.run(["runs", "diff", &a, &b]).expect_code(0);
    says(&same, &["✓ the same: 2 executions"]);
    // In every form of a record.
    workspace.write(
        "saved.json",
        workspace.run(["runs", "export", &a]).expect_code(0).stdout,
    );
    let journal = format!(".ensemble/runs/{b}/journal.jsonl");
    workspace.write("moved.jsonl", workspace.read(&journal));
    for other in ["saved.json", &journal, "moved.jsonl", &format!(".ensemble/runs/{b}")] {
        says(
            &workspace.run(["runs", "diff", &a, other]).expect_code(0),
            &["✓ the same: 2 executions"],
        );
    }
    let document = workspace
        .run(["runs", "diff", &a, &b, "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!((&document["version"], &document["same"]), (&json!(1), &json!(true)));
    assert_eq!(document["context"], json!([]));
}

#[test]
fn an_output_that_differs_is_shown_by_lines_and_paths() {
    let workspace = pair();
    let a = run(&workspace, &["a.yaml"]);
    workspace.write("a.yaml", PAIR.replace("of two lines", "of 2 lines"));
    workspace.write("critic.rhai", "#{ verdict: #{ good: true, words: 9 } }");
    let b = run(&workspace, &["a.yaml"]);
    let differ = workspace.run(["runs", "diff", &a, &b]).expect_code(1);
    says(
        &differ,
        &[
            "✗ writer #1 has a different output in turn 1\n  response\n      a fine draft\n    - of two lines\n    + of 2 lines\n      and a third\n",
            &format!(
                "and 1 more of 2 executions in both runs\n  show all with: ensemble runs show {a} -v, ensemble runs show {b} -v\n"
            ),
            "✗ the final context differs in 4 keys",
            "  critic.verdict.words\n    - 8\n    + 9\n",
        ],
    );
    assert!(!differ.stdout.contains("different agents run"), "{}", differ.stdout);
    assert!(!differ.stdout.contains("outcome"), "{}", differ.stdout);
    let document = workspace
        .run(["runs", "diff", &a, &b, "--output", "json"])
        .expect_code(1)
        .json();
    assert_eq!(document["output"]["agent"], "writer");
    assert_eq!(document["different_executions"], 2);
    let words = json!({"key": "verdict", "changes": [{"path": "words", "a": 8, "b": 9}]});
    assert!(
        document["context"].as_array().expect("keys").contains(&words),
        "{document:#}"
    );
}

#[test]
fn a_long_value_that_differs_says_how_all_of_it_is_seen() {
    let workspace = pair();
    let a = run(&workspace, &["a.yaml"]);
    let long = "word ".repeat(60) + "end";
    workspace.write("critic.rhai", format!("#{{ verdict: \"{long}\" }}"));
    let b = run(&workspace, &["a.yaml"]);
    let differ = workspace.run(["runs", "diff", &a, &b]).expect_code(1);
    says(&differ, &["+ word word", "… (--output json shows the whole value)\n"]);
    assert!(!differ.stdout.contains("end\n"), "{}", differ.stdout);
    let whole = workspace
        .run(["runs", "diff", &a, &b, "--output", "json"])
        .expect_code(1);
    assert!(whole.stdout.contains(&long), "{}", whole.stdout);
}

#[test]
fn the_turn_in_which_others_run_is_told_with_the_reason() {
    let workspace = pair();
    let a = run(&workspace, &["a.yaml"]);
    workspace.write("a.yaml", PAIR.replace("a fine draft", "a poor draft"));
    let b = run(&workspace, &["a.yaml"]);
    let differ = workspace.run(["runs", "diff", &a, &b]).expect_code(1);
    says(
        &differ,
        &[
            "✗ different agents run in turn 2\n  a  critic\n     rescue does not run: condition false on writer",
            "  b  rescue\n     critic does not run: condition false on writer",
        ],
    );
    let (said, decided) = (
        differ.stdout.find("has a different output"),
        differ.stdout.find("different agents run"),
    );
    assert!(said < decided, "what came first comes first: {}", differ.stdout);
}

#[test]
fn inputs_given_values_and_outcomes_are_compared() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: ask\nagents:\n  - {name: you, input: 'Well?'}\n  - {name: it, script: it.rhai, depends_on: [you]}\n",
    );
    workspace.write("it.rhai", "#{ n: 1 }");
    let a = run(
        &workspace,
        &["a.yaml", "-i", "one", "--set", "k=1", "--answer", "you=x"],
    );
    let b = run(&workspace, &["a.yaml", "-i", "two", "--set", "k=2"]);
    let differ = workspace.run(["runs", "diff", &a, &b]).expect_code(1);
    says(
        &differ,
        &[
            "✗ the input differs\n    - one\n    + two\n",
            "✗ the initial context differs\n  k\n    - 1\n    + 2\n",
            "✗ different agents run in turn 2\n  a  it\n  b  no such turn\n",
            "✗ the outcome differs\n  a  completed\n  b  waiting_for_input: you asks: Well?\n",
        ],
    );
    workspace.run(["continue", &a, "three"]).expect_code(3);
    let c = run(
        &workspace,
        &["a.yaml", "-i", "one", "--set", "k=1", "--answer", "you=x"],
    );
    says(
        &workspace.run(["runs", "diff", &a, &c]).expect_code(1),
        &["✗ message 1 after the input differs\n    - three\n"],
    );
    let forked = workspace
        .run(["fork", &c, "--at-turn", "1", "--output", "json"])
        .expect_code(0)
        .json();
    let forked = forked["run_id"].as_str().expect("an id");
    says(
        &workspace.run(["runs", "diff", &c, forked]).expect_code(0),
        &["b is a fork of a after turn 1", "✓ the same"],
    );
    workspace.run(["runs", "diff", &a, "nothing"]).expect_code(2);
}

/// A run in which everything that agents say is hostile, with a failure, a retry and a question.
fn hostile() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        r#"
name: hostile
agents:
  - name: writer
    model_profile: p
    prompt: Write.
  - name: shaky
    script: shaky.sh
    depends_on: [writer]
    retry: {max_attempts: 2, delay_seconds: 0}
    on_error: continue
  - name: never
    script: x.rhai
    dependencies: [{agent_name: writer, condition: "output.response == '<script>'"}]
  - name: person
    input: {prompt: "<script>ask()</script>", choices: ["<script>a</script>"]}
    depends_on: [writer]
  - name: after
    script: x.rhai
    dependencies: [{agent_name: shaky, on: failure}]
model_profiles:
  p: {provider: simulated, replies: ["<script>alert(1)</script>\n```\n# heading\n</pre></main><img src=x onerror=alert(2)>"]}
"#,
    );
    workspace.write("x.rhai", "#{}");
    workspace.write("shaky.sh", "echo '<script>e</script>' >&2; exit 1");
    workspace
        .run([
            "run",
            "a.yaml",
            "-i",
            "<script>input</script>",
            "--set",
            "<script>=<script>",
        ])
        .expect_code(3);
    workspace
}

#[test]
fn nothing_that_was_said_becomes_markup_on_the_page() {
    let workspace = hostile();
    let page = workspace
        .run(["runs", "export", "--format", "html"])
        .expect_code(0)
        .stdout;
    assert!(page.starts_with("<!doctype html>"), "{page}");
    for said in [
        "alert(1)",
        "onerror",
        "ask()",
        "input&lt;",
        "&lt;script&gt;e&lt;",
        "<dt>&lt;script&gt;</dt>",
    ] {
        assert!(page.contains(said), "{said} is told: {page}");
    }
    for markup in ["<script", "<img", "</pre></main>"] {
        assert!(!page.contains(markup), "{markup} in {page}");
    }
    for elsewhere in ["http://", "https://", "src=", "@import", "url("] {
        let ours = page
            .replace("&lt;img src=x", "")
            .replace("http://www.w3.org/2000/svg", "");
        assert!(!ours.contains(elsewhere), "{elsewhere} in {page}");
    }
    for part in [
        "prefers-color-scheme: dark",
        "@media print",
        "default-src 'none'",
        "<h2>Graph</h2>",
        "<h2>Timeline</h2>",
        "<h2>Final context</h2>",
        "attempt 1 failed (exit)",
        "--answer person=",
        "id=\"turn-2-shaky\"",
        "href=\"#turn-2-shaky\"",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

/// Names of tags that are opened and never closed, or closed and never opened.
pub(super) fn unbalanced(page: &str) -> Vec<String> {
    let void = ["meta", "!doctype", "br"];
    let mut open: Vec<&str> = Vec::new();
    let mut bad = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '\n', '/'])
            .next()
            .expect("a name");
        if tag.starts_with('/') {
            match open.pop() {
                Some(opened) if opened == name => {}
                other => bad.push(format!("{other:?} ended by {name}")),
            }
        } else if !tag.ends_with('/') && !void.contains(&name) {
            open.push(name);
        }
    }
    bad.extend(open.into_iter().map(str::to_owned));
    bad
}

#[test]
fn the_page_is_well_formed() {
    let workspace = hostile();
    let page = workspace
        .run(["runs", "export", "--format", "html"])
        .expect_code(0)
        .stdout;
    assert_eq!(unbalanced(&page), [""; 0]);
}

#[test]
fn the_markdown_keeps_what_was_said_in_fences() {
    let workspace = hostile();
    let text = workspace
        .run(["runs", "export", "--format", "markdown"])
        .expect_code(0)
        .stdout;
    let mut fence: Option<String> = None;
    let mut outside = String::new();
    for line in text.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            None if ticks.len() >= 3 => fence = Some(ticks),
            // What is escaped or stands in a code span is text.
            None => {
                let plain: Vec<&str> = line.split('`').step_by(2).collect();
                outside.push_str(&format!("{}\n", plain.concat().replace("\\<", "")));
            }
            Some(open) if line == open => fence = None,
            Some(_) => {}
        }
    }
    assert_eq!(fence, None, "{text}");
    assert!(text.contains("# heading"), "{text}");
    assert!(
        !outside.contains("<script") && !outside.contains("\n# heading"),
        "{outside}"
    );
    for part in [
        "# hostile: waiting\n",
        "```mermaid",
        "| turn | writer | shaky | person |",
        "### Turn 2",
        "## Final context",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn an_export_shortens_nothing() {
    let workspace = Workspace::new();
    let long = "word ".repeat(50) + "end";
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - {{name: one, script: s.rhai}}\n  - {{name: two, script: s.rhai, dependencies: [{{agent_name: one, \
             condition: \"output.n == '{long}'\"}}]}}\n  - {{name: three, script: s.rhai, depends_on: [one]}}\n"
        ),
    );
    workspace.write("s.rhai", "#{ n: 1 }");
    let id = run(&workspace, &["a.yaml"]);
    for (format, words) in [
        ("markdown", "- two did not run: condition false on one"),
        ("html", "<b>two</b> did not run: condition false on one"),
        ("html", "did not run: condition false on one"),
    ] {
        let export = ["runs", "export", &id, "--format", format];
        let text = workspace.run(export).expect_code(0).stdout;
        let mut lines = text.lines().filter(|line| line.contains(words)).peekable();
        assert!(lines.peek().is_some(), "{words} in {format}: {text}");
        assert!(lines.all(|line| line.contains(&long)), "{format}: {text}");
    }
}

#[test]
fn an_export_is_written_to_a_file() {
    let workspace = pair();
    let id = run(&workspace, &["a.yaml"]);
    for (format, begins) in [("json", "{"), ("markdown", "# pair"), ("html", "<!doctype html>")] {
        let written = workspace
            .run(["runs", "export", &id, "--format", format, "-o", "out.txt"])
            .expect_code(0);
        assert_eq!(
            (written.stdout.as_str(), written.stderr.as_str()),
            ("", "wrote out.txt\n")
        );
        assert!(workspace.read("out.txt").starts_with(begins));
    }
    let refused = workspace
        .run(["runs", "export", &id, "-o", "no/such/folder.json"])
        .expect_code(2);
    assert!(
        refused.stderr.contains("cannot write no/such/folder.json"),
        "{}",
        refused.stderr
    );
}

/// Runs of three outcomes, the oldest first: completed, waiting, failed, completed.
fn several() -> (Workspace, Vec<String>) {
    let workspace = Workspace::new();
    workspace.write("good.yaml", "name: good\nagents:\n  - {name: it, script: it.rhai}\n");
    workspace.write("ask.yaml", "name: ask\nagents:\n  - {name: you, input: 'Well?'}\n");
    workspace.write("bad.yaml", "name: bad\nagents:\n  - {name: it, script: bad.rhai}\n");
    workspace.write("it.rhai", "#{ n: 1 }");
    workspace.write("bad.rhai", "throw \"no\"");
    let ids = ["good.yaml", "ask.yaml", "bad.yaml", "good.yaml"];
    let ids = ids.iter().map(|file| run(&workspace, &[file])).collect();
    (workspace, ids)
}

fn left(workspace: &Workspace) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    workspace.runs().into_iter().map(name).collect()
}

#[test]
fn prune_deletes_what_it_is_told_and_spares_what_can_be_resumed() {
    let (workspace, ids) = several();
    let refused = workspace.run(["runs", "prune"]).expect_code(2);
    assert!(refused.stderr.contains("--keep"), "{}", refused.stderr);
    let dry = workspace
        .run(["runs", "prune", "--keep", "1", "--dry-run"])
        .expect_code(0);
    assert_eq!(dry.stdout, format!("{}  completed\n{}  agent_failed\n", ids[0], ids[2]));
    assert!(dry.stderr.contains("would delete 2 runs"), "{}", dry.stderr);
    assert_eq!(left(&workspace), ids);
    let none = workspace.run(["runs", "prune", "--older-than", "1d"]).expect_code(0);
    assert!(none.stderr.contains("deleted 0 runs"), "{}", none.stderr);
    let failed = workspace
        .run(["runs", "prune", "--outcome", "agent_failed,timeout"])
        .expect_code(0);
    assert!(
        failed.stderr.contains("deleted 1 run, ") && failed.stderr.contains(" freed"),
        "{}",
        failed.stderr
    );
    assert_eq!(left(&workspace), [&*ids[0], &*ids[1], &*ids[3]]);
    let waiting = workspace
        .run(["runs", "prune", "--outcome", "waiting", "--resumable", "--dry-run"])
        .expect_code(0);
    assert_eq!(waiting.stdout, format!("{}  waiting\n", ids[1]));
    let interrupted = workspace
        .run([
            "runs",
            "prune",
            "--outcome",
            "interrupted,running",
            "--resumable",
            "--dry-run",
        ])
        .expect_code(0);
    assert_eq!(interrupted.stdout, "");
    let pruned = workspace
        .run(["runs", "prune", "--keep", "0", "--older-than", "0s"])
        .expect_code(0);
    assert!(
        pruned.stderr.contains(&format!("kept {}: waiting", ids[1])),
        "{}",
        pruned.stderr
    );
    assert!(pruned.stderr.contains("--resumable"), "{}", pruned.stderr);
    assert_eq!(left(&workspace), [&*ids[1]]);
    workspace
        .run(["runs", "prune", "--keep", "0", "--resumable"])
        .expect_code(0);
    assert_eq!(left(&workspace), [""; 0]);
    let refused = workspace.run(["runs", "prune", "--outcome", "nice"]).expect_code(2);
    assert!(
        refused.stderr.contains("waiting, interrupted, ") && !refused.stderr.contains("waiting_for_input"),
        "it lists what there is: {}",
        refused.stderr
    );
}

#[test]
fn prune_spares_a_run_that_is_driven_and_one_that_cannot_be_read() {
    let (workspace, ids) = several();
    let journal = workspace
        .path()
        .join(format!(".ensemble/runs/{}/journal.jsonl", ids[3]));
    let text = std::fs::read_to_string(&journal).expect("a journal");
    std::fs::write(&journal, text.replacen("turn", "turm", 1)).expect("files can be written");
    workspace.write("slow.yaml", "name: slow\nagents:\n  - {name: it, script: slow.sh}\n");
    workspace.write("slow.sh", "until [ -e go ]; do sleep 0.02; done");
    let running = workspace.spawn(["run", "slow.yaml"]);
    crate::support::eventually("the fifth run", || (workspace.runs().len() == 5).then_some(()));
    crate::support::eventually("its journal", || {
        workspace.runs()[4].join("journal.jsonl").is_file().then_some(())
    });
    let pruned = workspace
        .run(["runs", "prune", "--keep", "0", "--resumable"])
        .expect_code(0);
    let driven = format!("process {} executes it", running.0.id());
    assert!(pruned.stderr.contains(&driven), "{}", pruned.stderr);
    assert!(pruned.stderr.contains("journal.jsonl:2:"), "{}", pruned.stderr);
    assert_eq!(left(&workspace).len(), 2);
    workspace.write("go", "");
    running.finish().expect_code(0);
}

fn agent<'d>(document: &'d Value, name: &str) -> &'d Value {
    let agents = document["agents"].as_array().expect("agents");
    agents.iter().find(|agent| agent["agent"] == *name).expect("the agent")
}

#[test]
fn an_estimate_tells_what_the_recorded_path_took() {
    let workspace = pair();
    let id = run(&workspace, &["a.yaml"]);
    let told = workspace.run(["estimate", "a.yaml", "--from", &id]).expect_code(0);
    says(
        &told,
        &[
            &format!("a.yaml, estimated from run {id} (completed, 2 turns)"),
            "rescue  did not run\n",
            "\nall ",
            "wall clock ",
            "~ estimated",
            "simulated: writer uses a simulated model",
        ],
    );
    let document = workspace
        .run(["estimate", "a.yaml", "--from", &id, "--output", "json"])
        .expect_code(0)
        .json();
    let result = workspace.run(["runs", "export", &id]).expect_code(0).json();
    assert_eq!(
        document["known"]["usage"]["input_tokens"],
        result["usage"]["input_tokens"]
    );
    assert_eq!(document["known"]["usage"]["estimated"], true);
    assert_eq!(document["known"]["executions"], 2);
    assert_eq!(agent(&document, "writer")["recorded"]["usage"]["requests"], 1);
    assert_eq!(agent(&document, "critic")["state"], "same");
    assert_eq!(agent(&document, "rescue")["state"], "idle");
}

#[test]
fn an_estimate_says_what_the_record_cannot_know() {
    let workspace = pair();
    let id = run(&workspace, &["a.yaml"]);
    let edited = PAIR
        .replace("name: critic", "name: judge")
        .replace("a fine draft", "another fine draft")
        .replace(
            "    script: rescue.rhai",
            "    description: as before\n    script: rescue.rhai",
        );
    workspace.write("b.yaml", edited);
    let told = workspace.run(["estimate", "b.yaml", "--from", &id]).expect_code(0);
    says(
        &told,
        &[
            "writer    unknown: changed\n",
            "judge     unknown: new\n",
            "rescue    did not run\n",
            "\nat least  ",
            "writer: changed since",
            "judge: new",
            "critic: no longer in the file",
        ],
    );
    let document = workspace
        .run(["estimate", "b.yaml", "--from", &id, "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(
        agent(&document, "writer")["state"],
        "changed",
        "its profile has other replies"
    );
    assert_eq!(agent(&document, "judge")["state"], "new");
    assert_eq!(
        agent(&document, "rescue")["state"],
        "idle",
        "a description changes nothing"
    );
    assert_eq!(document["no_longer_there"], json!(["critic"]));
    assert_eq!(document["known"]["executions"], 0);
}
