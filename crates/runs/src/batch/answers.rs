//! The answers for single rows, and the table of open questions in which an operator fills in the answers.

use std::collections::{HashMap, HashSet};

use ensemble_agents::agent::kinds::input::PreparedAnswers;
use ensemble_core::request::{PendingRequest, list_best_matches};
use ensemble_core::secrets::Secrets;
use serde_json::Value;

use super::csv_table::parse_csv;
use super::identity::RowRunName;
use super::row::{CellValue, LABEL_COLUMN};
use super::row_place::sort_errors;
use super::{BatchRow, RowError, RowPlace, TableLine};

/// The columns of the CSV table of open questions.
const COLUMNS: [&str; 7] = ["run", "id", "row", "agent", "question", "choices", "answer"];

/// An answer for an input agent in one row of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct RowAnswer {
    /// The place of the answer in its table.
    pub place: RowPlace,
    /// The row: the id of its run, its cell in the column that names rows, or its number if there is no such column.
    pub row: String,
    /// The agent that asks, or the address of the question.
    pub agent: String,
    /// The answer.
    pub answer: Value,
}

/// Parses a CSV table of answers: one answer per line, or one row per line with a column for each agent. Skips empty answers.
///
/// # Errors
/// All errors of the table, and lines that name no row.
pub fn parse_answer_table(name: &str, text: &str, label_column: Option<&str>) -> Result<Vec<RowAnswer>, Vec<RowError>> {
    let label_column = label_column.unwrap_or(LABEL_COLUMN);
    let table = parse_csv(name, text, b',');
    let mut answers = Vec::new();
    let mut wrong = table.errors;
    let has_column = |name: &str| table.columns.iter().any(|column| column == name);
    if has_column("agent") && !has_column("answer") {
        wrong.push(RowError {
            place: RowPlace::from_source(name).with_line(1),
            what: "the column `answer` is missing: a table with a column `agent` has its answers there".to_owned(),
        });
    }
    for line in table.rows {
        let place = line.place;
        let cells: HashMap<String, String> = line
            .cells
            .into_iter()
            .filter_map(|(column, cell)| match cell {
                CellValue::Text(text) => Some((column, text)),
                CellValue::Value(_) => None,
            })
            .collect();
        let row_columns = ["run", label_column, "row"];
        let Some(row) = row_columns.iter().find_map(|column| cells.get(*column)) else {
            let what = format!("this line names no row: it needs `run`, `{label_column}` or `row`");
            wrong.push(RowError { place, what });
            continue;
        };
        let answer = |agent: &str, text: &str| RowAnswer {
            place: place.clone(),
            row: row.clone(),
            agent: agent.to_owned(),
            answer: Value::from(text),
        };
        match (cells.get("agent"), cells.get("answer")) {
            (Some(agent), Some(text)) => answers.push(answer(agent, text)),
            (Some(_), None) => {}
            (None, _) => {
                let agents = cells
                    .iter()
                    .filter(|(column, _)| !row_columns.contains(&column.as_str()));
                answers.extend(agents.map(|(agent, text)| answer(agent, text)));
            }
        }
    }
    sort_errors(&mut wrong);
    if wrong.is_empty() { Ok(answers) } else { Err(wrong) }
}

/// Renders the open questions of the rows as CSV, one question per line, with the answers that no question has used.
pub(super) fn questions_to_csv<'a>(
    lines: impl Iterator<Item = (TableLine<'a>, &'a RowAnswers)>,
    secrets: &Secrets,
) -> std::io::Result<String> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(COLUMNS)?;
    for (line, answers) in lines {
        let Some(entry) = line.entry else { continue };
        for question in entry.questions.iter().filter(|question| !question.is_permission()) {
            let number = line.number.to_string();
            let given = answers.find_answer_text(question, &entry.questions).unwrap_or_default();
            table.write_record([
                &*entry.run,
                line.row.label.as_deref().unwrap_or_default(),
                &number,
                &question.address.to_string(),
                &question.question.prompt,
                &question.question.choices.join(" | "),
                &*secrets.redact(given),
            ])?;
        }
    }
    let bytes = table.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(std::io::Error::other)
}

