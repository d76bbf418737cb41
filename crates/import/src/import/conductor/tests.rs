//! What becomes of templates, conditions and hostile texts of Conductor.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::{ImportContext, ImportResult, import_ensemble};
use super::template_names::{StepOutputForm, TemplateStep, WorkflowTemplateNames};
use super::{expression, jinja};
use ensemble_language::check;
use ensemble_language::diagnostic::FindingSeverity;
use ensemble_language::loader;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;

fn names() -> WorkflowTemplateNames {
    let value = |text: &str| jinja::template_to_expression(text);
    let steps = [
        ("raw", StepOutputForm::Model { raw: true }),
        ("typed", StepOutputForm::Model { raw: false }),
        ("my-step", StepOutputForm::Model { raw: false }),
        ("run", StepOutputForm::Script { declared: false }),
        ("gate", StepOutputForm::Gate),
        ("ask", StepOutputForm::Questions),
        (
            "pair",
            StepOutputForm::Parallel(vec!["raw".to_owned(), "typed".to_owned()]),
        ),
        (
            "list",
            StepOutputForm::Each {
                collect: false,
                keyed: false,
            },
        ),
        (
            "some",
            StepOutputForm::Each {
                collect: true,
                keyed: false,
            },
        ),
        (
            "by_key",
            StepOutputForm::Each {
                collect: false,
                keyed: true,
            },
        ),
        ("wait", StepOutputForm::NoOutput),
        (
            "set",
            StepOutputForm::Set(HashMap::from([(
                String::new(),
                value("{{ typed.output.a }}/{{ workflow.input.x }}"),
            )])),
        ),
        (
            "self",
            StepOutputForm::Set(HashMap::from([(
                String::new(),
                value("{{ self.output + self.output }}"),
            )])),
        ),
    ];
    let steps = steps.into_iter().map(|(name, reads)| {
        let step = TemplateStep {
            new: name.to_owned(),
            reads,
        };
        (name.to_owned(), step)
    });
    WorkflowTemplateNames {
        steps: steps.collect(),
        name: "flow".to_owned(),
        description: "it's one".to_owned(),
    }
}

