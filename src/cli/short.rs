//! The shortest text that names a run.

use ensemble_core::store::RunId;

/// The least number of characters, so that a text still names its run when some runs have been added.
const FEWEST: usize = 2;

/// For each id, the shortest beginning of its telling part that names no other run; the whole id if there is none.
pub(super) fn short_names(ids: &[RunId]) -> Vec<&str> {
    let is_alone = |text: &str| ids.iter().filter(|id| id.begins_with(text)).take(2).count() == 1;
    let short = |id: &'_ RunId| -> Option<usize> {
        let part = id.telling_part();
        let ends = part.char_indices().map(|(at, char)| at + char.len_utf8());
        ends.skip(FEWEST - 1).find(|end| is_alone(&part[..*end]))
    };
    let name = |id| match short(id) {
        Some(end) => &id.telling_part()[..end],
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
            // Ids of the older form are named by their last part.
            (&["20260101-000000-abcd"], &["ab"]),
            (&["20260101-000000-abcd", "20260102-000000-abzz"], &["abc", "abz"]),
            (&["20260101-000000-abcd", "abzz-20260102-000000000"], &["abc", "abz"]),
            // The beginnings of whole ids count as well.
            (&["20260101-000000-202z", "20260102-000000-bc"], &["202z", "bc"]),
            (
                &["20260101-000000-abcd", "20260102-000000-abcd"],
                &["20260101-000000-abcd", "20260102-000000-abcd"],
            ),
            (&["own", "20260102-000000-x"], &["ow", "20260102-000000-x"]),
        ] {
            let ids: Vec<RunId> = ids.iter().copied().map(RunId::new).collect();
            assert_eq!(short_names(&ids), expected);
        }
    }
}
