//! Test files: which ensemble they test, and where they name its agents.

use std::path::{Component, Path, PathBuf};

use ensemble_language::cases::ensemble_beside;

use super::tree;

/// The file of the ensemble that the test file with this text and path tests.
pub fn ensemble(text: &str, path: &Path) -> Option<PathBuf> {
    let document = tree::outline(text, None);
    let node = document.as_ref().and_then(|document| document.root().get("ensemble"));
    let written = node.and_then(|node| node.text()).map(|name| name.to_string());
    let named = written.or_else(|| ensemble_beside(path.file_name()?.to_str()?))?;
    Some(plain(&path.parent()?.join(named)))
}

/// The path without `.` and `..`, as an editor names its files.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Whether the value at this place is the name of an agent.
pub(super) fn is_agent(pattern: &str) -> bool {
    let expected = pattern.strip_prefix("cases.*.expect.").unwrap_or_default();
    matches!(expected, "turns.*" | "turns.*.*" | "order.*" | "never.*" | "not_run.*")
}

/// Whether the keys of the map at this place are names of agents.
pub(super) fn holds_agents(pattern: &str) -> bool {
    let case = pattern.strip_prefix("cases.*.").unwrap_or_default();
    let expected = case.strip_prefix("expect.").unwrap_or_default();
    matches!(case, "stubs" | "answers") || matches!(expected, "executions" | "outputs" | "schemas" | "not_run")
}

/// Whether the value at this place is a condition.
pub(super) fn is_condition(pattern: &str) -> bool {
    pattern == "cases.*.expect.conditions.*"
}
