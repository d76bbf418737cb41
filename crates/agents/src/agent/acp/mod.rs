//! External agents: programs that speak the Agent Client Protocol take part in a conversation like a model.
//!
//! A program is a child process with a small environment and a process group of its own, which the watchdog knows. It is
//! told the task and answers with text, as a model does; what its tools do is recorded as tool calls are. It may read and
//! write files only inside the project root. One session serves all executions that remember each other: the program
//! stays until the end of the run, and a later run loads the session where the program can do that.
//!
//! **Invariant:** when an execution is dropped, the program is told with `session/cancel`, and its group is killed.

mod calls;
mod diff;
mod files;
mod program;
mod prompt_text;
mod protocol;
mod simulated;
mod turn;
mod wire;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

use self::program::Live;
pub use self::simulated::{CONFIG as SIMULATED_CONFIG, run_simulated};
use super::build_error::BuildError;
use super::chat::external::complete_round;
use super::chat::{Cause, Now, RoundRequest, Tools};
use super::chat::{RoundEnd, Thread};
use super::kinds::llm::{Converse, LlmRunner};
use super::tools::ToolPermissions;
use super::{BoxFuture, Execution};
use ensemble_core::thread::LiveOutput;
use ensemble_language::ensemble::{Acp, Agent, Llm};
use ensemble_process::{Environment, Invocation, Watchdog};

/// The command of an external agent, and its permissions.
pub struct External {
    /// What the ensemble says.
    pub acp: Arc<Acp>,
    /// The program with its arguments.
    pub invocation: Invocation,
    /// The working folder.
    pub folder: PathBuf,
    /// The folder inside which files may be read and written.
    pub root: PathBuf,
    /// The environment of the program.
    pub environment: Environment,
    /// The servers of tools that the program is given when its session begins.
    pub servers: Vec<ProgramServer>,
    /// Decides about tools that need permission.
    pub permissions: Arc<ToolPermissions>,
    /// The programs of the run.
    pub programs: Arc<Programs>,
    /// The clock for the times of the record.
    pub now: Arc<Now>,
}

/// A server for the Model Context Protocol that a program starts or reaches itself.
pub struct ProgramServer {
    /// Its name.
    pub name: Arc<str>,
    /// How it is reached.
    pub kind: ProgramServerKind,
}

/// The transport by which a program reaches a server.
pub enum ProgramServerKind {
    /// A child process of the program.
    Command {
        /// The program of the server with its arguments.
        invocation: Invocation,
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

/// The runner of an agent whose task goes to an external program.
///
/// # Errors
/// A template or the schema of the agent does not compile.
pub fn runner(
    agent: &Agent,
    llm: &Llm,
    external: External,
    live_output: Arc<dyn LiveOutput>,
) -> Result<LlmRunner, BuildError> {
    LlmRunner::of(agent, llm, Box::new(external), live_output, |runner| runner)
}

/// The programs of a run that are running between executions, and those that are about to end.
#[derive(Default)]
pub struct Programs {
    watchdog: Option<Arc<Watchdog>>,
    kept: Mutex<Vec<Live>>,
    ending: Mutex<Vec<JoinHandle<()>>>,
}

impl Programs {
    /// No programs. The watchdog kills those that are started if this process is killed.
    pub fn new(watchdog: Option<Arc<Watchdog>>) -> Self {
        Self {
            watchdog,
            ..Self::default()
        }
    }

    /// The program that holds this session.
    fn take(&self, session: &str) -> Option<Live> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|live| live.session == session)?;
        Some(kept.swap_remove(at))
    }

    fn keep(&self, live: Live) {
        lock(&self.kept).push(live);
    }

    /// Ends a program in the background, after the cancellation of its prompt if one is under way.
    fn end(&self, live: Live) {
        // Without a runtime the group is killed when this is dropped.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let mut ending = lock(&self.ending);
            ending.retain(|task| !task.is_finished());
            ending.push(runtime.spawn(live.end()));
        }
    }

    /// Ends all programs. None is running when this returns.
    pub fn close<'f>(&'f self) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            let kept = std::mem::take(&mut *lock(&self.kept));
            let ending = std::mem::take(&mut *lock(&self.ending));
            futures_util::future::join_all(kept.into_iter().map(Live::end)).await;
            for task in ending {
                let _ended = task.await;
            }
        })
    }
}

impl Converse for External {
    fn converse<'a>(
        &'a self,
        opening: RoundRequest,
        _tools: &'a dyn Tools,
        live_output: &'a dyn LiveOutput,
        execution: &'a Execution,
    ) -> BoxFuture<'a, RoundEnd> {
        Box::pin(async move {
            let ledger = &execution.ledger;
            ledger.begin_round(Thread::default(), 0);
            let end = turn::performed(self, &opening, live_output, execution).await;
            complete_round(ledger, &end, (self.now)());
            end
        })
    }

    fn is_simulated(&self) -> bool {
        self.acp.is_simulated()
    }

    fn ended(&self, session: Option<&str>, is_kept: bool) {
        if !is_kept && let Some(live) = session.and_then(|session| self.programs.take(session)) {
            self.programs.end(live);
        }
    }
}

/// A failure before the program was asked.
fn unavailable(error: impl Into<String>) -> Cause {
    Cause::Tools(error.into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
