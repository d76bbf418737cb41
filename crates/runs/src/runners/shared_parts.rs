//! The data from which the agents of an ensemble are built: profiles, script folders, and services that all agents of a run share.
//!
//! Invariant: an agent that cannot run is reported with its position in the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_agents::agent::acp::ExternalProgramPool;
use ensemble_agents::agent::build_error::RunnerBuildError;
use ensemble_agents::agent::kinds::input::AnswerQueue;
use ensemble_agents::agent::kinds::nested_ensemble::NestedRunService;
use ensemble_agents::agent::kinds::script::ScriptStartError;
use ensemble_agents::agent::mcp::McpServers;
use ensemble_agents::agent::tools::ToolPermissions;
use ensemble_agents::agent::window::{AgentWindow, AgentWindowOptions, input_token_limit, token_limit_window};
use ensemble_core::operator::Operator;
use ensemble_core::request::RequestAddress;
use ensemble_core::store::Durability;
use ensemble_core::thread::LiveOutputReceiver;
use ensemble_language::diagnostic::Finding;
use ensemble_language::diagnostic::FindingCode;
use ensemble_language::ensemble::{Agent, AgentKind, EnvOrHeaderValue, LlmSpec, ModelChoice};
use ensemble_language::loader::codes::{BROKEN_SCRIPT, MISSING_SCRIPT_FILE, NO_PROCESS, NO_SANDBOX, NOT_READY};
use ensemble_language::profiles::{ModelOverride, ModelProfiles, ProfileError};
use ensemble_language::source::Route;
use ensemble_models::{Model, ModelNetwork, ReplyCache};
use ensemble_process::confine::ProcessSandbox;
use ensemble_process::program::ScriptFolders;
use ensemble_process::{ChildEnvironment, ProcessSettings, ProcessWatchdog};
use ensemble_scripts::regular_files::{MAX_SCRIPT_BYTES, read_text};

use crate::drive::client_servers::ClientServers;
use crate::drive::events::RunEventHub;
use crate::drive::host::RunHost;
use crate::error::RunError;
use crate::options::arguments::InputAgentQuestions;
use crate::options::nested_driver::TimedNestedDriver;
use crate::options::replacements::AgentReplacements;
use crate::prepare::PreparedEnsemble;
use crate::project::Project;

/// The maximum number of bytes that a child process can write to stdout: 10 MiB.
const MAX_STDOUT_BYTES: usize = 10 << 20;

/// The services that all agents of a run share, including those of nested runs.
#[derive(Clone)]
pub(crate) struct SharedRunServices {
    /// Answers given with the run.
    pub(crate) answers: Arc<AnswerQueue>,
    /// Which agents ask.
    pub(crate) input_questions: Arc<InputAgentQuestions>,
    /// The operator that answers questions.
    pub(crate) operator: Arc<dyn Operator>,
    /// The receiver of live output.
    pub(crate) live_output: Arc<dyn LiveOutputReceiver>,
    /// Subscribers of the run.
    pub(crate) hub: RunEventHub,
    /// Which tools may be called.
    pub(crate) permissions: Arc<ToolPermissions>,
    /// Servers of tools.
    pub(crate) servers: Arc<McpServers>,
    /// Servers of tools that were given with the run.
    pub(crate) client_servers: Arc<ClientServers>,
    /// Programs of external agents.
    pub(crate) programs: Arc<ExternalProgramPool>,
    /// Overrides of models.
    pub(crate) overrides: Vec<ModelOverride>,
    /// The project in which ensembles are searched.
    pub(crate) project: Arc<Project>,
    /// The world around the run.
    pub(crate) host: RunHost,
    /// The address of the ensemble, without the keys of parts.
    pub(crate) address: RequestAddress,
    /// The ensembles that contain this one, outermost first.
    pub(crate) outer: Vec<PathBuf>,
    /// The durability of logs.
    pub(crate) durability: Durability,
    /// Replies that need not be asked for again.
    pub(crate) cache: Option<ReplyCache>,
    /// The watchdog that kills child processes if this process is killed.
    pub(crate) watchdog: Option<Arc<ProcessWatchdog>>,
    /// The way to models.
    pub(crate) network: ModelNetwork,
    /// The runners that replace agents.
    pub(crate) replacements: Option<Arc<dyn AgentReplacements>>,
    /// True if errors in files refuse the run. They do not refuse a step of a run that was started elsewhere.
    pub(crate) checks_files: bool,
    /// The driver of nested runs, if this run does not drive them.
    pub(crate) inner_run_driver: Option<TimedNestedDriver>,
}

impl SharedRunServices {
    /// Returns the services for the nested ensemble of this agent.
    pub(crate) fn for_nested_agent(&self, agent: &str) -> Self {
        Self {
            address: self.address.append_agent(agent.into()),
            cache: self.cache.as_ref().map(|cache| cache.for_nested_ensemble(agent)),
            replacements: self
                .replacements
                .as_ref()
                .map(|stand_ins| stand_ins.for_nested_agent(agent)),
            ..self.clone()
        }
    }

