//! Messages about the words of a file: unknown keys, lists of words, and quoted texts.

use super::codes;
use crate::diagnostic::{Finding, find_nearest_word, find_similar_word};
use crate::source::RouteLocation;
use crate::vocabulary::{FileSection, KeyReplacement, KeySynonym, LlmOrcKey};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Returns whether findings about unknown keys of this section explain keys of llm-orc.
fn explains_foreign_keys(section: FileSection) -> bool {
    let is_small = matches!(
        section,
        FileSection::Reply | FileSection::Responses | FileSection::Cost | FileSection::RateLimit | FileSection::Header
    );
    !is_small && !section.is_test_section()
}

/// Builds the finding about an unknown key of `section`, with the most helpful advice.
pub(super) fn unknown_key_finding(key: &str, section: FileSection, at: RouteLocation) -> Finding {
    if let Some(synonym) = KeySynonym::find_in_section(section, key) {
        let message = format!("unknown key {} in {}", quote_excerpt(key), section.title());
        let finding = Finding::new_error(codes::UNKNOWN_KEY, at, message);
        return match synonym.advice {
            Some(advice) => finding.with_help(advice),
            None => finding.with_near_name_fix(key, synonym.meant),
        };
    }
    if let Some(foreign) = LlmOrcKey::find_by_name(key).filter(|_| explains_foreign_keys(section)) {
        let message = format!("`{key}` is a key of llm-orc, not of this language");
        let mut finding = Finding::new_error(codes::FOREIGN_KEY, at, message).with_help(foreign.advice);
        finding.fix = foreign.replacement.map(|one| foreign_key_fix(one, &finding.at));
        return finding;
    }
    let finding = Finding::new_error(
        codes::UNKNOWN_KEY,
        at,
        format!("unknown key {} in {}", quote_excerpt(key), section.title()),
    );
    if let Some(home) = section.find_section_with_key(key) {
        return finding.with_help(format!(
            "`{key}` is a key of {}; expected one of {}",
            home.title(),
            format_words(section.key_names())
        ));
    }
    match find_nearest_word(key, section.key_names()) {
        Some(guess) => finding.with_near_word_fix(&guess),
        None => finding.with_help(format!("expected one of {}", format_words(section.key_names()))),
    }
}

/// Builds the fix that renames or removes a key of llm-orc.
fn foreign_key_fix(replacement: KeyReplacement, at: &RouteLocation) -> RouteFix {
    match replacement {
        KeyReplacement::Rename(name) => {
            let change = RouteEdit::WriteText(at.clone(), name.to_owned());
            RouteFix::new_safe(format!("write `{name}`"), change)
        }
        KeyReplacement::Remove => RouteFix::new_unsafe("remove the key", RouteEdit::Remove(at.route.clone())),
    }
}

/// Returns the key of `section` that an unknown key probably means, as in the advice of the finding.
pub(super) fn find_probable_key(key: &str, section: FileSection) -> Option<&'static str> {
    if let Some(synonym) = KeySynonym::find_in_section(section, key) {
        return Some(synonym.meant);
    }
    let is_known = LlmOrcKey::find_by_name(key).is_some() || section.find_section_with_key(key).is_some();
    if is_known {
        return None;
    }
    find_similar_word(key, section.key_names())
}

/// Returns whether the key is a misspelling of `meant`. Keys of other systems are no misspellings.
pub(super) fn is_misspelling(key: &str, section: FileSection, meant: &str) -> bool {
    KeySynonym::find_in_section(section, key).is_none() && find_probable_key(key, section) == Some(meant)
}

/// Formats the words in backticks, separated by commas.
fn format_words<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Formats the words as choices: `` `a`, `b` or `c` ``.
pub(super) fn format_choices<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// Returns the text in quotes on one line, shortened to 40 characters.
pub(super) fn quote_excerpt(text: &str) -> String {
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
