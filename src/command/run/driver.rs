//! Executes a run from the command line: signals cancel it, messages continue it, and its end decides the exit code.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use crate::command::run::arguments::{DrivingArgs, Output, ShowingArgs};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use crate::terminal::signals;
use ensemble_core::conversation::{Canceller, CompletionReason, ConversationState, RunEnded};
use ensemble_language::diagnostic::Severity;
use ensemble_language::source::Route;
use ensemble_reports::report::story::quoted;
use ensemble_reports::report::{RunResult, diagnostics};
use ensemble_runs::{Prepared, Ready, UnusedAnswer};

/// The source of further user messages after the conversation has ended.
pub(crate) trait Messages {
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
pub(crate) struct QueuedMessages(VecDeque<Arc<str>>);

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

/// The way in which the end of a run is reported.
pub(crate) struct Ending<'a> {
    /// Whether a limit that ends the conversation makes the exit code an error.
    pub(crate) fail_on_limit: bool,
    /// The output options.
    pub(crate) showing: &'a ShowingArgs,
    /// The output streams.
    pub(crate) surroundings: &'a Surroundings,
    /// Whether an answer that no question has taken is an error.
    refuses_unused_answers: bool,
}

impl<'a> Ending<'a> {
    pub(crate) fn new(driving: &DrivingArgs, showing: &'a ShowingArgs, surroundings: &'a Surroundings) -> Self {
        Self {
            fail_on_limit: driving.fail_on_limit,
            showing,
            surroundings,
            refuses_unused_answers: false,
        }
    }

    /// With an error for an answer that no question has taken, instead of a warning.
    pub(crate) fn with_unused_answers_refused(self) -> Self {
        Self {
            refuses_unused_answers: true,
            ..self
        }
    }
}

/// Starts the run, executes it to its end, prints the result, and returns the exit code.
pub(crate) async fn drive(ready: Ready, mut messages: impl Messages, ending: Ending<'_>) -> Result<u8, CliError> {
    let mut signals = signals::listen();
    let run = ready.begin().await?;
    signals.of_run(run.id());
    let mut is_terminated = false;
    while let Some(ended) = ended(&run, &mut signals, &mut is_terminated).await {
        if is_terminated {
            break;
        }
        signals.are_dealt_with();
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
    let unused = run.unused_answers().await.unwrap_or_default();
    let finished = run.finish().await?;
    let code = ending.show(&finished.state, &prepared);
    ending.report_unsaid(&messages.unsaid());
    Ok(ending.report_unused_answers(&unused, code))
}

/// Waits for the end of the conversation; a signal cancels it. `None`: the run stopped with an error, which its end
/// contains.
async fn ended(run: &ensemble_runs::Run, signals: &mut signals::Signals, is_terminated: &mut bool) -> Option<RunEnded> {
    loop {
        tokio::select! {
            ended = run.outcome() => return ended.ok(),
            by = signals.next() => {
                *is_terminated |= by == Canceller::Signal;
                run.cancel(by);
            }
        }
    }
}

impl Ending<'_> {
    /// Says which messages of `--then` the conversation has not heard.
    fn report_unsaid(&self, unsaid: &[Arc<str>]) {
        for text in unsaid {
            let text = quoted(text);
            self.surroundings
                .print_err(&format!("not said, because the run did not end well: {text}\n"));
        }
    }

    /// Prints the answers that no question has taken, and returns the exit code of the command.
    fn report_unused_answers(&self, unused: &[UnusedAnswer], code: u8) -> u8 {
        let is_mistake = |answer: &&UnusedAnswer| !(self.refuses_unused_answers && answer.is_for_every_question);
        let unused: Vec<&UnusedAnswer> = unused.iter().filter(is_mistake).collect();
        for answer in &unused {
            let (address, text) = (&answer.address, &answer.text);
            let message = match (&answer.decided, self.refuses_unused_answers) {
                (Some(decided), true) => format!("error: {decided} (`{text}`)\n"),
                (None, true) => format!("error: `{address}` did not ask; your answer `{text}` was not used\n"),
                (_, false) => format!("warning: no question of `{address}` took the answer `{text}`\n"),
            };
            self.surroundings.print_err(&message);
        }
        match self.refuses_unused_answers && !unused.is_empty() && code == exit::SUCCESS {
            true => exit::USAGE,
            false => code,
        }
    }

    /// Prints the result of a run that has ended, and returns the exit code.
    pub(crate) fn show(&self, state: &ConversationState, prepared: &Prepared) -> u8 {
        let Some(ended) = state.ended() else {
            return exit::SUCCESS;
        };
        print_condition_error(ended, prepared, self.surroundings);
        if let Some(note) = default_limit(ended.completion_reason, prepared)
            && self.showing.output == Output::Human
            && !self.showing.quiet
        {
            self.surroundings.print_err(&note);
        }
        if self.showing.output == Output::Json {
            let result = RunResult(state).to_text();
            self.surroundings.print_as(Output::Json, &result);
        }
        exit::of_run(ended.completion_reason, state.interrupted(), self.fail_on_limit)
    }
}

