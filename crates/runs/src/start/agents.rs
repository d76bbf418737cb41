//! One runner for each agent: here every kind gets what it needs from outside.
//!
//! Invariant: an ensemble in which an agent cannot run creates no run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use ensemble_agents::agent::acp::{self, Programs};
use ensemble_agents::agent::chat::Window;
use ensemble_agents::agent::for_each::ForEachRunner;
use ensemble_agents::agent::kinds::input::{InputOptions, InputRunner};
use ensemble_agents::agent::kinds::llm::{self, LlmRunner};
use ensemble_agents::agent::kinds::nested_ensemble::SubEnsembleRunner;
use ensemble_agents::agent::kinds::nested_inputs::InnerInputs;
use ensemble_agents::agent::kinds::script;
use ensemble_agents::agent::mcp::Servers;
use ensemble_agents::agent::output::schema::Schema;
use ensemble_agents::agent::output::schema_checked::SchemaCheckedRunner;
use ensemble_agents::agent::window::AgentWindow;
use ensemble_core::runner::Runner;
use ensemble_language::ensemble::{Agent, AgentKind, ModelChoice, Responses};
use ensemble_language::loader;
use ensemble_process::program::Places;
use ensemble_project::ProjectError;

use crate::error::RunError;
use crate::options::replacements::StandIns;
use crate::prepare::{Prepared, profiles};
use crate::review::check_trust;
use crate::runners::external::external;
use crate::runners::external_models::needed;
use crate::runners::sandboxes::sandbox;
use crate::runners::shared_parts::{OpenInner, Parts, Shared, Unready};
use crate::runners::tools::{called_tool, toolset_of};
use crate::start::secrets::learn;

/// Runners in declaration order, and whose model is simulated.
#[derive(Default)]
pub(crate) struct ReadyAgents {
    /// One for each agent.
    pub(crate) runners: Vec<Arc<dyn Runner>>,
    /// Agents that a simulated model answers for.
    pub(crate) simulated: Vec<Arc<str>>,
    /// Servers of tools, to be closed when the run is over.
    pub(crate) servers: Arc<Servers>,
    /// Programs of external agents, to be ended when the run is over.
    pub(crate) programs: Arc<Programs>,
}

/// A runner, and whether a simulated model takes part in it.
type Made = (Arc<dyn Runner>, bool);

/// Makes every agent ready to run.
///
/// # Errors
/// All agents that cannot run, each at its place in the file.
pub(crate) fn ready_agents(prepared: &Prepared, shared: &Shared, open: &OpenInner) -> Result<ReadyAgents, RunError> {
    check_trust(prepared, &shared.overrides, &shared.project)?;
    let ensemble = prepared.plan.ensemble();
    shared.asking.add(ensemble, &shared.address);
    let profiles = profiles(ensemble, &prepared.folder, shared.overrides.clone(), &shared.project)?;
    learn(ensemble, &profiles, &shared.host, shared.network.secrets());
    let maker = Maker {
        parts: Parts {
            prepared,
            shared,
            profiles,
            places: Places {
                ensemble_dir: prepared.folder.clone(),
                project_root: prepared.root.clone(),
            },
        },
        open,
        made: RefCell::default(),
    };
    let mut ready = ReadyAgents {
        servers: shared.servers.clone(),
        programs: shared.programs.clone(),
        ..ReadyAgents::default()
    };
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let whole = maker.stand_ins().and_then(|stand_ins| stand_ins.whole(agent));
        let made = match whole {
            Some(runner) => {
                shared.asking.leave_out(agent);
                Ok((runner, false))
            }
            None => maker.made(agent).and_then(|made| with_parts(agent, made)),
        };
        match made {
            Ok((runner, simulated)) => {
                ready.runners.push(runner);
                if simulated {
                    ready.simulated.push(agent.name.clone());
                }
            }
            Err(unready) => findings.push(unready.finding(&Agent::route(at), agent)),
        }
    }
    if findings.is_empty() {
        return Ok(ready);
    }
    let document = prepared.loaded.document.as_ref();
    Err(ProjectError::Invalid(loader::diagnostics(&prepared.source, document, &findings)).into())
}

/// Makes runners, each once: an agent may be a tool of others too.
struct Maker<'a> {
    parts: Parts<'a>,
    open: &'a OpenInner,
    made: RefCell<HashMap<Arc<str>, Made>>,
}

