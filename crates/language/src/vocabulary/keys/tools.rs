//! Keys of tools and of servers of tools.

use super::shapes::{ENVIRONMENT, FILLED, FLAG, SANDBOX, SCHEMA, SECONDS, TEXT, VARIABLE, WHOLE};
use super::{SectionKey, keys};

/// The keys of a tool.
pub(in crate::vocabulary) static TOOL: &[SectionKey] = keys![
    "description": TEXT, "The purpose of the tool; the model reads it.", eg r#"["Finds a word in the notes."]"#;
    "script": FILLED, "A script: a path or a command line; the arguments are its `parameters`.",
        eg r#"["search.rhai"]"#;
    "env": ENVIRONMENT,
        "Script: variables of its environment, in addition to the user's variables. The script does not receive the \
         user's variables with API keys of providers, or variables that profiles name, unless they are listed here. A \
         list of names of the user's variables, or a map from names to strings. Default: none.",
        for script, eg r#"[["GITHUB_TOKEN"], {"LOG_LEVEL": "warn"}]"#;
    "agent": FILLED, "Another agent of this ensemble that is executed for each call.", eg r#"["critic"]"#;
    "ensemble": FILLED,
        "Another ensemble: a path or a name. The tool's result is the result of the nested ensemble, or its final \
         state if it declares no result.", eg r#"["review-team"]"#;
    "mcp": r##"{"oneOf": [{"const": "client"}, {"$ref": "#/$defs/mcp"}]}"##,
        "A server for the Model Context Protocol: a program, an address, or `client`. `client` is the server with the \
         tool's name that the client of `ensemble acp` provides.",
        eg r#"["client", {"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]}]"#;
    "parameters": r#"{"type": "object", "properties": {"type": {"const": "object"}}, "required": ["type"]}"#,
        "A JSON Schema of the arguments, with `type: object`. Required for `script`; without it, `agent` and \
         `ensemble` accept a string `input`.", for script agent ensemble,
        eg r#"[{"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}]"#;
    "permission": r#"{"enum": ["allow", "ask", "deny"], "enumDescriptions": ["Calls are allowed.",
           "The program asks the person at the terminal before each call; without a terminal, the run waits for `--allow-tool` or `--deny-tool`.",
           "The tool is not offered to the model."]}"#,
        "The permission of models to call the tool. The default for tools with `mcp` is `ask`.", default r#""allow""#,
        eg r#"["ask"]"#;
    "timeout_seconds": SECONDS, "Time limit of one call (wall clock), and of the start of an MCP server.",
        default "60", eg r#"[5]"#;
    "max_result_bytes": WHOLE,
        "Maximum size of a result. Of a longer result, the model receives the beginning and the end, with the number \
         of bytes that are left out.",
        default "65536", eg r#"[2000]"#;
    "summarize_above": WHOLE,
        "A number of bytes: a model summarizes each larger result, and the asking model receives the summary. The \
         summarizing model reads at most `max_result_bytes` of the result. Default: no result is summarized.",
        eg r#"[4000]"#;
    "summarize_with": FILLED,
        "The profile of the model that writes the summaries of `summarize_above`. Default: the model of the agent that \
         makes the call.", eg r#"["quick"]"#;
    "output_schema": SCHEMA,
        "A JSON Schema that the result must match; a result that does not match is an error for the model. Not for \
         `mcp`, because a server defines the results of its tools.", for script agent ensemble,
        eg r#"[{"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}]"#;
    "exclusive": FLAG,
        "`true`: the tool never runs at the same time as another tool call of the same execution. Calls before and \
         after it keep their order.", default "false", eg r#"[true]"#;
    "repeatable": FLAG,
        "`true`: `resume` can repeat a call that was in progress when the run was interrupted. `false`: the model \
         receives a message that the call might have taken effect. Default: `false`; for a tool of an MCP server, its \
         `readOnlyHint`.", eg r#"[true]"#;
    "sandbox": SANDBOX, "Script: restricts what the process can access. `false`: everything that the user can access.",
        default "false", for script, eg r#"[{"write": ["out"]}]"#;
];

/// The keys of `mcp`.
pub(in crate::vocabulary) static MCP: &[SectionKey] = keys![
    "command": r#"{"oneOf": [{"type": "string", "pattern": "\\S"}, {"type": "array", "minItems": 1, "items": {"type":
           "string"}}]}"#,
        "The program and its arguments, as a list or as one command line.",
        eg r#"[["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]]"#;
    "env": ENVIRONMENT,
        "Variables of the program's environment, in addition to the few that every program needs (`PATH`, `HOME`, \
         `LANG` and so on). A list of names of the user's variables, or a map from names to strings. Default: none.",
        for command,
        eg r#"[["HTTPS_PROXY"], {"LOG_LEVEL": "warn"}]"#;
    "cwd": FILLED, "The working directory of the program, relative to the project root. Default: the project root.",
        for command, eg r#"["notes"]"#;
    "sandbox": SANDBOX,
        "Restricts what the process of the server can access. `false`: everything that the user can access.",
        default "false", for command, eg r#"[{"write": ["out"]}]"#;
    "url": r#"{"type": "string", "pattern": "^https?://[^/\\s]\\S*$"}"#, "The address of a streamable HTTP endpoint.",
        eg r#"["https://files.example/mcp"]"#;
    "headers": r##"{"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/setting"}]}}"##,
        "Headers of every request. Default: none.", for url,
        eg r#"[{"Authorization": {"env": "FILES_TOKEN", "prefix": "Bearer "}}]"#;
];

/// The keys of a value from the environment.
pub(in crate::vocabulary) static SETTING: &[SectionKey] = keys![
    "env": VARIABLE, "The name of the variable.", eg r#"["FILES_TOKEN"]"#;
    "prefix": TEXT, "The text that is added before the value. Default: nothing.", eg r#"["Bearer "]"#;
];
