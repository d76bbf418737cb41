//! Stubs in the place of agents: runners that give what a test file, or a recorded run, says.
//!
//! Invariant: an execution for which nothing was prepared is noted, and never replaced by a guess.

use std::sync::{Arc, Mutex};

use ensemble_core::request::{AddressMatch, RequestAddress};
use ensemble_core::runner::{AttemptOutcome, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_language::cases::{AgentStubs, StubOutput, StubResult, TestCase};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, ModelUsage};
use ensemble_language::ensemble::{Agent, AgentKind, ToolDefinition, ToolKind, ToolReference};
use ensemble_language::names::server_tool_name;
use ensemble_process::output;
use ensemble_runs::{AgentReplacements, McpServerStub, OutputMode, PromptPreview, ReplyStub};
use serde_json::Value;

use crate::missing_parts::{MissingPart, MissingStub, MissingStubList};
use crate::named_stubs::NamedStubs;
use crate::people::{CaseOperator, PersonRunner};
use crate::recorded_case::RecordedCase;
use crate::replies::{
    AgentReplies, RepliesRunner, ToolStubRunner, UnstubbedCall, find_execution_stub, has_replies, list_reply_calls,
};
use crate::watch::CaseWatch;

/// Stubs and observations of a case.
pub(crate) struct CaseStubs {
    stubs: Vec<(Arc<str>, AgentStubs)>,
    answered_agents: Vec<Arc<str>>,
    responders: Vec<(Arc<str>, Arc<str>)>,
    recorded: Option<Arc<RecordedCase>>,
    is_live: bool,
    expects_refusal: bool,
    missing: Arc<MissingStubList>,
    /// The people.
    pub(crate) operator: Arc<CaseOperator>,
    /// The observations.
    pub(crate) watch: Arc<CaseWatch>,
}

impl CaseStubs {
    /// Creates the stubs of a case, then those of a recorded run. Agents with answers ask their questions.
    pub(crate) fn new(case: &TestCase, recorded: Option<Arc<RecordedCase>>) -> Arc<Self> {
        let (mut stubs, mut answered_agents) = (case.stubs.clone(), Vec::new());
        for (agent, answer) in &case.answers {
            match default_answers(answer) {
                Some(answers) => stubs.push((agent.clone(), answers)),
                None => answered_agents.push(agent.clone()),
            }
        }
        Arc::new(Self {
            stubs,
            answered_agents,
            responders: case.responders.clone(),
            recorded,
            is_live: case.live,
            expects_refusal: case.expect.expects_refusal(),
            missing: Arc::default(),
            operator: Arc::new(CaseOperator::with_permissions(case.permissions.clone())),
            watch: CaseWatch::for_expectations(&case.expect),
        })
    }

    /// Returns whether the run receives plain answers for the agent.
    pub(crate) fn is_answered(&self, agent: &Arc<str>) -> bool {
        self.answered_agents.contains(agent)
    }

    /// Returns the executions without a prepared stub.
    pub(crate) fn missing_stubs(&self) -> Vec<MissingStub> {
        self.missing.to_vec()
    }

    /// Records a missing part. Returns a failed attempt.
    fn add_missing(&self, agent: &Arc<str>, execution: u32, what: MissingPart) -> AttemptOutcome {
        self.missing.add(agent, execution, what);
        AttemptOutcome::from_failure(FailureKind::Unavailable, "the test has no stub for this execution")
    }
}

/// Returns the answers of a person as stubs if one of the answers is blank and thus means the `default`. Otherwise returns `None`.
fn default_answers(answer: &Value) -> Option<AgentStubs> {
    let is_blank = |answer: &Value| answer.as_str().is_some_and(|text| text.trim().is_empty());
    let to_stub = |answer: &Value| {
        StubResult::without_delay(match answer {
            Value::String(text) => StubOutput::Text(text.clone()),
            answer => StubOutput::Json(answer.clone()),
        })
    };
    match answer {
        Value::Array(answers) if answers.iter().any(is_blank) => {
            Some(AgentStubs::Each(answers.iter().map(to_stub).collect()))
        }
        answer if is_blank(answer) => Some(AgentStubs::Always(to_stub(answer))),
        _ => None,
    }
}

