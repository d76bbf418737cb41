//! Standard output and standard error of a run, a spinner, and replies that are shown while they arrive.
//!
//! Only one reply is streamed at a time, the reply that started first, because the lines of two streamed replies would be mixed. All other
//! output is queued until that execution has ended. Meanwhile, a row below the reply shows the other running agents.

mod activity;
mod spinner;
mod streaming;

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensemble_core::thread::{ExecutionAttemptRef, LiveOutputReceiver, LiveUpdate, ToolCall};

use super::sanitized_writer::SanitizedWriter;
use super::wrap::LineWidth;
use activity::RunActivity;
use spinner::ActivitySpinner;
use streaming::StreamedReply;
pub(super) use streaming::{is_call_long, render_call_line, render_result_line};

/// A writer of a run's output to standard output and standard error. Queues output while a reply is streamed or a question is open. Clones
/// share the streams.
#[derive(Clone)]
pub struct ConsoleWriter(Arc<Mutex<ConsoleState>>);

/// The options for the output while a run is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsoleOptions {
    /// A spinner turns on standard error.
    pub progress: bool,
    /// Replies are shown while they arrive, because both streams are on a terminal.
    pub live: bool,
    /// Both streams have the same reader: a terminal, or one file or pipe.
    pub has_one_reader: bool,
    /// Tool calls are shown complete.
    pub whole: bool,
    /// The maximum length of lines of standard output.
    pub out_width: LineWidth,
    /// The maximum length of lines of standard error.
    pub err_width: LineWidth,
}

/// The state of a console writer: streams, spinner, streamed reply and queued output.
struct ConsoleState {
    out: SanitizedWriter,
    err: SanitizedWriter,
    spinner: ActivitySpinner,
    activity: RunActivity,
    options: ConsoleOptions,
    /// Printed before the next output of the turn.
    heading: Option<String>,
    /// The reply that is being streamed.
    reply: Option<StreamedReply>,
    /// Agents whose present reply is not streamed, because it is data.
    data_replies: HashSet<Arc<str>>,
    /// Agents of which a part of a reply or a tool call was not shown while it arrived.
    missed: HashSet<Arc<str>>,
    /// Text that is printed when no reply is being streamed and no question is open.
    pending: Vec<(ConsoleStream, String)>,
    /// Warnings that were printed when they arose, before the end of their execution.
    announced: HashSet<String>,
    /// True while a question is open. Nothing is written until the answer.
    question_open: bool,
    /// Parts of replies that arrived while a question was open.
    deferred: Vec<(ExecutionAttemptRef, DeferredUpdate)>,
}

/// A live update that arrived while a question was open.
enum DeferredUpdate {
    Text(String),
    Reasoning(String),
    ToolStarted(ToolCall),
    ToolEnded(ToolCall),
    Restarted,
}

/// The stream for a text: standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConsoleStream {
    Out,
    Err,
}

/// The parts of an execution that were shown before its end: title, reply text and reasoning, and whether other parts were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamedParts {
    /// The name of the agent.
    pub title: bool,
    /// The text of its last reply.
    pub text: bool,
    /// The reasoning of a model.
    pub reasoning: bool,
    /// True if a tool call, or a text next to a tool call, was not shown.
    pub missed: bool,
}

impl ConsoleWriter {
    /// Creates a writer for these two streams.
    pub fn new(out: SanitizedWriter, err: SanitizedWriter, options: ConsoleOptions) -> Self {
        let activity = RunActivity::default();
        Self(Arc::new(Mutex::new(ConsoleState {
            out,
            err,
            spinner: ActivitySpinner::new(options.progress, activity.clone()),
            activity,
            options,
            heading: None,
            reply: None,
            data_replies: HashSet::new(),
            missed: HashSet::new(),
            pending: Vec::new(),
            announced: HashSet::new(),
            question_open: false,
            deferred: Vec::new(),
        })))
    }

    /// Queues all output and clears the spinner until [`ConsoleWriter::resume_after_question`].
    pub fn pause_for_question(&self) {
        let mut state = self.lock_state();
        state.spinner.clear_row_below();
        if let Some(mut reply) = state.reply.take() {
            state.end_reply_line(&mut reply);
            state.reply = Some(reply);
        }
        state.question_open = true;
        state.spinner.stop_and_clear();
    }

