//! What models were sent and what they replied, through the binary: `runs show --messages`, exports, and `--verbose`.

use serde_json::{Value, json};

use crate::support::Workspace;
use crate::support::terminal::{Setting, Terminal};

const ENSEMBLE: &str = r#"
name: talk
agents:
  - name: boss
    model_profile: boss
    system_prompt: You are the boss.
    prompt: "Decide {{ input }}."
    tools: [look, ask, broken]
    attachments: [notes.md]
    output_schema: {type: object, required: [n], properties: {n: {type: integer}}}
    retry: {max_attempts: 2, delay_seconds: 0}
  - {name: critic, model_profile: critic, prompt: "{{ input }}"}
  - {name: last, model_profile: last, prompt: The end., depends_on: [boss]}
tools:
  look: {script: look.rhai, parameters: {type: object}}
  broken: {script: broken.rhai, parameters: {type: object}}
  ask: {agent: critic}
model_profiles:
  boss:
    provider: simulated
    replies:
      - text: "I look it up.\e[2J <script>alert(1)</script>\u202Ex"
        tool_calls:
          - {name: look, arguments: {where: LONG}}
          - {name: ask, arguments: {input: Is it so?}}
          - {name: broken, arguments: {}}
      - {error: "overloaded\e[31m"}
      - I say five.
      - '{"n": 5}'
      - '{"n": 6}'
  critic: {provider: simulated, replies: [I should think so.]}
  last: {provider: simulated, replies: [The end of it.]}
"#;

/// An argument that no output may cut.
fn long() -> String {
    "word ".repeat(200) + "end"
}

/// A run with a tool loop, an agent as a tool, an attempt that failed, a reply that was sent back, and a second message.
fn talk() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.yaml", ENSEMBLE.replace("LONG", &long()));
    workspace.write(
        "look.rhai",
        "\"```\\n# found \\u001b[5m\\n\" + parameters.where + \" too\"",
    );
    workspace.write("broken.rhai", "throw \"it is broken\"");
    workspace.write("notes.md", "The bytes of the file.");
    workspace
        .run(["run", "a.yaml", "--input", "now", "--then", "again", "--quiet"])
        .expect_code(0);
    workspace
}

/// Fails unless all of these are in the text, in this order.
#[track_caller]
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("{part:?} after what precedes it in {text}");
        };
        rest = after;
    }
}

#[test]
fn the_messages_of_a_run_are_shown_whole() {
    let workspace = talk();
    let shown = workspace.run(["runs", "show", "--messages"]).expect_code(0).stdout;
    let long = long();
    in_order(
        &shown,
        &[
            "turn 1  boss #1\n",
            "  request 1 · simulated · end turn · 14 tokens in, ",
            "    system\n      You are the boss.\n",
            "    user\n      Decide now.\n    file notes.md (text/plain, 22 bytes)\n",
            "    assistant\n      I look it up.",
            &format!("    → look {{\"where\":\"{long}\"}}\n"),
            &format!("    ← look: ```\n    # found \\u{{1b}}[5m\n    {long} too\n"),
            "    → ask {\"input\":\"Is it so?\"}\n    ← ask: I should think so.\n",
            "    ← broken: error: broken.rhai:1:1: it is broken\n",
            "  failed (model): overloaded",
            "turn 1  boss #1 · inside the call of ask\n",
            "    user\n      Is it so?\n    assistant\n      I should think so.\n\n",
            "turn 1  boss #1 · attempt 2\n",
            "    assistant\n      I say five.\n",
            "    sent back: the reply does not match the output schema:\n    - the reply is not JSON: line 1, column 1 has `I say five.`\n",
            "  request 2 · ",
            "    user\n      Your previous reply was rejected: ",
            "    assistant\n      {\"n\": 5}\n\nturn 2  last #1\n",
            "turn 3  boss #2\n    2 messages of earlier executions were sent before these:\n",
            "    earlier user\n      Decide now.\n    file notes.md (text/plain, 22 bytes)\n",
            "    earlier assistant\n      {\"n\": 5}\n  request 1 ",
            "    user\n      Decide again.\n",
            "turn 4  last #2\n",
        ],
    );
    assert!(!shown.contains("goes on"), "everything has ended: {shown}");
    assert!(!shown.contains("VGhlIGJ5"), "the bytes of files are not shown: {shown}");
}