#[test]
fn names_in_templates_are_replaced_and_the_rest_stays() {
    let rows = [
        ("plain { text } #", "plain { text } #"),
        ("{{ workflow.input.x }} {{workflow.name}}", "{{ inputs.x }} {{'flow'}}"),
        ("{{ workflow.description }}", "{{ \"it's one\" }}"),
        ("{{ raw.output.result }}", "{{ context.raw.response }}"),
        ("{{ typed.output.result }}", "{{ context.typed.result }}"),
        ("{{ typed.output }}", "{{ context.typed }}"),
        ("{{ typed['output'][\"a\"] }}", "{{ context.typed[\"a\"] }}"),
        (
            "{% if typed is defined and raw.output is not defined %}x{% endif %}",
            "{% if context.typed is defined and context.raw is not defined %}x{% endif %}",
        ),
        (
            "{% for typed in raw.output.all %}{{ typed.output }}{% endfor %}",
            "{% for typed in context.raw.all %}{{ typed.output }}{% endfor %}",
        ),
        ("{{ typed.output.a | json }}", "{{ context.typed.a | tojson }}"),
        (
            "{{ pair.outputs.raw.result }} {{ pair.outputs.typed.a }}",
            "{{ context.raw.response }} {{ context.typed.a }}",
        ),
        (
            "{{ pair.outputs | length }}",
            "{{ {'raw': context.raw, 'typed': context.typed} | length }}",
        ),
        (
            "{{ list.outputs[0].a }} {{ some.outputs | length }}",
            "{{ context.list.items[0].a }} {{ (context.some.items | select | list) | length }}",
        ),
        (
            "{% for k, v in typed.output.map.items() %}{% endfor %}",
            "{% for k, v in context.typed.map | items %}{% endfor %}",
        ),
        (
            "{% for k, v in list.errors.items() %}{% endfor %}",
            "{% for k, v in {} | items %}{% endfor %}",
        ),
        (
            "{{ gate.output.selected }} {{ gate.choice }}",
            "{{ context.gate.response }} {{ context.gate.response }}",
        ),
        (
            "{{ ask.output.transcript }} {{ run.output.stdout }}",
            "{{ context.ask.response }} {{ context.run.response }}",
        ),
        ("{{ set.output }}", "{{ ((context.typed.a) ~ ('/') ~ (inputs.x)) }}"),
        (
            "{{ _index + 1 }} {{ _key }} {{ context.iteration }}",
            "{{ part.index + 1 }} {{ part.key }} {{ turn_count }}",
        ),
        (
            "{{ unknown.output }} {{ 'typed.output' }}",
            "{{ unknown.output }} {{ 'typed.output' }}",
        ),
        (
            "{% raw %}{{ typed.output }}{% endraw %}",
            "{% raw %}{{ typed.output }}{% endraw %}",
        ),
    ];
    for (old, new) in rows {
        let is = jinja::convert_template_names(old, &names(), None).unwrap_or_else(|why| panic!("{old}: {why}"));
        assert_eq!(is, new, "{old}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    for text in [
        "{{ wait.output.waited_seconds }}",
        "{{ run.output.stderr }}",
        "{{ run.output.exit_code }}",
        "{{ ask.output.answers }}",
        "{{ by_key.outputs['a'] }}",
        "{{ workflow.dir }}",
        "{{ self.output }}",
        "{{ pair.outputs.other }}",
    ] {
        assert!(jinja::convert_template_names(text, &names(), None).is_err(), "{text}");
    }
}

#[test]
fn conditions_become_expressions() {
    let rows = [
        ("{{ output.score >= 8 }}", "output.score >= 8"),
        ("score >= 8 and done", "(output.score >= 8) and output.done"),
        ("{{ typed.output.score < 3 }}", "output.score < 3"),
        ("{{ not output.ok }}", "not output.ok"),
        ("{{ output.kind in ['a', 'b'] }}", "output.kind in ['a', 'b']"),
        ("{{ output.list | length > 0 }}", "len(output.list ?? []) > 0"),
        ("{{ output.name | lower == 'x' }}", "lower(output.name) == 'x'"),
        ("{{ raw.output.result == 'x' }}", "outputs.raw?.response == 'x'"),
        ("{{ raw is defined }}", "outputs.raw is not None"),
        (
            "{{ workflow.input.fast and context.iteration < 3 }}",
            "inputs.fast and (turn_count < 3)",
        ),
        ("{{ output.a | default('b') == 'b' }}", "(output.a ?? 'b') == 'b'"),
        ("{{ true if output.a else false }}", "(True if output.a else False)"),
        ("{{ output.text.startswith('x') }}", "output.text.startswith('x')"),
    ];
    for (old, new) in rows {
        let is =
            expression::convert_route_condition(old, &names(), "typed").unwrap_or_else(|why| panic!("{old}: {why}"));
        assert_eq!(is.text, new, "{old}");
        assert_eq!(
            is.reads_others,
            new.contains("outputs.") || new.contains("turn_count"),
            "{old}"
        );
    }
    for text in [
        "{% for a in b %}{% endfor %}",
        "{{ output.a ** 2 }}",
        "{{ nobody.output }}",
        "a b c",
        "",
    ] {
        assert!(
            expression::convert_route_condition(text, &names(), "typed").is_err(),
            "{text}"
        );
    }
}

fn imported(text: &str) -> Option<ImportResult> {
    let beside = ImportContext {
        stem: "stem",
        configurations: &[],
        script: &|_| None,
        script_text: &|_| None,
        ensemble: &|_| false,
        schema: None,
    };
    import_ensemble(&SourceText::new("old.yaml", text), &beside, None).ok()
}

fn errors(text: &str) -> Vec<String> {
    let mut loaded = loader::load_ensemble(&SourceText::new("new.yaml", text));
    let mut findings = loaded.findings.clone();
    if let Some(ensemble) = loaded.ensemble.take() {
        findings.extend(check::check_ensemble(&ensemble));
        findings.extend(Plan::build(Arc::new(ensemble)).err().into_iter().flatten());
    }
    findings.retain(|finding| finding.severity == FindingSeverity::Error);
    findings.into_iter().map(|finding| finding.message).collect()
}

#[test]
fn options_that_ask_for_the_same_field_keep_their_routes() {
    let text = "workflow: {name: w, entry_point: gate}\nagents:\n  \
        - {name: gate, type: human_gate, prompt: 'Which?', options: [\
            {label: Yes, value: 'yes', route: done, prompt_for: why}, \
            {label: No, value: 'no', route: again, prompt_for: why}]}\n  \
        - {name: done, type: script, command: echo}\n  \
        - {name: again, type: script, command: echo}\n";
    let imported = imported(text).expect("a workflow");
    assert_eq!(errors(&imported.text), Vec::<String>::new(), "{}", imported.text);
    for condition in ["outputs['gate'].response == 'yes'", "outputs['gate'].response == 'no'"] {
        assert!(imported.text.contains(condition), "{condition}:\n{}", imported.text);
    }
}

#[test]
fn hostile_texts_end_soon() {
    let deep = |open: &str, close: &str, count: usize| format!("{}x{}", open.repeat(count), close.repeat(count));
    let head = "workflow: {name: w, entry_point: a}\nagents:\n";
    let step = |keys: &str| format!("{head}  - {{name: a, {keys}}}\n");
    let sets: String = (0..40)
        .map(|at| {
            format!(
                "  - {{name: s{at}, type: set, value: '{{{{ s{}.output + s{}.output }}}}'}}\n",
                at + 1,
                at + 1
            )
        })
        .collect();
    let rows = [
        step(&format!("prompt: '{{{{ {} }}}}'", deep("(", ")", 20_000))),
        step(&format!("prompt: '{{{{ {} }}}}'", "not ".repeat(20_000))),
        step(&format!(
            "prompt: '{{% if a %}}{}{{% endif %}}'",
            "{% elif a %}".repeat(5000)
        )),
        step(&format!("routes: [{{to: a, when: '{}1'}}]", "1 + ".repeat(20_000))),
        step("routes: [{to: a, when: '{{ 1e999 }}'}], max_agent_iterations: 1e400"),
        step("type: wait, duration: 1e400"),
        step("type: script, command: \"\\0\", args: [\"\\e[31m\"]"),
        step("type: human_gate, options: [{value: a, route: a, prompt_for: a}, {value: a, route: a, prompt_for: a}]"),
        format!("{head}  - {{name: a, prompt: '{{{{ s0.output }}}}'}}\n{sets}"),
        format!("{head}  - {{name: a}}\nparallel: [{{name: a, agents: [a, a]}}, {{name: p, agents: [p, a]}}]\n"),
        format!(
            "{head}  - {{name: a, routes: [{{to: p}}]}}\nparallel: [{{name: p, agents: [a], routes: [{{to: p}}]}}]\n"
        ),
        "workflow: {entry_point: 7, limits: {max_iterations: 99999999999999999999}, name: [1]}\nagents: [1, [], {}]\n"
            .to_owned(),
        "a: &a [x, x]\nb: &b [*a, *a]\nworkflow: {entry_point: a, input: *b, runtime: *b}\nagents: *b\n".to_owned(),
    ];
    for text in rows {
        if let Some(imported) = imported(&text) {
            assert_eq!(errors(&imported.text), Vec::<String>::new(), "{}", imported.text);
            assert!(!imported.text.contains('\u{1b}'), "{}", imported.text);
        }
    }
}

/// Returns a value in flow style.
fn value() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "a",
        "b",
        "p",
        "e",
        "$end",
        "7",
        "-1",
        "1e400",
        "true",
        "null",
        "''",
        "output.x",
        "'{{ a.output.x }}'",
        "'{{ output.x == 1 }}'",
        "'{% if b %}x{% endif %}'",
        "'{{ set.output }} }}'",
        "script",
        "human_gate",
        "questions",
        "set",
        "wait",
        "terminate",
        "workflow",
        "continue_on_error",
        "5s",
        "failed",
        "string",
        "number",
        "claude",
    ]);
    let key = prop::sample::select(vec![
        "to",
        "when",
        "name",
        "type",
        "value",
        "label",
        "route",
        "prompt_for",
        "text",
        "choices",
        "source",
        "as",
        "agent",
        "prompt",
        "output",
        "properties",
        "required",
        "items",
        "x",
        "max_attempts",
        "env",
        "command",
        "args",
        "url",
    ]);
    word.prop_map(str::to_owned).prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::btree_map(key.clone(), inner, 0..4).prop_map(|pairs| {
                let pairs: Vec<String> = pairs
                    .into_iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                format!("{{{}}}", pairs.join(", "))
            }),
        ]
    })
}

