//! The results of a batch as a table: JSON Lines or CSV, a line for each row, in the order of the rows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::io;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::tries::TriesTotals;
use super::{BatchEntry, BatchRow, ExhaustedRowPolicy, RowError, RowPlace};

/// A row with its result, as a line of the table of results.
#[derive(Clone)]
pub struct TableLine<'a> {
    /// The number of the row, from 1.
    pub number: usize,
    /// The input and values of the run, without secrets.
    pub row: Cow<'a, BatchRow>,
    /// The result of the row. `None` if the run has not ended.
    pub entry: Option<&'a BatchEntry>,
    /// All tries, if there are several.
    pub tries: Option<TriesTotals>,
    /// The meaning of a success with exhausted agents.
    pub limits: ExhaustedRowPolicy,
}

impl Serialize for TableLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (row, entry) = (&*self.row, self.entry);
        // What a row has cost is the cost of all its tries.
        let usage = match &self.tries {
            Some(tries) => Some(&tries.usage),
            None => entry.map(|entry| &entry.usage),
        };
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("row", &self.number)?;
        line.serialize_entry("place", &row.place)?;
        line.serialize_entry("run", &entry.map(|entry| &entry.run))?;
        line.serialize_entry("outcome", &entry.map(|entry| entry.outcome))?;
        let success = entry.filter(|entry| !entry.is_cancelled());
        line.serialize_entry("success", &success.map(|entry| entry.has_exit_code_zero(self.limits)))?;
        line.serialize_entry("detail", &entry.and_then(|entry| entry.detail.as_ref()))?;
        line.serialize_entry("turns", &entry.map(|entry| entry.turns))?;
        line.serialize_entry("values", &row.values)?;
        line.serialize_entry("result", &entry.map(|entry| &entry.result))?;
        line.serialize_entry("usage", &usage)?;
        if let Some(entry) = entry.filter(|entry| !entry.exhausted.is_empty()) {
            line.serialize_entry("exhausted", &entry.exhausted)?;
        }
        if let Some(entry) = entry.filter(|entry| !entry.failed_work.is_empty()) {
            line.serialize_entry("failed_work", &entry.failed_work)?;
        }
        if let Some(entry) = entry.filter(|entry| !entry.nested_failures.is_empty()) {
            line.serialize_entry("nested_failures", &entry.nested_failures)?;
        }
        if let Some(tries) = &self.tries {
            line.serialize_entry("tries", &tries.count)?;
        }
        if let Some(input) = &row.input {
            line.serialize_entry("input", input)?;
        }
        line.end()
    }
}

/// Renders the table as JSON Lines.
pub fn to_json_lines<'a>(lines: impl Iterator<Item = TableLine<'a>>) -> String {
    let mut table = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut table, &line).expect("results have string keys");
        table.push(b'\n');
    }
    String::from_utf8(table).expect("JSON is UTF-8")
}

/// Converts a table of results from JSON Lines to CSV: first the inputs, then the keys of the results.
///
/// # Errors
///
/// A line is not a line of results.
pub fn json_lines_to_csv(json_lines: &str) -> io::Result<String> {
    const FIRST: [&str; 4] = ["row", "outcome", "detail", "run"];
    const USED: [&str; 4] = ["requests", "input_tokens", "output_tokens", "cost"];
    let lines: Result<Vec<Value>, _> = json_lines.lines().map(serde_json::from_str).collect();
    let lines: Vec<Value> = lines?;
    let value_names = collect_keys(&lines, "values");
    let results = collect_keys(&lines, "result");
    let has_input = lines.iter().any(|line| line.get("input").is_some());
    let mut table = csv::Writer::from_writer(Vec::new());
    let names = FIRST.iter().map(|name| (*name).to_owned());
    let names = names
        .chain(has_input.then(|| "input".to_owned()))
        .chain(value_names.iter().cloned())
        .chain(results.iter().map(|key| format!("result.{key}")))
        .chain(USED.iter().map(|name| (*name).to_owned()));
    table.write_record(names)?;
    for line in &lines {
        let of = |key: &str, name: &str| to_cell_text(line.get(key).and_then(|map| map.get(name)));
        let cells = FIRST.iter().map(|name| to_cell_text(line.get(name)));
        let cells = cells
            .chain(has_input.then(|| to_cell_text(line.get("input"))))
            .chain(value_names.iter().map(|name| of("values", name)))
            .chain(results.iter().map(|name| of("result", name)))
            .chain(USED.iter().map(|name| of("usage", name)));
        table.write_record(cells)?;
    }
    let bytes = table.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Collects the keys of the maps under `key` of all lines, each once, in the order in which they occur.
fn collect_keys(lines: &[Value], key: &str) -> Vec<String> {
    let mut keys = indexmap::IndexSet::new();
    let maps = lines.iter().filter_map(|line| line.get(key)?.as_object());
    maps.flat_map(Map::keys).for_each(|name| {
        keys.insert(name.clone());
    });
    keys.into_iter().collect()
}

/// Returns the text of a cell: a text unchanged, nothing for null, and JSON for all other values.
fn to_cell_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// The results of several parts of a batch, as one table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergedResults {
    /// The table, in the order of the rows.
    pub text: String,
    /// The number of rows by outcome; rows that have not ended have none.
    pub outcomes: BTreeMap<Option<String>, usize>,
    /// The numbers below the last one that no part contains.
    pub missing_rows: Vec<u64>,
}

