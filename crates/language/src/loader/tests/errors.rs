//! One row for every rule: text, then code, line, column and words.

use super::shown;
use crate::loader::codes;

/// Returns an ensemble with this agent body (each line indented by four) beside a sound agent `other`.
fn agent(body: &str) -> String {
    let body = body.replace('\n', "\n    ");
    format!("name: e\nagents:\n  - name: other\n    script: o.sh\n  - name: a\n    {body}\n")
}

pub(super) fn check(text: &str, expected: &[&str]) {
    let shown = shown(text);
    let fits = shown.len() == expected.len() && shown.iter().zip(expected).all(|(a, b)| a.starts_with(b));
    assert!(fits, "\n{text}\nexpected {expected:#?}\nfound {shown:#?}");
}

#[test]
fn the_ensemble() {
    let rows: &[(&str, &[&str])] = &[
        ("name: e\n", &["E013 1:1 `agents` is missing"]),
        ("agents: [{name: a, script: x}]\n", &["E013 1:1 `name` is missing"]),
        (
            "name: e\nagents: []\n",
            &["E018 2:9 an ensemble must have at least one agent"],
        ),
        (
            "name: e\nagents: x\n",
            &["E014 2:9 expected a list of agents, found the string 'x'"],
        ),
        ("name: e\nagents:\n", &["E013 1:1 `agents` is missing"]),
        ("- a\n", &["E014 1:1 expected a map (the ensemble), found a list"]),
        (
            "name: a b\nagents: [{name: a, script: x}]",
            &["E017 1:7 'a b' is not a valid name"],
        ),
        (
            "name: 7\nagents: [{name: a, script: x}]",
            &["E014 1:7 expected a string, found the integer 7"],
        ),
        (
            "name: e\nagents: [{name: a, script: x}]\nnmae: 1\nwhatever: 2\nmax_turns: 3\nsynthesis: {}\ntools: []\n",
            &[
                "E010 3:1 unknown key 'nmae' in the ensemble",
                "E010 4:1 unknown key 'whatever'",
                "E010 5:1 unknown key 'max_turns'",
                "E011 6:1 `synthesis` is a key of llm-orc",
                "E014 7:8 expected a map from names to tools, found a list",
            ],
        ),
        (
            "name: e\nagents: [{name: a, script: x}, {name: b, script: x}, {name: a, script: x}]",
            &["E020 2:61 two agents have the name `a`"],
        ),
    ];
    for (text, expected) in rows {
        check(text, expected);
    }
}

