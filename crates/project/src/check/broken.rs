//! Checks of Rhai scripts that do not compile.

use std::path::Path;

use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{
    Agent, AgentKind, Ensemble, PreparedResponses, SimulatedReplySource, WindowStrategy,
};
use ensemble_language::loader::codes;
use ensemble_language::source::{LineColumn, Route, RouteLocation};
use ensemble_process::program::ScriptLookupError;
use ensemble_scripts::ScriptError;

use super::EnsembleFolder;

impl EnsembleFolder<'_> {
    /// Returns the finding in the script at `path` if the script does not compile, or the finding at its name if the file cannot be read.
    pub(super) fn check_rhai_file_compiles(&self, path: &Path, at: RouteLocation) -> Option<Finding> {
        let finding = self.map_script_facts(path, |known| match (&known.source, &known.analysis.error) {
            (Err(error), _) => {
                let message = format!("cannot read `{}`: {error}", self.project.relative_path(path).display());
                let help = "save the script as UTF-8, and make it readable for this user";
                Some(Finding::new_warning(codes::NO_SCRIPT, at, message).with_help(help))
            }
            (Ok(source), Some(ScriptError { message, line, column })) => {
                let (line, column) = (*line, *column);
                let span = source.find_word_span(LineColumn { line, column });
                let message = format!("the script does not compile: {message}");
                Some(Finding::new_error(codes::BROKEN_SCRIPT, at, message).with_inner_source(source.clone(), span))
            }
            (Ok(_), None) => None,
        });
        finding.flatten()
    }

    /// Checks the scripts that replace a user, a model, or the rules of a context window.
    pub(super) fn check_replacement_scripts(&self, ensemble: &Ensemble) -> Vec<Finding> {
        let agents = ensemble.agents.iter().enumerate();
        let of_agents = agents.filter_map(|(at, agent)| find_agent_script(agent, &Agent::route_at(at)));
        let of_profiles = ensemble.model_profiles.iter().filter_map(|(name, profile)| {
            let Some(SimulatedReplySource::Script(path)) = &profile.simulated else {
                return None;
            };
            let route = Route::root().with_key("model_profiles").with_key(name.clone());
            Some((path.as_str(), route.with_key("script").into_value_location()))
        });
        let all = of_agents.chain(of_profiles);
        all.filter_map(|(name, at)| self.check_rhai_script_name(name, at))
            .collect()
    }

    /// Checks a script that must be a Rhai script.
    fn check_rhai_script_name(&self, name: &str, at: RouteLocation) -> Option<Finding> {
        if !self.allows_paths_in_text(name) {
            return None;
        }
        match self.places.find_file(name) {
            Some(path) => self.check_rhai_file_compiles(&path, at),
            None => {
                let error = ScriptLookupError::for_missing_file(
                    format!("there is no script `{name}`"),
                    "put the script into the folder of the ensemble, the project root or its `scripts` folder",
                );
                self.unavailable_script_finding(error, at)
            }
        }
    }
}

/// Returns the script that answers for a user, or that selects the messages for a model, with its location.
fn find_agent_script<'a>(agent: &'a Agent, route: &Route) -> Option<(&'a str, RouteLocation)> {
    match &agent.kind {
        AgentKind::Input(input) => match &input.responses {
            Some(PreparedResponses::Script(path)) => Some((
                path,
                route
                    .with_key("input")
                    .with_key("responses")
                    .with_key("script")
                    .into_value_location(),
            )),
            _ => None,
        },
        AgentKind::Llm(llm) => match &llm.context_window.as_ref()?.strategy {
            WindowStrategy::Custom(path) => Some((
                path,
                route
                    .with_key("context_window")
                    .with_key("strategy")
                    .with_key("custom")
                    .into_value_location(),
            )),
            _ => None,
        },
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
    }
}
