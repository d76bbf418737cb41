//! Templates, schemas and Rhai scripts that somebody wrote to end the process, to fill its memory or to make it deaf.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at journals, measure time and start a shell"
)]

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Outcome, Workspace, eventually};

/// An ensemble whose model is asked with this prompt.
fn asking(prompt: &str) -> Workspace {
    let workspace = Workspace::new();
    write_prompt(&workspace, "a.yaml", prompt, "");
    workspace
}

fn write_prompt(workspace: &Workspace, name: &str, prompt: &str, more: &str) {
    let prompt = json!(prompt);
    workspace.write(
        name,
        format!(
            "name: a\nagents:\n  - name: a\n    model_profile: m\n    prompt: {prompt}\n{more}\
             model_profiles:\n  m: {{provider: simulated, replies: [done]}}\n"
        ),
    );
}

fn scripted(script: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: a, script: a.rhai}\n");
    workspace.write("a.rhai", script);
    workspace
}

/// The failure of the only execution, after a run that ended in order.
#[track_caller]
fn failure(outcome: Outcome) -> serde_json::Value {
    let result = outcome.expect_code(1).json();
    result["conversation_history"][0].clone()
}

#[track_caller]
fn fails_with(workspace: &Workspace, error: &str) {
    let failed = failure(workspace.run(["run", "a.yaml", "--output", "json"]));
    let told = failed["error"].as_str().unwrap_or_default();
    assert!(told.contains(error), "{failed}");
}

/// Prompts whose syntax trees are deep; each is more than the stack of a thread can parse.
fn deep() -> Vec<(&'static str, String)> {
    let many = 30_000;
    vec![
        ("minus", format!("{{{{ {}1 }}}}", "- ".repeat(many))),
        ("dashes", format!("{{{{ {}1 }}}}", "-".repeat(many))),
        ("not", format!("{{{{ {}1 }}}}", "not ".repeat(many))),
        ("plus", format!("{{{{ 1{} }}}}", "+1".repeat(many))),
        ("power", format!("{{{{ 1{} }}}}", "**1".repeat(many))),
        ("and", format!("{{{{ 1{} }}}}", " and 1".repeat(many))),
        ("filter", format!("{{{{ 1{} }}}}", "|abs".repeat(many))),
        ("test", format!("{{{{ 1{} }}}}", " is defined".repeat(many))),
        ("member", format!("{{{{ input{} }}}}", ".a".repeat(many))),
        ("call", format!("{{{{ input{} }}}}", "()".repeat(many))),
        ("if", format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(many))),
        (
            "elif",
            format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(many)),
        ),
        ("block", "{% if 1 %}".repeat(many)),
        ("list", format!("{{{{ {}1 }}}}", "[".repeat(many))),
        (
            "parenthesis",
            format!("{{{{ {}1{} }}}}", "(".repeat(90), ")".repeat(90)),
        ),
    ]
}

#[test]
fn a_template_that_is_nested_too_deeply_is_an_error_with_a_place() {
    let workspace = Workspace::new();
    let deep = deep();
    for (name, prompt) in &deep {
        write_prompt(&workspace, &format!("{name}.yaml"), prompt, "");
    }
    write_prompt(&workspace, "sound.yaml", "{{ input }}", "");
    let outcome = workspace.run(["validate", "--format", "json", "."]).expect_code(2);
    let found = outcome.json();
    let findings = found["diagnostics"].as_array().expect("findings");
    assert_eq!(findings.len(), deep.len(), "{found}");
    for (name, _) in &deep {
        let finding = findings.iter().find(|one| one["file"] == format!("./{name}.yaml"));
        let finding = finding.unwrap_or_else(|| panic!("{name}: {found}"));
        assert_eq!(
            (&finding["code"], &finding["line"]),
            (&json!("E065"), &json!(5)),
            "{finding}"
        );
    }
    for (name, _) in deep.iter().take(3) {
        let outcome = workspace.run(["run", &format!("{name}.yaml")]).expect_code(2);
        assert!(outcome.stderr.contains("error[E065]"), "{}", outcome.stderr);
    }
}

