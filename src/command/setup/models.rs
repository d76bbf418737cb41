//! `ensemble models`: tests the models of profiles, and lists the models of providers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{ArgAction, Args, Subcommand};
use ensemble_core::operator::escape_hidden;
use ensemble_core::thread::{Message, MessageRole};
use ensemble_language::ensemble::{
    Ensemble, HttpProvider as KnownProvider, ModelChoice, ModelProfile, SIMULATED_PROVIDER,
};
use ensemble_language::profiles::{ChainedProfile, ModelProfiles, ProfileError};
use ensemble_models::{ModelError, ModelNetwork, ModelProvider, ModelRequest, RemoteProvider, api_key_variable};
use ensemble_project::config::load_trusted_configs;
use ensemble_project::prepare::collect_profiles;
use ensemble_project::review::refuse_untrusted_ensemble;
use ensemble_reports::report::format_count;
use ensemble_reports::report::sanitized_writer::TrustedStyle;
use ensemble_runs::options::arguments::parse_model_overrides;
use ensemble_runs::{EnsembleRef, RunHost};

/// `ensemble models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Send a short test request to every model, and report errors
    Check(ModelsArgs),
    /// List the model of each profile; with --remote, all models of each provider
    List(ModelsListArgs),
}

/// `ensemble models list`.
#[derive(Debug, Args)]
pub(crate) struct ModelsListArgs {
    /// The selection of models.
    #[command(flatten)]
    pub models: ModelsArgs,
    /// Ask each provider for its models; without this option, no request is sent
    #[arg(long)]
    pub remote: bool,
}

/// The selection of models.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// The ensemble: a file or a name; default: all profiles of the configuration
    #[arg(value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Use another model for a profile ('*' for all): PROVIDER/MODEL, or simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// Choose the output format
    #[arg(long, alias = "format", value_enum, default_value_t = DocumentFormat::Human, value_name = "FORM")]
    pub output: DocumentFormat,
}

/// Time limit for a model whose profile has no time limit.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of tokens of the reply to a test request.
const MAX_REPLY_TOKENS: u64 = 16;

const SUCCESS_STYLE: TrustedStyle = TrustedStyle::new(AnsiColor::Green.on_default().bold());
const FAILURE_STYLE: TrustedStyle = TrustedStyle::new(AnsiColor::Red.on_default().bold());
const DIM_STYLE: TrustedStyle = TrustedStyle::new(Style::new().dimmed());

/// Executes `ensemble models check` or `list`: asks the providers of the profiles and prints their answers. Returns the exit code.
pub(crate) fn run_models_command(command: &ModelsCommand, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let (args, sends) = match command {
        ModelsCommand::Check(args) => (args, true),
        ModelsCommand::List(args) => (&args.models, args.remote),
    };
    let named_profiles = list_chosen_profiles(args, sends, surroundings)?;
    if named_profiles.is_empty() {
        let message = match &args.ensemble {
            Some(file) => format!("no agent of {file} uses a model\n"),
            None => {
                "there is no model profile in a configuration; name an ensemble, or write `.ensemble/config.yaml`\n"
                    .to_owned()
            }
        };
        surroundings.print_err(&message);
    }
    let network = RunHost::from_system().model_network();
    let requests = named_profiles.into_iter().map(|named| match command {
        ModelsCommand::Check(_) => ProfileRequest::Check(named),
        ModelsCommand::List(_) if sends => ProfileRequest::List(named),
        ModelsCommand::List(_) => ProfileRequest::Nobody(named),
    });
    let answers = requests.map(|asking| asking.send_profile_request(&network));
    let answers = block_on(async { Ok(join_all(answers).await) })?;
    match args.output {
        DocumentFormat::Human => surroundings.print_out(&render_profile_answers(&answers)),
        DocumentFormat::Json => {
            let models: Vec<Value> = answers.iter().map(ProfileAnswer::to_json).collect();
            surroundings.print_out_in_format(args.output, &format!("{:#}\n", json!({"version": 1, "models": models})));
        }
    }
    let all_well = answers.iter().all(|answer| answer.result.is_ok());
    Ok(if all_well { exit::SUCCESS } else { exit::FAILURE })
}

/// Request that a command sends to the provider of a profile.
enum ProfileRequest {
    /// Test request to the model.
    Check(NamedProfile),
    /// Request for the models of the provider.
    List(NamedProfile),
    /// No request.
    Nobody(NamedProfile),
}

impl ProfileRequest {
    /// Sends the request, if any, and returns the answer of the profile.
    async fn send_profile_request(self, network: &ModelNetwork) -> ProfileAnswer {
        match self {
            Self::Check(named) => send_test_request(named, network).await,
            Self::List(named) => fetch_provider_models(named, network).await,
            Self::Nobody(named) => ProfileAnswer {
                name: named.name,
                profile: named.link.as_ref().ok().map(|link| link.profile.clone()),
                seconds: 0.0,
                result: named.link.map(|_| ProfileFinding::NotAsked),
            },
        }
    }
}

/// Profile to test, or the error because of which the profile cannot be tested.
struct NamedProfile {
    name: Arc<str>,
    link: Result<ChainedProfile, String>,
}

