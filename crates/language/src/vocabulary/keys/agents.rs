//! Keys of agents, with the maps that only agents have.

use super::shapes::{
    COUNT, COUNT_OR_ZERO, ENVIRONMENT, EXPRESSION, FILLED, FILLED_LIST, FLAG, MAP, NAME, PERMISSION, SANDBOX, SCHEMA,
    SECONDS, TEXT, TEXTS, WHOLE,
};
use super::{SectionKey, keys};

/// The keys of an agent.
pub(in crate::vocabulary) static AGENT: &[SectionKey] = keys![
    "name": NAME,
        "The name of the agent, unique in the ensemble: letters, digits, `_`, `.` and `-`; the first character is a \
         letter or digit.", given nowhere, eg r#"["reviewer"]"#;
    "description": TEXT, "The purpose of the agent.", eg r#"["Says what is wrong with a draft."]"#;
    "type": r#"{"enum": ["script", "llm", "input", "ensemble", "acp", "tool"], "enumDescriptions":
           ["A program or a Rhai script.", "A language model.", "A person who is asked.", "Another ensemble.",
           "A program that speaks the Agent Client Protocol.",
           "One tool of an MCP server, which is called without a model."]}"#,
        "Optional: the type is derived from the other keys, and must match them.", eg r#"["script"]"#;
    "script": FILLED,
        "A script: a path or a command line. `.rhai` runs inside the program; anything else is a process that reads \
         JSON and writes its output.", for script, eg r#"["reviewer.rhai", "analyse.py --strict"]"#;
    "env": ENVIRONMENT,
        "Script: variables of its environment in addition to the user's, which it has without keys of providers and \
         without what profiles name: a list of names of the user's variables, or a map from names to strings. \
         Default: none.", for script, eg r#"[["GITHUB_TOKEN"], {"LOG_LEVEL": "warn"}]"#;
    "model_profile": FILLED,
        "A language model: the name of a profile in this file, in `.ensemble/config.yaml`, or in the user's \
         configuration.", for llm, eg r#"["draft"]"#;
    "model": r#"{"type": "string", "pattern":
           "^\\s*(simulated|openai|anthropic|gemini|ollama|openrouter|groq|deepseek|xai)\\s*/[\\s\\S]*\\S"}"#,
        "A language model without a profile: `provider/model`.", for llm, eg r#"["ollama/llama3"]"#;
    "input": "#input", "", for input;
    "ensemble": FILLED,
        "Another ensemble, a path or a name; its result, or else its final state, is the output of this agent.",
        for ensemble, eg r#"["review", "parts/review.yaml"]"#;
    "acp": r##"{"oneOf": [{"type": "string", "enum": ["claude", "codex", "gemini", "opencode", "qwen", "simulated"]},
           {"$ref": "#/$defs/acp"}]}"##,
        "An external agent: a program that speaks the Agent Client Protocol, by a known name (`simulated` is built \
         in) or as a command.", for acp, eg r#"["claude", {"command": "my-agent", "args": ["--acp"]}]"#;
    "permissions": "#permissions", "", for acp;
    "tool": r#"{"type": "string", "pattern": "^[^.]+\\..+$"}"#,
        "One tool of an MCP server, as SERVER.TOOL: it is called without a model. The server is one of the top-level \
         `tools` that has `mcp`.", for tool, eg r#"["wiki.search"]"#;
    "arguments": MAP,
        "Tool: the arguments of the call. Texts are templates; one that is exactly one `{{ expression }}` gives the \
         value itself.", for tool, eg r#"[{"query": "{{ input }}", "limit": 5}]"#;
    "prompt": TEXT,
        "LLM and external agent: the task, a template. Ensemble: the input of the inner conversation, a template. Its \
         variables include `input`, `inputs`, `context`, `turn_count` and the outputs of the agents that this agent \
         depends on, by their names.", for llm ensemble acp, eg r#"["Review this draft: {{ writer.response }}"]"#;
    "system_prompt": TEXT, "LLM and external agent: the role, a template like `prompt`.", for llm acp,
        eg r#"["You are a patient reviewer."]"#;
    "attachments": FILLED_LIST,
        "LLM: paths of files that are sent with the prompt, relative to the folder of the ensemble: images (png, \
         jpeg, gif, webp), PDF and text. Templates; an item that is one `{{ expression }}` may give a list. Default: \
         none.", for llm, eg r#"[["picture.png", "{{ file }}"]]"#;
    "inputs": r#"{"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}"#,
        "Ensemble: what the inner conversation is given by name. Texts are templates; one that is exactly one `{{ \
         expression }}` gives the value itself.", for ensemble,
        eg r#"[{"topic": "{{ inputs.topic }}", "notes": "{{ researcher.notes }}", "rounds": 2}]"#;
    "tools": FILLED_LIST,
        "LLM: names of the tools that the model can call; one tool of an MCP server is `server.tool`. External \
         agents: the MCP servers that the program is given. Default: none.",
        for llm acp, given llm, eg r#"[["search", "files.read_file"]]"#;
    "max_iterations": COUNT, "LLM: maximum number of requests of one execution while the model calls tools.",
        default "10", for llm, eg r#"[5]"#;
    "max_parallel_tools": COUNT,
        "LLM: maximum number of tool calls of one reply that run side by side; `1`: one after the other.",
        default "16", for llm, eg r#"[1]"#;
    "config": MAP, "Any value; scripts receive it as `parameters`. Default: empty.", eg r#"[{"unit": "km"}]"#;
    "parameters": MAP, "Another spelling of `config`.", eg r#"[{"unit": "km"}]"#;
    "depends_on": r#"{"type": "array", "items": {"description": "The agent that this agent depends on.", "type": "string",
           "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$"}, "uniqueItems": true}"#,
        "Names of the agents that this agent depends on, without conditions.", given nowhere, eg r#"[["writer"]]"#;
    "dependencies": r##"{"type": "array", "items": {"$ref": "#/$defs/dependency"}}"##,
        "The agents that this agent depends on, with conditions and other keys; `depends_on` and `dependencies` form \
         one list.", given nowhere,
        eg r#"[[{"agent_name": "reviewer", "feedback": true, "condition": "not output.approved"}]]"#;
    "for_each": "#for_each", "", for script llm ensemble acp tool;
    "conversation": "#conversation", "";
    "output_schema": SCHEMA, "A JSON Schema that the output must match; an output that does not match is a failure.",
        eg r#"[{"type": "object", "required": ["approved"], "properties": {"approved": {"type": "boolean"}}}]"#;
    "context_window": "#context_window", "", for llm;
    "timeout_seconds": SECONDS, "Time limit of one attempt (wall clock). Default: none.", eg r#"[30]"#;
    "retry": "#retry", "";
    "on_error": r#"{"enum": ["fail", "continue"], "enumDescriptions": ["The outcome is `agent_failed`.",
           "The failure does not change the outcome, and stays in the history."]}"#,
        "The effect of an unhandled failure of this agent on the outcome.", default r#""fail""#, eg r#"["continue"]"#;
    "sandbox": SANDBOX,
        "Scripts: what the process may reach. `true` and `{}`: what every program needs, and the folder of the \
         ensemble for reading. Without it: all that the user may reach.", default "false", for script,
        eg r#"[{"write": ["out"]}]"#;
];

