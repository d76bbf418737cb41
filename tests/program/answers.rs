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
            "`maybe` is none of the choices of `right.ok`: yes, no",
        ),
        (&["--answer", "middle.ok=yes"], "`middle.ok` asks nothing"),
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
    let warning = "warning: no question of `left.ok` took the answer `no`";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
}
