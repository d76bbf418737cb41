//! Random ensembles for property tests: small, with many loops, conditions, failures and requests.

mod lists;

use std::num::NonZeroU32;
use std::sync::Arc;

use proptest::prelude::*;

use crate::condition::ConditionText;
use crate::ensemble::{
    Agent, AgentKind, AgentTrigger, ConversationLimits, ConversationSpec, Dependency, DependencyPosition, Ensemble,
    OnError, OnLimit, OnResume, RequiredResult, RetryPolicy, WaitForOutputs,
};
use crate::plan::Plan;

pub use lists::plan_with_lists;

/// Conditions that never fail and whose results change during a conversation.
const CHANGING_CONDITIONS: [&str; 6] = [
    "turn_count % 2 == 0",
    "turn_count % 2 == 1",
    "len(history) > 3",
    "context.get('n', 0) > 1",
    "executions.get('a0', 0) < 2",
    "True",
];

/// Conditions of which never both hold.
const EXCLUSIVE_CONDITIONS: [&str; 2] = [
    "output != None and output.get('n', 0) > 1",
    "output != None and output.get('n', 0) <= 1",
];

/// Generates a dependency on one of the agents `a0`, `a1`, …
fn random_dependency(agents: usize) -> impl Strategy<Value = Dependency> {
    let wait_for = prop_oneof![4 => Just(WaitForOutputs::Update), 1 => Just(WaitForOutputs::Settled), 1 => Just(WaitForOutputs::Nothing)];
    let on = prop_oneof![3 => Just(RequiredResult::Success), 1 => Just(RequiredResult::Failure), 1 => Just(RequiredResult::Any)];
    let condition = prop::option::of(prop::sample::select(CHANGING_CONDITIONS.to_vec()));
    (
        0..agents,
        condition,
        prop::option::of(1_u32..4),
        any::<bool>(),
        prop::bool::weighted(0.4),
        on,
        wait_for,
    )
        .prop_map(
            |(from, condition, max, requires_all, feedback, on, wait_for)| Dependency {
                agent_name: format!("a{from}").into(),
                condition: condition.map(Into::into),
                max_executions: max.and_then(NonZeroU32::new),
                requires_all,
                feedback,
                on,
                wait_for,
                declared_at: DependencyPosition::Dependencies(0),
            },
        )
}

/// Generates the agent `a{at}` of an ensemble with this number of agents.
fn random_agent(at: usize, agents: usize) -> impl Strategy<Value = Agent> {
    let dependencies = prop::collection::vec(random_dependency(agents), 0..4);
    let trigger = prop_oneof![7 => Just(AgentTrigger::News), 2 => Just(AgentTrigger::EveryTurn), 1 => Just(AgentTrigger::Request)];
    (dependencies, 1_u32..5, trigger, any::<bool>()).prop_map(move |(dependencies, max_turns, trigger, triggers)| {
        Agent {
            name: format!("a{at}").into(),
            description: None,
            kind: AgentKind::Script {
                args: Vec::new(),
                stdin: None,
                script: "x".into(),
                env: Vec::new(),
            },
            config: serde_json::Map::new(),
            dependencies,
            for_each: None,
            sandbox: None,
            conversation: ConversationSpec {
                max_turns: NonZeroU32::new(max_turns).expect("at least 1"),
                state_key: None,
                triggers_conversation: triggers,
                trigger,
                on_resume: OnResume::Reuse,
                history: 0,
            },
            output_schema: None,
            timeout: None,
            retry: RetryPolicy::default(),
            on_error: OnError::Continue,
            required: false,
        }
    })
}

/// Generates a plan, and bytes that choose the results of the executions.
pub fn plan_with_results() -> impl Strategy<Value = (Plan, Vec<u8>)> {
    let agents = (1_usize..6).prop_flat_map(|count| (0..count).map(|at| random_agent(at, count)).collect::<Vec<_>>());
    (agents, prop::collection::vec(any::<u8>(), 64)).prop_map(|(agents, fate)| (plan_of_agents(agents), fate))
}

/// Conditions that are never true, written in several ways.
const NEVER_TRUE_CONDITIONS: [&str; 4] = [
    "False",
    "turn_count < 0",
    "len(history) > 3 and len(history) < 2",
    "not (turn_count == 1 or turn_count != 1)",
];

