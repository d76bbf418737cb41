//! The keys of test files.

/// The keys at the top.
pub(super) const FILE: &[&str] = &["ensemble", "cases"];

/// The keys of a case.
pub(super) const CASE: &[&str] = &[
    "name",
    "input",
    "inputs",
    "answers",
    "stubs",
    "from",
    "live",
    "repeat",
    "pass_rate",
    "expect",
];

/// The keys of a stub.
pub(super) const STUB: &[&str] = &[
    "text",
    "json",
    "fail",
    "kind",
    "parts",
    "delay_seconds",
    "tokens",
    "cost",
    "failed_attempts",
];

/// The keys of what is expected.
pub(super) const EXPECT: &[&str] = &[
    "outcome",
    "turns",
    "order",
    "executions",
    "never",
    "outputs",
    "schemas",
    "result",
    "conditions",
    "not_run",
    "warnings",
    "most_turns",
    "most_cost",
    "judge",
];

/// The keys of a question to a model.
pub(super) const JUDGE: &[&str] = &["criterion", "agent", "model_profile", "votes"];