    /// Prints the queued output after the question was answered or withdrawn.
    pub fn resume_after_question(&self) {
        let mut state = self.lock_state();
        state.question_open = false;
        if !state.is_streaming() {
            state.spinner.start_if_active();
        }
        // The output of finished executions comes before replies that have begun.
        state.print_queued_if_unblocked();
        for (source, deferred) in std::mem::take(&mut state.deferred) {
            state.show_live_update(&source, deferred.as_update());
        }
        state.print_queued_if_unblocked();
        state.show_activity();
    }

    /// Prints the text to standard output, or queues the text while output is blocked.
    pub fn print_or_queue_stdout(&self, text: &str) {
        self.lock_state().write_or_queue(ConsoleStream::Out, text);
    }

    /// Prints the text to standard error, or queues the text while output is blocked.
    pub fn print_or_queue_stderr(&self, text: &str) {
        self.lock_state().write_or_queue(ConsoleStream::Err, text);
    }

    /// Sets or removes the heading that is printed to standard output before the next output.
    pub fn set_pending_heading(&self, heading: Option<String>) {
        self.lock_state().heading = heading;
    }

    /// Prints the pending heading, once.
    pub fn print_pending_heading(&self) {
        let mut state = self.lock_state();
        if let Some(heading) = state.heading.take() {
            state.write_or_queue(ConsoleStream::Out, &heading);
        }
    }

    /// Shows the running agents of the turn, each with its name and a text. `afresh` restarts the shown time.
    pub(super) fn show_running_agents(&self, turn: u32, running: Vec<(Arc<str>, String)>, afresh: bool) {
        let mut state = self.lock_state();
        if afresh {
            state.spinner.restart_time();
        }
        let is_queued = state.is_output_blocked();
        state.activity.set_running_agents(turn, running, is_queued);
        state.show_activity();
    }

    /// Shows that the agent retries after this pause.
    pub(super) fn show_retry_pause(&self, agent: &Arc<str>, pause: Duration) {
        let mut state = self.lock_state();
        state.activity.set_retry_pause(agent, pause);
        state.show_activity();
    }

    /// Returns whether there is a spinner.
    pub(super) fn has_spinner(&self) -> bool {
        self.lock_state().options.progress
    }

    /// Returns whether both streams have the same reader.
    pub(super) fn streams_have_same_reader(&self) -> bool {
        let options = self.lock_state().options;
        options.live || options.has_one_reader
    }

    /// Returns the maximum line lengths of standard output and standard error.
    pub(super) fn line_widths(&self) -> (LineWidth, LineWidth) {
        let options = self.lock_state().options;
        (options.out_width, options.err_width)
    }

    /// Ends the streamed reply of an agent, after its execution or attempt, and returns the shown parts.
    pub fn end_streamed_reply(&self, agent: &str) -> StreamedParts {
        let mut state = self.lock_state();
        state.apply_deferred_updates(agent);
        state.activity.clear_retry_pause(agent);
        state.data_replies.remove(agent);
        let missed = state.missed.remove(agent);
        match state.reply.take_if(|reply| *reply.source.agent == *agent) {
            Some(reply) => StreamedParts {
                missed,
                ..state.finish_reply(reply)
            },
            None => StreamedParts::default(),
        }
    }

    /// Prints the output that was queued while a reply was streamed.
    pub fn print_queued_output(&self) {
        self.lock_state().print_queued_if_unblocked();
    }

    /// Returns whether the warning was printed already.
    pub(super) fn has_printed_warning(&self, warning: &str) -> bool {
        self.lock_state().announced.contains(warning)
    }

    /// Clears the spinner and prints all queued output, at the end of a run.
    pub fn finish_output(&self) {
        let mut state = self.lock_state();
        if let Some(reply) = state.reply.take() {
            state.finish_reply(reply);
        }
        state.activity.clear_activity();
        state.spinner.show_or_stop();
        state.print_queued_if_unblocked();
    }

    /// Locks the state, also after a panic in another thread.
    fn lock_state(&self) -> MutexGuard<'_, ConsoleState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveOutputReceiver for ConsoleWriter {
    fn receive_update(&self, source: &ExecutionAttemptRef, update: LiveUpdate<'_>) {
        let mut state = self.lock_state();
        if let LiveUpdate::Retrying { pause, .. } = update {
            state.activity.set_retry_pause(&source.agent, pause);
            state.show_activity();
            return;
        }
        if let LiveUpdate::PaceChanged { text } = update {
            if state.options.live {
                state.announced.insert(text.to_owned());
                state.write_or_queue(ConsoleStream::Err, &format!("{text}\n"));
            }
            return;
        }
        if state.activity.clear_retry_pause(&source.agent) {
            state.show_activity();
        }
        let is_for_details = matches!(update, LiveUpdate::Reasoning(_)) && !state.options.whole;
        if !state.options.live || is_for_details {
            return;
        }
        if state.question_open {
            state.deferred.push((source.clone(), update.into()));
        } else {
            state.show_live_update(source, update);
        }
    }
}

