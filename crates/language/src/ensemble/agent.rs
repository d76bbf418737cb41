//! An agent of an ensemble, and its dependencies.

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AcpAgent, ContextWindow, EnvOrHeaderValue, ForEachSpec, SandboxSpec, ToolReference, WindowStrategy};
use crate::condition::ConditionText;
use crate::data::JsonMap;
use crate::source::{Route, RouteStep};

/// An agent of an ensemble.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The name, unique in the ensemble.
    pub name: Arc<str>,
    /// The description by the author.
    pub description: Option<String>,
    /// The kind of agent, with the data that only this kind has.
    pub kind: AgentKind,
    /// Free-form data; scripts receive it as `parameters`.
    pub config: JsonMap,
    /// `depends_on` first, then `dependencies`, in file order.
    pub dependencies: Vec<Dependency>,
    /// The agent runs once for each item of a list; `None`: once.
    pub for_each: Option<ForEachSpec>,
    /// The settings for the conversation.
    pub conversation: ConversationSpec,
    /// JSON Schema that its output must match.
    pub output_schema: Option<Value>,
    /// The time limit of one attempt.
    pub timeout: Option<Duration>,
    /// The number of attempts of one execution, and the pauses.
    pub retry: RetryPolicy,
    /// Whether a failure of the agent makes the run fail.
    pub on_error: OnError,
    /// Whether the agent must have succeeded at least once when the run ends.
    pub required: bool,
    /// Scripts: what its process may reach; `None`: all that the user may.
    pub sandbox: Option<Arc<SandboxSpec>>,
}

/// The kinds of agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentKind {
    /// A child process, or a Rhai script inside this one.
    Script {
        /// A path or a command line.
        script: String,
        /// Further arguments of its process, as templates; each is one argument.
        args: Vec<String>,
        /// The text that its process reads instead of the JSON object, as a template.
        stdin: Option<String>,
        /// Environment variables in addition to those of the user.
        env: Vec<(String, EnvOrHeaderValue)>,
    },
    /// A language model, or an external program with its own model.
    Llm(LlmSpec),
    /// A person who answers a question.
    Input(QuestionSpec),
    /// Another ensemble; its result, or else its final state, is this agent's output.
    Ensemble {
        /// A path or a name.
        ensemble: String,
        /// The input of the inner conversation, as a template; `None`: that of the outer one.
        prompt: Option<String>,
        /// What the inner conversation is given by name; texts, also inside lists and maps, are templates.
        inputs: JsonMap,
    },
    /// One tool of an MCP server, which is called without a model; its result is this agent's output.
    Tool {
        /// The server and its tool, which is always given.
        used: ToolReference,
        /// The arguments of the call; texts, also inside lists and maps, are templates.
        arguments: JsonMap,
    },
}

impl AgentKind {
    /// Returns the tools that an execution may call: the tools of a model, or the only tool of an agent with `tool`.
    pub fn callable_tools(&self) -> &[ToolReference] {
        match self {
            Self::Llm(llm) => &llm.tools,
            Self::Tool { used, .. } => std::slice::from_ref(used),
            Self::Script { .. } | Self::Input(_) | Self::Ensemble { .. } => &[],
        }
    }

    /// Returns the models that an execution may use: the model of the agent, and the model that summarizes its thread or
    /// answers its question.
    pub fn list_models(&self) -> Vec<ModelChoice> {
        match self {
            Self::Llm(llm) => {
                let summarizer = match llm.context_window.as_ref().map(|window| &window.strategy) {
                    Some(WindowStrategy::Summarize(Some(profile))) => Some(ModelChoice::Profile(profile.clone())),
                    _ => None,
                };
                std::iter::once(llm.model.clone()).chain(summarizer).collect()
            }
            Self::Input(QuestionSpec {
                responses: Some(PreparedResponses::Profile(profile)),
                ..
            }) => vec![ModelChoice::Profile(profile.clone())],
            Self::Script { .. } | Self::Input(_) | Self::Ensemble { .. } | Self::Tool { .. } => Vec::new(),
        }
    }
}

