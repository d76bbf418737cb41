//! What is known with the help of what stands around a file.

use std::sync::Arc;

use super::{loaded, show};
use crate::check::{CheckContext, OutputKeys, TextSecrets, check_with_context};
use crate::diagnostic::{Diagnostic, Finding};
use crate::ensemble::{Agent, Ensemble, ModelProfile};
use crate::loader::load_ensemble;
use crate::source::SourceText;

/// Agents put out what their description says: `a b`; anything where there is none. `b!` is only ever true, and not always
/// there.
pub(super) struct Beside(pub(super) Vec<(Arc<str>, ModelProfile)>);

impl CheckContext for Beside {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        Some(&self.0)
    }
    fn output_keys(&self, _: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        let keys = agent.description.as_ref()?.split_whitespace();
        Some(keys.map(|key| key.trim_end_matches('!').to_owned()).collect())
    }
    fn always_true_keys(&self, _: &Ensemble, agent: &Agent) -> OutputKeys {
        let keys = agent.description.iter().flat_map(|keys| keys.split_whitespace());
        keys.filter_map(|key| Some(key.strip_suffix('!')?.to_owned())).collect()
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

pub(super) fn diagnostics(agents: &str, configured: Vec<(Arc<str>, ModelProfile)>) -> Vec<Diagnostic> {
    let loaded = loaded(agents);
    let findings = check_with_context(loaded.ensemble.as_ref().unwrap(), &Beside(configured));
    loaded.diagnostics_with(&findings)
}

/// `W013 don: message`, with what stands at the place.
fn listening(of_a: &str, edge: &str) -> Vec<String> {
    let agents = format!(
        "- {{name: a, script: x, {of_a}}}\n- {{name: b, script: x, description: verdict, dependencies: [{{agent_name: a, {edge}}}]}}"
    );
    let found = diagnostics(&agents, Vec::new());
    let line = |it: &Diagnostic| {
        let at = &it.source.text()[it.span.start..it.span.end];
        format!("{} {at}: {}", it.code.0, it.message)
    };
    found.iter().map(line).collect()
}

#[test]
fn keys_that_nobody_writes() {
    let rows: &[(&str, &str, &[&str])] = &[
        (
            "description: done",
            "condition: output.don",
            &["W013 don: the output of `a` has no key `don`"],
        ),
        ("description: done", "condition: output.done", &[]),
        ("type: script", "condition: output.don", &[]),
        (
            "description: done",
            "condition: \"'dun' in output or output.get('dun') or output.dun is None or output.dun?.x or (output.dun ?? 1)\"",
            &[],
        ),
        (
            "description: done",
            "on: failure, condition: output.done",
            &["W013 done: a failure of `a` has no key `done`"],
        ),
        ("type: script", "on: failure, condition: output.kind == 'exit'", &[]),
        ("description: done", "on: any, condition: output.error", &[]),
        ("description: done", "on: any, condition: output.done", &[]),
        (
            "description: done",
            "on: any, condition: output.don",
            &["W013 don: the output of `a` has no key `don`"],
        ),
        (
            "description: done",
            "condition: \"context.get('dune') or () != context.dune or context?.dune\"",
            &[],
        ),
        (
            "description: done",
            "condition: context.done and context.verdict and context.a and context.b",
            &[],
        ),
        ("type: script", "condition: context.dune", &[]),
        ("description: done", "condition: \"'mood' in context\"", &[]),
        (
            "description: done",
            "condition: \"'verdit' not in context and context.verdit\"",
            &["W013 verdit: no agent writes `verdit` into the context"],
        ),
        (
            "description: done, conversation: {state_key: k}",
            "condition: context.a",
            &["W013 a: no agent writes `a` into the context"],
        ),
        (
            "description: done, conversation: {state_key: k}",
            "condition: context.k",
            &[],
        ),
        (
            "output_schema: {properties: {x: {}}, additionalProperties: false}",
            "condition: output.y",
            &["W013 y: the output of `a` has no key `y`"],
        ),
        ("output_schema: {properties: {x: {}}}", "condition: output.y", &[]),
        (
            "output_schema: {properties: {x: {}}, additionalProperties: false, patternProperties: {y: {}}}",
            "condition: output.y",
            &[],
        ),
        (
            "description: verdict",
            "condition: context.verdict",
            &[
                "H013 verdict: `a` and `b` both write `verdict`: this condition reads the value of the agent that ran last",
            ],
        ),
    ];
    for (of_a, edge, expected) in rows {
        assert_eq!(listening(of_a, edge), *expected, "{of_a} {edge}");
    }
}

#[test]
fn what_a_model_says_is_kept_beside_its_keys() {
    let listening = |key: &str| {
        let agents = format!(
            "- {{name: a, model: xai/n, output_schema: {{properties: {{x: {{}}}}, additionalProperties: false}}}}\n- {{name: b, script: x, dependencies: [{{agent_name: a, condition: output.{key}}}]}}"
        );
        diagnostics(&agents, Vec::new()).len()
    };
    assert_eq!((listening("x"), listening("response"), listening("y")), (0, 0, 1));
}

#[test]
fn the_first_two_of_several_writers_are_named() {
    let agents = "- {name: a, script: x, description: k}\n- {name: b, script: x, description: k}\n- {name: c, script: x, description: k, dependencies: [{agent_name: a, condition: context.k}]}";
    assert_eq!(
        show(&diagnostics(agents, Vec::new())),
        ["H013 5:90 `a` and `b` both write `k`: this condition reads the value of the agent that ran last"]
    );
}

#[test]
fn what_to_do_about_a_key() {
    let agents = |key: &str| {
        format!(
            "- {{name: a, script: x, description: needs_clarification}}\n- {{name: b, script: x, description: verdict, dependencies: [{{agent_name: a, condition: context.{key}}}]}}"
        )
    };
    let help = |key: &str| diagnostics(&agents(key), Vec::new())[0].help.clone().unwrap();
    assert_eq!(help("needs_clarificaton"), "did you mean `needs_clarification`?");
    assert!(
        help("mood").contains("`verdict`") && help("mood").contains("`--set`"),
        "{}",
        help("mood")
    );
}

#[test]
fn circles_through_the_configuration() {
    let profile = |fallback: &str| ModelProfile {
        fallback: Some(fallback.into()),
        ..ModelProfile::default()
    };
    let agents = "- {name: a, model_profile: p}\nmodel_profiles:\n  p: {provider: xai, model: y, fallback: q}\n  r: {provider: xai, model: y, fallback: p}";
    let with = |q: &str| {
        let configured = vec![("q".into(), profile(q)), ("s".into(), profile("q"))];
        let found = show(&diagnostics(agents, configured));
        found
            .into_iter()
            .filter(|one| one.starts_with("W016"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        with("p"),
        ["W016 5:42 the fallbacks of these profiles form a cycle: p → q → p"]
    );
    assert_eq!(with("r").len(), 1);
    assert_eq!(with("elsewhere"), [""; 0]);
    // A circle of the configuration alone is no business of this file.
    assert_eq!(with("s"), [""; 0]);
    // The file's own profile hides one of the same name, and a circle is told from the first of the file's own.
    let entered = "- {name: a, model_profile: r}\nmodel_profiles:\n  r: {provider: xai, model: y, fallback: q}\n  p: {provider: xai, model: y, fallback: q}";
    let configured = vec![("p".into(), ModelProfile::default()), ("q".into(), profile("p"))];
    assert_eq!(
        show(&diagnostics(entered, configured))
            .into_iter()
            .filter(|one| one.starts_with("W016"))
            .collect::<Vec<_>>(),
        ["W016 6:42 the fallbacks of these profiles form a cycle: p → q → p"]
    );
}

#[test]
fn every_place_stays_where_it_is_beside_a_hidden_secret() {
    let text = "name: e\nagents:\n- {name: a, script: x, config: {password: 'gehé本🔑12'}, scirpt: 1}\n";
    let source = SourceText::new("t", text);
    let loaded = load_ensemble(&source);
    let looked = TextSecrets::find_in(&source, loaded.document.as_ref());
    let mut diagnostics = loaded.diagnostics_with(&looked.secret_warnings());
    looked.redact_diagnostics(&mut diagnostics);
    for diagnostic in &diagnostics {
        let masked = &diagnostic.source;
        assert!(masked.text().contains("***·•🔒**"), "{}", masked.text());
        for (at, _) in text.char_indices() {
            assert_eq!(masked.line_column(at), source.line_column(at));
        }
    }
    assert!(diagnostics.len() >= 2, "{diagnostics:?}");
}

#[test]
fn a_secret_of_quotation_marks_is_hidden_as_any_other() {
    let text = "name: e\nagents:\n- {name: a, script: x, config: {password: '\"''\"''\"''\"'}}\n";
    let source = SourceText::new("t", text);
    let loaded = load_ensemble(&source);
    let looked = TextSecrets::find_in(&source, loaded.document.as_ref());
    let mut diagnostics = loaded.diagnostics_with(&looked.secret_warnings());
    looked.redact_diagnostics(&mut diagnostics);
    let warning = diagnostics.iter().find(|one| one.code.0 == "W014").expect("a warning");
    assert_eq!(warning.message, "this looks like a secret");
    assert!(!warning.source.text().contains('"'), "{}", warning.source.text());
}

#[test]
fn secrets_are_told_and_never_shown() {
    let secret = format!("{}{}", "sk-ant-aB3dE5fG7hJ9", "kL1mN2pQ4rS6tU8v");
    for text in [
        format!("name: e\nagents:\n- {{name: a, script: x, config: {{key: {secret}}}}}\n"),
        format!("name: e\nagents:\n- {{name: a, script: x, scirpt: {secret}}}\n"),
        format!("name: e\nagents:\n- {{name: a, script: x, type: {secret}}}\n"),
        format!("name: e\nagents: '{secret}'\n"),
        format!("name: e\nagents: [ '{secret}'\n"),
        format!(
            "name: e\nagents:\n- {{name: a, model_profile: p}}\nmodel_profiles: {{p: {{provider: xai, model: y, api_key: {secret}}}}}\n"
        ),
        format!(
            "name: e\nagents:\n- {{name: a, model_profile: p}}\nmodel_profiles: {{p: {{provider: xai, model: y, api_key_env: {secret}}}}}\n"
        ),
    ] {
        let source = SourceText::new("t", text.as_str());
        let loaded = load_ensemble(&source);
        let looked = TextSecrets::find_in(&source, loaded.document.as_ref());
        let mut diagnostics = loaded.diagnostics_with(&looked.secret_warnings());
        let mut quoting = diagnostics[0].clone();
        quoting.help = Some(format!("did you mean `{secret}`?"));
        diagnostics.push(quoting);
        looked.redact_diagnostics(&mut diagnostics);
        let warning = diagnostics.iter().find(|one| one.code.0 == "W014").expect("a warning");
        let place = text.find(&secret).unwrap();
        assert_eq!(
            (warning.span.start, warning.span.end),
            (place, place + secret.len()),
            "{text}"
        );
        assert_eq!(warning.source.line_column(place), source.line_column(place));
        // All that a report could show, the masked text included.
        let shown = format!("{diagnostics:?}");
        for part in ["sk-ant", "hJ9", "kL1m", "tU8v"] {
            assert!(!shown.contains(part), "{shown}");
        }
        assert!(shown.contains("****"), "{shown}");
    }
}

#[test]
fn a_finding_does_not_repeat_the_value_of_a_key() {
    for (entry, value) in [
        ("env: {API_TOKEN: 84729104857361}", "84729104857361"),
        ("env: {PASSWORD: true false 1}, scirpt: 1", "true false 1"),
        ("sandbox: {env: {SECRET_KEY: 90817263544536}}", "90817263544536"),
    ] {
        let text = format!("name: e\nagents:\n- {{name: a, script: x, {entry}}}\n");
        let source = SourceText::new("t", text.as_str());
        let loaded = load_ensemble(&source);
        let secrets = TextSecrets::find_in(&source, loaded.document.as_ref());
        let mut diagnostics = loaded.diagnostics_with(&secrets.secret_warnings());
        assert!(!diagnostics.is_empty(), "{text}");
        secrets.redact_diagnostics(&mut diagnostics);
        let shown = format!("{diagnostics:?}");
        assert!(!shown.contains(value) && !shown.contains(&value[..8]), "{shown}");
    }
}

#[test]
fn keys_in_templates_that_nobody_writes() {
    let asked = |on: &str, of_a: &str, prompt: &str| {
        let agents = format!(
            "- {{name: a, script: x, {of_a}}}\n- {{name: b, model: simulated/x, dependencies: [{{agent_name: a, on: {on}}}], prompt: \"{prompt}\"}}"
        );
        let found = diagnostics(&agents, Vec::new());
        let line = |it: &Diagnostic| {
            let at = &it.source.text()[it.span.start..it.span.end];
            format!("{} {at}: {}", it.code.0, it.message)
        };
        let of_templates = found.iter().filter(|one| one.code.0 == "W018");
        of_templates.map(line).collect::<Vec<_>>()
    };
    let known = "description: title text";
    assert_eq!(
        asked(
            "success",
            known,
            "Read {{ a.titel }} and {{ dependencies['a'].txet.x }}"
        ),
        [
            "W018 titel: the output of `a` has no key `titel`, so this prints nothing",
            "W018 txet: the output of `a` has no key `txet`, so this prints nothing",
        ]
    );
    assert_eq!(asked("failure", known, "{{ a.title }}").len(), 1);
    for (on, of_a, prompt) in [
        (
            "success",
            known,
            "{{ a.title }} {{ a.text.deep }} {{ a }} {{ context.titel }}",
        ),
        ("success", "timeout_seconds: 1", "{{ a.titel }}"),
        ("failure", known, "{{ a.error }}"),
        ("any", known, "{{ a.error }} {{ a.title }}"),
        (
            "success",
            known,
            "{{ a.titel | default('x') }} {% if a.titel %}x{% endif %} {{ a.titel if a.titel }}",
        ),
        ("success", known, "{% for a in context.list %}{{ a.titel }}{% endfor %}"),
    ] {
        assert!(asked(on, of_a, prompt).is_empty(), "{on} {prompt}");
    }
}
