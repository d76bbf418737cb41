//! Test files: where they name the agents of their ensemble.

/// Returns whether the value at this route pattern of a test file is the name of an agent.
pub(super) fn is_agent_name_pattern(pattern: &str) -> bool {
    let expected = pattern.strip_prefix("cases.*.expect.").unwrap_or_default();
    matches!(
        expected,
        "turns.*" | "turns.*.*" | "order.*" | "never.*" | "not_run.*" | "judge.*.agent"
    )
}

/// Returns whether the keys of the map at this route pattern of a test file are names of agents.
pub(super) fn has_agent_keys(pattern: &str) -> bool {
    let case = pattern.strip_prefix("cases.*.").unwrap_or_default();
    let expected = case.strip_prefix("expect.").unwrap_or_default();
    matches!(case, "stubs" | "answers") || matches!(expected, "executions" | "outputs" | "schemas" | "not_run")
}

/// Returns whether the keys of the map at this route pattern of a test file are names of inputs.
pub(super) fn has_input_keys(pattern: &str) -> bool {
    pattern == "cases.*.inputs"
}

/// Returns whether the keys of the map at this route pattern can be agents of nested ensembles: `outer.inner`.
pub(super) fn can_have_nested_agent_keys(pattern: &str) -> bool {
    matches!(pattern, "cases.*.stubs" | "cases.*.answers")
}

/// Returns whether the value at this route pattern of a test file is a condition.
pub(super) fn is_condition_pattern(pattern: &str) -> bool {
    pattern == "cases.*.expect.conditions.*"
}
