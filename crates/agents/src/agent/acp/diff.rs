//! What changes in a file, as people read it.

use std::path::PathBuf;

use ensemble_core::secrets::Secrets;
use ensemble_language::data::sha256_of_text;

use super::protocol::FileTextChange;

/// The maximum number of bytes of a diff in a record.
const MAX_DIFF_BYTES: usize = 64 << 10;

/// Maximum number of bytes of a text that is compared; larger texts get no diff.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Diff as the operator sees it, with the digests of both texts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShownDiff {
    pub(super) path: PathBuf,
    /// The unified diff; a long one is cut off, and then ends with the digest of the new text.
    pub(super) text: String,
    pub(super) before: String,
    pub(super) after: String,
}

impl ShownDiff {
    /// Renders the diff, redacts its secrets and limits its length.
    pub(super) fn new(diff: &FileTextChange, secrets: &Secrets) -> Self {
        let (before, after) = (sha256_of_text(&diff.old), sha256_of_text(&diff.new));
        Self {
            path: diff.path.clone(),
            text: render_diff(diff, &after, secrets),
            before,
            after,
        }
    }
}

/// Renders a unified diff. For large texts, renders only the sizes and the digest.
fn render_diff(diff: &FileTextChange, digest: &str, secrets: &Secrets) -> String {
    let (old, new) = (diff.old.as_str(), diff.new.as_str());
    let path_text = diff.path.display().to_string();
    if old.len().max(new.len()) > MAX_TEXT_BYTES {
        return format!(
            "{path_text}: {} bytes before, {} bytes now (SHA-256 {digest})\n",
            old.len(),
            new.len()
        );
    }
    let mut text = ensemble_diff::render_unified_diff(&path_text, old, new);
    if text.len() > MAX_DIFF_BYTES {
        // A secret of which only a part is left is not found later.
        text = secrets.redact(text).into_owned();
        text.truncate(text.floor_char_boundary(MAX_DIFF_BYTES));
        text.push_str(&format!(
            "\n[the rest of the diff is left out; SHA-256 of the new text: {digest}]\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, old: &str, new: &str) -> String {
        let diff = FileTextChange {
            path: path.into(),
            old: old.to_owned(),
            new: new.to_owned(),
        };
        let secrets = Secrets::default();
        secrets.add_secret("sk-0123456789");
        ShownDiff::new(&diff, &secrets).text
    }

    #[test]
    fn a_diff_that_is_cut_off_contains_no_part_of_a_secret() {
        for before in MAX_DIFF_BYTES - 60..MAX_DIFF_BYTES {
            let text = format!("{}sk-0123456789{}", "x".repeat(before), "x".repeat(100));
            assert!(!shown("a", "", &text).contains("sk"), "{before}");
        }
    }

    #[test]
    fn a_diff_is_bounded_and_two_long_texts_are_never_shown_alike() {
        let short = shown("a.txt", "one\ntwo\n", "one\n2\n");
        assert_eq!(short, "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
        for (text, most) in [
            ("é\n".repeat(100_000), MAX_DIFF_BYTES + 200),
            ("x".repeat(2 << 20), 200),
        ] {
            let (one, other) = (shown("a", "", &text), shown("a", "", &format!("{text}rm -rf\n")));
            assert!(one.len() < most, "{}", one.len());
            assert_ne!(one, other);
        }
    }
}
