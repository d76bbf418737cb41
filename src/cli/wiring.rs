//! One runner for each agent: here every kind meets what it needs from outside.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::AnsweringArgs;
use super::error::CliError;
use super::network::network;
use super::prepare::{Prepared, profiles};
use super::project::Surroundings;
use super::run::Showing;
use super::sub_ensemble::{Inner, inner};
use super::tools::equip;
use super::{given, watchdog};
use ensemble_agents::agent::Runner;
use ensemble_agents::agent::dialogue::Window;
use ensemble_agents::agent::guarded::Guarded;
use ensemble_agents::agent::input::{Answers, InputRunner, Person, Wiring};
use ensemble_agents::agent::llm::{self, BuildError, LlmRunner};
use ensemble_agents::agent::process::{Bounds, Watchdog};
use ensemble_agents::agent::schema::Schema;
use ensemble_agents::agent::script::{self, Places};
use ensemble_agents::agent::sub_ensemble::SubEnsembleRunner;
use ensemble_agents::agent::tool::Permits;
use ensemble_agents::agent::tool::mcp::Servers;
use ensemble_agents::agent::window::{AgentWindow, Outside};
use ensemble_agents::model::{Cache, Model, Network, Override, ProfileError, Profiles};
use ensemble_core::thread::Listener;
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, Llm, ModelChoice};
use ensemble_language::loader;
use ensemble_language::loader::codes::NOT_READY;
use ensemble_language::source::Route;
use ensemble_runs::journal::Durability;

/// Most bytes that a child process may write to stdout: 10 MiB.
const OUTPUT_CAP: usize = 10 << 20;

/// What all agents of a run share.
#[derive(Clone)]
pub(super) struct Shared {
    /// Answers given with the run.
    pub answers: Arc<Answers>,
    /// Who is asked.
    pub person: Arc<dyn Person>,
    /// Who hears agents speak.
    pub listener: Arc<dyn Listener>,
    /// Which tools may be called.
    pub permits: Arc<Permits>,
    /// Servers of tools.
    pub servers: Arc<Servers>,
    /// `--model`.
    pub overrides: Vec<Override>,
    /// The program's surroundings.
    pub surroundings: Arc<Surroundings>,
    /// The ensembles that this one is an agent of, outermost first.
    pub outer: Vec<PathBuf>,
    /// How surely inner journals are kept.
    pub durability: Durability,
    /// Replies that need not be asked for again.
    pub cache: Option<Cache>,
    /// Who kills child processes should we be killed.
    pub watchdog: Option<Arc<Watchdog>>,
    /// The way to models.
    pub network: Network,
}

impl Shared {
    /// What the command line gives the agents of a run; `models` are the overrides to use.
    ///
    /// # Errors
    /// Answers or overrides that cannot be read, or answers for agents that ask nobody.
    pub(super) fn given(
        answering: &AnsweringArgs,
        models: &[String],
        durability: Durability,
        showing: &Showing,
        prepared: &Prepared,
        surroundings: &Surroundings,
    ) -> Result<Self, CliError> {
        let answers = given::answers(answering, surroundings)?;
        given::check_answers(&answers, prepared.plan.ensemble())?;
        given::check_tools(&answering.allow_tool, prepared.plan.ensemble())?;
        let file = surroundings.folder.join(prepared.source.name());
        let watchdog = watchdog::of_this_run();
        Ok(Self {
            answers: Arc::new(answers),
            permits: Arc::new(Permits::new(
                Arc::clone(&showing.person),
                answering.allow_tool.iter().cloned(),
            )),
            servers: Arc::new(Servers::new(watchdog.clone())),
            person: Arc::clone(&showing.person),
            listener: Arc::clone(&showing.listener),
            overrides: given::overrides(models)?,
            surroundings: Arc::new(surroundings.clone()),
            outer: vec![file.canonicalize().unwrap_or(file)],
            durability,
            cache: given::cache(answering, surroundings)?,
            watchdog,
            network: network(),
        })
    }
}

impl Shared {
    /// For the ensemble that this agent stands for.
    fn within(&self, agent: &str) -> Self {
        Self {
            cache: self.cache.as_ref().map(|cache| cache.within(agent)),
            ..self.clone()
        }
    }
}

