//! The results of the walk for small ensembles. For every reported path, the resolver itself must reach the reported
//! end when it evaluates the conditions.

use std::cell::Cell;
use std::sync::Arc;

use super::{
    ExecutionResult, Exploration, ExplorationBudget, ExplorationLimit, PossibleEnd, SpentBudget, StepReport,
    explore_plan, explore_while_time_remains,
};
use ensemble_core::conversation::CompletionReason;
use ensemble_core::random_conversations::build_plan;

fn found(text: &str) -> Exploration {
    let plan = Arc::new(build_plan(&format!("name: t\nagents:\n{text}")));
    let found = explore_plan(&plan, ExplorationBudget::with_max_states(5_000));
    assert!(found.coverage.is_complete(), "{:?}", found.coverage);
    found
}

/// Returns an agent with these keys.
fn agent(name: &str, keys: &str) -> String {
    format!("- {{name: {name}, script: x{keys}}}\n")
}

/// `completed 3: a | b c | d!` for each end: turns, who ran in each (`!` failed, `?` unanswered), who never ran.
fn ends(found: &Exploration) -> Vec<String> {
    found.ends.iter().map(end).collect()
}

fn end(end: &PossibleEnd) -> String {
    let turns = end.path.iter().filter(|told| !told.runs.is_empty());
    let turns: Vec<String> = turns.map(turn).collect();
    let missing: Vec<&str> = end.not_run.iter().map(|one| &*one.agent).collect();
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!(", never {}", missing.join(" "))
    };
    format!("{} {}: {}{missing}", end.reason, end.turns, turns.join(" | "))
}

fn turn(told: &StepReport) -> String {
    let sign = |result| match result {
        ExecutionResult::Succeeded => "",
        ExecutionResult::Failed => "!",
        ExecutionResult::Unanswered => "?",
    };
    let runs: Vec<String> = told
        .runs
        .iter()
        .map(|ran| format!("{}{}", ran.agent, sign(ran.result)))
        .collect();
    runs.join(" ")
}

fn most(found: &Exploration, agent: &str) -> u32 {
    let summary = found.agents.iter().find(|summary| &*summary.agent == agent);
    summary.expect("an agent of the ensemble").most
}

#[test]
fn a_chain_ends_well_or_with_whoever_fails() {
    let chain = agent("a", ", on_error: continue") + &*agent("b", ", depends_on: [a]");
    let found = found(&chain);
    assert_eq!(
        ends(&found),
        [
            "completed 2: a | b",
            "completed 1: a!, never b",
            "agent_failed 2: a | b!",
        ]
    );
    assert_eq!((found.turns, found.executions), (2, 2));
}

#[test]
fn who_is_left_out_by_a_failure_is_told_apart() {
    let asked =
        agent("a", ", on_error: continue") + &*agent("b", ", dependencies: [{agent_name: a, condition: output.ok}]");
    assert_eq!(
        ends(&found(&asked)),
        [
            "completed 2: a | b",
            "completed 1: a, never b",
            "completed 1: a!, never b",
            "agent_failed 2: a | b!",
        ]
    );
}

#[test]
fn a_failure_route_is_gone_both_ways() {
    let route = agent("a", "")
        + &*agent(
            "b",
            ", on_error: continue, dependencies: [{agent_name: a, on: failure}]",
        );
    assert_eq!(
        ends(&found(&route)),
        ["completed 2: a! | b", "completed 1: a, never b",]
    );
}

#[test]
fn a_condition_and_its_opposite_are_never_true_together() {
    let either = agent("a", "")
        + &*agent("b", ", dependencies: [{agent_name: a, condition: output.ok}]")
        + &*agent("c", ", dependencies: [{agent_name: a, condition: not output.ok}]")
        + &*agent("d", ", depends_on: [b, c]");
    let found = found(&either);
    assert_eq!((most(&found, "b"), most(&found, "c"), most(&found, "d")), (1, 1, 0));
    assert_eq!(found.executions, 2);
}

