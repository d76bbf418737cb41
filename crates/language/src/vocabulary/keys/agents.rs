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
        "The type of the agent. Optional: the other keys determine the type, and `type` must match them.",
        eg r#"["script"]"#;
    "script": FILLED,
        "A script: a path or a command line. A `.rhai` script runs inside the program; any other script is a process \
         that reads JSON and writes its output.", for script, eg r#"["reviewer.rhai", "analyse.py --strict"]"#;
    "args": TEXTS,
        "Script: further arguments of its process. Each item is a template like `prompt` and becomes one argument, which no \
         shell reads. In a command line that needs a shell, they are `\"$1\"`, `\"$2\"` and so on. Not for Rhai scripts. \
         Default: none.", for script, eg r#"[["--file", "{{ item }}"]]"#;
    "stdin": TEXT,
        "Script: the text that its process reads on its standard input instead of the JSON object, a template like \
         `prompt`. Not for Rhai scripts. Default: the JSON object.", for script, eg r#"["{{ writer.response }}"]"#;
    "env": ENVIRONMENT,
        "Script: variables of its environment, in addition to the user's variables. The script does not receive the \
         user's variables with API keys of providers, or variables that profiles name, unless they are listed here. A \
         list of names of the user's variables, or a map from names to strings. Default: none.",
        for script, eg r#"[["GITHUB_TOKEN"], {"LOG_LEVEL": "warn"}]"#;
    "model_profile": FILLED,
        "A language model: the name of a profile in this file, in `.ensemble/config.yaml`, or in the user's \
         configuration.", for llm, eg r#"["draft"]"#;
    "model": r#"{"type": "string", "pattern":
           "^\\s*(simulated|openai|anthropic|gemini|ollama|openrouter|groq|deepseek|xai)\\s*/[\\s\\S]*\\S"}"#,
        "A language model without a profile: `provider/model`.", for llm, eg r#"["ollama/llama3"]"#;
    "input": "#input", "", for input;
    "ensemble": FILLED,
        "Another ensemble: a path or a name. The agent's output is the result of the nested ensemble, or its final \
         state if it declares no result.",
        for ensemble, eg r#"["review", "parts/review.yaml"]"#;
    "acp": r##"{"oneOf": [{"type": "string", "enum": ["claude", "codex", "gemini", "opencode", "qwen", "simulated"]},
           {"$ref": "#/$defs/acp"}]}"##,
        "An external agent: a program that speaks the Agent Client Protocol, by a known name (`simulated` is built \
         in) or as a command.", for acp, eg r#"["claude", {"command": "my-agent", "args": ["--acp"]}]"#;
    "permissions": "#permissions", "", for acp;
    "tool": r#"{"type": "string", "pattern": "^[^.]+\\..+$"}"#,
        "One tool of an MCP server, as SERVER.TOOL. The tool is called without a model. SERVER is a tool with `mcp` \
         under the top-level `tools`.", for tool, eg r#"["wiki.search"]"#;
    "arguments": MAP,
        "Tool: the arguments of the call. Strings are templates; a string that is exactly one `{{ expression }}` \
         becomes the value itself.", for tool, eg r#"[{"query": "{{ input }}", "limit": 5}]"#;
    "prompt": TEXT,
        "LLM and external agent: the task, a template. Ensemble: the input of the nested run, a template. The \
         variables include `input`, `inputs`, `context`, `turn_count` and the outputs of the agents that this agent \
         depends on, by their names.", for llm ensemble acp, eg r#"["Review this draft: {{ writer.response }}"]"#;
    "system_prompt": TEXT, "LLM and external agent: the role, a template like `prompt`.", for llm acp,
        eg r#"["You are a patient reviewer."]"#;
    "attachments": FILLED_LIST,
        "LLM: paths of files that are sent with the prompt, relative to the folder of the ensemble: images (png, jpeg, \
         gif, webp), PDF and text. The paths are templates; an item that is exactly one `{{ expression }}` can become \
         a list of paths. Default: none.", for llm, eg r#"[["picture.png", "{{ file }}"]]"#;
    "inputs": r#"{"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}"#,
        "Ensemble: the inputs of the nested run by name. Strings are templates; a string that is exactly one `{{ \
         expression }}` becomes the value itself.", for ensemble,
        eg r#"[{"topic": "{{ inputs.topic }}", "notes": "{{ researcher.notes }}", "rounds": 2}]"#;
    "tools": FILLED_LIST,
        "LLM: names of the tools that the model can call; one tool of an MCP server is `server.tool`. External agent: \
         the MCP servers that the program can use. Default: none.",
        for llm acp, given llm, eg r#"[["search", "files.read_file"]]"#;
    "max_iterations": COUNT, "LLM: maximum number of requests to the model in one execution with tool calls.",
        default "10", for llm, eg r#"[5]"#;
    "max_parallel_tools": COUNT,
        "LLM: maximum number of tool calls of one reply that run in parallel; with `1`, they run one after the other.",
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
    "on_error": r#"{"enum": ["fail", "continue", "stop"], "enumDescriptions":
           ["The run continues to its natural end; its outcome is `agent_failed`, unless a dependency handles the failure.",
           "The failure does not change the outcome, and stays in the history.",
           "The run ends as `agent_failed` when the turn has closed; nothing can handle the failure."]}"#,
        "The effect of a failure of this agent on the run.", default r#""fail""#, eg r#"["continue", "stop"]"#;
    "required": FLAG,
        "`true`: the agent must have succeeded at least once when the run ends; otherwise the outcome is \
         `unsuccessful`.", default "false", eg r#"[true]"#;
    "sandbox": SANDBOX,
        "Script: restricts what the process can access. `true` or `{}`: the process can access what every program \
         needs, and read the folder of the ensemble. `false`: it can access everything that the user can access.",
        default "false", for script,
        eg r#"[{"write": ["out"]}]"#;
];

