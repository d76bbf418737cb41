//! The ids of runs: how they are made, how they sort, and which texts name a run.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_language::hidden_characters::is_hidden_character;
use serde::Serialize;

/// Id of a run, such as `ab9z-20261122-001902365`: four distinct characters, then the time in milliseconds. A nested run has the id
/// `OUTER/sub/NAME`.
///
/// Ids sort by their time, then by their text. An id without a time sorts before ids with a time.
///
/// Invariant: an id is never a path to anything but a run. It consists of valid run names with `/sub/` between them.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(Arc<str>);

/// First characters of ids: letters, so that an id never looks like a number. Easily confused letters are omitted.
const FIRST_ID_CHARACTERS: &[u8; 23] = b"abcdefghjkmnpqrstuvwxyz";

/// The other characters before the time.
const OTHER_ID_CHARACTERS: &[u8; 31] = b"abcdefghjkmnpqrstuvwxyz23456789";

/// The number of characters before the time.
const ID_PREFIX_LENGTH: usize = 4;

/// Separator between the id of a run and the name of a nested run.
const NESTED_SEPARATOR: &str = "/sub/";

/// Largest length of a run name in bytes, which is the limit of file names.
const MAX_NAME_BYTES: usize = 255;

/// Largest number of nested runs in an id. Ensembles are nested less deeply.
const DEEPEST: usize = 32;

/// Error about a text that is not the id of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be the id of a run")]
pub struct InvalidRunId(String);

/// Returns whether the text can be the name of a run in its store or in its outer run.
/// A name starts with a letter, a digit or `_`, and contains no slash, no backslash and no hidden character.
pub fn is_valid_run_name(name: &str) -> bool {
    let is_first = |first: char| first.is_alphanumeric() || first == '_';
    let is_forbidden = |character: char| matches!(character, '/' | '\\') || is_hidden_character(character);
    name.starts_with(is_first) && name.len() <= MAX_NAME_BYTES && !name.contains(is_forbidden)
}

impl RunId {
    /// Number of ids that can be created for one time.
    pub const IDS_PER_TIME: u32 =
        (FIRST_ID_CHARACTERS.len() * OTHER_ID_CHARACTERS.len().pow(ID_PREFIX_LENGTH as u32 - 1)) as u32;

