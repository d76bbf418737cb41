//! Child processes that live longer than one execution: tool servers.
//!
//! A service has its own process group, which the watchdog knows and which is killed when the service is dropped.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::confine::{self, ProcessSandbox};
use super::group::{self, ProcessGroup};
use super::process_failures;
use super::{ChildEnvironment, MAX_KEPT_STDERR, ProcessWatchdog, ProgramInvocation, RUN_ID_VARIABLE};
use crate::resource_room;
use ensemble_core::runner::AttemptLedger;

/// Time limit for the exit of a service after its stdin was closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for the rest of stderr after the exit of a service.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);

/// Child process that runs until it is closed, with its stderr.
pub struct ServiceProcess {
    group: ProcessGroup,
    stderr: ServiceStderr,
    /// Its sender exists as long as stderr is open.
    open: watch::Receiver<()>,
}

/// Unread end of the stderr of a service, which grows while the service writes.
#[derive(Clone, Default)]
pub struct ServiceStderr(Arc<Mutex<Vec<u8>>>);

/// Folder, environment, sandbox and watchdog of a service.
pub struct ServiceOptions<'a> {
    /// The working folder.
    pub folder: &'a Path,
    /// The environment.
    pub environment: &'a ChildEnvironment,
    /// What the process may reach; `None`: all that the user may.
    pub sandbox: Option<&'a ProcessSandbox>,
    /// The id of the run. It marks the process so that `resume` can find it.
    pub run_id: &'a str,
    /// The watchdog that kills the process if this process is killed.
    pub watchdog: Option<Arc<ProcessWatchdog>>,
    /// Receives the warning if the watchdog does not work.
    pub ledger: &'a AttemptLedger,
}

/// Starts the program and returns it with its stdin and stdout.
///
/// # Errors
/// The program cannot be started; the text is the reason.
pub async fn start_service(
    invocation: &ProgramInvocation,
    setting: ServiceOptions<'_>,
) -> Result<(ServiceProcess, ChildStdin, ChildStdout), String> {
    let failed = |error: io::Error| process_failures::start_failure(invocation, setting.folder, &error).error;
    let names = setting.environment.added_names();
    let confined = setting.sandbox.map(|sandbox| {
        sandbox
            .with_inherited_variables(names)
            .build_sandboxed_command(invocation)
    });
    let (started, temporary) = match confined.transpose().map_err(failed)? {
        Some(confined) => (confined.invocation, confined.temporary),
        None => (invocation.clone(), None),
    };
    let mut command = Command::new(&started.program);
    setting.environment.apply_to_command(&mut command);
    command
        .args(&started.arguments)
        .current_dir(setting.folder)
        .env(RUN_ID_VARIABLE, setting.run_id)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    group::make_group_leader(&mut command);
    let spawned = group::spawn_watched_with_retries(&mut command, setting.watchdog.as_deref()).await;
    let mut started = spawned.map_err(failed)?;
    let child = &mut started.child;
    resource_room::restore_child_file_limit(child.id());
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut group = ProcessGroup::from_child(started, setting.watchdog, setting.ledger, String::new());
    if let Some(sandbox) = setting.sandbox {
        setting
            .ledger
            .add_enforced_sandbox(confine::describe_enforced_rules(&sandbox.rules));
    }
    group.keep_folder_until_end(temporary);
    let (Some(stdin), Some(stdout), Some(stderr_pipe)) = pipes else {
        return Err("it has no pipes".to_owned());
    };
    let stderr = ServiceStderr::default();
    let (opened, open) = watch::channel(());
    let followed = stderr.clone();
    tokio::spawn(async move {
        followed.collect_stderr_end(stderr_pipe).await;
        drop(opened);
    });
    Ok((ServiceProcess { group, stderr, open }, stdin, stdout))
}

impl ServiceProcess {
    /// Returns the stderr of the service.
    pub fn stderr(&self) -> &ServiceStderr {
        &self.stderr
    }

    /// Waits a short time for the end of stderr, for a service that has exited or is about to exit.
    pub async fn wait_for_stderr(&self) {
        let mut open = self.open.clone();
        let _closed_or_held_by_others = tokio::time::timeout(STDERR_TIMEOUT, open.changed()).await;
    }

    /// Waits a short time for the exit of the service, and kills its process group. Its stdin must be closed before.
    pub async fn wait_then_kill(self) {
        self.wait_with_limit_then_kill(EXIT_TIMEOUT).await;
    }

    /// Waits at most this long for the exit of the service, and kills its process group. Its stdin must be closed before.
    pub async fn wait_with_limit_then_kill(mut self, limit: Duration) {
        let _killed_otherwise = tokio::time::timeout(limit, self.group.wait_and_kill_rest()).await;
    }
}

impl ServiceStderr {
    /// Takes the output since the last call, or only its end if it is long.
    pub fn take_new_stderr(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.lock_bytes())).into_owned()
    }

    /// Returns the last complete lines, to quote them in an error.
    pub fn last_complete_stderr_lines(&self) -> String {
        process_failures::last_complete_lines(&String::from_utf8_lossy(&self.lock_bytes())).to_owned()
    }

    /// Collects the end of the stream until it closes.
    async fn collect_stderr_end(self, mut stream: ChildStderr) {
        let mut piece = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut piece).await {
            let mut bytes = self.lock_bytes();
            bytes.extend_from_slice(&piece[..count]);
            if bytes.len() > 2 * MAX_KEPT_STDERR {
                let surplus = bytes.len() - MAX_KEPT_STDERR;
                bytes.drain(..surplus);
            }
        }
    }

    /// Locks the bytes, also after a panic in another thread.
    fn lock_bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