/// The keys of `defaults` that have another meaning there than in an agent.
pub(in crate::vocabulary) static DEFAULTS: &[SectionKey] = keys![
    "input": "#default_input", "", for input;
    "tools": FILLED_LIST,
        "LLM: names of the tools that the model can call; one tool of an MCP server is `server.tool`. Default: none.",
        for llm acp, given llm, eg r#"[["search", "files.read_file"]]"#;
    "sandbox": SANDBOX,
        "The sandbox of script agents, script tools and servers with a `command` that have no `sandbox` key.",
        default "false", for script, eg r#"[{"write": ["out"]}]"#;
];

/// The keys of an item of `dependencies`.
pub(in crate::vocabulary) static DEPENDENCY: &[SectionKey] = keys![
    "agent_name": NAME, "The agent that this agent depends on.", eg r#"["writer"]"#;
    "condition": r#"{"type": ["string", "boolean", "null"], "pattern": "\\S"}"#,
        "The dependency holds only while this expression is true. The syntax is Rhai's or Python's; the variables are \
         `output`, `context`, `turn_count`, `history`, `executions` and `input`. Default: none.",
        eg r#"["not output.approved", "context.get('needs_review', False)"]"#;
    "max_executions": COUNT,
        "Maximum number of times that a new output of this dependency starts the agent. Default: no extra limit.",
        eg r#"[2]"#;
    "requires_all": FLAG,
        "`true`: the dependency must hold. `false`: at least one of the dependencies with `false` must hold.",
        default "true", eg r#"[false]"#;
    "feedback": FLAG, "`true`: the dependency is ignored before the agent's first execution; this allows a loop.",
        default "false", eg r#"[true]"#;
    "wait_for": r#"{"enum": ["update", "settled", "nothing"], "enumDescriptions":
           ["The agent waits if it has already read the latest output of the other agent and a newer output is expected.",
           "The agent waits until the other agent can have no more outputs, for example until its loop has ended.",
           "The agent does not wait."]}"#,
        "The outputs that a ready agent waits for, so that it does not read an output that will soon be replaced. Only \
         with `requires_all: true`.", default r#""update""#, eg r#"["settled"]"#;
    "on": r#"{"enum": ["success", "failure", "any"], "enumDescriptions": ["The latest execution succeeded.",
           "The latest execution failed; `output` is `{error, kind, exit_code, stdout, stderr}`.", "The agent has been executed."]}"#,
        "The results of the other agent that make the dependency hold and count as new outputs.",
        default r#""success""#, eg r#"["failure"]"#;
];

/// The keys of `conversation`.
pub(in crate::vocabulary) static CONVERSATION: &[SectionKey] = keys![
    "max_turns": COUNT, "Maximum number of executions of this agent in the run.", default "1", eg r#"[3]"#;
    "state_key": NAME, "The key of the context under which the output of the agent is stored. Default: its name.",
        eg r#"["draft"]"#;
    "triggers_conversation": FLAG, "`true`: the output of the agent can contain `agent_requests`.", default "false",
        eg r#"[true]"#;
    "trigger": r#"{"enum": ["news", "every_turn", "request"], "enumDescriptions": ["When there is a new output for the agent.",
           "In every turn in which its dependencies hold.", "Only when another agent requests it in its `agent_requests`."]}"#,
        "When the agent runs.", default r#""news""#, eg r#"["every_turn"]"#;
    "memory": r#"{"enum": ["conversation", "none"], "enumDescriptions": ["The messages of earlier executions.",
           "Nothing: every execution starts without history."]}"#,
        "LLM: the part of the agent's earlier executions that the model receives.",
        default r#""conversation""#, for llm acp,
        eg r#"["none"]"#;
    "on_resume": r#"{"enum": ["reuse", "rerun"], "enumDescriptions": ["The run keeps the output.", "The run can execute the agent again."]}"#,
        "`reuse`: `resume` and `fork` keep the output of the agent. `rerun`: the agent is executed again in the turn \
         from which the run continues, because its output might be out of date.", default r#""reuse""#,
        eg r#"["rerun"]"#;
    "history": COUNT_OR_ZERO,
        "Script: number of the latest executions that the script receives as `history`, the oldest first.",
        default "0", for script, eg r#"[10]"#;
];

