//! The reports of a recorded run, or of a run that another process executes, as text, JSON, Markdown or HTML, and the differences between
//! two runs.

mod comparison;
mod entries;
mod estimate;
mod html;
mod json;
mod markdown;
mod messages;
mod next_commands;
mod shared_lines;
mod story_printer;

pub use comparison::{NamedRun, comparison_to_json, render_comparison};
pub use estimate::{
    AgentEstimate, NextMessageEstimate, RememberedThread, RunEstimate, estimate_to_json, render_estimate,
};
pub use html::{ExportedRun, render_html};
pub use json::{execution_to_json as execution_document, story_to_json};
pub use markdown::render_markdown;
pub use messages::render_full_exchanges;
pub use next_commands::{NextCommand, first_failed_part, quote_for_shell, suggest_next_commands};
pub(crate) use next_commands::{escape_and_quote_for_shell, rerun_argument};
pub(crate) use shared_lines::outcome_mark;
pub use story_printer::StoryPrinter;
