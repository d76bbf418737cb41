//! Real conversations are walked through what the exploration has found, turn by turn: whoever runs, whatever fails and
//! however it ends must be there, also in a state that was taken for another one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::choices::ChoiceSequences;
use super::key::compute_state_key;
use super::oracle::ExploredPlan;
use super::report::ExecutionResult;
use super::step::{ConversationPosition, StepOutcome};
use super::{Exploration, ExplorationBudget, KnownNestedResults, PossibleEnd, explore_plan};
use ensemble_core::conversation::{CompletionReason, Event, ExhaustedAgent, Record};
use ensemble_core::random_conversations::{drive_around, drive_from_records, run_started_event};
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{AgentKind, Ensemble};
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::{
    plan_with_lists, plan_with_results, unconnected_plan_with_results, with_goal, with_strict_limits,
};

type Key = Box<[u8]>;

/// Who ran in a turn, and whether the execution succeeded.
type Turn = Vec<(Arc<str>, u32, bool)>;

/// The outcome, whether it is a success, and the exhausted agents.
type RunEnd = (CompletionReason, bool, Vec<ExhaustedAgent>);

/// The steps between states and the ends that are possible from them.
#[derive(Default)]
struct Found {
    turns: HashMap<(Key, Turn), HashSet<Key>>,
    ends: HashSet<(Key, RunEnd)>,
}

/// Everything that is possible, as the walk examines it: of the states with one key only the first. `None`: too much.
fn everything(world: &ExploredPlan) -> Option<Found> {
    const MOST_STATES: usize = 300;
    const MOST_STEPS: usize = 6_000;
    let mut found = Found::default();
    let start = ConversationPosition::at_conversation_start(world);
    let first = compute_state_key(world, &start.state, &start.remembered);
    let (mut known, mut ahead) = (HashSet::from([first.clone()]), vec![(first, start)]);
    let mut steps = 0;
    while let Some((from, position)) = ahead.pop() {
        let mut rows = ChoiceSequences::new();
        while let Some(choices) = rows.next() {
            steps += 1;
            if steps > MOST_STEPS || known.len() > MOST_STATES {
                return None;
            }
            let (next, told) = position.perform_step(world, &choices);
            rows.queue_alternatives(&choices);
            let run = |ran: &super::ExploredExecution| {
                (
                    ran.agent.clone(),
                    ran.execution,
                    ran.result == ExecutionResult::Succeeded,
                )
            };
            match next {
                StepOutcome::Turn(next) => {
                    let to = compute_state_key(world, &next.state, &next.remembered);
                    let turn = told.runs.iter().map(run).collect();
                    found.turns.entry((from.clone(), turn)).or_default().insert(to.clone());
                    if known.insert(to.clone()) {
                        ahead.push((to, *next));
                    }
                }
                StepOutcome::End(ended, _) => {
                    found.ends.insert((
                        from.clone(),
                        (ended.completion_reason, ended.is_success(), ended.exhausted),
                    ));
                }
            }
        }
    }
    Some(found)
}

/// Returns the turns of a run, and its end.
fn turns(records: &[Record]) -> (Vec<Turn>, RunEnd) {
    let (mut turns, mut open) = (Vec::new(), Turn::new());
    for record in records {
        match &record.event {
            Event::TurnStarted(turn) => {
                open = turn
                    .starts
                    .iter()
                    .map(|start| (start.agent.clone(), start.execution, false))
                    .collect();
            }
            Event::ExecutionFinished(finished) => {
                let run = open.iter_mut().find(|run| run.0 == finished.agent);
                run.expect("it was started").2 = finished.is_success();
            }
            Event::TurnFinished(_) => turns.push(std::mem::take(&mut open)),
            Event::RunEnded(ended) => {
                let success = ended.is_success();
                return (turns, (ended.completion_reason, success, ended.exhausted.clone()));
            }
            _ => {}
        }
    }
    panic!("the run ends");
}

fn is_possible(world: &ExploredPlan, found: &Found, turns: &[Turn], end: &RunEnd) -> Result<(), String> {
    let start = ConversationPosition::at_conversation_start(world);
    let mut at = HashSet::from([compute_state_key(world, &start.state, &start.remembered)]);
    for (number, turn) in turns.iter().enumerate() {
        let next = at
            .iter()
            .filter_map(|from| found.turns.get(&(from.clone(), turn.clone())));
        at = next.flatten().cloned().collect();
        if at.is_empty() {
            return Err(format!("turn {} of {turns:?} is called impossible", number + 1));
        }
    }
    let ends = at.iter().any(|from| found.ends.contains(&(from.clone(), end.clone())));
    ends.then_some(())
        .ok_or_else(|| format!("{turns:?} cannot end with {end:?}"))
}

