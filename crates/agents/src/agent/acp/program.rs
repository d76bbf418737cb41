//! A running program with its session.

use std::time::Duration;

use serde_json::Value;
use tokio::process::ChildStdout;

use super::protocol;
use super::protocol::AcpCapabilities;
use super::wire::{AcpMessage, AcpReader, AcpWriter};
use super::{ExternalAgent, ProgramMcpServer, ProgramMcpTransport, unavailable_error};
use crate::agent::ExecutionInput;
use crate::agent::chat::DialogueErrorKind;
use ensemble_process::service::{self, ServiceOptions, ServiceProcess};

/// Time limit for each step of a start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a program for ending its prompt after `session/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit of a program for exiting after its stdin was closed. Then its process group is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The error code of JSON-RPC for a method that is not offered.
pub(super) const METHOD_NOT_FOUND_CODE: i64 = -32601;

/// Running program with an open session.
pub(super) struct RunningProgram {
    pub(super) session: String,
    pub(super) writer: AcpWriter,
    pub(super) reader: AcpReader<ChildStdout>,
    /// The number of the prompt that has not been answered.
    pub(super) open: Option<u64>,
    next: u64,
    service: ServiceProcess,
    pub(super) abilities: AcpCapabilities,
}

/// The way in which the session was created: new, loaded or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionOrigin {
    /// It remembers what was said.
    Continued,
    /// It is empty.
    New,
}

impl RunningProgram {
    /// Starts the program, and opens the wanted session or a new one.
    pub(super) async fn start_program(
        external: &ExternalAgent,
        wanted: Option<&str>,
        execution: &ExecutionInput,
    ) -> Result<(Self, SessionOrigin), DialogueErrorKind> {
        let settings = ServiceOptions {
            folder: &external.folder,
            environment: &external.environment,
            sandbox: None,
            run_id: &execution.run_id,
            watchdog: external.programs.watchdog.clone(),
            ledger: &execution.ledger,
        };
        let started = service::start_service(&external.invocation, settings).await;
        let (service, stdin, stdout) = started.map_err(unavailable_error)?;
        let mut live = Self {
            session: String::new(),
            writer: AcpWriter::new(stdin),
            reader: AcpReader::new(stdout),
            open: None,
            next: 1,
            service,
            abilities: AcpCapabilities::default(),
        };
        match live.open_session(external, wanted).await {
            Ok(session) => Ok((live, session)),
            Err(error) => {
                let error = live.add_stderr_tail(error).await;
                live.move_stderr_to_ledger(execution);
                external.programs.shut_down_in_background(live);
                Err(unavailable_error(error))
            }
        }
    }

    /// Initializes the connection, and resumes or loads the wanted session. Opens a new session if that is not possible.
    async fn open_session(&mut self, external: &ExternalAgent, wanted: Option<&str>) -> Result<SessionOrigin, String> {
        let answer = self.send_and_wait("initialize", &protocol::initialize_params()).await?;
        self.abilities = protocol::parse_capabilities(answer)?;
        let (folder, servers) = (&external.folder, external.servers.as_slice());
        let over_http = |server: &&ProgramMcpServer| matches!(server.kind, ProgramMcpTransport::Http { .. });
        if let Some(server) = servers.iter().find(over_http).filter(|_| !self.abilities.http) {
            return Err(format!(
                "it does not support MCP servers over HTTP, and `{}` is one",
                server.name
            ));
        }
        if let Some(session_id) = wanted {
            let loaded = match (self.abilities.resumes, self.abilities.loads) {
                (true, _) => {
                    let request = protocol::resume_session_params(session_id, folder, servers);
                    self.send_and_wait("session/resume", &request).await.is_ok()
                }
                (_, true) => {
                    let request = protocol::load_session_params(session_id, folder, servers);
                    self.send_and_wait("session/load", &request).await.is_ok()
                }
                (false, false) => false,
            };
            if loaded {
                self.session = session_id.to_owned();
                return Ok(SessionOrigin::Continued);
            }
        }
        let answer = self
            .send_and_wait("session/new", &protocol::new_session_params(folder, servers))
            .await?;
        self.session = protocol::parse_session_id(answer)?;
        Ok(SessionOrigin::New)
    }

