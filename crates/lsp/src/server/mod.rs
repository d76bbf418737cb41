//! A server of the Language Server Protocol over two streams.
//!
//! The main loop reads messages, keeps the texts and starts work; it never analyses. One thread checks texts and publishes
//! findings, one thread answers requests, and one thread writes. A text that changes while it is checked is checked again,
//! and nothing is published about the older one. **Invariant:** nothing is published about a text after the client has sent
//! a newer one or has closed it.

mod actions;
mod address;
mod answering;
mod capabilities;
mod checking;
mod documents;
mod incoming;
mod offered;
mod outgoing;
mod parent;
mod requests;
mod session;
mod shown;

use std::io::{Read, Write};
use std::sync::{Arc, mpsc};

use ensemble_language::ensemble::Ensemble;
use ensemble_project::project::Project;
use lsp_server::Message;

use self::outgoing::Outgoing;
use self::session::Session;
use ensemble_ide::analysis::findings::Checks;

/// The services that the server receives.
#[derive(Debug, Clone)]
pub struct Services {
    /// The project as the process sees it.
    pub project: Project,
    /// The checks of files that are not ensembles.
    pub checks: Arc<dyn Checks>,
    /// The version of the program.
    pub version: &'static str,
    /// The graph of an ensemble in a format; `None`: there is no such format.
    pub graph: fn(&Ensemble, &str) -> Option<String>,
}

/// The reason why the server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The client said `exit`.
    Exit {
        /// Whether it had said `shutdown` before.
        after_shutdown: bool,
    },
    /// The input has ended, or the client's process has.
    ClientGone,
    /// What arrived is no message.
    Malformed(String),
}

/// The event that the main loop waits for.
pub(crate) enum Event {
    /// A message.
    Message(Message),
    /// There will be no more messages.
    End(End),
}

/// Serves one client until its end.
pub fn serve(input: impl Read + Send + 'static, output: impl Write + Send + 'static, services: Services) -> End {
    let (events, received) = mpsc::channel();
    incoming::read_all(input, events.clone());
    let outgoing = Outgoing::start(output);
    let mut session = Session::new(services, outgoing.sender(), events);
    let end = received
        .iter()
        .find_map(|event| session.handle(event))
        .unwrap_or(End::ClientGone);
    outgoing.close();
    end
}

#[cfg(test)]
mod tests;
