//! The data of a run in the picture of an ensemble.

use ensemble_history::{AgentActivity, AgentTotals, DriverProcess, RunHistory, RunState, UnfinishedExecutionState};
use ensemble_language::ensemble::{Agent, Dependency, Ensemble};

use super::{GraphPicture, NodeActivity, NodeRunData};

impl GraphPicture {
    /// Adds the data of a run to the picture of `shown`: executions, started agents, and reasons of agents that did not run.
    ///
    /// The run used the agents of `recorded`; the file may have been edited since.
    pub fn add_run_data(&mut self, history: &RunHistory, state: RunState, shown: &Ensemble, recorded: &Ensemble) {
        for node in &mut self.nodes {
            let totals = history.agent_totals(&node.name);
            let activity = history.agent_activity(&node.name);
            node.run_data = Some(match (activity, totals.executions + totals.parts.ended_parts) {
                (Some(activity), _) => unfinished_node_data(node_activity(activity, state), totals),
                (None, 0) => NodeRunData::Idle {
                    why: history.idle_reason(&node.name).map(str::to_owned),
                },
                (None, _) => NodeRunData::Ran {
                    executions: totals.executions,
                    failed: totals.failed,
                    parts: (totals.parts.ended_parts, totals.parts.failed_parts),
                },
            });
        }
        let dependencies = shown.agents.iter().flat_map(|agent| {
            let edges = agent.dependencies.iter();
            edges.enumerate().map(move |(at, edge)| (agent, at, edge))
        });
        for (arrow, (agent, at, edge)) in self.arrows.iter_mut().zip(dependencies) {
            let position = find_recorded_dependency(recorded, agent, at, edge);
            arrow.start_count = position.map(|position| history.dependency_start_count(&agent.name, position));
        }
    }

    /// Marks agents that wait for an answer which is not recorded yet.
    pub fn mark_waiting_agents(&mut self, agents: &[impl AsRef<str>]) {
        let waits = |name: &str| agents.iter().any(|agent| agent.as_ref() == name);
        for node in self.nodes.iter_mut().filter(|node| waits(&node.name)) {
            if let Some(NodeRunData::Unfinished { activity, .. }) = &mut node.run_data {
                *activity = NodeActivity::Waiting;
            }
        }
    }

    /// Sets the id and the state of the run as subtitle.
    pub fn set_run_subtitle(&mut self, history: &RunHistory, driver: DriverProcess) {
        let id = history.start_event().map(|started| &*started.run_id);
        self.subtitle = Some(format!("run {}: {}", id.unwrap_or_default(), history.run_state(driver)));
    }
}

/// Converts the activity of an agent for a run in this state.
fn node_activity(activity: AgentActivity, state: RunState) -> NodeActivity {
    let is_driven = matches!(state, RunState::Running | RunState::Waiting);
    match activity.execution_state(is_driven, false) {
        UnfinishedExecutionState::Asking => NodeActivity::Waiting,
        UnfinishedExecutionState::AboutToStart
        | UnfinishedExecutionState::Working
        | UnfinishedExecutionState::Retrying => NodeActivity::Running,
        UnfinishedExecutionState::NotStarted | UnfinishedExecutionState::Stopped | UnfinishedExecutionState::Lost => {
            NodeActivity::Stopped
        }
    }
}

/// Creates the data of an agent with an open execution.
fn unfinished_node_data(activity: NodeActivity, totals: AgentTotals) -> NodeRunData {
    NodeRunData::Unfinished {
        activity,
        executions: totals.executions,
        failed: totals.failed,
    }
}

/// Finds the index of the dependency in the recorded ensemble, which is `at` unless the file was edited.
fn find_recorded_dependency(recorded: &Ensemble, agent: &Agent, at: usize, edge: &Dependency) -> Option<usize> {
    let then = recorded.agents.iter().find(|then| then.name == agent.name)?;
    let same = |then: &Dependency| {
        then.agent_name == edge.agent_name
            && then.condition == edge.condition
            && then.on == edge.on
            && then.feedback == edge.feedback
    };
    match then.dependencies.get(at) {
        Some(recorded_edge) if same(recorded_edge) => Some(at),
        _ => then.dependencies.iter().position(same),
    }
}
