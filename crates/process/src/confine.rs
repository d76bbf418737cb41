//! Sandboxes of child processes.
//!
//! The rules are applied by a helper: the program starts itself again, and the helper restricts itself and then becomes
//! the command. So nothing has to run between `fork` and `exec`, and this process keeps its own rights.

mod helper;
#[cfg(target_os = "linux")]
mod landlock_rules;
mod refusal;
#[cfg(target_os = "linux")]
mod resource_meter;
mod sandbox_entry;
#[cfg(target_os = "linux")]
mod seccomp_calls;
#[cfg(target_os = "linux")]
mod seccomp_rules;
mod supervisor;
mod support;
mod temporary_folder;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::helper::run_sandbox_helper;
pub(super) use self::support::describe_enforced_rules;
pub use self::support::list_unenforced_rules;
pub(super) use self::temporary_folder::TemporaryFolder;
use super::ProgramInvocation;

/// Files and system resources that a process in a sandbox can use. All paths are absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SandboxRules {
    /// Files and folders that it may read.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may read and change.
    pub write: Vec<PathBuf>,
    /// What it reaches over the network.
    pub network: SandboxNetwork,
    /// Variables of the environment that it gets beside those that every program needs.
    pub env: Vec<String>,
    /// The highest number of bytes of memory.
    pub memory: Option<u64>,
    /// The highest number of seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// The highest number of processes at the same time.
    pub processes: u32,
    /// Whether it starts with less protection on a system that cannot enforce all of it.
    pub best_effort: bool,
}

/// Network addresses that a process in a sandbox can reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    /// No sockets.
    None,
    /// Outgoing TCP connections to these ports.
    Ports(Vec<u16>),
    /// All of it.
    All,
}

/// Sandbox of one command: its rules, and the helper program that applies them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessSandbox {
    /// The command that calls [`run_sandbox_helper`].
    pub helper: ProgramInvocation,
    /// What the process may reach.
    pub rules: SandboxRules,
    /// The folder in which the process runs.
    pub folder: PathBuf,
    /// The folder of the ensemble, from which its rules name paths.
    pub ensemble_folder: PathBuf,
}

/// Task of a sandbox helper, passed as an argument.
#[derive(Debug, Serialize, Deserialize)]
struct SandboxHelperTask {
    rules: SandboxRules,
    /// The process's own temporary folder.
    temporary: PathBuf,
}

/// Command that runs in a sandbox, with its temporary folder.
pub(super) struct SandboxedCommand {
    pub(super) invocation: ProgramInvocation,
    /// Removed with it.
    pub(super) temporary: Option<TemporaryFolder>,
}

impl ProcessSandbox {
    /// Allows the process to inherit these environment variables, too.
    pub(super) fn with_inherited_variables(&self, names: Vec<String>) -> Self {
        let mut sandbox = self.clone();
        sandbox.rules.env.extend(names);
        sandbox
    }

    /// Builds the command that starts `invocation` in this sandbox, and creates a temporary folder for it.
    ///
    /// # Errors
    /// Its temporary folder cannot be made.
    pub(super) fn build_sandboxed_command(&self, invocation: &ProgramInvocation) -> io::Result<SandboxedCommand> {
        if !cfg!(target_os = "linux") {
            // `missing` has said so, and `best_effort` has allowed it.
            return Ok(SandboxedCommand {
                invocation: invocation.clone(),
                temporary: None,
            });
        }
        let temporary = TemporaryFolder::new()?;
        let mut task = SandboxHelperTask {
            rules: self.rules.clone(),
            temporary: temporary.path().to_owned(),
        };
        let first = invocation.arguments.first().map(PathBuf::from);
        let program_paths = [Some(invocation.program.clone()), first].into_iter().flatten();
        // The program itself, or the script that an interpreter runs.
        task.rules.read.extend(
            program_paths
                .filter(|path| path.is_absolute())
                .filter_map(|path| resolve_file_links(&path)),
        );
        let mut arguments = self.helper.arguments.clone();
        arguments.push(helper::SUPERVISE_ARGUMENT.into());
        arguments.push(serde_json::to_string(&task)?.into());
        arguments.push(OsString::from(&invocation.program));
        arguments.extend(invocation.arguments.iter().cloned());
        Ok(SandboxedCommand {
            invocation: ProgramInvocation {
                program: self.helper.program.clone(),
                arguments,
            },
            temporary: Some(temporary),
        })
    }
}

/// Returns the path without links. Returns `None` if it is not a file.
fn resolve_file_links(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

/// Resolves the path of a rule: relative to the folder of the ensemble, or to the home folder after `~`.
pub fn resolve_rule_path(path: &str, folder: &Path, home: Option<&str>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => PathBuf::from(home),
        (Some(rest), Some(home)) if rest.starts_with('/') => Path::new(home).join(rest.trim_start_matches('/')),
        _ => folder.join(path),
    }
}
