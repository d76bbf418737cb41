//! Fixes: the texts that they give, and where there is none.

use super::super::{load_ensemble, locate_findings};
use crate::check;
use crate::diagnostic::Diagnostic;
use crate::source::SourceText;
use crate::yaml::edit::{FixApplicability, TextFix, apply_fixes};

/// Returns the text of an ensemble with this agent, and with the one that it depends on.
fn ensemble(agent: &str) -> String {
    format!("name: e\nagents:\n  - {{name: first, script: x.rhai}}\n{agent}")
}

pub(crate) fn found(text: &str) -> Vec<Diagnostic> {
    let loaded = load_ensemble(&SourceText::new("team.yaml", text));
    let more = match &loaded.ensemble {
        Some(ensemble) => check::check_ensemble(ensemble),
        None => Vec::new(),
    };
    locate_findings(
        loaded.source(),
        loaded.document.as_ref(),
        &[loaded.findings.clone(), more].concat(),
    )
}

/// Returns the text with the first fix that there is, and whether it is safe.
fn mended(text: &str) -> Option<(String, bool)> {
    let fix: TextFix = found(text).into_iter().find_map(|one| one.fix)?;
    let is_safe = fix.applicability == FixApplicability::Safe;
    Some((apply_fixes(text, [&fix]).0, is_safe))
}

#[test]
fn a_fix_changes_only_what_is_wrong() {
    // The agent with the fault, the same part mended, and whether the fix is safe.
    let cases: &[(&str, &str, bool)] = &[
        (
            "  - name: b\n    scrpt: y # why\n",
            "  - name: b\n    script: y # why\n",
            false,
        ),
        ("  - {name: b, \"scrpt\": y}\n", "  - {name: b, \"script\": y}\n", false),
        // The same word in another spelling is no guess.
        ("  - {name: b, Script: y}\n", "  - {name: b, script: y}\n", true),
        (
            "  - {name: b, script: y, timeout-seconds: 5}\n",
            "  - {name: b, script: y, timeout_seconds: 5}\n",
            true,
        ),
        (
            "  - {name: b, script: y, on_error: 'contine'}\n",
            "  - {name: b, script: y, on_error: 'continue'}\n",
            false,
        ),
        (
            "  - {name: b, script: y, depends_on: [fist]}\n",
            "  - {name: b, script: y, depends_on: [first]}\n",
            false,
        ),
        (
            "  - {name: b, input: {prompt: q, choices: [publish, discard], default: Publish}}\n",
            "  - {name: b, input: {prompt: q, choices: [publish, discard], default: publish}}\n",
            false,
        ),
        (
            "  - {name: b, input: {prompt: q, choices: [publish, discard], responses: [discard, pubish]}}\n",
            "  - {name: b, input: {prompt: q, choices: [publish, discard], responses: [discard, publish]}}\n",
            false,
        ),
        (
            "  - {name: the second  one, script: y}\n",
            "  - {name: the-second-one, script: y}\n",
            false,
        ),
        (
            "  - {name: b, script: y, dependencies: [{agent_name: first, condition: turn_count >= 0}]}\n",
            "  - {name: b, script: y, dependencies: [{agent_name: first}]}\n",
            false,
        ),
        (
            "  - {name: b, script: y, depends_on: first}\n",
            "  - {name: b, script: y, depends_on: [first]}\n",
            true,
        ),
        (
            "  - name: b\n    script: y\n    depends_on:\n      - first # one\n      - first # two\n",
            "  - name: b\n    script: y\n    depends_on:\n      - first # one\n      # two\n",
            true,
        ),
        (
            "  - name: b\n    script: y\n    dependencies:\n      - first\n",
            "  - name: b\n    script: y\n    dependencies:\n      - {agent_name: first}\n",
            true,
        ),
        (
            "  - {name: b, script: y, dependencies: [{agent_name: first, condition: outputs.first.a === 1}]}\n",
            "  - {name: b, script: y, dependencies: [{agent_name: first, condition: outputs.first.a == 1}]}\n",
            true,
        ),
        (
            "  - {name: b, script: y, dependencies: [{agent_name: first, condition: 'trun_count < 3'}]}\n",
            "  - {name: b, script: y, dependencies: [{agent_name: first, condition: 'turn_count < 3'}]}\n",
            false,
        ),
        (
            "  - {name: b, script: y, dependencies: [{agent_name: first, condition: \"outputs['fist'] == 1\"}]}\n",
            "  - {name: b, script: y, dependencies: [{agent_name: first, condition: \"outputs['first'] == 1\"}]}\n",
            false,
        ),
        (
            "  - {name: b, script: y, dependencies: [{agent_name: first, feedback: 'yes'}]}\n",
            "  - {name: b, script: y, dependencies: [{agent_name: first, feedback: true}]}\n",
            true,
        ),
        (
            "  - {name: b, script: y, timeout_seconds: '5'}\n",
            "  - {name: b, script: y, timeout_seconds: 5}\n",
            true,
        ),
        (
            "  - {name: b, script: y, description: 5}\n",
            "  - {name: b, script: y, description: '5'}\n",
            true,
        ),
        (
            "  - type: llm\n    name: b\n    script: y\n",
            "  - type: script\n    name: b\n    script: y\n",
            false,
        ),
        (
            "  - env: {A: b}\n    name: b\n    model: ollama/x\n",
            "  - name: b\n    model: ollama/x\n",
            false,
        ),
        (
            "  - name: b\n    script: y\n    # Kept.\n    prompt: |\n      a\n\n      b\n    config: {a: 1}\n",
            "  - name: b\n    script: y\n    # Kept.\n    config: {a: 1}\n",
            false,
        ),
        (
            "  - {name: b, script: y, conversation: {memory: none}}\n",
            "  - {name: b, script: y}\n",
            false,
        ),
        (
            "  - {name: b, script: y, config: {404: a}}\n",
            "  - {name: b, script: y, config: {'404': a}}\n",
            true,
        ),
        (
            "  - {name: b, model: ollama/x, role: a}\n",
            "  - {name: b, model: ollama/x, system_prompt: a}\n",
            true,
        ),
    ];
    for (wrong, right, is_safe) in cases {
        for (newline, mark) in [("\n", ""), ("\r\n", "\u{feff}")] {
            let spelt = |agent: &str| format!("{mark}{}", ensemble(agent).replace('\n', newline));
            let expected = Some((spelt(right), *is_safe));
            assert_eq!(mended(&spelt(wrong)), expected, "{wrong}");
        }
    }
}

