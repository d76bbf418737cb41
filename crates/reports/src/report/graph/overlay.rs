//! Adds a run to the picture of an ensemble.

use ensemble_history::{RunDriver, RunHistory};
use ensemble_language::ensemble::{Agent, Dependency, Ensemble};

use super::{GraphPicture, NodeRunData};

impl GraphPicture {
    /// Adds a run to the picture of `shown`: how often each agent ran, how often each arrow started an agent, and why
    /// other agents did not run. The run used the agents and dependencies of `recorded`; the file may have been edited
    /// since.
    pub fn add_run(&mut self, history: &RunHistory, shown: &Ensemble, recorded: &Ensemble) {
        for node in &mut self.nodes {
            let totals = history.agent_totals(&node.name);
            node.run_data = Some(match totals.executions + totals.parts.ended_parts {
                0 => NodeRunData::Idle {
                    why: history.idle_reason(&node.name).map(str::to_owned),
                },
                _ => NodeRunData::Ran {
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
            let position = recorded_position(recorded, agent, at, edge);
            arrow.start_count = position.map(|position| history.start_count(&agent.name, position));
        }
    }

    /// Adds the id and the state of the run as the subtitle.
    pub fn add_run_title(&mut self, history: &RunHistory, driver: RunDriver) {
        let id = history.start_event().map(|started| &*started.run_id);
        self.subtitle = Some(format!("run {}: {}", id.unwrap_or_default(), history.run_state(driver)));
    }
}

/// Returns the position of a dependency in the ensemble that was run. It is the current position (`at`), unless the
/// file was edited.
fn recorded_position(recorded: &Ensemble, agent: &Agent, at: usize, edge: &Dependency) -> Option<usize> {
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
