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
//! Invariant: dropping the future of [`run_program`] leaves no process behind.

#![expect(
    clippy::disallowed_methods,
    reason = "this module starts programs and finds those that were left running"
)]

pub mod confine;
mod environment;
mod group;
mod group_termination;
mod leftovers;
mod members;
pub mod output;
mod payload;
mod pipe;
mod process_failures;
pub mod program;
pub mod resource_room;
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

use self::confine::{ProcessSandbox, SandboxedCommand};
pub use self::environment::{ChildEnvironment, is_minimal_variable};
use self::group::{ProcessGroup, StartedChild};
pub use self::leftovers::kill_processes_of_run;
pub use self::strays::become_orphan_collector;
pub use self::tail::MAX_FOLDED_RUNS as MAX_KEPT_STDERR;
use self::tail::StreamTail;
pub use self::watchdog::{ProcessWatchdog, run_watchdog};
use crate::resource_room::ResourcePermitGuard;
use ensemble_core::runner::{AttemptEnd, AttemptLedger, AttemptResult, ExecutionInput};
use ensemble_core::trace;
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, KEPT_STREAM_BYTES, kept_stream_end};

#[cfg(not(unix))]
compile_error!("scripts need process groups, which only Unix has");

/// Default limit for the stdout of a script, in bytes.
pub const DEFAULT_OUTPUT_CAP: usize = 10 * 1024 * 1024;

/// The environment variable that marks the processes of a run.
pub const RUN_ID_VARIABLE: &str = "ENSEMBLE_RUN_ID";

// The other variables that describe an execution to its process. A sandbox passes them on.
const AGENT_NAME_VARIABLE: &str = "ENSEMBLE_AGENT_NAME";
const EXECUTION_VARIABLE: &str = "ENSEMBLE_EXECUTION";
const ATTEMPT_VARIABLE: &str = "ENSEMBLE_ATTEMPT";
const TURN_VARIABLE: &str = "ENSEMBLE_TURN";
const PART_VARIABLE: &str = "ENSEMBLE_PART";

/// Program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgramInvocation {
    /// A path, or a name that is searched on PATH.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
}

/// Output limit, environment, sandbox and watchdog of every child process of a run.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// The limit for stdout, in bytes.
    pub output_cap: usize,
    /// The watchdog that kills the process if the run is killed; `None`: the process continues to run.
    pub watchdog: Option<Arc<ProcessWatchdog>>,
    /// The environment of the process.
    pub environment: ChildEnvironment,
    /// What the process may reach; `None`: all that the user may.
    pub sandbox: Option<Arc<ProcessSandbox>>,
}

/// Runs the program in `folder` and parses its stdout as output. The JSON object of the execution is its stdin.
///
/// Dropping the future kills the program and its whole process group.
///
/// Dropping the future kills the program and all of its process group at once.
pub async fn run_program(
    invocation: &ProgramInvocation,
    folder: &Path,
    bounds: &ProcessSettings,
    execution: &ExecutionInput,
) -> AttemptEnd {
    run_program_with_stdin(invocation, folder, bounds, execution, None).await
}

/// Runs the program like [`run_program`], with `stdin` instead of the JSON object.
pub async fn run_program_with_stdin(
    invocation: &ProgramInvocation,
    folder: &Path,
    bounds: &ProcessSettings,
    execution: &ExecutionInput,
    stdin: Option<&str>,
) -> AttemptEnd {
    let observed = AttemptEnd::Finished(AttemptResult {
        parts: Vec::new(),
        nested_answers: Vec::new(),
        answer: None,
        result: run_and_explain_failure(invocation, folder, bounds, execution, stdin).await,
        usage: None,
        exchange: Vec::new(),
    });
    bounds.environment.redact_outcome(observed)
}

/// Runs the program and returns its output. Explains a failure by the sandbox if possible.
async fn run_and_explain_failure(
    invocation: &ProgramInvocation,
    folder: &Path,
    bounds: &ProcessSettings,
    execution: &ExecutionInput,
    stdin: Option<&str>,
) -> Result<JsonMap, ExecutionFailure> {
    let started = start_confined_process(invocation, folder, bounds, execution).await;
    let running = started.map_err(|error| process_failures::start_failure(invocation, folder, &error))?;
    let served = running.serve_pipes_until_exit(execution, stdin, bounds).await;
    served.map_err(|unexplained| match &bounds.sandbox {
        Some(sandbox) => sandbox.explain_sandbox_refusal(unexplained.failure, &unexplained.stderr),
        None => unexplained.failure,
    })
}