#[test]
fn spellings_of_one_claim_agree() {
    for (one, opposite) in [
        ("output.n == 1", "output.n != 1"),
        ("output.n < 1", "output.n >= 1"),
        ("!output.get('n')", "output.get('n')"),
        ("1 > output.n", "output.n >= 1"),
        ("'k' in output", "'k' not in output"),
        ("output.k and output.x", "not (output.k)"),
    ] {
        let either = agent("a", "")
            + &*agent(
                "b",
                &format!(", dependencies: [{{agent_name: a, condition: \"{one}\"}}]"),
            )
            + &*agent(
                "c",
                &format!(", dependencies: [{{agent_name: a, condition: \"{opposite}\"}}]"),
            );
        assert_eq!(found(&either).executions, 2, "{one}, {opposite}");
    }
}

#[test]
fn one_of_two_claims_is_enough_where_either_would_do() {
    let text = agent("a", "")
        + &*agent(
            "b",
            ", dependencies: [{agent_name: a, condition: output.x or output.y}]",
        )
        + &*agent(
            "c",
            ", dependencies: [{agent_name: b}, {agent_name: a, condition: not output.x}]",
        )
        + &*agent(
            "d",
            ", dependencies: [{agent_name: b}, {agent_name: a, condition: not output.x and not output.y}]",
        );
    let found = found(&text);
    assert_eq!((most(&found, "c"), most(&found, "d")), (1, 0));
}

#[test]
fn what_was_said_stays_said_until_it_is_said_anew() {
    // `c` listens to `b`, too, and so is asked again later. What `a` has said has not changed by then.
    let late = agent("a", "")
        + &*agent("b", ", depends_on: [a], conversation: {max_turns: 2}")
        + &*agent(
            "c",
            ", on_error: continue, dependencies: [{agent_name: b}, {agent_name: a, condition: output.ok}], conversation: {max_turns: 3}",
        )
        + &*agent(
            "d",
            ", dependencies: [{agent_name: a, condition: not output.ok}, {agent_name: c}]",
        );
    assert_eq!(most(&found(&late), "d"), 0);
    let anew = late.replace(
        "name: a, script: x",
        "name: a, script: x, conversation: {max_turns: 2}, dependencies: [{agent_name: b, feedback: true}]",
    );
    assert_eq!(most(&found(&anew), "d"), 1);
}

#[test]
fn conditions_that_count_are_really_asked() {
    let counted = agent(
        "a",
        ", conversation: {max_turns: 9}, dependencies: [{agent_name: b, feedback: true, condition: executions.a < 3 and output.more}]",
    ) + &*agent("b", ", depends_on: [a], conversation: {max_turns: 9}")
        + &*agent("c", ", dependencies: [{agent_name: b, condition: turn_count > 6}]")
        + &*agent("d", ", dependencies: [{agent_name: b, condition: len(history) == 4}]");
    let found = found(&counted);
    assert_eq!((most(&found, "a"), most(&found, "b"), found.turns), (3, 3, 6));
    assert_eq!((most(&found, "c"), most(&found, "d")), (0, 1));
}

#[test]
fn a_success_may_have_changed_the_context_and_the_history() {
    for claim in ["context.x", "history[-1].output_data.x"] {
        let text = agent("a", "")
            + &*agent(
                "b",
                &format!(", dependencies: [{{agent_name: a, condition: '{claim}'}}]"),
            )
            + &*agent(
                "c",
                &format!(", dependencies: [{{agent_name: b}}, {{agent_name: a, condition: 'not {claim}'}}]"),
            );
        assert_eq!(most(&found(&text), "c"), 1, "{claim}");
    }
}

