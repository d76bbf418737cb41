//! A round as a stream of events, with the continued thread at its end.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};

use super::round::{RoundEnd, add_partial_results, append_exchange, complete_iteration};
use super::{BoxFuture, Dialogue, DialogueError, DialogueErrorKind, FinishedRound, RoundParameters};
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{
    ExecutionAttemptRef, INTERRUPTED_CALL_ERROR, LiveOutputReceiver, LiveUpdate, Message, MessageRole, StopReason,
    Thread, ThreadIteration, ThreadStatus, ToolCall,
};

/// Input of a [`DialogueStream`]: a new user message, or the thread as it is.
#[derive(Debug)]
pub(crate) enum DialogueStreamInput {
    /// A new message of the user.
    Message(Message),
    /// The thread continues without a new message.
    Continuation,
}

/// Item of a [`DialogueStream`].
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// A message of the user that begins the round. These are the first items. A stream that continues a thread begins with
    /// the messages that were not sent before.
    User(Message),
    /// The next piece of the text of the model.
    Text(String),
    /// A tool call that has ended, with its result or error and the text of the reply that makes the call.
    Tool(ToolCallMessage),
    /// The text since the last tool call is void: the model is asked again.
    Restarted,
    /// The final reply. It is the last item; [`DialogueStream::finish`] returns the continued thread.
    Final(Message),
    /// The error of the round. It is the last item; [`DialogueStream::finish`] returns it with the thread.
    Failed(DialogueErrorKind),
}

/// Tool call that has ended, with the text of its reply. Displays as `NAME(ARGUMENTS) -> RESULT`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallMessage {
    /// The text of the model beside its calls; empty if there is none.
    pub text: String,
    /// The call, with its arguments and its result or error.
    pub call: ToolCall,
}

impl Deref for ToolCallMessage {
    type Target = ToolCall;

    fn deref(&self) -> &Self::Target {
        &self.call
    }
}

impl fmt::Display for ToolCallMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

/// Stream of one round. Dropping it stops the round, including running tools.
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
    has_begun: bool,
    ledger: AttemptLedger,
    earlier: Thread,
    stream_output: Arc<StreamItemCollector>,
    end: Option<RoundEnd>,
}

/// Collector of the live output of a round as stream items.
#[derive(Default)]
struct StreamItemCollector {
    state: Mutex<StreamState>,
    /// The ledger of the round, which contains the reply that makes the present calls.
    ledger: AttemptLedger,
}

/// Items that were not read, and the partial results of the round.
#[derive(Default)]
struct StreamState {
    /// The items that have not been read.
    pieces: VecDeque<StreamItem>,
    /// The text of the current reply so far.
    reply: String,
    /// The calls that have ended, each id once.
    ended_calls: Vec<ToolCall>,
}

impl StreamItemCollector {
    /// Locks the state, also after a panic in another thread.
    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveOutputReceiver for StreamItemCollector {
    fn receive_update(&self, _: &ExecutionAttemptRef, update: LiveUpdate<'_>) {
        let mut output = self.lock();
        match update {
            LiveUpdate::Text(text) => {
                output.reply.push_str(text);
                output.pieces.push_back(StreamItem::Text(text.to_owned()));
            }
            LiveUpdate::ToolEnded(call) => {
                let text = self.ledger.read_exchange(|exchange| {
                    let iterations = exchange.iterations().last();
                    iterations.and_then(|last| last.text_beside_tool_calls().map(str::to_owned))
                });
                output.ended_calls.push(call.clone());
                output.pieces.push_back(StreamItem::Tool(ToolCallMessage {
                    text: text.unwrap_or_default(),
                    call: call.clone(),
                }));
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
    /// Prepares the round without starting it. An invalid thread becomes an error of the stream.
    pub(crate) fn new(dialogue: &'a Dialogue, thread: Thread, start: DialogueStreamInput, max_requests: u32) -> Self {
        let ledger = AttemptLedger::default();
        let stream_output = Arc::new(StreamItemCollector {
            state: Mutex::default(),
            ledger: ledger.clone(),
        });
        let (earlier, round): (Thread, BoxFuture<'a, RoundEnd>) = match dialogue.prepare_round(thread, start) {
            Err((thread, cause)) => (thread, Box::pin(async { Err(cause) })),
            Ok((earlier, opening)) => {
                let opening = RoundParameters {
                    max_requests,
                    ..opening
                };
                let sent_messages = list_new_user_messages(&opening);
                stream_output
                    .lock()
                    .pieces
                    .extend(sent_messages.into_iter().map(StreamItem::User));
                let (live_output, ledger) = (Arc::clone(&stream_output), ledger.clone());
                let round = async move {
                    dialogue
                        .run_round(opening, &dialogue.tools, &*live_output, &ledger)
                        .await
                };
                (earlier, Box::pin(round))
            }
        };
        Self {
            dialogue,
            round: Some(round),
            has_begun: false,
            ledger,
            earlier,
            stream_output,
            end: None,
        }
    }

    /// Returns the next item, or `None` after the last item.
    pub async fn next(&mut self) -> Option<StreamItem> {
        StreamExt::next(self).await
    }

    /// Waits for the final reply and discards the remaining items. Awaiting the stream does the same.
    ///
    /// # Errors
    /// [`DialogueError`]: the round failed. The thread in the error can be continued.
    pub async fn finish(mut self) -> Result<FinishedRound, DialogueError> {
        while self.next().await.is_some() {}
        let (usage, warnings) = (self.ledger.usage_so_far(), self.ledger.take_warnings());
        let thread = append_exchange(self.earlier, self.ledger.end_round().into_iterations(), usage);
        match self.end.unwrap_or(Err(DialogueErrorKind::NotEnded)) {
            Ok((text, stop_reason)) => Ok(FinishedRound {
                text,
                stop_reason,
                thread,
                usage,
                warnings,
            }),
            Err(cause) => Err(DialogueError {
                thread: thread.fail_open_calls(cause.open_call_error()),
                cause,
                usage: Box::new(usage),
                warnings,
            }),
        }
    }

    /// Stops the round, including running tools, and returns the thread so far, which can be continued.
    ///
    /// The received part of a reply becomes a message, and open calls get an error.
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
            self.dialogue.trace_cancellation(&output.reply, &self.ledger);
            add_partial_results(&self.ledger, output.reply, output.ended_calls);
            complete_iteration(&self.ledger, (self.dialogue.now)(), Some(StopReason::Cancelled));
        }
        let exchange = self.ledger.end_round();
        append_exchange(self.earlier, exchange.into_iterations(), self.ledger.usage_so_far())
            .fail_open_calls(INTERRUPTED_CALL_ERROR)
    }

    /// Returns the reason why the model stopped. Returns `None` while the round is running, or if the error has no stop reason.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self.end.as_ref()? {
            Ok((_, reason)) => Some(*reason),
            Err(cause) => cause.stop_reason(),
        }
    }
}

