//! A map while it is read: its keys, which must be strings and unique, and the entries that `<<` adds.

use std::collections::HashMap;
use std::sync::Arc;

use super::codes;
use super::document::{ScalarValue, YamlContent, YamlEntry, YamlNode};
use super::findings::LimitedFindingList;
use crate::diagnostic::Finding;
use crate::source::{RouteLocation, Span};
use crate::yaml::edit::{RouteEdit, RouteFix};
use crate::yaml::scalar_alignment::ScalarNotation;

/// A map whose end has not been reached.
#[derive(Default)]
pub(super) struct OpenMap {
    pub(super) entries: Vec<YamlEntry>,
    /// The index of each key in `entries`; used only for large maps, where a linear search would be slow.
    index: HashMap<Arc<str>, usize>,
    pub(super) key: Option<PendingMapKey>,
    pub(super) merge: Option<(Span, Arc<YamlNode>)>,
}

/// A key whose value has not been reached.
pub(super) enum PendingMapKey {
    Name(Arc<str>, Span),
    Merge(Span),
    /// Whether a problem was already reported.
    AlreadyReported,
}

const MIN_INDEXED_ENTRIES: usize = 16;

impl OpenMap {
    /// Returns the index of the entry with this key. Large maps use a hash index.
    pub(super) fn find_entry_index(&self, key: &str) -> Option<usize> {
        if self.entries.len() < MIN_INDEXED_ENTRIES {
            self.entries.iter().position(|entry| *entry.key == *key)
        } else {
            self.index.get(key).copied()
        }
    }

    /// Adds an entry. Builds the hash index when the map becomes large.
    pub(super) fn push_entry(&mut self, entry: YamlEntry) {
        self.entries.push(entry);
        if self.entries.len() == MIN_INDEXED_ENTRIES {
            let keys = self.entries.iter().enumerate();
            self.index = keys.map(|(at, entry)| (entry.key.clone(), at)).collect();
        } else if let Some(entry) = self.entries.get(MIN_INDEXED_ENTRIES..).and_then(<[YamlEntry]>::last) {
            self.index.insert(entry.key.clone(), self.entries.len() - 1);
        }
    }
}

/// Reports a duplicate key. `whole`: the span of the key with its value, which the fix removes.
pub(super) fn report_duplicate_key(
    span: Span,
    first: Option<Span>,
    name: &str,
    whole: Option<Span>,
    findings: &mut LimitedFindingList,
) {
    findings.push_error(|| {
        let message = format!("duplicate key `{name}` in a map");
        let mut finding = Finding::new_error(codes::DUPLICATE_KEY, RouteLocation::from_source_span(span), message)
            .with_help("keep one of them");
        finding.fix = whole.map(|whole| RouteFix::new_unsafe("remove the second one", RouteEdit::RemoveLines(whole)));
        match first {
            Some(first) => finding.with_related(RouteLocation::from_source_span(first), "first here"),
            None => finding,
        }
    });
}

/// Returns the meaning of a node in the position of a key. Reports keys that are no strings.
pub(super) fn parse_map_key(node: &YamlNode, site: Span, findings: &mut LimitedFindingList) -> PendingMapKey {
    let YamlContent::Scalar(scalar) = &node.content else {
        let finding = Finding::new_error(
            codes::KEY_NOT_TEXT,
            RouteLocation::from_source_span(site),
            "a map or a list is used as a key",
        );
        findings.push(finding.with_help("a key must be a string; quote a template such as `{{ name }}`"));
        return PendingMapKey::AlreadyReported;
    };
    match scalar.value {
        ScalarValue::Text if scalar.style == ScalarNotation::Plain && &*scalar.text == "<<" => {
            PendingMapKey::Merge(site)
        }
        ScalarValue::Text => PendingMapKey::Name(scalar.text.clone(), site),
        ScalarValue::Null => {
            let finding = Finding::new_error(
                codes::KEY_NOT_TEXT,
                RouteLocation::from_source_span(site),
                "a key is missing before the colon",
            );
            findings.push(finding.with_help("a key must be a string"));
            PendingMapKey::AlreadyReported
        }
        _ => {
            let message = format!("the key `{}` is not a string", scalar.text);
            let finding = Finding::new_error(codes::KEY_NOT_TEXT, RouteLocation::from_source_span(site), message);
            let quoted = RouteEdit::WriteYaml(finding.at.clone(), format!("'{}'", scalar.text));
            findings.push(
                finding
                    .with_help(format!("quote the value: '{}'", scalar.text))
                    .with_fix(RouteFix::new_safe("quote the key", quoted)),
            );
            PendingMapKey::AlreadyReported
        }
    }
}
