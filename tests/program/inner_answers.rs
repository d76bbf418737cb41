//! Answers that are given inside an execution: by people whom a tool asks, and in nested runs and parts. Every report of the
//! outer run lists them, and the open questions in the order of the file.

use crate::support::Workspace;
use crate::support::page::Page;
use serde_json::Value;

const BOT: &str = "\
name: bot
agents:
  - {name: bot, model_profile: m, prompt: go, tools: [ask, helper, look]}
  - {name: person, input: {prompt: 'Really?', choices: ['yes', 'no'], default: 'no'}}
  - {name: helper, model_profile: h, prompt: help, tools: [ask]}
tools:
  ask: {agent: person, description: Asks, parameters: {type: object}}
  helper: {agent: helper, description: Helps, parameters: {type: object}}
  look: {ensemble: gate.yaml, description: Looks, parameters: {type: object}}
model_profiles:
  m: {provider: simulated, replies: [{tool_calls: [{name: ask, arguments: {}}, {name: helper, arguments: {}}, {name: look, arguments: {}}]}, fin]}
  h: {provider: simulated, replies: [{tool_calls: [{name: ask, arguments: {}}]}, helped]}
";
const GATE: &str = "name: gate\nagents: [{name: gate, input: {prompt: 'Open?', choices: [open, shut]}}]\n";
const INNER: &str = "\
name: inner
agents:
  - {name: ok, input: {prompt: 'Is it good?', choices: ['yes', 'no']}}
  - {name: why, input: 'Why?', depends_on: [ok]}
";
const OUTER: &str = "\
name: outer
agents:
  - {name: left, ensemble: inner.yaml}
  - {name: right, ensemble: middle.yaml}
  - {name: each, ensemble: gate.yaml, for_each: {in: [alpha, beta], key: item}}
  - {name: paid, ensemble: pay.yaml}
";
const MIDDLE: &str = "name: middle\nagents: [{name: deep, ensemble: gate.yaml}]\n";
const PAY: &str = "\
name: pay
agents: [{name: payer, model_profile: m, prompt: go, tools: [pay]}]
tools: {pay: {script: pay.rhai, description: Pays, parameters: {type: object}, permission: ask}}
model_profiles: {m: {provider: simulated, replies: [{tool_calls: [{name: pay, arguments: {}}]}, paid]}}
";
/// The answers inside the run of `bot.yaml`: address, question, answer.
const BOT_ANSWERS: [[&str; 3]; 3] = [
    ["bot/ask#1.person", "Really? (yes, no)", "yes"],
    ["bot/helper#1.helper/ask#1.person", "Really? (yes, no)", "no"],
    ["bot/look#1.gate", "Open? (open, shut)", "open"],
];
/// The answers inside the run of `outer.yaml`.
const OUTER_ANSWERS: [[&str; 3]; 5] = [
    ["left.ok", "Is it good? (yes, no)", "no"],
    ["left.why", "Why?", "because"],
    ["right.deep.gate", "Open? (open, shut)", "shut"],
    ["each[alpha].gate", "Open? (open, shut)", "open"],
    ["each[beta].gate", "Open? (open, shut)", "shut"],
];

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for (name, text) in [
        ("ensembles/bot.yaml", BOT),
        ("ensembles/gate.yaml", GATE),
        ("ensembles/inner.yaml", INNER),
        ("ensembles/outer.yaml", OUTER),
        ("ensembles/middle.yaml", MIDDLE),
        ("ensembles/pay.yaml", PAY),
        ("ensembles/pay.rhai", "\"done\""),
    ] {
        workspace.write(name, text);
    }
    workspace
}

fn answer_options(answers: &[[&str; 3]]) -> Vec<String> {
    let options = answers.iter();
    options
        .flat_map(|[address, _, answer]| ["--answer".to_owned(), format!("{address}={answer}")])
        .collect()
}

/// Every report of the latest run, with its name.
fn reports(workspace: &Workspace) -> Vec<(&'static str, String)> {
    let table: [(&str, &[&str]); 4] = [
        ("show", &["runs", "show", "--last"]),
        ("whole", &["runs", "show", "--last", "-v"]),
        ("markdown", &["runs", "export", "--last", "--output", "markdown"]),
        ("html", &["runs", "export", "--last", "--output", "html"]),
    ];
    table
        .iter()
        .map(|(name, arguments)| {
            let text = workspace.run(*arguments).expect_code(0).stdout;
            (*name, text.replace('\\', ""))
        })
        .collect()
}

/// The answers in an execution of a JSON document: address, prompt, answer, source.
fn listed(execution: &Value) -> Vec<[String; 4]> {
    let answers = execution["answers"].as_array().cloned().unwrap_or_default();
    let of = |answer: &Value| {
        assert!(answer["at"].is_string(), "{answer}");
        ["address", "prompt", "answer", "source"].map(|key| answer[key].as_str().unwrap_or_default().to_owned())
    };
    answers.iter().map(of).collect()
}