#[test]
fn the_deepest_template_that_is_allowed_is_rendered() {
    let chain = |times: usize| format!("{{{{ 1{} }}}}", "+1".repeat(times));
    let blocks = format!("{}{{{{ 1 }}}}{}", "{% if 1 %}".repeat(140), "{% endif %}".repeat(140));
    let elifs = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 1 %}x".repeat(190));
    let brackets = format!("{{{{ {}1{} }}}}", "[".repeat(70), "]".repeat(70));
    let powers = format!("{{{{ 1{} }}}}", "**1".repeat(200));
    for prompt in [chain(200), blocks, elifs, brackets, powers] {
        asking(&prompt).run(["run", "a.yaml"]).expect_code(0);
    }
}

#[test]
fn a_value_cannot_contain_itself_or_grow_deep_in_a_template() {
    let itself = "{% set n = namespace() %}{% set n.a = n %}";
    let grown = "{% set n = namespace(a=1) %}{% for i in range(100000) %}{% set n.a = [n.a] %}{% endfor %}";
    let table = [
        (format!("{itself}{{{{ n }}}}"), "a namespace cannot be in a namespace"),
        (
            format!("{itself}{{{{ n|pprint }}}}"),
            "a namespace cannot be in a namespace",
        ),
        (
            format!("{itself}{{{{ n|tojson }}}}"),
            "a namespace cannot be in a namespace",
        ),
        (
            "{% set n = namespace() %}{% set x = [{'a': n}] %}{% set n.a, n.b = 1, x|list %}{{ n }}".to_owned(),
            "a namespace cannot be in a namespace",
        ),
        (grown.to_owned(), "nested too deeply"),
        (format!("{grown}{{{{ n.a }}}}"), "nested too deeply"),
        (
            format!("{{% set x = 1 %}}{}", "{% set x = [x] %}".repeat(100)),
            "nested too deeply",
        ),
        ("{% import 'template' as x %}".to_owned(), "cannot include or extend"),
    ];
    for (prompt, error) in table {
        let workspace = asking(&prompt);
        let outcome = workspace.run(["run", "a.yaml", "--output", "json"]);
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!([1, 2].contains(&outcome.code) && all.contains(error), "{prompt}: {all}");
    }
}

