//! A summary that replaces dropped messages.
//!
//! A new summary is written when the thread no longer fits the window. It covers so many messages that half of the
//! window is free afterwards. Until this half is used, requests use the same summary, so its cost arises once and not
//! with every request. The thread stores the summary with the ranges of messages that it covers and their digest, so
//! that later requests find it. The messages need not be the beginning of the thread: the task of the present execution
//! stays when earlier tool calls of that execution are summed up.

use serde_json::{Value, json};

use super::{AgentWindow, Measured, Sent, WindowError, WindowInput, WindowOutput, in_place, shortened};
use crate::agent::chat::count;
use ensemble_core::thread::window::{Limits, Rules, Size, cut};
use ensemble_core::thread::{Message, NoLiveOutput, Role, StopReason};
use ensemble_language::data::{Usage, digest};
use ensemble_models::{Model, ModelQuery};

/// The maximum number of tokens of a summary, and the fraction of the window that it may use (1 / `SHARE`).
const MOST: u64 = 1000;
const SHARE: u64 = 4;

/// The minimum number of tokens of a useful summary.
const LEAST: u64 = 20;

const INSTRUCTIONS: &str = "You keep the minutes of a conversation between a user and an assistant. The part that you \
    are shown will not be seen again. Write down what must not be forgotten: facts, names, numbers, decisions, what \
    tools have found, and what is still open. Write plain sentences and nothing else.";

const HEADING: &str = "The first part of our conversation is not shown any more. In short, it was this:\n\n";

/// A summary of a part of a thread.
struct Summary {
    /// The indexes of the messages that the summary covers, in order.
    covers: Vec<usize>,
    text: String,
}

impl Summary {
    fn has(&self, at: usize) -> bool {
        self.covers.binary_search(&at).is_ok()
    }
}

impl AgentWindow {
    pub(super) async fn with_summary(
        &self,
        model: &Model,
        measured: Measured<'_>,
    ) -> Result<WindowOutput, WindowError> {
        let without = cut(&self.rules, &measured.whole());
        if without.dropped.is_empty() {
            return Ok(self.by_rules(measured));
        }
        let known = known(&measured.sending);
        if let Some(known) = known.as_ref().filter(|known| self.still_serves(known, &measured)) {
            return Ok(self.shown(measured, known));
        }
        let Some((place, dropped)) = self.place(&measured) else {
            let warning = "the context window has no room for a summary of what is left out".to_owned();
            let mut fitted = self.by_rules(measured);
            fitted.warnings.push(warning);
            return Ok(fitted);
        };
        let known = known.filter(|known| known.covers.iter().all(|at| dropped.binary_search(at).is_ok()));
        let text = self.summed_up(model, &measured, known, &dropped, place).await;
        let text = text.map_err(|error| WindowError {
            error: format!("context_window: there is no summary: {error}"),
        })?;
        let summary = Summary { covers: dropped, text };
        Ok(self.shown(measured, &summary))
    }

    /// Does the thread fit the window with this summary?
    fn still_serves(&self, known: &Summary, measured: &Measured<'_>) -> bool {
        let droppable = measured.whole().droppable(self.rules.min_recent_turns);
        known.covers.iter().all(|at| droppable[*at]) && self.rules.limits.allow(self.size_with(known, measured))
    }

    /// The size of what is sent with this summary.
    fn size_with(&self, summary: &Summary, measured: &Measured<'_>) -> Size {
        let rest = (0..measured.tokens.len()).filter(|at| !summary.has(*at));
        measured.instructions(&self.rules) + self.size_of(&summary.text) + measured.whole().size(rest)
    }

    fn size_of(&self, summary: &str) -> Size {
        Size {
            tokens: self.counter.text(&format!("{HEADING}{summary}")),
            messages: 1,
        }
    }

    /// The maximum size of the summary and the messages that it covers; `None` if there is no room for a summary.
    fn place(&self, measured: &Measured<'_>) -> Option<(Size, Vec<usize>)> {
        let limits = self.rules.limits;
        let whole = measured.whole();
        let droppable = whole.droppable(self.rules.min_recent_turns);
        let stays = whole.size((0..droppable.len()).filter(|at| !droppable[*at]));
        let least = measured.instructions(&self.rules) + stays;
        let tokens = match limits.max_tokens {
            Some(most) => (most / SHARE).min(MOST).min(most.saturating_sub(least.tokens)),
            None => MOST / 2,
        };
        let place = Size { tokens, messages: 1 };
        let heading = self.counter.text(HEADING);
        let has_room = tokens >= heading + LEAST
            && Limits {
                max_tokens: None,
                ..limits
            }
            .allow(least + place);
        let rules = Rules {
            limits: limits.halved(),
            in_place: place,
            ..self.rules
        };
        let cut = cut(&rules, &whole);
        (has_room && !cut.dropped.is_empty()).then_some((place, cut.dropped))
    }