/// Runners in declaration order, and whose model is simulated.
#[derive(Default)]
pub(super) struct Wired {
    /// One for each agent.
    pub runners: Vec<Arc<dyn Runner>>,
    /// Agents that a simulated model answers for.
    pub simulated: Vec<Arc<str>>,
    /// Servers of tools, to be closed when the run is over.
    pub servers: Arc<Servers>,
}

/// Makes every agent ready to run.
///
/// # Errors
/// All agents that cannot be, each at its place in the file.
pub(super) fn wire(prepared: &Prepared, shared: &Shared) -> Result<Wired, CliError> {
    let ensemble = prepared.plan.ensemble();
    let profiles = profiles(
        ensemble,
        &prepared.folder,
        shared.overrides.clone(),
        &shared.surroundings,
    )?;
    let wires = Wires {
        prepared,
        shared,
        profiles,
        places: Places {
            ensemble_dir: prepared.folder.clone(),
            project_root: prepared.root.clone(),
        },
        made: RefCell::default(),
    };
    let mut wired = Wired {
        servers: shared.servers.clone(),
        ..Wired::default()
    };
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        match wires.made(agent) {
            Ok((runner, simulated)) => {
                wired.runners.push(runner);
                if simulated {
                    wired.simulated.push(agent.name.clone());
                }
            }
            Err(unready) => findings.push(unready.finding(&Agent::route(at), agent)),
        }
    }
    if findings.is_empty() {
        return Ok(wired);
    }
    let document = prepared.loaded.document.as_ref();
    Err(CliError::Invalid(loader::diagnostics(
        &prepared.source,
        document,
        &findings,
    )))
}

/// What the agents of one ensemble are wired with.
pub(super) struct Wires<'a> {
    /// The ensemble.
    pub prepared: &'a Prepared,
    /// What all agents share.
    pub shared: &'a Shared,
    /// Where scripts are sought.
    pub places: Places,
    profiles: Profiles,
    /// Runners that are ready: an agent may be a tool of others too.
    made: RefCell<HashMap<Arc<str>, Made>>,
}

/// A runner, and whether a simulated model takes part in it.
type Made = (Arc<dyn Runner>, bool);

/// Why an agent cannot run here.
pub(super) struct Unready {
    message: String,
    help: Option<String>,
    /// The key of the agent that is to blame; `None`: the one that says what it runs.
    key: Option<&'static str>,
}

impl Wires<'_> {
    /// The agent's runner, made at the first call. Agents are no tools of each other in a circle.
    pub(super) fn made(&self, agent: &Agent) -> Result<Made, Unready> {
        if let Some(made) = self.made.borrow().get(&agent.name) {
            return Ok(made.clone());
        }
        let (runner, simulated) = self.runner(agent)?;
        let made = (guard(agent, runner), simulated);
        self.made.borrow_mut().insert(agent.name.clone(), made.clone());
        Ok(made)
    }

    fn runner(&self, agent: &Agent) -> Result<(Arc<dyn Runner>, bool), Unready> {
        Ok(match &agent.kind {
            AgentKind::Script { script } => (script::runner(script, &self.places, self.bounds()), false),
            AgentKind::Llm(llm) => {
                let model = self.connect(&llm.model)?;
                let window = self.window(llm, &model)?;
                let sums_up = window.as_ref().is_some_and(AgentWindow::is_simulated);
                let equipment = equip(llm, self)?;
                let wiring = llm::Wiring {
                    toolbox: equipment.kit.map(|kit| kit as Arc<dyn llm::Toolbox>),
                    listener: self.shared.listener.clone(),
                    window: window.map(|window| Arc::new(window) as Arc<dyn Window>),
                    ..llm::Wiring::of(model)
                };
                let runner = LlmRunner::new(agent, llm, wiring)?;
                let simulated = runner.is_simulated() || sums_up || equipment.simulated;
                (Arc::new(runner), simulated)
            }
            AgentKind::Input(spec) => {
                let wiring = Wiring {
                    answers: self.shared.answers.clone(),
                    person: self.shared.person.clone(),
                    load: &self.load(),
                    connect: &|profile| self.connect(&ModelChoice::Profile(profile.clone())),
                };
                let runner = InputRunner::new(agent, spec, wiring)?;
                let simulated = runner.is_simulated();
                (Arc::new(runner), simulated)
            }
            AgentKind::Ensemble { ensemble } => {
                let Inner {
                    conversations,
                    simulated,
                } = inner(ensemble, self.prepared, &self.shared.within(&agent.name))?;
                (Arc::new(SubEnsembleRunner(conversations)), simulated)
            }
        })
    }

    /// What no child process may exceed.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            output_cap: OUTPUT_CAP,
            watchdog: self.shared.watchdog.clone(),
        }
    }

    fn connect(&self, choice: &ModelChoice) -> Result<Model, ProfileError> {
        let model = Model::connect(&self.profiles.resolve(choice)?, &self.load(), &self.shared.network)?;
        Ok(match &self.shared.cache {
            // What the cache has needs no key.
            Some(cache) => model.cached(cache),
            None => {
                model.check_keys()?;
                model
            }
        })
    }

    /// What keeps the agent's thread within its context window.
    fn window(&self, llm: &Llm, model: &Model) -> Result<Option<AgentWindow>, Unready> {
        let Some(window) = &llm.context_window else {
            return Ok(None);
        };
        let link = model.profiles().next();
        let outside = Outside {
            model: &llm.model,
            model_name: link.map_or("", |link| &link.profile.model),
            load: &self.load(),
            connect: &|choice| self.connect(choice),
        };
        Ok(Some(AgentWindow::new(window, &outside)?))
    }

    /// Reads a script that the ensemble names, from where scripts stand.
    fn load(&self) -> impl Fn(&str) -> Result<String, String> + Send + Sync + use<> {
        let Places {
            ensemble_dir,
            project_root: root,
        } = self.places.clone();
        move |name| {
            let places = [
                ensemble_dir.join(name),
                root.join(name),
                root.join("scripts").join(name),
            ];
            let found = places.iter().find(|place| place.is_file());
            let path = found.ok_or_else(|| format!("there is no such file; looked for {}", listed(&places, &root)))?;
            std::fs::read_to_string(path).map_err(|error| error.to_string())
        }
    }
}

