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

use super::confine::{self, Sandbox};
use super::fault;
use super::group::{self, Group};
use super::{Environment, Invocation, RUN_ID, STDERR_KEPT, Watchdog};
use crate::room;
use ensemble_core::runner::AttemptLedger;

/// The time limit for a service to end after its stdin was closed.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit for the rest of stderr after the end of a service.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);

/// A child process and its stderr.
pub struct Service {
    group: Group,
    stderr: Stderr,
    /// Its sender exists as long as stderr is open.
    open: watch::Receiver<()>,
}

/// The end of the stderr that has not been taken yet; it grows while the service writes.
#[derive(Clone, Default)]
pub struct Stderr(Arc<Mutex<Vec<u8>>>);

/// The settings with which a service is started.
pub struct ServiceSettings<'a> {
    /// The working folder.
    pub folder: &'a Path,
    /// The environment.
    pub environment: &'a Environment,
    /// What the process may reach; `None`: all that the user may.
    pub sandbox: Option<&'a Sandbox>,
    /// The id of the run. It marks the process so that `resume` can find it.
    pub run_id: &'a str,
    /// The watchdog that kills the process if this process is killed.
    pub watchdog: Option<Arc<Watchdog>>,
    /// Receives the warning if the watchdog does not work.
    pub ledger: &'a AttemptLedger,
}

/// Starts the program and returns its stdin and stdout.
///
/// # Errors
/// The program cannot be started; the text is the reason.
pub async fn start(
    invocation: &Invocation,
    setting: ServiceSettings<'_>,
) -> Result<(Service, ChildStdin, ChildStdout), String> {
    let failed = |error: io::Error| fault::not_started(invocation, setting.folder, &error).error;
    let names = setting.environment.names();
    let confined = setting
        .sandbox
        .map(|sandbox| sandbox.with_env(names).confine(invocation));
    let (started, temporary) = match confined.transpose().map_err(failed)? {
        Some(confined) => (confined.invocation, confined.temporary),
        None => (invocation.clone(), None),
    };
    let mut command = Command::new(&started.program);
    setting.environment.apply(&mut command);
    command
        .args(&started.arguments)
        .current_dir(setting.folder)
        .env(RUN_ID, setting.run_id)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    group::lead(&mut command);
    let spawned = group::spawn(&mut command, setting.watchdog.as_deref()).await;
    let mut started = spawned.map_err(failed)?;
    let child = &mut started.child;
    room::give_back_open_files(child.id());
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut group = Group::of(started, setting.watchdog, setting.ledger, String::new());
    if let Some(sandbox) = setting.sandbox {
        setting.ledger.add_sandbox(confine::enforced(&sandbox.rules));
    }
    group.keep(temporary);
    let (Some(stdin), Some(stdout), Some(said)) = pipes else {
        return Err("it has no pipes".to_owned());
    };
    let stderr = Stderr::default();
    let (opened, open) = watch::channel(());
    let followed = stderr.clone();
    tokio::spawn(async move {
        followed.follow(said).await;
        drop(opened);
    });
    Ok((Service { group, stderr, open }, stdin, stdout))
}

impl Service {
    /// The stderr of the service.
    pub fn stderr(&self) -> &Stderr {
        &self.stderr
    }

    /// Waits a short time for the end of stderr, for a service that has ended or is about to end.
    pub async fn wait_for_stderr(&self) {
        let mut open = self.open.clone();
        let _closed_or_held_by_others = tokio::time::timeout(STDERR_TIMEOUT, open.changed()).await;
    }

    /// Waits a short time for the end of the service, and kills its process group. Its stdin must be closed before.
    pub async fn end(self) {
        self.end_within(END_TIMEOUT).await;
    }

    /// Waits this long for the end of the service, and kills its process group. Its stdin must be closed before.
    pub async fn end_within(mut self, limit: Duration) {
        let _killed_otherwise = tokio::time::timeout(limit, self.group.end()).await;
    }
}

impl Stderr {
    /// The output since the last call, or the end of that output if it is long.
    pub fn take(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.bytes())).into_owned()
    }

    /// The last lines, to quote in an error.
    pub fn last_lines(&self) -> String {
        fault::last_lines(&String::from_utf8_lossy(&self.bytes())).to_owned()
    }

    async fn follow(self, mut stream: ChildStderr) {
        let mut piece = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut piece).await {
            let mut bytes = self.bytes();
            bytes.extend_from_slice(&piece[..count]);
            if bytes.len() > 2 * STDERR_KEPT {
                let surplus = bytes.len() - STDERR_KEPT;
                bytes.drain(..surplus);
            }
        }
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
