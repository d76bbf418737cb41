//! Shortest beginnings of run ids that name one run.

use ensemble_core::store::RunId;

/// Minimum number of characters, so that a prefix still names one run after more runs were recorded.
const MIN_PREFIX_LENGTH: usize = 2;

/// Returns for each id the shortest prefix that matches no other id, or the whole id.
pub(crate) fn shortest_unique_prefixes(ids: &[RunId]) -> Vec<&str> {
    let is_alone = |text: &str| ids.iter().filter(|id| id.matches_prefix(text)).take(2).count() == 1;
    let short = |id: &'_ RunId| -> Option<usize> {
        let text = id.as_str();
        let ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
        ends.skip(MIN_PREFIX_LENGTH - 1).find(|end| is_alone(&text[..*end]))
    };
    let name = |id| match short(id) {
        Some(end) => &id.as_str()[..end],
        None => id.as_str(),
    };
    ids.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_names_one_run() {
        for (ids, expected) in [
            (&["abcd-20260101-000000000"][..], &["ab"][..]),
            (&["abcd-20260101-000000000", "abzz-20260101-000000000"], &["abc", "abz"]),
            (
                &["abcd-20260101-000000000", "abcd-20260101-000000001"],
                &["abcd-20260101-000000000", "abcd-20260101-000000001"],
            ),
            (&["own", "abcd-20260102-000000000"], &["ow", "ab"]),
        ] {
            let ids: Vec<RunId> = ids.iter().copied().map(RunId::new).collect();
            assert_eq!(shortest_unique_prefixes(&ids), expected);
        }
    }
}
