//! Rows in the format JSON Lines, and the text of tables in UTF-8.
//!
//! Invariant: no value is changed, and every bad line is reported.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use ensemble_language::data::strip_byte_order_mark;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::exact_numbers::{find_inexact_number, inexact_number_message};
use super::row::{CellValue, ParsedTable, TableRow};
use super::row_place::{RowError, RowPlace};

/// The text of a table, and the errors of its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecodedTable {
    /// The text without a byte order mark. Bytes that are not UTF-8 are U+FFFD.
    pub text: String,
    /// The lines that are not UTF-8, each with the column of the first wrong byte.
    pub errors: Vec<RowError>,
}

impl DecodedTable {
    /// Returns the text.
    ///
    /// # Errors
    /// All lines that are not UTF-8.
    pub fn into_text(self) -> Result<String, Vec<RowError>> {
        if self.errors.is_empty() {
            Ok(self.text)
        } else {
            Err(self.errors)
        }
    }
}

/// Decodes the bytes of a table from UTF-8. Records an error for each line that is not UTF-8. `name` names the source.
pub fn decode_table(name: &str, bytes: &[u8]) -> DecodedTable {
    let source = RowPlace::from_source(name);
    if is_utf_16(bytes) {
        return DecodedTable {
            text: String::new(),
            errors: vec![RowError {
                place: source.with_line(1).with_column(1),
                what: "the file is encoded as UTF-16; save the file as UTF-8".to_owned(),
            }],
        };
    }
    let text = String::from_utf8_lossy(bytes);
    let mut errors = Vec::new();
    if matches!(text, Cow::Owned(_)) || bytes.contains(&0) {
        let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
        errors.extend(lines.filter_map(|(number, line)| find_invalid_byte(&source.with_line(number), line)));
    }
    DecodedTable {
        text: strip_byte_order_mark(&text).to_owned(),
        errors,
    }
}

/// Returns whether a text is UTF-16: it begins with a byte order mark of UTF-16, or one byte of its first character is 0.
fn is_utf_16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

/// Returns the error of the first byte of the line that is not UTF-8, or 0, which no text contains.
fn find_invalid_byte(place: &RowPlace, line: &[u8]) -> Option<RowError> {
    let valid = std::str::from_utf8(line).map_or_else(|error| error.valid_up_to(), str::len);
    let at = line[..valid].iter().position(|byte| *byte == 0).unwrap_or(valid);
    let (before, after) = line.split_at(at);
    let column = String::from_utf8_lossy(before).chars().count() + 1;
    let what = match after.first()? {
        0 => "the byte 0x00 is not text; save the file as UTF-8 text".to_owned(),
        byte => format!("the byte 0x{byte:02X} is not UTF-8; save the file as UTF-8"),
    };
    Some(RowError {
        place: place.with_column(column),
        what,
    })
}

/// A JSON object with its keys in order. Values are not parsed yet.
struct RawObject<'t>(Vec<(String, &'t RawValue)>);

impl<'de: 't, 't> Deserialize<'de> for RawObject<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(ObjectVisitor).map(RawObject)
    }
}

/// Parses a text in the format JSON Lines. Skips empty lines. Lines that are not objects, repeat a key or have inexact numbers are errors.
pub fn parse_json_lines(name: &str, text: &str) -> ParsedTable {
    let source = RowPlace::from_source(name);
    let mut table = ParsedTable::default();
    for (number, line) in (1..).zip(text.lines()) {
        let place = source.with_line(number);
        // A table of several joined files has a mark at the beginning of each.
        let line = strip_byte_order_mark(line);
        if line.trim().is_empty() {
            continue;
        }
        match parse_line(&place, line) {
            Ok(row) => table.rows.push(row),
            Err(errors) => table.errors.extend(errors),
        }
    }
    table
}

