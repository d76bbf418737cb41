//! A round as a stream of events, with the continued thread at its end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};

use super::round::{RoundEnd, add_partial_results, append_exchange, complete_iteration};
use super::{BoxFuture, Dialogue, DialogueError, DialogueErrorKind, RoundResult};
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{
    ExecutionRef, LiveOutput, LiveUpdate, Message, Role, StopReason, Thread, ToolCall, UNKNOWN_FATE,
};

/// An item of a [`DialogueStream`].
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// The next piece of the text of the model.
    Text(String),
    /// A tool call that has ended, with its result or error.
    Tool(ToolCall),
    /// The text since the last tool call is void: the model is asked again.
    Restarted,
    /// The final reply. It is the last item.
    Final(Message),
}

/// The stream of one round. Dropping it stops the round, including running tools.
///
/// It can be awaited for its end, or read piece by piece:
///
/// ```
/// use ensemble_agents::agent::chat::{Dialogue, StreamItem, Thread};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dialogue = Dialogue::with_simulated_replies(["Sunny.", "Rain."]);
/// let mut stream = dialogue.say(Thread::default(), "Paris today?");
/// let mut text = String::new();
/// while let Some(piece) = stream.next().await {
///     if let StreamItem::Text(piece) = piece {
///         text.push_str(&piece);
///     }
/// }
/// let today = stream.finish().await?;
/// assert_eq!(text, today.text);
///
/// let tomorrow = dialogue.say(today.thread, "And tomorrow?").await?;
/// assert_eq!(tomorrow.text, "Rain.");
/// # Ok(())
/// # }
/// ```
#[must_use = "the message is not sent until the stream is read or awaited"]
pub struct DialogueStream<'a> {
    dialogue: &'a Dialogue,
    round: Option<BoxFuture<'a, RoundEnd>>,
    ledger: AttemptLedger,
    earlier: Thread,
    stream_output: Arc<StreamOutput>,
    end: Option<RoundEnd>,
}

/// Collects the live output of the round.
#[derive(Default)]
struct StreamOutput(Mutex<StreamState>);

#[derive(Default)]
struct StreamState {
    /// The items that have not been read.
    pieces: VecDeque<StreamItem>,
    /// The text of the current reply so far.
    reply: String,
    /// The calls that have ended, each id once.
    ended_calls: Vec<ToolCall>,
}

impl StreamOutput {
    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveOutput for StreamOutput {
    fn receive_update(&self, _: &ExecutionRef, update: LiveUpdate<'_>) {
        let mut output = self.lock();
        match update {
            LiveUpdate::Text(text) => {
                output.reply.push_str(text);
                output.pieces.push_back(StreamItem::Text(text.to_owned()));
            }
            LiveUpdate::ToolEnded(call) => {
                output.ended_calls.push(call.clone());
                output.pieces.push_back(StreamItem::Tool(call.clone()));
            }
            LiveUpdate::Restarted => {
                output.reply.clear();
                output.pieces.push_back(StreamItem::Restarted);
            }
            LiveUpdate::ToolStarted(call) => {
                // The reply is in the thread now. A provider may give the ids of one reply to the calls of the next.
                output.reply.clear();
                output.ended_calls.retain(|ended| ended.id != call.id);
            }
            LiveUpdate::Reasoning(_) | LiveUpdate::Retrying { .. } | LiveUpdate::PaceChanged { .. } => {}
        }
    }
}

impl<'a> DialogueStream<'a> {
    pub(crate) fn new(dialogue: &'a Dialogue, thread: Thread, text: String, max_requests: u32) -> Self {
        let earlier = thread.close_open_calls(UNKNOWN_FATE);
        let stream_output = Arc::new(StreamOutput::default());
        let opening = dialogue.round_request(earlier.clone(), text, max_requests);
        let live_output = Arc::clone(&stream_output);
        let ledger = AttemptLedger::default();
        let ledger_of_round = ledger.clone();
        let round = Box::pin(async move {
            dialogue
                .run_round(opening, &dialogue.tools, &*live_output, &ledger_of_round)
                .await
        });
        Self {
            dialogue,
            round: Some(round),
            ledger,
            earlier,
            stream_output,
            end: None,
        }
    }

    /// Returns the next item; `None` after the last.
    pub async fn next(&mut self) -> Option<StreamItem> {
        StreamExt::next(self).await
    }

    /// Waits for the end and returns the result with the continued thread. Items until then are discarded. Awaiting the
    /// stream does the same.
    ///
    /// # Errors
    /// [`DialogueError`]: the round failed. The thread in the error can be continued.
    pub async fn finish(mut self) -> Result<RoundResult, DialogueError> {
        while self.next().await.is_some() {}
        let (usage, warnings) = (self.ledger.usage(), self.ledger.take_warnings());
        let thread = append_exchange(self.earlier, self.ledger.close_round().into_iterations(), usage);
        match self.end.unwrap_or(Err(DialogueErrorKind::NotEnded)) {
            Ok((text, stop_reason)) => Ok(RoundResult {
                text,
                stop_reason,
                thread,
                usage,
                warnings,
            }),
            Err(cause) => Err(DialogueError {
                thread: thread.close_open_calls(cause.open_call_error()),
                cause,
                usage: Box::new(usage),
                warnings,
            }),
        }
    }

    /// Stops the round, including running tools, and returns the thread so far. The thread can be continued: the
    /// received part of a reply is a message, and calls that have not ended get an error that says so.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, Thread};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let dialogue = Dialogue::with_simulated_replies(["Once upon a time", "Better now?"]);
    /// let mut stream = dialogue.say(Thread::default(), "Tell me a story.");
    /// stream.next().await;
    /// let thread = stream.cancel();
    ///
    /// let ended = dialogue.say(thread, "Shorter, please.").await?;
    /// assert_eq!(ended.thread.initial_query(), Some("Tell me a story."));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(mut self) -> Thread {
        if self.round.take().is_some() {
            let output = std::mem::take(&mut *self.stream_output.lock());
            add_partial_results(&self.ledger, output.reply, output.ended_calls);
            complete_iteration(&self.ledger, (self.dialogue.now)(), Some(StopReason::Cancelled));
        }
        let exchange = self.ledger.close_round();
        append_exchange(self.earlier, exchange.into_iterations(), self.ledger.usage()).close_open_calls(UNKNOWN_FATE)
    }

    /// Returns why the model stopped. Returns `None` while the round is running, and if it failed.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self.end.as_ref()? {
            Ok((_, reason)) => Some(*reason),
            Err(cause) => cause.stop_reason(),
        }
    }
}

/// Waits for the end, like [`DialogueStream::finish`].
impl<'a> IntoFuture for DialogueStream<'a> {
    type Output = Result<RoundResult, DialogueError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.finish())
    }
}

impl Stream for DialogueStream<'_> {
    type Item = StreamItem;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let this = self.get_mut();
        if let Some(round) = &mut this.round
            && let Poll::Ready(end) = round.as_mut().poll(context)
        {
            if let Ok((text, _)) = &end {
                let last = Message::new(Role::Assistant, text.clone());
                this.stream_output.lock().pieces.push_back(StreamItem::Final(last));
            }
            this.end = Some(end);
            this.round = None;
        }
        match (this.stream_output.lock().pieces.pop_front(), &this.round) {
            (Some(piece), _) => Poll::Ready(Some(piece)),
            (None, Some(_)) => Poll::Pending,
            (None, None) => Poll::Ready(None),
        }
    }
}