#[test]
fn agents() {
    let rows: &[(&str, &[&str])] = &[
        (
            "script: x\nmodel_profile: p",
            &["E023 7:5 agent 'a' has both `script` and `model_profile`"],
        ),
        ("description: x", &["E022 5:11 agent 'a' has nothing to run"]),
        ("type: llm", &["E022 5:11 agent 'a' has nothing to run"]),
        // A misspelt key is one mistake, and one finding.
        ("scritp: x", &["E010 6:5 unknown key 'scritp' in an agent"]),
        ("modle: xai/x", &["E010 6:5 unknown key 'modle'"]),
        (
            "descripton: x",
            &[
                "E022 5:11 agent 'a' has nothing to run",
                "E010 6:5 unknown key 'descripton'",
            ],
        ),
        ("type: llm\nscript: x", &["E024 6:11 `type: llm` contradicts `script`"]),
        (
            "type: lmm\nscript: x",
            &["E016 6:11 expected `script`, `llm`, `input`, `ensemble`, `acp` or `tool`, found the string 'lmm'"],
        ),
        (
            "script: x\nprompt: y",
            &["E025 7:5 `prompt` is not allowed for an agent of type script"],
        ),
        ("script: x\nenv: [A, B]", &[]),
        ("script: x\nenv: {A: b, C: {env: D, prefix: e}}", &[]),
        (
            "model: xai/b\nenv: [A]",
            &["E025 7:5 `env` is not allowed for an agent of type llm"],
        ),
        (
            "input: q\nprompt: y",
            &["E025 7:5 `prompt` is not allowed for an agent of type input"],
        ),
        (
            "ensemble: x\nsystem_prompt: y",
            &["E025 7:5 `system_prompt` is not allowed for an agent of type ensemble"],
        ),
        (
            "script: x\nconversation: {memory: none}",
            &["E025 7:20 `memory` is not allowed"],
        ),
        ("script: ''", &["E018 6:13 this string is empty"]),
        ("script: [x]", &["E014 6:13 expected a string, found a list"]),
        ("script: x\nscrpt: y", &["E010 7:5 unknown key 'scrpt' in an agent"]),
        ("script: x\nwhen: y", &["E011 7:5 `when` is a key of llm-orc"]),
        ("acp: claud", &["E086 6:10 there is no external agent 'claud'"]),
        ("acp: {args: [x]}", &["E013 6:10 `command` is missing"]),
        (
            "acp: claude\ntools: []\nmax_iterations: 3",
            &["E025 8:5 `max_iterations` is not allowed for an agent of type acp"],
        ),
        (
            "acp: claude\npermissions: {edit: always}",
            &["E016 7:25 expected `allow`, `ask` or `deny`, found the string 'always'"],
        ),
        (
            "acp: claude\npermissions: {write: ask}",
            &["E010 7:19 unknown key 'write' in `permissions`"],
        ),
        (
            "script: x\npermissions: {edit: ask}",
            &["E025 7:5 `permissions` is not allowed for an agent of type script"],
        ),
        ("tool: wiki.search", &["E034 6:11 there is no MCP server 'wiki'"]),
        ("tool: 3", &["E014 6:11 expected a string"]),
        ("tool: search", &["E091 6:11 'search' does not name a tool of a server"]),
        (
            "script: x\narguments: {a: 1}",
            &["E025 7:5 `arguments` is not allowed for an agent of type script"],
        ),
        (
            "model: ollama/b\ntool: x",
            &["E023 7:5 agent 'a' has both `model` and `tool`"],
        ),
        ("script: x\nfan_out: true", &["E011 7:5 `fan_out`"]),
        (
            "script: x\ntools: [x]",
            &["E025 7:5 `tools` is not allowed for an agent of type script"],
        ),
        (
            "model: xai/b\ntools: [x, y.z]",
            &["E034 7:13 there is no tool 'x'", "E034 7:16 there is no tool 'y'"],
        ),
        ("model: xai/b\ntools: x", &["E014 7:12 expected a list of tool names"]),
        ("model: xai/b\nmax_iterations: 0", &["E015 7:21"]),
        (
            "script: x\ncontext_window: {max_tokens: 1}",
            &["E025 7:5 `context_window` is not allowed for an agent of type script"],
        ),
        (
            "model: xai/x\ncontext_window: 5",
            &["E014 7:21 expected a map (`context_window`)"],
        ),
        (
            "model: xai/x\ncontext_window: {}",
            &["E013 7:21 `context_window` has no limit"],
        ),
        (
            "model: xai/x\ncontext_window: {strategy: middle_out}",
            &["E013 7:21 `context_window` has no limit"],
        ),
        (
            "model: xai/x\ncontext_window: {max_tokens: 0, max_message: 3}",
            &[
                "E015 7:34 expected an integer of at least 1",
                "E010 7:37 unknown key 'max_message'",
            ],
        ),
        (
            "model: xai/x\ncontext_window: {max_tokens: 9, strategy: oldest}",
            &["E016 7:47 expected `oldest_first`, `middle_out` or `summarize`, found the string 'oldest'"],
        ),
        (
            "model: xai/x\ncontext_window: {max_tokens: 9, strategy: custom}",
            &["E013 7:47 this strategy needs a value"],
        ),
        (
            "model: xai/x\ncontext_window: {max_tokens: 9, strategy: {}}",
            &["E013 7:47 `strategy` has none of `recent_turns_only`, `custom` or `summarize`"],
        ),
        (
            "model: xai/x\ncontext_window: {max_tokens: 9, strategy: {custom: a.rhai, summarize: p}}",
            &["E023 7:64 `strategy` has both `custom` and `summarize`"],
        ),
        (
            "model: xai/x\ncontext_window: {min_recent_turns: 3, strategy: {recent_turns_only: 2}}",
            &["E015 7:40 expected at most 2, because `recent_turns_only` keeps no more turns"],
        ),
        (
            "model: llama",
            &["E033 6:12 'llama' does not have the form `provider/model`"],
        ),
        ("model: /x", &["E033 6:12"]),
        ("model: opneai/x", &["E016 6:12 unknown provider 'opneai'"]),
        (
            "script: x\nconfig: {a: 1}\nparameters: {b: 2}",
            &["E019 8:5 `parameters` is another spelling of `config`"],
        ),
        ("script: x\nconfig: [1]", &["E014 7:13 expected a map, found a list"]),
        (
            "script: x\nconfig: {a: .nan, b: [.inf]}",
            &["E008 7:17 .nan cannot be represented in JSON", "E008 7:27 .inf"],
        ),
        (
            "script: x\ntimeout_seconds: 0",
            &["E015 7:22 expected a number of seconds greater than 0, found the integer 0"],
        ),
        (
            "script: x\ntimeout_seconds: soon",
            &["E014 7:22 expected a number of seconds greater than 0, found the string 'soon'"],
        ),
        (
            "script: x\ntimeout_seconds: 1e300",
            &["E015 7:22 expected at most 1000000000 seconds"],
        ),
        ("script: x\ntimeout_seconds: .nan", &["E015 7:22"]),
        (
            "script: x\nretry: {max_attempts: 0}",
            &["E015 7:27 expected an integer of at least 1, found the integer 0"],
        ),
        (
            "script: x\nretry: {max_attempts: 2.5}",
            &["E014 7:27 expected an integer of at least 1, found the number 2.5"],
        ),
        (
            "script: x\nretry: {max_attempts: 5000000000}",
            &["E015 7:27 expected an integer of at most 4294967295"],
        ),
        (
            "script: x\nretry: {delay_seconds: -1}",
            &["E015 7:28 expected a number of seconds of at least 0"],
        ),
        (
            "script: x\nretry: {backoff: expo}",
            &["E016 7:22 expected `constant`, `linear` or `exponential`"],
        ),
        (
            "script: x\non_error: ignore",
            &["E016 7:15 expected `fail`, `continue` or `stop`"],
        ),
        (
            "script: x\nconversation: {max_turns: three}",
            &["E014 7:31 expected an integer of at least 1, found the string 'three'"],
        ),
        ("script: x\nconversation: {max_turns: -1}", &["E015 7:31"]),
        (
            "script: x\ndependencies: [{agent_name: other, requires_all: false, wait_for: update}]",
            &["E039 7:61 `wait_for` has no effect"],
        ),
        (
            "script: x\ndependencies: [{agent_name: other, wait_for: ever}]",
            &["E016 7:50"],
        ),
        (
            "script: x\nconversation: {state_key: other}",
            &["E027 7:31 the `state_key` `other` is the name of another agent"],
        ),
        ("script: x\nconversation: {state_key: a}", &[]),
        ("script: x\nconversation: {state_key: 'a b'}", &["E017 7:31"]),
        (
            "script: x\nconversation: {triggers_conversation: yes}",
            &["E014 7:43 expected true or false, found the string 'yes'"],
        ),
        (
            "script: x\nconversation: {trigger: always}",
            &["E016 7:29 expected `news`, `every_turn` or `request`"],
        ),
        (
            "model: ollama/b\nconversation: {memory: all}",
            &["E016 7:28 expected `conversation` or `none`"],
        ),
        (
            "script: x\noutput_schema: {type: strin}",
            &["E029 7:20 this is not a valid JSON Schema: "],
        ),
        ("script: x\noutput_schema: x", &["E029 7:20"]),
    ];
    for (body, expected) in rows {
        check(&agent(body), expected);
    }
}

