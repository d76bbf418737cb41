//! The tools for authors of ensembles: schema, validate, check, explain and graph.
//!
//! Invariant: no tool for authors runs an ensemble, reports a file outside of the served folder, or quotes a file that is not an ensemble.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ensemble_explore::{Exploration, ExplorationBudget, KnownNestedResults, explore_while_time_remains};
use ensemble_language::diagnostic::{Diagnostic, FindingSeverity};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::loader::schema::{ENSEMBLE_SCHEMA, TEST_SCHEMA, config_schema};
use ensemble_language::loader::{code_explanations, codes, load_ensemble};
use ensemble_language::source::SourceText;
use ensemble_language::yaml::document::MAX_BYTES;
use ensemble_project::Project;
use ensemble_project::check::EnsembleFolder;
use ensemble_project::nested::{LoadedNestedEnsemble, load_with_nested};
use ensemble_project::prepare::{check_loaded_ensemble, prepare_text};
use ensemble_reports::report::diagnostics;
use ensemble_reports::report::exploration::{ExploredEnsemble, render_explorations_json};
use ensemble_runs::exploration::explore_with_nested;
use serde_json::{Value, json};

use crate::catalog::{EnsembleToolCatalog, resolve_readable_ensemble};
use crate::skill::SKILL_MARKDOWN;
use crate::tools::ToolArguments;

/// The maximum number of states of an exploration.
const MAX_EXPLORED_STATES: u64 = 20_000;
/// The maximum duration of an exploration.
const MAX_EXPLORATION_TIME: Duration = Duration::from_secs(10);
/// The name of a text that is not in a file.
const TEXT_FILE_NAME: &str = "text.yaml";

/// A function that draws an ensemble in a format: mermaid, dot, svg or ascii.
pub type GraphDrawFn = fn(&Ensemble, &str) -> Option<String>;

/// The output of a tool for authors: a text or a JSON document.
pub(crate) enum AuthoringOutput {
    /// A text.
    Text(String),
    /// A document.
    Document(Value),
}

/// The ensemble in the arguments of a call: a file, or a text.
enum EnsembleArgument {
    File(PathBuf),
    Text(SourceText),
}

/// Removes the argument `ensemble` or `text` from the arguments. Returns `None` if both are missing. Fails if both are present.
fn take_ensemble_argument(
    arguments: &mut ToolArguments,
    project: &Project,
) -> Result<Option<EnsembleArgument>, String> {
    match (
        arguments.take_text_argument("ensemble")?,
        arguments.take_text_argument("text")?,
    ) {
        (Some(_), Some(_)) => Err("give `ensemble` or `text`, not both".to_owned()),
        (Some(name), None) => Ok(Some(EnsembleArgument::File(resolve_readable_ensemble(project, &name)?))),
        (None, Some(text)) if text.len() > MAX_BYTES => Err(format!(
            "`text` has {} bytes; an ensemble has at most {} MiB",
            text.len(),
            MAX_BYTES >> 20
        )),
        (None, Some(text)) => Ok(Some(EnsembleArgument::Text(SourceText::new(TEXT_FILE_NAME, text)))),
        (None, None) => Ok(None),
    }
}

/// Removes the argument `ensemble` or `text` from the arguments. Fails if both are missing or both are present.
fn take_required_ensemble(arguments: &mut ToolArguments, project: &Project) -> Result<EnsembleArgument, String> {
    take_ensemble_argument(arguments, project)?.ok_or_else(|| "give `ensemble` or `text`".to_owned())
}

/// Returns the JSON Schema of a file format (tool `schema`).
pub(crate) fn run_schema_tool(mut arguments: ToolArguments) -> Result<AuthoringOutput, String> {
    let form = arguments.take_text_argument("form")?;
    arguments.require_no_rest()?;
    match form.as_deref().unwrap_or("skill") {
        "skill" => Ok(AuthoringOutput::Text(SKILL_MARKDOWN.to_owned())),
        "json" => Ok(AuthoringOutput::Text(ENSEMBLE_SCHEMA.to_owned())),
        "tests" => Ok(AuthoringOutput::Text(TEST_SCHEMA.to_owned())),
        "config" => Ok(AuthoringOutput::Text(config_schema())),
        other => Err(format!(
            "there is no form `{other}`; expected skill, json, tests or config"
        )),
    }
}

/// Explains the code of a finding (tool `explain`).
pub(crate) fn run_explain_tool(mut arguments: ToolArguments) -> Result<AuthoringOutput, String> {
    let code = arguments.take_required_text("code")?;
    arguments.require_no_rest()?;
    let Some(known_code) = code_explanations::find_code(&code) else {
        let suggestion = code_explanations::find_nearest_code(&code).map(|near| format!("; did you mean `{near}`?"));
        return Err(format!("there is no code `{code}`{}", suggestion.unwrap_or_default()));
    };
    let title = codes::ALL
        .iter()
        .find(|(code, _)| *code == known_code)
        .map_or("", |(_, title)| title);
    Ok(AuthoringOutput::Text(format!(
        "{}: {title}\n\n{}",
        known_code.0,
        code_explanations::explain_code(known_code)
    )))
}