    /// Creates an id from a text of this program. An invalid text, such as a path, becomes an id that no run has.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        let id = id.into();
        match is_valid_run_id(&id) {
            true => Self(id),
            false => Self(format!("-{}", id.replace(['/', '\\'], "_")).into()),
        }
    }

    /// Parses an id from a client, an engine or a file.
    ///
    /// # Errors
    /// The text is not an id.
    pub fn parse(text: &str) -> Result<Self, InvalidRunId> {
        match is_valid_run_id(text) {
            true => Ok(Self(text.into())),
            false => Err(InvalidRunId(text.to_owned())),
        }
    }

    /// Checks that a run can have this id.
    ///
    /// # Errors
    /// The id was created from an invalid text.
    pub fn check_validity(&self) -> Result<(), InvalidRunId> {
        Self::parse(&self.0).map(drop)
    }

    /// Returns the id of the outermost run that contains this run. For an outermost run this is the id itself.
    #[must_use]
    pub fn outermost_run_id(&self) -> Self {
        Self(self.0.split(NESTED_SEPARATOR).next().unwrap_or_default().into())
    }

    /// Creates an id from a time and a number, which is taken modulo the number of ids per time.
    #[must_use]
    pub fn from_time_and_number(time: DateTime<Utc>, number: u32) -> Self {
        let mut rest = number as usize;
        let mut take = |from: &[u8]| {
            let character = char::from(from[rest % from.len()]);
            rest /= from.len();
            character
        };
        let mut id = String::from(take(FIRST_ID_CHARACTERS));
        id.extend((1..ID_PREFIX_LENGTH).map(|_| take(OTHER_ID_CHARACTERS)));
        Self::new(format!("{id}-{}", time.format("%Y%m%d-%H%M%S%3f")))
    }

    /// Returns the id of the nested run with this name.
    #[must_use]
    pub fn nested_run_id(&self, name: &str) -> Self {
        Self::new(format!("{}{NESTED_SEPARATOR}{name}", self.0))
    }

    /// Parses the name of a nested run. Returns the id of the nested run.
    ///
    /// # Errors
    /// The name is invalid, or the run would be nested too deeply.
    pub fn parse_nested_name(&self, name: &str) -> Result<Self, InvalidRunId> {
        match is_valid_run_name(name) {
            true => Self::parse(self.nested_run_id(name).as_str()),
            false => Err(InvalidRunId(name.to_owned())),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text, shared.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Returns the names of the nested runs on the path to this run. Returns no names for an outermost run.
    pub fn nested_names(&self) -> impl Iterator<Item = &str> {
        self.0.split(NESTED_SEPARATOR).skip(1)
    }

    /// Returns whether the id starts with this text.
    pub fn matches_prefix(&self, given: &str) -> bool {
        self.0.starts_with(given)
    }

    /// Returns the date and time in the id as text. Returns `None` for an id without a time.
    fn time_part(&self) -> Option<&str> {
        let outermost = self.0.split(NESTED_SEPARATOR).next()?;
        let (_, time) = outermost.split_once('-')?;
        let (date, clock) = time.split_once('-')?;
        (has_exact_digits(date, 8) && has_exact_digits(clock, 9)).then_some(time)
    }
}

/// Returns whether the text is a valid id: run names with separators, not nested too deeply.
fn is_valid_run_id(text: &str) -> bool {
    text.split(NESTED_SEPARATOR).count() <= DEEPEST + 1 && text.split(NESTED_SEPARATOR).all(is_valid_run_name)
}

/// Returns whether the text consists of exactly this number of digits.
fn has_exact_digits(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Ord for RunId {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.time_part().cmp(&other.time_part());
        by_time.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for RunId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_path_is_an_id() {
        let deep = |runs: usize| format!("r{}", "/sub/a-1-1".repeat(runs));
        for text in [
            "r",
            "aaaa-20261123-080000000",
            "row-1-try2",
            "r/sub/a-1-1",
            "r/sub/a@look.1-2.3-1",
            "größe",
            "a b",
        ] {
            assert_eq!(RunId::parse(text).expect("an id").as_str(), text);
            assert_eq!(RunId::new(text).as_str(), text);
        }
        RunId::parse(&deep(DEEPEST)).expect("an id");
        let long = "r".repeat(MAX_NAME_BYTES + 1);
        for text in [
            "",
            ".",
            "..",
            "../../escaped",
            "/etc",
            "r/..",
            "r/sub",
            "r/sub/",
            "r/sub/..",
            "r/sub/../../x",
            "r//sub/a",
            "sub/r",
            "a/b",
            ".hidden",
            "-x",
            "a\\b",
            "a\0",
            "a\nb",
            "\u{1b}[2J",
            "a\u{202e}",
            "%2F/",
            &long,
            &deep(DEEPEST + 1),
        ] {
            let error = RunId::parse(text).expect_err(text);
            assert_eq!(error.to_string(), format!("`{text}` cannot be the id of a run"));
            let id = RunId::new(text);
            assert!(!id.as_str().contains('/') && id.check_validity().is_err(), "{id}");
            assert!(!matches!(id.as_str(), "" | "." | ".."), "{id}");
        }
        let id = RunId::new("r").nested_run_id("a-1-1");
        assert_eq!((id.outermost_run_id(), id.check_validity()), (RunId::new("r"), Ok(())));
        for name in ["../x", "a/sub/b", "", ".."] {
            RunId::new("r").parse_nested_name(name).expect_err(name);
        }
    }

    #[test]
    fn ids_sort_by_their_time() {
        let sorted = [
            "own",
            "saved-20261122",
            "zzzz-20260101-000001",
            "zzzz-20260101-000001002",
            "bbbb-20260101-000001003",
            "zzzz-20260101-000001003",
            "aaaa-20260101-000001021",
            "aaaa-20260101-000002000",
            "aaaa-20260102-000000000",
            "aaaa-20260102-000000000/sub/b-1-1",
        ];
        let mut ids: Vec<RunId> = sorted.iter().rev().copied().map(RunId::new).collect();
        ids.sort();
        let texts: Vec<&str> = ids.iter().map(RunId::as_str).collect();
        assert_eq!(texts, sorted);
        let equal = RunId::new("own").cmp(&RunId::new("own"));
        assert_eq!(equal, Ordering::Equal);
    }

    #[test]
    fn ids_of_one_time_are_distinct_folder_names() {
        let time = DateTime::<Utc>::UNIX_EPOCH + chrono::Duration::milliseconds(1_007);
        assert_eq!(RunId::from_time_and_number(time, 0).as_str(), "aaaa-19700101-000001007");
        assert_eq!(
            RunId::from_time_and_number(time, RunId::IDS_PER_TIME),
            RunId::from_time_and_number(time, 0)
        );
        let numbers = || (0..RunId::IDS_PER_TIME).step_by(37);
        let ids: HashSet<RunId> = numbers()
            .map(|number| RunId::from_time_and_number(time, number))
            .collect();
        assert_eq!(ids.len(), numbers().count());
        for id in &ids {
            assert!(id.as_str().starts_with(|c: char| c.is_ascii_lowercase()), "{id}");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(id.as_str().chars().all(is_plain), "{id}");
            assert!(
                !id.as_str()[..ID_PREFIX_LENGTH].contains(['0', 'o', '1', 'i', 'l']),
                "{id}"
            );
            assert_eq!(id.as_str().len(), 23, "{id}");
        }
    }

    #[test]
    fn a_time_before_the_first_year_of_clocks_gives_an_id() {
        for time in [
            DateTime::<Utc>::MIN_UTC,
            DateTime::<Utc>::UNIX_EPOCH - chrono::Duration::days(400),
            DateTime::<Utc>::MAX_UTC,
        ] {
            assert!(RunId::from_time_and_number(time, 7).as_str().contains('-'));
        }
    }

    #[test]
    fn a_run_is_named_by_the_beginning_that_tells_it_from_others() {
        for (id, named, not) in [
            (
                "ab9z-20261122-001902365",
                &["ab", "ab9z", "ab9z-2026"][..],
                &["00", "2026", "b9"][..],
            ),
            ("own-name", &["own"], &["name"]),
            ("", &[], &["a"]),
        ] {
            let id = RunId::new(id);
            assert!(named.iter().all(|given| id.matches_prefix(given)), "{id}");
            assert!(!not.iter().any(|given| id.matches_prefix(given)), "{id}");
        }
    }
}
