//! Each command in each style of writing; and what holds after every command on every text.

use proptest::prelude::*;

use super::*;
use crate::check;
use crate::yaml::edit::apply_edits;

mod empty_values;
mod table;

fn source(text: &str) -> SourceText {
    SourceText::new("e.yaml", text)
}

/// Returns the text after the command.
fn edited(text: &str, command: &DesignCommand) -> Result<String, String> {
    let fix = fix_for_command(&source(text), command).map_err(|error| error.to_string())?;
    Ok(apply_edits(text, &fix.edits))
}

fn add(name: &str, to: &[&str]) -> DesignCommand {
    DesignCommand::AddAgent {
        name: name.to_owned(),
        kind: "script".to_owned(),
        value: "x.rhai".to_owned(),
        prompt: None,
        listens_to: to.iter().map(|to| (*to).to_owned()).collect(),
    }
}

fn remove(agent: &str) -> DesignCommand {
    DesignCommand::RemoveAgent {
        agent: agent.to_owned(),
    }
}

fn connect(agent: &str, to: &str, condition: Option<&str>, feedback: bool) -> DesignCommand {
    DesignCommand::Connect {
        agent: agent.to_owned(),
        to: to.to_owned(),
        condition: condition.map(str::to_owned),
        feedback,
    }
}

fn condition(agent: &str, at: usize, to: &str, condition: Option<&str>) -> DesignCommand {
    DesignCommand::SetCondition {
        agent: agent.to_owned(),
        at,
        to: to.to_owned(),
        condition: condition.map(str::to_owned),
    }
}

fn key(agent: &str, at: usize, to: &str, key: &str, value: impl Into<Value>) -> DesignCommand {
    DesignCommand::SetKey {
        agent: agent.to_owned(),
        at,
        to: to.to_owned(),
        key: key.to_owned(),
        value: value.into(),
    }
}

fn set(agent: Option<&str>, path: &[&str], value: impl Into<Value>) -> DesignCommand {
    DesignCommand::SetValue {
        agent: agent.map(str::to_owned),
        path: path.iter().map(|key| (*key).to_owned()).collect(),
        value: value.into(),
    }
}

fn disconnect(agent: &str, at: usize, to: &str) -> DesignCommand {
    DesignCommand::Disconnect {
        agent: agent.to_owned(),
        at,
        to: to.to_owned(),
    }
}

/// The texts that the property begins with: every style of writing in each place that an edit touches.
const TEXTS: [&str; 5] = [
    "\
# An ensemble.
name: e # its name
agents:
  # the first
  - name: a # first
    script: x.rhai
    # of a

  - name: b
    prompt: |
      # no comment
      Say 'é' {{ input }} # no comment either

    model: simulated/x
    depends_on: [a]   # short

  # the third
  - name: c
    dependencies:
      - agent_name: a   # on a
        condition: output.n > 1 && turn_count < 3 # twice
      - {agent_name: b, condition: \"output == 'x'\", feedback: true}
      # the last one
    script: x.rhai
conversation_limits: {max_agent_executions: {b: 3}, max_total_turns: 9} # caps
# the end
",
    "\
name: e
agents: [{name: a, script: x}, {name: b, script: 'y', depends_on: [a]}, {name: c, script: z, dependencies: [{agent_name: a}, {agent_name: b, condition: 'a # b'}]}]
",
    "\
name: e
agents:
- name: a
  script: x
- {name: b, script: y, depends_on: [a]}
- dependencies:
  - condition: |
      output.ok
      and true
    agent_name: a
  - agent_name: b
  name: c
  script: z",
    "\
agents: [
  {name: a, script: x},   # one
  # two comes
  {name: b, script: y, depends_on: [
    a, # on a
  ]},
  {
    name: c,
    dependencies: [{agent_name: a}, {agent_name: b}],
    script: z # last
  },
]
name: e
",
    "\
name: e
x-base: &base
  script: x # shared
  timeout_seconds: 3
agents:
  - <<: *base
    name: a
  - <<: *base
    name: b
    depends_on: &on
      - a
  - name: c
    depends_on: *on
    script: >+
      x

conversation_limits:
  max_agent_executions:
    b: 2 # cap
",
];

/// A text with keys behind which nothing is written.
const EMPTY: &str = "\
name: e
conversation_limits: # none yet
result:
agents:
  - name: a
    script: # soon
    conversation:
  - {name: b, prompt: , tools, depends_on: }
  - name: c
    depends_on: ~
    dependencies:
      - agent_name: a # the first
        condition:
        max_executions: # of it
";

/// A text in another spelling of its line ends and its beginning.
fn spelt(text: &str, has_mark: bool, is_crlf: bool) -> String {
    let text = if is_crlf {
        text.replace('\n', "\r\n")
    } else {
        text.to_owned()
    };
    if has_mark { format!("\u{feff}{text}") } else { text }
}

