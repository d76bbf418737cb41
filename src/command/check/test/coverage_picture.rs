//! Coverage of test cases, drawn on the graph of the ensemble.

use std::path::Path;

use crate::command::check::graph::GraphFormat;
use crate::command::check::picture::ensemble_picture;
use crate::command::setup::import::write_file_with_folders;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_cases::coverage::ReachedParts;
use ensemble_explore::Exploration;
use ensemble_language::plan::{Plan, PlanEdge};
use ensemble_reports::report::format_count;
use ensemble_reports::report::graph::{
    ExecutionCountUnit, GraphPicture, GraphTooLargeError, NodeRunData, render_ascii, render_dot, render_mermaid,
    render_svg,
};
use ensemble_reports::report::sanitized_writer::sanitize_text;

/// Returns the picture format for the extension of the file.
///
/// # Errors
/// The extension belongs to no picture format.
pub(crate) fn picture_format_for_file(file: &Path) -> Result<GraphFormat, CliError> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(GraphFormat::Svg),
        Some("mmd" | "mermaid") => Ok(GraphFormat::Mermaid),
        Some("dot" | "gv") => Ok(GraphFormat::Dot),
        Some("txt") => Ok(GraphFormat::Ascii),
        _ => Err(CliError::usage_error_with_help(
            format!(
                "the name {} does not end with the extension of a picture format",
                file.display()
            ),
            "use a name that ends with .svg, .mmd, .dot or .txt",
        )),
    }
}

/// Builds the graph of the ensemble, marked with the parts that the cases reach. `cases` is the number of cases.
pub(crate) fn build_coverage_picture(
    plan: &Plan,
    reached: &ReachedParts,
    explored: &Exploration,
    cases: usize,
) -> GraphPicture {
    let mut picture = ensemble_picture(plan.ensemble());
    picture.subtitle = Some(format!("reached by {}", format_count(cases as u64, "case")));
    picture.count_unit = ExecutionCountUnit::Cases;
    let edges = plan.agent_ids().flat_map(|id| {
        let mut edges: Vec<&PlanEdge> = plan.incoming_edges(id).map(|(_, edge)| edge).collect();
        edges.sort_by_key(|edge| edge.position);
        edges
    });
    for (arrow, edge) in picture.arrows.iter_mut().zip(edges) {
        arrow.start_count = Some(reached.start_count(edge));
        let missing = match reached.missing_condition_results(edge, explored).as_slice() {
            [] => continue,
            [answer] => format!("never {answer}"),
            _ => "never evaluated".to_owned(),
        };
        arrow.condition = arrow
            .condition
            .take()
            .map(|condition| format!("{} ({missing})", condition.trim()));
    }
    for (id, node) in plan.agent_ids().zip(&mut picture.nodes) {
        node.run_data = Some(match reached.execution_count(id) {
            0 => NodeRunData::Idle {
                why: Some("no case reaches it".to_owned()),
            },
            executions => NodeRunData::Ran {
                executions,
                failed: 0,
                parts: (0, 0),
            },
        });
    }
    picture
}

/// Writes the picture to the file, in the format of its extension.
///
/// # Errors
/// The extension belongs to no picture format, or the file cannot be written.
pub(crate) fn write_picture_file(
    picture: &GraphPicture,
    file: &Path,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let format = picture_format_for_file(file)?;
    let text = match format {
        GraphFormat::Mermaid => render_mermaid(picture),
        GraphFormat::Dot => render_dot(picture),
        GraphFormat::Svg => render_svg(picture)
            .map_err(|error| CliError::usage_error_with_help(error.to_string(), GraphTooLargeError::ADVICE))?,
        GraphFormat::Ascii => render_ascii(picture),
    };
    write_file_with_folders(file, &sanitize_text(&text, format.into()), surroundings)
}