/// Answer of the provider of a profile, with the time in seconds.
struct ProfileAnswer {
    name: Arc<str>,
    profile: Option<Arc<ModelProfile>>,
    seconds: f64,
    /// Finding, or the error message.
    result: Result<ProfileFinding, String>,
}

/// Finding about a profile.
enum ProfileFinding {
    /// No request was sent.
    NotAsked,
    /// No request was sent, because the model is simulated.
    Simulated,
    /// The model answered.
    Answers,
    /// The provider offers these models.
    Models(Vec<String>),
}

/// Returns the profiles that the ensemble uses, with fallbacks, or those of the configuration. Checks the trust if `sends`.
fn list_chosen_profiles(
    args: &ModelsArgs,
    sends: bool,
    surroundings: &CliEnvironment,
) -> Result<Vec<NamedProfile>, CliError> {
    let overrides = parse_model_overrides(&args.model)?;
    let (choices, profiles) = match &args.ensemble {
        Some(file) => {
            let prepared = surroundings
                .runs_without_operator()
                .load_prepared_ensemble(&EnsembleRef::from_file_or_name(&**file))?;
            if sends {
                refuse_untrusted_ensemble(&prepared, &overrides, &surroundings.project)?;
            }
            let ensemble = prepared.plan.ensemble();
            (
                list_model_choices(ensemble),
                collect_profiles(ensemble, &prepared.folder, overrides, &surroundings.project)?,
            )
        }
        None => {
            let mut profiles = ModelProfiles::new(overrides);
            let mut choices = Vec::new();
            for config in load_trusted_configs(&surroundings.project.folder, &surroundings.project)? {
                let config_profiles = config.profiles.iter();
                choices.extend(config_profiles.map(|(name, _)| ModelChoice::Profile(name.clone())));
                profiles = config.add_to_profiles(profiles, &surroundings.project);
            }
            (choices, profiles)
        }
    };
    let mut seen_names = HashSet::new();
    let mut all = Vec::new();
    for choice in choices {
        match profiles.resolve_chain(&choice) {
            Ok(resolved) => all.extend(resolved.chain.into_iter().map(|link| NamedProfile {
                name: link.name.clone(),
                link: Ok(link),
            })),
            Err(error) => all.push(NamedProfile {
                name: choice_name(&choice),
                link: Err(profile_error_message(&error)),
            }),
        }
    }
    all.retain(|named| seen_names.insert(named.name.clone()));
    Ok(all)
}

/// Returns the models of the agents, without external agents.
fn list_model_choices(ensemble: &Ensemble) -> Vec<ModelChoice> {
    let models = ensemble
        .agents
        .iter()
        .flat_map(|agent| ensemble.list_agent_models(agent));
    models.filter(|choice| !matches!(choice, ModelChoice::Acp(_))).collect()
}

/// Returns the name of the model choice: the profile, the model with its provider, or the external agent.
fn choice_name(choice: &ModelChoice) -> Arc<str> {
    match choice {
        ModelChoice::Profile(name) => name.clone(),
        ModelChoice::Model { provider, model } => format!("{provider}/{model}").into(),
        ModelChoice::Acp(acp) => acp.program.display_name().into(),
    }
}

