//! Writes the frames of the server, in a thread of its own: a client that reads slowly stops nothing else.

use std::io::Write;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use lsp_server::{ErrorCode, Message, Notification, RequestId, Response};
use serde::Serialize;

/// A handle of the thread that writes messages.
pub(super) struct MessageWriter {
    frames: Sender<OutgoingFrame>,
    thread: JoinHandle<()>,
}

enum OutgoingFrame {
    Message(Message),
    Close,
}

/// A sender of messages to the client.
#[derive(Clone)]
pub(super) struct MessageSender(Sender<OutgoingFrame>);

impl MessageWriter {
    /// Starts the thread that writes messages.
    pub(super) fn spawn(output: impl Write + Send + 'static) -> Self {
        let (frames, received) = mpsc::channel();
        let thread = std::thread::spawn(move || run_write_loop(output, &received));
        Self { frames, thread }
    }

    /// Creates a sender to this thread.
    pub(super) fn new_sender(&self) -> MessageSender {
        MessageSender(self.frames.clone())
    }

    /// Waits until all messages that were sent so far are written, and ends the thread.
    pub(super) fn wait_and_close(self) {
        let _ended = self.frames.send(OutgoingFrame::Close);
        let _joined = self.thread.join();
    }
}

/// Writes the messages until the thread is closed or the client is gone.
fn run_write_loop(mut output: impl Write, frames: &Receiver<OutgoingFrame>) {
    while let Ok(OutgoingFrame::Message(message)) = frames.recv() {
        if message.write(&mut output).is_err() {
            return;
        }
    }
}

impl MessageSender {
    /// Answers a request with a result.
    pub(super) fn send_response(&self, id: RequestId, result: impl Serialize) {
        let result = serde_json::to_value(result).unwrap_or_default();
        self.send_message(Message::Response(Response::new_ok(id, result)));
    }

    /// Answers a request with an error.
    pub(super) fn send_error_response(&self, id: RequestId, code: ErrorCode, why: impl Into<String>) {
        self.send_message(Message::Response(Response::new_err(id, code as i32, why.into())));
    }

    /// Sends a notification.
    pub(super) fn send_notification<N: lsp_types::notification::Notification>(&self, params: N::Params) {
        self.send_message(Message::Notification(Notification::new(N::METHOD.to_owned(), params)));
    }

    /// Sends a message. A message to a client that is gone is dropped.
    pub(super) fn send_message(&self, message: Message) {
        let _gone = self.0.send(OutgoingFrame::Message(message));
    }
}
