//! A summary that replaces dropped messages.
//!
//! A new summary is written when the thread no longer fits the window. It covers so many messages that half of the
//! window is free afterwards. Until this half is used, requests use the same summary, so its cost arises once and not
//! with every request. The thread stores the summary with the ranges of messages that it covers and their digest, so
//! that later requests find it. The messages need not be the beginning of the thread: the task of the present execution
//! stays when earlier tool calls of that execution are summed up.

use serde_json::{Value, json};

use super::{
    AgentWindow, MeasuredInput, SentMessages, WindowError, WindowInput, WindowOutput, shorten_results, summary_message,
};
use crate::agent::chat::add_reply_usage;
use ensemble_core::thread::window::{
    ThreadSize, TrimRules, WindowLimits, render_summary_message, select_messages_to_send,
};
use ensemble_core::thread::{IgnoredLiveOutput, Message, MessageRole, StopReason};
use ensemble_language::data::{ModelUsage, sha256_of_text};
use ensemble_models::{Model, ModelQuery, RequestPurpose};

/// The maximum number of tokens of a summary, and the fraction of the window that it may use (1 / `WINDOW_FRACTION`).
const MAX_SUMMARY_TOKENS: u64 = 1000;
const WINDOW_FRACTION: u64 = 4;

/// The minimum number of tokens of a useful summary.
const MIN_SUMMARY_TOKENS: u64 = 20;

const SUMMARY_INSTRUCTIONS: &str = "You keep the minutes of a conversation between a user and an assistant. The part that you \
    are shown will not be seen again. Write down what must not be forgotten: facts, names, numbers, decisions, what \
    tools have found, and what is still open. Write plain sentences and nothing else.";

/// Summary of a part of a thread, with the indexes of the messages that it replaces.
struct ThreadSummary {
    /// The indexes of the messages that the summary covers, in order.
    covers: Vec<usize>,
    text: String,
    /// The requests that wrote the summary, with their replies; empty for a summary that the thread stores.
    requests: Vec<Value>,
}

impl ThreadSummary {
    /// Returns whether the summary replaces the message at this index.
    fn covers_message(&self, at: usize) -> bool {
        self.covers.binary_search(&at).is_ok()
    }
}

impl AgentWindow {
    /// Selects the messages of a request. Replaces messages that do not fit by a summary, and asks the model for it if necessary.
    pub(super) async fn select_with_summary(
        &self,
        model: &Model,
        measured: MeasuredInput<'_>,
    ) -> Result<WindowOutput, WindowError> {
        let without = select_messages_to_send(&self.rules, &measured.to_thread());
        if without.dropped.is_empty() {
            return Ok(self.select_by_rules(measured));
        }
        let latest_summary = find_stored_summary(&measured.sending);
        if let Some(usable_summary) = latest_summary
            .as_ref()
            .filter(|known| self.is_summary_usable(known, &measured))
        {
            return Ok(self.summary_output(measured, usable_summary));
        }
        let Some((place, dropped)) = self.plan_summary(&measured) else {
            let warning = "the context window has no room for a summary of the messages that are left out".to_owned();
            let mut fitted = self.select_by_rules(measured);
            fitted.warnings.push(warning);
            return Ok(fitted);
        };
        let latest_summary =
            latest_summary.filter(|known| known.covers.iter().all(|at| dropped.binary_search(at).is_ok()));
        let summary = self
            .request_summary(model, &measured, latest_summary, dropped, place)
            .await;
        let summary = summary.map_err(|error| WindowError {
            error: format!("context_window: no summary was created: {error}"),
        })?;
        Ok(self.summary_output(measured, &summary))
    }

    /// Returns whether the thread fits the window with this summary.
    fn is_summary_usable(&self, known: &ThreadSummary, measured: &MeasuredInput<'_>) -> bool {
        let droppable = measured.to_thread().list_droppable_flags(self.rules.min_recent_turns);
        known.covers.iter().all(|at| droppable[*at])
            && self.rules.limits.allows_size(self.size_with_summary(known, measured))
    }

    /// Returns the size of what is sent with this summary.
    fn size_with_summary(&self, summary: &ThreadSummary, measured: &MeasuredInput<'_>) -> ThreadSize {
        let kept_indices = (0..measured.tokens.len()).filter(|at| !summary.covers_message(*at));
        measured.kept_system_size(&self.rules)
            + self.summary_size(&summary.text)
            + measured.to_thread().sum_sizes(kept_indices)
    }

    /// Returns the size of the message that contains the summary.
    fn summary_size(&self, summary: &str) -> ThreadSize {
        ThreadSize {
            tokens: self.counter.count_text(&render_summary_message(summary)),
            messages: 1,
        }
    }

