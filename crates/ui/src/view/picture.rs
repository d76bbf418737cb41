//! The graph with the data of the run.

use ensemble_reports::report::graph::Picture;

use super::View;

impl View {
    /// Adds the run to the picture of its own ensemble.
    pub(crate) fn draw_on(&self, picture: &mut Picture) {
        let Some(plan) = &self.plan else { return };
        picture.add_run(self.history(), plan.ensemble(), plan.ensemble());
    }
}
