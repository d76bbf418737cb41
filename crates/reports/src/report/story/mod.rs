//! Reports of a run for reading afterwards, or while another process executes it: as text, JSON, Markdown or HTML; and
//! the differences between two runs.

mod comparison;
mod entries;
mod estimate;
mod html;
mod json;
mod lines;
mod markdown;
mod messages;
mod next;
mod text;

pub use comparison::{Named, comparison, comparison_document};
pub use estimate::{Estimate, Known, estimate, estimate_document};
pub use html::{Exported, html};
pub use json::{document, execution as execution_document};
pub use markdown::markdown;
pub use messages::messages;
pub use next::{Next, next, quoted};
pub(crate) use next::{place, word};
pub use text::StoryPrinter;
