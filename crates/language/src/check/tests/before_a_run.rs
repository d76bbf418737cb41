//! What is known of agents, conditions and counts before a run.

use super::{found, shown};
use crate::check::check_ensemble;

/// Agents of one line each; `b` listens to `a` with what is given.
fn b_listens(edge: &str) -> String {
    format!("- {{name: a, script: x}}\n- {{name: b, script: x, dependencies: [{{agent_name: a, {edge}}}]}}")
}

#[test]
fn constant_conditions() {
    let rows: &[(&str, &str)] = &[
        ("1 > 2", "never true"),
        ("'a' in ['a']", "always true"),
        ("false", ""),
        ("turn_count < 0", "never true"),
        ("turn_count >= 0", "always true"),
        ("0 <= len(history)", "always true"),
        ("executions.a >= 0 and True", "always true"),
        ("output.x and False", "never true"),
        ("output.x or 1", "always true"),
        ("output.x > 3 and output.x < 2", "never true"),
        ("2 < output.x < 2", "never true"),
        ("output.x <= 3 or output.x > 3", "always true"),
        ("output.k == 'a' and output.k == 'b'", "never true"),
        ("output.k != 'a' or output.k != 'b'", "always true"),
        ("output.done and not output.done", "never true"),
        ("output.done or not output.done", "always true"),
        ("not (output.x < 3 or output.x >= 3)", "never true"),
        ("1 if output.x else 2", "always true"),
        ("1 + 'a'", "can never be evaluated"),
        ("true", ""),
        ("output.x > 3 and output.x < 5", ""),
        ("output.x >= 3 and output.x <= 3", ""),
        ("turn_count > 0", ""),
        ("output.a > 3 and output.b < 2", ""),
        ("output.k == 1 or output.k == 2", ""),
        ("output.get('k', 1)", ""),
        ("context.a?.b.len() == None", ""),
        ("len(history) > 0 and output.x", ""),
        ("output.x != 3", ""),
        ("not output.x", ""),
        ("output.x is None and output.y is not None", ""),
    ];
    for (condition, verdict) in rows {
        let found = shown(&b_listens(&format!("feedback: true, condition: \"{condition}\"")));
        let found: Vec<&String> = found.iter().filter(|one| one.starts_with("W012")).collect();
        if verdict.is_empty() {
            assert!(found.is_empty(), "{condition}: {found:?}");
        } else {
            assert_eq!(found.len(), 1, "{condition}: {found:?}");
            assert!(found[0].contains(verdict), "{condition}: {found:?}");
        }
    }
}

#[test]
fn agents_behind_a_condition_that_is_never_true() {
    let never = b_listens("condition: 1 > 2");
    assert_eq!(
        shown(&never),
        ["W010 4:10 agent `b` can never run: its condition on `a` is never true"]
    );
    let fails = shown(&b_listens("condition: 1 + 'a'"));
    assert!(
        fails.len() == 1
            && fails[0].starts_with("W010 4:10 agent `b` can never run: its condition on `a` can never be evaluated: "),
        "{fails:?}"
    );
    // Another condition that is never true is one more fault.
    let beside = b_listens("condition: 1 > 2}, {agent_name: a, condition: 3 > 4");
    let codes: Vec<String> = shown(&beside).iter().map(|one| one[..4].to_owned()).collect();
    assert_eq!(codes, ["W010", "W012"], "{beside}");
    for edge in [
        "condition: 1 > 2, requires_all: false",
        "condition: false",
        "condition: output.x and False",
    ] {
        let found = shown(&b_listens(edge));
        let never = "W010 4:10 agent `b` can never run: its condition on `a` is never true";
        assert_eq!(found[0], never, "{edge}: {found:?}");
    }
    let runs: &[String] = &[
        // Not needed before the first execution.
        b_listens("condition: 1 > 2, feedback: true"),
        // Another door is open.
        format!(
            "{}\n- {{name: c, script: x, dependencies: [{{agent_name: a, requires_all: false, condition: 1 > 2}}, {{agent_name: a, requires_all: false}}]}}",
            b_listens("feedback: true")
        ),
        // It may be requested.
        never.replace(
            "{name: a, script: x}",
            "{name: a, script: x, conversation: {triggers_conversation: true}}",
        ),
    ];
    for agents in runs {
        let found = shown(agents);
        assert!(!found.iter().any(|one| one.starts_with("W010")), "{agents}\n{found:?}");
    }
    // The dependency that bars it is named, not one that it could do without.
    let beside = never.replace(
        "dependencies: [",
        "dependencies: [{agent_name: c, feedback: true, condition: false}, ",
    ) + "\n- {name: c, script: x}";
    assert_eq!(
        shown(&beside)[0],
        "W010 4:10 agent `b` can never run: its condition on `a` is never true"
    );
    // Those that wait for it are named with it.
    let downstream = super::found(
        &format!("{never}\n- {{name: c, script: x, depends_on: [b]}}"),
        super::check_ensemble,
    );
    let labels: Vec<&str> = downstream[0].related.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(labels, ["never true", "`c` can never run either: it waits for `b`"]);
    assert_eq!(downstream.iter().filter(|one| one.code.0 == "W010").count(), 1);
}

