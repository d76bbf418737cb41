//! One participant of a conversation and the edges on which it listens.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{ContextWindow, ToolUse};
use crate::data::JsonMap;
use crate::source::Route;

/// One agent of an ensemble.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Unique in the ensemble.
    pub name: Arc<str>,
    /// What it is for, in the author's words.
    pub description: Option<String>,
    /// What it is, with what only that kind has.
    pub kind: AgentKind,
    /// Free-form; scripts get it as `parameters`.
    pub config: JsonMap,
    /// `depends_on` first, then `dependencies`, in file order.
    pub dependencies: Vec<Dependency>,
    /// How it takes part in the conversation.
    pub conversation: Conversation,
    /// JSON Schema that its output must match.
    pub output_schema: Option<Value>,
    /// Wall clock of one attempt.
    pub timeout: Option<Duration>,
    /// Attempts of one execution.
    pub retry: Retry,
    /// Whether its failure makes the run fail.
    pub on_error: OnError,
}

/// The four kinds of agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentKind {
    /// A child process, or a Rhai script inside this one.
    Script {
        /// A path or a command line.
        script: String,
    },
    /// A language model.
    Llm(Llm),
    /// A person who is asked.
    Input(InputSpec),
    /// Another ensemble; its final state is this agent's output.
    Ensemble {
        /// A path or a name.
        ensemble: String,
    },
}

/// What an LLM agent has beyond other agents.
#[derive(Debug, Clone, PartialEq)]
pub struct Llm {
    /// Which model.
    pub model: ModelChoice,
    /// The task; a MiniJinja template.
    pub prompt: Option<String>,
    /// The role; a MiniJinja template.
    pub system_prompt: Option<String>,
    /// Does it remember its own earlier executions?
    pub memory: Memory,
    /// How much of its thread is sent; `None`: all of it.
    pub context_window: Option<ContextWindow>,
    /// What its model may call.
    pub tools: Vec<ToolUse>,
    /// Most requests of one execution while the model calls tools.
    pub max_iterations: NonZeroU32,
}

impl Llm {
    /// Requests of one execution where `max_iterations` is not given.
    pub const MAX_ITERATIONS: NonZeroU32 = NonZeroU32::new(10).expect("is not 0");
}

/// `model_profile: name` or `model: provider/model`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// A profile, by name.
    Profile(Arc<str>),
    /// A model without a profile.
    Model {
        /// Before the first slash.
        provider: Arc<str>,
        /// After it.
        model: Arc<str>,
    },
}

/// `conversation.memory`, for LLM agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// Earlier executions of the agent stay in its thread.
    #[default]
    Conversation,
    /// Every execution starts afresh.
    None,
}

/// What a person is asked, and who answers when nobody is there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputSpec {
    /// The question; a MiniJinja template like an LLM's prompt.
    pub prompt: String,
    /// The answers that are allowed; empty: any.
    pub choices: Vec<String>,
    /// The answer when time is up or nobody is there.
    pub default: Option<String>,
    /// How long the person may take.
    pub timeout: Option<Duration>,
    /// Who answers in the person's place.
    pub responses: Option<Responses>,
}

/// `input.responses`: answers without a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Responses {
    /// The n-th execution gets the n-th; the last repeats. Never empty.
    List(Vec<String>),
    /// A Rhai script whose last value is the answer; in scope what a Rhai agent has, and `prompt`.
    Script(String),
    /// A model answers as a user would; by profile name.
    Profile(Arc<str>),
}

/// One edge: this agent listens to that one, when …
#[derive(Debug, Clone, PartialEq)]
pub struct Dependency {
    /// The agent that is listened to.
    pub agent_name: Arc<str>,
    /// When; `None`: always.
    pub condition: Option<String>,
    /// How often news on this edge may start the agent; `None`: no extra limit.
    pub max_executions: Option<NonZeroU32>,
    /// In the group that must all hold (true), or in the group of which one must (false).
    pub requires_all: bool,
    /// Not needed before the agent's first execution.
    pub feedback: bool,
    /// Which end of the other's executions holds and is news.
    pub on: Ending,
    /// Where in the file it stands.
    pub declared: Declared,
}