/// Replacements of the agents of one ensemble by stubs.
pub(crate) struct EnsembleStubs {
    pub(crate) stubbed: Arc<CaseStubs>,
    /// The agents around the ensemble.
    pub(crate) outer_path: String,
}

impl EnsembleStubs {
    /// Returns the name of the agent after the names of the outer agents.
    fn agent_path(&self, agent: &str) -> Arc<str> {
        format!("{}{agent}", self.outer_path).into()
    }

    /// Builds a runner that returns the results of the stubs.
    fn stub_runner(&self, agent: &Agent, path: Arc<str>, stubs: NamedStubs) -> Arc<dyn Runner> {
        Arc::new(StubRunner {
            agent: path,
            stubs,
            reading: OutputMode::for_agent(agent),
            stubbed: self.stubbed.clone(),
        })
    }

    /// Returns the stubs with exactly this path.
    fn find_stubs(&self, path: &str) -> Option<&AgentStubs> {
        let mut stubs = self.stubbed.stubs.iter();
        stubs.find(|(name, _)| **name == *path).map(|(_, stubs)| stubs)
    }

    /// Collects the stubs of an agent and of its parts. If `is_person`, a stub can have the bare name of the agent.
    fn find_named_stubs(&self, path: &str, is_person: bool) -> NamedStubs {
        let address: Option<RequestAddress> = path.parse().ok();
        let mut named_stubs = NamedStubs::default();
        for (name, stubs) in &self.stubbed.stubs {
            let precision = || address.as_ref()?.match_declared_name(name);
            if **name == *path {
                named_stubs.of_agent = Some(stubs.clone());
                continue;
            }
            match precision() {
                Some(AddressMatch::AgentName) if is_person => {
                    named_stubs.of_agent.get_or_insert_with(|| stubs.clone());
                }
                Some(AddressMatch::Exact | AddressMatch::Path) => {
                    named_stubs.by_address.push((name.clone(), stubs.clone()));
                }
                _ => {}
            }
        }
        named_stubs
    }

    /// Builds the runner of a tool of an agent, with results of stubs and of replies.
    /// `model_name` is the name of the tool for the model, and `stub_name` the name of its stub.
    fn tool_runner(
        &self,
        agent: &str,
        (model_name, stub_name): (Arc<str>, Arc<str>),
        otherwise: UnstubbedCall,
    ) -> Arc<dyn Runner> {
        let agent = self.agent_path(agent);
        let path = self.agent_path(&stub_name);
        Arc::new(ToolStubRunner {
            stubs: self.find_stubs(&agent).cloned(),
            result: self.find_stubs(&path).map(|stubs| {
                Arc::new(StubRunner {
                    agent: path,
                    stubs: NamedStubs::for_agent(stubs.clone()),
                    reading: OutputMode::Printed,
                    stubbed: self.stubbed.clone(),
                }) as Arc<dyn Runner>
            }),
            agent,
            model_name,
            stub_name,
            otherwise,
            missing: self.stubbed.missing.clone(),
        })
    }

    /// Builds the runner of a stubbed tool of an MCP server.
    fn server_tool_runner(&self, agent: &Agent, used: &ToolReference, tool: &str) -> Arc<dyn Runner> {
        let names = (
            server_tool_name(&used.tool, tool).into(),
            format!("{}.{tool}", used.tool).into(),
        );
        let needs = format!("the MCP server `{}`", used.tool);
        self.tool_runner(&agent.name, names, UnstubbedCall::Missing(needs))
    }

