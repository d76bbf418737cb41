//! Places in tables, and errors at these places.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A place in a table: `tickets.jsonl:17:3`. Places are ordered by their position in the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPlace {
    /// The name of the file, in a form for messages.
    source: Arc<str>,
    /// The line, from 1.
    line: Option<usize>,
    /// The column, from 1.
    column: Option<usize>,
}

impl RowPlace {
    /// Returns the place of a whole table.
    pub fn from_source(name: impl Into<Arc<str>>) -> Self {
        Self {
            source: name.into(),
            line: None,
            column: None,
        }
    }

    /// Returns the place of a line of the same table, without a column.
    #[must_use]
    pub fn with_line(&self, line: usize) -> Self {
        Self {
            source: Arc::clone(&self.source),
            line: Some(line),
            column: None,
        }
    }

    /// Returns the place of a column of the same line.
    #[must_use]
    pub fn with_column(&self, column: usize) -> Self {
        Self {
            column: Some(column),
            ..self.clone()
        }
    }
}

impl Default for RowPlace {
    fn default() -> Self {
        Self::from_source("")
    }
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        let numbers = [self.line, self.column].into_iter().flatten();
        numbers.into_iter().try_for_each(|number| write!(f, ":{number}"))
    }
}

impl Serialize for RowPlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An error at a place of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The place of the error.
    pub place: RowPlace,
    /// The error in one sentence.
    pub what: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Sorts errors by their places. Errors at the same place keep their order.
pub(super) fn sort_errors(errors: &mut [RowError]) {
    errors.sort_by(|one, other| one.place.cmp(&other.place));
}