/// Where a dependency was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// The n-th item of `depends_on`.
    DependsOn(usize),
    /// The n-th item of `dependencies`.
    Dependencies(usize),
}

/// `on`: which end of an execution an edge is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ending {
    /// It succeeded.
    #[default]
    Success,
    /// It failed.
    Failure,
    /// Either.
    Any,
}

/// `conversation`.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Cap on this agent's executions in the run.
    pub max_turns: NonZeroU32,
    /// Where its output is stored in the context; `None`: under its name.
    pub state_key: Option<Arc<str>>,
    /// May its output carry `agent_requests`?
    pub triggers_conversation: bool,
    /// What starts it again.
    pub trigger: Trigger,
    /// Does what it said still hold when the run goes on later?
    pub on_resume: OnResume,
}

impl Default for Conversation {
    /// ADR-005's default: one execution.
    fn default() -> Self {
        Self {
            max_turns: NonZeroU32::MIN,
            state_key: None,
            triggers_conversation: false,
            trigger: Trigger::News,
            on_resume: OnResume::Reuse,
        }
    }
}

/// `conversation.trigger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trigger {
    /// Only an output that it has not seen.
    #[default]
    News,
    /// Every turn in which its dependencies hold.
    EveryTurn,
}

/// `conversation.on_resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnResume {
    /// What it said stands.
    #[default]
    Reuse,
    /// What it said in the turn from which the run goes on is said again.
    Rerun,
}

/// `retry`.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub max_attempts: NonZeroU32,
    /// Pause before the second attempt.
    pub delay: Duration,
    /// How the pause grows.
    pub backoff: Backoff,
}

impl Default for Retry {
    /// One attempt; when more are asked for, one second before the second, doubling.
    fn default() -> Self {
        Self {
            max_attempts: NonZeroU32::MIN,
            delay: Duration::from_secs(1),
            backoff: Backoff::Exponential,
        }
    }
}

/// `retry.backoff`: how the pause between attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backoff {
    /// Always the same.
    Constant,
    /// Once, twice, three times the first pause.
    Linear,
    /// Doubling.
    #[default]
    Exponential,
}

/// `on_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// An unhandled failure makes the outcome `agent_failed`.
    #[default]
    Fail,
    /// It stays in the history and changes no outcome.
    Continue,
}

impl Agent {
    /// Under which key its output is stored in the context.
    pub fn state_key(&self) -> &Arc<str> {
        self.conversation.state_key.as_ref().unwrap_or(&self.name)
    }

    /// The glossary's word for its kind.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            AgentKind::Script { .. } => "script",
            AgentKind::Llm(_) => "llm",
            AgentKind::Input(_) => "input",
            AgentKind::Ensemble { .. } => "ensemble",
        }
    }

    /// Route of the agent that stands at `index` in `agents`.
    pub fn route(index: usize) -> Route {
        Route::root().key("agents").index(index)
    }
}

impl Dependency {
    /// Its route within the agent whose route is given.
    pub fn route(&self, agent: &Route) -> Route {
        match self.declared {
            Declared::DependsOn(at) => agent.key("depends_on").index(at),
            Declared::Dependencies(at) => agent.key("dependencies").index(at),
        }
    }
}

impl Ending {
    /// Does an execution that ended this way count?
    pub fn admits(self, success: bool) -> bool {
        match self {
            Self::Success => success,
            Self::Failure => !success,
            Self::Any => true,
        }
    }
}

impl Retry {
    /// The pause after attempt `attempt` (from 1) has failed; at most an hour.
    pub fn pause_after(&self, attempt: u32) -> Duration {
        let factor = match self.backoff {
            Backoff::Constant => 1,
            Backoff::Linear => attempt,
            Backoff::Exponential => 2_u32.saturating_pow(attempt.saturating_sub(1)),
        };
        self.delay.saturating_mul(factor).min(Duration::from_secs(3600))
    }
}
