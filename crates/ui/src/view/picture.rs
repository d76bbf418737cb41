//! The graph with the data of the run.

use ensemble_history::RunState;
use ensemble_reports::report::graph::GraphPicture;

use super::RunView;

impl RunView {
    /// Adds the run, which is in this state, to the picture of its own ensemble.
    pub(crate) fn add_to_picture(&self, picture: &mut GraphPicture, state: RunState) {
        let Some(plan) = &self.plan else { return };
        picture.add_run(self.run_history(), state, plan.ensemble(), plan.ensemble());
        picture.mark_waiting(&self.liveness.asking_agents);
    }
}
