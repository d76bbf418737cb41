//! The graph with what the run did.

use ensemble_reports::report::graph::{Picture, RunData};

use super::View;

impl View {
    /// Adds what ran, what fired, and why agents did not run. The picture is that of the run's own ensemble.
    pub(crate) fn draw_on(&self, picture: &mut Picture) {
        let Some(plan) = &self.plan else { return };
        for node in &mut picture.nodes {
            let sum = self.sums.get(node.name.as_str()).copied().unwrap_or_default();
            node.run_data = Some(match sum.executions + sum.parts.0 {
                0 => RunData::Idle {
                    why: self.idle.get(node.name.as_str()).cloned(),
                },
                _ => RunData::Ran {
                    executions: sum.executions,
                    failed: sum.failed,
                    parts: sum.parts,
                },
            });
        }
        let agents = plan.ensemble().agents.iter();
        let positions = agents.flat_map(|agent| (0..agent.dependencies.len()).map(|at| (agent.name.clone(), at)));
        for (arrow, position) in picture.arrows.iter_mut().zip(positions) {
            arrow.started = Some(self.started.get(&position).copied().unwrap_or(0));
        }
    }
}
