//! The end of a run in every summary: what `--fail-on-limit` refuses, failed parts, stop reasons and positions.

use serde_json::{Value, json};

use crate::support::Workspace;

/// A loop whose writer reaches `max_turns` with work left.
const LOOP: &str = "
name: loop
agents:
  - name: writer
    script: write.rhai
    dependencies: [{agent_name: critic, feedback: true, condition: not output.ok}]
    conversation: {max_turns: 2}
  - {name: critic, script: write.rhai, depends_on: [writer], conversation: {max_turns: 2}}
";

fn with_loop() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("loop.yaml", LOOP);
    workspace.write("write.rhai", "#{ok: false}");
    workspace
}

#[test]
fn a_refused_success_is_no_success_in_any_output() {
    let workspace = with_loop();
    let accepted = workspace.run(["run", "loop.yaml"]).expect_code(0).stderr;
    assert!(
        accepted.contains("✓ completed; `writer` reached `max_turns: 2`"),
        "{accepted}"
    );
    let refused = workspace
        .run(["run", "loop.yaml", "--fail-on-limit"])
        .expect_code(4)
        .stderr;
    assert!(
        refused.contains("✗ completed; `writer` reached `max_turns: 2`"),
        "{refused}"
    );
    assert!(refused.contains("exit code 4, because of --fail-on-limit"), "{refused}");
    let quiet = workspace
        .run(["run", "loop.yaml", "--fail-on-limit", "--quiet"])
        .expect_code(4)
        .stderr;
    assert!(quiet.contains("✗ completed"), "{quiet}");
    let events = ["run", "loop.yaml", "--fail-on-limit", "--output", "events"];
    let events = workspace.run(events).expect_code(4).stdout;
    let last: Value = serde_json::from_str(events.lines().last().expect("an event")).expect("JSON");
    assert_eq!(last["data"]["success"], false, "{last}");
    assert_eq!(last["data"]["completion_reason"], "completed");
    // The recorded run says the same.
    let shown = workspace
        .run(["runs", "show", "--last", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(shown["success"], false, "{shown}");
    assert_eq!(shown["completion_reason"], "completed", "{shown}");
    let text = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
    assert!(text.contains("✗ completed; `writer` reached `max_turns: 2`"), "{text}");
    let listed = workspace.run(["runs", "list"]).expect_code(0).stdout;
    assert_eq!(
        listed.matches("completed without success, turns").count(),
        3,
        "{listed}"
    );
    assert_eq!(listed.matches("completed, turns").count(), 1, "{listed}");
    let listed = workspace
        .run(["runs", "list", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(
        listed["runs"].to_string().matches("\"success\":false").count(),
        3,
        "{listed}"
    );
    let resumed = workspace.run(["resume", "--last"]).expect_code(4).stderr;
    assert!(resumed.contains("✗ completed"), "{resumed}");
    let fresh = workspace.run(["run", "loop.yaml"]).expect_code(0).stderr;
    assert!(fresh.contains("✓ completed"), "{fresh}");
    // An ended run is reported in the same way.
    let again = workspace
        .run(["resume", "--last", "--fail-on-limit"])
        .expect_code(4)
        .stderr;
    assert!(again.contains("✗ completed"), "{again}");
}

#[test]
fn a_batch_counts_refused_rows_and_names_open_work() {
    let workspace = with_loop();
    workspace.write("rows.csv", "input\na\nb\n");
    let batch = |more: &[&str]| {
        let arguments = [&["batch", "loop.yaml", "--data", "rows.csv"], more].concat();
        workspace.run(arguments)
    };
    let told = batch(&[]).expect_code(0).stdout;
    assert!(told.contains("2 rows · 2 completed\n"), "{told}");
    assert!(
        told.contains("2 × `writer` reached `max_turns: 2` while it still had work (rows 1, 2)"),
        "{told}"
    );
    let told = batch(&["--fail-on-limit"]).expect_code(4).stdout;
    assert!(told.contains("2 rows · 2 cut off by a limit\n"), "{told}");
    let document = batch(&["--fail-on-limit", "--output", "json"]).expect_code(4).json();
    assert_eq!((&document["limited"], &document["completed"]), (&json!(2), &json!(0)));
    let rows = workspace.read(".ensemble/batches/loop-rows/results.jsonl");
    let row: Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
    assert_eq!(row["success"], false, "{row}");
    assert_eq!(
        row["exhausted"],
        json!([{"agent": "writer", "limit": "max_turns", "count": 2}])
    );

    let refused = [
        "batch",
        "loop.yaml",
        "--data",
        "rows.csv",
        "--name",
        "refused",
        "--fail-on-limit",
    ];
    workspace.run(refused).expect_code(4);
    let listed = workspace.run(["runs", "list"]).expect_code(0).stdout;
    assert!(listed.contains("2 rows · 2 cut off by a limit"), "{listed}");
    let rows = workspace
        .run(["runs", "list", "--batch", "refused", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!((&rows["limited"], &rows["completed"]), (&json!(2), &json!(0)), "{rows}");

    // The lists judge the rows as the last call did; the runs keep what they recorded.
    for (name, flags, code, words) in [
        ("refused", &[][..], 0, "2 rows · 2 completed"),
        ("refused", &["--fail-on-limit"], 4, "2 rows · 2 cut off by a limit"),
        ("loop-rows", &["--fail-on-limit"], 4, "2 rows · 2 cut off by a limit"),
        ("loop-rows", &[], 0, "2 rows · 2 completed"),
    ] {
        let call = ["batch", "loop.yaml", "--data", "rows.csv", "--name", name];
        let told = workspace.run([&call, flags].concat()).expect_code(code).stdout;
        assert!(told.contains(words), "{name} {flags:?}: {told}");
        let listed = workspace.run(["runs", "list"]).expect_code(0).stdout;
        let line = listed.lines().find(|line| line.contains(name)).expect("the batch");
        assert!(line.contains(words), "{name} {flags:?}: {listed}");
        let rows = workspace.run(["runs", "list", "--batch", name, "--output", "json"]);
        let rows = rows.expect_code(0).json();
        let count = if code == 0 { "completed" } else { "limited" };
        assert_eq!(rows[count], 2, "{rows}");
        assert_eq!(rows["runs"][0]["success"], code == 0, "{rows}");
    }
    let run = first_row_run(&workspace, "refused");
    let shown = workspace
        .run(["runs", "show", &run, "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(shown["success"], false, "{shown}");

    workspace.write(
        "parts.yaml",
        "name: parts\nagents: [{name: p, script: part.rhai, for_each: {times: 3, on_error: collect}}]\n",
    );
    workspace.write("part.rhai", "if part.index == 1 { throw \"no\" } 1");
    let arguments = ["batch", "parts.yaml", "--data", "rows.csv", "--output", "json"];
    let document = workspace.run(arguments).expect_code(0).json();
    let work = &document["open_work"][0];
    assert_eq!(
        (&work["work"], &work["count"]),
        (&json!("1 of 3 parts of `p` failed"), &json!(2))
    );
    let rows = workspace.read(".ensemble/batches/parts-rows/results.jsonl");
    let row: Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
    assert_eq!(row["success"], true, "{row}");
    assert_eq!(
        row["failed_work"][0]["parts"],
        json!({"failed": 1, "count": 3}),
        "{row}"
    );
}

/// Returns the folder of the run of the first row of a batch.
fn first_row_run(workspace: &Workspace, batch: &str) -> String {
    let rows = workspace.read(&format!(".ensemble/batches/{batch}/results.jsonl"));
    let row: Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
    format!(".ensemble/batches/{batch}/runs/{}", row["run"].as_str().expect("an id"))
}

#[test]
fn requests_used_up_over_several_attempts_have_their_stop_reason() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "
name: a
model_profiles:
  m: {provider: simulated, replies: [{text: t, tool_calls: [{name: pay, arguments: {}}]}, {error: boom}]}
tools: {pay: {script: pay.rhai, description: d, parameters: {type: object}}}
agents:
  - {name: a, model_profile: m, tools: [pay], max_iterations: 3, retry: {max_attempts: 9, delay_seconds: 0}}
",
    );
    workspace.write("pay.rhai", "1");
    let result = workspace
        .run(["run", "a.yaml", "--output", "json"])
        .expect_code(1)
        .json();
    let entry = &result["conversation_history"][0];
    assert_eq!(entry["output_data"]["kind"], "max_iterations", "{entry}");
    assert_eq!(entry["stop_reason"], "max_turn_requests", "{entry}");
}

#[test]
fn a_stopped_run_reports_no_condition() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "
name: a
agents:
  - name: w
    script: one.rhai
    dependencies: [{agent_name: c, feedback: true, condition: output.zip.zap}]
    conversation: {max_turns: 1}
  - {name: c, script: one.rhai, depends_on: [w]}
  - {name: q, script: stop.rhai, on_error: stop, depends_on: [w]}
",
    );
    workspace.write("one.rhai", "#{n: 1}");
    workspace.write("stop.rhai", "throw \"x\"");
    let told = workspace.run(["run", "a.yaml"]).expect_code(1).stderr;
    assert!(told.contains("q failed and stops the run"), "{told}");
    assert!(!told.contains("cannot be evaluated"), "{told}");
}

#[test]
fn errors_in_scripts_of_models_and_people_have_the_name_of_the_file() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "
name: a
model_profiles: {m: {provider: simulated, script: bad.rhai}, n: {provider: simulated, replies: [x]}}
agents:
  - {name: a, model_profile: m}
  - {name: q, input: {prompt: x, responses: {script: bad.rhai}}}
  - {name: w, model_profile: n, context_window: {max_messages: 1, strategy: {custom: bad.rhai}}, prompt: x}
",
    );
    workspace.write("bad.rhai", "let a = ();\n  a.b = 1;\n");
    let result = workspace
        .run(["run", "a.yaml", "--output", "json"])
        .expect_code(1)
        .json();
    for entry in result["conversation_history"]
        .as_array()
        .expect("a list")
        .iter()
        .take(2)
    {
        let error = entry["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("bad.rhai:2:"), "{entry}");
    }
}

#[test]
fn the_summary_that_a_window_sends_is_shown_as_it_was_sent() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "
name: a
model_profiles: {m: {provider: simulated, replies: [reply]}}
agents:
  - name: a
    model_profile: m
    prompt: question {{ turn_count }}
    context_window: {max_messages: 4, min_recent_turns: 1, strategy: summarize}
    conversation: {max_turns: 4, trigger: every_turn}
",
    );
    workspace.run(["run", "a.yaml", "--quiet"]).expect_code(0);
    let shown = workspace
        .run(["runs", "show", "--messages", "a@3"])
        .expect_code(0)
        .stdout;
    let sent = "    user\n      The first part of our conversation is not shown any more. In short, it was this:\n";
    assert!(shown.contains(sent), "{shown}");
}

#[test]
fn a_default_without_a_person_is_marked_at_the_part_in_every_report() {
    let workspace = Workspace::new();
    workspace.write(
        "ask.yaml",
        "name: ask\nagents: [{name: ok, input: {prompt: 'Deploy?', choices: ['yes', 'no'], default: 'no'}}]\n",
    );
    workspace.write(
        "each.yaml",
        "name: each\nagents: [{name: each, ensemble: ask.yaml, for_each: {in: \"['beta', 'alpha']\", key: item}}]\n",
    );
    workspace.run(["run", "each.yaml"]).expect_code(0);
    let export = |format: &str| {
        let exported = workspace.run(["runs", "export", "--last", "--format", format]);
        exported.expect_code(0).stdout
    };
    let words = "ok: the answer is the default, because no person could be asked";
    let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
    let (markdown, html) = (export("markdown"), export("html"));
    for (report, beta, alpha) in [
        (&shown, "warning: [beta]", "warning: [alpha]"),
        (&markdown, "- warning: \\[beta\\]", "- warning: \\[alpha\\]"),
        (&html, "<p class=\"warning\">[beta]", "<p class=\"warning\">[alpha]"),
    ] {
        let place = |part: &str| {
            let line = format!("{part} {words}");
            report.find(&line).unwrap_or_else(|| panic!("{line}: {report}"))
        };
        // In the order of the list, not of the ends.
        assert!(place(beta) < place(alpha), "{report}");
    }
    // With the execution, not only in the list of all warnings at the end.
    assert!(markdown.find(words) < markdown.find("## Warnings"), "{markdown}");
    assert!(html.find(words) < html.find("</article>"), "{html}");
}

#[test]
fn each_nested_run_of_a_part_has_its_own_warnings_of_expressions() {
    let workspace = Workspace::new();
    workspace.write("data.rhai", "#{objs: [#{n: 1}, #{n: 2}]}");
    workspace.write(
        "inner.yaml",
        "name: inner\nagents:\n  - {name: d, script: data.rhai}\n  - {name: p, script: data.rhai, depends_on: [d], for_each: {in: outputs.d.objs, key: item.idd or item.n}}\n",
    );
    workspace.write(
        "outer.yaml",
        "name: outer\nagents: [{name: g, ensemble: inner.yaml, for_each: {times: 3, max_parallel: 1}}]\n",
    );
    let result = workspace
        .run(["run", "outer.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    let warnings = result["warnings"].as_array().expect("a list");
    let expected: Vec<Value> = (0..3)
        .map(|part| json!(format!("g[{part}]: p: `item.idd`: `item` has no `idd`; it has `n`")))
        .collect();
    assert_eq!(warnings, &expected, "{result}");
}

#[test]
fn a_person_whom_a_model_asks_with_a_tool_is_recorded_with_the_answer() {
    let workspace = Workspace::new();
    workspace.write(
        "ask.yaml",
        "
name: ask
agents:
  - {name: bot, model_profile: p, prompt: go, tools: [ask]}
  - {name: person, input: {prompt: 'Really?', choices: ['yes', 'no'], default: 'no'}}
tools: {ask: {agent: person, description: d, parameters: {type: object, properties: {}}}}
model_profiles: {p: {provider: simulated, replies: [{tool_calls: [{name: ask, arguments: {}}]}, fin]}}
",
    );
    for (arguments, source, words) in [
        (&["--answer", "person=yes"][..], "option", "yes · answered by an option"),
        (
            &[],
            "default",
            "no · answered by the default, because no person could be asked",
        ),
    ] {
        workspace.run([&["run", "ask.yaml"], arguments].concat()).expect_code(0);
        let shown = workspace.run(["runs", "show", "--last", "--output", "json"]);
        let shown = shown.expect_code(0).json().to_string();
        assert!(shown.contains(&format!("\"source\":\"{source}\"")), "{shown}");
        for format in ["markdown", "html"] {
            let exported = workspace.run(["runs", "export", "--last", "--format", format]);
            let exported = exported.expect_code(0).stdout;
            let line = format!("asked: Really? (yes, no) · {words}");
            assert!(exported.contains(&line), "{line}: {exported}");
        }
        let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
        assert!(shown.contains("asked: Really?"), "{shown}");
    }
}

#[test]
fn errors_are_told_once_and_name_their_place() {
    let workspace = Workspace::new();
    workspace.write(
        "shell.yaml",
        "name: shell\nagents: [{name: a, script: 'echo hi | cat', args: [x]}]\n",
    );
    let refused = workspace.run(["run", "shell.yaml"]).expect_code(2).stderr;
    assert_eq!(refused.matches("error[E108]").count(), 1, "{refused}");

    workspace.write("nul.rhai", "\"a\\x00b\"");
    workspace.write(
        "nul.yaml",
        "name: nul\nagents: [{name: a, script: nul.rhai}, {name: b, script: cat, args: [x, '{{ a }}'], depends_on: [a]}]\n",
    );
    let failed = workspace.run(["run", "nul.yaml"]).expect_code(1).stderr;
    assert!(
        failed.contains("args[1]: the text contains a NUL character"),
        "{failed}"
    );

    workspace.write("part.sh", "cat > /dev/null; echo out; echo err >&2; exit 3");
    workspace.write(
        "part.yaml",
        "name: part\nagents: [{name: p, script: part.sh, for_each: {times: 1, on_error: collect}}]\n",
    );
    let told = workspace.run(["run", "part.yaml"]).expect_code(1).stdout;
    assert!(told.contains("the script ended with exit code 3\n"), "{told}");
}

#[test]
fn a_limit_is_named_where_it_kept_a_required_agent_away_and_a_refused_message_is_no_success() {
    let workspace = Workspace::new();
    let budget = |agents: &str, limits: &str| {
        format!(
            "name: budget\nconversation_limits: {{max_cost: 0.00001{limits}}}\nagents:\n  - {{name: m, model_profile: p, prompt: go}}\n{agents}\
             model_profiles: {{p: {{provider: simulated, replies: [one, two], cost: {{input_per_million: 100, output_per_million: 100}}}}}}\n"
        )
    };
    let required = "  - {name: n, model_profile: p, prompt: '{{ m }}', depends_on: [m], required: true}\n";
    workspace.write("required.yaml", budget(required, ""));
    let told = workspace.run(["run", "required.yaml"]).expect_code(1).stderr;
    assert!(told.contains("`n` is required and never ran"), "{told}");
    assert!(told.contains("max_cost 0.00001 was reached"), "{told}");

    let second = "  - {name: n, model_profile: p, prompt: '{{ m }}', depends_on: [m]}\n";
    workspace.write("natural.yaml", budget(second, ", on_limit: succeed"));
    workspace.run(["run", "natural.yaml"]).expect_code(0);
    let told = workspace.run(["continue", "--last", "more"]).expect_code(4).stderr;
    assert!(told.contains("no agent received the new message"), "{told}");
}
