//! The bounds that checks work with hold in random conversations.

use std::sync::Arc;

use ensemble_language::check::{EarlyCountBound, compute_run_bounds, infer_condition_types};
use ensemble_language::condition::{ConditionSnapshot, VariableTypes};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::{limited_plan_with_results, plan_with_counts};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::conversation::ConversationState;
use crate::random_conversations::perform_random_conversation;

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_run_exceeds_the_bounds((plan, fates) in limited_plan_with_results()) {
        let plan = Arc::new(plan);
        let bounds = compute_run_bounds(plan.ensemble());
        for fate in fates {
            let driver = perform_random_conversation(&plan, fate);
            let state = driver.state();
            for id in plan.agent_ids() {
                let executions = u64::from(state.execution_count(id));
                prop_assert!(!bounds.never_run.contains(&id.index()) || executions == 0, "{} ran", plan.agent_name(id));
                let most = bounds.max_executions[id.index()];
                prop_assert!(executions <= most, "{} ran {executions} times", plan.agent_name(id));
                for (most, (at, _)) in bounds.max_starts[id.index()].iter().zip(plan.incoming_edges(id)) {
                    prop_assert!(u64::from(state.edge_start_count(at)) <= *most);
                }
            }
        }
    }

    /// Types never leave out a value that occurs, so no warning about types is contradicted by a run.
    #[test]
    fn every_value_of_a_run_has_the_type_that_the_checks_know((plan, fates) in limited_plan_with_results(), closed in any::<bool>()) {
        let mut ensemble = Ensemble::clone(plan.ensemble());
        for agent in &mut ensemble.agents {
            agent.output_schema = Some(json!({
                "type": "object", "required": ["n"], "additionalProperties": !closed,
                "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 2}, "agent_requests": {"type": "array", "items": {
                    "type": "object", "required": ["target_agent"], "properties": {"target_agent": {"type": "string"}, "priority": {"type": "integer"}}}}},
            }));
        }
        let known = infer_condition_types(&ensemble);
        let plan = Arc::new(plan);
        for fate in fates {
            let facts = perform_random_conversation(&plan, fate).state().condition_values_without_output();
            for (what, is_admitted) in admitted(&known, &facts) {
                prop_assert!(is_admitted, "{what}: {known:?}");
            }
        }
    }

    #[test]
    fn a_count_that_is_reported_starts_its_agent_at_once(plan in plan_with_counts()) {
        let plan = Arc::new(plan);
        // Every execution succeeds.
        let driver = perform_random_conversation(&plan, vec![1]);
        for early in compute_run_bounds(plan.ensemble()).early_counts {
            let late = is_late(&plan, driver.state(), early);
            prop_assert!(!late, "{early:?} {:#?}", plan.ensemble().agents);
        }
    }
}

/// Whether the agent has not started in the turn after the one in which the count was reached.
fn is_late(plan: &Plan, state: &ConversationState, early: EarlyCountBound) -> bool {
    let EarlyCountBound {
        agent,
        dependency,
        counted,
        count,
    } = early;
    let turns = |at: usize| {
        let name = plan.ensemble().agents[at].name.clone();
        let history: Vec<(u32, bool)> = state
            .list_executions()
            .map(|one| (one.turn_number, one.agent_name == name))
            .collect();
        history
            .into_iter()
            .filter(|(_, is_own)| *is_own)
            .map(|(turn, _)| turn)
            .collect::<Vec<u32>>()
    };
    let reached = turns(counted).get(usize::try_from(count - 1).expect("small")).copied();
    let Some(reached) = reached.filter(|turn| state.turn_count() > *turn) else {
        return false;
    };
    let has_run = |at: usize, until: u32| turns(at).first().is_some_and(|first| *first <= until);
    let most = plan.ensemble().limits.max_total_turns.get();
    let reads = state.turn_count() >= most || turns(dependency).iter().any(|turn| *turn > reached);
    has_run(dependency, reached) && !(has_run(agent, reached + 1) && reads)
}

/// Returns the values of the state, and whether what is known of each admits it.
fn admitted(known: &VariableTypes, facts: &ConditionSnapshot) -> Vec<(String, bool)> {
    let context: Map<String, Value> = facts
        .context
        .iter()
        .map(|(key, value)| (key.to_string(), Value::clone(value)))
        .collect();
    let count = |name: Arc<str>| {
        let count = facts.executions.execution_count(&name).expect("a count of each name");
        (name.to_string(), json!(count))
    };
    let executions: Map<String, Value> = facts.executions.agent_names().into_iter().map(count).collect();
    let output = |name: Arc<str>| {
        let output = facts.outputs.latest_output(&name).expect("an output of each name");
        (name.to_string(), Value::clone(&output))
    };
    let outputs: Map<String, Value> = facts.outputs.agents_with_output().into_iter().map(output).collect();
    let entry = |at: usize| -> Value {
        let fields = facts.history.field_names().iter();
        let field = |name: &&str| Some(((*name).to_owned(), Value::clone(&*facts.history.field_value(at, name)?)));
        Value::Object(fields.filter_map(field).collect())
    };
    let history: Vec<Value> = (0..facts.history.len()).map(entry).collect();
    let all = [
        ("turn_count", &known.turn_count, json!(facts.turn_count)),
        ("context", &known.context, Value::Object(context)),
        ("executions", &known.executions, Value::Object(executions)),
        ("outputs", &known.outputs, Value::Object(outputs)),
        ("history", &known.history, Value::Array(history)),
    ];
    all.into_iter()
        .map(|(name, of, value)| (format!("{name} {value}"), of.contains_value(&value)))
        .collect()
}
