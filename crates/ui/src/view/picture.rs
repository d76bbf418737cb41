//! The graph with the data of the run.

use ensemble_history::RunState;
use ensemble_reports::report::graph::{GraphPicture, GraphTooLargeError, SVG_STYLE, render_svg};
use hyper::StatusCode;

use super::RunView;
use crate::reply::ApiFailure;

impl RunView {
    /// Adds the run, in this state, to the picture of its ensemble.
    pub(crate) fn add_run_to_picture(&self, picture: &mut GraphPicture, state: RunState) {
        let Some(plan) = &self.plan else { return };
        picture.add_run_data(self.run_history(), state, plan.ensemble(), plan.ensemble());
        picture.mark_waiting_agents(&self.liveness.asking_agents);
    }
}

/// Draws a picture without a style, because the page has the style and allows none inside of a picture.
///
/// # Errors
/// The graph is too large.
pub(crate) fn draw_for_page(picture: &GraphPicture) -> Result<String, ApiFailure> {
    let drawn = render_svg(picture).map_err(|error| {
        let message = format!("{error}; {}", GraphTooLargeError::ADVICE);
        ApiFailure::new(StatusCode::UNPROCESSABLE_ENTITY, "graph_too_large", message)
    })?;
    Ok(drawn.replace(&format!("<style>\n{SVG_STYLE}</style>\n"), ""))
}
