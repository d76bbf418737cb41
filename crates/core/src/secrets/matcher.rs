//! The search for all forms of all secrets in one pass, and in the text without its escapes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value};

use super::REDACTED_TEXT;
use super::escapes::{EscapeKind, UnescapedText};
use super::forms::{SecretParts, list_encoded_forms, list_escaped_forms};

/// The maximum number of escapes inside each other: JSON in JSON in JSON.
const MAX_NESTED_ESCAPES: usize = 4;

/// The maximum number of texts without escapes that are made of one text.
const MAX_UNESCAPED_TEXTS: usize = 24;

/// Smallest number of bytes at the end of a fragment that count as a part of a secret.
const MIN_PARTIAL_SECRET: usize = 6;

/// Number of bytes that line breaks and blanks can add to a short secret.
const LINE_BREAK_ALLOWANCE: usize = 64;

/// Search for all forms of the secrets of a run.
pub(super) struct SecretMatcher {
    /// `None`: it cannot be built, and every text counts as a secret.
    automaton: Option<AhoCorasick>,
    /// The forms in which a secret can begin at the end of a text, sorted.
    forms: Vec<String>,
    longest_form: usize,
    /// The escapes in which a secret can look different.
    escapes: Vec<EscapeKind>,
    structures: Vec<Value>,
}

impl SecretMatcher {
    /// Builds the search for these secrets. Returns `None` without secrets.
    pub(super) fn from_parts(parts: &SecretParts) -> Option<Self> {
        let mut forms: BTreeSet<String> = parts.texts.clone();
        for text in &parts.texts {
            forms.extend(list_encoded_forms(text));
        }
        // Every match is asked for: one secret can begin in another one.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&forms);
        let escapes = list_relevant_escapes(&parts.texts, &forms);
        for text in &parts.texts {
            forms.extend(list_escaped_forms(text));
        }
        if forms.is_empty() {
            return None;
        }
        Some(Self {
            automaton: automaton.ok(),
            longest_form: forms.iter().map(String::len).max().unwrap_or_default(),
            forms: forms.into_iter().collect(),
            escapes,
            structures: parts.structures.clone(),
        })
    }

    /// Returns a search that could not be built.
    #[cfg(test)]
    pub(super) fn blind() -> Self {
        Self {
            automaton: None,
            forms: Vec::new(),
            longest_form: 0,
            escapes: Vec::new(),
            structures: Vec::new(),
        }
    }

    /// Returns whether the search could not be built, so that every text counts as a secret.
    pub(super) fn matches_everything(&self) -> bool {
        self.automaton.is_none()
    }

    /// Returns whether the text contains a form of a secret. Does not undo escapes.
    fn contains_unescaped_form(&self, text: &str) -> bool {
        let automaton = self.automaton.as_ref();
        automaton.is_none_or(|automaton| automaton.is_match(text))
    }

    /// Returns the byte ranges of all forms in the text, also overlapping ones.
    fn find_form_ranges(&self, text: &[u8]) -> Vec<Range<usize>> {
        match &self.automaton {
            Some(automaton) => automaton
                .find_overlapping_iter(text)
                .map(|found| found.range())
                .collect(),
            None if text.is_empty() => Vec::new(),
            None => std::iter::once(0..text.len()).collect(),
        }
    }

    /// Returns whether the text contains a secret in any form, also behind escapes.
    pub(super) fn contains_secret(&self, text: &str) -> bool {
        let mut ranges = Vec::new();
        self.contains_unescaped_form(text) || {
            self.add_escaped_ranges(text, &mut ranges);
            !ranges.is_empty()
        }
    }

