//! Keys of test files.

use super::shapes::{AMOUNT, ANY, COUNT, FILLED_TEST, FLAG, MAP, SHARE, TEXT, TEXTS, WHOLE};
use super::{SectionKey, keys};

/// The keys of a test file.
pub(in crate::vocabulary) static TEST_FILE: &[SectionKey] = keys![
    "ensemble": r#"{"type": "string", "minLength": 1}"#,
        "The ensemble under test, relative to this file. Default: the file beside this one with the same name without \
         `.test`.";
    "cases": r##"{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/case"}}"##,
        "The cases. Each is one conversation.";
];

/// The keys of a case.
pub(in crate::vocabulary) static CASE: &[SectionKey] = keys![
    "name": FILLED_TEST, "What the case shows. No other case of the file has this name.";
    "input": TEXT, "The input of the run. Default: that of the recorded run, or the `default_task` of the ensemble.";
    "inputs": MAP, "Inputs by name, or values of the context where the ensemble declares no inputs.";
    "answers": r##"{"type": "object", "additionalProperties": {"$ref": "#/$defs/answers"}}"##,
        "Answers of people, by input agent: one for every execution, or a list by execution.";
    "stubs": r##"{"type": "object", "additionalProperties": {"oneOf": [{"$ref": "#/$defs/stub"}, {"type": "array",
           "minItems": 1, "items": {"$ref": "#/$defs/stub"}}]}}"##,
        "Results in the place of agents: one for every execution, or a list by execution. `outer.inner` names an \
         agent of an inner ensemble.";
    "from": FILLED_TEST,
        "A recorded run whose inputs and results are used: its folder or journal relative to this file, or its id.";
    "live": FLAG, "Whether processes, models and the network are used as in a run.", default "false";
    "repeat": WHOLE, "How often a live case is held.", default "1";
    "pass_rate": SHARE, "The part of the conversations of a live case in which all expectations must be met.",
        default "1";
    "expect": "#expect", "";
];

/// The keys of a stub.
pub(in crate::vocabulary) static STUB: &[SectionKey] = keys![
    "text": TEXT,
        "A text. It becomes the output as a text of the agent does: a JSON object gives its keys, any other text is \
         the `response`.";
    "json": ANY, "The output.";
    "fail": TEXT, "The error with which the execution fails.";
    "kind": r#"{"enum": ["exit", "signal", "timeout", "output_too_large", "reported", "model", "refusal", "max_tokens",
           "max_iterations", "cancelled", "schema", "unavailable", "sandbox"]}"#,
        "The kind of the failure.", default r#""reported""#;
    "parts": r##"{"type": "object", "additionalProperties": {"$ref": "#/$defs/stub"}}"##,
        "For an agent with `for_each`: the result of each part, by its key.";
    "delay_seconds": AMOUNT, "How long the execution takes, in the time of the conversation.", default "0";
    "tokens": WHOLE, "The tokens that each attempt uses, for `max_total_tokens`.";
    "cost": AMOUNT, "What each attempt costs, for `max_cost` and `most_cost`.";
    "failed_attempts": COUNT, "How many attempts fail before the result, for `retry`.";
];

/// The keys of `expect`.
pub(in crate::vocabulary) static EXPECT: &[SectionKey] = keys![
    "outcome": r#"{"enum": ["condition_failed", "cancelled", "timeout", "waiting_for_input", "agent_failed",
           "token_budget", "max_agent_executions", "max_total_turns", "completed"]}"#,
        "The outcome of the run.";
    "turns": r#"{"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type":
           "string"}}]}}"#,
        "All turns in order: the agent of the turn, or a list of its agents.";
    "order": TEXTS, "Agents that run in this order, with any others before, between and after them.";
    "executions": r#"{"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}"#,
        "How often agents run.";
    "never": TEXTS, "Agents that do not run.";
    "outputs": r#"{"type": "object", "additionalProperties": true}"#,
        "What the latest outputs of agents contain: maps may have more keys.";
    "schemas": r#"{"type": "object", "additionalProperties": {"type": ["object", "boolean"]}}"#,
        "JSON Schemas of the latest outputs of agents.";
    "result": ANY, "What the result of the run contains: maps may have more keys.";
    "conditions": TEXTS, "Conditions, as at a dependency, that are true at the end.";
    "not_run": r#"{"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object", "additionalProperties":
           {"type": "string"}}]}"#,
        "Agents that never ran: a list, or a map to a part of the reason.";
    "warnings": TEXTS,
        "A part of the text of each warning that must be there. An empty list: there must be no warning.";
    "most_turns": WHOLE, "The highest number of turns.";
    "most_cost": r#"{"type": "number", "minimum": 0}"#, "The highest cost of the run.";
    "judge": r##"{"type": "array", "items": {"$ref": "#/$defs/judge"}}"##,
        "What models must say of the conversation of a live case.";
];

/// The keys of an item of `judge`.
pub(in crate::vocabulary) static JUDGE: &[SectionKey] = keys![
    "criterion": FILLED_TEST, "What must be so.";
    "agent": FILLED_TEST, "The agent whose latest output is judged. Default: the result of the run.";
    "model_profile": FILLED_TEST, "The profile of the model that judges.";
    "votes": WHOLE, "How often the model is asked.", default "1";
];
