//! The runners of all agents, built with the models, programs, servers and tools that each kind of agent needs.
//!
//! Invariant: an ensemble in which an agent cannot run creates no run.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use ensemble_agents::agent::acp::{self, ExternalProgramPool};
use ensemble_agents::agent::chat::MessageSelector;
use ensemble_agents::agent::for_each::ForEachRunner;
use ensemble_agents::agent::kinds::generator::ResponseGenerator;
use ensemble_agents::agent::kinds::generator_runner::ScriptGeneratorRunner;
use ensemble_agents::agent::kinds::input::{AnswerQueue, InputRunner, InputRunnerOptions};
use ensemble_agents::agent::kinds::llm::{self, LlmAgentRunner};
use ensemble_agents::agent::kinds::nested_ensemble::NestedEnsembleRunner;
use ensemble_agents::agent::kinds::nested_inputs::NestedInputTemplates;
use ensemble_agents::agent::kinds::script::{self, ScriptTemplates};
use ensemble_agents::agent::mcp::McpServers;
use ensemble_agents::agent::output::schema::OutputSchema;
use ensemble_agents::agent::output::schema_check::SchemaCheckedRunner;
use ensemble_agents::agent::window::AgentWindow;
use ensemble_core::runner::Runner;
use ensemble_language::check::budget_without_price_finding;
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, PreparedResponses};
use ensemble_language::loader;
use ensemble_process::program::ScriptFolders;
use ensemble_project::ProjectError;

use crate::error::RunError;
use crate::options::replacements::AgentReplacements;
use crate::prepare::{PreparedEnsemble, collect_profiles};
use crate::review::refuse_untrusted_ensemble;
use crate::runners::external::build_external_agent;
use crate::runners::external_models::{describe_external_need, describe_remote_model, describe_unstubbed_server};
use crate::runners::sandboxes::build_sandbox;
use crate::runners::shared_parts::{
    AgentBuildContext, AgentBuildError, ModelPriceStatus, NestedEnsembleOpener, SharedRunServices,
};
use crate::runners::stubbed_model::build_stubbed_model;
use crate::runners::tools::{build_tool_agent_runner, build_toolset};
use crate::start::file_errors::{ExecutedParts, find_needed_file_errors};
use crate::start::secrets::register_ensemble_secrets;

/// The runners of all agents in declaration order, with the names of the simulated agents and with servers and prices.
#[derive(Default)]
pub(crate) struct ReadyAgents {
    /// One for each agent.
    pub(crate) runners: Vec<Arc<dyn Runner>>,
    /// Agents that a simulated model answers for.
    pub(crate) simulated_agents: Vec<Arc<str>>,
    /// Servers of tools, to be closed when the run is over.
    pub(crate) servers: Arc<McpServers>,
    /// Programs of external agents, to be ended when the run is over.
    pub(crate) programs: Arc<ExternalProgramPool>,
    /// The prices of the models, also of nested ensembles.
    pub(crate) prices: ModelPriceStatus,
}

/// A runner, and whether it uses a simulated model.
type BuiltRunner = (Arc<dyn Runner>, bool);

