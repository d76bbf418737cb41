//! The rows of a batch: the inputs and values of each run, from the cells of a table.
//!
//! Invariant: a cell with a text is not changed, unless the schema of its input refuses a text.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ensemble_core::secrets::Secrets;
use ensemble_language::data::RunContext;
use ensemble_language::diagnostic::find_similar_word;
use ensemble_language::ensemble::Ensemble;
use serde_json::{Map, Value};

use super::exact_numbers::{find_inexact_number, inexact_number_message};
use super::row_place::{RowError, RowPlace, sort_errors};
use crate::inputs::{InputValues, resolve_inputs};

/// The column that contains the input of the run, if the ensemble declares no input of this name.
pub const INPUT_COLUMN: &str = "input";

/// A row of a batch: the input and values of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BatchRow {
    /// The place of the row in its table.
    pub place: RowPlace,
    /// The input of the run.
    pub input: Option<Arc<str>>,
    /// The inputs by name, or the context where the ensemble declares no inputs.
    pub values: RunContext,
    /// The texts of values that were read from texts.
    pub texts: HashMap<Arc<str>, Arc<str>>,
    /// The cell of the column that names rows.
    pub label: Option<Arc<str>>,
}

/// The default column of the labels of rows.
pub const LABEL_COLUMN: &str = "id";

impl BatchRow {
    /// Returns the row without secrets, as files and messages show the row.
    pub(super) fn redact(&self, secrets: &Secrets) -> Cow<'_, Self> {
        if secrets.is_empty() {
            return Cow::Borrowed(self);
        }
        let redact_text = |text: &Arc<str>| -> Arc<str> { secrets.redact(&**text).into() };
        let pairs = self.values.iter();
        let given: Map<String, Value> = pairs
            .map(|(name, value)| (name.to_string(), Value::clone(value)))
            .collect();
        let mut values = given.clone();
        secrets.redact_map(&mut values);
        let (input, label) = (
            self.input.as_ref().map(redact_text),
            self.label.as_ref().map(redact_text),
        );
        if values == given && input == self.input && label == self.label {
            return Cow::Borrowed(self);
        }
        let values = values.into_iter();
        Cow::Owned(Self {
            place: self.place.clone(),
            input,
            values: values.map(|(name, value)| (name.into(), Arc::new(value))).collect(),
            texts: HashMap::new(),
            label,
        })
    }
}

/// The meaning of the columns of a table.
#[derive(Debug, Clone, Default)]
pub struct ColumnMapping {
    /// The names of the inputs, by the columns that contain them.
    pub input_names: BTreeMap<String, String>,
    /// Columns that are left out.
    pub ignored_columns: Vec<String>,
    /// The column of labels. `None` means the column [`LABEL_COLUMN`], if it exists.
    pub label_column: Option<String>,
}

impl ColumnMapping {
    /// Returns the input name of the column. Returns `None` if the column is ignored.
    fn input_name<'c>(&'c self, column: &'c str) -> Option<&'c str> {
        if let Some(name) = self.input_names.get(column) {
            return Some(name);
        }
        (!self.ignored_columns.iter().any(|ignored| ignored == column)).then_some(column)
    }

    /// Checks that every column of the mapping is one of the known columns.
    ///
    /// # Errors
    ///
    /// Each unknown column, with a suggestion of a similar column.
    pub fn check_column_names<'a>(&self, known: impl Iterator<Item = &'a str> + Clone) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        let named_columns = self.input_names.keys().chain(&self.ignored_columns);
        for column in named_columns.chain(&self.label_column) {
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

/// A row of a table before its columns are mapped to inputs: its place, and its cells in order.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRow {
    /// The place of the row in its table.
    pub place: RowPlace,
    /// Columns and values.
    pub cells: Vec<(String, CellValue)>,
}

/// The rows of a table that could be parsed, and the errors of the other rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedTable {
    /// The names of the columns in the first line; empty in other formats.
    pub columns: Vec<String>,
    /// The rows without errors.
    pub rows: Vec<TableRow>,
    /// The errors, in the order of their places.
    pub errors: Vec<RowError>,
}

impl ParsedTable {
    /// Adds errors of the same table, and sorts all errors by place.
    #[must_use]
    pub fn with_errors(mut self, errors: Vec<RowError>) -> Self {
        self.errors.extend(errors);
        sort_errors(&mut self.errors);
        self
    }
}

/// The value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum CellValue {
    /// A JSON value.
    Value(Value),
    /// A text of a table without types.
    Text(String),
}

impl CellValue {
    /// Returns the cell as the label of a row. Returns `None` if the cell is neither a text nor a number.
    fn to_label(&self) -> Option<Arc<str>> {
        match self {
            Self::Text(text) | Self::Value(Value::String(text)) => Some(text.as_str().into()),
            Self::Value(Value::Number(number)) => Some(number.to_string().into()),
            Self::Value(_) => None,
        }
    }
}

/// Creates the row of a file in a folder, with the columns `file` (its name) and `input` (its text).
pub fn table_row_from_file(name: &str, file: &str, text: String) -> TableRow {
    TableRow {
        place: RowPlace::from_source(name),
        cells: vec![
            ("file".to_owned(), CellValue::Value(file.into())),
            (INPUT_COLUMN.to_owned(), CellValue::Value(text.into())),
        ],
    }
}

/// Resolves the input and values of each row, with the values that all rows share. Checks all rows.
///
/// # Errors
///
/// All errors of the table, and all rows whose values do not match the ensemble, in the order of the table.
pub fn resolve_rows(
    table: ParsedTable,
    columns: &ColumnMapping,
    common: &BatchRow,
    ensemble: &Ensemble,
) -> Result<Vec<BatchRow>, Vec<RowError>> {
    let mut wrong = table.errors;
    let mut resolved_rows = Vec::with_capacity(table.rows.len());
    for cells in table.rows {
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
        sort_errors(&mut wrong);
        Err(wrong)
    }
}

/// Maps the cells of one row to the input, the label and the values of the run.
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
    let label_column = columns.label_column.as_deref().unwrap_or(LABEL_COLUMN);
    for (column, cell) in cells.cells {
        if column == label_column {
            row.label = cell.to_label();
        }
        let Some(name) = columns.input_name(&column) else {
            continue;
        };
        let name: Arc<str> = name.into();
        row.texts.remove(&name);
        let value = match cell {
            CellValue::Value(value) => value,
            CellValue::Text(text) => resolve_text_cell(&name, text, ensemble).map_err(|what| RowError {
                place: row.place.clone(),
                what,
            })?,
        };
        if &*name != INPUT_COLUMN || ensemble.find_input(INPUT_COLUMN).is_some() {
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

/// Returns the text of a cell, or the JSON value that the text contains if the input's schema does not accept a text.
///
/// # Errors
///
/// The text contains a number that a JSON value cannot represent exactly.
fn resolve_text_cell(name: &str, text: String, ensemble: &Ensemble) -> Result<Value, String> {
    let value = Value::from(text);
    let Some(input) = ensemble.find_input(name) else {
        return Ok(value);
    };
    let (Value::String(text), false) = (&value, input.check_value(&value).is_empty()) else {
        return Ok(value);
    };
    match serde_json::from_str::<Value>(text) {
        Ok(spelled) => match find_inexact_number(text) {
            Some(number) => Err(format!("the input `{name}`: {}", inexact_number_message(number))),
            None => Ok(spelled),
        },
        // The check of the inputs names the error.
        Err(_) => Ok(value),
    }
}