/// The answers of one row, by agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowAnswers(Vec<(String, Value)>);

impl RowAnswers {
    /// Returns the common answers, replaced by the answers of this row where both have one for an agent.
    pub(super) fn with_common_answers(&self, common: &PreparedAnswers) -> PreparedAnswers {
        let mut answers = common.clone();
        for (agent, answer) in &self.0 {
            answers.insert_file_entry(agent.as_str(), answer.clone());
        }
        answers
    }

    /// Returns whether the row has no answers.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Renders the answers as a text. Equal answers have equal texts.
    pub(super) fn to_comparison_text(&self) -> String {
        format!("{:?}", self.0)
    }

    /// Finds the answer to this question. Returns `None` if no answer names the question, or if the answer is not a text.
    fn find_answer_text(&self, question: &PendingRequest, pending: &[PendingRequest]) -> Option<String> {
        let is_meant = |agent: &str| list_best_matches(agent, pending).contains(&question);
        let (_, answer) = self.0.iter().find(|(agent, _)| is_meant(agent))?;
        answer.as_str().map(str::to_owned)
    }
}

/// Returns whether one of these questions has an answer. With `decides_tools`, every permission request counts as answered.
pub(super) fn has_answer_for_any(answers: &PreparedAnswers, questions: &[PendingRequest], decides_tools: bool) -> bool {
    questions.iter().any(|question| {
        if question.is_permission() {
            return decides_tools;
        }
        let is_meant = |(given, _): (&str, &str)| list_best_matches(given, questions).contains(&question);
        answers.option_answers().any(is_meant)
            || answers
                .find_file_answer(&question.address, question.execution)
                .is_some()
    })
}

/// An index of rows by run key, label and number.
pub(super) struct RowDirectory<'r> {
    by_key: HashMap<&'r str, usize>,
    by_label: HashMap<&'r str, Vec<usize>>,
    /// The numbers in the table, in order.
    numbers: Vec<usize>,
}

/// A row of a [`RowDirectory`].
pub(super) struct DirectoryEntry<'r> {
    /// The number in the table.
    pub(super) number: usize,
    pub(super) key: &'r str,
    pub(super) label: Option<&'r str>,
}

impl<'r> RowDirectory<'r> {
    /// Indexes the rows, whose order is the order of their numbers.
    pub(super) fn new(rows: impl Iterator<Item = DirectoryEntry<'r>>) -> Self {
        let mut directory = Self {
            by_key: HashMap::new(),
            by_label: HashMap::new(),
            numbers: Vec::new(),
        };
        for (at, row) in rows.enumerate() {
            directory.by_key.insert(row.key, at);
            directory.numbers.push(row.number);
            if let Some(label) = row.label {
                directory.by_label.entry(label).or_default().push(at);
            }
        }
        directory
    }

    /// Indexes all rows of a table. `keys` contains the run key of each row.
    pub(super) fn for_table(keys: &'r [String], rows: &'r [BatchRow]) -> Self {
        let rows = keys.iter().zip(rows).zip(1..);
        Self::new(rows.map(|((key, row), number)| DirectoryEntry {
            number,
            key,
            label: row.label.as_deref(),
        }))
    }

    /// Returns the answers of each row.
    ///
    /// # Errors
    /// All answers for rows that do not exist or are not unique, and second answers for one question.
    pub(super) fn assign_answers(&self, given: Vec<RowAnswer>) -> Result<Vec<RowAnswers>, Vec<RowError>> {
        let mut answers = vec![RowAnswers::default(); self.numbers.len()];
        let mut known = HashSet::new();
        let mut wrong = Vec::new();
        for one in given {
            let found = self.find_row(&one.row).and_then(|at| {
                let is_new = known.insert((at, one.agent.clone()));
                let twice = || format!("the row `{}` has a second answer for `{}`", one.row, one.agent);
                is_new.then_some(at).ok_or_else(twice)
            });
            match found {
                Ok(at) => answers[at].0.push((one.agent, one.answer)),
                Err(what) => wrong.push(RowError { place: one.place, what }),
            }
        }
        if wrong.is_empty() { Ok(answers) } else { Err(wrong) }
    }