#[test]
fn what_was_said_makes_two_states() {
    // `e` does not run because of `ok`, or because of `y`: only then may `f` run.
    let text = agent("a", "")
        + &*agent("w", "")
        + &*agent(
            "e",
            ", dependencies: [{agent_name: a, condition: output.ok}, {agent_name: w, condition: output.y}]",
        )
        + &*agent("g", ", depends_on: [a]")
        + &*agent(
            "f",
            ", dependencies: [{agent_name: g}, {agent_name: a, condition: executions.e == 0 and output.ok}]",
        );
    assert_eq!(most(&found(&text), "f"), 1);
}

#[test]
fn what_the_same_claims_said_makes_two_states() {
    // `e` runs because of `ok`, or because of `y`: only then may `f` run.
    let text = agent("a", "")
        + &*agent("w", "")
        + &*agent(
            "e",
            ", dependencies: [{agent_name: a, requires_all: false, condition: output.ok}, {agent_name: w, requires_all: false, condition: output.y}]",
        )
        + &*agent("g", ", depends_on: [a]")
        + &*agent(
            "f",
            ", dependencies: [{agent_name: g}, {agent_name: a, condition: executions.e == 1 and not output.ok}]",
        );
    assert_eq!(most(&found(&text), "f"), 1);
}

#[test]
fn how_often_an_edge_has_started_makes_two_states() {
    // `x` runs for `a` and `b`, or for `b` alone: only then may news of `a` start it again.
    let text = agent(
        "a",
        ", dependencies: [{agent_name: x, feedback: true}], conversation: {max_turns: 2}",
    ) + &*agent("b", "")
        + &*agent(
            "x",
            ", dependencies: [{agent_name: a, requires_all: false, max_executions: 1, condition: output.go}, {agent_name: b, requires_all: false}], conversation: {max_turns: 3}",
        );
    assert_eq!(most(&found(&text), "x"), 2);
}

#[test]
fn what_a_listener_has_heard_makes_two_states() {
    // `a` and `b` side by side, or one after the other: only the second way tells `l` something four times.
    let text = agent("l", ", conversation: {max_turns: 9}")
        + &*agent("s", "")
        + &*agent("a", ", depends_on: [s]")
        + &*agent(
            "b",
            ", dependencies: [{agent_name: s, requires_all: false, condition: context.x}, {agent_name: a, requires_all: false}]",
        );
    let found = found(&text);
    let soonest = "completed 3: l s | l a b | l".to_owned();
    assert_eq!((ends(&found).contains(&soonest), most(&found, "l")), (true, 4));
}

#[test]
fn whether_the_latest_execution_failed_makes_two_states() {
    // `a` fails and then succeeds, or succeeds and then fails: only the first way lets `x` run.
    let text = agent(
        "a",
        ", on_error: continue, conversation: {max_turns: 2, trigger: every_turn}",
    ) + &*agent("h", ", dependencies: [{agent_name: a, on: failure}]")
        + &*agent("x", ", dependencies: [{agent_name: a}, {agent_name: h}]");
    assert_eq!(most(&found(&text), "x"), 1);
}

#[test]
fn whether_a_failure_was_handled_makes_two_states() {
    // `a` fails beside `b`, and `h` hears of both; or `h` has gone for `b` alone by then.
    let text = agent("s", "")
        + &*agent("w", ", depends_on: [s]")
        + &*agent("b", ", depends_on: [s]")
        + &*agent(
            "a",
            ", dependencies: [{agent_name: s, requires_all: false, condition: context.x}, {agent_name: w, requires_all: false}]",
        )
        + &*agent(
            "h",
            ", dependencies: [{agent_name: a, requires_all: false, on: failure}, {agent_name: b, requires_all: false}]",
        )
        + &*agent("z", ", depends_on: [a]");
    let ends = ends(&found(&text));
    assert!(
        ends.contains(&"completed 3: s | w b a! | h, never z".to_owned()),
        "{ends:?}"
    );
}

