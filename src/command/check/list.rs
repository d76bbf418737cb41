//! `ensemble list`: the ensembles that can be run by name from here.

use serde_json::{Value, json};

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::ListArgs;
use crate::command::shared::surroundings::Surroundings;
use ensemble_language::diagnostic::Severity;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, Input, InputSpec};
use ensemble_language::loader::{Loaded, load};
use ensemble_reports::report::count;
use ensemble_reports::report::door::Spelling;
use ensemble_runs::around::Folder;
use ensemble_runs::prepare::examine;

/// An ensemble that can be named.
struct Listed {
    name: String,
    file: String,
    loaded: Loaded,
    errors: usize,
}

/// `ensemble list`.
pub(crate) fn list(args: &ListArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let listed = listed(surroundings);
    if args.is_json() {
        let ensembles: Vec<Value> = listed.iter().map(Listed::json).collect();
        let document = json!({"version": 1, "ensembles": ensembles});
        surroundings.print_as(Spelling::Json, &format!("{document:#}\n"));
        return Ok(exit::SUCCESS);
    }
    if listed.is_empty() {
        surroundings.print_err("there is no ensemble here; `ensemble init` creates one\n");
    }
    let texts: Vec<String> = listed.iter().map(Listed::text).collect();
    surroundings.print(&surroundings.streams.out_width().sentences(&texts.join("\n")));
    Ok(exit::SUCCESS)
}

/// The names of all ensembles that can be named here.
pub(crate) fn names(surroundings: &Surroundings) -> Vec<String> {
    listed(surroundings).into_iter().map(|listed| listed.name).collect()
}

/// The error of a command that needs an ensemble and got none.
pub(crate) fn none_named(command: &str, surroundings: &Surroundings) -> CliError {
    let help = match names(surroundings).as_slice() {
        [] => "`ensemble init` creates an ensemble; a file anywhere can be given by its path".to_owned(),
        names => format!(
            "`ensemble {command} NAME`, with one of these names: {}; `ensemble list` describes them",
            names.join(", ")
        ),
    };
    CliError::usage_with_help("no ensemble was named", help)
}

fn listed(surroundings: &Surroundings) -> Vec<Listed> {
    let project = &surroundings.project;
    let read = |(name, path): (String, std::path::PathBuf)| {
        let loaded = load(&project.read(&path).ok()?);
        let errors = examine(&loaded, &Folder::around(&path, project));
        let errors = errors.iter().filter(|finding| finding.severity == Severity::Error);
        Some(Listed {
            name,
            file: path.display().to_string(),
            errors: errors.count(),
            loaded,
        })
    };
    let files = project.named_files().into_iter().filter_map(read);
    files.filter(|listed| listed.loaded.is_ensemble()).collect()
}

/// The input agents, each with its question.
fn questions(ensemble: &Ensemble) -> impl Iterator<Item = (&Agent, &InputSpec)> {
    ensemble.agents.iter().filter_map(|agent| match &agent.kind {
        AgentKind::Input(input) => Some((agent, input)),
        _ => None,
    })
}

impl Listed {
    fn ensemble(&self) -> Option<&Ensemble> {
        self.loaded.ensemble.as_ref()
    }

    fn text(&self) -> String {
        let Self { name, file, errors, .. } = self;
        let description = self.ensemble().and_then(|ensemble| ensemble.description.as_deref());
        let about = description.and_then(|text| text.trim().lines().next());
        let mut text = match about {
            Some(about) => format!("{name}: {about}\n"),
            None => format!("{name}\n"),
        };
        if *errors > 0 {
            let errors = count(*errors as u64, "error");
            text.push_str(&format!("  {errors}; `ensemble validate {file}` shows them\n"));
        }
        let Some(ensemble) = self.ensemble() else {
            return text;
        };
        let agents: Vec<&str> = ensemble.agents.iter().map(|agent| &*agent.name).collect();
        let agents = format!("{}: {}", count(agents.len() as u64, "agent"), agents.join(", "));
        text.push_str(&format!("  {file}, {agents}\n"));
        for input in ensemble.inputs.iter().flatten() {
            let need = match input.default() {
                Some(default) => format!("default {default}"),
                None => "required".to_owned(),
            };
            let about = input
                .description()
                .map_or_else(String::new, |about| format!(": {}", about.trim()));
            text.push_str(&format!(
                "  input {} ({}, {need}){about}\n",
                input.name,
                input.type_name()
            ));
        }
        for (agent, input) in questions(ensemble) {
            let question = input.prompt.split_whitespace().collect::<Vec<_>>().join(" ");
            let choices = match input.choices.as_slice() {
                [] => String::new(),
                choices => format!(" ({})", choices.join(", ")),
            };
            text.push_str(&format!("  {} asks: {question}{choices}\n", agent.name));
        }
        text
    }

    fn json(&self) -> Value {
        let ensemble = self.ensemble();
        let agent = |agent: &Agent| json!({"name": agent.name, "type": agent.kind_name()});
        let declared = |input: &Input| json!({"name": input.name, "schema": input.schema});
        let question = |(agent, input): (&Agent, &InputSpec)| {
            json!({
                "agent": agent.name,
                "prompt": input.prompt,
                "choices": input.choices,
                "default": input.default,
            })
        };
        json!({
            "name": self.name,
            "file": self.file,
            "errors": self.errors,
            "description": ensemble.and_then(|ensemble| ensemble.description.as_deref()),
            "default_task": ensemble.and_then(|ensemble| ensemble.default_task.as_deref()),
            "inputs": ensemble.map(|ensemble| ensemble.inputs.iter().flatten().map(declared).collect::<Vec<_>>()),
            "agents": ensemble.map(|ensemble| ensemble.agents.iter().map(agent).collect::<Vec<_>>()),
            "asks": ensemble.map(|ensemble| questions(ensemble).map(question).collect::<Vec<_>>()),
        })
    }
}
