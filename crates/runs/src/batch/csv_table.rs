//! CSV and TSV: cells in lines, each with its line and column.
//!
//! The library that writes tables accepts a quote that is never closed, and text after a closing quote, without an error. So this module
//! parses tables itself. The rules are those of RFC 4180; the end of a line is LF, CR LF or CR.
//!
//! If a quote is never closed, or if text follows a closing quote in a later line, the cell ends with its first line, so that the lines
//! after it are parsed as well.
//!
//! Invariant: no cell is changed, and every error of a table is reported.

use std::collections::HashSet;

use super::row::{CellValue, ParsedTable, TableRow};
use super::row_place::{RowError, RowPlace, sort_errors};

/// A position in a table: line and column from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellPosition {
    line: usize,
    column: usize,
}

/// A cell with the position of its first character.
struct Cell {
    text: String,
    start: CellPosition,
    is_quoted: bool,
}

/// The cells of a line, and the position after the last one.
struct CellLine {
    cells: Vec<Cell>,
    end: CellPosition,
}

/// A reader that splits the text of a table into lines of cells.
struct CsvCellReader<'t> {
    text: &'t str,
    delimiter: char,
    /// The number of bytes that were read.
    offset: usize,
    position: CellPosition,
    errors: Vec<(CellPosition, &'static str)>,
}

impl<'t> CsvCellReader<'t> {
    /// Creates a reader at the start of the text.
    fn new(text: &'t str, delimiter: char) -> Self {
        Self {
            text,
            delimiter,
            offset: 0,
            position: CellPosition { line: 1, column: 1 },
            errors: Vec::new(),
        }
    }

    /// Returns the text that was not read yet.
    fn remaining_text(&self) -> &'t str {
        &self.text[self.offset..]
    }

    /// Advances by this number of bytes, counts lines and columns, and returns the text that was passed.
    fn advance_bytes(&mut self, length: usize) -> &'t str {
        let taken = &self.remaining_text()[..length];
        let mut before = ' ';
        for character in taken.chars() {
            match character {
                '\n' if before == '\r' => {}
                '\n' | '\r' => {
                    self.position = CellPosition {
                        line: self.position.line + 1,
                        column: 1,
                    }
                }
                _ => self.position.column += 1,
            }
            before = character;
        }
        self.offset += length;
        taken
    }

    /// Skips one end of line. Returns whether there was one.
    fn skip_line_end(&mut self) -> bool {
        let rest = self.remaining_text();
        let length = if rest.starts_with("\r\n") {
            2
        } else {
            usize::from(rest.starts_with(['\n', '\r']))
        };
        self.advance_bytes(length);
        length > 0
    }

    /// Skips empty lines and reads the cells of the next line. Returns `None` at the end of the text.
    fn read_next_line(&mut self) -> Option<CellLine> {
        while self.skip_line_end() {}
        if self.remaining_text().is_empty() {
            return None;
        }
        let mut cells = vec![self.next_cell()];
        while self.remaining_text().starts_with(self.delimiter) {
            self.advance_bytes(self.delimiter.len_utf8());
            cells.push(self.next_cell());
        }
        let end = self.position;
        self.skip_line_end();
        Some(CellLine { cells, end })
    }

    /// Reads one cell. A cell whose quote is not closed correctly ends with its first line, and an error is recorded.
    fn next_cell(&mut self) -> Cell {
        let (start, start_offset) = (self.position, self.offset);
        let is_quoted = self.remaining_text().starts_with('"');
        let mut text = String::new();
        if is_quoted {
            self.advance_bytes(1);
            let is_closed = self.read_until_closing_quote(&mut text);
            if !is_closed || (self.position.line > start.line && !self.is_at_cell_end()) {
                self.errors.push((
                    start,
                    "this quote is not closed; inside of a cell, write each quote twice",
                ));
                (self.position, self.offset) = (start, start_offset);
                let length = self
                    .remaining_text()
                    .find(['\n', '\r'])
                    .unwrap_or(self.remaining_text().len());
                let text = self.advance_bytes(length).to_owned();
                return Cell { text, start, is_quoted };
            }
        }
        let plain_start = self.position;
        let is_end = |character: char| self.is_cell_terminator(character);
        let length = self
            .remaining_text()
            .find(is_end)
            .unwrap_or(self.remaining_text().len());
        if is_quoted && length > 0 {
            let what = "there is text after the closing quote; inside of a cell, write each quote twice";
            self.errors.push((plain_start, what));
        }
        text.push_str(self.advance_bytes(length));
        Cell { text, start, is_quoted }
    }

    /// Returns whether this character ends a cell: the delimiter or the end of a line.
    fn is_cell_terminator(&self, character: char) -> bool {
        character == self.delimiter || character == '\n' || character == '\r'
    }

    /// Returns whether the reader is at the end of a cell, or at the end of the text.
    fn is_at_cell_end(&self) -> bool {
        let next = self.remaining_text().chars().next();
        next.is_none_or(|character| self.is_cell_terminator(character))
    }

    /// Appends the text up to the closing quote to `text`. Returns whether a closing quote was found.
    fn read_until_closing_quote(&mut self, text: &mut String) -> bool {
        loop {
            let Some(length) = self.remaining_text().find('"') else {
                return false;
            };
            text.push_str(self.advance_bytes(length));
            self.advance_bytes(1);
            if !self.remaining_text().starts_with('"') {
                return true;
            }
            text.push_str(self.advance_bytes(1));
        }
    }
}

