//! Sound texts: what becomes of them, and that a second reader of YAML agrees.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;

use super::loaded;
use crate::ensemble::{
    AgentKind, AgentTrigger, BudgetScope, CommandLine, ContextWindow, DependencyPosition, Ensemble, EnvOrHeaderValue,
    McpServer, MemoryMode, ModelChoice, OnError, OnResume, PermissionMode, PreparedResponses, RequiredResult,
    RetryBackoff, SimulatedReply, SimulatedReplySource, SimulatedToolCall, ToolDefinition, ToolKind, WindowStrategy,
};
use crate::loader::{load_answers, load_context, load_profiles};
use crate::source::SourceText;

pub(super) const FULL: &str = r#"
name: full.example-1
description: |
  Everything that the language has.
default_task: do it
conversation_limits:
  max_total_turns: 12
  max_agent_executions: {writer: 5, asker: 2}
  timeout_seconds: 90.5
  turn_timeout_seconds: 30
  parallel_agent_limit: 2
  max_total_tokens: 100000
  budget: message
model_profiles:
  quick: {provider: simulated, replies: [one, {text: two, tool_calls: [{name: look, arguments: {n: 1}}]}, {error: broken}]}
  scripted:
    provider: simulated
    script: replies.rhai
  real:
    provider: ollama
    model: llama3
    base_url: http://localhost:11434
    api_key_env: SOME_KEY
    system_prompt: be kind
    temperature: 0.5
    top_p: 1
    max_tokens: 500
    context_window: 8192
    seed: -7
    timeout_seconds: 10
    retry: {max_attempts: 3, delay_seconds: 0, backoff: linear}
    fallback: quick
tools:
  look: {description: Looks., script: look.rhai, parameters: {type: object}}
  review: {agent: reviewer, permission: ask, timeout_seconds: 0.5, max_result_bytes: 10, summarize_above: 5, summarize_with: quick, exclusive: true, output_schema: {type: string}}
  team: {ensemble: team.yaml, parameters: {type: object}, permission: deny}
  files: {mcp: {command: [npx, files], env: {A: b, C: {env: D, prefix: e}}, cwd: sub}}
  far: {mcp: {url: "https://far.example/mcp", headers: {Authorization: {env: KEY}}}, permission: allow}
agents:
  - name: collector
    description: collects
    type: script
    script: collect.py
    parameters: {deep: {list: [1, 2.5, null, true, 'on', on]}}
    timeout_seconds: 1.5
    retry: {max_attempts: 2}
    on_error: continue
  - name: writer
    model_profile: real
    prompt: "Write about {{ input }}"
    system_prompt: You write.
    tools: [look, files.read, far, look]
    max_iterations: 4
    max_parallel_tools: 2
    depends_on: [collector]
    dependencies:
      - agent_name: reviewer
        condition: "not output.get('done', False)"
        max_executions: 3
        requires_all: false
        feedback: true
        on: any
      - {agent_name: asker, condition: true, requires_all: false}
    conversation: {max_turns: 4, state_key: draft, triggers_conversation: true, trigger: every_turn, memory: none, on_resume: rerun}
    output_schema: {type: object, properties: {text: {type: string}}}
  - name: reviewer
    model: openai/gpt-4o/mini
    depends_on: [writer]
    context_window:
      max_tokens: 8000
      max_messages: 40
      preserve_system_message: false
      min_recent_turns: 2
      strategy: middle_out
  - name: asker
    input: {prompt: "Go on?", choices: [yes, no], default: no, timeout_seconds: 5, responses: [yes, no]}
  - name: asker2
    input: Really?
  - name: asker3
    input: {prompt: q, responses: {script: answer.rhai}}
  - name: asker4
    input: {prompt: q, responses: {model_profile: quick}}
  - name: sub
    type: ensemble
    ensemble: other.yaml
"#;

