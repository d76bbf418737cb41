//! Answers on the command line: by address, each for the next question, and never for a decided one.

use crate::support::Workspace;

const OUTER: &str = "\
name: outer
agents:
  - {name: left, ensemble: inner.yaml}
  - {name: right, ensemble: inner.yaml}
";
const INNER: &str = "\
name: inner
agents:
  - {name: ok, input: {prompt: Shall it be?, choices: ['yes', 'no']}}
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER);
    workspace.write("inner.yaml", INNER);
    workspace
}

#[test]
fn a_resume_answers_the_questions_that_were_shown_each_once() {
    let workspace = workspace();
    let waiting = workspace.run(["run", "outer.yaml"]).expect_code(3);
    let suggested = "--answer left.ok=… --answer right.ok=…";
    assert!(waiting.stderr.contains(suggested), "{}", waiting.stderr);

    for (answers, told) in [
        (
            &["--answer", "ok=yes"][..],
            "`ok` is not unique; what waits for an answer: `left.ok`, `right.ok`",
        ),
        (
            &["--answer", "left.ok=yes", "--answer", "right.ok=maybe"],
            "`maybe` is not one of the choices of `right.ok`: yes, no",
        ),
        (
            &["--answer", "middle.ok=yes"],
            "an answer is given for `middle.ok`, which is not an input agent",
        ),
    ] {
        let refused = workspace.run(["resume", "--last"].iter().chain(answers)).expect_code(2);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }

    workspace
        .run(["resume", "--last", "--answer", "left.ok=yes"])
        .expect_code(3);
    let decided = workspace
        .run(["resume", "--last", "--answer", "left.ok=no"])
        .expect_code(2);
    let told = "`left.ok` was answered `yes` by an option at ";
    assert!(decided.stderr.contains(told), "{}", decided.stderr);

    // The bare name is unique now. The second answer is for a question that is never asked.
    let second = ["resume", "--last", "--answer", "ok=no", "--answer", "right.ok=yes"];
    let resumed = workspace.run(second).expect_code(2);
    assert!(
        resumed.stderr.contains("`right.ok` was answered `no` by an option"),
        "{}",
        resumed.stderr
    );
    let after = workspace
        .run(["resume", "--last", "--answer", "right.ok=yes"])
        .expect_code(2);
    assert!(after.stderr.contains("your answer was not used"), "{}", after.stderr);
}

