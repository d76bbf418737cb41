//! Test files: what an ensemble is given in each case, and what is expected of its conversation.
//!
//! A test file is data, like an ensemble. It contains no positions: the place of a value is its [`Route`], which the
//! functions at the end of this file give.
//!
//! Invariant: a test file contains no positions.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::data::{Cost, ExecutionFailure, JsonMap};
use crate::source::Route;

/// Suffixes of the file names of test files.
pub const TEST_FILE_ENDINGS: [&str; 2] = [".test.yaml", ".test.yml"];

/// The outcomes that a case can expect, in the spelling of results.
pub const OUTCOMES: [&str; 10] = [
    "condition_failed",
    "cancelled",
    "timeout",
    "waiting_for_input",
    "agent_failed",
    "unsuccessful",
    "token_budget",
    "max_agent_executions",
    "max_total_turns",
    "completed",
];

/// The exit code of a command that refuses the ensemble or its inputs.
pub const REFUSED_EXIT_CODE: u8 = 2;

/// A test file.
#[derive(Debug, Clone, PartialEq)]
pub struct TestFile {
    /// The ensemble under test, relative to the file. `None`: the file in the same folder with the same name without `.test`.
    pub ensemble: Option<Arc<str>>,
    /// The cases, in the order of the file.
    pub cases: Vec<TestCase>,
}

/// A case of a test file: the inputs, answers and stubs of a conversation, and the expectations.
#[derive(Debug, Clone, PartialEq)]
pub struct TestCase {
    /// The name of the case, which is unique in the file.
    pub name: Arc<str>,
    /// The input of the run; `None`: that of the recorded run, or else the `default_task`.
    pub input: Option<Arc<str>>,
    /// Inputs by name, or values of the context if the ensemble declares no inputs.
    pub inputs: JsonMap,
    /// Answers of people, by agent: a list is by execution.
    pub answers: Vec<(Arc<str>, Value)>,
    /// Model profiles that answer for input agents and script agents, by agent.
    pub responders: Vec<(Arc<str>, Arc<str>)>,
    /// Decisions about tool calls that need a permission, by tool or by the address of a call.
    pub permissions: Vec<(Arc<str>, StubPermissions)>,
    /// The stubs that replace agents, by agent; `outer.inner` names an agent of a nested ensemble.
    pub stubs: Vec<(Arc<str>, AgentStubs)>,
    /// A recorded run whose inputs and results are used: its folder or journal relative to the file, or its id.
    pub from: Option<Arc<str>>,
    /// `true`: the case uses processes, models and the network, as a run does.
    pub live: bool,
    /// The number of times that a live case is run.
    pub repeat: NonZeroU32,
    /// The part of these conversations in which all expectations must be met, from 0 to 1.
    pub pass_rate: f64,
    /// The expectations of the case.
    pub expect: CaseExpectations,
}

/// A decision about a tool call that needs a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StubPermissionDecision {
    /// The call is made.
    Allow,
    /// The call is made, and so are all later calls of the tool without asking.
    Always,
    /// The call is not made.
    Deny,
}

/// The decisions about the calls of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StubPermissions {
    /// The same for every call.
    Every(StubPermissionDecision),
    /// Request n gets decision n. Never empty.
    Each(Vec<StubPermissionDecision>),
}

/// The stubs of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentStubs {
    /// The same for every execution.
    Always(StubResult),
    /// Execution n gets stub n. Never empty.
    Each(Vec<StubResult>),
}

/// The result of one execution.
#[derive(Debug, Clone, PartialEq)]
pub struct StubResult {
    /// The result.
    pub output: StubOutput,
    /// The duration, in the time of the conversation.
    pub delay: Duration,
    /// The tokens that each attempt uses.
    pub tokens: u64,
    /// The cost of each attempt.
    pub cost: Option<Cost>,
    /// How many attempts fail before the result.
    pub failed_attempts: u32,
}

impl StubResult {
    /// Returns a stub that returns this output without a delay, tokens, costs or failed attempts.
    pub fn from_output_only(output: StubOutput) -> Self {
        Self {
            output,
            delay: Duration::ZERO,
            tokens: 0,
            cost: None,
            failed_attempts: 0,
        }
    }
}

/// The result of a stub.
#[derive(Debug, Clone, PartialEq)]
pub enum StubOutput {
    /// A text, which becomes the output in the same way as a text of the agent.
    Text(String),
    /// The output.
    Json(Value),
    /// A failure.
    Fail(ExecutionFailure),
    /// For an agent with `for_each`: the result of each part, by the key of the part.
    Parts(Vec<(Arc<str>, StubResult)>),
    /// For an LLM agent: the replies of its model, at least one. The agent itself runs, with its tools.
    Replies(Vec<StubReply>),
}

