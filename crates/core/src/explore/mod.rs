//! All conversations that an ensemble can hold, without holding one.
//!
//! The real resolver decides every step. What it cannot know is chosen instead, each way: the answer of a condition
//! that depends on what agents say (`oracle`), whether an execution succeeds, for whom an agent asks, whether a person answers
//! (`step`). Conditions that only count turns and executions are asked for real. States of which every future is the
//! same are one state (`key`), so the walk ends soon where ensembles have limits, and they all have.
//!
//! **Invariant:** nothing is called impossible that a real run can do, as long as the walk was complete; whatever is called possible
//! comes with a way there that the resolver itself has gone.

mod choices;
mod key;
mod oracle;
mod step;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use crate::conversation::{CompletionReason, NotRun};
use ensemble_language::condition::Sources;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::Plan;

pub use oracle::Assumed;
use oracle::World;
pub use step::{Fate, Ran, Told};

/// How far a walk may go.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// States to look at; each may cost [`STEPS_PER_STATE`] steps on average.
    pub states: u64,
}

/// Steps that a budget has for each of its states.
pub const STEPS_PER_STATE: u64 = 16;

/// From one state at most so many steps are tried: those with the fewest false answers, failures and requests first.
pub const STEPS_FROM_ONE_STATE: u64 = 4096;

/// What the walk has found.
#[derive(Debug)]
pub struct Exploration {
    /// How much of it was seen.
    pub coverage: Coverage,
    /// The most turns of a conversation.
    pub turns: u32,
    /// The most executions of a conversation.
    pub executions: u32,
    /// Every agent in declaration order.
    pub agents: Vec<Outlook>,
    /// How conversations can end, each with a shortest way there; `completed` first, the gravest last.
    pub ends: Vec<End>,
    /// How they can end besides, which the walk does not look at.
    pub besides: Vec<Besides>,
    /// An agent may request others. The walk lets it ask for at most one in each execution.
    pub requests: bool,
}

/// How much was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Different states.
    pub states: u64,
    /// Steps from state to state.
    pub steps: u64,
    /// The budget did not last: seen is every conversation of up to so many executions.
    pub gave_up_after: Option<u32>,
    /// So many states had more steps than are tried from one.
    pub cut: u64,
}

/// What can become of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The agent.
    pub agent: Arc<str>,
    /// The most executions of it in a conversation; 0: it never runs.
    pub most: u32,
    /// Its `max_turns`.
    pub limit: u32,
    /// A conversation can end without it; why, the first time that was seen.
    pub left_out: Option<String>,
}

/// A way to end.
#[derive(Debug)]
pub struct End {
    /// The outcome.
    pub reason: CompletionReason,
    /// In words, where there is more to say.
    pub detail: Option<String>,
    /// Who never ran.
    pub not_run: Vec<NotRun>,
    /// An agent's last execution failed.
    pub after_failure: bool,
    /// Turns that finish on the way.
    pub turns: u32,
    /// The way there. The last element has no executions if a condition decides the end.
    pub way: Vec<Told>,
}

/// An outcome that is possible and not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Besides {
    /// The outcome.
    pub reason: CompletionReason,
    /// In which case.
    pub when: String,
}

impl Coverage {
    /// Was every conversation seen?
    pub fn is_complete(&self) -> bool {
        self.gave_up_after.is_none() && self.cut == 0
    }
}

/// Walks through the conversations of a plan.
pub fn explore(plan: &Arc<Plan>, budget: Budget) -> Exploration {
    let world = World::new(plan.clone());
    let mut walk = walk::Walk::new(&world, budget);
    walk.go();
    walk.found(besides(plan, &world))
}

fn besides(plan: &Plan, world: &World) -> Vec<Besides> {
    let mut besides = Vec::new();
    let mut add = |reason, when: String| besides.push(Besides { reason, when });
    if world.claims().any(|reads: Sources| !reads.are_counts()) {
        add(
            CompletionReason::ConditionFailed,
            "a condition has no answer, as when it orders a text and a number".to_owned(),
        );
    }
    add(CompletionReason::Cancelled, "somebody stops the run".to_owned());
    let seconds = plan.ensemble().limits.timeout.as_secs();
    add(
        CompletionReason::Timeout,
        format!("it takes longer than {seconds} seconds"),
    );
    let inner = plan.ensemble().agents.iter();
    let inner: Vec<&str> = inner
        .filter(|agent| matches!(agent.kind, AgentKind::Ensemble { .. }))
        .map(|agent| &*agent.name)
        .collect();
    if !inner.is_empty() {
        let names = inner.join(", ");
        add(
            CompletionReason::WaitingForInput,
            format!("a person is asked inside {names}"),
        );
    }
    besides
}
