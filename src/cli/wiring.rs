//! One runner for each agent: here every kind meets what it needs from outside.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::AnsweringArgs;
use super::error::CliError;
use super::prepare::{Prepared, profiles};
use super::project::Surroundings;
use super::run::Showing;
use super::sub_ensemble::{Inner, inner};
use super::{given, watchdog};
use crate::agent::Runner;
use crate::agent::guarded::Guarded;
use crate::agent::input::{Answers, InputRunner, Person, Wiring};
use crate::agent::llm::{self, BuildError, LlmRunner};
use crate::agent::process::{Bounds, Watchdog};
use crate::agent::schema::Schema;
use crate::agent::script::{self, Places};
use crate::agent::sub_ensemble::SubEnsembleRunner;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, ModelChoice};
use crate::journal::Durability;
use crate::loader;
use crate::loader::codes::NOT_READY;
use crate::model::{Model, Override, Profiles};
use crate::source::Route;
use crate::thread::Listener;

/// Most bytes that a child process may write to stdout: 10 MiB.
const OUTPUT_CAP: usize = 10 << 20;

/// What all agents of a run share.
#[derive(Clone)]
pub struct Shared {
    /// Answers given with the run.
    pub answers: Arc<Answers>,
    /// Who is asked.
    pub person: Arc<dyn Person>,
    /// Who hears agents speak.
    pub listener: Arc<dyn Listener>,
    /// `--model`.
    pub overrides: Vec<Override>,
    /// The program's surroundings.
    pub surroundings: Arc<Surroundings>,
    /// The ensembles that this one is an agent of, outermost first.
    pub outer: Vec<PathBuf>,
    /// How surely inner journals are kept.
    pub durability: Durability,
    /// Who kills child processes should we be killed.
    pub watchdog: Option<Arc<Watchdog>>,
}

impl Shared {
    /// What the command line gives the agents of a run; `models` are the overrides to use.
    ///
    /// # Errors
    /// Answers or overrides that cannot be read, or answers for agents that ask nobody.
    pub fn given(
        answering: &AnsweringArgs,
        models: &[String],
        durability: Durability,
        showing: &Showing,
        prepared: &Prepared,
        surroundings: &Surroundings,
    ) -> Result<Self, CliError> {
        let answers = given::answers(answering, surroundings)?;
        given::check_answers(&answers, prepared.plan.ensemble())?;
        let file = surroundings.folder.join(prepared.source.name());
        Ok(Self {
            answers: Arc::new(answers),
            person: Arc::clone(&showing.person),
            listener: Arc::clone(&showing.listener),
            overrides: given::overrides(models)?,
            surroundings: Arc::new(surroundings.clone()),
            outer: vec![file.canonicalize().unwrap_or(file)],
            durability,
            watchdog: watchdog::of_this_run(),
        })
    }
}

/// Runners in declaration order, and whose model is simulated.
#[derive(Default)]
pub struct Wired {
    /// One for each agent.
    pub runners: Vec<Arc<dyn Runner>>,
    /// Agents that a simulated model answers for.
    pub simulated: Vec<Arc<str>>,
}

/// Makes every agent ready to run.
///
/// # Errors
/// All agents that cannot be, each at its place in the file.
pub fn wire(prepared: &Prepared, shared: &Shared) -> Result<Wired, CliError> {
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
    };
    let mut wired = Wired::default();
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        match wires.runner(agent) {
            Ok((runner, simulated)) => {
                wired.runners.push(guard(agent, runner));
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

struct Wires<'a> {
    prepared: &'a Prepared,
    shared: &'a Shared,
    profiles: Profiles,
    places: Places,
}

/// Why an agent cannot run here.
struct Unready {
    message: String,
    help: Option<String>,
}

impl Wires<'_> {
    fn runner(&self, agent: &Agent) -> Result<(Arc<dyn Runner>, bool), Unready> {
        Ok(match &agent.kind {
            AgentKind::Script { script } => (script::runner(script, &self.places, self.bounds()), false),
            AgentKind::Llm(llm) => {
                let wiring = llm::Wiring {
                    listener: self.shared.listener.clone(),
                    ..llm::Wiring::of(self.model(&llm.model)?)
                };
                let runner = LlmRunner::new(agent, llm, wiring)?;
                let simulated = runner.is_simulated();
                (Arc::new(runner), simulated)
            }
            AgentKind::Input(spec) => {
                let wiring = Wiring {
                    answers: self.shared.answers.clone(),
                    person: self.shared.person.clone(),
                    load: &self.load(),
                    connect: &|profile| {
                        let resolved = self.profiles.resolve(&ModelChoice::Profile(profile.clone()))?;
                        Model::connect(&resolved, &self.load())
                    },
                };
                let runner = InputRunner::new(agent, spec, wiring)?;
                let simulated = runner.is_simulated();
                (Arc::new(runner), simulated)
            }
            AgentKind::Ensemble { ensemble } => {
                let Inner {
                    conversations,
                    simulated,
                } = inner(ensemble, self.prepared, self.shared)?;
                (Arc::new(SubEnsembleRunner(conversations)), simulated)
            }
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            output_cap: OUTPUT_CAP,
            watchdog: self.shared.watchdog.clone(),
        }
    }

    fn model(&self, choice: &ModelChoice) -> Result<Model, Unready> {
        let resolved = self.profiles.resolve(choice)?;
        Ok(Model::connect(&resolved, &self.load())?)
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
    pub fn new(message: String) -> Self {
        Self { message, help: None }
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
            route.key(key).value(),
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

impl From<crate::model::ProfileError> for Unready {
    fn from(error: crate::model::ProfileError) -> Self {
        Self {
            help: error.help(),
            message: error.to_string(),
        }
    }
}

impl From<CliError> for Unready {
    fn from(error: CliError) -> Self {
        Self::new(error.render(false).trim_end().trim_start_matches("error: ").to_owned())
    }
}
