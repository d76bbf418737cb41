//! What was said in a run, as a chat program has heard it, and where the messages of one stand in it.

use std::sync::Arc;

use ensemble_core::conversation::{
    Canceller, CompletionReason, ConversationState, DecidedBy, Event, ExecutionEnd, ExecutionFinished, IllegalRecord,
    Interruption, PermissionDecision, Record, RunEnded,
};
use ensemble_language::data::{Usage, digest};
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::Plan;
use serde_json::Value;

use super::BY_PAGE;
use super::messages::Message;
use super::reply::{is_reply, permits, reply_of};

/// The messages of a run.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    legs: Vec<Leg>,
    /// How many records were read.
    pub(super) records: u64,
}

/// The run from its input, or a message, to its end.
#[derive(Debug)]
pub(super) struct Leg {
    /// The digest of the message.
    text: String,
    /// What was answered on the way.
    answers: Vec<Given>,
    pub(super) end: End,
    /// Was it resumed?
    pub(super) was_resumed: bool,
    /// The record with which it begins, or with which it was resumed.
    pub(super) from: u64,
    /// What the run had used before the leg.
    pub(super) used_before: Usage,
}

/// The end of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has not, or its process was stopped.
    Open,
    /// With a reply that has this digest.
    Reply(String),
    /// Without a reply: a chat program was told an error.
    Failed,
}

/// The answer to a question, or the decision about a call.
#[derive(Debug)]
enum Given {
    Answer {
        output: Arc<Value>,
        choices: Vec<String>,
        default: Option<String>,
    },
    Decision {
        is_permitted: bool,
    },
}

/// The position of the messages of a chat program in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The run has replied to all messages but the last one, which is new.
    Replied,
    /// The run has the last message.
    Unanswered,
    /// The run has no end yet, and this text is what the client has heard of it last.
    Heard(String),
}

impl Transcript {
    /// Returns the transcript of a run with these records.
    ///
    /// # Errors
    /// The event of a record is illegal after the records before it.
    pub(super) fn of(records: &[Record], plan: Arc<Plan>) -> Result<Self, IllegalRecord> {
        let mut transcript = Self::default();
        let mut state = ConversationState::new(plan);
        for record in records {
            state.apply(record)?;
            transcript.take(record, &state);
        }
        Ok(transcript)
    }

    fn take(&mut self, record: &Record, state: &ConversationState) {
        self.records = record.seq + 1;
        match &record.event {
            Event::RunStarted(started) => self.legs.push(Leg::begun(&started.input, record.seq, state.usage())),
            Event::MessageAdded(added) => self.legs.push(Leg::begun(&added.text, record.seq, state.usage())),
            other => {
                if let Some(leg) = self.legs.last_mut() {
                    leg.take(other, record.seq, state);
                }
            }
        }
    }

    /// The leg that has the last reply, or will have it.
    pub(super) fn last(&self) -> Option<&Leg> {
        self.heard().last()
    }

    /// The legs of which a chat program has heard something but an error.
    fn heard(&self) -> impl DoubleEndedIterator<Item = &Leg> {
        self.legs.iter().filter(|leg| leg.end != End::Failed)
    }

    /// Returns the position of these messages. The first `input` of them are the input of the run.
    pub(super) fn place(&self, messages: &[Message], input: usize) -> Option<Place> {
        let mut rest = messages.get(input..)?;
        let mut legs = self.heard().peekable();
        legs.peek()?;
        let mut is_first = true;
        while let Some(leg) = legs.next() {
            if !std::mem::take(&mut is_first) {
                let (text, after) = rest.split_first()?;
                if !text.is_users || text.digest != leg.text {
                    return None;
                }
                rest = after;
            }
            let is_last = legs.peek().is_none();
            match leg.follow(rest)? {
                [] => return is_last.then_some(Place::Unanswered),
                [heard, last] if is_last && leg.end == End::Open && !heard.is_users && last.is_users => {
                    return Some(Place::Heard(heard.text.clone()));
                }
                [reply, after @ ..] if !reply.is_users && leg.end == End::Reply(reply.digest.clone()) => rest = after,
                _ => return None,
            }
        }
        match rest {
            [last] if last.is_users => Some(Place::Replied),
            _ => None,
        }
    }
}

