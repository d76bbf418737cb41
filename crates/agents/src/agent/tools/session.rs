//! The tools of an agent during one execution.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::agent;
use super::ensemble;
use super::gate::Gate;
use super::names::Names;
use super::permission::{Permitted, call_origin};
use super::result::{Ended, capped, end_of, matched, timeout_message};
use super::{ToolEntry, ToolRunner, ToolSettings, Toolset, script};
use crate::agent::chat::{Admission, Tools};
use crate::agent::mcp::{Asking, Server, ServerTool};
use crate::agent::output::schema::Schema;
use crate::agent::{AttemptOutcome, BoxFuture, Execution, Runner};
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{ToolCall, ToolEnd};
use ensemble_language::data::{JsonMap, Usage};
use ensemble_models::ToolSpec;

/// The tools of one execution, with their names for the model.
pub(crate) struct ToolSession<'a> {
    toolset: &'a Toolset,
    execution: &'a Execution,
    state: Mutex<State<'a>>,
    gate: Gate,
}

#[derive(Default)]
struct State<'a> {
    named: HashMap<String, Target<'a>>,
    /// The last tool list of each server, by the index of its entry. It is used if the connection to the server is
    /// lost, so that the execution can continue.
    offered: HashMap<usize, Arc<[Arc<ServerTool>]>>,
    /// The usage since the last call of `take_usage`.
    unbooked: Usage,
    /// The requests for which calls wait, by the positions of the calls.
    waits_for: BTreeMap<u32, Vec<PendingRequest>>,
}

/// The tool that a name refers to.
#[derive(Clone)]
enum Target<'a> {
    Declared(&'a ToolSettings, &'a ToolRunner, Option<&'a Value>),
    Member(&'a ToolSettings, &'a Arc<Server>, Arc<ServerTool>),
}

impl<'a> Target<'a> {
    fn settings(&self) -> &'a ToolSettings {
        match self {
            Self::Declared(settings, ..) | Self::Member(settings, ..) => settings,
        }
    }
}

impl<'a> ToolSession<'a> {
    pub(crate) fn new(toolset: &'a Toolset, execution: &'a Execution) -> Self {
        Self {
            toolset,
            execution,
            state: Mutex::default(),
            gate: toolset.gates.of(execution, toolset.max_parallel),
        }
    }

    async fn tool_specs(&self) -> Result<Arc<[ToolSpec]>, String> {
        let mut names = Names::default();
        let mut named = HashMap::new();
        let mut specs: Vec<ToolSpec> = Vec::new();
        for (at, entry) in self.toolset.tools.iter().enumerate() {
            match entry {
                ToolEntry::Declared {
                    settings,
                    description,
                    parameters,
                    output_schema,
                    tool_runner,
                } => {
                    let name = names.take(&settings.name);
                    named.insert(
                        name.clone(),
                        Target::Declared(settings, tool_runner, output_schema.as_deref()),
                    );
                    specs.push(ToolSpec {
                        name,
                        description: description.clone(),
                        parameters: parameters.clone(),
                    });
                }
                ToolEntry::Server {
                    settings,
                    member,
                    server,
                } => {
                    let offered = self.tools_of_server(at, settings, server).await?;
                    let mut found = offered
                        .iter()
                        .filter(|tool| member.as_ref().is_none_or(|one| tool.name == *one));
                    let first = found.next();
                    if let (None, Some(member)) = (first, member) {
                        let known: Vec<&str> = offered.iter().map(|tool| &*tool.name).collect();
                        return Err(format!(
                            "the server of `{}` has no tool `{member}`; it has: {}",
                            settings.name,
                            known.join(", ")
                        ));
                    }
                    for tool in first.into_iter().chain(found) {
                        let name = names.take(&format!("{}__{}", settings.name, tool.name));
                        named.insert(name.clone(), Target::Member(settings, server, Arc::clone(tool)));
                        specs.push(ToolSpec {
                            name,
                            description: tool.description.clone(),
                            parameters: tool.parameters.clone(),
                        });
                    }
                }
            }
        }
        self.state().named = named;
        Ok(specs.into())
    }

    /// The current tool list of the server; if the connection is lost, the last known list.
    async fn tools_of_server(
        &self,
        at: usize,
        settings: &ToolSettings,
        server: &Server,
    ) -> Result<Arc<[Arc<ServerTool>]>, String> {
        let offered = server.tools(settings.timeout, self.execution).await;
        let mut state = self.state();
        match (offered, state.offered.get(&at)) {
            (Ok(offered), _) => {
                state.offered.insert(at, Arc::clone(&offered));
                Ok(offered)
            }
            (Err(_), Some(before)) => Ok(Arc::clone(before)),
            (Err(error), None) => Err(format!("tool `{}`: {error}", settings.name)),
        }
    }

