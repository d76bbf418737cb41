//! Writes the frames of the server, in a thread of its own: a client that reads slowly stops nothing else.

use std::io::Write;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use lsp_server::{ErrorCode, Message, Notification, RequestId, Response};
use serde::Serialize;

/// The thread that writes.
pub(super) struct Outgoing {
    frames: Sender<Frame>,
    thread: JoinHandle<()>,
}

enum Frame {
    Message(Message),
    Close,
}

/// Sends messages to the client.
#[derive(Clone)]
pub(super) struct Sending(Sender<Frame>);

impl Outgoing {
    /// Starts the thread.
    pub(super) fn start(output: impl Write + Send + 'static) -> Self {
        let (frames, received) = mpsc::channel();
        let thread = std::thread::spawn(move || write_all(output, &received));
        Self { frames, thread }
    }

    pub(super) fn sender(&self) -> Sending {
        Sending(self.frames.clone())
    }

    /// Waits until everything that was sent so far is written.
    pub(super) fn close(self) {
        let _ended = self.frames.send(Frame::Close);
        let _joined = self.thread.join();
    }
}

fn write_all(mut output: impl Write, frames: &Receiver<Frame>) {
    while let Ok(Frame::Message(message)) = frames.recv() {
        if message.write(&mut output).is_err() {
            return;
        }
    }
}

impl Sending {
    /// Answers a request.
    pub(super) fn answer(&self, id: RequestId, result: impl Serialize) {
        let result = serde_json::to_value(result).unwrap_or_default();
        self.send(Message::Response(Response::new_ok(id, result)));
    }

    /// Answers a request with an error.
    pub(super) fn refuse(&self, id: RequestId, code: ErrorCode, why: impl Into<String>) {
        self.send(Message::Response(Response::new_err(id, code as i32, why.into())));
    }

    /// Sends a notification.
    pub(super) fn notify<N: lsp_types::notification::Notification>(&self, params: N::Params) {
        self.send(Message::Notification(Notification::new(N::METHOD.to_owned(), params)));
    }

    /// Sends a message. If nobody writes any more, the client is gone.
    pub(super) fn send(&self, message: Message) {
        let _gone = self.0.send(Frame::Message(message));
    }
}
