//! What an execution reads of the state beside the outputs of its dependencies.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::ConversationState;
use crate::conversation::history::HistoryList;
use ensemble_language::ensemble::{AgentKind, Ending};
use ensemble_language::past::Past;
use ensemble_language::plan::{AgentId, HistoryRead};

impl ConversationState {
    /// The outputs that the agent reads when it starts now, as agents and numbers of executions.
    pub fn reads(&self, id: AgentId) -> IndexMap<Arc<str>, u32> {
        let of_dependencies = self.dependency_outputs(id);
        let mut reads: IndexMap<_, _> = of_dependencies
            .into_iter()
            .map(|(name, (execution, _))| (name, execution))
            .collect();
        for (name, execution, _) in self.other_outputs(id) {
            reads.entry(name).or_insert(execution);
        }
        for (name, execution) in self.executions_read(id) {
            reads.entry(name).or_insert(execution);
        }
        reads
    }

    /// The latest execution of each agent that is in the history which the agent reads.
    fn executions_read(&self, id: AgentId) -> Vec<(Arc<str>, u32)> {
        match self.plan.reading(id).history {
            HistoryRead::Nothing => Vec::new(),
            HistoryRead::All => {
                let executions = self.plan.ids().map(|other| (other, self.counts.of(other)));
                let executed = executions.filter(|(_, executions)| *executions > 0);
                executed
                    .map(|(other, executions)| (self.plan.name(other).clone(), executions))
                    .collect()
            }
            HistoryRead::Latest(_) => {
                let past = self.past(id);
                (0..past.len()).rev().filter_map(|at| past.executed(at)).collect()
            }
        }
    }

    /// The executions so far that an execution of the agent is given. Templates of profiles elsewhere may use the
    /// history too, so an agent with templates is given all of it.
    pub fn past(&self, id: AgentId) -> Past {
        let read = match &self.plan.agent(id).kind {
            AgentKind::Llm(_) | AgentKind::Input(_) => HistoryRead::All,
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {
                self.plan.reading(id).history
            }
        };
        match read {
            HistoryRead::Nothing => Past::default(),
            HistoryRead::All => Past::latest(self.history.clone(), self.history.0.len()),
            // A script may still hold it when the history grows, and must not make the state copy all of it.
            HistoryRead::Latest(count) => {
                let from = self.history.0.len().saturating_sub(count.get());
                Past::latest(Arc::new(HistoryList(self.history.0[from..].to_vec())), count.get())
            }
        }
    }

    /// The latest outputs that follow a prompt without variables, after those of the dependencies: of every other agent
    /// that has succeeded, and of the agent itself if it does not remember it. Empty for an agent that reads none.
    pub fn other_outputs(&self, id: AgentId) -> Vec<(Arc<str>, u32, Arc<Value>)> {
        let reading = self.plan.reading(id);
        if !reading.all_outputs {
            return Vec::new();
        }
        let heard = self.plan.ids().filter_map(|other| {
            let known = self.agent(other);
            let incoming = || self.plan.incoming(id).filter(|(_, edge)| edge.from == other);
            let (execution, output) = match other == id {
                // The memory of an agent keeps its replies, and not its failures.
                true if known.latest_failed() && incoming().any(|(_, edge)| edge.on != Ending::Success) => {
                    known.failure.as_ref()?
                }
                true => known.output.as_ref().filter(|_| reading.own_output)?,
                false if incoming().any(|(_, edge)| self.edge_output(edge).is_some()) => return None,
                false => known.output.as_ref()?,
            };
            Some((self.plan.name(other).clone(), *execution, output.clone()))
        });
        heard.collect()
    }
}