#[test]
fn answers_of_a_run_are_checked_before_it_starts_and_an_unused_one_is_a_warning() {
    let workspace = workspace();
    for answer in ["ok=yes", "left.ok=maybe", "middle.ok=yes"] {
        workspace.run(["run", "outer.yaml", "--answer", answer]).expect_code(2);
    }
    let option = workspace.run(["run", "outer.yaml", "--answer", "left.ok=maybe"]);
    for file in ["left.ok: maybe\n", "left.ok: [maybe]\n", "ok: maybe\n", "left.ok: 7\n"] {
        workspace.write("answers.yaml", file);
        let refused = workspace
            .run(["run", "outer.yaml", "--answers", "answers.yaml"])
            .expect_code(2);
        assert_eq!(refused.stderr.replace("`7`", "`maybe`"), option.stderr, "{file}");
    }
    assert!(workspace.runs().is_empty());
    let both = [
        "run",
        "outer.yaml",
        "--answer",
        "left.ok=yes",
        "--always-answer",
        "right.ok=no",
    ];
    let run = workspace
        .run(both.iter().chain(&["--answer", "left.ok=no"]))
        .expect_code(0);
    let warning = "warning: no question of `left.ok` used the answer `no`";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn an_answers_file_is_checked_before_a_resume_uses_it() {
    let workspace = workspace();
    workspace.run(["run", "outer.yaml"]).expect_code(3);
    workspace.write("answers.yaml", "left.ok: 'yes'\nright.ok: maybe\n");
    let refused = workspace
        .run(["resume", "--last", "--answers", "answers.yaml"])
        .expect_code(2);
    let told = "`maybe` is not one of the choices of `right.ok`: yes, no";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    let events = workspace.journal();
    let asks = events.last().expect("records")["event"] == "run_ended";
    assert!(asks, "the run was not touched: {events:?}");
    workspace.write("answers.yaml", "left.ok: 'yes'\nright.ok: 'no'\n");
    workspace
        .run(["resume", "--last", "--answers", "answers.yaml"])
        .expect_code(0);
}

#[test]
fn an_answer_of_a_resume_can_be_for_a_later_question() {
    let workspace = Workspace::new();
    workspace.write(
        "two.yaml",
        "name: two\nagents:\n  - {name: first, input: {prompt: One?}}\n  \
         - {name: second, input: {prompt: Two?, choices: ['yes', 'no']}, depends_on: [first]}\n  \
         - {name: third, input: Three?, dependencies: [{agent_name: second, condition: \"output.response == 'no'\"}]}\n",
    );
    workspace.run(["run", "two.yaml"]).expect_code(3);
    let wrong = ["resume", "--last", "--answer", "first=1", "--answer", "second=maybe"];
    let refused = workspace.run(wrong).expect_code(2);
    let told = "`maybe` is not one of the choices of `second`: yes, no";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    assert_eq!(workspace.journal().last().expect("records")["event"], "run_ended");
    let both = [
        "resume",
        "--last",
        "--answer",
        "first=1",
        "--answer",
        "second=yes",
        "--answer",
        "third=x",
    ];
    let resumed = workspace.run(both).expect_code(0);
    let warning = "warning: no question of `third` used the answer `x`";
    assert!(resumed.stderr.contains(warning), "{}", resumed.stderr);
}

#[test]
fn an_unused_answer_of_a_file_is_a_warning() {
    let workspace = workspace();
    workspace.write("answers.yaml", "left.ok: ['yes', 'no']\nright.ok: 'no'\n");
    let run = workspace
        .run([
            "run",
            "outer.yaml",
            "--answers",
            "answers.yaml",
            "--answer",
            "right.ok=yes",
        ])
        .expect_code(0);
    for told in ["`left.ok` used the answer `no`", "`right.ok` used the answer `no`"] {
        assert!(run.stderr.contains(told), "{}", run.stderr);
    }
}

#[test]
fn an_answer_of_a_file_or_of_a_list_says_so_in_the_record_and_in_reports() {
    let workspace = Workspace::new();
    let asks = "name: asks\nagents: [{name: ok, input: {prompt: 'Is {{ input }} well?', choices: [a, b]LIST}}]\n";
    for (list, source, words) in [
        ("", "file", "answered by the answers file"),
        (", responses: [b]", "responder", "answered by the responder"),
    ] {
        workspace.write("asks.yaml", asks.replace("LIST", list));
        workspace.write("answers.yaml", "ok: b\n");
        let answers: &[&str] = if list.is_empty() {
            &["--answers", "answers.yaml"]
        } else {
            &[]
        };
        let run = workspace.run(
            ["run", "asks.yaml", "-i", "all", "--output", "json"]
                .iter()
                .chain(answers),
        );
        let answer = run.expect_code(0).json()["conversation_history"][0]["answer"].clone();
        assert_eq!(answer["source"], source, "{answer:#}");
        assert_eq!(
            (&answer["prompt"], &answer["answer"]),
            (&"Is all well?".into(), &"b".into())
        );
        assert_eq!(answer["choices"], serde_json::json!(["a", "b"]), "{answer:#}");
        let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
        assert!(shown.contains(words), "{words}: {shown}");
        let markdown = workspace.run(["runs", "export", "--last", "--output", "markdown"]);
        assert!(markdown.expect_code(0).stdout.contains(words), "{words}");
    }
}

#[test]
fn a_default_that_nobody_chose_is_the_default_in_the_record_and_in_reports() {
    let workspace = Workspace::new();
    let asks = "name: asks\nagents: [{name: ok, input: {prompt: Well?, choices: [a, b], default: b}}]\n";
    workspace.write("asks.yaml", asks);
    workspace.run(["run", "asks.yaml"]).expect_code(0);
    let journal = workspace.journal();
    let finished = journal.iter().find(|record| record["event"] == "execution_finished");
    let answer = &finished.expect("it has finished")["data"]["answer"];
    assert_eq!((&answer["source"], &answer["answer"]), (&"default".into(), &"b".into()));
    assert_eq!(
        (&answer["unattended"], &answer["prompt"]),
        (&true.into(), &"Well?".into())
    );
    let shown = workspace.run(["runs", "show", "--last"]).expect_code(0).stdout;
    let told = "answered by the default, because no person could be asked";
    assert!(shown.contains(told), "{shown}");
    let run = workspace.run(["run", "asks.yaml"]).expect_code(0);
    assert!(run.stdout.contains(told) || run.stderr.contains(told), "{}", run.stdout);
    let json = workspace
        .run(["run", "asks.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(json["conversation_history"][0]["answer"]["source"], "default");
    for form in ["markdown", "html"] {
        let text = workspace
            .run(["runs", "export", "--last", "--output", form])
            .expect_code(0)
            .stdout;
        assert!(text.contains(told), "{form}");
    }
}

#[test]
fn a_question_inside_an_ensemble_that_a_model_calls_waits_like_any_other() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents: [{name: bot, model_profile: p, prompt: x, tools: [look]}]\n\
         tools: {look: {ensemble: inner.yaml, description: Looks}}\nmodel_profiles:\n  \
         p: {provider: simulated, replies: [{tool_calls: [{name: look, arguments: {input: y}}]}, seen]}\n",
    );
    workspace.write("inner.yaml", INNER);
    let waiting = workspace.run(["run", "outer.yaml"]).expect_code(3);
    assert!(
        waiting.stderr.contains("--answer 'bot/look#1.ok=…'") || waiting.stderr.contains("bot/look#1.ok"),
        "{}",
        waiting.stderr
    );
    assert!(waiting.stderr.contains("Shall it be?"), "{}", waiting.stderr);
    let wrong = workspace
        .run(["resume", "--last", "--answer", "bot/look#1.ok=maybe"])
        .expect_code(2);
    let told = "`maybe` is not one of the choices of `bot/look#1.ok`: yes, no";
    assert!(wrong.stderr.contains(told), "{}", wrong.stderr);
    workspace
        .run(["resume", "--last", "--answer", "bot/look#1.ok=yes"])
        .expect_code(0);
    let journal = workspace.journal();
    let calls = journal.iter().filter(|record| record["event"] == "tool_call_ended");
    let results: Vec<String> = calls
        .map(|record| record["data"]["call"]["result"].to_string())
        .collect();
    assert_eq!(results.len(), 1, "the call was made once");
    assert!(results[0].contains("yes"), "{results:?}");
}