#[test]
fn what_is_written_elsewhere_has_no_fix() {
    let cases = [
        // The value of an alias, of a merge, and of `defaults` is written for others, too.
        "x-a: &a writr\nname: e\nagents:\n  - {name: writer, script: x}\n  - {name: b, script: y, depends_on: [*a]}\n",
        "x-a: &a {prompt: a}\nname: e\nagents:\n  - {name: b, script: y, <<: *a}\n",
        "name: e\ndefaults: {env: {A: b}}\nagents:\n  - {name: a, script: x.py}\n  - {name: b, model: ollama/x}\n",
        // Other characters may stand for anything, and a condition that is never true has no effect to keep.
        "name: e\nagents:\n  - {name: 'a/b', script: x}\n",
        "name: e\nagents:\n  - {name: 'ä b', script: x}\n",
        "name: e\nagents:\n  - {name: a, script: x}\n  - {name: b, script: y, depends_on: [], dependencies: [{agent_name: a, condition: turn_count < 0}]}\n",
        // Two words are near.
        "name: e\nagents:\n  - name: a\n    script: x\n    prompt: &p text\n    config: {a: *p}\n",
    ];
    for text in cases {
        let fixes: Vec<_> = found(text).into_iter().filter_map(|one| one.fix).collect();
        assert_eq!(fixes, [], "{text}");
    }
}

#[test]
fn other_places_have_their_text() {
    let text = "name: e\nagents:\n  - {name: a, script: x}\n  - {name: a, script: y}\n";
    let found = found(text);
    let related = &found[0].related[0];
    assert_eq!(related.source.name(), "team.yaml");
    assert_eq!(
        (related.span.start, &*related.message),
        (text.find("a, script: x").unwrap(), "first here")
    );
}
