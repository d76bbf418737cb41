//! Enumerates all conversations that an ensemble can hold, without executing an agent.
//!
//! The resolver of real runs decides every step. For everything that it cannot know, all options are tried: the result
//! of a condition that depends on outputs (`oracle`), whether an execution succeeds, which agent an execution requests,
//! and whether a person answers (`step`). Conditions that only count turns and executions are evaluated. States with
//! the same possible futures count as one state (`key`). Parts of the ensemble that do not influence each other
//! (`parts`) are examined separately, and the results are put together (`apart`). Ensembles always have limits, so the
//! walk ends.
//!
//! **Invariant:** if the walk was complete, nothing that a real run can do is reported as impossible. Everything that
//! is reported as possible has an example path, in which the resolver itself decided every step.

#[cfg(test)]
mod apart_tests;
mod bound;
mod choices;
#[cfg(test)]
mod conversation_tests;
mod equivalence;
mod examples;
mod goal;
mod joint_exploration;
mod key;
mod nested_results;
mod oracle;
mod parts;
#[cfg(test)]
mod path_tests;
mod report;
mod step;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;

use ensemble_core::conversation::{AgentNotRun, CompletionReason, ExhaustedAgent};
use ensemble_language::condition::ClaimReads;
use ensemble_language::ensemble::{AcpAgent, AcpToolKind, Agent, AgentKind, Ensemble, PermissionMode};
use ensemble_language::plan::{CompiledResult, Plan};

pub use equivalence::have_same_conversations;
pub use examples::find_goal_examples;
pub use goal::ExplorationGoal;
pub use nested_results::{KnownNestedResults, NestedResults};
use oracle::ExploredPlan;
pub use report::{AssumedClaim, ClaimSite, ExecutionResult, ExploredExecution, SpentBudget, StepReport};

/// Limits and assumptions of a walk.
#[derive(Debug, Clone, Copy)]
pub struct ExplorationBudget<'b> {
    /// The number of states to examine. Each may cost [`STEPS_PER_STATE`] steps on average.
    pub states: u64,
    /// Whether nobody is there who could answer: a question without a `default` and without `responses` has no answer.
    pub nobody_answers: bool,
    /// What is known of the ensembles inside; without it, an agent that is an ensemble succeeds or fails.
    pub inside: Option<&'b KnownNestedResults>,
}

impl ExplorationBudget<'_> {
    /// Creates a budget of this number of states. An operator can answer, and nothing is known of nested ensembles.
    pub fn with_max_states(states: u64) -> Self {
        Self {
            states,
            nobody_answers: false,
            inside: None,
        }
    }
}

/// Number of steps that a budget allows for each of its states.
pub const STEPS_PER_STATE: u64 = 16;

/// Largest number of steps tried from one state. Steps with few false conditions, failures and requests are tried first.
pub const MAX_STEPS_FROM_STATE: u64 = 4096;

/// Result of a walk through the conversations of an ensemble.
///
/// After an incomplete walk, the highest numbers are those of the examined conversations: they show what is possible, not what is
/// impossible.
#[derive(Debug)]
pub struct Exploration {
    /// The part of the conversations that was examined.
    pub coverage: ExplorationCoverage,
    /// The highest number of turns of a conversation.
    pub turns: u32,
    /// The highest number of executions of a conversation.
    pub executions: u32,
    /// No conversation has more turns, also if the walk was not complete.
    pub turns_bound: u64,
    /// No conversation has more executions, also if the walk was not complete.
    pub executions_bound: u64,
    /// All agents, in declaration order.
    pub agents: Vec<ExploredAgentSummary>,
    /// The possible ends of conversations, each with a shortest path to it; `completed` first, the most serious last.
    pub ends: Vec<PossibleEnd>,
    /// Whether there are more ends, which differ from these only in the exhausted agents: independent parts multiply them.
    pub are_ends_cut: bool,
    /// Further possible outcomes, which the walk does not examine.
    pub besides: Vec<UnexploredOutcome>,
    /// The executions, starts over dependencies and results of conditions that conversations can reach.
    pub reached: BTreeSet<ExplorationGoal>,
    /// Whether an agent may request other agents. The walk tries at most one request for each execution.
    pub requests: bool,
}

/// Extent of the examined conversations: states, steps, and the limit that ended the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplorationCoverage {
    /// The number of different states.
    pub states: u64,
    /// The number of steps between states.
    pub steps: u64,
    /// The number of independent parts of the ensemble that were examined separately; 1: the whole at once.
    pub parts: u32,
    /// The limit that ended the walk.
    pub stopped_by: Option<ExplorationLimit>,
    /// If a limit ended the walk: it examined all conversations with fewer executions than this number.
    pub complete_below: Option<u32>,
    /// The number of states with more steps than are tried from one state.
    pub cut: u64,
}

/// A limit that ends a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplorationLimit {
    /// The number of states, or of the steps that it allows.
    States,
    /// The time.
    Time,
}

/// Numbers of executions of an agent in the examined conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExploredAgentSummary {
    /// The agent.
    pub agent: Arc<str>,
    /// The highest number of its executions in a conversation that was examined.
    pub most: u32,
    /// It has no more executions in any conversation, also if the walk was not complete; 0: it never runs.
    pub bound: u64,
    /// Its `max_turns`.
    pub limit: u32,
    /// A conversation can end without an execution of the agent; the value is the first reason that was found.
    pub left_out: Option<String>,
}

