//! Parts that are examined apart give the same claims as the whole at once.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;

use super::oracle::ExploredPlan;
use super::walk::EndClass;
use super::{Exploration, ExplorationBudget, explore_plan, explore_whole, list_unexplored_outcomes, parts};
use ensemble_core::conversation::CompletionReason;
use ensemble_core::random_conversations::build_plan;
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::unconnected_plan_with_results;

fn whole(plan: &Arc<Plan>, budget: ExplorationBudget<'_>) -> Exploration {
    let world = ExploredPlan::new(plan.clone(), budget);
    explore_whole(&world, budget, &|| true, list_unexplored_outcomes(plan, &world, budget))
}

/// Everything that is claimed of all conversations: of the whole, of each agent, and of each class of ends.
type Claims = (u32, u32, Vec<(Arc<str>, u32, bool)>, Vec<(EndClass, u32)>);

fn claims(found: &Exploration) -> Claims {
    let agents = found.agents.iter();
    let ends = found.ends.iter();
    (
        found.turns,
        found.executions,
        agents
            .map(|one| (one.agent.clone(), one.most, one.left_out.is_some()))
            .collect(),
        ends.map(|end| (EndClass::from_end(end), end.turns)).collect(),
    )
}

fn planned(agents: &str) -> Arc<Plan> {
    Arc::new(build_plan(&format!("name: t\nagents:\n{agents}")))
}

/// Returns a loop with a condition, and a person who is asked at its end.
fn looped(name: &str, question: bool) -> String {
    let person = match question {
        true => format!("- {{name: {name}3, input: {{prompt: q}}, depends_on: [{name}2]}}\n"),
        false => String::new(),
    };
    format!(
        "- {{name: {name}1, script: x, conversation: {{max_turns: 4}}, dependencies: [{{agent_name: {name}2, feedback: true, condition: not output.ok}}]}}\n\
         - {{name: {name}2, script: x, conversation: {{max_turns: 4}}, depends_on: [{name}1]}}\n{person}"
    )
}

#[test]
fn six_loops_are_six_small_walks() {
    let agents: String = ["a", "b", "c", "d", "e", "f"].map(|name| looped(name, false)).concat();
    let found = explore_plan(&planned(&agents), ExplorationBudget::with_max_states(20_000));
    assert!(found.coverage.is_complete(), "{:?}", found.coverage);
    assert_eq!(found.coverage.parts, 6);
    assert!(found.coverage.states < 300, "{:?}", found.coverage);
    let one = explore_plan(
        &planned(&looped("a", false)),
        ExplorationBudget::with_max_states(20_000),
    );
    assert_eq!((found.turns, found.executions), (one.turns, 6 * one.executions));
    let rested = |found: &Exploration| {
        let mut ends = claims(found).3;
        ends.retain(|(class, _)| class.exhausted.is_empty());
        ends
    };
    assert_eq!(rested(&found), rested(&one));
    // Each of the loops may be exhausted or not.
    let completed = found
        .ends
        .iter()
        .filter(|end| end.reason == CompletionReason::Completed);
    assert_eq!(completed.count(), 64);
}