pub(super) const TEXTS: &[&str] = &[
    FULL,
    "name: e\nagents: [{name: a, script: x}]",
    "\u{feff}name: e\r\nagents:\r\n- name: a\r\n  script: |\r\n    one\r\n    two\r\n",
    "%YAML 1.2\n---\nname: e\nagents:\n- name: a\n  script: >-\n    folded\n    text\n\n    more\n...\n",
    "base: &base\n  timeout_seconds: 3\n  config: {a: 1}\nname: e\nagents:\n- <<: *base\n  name: a\n  script: x\n- <<: [*base, {on_error: continue, timeout_seconds: 9}]\n  name: b\n  config: {b: 2}\n",
    "{\"name\": \"e\", \"agents\": [{\"name\": \"a\", \"script\":\"x\", \"config\": {\"k\": [1,-2,3.5e3,true,null,\"\\u00e9\\n\"]}}]}",
    "name: e\nagents:\n  - name: a\n    script: 'it''s'\n    config:\n      nested:\n      - - 1\n        - 2\n      - k: v\n        l: \"a\\\n          b\"\n      hex: 0x1F\n      oct: 0o17\n      float: 1.\n      exp: 1e3\n      text: [yes, no, on, off, y, n, 1_000, 1:30, ~x, .5x, +, '']\n      nulls: [~, null, Null, NULL, ]\n      bools: [true, True, FALSE]\n      strings: [\"true\", 'null', !!str 3]\n      ? long key\n      : value\n",
];

fn ensemble(text: &str) -> Ensemble {
    let loaded = loaded(text);
    assert!(loaded.findings.is_empty(), "{:#?}", loaded.findings);
    loaded.ensemble.expect("no findings, so an ensemble")
}

fn count(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("not zero")
}