/// A possible end of a conversation.
#[derive(Debug)]
pub struct PossibleEnd {
    /// The outcome.
    pub reason: CompletionReason,
    /// Whether the exit code is 0.
    pub success: bool,
    /// Details of the outcome, as text.
    pub detail: Option<String>,
    /// The agents that never ran.
    pub not_run: Vec<AgentNotRun>,
    /// The agents that still had work when their own limits kept them from running.
    pub exhausted: Vec<ExhaustedAgent>,
    /// Whether the last execution of an agent failed.
    pub after_failure: bool,
    /// The number of turns that finish on the path.
    pub turns: u32,
    /// The path. Its last element has no executions if the evaluation of a condition ends the conversation.
    pub path: Vec<StepReport>,
}

/// A possible outcome that the walk does not examine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnexploredOutcome {
    /// The outcome.
    pub reason: CompletionReason,
    /// When it occurs.
    pub when: String,
}

impl ExplorationCoverage {
    /// Returns whether all conversations were examined.
    pub fn is_complete(&self) -> bool {
        self.stopped_by.is_none() && self.cut == 0
    }
}

/// Enumerates the conversations of a plan without a time limit.
pub fn explore_plan(plan: &Arc<Plan>, budget: ExplorationBudget<'_>) -> Exploration {
    explore_while_time_remains(plan, budget, &|| true)
}

/// Enumerates the conversations of a plan until `has_time` returns false. The function is called before every step.
pub fn explore_while_time_remains(
    plan: &Arc<Plan>,
    budget: ExplorationBudget<'_>,
    has_time: &dyn Fn() -> bool,
) -> Exploration {
    let world = ExploredPlan::new(plan.clone(), budget);
    let besides = list_unexplored_outcomes(plan, &world, budget);
    let parts = parts::split_into_independent_parts(&world);
    let apart =
        parts.and_then(|parts| joint_exploration::explore_parts_jointly(&world, &parts, budget, has_time, &besides));
    let mut exploration = apart.unwrap_or_else(|| explore_whole(&world, budget, has_time, besides));
    bound::set_proven_bounds(plan, &mut exploration);
    exploration
}

/// Explores the ensemble as a whole, even if the ensemble has independent parts.
fn explore_whole(
    world: &ExploredPlan,
    budget: ExplorationBudget<'_>,
    has_time: &dyn Fn() -> bool,
    besides: Vec<UnexploredOutcome>,
) -> Exploration {
    let mut walk = walk::StateWalk::new(world, budget, has_time);
    walk.walk_until_limit();
    walk.into_exploration(besides)
}

/// Returns the outcomes that the walk does not examine: failing conditions, timeouts, permissions.
fn list_unexplored_outcomes(
    plan: &Plan,
    world: &ExploredPlan,
    budget: ExplorationBudget<'_>,
) -> Vec<UnexploredOutcome> {
    let mut besides = Vec::new();
    let mut add = |reason, when: String| besides.push(UnexploredOutcome { reason, when });
    if world
        .list_claim_reads()
        .any(|reads: ClaimReads| !reads.reads_only_counts())
    {
        add(
            CompletionReason::ConditionFailed,
            "a condition cannot be evaluated, for example because it compares a text with a number".to_owned(),
        );
    }
    if plan.success_condition().is_some() {
        add(
            CompletionReason::ConditionFailed,
            "`success` cannot be evaluated".to_owned(),
        );
    }
    if matches!(plan.result(), Some(CompiledResult::Map(_))) {
        add(
            CompletionReason::ConditionFailed,
            "an expression of `result` cannot be evaluated".to_owned(),
        );
    }
    add(CompletionReason::Cancelled, "the run is cancelled".to_owned());
    let seconds = plan.ensemble().limits.timeout.as_secs();
    add(
        CompletionReason::Timeout,
        format!("it takes longer than {seconds} seconds"),
    );
    let agents = plan.ensemble().agents.iter();
    let names = |wanted: &dyn Fn(&Agent) -> bool| {
        let names = agents.clone().filter(|agent| wanted(agent)).map(|agent| &*agent.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let is_unknown = |agent: &Agent| {
        let inner = budget.inside.and_then(|inside| inside.get(&agent.name));
        matches!(agent.kind, AgentKind::Ensemble { .. }) && inner.is_none_or(|inner| !inner.waits && !inner.is_whole)
    };
    let asks = |agent: &Agent| can_wait_for_tool_permission(plan.ensemble(), agent);
    let whens = [
        (names(&is_unknown), "a person is asked inside"),
        (names(&asks), "a permission is not given to"),
    ];
    for (names, when) in whens.into_iter().filter(|(names, _)| !names.is_empty()) {
        add(CompletionReason::WaitingForInput, format!("{when} {names}"));
    }
    besides
}

/// Returns whether a tool call of the agent can wait for the permission of a person.
fn can_wait_for_tool_permission(ensemble: &Ensemble, agent: &Agent) -> bool {
    let asks = |acp: &AcpAgent| {
        AcpToolKind::ALL
            .iter()
            .any(|(_, kind)| acp.permission_for(*kind) == PermissionMode::Ask)
    };
    let is_asking_acp = matches!(&agent.kind, AgentKind::Llm(llm) if llm.acp_agent().is_some_and(|acp| asks(acp)));
    is_asking_acp
        || agent.kind.callable_tools().iter().any(|used| {
            let tool = ensemble.find_tool(&used.tool);
            tool.is_some_and(|tool| tool.permission == PermissionMode::Ask)
        })
}
