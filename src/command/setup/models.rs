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
use crate::command::shared::output_form::OutputForm;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use clap::{ArgAction, Args, Subcommand};
use ensemble_core::operator::visible;
use ensemble_core::thread::{Message, Role};
use ensemble_language::ensemble::{
    AgentKind, Ensemble, ModelChoice, Profile, Provider as KnownProvider, Responses, SIMULATED, Strategy,
};
use ensemble_language::profiles::{Link, ProfileError, Profiles};
use ensemble_models::{ModelError, ModelRequest, Network, Provider, Remote, key_variable};
use ensemble_project::config::config_profiles;
use ensemble_project::prepare::profiles;
use ensemble_project::review::check_trust;
use ensemble_reports::report::count;
use ensemble_reports::report::door::Ink;
use ensemble_runs::options::arguments::overrides;
use ensemble_runs::{EnsembleRef, Host};

/// `ensemble models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Send a request for one word to every model, and report problems: no key, no server, unknown model
    Check(ModelsArgs),
    /// List the profiles with their models; with --remote, the models that each provider offers
    List(ModelsListArgs),
}

/// `ensemble models list`.
#[derive(Debug, Args)]
pub(crate) struct ModelsListArgs {
    /// The selection of models.
    #[command(flatten)]
    pub models: ModelsArgs,
    /// Ask each provider for its models; without this, no request is sent
    #[arg(long)]
    pub remote: bool,
}

/// The selection of models.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// The ensemble: a file, or the name of an ensemble; default: all profiles of the configuration
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Use another model for a profile ('*' for all): PROFILE=PROVIDER/MODEL, or PROFILE=simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// The output format
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}

/// The time limit for a model whose profile has none.
const PATIENCE: Duration = Duration::from_secs(60);

/// The highest number of tokens of the reply.
const MAX_TOKENS: u64 = 16;

const GOOD: Ink = Ink::of(AnsiColor::Green.on_default().bold());
const BAD: Ink = Ink::of(AnsiColor::Red.on_default().bold());
const DIM: Ink = Ink::of(Style::new().dimmed());

/// `ensemble models …`.
pub(crate) fn models(command: &ModelsCommand, surroundings: &Surroundings) -> Result<u8, CliError> {
    let (args, sends) = match command {
        ModelsCommand::Check(args) => (args, true),
        ModelsCommand::List(args) => (&args.models, args.remote),
    };
    let named = named(args, sends, surroundings)?;
    if named.is_empty() {
        let what = match &args.ensemble {
            Some(file) => format!("no agent of {file} uses a model\n"),
            None => {
                "there is no model profile in a configuration; name an ensemble, or write `.ensemble/config.yaml`\n"
                    .to_owned()
            }
        };
        surroundings.print_err(&what);
    }
    let network = Host::system().network();
    let asked = named.into_iter().map(|named| match command {
        ModelsCommand::Check(_) => Asking::Check(named),
        ModelsCommand::List(_) if sends => Asking::List(named),
        ModelsCommand::List(_) => Asking::Nobody(named),
    });
    let answers = asked.map(|asking| asking.answer(&network));
    let answers = block_on(async { Ok(join_all(answers).await) })?;
    match args.output {
        OutputForm::Human => surroundings.print(&human(&answers)),
        OutputForm::Json => {
            let models: Vec<Value> = answers.iter().map(Answer::json).collect();
            surroundings.print_as(args.output, &format!("{:#}\n", json!({"version": 1, "models": models})));
        }
    }
    let all_well = answers.iter().all(|answer| answer.result.is_ok());
    Ok(if all_well { exit::SUCCESS } else { exit::FAILURE })
}

/// The request that a command sends to the provider of a profile.
enum Asking {
    /// A word.
    Check(Named),
    /// Its models.
    List(Named),
    /// Nothing.
    Nobody(Named),
}

impl Asking {
    async fn answer(self, network: &Network) -> Answer {
        match self {
            Self::Check(named) => check(named, network).await,
            Self::List(named) => list(named, network).await,
            Self::Nobody(named) => Answer {
                name: named.name,
                profile: named.link.as_ref().ok().map(|link| link.profile.clone()),
                seconds: 0.0,
                result: named.link.map(|_| Found::Written),
            },
        }
    }
}

/// A profile to test, or the reason why it cannot be tested.
struct Named {
    name: Arc<str>,
    link: Result<Link, String>,
}

