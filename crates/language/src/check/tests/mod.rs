//! Every check on texts, with the places that it names.

#![expect(
    clippy::disallowed_methods,
    reason = "a test may look at the clock to see that nothing hangs"
)]

mod around;
mod before_a_run;
mod consistent;
mod for_each;
mod joins;
mod models;
mod registry;
mod rounds;
mod scripts;
mod typed;
mod typed_templates;

use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use super::context::NoFileContext;
use super::{CHECKS, CheckContext, check_ensemble};
use crate::diagnostic::{Diagnostic, Finding};
use crate::ensemble::Ensemble;
use crate::loader::{EnsembleLoadResult, load_ensemble, load_profiles};
use crate::source::SourceText;
use around::Beside;

fn loaded(agents: &str) -> EnsembleLoadResult {
    let loaded = load_ensemble(&SourceText::new("t", format!("name: e\nagents:\n{agents}")));
    assert!(loaded.ensemble.is_some(), "{agents}\n{:#?}", loaded.findings);
    loaded
}

fn found(agents: &str, check: impl Fn(&Ensemble) -> Vec<Finding>) -> Vec<Diagnostic> {
    let loaded = loaded(agents);
    let findings = check(loaded.ensemble.as_ref().unwrap());
    loaded.diagnostics_with(&findings)
}

/// Runs the check of one file.
fn run_check(file: &str, ensemble: &Ensemble, context: &dyn CheckContext) -> Vec<Finding> {
    let graph = CheckGraph::build(ensemble);
    let check = CHECKS.iter().find(|check| check.file == file).expect("a check");
    (check.run)(&CheckSubject::new(&graph, context))
}

/// `E040 4:5 message`.
fn shown(agents: &str) -> Vec<String> {
    show(&found(agents, check_ensemble))
}

fn show(diagnostics: &[Diagnostic]) -> Vec<String> {
    let line = |it: &Diagnostic| {
        let place = it.source.line_column(it.span.start);
        format!("{} {}:{} {}", it.code.0, place.line, place.column, it.message)
    };
    diagnostics.iter().map(line).collect()
}

#[test]
fn tools_that_never_run_side_by_side() {
    let tools = "tools: {a: {script: x, parameters: {type: object}, exclusive: true}, b: {script: x, parameters: {type: object}}}\n";
    let warned = |tools: &str, most: usize| {
        format!(
            "- {{name: a, model: xai/n, tools: [{tools}], max_parallel_tools: {most}}}\n- {{name: z, model: xai/n, tools: [a, b]}}\n"
        )
    };
    let warning = "W034 3:59 `max_parallel_tools: 4` has no effect, because all tools of `a` are exclusive".to_owned();
    for (used, most, expected) in [
        ("a", 4, vec![warning]),
        ("a", 1, vec![]),
        ("a, b", 4, vec![]),
        ("", 4, vec![]),
    ] {
        assert_eq!(
            shown(&format!("{}{tools}", warned(used, most))),
            expected,
            "{used} {most}"
        );
    }
}