    /// Returns the tools of a server that the case replaces and the agent can call: tools with a stub, and tools in replies.
    /// In a live case, only calls with a `result` replace a tool.
    fn list_stubbed_tools(&self, agent: &Agent, used: &ToolReference) -> Vec<Arc<str>> {
        let prefix = self.agent_path(&format!("{}.", used.tool));
        let with_stub = self
            .stubbed
            .stubs
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(&*prefix));
        let stubs = self.find_stubs(&self.agent_path(&agent.name));
        let is_live = self.stubbed.is_live;
        let calls = stubs
            .into_iter()
            .flat_map(list_reply_calls)
            .filter(|call| !is_live || call.result.is_some());
        let model_prefix = server_tool_name(&used.tool, "");
        let in_replies = calls.filter_map(|call| call.tool.strip_prefix(&*model_prefix));
        let mut tools: Vec<Arc<str>> = Vec::new();
        for name in with_stub.chain(in_replies) {
            let is_usable = used.member.as_ref().is_none_or(|member| **member == *name);
            let model_name = server_tool_name(&used.tool, name);
            if is_usable
                && !tools
                    .iter()
                    .any(|tool| server_tool_name(&used.tool, tool) == model_name)
            {
                tools.push(name.into());
            }
        }
        // The server itself would say that it has a tool that the ensemble names.
        if let Some(member) = used
            .member
            .as_ref()
            .filter(|member| !is_live && !tools.contains(member))
        {
            let has_replies = stubs.is_some_and(has_replies);
            tools.extend(has_replies.then(|| member.clone()));
        }
        tools
    }
}

/// Tools of an MCP server that a case replaces.
struct CaseServerStub {
    runners: Vec<(Arc<str>, Arc<dyn Runner>)>,
    is_live: bool,
}

impl McpServerStub for CaseServerStub {
    fn stubbed_tool_names(&self) -> Option<Vec<Arc<str>>> {
        (!self.is_live).then(|| self.runners.iter().map(|(tool, _)| tool.clone()).collect())
    }

    fn find_tool_runner(&self, tool: &str) -> Option<Arc<dyn Runner>> {
        let mut runners = self.runners.iter();
        runners
            .find(|(name, _)| **name == *tool)
            .map(|(_, runner)| runner.clone())
    }
}

