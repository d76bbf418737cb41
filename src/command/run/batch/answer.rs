//! `ensemble batch answer`: prints the open questions of a batch, or answers the questions of one row.

use clap::{ArgAction, Args};

use crate::command::run::ResumeArgs;
use crate::command::run::arguments::{AnsweringArgs, RunExecutionArgs, RunOutputArgs, RunOutputFormat};
use crate::command::run::batch::progress::format_rows;
use crate::command::run::resume::resume_run;
use crate::command::runs::require_batch;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_core::request::{PendingRequest, render_question_line};
use ensemble_reports::report::story::quote_for_shell;
use ensemble_runs::batch::{BatchSummary, ExhaustedRowPolicy, FoundRow, RowStatus};
use serde_json::{Value, json};

/// `ensemble batch answer`.
#[derive(Debug, Args)]
pub(crate) struct BatchAnswerArgs {
    /// The batch: its name, or the path of its folder
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// The row: its cell in the column `id`, its number if no row has an id, or the id of its run; default: print all open
    /// questions
    #[arg(value_name = "ROW")]
    pub row: Option<String>,
    /// Answer the question of this agent, as `resume --answer` does. The name can be left out if the row asks one question
    #[arg(value_name = "AGENT=TEXT", action = ArgAction::Append)]
    pub texts: Vec<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: RunExecutionArgs,
}

/// Executes `ensemble batch answer`: prints open questions, or resumes the run of the row with the answers. Returns the exit code.
pub(crate) fn answer_batch_row(args: &BatchAnswerArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let batch = require_batch(&args.batch, surroundings)?;
    let Some(name) = &args.row else {
        return Ok(print_open_questions(&batch, &batch.list_rows(), args, surroundings));
    };
    let row = batch.find_row(name).map_err(|message| {
        let help = format!("print the rows with `ensemble runs list --batch {}`", batch.name);
        CliError::usage_error_with_help(message, help)
    })?;
    let number = row.number;
    if let Some(entry) = row
        .entry
        .filter(|entry| entry.status(ExhaustedRowPolicy::Accepted) != RowStatus::Waiting)
    {
        let message = format!("row {number} waits for no answer: {}", entry.outcome);
        let help = format!("print the open questions with `ensemble batch answer {}`", batch.name);
        return Err(CliError::usage_error_with_help(message, help));
    }
    let has_answers = !args.texts.is_empty() || args.answering != AnsweringArgs::default();
    if !has_answers {
        return Ok(print_open_questions(&batch, &[row], args, surroundings));
    }
    let mut answering = args.answering.clone();
    for text in &args.texts {
        answering.answer.push(complete_answer_address(text, &row)?);
    }
    let resume = ResumeArgs {
        admin: None,
        run: Some(row.folder.display().to_string()),
        last: false,
        ensemble: None,
        answering,
        showing: args.showing.clone(),
        on: None,
        driving: args.driving.clone(),
    };
    resume_run(&resume, surroundings)
}

/// Returns the open questions of the row, without its requests for permission.
fn list_row_questions<'r>(row: &FoundRow<'r>) -> impl Iterator<Item = &'r PendingRequest> {
    let questions = row.entry.map(|entry| entry.questions.as_slice()).unwrap_or_default();
    questions.iter().filter(|question| !question.is_permission())
}

/// Returns the answer as `ADDRESS=TEXT`. A text without an address gets the address of the only question of the row.
///
/// # Errors
/// The row has no question, or several questions that the text could answer.
fn complete_answer_address(text: &str, row: &FoundRow<'_>) -> Result<String, CliError> {
    let questions: Vec<&PendingRequest> = list_row_questions(row).collect();
    let names_question = |(address, _): (&str, &str)| {
        let is_meant =
            |question: &&PendingRequest| question.address.to_string() == address || &*question.agent == address;
        questions.iter().any(is_meant)
    };
    if text.split_once('=').is_some_and(names_question) {
        return Ok(text.to_owned());
    }
    match questions.as_slice() {
        [question] if !text.contains('=') || question.question.choices.iter().any(|choice| choice == text) => {
            Ok(format!("{}={text}", question.address))
        }
        // The command that resumes the run explains what is wrong.
        _ if text.contains('=') => Ok(text.to_owned()),
        several => {
            let names: Vec<String> = several
                .iter()
                .map(|question| format!("`{}`", question.address))
                .collect();
            let message = format!(
                "`{text}` names no agent, and row {} asks {} questions",
                row.number,
                names.len()
            );
            let help = match names.is_empty() {
                true => "write AGENT=TEXT".to_owned(),
                false => format!("write AGENT=TEXT with one of {}", names.join(", ")),
            };
            Err(CliError::usage_error_with_help(message, help))
        }
    }
}

/// Prints the open questions of the rows as text, or as one JSON document. Returns the exit code of success.
fn print_open_questions(
    batch: &BatchSummary,
    rows: &[FoundRow<'_>],
    args: &BatchAnswerArgs,
    surroundings: &CliEnvironment,
) -> u8 {
    match args.showing.output {
        RunOutputFormat::Human => surroundings.print_out(&render_questions(batch, rows)),
        RunOutputFormat::Json | RunOutputFormat::Events => {
            let document = format!("{:#}\n", questions_to_json(batch, rows));
            surroundings.print_out_in_format(RunOutputFormat::Json, &document);
        }
    }
    exit::SUCCESS
}

/// Converts the open questions of the rows to JSON.
fn questions_to_json(batch: &BatchSummary, rows: &[FoundRow<'_>]) -> Value {
    let asking = rows.iter().filter(|row| list_row_questions(row).next().is_some());
    let rows: Vec<Value> = asking
        .map(|row| {
            let questions: Vec<&PendingRequest> = list_row_questions(row).collect();
            let run = row.folder.file_name().map(|name| name.to_string_lossy());
            json!({"row": row.number, "id": row.label, "run": run, "questions": questions})
        })
        .collect();
    json!({"version": 1, "batch": batch.name, "rows": rows})
}

/// Renders the open questions of the rows, with a command that answers the first question.
fn render_questions(batch: &BatchSummary, rows: &[FoundRow<'_>]) -> String {
    let asking: Vec<&FoundRow<'_>> = rows
        .iter()
        .filter(|row| list_row_questions(row).next().is_some())
        .collect();
    let Some(first) = asking.first() else {
        return format!("{}: no row waits for an answer\n", batch.name);
    };
    let mut text = format!("{}: {} with open questions\n", batch.name, format_rows(asking.len()));
    for row in &asking {
        let label = row.label.map(|label| format!(" ({label})")).unwrap_or_default();
        for request in list_row_questions(row) {
            let question = render_question_line(&request.question);
            text.push_str(&format!(
                "  row {}{label}  {}: {question}\n",
                row.number, request.address
            ));
        }
    }
    if let Some(question) = list_row_questions(first).next() {
        let row = first.label.map_or_else(|| first.number.to_string(), str::to_owned);
        let choice = question.question.choices.first().map_or("TEXT", String::as_str);
        text.push_str(&format!(
            "  to answer: ensemble batch answer {} {} {}\n",
            batch.name,
            quote_for_shell(&row),
            quote_for_shell(&format!("{}={choice}", question.address))
        ));
    }
    text
}
