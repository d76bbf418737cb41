//! The story of a run for those who read it afterwards, or while it is driven elsewhere: on a terminal, as JSON, as
//! Markdown, as a page; and where the stories of two runs part.

mod comparison;
mod json;
mod next;
mod text;
mod waiting;

pub use comparison::{Named, comparison, comparison_document};
pub use json::document;
pub use next::{Driver, Next, next};
pub use text::Storyteller;
