//! Stubs in the place of agents: runners that give what a test file, or a recorded run, says.
//!
//! Invariant: an execution for which nothing was prepared is noted, and never replaced by a guess.

use std::sync::{Arc, Mutex};

use ensemble_core::request::{AddressMatchPrecision, RequestAddress};
use ensemble_core::runner::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_language::cases::{AgentStubs, StubOutput, StubResult, TestCase};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, ModelUsage};
use ensemble_language::ensemble::{Agent, AgentKind, ToolDefinition, ToolKind, ToolReference};
use ensemble_language::names::server_tool_name;
use ensemble_process::output;
use ensemble_runs::{AgentReplacements, McpServerStub, PromptPreview, ReplyStub, StubOutputMode};
use serde_json::Value;

use crate::missing_parts::{MissingPart, MissingStub, MissingStubCollector};
use crate::named_stubs::StubsByAddress;
use crate::people::{CaseOperator, PersonRunner};
use crate::recorded_case::RecordedCaseRun;
use crate::replies::{
    AgentReplyStub, ReplyStubRunner, ToolStubRunner, UnstubbedCallAction, contains_model_replies, find_execution_stub,
    list_tool_calls_in_replies,
};
use crate::watch::CaseObserver;

/// Stubs and observations of a case.
pub(crate) struct CaseStubs {
    stubs: Vec<(Arc<str>, AgentStubs)>,
    answered_agents: Vec<Arc<str>>,
    responders: Vec<(Arc<str>, Arc<str>)>,
    recorded: Option<Arc<RecordedCaseRun>>,
    is_live: bool,
    expects_refusal: bool,
    missing: Arc<MissingStubCollector>,
    /// The people.
    pub(crate) operator: Arc<CaseOperator>,
    /// The observations.
    pub(crate) watch: Arc<CaseObserver>,
}

impl CaseStubs {
    /// Creates the stubs of a case, then those of a recorded run. Agents with answers ask their questions.
    pub(crate) fn new(case: &TestCase, recorded: Option<Arc<RecordedCaseRun>>) -> Arc<Self> {
        let (mut stubs, mut answered_agents) = (case.stubs.clone(), Vec::new());
        for (agent, answer) in &case.answers {
            match stubs_for_blank_answers(answer) {
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
            watch: CaseObserver::for_expected_observations(&case.expect),
        })
    }

    /// Returns whether the run receives plain answers for the agent.
    pub(crate) fn has_plain_answers(&self, agent: &Arc<str>) -> bool {
        self.answered_agents.contains(agent)
    }

    /// Returns the executions without a prepared stub.
    pub(crate) fn list_missing_stubs(&self) -> Vec<MissingStub> {
        self.missing.list_missing_stubs()
    }

    /// Records a missing part. Returns a failed attempt.
    fn fail_with_missing_part(&self, agent: &Arc<str>, execution: u32, what: MissingPart) -> AttemptEnd {
        self.missing.add(agent, execution, what);
        AttemptEnd::from_failure(FailureKind::Unavailable, "the test has no stub for this execution")
    }
}

