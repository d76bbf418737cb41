//! A round as a stream of what is said, with the continuation at its end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};

use super::{BoxFuture, Conversed, Dialogue, DialogueError, Ended, Opening, Progress};
use ensemble_core::thread::{Listener, Message, Role, Said, Speaker, StopReason, Thread, ToolCall};
use ensemble_language::data::Remaining;

/// What comes out of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// The next piece of the model's text.
    Text(String),
    /// A tool that was called, with its result or error.
    Tool(ToolCall),
    /// The text since the last tool does not count: the model is asked once more.
    Again,
    /// The last word. Nothing comes after it.
    Final(Message),
}

/// The messages of one round as they come. Dropping it ends the round, and stops what runs.
pub struct DialogueStream<'a> {
    dialogue: &'a Dialogue,
    round: Option<BoxFuture<'a, ()>>,
    progress: Progress,
    earlier: Thread,
    heard: Arc<Heard>,
    conversed: Option<Conversed>,
}

#[derive(Default)]
struct Heard(Mutex<VecDeque<Piece>>);

impl Heard {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Piece>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Heard {
    fn hear(&self, _: &Speaker, said: Said<'_>) {
        let piece = match said {
            Said::Text(text) => Piece::Text(text.to_owned()),
            Said::ToolEnded(call) => Piece::Tool(call.clone()),
            Said::Again => Piece::Again,
            Said::ToolCalled(_) | Said::Retrying { .. } => return,
        };
        self.queue().push_back(piece);
    }
}

impl<'a> DialogueStream<'a> {
    pub(super) fn new(dialogue: &'a Dialogue, thread: Thread, text: String, max_requests: u32) -> Self {
        let heard = Arc::new(Heard::default());
        let opening = Opening {
            thread: Arc::new(thread.clone()),
            text,
            systems: Vec::new(),
            speaker: Speaker {
                run: "".into(),
                agent: "assistant".into(),
                execution: 1,
                attempt: 1,
            },
            requests_made: thread.iterations().len() as u64,
            max_requests,
            remaining: Remaining::default(),
            output_schema: None,
        };
        let listener = Arc::clone(&heard);
        let progress = Progress::default();
        let told = progress.clone();
        let round = Box::pin(async move {
            dialogue.hold(opening, &*dialogue.tools, &*listener, &told).await;
        });
        Self {
            dialogue,
            round: Some(round),
            progress,
            earlier: thread,
            heard,
            conversed: None,
        }
    }

    /// Waits for the end, and gives the continuation.
    ///
    /// # Errors
    /// [`DialogueError`]: the round had no end.
    pub async fn finish(mut self) -> Result<Ended, DialogueError> {
        while self.next().await.is_some() {}
        let Some(conversed) = self.conversed else {
            return Err(DialogueError::NotEnded);
        };
        let (text, stop_reason) = conversed.end.unwrap_or(Err(DialogueError::NotEnded))?;
        Ok(Ended {
            text,
            stop_reason,
            thread: self.earlier.followed_by(conversed.exchange.into_iterations()),
            usage: conversed.usage,
            warnings: conversed.warnings,
        })
    }

    /// Stops it where it is, tools included, and gives what was said until then, for the record. Such a thread has
    /// not ended: go on from the one before.
    pub fn cancel(mut self) -> Thread {
        if self.round.take().is_some() {
            self.progress.close((self.dialogue.now)(), Some(StopReason::Cancelled));
            self.conversed = Some(self.progress.take());
        }
        let exchange = self.conversed.unwrap_or_default().exchange;
        self.earlier.followed_by(exchange.into_iterations())
    }

    /// Why the model stopped; nothing while it speaks, and nothing if it failed.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self.conversed.as_ref()?.end.as_ref()? {
            Ok((_, reason)) => Some(*reason),
            Err(error) => error.stop_reason(),
        }
    }
}

impl Stream for DialogueStream<'_> {
    type Item = Piece;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let this = self.get_mut();
        if let Some(round) = &mut this.round
            && round.as_mut().poll(context).is_ready()
        {
            let conversed = this.progress.take();
            if let Some(Ok((text, _))) = &conversed.end {
                let last = Message::new(Role::Assistant, text.clone());
                this.heard.queue().push_back(Piece::Final(last));
            }
            this.conversed = Some(conversed);
            this.round = None;
        }
        match (this.heard.queue().pop_front(), &this.round) {
            (Some(piece), _) => Poll::Ready(Some(piece)),
            (None, Some(_)) => Poll::Pending,
            (None, None) => Poll::Ready(None),
        }
    }
}
