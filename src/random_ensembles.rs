//! Random ensembles for property tests: small, and full of loops, conditions, failures and requests.

use std::num::NonZeroU32;
use std::sync::Arc;

use proptest::prelude::*;

use crate::ensemble::{
    Agent, AgentKind, Conversation, Declared, Dependency, Ending, Ensemble, Limits, OnError, OnResume, Retry, Trigger,
};
use crate::plan::Plan;

/// Conditions that never fail and change their answer as a conversation goes on.
const CONDITIONS: [&str; 5] = [
    "turn_count % 2 == 0",
    "len(history) > 3",
    "context.get('n', 0) > 1",
    "executions.get('a0', 0) < 2",
    "True",
];

fn dependency(agents: usize) -> impl Strategy<Value = Dependency> {
    let on = prop_oneof![3 => Just(Ending::Success), 1 => Just(Ending::Failure), 1 => Just(Ending::Any)];
    let condition = prop::option::of(prop::sample::select(CONDITIONS.to_vec()));
    (
        0..agents,
        condition,
        prop::option::of(1_u32..4),
        any::<bool>(),
        prop::bool::weighted(0.4),
        on,
    )
        .prop_map(|(from, condition, max, requires_all, feedback, on)| Dependency {
            agent_name: format!("a{from}").into(),
            condition: condition.map(str::to_owned),
            max_executions: max.and_then(NonZeroU32::new),
            requires_all,
            feedback,
            on,
            declared: Declared::Dependencies(0),
        })
}

fn agent(at: usize, agents: usize) -> impl Strategy<Value = Agent> {
    let dependencies = prop::collection::vec(dependency(agents), 0..4);
    (dependencies, 1_u32..5, prop::bool::weighted(0.2), any::<bool>()).prop_map(
        move |(dependencies, max_turns, every_turn, triggers)| Agent {
            name: format!("a{at}").into(),
            description: None,
            kind: AgentKind::Script { script: "x".into() },
            config: serde_json::Map::new(),
            dependencies,
            conversation: Conversation {
                max_turns: NonZeroU32::new(max_turns).expect("at least 1"),
                state_key: None,
                triggers_conversation: triggers,
                trigger: if every_turn { Trigger::EveryTurn } else { Trigger::News },
                on_resume: OnResume::Reuse,
            },
            output_schema: None,
            timeout: None,
            retry: Retry::default(),
            on_error: OnError::Continue,
        },
    )
}

/// Agents, and what each execution comes to.
pub fn conversation() -> impl Strategy<Value = (Plan, Vec<u8>)> {
    let agents = (1_usize..6).prop_flat_map(|count| (0..count).map(|at| agent(at, count)).collect::<Vec<_>>());
    (agents, prop::collection::vec(any::<u8>(), 64)).prop_map(|(agents, fate)| (plan(agents), fate))
}

fn plan(agents: Vec<Agent>) -> Plan {
    let ensemble = Ensemble {
        name: "random".into(),
        description: None,
        agents,
        limits: Limits::default(),
        model_profiles: Vec::new(),
        default_task: None,
    };
    Plan::build(Arc::new(ensemble)).expect("the conditions compile")
}