#[test]
fn who_has_seen_what_makes_two_states() {
    // `a` and then `b`, or `b` and then `a`: only the second way leaves something that `b` has not seen.
    let either = agent("s", "")
        + &*agent(
            "a",
            ", dependencies: [{agent_name: s, requires_all: false, condition: context.x}, {agent_name: b, requires_all: false}]",
        )
        + &*agent(
            "b",
            ", conversation: {max_turns: 2}, dependencies: [{agent_name: s, requires_all: false, condition: not context.x}, {agent_name: a, requires_all: false}]",
        );
    assert_eq!(most(&found(&either), "b"), 2);
}

#[test]
fn how_many_turns_have_gone_makes_two_states_where_the_limit_is_near() {
    // `a` and `b` side by side, or one after the other: only the second way comes to the limit before `c`.
    let text = agent("s", "")
        + &*agent("a", ", depends_on: [s]")
        + &*agent(
            "b",
            ", dependencies: [{agent_name: s, requires_all: false, condition: context.x}, {agent_name: a, requires_all: false}]",
        )
        + &*agent("c", ", depends_on: [a, b]")
        + "conversation_limits: {max_total_turns: 3}\n";
    let ends = ends(&found(&text));
    assert!(
        ends.contains(&"max_total_turns 3: s | a | b, never c".to_owned()),
        "{ends:?}"
    );
    assert!(ends.contains(&"completed 3: s | a b | c".to_owned()), "{ends:?}");
}

#[test]
fn how_many_turns_have_gone_makes_two_states_where_somebody_asks() {
    // As above without a limit: only the second way takes three turns.
    let text = agent("s", "")
        + &*agent("a", ", depends_on: [s]")
        + &*agent(
            "b",
            ", dependencies: [{agent_name: s, requires_all: false, condition: context.x}, {agent_name: a, requires_all: false}]",
        )
        + &*agent(
            "c",
            ", dependencies: [{agent_name: a}, {agent_name: b, condition: turn_count == 3}]",
        );
    assert_eq!(most(&found(&text), "c"), 1);
}

#[test]
fn large_counts_are_told_apart() {
    let clock = agent("a", ", conversation: {max_turns: 300, trigger: every_turn}")
        + "conversation_limits: {max_total_turns: 400}\n";
    assert_eq!(most(&found(&clock), "a"), 300);
}

#[test]
fn limits_end_what_would_go_on() {
    let pair = agent(
        "a",
        ", on_error: continue, conversation: {max_turns: 9}, dependencies: [{agent_name: b, feedback: true}]",
    ) + &*agent(
        "b",
        ", on_error: continue, depends_on: [a], conversation: {max_turns: 9}",
    );
    let with = |limits: &str| {
        let found = found(&format!("{pair}conversation_limits: {limits}\n"));
        (ends(&found).pop().expect("an end"), found.turns)
    };
    assert_eq!(
        with("{max_total_turns: 3}"),
        ("max_total_turns 3: a | b | a".to_owned(), 3)
    );
    assert_eq!(
        with("{max_agent_executions: {b: 2}}"),
        ("max_agent_executions 4: a | b | a | b".to_owned(), 4)
    );
}

#[test]
fn tokens_and_persons_can_end_it() {
    let found = found(
        "- {name: a, model_profile: p}\n- {name: b, input: {prompt: q}, depends_on: [a]}\n- {name: c, script: x, depends_on: [b]}\nconversation_limits: {max_total_tokens: 10}\n",
    );
    let ends = ends(&found);
    assert!(ends.contains(&"token_budget 1: a, never b c".to_owned()), "{ends:?}");
    assert!(
        ends.contains(&"waiting_for_input 1: a | b?, never b c".to_owned()),
        "{ends:?}"
    );
    let budgets = "- {name: a, model_profile: p}\n- {name: b, script: x, depends_on: [a]}\nconversation_limits: {max_cost: 2.5}\n";
    let found = super::tests::found(budgets);
    let cut_off = found
        .ends
        .iter()
        .find(|end| end.reason == CompletionReason::TokenBudget);
    let cut_off = cut_off.expect("a cost budget ends a conversation");
    assert_eq!(cut_off.detail.as_deref(), Some("max_cost 2.5 was reached: 2.5"));
    let spent = cut_off.path[0].runs[0].spent_budget;
    assert!(matches!(spent, Some(SpentBudget::Cost(_))), "{spent:?}");
    let inner = "- {name: a, ensemble: inner.yaml}\n- {name: b, script: x, depends_on: [a]}\nconversation_limits: {max_total_tokens: 10}\n";
    let reasons = |text: &str| -> Vec<CompletionReason> {
        let ends = super::tests::found(text).ends;
        ends.iter().map(|end| end.reason).collect()
    };
    assert!(reasons(inner).contains(&CompletionReason::TokenBudget));
    assert!(!reasons(&inner.replace("ensemble: inner.yaml", "script: x")).contains(&CompletionReason::TokenBudget));
    let answered = "- {name: b, input: {prompt: q, default: d}}\n";
    let found = super::tests::found(answered);
    assert!(
        found
            .ends
            .iter()
            .all(|end| end.reason != CompletionReason::WaitingForInput)
    );
}

