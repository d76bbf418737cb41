//! The typed schema of an ensemble file, after it has been read and found sound.
//!
//! No places here: whoever must point into the text does so by [`Route`](crate::source::Route), which the
//! `route` methods spell. Defaults are written down once, beside the field they belong to.

mod agent;
mod compare;
mod context_window;
mod limits;
mod profile;
mod provider;
mod tool;

pub use agent::{
    Agent, AgentKind, Backoff, Conversation, Declared, Dependency, Ending, InputSpec, Llm, Memory, ModelChoice,
    OnError, OnResume, Responses, Retry, Trigger,
};
pub use context_window::{ContextWindow, Strategy};
pub use limits::Limits;
pub use profile::{CalledTool, HeaderText, Price, Profile, Reply, Simulated};
pub use provider::{Dialect, PROVIDERS, Provider, SIMULATED, provider_names};
pub use tool::{CommandLine, McpServer, Permission, Setting, Tool, ToolKind, ToolUse};

use std::sync::Arc;

/// One ensemble file: agents, who listens to whom, and limits.
#[derive(Debug, Clone)]
pub struct Ensemble {
    /// Name, `[A-Za-z0-9][A-Za-z0-9_.-]*`.
    pub name: Arc<str>,
    /// What it is for, in the author's words.
    pub description: Option<String>,
    /// At least one; names are unique.
    pub agents: Vec<Agent>,
    /// What ends the conversation.
    pub limits: Limits,
    /// Profiles written in the file itself, in file order.
    pub model_profiles: Vec<(Arc<str>, Profile)>,
    /// What models may call, in file order.
    pub tools: Vec<(Arc<str>, Tool)>,
    /// The input when the command line gives none.
    pub default_task: Option<String>,
}

impl Ensemble {
    /// The agent of that name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| *agent.name == *name)
    }
    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        let found = self.tools.iter().find(|(known, _)| **known == *name);
        found.map(|(_, tool)| tool)
    }

    /// The tools that are performed by agents of this ensemble: each with its name and the agent's.
    pub fn agent_tools(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.tools.iter().filter_map(|(name, tool)| match &tool.kind {
            ToolKind::Agent { agent, .. } => Some((name, agent)),
            _ => None,
        })
    }
}
