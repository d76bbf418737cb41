//! The shortest text that names a run.

/// The least number of characters, so that a text still names its run when some runs have been added.
const FEWEST: usize = 2;

/// For each id, the shortest beginning of its last part that names no other run; the whole id if there is none.
pub(super) fn short_names<'a>(ids: &[&'a str]) -> Vec<&'a str> {
    let last_part = |id: &'a str| id.rsplit_once('-').map_or("", |(_, last)| last);
    let lasts: Vec<&str> = ids.iter().map(|id| last_part(id)).collect();
    let is_alone = |text: &str| {
        let named = ids.iter().zip(&lasts);
        let named = named.filter(|(id, last)| id.starts_with(text) || last.starts_with(text));
        named.take(2).count() == 1
    };
    let short = |(id, last): (&&'a str, &&'a str)| {
        let ends = last.char_indices().map(|(at, char)| at + char.len_utf8());
        let mut beginnings = ends.skip(FEWEST - 1).map(|end| &last[..end]);
        beginnings.find(|text| is_alone(text)).unwrap_or(id)
    };
    ids.iter().zip(&lasts).map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::short_names;

    #[test]
    fn a_short_name_names_one_run() {
        for (ids, expected) in [
            (&["20260101-000000-abcd"][..], &["ab"][..]),
            (&["20260101-000000-abcd", "20260102-000000-abzz"], &["abc", "abz"]),
            // The beginnings of whole ids count as well.
            (&["20260101-000000-202z", "20260102-000000-bc"], &["202z", "bc"]),
            (
                &["20260101-000000-abcd", "20260102-000000-abcd"],
                &["20260101-000000-abcd", "20260102-000000-abcd"],
            ),
            (&["own", "20260102-000000-x"], &["own", "20260102-000000-x"]),
        ] {
            assert_eq!(short_names(ids), expected);
        }
    }
}
