//! The difference of two texts of a file, in the unified form.

use similar::TextDiff;

/// The difference, with three lines around each change; empty if there is none.
pub fn unified(name: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(3)
        .header(name, name)
        .to_string()
}
