//! Inputs that nothing reads, and scripts that read what is not there.

use std::sync::Arc;

use super::{loaded, show};
use crate::check::{CheckContext, OutputKeys, ScriptName, ScriptText, ScriptVariableKeyRead, check_with_context};
use crate::diagnostic::{Diagnostic, Finding};
use crate::ensemble::{Agent, Ensemble, ModelProfile};

/// One Rhai script, `s`; what every script puts out is known.
struct Beside(ScriptText);

impl CheckContext for Beside {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        Some(&[])
    }
    fn output_keys(&self, _: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        let keys = agent.description.as_ref()?.split_whitespace();
        Some(keys.map(str::to_owned).collect())
    }
    fn find_script(&self, script: &str) -> Option<Arc<ScriptText>> {
        (script == "s").then(|| Arc::new(self.0.clone()))
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

fn found(agents: &str, script: ScriptText, code: &str) -> Vec<Diagnostic> {
    let loaded = loaded(agents);
    let findings = check_with_context(loaded.ensemble.as_ref().unwrap(), &Beside(script));
    let mut found = loaded.diagnostics_with(&findings);
    found.retain(|one| one.code.0 == code);
    found
}

/// What is said of the inputs `topic` and `tone` beside this text of the script `s`.
fn unread(agents: &str, script: &str) -> Vec<String> {
    let text = ScriptText {
        text: script.to_owned(),
        ..ScriptText::default()
    };
    let agents = format!("{agents}\ninputs: {{topic: {{}}, tone: {{}}}}");
    show(&found(&agents, text, "W024"))
}

fn prompting(prompt: &str) -> String {
    format!("- {{name: a, model: simulated/x, prompt: \"{prompt}\"}}")
}

#[test]
fn inputs_that_nothing_can_read() {
    assert_eq!(
        unread(&prompting("Write about topic in {{ inputs.tone }}"), ""),
        ["W024 4:10 nothing can read the input `topic`"]
    );
    let reads = |reader: &str| unread(&prompting(&format!("{{{{ inputs.tone }}}} {reader}")), "").is_empty();
    for reader in [
        "{{ inputs.topic }}",
        "{{ inputs['topic'] }}",
        "{% if context.topic %}x{% endif %}",
        "{% for one in inputs %}{{ one }}{% endfor %}",
        "{{ inputs | tojson }}",
        "{{ context }}",
        "{{ context[inputs.tone] }}",
        "{% set all = inputs %}{{ all.tone }}",
        "{{ debug() }}",
    ] {
        assert!(reads(reader), "{reader}");
    }
    // A misspelt name is reported where it is read.
    assert!(unread(&prompting("{{ inputs.topci }} {{ inputs.tone }}"), "").is_empty());
    for reader in [
        "{{ context.topics }}",
        "topic, the inputs and the context",
        "{{ input }}",
        "{{ request.inputs }}",
        "{# inputs.topic #}",
    ] {
        assert!(!reads(reader), "{reader}");
    }
}

#[test]
fn every_kind_of_reader() {
    let tone = prompting("{{ inputs.tone }}");
    let reads = |more: &str, script: &str| unread(&format!("{tone}\n{more}"), script).is_empty();
    for (more, script) in [
        ("- {name: b, script: program}", ""),
        ("- {name: b, script: s}", "inputs.topic"),
        ("- {name: b, script: s}", "let all = inputs; all.len()"),
        ("- {name: b, script: s}", "inputs.get(\"topic\", 1)"),
        ("- {name: b, script: s}", "inputs.keys()"),
        ("- {name: b, script: s}", "context.topic"),
        (
            "- {name: b, input: {prompt: x, responses: {script: s}}}",
            "inputs.topic",
        ),
        ("- {name: b, input: 'About {{ inputs.topic }}?'}", ""),
        ("- {name: b, ensemble: e, inputs: {about: '{{ inputs.topic }}'}}", ""),
        (
            "- {name: b, ensemble: e, depends_on: [a], prompt: '{{ inputs.topic }}'}",
            "",
        ),
        (
            "- {name: b, ensemble: e, dependencies: [{agent_name: a, condition: inputs.topic == 'x'}]}",
            "",
        ),
        ("result: {about: inputs.topic}", ""),
        ("- {name: b, script: s, for_each: {in: inputs.topic}}", ""),
        (
            "- {name: b, script: s, for_each: {in: [1], key: 'inputs.topic + item'}}",
            "",
        ),
        (
            "- {name: b, script: s, for_each: {in: [1], combine: {best: output.n * inputs.topic}}}",
            "",
        ),
        (
            "tools: {t: {script: program, description: x, parameters: {type: object}}}",
            "",
        ),
        (
            "tools: {t: {script: s, description: x, parameters: {type: object}}}",
            "inputs.topic",
        ),
        ("- {name: b, model_profile: somewhere, prompt: x}", ""),
        (
            "- {name: b, model_profile: p, prompt: x}\nmodel_profiles: {p: {provider: xai, model: n, system_prompt: '{{ inputs.topic }}'}}",
            "",
        ),
    ] {
        assert!(reads(more, script), "{more} {script}");
    }
    for (more, script) in [
        ("- {name: b, script: s}", "// all inputs and inputs.topic\ninputs.tone"),
        (
            "- {name: b, script: s}",
            "inputs.tone.len() + inputs.get(\"tone\").len() + inputs.len()",
        ),
        ("- {name: b, ensemble: e}", ""),
        (
            "- {name: b, model_profile: p, prompt: x}\nmodel_profiles: {p: {provider: xai, model: n, system_prompt: x}}",
            "",
        ),
    ] {
        assert!(!reads(more, script), "{more} {script}");
    }
}

/// Returns a script that reads these: `input`, `f:input` in a function, or `context.topic`.
fn reading(reads: &[&str]) -> ScriptText {
    let named = |name: &str| ScriptName {
        name: name.to_owned(),
        place: (2, 5),
    };
    let mut text = ScriptText {
        name: "s.rhai".to_owned(),
        text: "// a script\n    names\n".to_owned(),
        ..ScriptText::default()
    };
    for read in reads {
        match (read.strip_prefix("f:"), read.split_once('.')) {
            (Some(name), _) => text.free_in_functions.push(named(name)),
            (None, Some((variable, key))) => text.keys.push(ScriptVariableKeyRead {
                variable: variable.to_owned(),
                key: named(key),
                may_be_missing: false,
            }),
            (None, None) => text.free.push(named(read)),
        }
    }
    text
}

const PAIR: &str = "- {name: a, script: x, description: done}\n- {name: b, script: s, description: said verdict, depends_on: [a]}\ninputs: {topic: {}}\n";

#[test]
fn what_scripts_cannot_read() {
    let asked = |read: &str| {
        let found = found(PAIR, reading(&[read]), "W025");
        let help = |one: &Diagnostic| one.help.clone().unwrap_or_default();
        let told = found.iter().map(|one| format!("{} / {}", one.message, help(one)));
        told.collect::<Vec<_>>()
    };
    let rows: &[(&str, &str)] = &[
        (
            "inptu",
            "unknown variable `inptu` in the script / did you mean `input`?",
        ),
        (
            "f:input",
            "a function of the script reads the variable `input`, which is outside of the function / pass the value as a parameter: a function cannot read variables outside of it",
        ),
        (
            "dependencies.nobody",
            "the script reads the output of `nobody`, on which `b` does not depend / read an agent that `dependencies` or `depends_on` names",
        ),
        (
            "dependencies.b",
            "the script reads the output of `b`, on which `b` does not depend / add `b` to the dependencies of `b`, or read `context.b`",
        ),
        (
            "inputs.topics",
            "the script reads the input `topics`, which is not declared / did you mean `topic`?",
        ),
        (
            "context.verdcit",
            "the script reads `verdcit` of the context, which no agent writes / did you mean `verdict`?",
        ),
    ];
    for (read, expected) in rows {
        assert_eq!(asked(read), [*expected], "{read}");
    }
    for read in [
        "input",
        "input_data",
        "history",
        "dependencies.a",
        "inputs.topic",
        "context.done",
        "context.said",
        "context.a",
        "context.topic",
        "context.anything",
        "context.dnoe",
        "context.request",
        "context.dependencies",
    ] {
        assert_eq!(asked(read), [""; 0], "{read}");
    }
    let found = found(PAIR, reading(&["oops"]), "W025");
    assert_eq!(show(&found)[0].split(' ').nth(1), Some("2:5"));
    assert_eq!((found[0].source.name(), found[0].span.end), ("s.rhai", 21));
    let [named] = found[0].related.as_slice() else {
        panic!("{found:?}");
    };
    let place = named.source.line_column(named.span.start);
    assert_eq!((named.source.name(), place.line, place.column), ("t", 4, 21));
}

#[test]
fn what_scripts_may_read_elsewhere() {
    let count = |agents: &str, read: &str| found(agents, reading(&[read]), "W025").len();
    // Not all outputs are known.
    assert_eq!(
        count("- {name: a, script: x}\n- {name: b, script: s}", "context.other"),
        0
    );
    assert_eq!(
        count(
            "- {name: a, script: x, conversation: {state_key: k}}\n- {name: b, script: s}",
            "context.a"
        ),
        1
    );
    // One script of two agents.
    let shared =
        "- {name: a, script: x}\n- {name: b, script: s, depends_on: [a]}\n- {name: c, script: s, depends_on: [b]}";
    assert_eq!(count(shared, "dependencies.c"), 1);
    // It may tell them apart.
    assert_eq!(count(shared, "dependencies.a"), 0);
    // A script that answers has the question, and no other has it.
    let answering = "- {name: a, input: {prompt: q, responses: {script: s}}}";
    assert_eq!(count(answering, "prompt"), 0);
    assert_eq!(count(answering, "messages"), 1);
    assert_eq!(count("- {name: a, script: s}", "prompt"), 1);
    // An agent with parts has the item.
    let parts = "- {name: a, script: s, for_each: {in: [1], as: page}}";
    assert_eq!(count(parts, "page") + count(parts, "part"), 0);
    assert_eq!(count(parts, "item"), 1);
    // Scripts for models have variables of their own.
    let model = "- {name: a, model_profile: p, prompt: x}\nmodel_profiles: {p: {provider: simulated, script: s}}";
    assert_eq!(count(model, "messages"), 0);
    assert_eq!(count(model, "input"), 1);
    let window = "- {name: a, model: xai/x, context_window: {max_tokens: 9000, strategy: {custom: s}}}";
    assert_eq!(count(window, "tokens"), 0);
    assert_eq!(count(window, "prompt"), 1);
    // A tool has the data of the agent that calls it.
    let tool = "- {name: a, model: simulated/x, tools: [t]}\ntools: {t: {script: s, description: x, parameters: {type: object}}}";
    assert_eq!(count(tool, "dependencies.other"), 0);
    assert_eq!(count(tool, "oops"), 1);
    let agent_tool = "- {name: a, model: simulated/x, tools: [t]}\n- {name: b, script: s}\ntools: {t: {agent: b}}";
    assert_eq!(count(agent_tool, "dependencies.other"), 0);
}
