//! External agents: programs that speak the Agent Client Protocol.

use super::{EnvOrHeaderValue, PermissionMode};

/// The external agent program of an agent with `acp`, and its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpAgent {
    /// The program.
    pub program: AcpProgram,
    /// The permissions by the kind of tool. A kind without an entry has [`AcpAgent::DEFAULT_PERMISSION`].
    pub permissions: Vec<(AcpToolKind, PermissionMode)>,
}

/// The program of an external agent: known by name, or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcpProgram {
    /// A program that is known by its name.
    Known(&'static KnownAcpProgram),
    /// Another program.
    Command {
        /// A program on PATH, or a file.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables in addition to those that every program needs.
        env: Vec<(String, EnvOrHeaderValue)>,
        /// The working folder, relative to the project root; `None`: the project root.
        cwd: Option<String>,
    },
}

/// An external agent program that is known by its name.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownAcpProgram {
    /// The name in a file.
    pub name: &'static str,
    /// The program.
    pub command: &'static str,
    /// Its arguments.
    pub args: &'static [&'static str],
    /// How it is installed.
    pub install: &'static str,
}

/// The name of the agent that is built in, for examples and tests.
pub const SIMULATED_ACP_NAME: &str = "simulated";

/// The programs that are known by their names. That of the built-in one is this program.
pub const ACP_PROGRAMS: [KnownAcpProgram; 6] = [
    KnownAcpProgram {
        name: "claude",
        command: "claude-agent-acp",
        args: &[],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    KnownAcpProgram {
        name: "codex",
        command: "codex-acp",
        args: &[],
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    KnownAcpProgram {
        name: "gemini",
        command: "gemini",
        args: &["--acp"],
        install: "npm install -g @google/gemini-cli",
    },
    KnownAcpProgram {
        name: "opencode",
        command: "opencode",
        args: &["acp"],
        install: "npm install -g opencode-ai",
    },
    KnownAcpProgram {
        name: "qwen",
        command: "qwen",
        args: &["--acp"],
        install: "npm install -g @qwen-code/qwen-code",
    },
    KnownAcpProgram {
        name: SIMULATED_ACP_NAME,
        command: "",
        args: &[],
        install: "",
    },
];

/// The kinds of tools that the protocol knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcpToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files or data.
    Delete,
    /// Moves or renames files.
    Move,
    /// Searches.
    Search,
    /// Runs commands or code.
    Execute,
    /// Thinks.
    Think,
    /// Gets data from elsewhere.
    Fetch,
    /// Changes the mode of the session.
    SwitchMode,
    /// Anything else.
    Other,
}

impl AcpToolKind {
    /// All kinds with their words.
    pub const ALL: [(&'static str, Self); 10] = [
        ("read", Self::Read),
        ("edit", Self::Edit),
        ("delete", Self::Delete),
        ("move", Self::Move),
        ("search", Self::Search),
        ("execute", Self::Execute),
        ("think", Self::Think),
        ("fetch", Self::Fetch),
        ("switch_mode", Self::SwitchMode),
        ("other", Self::Other),
    ];

    /// Returns the word of the kind in files.
    pub fn as_str(self) -> &'static str {
        let kind_entry = Self::ALL.iter().find(|(_, kind)| *kind == self);
        kind_entry.map_or("other", |(word, _)| word)
    }
}

impl AcpAgent {
    /// The permission of a kind that has no entry.
    pub const DEFAULT_PERMISSION: PermissionMode = PermissionMode::Ask;

    /// Returns the permission for tools of this kind.
    pub fn permission_for(&self, kind: AcpToolKind) -> PermissionMode {
        let permission_entry = self.permissions.iter().find(|(known, _)| *known == kind);
        permission_entry.map_or(Self::DEFAULT_PERMISSION, |(_, permission)| *permission)
    }

    /// Returns whether the program is the built-in simulated agent, which has no model.
    pub fn is_simulated(&self) -> bool {
        matches!(self.program, AcpProgram::Known(known) if known.name == SIMULATED_ACP_NAME)
    }
}

impl AcpProgram {
    /// Returns the known program with this name.
    pub fn find_known(name: &str) -> Option<Self> {
        ACP_PROGRAMS.iter().find(|known| known.name == name).map(Self::Known)
    }

    /// Returns the name or the command of the program, for messages.
    pub fn display_name(&self) -> &str {
        match self {
            Self::Known(known) => known.name,
            Self::Command { command, .. } => command,
        }
    }

    /// Returns the variables that the file adds to the environment of the program.
    pub fn declared_variables(&self) -> &[(String, EnvOrHeaderValue)] {
        match self {
            Self::Known(_) => &[],
            Self::Command { env, .. } => env,
        }
    }
}
