//! Maps with a fixed set of keys, as the table of keys says.

use super::codes;
use super::document::{Content, Entry};
use super::findings::Findings;
use super::reader::{Cursor, StepRef, wrong_type};
use super::words::{meant_key, one_of, unknown_key};
use crate::diagnostic::{Code, Finding};
use crate::source::Route;
use crate::vocabulary::{Key, Section, is_extension};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// A map with a fixed set of allowed keys.
pub(super) struct Fields<'a> {
    pub(super) at: &'a Cursor<'a>,
    section: Section,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// Reads a map and reports keys that are not allowed; other values are reported.
    pub(super) fn open(at: &'a Cursor<'a>, section: Section, findings: &mut Findings) -> Option<Self> {
        let Content::Mapping(entries) = &at.node.content else {
            wrong_type(at, &format!("a map ({})", section.title()), findings);
            return None;
        };
        for entry in entries {
            let ignored = section.has_extensions() && is_extension(&entry.key);
            if !ignored && section.find_key(&entry.key).is_none() {
                findings.error(|| {
                    let place = at.child(&entry.value, StepRef::Key(&entry.key)).key();
                    unknown_key(&entry.key, section, place)
                });
            }
        }
        Some(Self { at, section, entries })
    }

    /// All keys, also unknown ones.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| &*entry.key)
    }

    /// Returns the value under `key`, which must be a key of the section.
    pub(super) fn get(&self, key: &str) -> Option<Cursor<'a>> {
        debug_assert!(
            self.section.find_key(key).is_some(),
            "`{key}` needs a row in the table of keys"
        );
        let entry = self.entries.iter().find(|entry| *entry.key == *key)?;
        Some(self.at.child(&entry.value, StepRef::Key(&entry.key)))
    }

    /// Reads the value under `key`, if it exists.
    pub(super) fn read<T>(
        &self,
        key: &str,
        findings: &mut Findings,
        reader: impl FnOnce(&Cursor<'_>, &mut Findings) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|at| reader(&at, findings))
    }

    /// Reads the value under `key`, which must exist.
    pub(super) fn required<T>(
        &self,
        key: &str,
        help: &str,
        findings: &mut Findings,
        reader: impl FnOnce(&Cursor<'_>, &mut Findings) -> Option<T>,
    ) -> Option<T> {
        let Some(at) = self.get(key) else {
            let finding = Finding::error(codes::MISSING, self.at.value(), format!("`{key}` is missing"));
            findings.push(finding.help(help));
            return None;
        };
        reader(&at, findings)
    }

    /// Returns the only one of `keys` that is given. `none` and `several` are the codes of the other cases, and `help` says
    /// what to add.
    pub(super) fn exactly_one<'k>(
        &self,
        keys: &[&'k str],
        [none, several]: [Code; 2],
        help: &str,
        findings: &mut Findings,
    ) -> Option<(&'k str, Cursor<'a>)> {
        let title = self.section.title();
        let mut given = keys.iter().filter_map(|key| Some((*key, self.get(key)?)));
        let Some((first, value)) = given.next() else {
            // A misspelt key is already reported, with a suggestion.
            let means_one = |key| meant_key(key, self.section).is_some_and(|meant| keys.contains(&meant));
            if self.keys().any(means_one) {
                return None;
            }
            let message = format!("{title} has none of {}", one_of(keys.iter().copied()));
            findings.push(Finding::error(none, self.at.value(), message).help(help));
            return None;
        };
        if let Some((second, other)) = given.next() {
            let message = format!("{title} has both `{first}` and `{second}`");
            let finding = Finding::error(several, other.key(), message);
            findings.push(finding.also(value.key(), "the first").help("keep one of them"));
            return None;
        }
        Some((first, value))
    }

    /// Reports the keys that this kind of the section does not have. `owner` is the kind in words, and `help` returns what
    /// to write instead of a key.
    pub(super) fn refuse_other_kinds(
        &self,
        kind: &str,
        owner: &str,
        findings: &mut Findings,
        help: impl Fn(&Key) -> String,
    ) {
        for key in self.section.keys().filter(|key| !key.is_for(kind)) {
            if self.get(key.name).is_some() {
                let route = self.at.route().key(key.name);
                findings.push(key_of_other_kind(route, key.name, owner).help(help(key)));
            }
        }
    }
}

/// Returns the finding about a key that another kind of the same section has.
pub(super) fn key_of_other_kind(route: Route, key: &str, owner: &str) -> Finding {
    let fix = RouteFix::not_safe("remove the key", RouteEdit::Remove(route.clone()));
    let message = format!("`{key}` is not allowed for {owner}");
    Finding::error(codes::NOT_FOR_KIND, route.as_key(), message).with_fix(fix)
}
