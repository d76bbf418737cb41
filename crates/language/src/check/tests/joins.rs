//! Agents that require branches of which a run takes one.

use super::shown;

#[test]
fn joins_of_branches_that_exclude_each_other() {
    let w021 = |agents: &str| {
        let found = shown(agents);
        found
            .into_iter()
            .filter(|one| one.starts_with("W021"))
            .collect::<Vec<_>>()
    };
    let of_router = |router: &str, a: &str, b: &str, rest: &str| {
        w021(&format!(
            "- {{name: r, script: x, {router}}}\n- {{name: a, script: x, dependencies: [{{agent_name: r, {a}}}]}}\n- {{name: b, script: x, dependencies: [{{agent_name: r, {b}}}]}}\n{rest}"
        ))
    };
    let (kind_a, kind_b) = ("condition: \"output.kind == 'a'\"", "condition: \"output.kind == 'b'\"");
    let join = "- {name: j, script: x, depends_on: [a, b]}\n- {name: after, script: x, depends_on: [j]}";
    let at_join = "W021 6:10 agent `j` can never run: it requires two dependencies that exclude each other";
    let once = "description: x";
    for (a, b) in [
        (kind_a, kind_b),
        ("condition: output.ok", "condition: not output.ok"),
        ("condition: output.n >= 5", "condition: output.n < 5 and output.ok"),
        ("on: success", "on: failure"),
    ] {
        assert_eq!(of_router(once, a, b, join), [at_join], "{a} {b}");
    }
    for (router, a, b, rest) in [
        (once, kind_a, kind_a, join),
        (once, kind_a, "condition: output.other == 'b'", join),
        (once, kind_a, "on: any", join),
        (once, "condition: turn_count < 2", "condition: turn_count >= 2", join),
        (once, "condition: context.k.x == 1", "condition: context.k.x == 2", join),
        // The router runs again.
        (
            "conversation: {max_turns: 2, trigger: every_turn}",
            kind_a,
            kind_b,
            join,
        ),
        (
            "conversation: {max_turns: 2, trigger: every_turn}",
            "on: success",
            "on: failure",
            join,
        ),
        // Whoever is requested needs no dependency.
        ("conversation: {triggers_conversation: true}", kind_a, kind_b, join),
        (
            once,
            kind_a,
            kind_b,
            "- {name: j, script: x, dependencies: [{agent_name: a, requires_all: false}, {agent_name: b, requires_all: false}]}",
        ),
        (
            once,
            kind_a,
            kind_b,
            "- {name: j, script: x, dependencies: [{agent_name: a}, {agent_name: b, feedback: true}], conversation: {max_turns: 2}}",
        ),
    ] {
        assert_eq!(of_router(router, a, b, rest), [""; 0], "{router} {a} {b} {rest}");
    }
    // A branch that requires the other one.
    let one_in_the_other = "- {name: r, script: x}\n- {name: a, script: x, dependencies: [{agent_name: r, condition: output.ok}]}\n- {name: b, script: x, dependencies: [{agent_name: a}, {agent_name: r, condition: not output.ok}]}";
    assert_eq!(w021(one_in_the_other).len(), 1);
    // The conditions of one agent are evaluated together.
    let of_one = |one: &str, other: &str| {
        w021(&format!(
            "- {{name: r, script: x, conversation: {{max_turns: 9, trigger: every_turn}}}}\n- {{name: s, script: x}}\n- {{name: j, script: x, dependencies: [{{agent_name: r, condition: {one}}}, {{agent_name: s, condition: {other}}}]}}"
        ))
    };
    assert_eq!(of_one("turn_count > 3", "turn_count < 2").len(), 1);
    assert_eq!(of_one("context.k.x", "not context.k.x").len(), 1);
    assert_eq!(of_one("output.k", "not output.k"), [""; 0]);
    assert_eq!(of_one("turn_count > 3", "turn_count > 2"), [""; 0]);
    // The latest execution of an agent succeeded or failed, however often the agent runs.
    let of_results = |one: &str, other: &str| {
        w021(&format!(
            "- {{name: r, script: x, conversation: {{max_turns: 9, trigger: every_turn}}}}\n- {{name: j, script: x, dependencies: [{{agent_name: r, on: {one}}}, {{agent_name: r, on: {other}}}]}}"
        ))
    };
    assert_eq!(of_results("success", "failure").len(), 1);
    assert_eq!(of_results("success", "any"), [""; 0]);
}

#[test]
fn news_of_an_agent_that_never_starts_this_one() {
    let w065 = |prompt: &str, dependencies: &str| {
        let found = shown(&format!(
            "- {{name: writer, script: x}}\n- {{name: other, script: x, depends_on: [writer]}}\n- {{name: j, model: simulated/any, prompt: \"{prompt}\"{dependencies}}}"
        ));
        found
            .into_iter()
            .filter(|one| one.starts_with("W065"))
            .collect::<Vec<_>>()
    };
    let listens = ", depends_on: [writer]";
    assert_eq!(
        w065(
            "{% if news.writer %}{{ news | join(', ') }}{% endif %}{{ news[0] }}",
            listens
        ),
        [""; 0]
    );
    assert_eq!(
        w065("{{ news.other }}{{ writer }}", ""),
        [""; 0],
        "it listens to everyone"
    );
    assert_eq!(
        w065("{{ news.other }}{{ writer }}", listens),
        ["W065 5:52 `news.other` is always false: `j` does not depend on `other`"]
    );
    assert_eq!(
        w065("{% if news.wirter %}{{ writer }}{% endif %}", listens),
        ["W065 5:55 `news.wirter` is always false: there is no agent `wirter`"]
    );
}
