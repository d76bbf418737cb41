//! What the agents of one ensemble are made of: profiles, places of scripts, and what all agents of a run share.
//!
//! Invariant: an agent that cannot run is reported at its place in the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_agents::agent::acp::Programs;
use ensemble_agents::agent::build_error::BuildError;
use ensemble_agents::agent::kinds::input::AnswerQueue;
use ensemble_agents::agent::kinds::nested_ensemble::Conversations;
use ensemble_agents::agent::mcp::Servers;
use ensemble_agents::agent::tools::ToolPermissions;
use ensemble_agents::agent::window::{AgentWindow, WindowResources, of_model, room};
use ensemble_core::operator::Operator;
use ensemble_core::request::RequestAddress;
use ensemble_core::store::Durability;
use ensemble_core::thread::LiveOutput;
use ensemble_language::diagnostic::Code;
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, Llm, ModelChoice, Setting};
use ensemble_language::loader::codes::{NO_SANDBOX, NOT_READY};
use ensemble_language::profiles::{Override, ProfileError, Profiles};
use ensemble_language::source::Route;
use ensemble_models::{Cache, Model, Network};
use ensemble_process::confine::Sandbox;
use ensemble_process::program::Places;
use ensemble_process::{Bounds, Environment, Watchdog};
use ensemble_scripts::regular_files::{LARGEST_SCRIPT, read_text};

use crate::drive::client_servers::ClientServers;
use crate::drive::events::Hub;
use crate::drive::host::Host;
use crate::error::RunError;
use crate::options::arguments::Asking;
use crate::options::nested_driver::Outside;
use crate::options::replacements::StandIns;
use crate::prepare::Prepared;
use crate::project::Project;

/// Most bytes that a child process may write to stdout: 10 MiB.
const OUTPUT_CAP: usize = 10 << 20;

/// The services that all agents of a run share, those of nested runs included.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Answers given with the run.
    pub(crate) answers: Arc<AnswerQueue>,
    /// Which agents ask.
    pub(crate) asking: Arc<Asking>,
    /// Who is asked.
    pub(crate) operator: Arc<dyn Operator>,
    /// Who gets live pieces.
    pub(crate) live_output: Arc<dyn LiveOutput>,
    /// Subscribers of the run.
    pub(crate) hub: Hub,
    /// Which tools may be called.
    pub(crate) permissions: Arc<ToolPermissions>,
    /// Servers of tools.
    pub(crate) servers: Arc<Servers>,
    /// Servers of tools that were given with the run.
    pub(crate) client_servers: Arc<ClientServers>,
    /// Programs of external agents.
    pub(crate) programs: Arc<Programs>,
    /// Overrides of models.
    pub(crate) overrides: Vec<Override>,
    /// Where ensembles are looked for.
    pub(crate) project: Arc<Project>,
    /// The world around the run.
    pub(crate) host: Host,
    /// The address of the ensemble, without the keys of parts.
    pub(crate) address: RequestAddress,
    /// The ensembles that contain this one, outermost first.
    pub(crate) outer: Vec<PathBuf>,
    /// How surely logs are kept.
    pub(crate) durability: Durability,
    /// Replies that need not be asked for again.
    pub(crate) cache: Option<Cache>,
    /// Who kills child processes should this process be killed.
    pub(crate) watchdog: Option<Arc<Watchdog>>,
    /// The way to models.
    pub(crate) network: Network,
    /// Runners in the place of agents.
    pub(crate) stand_ins: Option<Arc<dyn StandIns>>,
    /// Who drives the runs of inner ensembles, if not this run.
    pub(crate) elsewhere: Option<Outside>,
}

impl Shared {
    /// For the ensemble that this agent stands for.
    pub(crate) fn within(&self, agent: &str) -> Self {
        Self {
            address: self.address.with_agent(agent.into()),
            cache: self.cache.as_ref().map(|cache| cache.within(agent)),
            stand_ins: self.stand_ins.as_ref().map(|stand_ins| stand_ins.within(agent)),
            ..self.clone()
        }
    }

    /// For the ensemble that this tool of the agent stands for.
    pub(crate) fn within_tool(&self, agent: &str, tool: &str) -> Self {
        Self {
            address: self.address.with_agent(agent.into()).with_call(tool.into(), 1),
            stand_ins: self.stand_ins.as_ref().map(|stand_ins| stand_ins.within(tool)),
            elsewhere: None,
            ..self.clone()
        }
    }
}

/// The parts from which the agents of one ensemble are built.
pub(crate) struct Parts<'a> {
    /// The ensemble.
    pub(crate) prepared: &'a Prepared,
    /// What all agents share.
    pub(crate) shared: &'a Shared,
    /// Where scripts are looked for.
    pub(crate) places: Places,
    /// The profiles that the ensemble can use.
    pub(crate) profiles: Profiles,
}

/// An ensemble inside another, ready.
pub(crate) struct Inner {
    /// Holds its conversations.
    pub(crate) conversations: Arc<dyn Conversations>,
    /// Does a simulated model take part?
    pub(crate) simulated: bool,
    /// The schema of its inputs as one map, if it declares inputs.
    pub(crate) takes: Option<serde_json::Value>,
}