    /// Finds the index of a row by the id of its run, by its label, or by its number if no row has a label.
    ///
    /// # Errors
    /// No row has this name, or several rows have it.
    pub(super) fn find_row(&self, name: &str) -> Result<usize, String> {
        let key = RowRunName::parse(name).map_or(name, |run| run.key);
        if let Some(at) = self.by_key.get(key) {
            return Ok(*at);
        }
        match self.by_label.get(name).map(Vec::as_slice) {
            Some([at]) => return Ok(*at),
            Some(several) => {
                let rows: Vec<String> = several.iter().map(|at| self.numbers[*at].to_string()).collect();
                return Err(format!("`{name}` names several rows: {}", rows.join(", ")));
            }
            None => {}
        }
        let number = name.parse::<usize>().ok().filter(|_| self.by_label.is_empty());
        match number.and_then(|number| self.numbers.binary_search(&number).ok()) {
            Some(at) => Ok(at),
            None => Err(format!("there is no row `{name}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(row: &str, agent: &str, text: &str) -> RowAnswer {
        RowAnswer {
            place: RowPlace::from_source("a.csv").with_line(2),
            row: row.to_owned(),
            agent: agent.to_owned(),
            answer: Value::from(text),
        }
    }

    #[test]
    fn answers_are_one_per_line_or_one_row_per_line() {
        let long = "run,id,row,agent,question,choices,answer\nrow-1,,1,gate,Refund?,yes | no,yes\nrow-2,,2,gate,Refund?,yes | no,\n";
        assert_eq!(
            parse_answer_table("a.csv", long, None),
            Ok(vec![answer("row-1", "gate", "yes")])
        );
        let wide = "id,gate\nT-1,approve\n";
        assert_eq!(
            parse_answer_table("a.csv", wide, None),
            Ok(vec![answer("T-1", "gate", "approve")])
        );
        let renamed = "ticket,gate\nT-1,approve\n";
        assert_eq!(
            parse_answer_table("a.csv", renamed, Some("ticket")),
            Ok(vec![answer("T-1", "gate", "approve")])
        );
        let wrong = parse_answer_table("a.csv", "gate\nyes\n", None).expect_err("no row is named");
        assert_eq!(
            wrong[0].to_string(),
            "a.csv:2: this line names no row: it needs `run`, `id` or `row`"
        );
    }

    #[test]
    fn rows_are_found_by_run_label_or_number() {
        let keys: Vec<String> = ["row-a", "row-b", "row-c"].map(str::to_owned).to_vec();
        let rows = |labels: [Option<&str>; 3]| {
            labels.map(|label| BatchRow {
                label: label.map(Into::into),
                ..BatchRow::default()
            })
        };
        let labelled = rows([Some("T-1"), Some("T-2"), Some("T-2")]);
        let directory = RowDirectory::for_table(&keys, &labelled);
        assert_eq!(directory.find_row("row-b-v1a2b3c4d-try2"), Ok(1));
        assert_eq!(directory.find_row("row-c"), Ok(2));
        assert_eq!(directory.find_row("T-1"), Ok(0));
        assert_eq!(
            directory.find_row("T-2"),
            Err("`T-2` names several rows: 2, 3".to_owned())
        );
        // A number could be meant as an id.
        assert_eq!(directory.find_row("2"), Err("there is no row `2`".to_owned()));
        let unlabelled = rows([None, None, None]);
        let unnamed = RowDirectory::for_table(&keys, &unlabelled);
        assert_eq!(unnamed.find_row("2"), Ok(1));
        assert!(unnamed.find_row("4").is_err());
        let part = |number, key| DirectoryEntry {
            number,
            key,
            label: None,
        };
        let shard = RowDirectory::new([part(3, "row-c"), part(6, "row-f")].into_iter());
        assert_eq!((shard.find_row("6"), shard.find_row("3")), (Ok(1), Ok(0)));
        assert!(shard.find_row("2").is_err());
        let twice = vec![answer("1", "gate", "yes"), answer("row-a", "gate", "no")];
        assert!(unnamed.assign_answers(twice).is_err());
    }
}