fn step() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "type",
        "prompt",
        "system_prompt",
        "output",
        "routes",
        "options",
        "questions",
        "source",
        "command",
        "args",
        "env",
        "timeout",
        "value",
        "values",
        "duration",
        "reason",
        "status",
        "workflow",
        "input_mapping",
        "retry",
        "tools",
        "model",
        "provider",
        "reasoning",
        "agents",
        "failure_mode",
        "agent",
        "for_each",
        "as",
        "key_by",
        "max_concurrent",
        "description",
        "stdin",
    ]);
    let name = prop::sample::select(vec!["a", "b", "p", "e"]);
    (name, prop::collection::btree_map(key, value(), 0..5)).prop_map(|(name, pairs)| {
        let pairs: Vec<String> = pairs
            .into_iter()
            .map(|(key, value)| format!(", {key}: {value}"))
            .collect();
        format!("  - {{name: {name}{}}}\n", pairs.concat())
    })
}

proptest! {
    #[test]
    fn whatever_comes_out_is_valid(
        agents in prop::collection::vec(step(), 1..4),
        groups in prop::collection::vec(step(), 0..3),
        lists in prop::collection::vec(step(), 0..3),
        runtime in value(), input in value(), limits in value(), output in value(),
    ) {
        let text = format!(
            "workflow:\n  name: w\n  entry_point: a\n  runtime: {runtime}\n  input: {input}\n  limits: {limits}\nagents:\n{}parallel:\n{}for_each:\n{}output: {output}\n",
            agents.concat(), groups.concat(), lists.concat(),
        );
        if let Some(imported) = imported(&text) {
            prop_assert_eq!(errors(&imported.text), Vec::<String>::new(), "{}", imported.text);
        } else {
            prop_assert!(loader::parse_yaml(&SourceText::new("old.yaml", text.as_str())).is_err(), "{}", text);
        }
    }
}
