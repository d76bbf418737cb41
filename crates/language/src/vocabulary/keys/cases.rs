//! Keys of test files.

use super::shapes::{AMOUNT, ANY, COUNT, COUNT_OR_ZERO, FILLED_TEST, FLAG, MAP, SHARE, TEXT, TEXTS, WHOLE};
use super::{SectionKey, keys};

/// The keys of a test file.
pub(in crate::vocabulary) static TEST_FILE: &[SectionKey] = keys![
    "ensemble": r#"{"type": "string", "minLength": 1}"#,
        "The ensemble under test, relative to this file. Default: the file in the same folder with the same name \
         without `.test`.";
    "cases": r##"{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/case"}}"##,
        "The cases. Each is one conversation.";
];

/// The keys of a case.
pub(in crate::vocabulary) static CASE: &[SectionKey] = keys![
    "name": FILLED_TEST, "The name of the case, unique in the file: what the case shows.";
    "input": TEXT,
        "The input of the run. Default: the input of the recorded run, or the `default_task` of the ensemble.";
    "inputs": MAP, "Inputs by name, or values of the context if the ensemble declares no inputs.";
    "answers": r##"{"type": "object", "additionalProperties": {"$ref": "#/$defs/answers"}}"##,
        "Answers of people, by input agent: one answer for every execution, or a list with one answer for each \
         execution. A map with `delay_seconds` is an answer that takes time.";
    "respond": r#"{"type": "object", "additionalProperties": {"type": "string"}}"#,
        "Model profiles that answer for input agents and script agents, by agent.";
    "permissions": r#"{"type": "object", "additionalProperties": {"oneOf": [{"enum": ["allow", "always", "deny"]}, {"type":
           "array", "minItems": 1, "items": {"enum": ["allow", "always", "deny"]}}]}}"#,
        "Decisions about tool calls that need a permission, by tool (`pay`, `shop.pay`, `shop`, `*`) or by the address of \
         a call (`clerk/pay#2`): one decision for every call, or a list with one decision for each request.";
    "stubs": r##"{"type": "object", "additionalProperties": {"oneOf": [{"$ref": "#/$defs/stub"}, {"type": "array",
           "minItems": 1, "items": {"$ref": "#/$defs/stub"}}]}}"##,
        "Results that replace agents: one result for every execution, or a list with one result for each execution. \
         `outer.inner` names the agent `inner` of the nested ensemble that the agent `outer` runs.";
    "from": FILLED_TEST,
        "A recorded run whose inputs and results are used: its folder or journal relative to this file, or its id.";
    "live": FLAG, "`true`: the case uses processes, models and the network, as a run does.", default "false";
    "repeat": WHOLE, "The number of times that a live case is run.", default "1";
    "pass_rate": SHARE, "The share of the conversations of a live case that must meet all expectations, from 0 to 1.",
        default "1";
    "expect": "#expect", "";
];

/// The keys of a stub.
pub(in crate::vocabulary) static STUB: &[SectionKey] = keys![
    "text": TEXT,
        "The text that the agent outputs: the keys of a JSON object become the output, any other text becomes the \
         `response`.";
    "json": ANY, "The output.";
    "fail": TEXT, "The error with which the execution fails.";
    "kind": r#"{"enum": ["exit", "signal", "timeout", "output_too_large", "reported", "model", "refusal", "max_tokens",
           "max_iterations", "cancelled", "schema", "unavailable", "sandbox"]}"#,
        "The kind of the failure.", default r#""reported""#;
    "exit_code": COUNT_OR_ZERO, "The exit code of the failed script.";
    "stdout": TEXT, "The end of the standard output of the failed script.";
    "stderr": TEXT, "The end of the standard error of the failed script.";
    "parts": r##"{"type": "object", "additionalProperties": {"$ref": "#/$defs/stub"}}"##,
        "For an agent with `for_each`: the result of each part, by its key.";
    "replies": r##"{"type": "array", "minItems": 1, "items": {"oneOf": [{"type": "string"}, {"$ref":
           "#/$defs/stub_reply"}, {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/stub_reply"}}]}}"##,
        "For an agent with a model: the replies of the model, one for each request. The agent calls its tools itself. A \
         list of calls is one reply that calls tools in parallel.";
    "delay_seconds": AMOUNT, "The duration of the execution in virtual time. The test does not wait.", default "0";
    "tokens": WHOLE, "The tokens that each attempt uses, for `max_total_tokens`.";
    "cost": AMOUNT, "The cost of each attempt, for `max_cost` and `most_cost`.";
    "failed_attempts": COUNT, "The number of attempts that fail before the result, for `retry`.";
];

