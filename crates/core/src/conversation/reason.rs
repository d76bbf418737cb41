//! Why an agent does not run in a turn.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use ensemble_language::condition::Read;
use ensemble_language::ensemble::WaitFor;

/// The reason why an agent does not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// Agents that it depends on have not ended with the required result.
    WaitingFor {
        /// The agents.
        agents: Vec<Arc<str>>,
    },
    /// A condition was false.
    ConditionFalse {
        /// The agent that the condition reads.
        dependency: Arc<str>,
        /// The text of the condition.
        condition: Arc<str>,
        /// The values that the condition read.
        values: Vec<Read>,
    },
    /// The agent has reached one of its limits: `max_turns`, or the `max_executions` of a dependency.
    LimitReached {
        /// The limit.
        limit: Arc<str>,
        /// The number of executions at which the limit was reached.
        count: u32,
    },
    /// The agent is ready, but what it would read is about to be replaced.
    Waits {
        /// The dependencies that it waits for.
        dependencies: Vec<Awaited>,
    },
    /// There is no new output that the agent has not read.
    NothingNew,
    /// The agent belongs to a tool, and does not run by itself.
    OnlyTool,
    /// The agent was ready, but the run had ended.
    RunEnded,
}

/// A dependency for which a ready agent waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Awaited {
    /// The agent that is depended on.
    pub agent: Arc<str>,
    /// The position of the dependency, from 0.
    pub position: usize,
    /// What the agent waits for.
    pub wait_for: WaitFor,
    /// An agent that is ready now and whose execution can lead to an output of `agent`; often `agent` itself.
    pub ready: Arc<str>,
}

/// The text for reports: `waits for critic, which is about to answer again`.
impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            agent, ready, wait_for, ..
        } = self;
        match wait_for {
            WaitFor::Settled if agent == ready => {
                write!(f, "waits until {agent} has settled; it is about to answer again")
            }
            WaitFor::Settled => write!(f, "waits until {agent} has settled; {ready} is about to run"),
            _ if agent == ready => write!(f, "waits for {agent}, which is about to answer again"),
            _ => write!(f, "waits for {agent}, which is about to answer again after {ready}"),
        }
    }
}

/// The text for reports: `waiting for writer`, `condition false: …`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingFor { agents } => write!(f, "waiting for {}", agents.join(", ")),
            Self::ConditionFalse {
                dependency,
                condition,
                values,
            } => {
                write!(f, "condition false on {dependency}: {condition}")?;
                for (at, read) in values.iter().enumerate() {
                    let separator = if at == 0 { " (" } else { ", " };
                    write!(f, "{separator}{} = {}", read.expression, read.value)?;
                }
                if values.is_empty() { Ok(()) } else { f.write_str(")") }
            }
            Self::LimitReached { limit, count } => write!(f, "limit reached: {limit} {count}"),
            Self::Waits { dependencies } => {
                for (at, awaited) in dependencies.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { "; " })?;
                    awaited.fmt(f)?;
                }
                Ok(())
            }
            Self::NothingNew => f.write_str("nothing new"),
            Self::OnlyTool => f.write_str("it is a tool and does not run by itself"),
            Self::RunEnded => f.write_str("the run ended first"),
        }
    }
}
