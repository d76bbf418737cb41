//! What an execution reads of the state beside the outputs of its dependencies.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::{ConversationState, ExecutionSlot};
use crate::conversation::history::HistoryEntries;
use ensemble_language::ensemble::{AgentKind, RequiredResult};
use ensemble_language::execution_history::ExecutionHistory;
use ensemble_language::plan::{AgentId, HistoryRead};

/// Output of an agent: the agent, the number of the execution, and the output.
pub type NumberedAgentOutput = (Arc<str>, u32, Arc<Value>);

impl ConversationState {
    /// Returns the outputs that the agent reads if it starts now: agent names with execution numbers.
    pub fn list_read_executions(&self, id: AgentId) -> IndexMap<Arc<str>, u32> {
        let of_dependencies = self.dependency_outputs(id);
        let mut reads: IndexMap<_, _> = of_dependencies
            .into_iter()
            .map(|(name, (execution, _))| (name, execution))
            .collect();
        if matches!(self.plan.agent(id).kind, AgentKind::Script { .. }) {
            let outputs = self.list_latest_outputs(id).into_iter().flatten();
            for (name, execution, _) in self.list_dependency_failures(id).into_iter().chain(outputs) {
                reads.entry(name).or_insert(execution);
            }
        }
        for (name, execution, _) in self.list_unconnected_outputs(id) {
            reads.entry(name).or_insert(execution);
        }
        for (name, execution) in self.list_history_read_executions(id) {
            reads.entry(name).or_insert(execution);
        }
        reads
    }

    /// Returns the latest outputs of the agents that this agent depends on, in declaration order.
    /// Returns `None` if all dependencies require success, because the dependency outputs are the same then.
    pub fn list_latest_outputs(&self, id: AgentId) -> Option<Vec<NumberedAgentOutput>> {
        let mut edges = self.plan.incoming_edges(id);
        if edges.all(|(_, edge)| edge.on == RequiredResult::Success) {
            return None;
        }
        let outputs = self.list_dependency_agents(id).into_iter().filter_map(|from| {
            let (execution, output) = self.agent_state(from).output.as_ref()?;
            Some((self.plan.agent_name(from).clone(), *execution, output.clone()))
        });
        Some(outputs.collect())
    }

    /// Returns the latest failures of agents that this agent depends on, in declaration order. Omits agents that succeeded since.
    pub fn list_dependency_failures(&self, id: AgentId) -> Vec<(Arc<str>, u32, Arc<Value>)> {
        let mut edges = self.plan.incoming_edges(id);
        if !edges.any(|(_, edge)| self.agent_state(edge.from).latest_failed) {
            return Vec::new();
        }
        let failures = self.list_dependency_agents(id).into_iter().filter_map(|from| {
            let state = self.agent_state(from);
            let (execution, failure) = state.failure.as_ref().filter(|_| state.latest_failed)?;
            Some((self.plan.agent_name(from).clone(), *execution, failure.clone()))
        });
        failures.collect()
    }

    /// Returns the agents that the agent depends on, each once, in the order of the dependencies.
    fn list_dependency_agents(&self, id: AgentId) -> Vec<AgentId> {
        let mut sources: Vec<AgentId> = Vec::new();
        for (_, edge) in self.plan.incoming_edges(id) {
            if !sources.contains(&edge.from) {
                sources.push(edge.from);
            }
        }
        sources
    }

    /// Returns the agents whose new outputs started this execution.
    pub fn list_triggering_agents(&self, slot: &ExecutionSlot) -> Vec<Arc<str>> {
        if let Some(news) = &slot.start.news {
            return news.clone();
        }
        let mut news: Vec<Arc<str>> = Vec::new();
        let edges = self.plan.incoming_edges(slot.agent);
        for (_, edge) in edges.filter(|(_, edge)| slot.start.counts.contains(&edge.position)) {
            let name = self.plan.agent_name(edge.from);
            if !news.contains(name) {
                news.push(name.clone());
            }
        }
        news
    }

    /// Returns the latest execution of each agent that occurs in the part of the history that the agent reads.
    fn list_history_read_executions(&self, id: AgentId) -> Vec<(Arc<str>, u32)> {
        match self.plan.reads_beyond_dependencies(id).history {
            HistoryRead::Nothing => Vec::new(),
            HistoryRead::All => {
                let executions = self.plan.agent_ids().map(|other| (other, self.counts.count_for(other)));
                let executed = executions.filter(|(_, executions)| *executions > 0);
                executed
                    .map(|(other, executions)| (self.plan.agent_name(other).clone(), executions))
                    .collect()
            }
            HistoryRead::Latest(_) => {
                let past = self.readable_history(id);
                (0..past.len()).rev().filter_map(|at| past.find_execution(at)).collect()
            }
        }
    }

    /// Returns the part of the history that an execution of the agent can read. Agents with templates get the whole history,
    /// because templates of profiles in other files can read it.
    pub fn readable_history(&self, id: AgentId) -> ExecutionHistory {
        let read = match &self.plan.agent(id).kind {
            AgentKind::Llm(_) | AgentKind::Input(_) => HistoryRead::All,
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {
                self.plan.reads_beyond_dependencies(id).history
            }
        };
        match read {
            HistoryRead::Nothing => ExecutionHistory::default(),
            HistoryRead::All => self.finished_turn_history(),
            // A script may still hold it when the history grows, and must not make the state copy all of it.
            HistoryRead::Latest(count) => {
                let from = self.history.0.len().saturating_sub(count.get());
                ExecutionHistory::from_latest(Arc::new(HistoryEntries(self.history.0[from..].to_vec())), count.get())
            }
        }
    }

    /// Returns all executions of finished turns.
    pub fn finished_turn_history(&self) -> ExecutionHistory {
        ExecutionHistory::from_latest(self.history.clone(), self.history.0.len())
    }

    /// Returns the agents of the latest `count` executions in the history, the oldest first.
    pub fn recent_agents(&self, count: usize) -> Vec<Arc<str>> {
        let from = self.history.0.len().saturating_sub(count);
        let recent = self.history.0[from..].iter();
        recent.map(|entry| entry.agent_name.clone()).collect()
    }

    /// Returns the latest outputs that follow a prompt without variables: those of agents that are no dependencies, and the agent's own
    /// output if
    /// its memory omits the output. Returns an empty list for an agent whose kind reads no such outputs.
    pub fn list_unconnected_outputs(&self, id: AgentId) -> Vec<(Arc<str>, u32, Arc<Value>)> {
        let reading = self.plan.reads_beyond_dependencies(id);
        if !reading.all_outputs {
            return Vec::new();
        }
        let outputs = self.plan.agent_ids().filter_map(|other| {
            let other_state = self.agent_state(other);
            let incoming = || self.plan.incoming_edges(id).filter(|(_, edge)| edge.from == other);
            let (execution, output) = match other == id {
                // The memory of an agent keeps its replies, and not its failures.
                true if other_state.has_failed_last()
                    && incoming().any(|(_, edge)| edge.on != RequiredResult::Success) =>
                {
                    other_state.failure.as_ref()?
                }
                true => other_state.output.as_ref().filter(|_| reading.own_output)?,
                false if incoming().any(|(_, edge)| self.edge_output_or_failure(edge).is_some()) => return None,
                false => other_state.output.as_ref()?,
            };
            Some((self.plan.agent_name(other).clone(), *execution, output.clone()))
        });
        outputs.collect()
    }
}