#[track_caller]
fn check_reports(workspace: &Workspace, answers: &[[&str; 3]]) {
    let expected: Vec<String> = answers
        .iter()
        .map(|[address, question, answer]| format!("{address} asked: {question} · {answer} · answered by an option"))
        .collect();
    for (name, text) in reports(workspace) {
        for line in &expected {
            // Exports also have the messages of the models, with the answers without their times.
            let lines = text
                .lines()
                .filter(|shown| shown.contains(line.as_str()) && shown.contains(" at 20"));
            assert_eq!(lines.count(), 1, "{name}: {line}\n{text}");
        }
    }
    let shown = workspace
        .run(["runs", "show", "--last", "--output", "json"])
        .expect_code(0)
        .json();
    let result = workspace.run(["runs", "export", "--last"]).expect_code(0).json();
    let mut documents = vec![shown["story"].clone()];
    // The history of a result has the executions that have ended.
    documents.extend((result["completion_reason"] == "completed").then(|| result["conversation_history"].clone()));
    for document in documents {
        let turns = document.as_array().expect("a list");
        let own = turns.iter().flat_map(listed);
        let executions = turns
            .iter()
            .flat_map(|turn| turn["executions"].as_array().cloned().unwrap_or_default());
        let all: Vec<[String; 4]> = own
            .chain(executions.collect::<Vec<_>>().iter().flat_map(listed))
            .collect();
        for [address, _, answer] in answers {
            let found = all
                .iter()
                .filter(|one| one[0] == *address && one[2] == *answer && one[3] == "option");
            assert_eq!(found.count(), 1, "{address}: {all:?}");
        }
    }
}

#[test]
fn every_report_lists_the_answers_of_people_whom_tools_ask() {
    let workspace = workspace();
    let run = workspace
        .run(
            ["run", "bot"]
                .iter()
                .map(|word| (*word).to_owned())
                .chain(answer_options(&BOT_ANSWERS)),
        )
        .expect_code(0);
    for [address, question, answer] in BOT_ANSWERS {
        let line = format!("{address} asked: {question} · {answer} · answered by an option");
        assert!(run.stdout.contains(&line), "{line}: {}", run.stdout);
    }
    check_reports(&workspace, &BOT_ANSWERS);
    let messages = workspace
        .run(["runs", "show", "--last", "--messages"])
        .expect_code(0)
        .stdout;
    for [address, question, answer] in BOT_ANSWERS {
        let line = format!("{address} asked: {question} · {answer} · answered by an option");
        assert_eq!(messages.matches(&line).count(), 1, "{line}: {messages}");
    }
    let page = Page::start(&workspace);
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let detail = page.get(&format!("/api/execution?id={id}&turn=1&agent=bot"));
    assert_eq!(listed(&detail["execution"]).len(), BOT_ANSWERS.len(), "{detail}");
    drop(page);
    let decided = workspace
        .run(["resume", "--last", "--answer", "bot/ask#1.person=no"])
        .expect_code(2);
    let told = "`bot/ask#1.person` was answered `yes` by an option";
    assert!(decided.stderr.contains(told), "{}", decided.stderr);
    workspace.run(["replay", &id]).expect_code(0);
}

#[test]
fn a_default_that_a_tool_used_is_marked() {
    let workspace = workspace();
    workspace
        .run(["run", "bot", "--always-answer", "gate=open"])
        .expect_code(0);
    let told =
        "bot/ask#1.person asked: Really? (yes, no) · no · answered by the default, because no person could be asked";
    for (name, text) in reports(&workspace) {
        assert!(text.contains(told), "{name}: {text}");
    }
}

#[test]
fn every_report_lists_the_answers_in_nested_runs_and_parts() {
    let workspace = workspace();
    let mut given = vec!["run".to_owned(), "outer".to_owned()];
    given.extend(answer_options(&OUTER_ANSWERS));
    given.extend(["--allow-tool", "paid.payer/pay#1"].map(str::to_owned));
    workspace.run(&given).expect_code(0);
    check_reports(&workspace, &OUTER_ANSWERS);
    let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
    let decision = "paid.payer/pay#1 asked: may the tool `pay` be called? · once · answered by an option";
    assert!(shown.contains(decision), "{shown}");
}

#[test]
fn what_was_answered_before_a_resume_is_listed_once_and_is_not_asked_again() {
    let workspace = workspace();
    let waiting = ["run", "outer", "--answer", "left.ok=no", "--allow-tool", "pay"];
    workspace.run(waiting).expect_code(3);
    check_reports(&workspace, &OUTER_ANSWERS[..1]);
    // The executions of the turn ask side by side; the open questions are in the order of the file in each report.
    let order = ["left.why", "right.deep.gate", "each[alpha].gate", "each[beta].gate"];
    for (name, text) in reports(&workspace) {
        let asks = |address: &&str| {
            let found = text.find(&format!("{address} is waiting for an answer"));
            found.unwrap_or_else(|| panic!("{name}: {address}: {text}"))
        };
        let positions: Vec<usize> = order.iter().map(asks).collect();
        assert!(positions.is_sorted(), "{name}: {positions:?}: {text}");
    }
    let mut rest = vec!["resume".to_owned(), "--last".to_owned()];
    rest.extend(answer_options(&OUTER_ANSWERS[1..]));
    workspace.run(&rest).expect_code(0);
    check_reports(&workspace, &OUTER_ANSWERS);
    let lines = workspace.journal();
    let nested = lines
        .iter()
        .filter(|record| record["event"] == "nested_request_answered");
    let addresses: Vec<&Value> = nested.map(|record| &record["data"]["answer"]["address"]).collect();
    let once = addresses.iter().filter(|address| **address == "left.ok").count();
    assert_eq!(once, 1, "{addresses:?}");
}