    /// Returns the maximum size of the summary and the indexes of the messages to replace. Returns `None` if there is no room.
    fn plan_summary(&self, measured: &MeasuredInput<'_>) -> Option<(ThreadSize, Vec<usize>)> {
        let limits = self.rules.limits;
        let thread = measured.to_thread();
        let droppable = thread.list_droppable_flags(self.rules.min_recent_turns);
        let stays = thread.sum_sizes((0..droppable.len()).filter(|at| !droppable[*at]));
        let least = measured.kept_system_size(&self.rules) + stays;
        let tokens = match limits.max_tokens {
            Some(max_tokens) => (max_tokens / WINDOW_FRACTION)
                .min(MAX_SUMMARY_TOKENS)
                .min(max_tokens.saturating_sub(least.tokens)),
            None => MAX_SUMMARY_TOKENS / 2,
        };
        let place = ThreadSize { tokens, messages: 1 };
        let heading = self.counter.count_text(&render_summary_message(""));
        let has_room = tokens >= heading + MIN_SUMMARY_TOKENS
            && WindowLimits {
                max_tokens: None,
                ..limits
            }
            .allows_size(least + place);
        let rules = TrimRules {
            limits: limits.halve(),
            in_place: place,
            ..self.rules
        };
        let cut = select_messages_to_send(&rules, &thread);
        (has_room && !cut.dropped.is_empty()).then_some((place, cut.dropped))
    }

    /// Asks the model for a summary of the messages at these indexes, in several requests if there are many messages.
    async fn request_summary(
        &self,
        model: &Model,
        measured: &MeasuredInput<'_>,
        known: Option<ThreadSummary>,
        dropped: Vec<usize>,
        place: ThreadSize,
    ) -> Result<ThreadSummary, String> {
        let max_tokens = self.rules.limits.max_tokens.unwrap_or(u64::MAX);
        let is_new = |at: &usize| known.as_ref().is_none_or(|known| !known.covers_message(*at));
        let new: Vec<usize> = dropped.iter().copied().filter(is_new).collect();
        let mut text = known.map(|known| known.text).unwrap_or_default();
        let mut new = new.as_slice();
        let mut request_count = 0;
        let mut requests = Vec::new();
        while let Some(first) = new.first() {
            let mut tokens = 0;
            let fits = |at: &&usize| {
                tokens += measured.tokens[**at];
                *at == first || tokens <= max_tokens
            };
            let (piece, rest) = new.split_at(new.iter().take_while(fits).count());
            let mut messages: Vec<Message> = piece.iter().map(|at| measured.sending.messages[*at].clone()).collect();
            // A single message may be too large for the model that writes the summary.
            shorten_results(
                &self.counter,
                &mut messages,
                measured.tokens[*first].saturating_sub(max_tokens),
            );
            let words = (place.tokens - self.counter.count_text(&render_summary_message(""))) * 10 / 13;
            let prompt = render_summary_prompt(&text, &messages, words);
            let partial_summary =
                request_partial_summary(model, &prompt, &measured.sending, &mut request_count).await?;
            requests.push(json!({"system": SUMMARY_INSTRUCTIONS, "prompt": prompt, "reply": partial_summary}));
            text = self.shorten_summary(partial_summary, place);
            new = rest;
        }
        Ok(ThreadSummary {
            covers: dropped,
            text,
            requests,
        })
    }

    /// Shortens the summary to the maximum size.
    fn shorten_summary(&self, text: String, place: ThreadSize) -> String {
        let fits = |text: &str| self.summary_size(text).tokens <= place.tokens;
        if fits(&text) {
            return text;
        }
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let first = |chars: usize| format!("{}…", text[..ends[chars]].trim_end());
        let (mut short, mut long) = (0, ends.len() - 1);
        while short < long {
            let middle = (short + long).div_ceil(2);
            match fits(&first(middle)) {
                true => short = middle,
                false => long = middle - 1,
            }
        }
        first(short)
    }

    /// Returns the messages of the request with the summary instead of the messages that it replaces.
    fn summary_output(&self, measured: MeasuredInput<'_>, summary: &ThreadSummary) -> WindowOutput {
        let size = self.size_with_summary(summary, &measured);
        let drops_system = measured.system.is_some() && !self.rules.keeps_system;
        let note = self
            .dropped_note(&measured, &summary.covers, drops_system)
            .map(|mut note| {
                note["summary"] = json!(summary.text);
                if !summary.requests.is_empty() {
                    note["summary_requests"] = json!(summary.requests);
                }
                note["covers"] = json!(group_ranges(&summary.covers));
                note["digest"] = json!(messages_digest(&covered_messages(
                    &measured.sending.messages,
                    &summary.covers
                )));
                note
            });
        let first = summary_message(render_summary_message(&summary.text));
        let has_system = measured.system.is_some();
        let kept_messages = measured.sending.messages.into_iter().enumerate();
        let kept_messages = kept_messages
            .filter(|(at, _)| !summary.covers_message(*at))
            .map(|(_, message)| message);
        let sent_messages = SentMessages {
            messages: std::iter::once(first).chain(kept_messages).collect(),
            size,
            system: has_system && !drops_system,
        };
        self.build_output(sent_messages, note, has_system)
    }
}