/// The reply of a model to one request of an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum StubReply {
    /// The text of the reply.
    Text(String),
    /// The request fails with this message.
    Error(String),
    /// The reply calls these tools, in parallel. Never empty.
    Calls {
        /// The text in addition to the calls.
        text: String,
        /// The calls.
        calls: Vec<StubToolCall>,
    },
}

/// A tool call in the reply of a stub.
#[derive(Debug, Clone, PartialEq)]
pub struct StubToolCall {
    /// The tool, by the name that the model uses.
    pub tool: Arc<str>,
    /// The arguments.
    pub arguments: JsonMap,
    /// The result, if the tool itself is not called.
    pub result: Option<Value>,
}

/// The expectations of a conversation. Absent expectations are not checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CaseExpectations {
    /// The possible outcomes, each one of [`OUTCOMES`]; an empty list: any outcome.
    pub outcomes: Vec<&'static str>,
    /// The exit code of `ensemble run`.
    pub exit: Option<u8>,
    /// `true`: the ensemble or its inputs are refused before a run.
    pub refused: bool,
    /// All turns in order, each with the agents that run in it.
    pub turns: Option<Vec<Vec<Arc<str>>>>,
    /// Agents that run in this order, with others before, between and after them.
    pub order: Vec<Arc<str>>,
    /// The number of executions of each agent.
    pub executions: Vec<(Arc<str>, u32)>,
    /// Agents that do not run.
    pub never: Vec<Arc<str>>,
    /// Groups of agents, each of which runs in one turn.
    pub same_turn: Vec<Vec<Arc<str>>>,
    /// The highest number of executions or parts of each agent that run at the same time.
    pub at_once: Vec<(Arc<str>, u32)>,
    /// Texts that the prompts or questions of each agent contain.
    pub asked: Vec<(Arc<str>, Vec<String>)>,
    /// Values that the latest outputs of agents contain.
    pub outputs: Vec<(Arc<str>, Value)>,
    /// The JSON Schemas of the latest outputs of agents.
    pub schemas: Vec<(Arc<str>, Value)>,
    /// Values that the result of the run contains.
    pub result: Option<Value>,
    /// The exact result of the run.
    pub exact_result: Option<Value>,
    /// Conditions that are true at the end.
    pub conditions: Vec<String>,
    /// Agents that never ran, each with a part of the reason.
    pub not_run: Vec<(Arc<str>, String)>,
    /// The agents that still had work when their own limits kept them from running.
    pub exhausted: Option<Vec<Arc<str>>>,
    /// Parts of warnings; an empty list: there is no warning.
    pub warnings: Option<Vec<String>>,
    /// The maximum number of turns.
    pub most_turns: Option<u32>,
    /// The highest cost.
    pub most_cost: Option<Cost>,
    /// The criteria by which models judge a live case.
    pub judges: Vec<JudgeQuestion>,
}

/// A question to a model: whether the outcome of a conversation meets a criterion.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeQuestion {
    /// The statement that must be true of the judged output.
    pub criterion: Arc<str>,
    /// The agent whose latest output is judged; `None`: the result of the run.
    pub agent: Option<Arc<str>>,
    /// The profile of the model.
    pub model_profile: Arc<str>,
    /// The number of times that the model is asked. More than half of the answers must be yes.
    pub votes: NonZeroU32,
}

impl CaseExpectations {
    /// Returns whether the case expects nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the case expects that the ensemble or its inputs are refused, so that no run starts.
    pub fn expects_refusal(&self) -> bool {
        self.refused || self.exit == Some(REFUSED_EXIT_CODE)
    }
}

/// Returns whether a file name ends with `.test.yaml` or `.test.yml`.
pub fn is_test_file(name: &str) -> bool {
    TEST_FILE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns the file name of the ensemble that a test file tests by default: `a.yaml` for `a.test.yaml`.
pub fn default_ensemble_name(name: &str) -> Option<String> {
    let (ending, stem) = TEST_FILE_ENDINGS
        .iter()
        .find_map(|ending| Some((ending, name.strip_suffix(ending)?)))?;
    Some(format!("{stem}{}", ending.trim_start_matches(".test")))
}

/// Returns the route of the case with this index.
pub fn case_route(at: usize) -> Route {
    Route::root().with_key("cases").with_index(at)
}

/// Returns the route of an expectation of the case with this index.
pub fn expect_route(at: usize, key: &str) -> Route {
    case_route(at).with_key("expect").with_key(key)
}