#[test]
fn tools_without_a_model() {
    let server = "{mcp: {command: w}}";
    let script = "{script: w, parameters: {type: object}}";
    let rows: &[(&str, &str, &[&str])] = &[
        ("wiki.search", server, &[]),
        ("wiki.search.all", server, &[]),
        ("wiki", server, &["E091 2:26 'wiki' does not name a tool of a server"]),
        ("wiki.", server, &["E091 2:26 'wiki.' does not name a tool"]),
        ("wkii.search", server, &["E034 2:26 there is no MCP server 'wkii'"]),
        ("wiki.search", script, &["E090 2:26 `wiki` is not an MCP server"]),
        ("wiki.search, arguments: [1]", server, &["E014 2:50 expected a map"]),
    ];
    for (tool, wiki, expected) in rows {
        check(
            &format!("name: e\nagents: [{{name: a, tool: {tool}}}]\ntools: {{wiki: {wiki}}}\n"),
            expected,
        );
    }
}

#[test]
fn dependencies() {
    let rows: &[(&str, &[&str])] = &[
        ("depends_on: [othr]", &["E021 7:18 there is no agent `othr`"]),
        (
            "depends_on: other",
            &["E014 7:17 expected a list of agent names, found the string 'other'"],
        ),
        (
            "depends_on: [other, other]",
            &["E026 7:25 `other` is in `depends_on` twice"],
        ),
        (
            "depends_on: [{agent_name: other}]",
            &["E014 7:18 expected the name of an agent, found a map"],
        ),
        ("dependencies: [other]", &["E014 7:20 expected a map, found a string"]),
        (
            "dependencies: [{condition: input}]",
            &["E013 7:20 `agent_name` is missing"],
        ),
        (
            "dependencies: [{agent_name: nobody}]",
            &["E021 7:33 there is no agent `nobody`"],
        ),
        (
            "depends_on: [other]\ndependencies: [{agent_name: other}]",
            &["E026 8:33 `other` is in both `depends_on` and `dependencies`"],
        ),
        (
            "dependencies: [{agent_name: other, condition: input}, {agent_name: other, condition: input}]",
            &["E026 7:72 two dependencies on `other` have the same condition"],
        ),
        (
            "dependencies: [{agent_name: other, condition: input}, {agent_name: other, condition: context}]",
            &[],
        ),
        (
            "dependencies: [{agent_name: other, condition: 1 +}, {agent_name: other, condition: ''}]",
            &[
                "E041 7:54 unexpected end of the condition",
                "E028 7:88 the condition is blank",
            ],
        ),
        ("dependencies: [{agent_name: other, condition: true}]", &[]),
        (
            "dependencies: [{agent_name: other, condition: contxt}]",
            &["E041 7:51 unknown variable `contxt`"],
        ),
        (
            "dependencies: [{agent_name: other, condition: ' '}]",
            &["E028 7:51 the condition is blank"],
        ),
        (
            "dependencies: [{agent_name: other, condition: }]",
            &["H028 7:40 `condition` has no value, so this dependency has no condition"],
        ),
        (
            "dependencies: [{agent_name: other, condition: 1}]",
            &["E014 7:51 expected a condition"],
        ),
        (
            "dependencies: [{agent_name: other, on: sometimes}]",
            &["E016 7:44 expected `success`, `failure` or `any`"],
        ),
        ("dependencies: [{agent_name: other, max_executions: 0}]", &["E015 7:56"]),
        (
            "dependencies: [{agent_name: other, feedback: 1}]",
            &["E014 7:50 expected true or false, found the integer 1"],
        ),
    ];
    for (body, expected) in rows {
        check(&agent(&format!("script: x\n{body}")), expected);
    }
}