/// Returns the summary that the thread stores, if it is still valid.
fn find_stored_summary(sending: &WindowInput<'_>) -> Option<ThreadSummary> {
    let note = sending.earlier_dropped.as_ref()?;
    let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let covers = match &note["covers"] {
        Value::Array(ranges) => {
            let range = |range: &Value| Some(index(&range[0])?..index(&range[1])?.min(sending.messages.len() + 1));
            let ranges: Option<Vec<_>> = ranges.iter().map(range).collect();
            ranges?.into_iter().flatten().collect()
        }
        // Before tool calls of the present execution could be summed up, the beginning always was.
        _ => (0..index(&note["messages"])?).collect::<Vec<usize>>(),
    };
    let is_there = covers.is_sorted() && covers.last().is_some_and(|last| *last < sending.messages.len());
    let is_same =
        is_there && note["digest"].as_str()? == messages_digest(&covered_messages(&sending.messages, &covers));
    is_same.then_some(ThreadSummary {
        covers,
        text: note["summary"].as_str()?.to_owned(),
        requests: Vec::new(),
    })
}

/// Copies the messages at these indexes.
fn covered_messages(messages: &[Message], covers: &[usize]) -> Vec<Message> {
    covers.iter().map(|at| messages[*at].clone()).collect()
}

/// Groups sorted indexes into ranges with an exclusive end.
fn group_ranges(indexes: &[usize]) -> Vec<[usize; 2]> {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for at in indexes {
        match ranges.last_mut() {
            Some([_, end]) if end == at => *end += 1,
            _ => ranges.push([*at, at + 1]),
        }
    }
    ranges
}

/// Returns a digest of the text of the messages. Ignores durations.
fn messages_digest(messages: &[Message]) -> String {
    // What was said, and not how long a tool took: a time is not always read as it was written.
    sha256_of_text(&render_transcript(messages))
}

/// Returns the prompt to extend the earlier summary by these messages. Adds to `requests` the number of requests.
fn render_summary_prompt(before: &str, messages: &[Message], words: u64) -> String {
    let before = match before {
        "" => String::new(),
        text => format!("Your minutes so far:\n\n{text}\n\n"),
    };
    let transcript = render_transcript(messages);
    format!(
        "{before}What was said{}:\n\n{transcript}\nWrite minutes of all of this in at most {words} words.",
        if before.is_empty() { "" } else { " after that" }
    )
}

/// Asks the model for one summary.
async fn request_partial_summary(
    model: &Model,
    prompt: &str,
    sending: &WindowInput<'_>,
    requests: &mut u64,
) -> Result<String, String> {
    let messages = vec![Message::new(MessageRole::User, prompt)];
    let ask = ModelQuery {
        request_counter: sending.ledger.open_summary_request(),
        systems: model
            .profiles()
            .map(|_| Some(SUMMARY_INSTRUCTIONS.to_owned()))
            .collect(),
        messages: messages.clone(),
        source: sending.source.clone(),
        purpose: RequestPurpose::Summary,
        requests_made: sending.summaries_made + *requests,
        output_schema: None,
        tools: std::sync::Arc::default(),
        clock: sending.clock.clone(),
    };
    let answer = model.answer_query(ask, &IgnoredLiveOutput).await;
    *requests += answer.requests;
    let reply = answer.result.map_err(|error| error.message)?;
    let mut usage = ModelUsage::default();
    add_reply_usage(&reply, answer.price, Some(SUMMARY_INSTRUCTIONS), &messages, &mut usage);
    sending.ledger.add_usage(usage);
    match reply.text.trim() {
        text if reply.stop_reason == StopReason::Refusal => Err(format!("the model refused: {text}")),
        "" => Err("the model's reply is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// Renders the messages as one text.
fn render_transcript(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let role = match message.role {
            MessageRole::System => "Instructions",
            MessageRole::User => "User",
            MessageRole::Assistant => "Assistant",
        };
        text.push_str(&format!("{role}: {}\n", message.content));
        for call in &message.tool_calls {
            text.push_str(&format!(
                "Tool {}({}) gave: {}\n",
                call.name,
                call.arguments,
                call.text_for_model()
            ));
        }
    }
    text
}