/// What is said of the agents must hold in this run.
fn claims_hold(plan: &Plan, found: &Exploration, turns: &[Turn]) -> Result<(), String> {
    for (id, outlook) in plan.agent_ids().zip(&found.agents) {
        let runs = turns
            .iter()
            .flatten()
            .filter(|run| run.0 == *plan.agent_name(id))
            .count();
        if runs > outlook.most as usize {
            return Err(format!(
                "{} ran {runs} times, and {} is the most",
                outlook.agent, outlook.most
            ));
        }
        if runs == 0 && outlook.left_out.is_none() {
            return Err(format!("{} always runs, and did not", outlook.agent));
        }
    }
    Ok(())
}

/// What is said after giving up must hold in this run.
fn bounds_hold(found: &Exploration, turns: &[Turn]) -> Result<(), String> {
    let runs = || turns.iter().flatten();
    for outlook in &found.agents {
        let runs = runs().filter(|run| run.0 == outlook.agent).count() as u64;
        if runs > outlook.bound {
            return Err(format!(
                "{} ran {runs} times, and its bound is {}",
                outlook.agent, outlook.bound
            ));
        }
    }
    let (executions, turns) = (runs().count() as u64, turns.len() as u64);
    let is_within = executions <= found.executions_bound && turns <= found.turns_bound;
    is_within
        .then_some(())
        .ok_or_else(|| format!("{executions} executions in {turns} turns are more than the bounds"))
}

fn holds(plan: &Arc<Plan>, fate: &[u8]) -> Result<(), String> {
    holds_around(plan, fate, &KnownNestedResults::new(), &[])
}

/// Likewise, with agents that are ensembles, of which `inside` and the results of their executions are known.
fn holds_around(plan: &Arc<Plan>, fate: &[u8], inside: &KnownNestedResults, nested: &[bool]) -> Result<(), String> {
    let budget = |states| ExplorationBudget {
        inside: Some(inside),
        ..ExplorationBudget::with_max_states(states)
    };
    let world = ExploredPlan::new(plan.clone(), budget(1));
    let Some(everything) = everything(&world) else {
        return Ok(());
    };
    let found = explore_plan(plan, budget(10_000));
    assert!(found.coverage.is_complete(), "{:?}", found.coverage);
    let stopped = explore_plan(plan, budget(1));
    for other in 0..8_u8 {
        let fate = Arc::new(turn_fate(fate, other));
        let mut nested = nested.to_vec();
        let turned = usize::from(other).min(nested.len());
        nested.rotate_left(turned);
        let (_, records) = drive_around(plan, &fate, u64::from(other), (&[], run_started_event()), &nested);
        let (turns, end) = turns(&records);
        is_possible(&world, &everything, &turns, &end)?;
        claims_hold(plan, &found, &turns)?;
        bounds_hold(&stopped, &turns)?;
    }
    Ok(())
}

/// Returns another fate for each number.
fn turn_fate(fate: &[u8], other: u8) -> Vec<u8> {
    let turn = |fate: &u8| fate.rotate_left(u32::from(other)).wrapping_add(other);
    fate.iter().map(turn).collect()
}

