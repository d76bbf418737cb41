//! What is wrong with model profiles and with tools.

use super::errors::check;
use super::show;
use crate::loader::load_profiles;
use crate::source::SourceText;

#[test]
fn model_profiles() {
    let rows: &[(&str, &[&str])] = &[
        ("{provider: ollama}", &["E013 2:6 `model` is missing"]),
        ("{provider: olama, model: x}", &["E016 2:17 unknown provider 'olama'"]),
        (
            "{provider: openai, model: x, base_url: 'localhost:1'}",
            &["E036 2:45 'localhost:1' is not the address of a server"],
        ),
        (
            "{provider: openai, model: x, base_url: 'http://me:pass@host'}",
            &["E036 2:45 this `base_url` contains credentials"],
        ),
        (
            "{provider: openai, model: x, base_url: 'http://gpu:1/v1', api_key_env: K}",
            &["E061 2:45 a key would be sent to this address"],
        ),
        (
            "{provider: openai, model: x, base_url: 'http://gpu:1/v1', headers: {X: {env: K}}}",
            &["E061 2:45 a key would be sent to this address"],
        ),
        (
            "{provider: openai, model: x, base_url: 'http://gpu:1/v1', headers: {X: k}}",
            &[],
        ),
        (
            "{provider: openai, model: x, base_url: 'http://[::1]:1/v1', api_key_env: K}",
            &[],
        ),
        (
            "{provider: openai, model: x, base_url: 'https://gpu:1/v1', api_key_env: K}",
            &[],
        ),
        (
            "{provider: openai, model: x, headers: {authorization: k}}",
            &["E037 2:45 the header `authorization` contains a key"],
        ),
        (
            "{provider: openai, model: x, headers: {A b: c, X-Y: {env: 1x}, X-Z: {env: A}, X-A: b}}",
            &[
                "E017 2:45 'A b' is not the name of a header",
                "E017 2:59 `env` is not the name",
            ],
        ),
        (
            "{provider: openai, model: x, cost: {input_per_million: -1}}",
            &["E013 2:41 `output_per_million` is missing", "E015 2:61"],
        ),
        ("{model: x}", &["E013 2:6 `provider` is missing"]),
        (
            "{provider: simulated}",
            &["E030 2:17 this simulated model has no replies"],
        ),
        (
            "{provider: simulated, replies: []}",
            &["E018 2:37 a simulated model needs at least one reply"],
        ),
        (
            "{provider: simulated, replies: [a], script: b}",
            &["E030 2:42 a model profile has both `replies` and `script`"],
        ),
        ("{provider: simulated, replies: [a, {error: b}]}", &[]),
        (
            "{provider: simulated, replies: [3]}",
            &["E014 2:38 expected a string, found the integer 3"],
        ),
        (
            "{provider: simulated, replies: [{}]}",
            &["E013 2:38 `error` is missing"],
        ),
        (
            "{provider: ollama, model: x, replies: [a]}",
            &["E030 2:35 this key is only allowed for a simulated model"],
        ),
        (
            "{provider: ollama, model: x, temperature: -1}",
            &["E015 2:48 expected a number from 0 to 10"],
        ),
        (
            "{provider: ollama, model: x, top_p: 1.5}",
            &["E015 2:42 expected a number from 0 to 1"],
        ),
        ("{provider: ollama, model: x, max_tokens: 0}", &["E015 2:47"]),
        ("{provider: ollama, model: x, context_window: 0}", &["E015 2:51"]),
        (
            "{provider: ollama, model: x, seed: a}",
            &["E014 2:41 expected an integer, found the string 'a'"],
        ),
        (
            "{provider: ollama, model: x, api_key_env: sk-123}",
            &["E017 2:35 `api_key_env` is not the name"],
        ),
        (
            "{provider: ollama, model: x, fallback: p}",
            &["E031 2:45 the fallbacks of these profiles form a cycle: p → p"],
        ),
        ("{provider: ollama, model: x, fallback: elsewhere}", &[]),
        (
            "{provider: ollama, model: x, fallback_model_profile: p}",
            &["E011 2:35"],
        ),
        (
            "{provider: ollama, model: x, options: {model: y, stop: [a], options: {num_predict: 3}}}",
            &[
                "E051 2:45 the program itself sets `model` in every request",
                "E051 2:76 the program itself sets `num_predict` in every request",
            ],
        ),
        (
            "{provider: ollama, model: x, options: [stop]}",
            &["E014 2:44 expected a map from parameters of the provider to values"],
        ),
        (
            "{provider: ollama, model: x, options: {num_ctx: 8192, think: true}}",
            &[],
        ),
        (
            "{provider: openai, model: x, base_url: 'https://n.openai.azure.com/openai/deployments/d?api-version=2024-10-21'}",
            &[],
        ),
        (
            "{provider: openai, model: x, base_url: 'https://h/v1?api_key=abc'}",
            &["E036 2:45 the query of this `base_url` contains a key"],
        ),
        (
            "{provider: ollama, model: x, retrys: p}",
            &["E010 2:35 unknown key 'retrys' in a model profile"],
        ),
        ("3", &["E014 2:6 expected a map (a model profile), found the integer 3"]),
    ];
    for (body, expected) in rows {
        let source = SourceText::new("config.yaml", format!("model_profiles:\n  p: {body}\n"));
        let shown = load_profiles(&source).map_or_else(|problems| show(&problems), |_| Vec::new());
        let fits = shown.len() == expected.len() && shown.iter().zip(*expected).all(|(a, b)| a.starts_with(b));
        assert!(fits, "{body}\nexpected {expected:#?}\nfound {shown:#?}");
    }
}

