//! The record of the last call that worked on a batch: its ensemble, its data, its rows, and the versions of all calls.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::entry::ExhaustedRowPolicy;
use super::identity::VersionParts;

/// The record of the last call that worked on a batch: ensemble, data, models, rows and versions.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct LastBatchCall {
    /// The version of the file.
    pub(super) version: u32,
    /// The name of the ensemble.
    pub(super) ensemble: String,
    /// The data.
    pub(super) data: String,
    /// The overrides of models.
    pub(super) models: Vec<String>,
    /// The start of the call.
    pub(super) started_at: DateTime<Utc>,
    /// The version of the rows.
    pub(super) current: String,
    /// The keys of the rows, by their numbers in the table.
    pub(super) rows: BTreeMap<usize, String>,
    /// The names of the rows, by their numbers in the table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<usize, String>,
    /// The meaning of a success with exhausted agents.
    #[serde(default)]
    pub(super) exhausted_rows: ExhaustedRowPolicy,
    /// The parts of all versions.
    pub(super) versions: BTreeMap<String, VersionParts>,
}

impl LastBatchCall {
    /// Parses the text of the file. Returns `None` if the text is empty, incomplete, or of another version of the format.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text)
            .ok()
            .filter(|facts: &Self| facts.version == 1)
    }

    /// Serializes the record as JSON.
    pub(super) fn to_json_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_numbers() {
        let facts = LastBatchCall {
            version: 1,
            rows: BTreeMap::from([(2, "row-a".to_owned()), (10, "row-b".to_owned())]),
            ..LastBatchCall::default()
        };
        let read = LastBatchCall::parse(&facts.to_json_text()).expect("they can be read");
        assert_eq!(read.rows, facts.rows);
    }
}
