//! A summary that replaces dropped messages.
//!
//! A new summary is written when the thread no longer fits the window. It covers so many messages that half of the
//! window is free afterwards. Until this half is used, requests use the same summary, so its cost arises once and not
//! with every request. The thread stores the summary with a digest of the messages that it covers, so that later
//! requests find it.

use std::ops::Range;
use std::sync::Arc;

use serde_json::json;

use super::{AgentWindow, Measured, WindowError, WindowInput, WindowOutput, in_place};
use crate::agent::dialogue::count;
use crate::model::{Model, ModelQuery};
use ensemble_core::thread::window::{Limits, Rules, Size, turns};
use ensemble_core::thread::{Message, NoLiveOutput, Role, StopReason};
use ensemble_language::data::{Usage, digest};

/// The maximum number of tokens of a summary, and the fraction of the window that it may use (1 / `SHARE`).
const MOST: u64 = 1000;
const SHARE: u64 = 4;

/// The minimum number of tokens of a useful summary.
const LEAST: u64 = 20;

const INSTRUCTIONS: &str = "You keep the minutes of a conversation between a user and an assistant. The part that you \
    are shown will not be seen again. Write down what must not be forgotten: facts, names, numbers, decisions, what \
    tools have found, and what is still open. Write plain sentences and nothing else.";

const HEADING: &str = "The first part of our conversation is not shown any more. In short, it was this:\n\n";

/// A summary of the beginning of a thread.
struct Summary {
    /// The number of messages that the summary covers.
    messages: usize,
    text: String,
}

impl AgentWindow {
    pub(super) async fn with_summary(
        &self,
        model: &Model,
        measured: Measured<'_>,
    ) -> Result<WindowOutput, WindowError> {
        let without = measured.cut(&self.rules);
        if without.dropped.is_empty() {
            return Ok(self.by_rules(measured));
        }
        let known = known(&measured.sending);
        if let Some(known) = known.as_ref().filter(|known| self.still_serves(known, &measured)) {
            return Ok(self.shown(measured, known, Usage::default()));
        }
        let Some((place, dropped)) = self.place(&measured) else {
            let warning = "the context window has no room for a summary of what is left out".to_owned();
            let mut fitted = self.by_rules(measured);
            fitted.warnings.push(warning);
            return Ok(fitted);
        };
        let mut usage = Usage::default();
        let known = known.filter(|known| known.messages <= dropped.end);
        let text = self
            .summed_up(model, &measured, known, dropped.end, place, &mut usage)
            .await;
        let text = text.map_err(|error| WindowError {
            error: format!("context_window: there is no summary: {error}"),
            usage,
        })?;
        let summary = Summary {
            messages: dropped.end,
            text,
        };
        Ok(self.shown(measured, &summary, usage))
    }

    /// Does the thread fit the window with this summary?
    fn still_serves(&self, known: &Summary, measured: &Measured<'_>) -> bool {
        let rest = Size::of(&measured.tokens[known.messages..]);
        let sent = measured.instructions(&self.rules) + self.size_of(&known.text) + rest;
        known.messages <= recent(&self.rules, &measured.sending.messages) && self.rules.limits.allow(sent)
    }

    fn size_of(&self, summary: &str) -> Size {
        Size {
            tokens: self.counter.text(&format!("{HEADING}{summary}")),
            messages: 1,
        }
    }

    /// The maximum size of the summary and the messages that it covers; `None` if there is no room for a summary.
    fn place(&self, measured: &Measured<'_>) -> Option<(Size, Range<usize>)> {
        let limits = self.rules.limits;
        let recent = recent(&self.rules, &measured.sending.messages);
        let least = measured.instructions(&self.rules) + Size::of(&measured.tokens[recent..]);
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
        let cut = measured.cut(&Rules {
            limits: limits.halved(),
            in_place: place,
            ..self.rules
        });
        (has_room && !cut.dropped.is_empty()).then_some((place, cut.dropped))
    }

    /// Requests a summary of the messages before `end`, in several parts if there are many messages.
    async fn summed_up(
        &self,
        model: &Model,
        measured: &Measured<'_>,
        known: Option<Summary>,
        end: usize,
        place: Size,
        usage: &mut Usage,
    ) -> Result<String, String> {
        let most = self.rules.limits.max_tokens.unwrap_or(u64::MAX);
        let (mut from, mut text) = known.map_or((0, String::new()), |known| (known.messages, known.text));
        while from < end {
            let mut tokens = 0;
            let fits = |at: &usize| {
                tokens += measured.tokens[*at];
                *at == from || tokens <= most
            };
            let to = (from..end).take_while(fits).last().map_or(end, |last| last + 1);
            let words = (place.tokens - self.counter.text(HEADING)) * 10 / 13;
            let piece = &measured.sending.messages[from..to];
            let asked = asked(model, &text, piece, words, &measured.sending, usage).await?;
            text = self.shortened(asked, place);
            from = to;
        }
        Ok(text)
    }

    /// The beginning of the summary, up to the maximum size.
    fn shortened(&self, text: String, place: Size) -> String {
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
    fn shown(&self, measured: Measured<'_>, summary: &Summary, usage: Usage) -> WindowOutput {
        let size = self.size_of(&summary.text);
        let left_out: Vec<usize> = (0..summary.messages).collect();
        let rest = Size::of(&measured.tokens[summary.messages..]);
        let sent = measured.instructions(&self.rules) + size + rest;
        let drops_system = measured.system.is_some() && !self.rules.keeps_system;
        let note = self.note(&measured, &left_out, drops_system).map(|mut note| {
            note["summary"] = json!(summary.text);
            note["digest"] = json!(digest_of(&measured.sending.messages[..summary.messages]));
            note
        });
        let too_much = super::Cut {
            system: measured.system.is_some() && !drops_system,
            dropped: 0..summary.messages,
            sent,
            fits: self.rules.limits.allow(sent),
        };
        let rest = measured.sending.messages.into_iter().skip(summary.messages);
        let first = in_place(format!("{HEADING}{}", summary.text));
        WindowOutput {
            messages: std::iter::once(first).chain(rest).collect(),
            drops_system,
            dropped: note,
            usage,
            warnings: self.too_much(&too_much).into_iter().collect(),
        }
    }
}

/// The index of the first message that must not be dropped.
fn recent(rules: &Rules, messages: &[Message]) -> usize {
    let turns = turns(messages);
    let first = turns.len().saturating_sub(rules.min_recent_turns);
    turns.get(first).map_or(messages.len(), |turn| turn.start)
}

/// The summary that the thread stores, if it is still valid.
fn known(sending: &WindowInput<'_>) -> Option<Summary> {
    let note = sending.before.as_ref()?;
    let count = usize::try_from(note["messages"].as_u64()?).ok()?;
    let summed_up = sending.messages.get(..count)?;
    let is_same = note["digest"].as_str()? == digest_of(summed_up);
    is_same.then_some(Summary {
        messages: count,
        text: note["summary"].as_str()?.to_owned(),
    })
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
    usage: &mut Usage,
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
        made: Arc::default(),
        systems: model.profiles().map(|_| Some(INSTRUCTIONS.to_owned())).collect(),
        messages: messages.clone(),
        source: sending.source.clone(),
        requests_made: sending.requests_made + usage.requests,
        output_schema: None,
        tools: std::sync::Arc::default(),
    };
    let asked = model.ask(ask, &NoLiveOutput).await;
    usage.requests += asked.requests;
    let reply = asked.result.map_err(|error| error.message)?;
    count(&reply, asked.price, Some(INSTRUCTIONS), &messages, usage);
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
