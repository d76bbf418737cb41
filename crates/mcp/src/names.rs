//! Names of tools: what every client accepts, each name once.
//!
//! Invariant: each name is unique, and every client accepts it.

use std::collections::HashSet;

/// The longest name. Clients accept 64 characters, and put the name of the server before it.
const LONGEST: usize = 48;

/// Returns the name with only ASCII letters, digits, `_` and `-`.
fn sanitize_name(name: &str) -> String {
    let is_known = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    let safe: String = name
        .chars()
        .map(|char| if is_known(char) { char } else { '_' })
        .collect();
    let safe: String = safe.chars().take(LONGEST).collect();
    match safe.chars().any(|char| char.is_ascii_alphanumeric()) {
        true => safe,
        false => "ensemble".to_owned(),
    }
}

/// Returns a safe name for each of the names, in order; none of them is in `taken`.
pub(crate) fn unique_names<'n>(names: impl IntoIterator<Item = &'n str>, taken: &[&str]) -> Vec<String> {
    let mut used: HashSet<String> = taken.iter().map(|name| (*name).to_owned()).collect();
    let unique_name = |name: &str| {
        let safe = sanitize_name(name);
        let numbered = (2..).map(|number| format!("{safe}_{number}"));
        let free = std::iter::once(safe.clone())
            .chain(numbered)
            .find(|name| !used.contains(name));
        let free = free.unwrap_or(safe);
        used.insert(free.clone());
        free
    };
    names.into_iter().map(unique_name).collect()
}

#[cfg(test)]
mod tests {
    use super::unique_names;

    #[test]
    fn names_are_safe_and_unique() {
        let taken = ["list_runs"];
        let long = "x".repeat(80);
        for (given, expected) in [
            (
                vec!["review", "iterative-analysis"],
                vec!["review", "iterative-analysis"],
            ),
            (vec!["a b", "a.b", "a_b"], vec!["a_b", "a_b_2", "a_b_3"]),
            (vec!["list_runs"], vec!["list_runs_2"]),
            (vec!["überblick", "日本"], vec!["_berblick", "ensemble"]),
            (vec!["日本", "ensemble"], vec!["ensemble", "ensemble_2"]),
            (vec![long.as_str()], vec![&long[..48]]),
        ] {
            assert_eq!(unique_names(given, &taken), expected);
        }
    }
}