    /// Requests a summary of the messages at these indexes, in several parts if there are many messages.
    async fn summed_up(
        &self,
        model: &Model,
        measured: &Measured<'_>,
        known: Option<Summary>,
        dropped: &[usize],
        place: Size,
    ) -> Result<String, String> {
        let most = self.rules.limits.max_tokens.unwrap_or(u64::MAX);
        let is_new = |at: &usize| known.as_ref().is_none_or(|known| !known.has(*at));
        let new: Vec<usize> = dropped.iter().copied().filter(is_new).collect();
        let mut text = known.map(|known| known.text).unwrap_or_default();
        let mut new = new.as_slice();
        let mut requests = 0;
        while let Some(first) = new.first() {
            let mut tokens = 0;
            let fits = |at: &&usize| {
                tokens += measured.tokens[**at];
                *at == first || tokens <= most
            };
            let (piece, rest) = new.split_at(new.iter().take_while(fits).count());
            let mut messages: Vec<Message> = piece.iter().map(|at| measured.sending.messages[*at].clone()).collect();
            // A single message may be too large for the model that writes the summary.
            shortened(
                &self.counter,
                &mut messages,
                measured.tokens[*first].saturating_sub(most),
            );
            let words = (place.tokens - self.counter.text(HEADING)) * 10 / 13;
            let asked = asked(model, &text, &messages, words, &measured.sending, &mut requests).await?;
            text = self.shortened_summary(asked, place);
            new = rest;
        }
        Ok(text)
    }

    /// The beginning of the summary, up to the maximum size.
    fn shortened_summary(&self, text: String, place: Size) -> String {
        let fits = |text: &str| self.size_of(text).tokens <= place.tokens;
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

    /// The thread with the summary in place of the messages that it covers.
    fn shown(&self, measured: Measured<'_>, summary: &Summary) -> WindowOutput {
        let size = self.size_with(summary, &measured);
        let drops_system = measured.system.is_some() && !self.rules.keeps_system;
        let note = self.note(&measured, &summary.covers, drops_system).map(|mut note| {
            note["summary"] = json!(summary.text);
            note["covers"] = json!(ranges(&summary.covers));
            note["digest"] = json!(digest_of(&covered(&measured.sending.messages, &summary.covers)));
            note
        });
        let first = in_place(format!("{HEADING}{}", summary.text));
        let has_system = measured.system.is_some();
        let rest = measured.sending.messages.into_iter().enumerate();
        let rest = rest.filter(|(at, _)| !summary.has(*at)).map(|(_, message)| message);
        let sent = Sent {
            messages: std::iter::once(first).chain(rest).collect(),
            size,
            system: has_system && !drops_system,
        };
        self.output(sent, note, has_system)
    }
}

/// The summary that the thread stores, if it is still valid.
fn known(sending: &WindowInput<'_>) -> Option<Summary> {
    let note = sending.before.as_ref()?;
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
    let is_same = is_there && note["digest"].as_str()? == digest_of(&covered(&sending.messages, &covers));
    is_same.then_some(Summary {
        covers,
        text: note["summary"].as_str()?.to_owned(),
    })
}

fn covered(messages: &[Message], covers: &[usize]) -> Vec<Message> {
    covers.iter().map(|at| messages[*at].clone()).collect()
}

/// The indexes as ranges, each with its end, which is not part of it.
fn ranges(indexes: &[usize]) -> Vec<[usize; 2]> {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for at in indexes {
        match ranges.last_mut() {
            Some([_, end]) if end == at => *end += 1,
            _ => ranges.push([*at, at + 1]),
        }
    }
    ranges
}

fn digest_of(messages: &[Message]) -> String {
    // What was said, and not how long a tool took: a time is not always read as it was written.
    digest(&transcript(messages))
}

/// Asks the model for one summary of an earlier summary and the messages after it.
async fn asked(
    model: &Model,
    before: &str,
    messages: &[Message],
    words: u64,
    sending: &WindowInput<'_>,
    requests: &mut u64,
) -> Result<String, String> {
    let before = match before {
        "" => String::new(),
        text => format!("Your minutes so far:\n\n{text}\n\n"),
    };
    let transcript = transcript(messages);
    let text = format!(
        "{before}What was said{}:\n\n{transcript}\nWrite minutes of all of this in at most {words} words.",
        if before.is_empty() { "" } else { " after that" }
    );
    let messages = vec![Message::new(Role::User, text)];
    let ask = ModelQuery {
        made: sending.ledger.open_request(),
        systems: model.profiles().map(|_| Some(INSTRUCTIONS.to_owned())).collect(),
        messages: messages.clone(),
        source: sending.source.clone(),
        requests_made: sending.requests_made + *requests,
        output_schema: None,
        tools: std::sync::Arc::default(),
    };
    let asked = model.ask(ask, &NoLiveOutput).await;
    *requests += asked.requests;
    let reply = asked.result.map_err(|error| error.message)?;
    let mut usage = Usage::default();
    count(&reply, asked.price, Some(INSTRUCTIONS), &messages, &mut usage);
    sending.ledger.add_usage(usage);
    match reply.text.trim() {
        text if reply.stop_reason == StopReason::Refusal => Err(format!("the model refused: {text}")),
        "" => Err("the model's reply is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// The messages as one text.
fn transcript(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let role = match message.role {
            Role::System => "Instructions",
            Role::User => "User",
            Role::Assistant => "Assistant",
        };
        text.push_str(&format!("{role}: {}\n", message.content));
        for call in &message.tool_calls {
            text.push_str(&format!(
                "Tool {}({}) gave: {}\n",
                call.name,
                call.arguments,
                call.told()
            ));
        }
    }
    text
}