/// The keys of `defaults` that have another meaning there than in an agent.
pub(in crate::vocabulary) static DEFAULTS: &[SectionKey] = keys![
    "input": "#default_input", "", for input;
    "tools": FILLED_LIST,
        "LLM: names of the tools that the model can call; one tool of an MCP server is `server.tool`. Default: none.",
        for llm acp, given llm, eg r#"[["search", "files.read_file"]]"#;
    "sandbox": SANDBOX,
        "The sandbox of script agents, script tools and servers with a `command` that have none of their own.",
        default "false", for script, eg r#"[{"write": ["out"]}]"#;
];

/// The keys of an item of `dependencies`.
pub(in crate::vocabulary) static DEPENDENCY: &[SectionKey] = keys![
    "agent_name": NAME, "The agent that this agent depends on.", eg r#"["writer"]"#;
    "condition": r#"{"type": ["string", "boolean"], "pattern": "\\S"}"#,
        "The dependency holds only while this expression is true. The syntax is Rhai's or Python's; the variables are \
         `output`, `context`, `turn_count`, `history`, `executions` and `input`. Default: none.",
        eg r#"["not output.approved", "context.get('needs_review', False)"]"#;
    "max_executions": COUNT,
        "How often a new output over this dependency can start the agent. Default: no extra limit.", eg r#"[2]"#;
    "requires_all": FLAG,
        "`true`: the dependency is in the group of which all must hold. `false`: it is in the group of which at least \
         one must hold.", default "true", eg r#"[false]"#;
    "feedback": FLAG, "`true`: the dependency is ignored before the agent's first execution; this allows a loop.",
        default "false", eg r#"[true]"#;
    "wait_for": r#"{"enum": ["update", "settled", "nothing"], "enumDescriptions":
           ["If the agent has read the other agent's latest output and another one is about to come, it waits for that one.",
           "It waits until nothing can lead to another output of that agent any more: until the loop behind it is over.",
           "It takes what there is."]}"#,
        "What the agent still waits for when it is ready, so that it does not read what is about to be replaced. Only \
         with `requires_all: true`.", default r#""update""#, eg r#"["settled"]"#;
    "on": r#"{"enum": ["success", "failure", "any"], "enumDescriptions": ["Successful executions.",
           "Failed executions; `output` is `{error, kind}`.", "Successful and failed executions."]}"#,
        "Which result of the other agent's executions makes the dependency hold and counts as a new output.",
        default r#""success""#, eg r#"["failure"]"#;
];