/// Running process with its pipes.
struct RunningProcess {
    group: ProcessGroup,
    stdin: Option<ChildStdin>,
    /// The output, until it has been read to its end.
    output: Option<(ChildStdout, ChildStderr)>,
    /// Its place among the processes that fit, until it has ended.
    _place: ResourcePermitGuard,
}

/// The reason why the output is no longer read.
enum OutputStopReason {
    Exited(io::Result<ExitStatus>),
    TooLarge,
    StoppedAtTerminal,
}

async fn start_confined_process(
    invocation: &ProgramInvocation,
    folder: &Path,
    bounds: &ProcessSettings,
    execution: &ExecutionInput,
) -> io::Result<RunningProcess> {
    // A process of an earlier attempt may still have its last moment.
    group_termination::wait_for_terminations(Some(&agent_key_with_run(execution))).await;
    let confined = match &bounds.sandbox {
        Some(sandbox) => sandbox
            .with_inherited_variables(bounds.environment.added_names())
            .build_sandboxed_command(invocation)?,
        None => SandboxedCommand {
            invocation: invocation.clone(),
            temporary: None,
        },
    };
    let place = resource_room::wait_for_process_permit().await;
    let mut command = build_command(&confined.invocation, folder, &bounds.environment, execution);
    let mut running = match execution.part {
        Some(_) => start_command_on_blocking_thread(command, bounds, execution, place).await?,
        None => {
            let child = group::spawn_watched_with_retries(&mut command, bounds.watchdog.as_deref()).await?;
            RunningProcess::new(child, bounds, execution, place)?
        }
    };
    if let Some(sandbox) = &bounds.sandbox {
        execution
            .ledger
            .add_enforced_sandbox(confine::describe_enforced_rules(&sandbox.rules));
    }
    running.group.keep_folder_until_end(confined.temporary);
    Ok(running)
}

/// Starts a part on another thread: many parts start at the same time, and the start of a process takes long.
async fn start_command_on_blocking_thread(
    mut command: Command,
    bounds: &ProcessSettings,
    execution: &ExecutionInput,
    place: ResourcePermitGuard,
) -> io::Result<RunningProcess> {
    if let Some(watchdog) = &bounds.watchdog {
        watchdog.ensure_started();
    }
    let starting = StartingProcessGuard::default();
    let (slot, of_thread) = (starting.0.clone(), bounds.clone());
    let (ledger, agent) = (execution.ledger.clone(), agent_key_with_run(execution));
    let busy = tokio::task::spawn_blocking(move || {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_dropped {
            return None;
        }
        match group::spawn_marked_process(&mut command) {
            Err(error)
                if process_failures::is_open_for_writing(&error) || resource_room::is_out_of_resources(&error) =>
            {
                return Some((command, place));
            }
            spawned => {
                let running =
                    spawned.and_then(|child| RunningProcess::from_child(child, &of_thread, &ledger, agent, place));
                slot.result = Some(running);
            }
        }
        None
    });
    if let Some((mut command, place)) = busy.await.map_err(io::Error::other)? {
        let child = group::spawn_watched_with_retries(&mut command, bounds.watchdog.as_deref()).await?;
        return RunningProcess::new(child, bounds, execution, place);
    }
    let started = starting.lock_slot().result.take();
    started.unwrap_or_else(|| Err(io::Error::other("it was not started")))
}

/// Guard of a process that another thread starts. Dropping it waits for a start in progress, and kills the process.
#[derive(Default)]
struct StartingProcessGuard(Arc<Mutex<ProcessStartSlot>>);

/// Result of a start on another thread, and whether the guard was dropped.
#[derive(Default)]
struct ProcessStartSlot {
    is_dropped: bool,
    result: Option<io::Result<RunningProcess>>,
}

