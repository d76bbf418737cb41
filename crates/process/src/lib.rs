//! Child processes: one JSON object in, one JSON value or text out.
//!
//! A script may ignore its stdin, write without end to stderr, leave child processes running, or never end. None of
//! this may stop the conversation, exhaust the memory or outlive the execution. So the three pipes are served
//! concurrently, the output that is kept is limited, and the process group of the script is killed when the future is
//! dropped.
//!
//! - Each child process has a separate environment (`environment`) and leads a process group (`group`). A watchdog knows the groups
//!   (`watchdog`): it kills them if the run is killed.
//! - `grace` ends a group with SIGTERM before SIGKILL, in a separate thread, since a dropped future cannot wait.
//! - `strays` kills orphans that have left their group: the program is their parent (a subreaper), and each process has a mark in its
//!   environment.
//! - `confine` is the sandbox of a child process. The program starts itself as a supervisor, which starts itself once more; the second
//!   process applies limits, Landlock and seccomp, and becomes the command. So no code runs between `fork` and `exec`. The supervisor
//!   gives up the right to send signals to the outside, so that one call kills all processes below it, faster than they can multiply.
//! - `service` is a process that lives longer than an execution. `room` limits how many child processes and connections there are.
//!
//! Invariant: dropping the future of [`run`] leaves no process behind.

#![expect(
    clippy::disallowed_methods,
    reason = "this module starts programs and finds those that were left running"
)]

pub mod confine;
mod environment;
mod fault;
mod grace;
mod group;
mod leftovers;
mod members;
pub mod output;
mod payload;
mod pipe;
pub mod program;
pub mod room;
pub mod service;
mod strays;
mod tail;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
#[cfg(test)]
mod tests;
mod tree;
mod watchdog;

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use self::confine::{Confined, Sandbox};
pub use self::environment::{Environment, is_small};
use self::group::{Group, Started};
pub use self::leftovers::kill_leftovers;
pub use self::strays::collect_orphans;
pub use self::tail::KEPT as STDERR_KEPT;
use self::tail::Tail;
pub use self::watchdog::{Watchdog, run_watchdog};
use crate::room::Place;
use ensemble_core::runner::{AttemptLedger, AttemptOutcome, AttemptResult, Execution};
use ensemble_core::trace;
use ensemble_language::data::{Failure, FailureKind, JsonMap};

#[cfg(not(unix))]
compile_error!("scripts are run in process groups, which only Unix has");

/// The default limit for the stdout of a script, in bytes.
pub const DEFAULT_OUTPUT_CAP: usize = 10 * 1024 * 1024;

/// The environment variable that marks the processes of a run.
pub const RUN_ID: &str = "ENSEMBLE_RUN_ID";

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Invocation {
    /// A path, or a name that is searched on PATH.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
}

/// The limits of every child process of a run.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The limit for stdout, in bytes.
    pub output_cap: usize,
    /// The watchdog that kills the process if the run is killed; `None`: the process continues to run.
    pub watchdog: Option<Arc<Watchdog>>,
    /// The environment of the process.
    pub environment: Environment,
    /// What the process may reach; `None`: all that the user may.
    pub sandbox: Option<Arc<Sandbox>>,
}

/// Runs the program in `folder`, within the bounds, and reads its output.
///
/// Dropping the future kills the program and all of its process group at once.
pub async fn run(invocation: &Invocation, folder: &Path, bounds: &Bounds, execution: &Execution) -> AttemptOutcome {
    let observed = AttemptOutcome::Finished(AttemptResult {
        parts: Vec::new(),
        answer: None,
        result: perform(invocation, folder, bounds, execution).await,
        usage: None,
        exchange: Vec::new(),
    });
    bounds.environment.struck(observed)
}

async fn perform(
    invocation: &Invocation,
    folder: &Path,
    bounds: &Bounds,
    execution: &Execution,
) -> Result<JsonMap, Failure> {
    let started = start(invocation, folder, bounds, execution).await;
    let running = started.map_err(|error| fault::not_started(invocation, folder, &error))?;
    let served = running.serve(execution, bounds.output_cap).await;
    served.map_err(|unexplained| match &bounds.sandbox {
        Some(sandbox) => sandbox.explained(unexplained.failure, &unexplained.stderr),
        None => unexplained.failure,
    })
}

