//! Keys of an ensemble file, its limits and its sandboxes.

use super::shapes::{COUNT, DELAY, FILLED_LIST, FLAG, NAME, PROFILES, SECONDS, TEXT, WHOLE};
use super::{SectionKey, keys};

/// An example of `model_profiles`.
pub(super) const PROFILES_EXAMPLE: &str = r#"[{"draft": {"provider": "ollama", "model": "llama3"}}]"#;

/// The keys of an ensemble file.
pub(in crate::vocabulary) static ENSEMBLE: &[SectionKey] = keys![
    "name": NAME,
        "The name of the ensemble: letters, digits, `_`, `.` and `-`; the first character is a letter or digit.",
        eg r#"["code-review"]"#;
    "description": TEXT, "The purpose of the ensemble.", eg r#"["A writer and a reviewer, until the text is good."]"#;
    "agents": r##"{"type": "array", "items": {"$ref": "#/$defs/agent"}, "minItems": 1}"##,
        "The agents, at least one; names are unique.",
        eg r#"[[{"name": "writer", "script": "writer.rhai"}, {"name": "reviewer", "script": "reviewer.rhai",
           "depends_on": ["writer"]}]]"#;
    "conversation_limits": "#limits", "";
    "model_profiles": PROFILES,
        "Model profiles by name, only for this file; profiles for all files are in `.ensemble/config.yaml`.",
        eg PROFILES_EXAMPLE;
    "tools": r##"{"type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,64}$"}, "additionalProperties":
           {"$ref": "#/$defs/tool"}}"##,
        "Tools that models can call, by name. A name has letters, digits, `_` and `-`, and at most 64 characters.",
        eg r#"[{"search": {"description": "Finds a word in the notes.", "script": "search.rhai", "parameters":
           {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}}}]"#;
    "default_task": TEXT, "The input if the command line has none. Default: empty.",
        eg r#"["Write one sentence about the sea."]"#;
    "inputs": r#"{"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, "additionalProperties":
           {"type": ["object", "boolean"], "properties": {
             "type": {"description": "The type of the value. Without it, the input is any value.", "examples": ["string",
               "integer", "number", "boolean", "array", "object"]},
             "description": {"description": "What the input is, for the person who starts a run.", "type": "string"},
             "default": {"description": "The value if the run is given none. Without it, the input is required."},
             "enum": {"description": "The values of which the input is one.", "type": "array"},
             "minimum": {"description": "The lowest number.", "type": "number"},
             "maximum": {"description": "The highest number.", "type": "number"}}}}"#,
        "The named inputs of a run: a JSON Schema for each name. A `default` in the schema makes the input optional.",
        eg r#"[{"topic": {"type": "string", "description": "What the text is about."}, "rounds": {"type": "integer",
           "minimum": 1, "default": 3}}]"#;
    "result": r#"{"oneOf": [{"description": "The name of an agent.", "type": "string", "pattern":
           "^[A-Za-z0-9][A-Za-z0-9_.-]*$"}, {"description": "Keys and expressions in the language of conditions.",
           "type": "object", "minProperties": 1, "additionalProperties": {"type": ["string", "number",
           "boolean"]}}]}"#,
        "The result of a run: the name of an agent, for its latest output, or a map from keys to expressions over the \
         final state. Default: the final state.",
        eg r#"["writer", {"text": "outputs.writer.response", "rounds": "executions.writer"}]"#;
    "success": r#"{"type": ["string", "boolean"], "pattern": "\\S"}"#,
        "An expression over the final state that must be true for exit code 0. It is evaluated when the run would \
         otherwise end with exit code 0; if it is false, the outcome is `unsuccessful`. Default: nothing is asked.",
        eg r#"["outputs.reviewer.approved", "outputs.tests?.failed == 0"]"#;
    "defaults": "#defaults", "";
];

