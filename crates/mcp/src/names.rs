//! Tool names for ensembles, which every client accepts.
//!
//! Invariant: each name is unique, every client accepts the name, and a new file never gets the tool name of another file.

use ensemble_language::data::sha256_of_text;

/// The maximum number of characters of a tool name. Clients accept 64 characters, including the name of the server as a prefix.
const MAX_TOOL_NAME_CHARS: usize = 48;

/// The number of hexadecimal digits of a digest in a name.
const NAME_DIGEST_LENGTH: usize = 12;

/// Replaces all characters except ASCII letters, digits, `_` and `-` in the name.
fn sanitize_name(name: &str) -> String {
    let is_known = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    let safe: String = name
        .chars()
        .map(|char| if is_known(char) { char } else { '_' })
        .collect();
    let safe: String = safe.chars().take(MAX_TOOL_NAME_CHARS).collect();
    match safe.chars().any(|char| char.is_ascii_alphanumeric()) {
        true => safe,
        false => "ensemble".to_owned(),
    }
}

/// A tool name that was chosen for an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnsembleToolName {
    pub(crate) text: String,
    /// True if other ensembles have the same name, so that this name contains a digest of the path.
    pub(crate) is_qualified: bool,
}

/// Chooses a tool name for each ensemble, in order. Adds a digest of the path if the plain name is reserved or not unique. A new file never
/// gets the tool name of another file. `ensembles` contains names and paths.
pub(crate) fn choose_tool_names(ensembles: &[(String, String)], reserved: &[&str]) -> Vec<EnsembleToolName> {
    let plain: Vec<String> = ensembles.iter().map(|(name, _)| sanitize_name(name)).collect();
    let qualified: Vec<String> = ensembles
        .iter()
        .zip(&plain)
        .map(|((_, path), plain)| append_path_digest(plain, path))
        .collect();
    let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    // A name that looks like the qualified name of another ensemble is qualified, too, whether the other needs it or not: so
    // no file decides about the name of another one.
    let is_taken = |at: usize| {
        let others = (0..plain.len()).filter(|other| *other != at);
        let mut names = others.flat_map(|other| [&plain[other], &qualified[other]]);
        reserved.iter().any(|name| same(name, &plain[at])) || names.any(|name| same(name, &plain[at]))
    };
    let choose = |at: usize| match is_taken(at) {
        true => EnsembleToolName {
            text: qualified[at].clone(),
            is_qualified: true,
        },
        false => EnsembleToolName {
            text: plain[at].clone(),
            is_qualified: false,
        },
    };
    (0..plain.len()).map(choose).collect()
}

/// Appends a digest of the path to the name.
fn append_path_digest(plain: &str, path: &str) -> String {
    let digest = sha256_of_text(path);
    let digest = &digest[..NAME_DIGEST_LENGTH];
    // The name has only ASCII characters.
    let beginning = &plain[..plain.len().min(MAX_TOOL_NAME_CHARS - NAME_DIGEST_LENGTH - 1)];
    format!("{beginning}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> Vec<String> {
        let ensembles: Vec<(String, String)> = files
            .iter()
            .map(|file| {
                let stem = file
                    .rsplit('/')
                    .next()
                    .unwrap_or(file)
                    .trim_end_matches(".yaml")
                    .trim_end_matches(".yml");
                (stem.to_owned(), (*file).to_owned())
            })
            .collect();
        let chosen = choose_tool_names(&ensembles, &["list_runs"]);
        chosen.into_iter().map(|name| name.text).collect()
    }

    #[test]
    fn names_are_safe_and_unique() {
        let long = format!("{}.yaml", "x".repeat(80));
        for (files, expected) in [
            (
                vec!["review.yaml", "iterative-analysis.yaml"],
                vec!["review", "iterative-analysis"],
            ),
            (vec!["a b.yaml", "ab.yaml"], vec!["a_b", "ab"]),
            (
                vec!["\u{fc}berblick.yaml", "\u{65e5}\u{672c}.yaml"],
                vec!["_berblick", "ensemble"],
            ),
            (vec![long.as_str()], vec![&long[..48]]),
        ] {
            assert_eq!(names(&files), expected);
        }
    }

    #[test]
    fn a_new_file_takes_the_name_of_no_other() {
        let qualified = |file: &str| names(&[file, "x/review.yaml"])[0].clone();
        for newcomer in ["review.yml", "sub/review.yaml", "Review.yaml", "re view.yaml"] {
            let before = names(&["review.yaml"]);
            let after = names(&["review.yaml", newcomer]);
            let swapped = names(&[newcomer, "review.yaml"]);
            if newcomer == "re view.yaml" {
                assert_eq!(after[0], before[0]);
                continue;
            }
            assert!(
                after
                    .iter()
                    .all(|name| *name != before[0] && name.len() <= MAX_TOOL_NAME_CHARS),
                "{after:?}"
            );
            assert_ne!(after[0], after[1]);
            assert_eq!(
                [&swapped[1], &swapped[0]],
                [&after[0], &after[1]],
                "the order is the same"
            );
            assert_eq!(after[0], qualified("review.yaml"));
        }
        let imitation = format!("{}.yaml", qualified("review.yaml"));
        let all = names(&["review.yaml", "review.yml", &imitation]);
        assert_eq!(all[0], qualified("review.yaml"));
        assert_ne!(all[2], all[0], "an imitation of a qualified name");
        assert_eq!(
            names(&["a b.yaml", "a.b.yaml"])[0].len(),
            "a_b-".len() + NAME_DIGEST_LENGTH
        );
        assert!(names(&["list_runs.yaml"])[0].starts_with("list_runs-"));
    }
}
