//! A running program with its session.

use std::time::Duration;

use serde_json::Value;
use tokio::process::ChildStdout;

use super::protocol;
use super::protocol::Abilities;
use super::wire::{Frame, Reader, Writer};
use super::{External, ProgramServer, ProgramServerKind, unavailable};
use crate::agent::Execution;
use crate::agent::chat::Cause;
use ensemble_process::service::{self, Service, ServiceSettings};

/// The time limit for each step of a start: a program that says nothing is given up.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The time limit for a program to end its prompt after `session/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// The time limit for a program to end after its stdin was closed, before its group is killed.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// The error code of JSON-RPC for a method that is not offered.
pub(super) const NO_METHOD: i64 = -32601;

/// A program with an open session.
pub(super) struct Live {
    pub(super) session: String,
    pub(super) writer: Writer,
    pub(super) reader: Reader<ChildStdout>,
    /// The number of the prompt that has not been answered.
    pub(super) open: Option<u64>,
    next: u64,
    service: Service,
    pub(super) abilities: Abilities,
}

/// The way in which the session was created: new, loaded or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// It remembers what was said.
    Known,
    /// It is empty.
    New,
}

impl Live {
    /// Starts the program, and opens the wanted session or a new one.
    pub(super) async fn start(
        external: &External,
        wanted: Option<&str>,
        execution: &Execution,
    ) -> Result<(Self, Session), Cause> {
        let settings = ServiceSettings {
            folder: &external.folder,
            environment: &external.environment,
            sandbox: None,
            run_id: &execution.run_id,
            watchdog: external.programs.watchdog.clone(),
            ledger: &execution.ledger,
        };
        let started = service::start(&external.invocation, settings).await;
        let (service, stdin, stdout) = started.map_err(unavailable)?;
        let mut live = Self {
            session: String::new(),
            writer: Writer::new(stdin),
            reader: Reader::new(stdout),
            open: None,
            next: 1,
            service,
            abilities: Abilities::default(),
        };
        match live.open_session(external, wanted).await {
            Ok(session) => Ok((live, session)),
            Err(error) => {
                let error = live.explained(error).await;
                live.pass_on(execution);
                external.programs.end(live);
                Err(unavailable(error))
            }
        }
    }

    async fn open_session(&mut self, external: &External, wanted: Option<&str>) -> Result<Session, String> {
        let answer = self.call("initialize", &protocol::initialize()).await?;
        self.abilities = protocol::abilities(answer)?;
        let (folder, servers) = (&external.folder, external.servers.as_slice());
        let over_http = |server: &&ProgramServer| matches!(server.kind, ProgramServerKind::Http { .. });
        if let Some(server) = servers.iter().find(over_http).filter(|_| !self.abilities.http) {
            return Err(format!(
                "it reaches no servers of tools over HTTP, and `{}` is one",
                server.name
            ));
        }
        if let Some(wanted) = wanted {
            let loaded = match (self.abilities.resumes, self.abilities.loads) {
                (true, _) => {
                    let request = protocol::resume_session(wanted, folder, servers);
                    self.call("session/resume", &request).await.is_ok()
                }
                (_, true) => {
                    let request = protocol::load_session(wanted, folder, servers);
                    self.call("session/load", &request).await.is_ok()
                }
                (false, false) => false,
            };
            if loaded {
                self.session = wanted.to_owned();
                return Ok(Session::Known);
            }
        }
        let answer = self
            .call("session/new", &protocol::new_session(folder, servers))
            .await?;
        self.session = protocol::session_of(answer)?;
        Ok(Session::New)
    }

    /// Makes a request outside of a prompt, and waits for its answer. What a loaded session repeats is not looked at.
    async fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let number = self.request(method, params)?;
        let answer = tokio::time::timeout(START_TIMEOUT, async {
            loop {
                match self.reader.next().await? {
                    Some(Frame::Answer(one, answer)) if one == number => {
                        return answer.map_err(|error| format!("it refused `{method}`: {}", refusal(&error)));
                    }
                    Some(Frame::Request(id, ..)) => {
                        self.writer.refuse(&id, NO_METHOD, "there is no prompt under way")?;
                    }
                    Some(Frame::Answer(..) | Frame::Notification(..)) => {}
                    None => return Err(format!("it ended before it answered `{method}`")),
                }
            }
        });
        let limit = START_TIMEOUT.as_secs();
        answer
            .await
            .unwrap_or_else(|_| Err(format!("it did not answer `{method}` within {limit} s")))
    }

    /// Sends a request and gives its number.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Result<u64, String> {
        let number = self.next;
        self.next += 1;
        self.writer.request(number, method, params)?;
        Ok(number)
    }

    /// The error with the end of stderr.
    pub(super) async fn explained(&self, error: String) -> String {
        self.service.wait_for_stderr().await;
        let error = format!("the external agent: {error}");
        match self.service.stderr().last_lines() {
            said if said.is_empty() => error,
            said => format!("{error}; stderr ends with:\n{said}"),
        }
    }

    /// Adds the new stderr of the program to the ledger of the execution.
    pub(super) fn pass_on(&self, execution: &Execution) {
        execution.ledger.add_stderr(&self.service.stderr().take());
    }

    /// Ends the program: its prompt is cancelled, its stdin is closed, and its group is killed.
    pub(super) async fn end(mut self) {
        if let Some(open) = self.open
            && self
                .writer
                .notify("session/cancel", &protocol::cancel(&self.session))
                .is_ok()
        {
            let _too_late = tokio::time::timeout(CANCEL_TIMEOUT, self.answered(open)).await;
        }
        let Self { writer, service, .. } = self;
        drop(writer);
        service.end_within(END_TIMEOUT).await;
    }

    /// Reads until the request is answered; what the program asks for is refused.
    pub(super) async fn answered(&mut self, number: u64) {
        while let Ok(Some(frame)) = self.reader.next().await {
            match frame {
                Frame::Answer(one, _) if one == number => return,
                Frame::Request(id, method, _) => {
                    let answer = match method.as_str() {
                        "session/request_permission" => self.writer.answer(&id, &protocol::Answers::cancelled()),
                        _ => self.writer.refuse(&id, NO_METHOD, "the prompt was cancelled"),
                    };
                    if answer.is_err() {
                        return;
                    }
                }
                Frame::Answer(..) | Frame::Notification(..) => {}
            }
        }
    }
}

/// The words of an error of JSON-RPC.
pub(super) fn refusal(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("without a reason");
    let details = match &error["data"] {
        Value::Null => String::new(),
        Value::String(details) => format!(" ({details})"),
        Value::Object(data) => match data.get("details").or(data.get("message")).and_then(Value::as_str) {
            Some(details) => format!(" ({details})"),
            None => String::new(),
        },
        _ => String::new(),
    };
    let mut whole = format!("{message}{details}");
    whole.truncate(whole.floor_char_boundary(1000));
    whole
}