/// Builds the runners of all agents, after the checks of trust and files.
///
/// # Errors
///
/// All agents that cannot run, each with its position in the file.
pub(crate) fn build_all_agents(
    prepared: &PreparedEnsemble,
    shared: &SharedRunServices,
    open: &NestedEnsembleOpener<'_>,
) -> Result<ReadyAgents, RunError> {
    refuse_untrusted_ensemble(prepared, &shared.overrides, &shared.project)?;
    let ensemble = prepared.plan.ensemble();
    let nested_prices = Cell::default();
    let open = |named: &str, outer: &PreparedEnsemble, shared: &SharedRunServices| {
        let inner = open(named, outer, shared)?;
        nested_prices.set(inner.prices.max(nested_prices.get()));
        Ok(inner)
    };
    shared.input_questions.add_input_agents(ensemble, &shared.address);
    let profiles = collect_profiles(ensemble, &prepared.folder, shared.overrides.clone(), &shared.project)?;
    register_ensemble_secrets(ensemble, &profiles, &shared.host, shared.network.secrets());
    let maker = RunnerFactory {
        parts: AgentBuildContext {
            prepared,
            shared,
            profiles,
            places: ScriptFolders {
                ensemble_dir: prepared.folder.clone(),
                project_root: prepared.root.clone(),
            },
        },
        open: &open,
        built_runners: RefCell::default(),
        nested_prices: &nested_prices,
    };
    let mut ready = ReadyAgents {
        servers: shared.servers.clone(),
        programs: shared.programs.clone(),
        ..ReadyAgents::default()
    };
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let replacement = maker
            .agent_replacements()
            .and_then(|stand_ins| stand_ins.find_whole_agent_runner(agent));
        let built_runner = match replacement {
            Some(runner) => {
                shared.input_questions.mark_agent_unbuilt(agent);
                Ok((runner, false))
            }
            None => maker
                .get_or_build_runner(agent)
                .and_then(|made| wrap_in_for_each(agent, made, &shared.answers)),
        };
        match built_runner {
            Ok((runner, simulated)) => {
                ready.runners.push(runner);
                if simulated {
                    ready.simulated_agents.push(agent.name.clone());
                }
            }
            Err(unready) => findings.push(unready.into_finding(&Agent::route_at(at), agent)),
        }
    }
    if shared.checks_files {
        let executed_parts: Vec<ExecutedParts> = ensemble
            .agents
            .iter()
            .map(|agent| maker.decide_executed_parts(agent))
            .collect();
        let file_errors = find_needed_file_errors(&maker.parts, &executed_parts);
        let is_same = |one: &Finding, other: &Finding| {
            one.at == other.at || (one.code == other.code && one.at.route == other.at.route)
        };
        let is_reported = |error: &Finding| findings.iter().any(|finding| is_same(finding, error));
        let new_errors: Vec<Finding> = file_errors.into_iter().filter(|error| !is_reported(error)).collect();
        findings.extend(new_errors);
    }
    ready.prices = maker.find_run_prices();
    if findings.is_empty() {
        findings.extend(check_budget_price(ensemble, ready.prices));
    }
    if findings.is_empty() {
        return Ok(ready);
    }
    let document = prepared.loaded.document.as_ref();
    Err(ProjectError::Invalid(loader::locate_findings(&prepared.source, document, &findings)).into())
}

/// Returns a finding if the ensemble has a `max_cost`, but no model of the run has a price.
fn check_budget_price(ensemble: &Ensemble, prices: ModelPriceStatus) -> Option<Finding> {
    ensemble
        .limits
        .max_cost
        .filter(|_| prices == ModelPriceStatus::Missing)?;
    Some(budget_without_price_finding())
}

/// A factory of runners that builds each runner once, because an agent can also be a tool of other agents.
struct RunnerFactory<'a> {
    parts: AgentBuildContext<'a>,
    open: &'a NestedEnsembleOpener<'a>,
    built_runners: RefCell<HashMap<Arc<str>, BuiltRunner>>,
    /// The prices of the models of nested ensembles that were opened.
    nested_prices: &'a Cell<ModelPriceStatus>,
}

