//! What has changed in a file, as people read it.

use std::path::Path;

/// The maximum number of bytes of a diff in a record.
const LONGEST: usize = 64 << 10;

/// The largest text of which a diff is made.
const LARGEST: usize = 1 << 20;

/// Returns the unified diff; a long one is cut off.
pub(super) fn render_unified_diff(path: &Path, old: &str, new: &str) -> String {
    let path_text = path.display().to_string();
    if old.len().max(new.len()) > LARGEST {
        return format!("{path_text}: {} bytes before, {} bytes now", old.len(), new.len());
    }
    let mut text = ensemble_diff::render_unified_diff(&path_text, old, new);
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str("\n[the rest of the diff is left out]\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_bounded() {
        let short = render_unified_diff(Path::new("a.txt"), "one\ntwo\n", "one\n2\n");
        assert_eq!(short, "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
        let long = render_unified_diff(Path::new("a"), "", &"é\n".repeat(100_000));
        assert!(
            long.len() < LONGEST + 100 && long.ends_with("left out]\n"),
            "{}",
            long.len()
        );
        let huge = render_unified_diff(Path::new("a"), "", &"x".repeat(2 << 20));
        assert_eq!(huge, "a: 0 bytes before, 2097152 bytes now");
    }
}