#[test]
fn control_characters_of_texts_are_visible() {
    let workspace = talk();
    let arguments = ["runs", "show", "--messages", "--color", "always"];
    let shown = workspace.run(arguments).expect_code(0).stdout;
    assert!(shown.contains("\u{1b}[1m"), "{shown:?}");
    for (said, visible) in [
        ("up.\u{1b}[2J", "up.\\u{1b}[2J"),
        ("found \u{1b}[5m", "found \\u{1b}[5m"),
        ("overloaded\u{1b}[31m", "overloaded\\u{1b}[31m"),
        ("\u{202e}x", "\\u{202e}x"),
    ] {
        assert!(!shown.contains(said), "{said:?} in {shown:?}");
        assert!(shown.contains(visible), "{visible} in {shown:?}");
    }
}

#[test]
fn a_filter_selects_an_agent_or_one_of_its_executions() {
    let workspace = talk();
    let show = |filter: &str| workspace.run(["runs", "show", "--messages", filter]);
    let titles = |filter: &str| {
        let text = show(filter).expect_code(0).stdout;
        let lines = text.lines().filter(|line| line.starts_with("turn "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let first = [
        "turn 1  boss #1",
        "turn 1  boss #1 · inside the call of ask",
        "turn 1  boss #1 · attempt 2",
    ];
    assert_eq!(titles("boss@1"), first);
    assert_eq!(titles("boss"), [&first[..], &["turn 3  boss #2"]].concat());
    assert_eq!(titles("last@4"), ["turn 4  last #2"]);
    for filter in ["nobody", "boss@2", "critic"] {
        let error = show(filter).expect_code(2).stderr;
        let told = format!("no messages of `{filter}`; there are messages of: boss@1, last@2, boss@3, last@4");
        assert!(error.contains(&told), "{error}");
    }
    for filter in ["boss@two", "boss@1#one", "boss#"] {
        let error = show(filter).expect_code(2).stderr;
        let told = format!("--messages takes AGENT, AGENT@TURN or AGENT@TURN#REQUEST, not `{filter}`");
        assert!(error.contains(&told), "{error}");
    }
}

#[test]
fn a_number_selects_one_request_of_an_execution() {
    let workspace = talk();
    let show = |filter: &str| {
        let form = ["runs", "show", "--output", "json", "--messages", filter];
        let shown: Value = serde_json::from_str(&workspace.run(form).expect_code(0).stdout).expect("JSON");
        shown
    };
    let whole = show("boss@1");
    let iterations = |shown: &Value, at: usize| shown[at]["iterations"].clone();
    let exchanges = whole.as_array().expect("a list");
    let has_two = |one: &Value| one["iterations"].as_array().is_some_and(|all| all.len() > 1);
    let long = exchanges
        .iter()
        .position(has_two)
        .expect("an execution with two requests");
    let second = show("boss@1#2");
    assert_eq!(iterations(&second, 0), json!([iterations(&whole, long)[1]]));
    assert_eq!(iterations(&second, 0)[0]["number"], 2);
    let mut all = exchanges
        .iter()
        .flat_map(|one| one["iterations"].as_array().into_iter().flatten());
    assert!(all.all(|iteration| iteration["completed_at"].is_string()), "{whole:#}");
    let error = workspace
        .run(["runs", "show", "--messages", "boss@1#99"])
        .expect_code(2)
        .stderr;
    assert!(
        error.contains("no messages of `boss@1#99`; there are messages of: boss@1"),
        "{error}"
    );
}

#[test]
fn the_messages_are_a_list_as_json_and_no_events() {
    let workspace = talk();
    let show = |form: &str| workspace.run(["runs", "show", "--messages", "boss@1", "--output", form]);
    let list = show("json").expect_code(0).json();
    let list = list.as_array().expect("a list");
    let keys = |exchange: &Value| {
        let keys = ["turn", "agent", "execution", "attempt", "inside", "end"];
        keys.map(|key| exchange[key].clone())
    };
    let id = &list[0]["iterations"][0]["tool_calls"][1]["id"];
    assert_eq!(
        list.iter().map(keys).collect::<Vec<_>>(),
        [
            [
                json!(1),
                json!("boss"),
                json!(1),
                json!(1),
                Value::Null,
                json!("failed")
            ],
            [
                json!(1),
                json!("boss"),
                json!(1),
                json!(1),
                json!([id]),
                json!("succeeded")
            ],
            [
                json!(1),
                json!("boss"),
                json!(1),
                json!(2),
                Value::Null,
                json!("succeeded")
            ],
        ]
    );
    assert_eq!(list[0]["failure"]["error"], "overloaded\u{1b}[31m");
    assert_eq!(list[0]["iterations"][0]["tool_calls"][0]["arguments"]["where"], long());
    let error = show("events").expect_code(2).stderr;
    assert!(
        error.contains("--messages needs `--output human` or `--output json`"),
        "{error}"
    );
}

#[test]
fn a_run_without_models_says_so() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents: [{name: it, script: \"true\"}]\n");
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let shown = workspace.run(["runs", "show", "--messages"]).expect_code(0).stdout;
    assert_eq!(shown, "the run has sent nothing to a model\n");
    let error = workspace
        .run(["runs", "show", "--messages", "it"])
        .expect_code(2)
        .stderr;
    assert!(error.contains("the run has sent nothing to a model"), "{error}");
    for format in ["html", "markdown"] {
        let text = workspace
            .run(["runs", "export", "--format", format])
            .expect_code(0)
            .stdout;
        assert!(!text.contains("<details"), "{text}");
    }
}

#[test]
fn the_page_has_the_messages_folded() {
    let workspace = talk();
    let page = workspace
        .run(["runs", "export", "--format", "html"])
        .expect_code(0)
        .stdout;
    let long = long();
    in_order(
        &page,
        &[
            "<h3>Turn 1 ",
            "<details class=\"exchanges\"><summary>5 requests, 3 tool calls</summary>\n<h5>attempt 1</h5>\n",
            "request 1 · simulated · end turn · 14 tokens in, ",
            "<p class=\"label\">system</p>\n<pre class=\"text\" tabindex=\"0\">You are the boss.</pre>\n",
            ">Decide now.</pre>\n<p class=\"label\">file notes.md (text/plain, 22 bytes)</p>\n",
            "I look it up.\\u{1b}[2J &lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}x</pre>",
            &format!(
                "<p class=\"label\">→ look</p>\n<pre class=\"json\" tabindex=\"0\">{{&quot;where&quot;:&quot;{long}&quot;}}</pre>"
            ),
            "<p class=\"label\">← look</p>\n<pre class=\"text\" tabindex=\"0\">```\n# found ",
            &format!("{long} too</pre>"),
            "<p class=\"failure\">← broken: error</p>\n<pre class=\"text failure\" tabindex=\"0\">broken.rhai:1:1: it is broken</pre>",
            "<p class=\"failure\">failed (model)</p>\n",
            "<h5>inside the call of ask</h5>\n",
            "<h5>attempt 2</h5>\n",
            "<p class=\"warning\">sent back</p>\n<pre class=\"text\" tabindex=\"0\">the reply does not match",
            "</details>\n",
            "<h3>Turn 2 ",
            "<summary>1 request, 0 tool calls</summary>",
            "<h3>Turn 3 ",
            "<p class=\"label\">2 messages of earlier executions were sent before these</p>\n",
        ],
    );
    for hidden in ["<script", "VGhlIGJ5", "earlier user"] {
        assert!(!page.contains(hidden), "{hidden} in {page}");
    }
    assert_eq!(super::lookback::unbalanced(&page), [""; 0]);
}

#[test]
fn the_markdown_has_the_messages_folded() {
    let workspace = talk();
    let text = workspace
        .run(["runs", "export", "--format", "markdown"])
        .expect_code(0)
        .stdout;
    let long = long();
    in_order(
        &text,
        &[
            "### Turn 1\n",
            "<details><summary>5 requests, 3 tool calls</summary>\n\n**attempt 1**\n\n*request 1 · ",
            "system\n\n```text\nYou are the boss.\n```\n",
            "file notes.md (text/plain, 22 bytes)\n",
            "assistant\n\n```text\nI look it up.",
            &format!("→ look\n\n```json\n{{\"where\":\"{long}\"}}\n```\n"),
            &format!("← look\n\n````text\n```\n# found \\u{{1b}}[5m\n{long} too\n````\n"),
            "← broken: error\n\n```text\nbroken.rhai:1:1: it is broken\n```\n",
            "failed (model):\n",
            "**inside the call of ask**\n",
            "**attempt 2**\n",
            "sent back:\n\n```text\nthe reply does not match",
            "\n</details>\n\n```json\n{\n  \"n\": 5\n}\n```\n",
            "### Turn 2\n",
            "<summary>1 request, 0 tool calls</summary>",
        ],
    );
    assert_eq!(text.matches("→ look").count(), 1, "a call is shown once: {text}");
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
}

#[test]
fn parts_and_their_messages_are_told_apart() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: all, model_profile: m, prompt: 'Say {{ item }}.', for_each: {in: [\"k<i>\", k2], key: item}}\n\
         model_profiles:\n  m: {provider: simulated, replies: [Well.]}\n",
    );
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let shown = workspace.run(["runs", "show", "--messages"]).expect_code(0).stdout;
    assert!(
        shown.contains("turn 1  all[k<i>] #1\n") && shown.contains("turn 1  all[k2] #1\n"),
        "{shown}"
    );
    for (format, title) in [("html", "<h5>part k&lt;i&gt;</h5>"), ("markdown", "**part k\\<i\\>**")] {
        let text = workspace
            .run(["runs", "export", "--format", format])
            .expect_code(0)
            .stdout;
        in_order(
            &text,
            &[
                "<summary>2 requests, 0 tool calls</summary>",
                "part k",
                "Say k",
                "part k",
                "Say k",
            ],
        );
        assert!(text.contains(title), "{text}");
    }
}

#[test]
fn verbose_shows_tool_calls_whole_with_the_text_beside_them() {
    let workspace = talk();
    let long = long();
    let call = format!("→ look {{\"where\":\"{long}\"}}\n");
    let text = "I look it up.\\u{1b}[2J <script>alert(1)</script>\\u{202e}x\n";
    let shown = workspace.run(["runs", "show", "-v"]).expect_code(0).stdout;
    in_order(&shown, &[text, &call, "attempt 1 failed"]);
    let shown = workspace.run(["runs", "show"]).expect_code(0).stdout;
    assert!(!shown.contains(&call) && !shown.contains("I look it up."), "{shown}");
    // The last attempt of a run that is in progress.
    let ensemble = ENSEMBLE
        .replace("LONG", &long)
        .replace("      - {error: \"overloaded\\e[31m\"}\n", "");
    workspace.write("a.yaml", ensemble);
    let shown = workspace.run(["run", "a.yaml", "-v"]).expect_code(0).stdout;
    in_order(&shown, &["boss llm", text, &call, "n: 5"]);
    let shown = workspace.run(["run", "a.yaml"]).expect_code(0).stdout;
    assert!(!shown.contains(&call) && !shown.contains("I look it up."), "{shown}");
}

#[test]
fn verbose_shows_tool_calls_whole_at_a_terminal() {
    let workspace = Workspace::new();
    let ensemble = ENSEMBLE
        .replace("LONG", &long())
        .replace("      - {error: \"overloaded\\e[31m\"}\n", "");
    workspace.write("a.yaml", ensemble);
    workspace.write("look.rhai", "parameters.where + \" too\"");
    workspace.write("broken.rhai", "throw \"it is broken\"");
    workspace.write("notes.md", "The bytes of the file.");
    let setting = Setting {
        columns: 4000,
        ..Setting::default()
    };
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (arguments, is_whole) in [(&["run", "a.yaml", "-v"][..], true), (&["run", "a.yaml"], false)] {
        let terminal = Terminal::open_with(&setting, &workspace, arguments, &[("NO_COLOR", "1")]);
        let (code, text) = terminal.finish();
        assert_eq!(code, 0, "{text}");
        let text = words(&text);
        assert!(text.contains("I look it up.\\u{1b}[2J"), "{text}");
        for part in [
            format!("→ look {{\"where\":\"{}\"}}", long()),
            format!("← look: {} too", long()),
        ] {
            assert_eq!(text.contains(&part), is_whole, "{part} in {text}");
        }
        assert_eq!(text.matches("→ look").count(), 1, "{text}");
        assert_eq!(text.contains("shortened"), !is_whole, "{text}");
    }
}

#[test]
fn a_first_request_that_fails_is_shown_with_what_was_sent_and_the_failure() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: f\nagents:\n  - {name: one, model_profile: broken, system_prompt: Be., prompt: \"Say {{ input }}\", retry: \
         {max_attempts: 2, delay_seconds: 0}, on_error: continue}\n  - {name: two, model_profile: broken, prompt: Say two., \
         for_each: {in: [x], on_error: collect}, on_error: continue}\n  - {name: boss, model_profile: boss, prompt: Ask., tools: \
         [ask]}\n  - {name: helper, model_profile: broken, prompt: \"{{ input }}\"}\ntools:\n  ask: {agent: helper}\n\
         model_profiles:\n  broken: {provider: simulated, replies: [{error: no money}], retry: {max_attempts: 1}}\n  boss: \
         {provider: simulated, replies: [{tool_calls: [{name: ask, arguments: {input: Is it so?}}]}, I see.]}\n",
    );
    workspace.run(["run", "a.yaml", "--input", "hi"]).expect_code(0);
    let show = |agent: &str| {
        workspace
            .run(["runs", "show", "--messages", agent])
            .expect_code(0)
            .stdout
    };
    let sent = "  request 1\n    system\n      Be.\n    user\n      Say hi\n  failed (model): no money\n";
    let one = show("one");
    in_order(&one, &["one #1\n", sent, "one #1 · attempt 2\n", sent]);
    in_order(
        &show("two"),
        &[
            "two[0] #1\n  request 1\n    user\n      Say two.\n",
            "  failed (model): no money\n",
        ],
    );
    in_order(
        &show("boss"),
        &[
            "boss #1 · inside the call of ask\n  request 1\n    user\n      Is it so?\n",
            "  failed (as a tool): no money\n",
        ],
    );
    let list = workspace
        .run(["runs", "show", "--messages", "one", "--output", "json"])
        .json();
    assert_eq!(list[0]["iterations"][0]["messages"][0]["content"], "Say hi");
    assert_eq!(list[0]["failure"]["error"], "no money");
}

/// An agent that remembers, with a window, and a person for whom a model answers.
const FORGETFUL: &str = r#"
name: forgetful
agents:
  - name: talker
    model_profile: talker
    system_prompt: Be short.
    prompt: "question {{ executions.talker or 0 }}{{ history | length }}"
    context_window: {max_messages: 4, min_recent_turns: 1}
    conversation: {max_turns: 4, trigger: every_turn}
  - name: guest
    input: {prompt: "well {{ talker }}?", responses: {model_profile: guest}}
    dependencies: [{agent_name: talker}]
    conversation: {max_turns: 3}
model_profiles:
  talker: {provider: simulated, replies: [reply 1, reply 2, reply 3, reply 4]}
  guest: {provider: simulated, replies: [answer 1, answer 2, answer 3]}
"#;

#[test]
fn messages_that_a_window_or_a_responder_left_out_are_not_shown_as_sent() {
    let workspace = Workspace::new();
    let text = FORGETFUL.replace("{{ executions.talker or 0 }}{{ history | length }}", "{{ turn_count }}");
    workspace.write("a.yaml", text);
    workspace.run(["run", "a.yaml", "--quiet"]).expect_code(0);
    let shown = |which: &str| {
        let outcome = workspace.run(["runs", "show", "--messages", which, "-v"]);
        outcome.expect_code(0).stdout
    };
    // The last request had the system prompt, one earlier exchange at most, and the question.
    let last = shown("talker@4");
    assert!(last.contains("reply 4") && last.contains("Be short."), "{last}");
    for forgotten in ["reply 1", "question 0", "reply 2", "question 1"] {
        assert!(!last.contains(forgotten), "{forgotten} was not sent: {last}");
    }
    assert!(last.contains("reply 3") && last.contains("question 2"), "{last}");
    // Each question of the person is sent alone.
    let guest = shown("guest@3");
    assert!(guest.contains("assistant\n      answer 2"), "{guest}");
    assert!(!guest.contains("assistant\n      answer 1"), "{guest}");
    assert!(!guest.contains("earlier executions"), "{guest}");
}

#[test]
fn a_failed_request_after_tool_calls_and_the_request_of_a_summary_are_shown() {
    let workspace = Workspace::new();
    workspace.write(
        "calls.yaml",
        "name: calls\nmodel_profiles: {m: {provider: simulated, replies: [{text: look, tool_calls: [{name: pay, arguments: {}}]}, \
         {error: boom}]}}\ntools: {pay: {script: pay.rhai, description: d, parameters: {type: object}}}\nagents: [{name: a, \
         model_profile: m, tools: [pay], prompt: do it}]\n",
    );
    workspace.write("pay.rhai", "\"paid\"");
    workspace.run(["run", "calls.yaml", "--quiet"]).expect_code(1);
    let shown = workspace.run(["runs", "show", "--messages"]).expect_code(0).stdout;
    in_order(
        &shown,
        &["request 1", "← pay: paid\n", "  request 2\n", "failed (model): boom"],
    );

    workspace.write(
        "talk.yaml",
        "name: talk\nmodel_profiles:\n  m: {provider: simulated, replies: [reply 1, reply 2, reply 3, reply 4, reply 5]}\n  scribe: \
         {provider: simulated, replies: [Minutes of it.]}\nagents:\n  - name: talker\n    model_profile: m\n    prompt: \"question {{ \
         turn_count }}\"\n    context_window: {max_messages: 6, min_recent_turns: 1, strategy: {summarize: scribe}}\n    conversation: \
         {max_turns: 5, trigger: every_turn}\n",
    );
    workspace.run(["run", "talk.yaml", "--quiet"]).expect_code(0);
    let shown = workspace.run(["runs", "show", "--messages"]).expect_code(0).stdout;
    in_order(
        &shown,
        &[
            "request for a summary of earlier messages\n    system\n      You keep the minutes",
            "User: question 0\n",
            "    assistant\n      Minutes of it.\n",
            "  request 1",
        ],
    );
}
