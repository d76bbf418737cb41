//! What test cases reach of an ensemble, painted on its graph.

use std::path::Path;

use crate::command::check::graph::GraphFormat;
use crate::command::check::picture::of_ensemble;
use crate::command::setup::import::write;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::Surroundings;
use ensemble_cases::coverage::Reached;
use ensemble_explore::Exploration;
use ensemble_language::plan::{Edge, Plan};
use ensemble_reports::report::count;
use ensemble_reports::report::door::passed;
use ensemble_reports::report::graph::{CountedIn, Picture, RunData, ascii, dot, mermaid, svg};

/// The format that the name of a file means.
///
/// # Errors
/// Its ending means none.
pub(crate) fn format_of(file: &Path) -> Result<GraphFormat, CliError> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(GraphFormat::Svg),
        Some("mmd" | "mermaid") => Ok(GraphFormat::Mermaid),
        Some("dot" | "gv") => Ok(GraphFormat::Dot),
        Some("txt") => Ok(GraphFormat::Ascii),
        _ => Err(CliError::usage_with_help(
            format!("the name {} does not say which format to draw", file.display()),
            "it ends with .svg, .mmd, .dot or .txt",
        )),
    }
}

/// The graph of the ensemble, with what these cases reach.
pub(crate) fn painted(plan: &Plan, reached: &Reached, explored: &Exploration, cases: usize) -> Picture {
    let mut picture = of_ensemble(plan.ensemble());
    picture.subtitle = Some(format!("reached by {}", count(cases as u64, "case")));
    picture.counted_in = CountedIn::Cases;
    let edges = plan.ids().flat_map(|id| {
        let mut edges: Vec<&Edge> = plan.incoming(id).map(|(_, edge)| edge).collect();
        edges.sort_by_key(|edge| edge.position);
        edges
    });
    for (arrow, edge) in picture.arrows.iter_mut().zip(edges) {
        arrow.started = Some(reached.starts(edge));
        let missing = match reached.unanswered(edge, explored).as_slice() {
            [] => continue,
            [answer] => format!("never {answer}"),
            _ => "never evaluated".to_owned(),
        };
        arrow.condition = arrow
            .condition
            .take()
            .map(|condition| format!("{} ({missing})", condition.trim()));
    }
    for (id, node) in plan.ids().zip(&mut picture.nodes) {
        node.run_data = Some(match reached.executions(id) {
            0 => RunData::Idle {
                why: Some("no case reaches it".to_owned()),
            },
            executions => RunData::Ran {
                executions,
                failed: 0,
                parts: (0, 0),
            },
        });
    }
    picture
}

/// Writes the picture into the file.
///
/// # Errors
/// The name of the file means no format, or it cannot be written.
pub(crate) fn draw(picture: &Picture, file: &Path, surroundings: &Surroundings) -> Result<(), CliError> {
    let format = format_of(file)?;
    let text = match format {
        GraphFormat::Mermaid => mermaid(picture),
        GraphFormat::Dot => dot(picture),
        GraphFormat::Svg => svg(picture),
        GraphFormat::Ascii => ascii(picture),
    };
    write(file, &passed(&text, format.into()), surroundings)
}