fn listed(places: &[PathBuf], root: &Path) -> String {
    let shown = |place: &PathBuf| place.strip_prefix(root).unwrap_or(place).display().to_string();
    let mut shown: Vec<String> = places.iter().map(shown).collect();
    shown.dedup();
    shown.join(", ")
}

/// Puts the agent's schema round its runner.
fn guard(agent: &Agent, runner: Arc<dyn Runner>) -> Arc<dyn Runner> {
    let is_reply = matches!(agent.kind, AgentKind::Llm(_));
    match agent.output_schema.as_ref().map(Schema::compile) {
        Some(Ok(schema)) => Arc::new(Guarded::new(runner, schema, is_reply)),
        // The loader has refused schemas that do not compile.
        Some(Err(_)) | None => runner,
    }
}

impl Unready {
    /// With nothing more to say.
    pub(super) fn new(message: String) -> Self {
        Self {
            message,
            help: None,
            key: None,
        }
    }

    /// With advice.
    pub(super) fn with_help(self, help: String) -> Self {
        Self {
            help: Some(help),
            ..self
        }
    }

    /// Because of that tool.
    pub(super) fn of_tool(self, tool: &str) -> Self {
        Self {
            message: format!("tool `{tool}`: {}", self.message),
            key: Some("tools"),
            ..self
        }
    }

    fn finding(self, route: &Route, agent: &Agent) -> Finding {
        let key = match &agent.kind {
            AgentKind::Script { .. } => "script",
            AgentKind::Llm(llm) => match llm.model {
                ModelChoice::Profile(_) => "model_profile",
                ModelChoice::Model { .. } => "model",
            },
            AgentKind::Input(_) => "input",
            AgentKind::Ensemble { .. } => "ensemble",
        };
        let mut finding = Finding::error(
            NOT_READY,
            route.key(self.key.unwrap_or(key)).value(),
            format!("{}: {}", agent.name, self.message),
        );
        finding.help = self.help;
        finding
    }
}

impl From<BuildError> for Unready {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Profile(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl From<ProfileError> for Unready {
    fn from(error: ProfileError) -> Self {
        Self {
            help: error.help(),
            ..Self::new(error.to_string())
        }
    }
}

impl From<CliError> for Unready {
    fn from(error: CliError) -> Self {
        Self::new(error.render(false).trim_end().trim_start_matches("error: ").to_owned())
    }
}