#[test]
fn input() {
    let rows: &[(&str, &[&str])] = &[
        ("input: Really?", &[]),
        ("input: {choices: [yes, no]}", &["E013 6:12 `prompt` is missing"]),
        (
            "input: {prompt: q, choices: [yes, no], default: maybe}",
            &["E032 6:53 the default 'maybe' is not one of the choices"],
        ),
        (
            "input: {prompt: q, choices: [true]}",
            &["E014 6:34 expected a string, found the Boolean true"],
        ),
        ("input: {prompt: q, choices: []}", &["E018 6:33 this list is empty"]),
        ("input: {prompt: q, responses: [a, b]}", &[]),
        ("input: {prompt: q, responses: []}", &["E018 6:35"]),
        (
            "input: {prompt: q, responses: {}}",
            &["E013 6:35 `responses` has none of `script` or `model_profile`"],
        ),
        (
            "input: {prompt: q, responses: {script: a.rhai, model_profile: p}}",
            &["E023 6:52"],
        ),
        ("input: {prompt: q, timeout_seconds: -1}", &["E015 6:41"]),
        ("input: 3", &["E014 6:12 expected a map (`input`), found the integer 3"]),
    ];
    for (body, expected) in rows {
        check(&agent(body), expected);
    }
}

#[test]
fn limits() {
    let rows: &[(&str, &[&str])] = &[
        ("max_total_turns: 0", &["E015 5:20"]),
        (
            "max_agent_executions: {other: 3, nobody: 2, nobody2: x}",
            &[
                "E021 5:36 there is no agent `nobody`",
                "E021 5:47 there is no agent `nobody2`",
                "E014 5:56",
            ],
        ),
        (
            "max_agent_executions: [other]",
            &["E014 5:25 expected a map from agents to counts, found a list"],
        ),
        ("timeout_seconds: 0.5", &[]),
        ("turn_timeout_seconds: 0", &["E015 5:25"]),
        ("parallel_agent_limit: 0", &["E015 5:25"]),
        ("max_total_tokens: 99999999999", &[]),
        ("budget: conversation\n  max_total_tokens: 1", &[]),
        (
            "budget: run\n  max_cost: 1",
            &["E016 5:11 expected `conversation` or `message`, found the string 'run'"],
        ),
        (
            "max_turn: 3",
            &["E010 5:3 unknown key 'max_turn' in `conversation_limits`"],
        ),
    ];
    for (body, expected) in rows {
        check(
            &format!("name: e\nagents:\n  - {{name: other, script: x}}\nconversation_limits:\n  {body}\n"),
            expected,
        );
    }
}