/// The keys of `conversation`.
pub(in crate::vocabulary) static CONVERSATION: &[SectionKey] = keys![
    "max_turns": COUNT, "Maximum number of executions of this agent in the run.", default "1", eg r#"[3]"#;
    "state_key": NAME, "The key of the context under which the output of the agent is stored. Default: its name.",
        eg r#"["draft"]"#;
    "triggers_conversation": FLAG, "Whether the output of the agent can contain `agent_requests`.", default "false",
        eg r#"[true]"#;
    "trigger": r#"{"enum": ["news", "every_turn"], "enumDescriptions": ["When there is a new output for the agent.",
           "In every turn in which its dependencies hold."]}"#,
        "When the agent runs again.", default r#""news""#, eg r#"["every_turn"]"#;
    "memory": r#"{"enum": ["conversation", "none"], "enumDescriptions": ["The messages of earlier executions.",
           "Nothing: every execution starts without history."]}"#,
        "LLM: what the model receives of the agent's earlier executions.", default r#""conversation""#, for llm acp,
        eg r#"["none"]"#;
    "on_resume": r#"{"enum": ["reuse", "rerun"], "enumDescriptions": ["The output is kept.",
           "The agent is executed again."]}"#,
        "`reuse`: `resume` and `fork` keep the output of the agent. `rerun`: the output in the turn from which the \
         run continues may no longer be valid, and the agent is executed again.", default r#""reuse""#,
        eg r#"["rerun"]"#;
    "history": COUNT_OR_ZERO,
        "Scripts: how many of the latest executions of the conversation the script receives as `history`, the oldest \
         first.", default "0", for script, eg r#"[10]"#;
];