/// The keys that only LLM agents have.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmSpec {
    /// The model.
    pub model: ModelChoice,
    /// The prompt, as a MiniJinja template.
    pub prompt: Option<String>,
    /// The system prompt, as a MiniJinja template.
    pub system_prompt: Option<String>,
    /// The paths of files that are sent with the prompt, as MiniJinja templates.
    pub attachments: Vec<String>,
    /// Whether the thread keeps the agent's earlier executions.
    pub memory: MemoryMode,
    /// The part of its thread that is sent; `None`: the whole thread.
    pub context_window: Option<ContextWindow>,
    /// The tools that its model may call.
    pub tools: Vec<ToolReference>,
    /// The highest number of requests of one execution while the model calls tools.
    pub max_iterations: NonZeroU32,
    /// The highest number of tool calls of one reply that run side by side.
    pub max_parallel_tools: NonZeroU32,
}

impl LlmSpec {
    /// The default of `max_iterations`.
    pub const MAX_ITERATIONS: NonZeroU32 = NonZeroU32::new(10).expect("is not 0");

    /// The default of `max_parallel_tools`.
    pub const MAX_PARALLEL_TOOLS: NonZeroU32 = NonZeroU32::new(16).expect("is not 0");

    /// Returns the external agent program, if the model is one.
    pub fn acp_agent(&self) -> Option<&Arc<AcpAgent>> {
        match &self.model {
            ModelChoice::Acp(acp) => Some(acp),
            ModelChoice::Profile(_) | ModelChoice::Model { .. } => None,
        }
    }
}

/// The model of an agent: `model_profile: name`, `model: provider/model`, or `acp: program`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// The name of a profile.
    Profile(Arc<str>),
    /// A model without a profile.
    Model {
        /// The provider: the part before the first slash.
        provider: Arc<str>,
        /// The model: the part after the first slash.
        model: Arc<str>,
    },
    /// An external program that speaks the Agent Client Protocol.
    Acp(Arc<AcpAgent>),
}

/// The memory of an LLM agent (`conversation.memory`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryMode {
    /// Earlier executions of the agent stay in its thread.
    #[default]
    Conversation,
    /// Every execution starts with an empty thread.
    None,
}

/// The question to the operator, and the source of answers if there is no operator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuestionSpec {
    /// The question; a MiniJinja template like an LLM's prompt.
    pub prompt: String,
    /// The answers that are allowed; empty: any.
    pub choices: Vec<String>,
    /// The answer if the time limit is reached, or if there is no operator.
    pub default: Option<String>,
    /// The time limit for the answer.
    pub timeout: Option<Duration>,
    /// The source of answers instead of a person.
    pub responses: Option<PreparedResponses>,
}

/// The source of answers without an operator (`input.responses`).
#[derive(Debug, Clone, PartialEq)]
pub enum PreparedResponses {
    /// Execution n gets answer n; further executions get the last one. Never empty.
    List(Vec<String>),
    /// A Rhai script; its last value is the answer. Its variables are those of a Rhai agent, and `prompt`.
    Script(String),
    /// A model that answers like a user, by profile name.
    Profile(Arc<str>),
}

/// A dependency: the agent starts after the other agent, under these conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependency {
    /// The agent that is depended on.
    pub agent_name: Arc<str>,
    /// The condition; `None`: no condition.
    pub condition: Option<ConditionText>,
    /// How often new outputs over this dependency may start the agent; `None`: no additional limit.
    pub max_executions: Option<NonZeroU32>,
    /// True: this dependency is required. False: one of the dependencies with false is required.
    pub requires_all: bool,
    /// Not needed before the agent's first execution.
    pub feedback: bool,
    /// The results of executions that fulfil the dependency and start the agent.
    pub on: RequiredResult,
    /// What the agent waits for, if the dependency is required.
    pub wait_for: WaitForOutputs,
    /// The place of the dependency in the file.
    pub declared_at: DependencyPosition,
}

/// The position of a dependency in the file: its list, and the index in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyPosition {
    /// The n-th item of `depends_on`.
    DependsOn(usize),
    /// The n-th item of `dependencies`.
    Dependencies(usize),
}

/// The result of an execution that a dependency requires (`on`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RequiredResult {
    /// The execution succeeded.
    #[default]
    Success,
    /// The execution failed.
    Failure,
    /// Either result.
    Any,
}

/// The outputs that an agent waits for although it is ready, so that it does not read outdated values (`wait_for`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitForOutputs {
    /// The next output of the dependency, if the agent has read the latest one and another is about to come.
    #[default]
    Update,
    /// The end of everything that can still lead to an output of the dependency.
    Settled,
    /// Nothing.
    Nothing,
}