#[test]
fn yaml_itself() {
    let rows: &[(&str, &[&str])] = &[
        ("", &["E003 1:1 the file contains no document"]),
        ("# only a comment\n", &["E003 2:1 the file contains no document"]),
        ("name: e\n---\nname: f\n", &["E003 2:1 a second document starts here"]),
        (
            "name: e\nname: f\nagents: [{name: a, script: x}]",
            &["E004 2:1 duplicate key `name` in a map"],
        ),
        ("name: *e\n", &["E005 1:7 the anchor of this alias is not defined"]),
        (
            "name: &e [*e]\n",
            &[
                "E013 1:1",
                "E014 1:10",
                "E005 1:11 this alias is inside the value of its own anchor",
            ],
        ),
        (
            "name: e\nagents: [{name: a, script: x, <<: 3}]",
            &["E005 2:31 the value of `<<` must be a map"],
        ),
        (
            "name: !foo e\nagents: [{name: a, script: x}]",
            &["E006 1:12 the tag `!foo` is not supported"],
        ),
        (
            "name: !!int e\nagents: [{name: a, script: x}]",
            &["E006 1:13 the value does not match its tag `!!int`"],
        ),
        (
            "name: e\n3: x\nagents: [{name: a, script: x}]",
            &["E007 2:1 the key `3` is not a string"],
        ),
        (
            "name: e\n[a]: x\nagents: [{name: a, script: x}]",
            &["E007 2:1 a map or a list is used as a key"],
        ),
        (
            "name: e\nagents:\n\t- name: a\n",
            &["E001 3:1 a tab is used for indentation"],
        ),
        ("name: e\n\tagents: []\n", &["E001 2:1 a tab is used for indentation"]),
        ("name: a: b\n", &["E001 1:8 unexpected colon"]),
        (
            "name: \"abc\nagents: []\n",
            &["E001 1:7 the closing quote of this string is missing"],
        ),
        ("name: [a, b\n", &["E001 1:12 expected a comma or `]`"]),
        ("name: {a b\n", &["E001 1:11 expected a comma or `}`"]),
        ("name: \"a\\q\"\n", &["E001 1:7 unknown escape sequence"]),
        (
            "name: 'a' b\n",
            &["E001 1:11 unexpected content after the closing quote"],
        ),
        (
            "name: @a\n",
            &["E001 1:7 a string without quotes cannot start with this character"],
        ),
        ("name: e\n  x: 1\n", &["E001 2:4 unexpected colon"]),
        ("name: e\nagents\n", &["E001 2:7 expected `:` after the key"]),
        ("name: a\0b\n", &["E001 1:8 a character that YAML does not allow"]),
        ("name: e\n- a\n", &["E001 2:3 expected a key"]),
        ("- a\nb: c\n", &["E001 2:1 expected an item of the list"]),
        ("name: - b\n", &["E001 1:7 unexpected item of a list"]),
        ("name: [a, - ]\n", &["E001 1:11"]),
        ("name: |x\n b\n", &["E001 1:7 unexpected content after `|` or `>`"]),
        ("name: &\n", &["E001 1:7 the anchor or alias has no name"]),
        ("name: !<x\n", &["E001 1:7 the syntax of this tag is not valid"]),
        ("name: b # c\n  d\n", &["E001 1:9 a comment interrupts this string"]),
        ("name: b\n]\n", &["E001 2:1 a closing bracket has no opening bracket"]),
        (
            "name: \"\\u00zz\"\n",
            &["E001 1:7 the escape sequence is not a hexadecimal number"],
        ),
    ];
    for (text, expected) in rows {
        check(text, expected);
    }
}