impl AgentReplacements for EnsembleStubs {
    fn find_whole_agent_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let recorded = self.stubbed.recorded.clone()?;
        let path = self.agent_path(&agent.name);
        let address: Option<RequestAddress> = path.parse().ok();
        let names_agent = |name: &Arc<str>| {
            let precision = address.as_ref().and_then(|address| address.match_declared_name(name));
            *name == path || precision.is_some()
        };
        let is_given = self.find_stubs(&path).is_some() || self.stubbed.answered_agents.iter().any(names_agent);
        (self.outer_path.is_empty() && !is_given).then(|| {
            let runner = Arc::new(RecordedCaseRunner {
                agent: path.clone(),
                recorded,
                stubbed: self.stubbed.clone(),
            });
            let watch = &self.stubbed.watch;
            watch.wrap_runner(&path, || PromptPreview::for_agent(agent), runner)
        })
    }

    fn find_execution_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let path = self.agent_path(&agent.name);
        let is_person = matches!(agent.kind, AgentKind::Input(_));
        let stubs = self.find_named_stubs(&path, is_person);
        let has_replies = self.find_stubs(&path).is_some_and(has_replies);
        (!stubs.is_empty() && !is_person && !has_replies).then(|| self.stub_runner(agent, path, stubs))
    }

    fn replaces_operator(&self, agent: &Agent) -> bool {
        let is_person = matches!(agent.kind, AgentKind::Input(_));
        is_person && !self.find_named_stubs(&self.agent_path(&agent.name), true).is_empty()
    }

    fn find_reply_stub(&self, agent: &Agent) -> Option<Arc<dyn ReplyStub>> {
        let path = self.agent_path(&agent.name);
        let stubs = self.find_stubs(&path).filter(|stubs| has_replies(stubs))?.clone();
        Some(Arc::new(AgentReplies {
            agent: path,
            stubs,
            missing: self.stubbed.missing.clone(),
        }))
    }

    fn find_responder_profile(&self, agent: &Agent) -> Option<Arc<str>> {
        let path = self.agent_path(&agent.name);
        let mut responders = self.stubbed.responders.iter();
        responders
            .find(|(name, _)| *name == path)
            .map(|(_, profile)| profile.clone())
    }

    fn checks_unreplaced_files(&self) -> bool {
        self.stubbed.expects_refusal
    }

    fn can_have_costs(&self) -> bool {
        !self.stubbed.is_live || !self.stubbed.stubs.is_empty() || self.stubbed.recorded.is_some()
    }

    fn wrap_execution_runner(&self, agent: &Agent, runner: Arc<dyn Runner>) -> Arc<dyn Runner> {
        let path = self.agent_path(&agent.name);
        let runner: Arc<dyn Runner> = match (&agent.kind, self.find_stubs(&path)) {
            (AgentKind::Input(spec), _) if self.replaces_operator(agent) => Arc::new(PersonRunner {
                inner: runner,
                stubs: self.find_named_stubs(&path, true),
                has_default: spec.default.is_some(),
                operator: self.stubbed.operator.clone(),
            }),
            (_, Some(stubs)) if has_replies(stubs) => Arc::new(RepliesRunner {
                stubs: stubs.clone(),
                inner: runner,
                results: self.stub_runner(agent, path.clone(), NamedStubs::for_agent(stubs.clone())),
                earlier_requests: Mutex::default(),
            }),
            _ => runner,
        };
        let preview = || match self.find_responder_profile(agent) {
            Some(_) if matches!(agent.kind, AgentKind::Script { .. }) => Some(PromptPreview::for_substitute(agent)),
            _ => PromptPreview::for_agent(agent),
        };
        self.stubbed.watch.wrap_runner(&path, preview, runner)
    }

    fn wrap_script_tool(
        &self,
        agent: &str,
        tool: &str,
        runner: Arc<dyn Runner>,
        needs: Option<String>,
    ) -> Arc<dyn Runner> {
        let needs = needs.filter(|_| !self.stubbed.is_live);
        self.tool_runner(
            agent,
            (tool.into(), tool.into()),
            match needs {
                Some(needs) => UnstubbedCall::Missing(needs),
                None => UnstubbedCall::Tool(runner),
            },
        )
    }

    fn find_server_stub(&self, agent: &Agent, used: &ToolReference) -> Option<Arc<dyn McpServerStub>> {
        let tools = self.list_stubbed_tools(agent, used);
        let has_replies = self.find_reply_stub(agent).is_some();
        let is_replaced = !tools.is_empty() || (has_replies && !self.stubbed.is_live);
        let stub = || CaseServerStub {
            runners: tools
                .iter()
                .map(|tool| (tool.clone(), self.server_tool_runner(agent, used, tool)))
                .collect(),
            is_live: self.stubbed.is_live,
        };
        is_replaced.then(|| Arc::new(stub()) as Arc<dyn McpServerStub>)
    }

    fn never_starts_tool(&self, name: &str, tool: &ToolDefinition) -> bool {
        match tool.kind {
            ToolKind::Mcp(_) => !self.stubbed.is_live,
            ToolKind::Script { .. } => self.find_stubs(&self.agent_path(name)).is_some(),
            ToolKind::Agent { .. } | ToolKind::Ensemble { .. } => false,
        }
    }

    fn find_required_replacement(&self, agent: &Agent, needs: String) -> Option<Arc<dyn Runner>> {
        (!self.stubbed.is_live).then(|| {
            Arc::new(MissingStubRunner {
                agent: self.agent_path(&agent.name),
                needs,
                stubbed: self.stubbed.clone(),
            }) as Arc<dyn Runner>
        })
    }

    fn for_nested_agent(&self, agent: &str) -> Arc<dyn AgentReplacements> {
        Arc::new(Self {
            stubbed: self.stubbed.clone(),
            outer_path: format!("{}{agent}.", self.outer_path),
        })
    }
}

