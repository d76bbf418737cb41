//! What is said of LLM agents: a `config` without a reader, and answers that may be strings.

use std::sync::Arc;

use super::around::diagnostics;
use super::show;
use crate::diagnostic::Diagnostic;
use crate::ensemble::ModelProfile;
use crate::loader::load_ensemble;
use crate::source::SourceText;

#[test]
fn config_that_no_prompt_uses() {
    let configured: Vec<(Arc<str>, ModelProfile)> = load_ensemble(&SourceText::new(
        "t",
        "name: e\nagents: [{name: a, script: x}]\nmodel_profiles: {there: {provider: xai, model: n, system_prompt: 'Be {{ parameters.tone }}'}}",
    ))
    .ensemble
    .expect("profiles")
    .model_profiles;
    let found = |agents: &str| {
        let agents = format!(
            "{agents}\nmodel_profiles:\n  plain: {{provider: xai, model: n, system_prompt: Be brief}}\n  falls: {{provider: xai, model: n, fallback: there}}\n"
        );
        let found = show(&diagnostics(&agents, configured.clone()));
        found
            .into_iter()
            .filter(|one| one.starts_with("W020"))
            .collect::<Vec<_>>()
    };
    let one = |rest: &str| {
        found(&format!(
            "- {{name: a, config: {{k: 1}}, {rest}}}\n- {{name: z, script: x}}"
        ))
    };
    let at_config = ["W020 3:13 the `config` of `a` has no effect: none of its prompts uses `parameters`"];
    for rest in [
        "model: xai/n, prompt: hello",
        "model_profile: plain, prompt: 'hello {{ input }}', system_prompt: x",
        "model_profile: simulated",
        "input: {prompt: q}",
        "input: {prompt: q, responses: [k]}",
        "input: {prompt: q, responses: {model_profile: plain}}",
    ] {
        assert_eq!(one(rest), at_config, "{rest}");
    }
    for rest in [
        "model: xai/n, prompt: 'hello {{ parameters.k }}'",
        "model: xai/n, prompt: x, system_prompt: 'hello {{ parameters.k }}'",
        "model_profile: there",
        "model_profile: falls",
        "model_profile: unknown",
        "input: {prompt: '{{ parameters }}'}",
        "input: {prompt: q, responses: {script: s.rhai}}",
        "input: {prompt: q, responses: {model_profile: falls}}",
        "script: x",
        "ensemble: x",
    ] {
        assert_eq!(one(rest), [""; 0], "{rest}");
    }
    let other = found("- {name: a, parameters: {k: 1}, model: xai/n}\n- {name: z, script: x}");
    assert_eq!(other.len(), 1, "{other:?}");
    assert!(other[0].starts_with("W020 3:3 "), "{other:?}");
    assert_eq!(found("- {name: a, config: {k: 1}, model: xai/n}").len(), 1);
    let shared = "- {name: a, model: xai/n}\n- {name: z, script: x}\ndefaults: {config: {k: 1}}";
    assert_eq!(found(shared), [""; 0]);
    let own = "- {name: a, model: xai/n, config: {j: 1}}\n- {name: z, script: x}\ndefaults: {config: {k: 1}}";
    assert_eq!(found(own).len(), 1);
}

#[test]
fn truths_of_answers_that_may_be_strings() {
    let found = |of_a: &str, edge: &str| {
        let agents = format!(
            "- {{name: a, {of_a}}}\n- {{name: b, script: x, dependencies: [{{agent_name: a, {edge}}}]}}\nmodel_profiles:\n  real: {{provider: xai, model: n}}\n  fake: {{provider: simulated, replies: ['{{\"done\": true}}']}}\n"
        );
        let found = diagnostics(&agents, Vec::new());
        let found = found.iter().filter(|one| one.code.0 == "H014");
        let at = |it: &Diagnostic| it.source.text()[it.span.start..it.span.end].to_owned();
        found.map(at).collect::<Vec<_>>()
    };
    let asked = |condition: &str| found("model: xai/n", &format!("condition: \"{condition}\""));
    let rows: &[(&str, &[&str])] = &[
        ("output.done", &["output.done"]),
        ("output['done']", &["output['done']"]),
        ("output.get('done', False)", &["output.get('done', False)"]),
        ("get(output, 'done')", &["get(output, 'done')"]),
        ("not output.done", &["output.done"]),
        (
            "output.done and turn_count > 1 or context.a.ok",
            &["output.done", "context.a.ok"],
        ),
        ("outputs.a.done", &["outputs.a.done"]),
        ("bool(output.done) == True", &["output.done"]),
        ("1 if output.done else output.other", &["output.done", "output.other"]),
        ("(output.mood or 'calm') == 'calm'", &["output.mood"]),
        ("('calm' or output.mood) == 'calm'", &[]),
        ("output.done ?? True", &["output.done"]),
        ("output.done == True", &[]),
        ("output.done != 'no' and len(output.list) > 0", &[]),
        ("'done' in output", &[]),
        ("output", &[]),
        ("context.done", &[]),
        ("context.b.done", &[]),
        ("output.deep.done", &[]),
        ("outputs.b.done", &[]),
    ];
    for (condition, expected) in rows {
        assert_eq!(asked(condition), *expected, "{condition}");
    }
    let done = "condition: output.done";
    for (of_a, edge, expected) in [
        ("model_profile: real", done, 1),
        ("model_profile: elsewhere", done, 1),
        ("model_profile: fake", done, 0),
        ("model_profile: simulated", done, 0),
        ("model: simulated/x", done, 0),
        ("model: xai/n, output_schema: {properties: {done: {}}}", done, 0),
        ("script: x", done, 0),
        ("input: {prompt: q}", done, 0),
        (
            "model: xai/n, conversation: {state_key: k}",
            "condition: context.k.done",
            1,
        ),
        ("model: xai/n", "on: failure, condition: output.done", 0),
        ("model: xai/n", "on: any, condition: output.done", 1),
        ("model: xai/n", "on: any, condition: output.error", 0),
    ] {
        assert_eq!(found(of_a, edge).len(), expected, "{of_a} {edge}");
    }
}
