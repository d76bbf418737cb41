//! Execution of a run by a command: signals cancel the run, messages continue it, and its outcome decides the exit code.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use crate::command::run::arguments::{RunExecutionArgs, RunOutputArgs, RunOutputFormat};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::signals;
use ensemble_core::conversation::{CompletionReason, ConversationState, ReportedRunResult, RunCanceller, RunEnded};
use ensemble_language::diagnostic::FindingSeverity;
use ensemble_language::source::Route;
use ensemble_reports::report::diagnostics;
use ensemble_reports::report::story::quote_for_shell;
use ensemble_runs::{PreparedEnsemble, ReadyRun, UnusedAnswer};

/// Source of further user messages for a run whose conversation has ended.
pub(crate) trait UserMessageSource {
    /// Waits for the next message. Returns `None` if there are no more messages. `ended` is the end of the conversation so far.
    fn next_message<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>>;

    /// Reacts to the end of the messages, for example with a note how to continue the run.
    fn on_messages_finished(&self, _run_id: &str) {}

    /// Returns the messages that were not added to the run.
    fn unsent_messages(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

/// Messages from the command line. The run gets the next message only if the conversation succeeded.
#[derive(Debug, Default)]
pub(crate) struct CommandLineMessages(VecDeque<Arc<str>>);

impl FromIterator<Arc<str>> for CommandLineMessages {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(texts: I) -> Self {
        Self(texts.into_iter().collect())
    }
}

impl UserMessageSource for CommandLineMessages {
    fn next_message<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>> {
        let text = if ended.is_success() { self.0.pop_front() } else { None };
        Box::pin(std::future::ready(text))
    }

    fn unsent_messages(&self) -> Vec<Arc<str>> {
        self.0.iter().cloned().collect()
    }
}

/// Reporter of the end of a run: prints the result and chooses the exit code.
pub(crate) struct RunEndReporter<'a> {
    /// Whether a limit that ends the conversation makes the exit code an error.
    pub(crate) fail_on_limit: bool,
    /// The output options.
    pub(crate) showing: &'a RunOutputArgs,
    /// The output streams.
    pub(crate) surroundings: &'a CliEnvironment,
    /// Whether an answer to a question that has another answer is an error.
    refuses_unused_answers: bool,
}

impl<'a> RunEndReporter<'a> {
    /// Creates a reporter from the options of the command. Unused answers are warnings.
    pub(crate) fn new(
        driving: &RunExecutionArgs,
        showing: &'a RunOutputArgs,
        surroundings: &'a CliEnvironment,
    ) -> Self {
        Self {
            fail_on_limit: driving.fail_on_limit,
            showing,
            surroundings,
            refuses_unused_answers: false,
        }
    }

    /// Turns warnings about answers to decided questions into errors.
    pub(crate) fn with_unused_answers_refused(self) -> Self {
        Self {
            refuses_unused_answers: true,
            ..self
        }
    }
}

/// Starts the run, drives it to its end with all messages, prints the result, and returns the exit code.
/// The first signal cancels the run.
pub(crate) async fn drive_run_to_end(
    ready: ReadyRun,
    mut messages: impl UserMessageSource,
    ending: RunEndReporter<'_>,
) -> Result<u8, CliError> {
    let mut signals = signals::listen_for_signals();
    let run = ready.start_and_spawn().await?;
    signals.set_run_to_kill(run.id());
    let mut is_terminated = false;
    while let Some(run_end) = wait_for_end_or_cancel(&run, &mut signals, &mut is_terminated).await {
        if is_terminated {
            break;
        }
        signals.mark_signals_handled();
        let text = tokio::select! {
            text = messages.next_message(&run_end) => text,
            _ = signals.wait_for_signal() => None,
        };
        let Some(text) = text else {
            if !run_end.completion_reason.is_resumable() {
                messages.on_messages_finished(run.id().as_str());
            }
            break;
        };
        run.continue_with_message(text).await?;
    }
    let prepared = run.prepared_ensemble().clone();
    let stored_run = Arc::clone(run.stored_run());
    let unused = run.list_unused_answers().await.unwrap_or_default();
    let finished = run.wait_and_close().await?;
    if let Some(folder) = stored_run.run_folder() {
        ensemble_runs::batch::index_run_end(folder, &finished.state)?;
    }
    let unused = ending.describe_unused_answers(unused);
    let code = ending.print_result(&finished.state, &prepared, &unused.warnings);
    ending.print_unsent_messages(&messages.unsent_messages());
    Ok(ending.print_unused_answers(&unused, code))
}

/// Waits for the end of the conversation. A signal cancels the run, and SIGTERM sets `is_terminated`.
/// Returns `None` if the run stopped with an error.
async fn wait_for_end_or_cancel(
    run: &ensemble_runs::RunHandle,
    signals: &mut signals::SignalReceiver,
    is_terminated: &mut bool,
) -> Option<RunEnded> {
    loop {
        tokio::select! {
            ended = run.wait_for_end() => return ended.ok(),
            by = signals.wait_for_signal() => {
                *is_terminated |= by == RunCanceller::Signal;
                run.cancel(by);
            }
        }
    }
}

/// Messages about answers that no question used.
#[derive(Debug, Default)]
struct UnusedAnswerMessages {
    warnings: Vec<String>,
    /// Messages about answers to questions that were decided before.
    errors: Vec<String>,
}

impl RunEndReporter<'_> {
    /// Prints each message of `--then` that the run did not get.
    fn print_unsent_messages(&self, unsaid: &[Arc<str>]) {
        for text in unsaid {
            let text = quote_for_shell(text);
            self.surroundings.print_err(&format!(
                "message not added, because the run did not complete: {text}\n"
            ));
        }
    }