#[test]
fn agents_that_come_too_late() {
    let chain = |limits: &str| {
        format!(
            "- {{name: a, script: x}}\n- {{name: b, script: x, depends_on: [a]}}\n- {{name: c, script: x, depends_on: [b]}}\nconversation_limits: {limits}"
        )
    };
    let late = |agents: &str| {
        shown(agents)
            .into_iter()
            .filter(|one| one.starts_with("W011"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        late(&chain("{max_total_turns: 2}")),
        [
            "W011 5:10 agent `c` can never run: it could run in turn 3 at the earliest, and the conversation ends after turn 2"
        ]
    );
    assert_eq!(late(&chain("{max_total_turns: 3}")), [""; 0]);
    assert_eq!(
        late(&chain("{max_agent_executions: {a: 1}}")),
        [
            "W011 4:10 agent `b` can never run: it could run in turn 2 at the earliest, and the conversation ends after turn 1"
        ]
    );
    assert_eq!(
        late(&chain("{max_agent_executions: {b: 1}}")),
        ["W011 5:10 agent `c` can never run: it needs an agent whose first execution ends the conversation"]
    );
    assert_eq!(late(&chain("{max_agent_executions: {b: 2}}")), [""; 0]);
    // The shorter of two ways counts, and a request is one.
    let door = "- {name: a, script: x}\n- {name: b, script: x, depends_on: [a]}\n- {name: c, script: x, dependencies: [{agent_name: b, requires_all: false}, {agent_name: a, requires_all: false}]}\nconversation_limits: {max_total_turns: 2}";
    assert_eq!(late(door), [""; 0]);
    let asked = chain("{max_total_turns: 2}").replace(
        "a, script: x",
        "a, script: x, conversation: {triggers_conversation: true}",
    );
    assert_eq!(late(&asked), [""; 0]);
    // A limit that nobody wrote is no place to point at.
    let waits = |at: usize| format!("- {{name: a{at}, script: x, depends_on: [a{}]}}\n", at - 1);
    let long: String = std::iter::once("- {name: a0, script: x}\n".to_owned())
        .chain((1..21).map(waits))
        .collect();
    let labels = |agents: &str| -> usize { super::found(agents, super::check_ensemble)[0].related.len() };
    assert_eq!(labels(&long), 0);
    assert_eq!(
        labels(&format!("{long}conversation_limits: {{max_total_turns: 19}}\n")),
        2
    );
    // A clock that runs every turn until its cap.
    let clock = chain("{max_agent_executions: {a: 2}}").replace(
        "a, script: x",
        "a, script: x, conversation: {max_turns: 9, trigger: every_turn}",
    );
    assert_eq!(late(&clock).len(), 1);
    // One that only hears of news, or stops before the cap, ends nothing.
    assert_eq!(late(&clock.replace(", trigger: every_turn", "")), [""; 0]);
    assert_eq!(late(&clock.replace("max_turns: 9", "max_turns: 1")), [""; 0]);
}

#[test]
fn turns_that_nobody_can_use() {
    let rows: &[(&str, &[&str])] = &[
        (
            "- {name: a, script: x}\n- {name: b, script: x, depends_on: [a], conversation: {max_turns: 3}}",
            &["W002 4:67 agent `b` will run at most once, not 3 times"],
        ),
        // Its own feedback is news to itself.
        (
            "- {name: a, script: x, dependencies: [{agent_name: a, feedback: true}], conversation: {max_turns: 3}}",
            &[],
        ),
        // Each of two sources once: one that it needs at the start, one that it does not.
        (
            "- {name: a, script: x}\n- {name: c, script: x}\n- {name: b, script: x, dependencies: [{agent_name: a}, {agent_name: c, feedback: true}], conversation: {max_turns: 3}}",
            &[],
        ),
        // Two doors: the first may be opened by either.
        (
            "- {name: a, script: x}\n- {name: c, script: x}\n- {name: b, script: x, dependencies: [{agent_name: a, requires_all: false}, {agent_name: c, requires_all: false}], conversation: {max_turns: 3}}",
            &[],
        ),
        // What waits for nobody hears everybody.
        (
            "- {name: a, script: x, conversation: {max_turns: 4}}\n- {name: b, script: x, depends_on: [a]}",
            &["H011 3:50 agent `a` can run at most 2 times, so `max_turns: 4` is never reached"],
        ),
        // Edges from one agent count together, and what it said before the first execution only once.
        (
            "- {name: a, script: x, conversation: {max_turns: 9}}\n- {name: b, script: x, dependencies: [{agent_name: a, max_executions: 1, condition: output.x}, {agent_name: a, max_executions: 1, condition: output.y}], conversation: {max_turns: 9}}",
            &["H011 3:50 agent `a` can run at most 4 times, so `max_turns: 9` is never reached"],
        ),
        (
            "- {name: a, script: x}\n- {name: b, script: x, dependencies: [{agent_name: a}, {agent_name: a, on: failure, feedback: true}], conversation: {max_turns: 3}}",
            &["W002 4:129 agent `b` will run at most once, not 3 times"],
        ),
        // What is never true brings no news.
        (
            "- {name: a, script: x}\n- {name: c, script: x}\n- {name: b, script: x, dependencies: [{agent_name: a}, {agent_name: c, feedback: true, condition: false}], conversation: {max_turns: 3}}",
            &["W002 5:134 agent `b` will run at most once, not 3 times"],
        ),
        (
            "- {name: a, script: x, conversation: {triggers_conversation: true}}\n- {name: b, script: x, depends_on: [a], conversation: {max_turns: 3}}",
            &[],
        ),
        (
            "- {name: a, script: x}\n- {name: b, script: x, depends_on: [a], conversation: {max_turns: 3, trigger: every_turn}}",
            &[],
        ),
    ];
    for (agents, expected) in rows {
        assert_eq!(shown(agents), *expected, "{agents}");
    }
}

#[test]
fn counts_on_edges() {
    assert_eq!(
        shown(&b_listens("max_executions: 2")),
        ["H012 4:71 `max_executions: 2` can never be reached: `max_turns` of `b` is 1"]
    );
    assert_eq!(shown(&b_listens("max_executions: 1")), [""; 0]);
    // Where nothing can be counted, the edge itself is at fault.
    assert_eq!(
        shown(&b_listens("feedback: true, max_executions: 2")),
        [
            "W015 4:65 this dependency has no effect: `b` runs only once, and a feedback dependency is only checked from the second execution on"
        ]
    );
    // Feedback starts nobody for the first time.
    let back = |most: u32| {
        shown(&format!(
            "- {{name: a, script: x, depends_on: [b], conversation: {{max_turns: 3}}}}\n- {{name: b, script: x, dependencies: [{{agent_name: a, feedback: true, max_executions: {most}}}], conversation: {{max_turns: 3}}}}"
        ))
    };
    assert_eq!(back(2), [""; 0]);
    assert_eq!(
        back(3),
        [
            "H012 4:87 `max_executions: 3` can never be reached: `max_turns` of `b` is 3, and a feedback dependency does not start the first execution"
        ]
    );
    // An edge starts no more often than there is news.
    let news = |of_a: u32| {
        shown(&format!(
            "- {{name: a, script: x, depends_on: [b], conversation: {{max_turns: {of_a}}}}}\n- {{name: b, script: x, dependencies: [{{agent_name: a, feedback: true, max_executions: 3}}], conversation: {{max_turns: 4}}}}"
        ))
    };
    assert_eq!(news(3), [""; 0]);
    assert_eq!(
        news(2),
        [
            "H012 4:87 `max_executions: 3` can never be reached: `max_turns` of `a` is 2",
            "W017 4:118 `b` can run 4 times, but `max_turns: 2` of `a` ends their loop: execution 3 of `b` is the last, and `a` never reads its output",
        ]
    );
    // A limit that is written is shown with it.
    let labels = |agents: &str| -> usize { super::found(agents, super::check_ensemble)[0].related.len() };
    assert_eq!(labels(&b_listens("max_executions: 2")), 0);
    let written = b_listens("max_executions: 3").replace("b, script: x", "b, script: x, conversation: {max_turns: 2}");
    assert_eq!(
        labels(&written.replace(
            "a, script: x",
            "a, script: x, conversation: {max_turns: 2}, depends_on: []"
        )),
        1
    );
    assert_eq!(
        shown(&b_listens("feedback: true")),
        [
            "W015 4:65 this dependency has no effect: `b` runs only once, and a feedback dependency is only checked from the second execution on"
        ]
    );
}

#[test]
fn profiles_that_nobody_uses() {
    let agents = "- {name: a, model_profile: p}\nmodel_profiles:\n  p: {provider: simulated, replies: [a], fallback: s}\n  s: {provider: simulated, replies: [a]}\n  t: {provider: simulated, replies: [a]}";
    assert_eq!(shown(agents), ["H010 7:3 the model profile `t` is not used"]);
}

#[test]
fn conditions_that_name_nobody() {
    assert_eq!(
        shown(&b_listens("condition: executions.c > 1 and executions.a > 0")),
        ["E042 4:77 there is no agent `c`"]
    );
}

#[test]
fn loops_of_which_only_one_side_may_run_often() {
    let pair = |writer: &str, reviewer: &str, more: &str| {
        let agents = format!(
            "- {{name: w, script: x, conversation: {{{writer}}}, dependencies: [{{agent_name: r, feedback: true}}{more}]}}\n\
             - {{name: r, script: x, depends_on: [w], conversation: {{{reviewer}}}}}\n- {{name: p, script: x, conversation: {{max_turns: 9}}}}"
        );
        let found = shown(&agents);
        found
            .into_iter()
            .filter(|one| one.starts_with("W017"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        pair("max_turns: 5", "", ""),
        [
            "W017 3:50 `w` can run 5 times, but `max_turns: 1`, the default, of `r` ends their loop: execution 2 of `w` is the last, and `r` never reads its output"
        ]
    );
    assert_eq!(pair("max_turns: 5", "max_turns: 3", "").len(), 1);
    for (writer, reviewer, more) in [
        ("max_turns: 2", "", ""),
        ("max_turns: 5", "max_turns: 4", ""),
        ("max_turns: 5", "max_turns: 5", ""),
        ("max_turns: 5, trigger: every_turn", "", ""),
        ("max_turns: 5", "triggers_conversation: true", ""),
        // Someone else starts it too.
        ("max_turns: 5", "", ", {agent_name: p}"),
    ] {
        assert!(pair(writer, reviewer, more).is_empty(), "{writer} {reviewer} {more}");
    }
}

#[test]
fn prepared_answers_that_are_no_choice() {
    let asks = |input: &str| shown(&format!("- {{name: a, input: {{prompt: x, {input}}}}}"));
    assert_eq!(
        asks("choices: [Left, right], responses: [left, LEFT, up]"),
        ["W019 3:80 the response `up` is not one of the choices"]
    );
    assert!(asks("responses: [up]").is_empty());
}

/// Returns the findings of one code.
fn of_code(code: &str, agents: &str) -> Vec<String> {
    let found = shown(agents).into_iter();
    found.filter(|one| one.starts_with(code)).collect()
}

#[test]
fn feedback_that_settled_needs_is_not_idle() {
    let text = |more: &str| {
        format!(
            "- {{name: a, script: x, dependencies: [{{agent_name: b, feedback: true}}]}}\n- {{name: b, script: x, depends_on: [a]}}\n{more}"
        )
    };
    let idle = |more: &str| of_code("W015", &text(more)).len();
    assert_eq!(idle(""), 1);
    assert_eq!(idle("- {name: c, script: x, dependencies: [{agent_name: b}]}"), 1);
    assert_eq!(
        idle("- {name: c, script: x, dependencies: [{agent_name: a, wait_for: settled}]}"),
        0
    );
    assert_eq!(
        idle("- {name: c, script: x, dependencies: [{agent_name: b, wait_for: settled}]}"),
        0
    );
    let help = |agents: &str| {
        let found = found(agents, check_ensemble);
        let of_code = found.iter().find(|one| one.code.0 == "W015").expect("a warning");
        of_code.help.clone().expect("help")
    };
    assert!(help(&text("")).ends_with("or remove the dependency"));
    let plain = "- {name: a, script: x, dependencies: [{agent_name: b, feedback: true}]}\n- {name: b, script: x}";
    assert!(help(plain).ends_with("or remove `feedback`"));
}

#[test]
fn members_of_outputs_that_may_miss() {
    let with_result = |agents: &str, result: &str| of_code("W072", &format!("{agents}\nresult: {{r: \"{result}\"}}"));
    let conditional =
        "- {name: a, script: x}\n- {name: b, script: x, dependencies: [{agent_name: a, condition: output.ok}]}";
    assert_eq!(
        with_result(conditional, "outputs.b.order"),
        ["W072 5:14 `b` may never run, and this expression fails without its output"]
    );
    for result in [
        "outputs['b'].order.id",
        "context.b.order",
        "1 if outputs.b.order else 2",
        "len(outputs.b.items)",
    ] {
        assert_eq!(with_result(conditional, result).len(), 1, "{result}");
    }
    for result in [
        "outputs.a.order",
        "outputs.b?.order",
        "outputs.b",
        "outputs.get('b')",
        "outputs.get('b', {}).order",
        "outputs.b.order if 'b' in outputs else 0",
        "outputs.b.order if outputs.b else 0",
        "outputs.b and outputs.b.order",
        "outputs.b.order if executions.b > 0 else 0",
        "context.other.order",
    ] {
        assert_eq!(with_result(conditional, result), [""; 0], "{result}");
    }
    let may_miss = |b: &str, a: &str| {
        let agents = format!("- {{name: a, script: x{a}}}\n- {{name: b, script: x{b}}}");
        with_result(&agents, "outputs.b.order").len() == 1
    };
    assert!(!may_miss("", ""));
    assert!(!may_miss(", depends_on: [a]", ""));
    assert!(!may_miss(", dependencies: [{agent_name: a, condition: true}]", ""));
    assert!(!may_miss(
        ", dependencies: [{agent_name: a, on: any}]",
        ", on_error: continue"
    ));
    assert!(!may_miss(
        ", dependencies: [{agent_name: a, feedback: true, condition: output.ok}]",
        ""
    ));
    assert!(!may_miss(
        ", dependencies: [{agent_name: a, requires_all: false, condition: output.ok}, {agent_name: a, requires_all: false}]",
        ""
    ));
    assert!(may_miss(", depends_on: [a]", ", on_error: continue"));
    assert!(may_miss(", dependencies: [{agent_name: a, on: failure}]", ""));
}

#[test]
fn an_agent_that_is_only_a_tool_has_no_output() {
    let agents = "- {name: a, model: ollama/m, tools: [t]}\n- {name: t, script: x}\n\
                  tools: {t: {agent: t, description: d, parameters: {type: object}}}\nresult: {r: outputs.t.n}";
    assert_eq!(
        of_code("W072", agents),
        ["W072 6:13 `t` is only a tool and has no output, so this expression fails"]
    );
    let listening = agents.replace("- {name: t", "- {name: b, script: x, depends_on: [t]}\n- {name: t");
    assert_eq!(of_code("W072", &listening), [""; 0]);
}

#[test]
fn a_required_agent_has_its_output_when_success_is_evaluated() {
    let may_miss = |expression: &str, more: [&str; 3]| {
        let [a, b, c] = more;
        let condition = "dependencies: [{agent_name: a, condition: output.ok}]";
        let agents = format!(
            "- {{name: a, script: x{a}}}\n- {{name: b, script: x, {condition}{b}}}\n\
             - {{name: c, script: x, depends_on: [b]{c}}}\n{expression}"
        );
        of_code("W072", &agents).len()
    };
    let required = ", required: true";
    let of_success = |name: &str, more| may_miss(&format!("success: outputs.{name}.n >= 1"), more);
    assert_eq!(of_success("b", ["", "", ""]), 1);
    assert_eq!(of_success("b", ["", required, ""]), 0);
    // What runs before and after a required agent has an output too, unless an agent can request agents.
    assert_eq!(of_success("b", ["", "", required]), 0);
    assert_eq!(of_success("c", ["", required, ""]), 0);
    let requests = ", conversation: {triggers_conversation: true}";
    assert_eq!(of_success("b", [requests, "", required]), 1);
    assert_eq!(of_success("b", [required, "", ""]), 1);
    // The result is evaluated also if a required agent has failed.
    assert_eq!(may_miss("result: {r: outputs.b.n}", ["", required, ""]), 1);
}

#[test]
fn prompts_that_hear_none_of_their_dependencies() {
    let unheard = |prompt: &str, more: &str| {
        let agents = format!(
            "- {{name: a, script: x}}\n- {{name: b, script: x}}\n- {{name: other, script: x}}\n\
             - {{name: c, model: ollama/m, depends_on: [a, b], prompt: \"{prompt}\"{more}}}"
        );
        of_code("H027", &agents)
    };
    assert_eq!(
        unheard("About {{ input }}", ""),
        ["H027 6:58 this prompt uses variables, but no output of its dependencies: `c` does not hear `a`, `b`"]
    );
    for prompt in [
        "{{ turn_count }}",
        "{{ inputs.x }} {{ context.other }}",
        "{% if request %}x{% endif %}",
    ] {
        assert_eq!(unheard(prompt, "").len(), 1, "{prompt}");
    }
    for prompt in [
        "no variables",
        "{{ a }}",
        "{{ input }} {{ b.text }}",
        "{{ transcript }}",
        "{% for h in history %}{{ h.agent_name }}{% endfor %}",
        "{{ dependencies.a }}",
        "{{ context.a }}",
        "{{ context.draft }}",
        "{{ context }}",
        "{{ context.get('a') }}",
    ] {
        assert_eq!(unheard(prompt, ""), [""; 0], "{prompt}");
    }
    assert_eq!(unheard("{{ input }}", ", system_prompt: '{{ a }}'"), [""; 0]);
    assert_eq!(unheard("{{ item }}", ", for_each: {in: outputs.a.list}"), [""; 0]);
    assert_eq!(unheard("{{ item }}", ", for_each: {in: [1, 2]}").len(), 1);
}