/// The settings of an agent for the conversation (`conversation`).
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationSpec {
    /// The highest number of executions of this agent in the run.
    pub max_turns: NonZeroU32,
    /// The key of its output in the context; `None`: its name.
    pub state_key: Option<Arc<str>>,
    /// Whether its output may contain `agent_requests`.
    pub triggers_conversation: bool,
    /// What starts the agent again.
    pub trigger: AgentTrigger,
    /// Whether its result stays valid when the run is resumed.
    pub on_resume: OnResume,
    /// Scripts: the number of the latest entries of the history in its input.
    pub history: u32,
}

impl Default for ConversationSpec {
    /// Returns the defaults of ADR-005: one execution.
    fn default() -> Self {
        Self {
            max_turns: NonZeroU32::MIN,
            state_key: None,
            triggers_conversation: false,
            trigger: AgentTrigger::News,
            on_resume: OnResume::Reuse,
            history: 0,
        }
    }
}

/// The event that starts executions of an agent (`conversation.trigger`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentTrigger {
    /// Only an output that the agent has not read.
    #[default]
    News,
    /// Every turn in which its dependencies are fulfilled.
    EveryTurn,
    /// Only a request of another agent.
    Request,
}

/// The treatment of finished executions on resume (`conversation.on_resume`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnResume {
    /// The result stays valid.
    #[default]
    Reuse,
    /// An execution in the turn from which the run is resumed is repeated.
    Rerun,
}

/// The repetition of failed attempts (`retry`).
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// The number of attempts, including the first.
    pub max_attempts: NonZeroU32,
    /// The pause before the second attempt.
    pub delay: Duration,
    /// How the pause changes.
    pub backoff: RetryBackoff,
}

impl Default for RetryPolicy {
    /// Returns one attempt. If more attempts are set: one second before the second, then doubled each time.
    fn default() -> Self {
        Self {
            max_attempts: NonZeroU32::MIN,
            delay: Duration::from_secs(1),
            backoff: RetryBackoff::Exponential,
        }
    }
}

/// The growth of the pause between attempts (`retry.backoff`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryBackoff {
    /// The pause is always the same.
    Constant,
    /// The pause is one, two, three times the first pause.
    Linear,
    /// The pause is doubled each time.
    #[default]
    Exponential,
}

/// The effect of a failure on the run (`on_error`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// A failure that no dependency handles makes the outcome `agent_failed`, when the run ends by itself.
    #[default]
    Fail,
    /// The failure is only recorded, and does not change the outcome.
    Continue,
    /// The run ends as `agent_failed` after the turn of the failure; nothing can handle the failure.
    Stop,
}

impl Agent {
    /// Returns the key under which the output of the agent is stored in the context.
    pub fn state_key(&self) -> &Arc<str> {
        self.conversation.state_key.as_ref().unwrap_or(&self.name)
    }

    /// Returns the word for the kind of the agent.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            AgentKind::Script { .. } => "script",
            AgentKind::Llm(llm) if llm.acp_agent().is_some() => "acp",
            AgentKind::Llm(_) => "llm",
            AgentKind::Input(_) => "input",
            AgentKind::Ensemble { .. } => "ensemble",
            AgentKind::Tool { .. } => "tool",
        }
    }

    /// Returns the route of the agent at `index` in `agents`.
    pub fn route_at(index: usize) -> Route {
        static AGENTS: LazyLock<Arc<str>> = LazyLock::new(|| "agents".into());
        Route(vec![RouteStep::Key(AGENTS.clone()), RouteStep::Index(index)])
    }
}

impl Dependency {
    /// Returns the route of the dependency. `agent`: the route of its agent.
    pub fn route_in(&self, agent: &Route) -> Route {
        match self.declared_at {
            DependencyPosition::DependsOn(at) => agent.with_key("depends_on").with_index(at),
            DependencyPosition::Dependencies(at) => agent.with_key("dependencies").with_index(at),
        }
    }
}

impl RequiredResult {
    /// Returns whether an execution with this success fulfils the dependency.
    pub fn is_fulfilled_by(self, success: bool) -> bool {
        match self {
            Self::Success => success,
            Self::Failure => !success,
            Self::Any => true,
        }
    }
}

impl RetryPolicy {
    /// Returns the pause after the failure of attempt number `attempt` (from 1); at most one hour.
    pub fn pause_after(&self, attempt: u32) -> Duration {
        let factor = match self.backoff {
            RetryBackoff::Constant => 1,
            RetryBackoff::Linear => attempt,
            RetryBackoff::Exponential => 2_u32.saturating_pow(attempt.saturating_sub(1)),
        };
        self.delay.saturating_mul(factor).min(Duration::from_secs(3600))
    }
}
