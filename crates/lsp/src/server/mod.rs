//! A server of the Language Server Protocol over two streams.
//!
//! The main loop reads messages, keeps the texts and starts work; it never analyses. One thread checks texts and publishes
//! findings, one thread answers requests, and one thread writes. A text that changes while it is checked is checked again,
//! and nothing is published about the older one. **Invariant:** nothing is published about a text after the client has sent
//! a newer one or has closed it.

mod answer_thread;
mod capabilities;
mod check_thread;
mod client_process;
mod code_actions;
mod completion_items;
mod documents;
mod file_address;
mod lsp_diagnostic;
mod message_reader;
mod message_writer;
mod requests;
mod session;

use std::io::{Read, Write};
use std::sync::{Arc, mpsc};

use ensemble_language::ensemble::Ensemble;
use ensemble_project::project::Project;
use lsp_server::Message;

use self::message_writer::MessageWriter;
use self::session::LspSession;
use ensemble_ide::analysis::findings::ProjectFileChecks;

/// The project, checks and functions that the server needs.
#[derive(Debug, Clone)]
pub struct LspServerOptions {
    /// The project as the process sees it.
    pub project: Project,
    /// The checks of files that are not ensembles.
    pub checks: Arc<dyn ProjectFileChecks>,
    /// The version of the program.
    pub version: &'static str,
    /// The graph of an ensemble in a format; `None`: there is no such format.
    pub graph: fn(&Ensemble, &str) -> Option<String>,
}

/// The reason why the server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LspServerEnd {
    /// The client sent `exit`.
    Exit {
        /// Whether the client had sent `shutdown` before.
        after_shutdown: bool,
    },
    /// The input has ended, or the client's process has.
    ClientGone,
    /// What arrived is no message.
    MalformedMessage(String),
}

/// An event for the main loop: a message, or the end of the server.
pub(crate) enum LspServerEvent {
    /// A message.
    Message(Message),
    /// There will be no more messages.
    End(LspServerEnd),
}

/// Serves one client until its end, and waits until all messages are written.
pub fn serve_client(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    services: LspServerOptions,
) -> LspServerEnd {
    let (events, received) = mpsc::channel();
    message_reader::spawn_reader(input, events.clone());
    let outgoing = MessageWriter::spawn(output);
    let mut session = LspSession::new(services, outgoing.new_sender(), events);
    let end = received
        .iter()
        .find_map(|event| session.handle_event(event))
        .unwrap_or(LspServerEnd::ClientGone);
    outgoing.wait_and_close();
    end
}

#[cfg(test)]
mod tests;