/// The columns of a table, in the order of its first line.
struct TableHeader {
    names: Vec<String>,
}

impl TableHeader {
    /// Reads the column names from the first line. Adds errors for empty, repeated and wrongly delimited names.
    fn parse_header(line: CellLine, delimiter: char, errors: &mut Vec<(CellPosition, String)>) -> Self {
        let mut known = HashSet::new();
        for cell in &line.cells {
            if cell.text.trim().is_empty() {
                errors.push((cell.start, "this column has no name".to_owned()));
            } else if !known.insert(cell.text.clone()) {
                errors.push((cell.start, format!("the column `{}` occurs twice", cell.text)));
            }
            errors.extend(find_wrong_delimiter(cell, delimiter));
        }
        Self {
            names: line.cells.into_iter().map(|cell| cell.text).collect(),
        }
    }

    /// Converts the cells of a line to a row. Omits empty cells and cells without a column name. Returns `None` after an error.
    fn to_table_row(
        &self,
        source: &RowPlace,
        line: CellLine,
        errors: &mut Vec<(CellPosition, String)>,
    ) -> Option<TableRow> {
        let (count, expected) = (line.cells.len(), self.names.len());
        if count != expected {
            let position = line.cells.get(expected).map_or(line.end, |extra| extra.start);
            let message = format!("the number of cells is {count}, but the first line has {expected} columns");
            errors.push((position, message));
            return None;
        }
        let place = line.cells.first().map_or(line.end, |cell| cell.start);
        let filled_cells = self
            .names
            .iter()
            .cloned()
            .zip(line.cells)
            .filter(|(column, cell)| !cell.text.is_empty() && !column.trim().is_empty());
        Some(TableRow {
            place: source.with_line(place.line),
            cells: filled_cells
                .map(|(column, cell)| (column, CellValue::Text(cell.text)))
                .collect(),
        })
    }
}

/// Returns an error if an unquoted column name contains the delimiter of another format.
fn find_wrong_delimiter(cell: &Cell, delimiter: char) -> Option<(CellPosition, String)> {
    let others: &[(char, &str)] = match delimiter {
        '\t' => &[],
        _ => &[(';', "a semicolon"), ('\t', "a tab")],
    };
    if cell.is_quoted {
        return None;
    }
    let is_other = |character: char| others.iter().find(|(other, _)| *other == character);
    let (offset, (other, noun)) = cell
        .text
        .chars()
        .enumerate()
        .find_map(|(offset, character)| Some((offset, is_other(character)?)))?;
    let advice = match other {
        '\t' => "separate the cells with commas, or give the file a name that ends with .tsv",
        _ => "separate the cells with commas, or put the name in quotes",
    };
    let position = CellPosition {
        line: cell.start.line,
        column: cell.start.column + offset,
    };
    Some((position, format!("the first line contains {noun}: {advice}")))
}

