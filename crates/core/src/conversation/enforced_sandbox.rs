//! What was enforced for the processes of an execution.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Sandbox of a process, with the restrictions that the system enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcedSandbox {
    /// The version of Landlock whose rules were applied; 0: none.
    pub landlock: u8,
    /// Whether system calls were filtered.
    pub seccomp: bool,
    /// `none`, `all` or `tcp` with ports.
    pub network: String,
    /// The limit of memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The limit of processor time, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// The limit of processes.
    pub processes: u32,
    /// With `best_effort`: what this system could not enforce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl fmt::Display for EnforcedSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.landlock {
            0 => f.write_str("no Landlock")?,
            version => write!(f, "Landlock {version}")?,
        }
        f.write_str(if self.seccomp { ", seccomp" } else { ", no seccomp" })?;
        write!(f, ", network: {}", self.network)?;
        if let Some(bytes) = self.memory {
            write!(f, ", memory: {bytes} bytes")?;
        }
        if let Some(seconds) = self.cpu_seconds {
            write!(f, ", cpu_seconds: {seconds}")?;
        }
        write!(f, ", processes: {}", self.processes)?;
        if !self.missing.is_empty() {
            write!(f, "; not enforced: {}", self.missing.join(", "))?;
        }
        Ok(())
    }
}
