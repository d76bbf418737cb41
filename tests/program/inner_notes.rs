//! Reports of a run about the executions inside it: defaults without a person, failed tool calls, and parts of an earlier process.

use crate::support::Workspace;
use crate::support::acp_client::Client;

#[test]
fn a_default_inside_is_marked_in_the_run_and_its_reports() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: left, ensemble: inner.yaml}\n  - {name: each, ensemble: inner.yaml, for_each: \
         {in: [alpha], key: item}}\n  - {name: top, input: {prompt: ok?, default: 'yes'}}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nagents:\n  - {name: ok, input: {prompt: ok?, default: 'yes'}}\n",
    );
    let outcome = workspace.run(["run", "outer.yaml"]).expect_code(0);
    let marks = [
        "left: ok: the answer is the default, because no person could be asked",
        "each[alpha]: ok: the answer is the default, because no person could be asked",
    ];
    let shown = workspace.run(["runs", "show", "--last"]).expect_code(0);
    let json = workspace
        .run(["run", "outer.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(2), "{json}");
    for mark in marks {
        assert!(outcome.stderr.contains(mark), "{}", outcome.stderr);
        assert!(json["warnings"].to_string().contains(mark), "{json}");
        let in_record = mark
            .replace("left: ", "warning: ")
            .replace("each[alpha]: ", "warning: [alpha] ");
        assert!(shown.stdout.contains(&in_record), "{in_record}: {}", shown.stdout);
    }
    let answered = workspace.run(["run", "outer.yaml", "--output", "json", "--always-answer", "left.ok=no"]);
    let warnings = answered.expect_code(0).json()["warnings"].to_string();
    assert!(!warnings.contains("left"), "{warnings}");
}

#[test]
fn a_failed_tool_call_inside_is_a_warning_outside() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: n, ensemble: inner.yaml}\n  - {name: e, ensemble: inner.yaml, for_each: {times: 2}}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nmodel_profiles: {m: {provider: simulated, replies: [{tool_calls: [{name: pay, arguments: {}}]}, done]}}\ntools:\n  \
         pay: {script: pay.rhai, description: Pays, parameters: {type: object}}\nagents:\n  - {name: a, model_profile: m, tools: [pay]}\n",
    );
    workspace.write("pay.rhai", "throw \"no money\"");
    let outcome = workspace.run(["run", "outer.yaml"]).expect_code(0);
    for told in [
        "n: 1 of 1 tool call of `a` failed",
        "e[0]: 1 of 1 tool call of `a` failed",
        "e[1]: 1 of 1 tool call of `a` failed",
    ] {
        assert_eq!(outcome.stderr.matches(told).count(), 1, "{told}: {}", outcome.stderr);
    }
    workspace.write("rows.csv", "input\na\nb\n");
    let batch = workspace
        .run(["batch", "outer.yaml", "--data", "rows.csv"])
        .expect_code(0);
    let told = "2 × e[0]: 1 of 1 tool call of `a` failed; e[1]: 1 of 1 tool call of `a` failed; n: 1 of 1 tool call of `a` failed (rows 1, 2)";
    assert!(batch.stdout.contains(told), "{}", batch.stdout);
    let rows = workspace.read(".ensemble/batches/outer-rows/results.jsonl");
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
    assert_eq!(row["nested_failures"][2], "n: 1 of 1 tool call of `a` failed", "{row}");
    let mut client = Client::start(&workspace, "outer.yaml", serde_json::json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, "go");
    let notes = format!("{:?}", client.updates);
    for told in [
        "n: 1 of 1 tool call of `a` failed",
        "e[1]: 1 of 1 tool call of `a` failed",
    ] {
        assert!(notes.contains(told), "{notes}");
    }
}

#[test]
fn a_stub_for_a_part_that_does_not_exist_is_reported() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: each, ensemble: inner.yaml, for_each: {in: [alpha], as: item, key: item}}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nagents: [{name: ok, input: {prompt: ok?, default: 'yes'}}]\n",
    );
    for option in ["--stub", "--answer", "--always-answer"] {
        for (address, is_used) in [("each[gamma].ok", false), ("each[alpha].ok", true)] {
            let answer = format!("{address}=no");
            let told = workspace
                .run(["run", "outer.yaml", option, answer.as_str()])
                .expect_code(0)
                .stderr;
            let warning = format!("warning: no question of `{address}` used the answer `no`");
            assert_eq!(told.contains(&warning), !is_used, "{option} {address}: {told}");
        }
    }
    for key in ["stubs", "answers"] {
        for (part, code) in [("gamma", 1), ("alpha", 0)] {
            let case = format!("{{name: one, {key}: {{\"each[{part}].ok\": 'no'}}, expect: {{outcome: completed}}}}");
            workspace.write("outer.test.yaml", format!("cases:\n  - {case}\n"));
            let told = workspace.run(["test"]).expect_code(code).stdout;
            let failure = "no execution used `each[gamma].ok`";
            assert_eq!(told.contains(failure), code == 1, "{key} {part}: {told}");
        }
    }
}

#[test]
fn a_resumed_run_counts_the_parts_and_calls_of_the_process_before() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: each, ensemble: inner.yaml, for_each: {in: [a, b, c], key: item, on_error: collect}, prompt: \
         '{{ item }}'}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nagents:\n  - {name: f, script: f.rhai}\n  - {name: ok, input: {prompt: ok?}, depends_on: [f]}\n",
    );
    workspace.write("f.rhai", "if input == \"a\" { throw \"bad a\" } \"fine\"");
    let waiting = workspace.run(["run", "outer.yaml"]).expect_code(3);
    let counts = "0 executions and 1 part of an unfinished execution, 1 of 3 parts of `each` failed";
    assert!(waiting.stderr.contains(counts), "{}", waiting.stderr);
    let resumed = workspace
        .run(["resume", "--last", "--always-answer", "ok=yes"])
        .expect_code(0);
    assert!(
        resumed.stdout.contains("3 parts: 2 succeeded, 1 failed"),
        "{}",
        resumed.stdout
    );

    workspace.write(
        "calls.yaml",
        "name: calls\nmodel_profiles: {m: {provider: simulated, replies: [{tool_calls: [{name: pay, arguments: {}}, {name: ask, \
         arguments: {}}]}, done]}}\ntools:\n  pay: {script: pay.rhai, description: Pays, parameters: {type: object}}\n  ask: {agent: \
         person, description: Asks, parameters: {type: object}}\nagents:\n  - {name: bot, model_profile: m, tools: [pay, ask]}\n  - \
         {name: person, input: {prompt: Who?}}\n",
    );
    workspace.write("pay.rhai", "throw \"no money\"");
    let waiting = workspace.run(["run", "calls.yaml"]).expect_code(3);
    let shown = workspace.run(["runs", "show", "--last"]).expect_code(0);
    let counts = "0 executions, 1 of 1 tool call of `bot` failed";
    assert!(waiting.stderr.contains(counts), "{}", waiting.stderr);
    assert!(shown.stdout.contains(counts), "{}", shown.stdout);
}
