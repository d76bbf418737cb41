//! Reports of runs and findings. Only this module formats them.
//!
//! **Invariant:** a reporter receives an event after it was committed, and changes nothing.
//!
//! A run as text for people, as JSON and as events; findings as text, as JSON, and in the formats of CI (`report/github.rs`,
//! `report/sarif.rs`, `report/junit.rs`, all of them implementations of the trait in `report/form.rs`); graphs (`report/graph/`): one
//! picture is computed, and each format writes it; SVG also needs coordinates, which `report/graph/layout/` computes; a story
//! (`report/story/`) on a terminal, as JSON, as Markdown and as a page. `--output events` uses the encoder of `core::records`, so it prints
//! the lines of the journal. Everything that is printed passes one writer, `report/door/`: it spells out what would steer a terminal, and
//! lets pass only styles that carry the number of this process, which only `report/door/ink.rs` writes.

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