fn command() -> impl Strategy<Value = DesignCommand> {
    let agent = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let conditions = vec![
        "output.n > 1",
        "output == 'it''s'",
        "output == \"x\" and output != 'y'",
        "x: y # z",
        "true",
        "[1, 2] == output",
        "output\n  .n",
        "not output.é",
        "a, b",
    ];
    let text = || prop::option::of(prop::sample::select(conditions.clone()));
    let keys: Vec<(&str, Value)> = vec![
        ("feedback", true.into()),
        ("feedback", false.into()),
        ("on", "failure".into()),
        ("on", "success".into()),
        ("wait_for", "nothing".into()),
        ("max_executions", 3.into()),
        ("max_executions", Value::Null),
    ];
    let settings: Vec<(&'static [&'static str], Value)> = vec![
        (&["conversation", "max_turns"][..], 3.into()),
        (&["conversation", "max_turns"][..], Value::Null),
        (&["prompt"][..], "Say # this\nnow".into()),
        (&["script"][..], "new".into()),
        (&["tools"][..], serde_json::json!(["one", "two: 2"])),
        (&["conversation_limits", "max_total_turns"][..], 4.into()),
        (&["conversation_limits", "max_total_turns"][..], Value::Null),
        (&["result"][..], serde_json::json!({"a": "outputs.a"})),
    ];
    prop_oneof![
        (
            agent(),
            prop::collection::vec(agent(), 0..3),
            prop::sample::select(vec!["script", "model", "input", "acp"])
        )
            .prop_map(|(name, to, kind)| DesignCommand::AddAgent {
                name: name.to_owned(),
                kind: kind.to_owned(),
                value: "one: two".to_owned(),
                prompt: Some("Say # this".to_owned()),
                listens_to: to.into_iter().map(str::to_owned).collect(),
            }),
        agent().prop_map(remove),
        (agent(), agent(), text(), any::<bool>())
            .prop_map(|(agent, to, text, feedback)| connect(agent, to, text, feedback)),
        (agent(), 0_usize..3, agent(), text()).prop_map(|(agent, at, to, text)| condition(agent, at, to, text)),
        (agent(), 0_usize..3, agent(), prop::sample::select(keys))
            .prop_map(|(agent, at, to, (name, value))| key(agent, at, to, name, value)),
        (agent(), 0_usize..3, agent()).prop_map(|(agent, at, to)| disconnect(agent, at, to)),
        (prop::option::of(agent()), prop::sample::select(settings))
            .prop_map(|(agent, (path, value))| set(agent, path, value)),
    ]
}

fn value_of(text: &str) -> Value {
    document_to_json(&parse_editable_yaml(&source(text)).expect("YAML")).expect("a value")
}

fn comments_of(text: &str) -> Vec<String> {
    // Independently of the room: the texts in which a `#` begins no comment are known here.
    let texts = ["# no comment either", "# no comment", "y # z", "Say # this", "a # b"];
    let text = texts.iter().fold(text.to_owned(), |text, one| text.replace(one, ""));
    let lines = text.lines().filter_map(|line| {
        let line = line.trim_start_matches('\u{feff}');
        let at = line
            .find(" #")
            .map(|at| at + 1)
            .or_else(|| line.starts_with('#').then_some(0))?;
        Some(line[at..].trim_end().to_owned())
    });
    lines.collect()
}