/// Ten loops have 1024 completed ends. The ends are listed in part, and no other fact is lost.
#[test]
fn many_loops_keep_every_outcome() {
    let explore = |names: &[&str]| {
        let agents: String = names.iter().map(|name| looped(name, false)).collect();
        explore_plan(&planned(&agents), ExplorationBudget::with_max_states(20_000))
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let (found, two) = (explore(&names), explore(&names[..2]));
    assert!(found.coverage.is_complete() && found.are_ends_cut && !two.are_ends_cut);
    assert_eq!((found.turns, found.executions), (two.turns, 5 * two.executions));
    assert!(found.ends.len() <= 1000, "{} ends", found.ends.len());
    let groups = |found: &Exploration| -> Vec<_> {
        let mut groups: Vec<_> = found
            .ends
            .iter()
            .map(|end| (end.reason, end.success, end.not_run.is_empty(), end.after_failure))
            .collect();
        groups.dedup();
        groups
    };
    assert_eq!(groups(&found), groups(&two));
}

#[test]
fn a_question_of_one_part_ends_the_others() {
    let agents = looped("a", true)
        + &*looped("b", false)
        + "- {name: z, script: x, depends_on: [y]}\n- {name: y, script: x, depends_on: [b2]}\n";
    let plan = planned(&agents);
    let (apart, whole) = (
        explore_plan(&plan, ExplorationBudget::with_max_states(20_000)),
        whole(&plan, ExplorationBudget::with_max_states(20_000)),
    );
    assert!(apart.coverage.is_complete() && whole.coverage.is_complete());
    assert_eq!((apart.coverage.parts, whole.coverage.parts), (2, 1));
    assert_eq!(claims(&apart), claims(&whole));
    // `later` can only be left out by the question of the other part.
    let late = "- {name: p, script: x, on_error: continue}\n- {name: q, input: {prompt: q}, dependencies: [{agent_name: p, on: any}]}\n\
                - {name: r, script: x, on_error: continue}\n- {name: s, script: x, on_error: continue, dependencies: [{agent_name: r, on: any}]}\n\
                - {name: later, script: x, dependencies: [{agent_name: s, on: any}]}\n";
    let left_out = |agents: &str| {
        let found = explore_plan(&planned(agents), ExplorationBudget::with_max_states(20_000));
        let later = found
            .agents
            .iter()
            .find(|one| &*one.agent == "later")
            .expect("an agent");
        (found.coverage.parts, later.left_out.is_some())
    };
    assert_eq!(left_out(late), (2, true));
    assert_eq!(
        left_out(&late.replace("input: {prompt: q}", "input: {prompt: q, default: d}")),
        (2, false)
    );
}

#[test]
fn what_couples_parts_is_examined_at_once() {
    let two = looped("a", false) + &*looped("b", false);
    let parts = |agents: &str| {
        parts::split_into_independent_parts(&ExploredPlan::new(
            planned(agents),
            ExplorationBudget::with_max_states(1),
        ))
        .map_or(1, |parts| parts.len())
    };
    assert_eq!(parts(&two), 2);
    for condition in [
        "turn_count > 3",
        "len(history) > 3",
        "context.ok",
        "outputs.a1.ok",
        "input == 'x'",
        "executions.b1 > 1",
        "history[-1].output_data.x",
    ] {
        assert_eq!(
            parts(&two.replacen("not output.ok", &format!("\"{condition}\""), 1)),
            1,
            "{condition}"
        );
    }
    assert_eq!(parts(&two.replacen("not output.ok", "executions.a1 < 2", 1)), 2);
    for limits in ["max_agent_executions: {a1: 2}", "max_total_tokens: 5"] {
        assert_eq!(
            parts(&format!("{two}conversation_limits: {{{limits}}}\n")),
            1,
            "{limits}"
        );
    }
    assert_eq!(parts(&format!("{two}conversation_limits: {{max_total_turns: 5}}\n")), 2);
    assert_eq!(
        parts(&format!(
            "{two}- {{name: l, script: x, conversation: {{max_turns: 3}}}}\n"
        )),
        1
    );
    assert_eq!(
        parts(&two.replacen("max_turns: 4", "max_turns: 4, triggers_conversation: true", 1)),
        1
    );
    let asks = format!("{two}- {{name: q, input: {{prompt: q}}}}\n");
    assert_eq!(parts(&asks), 3);
    let nobody = ExplorationBudget {
        nobody_answers: true,
        ..ExplorationBudget::with_max_states(1)
    };
    assert!(parts::split_into_independent_parts(&ExploredPlan::new(planned(&asks), nobody)).is_none());
}

#[test]
fn parts_claim_what_the_whole_claims() {
    let (compared, apart) = (Cell::new(0), Cell::new(0));
    let config = ProptestConfig {
        cases: 120,
        ..ProptestConfig::default()
    };
    proptest!(config, |((plan, _) in unconnected_plan_with_results())| {
        let plan = Arc::new(plan);
        let found = explore_plan(&plan, ExplorationBudget::with_max_states(400));
        let whole = whole(&plan, ExplorationBudget::with_max_states(400));
        if found.coverage.parts > 1 {
            apart.set(apart.get() + 1);
        }
        if found.coverage.is_complete() && whole.coverage.is_complete() {
            compared.set(compared.get() + u32::from(found.coverage.parts > 1));
            prop_assert_eq!(claims(&found), claims(&whole), "{:#?}", plan.ensemble().agents);
        }
    });
    assert!(compared.get() > 25, "{} of {}", compared.get(), apart.get());
}