/// Returns the answers of a person as stubs if one of the answers is blank and thus means the `default`. Otherwise returns `None`.
fn stubs_for_blank_answers(answer: &Value) -> Option<AgentStubs> {
    let is_blank = |answer: &Value| answer.as_str().is_some_and(|text| text.trim().is_empty());
    let to_stub = |answer: &Value| {
        StubResult::from_output_only(match answer {
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
    fn path_from_outermost(&self, agent: &str) -> Arc<str> {
        format!("{}{agent}", self.outer_path).into()
    }

    /// Builds a runner that returns the results of the stubs.
    fn build_stub_runner(&self, agent: &Agent, path: Arc<str>, stubs: StubsByAddress) -> Arc<dyn Runner> {
        Arc::new(StubResultRunner {
            agent: path,
            stubs,
            reading: StubOutputMode::for_agent(agent),
            stubbed: self.stubbed.clone(),
        })
    }

    /// Returns the stubs with exactly this path.
    fn find_stubs_by_path(&self, path: &str) -> Option<&AgentStubs> {
        let mut stubs = self.stubbed.stubs.iter();
        stubs.find(|(name, _)| **name == *path).map(|(_, stubs)| stubs)
    }

    /// Collects the stubs of an agent and of its parts. If `is_person`, a stub can have the bare name of the agent.
    fn collect_agent_stubs(&self, path: &str, is_person: bool) -> StubsByAddress {
        let address: Option<RequestAddress> = path.parse().ok();
        let mut named_stubs = StubsByAddress::default();
        for (name, stubs) in &self.stubbed.stubs {
            let precision = || address.as_ref()?.match_declared_precision(name);
            if **name == *path {
                named_stubs.of_agent = Some(stubs.clone());
                continue;
            }
            match precision() {
                Some(AddressMatchPrecision::AgentName) if is_person => {
                    named_stubs.of_agent.get_or_insert_with(|| stubs.clone());
                }
                Some(AddressMatchPrecision::Exact | AddressMatchPrecision::Path) => {
                    named_stubs.by_address.push((name.clone(), stubs.clone()));
                }
                _ => {}
            }
        }
        named_stubs
    }

    /// Builds the runner of a tool of an agent, with results of stubs and of replies.
    /// `model_name` is the name of the tool for the model, and `stub_name` the name of its stub.
    fn build_tool_runner(
        &self,
        agent: &str,
        (model_name, stub_name): (Arc<str>, Arc<str>),
        otherwise: UnstubbedCallAction,
    ) -> Arc<dyn Runner> {
        let agent = self.path_from_outermost(agent);
        let path = self.path_from_outermost(&stub_name);
        Arc::new(ToolStubRunner {
            stubs: self.find_stubs_by_path(&agent).cloned(),
            result: self.find_stubs_by_path(&path).map(|stubs| {
                Arc::new(StubResultRunner {
                    agent: path,
                    stubs: StubsByAddress::for_all_executions(stubs.clone()),
                    reading: StubOutputMode::Printed,
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
    fn build_server_tool_runner(&self, agent: &Agent, used: &ToolReference, tool: &str) -> Arc<dyn Runner> {
        let names = (
            server_tool_name(&used.tool, tool).into(),
            format!("{}.{tool}", used.tool).into(),
        );
        let needs = format!("the MCP server `{}`", used.tool);
        self.build_tool_runner(&agent.name, names, UnstubbedCallAction::Missing(needs))
    }

    /// Returns the tools of a server that the case replaces and the agent can call: tools with a stub, and tools in replies.
    /// In a live case, only calls with a `result` replace a tool.
    fn list_replaced_server_tools(&self, agent: &Agent, used: &ToolReference) -> Vec<Arc<str>> {
        let prefix = self.path_from_outermost(&format!("{}.", used.tool));
        let with_stub = self
            .stubbed
            .stubs
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(&*prefix));
        let stubs = self.find_stubs_by_path(&self.path_from_outermost(&agent.name));
        let is_live = self.stubbed.is_live;
        let calls = stubs
            .into_iter()
            .flat_map(list_tool_calls_in_replies)
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
            let has_replies = stubs.is_some_and(contains_model_replies);
            tools.extend(has_replies.then(|| member.clone()));
        }
        tools
    }
}

/// Tools of an MCP server that a case replaces.
struct StubbedServerTools {
    runners: Vec<(Arc<str>, Arc<dyn Runner>)>,
    is_live: bool,
}

impl McpServerStub for StubbedServerTools {
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
        let path = self.path_from_outermost(&agent.name);
        let address: Option<RequestAddress> = path.parse().ok();
        let names_agent = |name: &Arc<str>| {
            let precision = address
                .as_ref()
                .and_then(|address| address.match_declared_precision(name));
            *name == path || precision.is_some()
        };
        let is_given = self.find_stubs_by_path(&path).is_some() || self.stubbed.answered_agents.iter().any(names_agent);
        (self.outer_path.is_empty() && !is_given).then(|| {
            let runner = Arc::new(RecordedCaseRunner {
                agent: path.clone(),
                recorded,
                stubbed: self.stubbed.clone(),
            });
            let watch = &self.stubbed.watch;
            watch.wrap_if_observed(&path, || PromptPreview::for_agent(agent), runner)
        })
    }

    fn find_execution_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let path = self.path_from_outermost(&agent.name);
        let is_person = matches!(agent.kind, AgentKind::Input(_));
        let stubs = self.collect_agent_stubs(&path, is_person);
        let has_replies = self.find_stubs_by_path(&path).is_some_and(contains_model_replies);
        (!stubs.has_no_stubs() && !is_person && !has_replies).then(|| self.build_stub_runner(agent, path, stubs))
    }

    fn replaces_operator(&self, agent: &Agent) -> bool {
        let is_person = matches!(agent.kind, AgentKind::Input(_));
        is_person
            && !self
                .collect_agent_stubs(&self.path_from_outermost(&agent.name), true)
                .has_no_stubs()
    }

    fn find_reply_stub(&self, agent: &Agent) -> Option<Arc<dyn ReplyStub>> {
        let path = self.path_from_outermost(&agent.name);
        let stubs = self
            .find_stubs_by_path(&path)
            .filter(|stubs| contains_model_replies(stubs))?
            .clone();
        Some(Arc::new(AgentReplyStub {
            agent: path,
            stubs,
            missing: self.stubbed.missing.clone(),
        }))
    }

    fn find_responder_profile(&self, agent: &Agent) -> Option<Arc<str>> {
        let path = self.path_from_outermost(&agent.name);
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
        let path = self.path_from_outermost(&agent.name);
        let runner: Arc<dyn Runner> = match (&agent.kind, self.find_stubs_by_path(&path)) {
            (AgentKind::Input(spec), _) if self.replaces_operator(agent) => Arc::new(PersonRunner {
                inner: runner,
                stubs: self.collect_agent_stubs(&path, true),
                has_default: spec.default.is_some(),
                operator: self.stubbed.operator.clone(),
            }),
            (_, Some(stubs)) if contains_model_replies(stubs) => Arc::new(ReplyStubRunner {
                stubs: stubs.clone(),
                inner: runner,
                results: self.build_stub_runner(agent, path.clone(), StubsByAddress::for_all_executions(stubs.clone())),
                earlier_requests: Mutex::default(),
            }),
            _ => runner,
        };
        let preview = || match self.find_responder_profile(agent) {
            Some(_) if matches!(agent.kind, AgentKind::Script { .. }) => PromptPreview::for_substitute(agent),
            _ => PromptPreview::for_agent(agent),
        };
        self.stubbed.watch.wrap_if_observed(&path, preview, runner)
    }

    fn wrap_script_tool(
        &self,
        agent: &str,
        tool: &str,
        runner: Arc<dyn Runner>,
        needs: Option<String>,
    ) -> Arc<dyn Runner> {
        let needs = needs.filter(|_| !self.stubbed.is_live);
        self.build_tool_runner(
            agent,
            (tool.into(), tool.into()),
            match needs {
                Some(needs) => UnstubbedCallAction::Missing(needs),
                None => UnstubbedCallAction::Tool(runner),
            },
        )
    }

    fn find_server_stub(&self, agent: &Agent, used: &ToolReference) -> Option<Arc<dyn McpServerStub>> {
        let tools = self.list_replaced_server_tools(agent, used);
        let has_replies = self.find_reply_stub(agent).is_some();
        let is_replaced = !tools.is_empty() || (has_replies && !self.stubbed.is_live);
        let stub = || StubbedServerTools {
            runners: tools
                .iter()
                .map(|tool| (tool.clone(), self.build_server_tool_runner(agent, used, tool)))
                .collect(),
            is_live: self.stubbed.is_live,
        };
        is_replaced.then(|| Arc::new(stub()) as Arc<dyn McpServerStub>)
    }

    fn never_starts_tool(&self, name: &str, tool: &ToolDefinition) -> bool {
        match tool.kind {
            ToolKind::Mcp(_) => !self.stubbed.is_live,
            ToolKind::Script { .. } => self.find_stubs_by_path(&self.path_from_outermost(name)).is_some(),
            ToolKind::Agent { .. } | ToolKind::Ensemble { .. } => false,
        }
    }

    fn find_required_replacement(&self, agent: &Agent, needs: String) -> Option<Arc<dyn Runner>> {
        (!self.stubbed.is_live).then(|| {
            Arc::new(MissingStubRunner {
                agent: self.path_from_outermost(&agent.name),
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
struct StubResultRunner {
    agent: Arc<str>,
    stubs: StubsByAddress,
    reading: StubOutputMode,
    stubbed: Arc<CaseStubs>,
}

impl StubResultRunner {
    /// Waits for the delay of the stub, then returns its result. The first `failed_attempts` attempts fail.
    async fn run_stub_after_delay(&self, stub: &StubResult, execution: &ExecutionInput) -> AttemptEnd {
        if !stub.delay.is_zero() {
            tokio::time::sleep(stub.delay).await;
        }
        if execution.attempt <= stub.failed_attempts {
            let error = format!("attempt {} fails because of `failed_attempts`", execution.attempt);
            return end_with_stub_usage(stub, Err(ExecutionFailure::new(FailureKind::Reported, error)));
        }
        let result = match &stub.output {
            StubOutput::Text(text) => self.reading.text_to_output(text, &execution.ledger),
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
                    Some((_, stub)) => Box::pin(self.run_stub_after_delay(stub, execution)).await,
                    None => {
                        self.stubbed
                            .fail_with_missing_part(&self.agent, execution.execution, MissingPart::Part(key))
                    }
                };
            }
        };
        end_with_stub_usage(stub, result)
    }
}

/// Returns the end of an attempt, with the usage that the stub defines.
fn end_with_stub_usage(stub: &StubResult, result: Result<JsonMap, ExecutionFailure>) -> AttemptEnd {
    let has_used = stub.tokens > 0 || stub.cost.is_some();
    AttemptEnd::Finished(AttemptResult {
        result,
        usage: has_used.then(|| ModelUsage {
            requests: 1,
            input_tokens: stub.tokens,
            cost: stub.cost,
            ..ModelUsage::default()
        }),
        exchange: Vec::new(),
        parts: Vec::new(),
        nested_answers: Vec::new(),
        answer: None,
    })
}

impl Runner for StubResultRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            let Some(stubs) = self.stubs.find_stubs_at(&execution.origin.address) else {
                let missing_part = MissingPart::Address(execution.origin.address.to_string().into());
                return self
                    .stubbed
                    .fail_with_missing_part(&self.agent, execution.execution, missing_part);
            };
            match find_execution_stub(stubs, execution.execution) {
                Ok(stub) => self.run_stub_after_delay(stub, &execution).await,
                Err(count) => {
                    let missing_part = MissingPart::Execution(count);
                    self.stubbed
                        .fail_with_missing_part(&self.agent, execution.execution, missing_part)
                }
            }
        })
    }
}

/// Runner that returns the results of a recorded run.
struct RecordedCaseRunner {
    agent: Arc<str>,
    recorded: Arc<RecordedCaseRun>,
    stubbed: Arc<CaseStubs>,
}

impl Runner for RecordedCaseRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let observed = self.recorded.find_recorded_end(&self.agent, execution.execution);
        let observed = observed.unwrap_or_else(|| {
            self.stubbed
                .fail_with_missing_part(&self.agent, execution.execution, MissingPart::Record)
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
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let missing_part = MissingPart::Stub(self.needs.clone());
        let observed = self
            .stubbed
            .fail_with_missing_part(&self.agent, execution.execution, missing_part);
        Box::pin(std::future::ready(observed))
    }
}
