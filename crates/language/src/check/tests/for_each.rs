//! Agents with parts: what their expressions and templates read.

use super::shown;

#[test]
fn the_list_the_item_and_the_tools() {
    let rows: &[(&str, &[&str])] = &[
        // Templates know the item and `part`, under the name that the item has.
        (
            "- {name: a, model: xai/n, prompt: '{{ file.name }} {{ part.key }}', for_each: {times: 2, as: file}}",
            &[],
        ),
        (
            "- {name: a, model: xai/n, prompt: '{{ item }}', for_each: {times: 2, as: file}}",
            &["E044 3:39 unknown variable `item`; the variables are"],
        ),
        (
            "- {name: a, model: xai/n, prompt: '{{ part }}'}",
            &["E044 3:39 unknown variable `part`; the variables are"],
        ),
        // The list may be read too early.
        (
            "- {name: a, script: x}\n- {name: b, script: x, depends_on: [a], for_each: {in: outputs.a.x}}",
            &[],
        ),
        (
            "- {name: a, script: x}\n- {name: b, script: x, for_each: {in: outputs.a.x}}",
            &[
                "W030 4:47 the list reads the output of `a`, but `b` does not depend on that agent and might run before it",
            ],
        ),
        (
            "- {name: a, script: x, for_each: {in: inputs.files}}",
            &["E046 3:46 the input `files` is not declared"],
        ),
        (
            "- {name: a, script: x, for_each: {times: 2, combine: {best: inputs.n}}}",
            &["E046 3:68 the input `n` is not declared"],
        ),
        // A tool has no turn.
        (
            "- {name: a, script: x, for_each: {times: 2}}\n- {name: b, model: xai/n, tools: [t]}\ntools: {t: {agent: a, parameters: {type: object}}}",
            &["E025 5:20 the agent `a` has `for_each`, so it cannot be a tool"],
        ),
    ];
    for (agents, expected) in rows {
        let shown = shown(agents);
        let fits = shown.len() == expected.len() && shown.iter().zip(*expected).all(|(a, b)| a.starts_with(b));
        assert!(fits, "{agents}\nexpected {expected:#?}\nfound {shown:#?}");
    }
}
