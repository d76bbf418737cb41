//! Executes a run from the command line: signals cancel it, messages continue it, and its end decides the exit code.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use super::args::{DrivingArgs, Output, ShowingArgs};
use super::error::CliError;
use super::surroundings::Surroundings;
use super::{exit, signals};
use ensemble_core::conversation::{CompletionReason, ConversationState, RunEnded};
use ensemble_language::diagnostic::Severity;
use ensemble_reports::report::story::quoted;
use ensemble_reports::report::{RunResult, diagnostics};
use ensemble_runs::{Prepared, Ready};

/// The source of further user messages after the conversation has ended.
pub(super) trait Messages {
    /// The next message; `None` if there are no more messages.
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>>;

    /// Called when there are no more messages.
    fn finish(&self, _run_id: &str) {}

    /// The messages that were not said, because the conversation did not end well.
    fn unsaid(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

/// Messages from the command line. After a conversation that ended with an error, the rest is dropped.
#[derive(Debug, Default)]
pub(super) struct QueuedMessages(VecDeque<Arc<str>>);

impl FromIterator<Arc<str>> for QueuedMessages {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(texts: I) -> Self {
        Self(texts.into_iter().collect())
    }
}

impl Messages for QueuedMessages {
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>> {
        let well = ended.completion_reason == CompletionReason::Completed || ended.completion_reason.is_limit();
        let text = if well { self.0.pop_front() } else { None };
        Box::pin(std::future::ready(text))
    }

    fn unsaid(&self) -> Vec<Arc<str>> {
        self.0.iter().cloned().collect()
    }
}

/// How the end of a run is reported.
pub(super) struct Ending<'a> {
    /// Whether a limit that ends the conversation makes the exit code an error.
    pub(super) fail_on_limit: bool,
    /// The output options.
    pub(super) showing: &'a ShowingArgs,
    /// The output streams.
    pub(super) surroundings: &'a Surroundings,
}

impl<'a> Ending<'a> {
    pub(super) fn new(driving: &DrivingArgs, showing: &'a ShowingArgs, surroundings: &'a Surroundings) -> Self {
        Self {
            fail_on_limit: driving.fail_on_limit,
            showing,
            surroundings,
        }
    }
}

/// Starts the run, executes it to its end, prints the result, and returns the exit code.
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
                messages.finish(run.id().as_str());
            }
            break;
        };
        run.say(text).await?;
    }
    let prepared = run.prepared().clone();
    let finished = run.finish().await?;
    let code = ending.show(&finished.state, &prepared);
    ending.report_unsaid(&messages.unsaid());
    Ok(code)
}

/// Waits for the end of the conversation; a signal cancels it. `None`: the run stopped with an error, which its end
/// contains.
async fn ended(run: &ensemble_runs::Run, signals: &mut signals::Signals) -> Option<RunEnded> {
    loop {
        tokio::select! {
            ended = run.outcome() => return ended.ok(),
            by = signals.next() => run.cancel(by),
        }
    }
}

impl Ending<'_> {
    /// Says which messages of `--then` the conversation has not heard.
    fn report_unsaid(&self, unsaid: &[Arc<str>]) {
        for text in unsaid {
            let text = quoted(text);
            self.surroundings
                .print_err(&format!("not said, because the run did not end well: --then {text}\n"));
        }
    }

    /// Prints the result of a run that has ended, and returns the exit code.
    pub(super) fn show(&self, state: &ConversationState, prepared: &Prepared) -> u8 {
        let Some(ended) = state.ended() else {
            return exit::SUCCESS;
        };
        print_condition_error(ended, prepared, self.surroundings);
        if self.showing.output == Output::Json {
            self.surroundings.print(&RunResult(state).to_text());
        }
        exit::of_run(ended.completion_reason, state.interrupted(), self.fail_on_limit)
    }
}

/// Prints the diagnostic of a condition that could not be evaluated, with its position in the file.
pub(super) fn print_condition_error(ended: &RunEnded, prepared: &Prepared, surroundings: &Surroundings) {
    if ended.completion_reason != CompletionReason::ConditionFailed {
        return;
    }
    let Some(diagnostic) = prepared.condition_diagnostic(ended) else {
        return;
    };
    surroundings.print_err(&diagnostics::human(&[diagnostic], surroundings.colors_on_stderr()));
}

/// Prints the findings about the ensemble.
pub(super) fn show_warnings(prepared: &Prepared, args: &ShowingArgs, surroundings: &Surroundings) {
    let warnings: Vec<_> = prepared
        .warnings
        .iter()
        .filter(|finding| finding.severity == Severity::Warning)
        .cloned()
        .collect();
    if !warnings.is_empty() && !args.quiet {
        surroundings.print_err(&diagnostics::human(&warnings, surroundings.colors_on_stderr()));
    }
}

/// Prints a warning that an incomplete record was dropped from the journal of this run.
pub(super) fn warn_incomplete_record(folder: Option<&Path>, surroundings: &Surroundings) {
    let journal = folder.map_or_else(|| "journal.jsonl".into(), |folder| folder.join("journal.jsonl"));
    surroundings.print_err(&format!(
        "warning: the last line of {} was incomplete and has been dropped\n",
        surroundings.project.relative(&journal).display()
    ));
}
