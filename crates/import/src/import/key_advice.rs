//! Keys of llm-orc that this language does not have: why they are not converted, and what to write instead.

/// Key, the reason why the key is not converted, and the replacement.
type KeyAdvice = (&'static str, &'static str, &'static str);

/// Keys of an ensemble.
const ENSEMBLE_KEY_ADVICE: &[KeyAdvice] = &[
    (
        "validation",
        "an ensemble cannot check its own results",
        "describe an agent's output with `output_schema`, and check the rest of what `ensemble run --output json` prints",
    ),
    (
        "test_mode",
        "there is no test mode",
        "answer with `ensemble run --answers FILE`, and use a simulated model with `--model '*=simulated'`",
    ),
    (
        "output_schema",
        "only agents have outputs",
        "move `output_schema` to the agent whose output the schema describes",
    ),
    (
        "coordinator",
        "it has no model",
        "add an agent that depends on the others",
    ),
    (
        "synthesis",
        "it has no model",
        "add an agent that depends on the others",
    ),
    ("task", "`default_task` is present too", "keep one of them"),
    ("default_input", "`default_task` is present too", "keep one of them"),
    ("default_task", "it is not a string", "write a string"),
];

/// Keys of an agent.
const AGENT_KEY_ADVICE: &[KeyAdvice] = &[
    (
        "fan_out",
        "an agent runs once for a whole list, not once for each item",
        "let the agent work through the list, write one agent for each part, or let an agent with `conversation.triggers_conversation: true` request others in its `agent_requests`",
    ),
    (
        "dispatch",
        "the ensemble of an agent cannot be computed",
        "write one `ensemble` agent for each target, with a `condition` in its `dependencies`",
    ),
    (
        "input_key",
        "an agent gets the whole outputs of its dependencies",
        "read the key from `dependencies` in a script or a nested ensemble; in a prompt write `{{ agent_name.key }}`",
    ),
    (
        "input_scope",
        "an agent reads only the values that its prompt uses",
        "write a `prompt` with only the values that the agent needs, such as `{{ agent_name.response }}`",
    ),
    (
        "output_format",
        "only a schema sets the format of an output",
        "describe the output with `output_schema`, a JSON Schema",
    ),
    (
        "ollama_format",
        "a format is not sent to the provider",
        "describe the output with `output_schema`, a JSON Schema",
    ),
    (
        "validation",
        "an agent cannot check its own results",
        "describe its output with `output_schema`, a JSON Schema",
    ),
    (
        "cache",
        "nothing is cached between runs",
        "leave it out; `ensemble replay` answers from a recorded run",
    ),
    (
        "provider",
        "it belongs to the model profile",
        "write it in the model profile",
    ),
    (
        "synthesis_timeout_seconds",
        "only agents, turns and runs have time limits",
        "set `timeout_seconds` of the agent that synthesizes",
    ),
    ("config", "`parameters` is present too", "keep one of them"),
];

/// Keys that only tell llm-orc's server how to offer an ensemble.
const SERVER_KEYS: [&str; 8] = [
    "topaz_skill",
    "serves",
    "raw_output",
    "output_substrate",
    "output_retention",
    "calibration_substrate_access",
    "seat_contract",
    "relative_path",
];

/// Returns the reason why a key of an ensemble is not converted, and the replacement.
pub(super) fn find_ensemble_key_advice(key: &str) -> (&'static str, &'static str) {
    if SERVER_KEYS.contains(&key) {
        return ("only the server of llm-orc uses it", "leave it out");
    }
    find_key_advice(ENSEMBLE_KEY_ADVICE, key)
}

/// Returns the reason why a key of an agent is not converted, and the replacement.
pub(super) fn find_agent_key_advice(key: &str) -> (&'static str, &'static str) {
    find_key_advice(AGENT_KEY_ADVICE, key)
}

/// Returns the advice for the key in this list, or a general advice.
fn find_key_advice(advice: &[KeyAdvice], key: &str) -> (&'static str, &'static str) {
    let entry = advice.iter().find(|(word, ..)| *word == key);
    entry.map_or(
        ("there is no equivalent in this language", "leave it out"),
        |(_, why, instead)| (*why, *instead),
    )
}
