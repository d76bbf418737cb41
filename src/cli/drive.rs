//! Driving a run from the command line: signals cancel it, messages continue it, and its end is the exit code.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use super::args::{Output, ShowingArgs};
use super::error::CliError;
use super::surroundings::Surroundings;
use super::{exit, signals};
use ensemble_core::conversation::{CompletionReason, ConversationState, RunEnded};
use ensemble_language::diagnostic::Severity;
use ensemble_reports::report::{RunResult, diagnostics};
use ensemble_runs::{Prepared, Ready};

/// What a user says when the conversation has ended.
pub(super) trait Messages {
    /// The next message, or nothing more.
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>>;

    /// Nothing more is said.
    fn farewell(&self, _run_id: &str) {}
}

/// Messages that were given beforehand. A conversation that did not end well gets no more of them.
#[derive(Debug, Default)]
pub(super) struct Then(VecDeque<Arc<str>>);

impl FromIterator<Arc<str>> for Then {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(texts: I) -> Self {
        Self(texts.into_iter().collect())
    }
}

impl Messages for Then {
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>> {
        let well = ended.completion_reason == CompletionReason::Completed || ended.completion_reason.is_limit();
        let text = if well { self.0.pop_front() } else { None };
        Box::pin(std::future::ready(text))
    }
}

/// How a driven run ends for the caller of the program.
pub(super) struct Ending<'a> {
    /// Does a limit make it fail?
    pub(super) fail_on_limit: bool,
    /// What is shown.
    pub(super) showing: &'a ShowingArgs,
    /// Where it is shown.
    pub(super) surroundings: &'a Surroundings,
}

/// Begins the run, drives it to its end, shows the result, and gives the exit code.
pub(super) async fn drive(ready: Ready, mut messages: impl Messages, ending: Ending<'_>) -> Result<u8, CliError> {
    let mut signals = signals::listen();
    let run = ready.begin().await?;
    signals.of_run(run.id());
    while let Some(ended) = ended(&run, &mut signals).await {
        let text = tokio::select! {
            text = messages.next(&ended) => text,
            _ = signals.next() => None,
        };
        let Some(text) = text else {
            if !ended.completion_reason.is_resumable() {
                messages.farewell(run.id().as_str());
            }
            break;
        };
        run.say(text).await?;
    }
    let prepared = run.prepared().clone();
    let finished = run.finish().await?;
    Ok(ending.show(&finished.state, &prepared))
}

/// Waits for the end of the conversation; a signal cancels it. `None`: the run stopped, and its end has the error.
async fn ended(run: &ensemble_runs::Run, signals: &mut signals::Signals) -> Option<RunEnded> {
    loop {
        tokio::select! {
            ended = run.outcome() => return ended.ok(),
            by = signals.next() => run.cancel(by),
        }
    }
}

impl Ending<'_> {
    /// Shows the result of a run that has ended so, and gives the exit code.
    pub(super) fn show(&self, state: &ConversationState, prepared: &Prepared) -> u8 {
        let Some(ended) = state.ended() else {
            return exit::SUCCESS;
        };
        complain_of_condition(ended, prepared, self.surroundings);
        if self.showing.output == Output::Json {
            print_result(state, self.surroundings);
        }
        exit::of_run(ended.completion_reason, state.interrupted(), self.fail_on_limit)
    }
}

/// The result as one JSON document on standard output.
fn print_result(state: &ConversationState, surroundings: &Surroundings) {
    let mut text = serde_json::to_string_pretty(&RunResult(state)).expect("results have string keys");
    text.push('\n');
    surroundings.print(&text);
}

/// Shows the condition that had no answer where it stands in the file.
pub(super) fn complain_of_condition(ended: &RunEnded, prepared: &Prepared, surroundings: &Surroundings) {
    if ended.completion_reason != CompletionReason::ConditionFailed {
        return;
    }
    let Some(diagnostic) = prepared.condition_diagnostic(ended) else {
        return;
    };
    surroundings.complain(&diagnostics::human(&[diagnostic], surroundings.colors_on_stderr()));
}

/// What is odd about the ensemble, for the person who runs it.
pub(super) fn show_warnings(prepared: &Prepared, args: &ShowingArgs, surroundings: &Surroundings) {
    let warnings: Vec<_> = prepared
        .warnings
        .iter()
        .filter(|finding| finding.severity == Severity::Warning)
        .cloned()
        .collect();
    if !warnings.is_empty() && !args.quiet {
        surroundings.complain(&diagnostics::human(&warnings, surroundings.colors_on_stderr()));
    }
}

/// Says that a torn record was dropped from the journal of that run.
pub(super) fn warn_of_torn(folder: Option<&Path>, surroundings: &Surroundings) {
    let journal = folder.map_or_else(|| "journal.jsonl".into(), |folder| folder.join("journal.jsonl"));
    surroundings.complain(&format!(
        "warning: the last line of {} was torn and has been dropped\n",
        surroundings.project.relative(&journal).display()
    ));
}