/// The result of a test.
struct Answer {
    name: Arc<str>,
    profile: Option<Arc<Profile>>,
    seconds: f64,
    /// The finding, or the error message.
    result: Result<Found, String>,
}

/// The finding of a test.
enum Found {
    /// Nothing was asked.
    Written,
    /// Nothing was sent, because the model is the built-in simulated one.
    Simulated,
    /// The model answers.
    Answers,
    /// The provider offers these models.
    Models(Vec<String>),
}

/// The profiles that a file uses, including fallbacks; without a file, those of the configuration.
fn named(args: &ModelsArgs, sends: bool, surroundings: &Surroundings) -> Result<Vec<Named>, CliError> {
    let overrides = overrides(&args.model)?;
    let (choices, profiles) = match &args.ensemble {
        Some(file) => {
            let prepared = surroundings.runs().prepare(&EnsembleRef::file(&**file))?;
            if sends {
                check_trust(&prepared, &overrides, &surroundings.project)?;
            }
            let ensemble = prepared.plan.ensemble();
            (
                choices(ensemble),
                profiles(ensemble, &prepared.folder, overrides, &surroundings.project)?,
            )
        }
        None => {
            let mut profiles = Profiles::new(overrides);
            let mut choices = Vec::new();
            for config in config_profiles(&surroundings.project.folder, &surroundings.project)? {
                let named = config.profiles.iter();
                choices.extend(named.map(|(name, _)| ModelChoice::Profile(name.clone())));
                profiles = config.add_to(profiles, &surroundings.project);
            }
            (choices, profiles)
        }
    };
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for choice in choices {
        match profiles.resolve(&choice) {
            Ok(resolved) => all.extend(resolved.chain.into_iter().map(|link| Named {
                name: link.name.clone(),
                link: Ok(link),
            })),
            Err(error) => all.push(Named {
                name: name_of(&choice),
                link: Err(message_of(&error)),
            }),
        }
    }
    all.retain(|named| known.insert(named.name.clone()));
    Ok(all)
}

fn choices(ensemble: &Ensemble) -> Vec<ModelChoice> {
    let choices = |kind: &AgentKind| -> Vec<ModelChoice> {
        match kind {
            AgentKind::Llm(llm) => {
                let strategy = llm.context_window.as_ref().map(|window| &window.strategy);
                let summing_up = match strategy {
                    Some(Strategy::Summarize(Some(name))) => Some(ModelChoice::Profile(name.clone())),
                    _ => None,
                };
                let own = llm.acp().is_none().then(|| llm.model.clone());
                own.into_iter().chain(summing_up).collect()
            }
            AgentKind::Input(input) => match &input.responses {
                Some(Responses::Profile(name)) => vec![ModelChoice::Profile(name.clone())],
                _ => Vec::new(),
            },
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => Vec::new(),
        }
    };
    ensemble.agents.iter().flat_map(|agent| choices(&agent.kind)).collect()
}

fn name_of(choice: &ModelChoice) -> Arc<str> {
    match choice {
        ModelChoice::Profile(name) => name.clone(),
        ModelChoice::Model { provider, model } => format!("{provider}/{model}").into(),
        ModelChoice::Acp(acp) => acp.program.shown().into(),
    }
}