/// Opens the ensemble that an agent or a tool of `outer` names.
pub(crate) type OpenInner = dyn Fn(&str, &Prepared, &Shared) -> Result<Inner, RunError>;

/// The reason why an agent cannot run on this machine.
pub(crate) struct Unready {
    message: String,
    help: Option<String>,
    /// The key of the agent that is to blame; `None`: the one that says what it runs.
    key: Option<&'static str>,
    code: Code,
}

impl Parts<'_> {
    /// Returns the limits of all child processes, and the environment of one that has these variables.
    pub(crate) fn bounds(&self, env: &[(String, Setting)], sandbox: Option<Arc<Sandbox>>) -> Result<Bounds, Unready> {
        let secrets = self.shared.network.secrets().clone();
        Ok(Bounds {
            output_cap: OUTPUT_CAP,
            watchdog: self.shared.watchdog.clone(),
            environment: Environment::of_user(secrets).with(self.values(env)?),
            sandbox,
        })
    }

    /// The values of these settings. A variable that is only passed on and not set is left out.
    pub(crate) fn values(&self, settings: &[(String, Setting)]) -> Result<Vec<(String, String)>, Unready> {
        let host = &self.shared.host;
        let mut values = Vec::new();
        for (name, setting) in settings {
            let value = match setting {
                Setting::Text(text) => Some(text.clone()),
                Setting::Passed => host.variable(name),
                Setting::FromEnvironment { variable, prefix } => match host.variable(variable) {
                    Some(value) => Some(format!("{prefix}{value}")),
                    None => {
                        let message = format!("the environment variable `{variable}` is not set, or is no text");
                        let help = format!("set it for this run: {variable}=… ensemble run …");
                        return Err(Unready::new(message).with_help(help));
                    }
                },
            };
            values.extend(value.map(|value| (name.clone(), value)));
        }
        Ok(values)
    }

    /// The model of that choice, with its fallbacks.
    pub(crate) fn connect(&self, choice: &ModelChoice) -> Result<Model, ProfileError> {
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

    /// Builds the context window of the agent's thread.
    pub(crate) fn window(&self, llm: &Llm, model: &Model) -> Result<Option<AgentWindow>, Unready> {
        let link = model.profiles().next();
        let max_tokens = link.and_then(|link| room(&link.profile));
        let window = match &llm.context_window {
            Some(window) => window,
            None if max_tokens.is_some() => &of_model(),
            None => return Ok(None),
        };
        let outside = WindowResources {
            model: &llm.model,
            model_name: link.map_or("", |link| &link.profile.model),
            max_tokens,
            load: &self.load(),
            connect: &|choice| self.connect(choice),
        };
        Ok(Some(AgentWindow::new(window, &outside)?))
    }

    /// Reads a script that the ensemble names, from where scripts stand.
    pub(crate) fn load(&self) -> impl Fn(&str) -> Result<String, String> + Send + Sync + use<> {
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
            read_text(path, LARGEST_SCRIPT).map_err(|error| error.to_string())
        }
    }
}

fn listed(places: &[PathBuf], root: &Path) -> String {
    let shown = |place: &PathBuf| place.strip_prefix(root).unwrap_or(place).display().to_string();
    let mut shown: Vec<String> = places.iter().map(shown).collect();
    shown.dedup();
    shown.join(", ")
}

impl Unready {
    /// With nothing more to say.
    pub(crate) fn new(message: String) -> Self {
        Self {
            message,
            help: None,
            key: None,
            code: NOT_READY,
        }
    }

    /// With advice.
    pub(crate) fn with_help(self, help: String) -> Self {
        Self {
            help: Some(help),
            ..self
        }
    }

    /// Because of its sandbox.
    pub(crate) fn of_sandbox(self) -> Self {
        Self {
            key: Some("sandbox"),
            code: NO_SANDBOX,
            ..self
        }
    }

    /// Because of that tool.
    pub(crate) fn of_tool(self, tool: &str) -> Self {
        Self {
            message: format!("tool `{tool}`: {}", self.message),
            key: Some("tools"),
            ..self
        }
    }

    /// Because of what the agent runs.
    pub(crate) fn of_whole_agent(self) -> Self {
        Self { key: None, ..self }
    }

    pub(crate) fn finding(self, route: &Route, agent: &Agent) -> Finding {
        let key = match &agent.kind {
            AgentKind::Script { .. } => "script",
            AgentKind::Llm(llm) => match llm.model {
                ModelChoice::Profile(_) => "model_profile",
                ModelChoice::Model { .. } => "model",
                ModelChoice::Acp(_) => "acp",
            },
            AgentKind::Input(_) => "input",
            AgentKind::Ensemble { .. } => "ensemble",
            AgentKind::Tool { .. } => "tool",
        };
        let mut finding = Finding::error(
            self.code,
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

impl From<RunError> for Unready {
    fn from(error: RunError) -> Self {
        Self {
            help: error.advice(),
            ..Self::new(error.to_string())
        }
    }
}