    /// Describes the unused answers as warnings and errors.
    fn describe_unused_answers(&self, unused: Vec<UnusedAnswer>) -> UnusedAnswerMessages {
        let mut messages = UnusedAnswerMessages::default();
        for answer in unused {
            let (address, text) = (&answer.address, &answer.text);
            match answer.decided_refusal {
                _ if self.refuses_unused_answers && answer.is_for_every_question => {}
                Some(decided) if self.refuses_unused_answers => messages.errors.push(format!("{decided} (`{text}`)")),
                _ => messages
                    .warnings
                    .push(format!("no question of `{address}` used the answer `{text}`")),
            }
        }
        messages
    }

    /// Prints the unused answers. Returns `code`, or the code of a usage error if a successful run has an unused answer that is an error.
    fn print_unused_answers(&self, unused: &UnusedAnswerMessages, code: u8) -> u8 {
        for warning in &unused.warnings {
            self.surroundings.print_err(&format!("warning: {warning}\n"));
        }
        for error in &unused.errors {
            self.surroundings.print_err(&format!("error: {error}\n"));
        }
        match !unused.errors.is_empty() && code == exit::SUCCESS {
            true => exit::USAGE,
            false => code,
        }
    }

    /// Prints the result of a run that has ended, and returns the exit code.
    /// The JSON document contains `more_warnings` in addition to the warnings of the run.
    pub(crate) fn print_result(
        &self,
        state: &ConversationState,
        prepared: &PreparedEnsemble,
        more_warnings: &[String],
    ) -> u8 {
        let Some(run_end) = state.run_end() else {
            return exit::SUCCESS;
        };
        print_condition_error(run_end, prepared, self.surroundings);
        if let Some(note) = default_limit_note(run_end.completion_reason, prepared)
            && self.showing.output == RunOutputFormat::Human
            && !self.showing.quiet
        {
            self.surroundings.print_err(&note);
        }
        let code = exit::exit_code_for_end(run_end, state.interruption(), self.fail_on_limit);
        if self.showing.output == RunOutputFormat::Json {
            let result = ReportedRunResult {
                state,
                is_refused: code != exit::SUCCESS,
                warnings: more_warnings,
            };
            self.surroundings
                .print_out_in_format(RunOutputFormat::Json, &result.to_text());
        }
        code
    }
}

/// Renders the note that the limit which ended the run is a default, with the key that sets the limit.
/// Returns `None` if no limit ended the run, or if the file sets the limit.
fn default_limit_note(reason: CompletionReason, prepared: &PreparedEnsemble) -> Option<String> {
    let limits = &prepared.plan.ensemble().limits;
    let (key, value) = match reason {
        CompletionReason::MaxTotalTurns => ("max_total_turns", format!("{} turns", limits.max_total_turns)),
        CompletionReason::Timeout => ("timeout_seconds", format!("{} seconds", limits.timeout.as_secs_f64())),
        _ => return None,
    };
    let route = Route::root().with_key("conversation_limits").with_key(key);
    let is_set = prepared.loaded.document.as_ref()?.find_node(&route).is_some();
    (!is_set).then(|| format!("  {value} is the default limit; to change it, set `{key}` in `conversation_limits`\n"))
}

/// Prints the diagnostic of the condition that could not be evaluated, with its position in the file. Prints nothing for other outcomes.
pub(crate) fn print_condition_error(ended: &RunEnded, prepared: &PreparedEnsemble, surroundings: &CliEnvironment) {
    if ended.completion_reason != CompletionReason::ConditionFailed {
        return;
    }
    let Some(diagnostic) = prepared.condition_diagnostic(ended) else {
        return;
    };
    surroundings.print_err(&diagnostics::render_diagnostics(
        &[diagnostic],
        surroundings.colors_on_stderr(),
    ));
}

/// Prints the warnings about the ensemble, unless the output is quiet.
pub(crate) fn print_warnings(prepared: &PreparedEnsemble, args: &RunOutputArgs, surroundings: &CliEnvironment) {
    let warnings: Vec<_> = prepared
        .warnings
        .iter()
        .filter(|finding| finding.severity == FindingSeverity::Warning)
        .cloned()
        .collect();
    if !warnings.is_empty() && !args.quiet {
        surroundings.print_err(&diagnostics::render_diagnostics(
            &warnings,
            surroundings.colors_on_stderr(),
        ));
    }
}

/// Prints a warning that an incomplete record was dropped from the journal in this folder.
pub(crate) fn print_incomplete_record_warning(folder: Option<&Path>, surroundings: &CliEnvironment) {
    let journal = folder.map_or_else(|| "journal.jsonl".into(), |folder| folder.join("journal.jsonl"));
    surroundings.print_err(&format!(
        "warning: the last line of {} was incomplete and has been dropped\n",
        surroundings.project.relative_path(&journal).display()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_language::source::SourceText;
    use ensemble_project::prepare::prepare_text;

    #[test]
    fn a_limit_that_nobody_set_is_told_with_its_key() {
        let note = |limits: &str, reason| {
            let text = format!("name: e\nagents: [{{name: a, script: x}}]\n{limits}");
            let prepared = prepare_text(SourceText::new("e.yaml", text), "e.yaml".into(), ".".into(), ".".into())
                .expect("it is sound");
            default_limit_note(reason, &prepared).unwrap_or_default()
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