/// Checks an ensemble or a text, or all invalid ensembles of the folder (tool `validate`).
pub(crate) fn run_validate_tool(mut arguments: ToolArguments, project: &Project) -> Result<AuthoringOutput, String> {
    let project = &project.clone().with_boundary();
    let given_ensemble = take_ensemble_argument(&mut arguments, project)?;
    arguments.require_no_rest()?;
    let findings = match given_ensemble {
        Some(EnsembleArgument::File(file)) => {
            let source = project.read_file(&file).map_err(|error| error.to_string())?;
            check_ensemble_text(&source, &file, project)
        }
        Some(EnsembleArgument::Text(source)) => check_ensemble_text(&source, Path::new(TEXT_FILE_NAME), project),
        None => {
            let wrong = EnsembleToolCatalog::load_catalog(project).invalid_ensembles.into_iter();
            let of_file = |file: PathBuf| {
                let source = project.read_file(&file).ok()?;
                Some(check_ensemble_text(&source, &file, project))
            };
            wrong.filter_map(|wrong| of_file(wrong.file)).flatten().collect()
        }
    };
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == FindingSeverity::Error)
        .count();
    let document: Value =
        serde_json::from_str(&diagnostics::render_json_diagnostics(&findings)).map_err(|error| error.to_string())?;
    Ok(AuthoringOutput::Document(
        json!({"valid": errors == 0, "errors": errors, "diagnostics": document["diagnostics"]}),
    ))
}

/// Loads and checks the text as an ensemble with this path.
fn check_ensemble_text(source: &SourceText, file: &Path, project: &Project) -> Vec<Diagnostic> {
    let loaded = load_ensemble(source);
    check_loaded_ensemble(&loaded, &EnsembleFolder::for_file(file, project))
}

/// Explores the possible conversations of an ensemble (tool `check`).
pub(crate) fn run_check_tool(mut arguments: ToolArguments, project: &Project) -> Result<AuthoringOutput, String> {
    let project = &project.clone().with_boundary();
    let given_ensemble = take_required_ensemble(&mut arguments, project)?;
    arguments.require_no_rest()?;
    let (outer, inner) = match given_ensemble {
        EnsembleArgument::File(file) => {
            let outer_and_inner =
                load_with_nested(&file, project, false, codes::UNANSWERED).map_err(|error| error.to_string())?;
            (outer_and_inner.0, outer_and_inner.1)
        }
        EnsembleArgument::Text(source) => (prepare_ensemble_text(source, project)?, Vec::new()),
    };
    let started_at = tokio::time::Instant::now();
    let parts = u32::try_from(inner.len() + 1).unwrap_or(u32::MAX);
    let mut at = 0;
    let mut explore = |named: &LoadedNestedEnsemble, inside: &KnownNestedResults| {
        at += 1;
        let has_time = || started_at.elapsed() < MAX_EXPLORATION_TIME / parts * at;
        let budget = ExplorationBudget {
            states: MAX_EXPLORED_STATES,
            nobody_answers: false,
            inside: Some(inside),
        };
        explore_while_time_remains(&named.prepared.plan, budget, &has_time)
    };
    let (of_outer, of_inner) = explore_with_nested(&outer, &inner, project, &mut explore);
    let explored = |(named, found): (&LoadedNestedEnsemble, Exploration)| {
        ExploredEnsemble::new(&named.prepared.plan, &named.path, found)
    };
    let outer = explored((&outer, of_outer));
    let inner: Vec<ExploredEnsemble> = inner.iter().zip(of_inner).map(explored).collect();
    let document =
        serde_json::from_str(&render_explorations_json(&outer, &inner)).map_err(|error| error.to_string())?;
    Ok(AuthoringOutput::Document(document))
}

/// Prepares a text as if it were a file in the folder.
fn prepare_ensemble_text(source: SourceText, project: &Project) -> Result<LoadedNestedEnsemble, String> {
    let folder = project.folder.clone();
    let root = project.project_root(&folder);
    let prepared =
        prepare_text(source, folder.join(TEXT_FILE_NAME), folder, root).map_err(|error| error.to_string())?;
    Ok(LoadedNestedEnsemble {
        path: TEXT_FILE_NAME.into(),
        prepared,
        inner_files: Vec::new(),
    })
}

/// Draws an ensemble (tool `graph`).
pub(crate) fn run_graph_tool(
    mut arguments: ToolArguments,
    project: &Project,
    draw: GraphDrawFn,
) -> Result<AuthoringOutput, String> {
    let project = &project.clone().with_boundary();
    let given_ensemble = take_required_ensemble(&mut arguments, project)?;
    let format = arguments
        .take_text_argument("format")?
        .unwrap_or_else(|| "mermaid".to_owned());
    arguments.require_no_rest()?;
    let nested_ensemble = match given_ensemble {
        EnsembleArgument::File(file) => {
            let prepared =
                ensemble_project::prepare::prepare_file(&file, project).map_err(|error| error.to_string())?;
            LoadedNestedEnsemble {
                path: file,
                prepared,
                inner_files: Vec::new(),
            }
        }
        EnsembleArgument::Text(source) => prepare_ensemble_text(source, project)?,
    };
    let drawing = draw(nested_ensemble.prepared.plan.ensemble(), &format);
    let no_format = || format!("there is no format `{format}`; expected mermaid, ascii, dot or svg");
    drawing.map(AuthoringOutput::Text).ok_or_else(no_format)
}
