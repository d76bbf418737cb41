//! An agent with parts: what is told of it while it runs, when it was interrupted, and in the reports of its run.

#![expect(clippy::disallowed_methods, reason = "a test reads a journal while it grows")]

use serde_json::json;

use crate::support::terminal::Terminal;
use crate::support::{Workspace, eventually, records};

/// An agent with 12 parts, of which 6 end at once and the others when they may.
fn slow() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "slow.yaml",
        "name: slow\nagents:\n  - {name: it, script: 'sh it.sh', for_each: {times: 12, max_parallel: 12}}\n  - {name: \
         after, script: after.rhai, depends_on: [it]}\n",
    );
    workspace.write("after.rhai", "#{ heard: dependencies.it.count }");
    workspace.write(
        "it.sh",
        "echo $ENSEMBLE_PART >> ran.txt\nif [ $ENSEMBLE_PART -ge 6 ]; then until [ -e go ] || [ ! -e slow.yaml ]; do sleep 0.02; \
         done; fi\necho fine",
    );
    workspace
}

/// Waits until 6 parts have ended and the others have begun.
fn wait_for_six(workspace: &Workspace) {
    eventually("six parts", || {
        let journal = workspace.runs().first()?.join("journal.jsonl");
        let text = std::fs::read_to_string(journal).ok()?;
        let began = workspace
            .path()
            .join("ran.txt")
            .exists()
            .then(|| workspace.read("ran.txt"))?;
        (text.matches("\"part_ended\"").count() == 6 && began.lines().count() == 12).then_some(())
    });
}

#[test]
fn an_interrupted_agent_tells_how_many_parts_are_kept() {
    let workspace = slow();
    for (mode, is_told) in [("json", false), ("human", true)] {
        let _ = std::fs::remove_dir_all(workspace.path().join(".ensemble"));
        let _ = std::fs::remove_file(workspace.path().join("ran.txt"));
        let running = workspace.spawn(["run", "slow.yaml", "--output", mode]);
        wait_for_six(&workspace);
        running.signal("INT");
        let cut = running.finish().expect_code(130);
        if is_told {
            for words in [
                "0 turns · 0 executions and 6 parts of an unfinished execution · ",
                "\n  it was interrupted after 6 of 12 parts; `ensemble resume` executes the other 6\n",
                "after never ran: waiting for it\n",
                "resume with: ensemble resume ",
            ] {
                assert!(cut.stderr.contains(words), "{words}: {}", cut.stderr);
            }
            assert!(!cut.stderr.contains("it never ran"), "{}", cut.stderr);
        } else {
            let result = cut.json();
            let not_run = json!([{"agent": "after", "reason": "waiting for it"}]);
            assert_eq!(result["not_run"], not_run);
            let parts = json!({"ended": 6, "failed": 0, "count": 12});
            let unfinished =
                json!([{"agent": "it", "turn": 1, "execution": 1, "reason": "interrupted", "parts": parts}]);
            assert_eq!(result["unfinished"], unfinished);
            assert_eq!(result["agent_execution_count"]["it"], 0);
        }
    }
    for (format, words) in [
        ("markdown", "12 parts: 6 succeeded, 6 open"),
        ("html", "12 parts: 6 succeeded, 6 open"),
    ] {
        let exported = workspace
            .run(["runs", "export", "--last", "--format", format])
            .expect_code(0);
        assert!(exported.stdout.contains(words), "{format}: {}", exported.stdout);
    }
    workspace.write("go", "");
    let ended = workspace
        .run(["resume", "--last", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!((&ended["unfinished"], &ended["not_run"]), (&json!([]), &json!([])));
    assert_eq!(ended["final_state"]["heard"], 12);
    assert_eq!(workspace.read("ran.txt").lines().count(), 18, "six parts were repeated");
}

#[test]
fn an_execution_without_parts_that_was_interrupted_is_unfinished_too() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nconversation_limits: {timeout_seconds: 1}\nagents:\n  - {name: it, script: 'sleep 60'}\n  - {name: quick, script: \
         quick.rhai}\n",
    );
    workspace.write("quick.rhai", "#{ said: 1 }");
    let cut = workspace
        .run(["run", "a.yaml", "--output", "json"])
        .expect_code(4)
        .json();
    let unfinished = json!([{"agent": "it", "turn": 1, "execution": 1, "reason": "interrupted"}]);
    assert_eq!(cut["unfinished"], unfinished);
    assert_eq!(cut["not_run"], json!([{"agent": "it", "reason": "interrupted"}]));
    let told = workspace.run(["resume", "--last"]).expect_code(4).stderr;
    assert!(told.contains("1 execution · "), "{told}");
    assert!(told.contains("it was interrupted in its first execution\n"), "{told}");
    assert!(!told.contains("it never ran"), "{told}");
}

