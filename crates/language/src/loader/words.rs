//! Messages about the words of a file: unknown keys, lists of words, and quoted texts.

use super::codes;
use crate::diagnostic::{Finding, did_you_mean, nearest};
use crate::source::At;
use crate::vocabulary::{ForeignKey, Replacement, Section};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Returns whether keys of llm-orc are explained in the section.
fn explains_foreign_keys(section: Section) -> bool {
    let is_small = matches!(
        section,
        Section::Reply | Section::Responses | Section::Cost | Section::RateLimit | Section::Header
    );
    !is_small && !section.is_of_tests()
}

/// Returns the finding about an unknown key of `section`.
pub(super) fn unknown_key(key: &str, section: Section, at: At) -> Finding {
    if let Some(foreign) = ForeignKey::find(key).filter(|_| explains_foreign_keys(section)) {
        let message = format!("`{key}` is a key of llm-orc, not of this language");
        let mut finding = Finding::error(codes::FOREIGN_KEY, at, message).help(foreign.advice);
        finding.fix = foreign.replacement.map(|one| replace_foreign_key(one, &finding.at));
        return finding;
    }
    let finding = Finding::error(
        codes::UNKNOWN_KEY,
        at,
        format!("unknown key {} in {}", quoted(key), section.title()),
    );
    if let Some(home) = section.find_home(key) {
        return finding.help(format!(
            "`{key}` is a key of {}; expected one of {}",
            home.title(),
            list(section.key_names())
        ));
    }
    match nearest(key, section.key_names()) {
        Some(guess) => finding.meant(&guess),
        None => finding.help(format!("expected one of {}", list(section.key_names()))),
    }
}

fn replace_foreign_key(replacement: Replacement, at: &At) -> RouteFix {
    match replacement {
        Replacement::Rename(name) => {
            let change = RouteEdit::WriteText(at.clone(), name.to_owned());
            RouteFix::safe(format!("write `{name}`"), change)
        }
        Replacement::Remove => RouteFix::not_safe("remove the key", RouteEdit::Remove(at.route.clone())),
    }
}

/// Returns the key of `section` that an unknown key probably means, as [`unknown_key`] suggests it.
pub(super) fn meant_key(key: &str, section: Section) -> Option<&'static str> {
    let is_known = ForeignKey::find(key).is_some() || section.find_home(key).is_some();
    if is_known {
        return None;
    }
    did_you_mean(key, section.key_names())
}

fn list<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// `` `a`, `b` or `c` ``
pub(super) fn one_of<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// A string in quotes, on one line, shortened.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    let mut short: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    format!("'{short}'")
}
