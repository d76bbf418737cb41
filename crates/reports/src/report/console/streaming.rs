//! The streaming of one reply while a model writes the reply.

use std::sync::Arc;

use super::{ConsoleState, StreamedParts};
use crate::report::format::{DIM, NAME};
use crate::report::wrap::TextWrapper;
use ensemble_core::thread::{ExecutionAttemptRef, LiveUpdate, ToolCall};

/// The indent of every row of a reply, in columns.
const REPLY_INDENT: usize = 4;

/// A reply that is being streamed, with the state of its output.
pub(super) struct StreamedReply {
    pub(super) source: ExecutionAttemptRef,
    /// True if the line with the agent's name was written.
    pub(super) title_printed: bool,
    /// The beginning of a reply, until it is known whether it is text.
    buffered: String,
    /// The reply is text and is being written.
    is_text: bool,
    wrapper: TextWrapper,
    /// True if text of the last reply was written.
    has_text: bool,
    /// The reasoning of the present reply is being written.
    is_thinking: bool,
    /// True if reasoning was written.
    has_reasoning: bool,
}

impl ConsoleState {
    /// Shows an update if its reply is the streamed one, or starts a streamed reply. Remembers agents whose updates are not shown.
    pub(super) fn show_live_update(&mut self, source: &ExecutionAttemptRef, update: LiveUpdate<'_>) {
        if self.reply.is_none() {
            if self.data_replies.contains(&source.agent) && matches!(update, LiveUpdate::Text(_)) {
                return;
            }
            self.reply = Some(StreamedReply::new(
                source.clone(),
                TextWrapper::new(self.options.out_width, REPLY_INDENT),
            ));
        }
        let Some(mut reply) = self.reply.take_if(|reply| reply.source == *source) else {
            self.missed.insert(Arc::clone(&source.agent));
            return;
        };
        match update {
            LiveUpdate::Text(text) => self.write_reply_text(&mut reply, text),
            LiveUpdate::Reasoning(text) => self.write_reasoning(&mut reply, text),
            LiveUpdate::ToolStarted(call) => {
                let line = render_call_line(call, self.options.whole);
                self.write_tool_line(&mut reply, &format!("→ {line}"));
            }
            LiveUpdate::ToolEnded(call) => {
                let line = render_result_line(call, self.options.whole);
                self.write_tool_line(&mut reply, &format!("← {line}"));
            }
            LiveUpdate::Restarted if reply.is_text || reply.is_thinking => {
                self.write_tool_line(&mut reply, "(the reply was interrupted; requesting it again)")
            }
            LiveUpdate::Retrying { .. } | LiveUpdate::PaceChanged { .. } => {}
            LiveUpdate::Restarted => {
                self.data_replies.remove(&reply.source.agent);
                reply.buffered.clear();
            }
        }
        let is_data = !reply.is_text && starts_like_json_or_code(&reply.buffered);
        if is_data {
            self.data_replies.insert(Arc::clone(&reply.source.agent));
        }
        // A reply that is only data does not block other replies.
        if reply.title_printed || !is_data {
            self.reply = Some(reply);
        }
        if self.is_streaming() {
            self.show_activity();
        }
    }

    /// Writes reasoning of a model, dimmed and apart from its reply.
    fn write_reasoning(&mut self, reply: &mut StreamedReply, text: &str) {
        let text = match reply.is_thinking {
            true => text,
            false => text.trim_start(),
        };
        if text.is_empty() {
            return;
        }
        if !reply.is_thinking {
            self.write_agent_title(reply);
            self.end_reply_line(reply);
            self.write_or_queue_for_question(&format!("{:REPLY_INDENT$}{DIM}reasoning:{DIM:#}\n", ""));
            reply.is_thinking = true;
            reply.has_reasoning = true;
            reply.is_text = false;
        }
        let mut wrapped_text = String::with_capacity(text.len() + REPLY_INDENT);
        reply.wrapper.push_text(text, &mut wrapped_text);
        self.write_or_queue_for_question(&format!("{DIM}{wrapped_text}{DIM:#}"));
    }

    /// Ends the reasoning before other output.
    fn end_reasoning(&mut self, reply: &mut StreamedReply) {
        if std::mem::take(&mut reply.is_thinking) {
            let mut wrapped_text = String::new();
            reply.wrapper.close_line(&mut wrapped_text);
            self.write_or_queue_for_question(&format!(
                "{DIM}{wrapped_text}{DIM:#}{:REPLY_INDENT$}{DIM}reply:{DIM:#}\n",
                ""
            ));
        }
    }