/// The keys of an item of `replies`.
pub(in crate::vocabulary) static STUB_REPLY: &[SectionKey] = keys![
    "text": TEXT, "The text of the reply.";
    "tool": FILLED_TEST, "The tool that the reply calls, by the name that the model uses.";
    "arguments": MAP, "The arguments of the call.";
    "result": ANY, "The result of the call. The tool itself is not called.";
    "error": TEXT, "The error with which the request fails.";
];

/// The keys of `expect`.
pub(in crate::vocabulary) static EXPECT: &[SectionKey] = keys![
    "outcome": r##"{"oneOf": [{"$ref": "#/$defs/outcome"}, {"type": "array", "minItems": 1, "items": {"$ref":
           "#/$defs/outcome"}}]}"##,
        "The outcome of the run, or a list of possible outcomes.";
    "exit": r#"{"type": "integer", "minimum": 0, "maximum": 255}"#, "The exit code of `ensemble run`.";
    "refused": FLAG, "`true`: the ensemble or its inputs are refused before a run.", default "false";
    "turns": r#"{"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type":
           "string"}}]}}"#,
        "All turns in order: the agent of the turn, or a list of its agents.";
    "order": TEXTS, "Agents that run in this order; other agents can run before, between and after them.";
    "executions": r#"{"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}"#,
        "The number of executions of each agent.";
    "never": TEXTS, "Agents that do not run.";
    "same_turn": r#"{"type": "array", "items": {"type": "array", "items": {"type": "string"}}}"#,
        "Groups of agents. All agents of a group run together in at least one turn.";
    "at_once": r#"{"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}"#,
        "The maximum number of executions or parts of an agent that run at the same time.";
    "asked": r#"{"type": "object", "additionalProperties": {"type": ["string", "array"], "items": {"type":
           "string"}}}"#,
        "Texts that the prompts of an agent contain: the prompts for its model, or the questions to its person.";
    "outputs": r#"{"type": "object", "additionalProperties": true}"#,
        "The expected content of the latest outputs of agents; maps can have more keys.";
    "schemas": r#"{"type": "object", "additionalProperties": {"type": ["object", "boolean"]}}"#,
        "JSON Schemas of the latest outputs of agents.";
    "result": ANY,
        "The expected content of the result of the run; maps can have more keys. `{exactly: VALUE}`: the exact result.";
    "conditions": TEXTS, "Conditions, as in a dependency, that are true at the end of the run.";
    "not_run": r#"{"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object", "additionalProperties":
           {"type": "string"}}]}"#,
        "Agents that never ran: a list, or a map from each agent to a part of the reason.";
    "exhausted": TEXTS,
        "Agents that still had work when their own limits kept them from running, in any order. An empty list: no agent.";
    "warnings": TEXTS,
        "A part of the text of each expected warning. An empty list: no warnings.";
    "most_turns": WHOLE, "The maximum number of turns.";
    "most_cost": r#"{"type": "number", "minimum": 0}"#, "The maximum cost of the run.";
    "judge": r##"{"type": "array", "items": {"$ref": "#/$defs/judge"}}"##,
        "The criteria by which models judge a live case.";
];

/// The keys of an item of `judge`.
pub(in crate::vocabulary) static JUDGE: &[SectionKey] = keys![
    "criterion": FILLED_TEST, "The statement that must be true of the judged output.";
    "agent": FILLED_TEST, "The agent whose latest output is judged. Default: the result of the run.";
    "model_profile": FILLED_TEST, "The profile of the model that judges.";
    "votes": WHOLE, "The number of times that the model is asked.", default "1";
];
