//! Histories, stories, summaries and comparisons of runs, computed from their records.
//!
//! **Invariant:** every front end takes the facts of a run from this crate, so that all front ends show the same numbers.
//!
//! - [`RunHistory`] is computed from the records: totals, pending requests, and the state of the run. [`RunSummary`] is
//!   its summary for lists and clients.
//! - [`story::RunStory`] is the timeline: the history, and the records grouped by turn, execution and attempt.
//! - [`answer`] finds the agents whose outputs are final, and the output that is the answer of a run.
//! - [`OutputView`] separates the response of an output from its other keys; [`output_text`] is an output as one text.
//! - [`question_text_with_choices`] is a question as one text; [`list_given_answers`] lists the answers of operators.
//!
//! # Rules
//!
//! - **Turns.** A turn counts when it finishes. A message abandons the open turn; the abandoned turn counts if an
//!   execution in it had finished. Turns keep their numbers, so the last turn can have a higher number than the count.
//! - **Executions.** An execution counts when it ends. An execution that a resume repeats counts once.
//! - **Usage.** Every request of every attempt counts: of attempts that succeeded, failed, were interrupted or were
//!   abandoned, of parts, and of tools.
//! - **State.** [`RunState`] has one vocabulary: `running`, `waiting`, `interrupted`, and the outcomes. A run that ended
//!   has its outcome. After a resume or a message it has no end until it ends again: it is `running` if a process
//!   drives it, otherwise `interrupted`. It is `waiting` as long as a recorded question has no answer, whether a
//!   process drives it or not.

pub mod answer;
mod ledger;
mod output;
mod question;
mod run_history;
mod state;
pub mod story;
mod summary;
mod totals;

pub use ensemble_core::conversation::{
    GivenAnswer, describe_answer, list_copied_answers, list_given_answers, list_inner_answers,
};
pub use ledger::{AgentActivity, ExecutionAccount, UnfinishedExecutionState};
pub use output::{OutputView, output_text, output_text_with_all_keys, response_or_output};
pub use question::{question_text_with_choices, question_text_with_refusal};
pub use run_history::RunHistory;
pub use state::{DriverProcess, RunState};
pub use summary::RunSummary;
pub use totals::{AgentTotals, PartTotals, RunTotals};
