//! Rhai scripts that do not compile.

use std::path::Path;

use ensemble_agents::agent::kinds::script::Unavailable;
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, Responses, Simulated, Strategy};
use ensemble_language::loader::codes;
use ensemble_language::source::{At, Place, Route};
use ensemble_scripts::ScriptError;

use super::{Folder, unavailable};

impl Folder<'_> {
    /// The finding in the script at `path` if it does not compile, or the one at its name if it cannot be read.
    pub(super) fn broken(&self, path: &Path, at: At) -> Option<Finding> {
        let found = self.known(path, |known| match (&known.source, &known.examined.error) {
            (Err(why), _) => {
                let message = format!("cannot read `{}`: {why}", self.project.relative(path).display());
                let help = "a script is a text in UTF-8 that this user may read";
                Some(Finding::warning(codes::NO_SCRIPT, at, message).help(help))
            }
            (Ok(source), Some(ScriptError { message, line, column })) => {
                let (line, column) = (*line, *column);
                let span = source.word_at(Place { line, column });
                let message = format!("the script does not compile: {message}");
                Some(Finding::error(codes::BROKEN_SCRIPT, at, message).inside(source.clone(), span))
            }
            (Ok(_), None) => None,
        });
        found.flatten()
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
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
    }
}