/// Generates a plan with tight limits, few requests and some conditions that are never true, and bytes for the results of
/// several conversations.
pub fn limited_plan_with_results() -> impl Strategy<Value = (Plan, Vec<Vec<u8>>)> {
    let agents = (2_usize..7).prop_flat_map(|count| (0..count).map(|at| random_agent(at, count)).collect::<Vec<_>>());
    let twists = prop::collection::vec(any::<u8>(), 24);
    let cap = prop::option::of((0_usize..7, 1_u32..3));
    let fates = prop::collection::vec(prop::collection::vec(any::<u8>(), 40), 4);
    (agents, twists, 1_u32..8, cap, fates).prop_map(|(mut agents, twists, turns, cap, fates)| {
        let mut twists = twists.into_iter().cycle();
        let mut twist = || usize::from(twists.next().unwrap_or_default());
        for agent in &mut agents {
            agent.conversation.triggers_conversation &= twist().is_multiple_of(8);
            for dependency in &mut agent.dependencies {
                match twist() {
                    at if at.is_multiple_of(4) => {
                        dependency.condition = Some(NEVER_TRUE_CONDITIONS[at / 4 % NEVER_TRUE_CONDITIONS.len()].into())
                    }
                    at if at.is_multiple_of(3) => dependency.condition = None,
                    at if at.is_multiple_of(5) => dependency.condition = Some(EXCLUSIVE_CONDITIONS[at / 5 % 2].into()),
                    _ => {}
                }
            }
        }
        let capped = cap.and_then(|(at, cap)| Some((agents.get(at)?.name.clone(), NonZeroU32::new(cap)?)));
        let limits = ConversationLimits {
            max_total_turns: NonZeroU32::new(turns).expect("at least 1"),
            max_agent_executions: capped.into_iter().collect(),
            ..ConversationLimits::default()
        };
        (plan_with_limits(agents, limits), fates)
    })
}

/// Builds a plan with the default limits.
fn plan_of_agents(agents: Vec<Agent>) -> Plan {
    plan_with_limits(agents, ConversationLimits::default())
}

/// Builds a plan with these limits.
fn plan_with_limits(agents: Vec<Agent>, limits: ConversationLimits) -> Plan {
    let ensemble = Ensemble {
        inputs: None,
        result: None,
        success: None,
        name: "random".into(),
        description: None,
        agents,
        limits,
        model_profiles: Vec::new(),
        tools: Vec::new(),
        default_task: None,
    };
    Plan::build(Arc::new(ensemble)).expect("the conditions compile")
}

/// Conditions of the agents of a part, whose names begin with `P`.
const PART_CONDITIONS: [&str; 5] = [
    "output != None and output.get('n', 0) > 1",
    "output != None and output.get('n', 0) <= 1",
    "executions.get('P0', 0) < 2",
    "executions.P0 >= 2",
    "True",
];

/// Generates a plan of two or three parts that do not depend on each other, and bytes that choose the results of the executions.
pub fn unconnected_plan_with_results() -> impl Strategy<Value = (Plan, Vec<u8>)> {
    let agents =
        || (1_usize..4).prop_flat_map(|count| (0..count).map(|at| random_agent(at, count)).collect::<Vec<_>>());
    let parts = prop::collection::vec(agents(), 2..4);
    let twists = prop::collection::vec(any::<u8>(), 24);
    (parts, twists, 1_u32..12, prop::collection::vec(any::<u8>(), 64)).prop_map(|(parts, twists, turns, fate)| {
        let mut twists = twists.into_iter().cycle();
        let mut all = Vec::new();
        for (prefix, agents) in ["a", "b", "c"].into_iter().zip(parts) {
            for agent in agents {
                all.push(move_into_part(agent, prefix, &mut || {
                    usize::from(twists.next().unwrap_or_default())
                }));
            }
        }
        let limits = ConversationLimits {
            max_total_turns: NonZeroU32::new(turns).expect("at least 1"),
            ..ConversationLimits::default()
        };
        (plan_with_limits(all, limits), fate)
    })
}