    /// Returns the services for the nested ensemble of this tool of the agent.
    pub(crate) fn for_nested_tool(&self, agent: &str, tool: &str) -> Self {
        Self {
            address: self.address.append_agent(agent.into()).append_tool_call(tool.into(), 1),
            replacements: self
                .replacements
                .as_ref()
                .map(|stand_ins| stand_ins.for_nested_agent(tool)),
            inner_run_driver: None,
            ..self.clone()
        }
    }
}

/// The parts from which the agents of one ensemble are built.
pub(crate) struct AgentBuildContext<'a> {
    /// The ensemble.
    pub(crate) prepared: &'a PreparedEnsemble,
    /// The services that all agents share.
    pub(crate) shared: &'a SharedRunServices,
    /// The folders in which scripts are searched.
    pub(crate) places: ScriptFolders,
    /// The profiles that the ensemble can use.
    pub(crate) profiles: ModelProfiles,
}

/// The knowledge of the prices of the models that a run can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum ModelPriceStatus {
    /// The run asks no model.
    #[default]
    NoModel,
    /// No model has a price.
    Missing,
    /// A model has a price, or reports its costs: an external agent, or a stub of a test.
    Known,
}

/// A nested ensemble that is ready to run.
pub(crate) struct ReadyNestedEnsemble {
    /// Holds its conversations.
    pub(crate) conversations: Arc<dyn NestedRunService>,
    /// True if an agent of the ensemble uses a simulated model.
    pub(crate) is_simulated: bool,
    /// The schema of its inputs as one map, if it declares inputs.
    pub(crate) input_schema: Option<serde_json::Value>,
    /// The prices of its models.
    pub(crate) prices: ModelPriceStatus,
}

/// A function that prepares the nested ensemble that an agent or a tool names.
pub(crate) type NestedEnsembleOpener<'o> =
    dyn Fn(&str, &PreparedEnsemble, &SharedRunServices) -> Result<ReadyNestedEnsemble, RunError> + 'o;

/// An error that prevents an agent from running on this machine.
pub(crate) struct AgentBuildError {
    message: String,
    help: Option<String>,
    /// The key of the agent that caused the error. `None` means the key that decides the kind of the agent.
    key: Option<&'static str>,
    code: FindingCode,
}

impl AgentBuildContext<'_> {
    /// Returns the limits of a child process, and its environment with these variables.
    pub(crate) fn child_process_limits(
        &self,
        env: &[(String, EnvOrHeaderValue)],
        sandbox: Option<Arc<ProcessSandbox>>,
    ) -> Result<ProcessSettings, AgentBuildError> {
        let secrets = self.shared.network.secrets().clone();
        Ok(ProcessSettings {
            output_cap: MAX_STDOUT_BYTES,
            watchdog: self.shared.watchdog.clone(),
            environment: ChildEnvironment::for_user_program(secrets).with_variables(self.resolve_env_settings(env)?),
            sandbox,
        })
    }

    /// Returns the values of these settings. Omits a variable that is only inherited and not set.
    ///
    /// # Errors
    ///
    /// A variable is not set, or grants rights of the user.
    pub(crate) fn resolve_env_settings(
        &self,
        settings: &[(String, EnvOrHeaderValue)],
    ) -> Result<Vec<(String, String)>, AgentBuildError> {
        let host = &self.shared.host;
        let mut values = Vec::new();
        for (name, setting) in settings {
            let source = match setting {
                EnvOrHeaderValue::FromEnvironment { variable, .. } => variable,
                EnvOrHeaderValue::Text(_) | EnvOrHeaderValue::Inherited => name,
            };
            if let Some(private) = [name, source].into_iter().find(|name| host.is_private_variable(name)) {
                let message =
                    format!("the variable `{private}` carries rights of the user and is passed to no program");
                return Err(AgentBuildError::new(message).with_help("remove it from `env` or `headers`".to_owned()));
            }
            let value = match setting {
                EnvOrHeaderValue::Text(text) => Some(text.clone()),
                EnvOrHeaderValue::Inherited => host.read_variable(name),
                EnvOrHeaderValue::FromEnvironment { variable, prefix } => match host.read_variable(variable) {
                    Some(value) => Some(format!("{prefix}{value}")),
                    None => {
                        let message =
                            format!("the environment variable `{variable}` is not set, or is not valid UTF-8");
                        let help = format!("set it for this run: {variable}=… ensemble run …");
                        return Err(AgentBuildError::new(message).with_help(help));
                    }
                },
            };
            values.extend(value.map(|value| (name.clone(), value)));
        }
        Ok(values)
    }

    /// Connects the model of the choice, with its fallbacks and the reply cache. Without a cache, checks that the keys are set.
    pub(crate) fn connect_model(&self, choice: &ModelChoice) -> Result<Model, ProfileError> {
        let model = Model::connect_profiles(
            &self.profiles.resolve_chain(choice)?,
            &self.script_loader(),
            &self.shared.network,
        )?;
        Ok(match &self.shared.cache {
            // What the cache has needs no key.
            Some(cache) => model.with_cache(cache),
            None => {
                model.check_any_profile_has_key()?;
                model
            }
        })
    }

    /// Builds the context window of the agent's thread. Returns `None` if neither the agent nor the model limits it.
    pub(crate) fn build_context_window(
        &self,
        llm: &LlmSpec,
        model: &Model,
    ) -> Result<Option<AgentWindow>, AgentBuildError> {
        let link = model.profiles().next();
        let max_tokens = link.and_then(|link| input_token_limit(&link.profile));
        let window = match &llm.context_window {
            Some(window) => window,
            None if max_tokens.is_some() => &token_limit_window(),
            None => return Ok(None),
        };
        let outside = AgentWindowOptions {
            tokenizer: None,
            model: &llm.model,
            model_name: link.map_or("", |link| &link.profile.model),
            max_tokens,
            load: &self.script_loader(),
            connect: &|choice| self.connect_model(choice),
        };
        Ok(Some(AgentWindow::new(window, &outside)?))
    }

    /// Returns a function that reads a script from the folder of the ensemble, the project root or its folder `scripts`.
    pub(crate) fn script_loader(&self) -> impl Fn(&str) -> Result<String, String> + Send + Sync + use<> {
        let ScriptFolders {
            ensemble_dir,
            project_root: root,
        } = self.places.clone();
        move |name| {
            let places = [
                ensemble_dir.join(name),
                root.join(name),
                root.join("scripts").join(name),
            ];
            let existing_file = places.iter().find(|place| place.is_file());
            let path = existing_file.ok_or_else(|| {
                format!(
                    "there is no such file; looked for {}",
                    format_searched_folders(&places, &root)
                )
            })?;
            read_text(path, MAX_SCRIPT_BYTES).map_err(|error| error.to_string())
        }
    }
}