/// Returns the plan whose first agent is an ensemble.
fn with_nested_agent(plan: &Plan) -> Plan {
    let mut ensemble = Ensemble::clone(plan.ensemble());
    ensemble.agents[0].kind = AgentKind::Ensemble {
        ensemble: "inner.yaml".to_owned(),
        prompt: None,
        inputs: JsonMap::new(),
    };
    Plan::build(Arc::new(ensemble)).expect("the conditions compile")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_turn_of_a_conversation_with_lists_is_called_possible(
        (plan, fate) in plan_with_lists(),
        knobs in any::<u8>(),
    ) {
        let held = holds(&Arc::new(with_strict_limits(&plan, knobs)), &fate);
        prop_assert_eq!(held, Ok(()));
    }

    #[test]
    fn claims_about_parts_hold_in_conversations_of_the_whole(
        (plan, fate) in unconnected_plan_with_results(),
        goal in any::<u16>(),
    ) {
        let plan = Arc::new(with_goal(&plan, goal));
        let found = explore_plan(&plan, ExplorationBudget::with_max_states(5_000));
        for other in 0..8_u8 {
            let fate = turn_fate(&fate, other);
            let (_, records) = drive_from_records(&plan, &Arc::new(fate), u64::from(other), &[], run_started_event());
            let (turns, (reason, success, exhausted)) = turns(&records);
            prop_assert_eq!(bounds_hold(&found, &turns), Ok(()));
            if found.coverage.is_complete() {
                prop_assert_eq!(claims_hold(&plan, &found, &turns), Ok(()));
                prop_assert!(turns.len() <= found.turns as usize);
                let is_known = |end: &PossibleEnd| {
                    end.reason == reason && end.success == success && end.exhausted == exhausted
                };
                prop_assert!(found.ends.iter().any(is_known), "{} {:?}", reason, exhausted);
            }
        }
    }

    #[test]
    fn every_turn_of_a_conversation_is_called_possible((plan, fate) in plan_with_results(), knobs in any::<u8>()) {
        let held = holds(&Arc::new(with_strict_limits(&plan, knobs)), &fate);
        prop_assert_eq!(held, Ok(()));
    }

    #[test]
    fn every_end_of_a_conversation_with_a_goal_is_called_possible(
        (plan, fate) in plan_with_results(),
        knobs in any::<u8>(),
        goal in any::<u16>(),
    ) {
        let held = holds(&Arc::new(with_goal(&with_strict_limits(&plan, knobs), goal)), &fate);
        prop_assert_eq!(held, Ok(()));
    }
}

proptest! {
    // Two explorations for each case.
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_end_around_a_nested_ensemble_is_called_possible(
        (outer, fate) in plan_with_results(),
        (inner, inner_fate) in plan_with_results(),
        knobs in any::<u8>(),
        (goal, inner_goal) in any::<(u16, u16)>(),
    ) {
        let inner = Arc::new(with_goal(&with_strict_limits(&inner, knobs.rotate_left(3)), inner_goal));
        let found = explore_plan(&inner, ExplorationBudget::with_max_states(5_000));
        let results = found.to_nested_results();
        let mut nested = Vec::new();
        for other in 0..8_u8 {
            let (_, records) = drive_from_records(&inner, &Arc::new(turn_fate(&inner_fate, other)), 1, &[], run_started_event());
            let (_, (reason, success, exhausted)) = turns(&records);
            let is_end = |end: &PossibleEnd| {
                end.reason == reason && end.success == success && end.exhausted == exhausted
            };
            prop_assert!(results.succeeds || !success, "{reason} {success}");
            prop_assert!(!found.coverage.is_complete() || found.ends.iter().any(is_end), "{reason} {success}");
            nested.push(success);
        }
        let outer = with_goal(&with_strict_limits(&outer, knobs), goal);
        let inside = KnownNestedResults::from([(outer.ensemble().agents[0].name.clone(), results)]);
        let held = holds_around(&Arc::new(with_nested_agent(&outer)), &fate, &inside, &nested);
        prop_assert_eq!(held, Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_conversation_stays_inside_what_exploration_calls_possible(
        (plan, fate) in plan_with_results(),
        knobs in any::<u8>(),
    ) {
        let (plan, fate) = (Arc::new(with_strict_limits(&plan, knobs)), Arc::new(fate));
        let found = explore_plan(&plan, ExplorationBudget::with_max_states(100));
        if !found.coverage.is_complete() {
            return Ok(());
        }
        for detours in 0..8 {
            let fate: Vec<u8> = fate.iter().map(|fate| fate.rotate_left(detours)).collect();
            let (state, _) = drive_from_records(&plan, &Arc::new(fate), 1, &[], run_started_event());
            let ended = state.run_end().expect("it ended");
            let is_end = |end: &PossibleEnd| {
                end.reason == ended.completion_reason && end.exhausted == ended.exhausted
            };
            prop_assert!(found.ends.iter().any(is_end), "{:?} is not among {:?}", ended, found.ends);
            prop_assert!(state.turn_count() <= found.turns, "{} turns", state.turn_count());
            let total: u32 = plan.agent_ids().map(|id| state.execution_count(id)).sum();
            prop_assert!(total <= found.executions, "{total} executions");
            for (id, outlook) in plan.agent_ids().zip(&found.agents) {
                let count = state.execution_count(id);
                prop_assert!(count <= outlook.most, "{} ran {count} times", outlook.agent);
                prop_assert!(count > 0 || outlook.left_out.is_some(), "{} was left out", outlook.agent);
            }
        }
    }
}
