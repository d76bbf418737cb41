//! `sandbox`: what a child process may reach.

/// The files and system resources that a child process can use (`sandbox`). By default only those that every program needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SandboxSpec {
    /// Readable paths, in addition to those that every program needs and the folder of the ensemble.
    pub read: Vec<String>,
    /// Readable and writable paths, in addition to the temporary folder of the process.
    pub write: Vec<String>,
    /// What it reaches over the network.
    pub network: NetworkAccess,
    /// Environment variables, in addition to those that every program needs.
    pub env: Vec<String>,
    /// The highest number of bytes of memory; `None`: no limit.
    pub memory: Option<u64>,
    /// The highest number of seconds of processor time; `None`: no limit.
    pub cpu_seconds: Option<u64>,
    /// The highest number of processes at the same time.
    pub processes: u32,
    /// Whether it starts with less protection on a system that cannot enforce all of it.
    pub best_effort: bool,
}

/// The network access of a sandboxed process (`sandbox.network`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum NetworkAccess {
    /// No sockets.
    #[default]
    None,
    /// Outgoing TCP connections to these ports.
    Ports(Vec<u16>),
    /// All of it.
    All,
}

impl SandboxSpec {
    /// The default of `processes`.
    pub const DEFAULT_PROCESSES: u32 = 128;
}

impl Default for SandboxSpec {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            write: Vec::new(),
            network: NetworkAccess::None,
            env: Vec::new(),
            memory: None,
            cpu_seconds: None,
            processes: Self::DEFAULT_PROCESSES,
            best_effort: false,
        }
    }
}