/// The note that the limit which ended the run is a default, and the key that sets it; `None` if the file sets it.
fn default_limit(reason: CompletionReason, prepared: &Prepared) -> Option<String> {
    let limits = &prepared.plan.ensemble().limits;
    let (key, value) = match reason {
        CompletionReason::MaxTotalTurns => ("max_total_turns", format!("{} turns", limits.max_total_turns)),
        CompletionReason::Timeout => ("timeout_seconds", format!("{} seconds", limits.timeout.as_secs_f64())),
        _ => return None,
    };
    let route = Route::root().key("conversation_limits").key(key);
    let is_set = prepared.loaded.document.as_ref()?.get(&route).is_some();
    (!is_set).then(|| format!("  {value} is the default limit; to change it, set `{key}` in `conversation_limits`\n"))
}

/// Prints the diagnostic of a condition that could not be evaluated, with its position in the file.
pub(crate) fn print_condition_error(ended: &RunEnded, prepared: &Prepared, surroundings: &Surroundings) {
    if ended.completion_reason != CompletionReason::ConditionFailed {
        return;
    }
    let Some(diagnostic) = prepared.condition_diagnostic(ended) else {
        return;
    };
    surroundings.print_err(&diagnostics::human(&[diagnostic], surroundings.colors_on_stderr()));
}

/// Prints the findings about the ensemble.
pub(crate) fn show_warnings(prepared: &Prepared, args: &ShowingArgs, surroundings: &Surroundings) {
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
pub(crate) fn warn_incomplete_record(folder: Option<&Path>, surroundings: &Surroundings) {
    let journal = folder.map_or_else(|| "journal.jsonl".into(), |folder| folder.join("journal.jsonl"));
    surroundings.print_err(&format!(
        "warning: the last line of {} was incomplete and has been dropped\n",
        surroundings.project.relative(&journal).display()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_language::source::Source;
    use ensemble_project::prepare::prepare_text;

    #[test]
    fn a_limit_that_nobody_set_is_told_with_its_key() {
        let note = |limits: &str, reason| {
            let text = format!("name: e\nagents: [{{name: a, script: x}}]\n{limits}");
            let prepared = prepare_text(Source::new("e.yaml", text), "e.yaml".into(), ".".into(), ".".into())
                .expect("it is sound");
            default_limit(reason, &prepared).unwrap_or_default()
        };
        let (turns, time) = (CompletionReason::MaxTotalTurns, CompletionReason::Timeout);
        assert!(note("", turns).contains("20 turns is the default limit; to change it, set `max_total_turns`"));
        assert!(note("", time).contains("300 seconds is the default limit; to change it, set `timeout_seconds`"));
        let both = "conversation_limits: {max_total_turns: 20, timeout_seconds: 300}\n";
        assert_eq!(note(both, turns), "");
        assert_eq!(note(both, time), "");
        let other = "conversation_limits: {timeout_seconds: 5}\n";
        assert!(note(other, turns).contains("20 turns"));
        assert_eq!(note("", CompletionReason::Completed), "");
    }
}