/// A process with its pipes.
struct Running {
    group: Group,
    stdin: Option<ChildStdin>,
    /// The output, until it has been read to its end.
    output: Option<(ChildStdout, ChildStderr)>,
    /// Its place among the processes that fit, until it has ended.
    _place: Place,
}

/// The reason why the output is no longer read.
enum End {
    Exited(io::Result<ExitStatus>),
    TooLarge,
    AtTerminal,
}

async fn start(invocation: &Invocation, folder: &Path, bounds: &Bounds, execution: &Execution) -> io::Result<Running> {
    // A process of an earlier attempt may still have its last moment.
    grace::settled(Some(&agent_of(execution))).await;
    let confined = match &bounds.sandbox {
        Some(sandbox) => sandbox.with_env(bounds.environment.names()).confine(invocation)?,
        None => Confined {
            invocation: invocation.clone(),
            temporary: None,
        },
    };
    let place = room::place().await;
    let mut command = command(&confined.invocation, folder, &bounds.environment, execution);
    let mut running = match execution.part {
        Some(_) => start_beside(command, bounds, execution, place).await?,
        None => {
            let child = group::spawn(&mut command, bounds.watchdog.as_deref()).await?;
            Running::new(child, bounds, execution, place)?
        }
    };
    if let Some(sandbox) = &bounds.sandbox {
        execution.ledger.add_sandbox(confine::enforced(&sandbox.rules));
    }
    running.group.keep(confined.temporary);
    Ok(running)
}

/// Starts a part on another thread: many parts start at the same time, and the start of a process takes long.
async fn start_beside(
    mut command: Command,
    bounds: &Bounds,
    execution: &Execution,
    place: Place,
) -> io::Result<Running> {
    if let Some(watchdog) = &bounds.watchdog {
        watchdog.ensure_started();
    }
    let starting = Starting::default();
    let (slot, of_thread) = (starting.0.clone(), bounds.clone());
    let (ledger, agent) = (execution.ledger.clone(), agent_of(execution));
    let busy = tokio::task::spawn_blocking(move || {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_dropped {
            return None;
        }
        match group::spawn_once(&mut command) {
            Err(error) if fault::is_busy(&error) || room::is_full(&error) => return Some((command, place)),
            spawned => {
                let running = spawned.and_then(|child| Running::of(child, &of_thread, &ledger, agent, place));
                slot.started = Some(running);
            }
        }
        None
    });
    if let Some((mut command, place)) = busy.await.map_err(io::Error::other)? {
        let child = group::spawn(&mut command, bounds.watchdog.as_deref()).await?;
        return Running::new(child, bounds, execution, place);
    }
    let started = starting.slot().started.take();
    started.unwrap_or_else(|| Err(io::Error::other("it was not started")))
}

/// A process that another thread starts. Dropping this waits for a start that is under way, and kills the process: later
/// the runtime may be gone, and with it the way to know the process.
#[derive(Default)]
struct Starting(Arc<Mutex<Slot>>);

#[derive(Default)]
struct Slot {
    is_dropped: bool,
    started: Option<io::Result<Running>>,
}

impl Starting {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let mut slot = self.slot();
        slot.is_dropped = true;
        slot.started = None;
    }
}

