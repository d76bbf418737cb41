//! The agents that do not run in a turn, and the reasons.

use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use ensemble_language::condition::ConditionRead;
use ensemble_language::ensemble::WaitForOutputs;

/// An agent that was examined and does not run in the turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "SkippedAgentFields")]
pub struct SkippedAgent {
    /// The agent.
    pub agent: Arc<str>,
    /// The reason. In JSON, its name is the key `reason`, and its values are keys beside it.
    pub reason: AgentSkipReason,
}

/// The reason why an agent does not run.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentSkipReason {
    /// Agents that it depends on have not ended with the required result.
    WaitingFor {
        /// The agents.
        agents: Vec<Arc<str>>,
        /// Those of the agents whose success is required, and whose latest execution failed.
        failed: Vec<Arc<str>>,
    },
    /// A condition was false.
    ConditionFalse {
        /// The agent that the condition reads.
        dependency: Arc<str>,
        /// The text of the condition.
        condition: Arc<str>,
        /// The values that the condition read.
        values: Vec<ConditionRead>,
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
        dependencies: Vec<AwaitedDependency>,
    },
    /// There is no new output that the agent has not read.
    NothingNew,
    /// The agent belongs to a tool, and does not run by itself.
    OnlyTool,
    /// The agent runs only on request, and no request for it is waiting.
    OnlyRequest,
    /// The agent was ready, but the run had ended.
    RunEnded,
}

/// A dependency for which a ready agent waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AwaitedDependency {
    /// The agent that is depended on.
    pub agent: Arc<str>,
    /// The position of the dependency, from 0.
    pub position: usize,
    /// What the agent waits for.
    pub wait_for: WaitForOutputs,
    /// An agent that is ready now and whose execution can lead to an output of `agent`; often `agent` itself.
    pub ready: Arc<str>,
}

impl Serialize for SkippedAgent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut waiting = serializer.serialize_struct("Waiting", 5)?;
        waiting.serialize_field("agent", &self.agent)?;
        self.reason.write_keys(&mut waiting)?;
        waiting.end()
    }
}

impl Serialize for AgentSkipReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reason = serializer.serialize_struct("Reason", 4)?;
        self.write_keys(&mut reason)?;
        reason.end()
    }
}

/// Deserialized form of a [`SkippedAgent`], with the keys of all reasons.
#[derive(Deserialize)]
struct SkippedAgentFields {
    agent: Arc<str>,
    reason: AgentSkipReasonName,
    agents: Option<Vec<Arc<str>>>,
    #[serde(default)]
    failed: Vec<Arc<str>>,
    dependency: Option<Arc<str>>,
    condition: Option<Arc<str>>,
    values: Option<Vec<ConditionRead>>,
    limit: Option<Arc<str>>,
    count: Option<u32>,
    dependencies: Option<Vec<AwaitedDependency>>,
}

/// The name of a reason in JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AgentSkipReasonName {
    WaitingFor,
    ConditionFalse,
    LimitReached,
    Waits,
    NothingNew,
    OnlyTool,
    OnlyRequest,
    RunEnded,
}

impl AgentSkipReason {
    /// Writes the name of the reason, and the values of the reason, as keys of the JSON object.
    fn write_keys<S: SerializeStruct>(&self, keys: &mut S) -> Result<(), S::Error> {
        keys.serialize_field("reason", &self.reason_name())?;
        match self {
            Self::WaitingFor { agents, failed } => {
                keys.serialize_field("agents", agents)?;
                match failed.is_empty() {
                    true => Ok(()),
                    false => keys.serialize_field("failed", failed),
                }
            }
            Self::ConditionFalse {
                dependency,
                condition,
                values,
            } => {
                keys.serialize_field("dependency", dependency)?;
                keys.serialize_field("condition", condition)?;
                keys.serialize_field("values", values)
            }
            Self::LimitReached { limit, count } => {
                keys.serialize_field("limit", limit)?;
                keys.serialize_field("count", count)
            }
            Self::Waits { dependencies } => keys.serialize_field("dependencies", dependencies),
            Self::NothingNew | Self::OnlyTool | Self::OnlyRequest | Self::RunEnded => Ok(()),
        }
    }

