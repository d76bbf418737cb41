//! External agents: programs that speak the Agent Client Protocol take part in a conversation like a model.
//!
//! A program is a child process with a small environment and a process group of its own, which the watchdog knows. It is
//! told the task and answers with text, as a model does; what its tools do is recorded as tool calls are. It may read and
//! write files only inside the project root. One session serves all executions that remember each other: the program
//! stays until the end of the run, and a later run loads the session where the program can do that.
//!
//! **Invariant:** when an execution is dropped, the program is told with `session/cancel`, and its group is killed. What a
//! program sends contains no secrets when it leaves this module.

mod calls;
mod decided_request;
mod diff;
mod file_requests;
mod files;
mod limits;
mod permitted_files;
mod program;
mod prompt_round;
mod prompt_text;
mod protocol;
mod simulated_agent;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tokio::task::JoinHandle;

use self::program::RunningProgram;
pub use self::simulated_agent::{ACP_CONFIG_VARIABLE as SIMULATED_CONFIG, serve_simulated_agent};
use super::build_error::RunnerBuildError;
use super::chat::external::complete_last_iteration;
use super::chat::{ClockFn, DialogueErrorKind, ModelTools, RoundParameters};
use super::chat::{RoundEnd, Thread};
use super::kinds::llm::{LlmAgentRunner, RoundPerformer};
use super::tools::ToolPermissions;
use super::{BoxFuture, ExecutionInput};
use ensemble_core::secrets::Secrets;
use ensemble_core::thread::LiveOutputReceiver;
use ensemble_language::data::sha256_of_text;
use ensemble_language::ensemble::{AcpAgent, Agent, LlmSpec};
use ensemble_process::{ChildEnvironment, ProcessWatchdog, ProgramInvocation};

/// The number of hexadecimal digits of an identity.
const PROGRAM_DIGEST_LENGTH: usize = 16;

/// External agent of an ensemble: its command, folders, permissions and program registry.
pub struct ExternalAgent {
    /// What the ensemble says.
    pub acp: Arc<AcpAgent>,
    /// The program with its arguments.
    pub invocation: ProgramInvocation,
    /// The working folder.
    pub folder: PathBuf,
    /// The folder inside which files may be read and written.
    pub root: PathBuf,
    /// Folders that are not written, also below the root: those of the user's own settings.
    pub private_folders: Vec<PathBuf>,
    /// The environment of the program.
    pub environment: ChildEnvironment,
    /// The servers of tools that the program is given when its session begins.
    pub servers: Vec<ProgramMcpServer>,
    /// Decides about tools that need permission.
    pub permissions: Arc<ToolPermissions>,
    /// The programs of the run.
    pub programs: Arc<ExternalProgramPool>,
    /// The number of this agent among those of the run ([`ExternalProgramPool::new_owner`]): it uses no program of another agent.
    pub owner: ProgramOwner,
    /// The clock for the times of the record.
    pub now: Arc<ClockFn>,
}

/// MCP server that an external program starts or connects itself.
pub struct ProgramMcpServer {
    /// Its name.
    pub name: Arc<str>,
    /// How it is reached.
    pub kind: ProgramMcpTransport,
}