#[test]
fn requests_start_those_whom_nothing_else_starts() {
    let text = agent("a", ", conversation: {triggers_conversation: true}")
        + &*agent("b", ", depends_on: [c]")
        + &*agent("c", ", depends_on: [b]");
    let asked = found(&text);
    assert!(asked.requests);
    assert_eq!((most(&asked, "b"), most(&asked, "c")), (1, 1));
    let unasked = found(&text.replace("triggers_conversation: true", "triggers_conversation: false"));
    assert_eq!((most(&unasked, "b"), most(&unasked, "c")), (0, 0));
    // Requests of parts are ignored.
    let parts = found(&text.replace("name: a, script: x", "name: a, script: x, for_each: {times: 2}"));
    assert!(!parts.requests);
    assert_eq!((most(&parts, "b"), most(&parts, "c")), (0, 0));
}

#[test]
fn a_count_without_an_answer_ends_it() {
    let text = agent("a", "")
        + &*agent(
            "b",
            ", dependencies: [{agent_name: a, condition: 1 / (turn_count - 1) > 0}]",
        );
    let ends = ends(&found(&text));
    assert!(ends.contains(&"condition_failed 1: a, never b".to_owned()), "{ends:?}");
}

#[test]
fn a_shorter_way_to_a_known_state_is_the_one_that_is_told() {
    // All of them run in the first three turns, or in four; the four are known first.
    let soon = |name: &str, other: &str| {
        agent(
            name,
            &format!(
                ", dependencies: [{{agent_name: s, requires_all: false, condition: context.x}}, {{agent_name: {other}, requires_all: false}}]"
            ),
        )
    };
    let text = agent("s", "")
        + &*agent("a", ", depends_on: [s]")
        + &*soon("b", "a")
        + &*soon("c", "b")
        + &*agent("d", ", depends_on: [b]")
        + &*agent("e", ", depends_on: [b]")
        + &*agent("f", ", depends_on: [c, d, e]");
    let found = found(&text);
    let soonest = "completed 4: s | a b c | d e | f".to_owned();
    assert!(ends(&found).contains(&soonest), "{:?}", ends(&found));
    assert_eq!(found.turns, 5);
}

#[test]
fn a_longer_way_to_a_known_state_counts_its_turns() {
    // `a` and `b` side by side come first, one after the other second; `c` is one turn more.
    let text = agent("s", "")
        + &*agent("a", ", depends_on: [s]")
        + &*agent(
            "b",
            ", dependencies: [{agent_name: s, requires_all: false, condition: context.x}, {agent_name: a, requires_all: false}]",
        )
        + &*agent("c", ", depends_on: [a, b]");
    let found = found(&text);
    let soonest = "completed 3: s | a b | c".to_owned();
    assert_eq!((ends(&found).contains(&soonest), found.turns), (true, 4));
}

