//! The typed content of an ensemble file without errors.
//!
//! These types contain no positions. Code that must refer to the text uses a [`Route`](crate::source::Route), which the
//! `route` methods return. Each default is defined once, beside its field.
//!
//! Invariant: an `Ensemble` contains no positions, and every default is defined once, beside its field.

mod acp;
mod address;
mod agent;
mod context_window;
mod for_each;
mod input;
mod limits;
mod profile;
mod provider;
mod sandbox;
mod tool;

pub use acp::{ACP_PROGRAMS, Acp, AcpProgram, AcpToolKind, KnownAcpProgram, SIMULATED_ACP};
pub use address::{is_own_address, is_private, key_variables};
pub use agent::{
    Agent, AgentKind, Backoff, Conversation, Declared, Dependency, Ending, InputSpec, Llm, Memory, ModelChoice,
    OnError, OnResume, Responses, Retry, Trigger, WaitFor,
};
pub use context_window::{ContextWindow, Strategy};
pub use for_each::{AtLeast, Combine, ForEach, Items, PartFailure};
pub use input::Input;
pub use limits::Limits;
pub use profile::{CalledTool, HeaderText, Price, Profile, RateLimit, Reply, Simulated};
pub use provider::{Dialect, PROVIDERS, Provider, SIMULATED, provider_names};
pub use sandbox::{NetworkAccess, Sandbox};
pub use tool::{CLIENT_SERVER, CommandLine, McpServer, Permission, Setting, Tool, ToolKind, ToolUse};

use std::sync::Arc;

/// An ensemble file: agents, their dependencies, and limits.
#[derive(Debug, Clone)]
pub struct Ensemble {
    /// The name: `[A-Za-z0-9][A-Za-z0-9_.-]*`.
    pub name: Arc<str>,
    /// The description by the author.
    pub description: Option<String>,
    /// The agents: at least one; names are unique.
    pub agents: Vec<Agent>,
    /// The limits of the conversation.
    pub limits: Limits,
    /// The profiles in the file, in file order.
    pub model_profiles: Vec<(Arc<str>, Profile)>,
    /// The tools that models may call, in file order.
    pub tools: Vec<(Arc<str>, Tool)>,
    /// The input if the command line contains none.
    pub default_task: Option<String>,
    /// What a run gives; `None`: its final state.
    pub result: Option<ResultSpec>,
    /// What a run takes by name, in file order; `None`: anything, into the context.
    pub inputs: Option<Vec<Input>>,
}

/// `result`: what a run gives.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultSpec {
    /// The latest output of this agent.
    Agent(Arc<str>),
    /// A map: keys, and expressions over the last state.
    Map(Vec<(Arc<str>, String)>),
}

impl Ensemble {
    /// The agent with this name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| *agent.name == *name)
    }

    /// The input with this name, if a run takes it.
    pub fn input(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().flatten().find(|input| *input.name == *name)
    }

    /// The tool with this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        let found = self.tools.iter().find(|(known, _)| **known == *name);
        found.map(|(_, tool)| tool)
    }

    /// The tools that agents of this ensemble perform: the name of each tool and of its agent.
    pub fn agent_tools(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.tools.iter().filter_map(|(name, tool)| match &tool.kind {
            ToolKind::Agent { agent, .. } => Some((name, agent)),
            _ => None,
        })
    }
}