/// The keys of `conversation_limits`.
pub(in crate::vocabulary) static LIMITS: &[SectionKey] = keys![
    "max_total_turns": COUNT, "Maximum number of turns of the run.", default "20", eg r#"[50]"#;
    "max_agent_executions": r#"{"type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$"}, "additionalProperties":
           {"description": "The number of executions of this agent after which the conversation ends.", "type":
           "integer", "minimum": 1, "maximum": 4294967295}}"#,
        "A map from agents to counts; the conversation ends after the turn in which one of the counts is reached.",
        eg r#"[{"writer": 5}]"#;
    "timeout_seconds": SECONDS, "Time limit of the whole run (wall clock).", default "300", eg r#"[60]"#;
    "turn_timeout_seconds": SECONDS,
        "Time limit of one turn (wall clock). Executions that still run at the limit are stopped and fail; the run \
         continues. Default: none.", eg r#"[10]"#;
    "parallel_agent_limit": COUNT,
        "Maximum number of agents that run at the same time; all ready agents of a turn still run in that turn. \
         Default: none.", eg r#"[2]"#;
    "max_total_tokens": WHOLE,
        "Token budget of all LLM executions; tokens are estimated if the provider does not count them. Default: none.",
        eg r#"[100000]"#;
    "max_cost": DELAY, "Cost budget of all LLM executions, in the currency of the profiles' `cost`. Default: none.",
        eg r#"[0.5]"#;
    "budget": r#"{"enum": ["conversation", "message"], "enumDescriptions": ["All messages of a conversation share them.",
           "They start again with each message."]}"#,
        "The messages of the user that share `max_total_tokens` and `max_cost`, when a run is continued: with \
         `continue`, in a chat, and in a session of an editor. Default: `conversation`.", eg r#"["message"]"#;
    "on_limit": r#"{"enum": ["fail", "succeed"], "enumDescriptions": ["The exit code is 4.",
           "The exit code is 0, if `success` is true."]}"#,
        "The result of a run that `max_total_turns`, `max_agent_executions`, `max_total_tokens` or `max_cost` ends. \
         `succeed` is for ensembles whose limit is their natural end. It does not concern `timeout_seconds`.",
        default r#""fail""#, eg r#"["succeed"]"#;
];

/// The keys of `retry`.
pub(in crate::vocabulary) static RETRY: &[SectionKey] = keys![
    "max_attempts": COUNT, "Maximum number of attempts, including the first.", default "1", eg r#"[3]"#;
    "delay_seconds": DELAY, "Delay in seconds before the second attempt.", default "1", eg r#"[0.5]"#;
    "backoff": r#"{"enum": ["constant", "linear", "exponential"], "enumDescriptions": ["The delay stays the same.",
           "The delay grows by `delay_seconds` each time.", "The delay doubles each time."]}"#,
        "The growth of the delay from attempt to attempt.", default r#""exponential""#, eg r#"["linear"]"#;
];

/// The keys of `sandbox`.
pub(in crate::vocabulary) static SANDBOX: &[SectionKey] = keys![
    "read": FILLED_LIST,
        "Files and folders that the process may read, relative to the folder of the ensemble; `~` is the home folder. \
         Default: no further paths.", eg r#"[["data", "~/models"]]"#;
    "write": FILLED_LIST,
        "Files and folders that the process may read and change. Default: only its own temporary folder.",
        eg r#"[["out"]]"#;
    "network": r#"{"oneOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum":
           65535}}]}"#,
        "The network access of the process: none (`false`), all (`true`), or outgoing TCP connections to the listed \
         ports.", default "false", eg r#"[[443]]"#;
    "env": r#"{"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}"#,
        "Environment variables of the process, in addition to the few that every program needs. Default: none.",
        eg r#"[["API_TOKEN"]]"#;
    "memory": r#"{"oneOf": [{"type": "integer", "minimum": 1048576, "maximum": 18446744073709551615}, {"type": "string",
           "pattern": "^[0-9]+([KMG]iB|[kMG]B)$"}]}"#,
        "Maximum amount of memory: a number of bytes, or a number with `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`. \
         Default: no limit.",
        eg r#"["512MiB"]"#;
    "cpu_seconds": COUNT,
        "Maximum processor time of the process and its child processes together, in seconds. Default: no limit.",
        eg r#"[60]"#;
    "processes": COUNT, "Maximum number of processes at the same time.", default "128", eg r#"[32]"#;
    "best_effort": FLAG, "`true`: the process also starts on a system that cannot enforce the whole sandbox.",
        default "false", eg r#"[true]"#;
];