impl Leg {
    fn begun(text: &str, seq: u64, used_before: Usage) -> Self {
        Self {
            text: digest(text),
            answers: Vec::new(),
            end: End::Open,
            was_resumed: false,
            from: seq,
            used_before,
        }
    }

    fn take(&mut self, event: &Event, seq: u64, state: &ConversationState) {
        match event {
            Event::RunResumed(_) => {
                self.end = End::Open;
                self.was_resumed = true;
                self.from = seq;
            }
            Event::ExecutionFinished(finished) => self.answers.extend(answer(finished, state.plan())),
            Event::PermissionDecided(decided) if decided.by == DecidedBy::Operator => {
                let is_permitted = decided.decision != PermissionDecision::Denied;
                self.answers.push(Given::Decision { is_permitted });
            }
            Event::RunEnded(ended) => self.end = end(ended, state),
            _ => {}
        }
    }

    /// The messages after the questions that were answered, and their answers; `None`: the messages are others.
    fn follow<'m>(&self, mut rest: &'m [Message]) -> Option<&'m [Message]> {
        for given in &self.answers {
            loop {
                let [question, answer, after @ ..] = rest else {
                    return None;
                };
                if question.is_users || !answer.is_users {
                    return None;
                }
                rest = after;
                if given.is(&answer.text) {
                    break;
                }
                if !given.refuses(&answer.text) {
                    return None;
                }
            }
        }
        Some(rest)
    }
}

impl Given {
    /// Returns whether this message is that answer.
    fn is(&self, message: &str) -> bool {
        let text = message.trim();
        match self {
            Self::Decision { is_permitted } => permits(text) == *is_permitted,
            Self::Answer {
                output,
                choices,
                default,
            } => {
                let Some(said) = output.get("response").and_then(Value::as_str) else {
                    return serde_json::from_str::<Value>(text).is_ok_and(|value| value == **output);
                };
                let chosen = text
                    .parse::<usize>()
                    .ok()
                    .and_then(|at| choices.get(at.checked_sub(1)?));
                let is_default = text.is_empty() && default.as_deref() == Some(said);
                let same = |other: &str| other.trim().to_lowercase() == said.trim().to_lowercase();
                is_default || same(text) || chosen.is_some_and(|chosen| same(chosen))
            }
        }
    }

    /// Was the question asked again after this message?
    fn refuses(&self, message: &str) -> bool {
        let text = message.trim().to_lowercase();
        match self {
            Self::Answer { choices, .. } if !choices.is_empty() => {
                let is_number = text.parse().is_ok_and(|at: usize| (1..=choices.len()).contains(&at));
                !is_number && !choices.iter().any(|choice| choice.trim().to_lowercase() == text)
            }
            _ => false,
        }
    }
}

/// The answer of a person, if the execution was a question to one.
fn answer(finished: &ExecutionFinished, plan: &Plan) -> Option<Given> {
    let ExecutionEnd::Succeeded(output) = &finished.end else {
        return None;
    };
    match &plan.agent(plan.id(&finished.agent)?).kind {
        AgentKind::Input(asked) if asked.responses.is_none() => Some(Given::Answer {
            output: output.clone(),
            choices: asked.choices.clone(),
            default: asked.default.clone(),
        }),
        _ => None,
    }
}

/// Returns how the segment has ended. A segment that was stopped, but not by a person on the page, continues when it is
/// resumed.
fn end(ended: &RunEnded, state: &ConversationState) -> End {
    let by_page = Interruption::Cancelled {
        by: Canceller::Client(BY_PAGE.into()),
    };
    match ended.completion_reason {
        outcome if is_reply(outcome) => End::Reply(digest(&reply_of(state))),
        CompletionReason::Cancelled if state.interrupted() != Some(&by_page) => End::Open,
        _ => End::Failed,
    }
}

#[cfg(test)]
mod tests;
