//! The ids of runs: how they are made, how they sort, and which texts name a run.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;

/// The id of a run, such as `ab9z-20261122-001902365`: four characters that tell the run from others, then the time to
/// the millisecond. A run inside another has the id `OUTER/sub/NAME`.
///
/// Ids sort by their time; ids with the same time, or with none, sort by their text. An id without a time sorts before
/// those with one.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(Arc<str>);

/// The first characters of an id: letters, so that an id is never taken for a number. Letters and digits that are easily
/// mistaken for each other (0 and o, 1 and i and l) are left out.
const LETTERS: &[u8; 23] = b"abcdefghjkmnpqrstuvwxyz";

/// The other characters before the time.
const CHARACTERS: &[u8; 31] = b"abcdefghjkmnpqrstuvwxyz23456789";

/// The number of characters before the time.
const DISTINCT: usize = 4;

impl RunId {
    /// The number of ids that [`from_time`](Self::from_time) can make for one time.
    pub const PER_TIME: u32 = (LETTERS.len() * CHARACTERS.len().pow(DISTINCT as u32 - 1)) as u32;

    /// Creates an id from the text.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the id number `number` of this time. The number is taken modulo [`PER_TIME`](Self::PER_TIME).
    #[must_use]
    pub fn from_time(time: DateTime<Utc>, number: u32) -> Self {
        let mut rest = number as usize;
        let mut take = |from: &[u8]| {
            let character = char::from(from[rest % from.len()]);
            rest /= from.len();
            character
        };
        let mut id = String::from(take(LETTERS));
        id.extend((1..DISTINCT).map(|_| take(CHARACTERS)));
        Self::new(format!("{id}-{}", time.format("%Y%m%d-%H%M%S%3f")))
    }

    /// Returns the id of the run `name` inside this one.
    #[must_use]
    pub fn nested_id(&self, name: &str) -> Self {
        Self(format!("{}/sub/{name}", self.0).into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text, shared.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Returns the names of the runs inside each other that lead to this run, without the outermost run. Empty for an
    /// outermost run.
    pub fn nested_names(&self) -> impl Iterator<Item = &str> {
        self.0.split("/sub/").skip(1)
    }

    /// Returns whether the text names this run: the beginning of the id.
    pub fn matches_prefix(&self, given: &str) -> bool {
        self.0.starts_with(given)
    }

    /// Returns the time in the id, as text.
    fn time_text(&self) -> Option<&str> {
        let outermost = self.0.split("/sub/").next()?;
        let (_, time) = outermost.split_once('-')?;
        let (date, clock) = time.split_once('-')?;
        (is_number(date, 8) && is_number(clock, 9)).then_some(time)
    }
}

/// Returns whether the text is a number of so many digits.
fn is_number(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Ord for RunId {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.time_text().cmp(&other.time_text());
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
        assert_eq!(RunId::from_time(time, 0).as_str(), "aaaa-19700101-000001007");
        assert_eq!(RunId::from_time(time, RunId::PER_TIME), RunId::from_time(time, 0));
        let numbers = || (0..RunId::PER_TIME).step_by(37);
        let ids: HashSet<RunId> = numbers().map(|number| RunId::from_time(time, number)).collect();
        assert_eq!(ids.len(), numbers().count());
        for id in &ids {
            assert!(id.as_str().starts_with(|c: char| c.is_ascii_lowercase()), "{id}");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(id.as_str().chars().all(is_plain), "{id}");
            assert!(!id.as_str()[..DISTINCT].contains(['0', 'o', '1', 'i', 'l']), "{id}");
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
            assert!(RunId::from_time(time, 7).as_str().contains('-'));
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
