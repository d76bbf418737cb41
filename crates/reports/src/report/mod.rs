//! The reports of runs, findings and graphs, in all formats.
//!
//! **Invariant:** a reporter receives an event after the event was committed, and changes nothing.
//!
//! Runs are reported as text for users, as JSON and as events. Findings are reported as text, as JSON, and in the formats of CI
//! (`report/github.rs`, `report/sarif.rs`, `report/junit.rs`), which all implement the trait in `report/form.rs`. Graphs (`report/graph/`)
//! are computed once as a picture, which each format renders; SVG also needs the coordinates of `report/graph/layout/`. Stories
//! (`report/story/`) are rendered for a terminal, as JSON, as Markdown and as HTML. `--output events` uses the encoder of `core::records`,
//! so it prints the lines of the journal. All printed text passes one writer (`report/sanitized_writer/`), which escapes control
//! characters, and keeps only styles with the random mark of this process.

mod console;
mod context_window;
pub mod diagnostics;
mod events;
pub mod exploration;
mod file_names;
mod form;
mod format;
mod github;
pub mod graph;
mod human;
mod junit;
mod limit_refusal;
mod parts;
mod reasoning;
mod reasons;
mod replacements;
pub mod sanitized_writer;
mod sarif;
pub mod story;
pub mod test_report;
mod values;
mod wrap;
mod xml;

pub use ensemble_core::conversation::RunResult;
pub use ensemble_core::reporter::{NoReporter, Reporter};

pub use console::{ConsoleOptions, ConsoleWriter};
pub use events::JsonEventPrinter;
pub use form::{FileFindings, FindingsReportFormat, FindingsReportTotals};
pub use format::format_count;
pub use github::GithubFindingsFormat;
pub use human::{HumanReporter, OutputVerbosity};
pub use junit::JunitFindingsFormat;
pub use limit_refusal::FailOnLimitReporter;
pub use sarif::{SarifFindingsFormat, SarifRule};
pub use wrap::{LineWidth, indent_later_lines};