impl ConsoleState {
    /// Returns whether a reply is being written.
    fn is_streaming(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| reply.title_printed)
    }

    /// Returns whether output must be queued, because a reply is streamed or a question is open.
    fn is_output_blocked(&self) -> bool {
        self.is_streaming() || self.question_open
    }

    /// Shows the activity in the spinner, or below the streamed reply.
    fn show_activity(&mut self) {
        if self.question_open {
            return;
        }
        match self.reply.as_ref().filter(|reply| reply.title_printed) {
            Some(reply) => {
                let row = self.activity.render_activity_without(&reply.source.agent);
                self.spinner.clear_row_below();
                self.spinner.show_row_below(&row);
            }
            None => {
                self.spinner.show_or_stop();
                self.spinner.start_if_active();
            }
        }
    }

    /// Prints the queued output, unless output is blocked.
    fn print_queued_if_unblocked(&mut self) {
        if self.is_output_blocked() {
            return;
        }
        self.activity.clear_ended_agents();
        for (target, text) in std::mem::take(&mut self.pending) {
            self.write_or_queue(target, &text);
        }
    }

    /// Applies the updates that arrived for this agent while a question was open. Discards updates of a reply that is not shown.
    fn apply_deferred_updates(&mut self, agent: &str) {
        let is_streaming =
            self.is_streaming() && self.reply.as_ref().is_some_and(|reply| *reply.source.agent == *agent);
        let deferred = std::mem::take(&mut self.deferred);
        let (its, others) = deferred.into_iter().partition(|(source, _)| *source.agent == *agent);
        self.deferred = others;
        let its: Vec<(ExecutionAttemptRef, DeferredUpdate)> = its;
        for (source, deferred) in its.iter().filter(|_| is_streaming) {
            self.show_live_update(source, deferred.as_update());
        }
    }

    /// Writes the text, or queues the text if output is blocked. Ignores closed streams.
    fn write_or_queue(&mut self, target: ConsoleStream, text: &str) {
        if self.is_output_blocked() {
            self.pending.push((target, text.to_owned()));
            return;
        }
        let stream = match target {
            ConsoleStream::Out => &mut self.out,
            ConsoleStream::Err => &mut self.err,
        };
        // A closed pipe must not stop the run; the journal contains everything.
        self.spinner.suspend_while(|| {
            let _ = stream.write_all(text.as_bytes());
            let _ = stream.flush();
        });
    }

    /// Writes the text to standard output, also while a reply is streamed. Queues the text while a question is open.
    fn write_or_queue_for_question(&mut self, text: &str) {
        if self.question_open {
            self.pending.push((ConsoleStream::Out, text.to_owned()));
            return;
        }
        self.spinner.clear_row_below();
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }
}

impl From<LiveUpdate<'_>> for DeferredUpdate {
    fn from(update: LiveUpdate<'_>) -> Self {
        match update {
            LiveUpdate::Text(text) => Self::Text(text.to_owned()),
            LiveUpdate::Reasoning(text) => Self::Reasoning(text.to_owned()),
            LiveUpdate::ToolStarted(call) => Self::ToolStarted(call.clone()),
            LiveUpdate::ToolEnded(call) => Self::ToolEnded(call.clone()),
            // A pause and a new pace are shown at once; they are not deferred.
            LiveUpdate::Restarted | LiveUpdate::Retrying { .. } | LiveUpdate::PaceChanged { .. } => Self::Restarted,
        }
    }
}

impl DeferredUpdate {
    /// Converts the deferred update back to a live update.
    fn as_update(&self) -> LiveUpdate<'_> {
        match self {
            Self::Text(text) => LiveUpdate::Text(text),
            Self::Reasoning(text) => LiveUpdate::Reasoning(text),
            Self::ToolStarted(call) => LiveUpdate::ToolStarted(call),
            Self::ToolEnded(call) => LiveUpdate::ToolEnded(call),
            Self::Restarted => LiveUpdate::Restarted,
        }
    }
}

#[cfg(test)]
mod tests;
