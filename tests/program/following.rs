//! The files that an ensemble names, as `validate` follows them: faults at their places, and what is no fault.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use crate::support::{Outcome, Running, Workspace};
use serde_json::Value;

/// One row: the files, each as `NAME: TEXT`, where the first is validated; and the findings.
pub(super) type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

/// `W003 team.yaml:3:20` for each finding.
fn places(outcome: &Outcome) -> Vec<String> {
    let report = outcome.json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let place = |one: &Value| {
        format!(
            "{} {}:{}:{}",
            text(one, "code"),
            text(one, "file"),
            one["line"],
            one["column"]
        )
    };
    diagnostics.iter().map(place).collect()
}

fn checked(files: &[(&str, &str)], options: &[&str]) -> (Workspace, Outcome) {
    let workspace = Workspace::new();
    for (name, text) in files {
        match text.starts_with("#!") {
            true => workspace.script(name, text),
            false => workspace.write(name, text),
        };
    }
    let arguments = ["validate", files[0].0, "--format", "json"];
    let mut command = workspace.command([&arguments, options].concat());
    if options.is_empty() {
        // Nothing is executed, so a program of this name will do where there is no Python.
        workspace.script("bin/python3", "#!/bin/sh\n");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{}", workspace.path().join("bin").display()));
    }
    let outcome = Running(command.spawn().expect("the program starts")).finish();
    (workspace, outcome)
}