/// The keys of `for_each`.
pub(in crate::vocabulary) static FOR_EACH: &[SectionKey] = keys![
    "in": r#"{"oneOf": [{"description": "An expression in the language of conditions.", "type": "string", "pattern":
           "\\S"}, {"description": "The items themselves.", "type": "array"}]}"#,
        "The items: a list, or an expression that gives a list or a map, evaluated at the start of the turn.",
        eg r#"["outputs.files.paths", ["a.md", "b.md"]]"#;
    "times": COUNT_OR_ZERO, "The items are the numbers from 0 to n - 1.", eg r#"[5]"#;
    "as": r#"{"type": "string", "pattern": "^[^\\W\\d]\\w*$"}"#,
        "The name of the item in templates, expressions and scripts.", default r#""item""#, eg r#"["file"]"#;
    "key": EXPRESSION,
        "The name of a part, an expression that can read the item; no two parts have the same. Default: the position \
         in the list, from 0.", eg r#"["item.path"]"#;
    "max_parallel": COUNT, "How many parts run side by side.", default "8", eg r#"[4]"#;
    "max_items": COUNT, "The highest number of items; with more, the execution fails before its first part.",
        default "100", eg r#"[1000]"#;
    "on_error": r#"{"enum": ["fail", "collect"], "enumDescriptions":
           ["The first failed part stops the others and fails the execution.",
           "The other parts go on; the execution succeeds if `at_least` parts succeed."]}"#,
        "What a failed part means.", default r#""fail""#, eg r#"["collect"]"#;
    "at_least": r#"{"oneOf": [{"description": "A number of parts.", "type": "integer", "minimum": 0, "maximum":
           4294967295}, {"description": "A share of the parts.", "type": "string", "pattern":
           "^\\s*(100|[0-9]{1,2})\\s*%\\s*$"}]}"#,
        "With `on_error: collect`: how many parts must succeed, as a number or a share.", default "1",
        eg r#"["80%"]"#;
    "combine": r##"{"oneOf": [{"const": "list"}, {"$ref": "#/$defs/combine"}]}"##,
        "What is added to the list of the outputs; with `list`, nothing.", default r#""list""#,
        eg r#"[{"best": "output.score"}, {"majority": "output.answer"}]"#;
];

/// The keys of `combine`.
pub(in crate::vocabulary) static COMBINE: &[SectionKey] = keys![
    "best": EXPRESSION, "`best`: the output for which this is highest, a number or a text.", eg r#"["output.score"]"#;
    "first": EXPRESSION, "`first`: the first output of the list for which this is true.", eg r#"["output.found"]"#;
    "majority": EXPRESSION, "`answer`, `votes` and `agreed`: the value of this that most parts have.",
        eg r#"["output.answer"]"#;
    "quorum": COUNT, "With `majority`: how many parts must have the answer. Default: more than half of all parts.",
        for majority, eg r#"[3]"#;
];

/// The keys of `input`.
pub(in crate::vocabulary) static INPUT: &[SectionKey] = keys![
    "prompt": FILLED, "The question; a template like an LLM's prompt.",
        eg r#"["{{ writer.response }} Do you like it?"]"#;
    "choices": r#"{"type": "array", "items": {"type": "string"}, "minItems": 1}"#,
        "The allowed answers. Default: any.", eg r#"[["yes", "no"]]"#;
    "default": TEXT, "The answer if the time is up or nobody can be asked; one of the choices. Default: none.",
        eg r#"["yes"]"#;
    "timeout_seconds": SECONDS, "Time limit for the answer. Default: none.", eg r#"[60]"#;
    "responses": r##"{"oneOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"$ref":
           "#/$defs/responses"}]}"##,
        "A source of answers that replaces the person: a list (the n-th execution gets the n-th answer, the last \
         answer repeats), a script or a model.",
        eg r#"[["yes", "no"], {"script": "guest.rhai"}, {"model_profile": "guest"}]"#;
];

/// The keys of `responses`.
pub(in crate::vocabulary) static RESPONSES: &[SectionKey] = keys![
    "script": FILLED, "A `.rhai` script whose last value is the answer.", eg r#"["guest.rhai"]"#;
    "model_profile": FILLED, "A model that answers as a user would: the name of its profile.", eg r#"["guest"]"#;
];