#[test]
fn assigned_values_and_their_errors_are_as_before() {
    let prompt = "{% set n = namespace(all=[]) %}{% for x in [1, 2] -%}\n{%- set n.all = n.all + [x] -%} {% endfor %}\
                  {% set a, b = 1, 2 %}{% set c %}c{% endset %}{{ n.all }}{{ a + b }}{{ c }}";
    let outcome = asking(prompt).run(["run", "a.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(outcome.json()["completion_reason"], "completed");
    let journal = asking(&format!("{prompt}{{{{ 1 // 0 }}}}"));
    let column = prompt.len() - prompt.find('\n').expect("a second line") + 3;
    fails_with(&journal, &format!("(line 2, column {column})"));
}

#[test]
fn a_template_has_a_limit_of_memory_as_a_whole() {
    let calls = |depth: usize| format!("{}'x'*1000{}", "m(".repeat(depth), ")".repeat(depth));
    let table = [
        // Each printed value is twice as long.
        format!(
            "{{% macro m(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}{{{{ {} }}}}",
            calls(40)
        ),
        // Each assigned value is.
        format!("{{% set a = 'x' %}}{}", "{% set a = a ~ a %}".repeat(60)),
        // One expression is.
        format!("{{% set a = 'x' * 9000000 %}}{{{{ a{} }}}}", " ~ a".repeat(150)),
        "{{ 'x' * 100000000000 }}".to_owned(),
        "{{ '%1000000000d'|format(1) }}".to_owned(),
    ];
    for prompt in table {
        let workspace = asking(&prompt);
        let begun = Instant::now();
        let outcome = workspace.run(["run", "a.yaml", "--output", "json"]);
        let failed = failure(outcome);
        let told = failed["error"].as_str().unwrap_or_default();
        let is_limit = ["more than 64 MiB", "too large", "longer than"];
        assert!(is_limit.iter().any(|limit| told.contains(limit)), "{prompt}: {failed}");
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn a_script_has_a_limit_of_memory_as_a_whole() {
    let variables: String = (0..60).map(|at| format!("let v{at} = s + \"{at}\"; ")).collect();
    let table = [
        format!("let s = \"\"; s.pad(2000000, 'x'); {variables} 1"),
        "let s = \"\"; s.pad(1000000, 'x'); let b = []; for i in 0..100000 { let c = s + i; b.push(|| c); } 1"
            .to_owned(),
    ];
    for script in table {
        fails_with(&scripted(&script), "more than 64 MiB of memory");
    }
}

#[test]
fn a_chain_of_closures_does_not_end_the_process() {
    let script = "let f = || 1; for i in 0..1000000 { let g = f; f = || g.call(); } 1";
    fails_with(&scripted(script), "more than 64 MiB of memory");
}

/// A prompt that computes for minutes in steps of milliseconds.
const LONG: &str = "{% for i in range(100000) %}{% set x = range(100000)|pprint %}{% endfor %}";

#[test]
fn a_time_limit_ends_what_a_template_and_a_schema_compute() {
    let workspace = asking("x");
    write_prompt(&workspace, "a.yaml", LONG, "    timeout_seconds: 0.5\n");
    let begun = Instant::now();
    let failed = failure(workspace.run(["run", "a.yaml", "--output", "json"]));
    assert_eq!(failed["output_data"]["kind"], "timeout", "{failed}");

    // Each level is tried twice: 2 to the power of 40 times in all.
    let levels: String = (0..40)
        .map(|at| {
            let next = at + 1;
            format!("        a{at}: {{anyOf: [{{$ref: '#/$defs/a{next}'}}, {{$ref: '#/$defs/a{next}'}}]}}\n")
        })
        .collect();
    let workspace = scripted("#{a: 1}");
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - name: a\n    script: a.rhai\n    timeout_seconds: 0.5\n    output_schema:\n      \
             $ref: '#/$defs/a0'\n      $defs:\n{levels}        a40: {{required: [no]}}\n"
        ),
    );
    let failed = failure(workspace.run(["run", "a.yaml", "--output", "json"]));
    assert_eq!(failed["output_data"]["kind"], "timeout", "{failed}");
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_signal_ends_a_run_whose_template_computes() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let workspace = asking(LONG);
        let running = workspace.spawn(["run", "a.yaml", "--output", "json"]);
        eventually("the execution", || {
            let journal = workspace.runs().first()?.join("journal.jsonl");
            let text = std::fs::read_to_string(journal).ok()?;
            text.contains("execution_started").then_some(())
        });
        running.signal(signal);
        let outcome = running.finish().expect_code(code);
        assert_eq!(outcome.json()["completion_reason"], "cancelled");
    }
}

#[test]
fn two_signals_end_the_program_whatever_it_waits_for() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let workspace = scripted("let s = \"\"; s.pad(3000000, 'x'); s");
        // Nobody reads the result, so the program waits for its standard output.
        let running = workspace.spawn(["run", "a.yaml", "--output", "json"]);
        eventually("the end of the run", || {
            let journal = workspace.runs().first()?.join("journal.jsonl");
            let text = std::fs::read_to_string(journal).ok()?;
            text.contains("run_ended").then_some(())
        });
        let mut running = running;
        eventually("the end of the program", || {
            if running.is_alive() {
                running.signal(signal);
            }
            running.0.try_wait().expect("it can be waited for")
        });
        running.finish().expect_code(code);
    }
}