/// The transport by which a program reaches a server.
pub enum ProgramMcpTransport {
    /// A child process of the program.
    Command {
        /// The program of the server with its arguments.
        invocation: ProgramInvocation,
        /// Variables of its environment, beside those that the program gives it.
        env: Vec<(String, String)>,
    },
    /// An address.
    Http {
        /// The URL.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

/// Builds the runner of an agent whose prompts an external program answers.
///
/// # Errors
/// A template or the schema of the agent does not compile.
pub fn build_external_runner(
    agent: &Agent,
    llm: &LlmSpec,
    external: ExternalAgent,
    live_output: Arc<dyn LiveOutputReceiver>,
) -> Result<LlmAgentRunner, RunnerBuildError> {
    LlmAgentRunner::new_with_speaker(agent, llm, Box::new(external), live_output, |runner| runner)
}

/// Id of an agent among the external agents of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramOwner(u64);

/// Idle and closing external programs of a run, kept between executions.
#[derive(Default)]
pub struct ExternalProgramPool {
    watchdog: Option<Arc<ProcessWatchdog>>,
    owners: AtomicU64,
    idle_programs: Mutex<Vec<(ProgramOwner, RunningProgram)>>,
    ending: Mutex<Vec<JoinHandle<()>>>,
}

impl ExternalProgramPool {
    /// Creates an empty registry. The watchdog kills the programs if this process is killed.
    pub fn new(watchdog: Option<Arc<ProcessWatchdog>>) -> Self {
        Self {
            watchdog,
            ..Self::default()
        }
    }

    /// Allocates the id of another agent.
    pub fn new_owner(&self) -> ProgramOwner {
        ProgramOwner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes the idle program of this agent with this session.
    fn take_idle_program(&self, owner: ProgramOwner, session: &str) -> Option<RunningProgram> {
        let mut idle_programs = lock_mutex(&self.idle_programs);
        let is_wanted = |(by, live): &(ProgramOwner, RunningProgram)| *by == owner && live.session == session;
        let at = idle_programs.iter().position(is_wanted)?;
        Some(idle_programs.swap_remove(at).1)
    }

    /// Stores an idle program for a later execution.
    fn store_idle_program(&self, owner: ProgramOwner, live: RunningProgram) {
        lock_mutex(&self.idle_programs).push((owner, live));
    }

    /// Shuts a program down in a background task. Cancels its prompt first, if one is running.
    fn shut_down_in_background(&self, live: RunningProgram) {
        // Without a runtime the group is killed when this is dropped.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let mut ending = lock_mutex(&self.ending);
            ending.retain(|task| !task.is_finished());
            ending.push(runtime.spawn(live.shut_down()));
        }
    }

    /// Shuts all programs down, and waits until none is running.
    pub fn shut_down_all<'f>(&'f self) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            let idle_programs = std::mem::take(&mut *lock_mutex(&self.idle_programs));
            let ending = std::mem::take(&mut *lock_mutex(&self.ending));
            futures_util::future::join_all(idle_programs.into_iter().map(|(_, live)| live.shut_down())).await;
            for task in ending {
                let _ended = task.await;
            }
        })
    }
}

impl RoundPerformer for ExternalAgent {
    fn perform_round<'a>(
        &'a self,
        opening: RoundParameters,
        _tools: &'a dyn ModelTools,
        live_output: &'a dyn LiveOutputReceiver,
        execution: &'a ExecutionInput,
    ) -> BoxFuture<'a, RoundEnd> {
        Box::pin(async move {
            let ledger = &execution.ledger;
            ledger.start_round(Thread::default(), 0);
            let end = prompt_round::perform_prompt_round(self, &opening, live_output, execution).await;
            let end = end.map_err(|error| self.redact_error(error));
            complete_last_iteration(ledger, &end, (self.now)());
            end
        })
    }

    fn is_simulated(&self) -> bool {
        self.acp.is_simulated()
    }

    fn notify_execution_ended(&self, session: Option<&str>, is_kept: bool) {
        if !is_kept && let Some(live) = session.and_then(|session| self.programs.take_idle_program(self.owner, session))
        {
            self.programs.shut_down_in_background(live);
        }
    }
}

impl ExternalAgent {
    /// Returns the digest of the command and its configuration, which ties a session to the program that created it.
    fn program_digest(&self) -> String {
        let arguments = self.invocation.arguments.iter();
        let arguments: Vec<_> = arguments.map(|argument| argument.to_string_lossy()).collect();
        let identity = json!([
            self.invocation.program.to_string_lossy(),
            arguments,
            self.environment.added_names(),
            self.folder.to_string_lossy(),
        ]);
        let mut digest = sha256_of_text(&identity.to_string());
        digest.truncate(PROGRAM_DIGEST_LENGTH);
        digest
    }

    /// Returns the secrets that are redacted in all output of the program.
    fn secrets(&self) -> &Secrets {
        self.environment.secrets()
    }

    /// Redacts the secrets in the text of the error.
    fn redact_error(&self, error: DialogueErrorKind) -> DialogueErrorKind {
        let redact = |text: String| self.secrets().redact(text).into_owned();
        match error {
            DialogueErrorKind::External(kind, text) => DialogueErrorKind::External(kind, redact(text)),
            DialogueErrorKind::Tools(text) => DialogueErrorKind::Tools(redact(text)),
            DialogueErrorKind::Refused(text) => DialogueErrorKind::Refused(redact(text)),
            other => other,
        }
    }
}

/// Creates the error for a program that could not be asked.
fn unavailable_error(error: impl Into<String>) -> DialogueErrorKind {
    DialogueErrorKind::Tools(error.into())
}

/// Locks the mutex, also after a panic in another thread.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