/// The keys of `context_window`.
pub(in crate::vocabulary) static CONTEXT_WINDOW: &[SectionKey] = keys![
    "max_tokens": WHOLE,
        "Maximum number of tokens of a request, including the instructions; counted by the model's own tokenizer if \
         it is known, otherwise estimated. Default: no limit.", eg r#"[8000]"#;
    "max_messages": WHOLE, "Maximum number of messages of a request, including the instructions. Default: no limit.",
        eg r#"[40]"#;
    "preserve_system_message": FLAG,
        "`true`: the instructions are always sent. `false`: they can be left out like the oldest turn.",
        default "true", eg r#"[false]"#;
    "min_recent_turns": COUNT,
        "The number of latest turns that are always sent, even above a limit. A turn is a user message and all \
         messages up to the next user message.", default "3", eg r#"[5]"#;
    "strategy": r##"{"oneOf": [{"description":
           "The oldest turns; the turns in the middle; or the oldest turns, replaced by a summary of the agent's own model.",
           "enum": ["oldest_first", "middle_out", "summarize"], "enumDescriptions":
           ["The oldest turns are left out.", "The turns in the middle are left out.",
           "The oldest turns are replaced by a summary of the agent's own model."]}, {"$ref": "#/$defs/strategy"}]}"##,
        "What is left out if not everything fits.", default r#""oldest_first""#,
        eg r#"["middle_out", {"recent_turns_only": 5}, {"summarize": "small"}]"#;
];

/// The keys of `strategy`.
pub(in crate::vocabulary) static STRATEGY: &[SectionKey] = keys![
    "recent_turns_only": COUNT, "Only the latest n turns are sent.", eg r#"[5]"#;
    "custom": FILLED, "A `.rhai` script; its last value is the list of those `messages` that are sent.",
        eg r#"["keep.rhai"]"#;
    "summarize": FILLED, "The oldest turns are replaced by a summary of the model of this profile.",
        eg r#"["small"]"#;
];

/// The keys of `acp`.
pub(in crate::vocabulary) static ACP: &[SectionKey] = keys![
    "command": FILLED, "The program: a name on PATH, or a path.", eg r#"["my-agent"]"#;
    "args": TEXTS, "Its arguments. Default: none.", eg r#"[["--acp"]]"#;
    "env": ENVIRONMENT,
        "Variables of its environment in addition to the few that every program needs (`PATH`, `HOME`, `LANG` and so \
         on): a list of names of the user's variables, or a map from names to strings. Default: none.",
        eg r#"[["HTTPS_PROXY"], {"LOG_LEVEL": "warn"}]"#;
    "cwd": FILLED, "The working directory of the program, relative to the project root. Default: the project root.",
        eg r#"["notes"]"#;
];

/// The keys of `permissions`: the kinds of tools of an external agent.
pub(in crate::vocabulary) static PERMISSIONS: &[SectionKey] = keys![
    "read": PERMISSION, "Reading files or data.", default r#""ask""#, eg r#"["allow"]"#;
    "edit": PERMISSION, "Changing files.", default r#""ask""#, eg r#"["allow"]"#;
    "delete": PERMISSION, "Removing files or data.", default r#""ask""#, eg r#"["allow"]"#;
    "move": PERMISSION, "Moving or renaming files.", default r#""ask""#, eg r#"["allow"]"#;
    "search": PERMISSION, "Searching.", default r#""ask""#, eg r#"["allow"]"#;
    "execute": PERMISSION, "Running commands or code.", default r#""ask""#, eg r#"["allow"]"#;
    "think": PERMISSION, "Thinking.", default r#""ask""#, eg r#"["allow"]"#;
    "fetch": PERMISSION, "Getting data from elsewhere.", default r#""ask""#, eg r#"["allow"]"#;
    "switch_mode": PERMISSION, "Changing the mode of the session.", default r#""ask""#, eg r#"["allow"]"#;
    "other": PERMISSION, "Any other tool.", default r#""ask""#, eg r#"["allow"]"#;
];
