//! The rows of a batch: what each run is given, read from JSON Lines, CSV or a folder of texts.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use ensemble_core::store::RunId;
use ensemble_language::data::{RunContext, digest_text};
use ensemble_language::diagnostic::find_similar_word;
use ensemble_language::ensemble::Ensemble;
use serde_json::{Value, json};

use crate::inputs::{InputValues, resolve_inputs};

/// The column that holds the input of the run, if the ensemble declares no input of this name.
pub const INPUT: &str = "input";

/// A row: what one run is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BatchRow {
    /// Where it was read, in a form for messages: `tickets.jsonl:17`.
    pub place: String,
    /// The input of the run.
    pub input: Option<Arc<str>>,
    /// The inputs by name, or the context where the ensemble declares no inputs.
    pub values: RunContext,
    /// The texts of values that were read from texts.
    pub texts: HashMap<Arc<str>, Arc<str>>,
}

/// Something is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// Where: `tickets.jsonl:17`.
    pub place: String,
    /// What, in one sentence.
    pub what: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// The meaning of the columns of a table.
#[derive(Debug, Clone, Default)]
pub struct ColumnMapping {
    /// The name of an input by the column that holds it.
    pub input_names: BTreeMap<String, String>,
    /// Columns that are left out.
    pub ignored_columns: Vec<String>,
}

impl ColumnMapping {
    /// Returns the name under which a run is given the column; `None`: it is left out.
    fn input_name<'c>(&'c self, column: &'c str) -> Option<&'c str> {
        if let Some(name) = self.input_names.get(column) {
            return Some(name);
        }
        (!self.ignored_columns.iter().any(|ignored| ignored == column)).then_some(column)
    }

    /// The columns that `known` does not contain.
    ///
    /// # Errors
    /// Each of them, with one that is spelled alike.
    pub fn check_columns<'a>(&self, known: impl Iterator<Item = &'a str> + Clone) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        for column in self.input_names.keys().chain(&self.ignored_columns) {
            if known.clone().any(|known| known == column) {
                continue;
            }
            let similar = find_similar_word(column, known.clone());
            let similar = similar.map_or(String::new(), |similar| format!("; did you mean `{similar}`?"));
            wrong.push(format!("there is no column `{column}`{similar}"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

/// A row of a table before its columns have a meaning: where it was read, and its cells in order.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRow {
    /// Where it was read.
    pub place: String,
    /// Columns and values.
    pub cells: Vec<(String, CellValue)>,
}

/// The value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum CellValue {
    /// A JSON value.
    Value(Value),
    /// A text, which may be meant as another JSON value.
    Text(String),
}

/// Returns the rows of a text in the format JSON Lines. Empty lines are left out.
///
/// # Errors
/// All lines that are no JSON objects.
pub fn parse_json_lines(name: &str, text: &str) -> Result<Vec<TableRow>, Vec<RowError>> {
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{name}:{number}");
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(Value::Object(map)) => rows.push(TableRow {
                place,
                cells: map
                    .into_iter()
                    .map(|(key, value)| (key, CellValue::Value(value)))
                    .collect(),
            }),
            Ok(_) => wrong.push(RowError {
                place,
                what: "a row must be a JSON object with a key for each input".to_owned(),
            }),
            Err(error) => wrong.push(RowError {
                place: format!("{place}:{}", error.column()),
                what: format!("this line is not valid JSON: {}", error_without_position(&error)),
            }),
        }
    }
    if wrong.is_empty() { Ok(rows) } else { Err(wrong) }
}