impl StartingProcessGuard {
    fn lock_slot(&self) -> MutexGuard<'_, ProcessStartSlot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StartingProcessGuard {
    fn drop(&mut self) {
        let mut slot = self.lock_slot();
        slot.is_dropped = true;
        slot.result = None;
    }
}

/// Builds the command with its environment, pipes and process group.
fn build_command(
    invocation: &ProgramInvocation,
    folder: &Path,
    environment: &ChildEnvironment,
    execution: &ExecutionInput,
) -> Command {
    let mut command = Command::new(&invocation.program);
    environment.apply_to_command(&mut command);
    command
        .args(&invocation.arguments)
        .current_dir(folder)
        .env(RUN_ID_VARIABLE, &*execution.run_id)
        .env(AGENT_NAME_VARIABLE, &*execution.agent_name)
        .env(EXECUTION_VARIABLE, execution.execution.to_string())
        .env(ATTEMPT_VARIABLE, execution.attempt.to_string())
        .env(TURN_VARIABLE, (execution.turn_count + 1).to_string())
        .envs(execution.part.as_ref().map(|part| (PART_VARIABLE, &*part.key)))
        .envs(trace::current_task_span().map(|span| ("TRACEPARENT", span.to_string())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(span) = trace::current_task_span() {
        match span.state.is_empty() {
            true => command.env_remove("TRACESTATE"),
            false => command.env("TRACESTATE", &*span.state),
        };
    }
    group::make_group_leader(&mut command);
    command
}

impl RunningProcess {
    /// Takes the pipes of the started child and creates its process group.
    fn new(
        started: StartedChild,
        bounds: &ProcessSettings,
        execution: &ExecutionInput,
        place: ResourcePermitGuard,
    ) -> io::Result<Self> {
        Self::from_child(started, bounds, &execution.ledger, agent_key_with_run(execution), place)
    }

    /// Takes the pipes of the started child and creates its process group for this agent key.
    fn from_child(
        mut started: StartedChild,
        bounds: &ProcessSettings,
        ledger: &AttemptLedger,
        agent: String,
        place: ResourcePermitGuard,
    ) -> io::Result<Self> {
        let child = &mut started.child;
        resource_room::restore_child_file_limit(child.id());
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(Self {
                group: ProcessGroup::from_child(started, bounds.watchdog.clone(), ledger, agent),
                stdin: Some(stdin),
                output: Some((stdout, stderr)),
                _place: place,
            }),
            _ => Err(io::Error::other("it has no pipes")),
        }
    }

    /// Serves the pipes until the child ends.
    async fn serve_pipes_until_exit(
        mut self,
        execution: &ExecutionInput,
        stdin_text: Option<&str>,
        bounds: &ProcessSettings,
    ) -> Result<JsonMap, UnexplainedFailure> {
        let Self {
            group, stdin, output, ..
        } = &mut self;
        let (Some(stdin), Some((stdout, stderr))) = (stdin.take(), output) else {
            return Err(UnexplainedFailure::from(process_failures::missing_pipes_failure()));
        };
        let mut stdout_buffer = StdoutBuffer::new(bounds.output_cap, &execution.ledger);
        let mut stderr_tail = StreamTail::new(&execution.ledger);

        let pipes = async {
            tokio::join!(
                payload::write_stdin_and_close(stdin, stdin_text, execution),
                stderr_tail.read_to_end(stderr)
            );
            pending::<Infallible>().await
        };
        let at_terminal = group.wait_for_terminal_stop();
        let end = tokio::select! {
            status = group.wait_and_kill_rest() => OutputStopReason::Exited(status),
            () = stdout_buffer.read_until_too_large(stdout) => OutputStopReason::TooLarge,
            () = at_terminal => OutputStopReason::StoppedAtTerminal,
            never = pipes => match never {},
        };
        let status = match end {
            OutputStopReason::Exited(status) => status,
            OutputStopReason::StoppedAtTerminal => {
                group.kill_once();
                let _killed = group.wait_and_kill_rest().await;
                return Err(UnexplainedFailure::from(process_failures::terminal_stop_failure()));
            }
            OutputStopReason::TooLarge => {
                group.kill_once();
                group.wait_and_kill_rest().await
            }
        };
        pipe::drain_pipe(stdout, |bytes| stdout_buffer.extend_to_limit(bytes));
        pipe::drain_pipe(stderr, |bytes| stderr_tail.append_and_publish(bytes));
        let stderr = stderr_tail.tail_text();
        let exit_code = status.as_ref().ok().and_then(ExitStatus::code);
        execution.ledger.set_exit_code(exit_code);
        exit_to_output_or_failure(status, &stdout_buffer, &stderr, execution).map_err(|failure| {
            let stdout = bounds.environment.redact_fragment(&stdout_buffer.tail_text());
            let quoted = bounds.environment.redact_fragment(&stderr);
            UnexplainedFailure {
                failure: failure.with_process_output(exit_code, &stdout, &quoted),
                stderr,
            }
        })
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // What a process says in its last moment must not end it.
        if let Some(output) = self.output.take() {
            self.group.keep_until_end(output);
        }
    }
}

/// Returns the agent of a run, for processes that follow each other.
fn agent_key_with_run(execution: &ExecutionInput) -> String {
    format!("{}/{}", execution.run_id, execution.agent_name)
}

/// Waits until every process has ended that was told to end, and kills what has left its group. Called at the end of a
/// run, when nothing of it runs any more.
pub async fn wait_and_kill_strays() {
    group_termination::wait_for_terminations(None).await;
    strays::kill_strays_and_wait().await;
}

/// Failure with the stderr from which a sandbox can explain it.
struct UnexplainedFailure {
    failure: ExecutionFailure,
    stderr: String,
}

impl From<ExecutionFailure> for UnexplainedFailure {
    fn from(failure: ExecutionFailure) -> Self {
        Self {
            failure,
            stderr: String::new(),
        }
    }
}

/// Converts the exit status and stdout to an output or a failure.
fn exit_to_output_or_failure(
    status: io::Result<ExitStatus>,
    stdout_buffer: &StdoutBuffer<'_>,
    stderr: &str,
    execution: &ExecutionInput,
) -> Result<JsonMap, ExecutionFailure> {
    match status {
        _ if stdout_buffer.is_too_large() => Err(process_failures::output_limit_failure(stdout_buffer.cap)),
        Ok(status) if status.success() => output::output_from_bytes(&stdout_buffer.bytes, &execution.ledger),
        Ok(status) => Err(process_failures::exit_failure(status, &stdout_buffer.bytes, stderr)),
        Err(error) => Err(ExecutionFailure::new(
            FailureKind::Exit,
            format!("cannot get the exit status of the script: {error}"),
        )),
    }
}

/// Collected stdout of a process, up to a limit. Dropping it publishes the end of stdout to the ledger.
struct StdoutBuffer<'a> {
    bytes: Vec<u8>,
    cap: usize,
    ledger: &'a AttemptLedger,
}