/// Formats the paths relative to the parent folder of the project root, without duplicates.
fn format_searched_folders(places: &[PathBuf], root: &Path) -> String {
    // Below `/`, a path without its first slash would look like a path relative to another folder.
    let base = root.parent().is_some().then_some(root);
    let relative_text = |place: &PathBuf| {
        let relative = base.and_then(|base| place.strip_prefix(base).ok());
        relative.unwrap_or(place).display().to_string()
    };
    let mut place_texts: Vec<String> = places.iter().map(relative_text).collect();
    place_texts.dedup();
    place_texts.join(", ")
}

impl AgentBuildError {
    /// Creates an error without advice.
    pub(crate) fn new(message: String) -> Self {
        Self {
            message,
            help: None,
            key: None,
            code: NOT_READY,
        }
    }

    /// Adds advice to the error.
    pub(crate) fn with_help(self, help: String) -> Self {
        Self {
            help: Some(help),
            ..self
        }
    }

    /// Attributes the error to the sandbox of the agent.
    pub(crate) fn attribute_to_sandbox(self) -> Self {
        Self {
            key: Some("sandbox"),
            code: NO_SANDBOX,
            ..self
        }
    }

    /// Attributes the error to this tool of the agent.
    pub(crate) fn attribute_to_tool(self, tool: &str) -> Self {
        Self {
            message: format!("tool `{tool}`: {}", self.message),
            key: Some("tools"),
            ..self
        }
    }

    /// Attributes the error to the agent itself instead of one of its keys.
    pub(crate) fn attribute_to_agent(self) -> Self {
        Self { key: None, ..self }
    }

    /// Converts the error to a finding at the key of the agent.
    pub(crate) fn into_finding(self, route: &Route, agent: &Agent) -> Finding {
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
        let mut finding = Finding::new_error(
            self.code,
            route.with_key(self.key.unwrap_or(key)).into_value_location(),
            format!("{}: {}", agent.name, self.message),
        );
        finding.help = self.help;
        finding
    }
}

impl From<ScriptStartError> for AgentBuildError {
    fn from(error: ScriptStartError) -> Self {
        match error {
            ScriptStartError::Lookup(error) => Self {
                code: match error.is_missing_file {
                    true => MISSING_SCRIPT_FILE,
                    false => NOT_READY,
                },
                ..Self::new(error.message).with_help(error.help)
            },
            ScriptStartError::Unreadable(message) => Self {
                code: MISSING_SCRIPT_FILE,
                ..Self::new(message)
                    .with_help("save the script as UTF-8, and make it readable for this user".to_owned())
            },
            ScriptStartError::Compile(message) => Self {
                code: BROKEN_SCRIPT,
                ..Self::new(format!("the script does not compile: {message}"))
            },
            ScriptStartError::UnusedArguments(error) => Self {
                code: NO_PROCESS,
                key: Some("args"),
                ..Self::new(error.message).with_help(error.help)
            },
        }
    }
}

impl From<RunnerBuildError> for AgentBuildError {
    fn from(error: RunnerBuildError) -> Self {
        match error {
            RunnerBuildError::Profile(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl From<ProfileError> for AgentBuildError {
    fn from(error: ProfileError) -> Self {
        Self {
            help: error.help_text(),
            ..Self::new(error.to_string())
        }
    }
}

impl From<RunError> for AgentBuildError {
    fn from(error: RunError) -> Self {
        Self {
            help: error.advice(),
            ..Self::new(error.to_string())
        }
    }
}