/// Parses a CSV text, whose first line names the columns. Omits empty cells and empty lines. `name` names the source in errors.
pub fn parse_csv(name: &str, text: &str, delimiter: u8) -> ParsedTable {
    let source = RowPlace::from_source(name);
    let delimiter = char::from(delimiter);
    let mut reader = CsvCellReader::new(text, delimiter);
    let Some(first) = reader.read_next_line() else {
        return ParsedTable::default();
    };
    let mut errors = Vec::new();
    // With another delimiter, every row has the wrong number of cells.
    let is_delimited = first
        .cells
        .iter()
        .all(|cell| find_wrong_delimiter(cell, delimiter).is_none());
    let header = TableHeader::parse_header(first, delimiter, &mut errors);
    let mut rows = Vec::new();
    let mut error_count = reader.errors.len();
    while let Some(line) = reader.read_next_line() {
        // The quotes of a line that is wrong can hide delimiters.
        let is_sound = reader.errors.len() == std::mem::replace(&mut error_count, reader.errors.len());
        if is_delimited && is_sound {
            rows.extend(header.to_table_row(&source, line, &mut errors));
        }
    }
    errors.extend(
        reader
            .errors
            .iter()
            .map(|(position, what)| (*position, (*what).to_owned())),
    );
    let errors = errors.into_iter().map(|(position, what)| RowError {
        place: source.with_line(position.line).with_column(position.column),
        what,
    });
    let mut errors: Vec<RowError> = errors.collect();
    sort_errors(&mut errors);
    ParsedTable {
        columns: header.names,
        rows,
        errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let table = parse_csv("t.csv", text, b',');
        table.errors.iter().map(RowError::to_string).collect()
    }

    #[test]
    fn csv_is_read_as_spreadsheets_write_it() {
        let text = "a,b\r\n\"x\r\ny\",\r\n1,\"say \"\"hi\"\"\"\r\r\n 007 ,1e5";
        let rows = parse_csv("t.csv", text, b',').rows;
        let cell = |name: &str, text: &str| (name.to_owned(), CellValue::Text(text.to_owned()));
        assert_eq!(rows[0].cells, [cell("a", "x\r\ny")]);
        assert_eq!(rows[1].cells, [cell("a", "1"), cell("b", "say \"hi\"")]);
        assert_eq!(rows[2].cells, [cell("a", " 007 "), cell("b", "1e5")]);
        let places: Vec<String> = rows.iter().map(|row| row.place.to_string()).collect();
        assert_eq!(places, ["t.csv:2", "t.csv:4", "t.csv:6"]);
        assert_eq!(parse_csv("t.csv", "", b','), ParsedTable::default());
        let rows = parse_csv("t.tsv", "a\tb,c\n1\t2;3\n", b'\t').rows;
        assert_eq!(rows[0].cells, [cell("a", "1"), cell("b,c", "2;3")]);
    }

    #[test]
    fn all_errors_of_a_table_are_reported_with_line_and_column() {
        assert_eq!(
            errors("id,,id\n1,2\n\n1,2,3,4\n5,\"6\"x,7\n8,\"é\n9,\n"),
            [
                "t.csv:1:4: this column has no name",
                "t.csv:1:5: the column `id` occurs twice",
                "t.csv:2:4: the number of cells is 2, but the first line has 3 columns",
                "t.csv:4:7: the number of cells is 4, but the first line has 3 columns",
                "t.csv:5:6: there is text after the closing quote; inside of a cell, write each quote twice",
                "t.csv:6:3: this quote is not closed; inside of a cell, write each quote twice",
                "t.csv:7:3: the number of cells is 2, but the first line has 3 columns",
            ]
        );
        // The quote is closed by one of the next line, after which there is text.
        assert_eq!(
            errors("a,b\n1,\"x\n2,\"y\"\n3\n"),
            [
                "t.csv:2:3: this quote is not closed; inside of a cell, write each quote twice",
                "t.csv:4:2: the number of cells is 1, but the first line has 2 columns",
            ]
        );
        assert_eq!(
            errors("a,b,c\n1,2\né,2,3,4\n\"x\ny\",5\n"),
            [
                "t.csv:2:4: the number of cells is 2, but the first line has 3 columns",
                "t.csv:3:7: the number of cells is 4, but the first line has 3 columns",
                "t.csv:5:5: the number of cells is 2, but the first line has 3 columns",
            ]
        );
    }

    #[test]
    fn a_table_with_another_delimiter_is_an_error_at_the_delimiter() {
        let help = "separate the cells with commas, or put the name in quotes";
        assert_eq!(
            errors("id;text\n1;a\n2;b,c\n"),
            [format!("t.csv:1:3: the first line contains a semicolon: {help}")]
        );
        let help = "separate the cells with commas, or give the file a name that ends with .tsv";
        assert_eq!(
            errors("id\ttext\n1\ta\n"),
            [format!("t.csv:1:3: the first line contains a tab: {help}")]
        );
        assert_eq!(errors("\"a;b\"\n1\n"), Vec::<String>::new());
    }
}