    /// Sends a request outside of a prompt and waits for its reply. Ignores the updates of a loaded session.
    async fn send_and_wait(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let number = self.send_request(method, params)?;
        let answer = tokio::time::timeout(START_TIMEOUT, async {
            loop {
                match self.reader.next().await? {
                    Some(AcpMessage::Answer(one, answer)) if one == number => {
                        return answer.map_err(|error| format!("it refused `{method}`: {}", rpc_error_message(&error)));
                    }
                    Some(AcpMessage::Request(id, ..)) => {
                        self.writer
                            .send_error(&id, METHOD_NOT_FOUND_CODE, "no prompt is running")?;
                    }
                    Some(AcpMessage::Answer(..) | AcpMessage::Notification(..)) => {}
                    None => return Err(format!("it exited before it answered `{method}`")),
                }
            }
        });
        let limit = START_TIMEOUT.as_secs();
        answer
            .await
            .unwrap_or_else(|_| Err(format!("it did not answer `{method}` within {limit} s")))
    }

    /// Sends a request and returns its number.
    pub(super) fn send_request(&mut self, method: &str, params: &Value) -> Result<u64, String> {
        let number = self.next;
        self.next += 1;
        self.writer.send_request(number, method, params)?;
        Ok(number)
    }

    /// Appends the last lines of stderr to the error.
    pub(super) async fn add_stderr_tail(&self, error: String) -> String {
        self.service.wait_for_stderr().await;
        let error = format!("the external agent: {error}");
        match self.service.stderr().last_complete_stderr_lines() {
            said if said.is_empty() => error,
            said => format!("{error}; stderr ends with:\n{said}"),
        }
    }

    /// Moves the new stderr output of the program to the ledger of the execution.
    pub(super) fn move_stderr_to_ledger(&self, execution: &ExecutionInput) {
        execution.ledger.add_stderr(&self.service.stderr().take_new_stderr());
    }

    /// Cancels the prompt, closes stdin, waits a short time for the exit, and kills the process group.
    pub(super) async fn shut_down(mut self) {
        if let Some(open) = self.open
            && self
                .writer
                .send_notification("session/cancel", &protocol::cancel_params(&self.session))
                .is_ok()
        {
            let _too_late = tokio::time::timeout(CANCEL_TIMEOUT, self.wait_and_refuse_requests(open)).await;
        }
        let Self { writer, service, .. } = self;
        drop(writer);
        service.wait_with_limit_then_kill(EXIT_TIMEOUT).await;
    }

    /// Waits for the reply to the request with this number. Refuses requests of the program and ignores its updates.
    pub(super) async fn wait_and_refuse_requests(&mut self, number: u64) {
        while let Ok(Some(frame)) = self.reader.next().await {
            match frame {
                AcpMessage::Answer(one, _) if one == number => return,
                AcpMessage::Request(id, method, _) => {
                    let answer = match method.as_str() {
                        "session/request_permission" => self
                            .writer
                            .send_answer(&id, &protocol::PermissionOptionIds::cancelled_json()),
                        _ => self
                            .writer
                            .send_error(&id, METHOD_NOT_FOUND_CODE, "the prompt was cancelled"),
                    };
                    if answer.is_err() {
                        return;
                    }
                }
                AcpMessage::Answer(..) | AcpMessage::Notification(..) => {}
            }
        }
    }
}

/// Returns the message of a JSON-RPC error.
pub(super) fn rpc_error_message(error: &Value) -> String {
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
    let mut full_message = format!("{message}{details}");
    full_message.truncate(full_message.floor_char_boundary(1000));
    full_message
}