/// Returns the message of the error, with its help text.
fn profile_error_message(error: &ProfileError) -> String {
    match error.help_text() {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}

/// Sends a short test request to the model, and returns the answer of the profile.
async fn send_test_request(named: NamedProfile, network: &ModelNetwork) -> ProfileAnswer {
    ask_provider_in_time(
        named,
        network,
        async |remote: RemoteProvider, profile: Arc<ModelProfile>| {
            // A budget for thinking must be below the limit of the reply.
            let has_budget = profile.options.contains_key("thinking");
            let profile = Arc::new(ModelProfile {
                max_tokens: if has_budget {
                    profile.max_tokens
                } else {
                    Some(MAX_REPLY_TOKENS)
                },
                ..ModelProfile::clone(&profile)
            });
            match remote.complete_request(test_request(profile), &|_| {}).await {
                // A model that has thought until the limit has answered.
                Err(error) if error.message.contains("model output limit was reached") => Ok(ProfileFinding::Answers),
                answered => answered.map(|_| ProfileFinding::Answers),
            }
        },
    )
    .await
}

/// Fetches the models that the provider of the profile offers.
async fn fetch_provider_models(named: NamedProfile, network: &ModelNetwork) -> ProfileAnswer {
    ask_provider_in_time(
        named,
        network,
        async |remote: RemoteProvider, profile: Arc<ModelProfile>| {
            remote.fetch_model_names(&profile).await.map(ProfileFinding::Models)
        },
    )
    .await
}

/// Calls `ask` with the provider of the profile, within the time limit. A simulated profile is not asked.
async fn ask_provider_in_time(
    named: NamedProfile,
    network: &ModelNetwork,
    ask: impl AsyncFnOnce(RemoteProvider, Arc<ModelProfile>) -> Result<ProfileFinding, ModelError>,
) -> ProfileAnswer {
    let start = Instant::now();
    let profile = named.link.as_ref().ok().map(|link| link.profile.clone());
    let result = match named.link {
        Err(message) => Err(message),
        Ok(link) => match KnownProvider::find_by_name(&link.profile.provider) {
            None => Ok(ProfileFinding::Simulated),
            Some(provider) => {
                let limit = link.profile.timeout.unwrap_or(DEFAULT_TIMEOUT);
                let request = ask(RemoteProvider::new(provider, network.clone()), link.profile);
                match tokio::time::timeout(limit, request).await {
                    Ok(answer) => answer.map_err(|error| error.message),
                    Err(_) => Err(format!("no answer within {} s", limit.as_secs_f64())),
                }
            }
        },
    };
    ProfileAnswer {
        name: named.name,
        profile,
        seconds: start.elapsed().as_secs_f64(),
        result,
    }
}

/// Builds a request that asks the model for one word.
fn test_request(profile: Arc<ModelProfile>) -> ModelRequest {
    let prompt = "Answer with the word ok.";
    ModelRequest {
        messages: vec![Message::new(MessageRole::User, prompt)],
        agent_name: "models check".into(),
        purpose: ensemble_models::RequestPurpose::Reply,
        request_number: 1,
        execution: 1,
        prompt: prompt.into(),
        output_schema: None,
        tools: Arc::default(),
        profile,
        clock: ensemble_core::stopwatch::Stopwatch::default(),
    }
}

/// Renders the answers as a table with a line for each profile.
fn render_profile_answers(answers: &[ProfileAnswer]) -> String {
    let widest =
        |text: fn(&ProfileAnswer) -> String| answers.iter().map(|one| text(one).chars().count()).max().unwrap_or(0);
    let names = widest(|answer| answer.name.to_string());
    let models = widest(ProfileAnswer::provider_and_model);
    let mut text = String::new();
    for answer in answers {
        let (mark, style) = if answer.result.is_ok() {
            ("✓", SUCCESS_STYLE)
        } else {
            ("✗", FAILURE_STYLE)
        };
        let (name, model, what) = (&answer.name, answer.provider_and_model(), answer.describe_answer());
        text.push_str(&format!(
            "{style}{mark}{style:#} {name:names$}  {DIM_STYLE}{model:models$}{DIM_STYLE:#}  {what}\n"
        ));
        if let Ok(ProfileFinding::Models(models)) = &answer.result {
            models.iter().for_each(|model| text.push_str(&format!("    {model}\n")));
        }
    }
    text
}

impl ProfileAnswer {
    /// Returns the provider and the model, or an empty text for a profile that was not found.
    fn provider_and_model(&self) -> String {
        match &self.profile {
            Some(profile) if profile.model.is_empty() || &*self.name == SIMULATED_PROVIDER => {
                profile.provider.to_string()
            }
            Some(profile) => format!("{}/{}", profile.provider, profile.model),
            None => String::new(),
        }
    }

    /// Returns the environment variable with the key of the profile. Returns `None` if the profile needs no key.
    fn key_variable_name(&self) -> Option<&str> {
        let profile = self.profile.as_ref()?;
        api_key_variable(profile, KnownProvider::find_by_name(&profile.provider)?)
    }

    /// Describes the answer in a few words, or returns the error message.
    fn describe_answer(&self) -> String {
        let key = match self.key_variable_name() {
            Some(name) => format!("with the key in {name}"),
            None => "no key is sent".to_owned(),
        };
        match &self.result {
            Ok(ProfileFinding::NotAsked) => self.describe_request_address(),
            Ok(ProfileFinding::Simulated) => "simulated: no request was sent".to_owned(),
            Ok(ProfileFinding::Answers) => format!("answered in {:.1} s, {key}", self.seconds),
            Ok(ProfileFinding::Models(models)) => format!("{}, {key}", format_count(models.len() as u64, "model")),
            Err(message) => message.clone(),
        }
    }

    /// Describes the address of a request, and the variable with its key.
    fn describe_request_address(&self) -> String {
        let profile = self.profile.as_ref();
        let provider = profile.and_then(|profile| KnownProvider::find_by_name(&profile.provider));
        let (Some(profile), Some(provider)) = (profile, provider) else {
            return "simulated".to_owned();
        };
        let address = escape_hidden(profile.base_url.as_deref().unwrap_or(provider.base_url));
        match self.key_variable_name() {
            Some(name) => format!("{address}, with the key in {name}"),
            None => format!("{address}, without a key"),
        }
    }

    /// Converts the answer to JSON.
    fn to_json(&self) -> Value {
        let profile = self.profile.as_ref();
        let mut answer = json!({
            "profile": self.name,
            "provider": profile.map(|profile| &profile.provider),
            "model": profile.map(|profile| &profile.model),
            "base_url": profile.and_then(|profile| profile.base_url.as_ref()),
            "api_key_env": self.key_variable_name(),
            "ok": self.result.is_ok(),
            "seconds": self.seconds,
            "error": self.result.as_ref().err(),
        });
        if let Ok(ProfileFinding::Models(models)) = &self.result {
            answer["models"] = json!(models);
        }
        answer
    }
}