impl RunnerFactory<'_> {
    /// Returns the runner of the agent, which is built on the first call, or its replacement.
    fn get_or_build_runner(&self, agent: &Agent) -> Result<BuiltRunner, AgentBuildError> {
        if let Some(cached_runner) = self.built_runners.borrow().get(&agent.name) {
            return Ok(cached_runner.clone());
        }
        let (runner, simulated) = match self.find_replacing_runner(agent) {
            Some(runner) => {
                self.parts.shared.input_questions.mark_agent_unbuilt(agent);
                (runner, false)
            }
            None => self.build_own_runner(agent)?,
        };
        let runner = match self.agent_replacements() {
            Some(stand_ins) => stand_ins.wrap_execution_runner(agent, runner),
            None => runner,
        };
        let built_runner = (wrap_in_schema_check(agent, runner), simulated);
        self.built_runners
            .borrow_mut()
            .insert(agent.name.clone(), built_runner.clone());
        Ok(built_runner)
    }

    /// Returns the status of the prices of all models that the run can call, including nested ensembles.
    fn find_run_prices(&self) -> ModelPriceStatus {
        let ensemble = self.parts.prepared.plan.ensemble();
        let of_agents = ensemble.agents.iter().flat_map(|agent| {
            let choices = ensemble.list_agent_models(agent).into_iter();
            choices.map(|choice| self.find_model_price(agent, &choice))
        });
        let own_prices = match self.agent_replacements() {
            Some(stand_ins) if stand_ins.can_have_costs() => ModelPriceStatus::Known,
            _ => of_agents.max().unwrap_or_default(),
        };
        own_prices.max(self.nested_prices.get())
    }

    /// Returns the status of the price of one model of an agent.
    fn find_model_price(&self, agent: &Agent, choice: &ModelChoice) -> ModelPriceStatus {
        let resolved = self.parts.profiles.resolve_chain(choice);
        let has_price = resolved.is_ok_and(|all| all.chain.iter().any(|link| link.profile.cost.is_some()));
        match choice {
            ModelChoice::Acp(_) => ModelPriceStatus::Known,
            _ if has_price => ModelPriceStatus::Known,
            _ if self.is_agent_replaced(agent) => ModelPriceStatus::NoModel,
            _ => ModelPriceStatus::Missing,
        }
    }

    /// Returns whether a stub replaces the agent, or each of its executions.
    fn is_agent_replaced(&self, agent: &Agent) -> bool {
        self.agent_replacements().is_some_and(|stand_ins| {
            stand_ins.find_whole_agent_runner(agent).is_some() || stand_ins.find_execution_runner(agent).is_some()
        })
    }

    /// Returns the parts of the agent that the run executes.
    fn decide_executed_parts(&self, agent: &Agent) -> ExecutedParts {
        let Some(stand_ins) = self.agent_replacements() else {
            return ExecutedParts::All;
        };
        let has_responder =
            self.find_responder_profile(agent).is_some() || self.find_response_generator(agent).is_some();
        match &agent.kind {
            _ if self.is_agent_replaced(agent) => ExecutedParts::Nothing,
            _ if !stand_ins.checks_unreplaced_files() && self.find_replacing_runner(agent).is_some() => {
                ExecutedParts::Nothing
            }
            AgentKind::Script { .. } if has_responder => ExecutedParts::Nothing,
            AgentKind::Input(_) if has_responder || stand_ins.replaces_operator(agent) => {
                ExecutedParts::WithoutResponses
            }
            AgentKind::Llm(_) if stand_ins.find_reply_stub(agent).is_some() => ExecutedParts::WithoutModel,
            _ => ExecutedParts::All,
        }
    }

    /// Returns the replacements of agents, if the run has any.
    fn agent_replacements(&self) -> Option<&dyn AgentReplacements> {
        self.parts.shared.replacements.as_deref()
    }

    /// Returns the runner that replaces the agent, if there is a stub, or if the agent needs an external resource that is not available.
    fn find_replacing_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let stand_ins = self.agent_replacements()?;
        let needs = || match (self.find_responder_profile(agent), &agent.kind) {
            _ if stand_ins.replaces_operator(agent) || self.find_response_generator(agent).is_some() => None,
            (Some(profile), _) => describe_remote_model(&ModelChoice::Profile(profile), &self.parts),
            (None, AgentKind::Llm(llm)) if stand_ins.find_reply_stub(agent).is_some() => {
                describe_unstubbed_server(agent, llm, &self.parts)
            }
            (None, _) => describe_external_need(agent, &self.parts),
        };
        stand_ins
            .find_execution_runner(agent)
            .or_else(|| stand_ins.find_required_replacement(agent, needs()?))
    }

    /// Returns the model profile that answers for this agent.
    fn find_responder_profile(&self, agent: &Agent) -> Option<Arc<str>> {
        self.replacements_for_answering(agent)?.find_responder_profile(agent)
    }

    /// Returns the generator that answers for this agent.
    fn find_response_generator(&self, agent: &Agent) -> Option<Arc<dyn ResponseGenerator>> {
        self.replacements_for_answering(agent)?.find_response_generator(agent)
    }

    /// Returns the replacements if a model or a generator can answer for an agent of this kind.
    fn replacements_for_answering(&self, agent: &Agent) -> Option<&dyn AgentReplacements> {
        let is_possible = matches!(agent.kind, AgentKind::Input(_) | AgentKind::Script { .. });
        self.agent_replacements().filter(|_| is_possible)
    }

    /// Builds the runner of the agent itself, with its model, tools and servers.
    ///
    /// # Errors
    ///
    /// The agent cannot run on this machine.
    fn build_own_runner(&self, agent: &Agent) -> Result<BuiltRunner, AgentBuildError> {
        let (parts, shared) = (&self.parts, self.parts.shared);
        Ok(match &agent.kind {
            AgentKind::Script { .. } if let Some(generator) = self.find_response_generator(agent) => (
                Arc::new(ScriptGeneratorRunner::for_script_agent(agent, generator)?),
                false,
            ),
            AgentKind::Script { .. } if let Some(profile) = self.find_responder_profile(agent) => {
                let model = parts.connect_model(&ModelChoice::Profile(profile))?;
                let runner = LlmAgentRunner::for_script_agent(agent, model, shared.live_output.clone())?;
                let simulated = runner.is_simulated();
                (Arc::new(runner), simulated)
            }
            AgentKind::Script {
                script,
                args,
                stdin,
                env,
            } => {
                let bounds = parts.child_process_limits(env, build_sandbox(agent.sandbox.as_deref(), parts)?)?;
                let templates = ScriptTemplates::compile_templates(agent, args, stdin.as_deref())?;
                let runner = script::build_checked_runner(script, templates, &parts.places, bounds)?;
                (runner, false)
            }
            AgentKind::Llm(llm) if let Some(acp) = llm.acp_agent() => {
                let external = build_external_agent(agent, llm, acp, parts)?;
                let runner = acp::build_external_runner(agent, llm, external, shared.live_output.clone())?;
                let simulated = runner.is_simulated();
                (Arc::new(runner), simulated)
            }
            AgentKind::Llm(llm) => {
                let own_model = || match self.agent_replacements().and_then(|all| all.find_reply_stub(agent)) {
                    Some(stub) => Ok(build_stubbed_model(llm, stub, parts)),
                    None => parts.connect_model(&llm.model).map_err(AgentBuildError::from),
                };
                let model = own_model()?;
                let window = parts.build_context_window(llm, &model)?;
                let sums_up = window.as_ref().is_some_and(AgentWindow::has_simulated_summarizer);
                let agent_tools =
                    build_toolset(agent, llm, parts, self.open, &|agent| self.get_or_build_runner(agent))?
                        .with_summarizers(agent, llm, parts, &own_model)?;
                let wiring = llm::LlmRunnerOptions {
                    tool_source: agent_tools
                        .toolset
                        .map(|toolset| Arc::new(toolset) as Arc<dyn llm::ExecutionToolSource>),
                    live_output: shared.live_output.clone(),
                    places: Some(parts.places.clone()),
                    window: window.map(|window| Arc::new(window) as Arc<dyn MessageSelector>),
                    ..llm::LlmRunnerOptions::for_model(model)
                };
                let runner = LlmAgentRunner::new(agent, llm, wiring)?;
                let simulated = runner.is_simulated() || sums_up || agent_tools.is_simulated;
                (Arc::new(runner), simulated)
            }
            AgentKind::Input(spec) => {
                let wiring = InputRunnerOptions {
                    answers: shared.answers.clone(),
                    operator: shared.operator.clone(),
                    load: &parts.script_loader(),
                    connect: &|profile| parts.connect_model(&ModelChoice::Profile(profile.clone())),
                    agent_names: parts
                        .prepared
                        .plan
                        .ensemble()
                        .agents
                        .iter()
                        .map(|one| one.name.clone())
                        .collect(),
                    generator: self.find_response_generator(agent),
                };
                let mut spec = spec.clone();
                if self
                    .agent_replacements()
                    .is_some_and(|all| all.replaces_operator(agent))
                {
                    spec.responses = None;
                } else if let Some(profile) = self.find_responder_profile(agent) {
                    spec.responses = Some(PreparedResponses::Profile(profile));
                }
                let runner = InputRunner::new(agent, &spec, wiring)?;
                let simulated = runner.is_simulated();
                (Arc::new(runner), simulated)
            }
            AgentKind::Ensemble {
                ensemble,
                prompt,
                inputs,
            } => {
                let mut shared = shared.for_nested_agent(&agent.name);
                if let Some(outside) = &mut shared.inner_run_driver {
                    outside.limit = agent.timeout;
                }
                let inner = (self.open)(ensemble, parts.prepared, &shared)?;
                let inputs = NestedInputTemplates::compile_templates(agent, prompt.as_deref(), inputs)?;
                let runner = NestedEnsembleRunner::for_agent(inner.conversations, inputs);
                (Arc::new(runner), inner.is_simulated)
            }
            AgentKind::Tool { used, arguments } => (build_tool_agent_runner(agent, used, arguments, parts)?, false),
        })
    }
}

/// Wraps the runner of an agent with `for_each` in a runner that executes the parts.
fn wrap_in_for_each(
    agent: &Agent,
    (runner, simulated): BuiltRunner,
    answers: &Arc<AnswerQueue>,
) -> Result<BuiltRunner, AgentBuildError> {
    let Some(spec) = &agent.for_each else {
        return Ok((runner, simulated));
    };
    Ok((
        Arc::new(ForEachRunner::new(agent, spec, runner, answers.clone())?),
        simulated,
    ))
}

/// Wraps the runner of an agent with an output schema in a runner that checks the outputs.
fn wrap_in_schema_check(agent: &Agent, runner: Arc<dyn Runner>) -> Arc<dyn Runner> {
    let is_reply = matches!(agent.kind, AgentKind::Llm(_));
    match agent.output_schema.as_ref().map(OutputSchema::compile) {
        Some(Ok(schema)) => Arc::new(SchemaCheckedRunner::new(runner, schema, is_reply)),
        // The loader has refused schemas that do not compile.
        Some(Err(_)) | None => runner,
    }
}