/// Runner that returns the results of the stubs in a test file.
struct StubRunner {
    agent: Arc<str>,
    stubs: NamedStubs,
    reading: OutputMode,
    stubbed: Arc<CaseStubs>,
}

impl StubRunner {
    /// Waits for the delay of the stub, then returns its result. The first `failed_attempts` attempts fail.
    async fn run_stub(&self, stub: &StubResult, execution: &ExecutionInput) -> AttemptOutcome {
        if !stub.delay.is_zero() {
            tokio::time::sleep(stub.delay).await;
        }
        if execution.attempt <= stub.failed_attempts {
            let error = format!("attempt {} fails because of `failed_attempts`", execution.attempt);
            return stub_outcome(stub, Err(ExecutionFailure::new(FailureKind::Reported, error)));
        }
        let result = match &stub.output {
            StubOutput::Text(text) => self.reading.parse_output(text, &execution.ledger),
            StubOutput::Json(value) => output::output_from_value(value.clone()),
            StubOutput::Fail(failure) => Err(failure.clone()),
            // The check of the file refuses replies of agents without a model, and of parts.
            StubOutput::Replies(_) => Err(ExecutionFailure::new(
                FailureKind::Unavailable,
                "`replies` need an agent with a model",
            )),
            StubOutput::Parts(parts) => {
                let key = execution
                    .part
                    .as_ref()
                    .map_or_else(|| "".into(), |part| part.key.clone());
                return match parts.iter().find(|(name, _)| *name == key) {
                    Some((_, stub)) => Box::pin(self.run_stub(stub, execution)).await,
                    None => self
                        .stubbed
                        .add_missing(&self.agent, execution.execution, MissingPart::Part(key)),
                };
            }
        };
        stub_outcome(stub, result)
    }
}

/// Returns the end of an attempt, with the usage that the stub defines.
fn stub_outcome(stub: &StubResult, result: Result<JsonMap, ExecutionFailure>) -> AttemptOutcome {
    let has_used = stub.tokens > 0 || stub.cost.is_some();
    AttemptOutcome::Finished(AttemptResult {
        result,
        usage: has_used.then(|| ModelUsage {
            requests: 1,
            input_tokens: stub.tokens,
            cost: stub.cost,
            ..ModelUsage::default()
        }),
        exchange: Vec::new(),
        parts: Vec::new(),
        answer: None,
    })
}

impl Runner for StubRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let Some(stubs) = self.stubs.find_stubs(&execution.origin.address) else {
                let missing_part = MissingPart::Address(execution.origin.address.to_string().into());
                return self.stubbed.add_missing(&self.agent, execution.execution, missing_part);
            };
            match find_execution_stub(stubs, execution.execution) {
                Ok(stub) => self.run_stub(stub, &execution).await,
                Err(count) => {
                    let missing_part = MissingPart::Execution(count);
                    self.stubbed.add_missing(&self.agent, execution.execution, missing_part)
                }
            }
        })
    }
}

/// Runner that returns the results of a recorded run.
struct RecordedCaseRunner {
    agent: Arc<str>,
    recorded: Arc<RecordedCase>,
    stubbed: Arc<CaseStubs>,
}

impl Runner for RecordedCaseRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        let observed = self.recorded.find_outcome(&self.agent, execution.execution);
        let observed = observed.unwrap_or_else(|| {
            self.stubbed
                .add_missing(&self.agent, execution.execution, MissingPart::Record)
        });
        Box::pin(std::future::ready(observed))
    }
}

/// Runner that records a missing stub and fails.
struct MissingStubRunner {
    agent: Arc<str>,
    needs: String,
    stubbed: Arc<CaseStubs>,
}

impl Runner for MissingStubRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        let missing_part = MissingPart::Stub(self.needs.clone());
        let observed = self.stubbed.add_missing(&self.agent, execution.execution, missing_part);
        Box::pin(std::future::ready(observed))
    }
}