/// The result of `a.yaml`, run by a process that may have 128 open files and may raise that to 256.
fn with_few_files(workspace: &Workspace) -> serde_json::Value {
    let program = workspace.command(["run"]);
    let mut command = std::process::Command::new("sh");
    command
        .arg("-c")
        .arg("ulimit -Sn 128 && ulimit -Hn 256 && exec \"$0\" run a.yaml --output json")
        .arg(program.get_program())
        .current_dir(workspace.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let running = crate::support::Running(command.spawn().expect("a shell"));
    running.finish().expect_code(0).json()
}

#[test]
fn scripts_that_do_not_fit_wait_their_turn() {
    let workspace = Workspace::new();
    let agents: String = (0..1000)
        .map(|at| format!("  - {{name: a{at}, script: one.sh}}\n"))
        .collect();
    workspace.write("a.yaml", format!("name: many\nagents:\n{agents}"));
    workspace.write("one.sh", "echo \"{\\\"limit\\\": $(ulimit -Sn)}\"");
    let result = with_few_files(&workspace);
    let history = result["conversation_history"].as_array().expect("a history");
    assert_eq!(history.len(), 1000);
    assert!(history.iter().all(|entry| entry["success"] == true));
}

/// 256 open files are room for 32 child processes; each looks for a while how many there are.
#[test]
fn no_more_scripts_run_at_once_than_fit() {
    let workspace = Workspace::new();
    let agents: String = (0..60)
        .map(|at| format!("  - {{name: a{at}, script: one.sh}}\n"))
        .collect();
    workspace.write("a.yaml", format!("name: many\nagents:\n{agents}"));
    workspace.write("running/.keep", "");
    workspace.write(
        "one.sh",
        "mkdir running/$$; most=0\nfor look in 1 2 3 4 5 6 7 8; do\n  now=$(ls running | wc -l)\n  \
         [ $now -gt $most ] && most=$now\n  sleep 0.03\ndone\nrmdir running/$$\necho \"{\\\"most\\\": $most}\"\n",
    );
    let result = with_few_files(&workspace);
    let history = result["conversation_history"].as_array().expect("a history");
    let seen = history.iter().filter_map(|entry| entry["output_data"]["most"].as_u64());
    let most = seen.max().expect("scripts that looked");
    assert!((2..=32).contains(&most), "{most} at once");
}

#[test]
fn the_limit_of_open_files_is_raised_for_the_program_alone() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: a, script: a.sh}\n");
    // The child has its own limit at the latest when its input is complete.
    workspace.write(
        "a.sh",
        "cat > /dev/null\nset -- $(grep 'open files' /proc/$PPID/limits)\n\
         echo \"{\\\"own\\\": [$(ulimit -Sn), $(ulimit -Hn)], \\\"program\\\": $4}\"",
    );
    let result = with_few_files(&workspace);
    let output = &result["conversation_history"][0]["output_data"];
    assert_eq!(
        (&output["own"], &output["program"]),
        (&json!([128, 256]), &json!(256)),
        "{result}"
    );
}

#[test]
fn the_requests_of_an_output_are_limited() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - name: boss\n    script: boss.rhai\n    conversation: {triggers_conversation: true}\n  \
         - name: worker\n    script: boss.rhai\n    dependencies: [{agent_name: boss, condition: 'false'}]\n    \
         conversation: {max_turns: 200}\nconversation_limits: {max_total_turns: 2}\n",
    );
    workspace.write(
        "boss.rhai",
        "let all = []; for i in 0..101 { all.push(#{target_agent: \"worker\", priority: i}); } #{agent_requests: all}",
    );
    workspace.run(["run", "a.yaml"]).expect_code(4);
    let journal = workspace.journal();
    let finished = journal.iter().find(|record| record["event"] == "turn_finished");
    let data = &finished.expect("a turn")["data"];
    assert_eq!(data["requests"]["worker"].as_array().map(Vec::len), Some(100));
    let warning = "boss: `agent_requests` has 101 requests; only the first 100 are used";
    assert_eq!(data["warnings"], json!([warning]));
}