#[test]
fn the_whole_language_is_read() {
    let it = ensemble(FULL);
    assert_eq!(
        (&*it.name, it.default_task.as_deref()),
        ("full.example-1", Some("do it"))
    );
    assert_eq!(it.description.as_deref(), Some("Everything that the language has.\n"));
    assert_eq!(it.limits.max_total_turns, count(12));
    assert_eq!(
        it.limits.max_agent_executions,
        [("writer".into(), count(5)), ("asker".into(), count(2))]
    );
    assert_eq!(it.limits.timeout, Duration::from_millis(90_500));
    assert_eq!(it.limits.turn_timeout, Some(Duration::from_secs(30)));
    assert_eq!(it.limits.parallel_agents, Some(count(2)));
    assert_eq!(it.limits.max_total_tokens, Some(100_000));
    assert_eq!(it.limits.budget, Some(BudgetScope::Message));

    let collector = &it.agents[0];
    assert!(matches!(&collector.kind, AgentKind::Script { script, .. } if script == "collect.py"));
    let config = json!({"deep": {"list": [1, 2.5, null, true, "on", "on"]}});
    assert_eq!(serde_json::Value::Object(collector.config.clone()), config);
    assert_eq!(collector.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(
        (collector.retry.max_attempts, collector.retry.backoff),
        (count(2), RetryBackoff::Exponential)
    );
    assert_eq!(collector.on_error, OnError::Continue);
    assert_eq!(collector.conversation.max_turns, count(1));

    let writer = &it.agents[1];
    let AgentKind::Llm(llm) = &writer.kind else {
        panic!("{writer:?}")
    };
    assert_eq!(llm.model, ModelChoice::Profile("real".into()));
    assert_eq!(llm.prompt.as_deref(), Some("Write about {{ input }}"));
    assert_eq!(
        (llm.system_prompt.as_deref(), llm.memory),
        (Some("You write."), MemoryMode::None)
    );
    let used: Vec<_> = llm
        .tools
        .iter()
        .map(|one| (&*one.tool, one.member.as_deref()))
        .collect();
    assert_eq!(used, [("look", None), ("files", Some("read")), ("far", None)]);
    assert_eq!(llm.max_iterations, count(4));
    assert_eq!(llm.max_parallel_tools, count(2));
    let [first, second, third] = writer.dependencies.as_slice() else {
        panic!("{writer:?}")
    };
    assert_eq!(
        (&*first.agent_name, first.declared_at, first.requires_all),
        ("collector", DependencyPosition::DependsOn(0), true)
    );
    assert_eq!(second.condition.as_deref(), Some("not output.get('done', False)"));
    assert_eq!(
        (second.max_executions, second.requires_all, second.feedback),
        (Some(count(3)), false, true)
    );
    assert_eq!(
        (second.on, second.declared_at),
        (RequiredResult::Any, DependencyPosition::Dependencies(0))
    );
    assert_eq!(
        (third.condition.as_deref(), third.on, third.feedback),
        (Some("true"), RequiredResult::Success, false)
    );
    assert_eq!(writer.conversation.max_turns, count(4));
    let tool = |name: &str| it.find_tool(name).expect("a tool").clone();
    let look = tool("look");
    assert_eq!(
        (look.permission, look.timeout),
        (PermissionMode::Allow, ToolDefinition::TIMEOUT)
    );
    assert_eq!(
        (look.max_result_bytes, look.exclusive),
        (ToolDefinition::MAX_RESULT_BYTES, false)
    );
    assert_eq!((look.summarize_above, look.summarize_with.as_deref()), (None, None));
    assert!(matches!(look.kind, ToolKind::Script { script, .. } if script == "look.rhai"));
    let review = tool("review");
    assert_eq!(
        (review.permission, review.timeout),
        (PermissionMode::Ask, Duration::from_millis(500))
    );
    assert_eq!((review.max_result_bytes.get(), review.exclusive), (10, true));
    assert_eq!(review.summarize_above.map(std::num::NonZeroUsize::get), Some(5));
    assert_eq!(review.summary_profile().map(|name| &**name), Some("quick"));
    assert_eq!(review.output_schema, Some(json!({"type": "string"})));
    assert_eq!(tool("team").permission, PermissionMode::Deny);
    let files = tool("files");
    assert_eq!(
        files.permission,
        PermissionMode::Ask,
        "a server's tools are its own choice"
    );
    let ToolKind::Mcp(McpServer::Command { command, env, cwd, .. }) = files.kind else {
        panic!("{files:?}")
    };
    assert_eq!(command, CommandLine::Words(vec!["npx".into(), "files".into()]));
    let from_environment = EnvOrHeaderValue::FromEnvironment {
        variable: "D".into(),
        prefix: "e".into(),
    };
    assert_eq!(
        env,
        [
            ("A".to_owned(), EnvOrHeaderValue::Text("b".into())),
            ("C".to_owned(), from_environment)
        ]
    );
    assert_eq!(cwd.as_deref(), Some("sub"));
    assert!(matches!(tool("far").kind, ToolKind::Mcp(McpServer::Url { .. })));
    assert_eq!(
        (
            &**writer.state_key(),
            writer.conversation.trigger,
            writer.conversation.on_resume
        ),
        ("draft", AgentTrigger::EveryTurn, OnResume::Rerun)
    );
    assert!(writer.conversation.triggers_conversation && writer.output_schema.is_some());
}

#[test]
fn every_kind_and_profile_is_read() {
    let it = ensemble(FULL);
    let AgentKind::Llm(llm) = &it.agents[2].kind else {
        panic!()
    };
    let model = ModelChoice::Model {
        provider: "openai".into(),
        model: "gpt-4o/mini".into(),
    };
    assert_eq!((&llm.model, llm.memory), (&model, MemoryMode::Conversation));
    let window = ContextWindow {
        max_tokens: Some(8000),
        max_messages: Some(40),
        preserve_system_message: false,
        min_recent_turns: count(2),
        strategy: WindowStrategy::MiddleOut,
    };
    assert_eq!(llm.context_window, Some(window));
    let inputs: Vec<_> = it.agents[3..7]
        .iter()
        .map(|agent| match &agent.kind {
            AgentKind::Input(input) => input,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        (inputs[0].prompt.as_str(), inputs[0].choices.as_slice()),
        ("Go on?", ["yes".to_owned(), "no".to_owned()].as_slice())
    );
    assert_eq!(
        (inputs[0].default.as_deref(), inputs[0].timeout),
        (Some("no"), Some(Duration::from_secs(5)))
    );
    assert_eq!(
        inputs[0].responses,
        Some(PreparedResponses::List(vec!["yes".into(), "no".into()]))
    );
    assert_eq!((inputs[1].prompt.as_str(), &inputs[1].responses), ("Really?", &None));
    assert_eq!(
        inputs[2].responses,
        Some(PreparedResponses::Script("answer.rhai".into()))
    );
    assert_eq!(inputs[3].responses, Some(PreparedResponses::Profile("quick".into())));
    assert!(matches!(&it.agents[7].kind, AgentKind::Ensemble { ensemble, .. } if ensemble == "other.yaml"));

    let [quick, scripted, real] = it.model_profiles.as_slice() else {
        panic!()
    };
    let replies = vec![
        SimulatedReply::Text("one".into()),
        SimulatedReply::Calls {
            text: "two".into(),
            tool_calls: vec![SimulatedToolCall {
                name: "look".into(),
                arguments: json!({"n": 1}).as_object().expect("a map").clone(),
            }],
        },
        SimulatedReply::Error("broken".into()),
    ];
    assert_eq!(quick.1.simulated, Some(SimulatedReplySource::Replies(replies)));
    assert_eq!(
        scripted.1.simulated,
        Some(SimulatedReplySource::Script("replies.rhai".into()))
    );
    let real = &real.1;
    assert_eq!(
        (&*real.provider, &*real.model, real.base_url.as_deref()),
        ("ollama", "llama3", Some("http://localhost:11434"))
    );
    assert_eq!(
        (real.api_key_env.as_deref(), real.system_prompt.as_deref()),
        (Some("SOME_KEY"), Some("be kind"))
    );
    assert_eq!(
        (real.temperature, real.top_p, real.max_tokens, real.seed),
        (Some(0.5), Some(1.0), Some(500), Some(-7))
    );
    assert_eq!(real.context_window, Some(8192));
    assert_eq!(
        (real.timeout, real.fallback.as_deref()),
        (Some(Duration::from_secs(10)), Some("quick"))
    );
    let retry = real.retry.as_ref().expect("retry");
    assert_eq!(
        (retry.max_attempts, retry.delay, retry.backoff),
        (count(3), Duration::ZERO, RetryBackoff::Linear)
    );
}

#[test]
fn a_configuration_is_read() {
    let text = "model_profiles:\n  b: {provider: groq, model: y}\n  a: {provider: xai, model: z}\n";
    let read = load_profiles(&SourceText::new("config.yaml", text)).expect("sound");
    let names: Vec<_> = read.iter().map(|(name, profile)| (&**name, &*profile.model)).collect();
    assert_eq!(names, [("b", "y"), ("a", "z")]);
    for text in [
        "",
        "\u{feff}",
        "# nothing yet\n",
        "---\n",
        "model_profiles:\n  # a: {}\n",
    ] {
        assert_eq!(load_profiles(&SourceText::new("config.yaml", text)).expect(text), []);
    }
}

#[test]
fn empty_files_beside_an_ensemble_are_fine() {
    for text in ["", "\n \n", "# nothing yet\n"] {
        assert_eq!(load_answers(&SourceText::new("answers", text)).expect(text), []);
        assert!(load_context(&SourceText::new("context", text)).expect(text).is_empty());
    }
}

#[test]
fn merge_keys_add_what_is_missing() {
    let text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: *a, x: 9}\nd: {<<: [*a, *b], w: 0}\ne: {'<<': 1}\n";
    let read = load_context(&SourceText::new("c", text)).expect("sound");
    assert_eq!(read["c"], json!({"x": 9, "y": 2}));
    assert_eq!(read["d"], json!({"w": 0, "x": 1, "y": 2, "z": 4}));
    assert_eq!(read["e"], json!({"<<": 1}));
}

#[test]
fn scalars_are_those_of_the_core_schema() {
    let rows = [
        ("null", json!(null)),
        ("~", json!(null)),
        ("", json!(null)),
        ("nil", json!("nil")),
        ("nuLL", json!("nuLL")),
        ("true", json!(true)),
        ("True", json!(true)),
        ("tRue", json!("tRue")),
        ("yes", json!("yes")),
        ("on", json!("on")),
        ("12", json!(12)),
        ("-12", json!(-12)),
        ("+12", json!(12)),
        ("007", json!(7)),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("0b1", json!("0b1")),
        ("-0x1", json!("-0x1")),
        ("0x", json!("0x")),
        ("0o8", json!("0o8")),
        ("0x+1", json!("0x+1")),
        ("1_000", json!("1_000")),
        ("12:30", json!("12:30")),
        ("-", json!(null)),
        ("9223372036854775807", json!(i64::MAX)),
        ("18446744073709551615", json!(u64::MAX)),
        ("1.5", json!(1.5)),
        ("-.5", json!(-0.5)),
        ("1.", json!(1.0)),
        ("1e3", json!(1000.0)),
        ("1E-2", json!(0.01)),
        (".e1", json!(".e1")),
        ("inf", json!("inf")),
        ("nan", json!("nan")),
        ("1e", json!("1e")),
        ("1.2.3", json!("1.2.3")),
        (".", json!(".")),
        ("2026-01-02", json!("2026-01-02")),
        ("'1'", json!("1")),
        ("\"null\"", json!("null")),
        ("!!str 1", json!("1")),
        ("!!float 1", json!(1.0)),
        ("! 1", json!("1")),
        ("!!int 0x10", json!(16)),
        ("!<tag:yaml.org,2002:str> 1", json!("1")),
    ];
    for (text, expected) in rows {
        if text == "-" {
            continue;
        }
        let read =
            load_context(&SourceText::new("c", format!("k: {text}\n"))).unwrap_or_else(|it| panic!("{text}: {it:?}"));
        assert_eq!(read["k"], expected, "{text}");
    }
}

#[test]
fn a_second_reader_agrees() {
    for text in TEXTS {
        let read = load_context(&SourceText::new("c", *text)).unwrap_or_else(|it| panic!("{text}\n{it:?}"));
        let mut other: serde_yaml::Value = serde_yaml::from_str(text.trim_start_matches('\u{feff}')).expect(text);
        other.apply_merge().expect(text);
        let other: serde_json::Value = serde_json::to_value(other).expect(text);
        assert_eq!(serde_json::Value::Object(read), other, "{text}");
    }
}

#[test]
fn every_strategy_of_a_context_window_is_read() {
    let table = [
        ("{max_tokens: 9}", WindowStrategy::OldestFirst, 3),
        (
            "{max_tokens: 9, strategy: oldest_first}",
            WindowStrategy::OldestFirst,
            3,
        ),
        (
            "{max_messages: 9, strategy: summarize}",
            WindowStrategy::Summarize(None),
            3,
        ),
        (
            "{max_tokens: 9, strategy: {summarize: small}}",
            WindowStrategy::Summarize(Some("small".into())),
            3,
        ),
        (
            "{strategy: {custom: keep.rhai}}",
            WindowStrategy::Custom("keep.rhai".into()),
            3,
        ),
        (
            "{strategy: {recent_turns_only: 5}}",
            WindowStrategy::RecentTurnsOnly(count(5)),
            3,
        ),
        (
            "{strategy: {recent_turns_only: 1}}",
            WindowStrategy::RecentTurnsOnly(count(1)),
            1,
        ),
        (
            "{min_recent_turns: 2, strategy: {recent_turns_only: 2}}",
            WindowStrategy::RecentTurnsOnly(count(2)),
            2,
        ),
    ];
    for (window, strategy, min_recent_turns) in table {
        let text = format!("name: e\nagents: [{{name: a, model: xai/x, context_window: {window}}}]");
        let AgentKind::Llm(llm) = &ensemble(&text).agents[0].kind else {
            panic!("{text}")
        };
        let read = llm.context_window.clone().expect("a window");
        assert_eq!(
            (read.strategy, read.min_recent_turns),
            (strategy, count(min_recent_turns)),
            "{text}"
        );
        assert!(read.preserve_system_message, "{text}");
    }
}
