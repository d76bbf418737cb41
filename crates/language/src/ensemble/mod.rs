//! The typed content of an ensemble file without errors.
//!
//! These types contain no positions. Code that must refer to the text uses a [`Route`](crate::source::Route), which the
//! `route` methods return. Each default is defined once, beside its field.
//!
//! Invariant: an `Ensemble` contains no positions, and every default is defined once, beside its field.

mod acp;
mod agent;
mod budget;
mod context_window;
mod failure_effect;
mod for_each;
mod input;
mod key_address;
mod limits;
mod profile;
mod program_variables;
mod provider;
mod sandbox;
mod tool;

pub use acp::{ACP_PROGRAMS, AcpAgent, AcpProgram, AcpToolKind, KnownAcpProgram, SIMULATED_ACP_NAME};
pub use agent::{
    Agent, AgentKind, AgentTrigger, ConversationSpec, Dependency, DependencyPosition, LlmSpec, MemoryMode, ModelChoice,
    OnError, OnResume, PreparedResponses, QuestionSpec, RequiredResult, RetryBackoff, RetryPolicy, WaitForOutputs,
};
pub use budget::BudgetStatus;
pub use context_window::{ContextWindow, WindowStrategy};
pub use failure_effect::FailureEffect;
pub use for_each::{ForEachItems, ForEachSpec, PartCombination, PartFailureMode, RequiredPartCount};
pub use input::InputDeclaration;
pub use key_address::{is_own_service_url, is_safe_for_keys, list_key_variables};
pub use limits::{BudgetScope, ConversationLimits, OnLimit};
pub use profile::{
    ConfiguredHeader, ModelProfile, RateLimit, SimulatedReply, SimulatedReplySource, SimulatedToolCall, TokenPrice,
};
pub use program_variables::{RIGHTS_VARIABLES, carries_rights, is_program_variable};
pub use provider::{HttpProvider, PROVIDERS, ProviderApi, SIMULATED_PROVIDER, list_provider_names};
pub use sandbox::{NetworkAccess, SandboxSpec};
pub use tool::{
    CLIENT_SERVER_WORD, CommandLine, EnvOrHeaderValue, McpServer, PermissionMode, ToolDefinition, ToolKind,
    ToolReference,
};

use std::sync::Arc;

use crate::condition::ConditionText;

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
    pub limits: ConversationLimits,
    /// The profiles in the file, in file order.
    pub model_profiles: Vec<(Arc<str>, ModelProfile)>,
    /// The tools that models may call, in file order.
    pub tools: Vec<(Arc<str>, ToolDefinition)>,
    /// The input if the command line contains none.
    pub default_task: Option<String>,
    /// What a run gives; `None`: its final state.
    pub result: Option<ResultSpec>,
    /// What must be true of the last state for exit code 0; `None`: nothing.
    pub success: Option<ConditionText>,
    /// What a run takes by name, in file order; `None`: anything, into the context.
    pub inputs: Option<Vec<InputDeclaration>>,
}

/// The result of a run (`result`): the output of an agent, or a map of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultSpec {
    /// The latest output of this agent.
    Agent(Arc<str>),
    /// A map: keys, and expressions over the last state.
    Map(Vec<(Arc<str>, String)>),
}

impl Ensemble {
    /// Returns the agent with this name.
    pub fn find_agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| *agent.name == *name)
    }

    /// Returns the declared input with this name.
    pub fn find_input(&self, name: &str) -> Option<&InputDeclaration> {
        self.inputs.iter().flatten().find(|input| *input.name == *name)
    }

    /// Returns the models that an execution of the agent may use, and those that summarize the results of its tools.
    pub fn list_agent_models(&self, agent: &Agent) -> Vec<ModelChoice> {
        let mut models = agent.kind.list_models();
        if let AgentKind::Llm(llm) = &agent.kind
            && llm.acp_agent().is_none()
        {
            let tools = llm.tools.iter().filter_map(|used| self.find_tool(&used.tool));
            let profiles = tools
                .filter(|tool| tool.permission != PermissionMode::Deny)
                .filter_map(ToolDefinition::summary_profile);
            models.extend(profiles.cloned().map(ModelChoice::Profile));
        }
        models
    }

    /// Returns the tool with this name.
    pub fn find_tool(&self, name: &str) -> Option<&ToolDefinition> {
        let entry = self.tools.iter().find(|(known, _)| **known == *name);
        entry.map(|(_, tool)| tool)
    }

    /// Returns whether a model of the ensemble can call the tool with this name.
    pub fn can_call_tool(&self, name: &str) -> bool {
        let names_tool = |agent: &Agent| match &agent.kind {
            AgentKind::Llm(llm) => llm.tools.iter().any(|used| *used.tool == *name),
            _ => false,
        };
        let is_denied = |tool: &ToolDefinition| tool.permission == PermissionMode::Deny;
        !self.find_tool(name).is_some_and(is_denied) && self.agents.iter().any(names_tool)
    }

    /// Returns the tools that are performed by agents of this ensemble: the name of each tool and of its agent.
    pub fn list_agent_tools(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.tools.iter().filter_map(|(name, tool)| match &tool.kind {
            ToolKind::Agent { agent, .. } => Some((name, agent)),
            _ => None,
        })
    }
}