#[test]
fn of_ends_of_one_kind_the_soonest_is_told() {
    let pair = agent(
        "a",
        ", conversation: {max_turns: 3}, dependencies: [{agent_name: b, feedback: true, condition: output.more}]",
    ) + &*agent("b", ", depends_on: [a], conversation: {max_turns: 3}");
    let found = found(&pair);
    assert_eq!((&*ends(&found)[0], found.turns), ("completed 2: a | b", 6));
}

#[test]
fn ways_to_one_state_are_one_way() {
    // It succeeds or fails twelve times: far more ways than there are states to look at.
    let clock = agent(
        "a",
        ", on_error: continue, conversation: {max_turns: 12, trigger: every_turn}",
    );
    assert!(found(&clock).coverage.states < 50);
}

#[test]
fn a_condition_may_have_no_answer_where_it_reads_what_was_said() {
    let reads = |condition: &str| {
        let text = agent("a", "")
            + &*agent(
                "b",
                &format!(", dependencies: [{{agent_name: a, condition: {condition}}}]"),
            );
        let besides = found(&text).besides;
        besides
            .iter()
            .any(|one| one.reason == CompletionReason::ConditionFailed)
    };
    assert_eq!((reads("output.n > 1"), reads("turn_count > 1")), (true, false));
}

#[test]
fn it_says_when_it_gives_up_and_what_it_has_seen() {
    let all: Vec<String> = (0..20).map(|at| format!("a{at}")).collect();
    let many: String = all.iter().map(|name| agent(name, "")).collect();
    let many = many + &*agent("z", &format!(", depends_on: [{}]", all.join(", ")));
    let plan = Arc::new(build_plan(&format!("name: t\nagents:\n{many}")));
    let cut = explore_plan(&plan, ExplorationBudget::with_max_states(1_000_000)).coverage;
    assert_eq!((cut.cut, cut.stopped_by, cut.is_complete()), (1, None, false));
    // Steps are counted, too: sixteen for each state of the budget.
    let few = explore_plan(&plan, ExplorationBudget::with_max_states(2)).coverage;
    assert_eq!((few.steps, few.complete_below, few.is_complete()), (32, Some(0), false));
    assert_eq!(few.stopped_by, Some(ExplorationLimit::States));
    let chain: String = agent("a0", "")
        + &*(1..9)
            .map(|at| agent(&format!("a{at}"), &format!(", depends_on: [a{}]", at - 1)))
            .collect::<String>();
    let plan = Arc::new(build_plan(&format!("name: t\nagents:\n{chain}")));
    let found = explore_plan(&plan, ExplorationBudget::with_max_states(7));
    assert_eq!((found.coverage.states, found.coverage.complete_below), (7, Some(4)));
    assert_eq!(found.turns, 4);
    let steps = Cell::new(0);
    let has_time = || steps.replace(steps.get() + 1) < 5;
    let found = explore_while_time_remains(&plan, ExplorationBudget::with_max_states(1_000), &has_time).coverage;
    assert_eq!((found.steps, found.stopped_by), (5, Some(ExplorationLimit::Time)));
    assert!(!found.is_complete());
}

#[test]
fn what_is_proven_without_the_walk_holds_after_giving_up() {
    let text = agent("a", ", conversation: {max_turns: 5}")
        + &*agent("b", ", dependencies: [{agent_name: a, condition: 'false'}]")
        + &*agent("c", ", depends_on: [a], conversation: {max_turns: 9}")
        + "conversation_limits: {max_total_turns: 4}\n";
    let plan = Arc::new(build_plan(&format!("name: t\nagents:\n{text}")));
    let found = explore_plan(&plan, ExplorationBudget::with_max_states(1));
    assert!(!found.coverage.is_complete());
    let bounds: Vec<u64> = found.agents.iter().map(|one| one.bound).collect();
    assert_eq!(bounds[1], 0);
    assert!(bounds[0] >= 1 && bounds[0] <= 4 && bounds[2] <= 4, "{bounds:?}");
    assert_eq!((found.turns_bound, found.executions_bound), (4, bounds.iter().sum()));
}
