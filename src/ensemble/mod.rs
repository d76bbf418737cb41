//! The typed schema of an ensemble file, after it has been read and found sound.
//!
//! No places here: whoever must point into the text does so by [`Route`](crate::source::Route), which the
//! `route` methods spell. Defaults are written down once, beside the field they belong to.

mod agent;
mod limits;
mod profile;

pub use agent::{
    Agent, AgentKind, Backoff, Conversation, Declared, Dependency, Ending, InputSpec, Llm, Memory, ModelChoice,
    OnError, OnResume, Responses, Retry, Trigger,
};
pub use limits::Limits;
pub use profile::{Profile, Reply, Simulated};

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
    /// The input when the command line gives none.
    pub default_task: Option<String>,
}

impl Ensemble {
    /// The agent of that name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| *agent.name == *name)
    }
}
