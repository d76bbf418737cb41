//! The facts of the last call that worked on a batch: its ensemble, its data, its rows, and the versions of all calls.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::identity::VersionParts;

/// The facts of the last call that worked on a batch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct BatchFacts {
    /// The version of the file.
    pub(super) version: u32,
    /// The name of the ensemble.
    pub(super) ensemble: String,
    /// The file of the ensemble.
    pub(super) ensemble_file: String,
    /// The data.
    pub(super) data: String,
    /// When the call started.
    pub(super) started_at: DateTime<Utc>,
    /// The version of the rows.
    pub(super) current: String,
    /// The keys of the rows, in their order.
    pub(super) rows: Vec<String>,
    /// The parts of all versions.
    pub(super) versions: BTreeMap<String, VersionParts>,
}

impl BatchFacts {
    /// Parses the text of the file; `None` if it is empty, torn, or of another program.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text)
            .ok()
            .filter(|facts: &Self| facts.version == 1)
    }

    /// Returns the text of the file.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