#[test]
fn a_circle_of_fallbacks_is_told_once() {
    let entry = |name: &str, next: &str| format!("  {name}: {{provider: ollama, model: x, fallback: {next}}}\n");
    let text = format!(
        "model_profiles:\n{}{}{}{}",
        entry("a", "b"),
        entry("b", "c"),
        entry("c", "d"),
        entry("d", "b")
    );
    let problems = load_profiles(&SourceText::new("c", text)).unwrap_err();
    assert_eq!(
        show(&problems),
        ["E031 3:45 the fallbacks of these profiles form a cycle: b → c → d → b"]
    );
}

#[test]
fn tools() {
    let rows: &[(&str, &[&str])] = &[
        ("{agent: other}", &[]),
        ("{agent: othr}", &["E021 3:14 there is no agent `othr`"]),
        (
            "{}",
            &["E035 3:6 a tool has none of `script`, `agent`, `ensemble` or `mcp`"],
        ),
        (
            "{agent: other, ensemble: x}",
            &["E035 3:21 a tool has both `agent` and `ensemble`"],
        ),
        ("{script: x}", &["E013 3:6 `parameters` is missing"]),
        (
            "{script: x, parameters: {type: string}}",
            &["E014 3:30 the schema of a tool's arguments must have"],
        ),
        (
            "{script: x, parameters: {type: objekt}}",
            &["E029 3:30 this is not a valid JSON Schema"],
        ),
        (
            "{agent: other, permission: maybe}",
            &["E016 3:33 expected `allow`, `ask` or `deny`"],
        ),
        ("{agent: other, timeout_seconds: 0}", &["E015 3:38"]),
        ("{agent: other, max_result_bytes: 0}", &["E015 3:39"]),
        ("{agent: other, summarize_above: 0}", &["E015 3:38"]),
        (
            "{agent: other, comand: x}",
            &["E010 3:21 unknown key 'comand' in a tool"],
        ),
        ("{mcp: {}}", &["E035 3:12 `mcp` has none of `command` or `url`"]),
        (
            "{mcp: {command: x, url: 'http://x'}}",
            &["E035 3:25 `mcp` has both `command` and `url`"],
        ),
        ("{mcp: client}", &[]),
        ("{mcp: clent}", &["E016 3:12 expected `client` or a map, found 'clent'"]),
        ("{mcp: [client]}", &["E014 3:12 expected a map (`mcp`), found a list"]),
        ("{mcp: {command: []}}", &["E018 3:22 this command is empty"]),
        (
            "{mcp: {command: x, headers: {}}}",
            &["E025 3:25 `headers` is not allowed for a server with `command`"],
        ),
        (
            "{mcp: {url: 'http://x', env: {}}}",
            &["E025 3:30 `env` is not allowed for a server with `url`"],
        ),
        ("{mcp: {url: x}}", &["E016 3:18 'x' is not the address of a server"]),
        (
            "{mcp: {command: x}, parameters: {}}",
            &["E025 3:26 `parameters` is not allowed"],
        ),
        (
            "{mcp: {command: x, env: {A: {env: sk-1}}}}",
            &["E017 3:35 `env` is not the name of an environment variable"],
        ),
        ("{mcp: {command: x, env: [A, B]}}", &[]),
        (
            "{mcp: {command: x, env: [sk-1, B]}}",
            &["E017 3:31 `env` is not the name of an environment variable"],
        ),
        (
            "{mcp: {command: x, env: {A=B: c}}}",
            &["E017 3:31 'A=B' is not the name of an environment variable"],
        ),
        (
            "{mcp: {command: x, env: A}}",
            &["E014 3:30 expected a list of names, or a map"],
        ),
        (
            "{mcp: {command: x}, env: [A]}",
            &["E025 3:26 `env` is not allowed for a tool with `mcp`"],
        ),
        (
            "{agent: other, env: [A]}",
            &["E025 3:21 `env` is not allowed for a tool with `agent`"],
        ),
        ("{script: x, parameters: {type: object}, env: {A: b, C: {env: D}}}", &[]),
        (
            "{mcp: {url: 'http://gpu:1/mcp', headers: {A: {env: B}}}}",
            &["E061 3:18 a key would be sent to this address"],
        ),
        ("{mcp: {url: 'http://gpu:1/mcp', headers: {A: b}}}", &[]),
        ("{mcp: {url: 'http://127.0.0.1:1/mcp', headers: {A: {env: B}}}}", &[]),
        (
            "{mcp: {command: x, env: {A: {prefix: y}}}}",
            &["E013 3:34 `env` is missing"],
        ),
    ];
    for (tool, expected) in rows {
        let text = format!("agents: [{{name: other, script: o.sh}}]\ntools:\n  t: {tool}\nname: e\n");
        check(&text, expected);
    }
    check(
        "name: e\nagents: [{name: a, model: xai/b, tools: [t.x, T]}, {name: b, script: x}]\ntools: {t: {agent: b}, 'a b': \
         {agent: b}}\n",
        &[
            "E034 2:42 `t` is a single tool and contains no other tools",
            "E034 2:47 there is no tool 'T'",
            "E017 3:24 'a b' is not a valid name of a tool",
        ],
    );
}
