//! Test files: which ensemble they test, and where they name its agents.

use std::path::Path;

use ensemble_language::cases::ensemble_beside;

use super::tree;

/// The ensemble that the test file with this text and path names, relative to its folder.
pub fn named(text: &str, path: &Path) -> Option<String> {
    let document = tree::outline(text, None);
    let node = document.as_ref().and_then(|document| document.root().get("ensemble"));
    let written = node.and_then(|node| node.text()).map(|name| name.to_string());
    written.or_else(|| ensemble_beside(path.file_name()?.to_str()?))
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
