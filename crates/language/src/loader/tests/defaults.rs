//! `defaults` and `x-…` keys: what agents become, where their errors stand, and how large they may make a file.

use super::{loaded, show, shown};
use crate::loader::{ComparedEnsemble, compare_ensembles};
use crate::vocabulary::FileSection;

/// The agents of both texts, which must be sound, are the same.
#[track_caller]
fn same(with_defaults: &str, written_out: &str) {
    let agents = |text: &str| {
        let loaded = loaded(text);
        assert_eq!(show(&loaded.diagnostics()), Vec::<String>::new(), "{text}");
        loaded.ensemble.expect("is sound").agents
    };
    assert_eq!(agents(with_defaults), agents(written_out), "{with_defaults}");
}

#[test]
fn an_agent_has_what_it_does_not_say_itself() {
    let rows = [
        (
            "defaults: {timeout_seconds: 9, on_error: continue}\nagents: [{name: a, script: x}, {name: b, script: x, timeout_seconds: 3}]",
            "agents: [{name: a, script: x, timeout_seconds: 9, on_error: continue}, {name: b, script: x, timeout_seconds: 3, on_error: continue}]",
        ),
        // Maps are merged one level deep, in both spellings of `config`.
        (
            "defaults: {retry: {max_attempts: 3, delay_seconds: 0}, config: {a: {b: 1}, c: 2}}\nagents: [{name: a, script: x, retry: {max_attempts: 5}, parameters: {a: {d: 1}}}]",
            "agents: [{name: a, script: x, retry: {max_attempts: 5, delay_seconds: 0}, config: {a: {d: 1}, c: 2}}]",
        ),
        // Lists are not merged.
        (
            "defaults: {model: ollama/m, tools: [t]}\ntools: &t {t: {agent: b}, u: {agent: b}}\nagents: [{name: a, tools: [u]}, {name: b}]",
            "tools: {t: {agent: b}, u: {agent: b}}\nagents: [{name: a, model: ollama/m, tools: [u]}, {name: b, model: ollama/m, tools: [t]}]",
        ),
        // Keys of another kind are passed over.
        (
            "defaults: {type: llm, model: ollama/m, prompt: p, system_prompt: s, context_window: {max_tokens: 9}, max_iterations: 3, conversation: {memory: none, max_turns: 2}}\nagents: [{name: a}, {name: b, script: x, conversation: {trigger: every_turn}}, {name: c, input: q}, {name: d, ensemble: e}]",
            "agents: [{name: a, model: ollama/m, prompt: p, system_prompt: s, context_window: {max_tokens: 9}, max_iterations: 3, conversation: {memory: none, max_turns: 2}}, {name: b, script: x, conversation: {trigger: every_turn, max_turns: 2}}, {name: c, input: q, conversation: {max_turns: 2}}, {name: d, ensemble: e, prompt: p, conversation: {max_turns: 2}}]",
        ),
        // An agent runs its own model, not that of the defaults too.
        (
            "defaults: {model: ollama/m}\nmodel_profiles: {p: {provider: ollama, model: m}}\nagents: [{name: a, model_profile: p}, {name: b}]",
            "agents: [{name: a, model_profile: p}, {name: b, model: ollama/m}]",
        ),
        (
            "defaults: {conversation: {history: 2, memory: none}}\nagents: [{name: a, script: x}, {name: b, model: ollama/m}, {name: c, input: {prompt: q}}]",
            "agents: [{name: a, script: x, conversation: {history: 2}}, {name: b, model: ollama/m, conversation: {memory: none}}, {name: c, input: {prompt: q}, conversation: {}}]",
        ),
        // What completes questions asks none.
        (
            "defaults: {input: {timeout_seconds: 9}, script: x}\nagents: [{name: a}, {name: b, input: {prompt: q, default: d}}]",
            "agents: [{name: a, script: x}, {name: b, input: {prompt: q, default: d, timeout_seconds: 9}}]",
        ),
        (
            "x-anchors: {r: &r {max_attempts: 3}}\nagents: [{name: a, script: x, retry: *r, x-note: [1]}]\ndefaults: {x-y: 1}",
            "agents: [{name: a, script: x, retry: {max_attempts: 3}}]",
        ),
    ];
    for (with_defaults, written_out) in rows {
        same(
            &format!("name: e\n{with_defaults}\n"),
            &format!("name: e\n{written_out}\n"),
        );
    }
}

#[test]
fn errors_stand_where_they_are_written_and_once() {
    let rows = [
        (
            "defaults:\n  timeout_seconds: -1\nagents: [{name: a, script: x}, {name: b, script: x}]",
            "E015 3:20 expected a number of seconds greater than 0, found the integer -1",
        ),
        // Also where no agent takes it.
        (
            "defaults:\n  max_iterations: no\nagents: [{name: a, script: x}]",
            "E014 3:19 expected an integer of at least 1, found the string 'no'",
        ),
        (
            "defaults:\n  retry: {max_atempts: 3}\nagents: [{name: a, script: x, retry: {backoff: linear}}]",
            "E010 3:11 unknown key 'max_atempts' in `retry`",
        ),
        (
            "defaults: {depends_on: [a]}\nagents: [{name: a, script: x}]",
            "E010 2:12 unknown key 'depends_on' in `defaults`",
        ),
        (
            "defaults: {timeout_second: 1}\nagents: [{name: a, script: x}]",
            "E010 2:12 unknown key 'timeout_second' in `defaults`",
        ),
        (
            "defaults: [1]\nagents: [{name: a, script: x}]",
            "E014 2:11 expected a map (`defaults`), found a list",
        ),
        (
            "x-note: 1\nagents: [{name: a, script: x, conversation: {x-note: 1}}]",
            "E010 3:46 unknown key 'x-note' in `conversation`",
        ),
    ];
    for (text, said) in rows {
        assert_eq!(shown(&format!("name: e\n{text}\n")), [said], "{text}");
    }
}

#[test]
fn every_key_of_defaults_is_decoded_where_no_agent_takes_it() {
    for key in FileSection::Defaults.key_names() {
        // No key takes a list of lists of lists.
        let found = loaded(&format!(
            "name: e\ndefaults: {{{key}: [[[]]]}}\nagents: [{{name: a, input: q}}]\n"
        ));
        assert!(!found.diagnostics().is_empty(), "{key}");
    }
}

#[test]
fn defaults_that_make_a_file_too_large_are_refused() {
    let config: String = (0..2000).map(|at| format!("k{at}: v, ")).collect();
    let agents: String = (0..1000).map(|at| format!("{{name: a{at}, script: x}}, ")).collect();
    let text = format!("name: e\ndefaults: {{config: {{{config}}}}}\nagents: [{agents}]\n");
    let said = shown(&text);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("values after `defaults` are added"), "{said:?}");
}

#[test]
fn a_changed_default_is_a_change_of_the_agents_that_take_it() {
    let document = |text: &str| {
        loaded(&format!(
            "name: e\n{text}\nagents: [{{name: a, script: x}}, {{name: b, script: x, timeout_seconds: 3}}]\n"
        ))
        .document
        .expect("YAML")
    };
    let told = |old: &str, new: &str| {
        compare_ensembles(
            ComparedEnsemble::from_text(&document(old)),
            ComparedEnsemble::from_text(&document(new)),
        )
        .to_string()
    };
    assert_eq!(
        told("defaults: {timeout_seconds: 1}", "defaults: {timeout_seconds: 2}"),
        "changed: a (timeout_seconds)"
    );
    assert_eq!(told("x-note: 1", "x-note: 2"), "no change that affects a run");
}