impl Maker<'_> {
    /// The agent's runner, made at the first call. Agents are no tools of each other in a circle.
    fn made(&self, agent: &Agent) -> Result<Made, Unready> {
        if let Some(made) = self.made.borrow().get(&agent.name) {
            return Ok(made.clone());
        }
        let (runner, simulated) = match self.stand_in(agent) {
            Some(runner) => {
                self.parts.shared.asking.leave_out(agent);
                (runner, false)
            }
            None => self.runner(agent)?,
        };
        let made = (guard(agent, runner), simulated);
        self.made.borrow_mut().insert(agent.name.clone(), made.clone());
        Ok(made)
    }

    fn stand_ins(&self) -> Option<&dyn StandIns> {
        self.parts.shared.stand_ins.as_deref()
    }

    /// The runner in the place of the agent's own, if there is one, or if its own needs something from outside.
    fn stand_in(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let stand_ins = self.stand_ins()?;
        stand_ins
            .runner(agent)
            .or_else(|| stand_ins.missing(agent, needed(agent, &self.parts)?))
    }

    fn runner(&self, agent: &Agent) -> Result<Made, Unready> {
        let (parts, shared) = (&self.parts, self.parts.shared);
        Ok(match &agent.kind {
            AgentKind::Script { script, env } => {
                let bounds = parts.bounds(env, sandbox(agent.sandbox.as_deref(), parts)?)?;
                (script::runner(script, &parts.places, bounds), false)
            }
            AgentKind::Llm(llm) if let Some(acp) = llm.acp() => {
                let external = external(agent, llm, acp, parts)?;
                let runner = acp::runner(agent, llm, external, shared.live_output.clone())?;
                let simulated = runner.is_simulated();
                (Arc::new(runner), simulated)
            }
            AgentKind::Llm(llm) => {
                let model = parts.connect(&llm.model)?;
                let window = parts.window(llm, &model)?;
                let sums_up = window.as_ref().is_some_and(AgentWindow::is_simulated);
                let agent_tools = toolset_of(&agent.name, llm, parts, self.open, &|agent| self.made(agent))?;
                let wiring = llm::LlmOptions {
                    tool_source: agent_tools.toolset.map(|toolset| toolset as Arc<dyn llm::ToolSource>),
                    live_output: shared.live_output.clone(),
                    places: Some(parts.places.clone()),
                    window: window.map(|window| Arc::new(window) as Arc<dyn Window>),
                    ..llm::LlmOptions::of(model)
                };
                let runner = LlmRunner::new(agent, llm, wiring)?;
                let simulated = runner.is_simulated() || sums_up || agent_tools.simulated;
                (Arc::new(runner), simulated)
            }
            AgentKind::Input(spec) => {
                let wiring = InputOptions {
                    answers: shared.answers.clone(),
                    operator: shared.operator.clone(),
                    load: &parts.load(),
                    connect: &|profile| parts.connect(&ModelChoice::Profile(profile.clone())),
                };
                let mut spec = spec.clone();
                if let Some(profile) = self.stand_ins().and_then(|stand_ins| stand_ins.responder(agent)) {
                    spec.responses = Some(Responses::Profile(profile));
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
                let mut shared = shared.within(&agent.name);
                if let Some(outside) = &mut shared.elsewhere {
                    outside.limit = agent.timeout;
                }
                let inner = (self.open)(ensemble, parts.prepared, &shared)?;
                let inputs = InnerInputs::compile(agent, prompt.as_deref(), inputs)?;
                let runner = SubEnsembleRunner::agent(inner.conversations, inputs);
                (Arc::new(runner), inner.simulated)
            }
            AgentKind::Tool { used, arguments } => (called_tool(agent, used, arguments, parts)?, false),
        })
    }
}

/// Puts the parts of an agent with `for_each` round its runner.
fn with_parts(agent: &Agent, (runner, simulated): Made) -> Result<Made, Unready> {
    let Some(spec) = &agent.for_each else {
        return Ok((runner, simulated));
    };
    Ok((Arc::new(ForEachRunner::new(agent, spec, runner)?), simulated))
}

/// Puts the agent's schema round its runner.
fn guard(agent: &Agent, runner: Arc<dyn Runner>) -> Arc<dyn Runner> {
    let is_reply = matches!(agent.kind, AgentKind::Llm(_));
    match agent.output_schema.as_ref().map(Schema::compile) {
        Some(Ok(schema)) => Arc::new(SchemaCheckedRunner::new(runner, schema, is_reply)),
        // The loader has refused schemas that do not compile.
        Some(Err(_)) | None => runner,
    }
}