/// Returns the error without "at line 1 column 3".
fn error_without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Returns the rows of a CSV text, whose first line names the columns. A cell that is empty is not given.
///
/// # Errors
/// All lines that have another number of cells than the first, and names that occur twice.
pub fn parse_csv(name: &str, text: &str, delimiter: u8) -> Result<Vec<TableRow>, Vec<RowError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let mut lines = LineCounter::default();
    let wrong_at = |line: Option<u64>, what: String| RowError {
        place: line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}")),
        what,
    };
    let columns: Vec<String> = match reader.headers() {
        Ok(columns) => columns.iter().map(str::to_owned).collect(),
        Err(error) => return Err(vec![wrong_at(Some(1), error.to_string())]),
    };
    let mut wrong: Vec<RowError> = find_duplicates(&columns)
        .map(|column| wrong_at(Some(1), format!("the column `{column}` occurs twice")))
        .collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        match record {
            Ok(record) => {
                let cells = columns.iter().cloned().zip(record.iter());
                let filled_cells = cells.filter(|(_, text)| !text.is_empty());
                rows.push(TableRow {
                    place: format!("{name}:{}", lines.line_at(text, record.position())),
                    cells: filled_cells
                        .map(|(column, text)| (column, CellValue::Text(text.to_owned())))
                        .collect(),
                });
            }
            Err(error) => {
                let message = match error.kind() {
                    csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                        format!("the number of cells is {len}, but the first line has {expected_len} columns")
                    }
                    _ => error.to_string(),
                };
                wrong.push(wrong_at(Some(lines.line_at(text, error.position())), message));
            }
        }
    }
    if wrong.is_empty() { Ok(rows) } else { Err(wrong) }
}

/// The line of a position. (The reader itself counts a line break of two characters only with the next row.)
#[derive(Default)]
struct LineCounter {
    byte: usize,
    breaks: u64,
}

impl LineCounter {
    /// Returns the line, from 1, of a position that is not before the last one.
    fn line_at(&mut self, text: &str, position: Option<&csv::Position>) -> u64 {
        let byte = position.and_then(|position| usize::try_from(position.byte()).ok());
        let bytes = text.as_bytes();
        let mut byte = byte.unwrap_or(self.byte).clamp(self.byte, bytes.len());
        while matches!(bytes.get(byte), Some(b'\n' | b'\r')) {
            byte += 1;
        }
        let passed = bytes[self.byte..byte].iter().filter(|byte| **byte == b'\n');
        self.breaks += passed.count() as u64;
        self.byte = byte;
        self.breaks + 1
    }
}

fn find_duplicates(columns: &[String]) -> impl Iterator<Item = &String> {
    let is_again = |at: usize| columns[..at].contains(&columns[at]);
    (0..columns.len())
        .filter(move |at| is_again(*at))
        .map(|at| &columns[at])
}

/// Returns the row of a file in a folder: `file` is its name, and `input` its text.
pub fn row_from_file(name: &str, file: &str, text: String) -> TableRow {
    TableRow {
        place: name.to_owned(),
        cells: vec![
            ("file".to_owned(), CellValue::Value(file.into())),
            (INPUT.to_owned(), CellValue::Value(text.into())),
        ],
    }
}

/// What the runs are given, with the values that all of them are given. All rows are checked.
///
/// # Errors
/// All rows whose values do not fit the ensemble.
pub fn resolve_rows(
    rows: Vec<TableRow>,
    columns: &ColumnMapping,
    common: &BatchRow,
    ensemble: &Ensemble,
) -> Result<Vec<BatchRow>, Vec<RowError>> {
    let mut wrong = Vec::new();
    let mut resolved_rows = Vec::with_capacity(rows.len());
    for cells in rows {
        let row = resolve_row(cells, columns, common, ensemble);
        if let Err(error) = row {
            wrong.push(error);
            continue;
        }
        let Ok(row) = row else { continue };
        let values = InputValues {
            values: row.values.clone(),
            texts: row.texts.clone(),
        };
        if let Err(all) = resolve_inputs(ensemble, &values) {
            wrong.extend(all.iter().map(|what| RowError {
                place: row.place.clone(),
                what: what.to_string(),
            }));
        }
        resolved_rows.push(row);
    }
    if wrong.is_empty() {
        Ok(resolved_rows)
    } else {
        Err(wrong)
    }
}