/// Returns the agents that the command may change.
fn touched(command: &DesignCommand) -> Vec<&str> {
    match command {
        DesignCommand::AddAgent { name, .. } => vec![name],
        DesignCommand::RemoveAgent { agent }
        | DesignCommand::Connect { agent, .. }
        | DesignCommand::SetCondition { agent, .. }
        | DesignCommand::SetKey { agent, .. }
        | DesignCommand::Disconnect { agent, .. } => vec![agent],
        DesignCommand::SetValue { agent, .. } => agent.as_deref().into_iter().collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_does_what_it_says_and_nothing_else(
        text in prop::sample::select([TEXTS.as_slice(), &[EMPTY]].concat()),
        has_mark in any::<bool>(),
        is_crlf in any::<bool>(),
        commands in prop::collection::vec(command(), 1..6),
    ) {
        let mut now = spelt(text, has_mark, is_crlf);
        for command in commands {
            let Ok(fix) = fix_for_command(&source(&now), &command) else { continue };
            let new = apply_edits(&now, &fix.edits);
            let (before, after) = (value_of(&now), value_of(&new));
            prop_assert_eq!(comments_of(&now), comments_of(&new), "{:?}\n{}\n{}", command, now, new);
            prop_assert_eq!(new.contains('\r'), is_crlf);
            prop_assert!(!is_crlf || !new.replace("\r\n", "").contains('\n'), "{:?}\n{:?}", command, new);
            prop_assert_eq!(new.starts_with('\u{feff}'), has_mark);
            let others = |value: &Value| -> Vec<Value> {
                let agents = value["agents"].as_array().expect("agents").iter();
                agents.filter(|agent| !touched(&command).iter().any(|name| agent["name"] == *name)).cloned().collect()
            };
            let removed = matches!(command, DesignCommand::RemoveAgent { .. });
            if !removed {
                prop_assert_eq!(others(&before), others(&after), "{:?}\n{}\n{}", command, now, new);
            }
            match &command {
                DesignCommand::RemoveAgent { agent } => {
                    let is_named = |item: &Value| item == agent.as_str() || item["agent_name"] == agent.as_str();
                    for (before, after) in others(&before).iter().zip(others(&after)) {
                        for list in ["depends_on", "dependencies"] {
                            let all = before[list].as_array().cloned().unwrap_or_default();
                            let left: Vec<Value> = all.into_iter().filter(|item| !is_named(item)).collect();
                            prop_assert_eq!(left, after[list].as_array().cloned().unwrap_or_default());
                        }
                        prop_assert_eq!(&before["script"], &after["script"]);
                    }
                }
                DesignCommand::AddAgent { name, .. } => {
                    let last = after["agents"].as_array().and_then(|agents| agents.last()).expect("an agent");
                    prop_assert_eq!(&last["name"], &Value::from(name.as_str()));
                }
                DesignCommand::SetCondition { agent, to, condition, .. } => {
                    let agents = after["agents"].as_array().expect("agents");
                    let agent = agents.iter().find(|one| one["name"] == agent.as_str()).expect("the agent");
                    let mut items = agent["dependencies"].as_array().into_iter().flatten();
                    let wanted = condition.as_deref().map_or(Value::Null, |text| text.trim().into());
                    prop_assert!(items.any(|item| item["agent_name"] == to.as_str() && item["condition"] == wanted));
                }
                DesignCommand::SetKey { agent, to, key, value, .. } => {
                    let agents = after["agents"].as_array().expect("agents");
                    let agent = agents.iter().find(|one| one["name"] == agent.as_str()).expect("the agent");
                    let is_default = [Value::Null, false.into(), "success".into()].contains(value);
                    let wanted = if is_default { Value::Null } else { value.clone() };
                    let mut items = agent["dependencies"].as_array().into_iter().flatten();
                    prop_assert!(items.any(|item| item["agent_name"] == to.as_str() && item[key] == wanted));
                }
                DesignCommand::SetValue { agent, path, value } => {
                    let owner = match agent {
                        Some(agent) => {
                            let agents = after["agents"].as_array().expect("agents");
                            agents.iter().find(|one| one["name"] == agent.as_str()).expect("the agent")
                        }
                        None => &after,
                    };
                    prop_assert_eq!(path.iter().fold(owner, |value, key| &value[key]), value);
                }
                _ => {}
            }
            now = new;
        }
    }
}

/// What cannot be done is rare: of the shipped style, all edits that make sense succeed.
#[test]
fn edits_that_make_sense_are_made() {
    for (at, text) in TEXTS.iter().enumerate() {
        for (has_mark, is_crlf) in [(false, false), (true, true)] {
            let text = spelt(text, has_mark, is_crlf);
            let mut commands = vec![
                add("d", &["a", "c"]),
                remove("c"),
                disconnect("c", 0, "a"),
                connect("a", "c", Some("output.n: 1"), true),
            ];
            if at < 4 {
                commands.extend([
                    condition("c", 0, "a", Some("output.m")),
                    condition("c", 1, "b", Some("not output.n")),
                    condition("b", 0, "a", Some("true")),
                    key("b", 0, "a", "feedback", true),
                    key("c", 0, "a", "on", "any"),
                    key("c", 1, "b", "max_executions", 2),
                    disconnect("b", 0, "a"),
                    disconnect("c", 1, "b"),
                    connect("b", "c", None, false),
                ]);
            }
            for command in commands {
                let done = edited(&text, &command);
                // A comment inside of brackets would be lost, or an alias would change.
                let is_stuck = match &command {
                    DesignCommand::RemoveAgent { .. } => at == 3,
                    DesignCommand::Disconnect { agent, .. } => at == 3 && agent == "b" || at == 4,
                    _ => false,
                };
                let expected = !is_stuck;
                assert_eq!(done.is_ok(), expected, "{at} {command:?}: {done:?}");
                if let Ok(new) = done {
                    let loaded = crate::loader::load_ensemble(&source(&new));
                    let ensemble = loaded.ensemble;
                    let _findings = ensemble.as_ref().map(check::check_ensemble);
                }
            }
        }
    }
}