impl Drop for StdoutBuffer<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.ledger.set_stdout(kept_stream_end(&self.tail_text()).to_owned());
        }
    }
}

impl<'a> StdoutBuffer<'a> {
    /// Creates an empty buffer with this limit in bytes.
    fn new(cap: usize, ledger: &'a AttemptLedger) -> Self {
        Self {
            bytes: Vec::new(),
            cap,
            ledger,
        }
    }

    /// Returns more than the end that a failure keeps.
    fn tail_text(&self) -> String {
        let mut end = &self.bytes[self.bytes.len().saturating_sub(4 * KEPT_STREAM_BYTES)..];
        if end.len() < self.bytes.len() {
            while let [0x80..=0xbf, rest @ ..] = end {
                end = rest;
            }
        }
        String::from_utf8_lossy(end).into_owned()
    }

    /// Returns whether stdout has exceeded the limit.
    fn is_too_large(&self) -> bool {
        self.bytes.len() > self.cap
    }

    /// Reads the stream and returns when the limit is exceeded. Never returns if the stream ends before.
    async fn read_until_too_large(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
        while !self.is_too_large() {
            self.bytes.reserve(self.bytes.len().clamp(4 * 1024, 64 * 1024));
            if let Ok(0) | Err(_) = stream.read_buf(&mut self.bytes).await {
                pending().await
            }
        }
    }

    fn extend_to_limit(&mut self, bytes: &[u8]) {
        if !self.is_too_large() {
            self.bytes.extend_from_slice(bytes);
        }
    }
}