#[test]
fn templates_and_variables_that_nothing_expands() {
    let server = "- {name: a, model: xai/n, tools: [t]}\ntools: {t: {mcp: {command: [x], cwd: \"{{ a }}\"}}}";
    for (agents, expected) in [
        ("- {name: a, script: \"x {{ input }}\"}", vec!["E107 3:24"]),
        ("- {name: a, script: x, env: {A: \"{{ b }}\"}}", vec!["E107 3:34"]),
        (server, vec!["E107 4:39"]),
        (
            "- {name: a, script: x, args: [\"{{ input }}\"], stdin: \"{{ input }}\"}",
            vec![],
        ),
        ("- {name: a, script: x, env: {A: \"${B}\"}}", vec!["W077 3:34"]),
        ("- {name: a, script: x, env: {A: \"x${B:-1}\"}}", vec!["W077 3:35"]),
        ("- {name: a, script: x, args: [\"${B}\"]}", vec!["W077 3:32"]),
        ("- {name: a, script: x, stdin: \"${B}\"}", vec!["W077 3:32"]),
        ("- {name: a, script: x, config: {k: [\"${B}\"]}}", vec!["W077 3:38"]),
        (
            "- {name: a, model: xai/n, prompt: \"${B}\", attachments: [\"${B}/x\"]}",
            vec!["W077 3:36", "W077 3:58"],
        ),
        ("- {name: a, input: {prompt: \"${B}\"}}", vec!["W077 3:30"]),
        ("- {name: a, ensemble: e, inputs: {k: \"${B}\"}}", vec!["W077 3:39"]),
        (
            "- {name: a, input: {prompt: p, responses: [\"x\", \"${B}\"]}}",
            vec!["W077 3:50"],
        ),
        (
            "- {name: a, input: {prompt: p, choices: [\"${B}\"], default: \"${B}\"}}",
            vec!["W077 3:43", "W077 3:61"],
        ),
        ("- {name: a, script: x, for_each: {in: [\"${B}\"]}}", vec!["W077 3:41"]),
        (
            "- {name: a, script: x, for_each: {in: \"['${B}']\", key: \"'${B}'\"}}",
            vec!["W077 3:42", "W077 3:58"],
        ),
        ("- {name: a, script: x}\ndefault_task: \"${B}\"", vec!["W077 4:16"]),
        (
            "- {name: a, script: x}\n- {name: b, script: x, dependencies: [{agent_name: a, condition: \"input == '${B}'\"}]}",
            vec!["W077 4:77"],
        ),
        ("- {name: a, ensemble: \"${B}.yaml\"}", vec!["W077 3:24"]),
        (
            "- {name: a, model: ollama/m, tools: [t]}\ntools: {t: {ensemble: \"${B}\", description: d}}",
            vec!["W077 4:24"],
        ),
        (
            "- {name: a, model_profile: p}\nmodel_profiles: {p: {provider: ollama, model: m, options: {k: [\"${B}\"]}}}",
            vec!["W077 4:65"],
        ),
        (
            "- {name: a, script: x}\ninputs: {k: {type: string, default: \"${B}\"}}",
            vec!["W077 4:38"],
        ),
        ("- {name: a, script: x}\nresult: {k: \"'${B}'\"}", vec!["W077 4:15"]),
        (
            "- {name: a, script: x}\nsuccess: \"input != '${B}'\"",
            vec!["W077 4:21"],
        ),
        ("- {name: a, model: xai/n, prompt: \"{{ '$' }}{B} ${1}\"}", vec![]),
        ("- {name: a, script: \"echo ${B}\"}", vec![]),
        ("- {name: a, script: x, env: {A: \"$B ${} {B}\"}}", vec![]),
        (
            "- {name: a, script: a.rhai, args: [x], stdin: y}",
            vec!["E108 3:29", "E108 3:40"],
        ),
        ("- {name: a, script: a.rhai, args: []}", vec![]),
    ] {
        let found: Vec<String> = shown(agents)
            .into_iter()
            .filter(|one| ["E107", "E108", "W077"].contains(&&one[..4]))
            .map(|one| one.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(found, expected, "{agents}");
    }
}

#[test]
fn arguments_and_input_of_scripts_are_templates() {
    let found = shown("- {name: a, script: x, args: [\"{{ nope }}\"], stdin: \"{{ item }}\"}");
    let codes: Vec<&str> = found.iter().map(|one| &one[..9]).collect();
    assert_eq!(codes, ["E044 3:35", "E044 3:57"], "{found:?}");
    let found =
        shown("- {name: a, script: x, for_each: {times: 2}, args: [\"{{ item }}\"], stdin: \"{{ part.key }}\"}");
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn an_environment_that_no_script_reads() {
    let warning = |place: &str| {
        vec![format!(
            "W036 {place} `env` has no effect: a Rhai script reads no environment"
        )]
    };
    for (agents, expected) in [
        ("- {name: a, script: a.rhai, env: [A]}", warning("3:29")),
        ("- {name: a, script: a.rhai, env: []}", vec![]),
        ("- {name: a, script: a.py, env: [A]}", vec![]),
        (
            "- {name: a, script: a.rhai, env: [A]}\n- {name: b, script: b.py, env: [A]}",
            vec![],
        ),
        (
            "- {name: a, script: a.rhai, env: [A]}\n- {name: b, script: b.py, env: [B]}",
            warning("3:29"),
        ),
        (
            "- {name: a, model: xai/n, tools: [t]}\ntools: {t: {script: t.rhai, parameters: {type: object}, env: {A: b}}}",
            warning("4:57"),
        ),
    ] {
        let found: Vec<String> = shown(agents)
            .into_iter()
            .filter(|one| one.starts_with("W036"))
            .collect();
        assert_eq!(found, expected, "{agents}");
    }
}

#[test]
fn tools_that_lead_back_and_tools_that_nobody_uses() {
    let tools = "tools: {a: {agent: a}, b: {agent: b}, c: {agent: c}}\n";
    let llm = |name: &str, tools: &str| format!("- {{name: {name}, model: xai/n, tools: [{tools}]}}\n");
    let unused = |name: &str, column: usize| format!("H020 6:{column} no agent uses the tool `{name}`");
    let rows: Vec<([String; 3], Vec<String>)> = vec![
        ([llm("a", "b"), llm("b", "c"), llm("c", "")], vec![unused("a", 9)]),
        (
            [llm("a", "b, c"), llm("b", "c, a"), llm("c", "")],
            vec!["E045 3:35 these agents call each other as tools in a cycle: a → b → a".to_owned()],
        ),
        (
            [llm("a", "b"), llm("b", "c"), llm("c", "c")],
            vec![
                "E045 5:35 these agents call each other as tools in a cycle: c → c".to_owned(),
                unused("a", 9),
            ],
        ),
        // Two ways to one agent are no circle.
        ([llm("a", "b, c"), llm("b", "c"), llm("c", "")], vec![unused("a", 9)]),
    ];
    for (agents, expected) in rows {
        assert_eq!(shown(&format!("{}{tools}", agents.concat())), expected, "{agents:?}");
    }
}

#[test]
fn tools_that_agents_call_without_a_model() {
    let agents = "- {name: a, tool: wiki.search, arguments: {q: '{{ input }}'}}\n";
    let template = "- {name: a, tool: wiki.search, arguments: {q: ['{{ nobody }}']}}\n";
    let server = |more: &str| format!("tools: {{wiki: {{mcp: {{command: w}}{more}}}}}\n");
    let rows: Vec<(String, Vec<&str>)> = vec![
        (format!("{agents}{}", server("")), vec![]),
        (
            format!("{agents}{}", server(", permission: deny")),
            vec!["E092 3:19 `a` can never run, because `wiki` has `permission: deny`"],
        ),
        (format!("{template}{}", server("")), vec!["E044 3:52 "]),
    ];
    for (agents, expected) in rows {
        let found = shown(&agents);
        assert_eq!(found.len(), expected.len(), "{agents}\n{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{agents}\n{found}");
        }
    }
}

#[test]
fn tools_that_programs_of_external_agents_are_given() {
    let agents = |tools: &str| format!("- {{name: a, acp: claude, tools: [{tools}]}}\n");
    let server = |more: &str| format!("tools: {{wiki: {{mcp: {{command: w}}{more}}}}}\n");
    let rows: Vec<(String, Vec<&str>)> = vec![
        (format!("{}{}", agents("wiki"), server("")), vec![]),
        (format!("{}tools: {{wiki: {{mcp: client}}}}\n", agents("wiki")), vec![]),
        (
            format!("{}{}", agents("wiki.search"), server("")),
            vec!["E093 3:34 an external agent can only use whole servers, and `wiki.search` is one tool"],
        ),
        (
            format!("{}{}", agents("wiki"), server(", permission: deny")),
            vec!["E093 3:34 `wiki` has `permission: deny`"],
        ),
        (
            format!("{}tools: {{wiki: {{mcp: {{command: w, cwd: x}}}}}}\n", agents("wiki")),
            vec!["E093 3:34 an external agent starts its servers itself, so `wiki` cannot have the key `cwd`"],
        ),
        (
            format!(
                "{}tools: {{wiki: {{mcp: {{command: w, sandbox: true}}}}}}\n",
                agents("wiki")
            ),
            vec!["E093 3:34 an external agent starts its servers itself, so `wiki` cannot have the key `sandbox`"],
        ),
        (
            format!(
                "{}tools: {{t: {{script: x.rhai, parameters: {{type: object}}}}}}\n",
                agents("t")
            ),
            vec!["E093 3:34 an external agent can only use MCP servers, and `t` is not an MCP server"],
        ),
    ];
    for (agents, expected) in rows {
        assert_eq!(shown(&agents), expected, "{agents}");
    }
}

#[test]
fn circles_that_none_can_enter() {
    let rows: &[(&str, &[&str])] = &[
        (
            "- {name: a, script: x, depends_on: [a]}",
            &["E040 3:37 none of the agents in this cycle can run first: a → a"],
        ),
        (
            "- {name: a, script: x, depends_on: [b]}\n- {name: b, script: x, depends_on: [a]}",
            &["E040 3:37 none of the agents in this cycle can run first: a → b → a"],
        ),
        // Feedback opens it.
        (
            "- {name: a, script: x, dependencies: [{agent_name: b, feedback: true}]}\n- {name: b, script: x, depends_on: [a]}",
            &[],
        ),
        // Downstream of a circle is no error of its own; two circles are two.
        (
            "- {name: z, script: x, depends_on: [a]}\n- {name: a, script: x, depends_on: [b]}\n- {name: b, script: x, depends_on: [a]}\n- {name: c, script: x, depends_on: [c]}",
            &[
                "E040 4:37 none of the agents in this cycle can run first: a → b → a",
                "E040 6:37 none of the agents in this cycle can run first: c → c",
            ],
        ),
        // One door of several is enough.
        (
            "- {name: s, script: x}\n- {name: a, script: x, dependencies: [{agent_name: b, requires_all: false}, {agent_name: s, requires_all: false}]}\n- {name: b, script: x, depends_on: [a]}",
            &[],
        ),
        // No door leads out.
        (
            "- {name: a, script: x, dependencies: [{agent_name: b, requires_all: false}, {agent_name: c, requires_all: false}]}\n- {name: b, script: x, depends_on: [a]}\n- {name: c, script: x, depends_on: [a]}",
            &["E040 3:39 none of the agents in this cycle can run first: a → b → a"],
        ),
        // An any-of edge with feedback is a door.
        (
            "- {name: a, script: x, dependencies: [{agent_name: b, requires_all: false, feedback: true}]}\n- {name: b, script: x, depends_on: [a]}",
            &[],
        ),
        // One door with feedback is enough beside one without.
        (
            "- {name: a, script: x, dependencies: [{agent_name: b, requires_all: false}, {agent_name: c, requires_all: false, feedback: true}]}\n- {name: b, script: x, depends_on: [a]}\n- {name: c, script: x, depends_on: [a]}",
            &[],
        ),
        // An open door does not help against one that must hold.
        (
            "- {name: a, script: x, dependencies: [{agent_name: a, requires_all: false, feedback: true}, {agent_name: b}]}\n- {name: b, script: x, depends_on: [a]}",
            &["E040 3:93 none of the agents in this cycle can run first: a → b → a"],
        ),
        // Conditions and failures are left out of it.
        (
            "- {name: a, script: x}\n- {name: b, script: x, dependencies: [{agent_name: a, condition: 'turn_count > 9', on: failure}]}",
            &[],
        ),
    ];
    for (agents, expected) in rows {
        let circles: Vec<String> = shown(agents)
            .into_iter()
            .filter(|one| one.starts_with("E040"))
            .collect();
        assert_eq!(circles, *expected, "{agents}");
    }
}

#[test]
fn a_circle_shows_its_edges() {
    let found = found(
        "- {name: a, script: x, depends_on: [b]}\n- {name: b, script: x, depends_on: [a]}",
        check_ensemble,
    );
    let labels: Vec<&str> = found[0].related.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(labels, ["`a` waits for `b`", "`b` waits for `a`"]);
    assert!(found[0].help.as_ref().unwrap().contains("`feedback: true`"));
}

#[test]
fn long_chains_and_circles_are_quick() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for at in 0..5000 {
        let _ = writeln!(text, "- {{name: a{at}, script: x, depends_on: [a{}]}}", (at + 1) % 5000);
    }
    let start = std::time::Instant::now();
    assert_eq!(shown(&text).len(), 1);
    assert!(
        start.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn news() {
    let rows: &[(&str, &[&str])] = &[
        (
            "- {name: a, script: x, conversation: {max_turns: 3}}",
            &["W002 3:50 agent `a` will run once, not 3 times: no other agent can produce a new output for it"],
        ),
        (
            "- {name: a, script: x, conversation: {max_turns: 3, trigger: every_turn}}",
            &[],
        ),
        (
            "- {name: a, script: x, conversation: {max_turns: 3, triggers_conversation: true}}",
            &[],
        ),
        ("- {name: a, script: x, conversation: {max_turns: 1}}", &[]),
        (
            "- {name: a, script: x, conversation: {max_turns: 2}}\n- {name: b, script: x, depends_on: [a]}",
            &[],
        ),
        (
            "- {name: a, script: x, conversation: {max_turns: 3}}\n- {name: b, script: x, conversation: {max_turns: 2}}",
            &["H001 3:50 these agents without dependencies start each other until they reach `max_turns`: `a`, `b`"],
        ),
    ];
    for (agents, expected) in rows {
        assert_eq!(shown(agents), *expected, "{agents}");
    }
}

#[test]
fn caps_and_state_keys() {
    let cap = |cap: u32| {
        format!(
            "- {{name: a, script: x, conversation: {{max_turns: 3}}}}\n- {{name: b, script: x, depends_on: [a], conversation: {{max_turns: 3}}}}\nconversation_limits: {{max_agent_executions: {{b: {cap}}}}}"
        )
    };
    assert_eq!(
        shown(&cap(3)),
        ["H002 5:49 the conversation ends after execution 3 of `b`, whose `max_turns` is 3"]
    );
    assert_eq!(shown(&cap(4)), [""; 0]);
    assert_eq!(
        shown(
            "- {name: a, script: x, conversation: {state_key: k}}\n- {name: b, script: x, conversation: {state_key: k}}"
        ),
        ["H003 4:50 `a` and `b` both store their output under `k`"]
    );
    let three = ["a", "b", "c"].map(|name| format!("- {{name: {name}, script: x, conversation: {{state_key: k}}}}\n"));
    assert_eq!(
        shown(&three.concat()),
        [
            "H003 4:50 `a` and `b` both store their output under `k`",
            "H003 5:50 `a` and `c` both store their output under `k`"
        ]
    );
}

#[test]
fn profiles_that_are_not_defined() {
    let agents = "- {name: a, model_profile: p}\n- {name: b, model_profile: q}\n- {name: c, model: ollama/y}\n- {name: d, input: {prompt: q, responses: {model_profile: r}}}\nmodel_profiles:\n  p: {provider: simulated, replies: [a], fallback: s}";
    let configured = "model_profiles:\n  q: {provider: simulated, replies: [a]}\n";
    let configured = load_profiles(&SourceText::new("c", configured)).expect("profiles");
    let found = show(&found(agents, |ensemble| {
        run_check("unknown_profiles", ensemble, &Beside(configured.clone()))
    }));
    assert_eq!(
        found,
        [
            "W001 6:59 unknown model profile `r`",
            "W001 8:52 unknown model profile `s`"
        ]
    );
    let summing_up = "- {name: a, model: xai/n, context_window: {max_tokens: 9000, strategy: {summarize: s}}}";
    assert_eq!(
        show(&self::found(summing_up, |ensemble| run_check(
            "unknown_profiles",
            ensemble,
            &Beside(Vec::new())
        ))),
        ["W001 3:84 unknown model profile `s`"]
    );
}

#[test]
fn templates_that_cannot_be_rendered_are_errors() {
    let agents = "  - {name: w-1, script: x}\n  - name: a\n    model_profile: p\n    depends_on: [w-1]\n    prompt: 'Say {{ oops }}'\n    system_prompt: 'fine: {{ context.k }}'\n  - name: b\n    input: 'What {% if %}?'\n";
    let shown: Vec<String> = found(agents, |ensemble| run_check("templates", ensemble, &NoFileContext))
        .iter()
        .map(|it| {
            let place = it.source.line_column(it.span.start);
            let message = it.message.split(';').next().unwrap_or_default();
            format!("{} {}:{} {message}", it.code.0, place.line, place.column)
        })
        .collect();
    assert_eq!(shown[0], "E044 7:21 unknown variable `oops`");
    assert!(shown[1].starts_with("E043 10:"), "{shown:?}");
    assert_eq!(shown.len(), 2, "{shown:?}");
    // A profile's template is read as one, but whom its users listen to is not known there.
    let agents = "- {name: a, model_profile: p, prompt: x}\nmodel_profiles:\n  p: {provider: xai, model: n, system_prompt: 'You {% if %}'}\n  q: {provider: xai, model: n, system_prompt: 'You and {{ anybody }}'}";
    let faults = show(&found(agents, |ensemble| {
        run_check("templates", ensemble, &NoFileContext)
    }));
    assert!(faults.len() == 1 && faults[0].starts_with("E043 5:"), "{faults:?}");
    // Whoever listens to nobody has no other agent to name.
    let alone = "- {name: a, model_profile: p, prompt: '{{ b }}'}\n- {name: b, script: x}";
    let faults = show(&found(alone, |ensemble| {
        run_check("templates", ensemble, &NoFileContext)
    }));
    assert!(faults.len() == 1 && faults[0].starts_with("E044 3:"), "{faults:?}");
}
