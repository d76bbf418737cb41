//! Help for writing ensembles: nothing here runs one.
//!
//! Invariant: nothing here runs an ensemble.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ensemble_explore::{Budget, Exploration, Inside, explore_while};
use ensemble_language::diagnostic::{Diagnostic, Severity};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::loader::schema::{SCHEMA, TEST_SCHEMA, of_config};
use ensemble_language::loader::{codes, explain, load};
use ensemble_language::source::Source;
use ensemble_project::Project;
use ensemble_project::check::Folder;
use ensemble_project::nested::{Named, nested};
use ensemble_project::prepare::{examine, prepare_text};
use ensemble_reports::report::diagnostics;
use ensemble_reports::report::exploration::{Explored, all_json};
use ensemble_runs::exploration::explore_inside_out;
use serde_json::{Value, json};

use crate::catalog::{Catalog, file_of};
use crate::skill::SKILL;
use crate::tools::Arguments;

/// The most states and the longest time of an exploration.
const STATES: u64 = 20_000;
const LONGEST: Duration = Duration::from_secs(10);
/// The name of a text that stands in no file.
const TEXT: &str = "text.yaml";

/// Draws an ensemble: mermaid, dot, svg or ascii.
pub type Draw = fn(&Ensemble, &str) -> Option<String>;

/// The output of a tool.
pub(crate) enum Said {
    /// A text.
    Text(String),
    /// A document.
    Document(Value),
}

/// An ensemble that a client names, or whose text it gives.
enum Given {
    File(PathBuf),
    Text(Source),
}

fn given(arguments: &mut Arguments, project: &Project) -> Result<Option<Given>, String> {
    match (arguments.text("ensemble")?, arguments.text("text")?) {
        (Some(_), Some(_)) => Err("give `ensemble` or `text`, not both".to_owned()),
        (Some(named), None) => Ok(Some(Given::File(file_of(project, &named)?))),
        (None, Some(text)) => Ok(Some(Given::Text(Source::new(TEXT, text)))),
        (None, None) => Ok(None),
    }
}

fn required(arguments: &mut Arguments, project: &Project) -> Result<Given, String> {
    given(arguments, project)?.ok_or_else(|| "give `ensemble` or `text`".to_owned())
}

/// `schema`.
pub(crate) fn schema(mut arguments: Arguments) -> Result<Said, String> {
    let form = arguments.text("form")?;
    arguments.end()?;
    match form.as_deref().unwrap_or("skill") {
        "skill" => Ok(Said::Text(SKILL.to_owned())),
        "json" => Ok(Said::Text(SCHEMA.to_owned())),
        "tests" => Ok(Said::Text(TEST_SCHEMA.to_owned())),
        "config" => Ok(Said::Text(of_config())),
        other => Err(format!(
            "there is no form `{other}`; expected skill, json, tests or config"
        )),
    }
}

/// `explain`.
pub(crate) fn explain_code(mut arguments: Arguments) -> Result<Said, String> {
    let code = arguments.required("code")?;
    arguments.end()?;
    let Some(known) = explain::find(&code) else {
        let near = explain::nearest(&code).map(|near| format!("; did you mean `{near}`?"));
        return Err(format!("there is no code `{code}`{}", near.unwrap_or_default()));
    };
    let title = codes::ALL
        .iter()
        .find(|(code, _)| *code == known)
        .map_or("", |(_, title)| title);
    Ok(Said::Text(format!(
        "{}: {title}\n\n{}",
        known.0,
        explain::explanation(known)
    )))
}

/// `validate`.
pub(crate) fn validate(mut arguments: Arguments, project: &Project) -> Result<Said, String> {
    let given = given(&mut arguments, project)?;
    arguments.end()?;
    let findings = match given {
        Some(Given::File(file)) => {
            let source = project.read(&file).map_err(|error| error.to_string())?;
            examined(&source, &file, project)
        }
        Some(Given::Text(source)) => examined(&source, Path::new(TEXT), project),
        None => {
            let wrong = Catalog::of(project).left_out.into_iter();
            let of_file = |file: PathBuf| {
                let source = project.read(&file).ok()?;
                Some(examined(&source, &file, project))
            };
            wrong.filter_map(|wrong| of_file(wrong.file)).flatten().collect()
        }
    };
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let document: Value = serde_json::from_str(&diagnostics::json(&findings)).map_err(|error| error.to_string())?;
    Ok(Said::Document(
        json!({"valid": errors == 0, "errors": errors, "diagnostics": document["diagnostics"]}),
    ))
}

fn examined(source: &Source, file: &Path, project: &Project) -> Vec<Diagnostic> {
    let loaded = load(source);
    examine(&loaded, &Folder::around(file, project))
}

/// `check`.
pub(crate) fn check(mut arguments: Arguments, project: &Project) -> Result<Said, String> {
    let given = required(&mut arguments, project)?;
    arguments.end()?;
    let (outer, inner) = match given {
        Given::File(file) => {
            let found = nested(&file, project, false, codes::UNANSWERED).map_err(|error| error.to_string())?;
            (found.0, found.1)
        }
        Given::Text(source) => (of_text(source, project)?, Vec::new()),
    };
    let begun = tokio::time::Instant::now();
    let parts = u32::try_from(inner.len() + 1).unwrap_or(u32::MAX);
    let mut at = 0;
    let mut explore = |named: &Named, inside: &Inside| {
        at += 1;
        let has_time = || begun.elapsed() < LONGEST / parts * at;
        let budget = Budget {
            states: STATES,
            nobody_answers: false,
            inside: Some(inside),
        };
        explore_while(&named.prepared.plan, budget, &has_time)
    };
    let (of_outer, of_inner) = explore_inside_out(&outer, &inner, project, &mut explore);
    let explored = |(named, found): (&Named, Exploration)| Explored::of(&named.prepared.plan, &named.path, found);
    let outer = explored((&outer, of_outer));
    let inner: Vec<Explored> = inner.iter().zip(of_inner).map(explored).collect();
    let document = serde_json::from_str(&all_json(&outer, &inner)).map_err(|error| error.to_string())?;
    Ok(Said::Document(document))
}

/// A text, as if it stood in the folder.
fn of_text(source: Source, project: &Project) -> Result<Named, String> {
    let folder = project.folder.clone();
    let root = project.project_root(&folder);
    let prepared = prepare_text(source, folder.join(TEXT), folder, root).map_err(|error| error.to_string())?;
    Ok(Named {
        path: TEXT.into(),
        prepared,
        inside: Vec::new(),
    })
}

/// `graph`.
pub(crate) fn graph(mut arguments: Arguments, project: &Project, draw: Draw) -> Result<Said, String> {
    let given = required(&mut arguments, project)?;
    let format = arguments.text("format")?.unwrap_or_else(|| "mermaid".to_owned());
    arguments.end()?;
    let named = match given {
        Given::File(file) => {
            let prepared = ensemble_project::prepare::prepare(&file, project).map_err(|error| error.to_string())?;
            Named {
                path: file,
                prepared,
                inside: Vec::new(),
            }
        }
        Given::Text(source) => of_text(source, project)?,
    };
    let drawn = draw(named.prepared.plan.ensemble(), &format);
    let no_format = || format!("there is no format `{format}`; expected mermaid, ascii, dot or svg");
    drawn.map(Said::Text).ok_or_else(no_format)
}
