//! What was said in a run, as a chat program has heard it, and where the messages of one stand in it.

use std::sync::Arc;

use ensemble_core::conversation::{
    CompletionReason, ConversationState, DecisionSource, Event, ExecutionEnd, ExecutionFinished, IllegalRecord,
    PermissionDecision, Record, RunCanceller, RunEnded, RunInterruption,
};
use ensemble_language::data::{ModelUsage, sha256_of_text};
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::Plan;
use serde_json::Value;

use super::CANCELLED_BY_PAGE;
use super::messages::ChatProgramMessage;
use super::reply::{gives_reply, is_yes_message, successful_reply_text};

/// Messages of a run as a chat program sees them.
#[derive(Debug, Default)]
pub(super) struct ChatTranscript {
    segments: Vec<TranscriptSegment>,
    /// How many records were read.
    pub(super) records: u64,
}

/// Segment of a run, from its input or a message to its end.
#[derive(Debug)]
pub(super) struct TranscriptSegment {
    /// The digest of the message.
    text: String,
    /// What was answered on the way.
    answers: Vec<RecordedAnswer>,
    pub(super) end: TranscriptSegmentEnd,
    /// Was it resumed?
    pub(super) was_resumed: bool,
    /// The record with which it begins, or with which it was resumed.
    pub(super) from: u64,
    /// What the run had used before the leg.
    pub(super) used_before: ModelUsage,
}

/// The end of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TranscriptSegmentEnd {
    /// It has not, or its process was stopped.
    Open,
    /// With a reply that has this digest.
    Reply(String),
    /// Without a reply: a chat program was told an error.
    Failed,
}

/// Recorded answer to a question, or decision about a call.
#[derive(Debug)]
enum RecordedAnswer {
    Answer {
        output: Arc<Value>,
        choices: Vec<String>,
        default: Option<String>,
    },
    Decision {
        is_permitted: bool,
    },
}

/// Position of the messages of a chat program in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TranscriptPosition {
    /// The run has replied to all messages but the last one, which is new.
    Replied,
    /// The run has the last message.
    Unanswered,
    /// The run has no end yet, and this text is what the client has heard of it last.
    LastHeard(String),
}

impl ChatTranscript {
    /// Builds the transcript of a run from its records.
    ///
    /// # Errors
    /// The event of a record is illegal after the records before it.
    pub(super) fn from_records(records: &[Record], plan: Arc<Plan>) -> Result<Self, IllegalRecord> {
        let mut transcript = Self::default();
        let mut state = ConversationState::new(plan);
        for record in records {
            state.apply_record(record)?;
            transcript.apply_record(record, &state);
        }
        Ok(transcript)
    }

    /// Applies a record to the transcript.
    fn apply_record(&mut self, record: &Record, state: &ConversationState) {
        self.records = record.seq + 1;
        match &record.event {
            Event::RunStarted(started) => self.segments.push(TranscriptSegment::from_message(
                &started.input,
                record.seq,
                state.usage(),
            )),
            Event::MessageAdded(added) => {
                self.segments
                    .push(TranscriptSegment::from_message(&added.text, record.seq, state.usage()))
            }
            other => {
                if let Some(leg) = self.segments.last_mut() {
                    leg.apply_event(other, record.seq, state);
                }
            }
        }
    }

    /// Returns the segment that has the last reply, or will have it.
    pub(super) fn last_segment_with_reply(&self) -> Option<&TranscriptSegment> {
        self.segments_without_chat_error().last()
    }

    /// Iterates over the segments that did not end with an error for the chat program.
    fn segments_without_chat_error(&self) -> impl DoubleEndedIterator<Item = &TranscriptSegment> {
        self.segments
            .iter()
            .filter(|leg| leg.end != TranscriptSegmentEnd::Failed)
    }

    /// Finds the position of these messages in the run. The first `input` messages are the input of the run.
    pub(super) fn find_message_position(
        &self,
        messages: &[ChatProgramMessage],
        input: usize,
    ) -> Option<TranscriptPosition> {
        let mut rest = messages.get(input..)?;
        let mut legs = self.segments_without_chat_error().peekable();
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
            match leg.skip_answers(rest)? {
                [] => return is_last.then_some(TranscriptPosition::Unanswered),
                [heard, last]
                    if is_last && leg.end == TranscriptSegmentEnd::Open && !heard.is_users && last.is_users =>
                {
                    return Some(TranscriptPosition::LastHeard(heard.text.clone()));
                }
                [reply, after @ ..]
                    if !reply.is_users && leg.end == TranscriptSegmentEnd::Reply(reply.digest.clone()) =>
                {
                    rest = after
                }
                _ => return None,
            }
        }
        match rest {
            [last] if last.is_users => Some(TranscriptPosition::Replied),
            _ => None,
        }
    }
}

