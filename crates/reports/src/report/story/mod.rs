//! The story of a run for those who read it afterwards, or while it is driven elsewhere: on a terminal, as JSON, as
//! Markdown, as a page; and where the stories of two runs part.

mod comparison;
mod estimate;
mod html;
mod json;
mod lines;
mod markdown;
mod next;
mod text;

pub use comparison::{Named, comparison, comparison_document};
pub use estimate::{Estimate, Known, estimate, estimate_document};
pub use html::{Exported, html};
pub use json::document;
pub use markdown::markdown;
pub use next::{Driver, Next, next};
pub use text::StoryPrinter;
