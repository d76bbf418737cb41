//! The identity of rows. The key of a row is computed from its values, and the version of the batch from everything else that can change
//! the result of a run.
//!
//! The id of a run is `<key>-v<version>`, with `-try<number>` after the first try, so the runs of a row are found by their names even if
//! the index is lost.

use std::collections::{BTreeMap, HashMap};

use ensemble_core::store::RunId;
use ensemble_language::data::sha256_of_text;
use ensemble_language::loader::{canonical_result_parts, list_result_parts};
use serde_json::{Value, json};

use super::BatchRow;
use crate::error::RunError;
use crate::options::arguments::parse_model_overrides;
use crate::prepare::PreparedEnsemble;
use crate::start::definitions::{DefinitionOptions, compute_definitions};
use crate::start::runs::Runs;

/// The number of hexadecimal digits of a version.
const VERSION_DIGITS: usize = 8;
/// The number of hexadecimal digits of a key.
const KEY_DIGITS: usize = 16;

/// The digests of the parts of a version, by their names for messages.
pub(super) type VersionParts = BTreeMap<String, String>;

/// The digests of everything that all rows have in common and that can change their results.
pub(super) struct BatchVersion {
    /// The digest in the ids of runs.
    pub(super) digest: String,
    /// The parts, each with its digest.
    pub(super) parts: VersionParts,
}

impl BatchVersion {
    /// Computes the version of an ensemble with these model overrides from its files as they are now.
    pub(super) fn compute(runs: &Runs, prepared: &PreparedEnsemble, models: &[String]) -> Result<Self, RunError> {
        let none = BTreeMap::new();
        let options = DefinitionOptions {
            overrides: &parse_model_overrides(models)?,
            stubs: &none,
            responders: &none,
            nested_text: canonical_result_parts,
        };
        let mut parts = VersionParts::new();
        if let Some(document) = &prepared.loaded.document {
            let texts = list_result_parts(document);
            parts.extend(texts.into_iter().map(|(name, text)| (name, sha256_of_text(&text))));
        }
        for (agent, definition) in compute_definitions(prepared, options, runs.project()) {
            for (part, digest) in definition.iter() {
                parts.insert(format!("{part} of agent `{agent}`"), digest.to_string());
            }
        }
        let digest = sha256_of_text(&json!(parts).to_string())[..VERSION_DIGITS].to_owned();
        Ok(Self { digest, parts })
    }
}

/// Lists the names of the parts that differ between two versions, including parts that only one version has.
pub(super) fn list_changed_parts(old: &VersionParts, new: &VersionParts) -> Vec<String> {
    let differs = |name: &&String| old.get(*name) != new.get(*name);
    let names = new.keys().chain(old.keys().filter(|name| !new.contains_key(*name)));
    names.filter(differs).cloned().collect()
}

/// The parsed id of the run of a row: row key, version and number of the try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowRunName<'a> {
    /// The key of the row.
    pub(super) key: &'a str,
    /// The version.
    pub(super) version: &'a str,
    /// The number of the try, from 1.
    pub(super) number: u32,
}

impl<'a> RowRunName<'a> {
    /// Parses the id of a run. Returns `None` if the id is not that of the run of a row.
    pub(super) fn parse(id: &'a str) -> Option<Self> {
        let (key, rest) = id.rsplit_once("-v")?;
        let (version, number) = match rest.split_once("-try") {
            Some((version, number)) => (version, number.parse().ok()?),
            None => (rest, 1),
        };
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (version.len() == VERSION_DIGITS && is_hex(version)).then_some(Self { key, version, number })
    }
}

/// Formats the id of the run of a row. `number` is the number of the try.
pub(super) fn format_row_run_id(key: &str, version: &str, number: u32) -> RunId {
    RunId::new(match number {
        0 | 1 => format!("{key}-v{version}"),
        number => format!("{key}-v{version}-try{number}"),
    })
}

/// Computes the keys of rows, which are digests of the input and values of each row. Equal rows get different keys.
pub(super) fn build_row_keys(rows: &[BatchRow]) -> Vec<String> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    let keys = rows.iter().map(|row| {
        let values: BTreeMap<&str, &Value> = row.values.iter().map(|(name, value)| (&**name, &**value)).collect();
        let digest = sha256_of_text(&json!([row.input, values]).to_string())[..KEY_DIGITS].to_owned();
        let times = counts.entry(digest.clone()).or_default();
        *times += 1;
        match *times {
            1 => format!("row-{digest}"),
            times => format!("row-{digest}-{times}"),
        }
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
    fn keys_follow_from_what_is_given_and_not_from_its_order() {
        let (a, b) = (("a", json!(1)), ("b", json!("x")));
        let rows = [
            row(&[a.clone(), b.clone()]),
            row(&[b.clone(), a.clone()]),
            row(std::slice::from_ref(&a)),
        ];
        let keys = build_row_keys(&rows);
        assert_eq!(keys[1], format!("{}-2", keys[0]));
        assert_ne!(keys[0], keys[2]);
        assert_eq!(build_row_keys(&rows[2..]), [keys[2].clone()]);
        let asked = BatchRow {
            input: Some("x".into()),
            ..rows[2].clone()
        };
        assert_ne!(build_row_keys(&[asked]), [keys[2].clone()]);
        // A number is not its text.
        assert_ne!(build_row_keys(&[row(&[("a", json!("1"))])]), [keys[2].clone()]);
    }

    #[test]
    fn the_name_of_a_run_says_its_row_its_version_and_its_try() {
        for (key, number) in [("row-98b00844f640a873", 1), ("row-98b00844f640a873-2", 12)] {
            let id = format_row_run_id(key, "1a2b3c4d", number);
            let version = "1a2b3c4d";
            assert_eq!(
                RowRunName::parse(id.as_str()),
                Some(RowRunName { key, version, number })
            );
        }
        assert_eq!(RowRunName::parse("row-98b00844f640a873"), None);
    }

    #[test]
    fn changed_parts_are_those_with_another_digest_in_either_version() {
        let parts = |all: &[(&str, &str)]| -> VersionParts {
            all.iter()
                .map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned()))
                .collect()
        };
        let (old, new) = (
            parts(&[("a", "1"), ("b", "1"), ("c", "1")]),
            parts(&[("a", "1"), ("b", "2"), ("d", "1")]),
        );
        assert_eq!(list_changed_parts(&old, &new), ["b", "d", "c"]);
    }
}
