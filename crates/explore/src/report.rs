//! The steps of a walk in the form for reports.

use std::sync::Arc;

use ensemble_language::data::Cost;

/// Part of a condition that the exploration assumed to be true or false.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssumedClaim {
    /// The expression that contains the part.
    pub site: ClaimSite,
    /// The text of this part of the condition.
    pub claim: Arc<str>,
    /// The assumed result.
    pub answer: bool,
}

/// Expression that contains claims: the condition of a dependency, or `success`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimSite {
    /// The condition of a dependency.
    Dependency {
        /// The agent that has the dependency.
        agent: Arc<str>,
        /// The agent that it depends on.
        dependency: Arc<str>,
        /// The position of the dependency in the agent's list, from 0.
        position: usize,
    },
    /// `success` of the ensemble.
    Success,
}

/// Step of a conversation in the form for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReport {
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The assumed results of conditions that were not assumed before.
    pub assumed: Vec<AssumedClaim>,
    /// The executions of the turn; none if the conversation ends without another turn.
    pub runs: Vec<ExploredExecution>,
}

/// Execution in an explored conversation, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExploredExecution {
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The result of the execution.
    pub result: ExecutionResult,
    /// The agent that it requested.
    pub requests: Option<Arc<str>>,
    /// The budget that the execution used up.
    pub spent_budget: Option<SpentBudget>,
}

/// Budget of the whole conversation that an execution has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpentBudget {
    /// `max_total_tokens`.
    Tokens(u64),
    /// `max_cost`.
    Cost(Cost),
}

/// Result of an explored execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionResult {
    /// The execution succeeded.
    Succeeded,
    /// The execution failed.
    Failed,
    /// The execution asked a question, and the question was not answered.
    Unanswered,
}