fn resolve_row(
    cells: TableRow,
    columns: &ColumnMapping,
    common: &BatchRow,
    ensemble: &Ensemble,
) -> Result<BatchRow, RowError> {
    let mut row = BatchRow {
        place: cells.place,
        ..common.clone()
    };
    for (column, cell) in cells.cells {
        let Some(name) = columns.input_name(&column) else {
            continue;
        };
        let name: Arc<str> = name.into();
        row.texts.remove(&name);
        let value = match cell {
            CellValue::Value(value) => value,
            CellValue::Text(text) if &*name == INPUT && ensemble.find_input(INPUT).is_none() => Value::from(text),
            CellValue::Text(text) => {
                row.texts.insert(name.clone(), text.as_str().into());
                serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text))
            }
        };
        if &*name != INPUT || ensemble.find_input(INPUT).is_some() {
            row.values.insert(name, Arc::new(value));
            continue;
        }
        match value {
            Value::String(text) => row.input = Some(text.into()),
            _ => {
                return Err(RowError {
                    place: row.place,
                    what: "`input` must be a text, because it is the input of the run".to_owned(),
                });
            }
        }
    }
    Ok(row)
}

/// Returns the ids of the rows' runs: digests of `of_all`, which says what all runs have in common, and of what each
/// run is given. Rows that are equal have different ids.
pub(super) fn build_run_ids(of_all: &str, rows: &[BatchRow]) -> Vec<RunId> {
    let mut id_counts: HashMap<String, u32> = HashMap::new();
    let ids = rows.iter().map(|row| {
        let values: serde_json::Map<String, Value> = row
            .values
            .iter()
            .map(|(name, value)| (name.to_string(), Value::clone(value)))
            .collect();
        let sorted: BTreeMap<&String, &Value> = values.iter().collect();
        let digest = digest_text(&json!([of_all, row.input, sorted]).to_string());
        let times = id_counts.entry(digest.clone()).or_default();
        *times += 1;
        match *times {
            1 => RunId::new(format!("row-{}", &digest[..16])),
            times => RunId::new(format!("row-{}-{times}", &digest[..16])),
        }
    });
    ids.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[(&str, Value)]) -> BatchRow {
        BatchRow {
            values: values
                .iter()
                .map(|(name, value)| (Arc::from(*name), Arc::new(value.clone())))
                .collect(),
            ..BatchRow::default()
        }
    }

    #[test]
    fn ids_follow_from_what_is_given_and_not_from_its_order() {
        let (a, b) = (("a", json!(1)), ("b", json!("x")));
        let rows = [
            row(&[a.clone(), b.clone()]),
            row(&[b.clone(), a.clone()]),
            row(std::slice::from_ref(&a)),
        ];
        let ids = build_run_ids("e", &rows);
        assert_eq!(ids[1].as_str(), format!("{}-2", ids[0]));
        assert_ne!(ids[0], ids[2]);
        assert_eq!(super::build_run_ids("e", &rows[2..]), [ids[2].clone()]);
        assert_ne!(super::build_run_ids("f", &rows[2..]), [ids[2].clone()]);
        let asked = BatchRow {
            input: Some("x".into()),
            ..rows[2].clone()
        };
        assert_ne!(super::build_run_ids("e", &[asked]), [ids[2].clone()]);
        // A number is not its text.
        assert_ne!(
            super::build_run_ids("e", &[row(&[("a", json!("1"))])]),
            [ids[2].clone()]
        );
    }

    #[test]
    fn csv_is_read_as_spreadsheets_write_it() {
        let text = "\u{feff}a;b\r\n\"x\ny\";\r\n1;2\r\n";
        let rows = parse_csv("t.csv", text, b';').expect("rows");
        let cell = |name: &str, text: &str| (name.to_owned(), CellValue::Text(text.to_owned()));
        assert_eq!(rows[0].cells, [cell("a", "x\ny")]);
        assert_eq!(rows[1].cells, [cell("a", "1"), cell("b", "2")]);
        assert_eq!((&*rows[0].place, &*rows[1].place), ("t.csv:2", "t.csv:4"));
        assert_eq!(parse_csv("t.csv", "", b','), Ok(Vec::new()));
    }

    #[test]
    fn lines_that_are_no_objects_are_all_told() {
        let wrong = parse_json_lines("t", "{}\n\n7\n{\"a\": }\n").expect_err("two lines are wrong");
        let told: Vec<String> = wrong.iter().map(RowError::to_string).collect();
        assert_eq!(
            told,
            [
                "t:3: a row must be a JSON object with a key for each input",
                "t:4:7: this line is not valid JSON: expected value"
            ]
        );
    }
}