/// Renames the agent and its dependencies with the prefix, and limits its conditions to agents of its part.
fn move_into_part(mut agent: Agent, prefix: &str, twist: &mut dyn FnMut() -> usize) -> Agent {
    let renamed = |name: &str| format!("{prefix}{}", name.trim_start_matches('a')).into();
    agent.name = renamed(&agent.name);
    agent.conversation.triggers_conversation = false;
    let max_turns = agent.conversation.max_turns.get().min(3);
    let may_listen = twist().is_multiple_of(32);
    let max_turns = if agent.dependencies.is_empty() && !may_listen {
        1
    } else {
        max_turns
    };
    agent.conversation.max_turns = NonZeroU32::new(max_turns).expect("at least 1");
    if twist().is_multiple_of(3) {
        agent.on_error = OnError::Fail;
    }
    for dependency in &mut agent.dependencies {
        dependency.agent_name = renamed(&dependency.agent_name);
        let condition = PART_CONDITIONS[twist() % PART_CONDITIONS.len()].replace('P', prefix);
        dependency.condition = (twist().is_multiple_of(2)).then(|| condition.into());
        dependency.feedback |= twist().is_multiple_of(4);
    }
    agent
}

/// Returns the ensemble with limits that can be reached, and with agents whose failure makes the run fail. `knobs` chooses them.
pub fn with_strict_limits(plan: &Plan, knobs: u8) -> Plan {
    let mut ensemble = Ensemble::clone(plan.ensemble());
    if knobs.is_multiple_of(2) {
        ensemble.limits.max_total_turns = NonZeroU32::new(u32::from(knobs / 2 % 5) + 1).expect("at least 1");
    }
    if knobs.is_multiple_of(3) {
        let cap = NonZeroU32::new(u32::from(knobs / 3 % 3) + 1).expect("at least 1");
        ensemble.limits.max_agent_executions = vec![("a0".into(), cap)];
    }
    for (at, agent) in ensemble.agents.iter_mut().enumerate() {
        if (knobs >> (at % 8)) & 1 == 1 {
            agent.on_error = OnError::Fail;
        }
    }
    Plan::build(Arc::new(ensemble)).expect("the conditions compile")
}

/// Expressions for `success`; all of them have a value in every state.
const SUCCESS_EXPRESSIONS: [&str; 5] = [
    "turn_count > 2",
    "executions.get('a0', 0) >= 2",
    "context.get('n', 0) > 1",
    "outputs.get('a0', {}).get('n', 0) > 0",
    "len(history) > 3 or executions.get('a0', 0) == 0",
];

/// Returns the ensemble with `success`, required agents, limits that end normally, and agents that stop the run. `knobs` chooses them.
pub fn with_goal(plan: &Plan, knobs: u16) -> Plan {
    let mut ensemble = Ensemble::clone(plan.ensemble());
    let goal = SUCCESS_EXPRESSIONS.get(usize::from(knobs % 8));
    ensemble.success = goal.map(|goal| ConditionText::parse_without_output(goal).expect("an expression"));
    if knobs & 8 == 0 {
        ensemble.limits.on_limit = OnLimit::Succeed;
    }
    for (at, agent) in ensemble.agents.iter_mut().enumerate() {
        agent.required = (knobs >> (4 + at % 5)) & 1 == 1 && at % 2 == 0;
        if (knobs >> (9 + at % 7)) & 3 == 3 {
            agent.on_error = OnError::Stop;
        }
    }
    Plan::build(Arc::new(ensemble)).expect("the conditions compile")
}

/// Generates plans with loops and with conditions that count executions, without other conditions and without requests.
pub fn plan_with_counts() -> impl Strategy<Value = Plan> {
    let agents = (3_usize..6).prop_flat_map(|count| (0..count).map(|at| random_agent(at, count)).collect::<Vec<_>>());
    let twists = prop::collection::vec(any::<u8>(), 24);
    (agents, twists).prop_map(|(mut agents, twists)| {
        let mut twists = twists.into_iter().cycle();
        let mut twist = || usize::from(twists.next().unwrap_or_default());
        let count = agents.len();
        for (at, agent) in agents.iter_mut().enumerate() {
            agent.conversation.triggers_conversation = false;
            for dependency in &mut agent.dependencies {
                let (counted, least) = (twist() % count, twist() % 3 + 2);
                let is_counting = twist().is_multiple_of(4);
                dependency.condition = is_counting.then(|| format!("executions.a{counted} >= {least}").into());
                if !twist().is_multiple_of(4) {
                    dependency.on = RequiredResult::Success;
                    dependency.max_executions = None;
                }
                // Most loops can start: an agent waits for those before it.
                let from = dependency.agent_name.trim_start_matches('a').parse().unwrap_or(0);
                dependency.feedback |= at <= from;
            }
        }
        plan_of_agents(agents)
    })
}