    /// Replaces the secrets in the text.
    pub(super) fn redact<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let ranges = self.find_secret_ranges(&text);
        if ranges.is_empty() {
            return text;
        }
        let mut redacted = String::with_capacity(text.len());
        let mut end = 0;
        for range in ranges {
            redacted.push_str(&text[end..range.start]);
            redacted.push_str(REDACTED_TEXT);
            end = range.end;
        }
        redacted.push_str(&text[end..]);
        Cow::Owned(redacted)
    }

    /// Returns whether the value is a structure or a number that is a secret.
    pub(super) fn is_secret_value(&self, value: &Value) -> bool {
        match value {
            _ if self.matches_everything() => true,
            Value::Number(number) => self.contains_unescaped_form(&number.to_string()),
            Value::Array(_) | Value::Object(_) => self.structures.contains(value),
            Value::Null | Value::Bool(_) | Value::String(_) => false,
        }
    }

    /// Returns whether the map is an object that is a secret.
    pub(super) fn is_secret_map(&self, map: &Map<String, Value>) -> bool {
        let is_map = |structure: &Value| structure.as_object().is_some_and(|object| object == map);
        self.matches_everything() || self.structures.iter().any(is_map)
    }

    /// Returns the byte ranges of secrets in order, without overlaps.
    fn find_secret_ranges(&self, text: &str) -> Vec<Range<usize>> {
        let mut ranges = self.find_form_ranges(text.as_bytes());
        self.add_escaped_ranges(text, &mut ranges);
        ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    /// Adds the ranges of secrets behind escapes and across line breaks.
    fn add_escaped_ranges(&self, text: &str, ranges: &mut Vec<Range<usize>>) {
        if text.bytes().any(|byte| b"\\%+&\n".contains(&byte)) {
            let mut passes = MAX_UNESCAPED_TEXTS;
            let text = UnescapedText::from_text(text);
            self.add_ranges_across_lines(&text, ranges);
            self.add_unescaped_ranges(&text, MAX_NESTED_ESCAPES, &mut passes, ranges);
        }
    }

    /// Adds the ranges of secrets in the joined lines, because base64 and hexadecimal digits can be broken anywhere.
    fn add_ranges_across_lines(&self, text: &UnescapedText, ranges: &mut Vec<Range<usize>>) {
        if let Some(joined) = text.join_lines() {
            self.add_ranges_of_bytes(&joined, ranges);
        }
    }

    /// Adds the ranges of secrets in this text, as ranges of the original text.
    fn add_ranges_of_bytes(&self, text: &UnescapedText, ranges: &mut Vec<Range<usize>>) {
        let found = self.find_form_ranges(&text.bytes).into_iter();
        ranges.extend(found.map(|found| text.original_range(found.start, found.end)));
    }

    /// Adds the ranges of secrets in the text with its escapes undone, also nested ones. `depth` and `passes` limit the work.
    fn add_unescaped_ranges(
        &self,
        text: &UnescapedText,
        depth: usize,
        passes: &mut usize,
        ranges: &mut Vec<Range<usize>>,
    ) {
        if depth == 0 {
            return;
        }
        for kind in &self.escapes {
            if *passes == 0 {
                return;
            }
            let Some(decoded) = text.decode_escapes(*kind) else {
                continue;
            };
            *passes -= 1;
            self.add_ranges_of_bytes(&decoded, ranges);
            self.add_ranges_across_lines(&decoded, ranges);
            self.add_unescaped_ranges(&decoded, depth - 1, passes, ranges);
        }
    }

    /// Returns the number of bytes at the end of the text that can be the beginning of a secret, also over several lines.
    fn partial_secret_length_at_end(&self, text: &str) -> usize {
        if self.matches_everything() {
            return text.len();
        }
        let end = &text[text.ceil_char_boundary(text.len().saturating_sub(self.max_length_with_line_breaks()))..];
        let joined = UnescapedText::from_text(end).join_lines();
        let over_lines = joined.and_then(|joined| {
            let (length, count) = (self.partial_form_length_at_end(joined.to_utf8()?), joined.bytes.len());
            (length > 0).then(|| end.len() - joined.original_range(count - length, count).start)
        });
        self.partial_form_length_at_end(text)
            .max(over_lines.unwrap_or_default())
    }

    /// Returns the largest number of bytes of a secret with line breaks.
    fn max_length_with_line_breaks(&self) -> usize {
        2 * self.longest_form + LINE_BREAK_ALLOWANCE
    }

    /// Returns the number of bytes at the end of the text that are the beginning of a form.
    fn partial_form_length_at_end(&self, text: &str) -> usize {
        let first = text.floor_char_boundary(text.len().saturating_sub(self.longest_form));
        let mut ends = text[first..].char_indices().map(|(at, _)| &text[first + at..]);
        let begins_form = |end: &&str| {
            let next = self.forms.partition_point(|form| form.as_str() <= *end);
            self.forms.get(next).is_some_and(|form| form.starts_with(*end))
        };
        ends.find(begins_form).map_or(0, str::len)
    }

    /// Splits a text into a redacted part that can be shown, and an end that can belong to a secret.
    pub(super) fn split_at_possible_secret(&self, text: &str) -> (String, String) {
        let possible = text.len() - self.partial_secret_length_at_end(text);
        let crossing = self
            .find_secret_ranges(text)
            .into_iter()
            .find(|range| range.start < possible && possible < range.end);
        let (shown, held) = text.split_at(crossing.map_or(possible, |range| range.start));
        (self.redact(Cow::Borrowed(shown)).into_owned(), held.to_owned())
    }

    /// Returns the number of bytes at the start of the text that can be the end of a secret, also over several lines.
    fn partial_secret_length_at_start(&self, text: &str) -> usize {
        let start = &text[..text.floor_char_boundary(self.max_length_with_line_breaks())];
        let joined = UnescapedText::from_text(start).join_lines();
        let over_lines = joined.and_then(|joined| {
            let length = self.partial_form_length_at_start(joined.to_utf8()?);
            (length > 0).then(|| joined.original_range(0, length).end)
        });
        self.partial_form_length_at_start(text)
            .max(over_lines.unwrap_or_default())
    }

    /// Returns the number of bytes at the start of the text that are the end of a form.
    fn partial_form_length_at_start(&self, text: &str) -> usize {
        let rest_length = |form: &String| {
            let mut starts = form.char_indices().skip(1).map(|(at, _)| &form[at..]);
            starts.find(|rest| text.starts_with(rest)).map(str::len)
        };
        self.forms.iter().filter_map(rest_length).max().unwrap_or_default()
    }

    /// Redacts a fragment of a longer text, including parts of secrets at both ends of the fragment.
    pub(super) fn redact_fragment(&self, text: &str) -> String {
        let mut redacted = self.redact(Cow::Borrowed(text)).into_owned();
        let rest = self.partial_secret_length_at_start(&redacted);
        if rest >= MIN_PARTIAL_SECRET {
            redacted.replace_range(..rest, REDACTED_TEXT);
        }
        let beginning = self.partial_secret_length_at_end(&redacted);
        if beginning >= MIN_PARTIAL_SECRET {
            redacted.replace_range(redacted.len() - beginning.., REDACTED_TEXT);
        }
        redacted
    }
}

/// Returns the escapes that change one of the texts or their encoded forms. Backslash escapes always count, because JSON escapes line
/// breaks.
fn list_relevant_escapes(texts: &BTreeSet<String>, forms: &BTreeSet<String>) -> Vec<EscapeKind> {
    let has = |texts: &BTreeSet<String>, is_meant: fn(char) -> bool| texts.iter().any(|text| text.contains(is_meant));
    let is_escaped = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.');
    let mut escapes = vec![EscapeKind::Backslash];
    if has(texts, is_escaped) {
        escapes.push(EscapeKind::Entity);
    }
    if has(forms, |c| {
        !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.' | '~')
    }) {
        escapes.push(EscapeKind::Percent);
    }
    if has(texts, |c| c == ' ') {
        escapes.push(EscapeKind::Form);
    }
    escapes
}
