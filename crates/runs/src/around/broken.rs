//! Rhai scripts that do not compile.

use std::path::Path;

use ensemble_agents::agent::script::Unavailable;
use ensemble_agents::sandbox::{Script, ScriptError};
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, Responses, Simulated, Strategy};
use ensemble_language::loader::codes;
use ensemble_language::source::{At, Route};

use super::{Folder, MOST, text_of, unavailable};

impl Folder<'_> {
    /// The error if the script at `path` does not compile.
    pub(super) fn broken(&self, path: &Path, at: At) -> Option<Finding> {
        let ScriptError { message, line, column } = self.compile_error(path)?;
        let name = self.project.relative(path);
        let place = match line {
            0 => name.display().to_string(),
            line => format!("{}:{line}:{column}", name.display()),
        };
        let message = format!("the script does not compile: {place}: {message}");
        Some(Finding::error(codes::BROKEN_SCRIPT, at, message))
    }

    fn compile_error(&self, path: &Path) -> Option<ScriptError> {
        if let Some(known) = self.broken.borrow().get(path) {
            return known.clone();
        }
        let error = text_of(path).and_then(|text| Script::compile(&text).err());
        let mut broken = self.broken.borrow_mut();
        if broken.len() >= MOST {
            broken.clear();
        }
        broken.insert(path.to_owned(), error.clone());
        error
    }

    /// The findings about scripts that stand for a person, for a model, or for the rules of a context window.
    pub(super) fn scripts_in_place_of_others(&self, ensemble: &Ensemble) -> Vec<Finding> {
        let agents = ensemble.agents.iter().enumerate();
        let of_agents = agents.filter_map(|(at, agent)| of_agent(agent, &Agent::route(at)));
        let of_profiles = ensemble.model_profiles.iter().filter_map(|(name, profile)| {
            let Some(Simulated::Script(path)) = &profile.simulated else {
                return None;
            };
            let route = Route::root().key("model_profiles").key(name.clone());
            Some((path.as_str(), route.key("script").value()))
        });
        let all = of_agents.chain(of_profiles);
        all.filter_map(|(name, at)| self.rhai(name, at)).collect()
    }

    /// The finding about a script that is always a Rhai script.
    fn rhai(&self, name: &str, at: At) -> Option<Finding> {
        match self.places.find(name) {
            Some(path) => self.broken(&path, at),
            None => {
                let why = Unavailable {
                    message: format!("there is no script `{name}`"),
                    help: "it is searched in the folder of the ensemble, the project root and its `scripts` folder"
                        .to_owned(),
                };
                unavailable(why, at)
            }
        }
    }
}

/// The script that answers for a person, or selects the messages that a model receives.
fn of_agent<'a>(agent: &'a Agent, route: &Route) -> Option<(&'a str, At)> {
    match &agent.kind {
        AgentKind::Input(input) => match &input.responses {
            Some(Responses::Script(path)) => Some((path, route.key("input").key("responses").key("script").value())),
            _ => None,
        },
        AgentKind::Llm(llm) => match &llm.context_window.as_ref()?.strategy {
            Strategy::Custom(path) => Some((path, route.key("context_window").key("strategy").key("custom").value())),
            _ => None,
        },
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } => None,
    }
}