    /// Writes reply text. Holds back a reply that looks like a JSON object until the reply is complete.
    fn write_reply_text(&mut self, reply: &mut StreamedReply, text: &str) {
        if reply.is_text {
            self.write_wrapped(reply, text);
            return;
        }
        if self.data_replies.contains(&reply.source.agent) {
            return;
        }
        reply.buffered.push_str(text);
        let begins = reply.buffered.trim_start();
        if begins.is_empty() || starts_like_json_or_code(begins) {
            return;
        }
        let buffered = std::mem::take(&mut reply.buffered);
        self.write_agent_title(reply);
        self.end_reasoning(reply);
        reply.is_text = true;
        reply.has_text = true;
        self.write_wrapped(reply, buffered.trim_start());
    }

    /// Writes a line about a tool call. Later text belongs to another reply.
    fn write_tool_line(&mut self, reply: &mut StreamedReply, line: &str) {
        // A reply that looks like data is not shown, and it was the text beside a call.
        if self.data_replies.remove(&reply.source.agent) {
            self.missed.insert(Arc::clone(&reply.source.agent));
        }
        self.write_agent_title(reply);
        self.end_reply_line(reply);
        reply.is_thinking = false;
        let line = format!("{:REPLY_INDENT$}{DIM}{line}{DIM:#}\n", "");
        self.write_or_queue_for_question(&self.options.out_width.wrap_sentences(&line));
        reply.buffered.clear();
        reply.is_text = false;
        reply.has_text = false;
    }

    /// Writes the line with the name of the agent, and clears the spinner before.
    fn write_agent_title(&mut self, reply: &mut StreamedReply) {
        if reply.title_printed {
            return;
        }
        reply.title_printed = true;
        self.spinner.stop_and_clear();
        let heading = self.heading.take().unwrap_or_default();
        let again = match reply.source.execution {
            1 => String::new(),
            execution => format!(" #{execution}"),
        };
        let agent = &reply.source.agent;
        self.write_or_queue_for_question(&format!("{heading}  {NAME}{agent}{NAME:#}{again} {DIM}llm{DIM:#}\n"));
    }

    /// Writes reply text, wrapped.
    fn write_wrapped(&mut self, reply: &mut StreamedReply, text: &str) {
        let mut wrapped_text = String::with_capacity(text.len() + REPLY_INDENT);
        reply.wrapper.push_text(text, &mut wrapped_text);
        self.write_or_queue_for_question(&wrapped_text);
    }

    /// Ends the current line of the reply, if there is one.
    pub(super) fn end_reply_line(&mut self, reply: &mut StreamedReply) {
        let mut wrapped_text = String::new();
        reply.wrapper.close_line(&mut wrapped_text);
        if !wrapped_text.is_empty() {
            self.write_or_queue_for_question(&wrapped_text);
        }
    }

    /// Ends the reply, restarts the spinner, and returns the parts that were shown.
    pub(super) fn finish_reply(&mut self, mut reply: StreamedReply) -> StreamedParts {
        if !reply.title_printed {
            return StreamedParts::default();
        }
        self.spinner.clear_row_below();
        self.end_reply_line(&mut reply);
        if !self.question_open {
            self.spinner.start_if_active();
        }
        StreamedParts {
            title: true,
            text: reply.has_text,
            reasoning: reply.has_reasoning,
            missed: false,
        }
    }
}

impl StreamedReply {
    /// Creates the state of a reply that was not shown yet.
    fn new(source: ExecutionAttemptRef, wrapper: TextWrapper) -> Self {
        Self {
            source,
            title_printed: false,
            buffered: String::new(),
            is_text: false,
            wrapper,
            has_text: false,
            is_thinking: false,
            has_reasoning: false,
        }
    }
}

/// Returns whether the text starts like a JSON object or a code block.
fn starts_like_json_or_code(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('{') || text.starts_with("```")
}

/// Renders a tool call on one line, `name {"city": "Paris"}`, shortened unless `whole` is set.
pub(crate) fn render_call_line(call: &ToolCall, whole: bool) -> String {
    format!(
        "{} {}",
        call.name,
        join_and_shorten_lines(&call.arguments.to_string(), whole)
    )
}

/// Renders a tool result on one line, `name: 72`, shortened unless `whole` is set.
pub(crate) fn render_result_line(call: &ToolCall, whole: bool) -> String {
    format!(
        "{}: {}",
        call.name,
        join_and_shorten_lines(&call.text_for_model(), whole)
    )
}

/// The number of characters of a tool's arguments or result that are shown by default.
const MAX_CALL_CHARS: usize = 120;

/// Returns whether the arguments or the result are longer than the shown part.
pub(crate) fn is_call_long(call: &ToolCall) -> bool {
    let is_long = |text: &str| text.chars().nth(MAX_CALL_CHARS).is_some();
    is_long(&call.arguments.to_string()) || is_long(&call.text_for_model())
}

/// Replaces line breaks by blanks. Shortens the text unless `whole` is set.
fn join_and_shorten_lines(text: &str, whole: bool) -> String {
    let line = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    if whole || text.chars().nth(MAX_CALL_CHARS).is_none() {
        return line.collect();
    }
    line.take(MAX_CALL_CHARS).chain(['…']).collect()
}