fn command(invocation: &Invocation, folder: &Path, environment: &Environment, execution: &Execution) -> Command {
    let mut command = Command::new(&invocation.program);
    environment.apply(&mut command);
    command
        .args(&invocation.arguments)
        .current_dir(folder)
        .env(RUN_ID, &*execution.run_id)
        .env("ENSEMBLE_AGENT_NAME", &*execution.agent_name)
        .env("ENSEMBLE_EXECUTION", execution.execution.to_string())
        .env("ENSEMBLE_ATTEMPT", execution.attempt.to_string())
        .env("ENSEMBLE_TURN", (execution.turn_count + 1).to_string())
        .envs(execution.part.as_ref().map(|part| ("ENSEMBLE_PART", &*part.key)))
        .envs(trace::current().map(|span| ("TRACEPARENT", span.to_string())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(span) = trace::current() {
        match span.state.is_empty() {
            true => command.env_remove("TRACESTATE"),
            false => command.env("TRACESTATE", &*span.state),
        };
    }
    group::lead(&mut command);
    command
}

impl Running {
    fn new(started: Started, bounds: &Bounds, execution: &Execution, place: Place) -> io::Result<Self> {
        Self::of(started, bounds, &execution.ledger, agent_of(execution), place)
    }

    fn of(
        mut started: Started,
        bounds: &Bounds,
        ledger: &AttemptLedger,
        agent: String,
        place: Place,
    ) -> io::Result<Self> {
        let child = &mut started.child;
        room::give_back_open_files(child.id());
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(Self {
                group: Group::of(started, bounds.watchdog.clone(), ledger, agent),
                stdin: Some(stdin),
                output: Some((stdout, stderr)),
                _place: place,
            }),
            _ => Err(io::Error::other("it has no pipes")),
        }
    }

    /// Serves the pipes until the child ends.
    async fn serve(mut self, execution: &Execution, output_cap: usize) -> Result<JsonMap, Unexplained> {
        let Self {
            group, stdin, output, ..
        } = &mut self;
        let (Some(stdin), Some((stdout, stderr))) = (stdin.take(), output) else {
            return Err(Unexplained::from(fault::without_pipes()));
        };
        let mut stdout_buffer = StdoutBuffer::new(output_cap);
        let mut stderr_tail = Tail::new(&execution.ledger);

        let pipes = async {
            tokio::join!(payload::write(stdin, execution), stderr_tail.follow(stderr));
            pending::<Infallible>().await
        };
        let at_terminal = group.stopped_at_terminal();
        let end = tokio::select! {
            status = group.end() => End::Exited(status),
            () = stdout_buffer.read_until_too_large(stdout) => End::TooLarge,
            () = at_terminal => End::AtTerminal,
            never = pipes => match never {},
        };
        let status = match end {
            End::Exited(status) => status,
            End::AtTerminal => {
                group.kill();
                let _killed = group.end().await;
                return Err(Unexplained::from(fault::stopped_at_terminal()));
            }
            End::TooLarge => {
                group.kill();
                group.end().await
            }
        };
        pipe::drain(stdout, |bytes| stdout_buffer.extend(bytes));
        pipe::drain(stderr, |bytes| stderr_tail.extend(bytes));
        let stderr = stderr_tail.text();
        result_of(status, &stdout_buffer, &stderr, execution).map_err(|failure| Unexplained {
            failure,
            stderr: stderr.to_string(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What a process says in its last moment must not end it.
        if let Some(output) = self.output.take() {
            self.group.hold(output);
        }
    }
}

/// The agent of a run, for processes that follow each other.
fn agent_of(execution: &Execution) -> String {
    format!("{}/{}", execution.run_id, execution.agent_name)
}

/// Waits until every process has ended that was told to end, and kills what has left its group. Called at the end of a
/// run, when nothing of it runs any more.
pub async fn settle() {
    grace::settled(None).await;
    strays::kill_strays().await;
}

/// A failure, with what a sandbox may explain it by.
struct Unexplained {
    failure: Failure,
    stderr: String,
}

impl From<Failure> for Unexplained {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            stderr: String::new(),
        }
    }
}

fn result_of(
    status: io::Result<ExitStatus>,
    stdout_buffer: &StdoutBuffer,
    stderr: &str,
    execution: &Execution,
) -> Result<JsonMap, Failure> {
    match status {
        _ if stdout_buffer.is_too_large() => Err(fault::too_large(stdout_buffer.cap)),
        Ok(status) if status.success() => output::from_bytes(&stdout_buffer.bytes, &execution.ledger),
        Ok(status) => Err(fault::ended(status, &stdout_buffer.bytes, stderr)),
        Err(error) => Err(Failure::new(
            FailureKind::Exit,
            format!("cannot learn how the script ended: {error}"),
        )),
    }
}

/// The stdout of the process so far.
struct StdoutBuffer {
    bytes: Vec<u8>,
    cap: usize,
}

impl StdoutBuffer {
    fn new(cap: usize) -> Self {
        Self { bytes: Vec::new(), cap }
    }

    fn is_too_large(&self) -> bool {
        self.bytes.len() > self.cap
    }

    /// Reads the stream and returns when the limit is exceeded. At the end of the stream it does not return.
    async fn read_until_too_large(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
        while !self.is_too_large() {
            self.bytes.reserve(self.bytes.len().clamp(4 * 1024, 64 * 1024));
            if let Ok(0) | Err(_) = stream.read_buf(&mut self.bytes).await {
                pending().await
            }
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if !self.is_too_large() {
            self.bytes.extend_from_slice(bytes);
        }
    }
}