#[test]
fn an_agent_that_waits_with_some_parts_says_so() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: each, ensemble: inner, inputs: {n: '{{ item }}'}, for_each: {times: 3, max_parallel: 1}}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\ninputs: {n: {type: integer}}\nagents:\n  - {name: say, script: say.rhai}\n  - name: person\n    input: 'Well?'\n    \
         dependencies: [{agent_name: say, condition: output.n == 2}]\n",
    );
    workspace.write("say.rhai", "#{ n: inputs.n }");
    let waits = workspace.run(["run", "outer.yaml"]).expect_code(3).stderr;
    assert!(
        waits.contains("each waits for an answer after 2 of 3 parts; `ensemble resume` executes the other 1\n"),
        "{waits}"
    );
    assert!(!waits.contains("each never ran"), "{waits}");
}

#[test]
fn parts_that_the_time_of_the_turn_stopped_have_their_time() {
    let workspace = Workspace::new();
    workspace.write(
        "late.yaml",
        "name: late\nconversation_limits: {turn_timeout_seconds: 1}\nagents:\n  - {name: it, script: 'sh it.sh', for_each: {times: 3, \
         max_parallel: 2, on_error: collect, at_least: 0}}\n",
    );
    workspace.write("it.sh", "sleep 60");
    workspace.run(["run", "late.yaml"]).expect_code(0);
    let journal = records(&workspace.runs()[0].join("journal.jsonl"));
    let times: Vec<f64> = journal
        .iter()
        .filter(|record| record["event"] == "part_ended")
        .filter_map(|record| record["data"]["execution_time"].as_f64())
        .collect();
    assert_eq!(times.len(), 3);
    assert!(times[..2].iter().all(|time| (0.5..10.0).contains(time)), "{times:?}");
    assert!(
        times[2].abs() < f64::EPSILON,
        "the last part was not started: {times:?}"
    );
}

/// 12 parts, of which two fail.
fn some_fail() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "some.yaml",
        "name: some\nagents:\n  - {name: it, script: it.rhai, for_each: {in: [a, b, '<c>', d, e, f, g, h, i, j, k, l], key: item, on_error: \
         collect}}\n",
    );
    workspace.write(
        "it.rhai",
        "if item == \"b\" || item == \"<c>\" { throw \"cannot read \" + item }\n#{ read: item }",
    );
    workspace.run(["run", "some.yaml"]).expect_code(0);
    workspace
}

#[test]
fn exports_tell_the_counts_of_parts_and_name_the_failed_ones() {
    let workspace = some_fail();
    let export = |format: &str| {
        let arguments = ["runs", "export", "--last", "--format", format];
        workspace.run(arguments).expect_code(0).stdout
    };
    let markdown = export("markdown");
    for line in [
        "12 parts: 10 succeeded, 2 failed",
        "- part b failed: it.rhai:1:35: cannot read b",
        "- part \\<c\\> failed: it.rhai:1:35: cannot read \\<c\\>",
    ] {
        assert!(markdown.lines().any(|told| told == line), "{line} in {markdown}");
    }
    assert!(!markdown.contains("part a failed"), "{markdown}");
    let html = export("html");
    let parts = html
        .split("<details class=\"parts\">")
        .nth(1)
        .and_then(|rest| rest.split("</details>").next());
    let parts = parts.unwrap_or_else(|| panic!("no parts in {html}"));
    for words in [
        "<summary>12 parts: 10 succeeded, 2 failed</summary>",
        "<dt>&lt;c&gt; <small>",
        "failed: it.rhai:1:35: cannot read &lt;c&gt;",
        "failed: it.rhai:1:35: cannot read b",
    ] {
        assert!(parts.contains(words), "{words} in {parts}");
    }
    assert_eq!(parts.matches(" <small>").count(), 12, "each part is there: {parts}");
    assert!(!html.contains("<c>"), "{html}");
}

#[test]
fn the_line_of_what_runs_counts_parts() {
    let workspace = slow();
    let mut terminal = Terminal::open(&workspace, &["run", "slow.yaml"], &[("NO_COLOR", "1")]);
    terminal.wait_for("turn 1 · it 6/12");
    workspace.write("go", "");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("12 parts: 12 succeeded"), "{shown}");
}