/// The keys of `for_each`.
pub(in crate::vocabulary) static FOR_EACH: &[SectionKey] = keys![
    "in": r#"{"oneOf": [{"description": "An expression in the language of conditions.", "type": "string", "pattern":
           "\\S"}, {"description": "The items themselves.", "type": "array"}]}"#,
        "The items: a list, or an expression that is evaluated at the start of the turn to a list or a map.",
        eg r#"["outputs.files.paths", ["a.md", "b.md"]]"#;
    "times": COUNT_OR_ZERO, "The items are the numbers from 0 to n - 1.", eg r#"[5]"#;
    "as": r#"{"type": "string", "pattern": "^[^\\W\\d]\\w*$"}"#,
        "The name of the item in templates, expressions and scripts.", default r#""item""#, eg r#"["file"]"#;
    "key": EXPRESSION,
        "The key of a part: an expression that can read the item. Each part must have a different key. Default: the \
         position in the list, from 0.", eg r#"["item.path"]"#;
    "max_parallel": COUNT, "Maximum number of parts that run in parallel.", default "8", eg r#"[4]"#;
    "max_items": COUNT, "Maximum number of items; with more items, the execution fails before its first part.",
        default "100", eg r#"[1000]"#;
    "on_error": r#"{"enum": ["fail", "collect"], "enumDescriptions":
           ["The first failed part stops the others and fails the execution.",
           "The other parts continue; the execution succeeds if `at_least` parts succeed."]}"#,
        "The effect of a failed part on the execution.", default r#""fail""#, eg r#"["collect"]"#;
    "at_least": r#"{"oneOf": [{"description": "A number of parts.", "type": "integer", "minimum": 0, "maximum":
           4294967295}, {"description": "A share of the parts.", "type": "string", "pattern":
           "^\\s*(100|[0-9]{1,2})\\s*%\\s*$"}]}"#,
        "With `on_error: collect`: the number or the share of parts that must succeed.", default "1",
        eg r#"["80%"]"#;
    "combine": r##"{"oneOf": [{"const": "list"}, {"$ref": "#/$defs/combine"}]}"##,
        "The value that is added to the list of the outputs; with `list`, nothing is added.", default r#""list""#,
        eg r#"[{"best": "output.score"}, {"majority": "output.answer"}]"#;
];

/// The keys of `combine`.
pub(in crate::vocabulary) static COMBINE: &[SectionKey] = keys![
    "best": EXPRESSION, "Adds `best`: the output with the highest value of this expression, a number or a text.",
        eg r#"["output.score"]"#;
    "first": EXPRESSION, "Adds `first`: the first output in the list for which this expression is true.",
        eg r#"["output.found"]"#;
    "majority": EXPRESSION,
        "Adds `answer`, `votes` and `agreed`: the most frequent value of this expression and its votes.",
        eg r#"["output.answer"]"#;
    "quorum": COUNT,
        "With `majority`: the number of parts that must have the most frequent value. Default: more than half of all \
         parts.",
        for majority, eg r#"[3]"#;
];

/// The keys of `input`.
pub(in crate::vocabulary) static INPUT: &[SectionKey] = keys![
    "prompt": FILLED, "The question, a template like the `prompt` of an LLM agent.",
        eg r#"["{{ writer.response }} Do you like it?"]"#;
    "choices": r#"{"type": "array", "items": {"type": "string"}, "minItems": 1}"#,
        "The allowed answers. Default: any.", eg r#"[["yes", "no"]]"#;
    "default": TEXT,
        "The answer if no person can be asked or the time limit is reached; one of the choices. Default: none.",
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
        "Maximum number of tokens of a request, including the instructions. The tokens are counted with the model's \
         own tokenizer if it is known, and otherwise estimated. Default: no limit.", eg r#"[8000]"#;
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
        "The part of the history that is left out if not everything fits.", default r#""oldest_first""#,
        eg r#"["middle_out", {"recent_turns_only": 5}, {"summarize": "small"}]"#;
];

/// The keys of `strategy`.
pub(in crate::vocabulary) static STRATEGY: &[SectionKey] = keys![
    "recent_turns_only": COUNT, "Only the latest n turns are sent.", eg r#"[5]"#;
    "custom": FILLED, "A `.rhai` script whose last value is the list of the `messages` that are sent.",
        eg r#"["keep.rhai"]"#;
    "summarize": FILLED, "The oldest turns are replaced by a summary of the model of this profile.",
        eg r#"["small"]"#;
];

/// The keys of `acp`.
pub(in crate::vocabulary) static ACP: &[SectionKey] = keys![
    "command": FILLED, "The program: a name on PATH, or a path.", eg r#"["my-agent"]"#;
    "args": TEXTS, "The arguments of the program. Default: none.", eg r#"[["--acp"]]"#;
    "env": ENVIRONMENT,
        "Variables of the program's environment, in addition to the few that every program needs (`PATH`, `HOME`, \
         `LANG` and so on). A list of names of the user's variables, or a map from names to strings. Default: none.",
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
