//! `ensemble list`: lists the ensembles that can be run by name in this folder.

use serde_json::{Value, json};

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormatArgs;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, InputDeclaration, QuestionSpec};
use ensemble_project::catalogue::{NamedEnsemble, list_named_ensembles};
use ensemble_reports::report::format_count;
use ensemble_reports::report::sanitized_writer::EscapeStyle;

/// Executes `ensemble list`: prints the ensembles with their inputs and questions. Returns the exit code.
pub(crate) fn print_named_ensembles(args: &DocumentFormatArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let named_ensembles: Vec<NamedEnsemble> = list_named_ensembles(&surroundings.project).collect();
    if args.is_json() {
        let ensembles: Vec<Value> = named_ensembles.iter().map(catalogue_entry_to_json).collect();
        let document = json!({"version": 1, "ensembles": ensembles});
        surroundings.print_out_in_format(EscapeStyle::Json, &format!("{document:#}\n"));
        return Ok(exit::SUCCESS);
    }
    if named_ensembles.is_empty() {
        surroundings.print_err("there is no ensemble here; `ensemble init` creates one\n");
    }
    let texts: Vec<String> = named_ensembles.iter().map(render_catalogue_entry).collect();
    surroundings.print_out(&surroundings.streams.out_width().wrap_sentences(&texts.join("\n")));
    Ok(exit::SUCCESS)
}

/// Returns the names of all ensembles that can be run by name in this folder.
pub(crate) fn list_ensemble_names(surroundings: &CliEnvironment) -> Vec<String> {
    list_named_ensembles(&surroundings.project)
        .map(|listed| listed.name)
        .collect()
}

/// Creates the error of a command without its ensemble argument. The help text lists the names of ensembles.
pub(crate) fn no_ensemble_argument_error(command: &str, surroundings: &CliEnvironment) -> CliError {
    let help = match list_ensemble_names(surroundings).as_slice() {
        [] => "create an ensemble with `ensemble init`, or name a file by its path".to_owned(),
        names => format!(
            "write `ensemble {command} NAME` with one of these names: {}; `ensemble list` describes them",
            names.join(", ")
        ),
    };
    CliError::usage_error_with_help("no ensemble was named", help)
}

/// Iterates over the input agents, each with its question.
fn questions_of_input_agents(ensemble: &Ensemble) -> impl Iterator<Item = (&Agent, &QuestionSpec)> {
    ensemble.agents.iter().filter_map(|agent| match &agent.kind {
        AgentKind::Input(input) => Some((agent, input)),
        _ => None,
    })
}

/// Renders an ensemble for people: description, errors, inputs and questions.
fn render_catalogue_entry(listed: &NamedEnsemble) -> String {
    let NamedEnsemble {
        name,
        file,
        errors,
        loaded,
    } = listed;
    let file = file.display();
    let description = loaded
        .ensemble
        .as_ref()
        .and_then(|ensemble| ensemble.description.as_deref());
    let about = description.and_then(|text| text.trim().lines().next());
    let mut text = match about {
        Some(about) => format!("{name}: {about}\n"),
        None => format!("{name}\n"),
    };
    if !errors.is_empty() {
        let errors = format_count(errors.len() as u64, "error");
        text.push_str(&format!(
            "  {errors}; run `ensemble validate {file}` to see all errors\n"
        ));
    }
    let Some(ensemble) = &loaded.ensemble else {
        return text;
    };
    let agents: Vec<&str> = ensemble.agents.iter().map(|agent| &*agent.name).collect();
    let agents = format!("{}: {}", format_count(agents.len() as u64, "agent"), agents.join(", "));
    text.push_str(&format!("  {file}, {agents}\n"));
    for input in ensemble.inputs.iter().flatten() {
        let need = match input.default_value() {
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
    for (agent, input) in questions_of_input_agents(ensemble) {
        let question = input.prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        let choices = match input.choices.as_slice() {
            [] => String::new(),
            choices => format!(" ({})", choices.join(", ")),
        };
        text.push_str(&format!("  {} asks: {question}{choices}\n", agent.name));
    }
    text
}

/// Converts an ensemble to JSON.
fn catalogue_entry_to_json(listed: &NamedEnsemble) -> Value {
    let ensemble = listed.loaded.ensemble.as_ref();
    let agent = |agent: &Agent| json!({"name": agent.name, "type": agent.kind_name()});
    let declared = |input: &InputDeclaration| json!({"name": input.name, "schema": input.schema});
    let question = |(agent, input): (&Agent, &QuestionSpec)| {
        json!({
            "agent": agent.name,
            "prompt": input.prompt,
            "choices": input.choices,
            "default": input.default,
        })
    };
    json!({
        "name": listed.name,
        "file": listed.file.display().to_string(),
        "errors": listed.errors.len(),
        "description": ensemble.and_then(|ensemble| ensemble.description.as_deref()),
        "default_task": ensemble.and_then(|ensemble| ensemble.default_task.as_deref()),
        "inputs": ensemble.map(|ensemble| ensemble.inputs.iter().flatten().map(declared).collect::<Vec<_>>()),
        "agents": ensemble.map(|ensemble| ensemble.agents.iter().map(agent).collect::<Vec<_>>()),
        "asks": ensemble.map(|ensemble| questions_of_input_agents(ensemble).map(question).collect::<Vec<_>>()),
    })
}