pub(super) fn expect(rows: &[Row<'_>], options: &[&str]) {
    let mut wrong = Vec::new();
    for (files, expected) in rows {
        let (_workspace, outcome) = checked(files, options);
        let found = places(&outcome);
        if found != *expected {
            wrong.push(format!(
                "{files:?}\n  expected {expected:?}\n  found    {found:?}\n{}",
                outcome.stdout
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An ensemble with one agent that runs `a.rhai`.
const ONE: (&str, &str) = ("t.yaml", "name: t\nagents:\n- {name: a, script: a.rhai}\n");
/// Two agents, of which the second has a `config` and runs `a.rhai`; the first may be requested.
const PAIR: (&str, &str) = (
    "t.yaml",
    "name: t\ninputs: {topic: {type: string}}\nagents:\n- {name: first, script: b.rhai, conversation: {max_turns: 3}}\n\
     - {name: second, script: a.rhai, depends_on: [first], config: {tone: calm}, conversation: {triggers_conversation: true}}\n",
);
const B: (&str, &str) = ("b.rhai", "let m = #{}; m.said = inputs.topic; m");
/// An ensemble whose agent is `inner.yaml`.
const OUTER: (&str, &str) = (
    "t.yaml",
    "name: t\nagents:\n- {name: a, ensemble: inner.yaml, inputs: {tone: calm}}\n",
);
const READER: (&str, &str) = ("r.rhai", "inputs.tone + inputs.get(\"n\", 1)");

#[test]
fn faults_in_rhai_scripts() {
    expect(
        &[
            (&[ONE, ("a.rhai", "let x = ;")], &["E047 a.rhai:1:9"]),
            (&[ONE, ("a.rhai", "// é\nlet x = 1;\nx +")], &["E047 a.rhai:3:4"]),
            (&[ONE, ("a.rhai", "if true { 1")], &["E047 a.rhai:1:12"]),
            (&[ONE, ("a.rhai", "import \"x\" as y; 1")], &["E047 a.rhai:1:1"]),
            (&[ONE, ("a.rhai", "\n  inptu")], &["W025 a.rhai:2:3"]),
            (&[ONE, ("a.rhai", "fn f() { input } f()")], &["W025 a.rhai:1:10"]),
            (&[ONE, ("a.rhai", "dependencies.b")], &["W025 a.rhai:1:14"]),
            (&[ONE, ("a.rhai", "inputs.topic")], &["W025 a.rhai:1:8"]),
            (&[ONE, ("a.rhai", "shuot(input)")], &["E103 a.rhai:1:1"]),
            (
                &[ONE, ("a.rhai", "if input == 1 { shuot(input) }")],
                &["W049 a.rhai:1:17"],
            ),
            (&[ONE, ("a.rhai", "input.to_uper()")], &["E103 a.rhai:1:7"]),
            (&[ONE, ("a.rhai", "fn f(x) { g(x) } f(1)")], &["W049 a.rhai:1:11"]),
            (&[ONE, ("a.rhai", "[1].map(|x| twice(x))")], &["W049 a.rhai:1:13"]),
            (&[ONE, ("a.rhai", "parameters.tone + \"!\"")], &["W025 a.rhai:1:12"]),
            (
                &[PAIR, B, ("a.rhai", "parameters.tonne + \"!\"")],
                &["W025 a.rhai:1:12"],
            ),
            (
                &[PAIR, B, ("a.rhai", "parameters[\"tonne\"] == 1")],
                &["W025 a.rhai:1:12"],
            ),
            (&[PAIR, B, ("a.rhai", "dependencies.frist")], &["W025 a.rhai:1:14"]),
            (
                &[PAIR, B, ("a.rhai", "dependencies[\"second\"]")],
                &["W025 a.rhai:1:14"],
            ),
            (&[PAIR, B, ("a.rhai", "inputs.topci")], &["W025 a.rhai:1:8"]),
            (
                &[PAIR, B, ("a.rhai", "#{agent_requests: [#{target_agent: \"frist\"}]}")],
                &["W050 a.rhai:1:36"],
            ),
            (
                &[
                    PAIR,
                    B,
                    ("a.rhai", "let m = #{agent_requests: [#{target_agent_type: \"x\"}]}; m"),
                ],
                &["W050 a.rhai:1:49"],
            ),
            (
                &[ONE, ("a.rhai", "#{agent_requests: [#{target_agent: \"a\"}]}")],
                &["W050 a.rhai:1:3"],
            ),
            (
                &[
                    (
                        "t.yaml",
                        "name: t\nagents:\n- {name: a, input: {prompt: q, responses: {script: a.rhai}}}\n",
                    ),
                    ("a.rhai", "promt"),
                ],
                &["W025 a.rhai:1:1"],
            ),
            (
                &[
                    (
                        "t.yaml",
                        "name: t\nagents: [{name: a, model_profile: p, prompt: x}]\nmodel_profiles: {p: {provider: simulated, script: m.rhai}}\n",
                    ),
                    ("m.rhai", "mesages.len()"),
                ],
                &["W025 m.rhai:1:1"],
            ),
        ],
        &[],
    );
}

#[test]
fn faults_in_ensembles_inside() {
    expect(
        &[
            (&[OUTER], &["W003 t.yaml:3:23"]),
            (&[OUTER, ("inner.yaml", "a: [")], &["E048 t.yaml:3:23"]),
            (&[OUTER, ("inner.yaml", "name: i\n")], &["E048 t.yaml:3:23"]),
            (
                &[
                    OUTER,
                    ("inner.yaml", "name: i\nagents:\n- {name: a, script: r.rhai}\n"),
                    ("r.rhai", "let = 1"),
                ],
                &["E048 t.yaml:3:23", "E047 r.rhai:1:5"],
            ),
            (
                &[
                    OUTER,
                    ("inner.yaml", "name: i\nagents:\n- {name: a, script: missing.rhai}\n"),
                ],
                &["E048 t.yaml:3:23", "E106 inner.yaml:3:21"],
            ),
            (
                &[
                    OUTER,
                    ("inner.yaml", "name: i\nagents:\n- {name: a, ensemble: t.yaml}\n"),
                ],
                &["E048 t.yaml:3:23", "E048 inner.yaml:3:23"],
            ),
            (
                &[
                    ("t.yaml", "name: t\nagents:\n- {name: a, ensemble: m.yaml}\n"),
                    ("m.yaml", "name: m\nagents:\n- {name: a, ensemble: inner.yaml}\n"),
                    ("inner.yaml", "name: i\n"),
                ],
                &["E048 t.yaml:3:23", "E048 m.yaml:3:23"],
            ),
            (
                &[
                    (
                        "t.yaml",
                        "name: t\nagents:\n- {name: a, ensemble: inner.yaml}\n- {name: b, ensemble: inner.yaml}\n",
                    ),
                    ("inner.yaml", "name: i\n"),
                ],
                &["E048 t.yaml:3:23", "E048 t.yaml:4:23"],
            ),
            (
                &[
                    (
                        "t.yaml",
                        "name: t\nagents: [{name: a, model: simulated/x, tools: [t]}]\ntools: {t: {description: x, ensemble: inner.yaml}}\n",
                    ),
                    ("inner.yaml", "name: i\n"),
                ],
                &["E048 t.yaml:3:39"],
            ),
            (
                &[
                    OUTER,
                    (
                        "inner.yaml",
                        "name: i\ninputs: {tonne: {type: string, default: x}}\nagents: [{name: a, script: r.rhai}]\n",
                    ),
                    ("r.rhai", "inputs.tonne"),
                ],
                &["W048 t.yaml:3:44"],
            ),
            (
                &[
                    OUTER,
                    (
                        "inner.yaml",
                        "name: i\ninputs: {tone: {type: string}, n: {type: integer}}\nagents: [{name: a, script: r.rhai}]\n",
                    ),
                    ("r.rhai", "inputs.tone + inputs.n"),
                ],
                &["W048 t.yaml:3:23"],
            ),
            (
                &[
                    OUTER,
                    (
                        "inner.yaml",
                        "name: i\ninputs: {tone: {type: integer}}\nagents: [{name: a, script: r.rhai}]\n",
                    ),
                    ("r.rhai", "inputs.tone"),
                ],
                &["W048 t.yaml:3:50"],
            ),
            (
                &[
                    OUTER,
                    (
                        "inner.yaml",
                        "name: i\ninputs: {}\nagents: [{name: a, script: r.rhai}]\n",
                    ),
                    ("r.rhai", "input"),
                ],
                &["W048 t.yaml:3:44"],
            ),
        ],
        &[],
    );
}

#[test]
fn faults_of_programs_and_command_lines() {
    let team = "name: t\nagents:\n- {name: a, script: python3 tools/x.py}\n";
    expect(
        &[
            (&[("t.yaml", team)], &["W003 t.yaml:3:21"]),
            (
                &[("t.yaml", "name: t\nagents:\n- {name: a, script: sh -e tools/x.sh}\n")],
                &["W003 t.yaml:3:21"],
            ),
            (
                &[("t.yaml", "name: t\nagents:\n- {name: a, script: sh x.sh one two}\n")],
                &["W003 t.yaml:3:21"],
            ),
            (
                &[("t.yaml", "name: t\nagents:\n- {name: a, script: missing.sh}\n")],
                &["E106 t.yaml:3:21"],
            ),
            (
                &[(
                    "t.yaml",
                    "name: t\nagents:\n- {name: a, script: no-such-program-here}\n",
                )],
                &["W003 t.yaml:3:21"],
            ),
            (
                &[
                    ("t.yaml", "name: t\nagents:\n- {name: a, script: ./go}\n"),
                    ("go", "echo"),
                ],
                &["W003 t.yaml:3:21"],
            ),
            (
                &[
                    ("t.yaml", "name: t\nagents:\n- {name: a, script: ./go}\n"),
                    ("go", "#!/no/such/sh\n"),
                ],
                &["W003 t.yaml:3:21"],
            ),
            (
                &[
                    ("t.yaml", "name: t\nagents:\n- {name: a, script: ./go}\n"),
                    ("go", "#!/usr/bin/env no-such-interpreter\n"),
                ],
                &["W003 t.yaml:3:21"],
            ),
            (
                &[(
                    "t.yaml",
                    "name: t\nagents: [{name: a, model: simulated/x, tools: [t]}]\ntools: {t: {script: sh x.sh, parameters: {type: object}}}\n",
                )],
                &["W003 t.yaml:3:21"],
            ),
            (
                &[(
                    "t.yaml",
                    "name: t\nagents: [{name: a, model: simulated/x, tools: [t]}]\ntools: {t: {mcp: {command: [sh, x.sh]}}}\n",
                )],
                &["W003 t.yaml:3:28"],
            ),
        ],
        &[],
    );
}

#[test]
fn an_input_that_does_not_exist_is_told_with_those_that_do() {
    for (inputs, help) in [
        ("{}", "remove it; the ensemble has no inputs"),
        ("{topic: {type: string}}", "use one of the declared inputs: `topic`"),
        ("{tones: {type: string}}", "did you mean `tones`?"),
    ] {
        let inner = format!("name: i\ninputs: {inputs}\nagents: [{{name: a, script: r.rhai}}]\n");
        let (_workspace, outcome) = checked(&[OUTER, ("inner.yaml", &inner), ("r.rhai", "1")], &[]);
        let report = outcome.json();
        let diagnostics = report["diagnostics"].as_array().expect("a list");
        let told = diagnostics
            .iter()
            .find(|one| one["code"] == "W048" && one["column"] == 44);
        assert_eq!(told.expect("a finding")["help"], help, "{inputs}");
    }
}

#[test]
fn what_is_no_fault() {
    let inner = "name: i\ninputs: {tone: {type: string}, n: {type: integer, default: 1}}\nagents: [{name: a, script: r.rhai}]\n";
    let rows: &[Row<'_>] = &[
        (&[ONE, ("a.rhai", "parameters.get(\"tone\", \"calm\")")], &[]),
        (&[ONE, ("a.rhai", "parameters.tone ?? \"calm\"")], &[]),
        (
            &[
                ONE,
                ("a.rhai", "if \"tone\" in parameters { parameters.tone } else { 1 }"),
            ],
            &[],
        ),
        (
            &[ONE, ("a.rhai", "if parameters.tone == \"calm\" { 1 } else { 2 }")],
            &[],
        ),
        (
            &[ONE, ("a.rhai", "switch parameters.tone { \"calm\" => 1, _ => 2 }")],
            &[],
        ),
        (&[ONE, ("a.rhai", "let key = \"tone\"; parameters[key]")], &[]),
        (&[ONE, ("a.rhai", "dependencies?.b?.c")], &[]),
        (
            &[ONE, ("a.rhai", "if dependencies.contains(\"b\") { dependencies.b }")],
            &[],
        ),
        (&[ONE, ("a.rhai", "let f = |x| x + 1; f.call(1)")], &[]),
        (&[ONE, ("a.rhai", "let m = #{shout: |x| x}; m.shout(1)")], &[]),
        (&[ONE, ("a.rhai", "fn f(x) { x * 2 } [1, 2].map(|x| f(x)).len()")], &[]),
        (&[ONE, ("a.rhai", "to_json(parse_json(input)).to_upper().trim()")], &[]),
        (&[ONE, ("a.rhai", "#{agent_requests: input}")], &[]),
        (&[ONE, ("a.rhai", "request.parameters.topic")], &[]),
        (&[PAIR, B, ("a.rhai", "parameters.tone + dependencies.first.said")], &[]),
        (
            &[
                PAIR,
                B,
                (
                    "a.rhai",
                    "#{agent_requests: [#{target_agent: \"first\", parameters: #{x: 1}}]}",
                ),
            ],
            &[],
        ),
        (
            &[
                PAIR,
                B,
                ("a.rhai", "#{agent_requests: [#{target_agent: inputs.topic}]}"),
            ],
            &[],
        ),
        (
            &[
                (
                    "t.yaml",
                    "name: t\nagents:\n- {name: a, script: a.rhai, config: {tone: calm}}\n- {name: b, script: a.rhai, depends_on: [a]}\n",
                ),
                ("a.rhai", "`${parameters.tone} ${dependencies.a}`"),
            ],
            &[],
        ),
        (&[OUTER, ("inner.yaml", inner), READER], &[]),
        (
            &[
                OUTER,
                ("inner.yaml", "name: i\nagents: [{name: a, script: r.rhai}]\n"),
                ("r.rhai", "context.tone"),
            ],
            &[],
        ),
        (
            &[
                (
                    "t.yaml",
                    "name: t\nagents:\n- {name: a, ensemble: inner.yaml, inputs: {tone: '{{ input }}', n: '{{ turn_count }}'}}\n",
                ),
                ("inner.yaml", inner),
                READER,
            ],
            &[],
        ),
        (
            &[
                (
                    "t.yaml",
                    "name: t\nagents:\n- {name: a, ensemble: inner.yaml, inputs: {all: ['{{ turn_count }}']}}\n",
                ),
                (
                    "inner.yaml",
                    "name: i\ninputs: {all: {type: array, items: {type: integer}}}\nagents: [{name: a, script: r.rhai}]\n",
                ),
                ("r.rhai", "inputs.all[0]"),
            ],
            &[],
        ),
        (
            &[(
                "t.yaml",
                "name: t\nagents:\n- {name: a, script: python3 -c 'print(1)' x.py}\n",
            )],
            &[],
        ),
        (
            &[("t.yaml", "name: t\nagents:\n- {name: a, script: python3 -m tools.x}\n")],
            &[],
        ),
        (
            &[("t.yaml", "name: t\nagents:\n- {name: a, script: 'sh $HOME/x.sh'}\n")],
            &[],
        ),
        (
            &[("t.yaml", "name: t\nagents:\n- {name: a, script: cat missing.txt}\n")],
            &[],
        ),
        (
            &[
                (
                    "t.yaml",
                    "name: t\nagents:\n- {name: a, script: sh tools/x.sh missing.txt}\n",
                ),
                ("tools/x.sh", "cat \"$1\""),
            ],
            &[],
        ),
        (
            &[
                ("t.yaml", "name: t\nagents:\n- {name: a, script: ./go}\n"),
                ("go", "#!/usr/bin/env sh\n"),
            ],
            &[],
        ),
        (
            &[
                ("t.yaml", "name: t\nagents:\n- {name: a, script: a.sh}\n"),
                ("a.sh", "if then\n"),
            ],
            &[],
        ),
    ];
    expect(rows, &[]);
}

#[test]
fn each_file_has_its_findings_once() {
    let workspace = Workspace::new();
    let outer = |name: &str| format!("name: {name}\nagents:\n- {{name: a, ensemble: inner.yaml}}\n");
    workspace.write("a.yaml", outer("a"));
    workspace.write("b.yaml", outer("b"));
    workspace.write(
        "inner.yaml",
        "name: inner\nagents:\n- {name: a, script: missing-program}\n",
    );
    let found = |arguments: &[&str]| {
        let outcome = workspace.run([&["validate", "--format", "json"], arguments].concat());
        (places(&outcome), outcome.stderr)
    };
    assert_eq!(found(&["a.yaml", "b.yaml"]).0, ["W003 inner.yaml:3:21"]);
    assert_eq!(found(&["b.yaml", "inner.yaml", "a.yaml"]).0, ["W003 inner.yaml:3:21"]);
    assert_eq!(found(&["."]).0, ["W003 ./inner.yaml:3:21"]);
    let told = workspace.run(["validate", "a.yaml", "b.yaml"]).expect_code(0);
    assert!(
        told.stderr.starts_with("3 files checked: 0 errors, 1 warning"),
        "{}",
        told.stderr
    );
    let junit = workspace.run(["validate", "a.yaml", "--deny-warnings", "--format", "junit"]);
    let junit = junit.expect_code(2).stdout;
    for part in ["tests=\"2\" failures=\"1\"", "<testcase name=\"inner.yaml\""] {
        assert!(junit.contains(part), "{part}\n{junit}");
    }
    let allowed = workspace.run(["validate", "a.yaml", "--allow", "W003", "--format", "json"]);
    assert_eq!(places(&allowed), [""; 0]);
}

#[test]
fn a_comment_where_the_script_is_named_allows_a_warning_in_it() {
    let team = "name: t\nagents:\n- {name: a, script: a.rhai} # ensemble: allow(W025) it is tried out\n";
    expect(&[(&[("t.yaml", team), ("a.rhai", "inptu")], &[])], &[]);
}

#[test]
fn a_secret_in_a_script_is_not_shown() {
    let secret = format!("{}{}", "sk-proj-aB3dE5fG7hJ9", "kL1mN2pQ4rS6tU8v");
    let workspace = Workspace::new();
    workspace.write(ONE.0, ONE.1);
    workspace.write("a.rhai", format!("let key = \"{secret}\"; inptu"));
    let shown = workspace.run(["validate", "t.yaml"]).expect_code(0).stdout;
    assert!(shown.contains("W025") && !shown.contains("sk-proj"), "{shown}");
}

/// What `run` refuses, `validate` reports.
#[test]
fn what_a_run_refuses_is_reported() {
    let rows: &[&[(&str, &str)]] = &[
        &[OUTER],
        &[OUTER, ("inner.yaml", "a: [")],
        &[
            OUTER,
            ("inner.yaml", "name: i\nagents:\n- {name: a, ensemble: t.yaml}\n"),
        ],
        &[
            OUTER,
            ("inner.yaml", "name: i\nagents:\n- {name: a, script: r.rhai}\n"),
            (".ensemble/config.yaml", "a: ["),
        ],
        &[(
            "t.yaml",
            "name: t\nagents: [{name: a, model_profile: p, prompt: x}]\nmodel_profiles: {p: {provider: simulated, script: m.rhai}}\n",
        )],
        &[
            (
                "t.yaml",
                "name: t\nagents:\n- {name: a, input: {prompt: q, responses: {script: a.rhai}}}\n",
            ),
            ("a.rhai", "let = 1"),
        ],
    ];
    for files in rows {
        let (workspace, outcome) = checked(files, &[]);
        workspace.run(["run", "t.yaml"]).expect_code(2);
        assert!(
            !places(&outcome).is_empty() || outcome.code == 2,
            "{files:?}\n{}",
            outcome.stdout
        );
    }
}