/// Merges the results of parts of a batch, each a name and a text. If two lines have the same row, the ended line is used.
///
/// # Errors
///
/// All lines that are not results, and rows that two parts have with different values.
pub fn merge_results(parts: &[(String, String)]) -> Result<MergedResults, Vec<RowError>> {
    let mut lines: BTreeMap<u64, Value> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, text) in parts {
        let source = RowPlace::from_source(name.as_str());
        for (number, line) in (1..).zip(text.lines()) {
            let mut refuse = |what: String| {
                let place = source.with_line(number);
                wrong.push(RowError { place, what });
            };
            let value: Value = serde_json::from_str(line).unwrap_or_default();
            let Some(row) = value.get("row").and_then(Value::as_u64).filter(|row| *row > 0) else {
                refuse("this line is not a result: it has no `row`".to_owned());
                continue;
            };
            match lines.entry(row) {
                Place::Vacant(place) => drop(place.insert(value)),
                Place::Occupied(mut place) => {
                    let same = |key: &str| place.get().get(key) == value.get(key);
                    if !same("values") || !same("input") {
                        refuse(format!("another part has row {row} with different values"));
                    } else if place.get().get("outcome").is_none_or(|known| !is_final_outcome(known)) {
                        place.insert(value);
                    }
                }
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut merged = MergedResults::default();
    let last = lines.keys().next_back().copied().unwrap_or_default();
    merged.missing_rows = (1..=last).filter(|row| !lines.contains_key(row)).collect();
    for line in lines.values() {
        let outcome = line.get("outcome").and_then(Value::as_str).map(str::to_owned);
        *merged.outcomes.entry(outcome).or_default() += 1;
        merged.text.push_str(&format!("{line}\n"));
    }
    Ok(merged)
}

/// Returns whether a run with this outcome has ended and was not cancelled.
fn is_final_outcome(outcome: &Value) -> bool {
    !outcome.is_null() && outcome != "cancelled"
}

#[cfg(test)]
mod tests {
    use ensemble_core::conversation::CompletionReason;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_what_the_row_gave_and_what_came_of_it() {
        let row = BatchRow {
            place: RowPlace::from_source("rows.jsonl").with_line(2),
            input: Some("read it".into()),
            values: [("z", json!(1)), ("a", json!("two"))]
                .map(|(name, value)| (name.into(), value.into()))
                .into_iter()
                .collect(),
            ..BatchRow::default()
        };
        let entry = BatchEntry {
            id: "e-1".to_owned(),
            run: "e-1-try2".to_owned(),
            outcome: CompletionReason::Completed,
            success: None,
            detail: None,
            exhausted: Vec::new(),
            failed_work: Vec::new(),
            nested_failures: Vec::new(),
            questions: Vec::new(),
            turns: 3,
            result: json!({"b": "x\ny"}),
            usage: json!({"requests": 2}),
        };
        let line = |row, entry| TableLine {
            number: 2,
            row: Cow::Borrowed(row),
            entry,
            tries: None,
            limits: ExhaustedRowPolicy::Accepted,
        };
        let without_input = BatchRow {
            input: None,
            ..row.clone()
        };
        let lines = [line(&row, Some(&entry)), line(&without_input, None)];
        assert_eq!(
            to_json_lines(lines.into_iter()),
            concat!(
                r#"{"row":2,"place":"rows.jsonl:2","run":"e-1-try2","outcome":"completed","success":true,"detail":null,"turns":3,"#,
                r#""values":{"z":1,"a":"two"},"result":{"b":"x\ny"},"usage":{"requests":2},"input":"read it"}"#,
                "\n",
                r#"{"row":2,"place":"rows.jsonl:2","run":null,"outcome":null,"success":null,"detail":null,"turns":null,"#,
                r#""values":{"z":1,"a":"two"},"result":null,"usage":null}"#,
                "\n",
            )
        );
    }

    #[test]
    fn csv_has_a_column_for_each_key_of_any_line() {
        let lines = concat!(
            "{\"row\":1,\"outcome\":\"completed\",\"values\":{\"a\":1},\"result\":{\"x\":\"say \\\"hi\\\", twice\"},\"usage\":{\"requests\":2}}\n",
            "{\"row\":2,\"outcome\":null,\"values\":{\"b\":[1]},\"result\":null,\"usage\":null}\n",
        );
        let table = json_lines_to_csv(lines).expect("a table");
        assert_eq!(
            table,
            "row,outcome,detail,run,a,b,result.x,requests,input_tokens,output_tokens,cost\n\
             1,completed,,,1,,\"say \"\"hi\"\", twice\",2,,,\n2,,,,,[1],,,,,\n"
        );
    }

    #[test]
    fn of_two_lines_for_a_row_the_one_that_has_ended_counts() {
        let line = |row: u64, outcome: Value| format!("{}\n", json!({"row": row, "outcome": outcome, "values": {}}));
        let part = |name: &str, text: String| (name.to_owned(), text);
        let cut = [line(1, json!("cancelled")), line(2, json!("completed"))].concat();
        let whole = [
            line(1, json!("agent_failed")),
            line(2, Value::Null),
            line(4, json!("completed")),
        ]
        .concat();
        for parts in [[&cut, &whole], [&whole, &cut]] {
            let merged = merge_results(&parts.map(|text| part("p", text.clone()))).expect("they fit");
            let expected = [
                line(1, json!("agent_failed")),
                line(2, json!("completed")),
                line(4, json!("completed")),
            ]
            .concat();
            assert_eq!(merged.text, expected);
            assert_eq!(merged.missing_rows, [3]);
        }
        let wrong = merge_results(&[part("p", "{}\nnonsense\n{\"row\":0}\n".to_owned())]).expect_err("no results");
        assert_eq!(wrong.len(), 3);
    }
}