#[test]
fn every_help_is_there() {
    let help = |text: &str| super::loaded(text).diagnostics()[0].help.clone().unwrap_or_default();
    let rows = [
        (agent("script: x\nscrpt: y"), "did you mean `script`?"),
        (
            agent("script: x\nmax_turns: 3"),
            "`max_turns` is a key of `conversation`",
        ),
        (agent("script: x\ndepends_on: [othr]"), "did you mean `other`?"),
        (agent("script: x\nwhen: y"), "`condition`"),
        (agent("script: x\non_error: fial"), "did you mean `fail`?"),
        (agent("script: 3"), "quote the value: '3'"),
        (
            agent("description: x"),
            "`script`, `model_profile` (or `model`), `input`, `ensemble`, `acp` or `tool`",
        ),
        (agent("model: ollama/b\nprompt: {{ input }}"), "quote a template"),
    ];
    for (text, expected) in rows {
        assert!(help(&text).contains(expected), "{text}\n{}", help(&text));
    }
}

#[test]
fn all_problems_are_told_and_not_endlessly() {
    let many: String = (0..500).map(|at| format!("bad{at}: 1\n")).collect();
    let problems = super::loaded(&format!("name: e\n{many}")).diagnostics();
    assert_eq!(problems.len(), crate::loader::MAX_FINDINGS);
    let more = problems
        .iter()
        .filter_map(|it| it.help.as_deref())
        .any(|it| it.ends_with("further findings of this file that are not shown: 401"));
    assert!(more, "{:?}", problems.last());
}

#[test]
fn every_error_code_is_told_by_some_row() {
    // The rows above name their codes; this keeps a new code from going without one.
    let rows = [
        include_str!("errors.rs"),
        include_str!("model_errors.rs"),
        include_str!("given_errors.rs"),
        include_str!("bombs.rs"),
    ]
    .concat();
    for (code, title) in codes::ALL
        .iter()
        .filter(|(code, _)| code.0 < "E040" && code.0.starts_with('E'))
    {
        assert!(rows.contains(&format!("\"{}", code.0)), "{}: {title}", code.0);
    }
}

/// A key with `null` is a key that is left out, and does not undo a default.
#[test]
fn null_is_the_same_as_leaving_the_key_out() {
    let loaded = |text: &str| {
        let loaded = crate::loader::load_ensemble(&crate::source::SourceText::new("t", text));
        assert!(loaded.ensemble.is_some(), "{text}\n{:#?}", loaded.findings);
        loaded.ensemble.unwrap()
    };
    let plain = loaded("name: e\nagents:\n- {name: a, script: x}\n");
    let nulls = loaded(
        "name: e\ndescription: null\nresult: null\ninputs: ~\ntools: null\ndefaults:\nmodel_profiles: null\n\
         conversation_limits: {max_total_turns: null}\nagents:\n- {name: a, script: x, model_profile: null, input: null, \
         ensemble: null, acp: null, prompt: null, depends_on: null, dependencies: null, conversation: {max_turns: null, \
         state_key: null}, output_schema: null, timeout_seconds: null, retry: {max_attempts: null}, on_error: null, config: null, \
         tools: null, for_each: null, type: null}\n",
    );
    assert_eq!(plain.agents, nulls.agents);
    assert!(nulls.result.is_none() && nulls.tools.is_empty());
    let text = |own: &str| {
        format!(
            "name: e\ndefaults: {{timeout_seconds: 5, model_profile: null, conversation: {{max_turns: 3}}, config: {{k: 1}}}}\n\
             agents:\n- {{name: a, script: x{own}}}\n"
        )
    };
    let with_defaults = loaded(&text(""));
    assert_eq!(with_defaults.agents[0].conversation.max_turns.get(), 3);
    for own in [
        ", timeout_seconds: null",
        ", conversation: null",
        ", conversation: {max_turns: null}",
        ", config: null",
    ] {
        assert_eq!(loaded(&text(own)).agents, with_defaults.agents, "{own}");
    }
    // In data of the author, `null` is a value.
    let data = loaded(&text(", config: {k: null}"));
    assert!(data.agents[0].config["k"].is_null());
}