impl Dialogue {
    /// Checks that the thread allows this input. Returns the earlier thread and the parameters of the round, without starting the round.
    ///
    /// # Errors
    /// The thread, and the reason why it cannot be continued in this way.
    fn prepare_round(
        &self,
        thread: Thread,
        start: DialogueStreamInput,
    ) -> Result<(Thread, RoundParameters), (Thread, DialogueErrorKind)> {
        let status = thread.status();
        let text = match (start, status) {
            (DialogueStreamInput::Message(_), ThreadStatus::InProgress) if ends_with_user_message(&thread) => {
                return Err((thread, DialogueErrorKind::Unanswered));
            }
            (DialogueStreamInput::Message(message), _) => {
                let earlier = thread.fail_open_calls(INTERRUPTED_CALL_ERROR);
                let opening = RoundParameters {
                    attachments: message.attachments,
                    ..self.default_round_parameters(earlier.clone(), message.content, self.max_iterations)
                };
                return Ok((earlier, opening));
            }
            (DialogueStreamInput::Continuation, ThreadStatus::Empty) => {
                return Err((thread, DialogueErrorKind::NothingSaid));
            }
            (DialogueStreamInput::Continuation, ThreadStatus::Complete) => {
                return Err((thread, DialogueErrorKind::Complete));
            }
            (DialogueStreamInput::Continuation, _) => String::new(),
        };
        let mut iterations = thread.into_iterations();
        // A request that failed has an iteration of its own, and so have the results of calls.
        let is_finished = |last: &ThreadIteration| match last.tool_calls.as_slice() {
            [] => last.completed_at.is_some(),
            calls => calls.iter().all(|call| call.end.is_some()),
        };
        let continued = match iterations.last() {
            Some(last) if is_finished(last) => Thread::default().start_iteration(Vec::new(), (self.now)()),
            _ => Thread::from_iterations(iterations.pop().into_iter().collect()),
        };
        let continued = continued.into_iterations().pop().map(|last| ThreadIteration {
            completed_at: None,
            ..last
        });
        let earlier = Thread::from_iterations(iterations).complete_current_iteration((self.now)());
        let opening = RoundParameters {
            goes_on: continued,
            ..self.default_round_parameters(earlier.clone(), text, self.max_iterations)
        };
        Ok((earlier, opening))
    }
}

/// Lists the user messages that the round sends for the first time.
fn list_new_user_messages(opening: &RoundParameters) -> Vec<Message> {
    match &opening.goes_on {
        None => vec![Message {
            attachments: opening.attachments.clone(),
            ..Message::new(MessageRole::User, opening.text.clone())
        }],
        Some(iteration) if iteration.has_reply() => Vec::new(),
        Some(iteration) => {
            let messages = iteration.messages.iter();
            messages
                .filter(|message| message.role == MessageRole::User)
                .cloned()
                .collect()
        }
    }
}

/// Returns whether the last message of the thread is from the user.
fn ends_with_user_message(thread: &Thread) -> bool {
    let last = thread.iterations().last().and_then(|last| last.messages.last());
    last.is_some_and(|message| message.role == MessageRole::User)
}

/// Waits for the end, like [`DialogueStream::finish`].
impl<'a> IntoFuture for DialogueStream<'a> {
    type Output = Result<FinishedRound, DialogueError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.finish())
    }
}

impl Stream for DialogueStream<'_> {
    type Item = StreamItem;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let this = self.get_mut();
        // The first item begins the round; afterwards, the round continues only when all items so far are read.
        if std::mem::replace(&mut this.has_begun, true)
            && let Some(piece) = this.stream_output.lock().pieces.pop_front()
        {
            return Poll::Ready(Some(piece));
        }
        if let Some(round) = &mut this.round
            && let Poll::Ready(end) = round.as_mut().poll(context)
        {
            let last = match &end {
                Ok((text, _)) => StreamItem::Final(Message::new(MessageRole::Assistant, text.clone())),
                Err(cause) => StreamItem::Failed(cause.clone()),
            };
            this.stream_output.lock().pieces.push_back(last);
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