impl TranscriptSegment {
    /// Creates the segment that starts with this message.
    fn from_message(text: &str, seq: u64, used_before: ModelUsage) -> Self {
        Self {
            text: sha256_of_text(text),
            answers: Vec::new(),
            end: TranscriptSegmentEnd::Open,
            was_resumed: false,
            from: seq,
            used_before,
        }
    }

    /// Applies an event to the segment.
    fn apply_event(&mut self, event: &Event, seq: u64, state: &ConversationState) {
        match event {
            Event::RunResumed(_) => {
                self.end = TranscriptSegmentEnd::Open;
                self.was_resumed = true;
                self.from = seq;
            }
            Event::ExecutionFinished(finished) => self.answers.extend(recorded_operator_answer(finished, state.plan())),
            Event::PermissionDecided(decided) if decided.by == DecisionSource::Operator => {
                let is_permitted = decided.decision != PermissionDecision::Denied;
                self.answers.push(RecordedAnswer::Decision { is_permitted });
            }
            Event::RunEnded(ended) => self.end = segment_end(ended, state),
            _ => {}
        }
    }

    /// Skips the messages that match the recorded answers. Returns the rest, or `None` if a message does not match.
    fn skip_answers<'m>(&self, mut rest: &'m [ChatProgramMessage]) -> Option<&'m [ChatProgramMessage]> {
        for given_answer in &self.answers {
            loop {
                let [question, answer, after @ ..] = rest else {
                    return None;
                };
                if question.is_users || !answer.is_users {
                    return None;
                }
                rest = after;
                if given_answer.matches_message(&answer.text) {
                    break;
                }
                if !given_answer.was_asked_again(&answer.text) {
                    return None;
                }
            }
        }
        Some(rest)
    }
}

impl RecordedAnswer {
    /// Returns whether the message is this answer.
    fn matches_message(&self, message: &str) -> bool {
        let text = message.trim();
        match self {
            Self::Decision { is_permitted } => is_yes_message(text) == *is_permitted,
            Self::Answer {
                output,
                choices,
                default,
            } => {
                let Some(response) = output.get("response").and_then(Value::as_str) else {
                    return serde_json::from_str::<Value>(text).is_ok_and(|value| value == **output);
                };
                let choice = text
                    .parse::<usize>()
                    .ok()
                    .and_then(|at| choices.get(at.checked_sub(1)?));
                let is_default = text.is_empty() && default.as_deref() == Some(response);
                let same = |other: &str| other.trim().to_lowercase() == response.trim().to_lowercase();
                is_default || same(text) || choice.is_some_and(|chosen| same(chosen))
            }
        }
    }

    /// Returns whether the message was no valid answer, so that the question was asked again.
    fn was_asked_again(&self, message: &str) -> bool {
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

/// Returns the answer of an operator, if the execution was a question.
fn recorded_operator_answer(finished: &ExecutionFinished, plan: &Plan) -> Option<RecordedAnswer> {
    let ExecutionEnd::Succeeded(output) = &finished.end else {
        return None;
    };
    match &plan.agent(plan.find_agent_id(&finished.agent)?).kind {
        AgentKind::Input(asked) if asked.responses.is_none() => Some(RecordedAnswer::Answer {
            output: output.clone(),
            choices: asked.choices.clone(),
            default: asked.default.clone(),
        }),
        _ => None,
    }
}

/// Returns the end of a segment. A segment that was stopped, except on the page, stays open, because it can be resumed.
fn segment_end(ended: &RunEnded, state: &ConversationState) -> TranscriptSegmentEnd {
    let by_page = RunInterruption::Cancelled {
        by: RunCanceller::Client(CANCELLED_BY_PAGE.into()),
    };
    match ended.completion_reason {
        outcome if gives_reply(outcome) => TranscriptSegmentEnd::Reply(sha256_of_text(&successful_reply_text(state))),
        CompletionReason::Cancelled if state.interruption() != Some(&by_page) => TranscriptSegmentEnd::Open,
        _ => TranscriptSegmentEnd::Failed,
    }
}

#[cfg(test)]
mod tests;
