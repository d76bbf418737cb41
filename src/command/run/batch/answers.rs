//! Answers of a batch: for all rows, and for single rows from a file in YAML, JSON or CSV.

use std::path::Path;

use serde_json::Value;

use crate::command::run::arguments::AnsweringArgs;
use crate::command::run::batch::rows::{read_regular_file, row_errors_to_cli_error};
use crate::command::run::run_options;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::ensemble::Ensemble;
use ensemble_language::loader::{self, AgentAnswers};
use ensemble_project::ProjectError;
use ensemble_project::project::read_source;
use ensemble_runs::PreparedAnswers;
use ensemble_runs::batch::{RowAnswer, RowPlace, decode_table, parse_answer_table};

/// Answers that the options of a batch contain.
pub(super) struct BatchAnswerInputs {
    /// The answers for all rows.
    pub(super) common: PreparedAnswers,
    /// The answers for single rows.
    pub(super) rows: Vec<RowAnswer>,
}

/// Loads the answers of the options, and the answers of the file for all rows or for single rows.
pub(super) fn load_batch_answer_inputs(
    args: &AnsweringArgs,
    label_column: Option<&str>,
    ensemble: &Ensemble,
    surroundings: &CliEnvironment,
) -> Result<BatchAnswerInputs, CliError> {
    let mut answers = BatchAnswerInputs {
        common: run_options::answering_options(&without_answers_file(args), surroundings)?.answers,
        rows: Vec::new(),
    };
    if let Some(file) = &args.answers {
        answers.add_answers_file(file, label_column, ensemble, surroundings)?;
    }
    Ok(answers)
}

/// Returns the options without the answers file, which can contain answers for single rows.
pub(super) fn without_answers_file(args: &AnsweringArgs) -> AnsweringArgs {
    AnsweringArgs {
        answers: None,
        ..args.clone()
    }
}

impl BatchAnswerInputs {
    /// Adds the answers of a CSV, JSON or YAML file. The ensemble tells agents from rows.
    fn add_answers_file(
        &mut self,
        file: &Path,
        label_column: Option<&str>,
        ensemble: &Ensemble,
        surroundings: &CliEnvironment,
    ) -> Result<(), CliError> {
        let (path, name) = (surroundings.project.folder.join(file), file.display().to_string());
        // The first part of an address is the name of an agent.
        let is_agent = |name: &str| {
            let agent = name.split(['/', '#', '[', '@']).next().unwrap_or(name);
            ensemble
                .find_agent(name)
                .or_else(|| ensemble.find_agent(agent))
                .is_some()
        };
        let kind = file.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        match kind.to_lowercase().as_str() {
            "csv" => {
                let text = decode_table(&name, &read_regular_file(&path, &name)?)
                    .into_text()
                    .map_err(row_errors_to_cli_error)?;
                let rows = parse_answer_table(&name, &text, label_column).map_err(row_errors_to_cli_error)?;
                self.rows.extend(rows);
                Ok(())
            }
            "json" => {
                let text = decode_table(&name, &read_regular_file(&path, &name)?)
                    .into_text()
                    .map_err(row_errors_to_cli_error)?;
                self.add_json_answers(&name, &text, &is_agent)
            }
            _ => {
                let source = read_source(&path)?;
                let read = loader::load_batch_answers(&source, &is_agent).map_err(ProjectError::Invalid)?;
                for (agent, answers) in read.common {
                    self.common.insert_file_entry(&*agent, answers_to_value(answers));
                }
                for (row, answers) in read.rows {
                    for (agent, answers) in answers {
                        self.add_row_answer(&name, &row, &agent, answers_to_value(answers));
                    }
                }
                Ok(())
            }
        }
    }

    /// Adds the answers of a JSON text: those of rows, and those of agents for all rows. `name` is the file name for errors.
    fn add_json_answers(&mut self, name: &str, text: &str, is_agent: &dyn Fn(&str) -> bool) -> Result<(), CliError> {
        let refuse = |what: String| {
            let help = r#"write {"ROW": {"AGENT": "answer"}} or {"AGENT": "answer"}"#;
            CliError::usage_error_with_help(format!("{name}: {what}"), help)
        };
        let value: Value = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
        let Value::Object(entries) = value else {
            return Err(refuse("the answers must be a JSON object".to_owned()));
        };
        for (key, value) in entries {
            match value {
                Value::Object(answers) if !is_agent(&key) => {
                    for (agent, answer) in answers {
                        if answer.is_null() {
                            return Err(refuse(format!("the answer of `{agent}` for `{key}` is null")));
                        }
                        self.add_row_answer(name, &key, &agent, answer);
                    }
                }
                Value::Null => return Err(refuse(format!("the answer of `{key}` is null"))),
                answer => self.common.insert_file_entry(key, answer),
            }
        }
        Ok(())
    }

    /// Adds one answer for one row. `place` names the file for errors.
    fn add_row_answer(&mut self, place: &str, row: &str, agent: &str, answer: Value) {
        self.rows.push(RowAnswer {
            place: RowPlace::from_source(place),
            row: row.to_owned(),
            agent: agent.to_owned(),
            answer,
        });
    }
}

/// Converts the answers of an agent to a JSON value: a value for every question, or a list with one value for each question.
fn answers_to_value(answers: AgentAnswers) -> Value {
    match answers {
        AgentAnswers::Always(value) => value,
        AgentAnswers::Each(values) => Value::Array(values),
    }
}
