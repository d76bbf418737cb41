//! Unique tool names that every provider accepts.

use std::collections::HashSet;

use ensemble_language::names::{MAX_TOOL_NAME, to_tool_name};

/// Tool names that are in use.
#[derive(Default)]
pub(crate) struct UsedToolNames(HashSet<String>);

impl UsedToolNames {
    /// Reserves a unique valid name that is similar to `wanted`: at most 64 letters, digits, `_` and `-`.
    pub(crate) fn reserve_name(&mut self, wanted: &str) -> String {
        let plain = to_tool_name(wanted);
        let mut name = plain.clone();
        let mut number = 2;
        while name.is_empty() || !self.0.insert(name.clone()) {
            let end = format!("_{number}");
            name = format!("{}{end}", &plain[..plain.len().min(MAX_TOOL_NAME - end.len())]);
            number += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_made_valid_and_kept_apart() {
        let mut names = UsedToolNames::default();
        let long = "x".repeat(70);
        let cases = [
            ("files__read", "files__read"),
            ("files__read", "files__read_2"),
            ("files__read.all", "files__read_all"),
            ("files__read all", "files__read_all_2"),
            ("", "_2"),
            ("é", "_"),
            (&long, &long[..64]),
            (&long, &format!("{}_2", &long[..62])),
        ];
        for (wanted, expected) in cases {
            assert_eq!(names.reserve_name(wanted), expected, "{wanted}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_valid_and_there_once(wanted in prop::collection::vec(".{0,70}", 0..20)) {
            let mut names = UsedToolNames::default();
            let mut seen = HashSet::new();
            for one in &wanted {
                let name = names.reserve_name(one);
                prop_assert!((1..=64).contains(&name.len()));
                prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
                prop_assert!(seen.insert(name));
            }
        }
    }
}
