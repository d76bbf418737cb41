//! Keys of llm-orc that this language does not have: why they are not converted, and what to write instead.

type KeyAdvice = (&'static str, &'static str, &'static str);

/// Keys of an ensemble.
const OF_ENSEMBLES: &[KeyAdvice] = &[
    (
        "validation",
        "an ensemble does not test its own results here",
        "describe an agent's output with `output_schema`, and test the rest from outside: `ensemble run --output json` prints everything",
    ),
    (
        "test_mode",
        "there is no test mode",
        "answer with `ensemble run --answers FILE`, and use a simulated model with `--model '*=simulated'`",
    ),
    (
        "output_schema",
        "an ensemble has no output of its own",
        "write `output_schema` at the agent whose output it describes",
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
const OF_AGENTS: &[KeyAdvice] = &[
    (
        "fan_out",
        "an agent runs once for a whole list, not once for each item",
        "let the agent work through the list, write one agent for each part, or let an agent with `conversation.triggers_conversation: true` request others in its `agent_requests`",
    ),
    (
        "dispatch",
        "which ensemble runs is not computed here",
        "write one `ensemble` agent for each target, with a `condition` in its `dependencies`",
    ),
    (
        "input_key",
        "an agent gets the whole outputs of its dependencies",
        "a script and an inner ensemble find the key under `dependencies`; in a prompt write `{{ agent_name.key }}`",
    ),
    (
        "input_scope",
        "what an agent reads is what its prompt uses",
        "write a `prompt` that names only what it should see, such as `{{ agent_name.response }}`",
    ),
    (
        "output_format",
        "an output has no format but its schema",
        "describe the output with `output_schema`, a JSON Schema",
    ),
    (
        "ollama_format",
        "a format is not sent to the provider",
        "describe the output with `output_schema`, a JSON Schema",
    ),
    (
        "validation",
        "an agent does not test its own results here",
        "describe its output with `output_schema`, a JSON Schema",
    ),
    (
        "cache",
        "nothing is cached between runs",
        "leave it out; `ensemble replay` answers from a recorded run",
    ),
    ("provider", "it is part of the profile", "write it in the model profile"),
    (
        "synthesis_timeout_seconds",
        "only agents, turns and runs have time limits",
        "write `timeout_seconds` at the agent that synthesises",
    ),
    ("config", "`parameters` is present too", "keep one of them"),
];

/// Keys that only tell llm-orc's server how to offer an ensemble.
const SERVING: [&str; 8] = [
    "topaz_skill",
    "serves",
    "raw_output",
    "output_substrate",
    "output_retention",
    "calibration_substrate_access",
    "seat_contract",
    "relative_path",
];

/// For a key of an ensemble: the reason, and the replacement.
pub(super) fn ensemble_key_advice(key: &str) -> (&'static str, &'static str) {
    if SERVING.contains(&key) {
        return ("it tells llm-orc's server how to serve the ensemble", "leave it out");
    }
    find_advice(OF_ENSEMBLES, key)
}

/// For a key of an agent: the reason, and the replacement.
pub(super) fn agent_key_advice(key: &str) -> (&'static str, &'static str) {
    find_advice(OF_AGENTS, key)
}

fn find_advice(advice: &[KeyAdvice], key: &str) -> (&'static str, &'static str) {
    let entry = advice.iter().find(|(word, ..)| *word == key);
    entry.map_or(
        ("there is no equivalent in this language", "leave it out"),
        |(_, why, instead)| (*why, *instead),
    )
}