    /// Performs a call. An error: it waits for the answers to these requests.
    async fn perform(&self, call: &ToolCall) -> Result<Ended, Vec<PendingRequest>> {
        let target = self.state().named.get(&call.name).cloned();
        let (Some(target), Value::Object(arguments)) = (target, &call.arguments) else {
            return Ok(ToolEnd::Error(format!("there is no tool `{}`", call.name)).into());
        };
        let settings = target.settings();
        let shown = match &target {
            Target::Declared(..) => settings.name.to_string(),
            Target::Member(_, _, member) => format!("{}.{}", settings.name, member.name),
        };
        let permitted = self
            .toolset
            .permissions
            .ask(settings.permission, &shown, call, arguments, self.execution)
            .await;
        match permitted {
            Permitted::Yes => {}
            Permitted::No(refused) => return Ok(ToolEnd::Error(refused).into()),
            Permitted::Waits(request) => return Err(vec![*request]),
        }
        self.execution.records.call_started(&call.id).await;
        let own = match &target {
            Target::Declared(_, ToolRunner::Agent { timeout, .. }, _) => *timeout,
            _ => None,
        };
        let limit = own.map_or(settings.timeout, |own| own.min(settings.timeout));
        let ended: Ended = match target {
            Target::Declared(_, tool_runner, output_schema) => match output_schema.map(Schema::compile).transpose() {
                Ok(schema) => {
                    let end = self.run_declared(tool_runner, &shown, call, arguments, limit).await?;
                    matched(end, "`output_schema`", schema.as_ref()).into()
                }
                Err(error) => ToolEnd::Error(format!("the tool's `output_schema` cannot be used: {error}")).into(),
            },
            Target::Member(_, server, member) => {
                let asking = Asking {
                    permissions: &self.toolset.permissions,
                    execution: self.execution,
                    origin: call_origin(&shown, call, self.execution),
                    asked: AtomicUsize::new(0),
                    tool: &shown,
                };
                server.call(&member, arguments.clone(), limit, &asking).await
            }
        };
        Ok(Ended {
            end: capped(ended.end, settings.max_result_bytes.get()),
            ..ended
        })
    }

    async fn run_declared(
        &self,
        tool_runner: &ToolRunner,
        shown: &str,
        call: &ToolCall,
        arguments: &JsonMap,
        limit: Duration,
    ) -> Result<ToolEnd, Vec<PendingRequest>> {
        let nested = self.execution.ledger.open_call(&call.id, shown);
        let stopwatch = self.execution.stopwatch.inside();
        let caller = Execution {
            origin: call_origin(shown, call, self.execution),
            stopwatch: stopwatch.clone(),
            ledger: nested.ledger().clone(),
            remaining: self.execution.remaining.without(self.execution.ledger.usage()),
            ..self.execution.clone()
        };
        let (runner, execution): (&Arc<dyn Runner>, Execution) = match tool_runner {
            ToolRunner::Script(runner) => (runner, script::execution(caller, arguments)),
            ToolRunner::Agent {
                runner, name, config, ..
            } => (runner, agent::execution(caller, name, config, &call.id, arguments)),
            ToolRunner::Ensemble(runner) => (runner, ensemble::execution(caller, shown, &call.id, arguments)),
        };
        let observed = stopwatch.timeout(Some(limit), runner.execute(execution)).await;
        // A tool that starts afresh would ask once more.
        if let Ok(AttemptOutcome::NeedsInput(requests)) = &observed
            && (tool_runner.goes_on() || requests.iter().all(PendingRequest::is_permission))
        {
            return Err(requests.clone());
        }
        let left = nested.end().usage;
        let told = match &observed {
            Ok(AttemptOutcome::Finished(observation)) => observation.usage,
            _ => None,
        };
        self.book(told.or(left).unwrap_or_default());
        Ok(observed.map_or_else(|_| ToolEnd::Error(timeout_message(limit)), end_of))
    }

    /// Adds the usage of a tool call to the agent that made the call.
    fn book(&self, usage: Usage) {
        let mut state = self.state();
        state.unbooked = state.unbooked + usage.by_a_tool();
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tools for ToolSession<'_> {
    fn specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        Box::pin(self.tool_specs())
    }

    fn admit<'c>(&'c self, call: &'c ToolCall) -> BoxFuture<'c, Admission> {
        let exclusive = self.state().named.get(&call.name).map(Target::settings);
        Box::pin(self.gate.enter(exclusive.is_some_and(|settings| settings.exclusive)))
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        Box::pin(async move {
            match self.perform(&call).await {
                Ok(Ended { end, attachments }) => ToolCall {
                    attachments,
                    ..call.ended(end, 0.0)
                },
                Err(requests) => {
                    let at = self.execution.records.number_call(&call.name, &call.id).index;
                    self.state().waits_for.insert(at, requests);
                    call
                }
            }
        })
    }

    fn may_repeat(&self, call: &ToolCall) -> bool {
        let state = self.state();
        match state.named.get(&call.name) {
            Some(Target::Declared(settings, tool_runner, _)) => {
                settings.repeatable == Some(true) || tool_runner.goes_on()
            }
            Some(Target::Member(settings, _, member)) => settings.repeatable.unwrap_or(member.only_reads),
            None => true,
        }
    }

    fn waits_for(&self) -> Vec<PendingRequest> {
        self.state().waits_for.values().flatten().cloned().collect()
    }

    fn take_usage(&self) -> Usage {
        std::mem::take(&mut self.state().unbooked)
    }
}
