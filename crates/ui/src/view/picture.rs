//! The graph with the data of the run.

use ensemble_reports::report::graph::GraphPicture;

use super::RunView;

impl RunView {
    /// Adds the run to the picture of its own ensemble.
    pub(crate) fn add_to_picture(&self, picture: &mut GraphPicture) {
        let Some(plan) = &self.plan else { return };
        picture.add_run(self.run_history(), plan.ensemble(), plan.ensemble());
    }
}
