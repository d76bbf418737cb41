//! Maps with a fixed set of keys, as the table of keys says.

use super::codes;
use super::document::{YamlContent, YamlEntry};
use super::findings::LimitedFindingList;
use super::key_messages::{find_probable_key, format_choices, unknown_key_finding};
use super::value_decoders::{CursorStep, NodeCursor, report_wrong_type};
use crate::diagnostic::{Finding, FindingCode};
use crate::source::Route;
use crate::vocabulary::{FileSection, SectionKey, is_extension_key};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The fields of a map whose section allows a fixed set of keys.
pub(super) struct SectionFields<'a> {
    pub(super) at: &'a NodeCursor<'a>,
    section: FileSection,
    entries: &'a [YamlEntry],
}

impl<'a> SectionFields<'a> {
    /// Returns the fields of a map, and reports unknown keys. Reports values that are no map.
    pub(super) fn from_map(
        at: &'a NodeCursor<'a>,
        section: FileSection,
        findings: &mut LimitedFindingList,
    ) -> Option<Self> {
        let YamlContent::Mapping(entries) = &at.node.content else {
            report_wrong_type(at, &format!("a map ({})", section.title()), findings);
            return None;
        };
        for entry in entries {
            let ignored = section.allows_extensions() && is_extension_key(&entry.key);
            if !ignored && section.find_key(&entry.key).is_none() {
                findings.push_error(|| {
                    let place = at.child_at(&entry.value, CursorStep::Key(&entry.key)).key_location();
                    unknown_key_finding(&entry.key, section, place)
                });
            }
        }
        Some(Self { at, section, entries })
    }

    /// Returns all keys, also unknown ones.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| &*entry.key)
    }

    /// Returns the value under `key`, which must be a key of the section. Returns `None` for `null`, unless `null` is data.
    pub(super) fn get(&self, key: &str) -> Option<NodeCursor<'a>> {
        debug_assert!(
            self.section.find_key(key).is_some(),
            "`{key}` needs a row in the table of keys"
        );
        let is_data = matches!(
            (self.section, key),
            (FileSection::Stub, "json") | (FileSection::Expect, "result")
        );
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| *entry.key == *key && (is_data || !entry.value.is_null()))?;
        Some(self.at.child_at(&entry.value, CursorStep::Key(&entry.key)))
    }

    /// Decodes the value under `key` with `reader`, if the value exists.
    pub(super) fn decode_optional<T>(
        &self,
        key: &str,
        findings: &mut LimitedFindingList,
        reader: impl FnOnce(&NodeCursor<'_>, &mut LimitedFindingList) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|at| reader(&at, findings))
    }

    /// Decodes the value under `key` with `reader`, and reports a missing value with `help`.
    pub(super) fn decode_required<T>(
        &self,
        key: &str,
        help: &str,
        findings: &mut LimitedFindingList,
        reader: impl FnOnce(&NodeCursor<'_>, &mut LimitedFindingList) -> Option<T>,
    ) -> Option<T> {
        let Some(at) = self.get(key) else {
            let finding = Finding::new_error(codes::MISSING, self.at.value_location(), format!("`{key}` is missing"));
            findings.push(finding.with_help(help));
            return None;
        };
        reader(&at, findings)
    }

    /// Returns the only one of `keys` that is present. Reports the code `none` or `several` otherwise; `help` names what to add.
    pub(super) fn require_exactly_one<'k>(
        &self,
        keys: &[&'k str],
        [none, several]: [FindingCode; 2],
        help: &str,
        findings: &mut LimitedFindingList,
    ) -> Option<(&'k str, NodeCursor<'a>)> {
        let title = self.section.title();
        let mut present_fields = keys.iter().filter_map(|key| Some((*key, self.get(key)?)));
        let Some((first, value)) = present_fields.next() else {
            // A misspelt key is already reported, with a suggestion.
            let means_one = |key| find_probable_key(key, self.section).is_some_and(|meant| keys.contains(&meant));
            if self.keys().any(means_one) {
                return None;
            }
            let message = format!("{title} has none of {}", format_choices(keys.iter().copied()));
            findings.push(Finding::new_error(none, self.at.value_location(), message).with_help(help));
            return None;
        };
        if let Some((second, other)) = present_fields.next() {
            let message = format!("{title} has both `{first}` and `{second}`");
            let finding = Finding::new_error(several, other.key_location(), message);
            findings.push(
                finding
                    .with_related(value.key_location(), "the first")
                    .with_help("keep one of them"),
            );
            return None;
        }
        Some((first, value))
    }

    /// Reports the keys that sections of this kind do not have. `owner`: the kind in words; `help`: the advice for a key.
    pub(super) fn report_other_kind_keys(
        &self,
        kind: &str,
        owner: &str,
        findings: &mut LimitedFindingList,
        help: impl Fn(&SectionKey) -> String,
    ) {
        for key in self.section.iter_keys().filter(|key| !key.is_key_of_kind(kind)) {
            if self.get(key.name).is_some() {
                let route = self.at.route().with_key(key.name);
                findings.push(other_kind_key_finding(route, key.name, owner).with_help(help(key)));
            }
        }
    }
}

/// Builds the error about a key that `owner` does not have, with a fix that removes the key.
pub(super) fn other_kind_key_finding(route: Route, key: &str, owner: &str) -> Finding {
    let fix = RouteFix::new_unsafe("remove the key", RouteEdit::Remove(route.clone()));
    let message = format!("`{key}` is not allowed for {owner}");
    Finding::new_error(codes::NOT_FOR_KIND, route.into_key_location(), message).with_fix(fix)
}