/// Parses one line as a row.
///
/// # Errors
///
/// The line is not a JSON object, repeats a key, or contains a number with too many digits.
fn parse_line(place: &RowPlace, line: &str) -> Result<TableRow, Vec<RowError>> {
    let error_at = |column: Option<usize>, what: String| RowError {
        place: column.map_or_else(|| place.clone(), |column| place.with_column(column)),
        what,
    };
    let value: Value = serde_json::from_str(line).map_err(|error| {
        let what = format!("this line is not valid JSON: {}", error_text_without_position(&error));
        vec![error_at(Some(error.column()), what)]
    })?;
    let Ok(RawObject(entries)) = serde_json::from_str(line) else {
        let what = "a row must be a JSON object with a key for each input".to_owned();
        return Err(vec![error_at(None, what)]);
    };
    let mut known = HashSet::new();
    let mut wrong = Vec::new();
    for (key, raw) in &entries {
        let column = line[..raw.get().as_ptr() as usize - line.as_ptr() as usize]
            .chars()
            .count()
            + 1;
        if !known.insert(key.as_str()) {
            wrong.push(error_at(Some(column), format!("the key `{key}` occurs twice")));
        }
        if let Some(number) = find_inexact_number(raw.get()) {
            wrong.push(error_at(Some(column), inexact_number_message(number)));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let Value::Object(map) = value else { return Err(wrong) };
    let cells = map.into_iter().map(|(key, value)| (key, CellValue::Value(value)));
    Ok(TableRow {
        place: place.clone(),
        cells: cells.collect(),
    })
}

/// Returns the error message without "at line 1 column 3".
fn error_text_without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_rows_are_all_reported() {
        let text = "{}\n\n7\n{\"a\": }\n{\"a\": 1, \"b\": 2, \"a\": 3}\n{\"n\": 12345678901234567890123}\n{\"n\": [{\"m\": 12345678901234567890123}]}\n";
        let table = parse_json_lines("t", text);
        let messages: Vec<String> = table.errors.iter().map(RowError::to_string).collect();
        assert_eq!(
            messages,
            [
                "t:3: a row must be a JSON object with a key for each input",
                "t:4:7: this line is not valid JSON: expected value",
                "t:5:23: the key `a` occurs twice",
                "t:6:7: the number `12345678901234567890123` has too many digits to be kept; use a string",
                "t:7:7: the number `12345678901234567890123` has too many digits to be kept; use a string",
            ]
        );
        assert_eq!(table.rows.len(), 1, "the line that is a row");
        let rows = parse_json_lines("t", "{\"b\": 1.50, \"a\": \"007\"}\r\n").rows;
        let keys: Vec<&str> = rows[0].cells.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a"]);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_errors_at_line_and_column() {
        let decoded = decode_table("t.csv", b"\xef\xbb\xbfid\nM\xc3\xbcller,M\xfcller\nok\n\x80\n");
        let messages: Vec<String> = decoded.errors.iter().map(RowError::to_string).collect();
        assert_eq!(
            messages,
            [
                "t.csv:2:9: the byte 0xFC is not UTF-8; save the file as UTF-8",
                "t.csv:4:1: the byte 0x80 is not UTF-8; save the file as UTF-8",
            ]
        );
        assert_eq!(decoded.text, "id\nMüller,M\u{fffd}ller\nok\n\u{fffd}\n");
        let wrong = decode_table("t.csv", b"\xff\xfei\0d\0")
            .into_text()
            .expect_err("UTF-16");
        assert!(wrong[0].what.contains("UTF-16"), "{}", wrong[0]);
        for unmarked in [b"i\0d\0\n\0", b"\0i\0d\0\n"] {
            let wrong = decode_table("t.csv", unmarked).into_text().expect_err("UTF-16");
            assert!(wrong[0].what.contains("UTF-16"), "{}", wrong[0]);
        }
        let wrong = decode_table("t.csv", "id\n\u{e9}\0,x\nok\n".as_bytes())
            .into_text()
            .expect_err("a zero");
        assert_eq!(
            wrong[0].to_string(),
            "t.csv:2:2: the byte 0x00 is not text; save the file as UTF-8 text"
        );
        assert_eq!(wrong.len(), 1);
        let joined = parse_json_lines("t", "{\"id\":\"1\"}\n\u{feff}{\"id\":\"2\"}\n");
        assert_eq!((joined.rows.len(), joined.errors.len()), (2, 0));
        assert_eq!(decode_table("t", b"\xef\xbb\xbfid").into_text(), Ok("id".to_owned()));
    }
}
