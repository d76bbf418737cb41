//! A child process that is spoken to for longer than one execution: a server of tools.
//!
//! It is a group like any script's, known to the watchdog, and dies when this is dropped.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::fault;
use super::group::{self, Group};
use super::{Invocation, RUN_ID, STDERR_KEPT, Watchdog};
use crate::agent::Notes;

/// How long a service may take to end by itself once nobody speaks to it any more.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the rest of its stderr is waited for when it has ended.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);

/// A child process and what it says on stderr.
pub(in crate::agent) struct Service {
    group: Group,
    stderr: Stderr,
    /// Its sender is there for as long as stderr is open.
    open: watch::Receiver<()>,
}

/// The end of a stream that has not been passed on, kept while it grows.
#[derive(Clone, Default)]
pub(in crate::agent) struct Stderr(Arc<Mutex<Vec<u8>>>);

/// Where and for whom a service runs.
pub(in crate::agent) struct ServiceSettings<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// Variables beside our own.
    pub env: &'a [(String, String)],
    /// The run, by which it is found should it be left behind.
    pub run_id: &'a str,
    /// Who kills it should we be killed.
    pub watchdog: Option<Arc<Watchdog>>,
    /// Where a warning goes that nobody would.
    pub notes: &'a Notes,
}

/// Starts the program and gives the ends of its pipes that are ours.
///
/// # Errors
/// In words: why it cannot be started.
pub(in crate::agent) async fn start(
    invocation: &Invocation,
    setting: ServiceSettings<'_>,
) -> Result<(Service, ChildStdin, ChildStdout), String> {
    let mut command = Command::new(&invocation.program);
    command
        .args(&invocation.arguments)
        .current_dir(setting.folder)
        .envs(setting.env.iter().map(|(name, value)| (name, value)))
        .env(RUN_ID, setting.run_id)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    group::lead(&mut command);
    let failed = |error: io::Error| fault::not_started(invocation, setting.folder, &error).error;
    let spawned = group::spawn(&mut command, setting.watchdog.as_deref()).await;
    let mut child = spawned.map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = Group::of(child, setting.watchdog, setting.notes);
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
    /// What it says on stderr.
    pub(in crate::agent) fn stderr(&self) -> &Stderr {
        &self.stderr
    }

    /// Waits a moment for the end of stderr, of a service that has ended or is about to.
    pub(in crate::agent) async fn wait_for_stderr(&self) {
        let mut open = self.open.clone();
        let _closed_or_held_by_others = tokio::time::timeout(STDERR_TIMEOUT, open.changed()).await;
    }

    /// Waits a moment for its end, and kills what is left of it. Its stdin has to be closed before.
    pub(in crate::agent) async fn end(mut self) {
        let _killed_otherwise = tokio::time::timeout(END_TIMEOUT, self.group.end()).await;
    }
}

impl Stderr {
    /// What was said since this was last asked, or the end of it.
    pub(in crate::agent) fn take(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.bytes())).into_owned()
    }

    /// The last lines, for an error to quote.
    pub(in crate::agent) fn last_lines(&self) -> String {
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