    /// Returns the name of the reason for JSON.
    fn reason_name(&self) -> AgentSkipReasonName {
        match self {
            Self::WaitingFor { .. } => AgentSkipReasonName::WaitingFor,
            Self::ConditionFalse { .. } => AgentSkipReasonName::ConditionFalse,
            Self::LimitReached { .. } => AgentSkipReasonName::LimitReached,
            Self::Waits { .. } => AgentSkipReasonName::Waits,
            Self::NothingNew => AgentSkipReasonName::NothingNew,
            Self::OnlyTool => AgentSkipReasonName::OnlyTool,
            Self::OnlyRequest => AgentSkipReasonName::OnlyRequest,
            Self::RunEnded => AgentSkipReasonName::RunEnded,
        }
    }
}

/// An error about a missing key of the reason.
#[derive(Debug, thiserror::Error)]
#[error("missing field `{0}`")]
struct MissingReasonKey(&'static str);

impl TryFrom<SkippedAgentFields> for SkippedAgent {
    type Error = MissingReasonKey;

    fn try_from(read: SkippedAgentFields) -> Result<Self, MissingReasonKey> {
        let reason = match read.reason {
            AgentSkipReasonName::WaitingFor => AgentSkipReason::WaitingFor {
                agents: read.agents.ok_or(MissingReasonKey("agents"))?,
                failed: read.failed,
            },
            AgentSkipReasonName::ConditionFalse => AgentSkipReason::ConditionFalse {
                dependency: read.dependency.ok_or(MissingReasonKey("dependency"))?,
                condition: read.condition.ok_or(MissingReasonKey("condition"))?,
                values: read.values.ok_or(MissingReasonKey("values"))?,
            },
            AgentSkipReasonName::LimitReached => AgentSkipReason::LimitReached {
                limit: read.limit.ok_or(MissingReasonKey("limit"))?,
                count: read.count.ok_or(MissingReasonKey("count"))?,
            },
            AgentSkipReasonName::Waits => AgentSkipReason::Waits {
                dependencies: read.dependencies.ok_or(MissingReasonKey("dependencies"))?,
            },
            AgentSkipReasonName::NothingNew => AgentSkipReason::NothingNew,
            AgentSkipReasonName::OnlyTool => AgentSkipReason::OnlyTool,
            AgentSkipReasonName::OnlyRequest => AgentSkipReason::OnlyRequest,
            AgentSkipReasonName::RunEnded => AgentSkipReason::RunEnded,
        };
        Ok(Self {
            agent: read.agent,
            reason,
        })
    }
}

/// The text for reports: `waits for critic, which is about to answer again`.
impl fmt::Display for AwaitedDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            agent, ready, wait_for, ..
        } = self;
        match wait_for {
            WaitForOutputs::Settled if agent == ready => {
                write!(f, "waits until {agent} has settled; it is about to answer again")
            }
            WaitForOutputs::Settled => write!(f, "waits until {agent} has settled; {ready} is about to run"),
            _ if agent == ready => write!(f, "waits for {agent}, which is about to answer again"),
            _ => write!(f, "waits for {agent}, which is about to answer again after {ready}"),
        }
    }
}

/// The text for reports: `waiting for writer`, `condition false: …`.
impl fmt::Display for AgentSkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingFor { agents, failed } => {
                let others: Vec<&str> = agents
                    .iter()
                    .filter(|agent| !failed.contains(agent))
                    .map(|a| &**a)
                    .collect();
                if !others.is_empty() {
                    write!(f, "waiting for {}", others.join(", "))?;
                }
                let separator = if others.is_empty() || failed.is_empty() {
                    ""
                } else {
                    "; "
                };
                match failed.as_slice() {
                    [] => Ok(()),
                    [one] => write!(f, "{separator}waits for {one}, whose latest execution failed"),
                    [first @ .., last] => write!(
                        f,
                        "{separator}waits for {} and {last}, whose latest executions failed",
                        first.join(", ")
                    ),
                }
            }
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
            Self::OnlyRequest => f.write_str("it runs only on request"),
            Self::RunEnded => f.write_str("the run ended first"),
        }
    }
}