fn message_of(error: &ProfileError) -> String {
    match error.help() {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}

/// Sends a request for one word.
async fn check(named: Named, network: &Network) -> Answer {
    ask_model(named, network, async |remote: Remote, profile: Arc<Profile>| {
        // A budget for thinking must be below the limit of the reply.
        let has_budget = profile.options.contains_key("thinking");
        let profile = Arc::new(Profile {
            max_tokens: if has_budget {
                profile.max_tokens
            } else {
                Some(MAX_TOKENS)
            },
            ..Profile::clone(&profile)
        });
        match remote.complete(test_request(profile), &|_| {}).await {
            // A model that has thought until the limit has answered.
            Err(error) if error.message.contains("model output limit was reached") => Ok(Found::Answers),
            answered => answered.map(|_| Found::Answers),
        }
    })
    .await
}

async fn list(named: Named, network: &Network) -> Answer {
    ask_model(named, network, async |remote: Remote, profile: Arc<Profile>| {
        remote.models(&profile).await.map(Found::Models)
    })
    .await
}

async fn ask_model(
    named: Named,
    network: &Network,
    ask: impl AsyncFnOnce(Remote, Arc<Profile>) -> Result<Found, ModelError>,
) -> Answer {
    let begun = Instant::now();
    let profile = named.link.as_ref().ok().map(|link| link.profile.clone());
    let result = match named.link {
        Err(message) => Err(message),
        Ok(link) => match KnownProvider::named(&link.profile.provider) {
            None => Ok(Found::Simulated),
            Some(provider) => {
                let limit = link.profile.timeout.unwrap_or(PATIENCE);
                let asked = ask(Remote::new(provider, network.clone()), link.profile);
                match tokio::time::timeout(limit, asked).await {
                    Ok(found) => found.map_err(|error| error.message),
                    Err(_) => Err(format!("no answer within {} s", limit.as_secs_f64())),
                }
            }
        },
    };
    Answer {
        name: named.name,
        profile,
        seconds: begun.elapsed().as_secs_f64(),
        result,
    }
}

fn test_request(profile: Arc<Profile>) -> ModelRequest {
    let prompt = "Answer with the word ok.";
    ModelRequest {
        messages: vec![Message::new(Role::User, prompt)],
        agent_name: "models check".into(),
        request_number: 1,
        execution: 1,
        prompt: prompt.into(),
        output_schema: None,
        tools: Arc::default(),
        profile,
    }
}

fn human(answers: &[Answer]) -> String {
    let widest = |text: fn(&Answer) -> String| answers.iter().map(|one| text(one).chars().count()).max().unwrap_or(0);
    let names = widest(|answer| answer.name.to_string());
    let models = widest(Answer::model);
    let mut text = String::new();
    for answer in answers {
        let (mark, style) = if answer.result.is_ok() {
            ("✓", GOOD)
        } else {
            ("✗", BAD)
        };
        let (name, model, what) = (&answer.name, answer.model(), answer.words());
        text.push_str(&format!(
            "{style}{mark}{style:#} {name:names$}  {DIM}{model:models$}{DIM:#}  {what}\n"
        ));
        if let Ok(Found::Models(models)) = &answer.result {
            models.iter().for_each(|model| text.push_str(&format!("    {model}\n")));
        }
    }
    text
}

impl Answer {
    fn model(&self) -> String {
        match &self.profile {
            Some(profile) if profile.model.is_empty() || &*self.name == SIMULATED => profile.provider.to_string(),
            Some(profile) => format!("{}/{}", profile.provider, profile.model),
            None => String::new(),
        }
    }

    fn key(&self) -> Option<&str> {
        let profile = self.profile.as_ref()?;
        key_variable(profile, KnownProvider::named(&profile.provider)?)
    }

    fn words(&self) -> String {
        let key = match self.key() {
            Some(name) => format!("with the key in {name}"),
            None => "no key is sent".to_owned(),
        };
        match &self.result {
            Ok(Found::Written) => self.written(),
            Ok(Found::Simulated) => "simulated: no request was sent".to_owned(),
            Ok(Found::Answers) => format!("answered in {:.1} s, {key}", self.seconds),
            Ok(Found::Models(models)) => format!("{}, {key}", count(models.len() as u64, "model")),
            Err(message) => message.clone(),
        }
    }

    /// Renders the address of a request, and the name of its key.
    fn written(&self) -> String {
        let profile = self.profile.as_ref();
        let provider = profile.and_then(|profile| KnownProvider::named(&profile.provider));
        let (Some(profile), Some(provider)) = (profile, provider) else {
            return "simulated".to_owned();
        };
        let address = visible(profile.base_url.as_deref().unwrap_or(provider.base_url));
        match self.key() {
            Some(name) => format!("{address}, with the key in {name}"),
            None => format!("{address}, without a key"),
        }
    }

    fn json(&self) -> Value {
        let profile = self.profile.as_ref();
        let mut answer = json!({
            "profile": self.name,
            "provider": profile.map(|profile| &profile.provider),
            "model": profile.map(|profile| &profile.model),
            "base_url": profile.and_then(|profile| profile.base_url.as_ref()),
            "api_key_env": self.key(),
            "ok": self.result.is_ok(),
            "seconds": self.seconds,
            "error": self.result.as_ref().err(),
        });
        if let Ok(Found::Models(models)) = &self.result {
            answer["models"] = json!(models);
        }
        answer
    }
}
