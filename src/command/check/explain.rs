//! `ensemble explain`: the explanation of a code with a wrong and a right example, or the interface of an ensemble.

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_language::diagnostic::FindingCode;
use ensemble_language::ensemble::{AgentKind, Ensemble, ResultSpec};
use ensemble_language::loader::{code_explanations as explanations, codes};
use ensemble_runs::EnsembleRef;

/// `ensemble explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A code such as E021, or an ensemble (a file or a name); default: list all codes
    #[arg(value_name = "CODE|FILE|NAME", add = completions::complete_codes_and_ensembles())]
    pub code: Option<String>,
}

/// Executes `ensemble explain`: prints a code, all codes, or the inputs and questions of an ensemble. Returns the exit code.
pub(crate) fn explain_code_or_ensemble(args: &ExplainArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let text = match &args.code {
        Some(ensemble_file) if is_ensemble_argument(ensemble_file, surroundings) => {
            let prepared = surroundings
                .runs_without_operator()
                .load_prepared_ensemble(&EnsembleRef::from_file_or_name(&**ensemble_file))?;
            render_ensemble_interface(prepared.plan.ensemble())
        }
        Some(code) => render_code_explanation(resolve_code(code)?),
        None => render_code_titles(),
    };
    surroundings.print_out(&text);
    Ok(exit::SUCCESS)
}

/// Returns the finding code with this name.
///
/// # Errors
/// There is no such code. The help text names a similar code.
pub(crate) fn resolve_code(code: &str) -> Result<FindingCode, CliError> {
    explanations::find_code(code).ok_or_else(|| {
        let message = format!("there is no code `{code}`");
        CliError::usage_error_with_help(
            message,
            match explanations::find_nearest_code(code) {
                Some(guess) => format!("did you mean `{guess}`? `ensemble explain` lists all codes"),
                None => "`ensemble explain` lists all codes".to_owned(),
            },
        )
    })
}

/// Returns whether the argument is an ensemble and not a code.
fn is_ensemble_argument(named: &str, surroundings: &CliEnvironment) -> bool {
    let is_path = named.contains(['/', '.']);
    explanations::find_code(named).is_none() && (is_path || surroundings.project.resolve_ensemble_file(named).is_ok())
}

/// Renders the inputs, the result and the questions of the ensemble.
fn render_ensemble_interface(ensemble: &Ensemble) -> String {
    let mut text = format!("{}\n", ensemble.name);
    if let Some(description) = &ensemble.description {
        text.push_str(&format!("  {}\n", description.trim().replace('\n', "\n  ")));
    }
    text.push_str("\ninput: a text");
    if let Some(task) = &ensemble.default_task {
        text.push_str(&format!(", default {}", serde_json::json!(task.trim())));
    }
    match &ensemble.inputs {
        None => text.push_str("\ninputs: none declared; --set adds values to the context\n"),
        Some(inputs) if inputs.is_empty() => text.push_str("\ninputs: none\n"),
        Some(inputs) => {
            text.push_str("\ninputs:\n");
            for input in inputs {
                let default = input
                    .default_value()
                    .map_or("required".to_owned(), |value| format!("default {value}"));
                let description = input
                    .description()
                    .map_or(String::new(), |said| format!(": {}", said.trim()));
                text.push_str(&format!(
                    "  {} ({}, {default}){description}\n",
                    input.name,
                    input.type_name()
                ));
            }
        }
    }
    match &ensemble.result {
        None => text.push_str("result: the final state\n"),
        Some(ResultSpec::Agent(agent)) => text.push_str(&format!("result: the latest output of {agent}\n")),
        Some(ResultSpec::Map(entries)) => {
            text.push_str("result:\n");
            let lines = entries
                .iter()
                .map(|(key, expression)| format!("  {key}: {}\n", expression.trim()));
            text.extend(lines);
        }
    }
    if let Some(success) = &ensemble.success {
        text.push_str(&format!("success: {}\n", success.trim()));
    }
    let required = ensemble.agents.iter().filter(|agent| agent.required);
    let required: Vec<&str> = required.map(|agent| &*agent.name).collect();
    if !required.is_empty() {
        text.push_str(&format!("required: {}\n", required.join(", ")));
    }
    let asks: Vec<String> = ensemble
        .agents
        .iter()
        .filter_map(|agent| match &agent.kind {
            AgentKind::Input(spec) => Some(format!("  {}: {}\n", agent.name, spec.prompt.trim())),
            _ => None,
        })
        .collect();
    if !asks.is_empty() {
        text.push_str(&format!("asks a person:\n{}", asks.concat()));
    }
    text
}

/// Renders the title and the explanation of the code.
fn render_code_explanation(code: FindingCode) -> String {
    let title = codes::ALL.iter().find(|(known, _)| *known == code);
    let title = title.map_or("", |(_, title)| title);
    format!("{}: {title}\n\n{}", code.0, explanations::explain_code(code))
}

/// Renders one line with the title for each code.
fn render_code_titles() -> String {
    codes::ALL
        .iter()
        .map(|(code, title)| format!("{}  {title}\n", code.0))
        .collect()
}
