//! `runs show` through the binary: a run told afterwards, and while another process drives it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files and write as a driver does"
)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::support::{Outcome, Running, Workspace, eventually};
use serde_json::{Value, json};

const EVENTFUL: &str = r#"
name: eventful
agents:
  - name: planner
    model_profile: p
    prompt: Plan it.
  - name: shaky
    script: shaky.sh
    depends_on: [planner]
    retry: {max_attempts: 2, delay_seconds: 0}
  - name: broken
    script: broken.sh
    depends_on: [planner]
    on_error: continue
  - name: never
    script: broken.sh
    dependencies: [{agent_name: planner, condition: "output.response == 'x'"}]
  - name: person
    input: {prompt: "Shall we ship it?", choices: [not yet, yes]}
    depends_on: [shaky]
  - name: last
    script: last.rhai
    depends_on: [person]
model_profiles:
  p: {provider: simulated, replies: ["1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12"]}
"#;

/// A run with a retry, a failure, an agent that never runs, and a question.
fn eventful() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.yaml", EVENTFUL);
    workspace.write(
        "shaky.sh",
        "[ \"$ENSEMBLE_ATTEMPT\" = 2 ] || { echo 'no luck' >&2; exit 3; }\necho '{\"done\": true}'",
    );
    workspace.write("broken.sh", "echo 'it broke' >&2; exit 1");
    workspace.write("last.rhai", "#{ bye: dependencies.person.response }");
    workspace
}

/// An agent that waits for the file `go`, and one after it.
fn gated() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: gated\nagents:\n  - {name: first, script: gate.sh}\n  - {name: second, script: s.rhai, depends_on: [first]}\n",
    );
    // Whoever is left over ends with the folder.
    workspace.write(
        "gate.sh",
        "until [ -e go ] || [ ! -e gate.sh ]; do sleep 0.02; done; echo through",
    );
    workspace.write("s.rhai", "#{ heard: dependencies.first.response }");
    workspace
}

fn id(workspace: &Workspace) -> String {
    let runs = workspace.runs();
    let name = runs.last().expect("a run").file_name().expect("a name");
    name.to_string_lossy().into_owned()
}

/// What stands after these words on their line.
fn after<'t>(text: &'t str, words: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.split_once(words));
    line.unwrap_or_else(|| panic!("{words} in {text}")).1
}

#[track_caller]
fn says(outcome: &Outcome, texts: &[&str]) {
    let mut rest = &*outcome.stdout;
    for text in texts {
        let at = rest
            .find(text)
            .unwrap_or_else(|| panic!("{text:?} in order in\n{}", outcome.stdout));
        rest = &rest[at + text.len()..];
    }
}

#[test]
fn the_story_tells_turn_by_turn_and_the_command_it_names_answers() {
    let workspace = eventful();
    workspace
        .run(["run", "a.yaml", "-i", "make it", "--set", "k=[1]"])
        .expect_code(3);
    let told = workspace.run(["runs", "show"]).expect_code(0);
    says(
        &told,
        &[
            "eventful · 6 agents · run ",
            "input\n    make it\n",
            "given\n    k: [1]\n",
            "turn 1\n  ✓ planner llm · ",
            "    1\n    2\n",
            "    8\n    … 4 more lines (-v)\n",
            "– shaky, broken, never: waiting for planner\n",
            "turn 2\n",
            "– never: condition false on planner: output.response == 'x' (output.response = ",
            "turn 3\n  ? person is waiting for an answer\n    Shall we ship it?\n    · not yet\n    · yes\n",
            "– never: same reason as before\n",
            "? waiting_for_input\n",
            "2 turns · 3 executions, 1 failed · ",
            "1 model request · ",
            "simulated: planner uses a simulated model\n",
        ],
    );
    for text in [
        "  ✓ shaky script · ",
        "    attempt 1 failed (exit): the script ended with exit code 3; stderr ends with: no luck; again after 0 ms\n    done: true\n",
        "  ✗ broken script · ",
        "    failed (exit): the script ended with exit code 1",
    ] {
        assert!(told.stdout.contains(text), "{text:?} in\n{}", told.stdout);
    }
    assert_eq!(told.stderr, "");
    // What it tells to type is typed.
    let command = after(&told.stdout, "answer with: ensemble ").to_owned();
    assert!(command.ends_with("--answer person='not yet'"), "{command}");
    let script = format!("exec {} {command}", crate::support::binary());
    workspace.write("type.sh", script);
    let typed = std::process::Command::new("sh")
        .arg("type.sh")
        .current_dir(workspace.path())
        .output();
    assert!(typed.expect("sh is there").status.success());
    let told = workspace.run(["runs", "show", &id(&workspace)]).expect_code(0);
    says(
        &told,
        &[
            "\nresumed ",
            "✓ person input · ",
            "    not yet\n",
            "turn 4\n  ✓ last",
            "✓ completed\n  never never ran: ",
        ],
    );
    assert!(after(&told.stdout, "continue with a new message: ").starts_with("ensemble continue "));
}

#[test]
fn verbose_tells_the_whole_of_it() {
    let workspace = eventful();
    workspace
        .run(["run", "a.yaml", "--answer", "person=yes"])
        .expect_code(0);
    let told = workspace.run(["runs", "show", "--verbose"]).expect_code(0);
    for text in [
        "    12\n",
        "    read planner #1\n",
        "    stderr:\n    it broke\n",
        "stderr:\n    no luck\n",
    ] {
        assert!(told.stdout.contains(text), "{text:?} in\n{}", told.stdout);
    }
    assert!(
        !told.stdout.contains("more lines") && !told.stdout.contains("same reason"),
        "{}",
        told.stdout
    );
}

#[test]
fn the_document_tells_the_same_to_a_program() {
    let workspace = eventful();
    workspace.run(["run", "a.yaml"]).expect_code(3);
    let document = workspace
        .run(["runs", "show", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(document["version"], 1);
    assert_eq!(document["state"], "waiting");
    assert_eq!(document["completion_reason"], "waiting_for_input");
    let question = &document["questions"][0];
    let expected = (
        &json!("person"),
        &json!("person"),
        &json!("Shall we ship it?"),
        &json!(["not yet", "yes"]),
    );
    assert_eq!(
        (
            &question["address"],
            &question["agent"],
            &question["prompt"],
            &question["choices"]
        ),
        expected
    );
    let story = document["story"].as_array().expect("a list");
    let what: Vec<&Value> = story.iter().map(|chapter| &chapter["what"]).collect();
    assert_eq!(what, ["turn", "turn", "turn", "ended"]);
    let shaky = &story[1]["executions"][0];
    assert_eq!(shaky["agent"], "shaky");
    assert_eq!(shaky["reads"], json!({"planner": 1}));
    assert_eq!(shaky["attempts"][0]["end"], "failed");
    assert_eq!(shaky["attempts"][0]["failure"]["kind"], "exit");
    assert_eq!(shaky["attempts"][1]["end"], "final");
    assert_eq!(shaky["output"], json!({"done": true}));
    let never = story[1]["did_not_run"].as_array().expect("a list");
    let never = never.iter().find(|one| one["agent"] == "never").expect("a reason");
    assert_eq!(never["why"]["reason"], "condition_false");
    assert!(
        document["next"][0]["command"]
            .as_str()
            .expect("a command")
            .starts_with("ensemble resume ")
    );
}

#[test]
fn a_run_whose_process_died_says_so_and_what_it_lost() {
    let workspace = gated();
    let running = workspace.spawn(["run", "a.yaml"]);
    begun(&workspace);
    let document = workspace
        .run(["runs", "show", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(document["state"], "running");
    assert_eq!(document["driver_pid"], json!(running.0.id()));
    let told = workspace.run(["runs", "show"]).expect_code(0);
    says(
        &told,
        &[
            "… first attempt 1, since ",
            &format!("running in process {}", running.0.id()),
            "--follow",
        ],
    );
    running.signal("KILL");
    running.finish();
    let told = workspace.run(["runs", "show"]).expect_code(0);
    says(
        &told,
        &[
            "… first attempt 1 had not finished\n",
            "✗ interrupted: ",
            "resume with: ensemble resume ",
        ],
    );
    let document = workspace
        .run(["runs", "show", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(document["state"], "interrupted");
    workspace.write("go", "");
    workspace.run(["resume", "--last"]).expect_code(0);
    let told = workspace.run(["runs", "show"]).expect_code(0);
    says(
        &told,
        &["resumed ", "✓ first script", "attempt 1 was lost: ", "✓ completed"],
    );
}

#[test]
fn a_failure_is_mended_by_a_fork_from_before_it() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: one, script: one.rhai}\n  - {name: two, script: two.rhai, depends_on: [one]}\n",
    );
    workspace.write("one.rhai", "#{ n: 1 }");
    workspace.write("two.rhai", "throw \"no\"");
    workspace.run(["run", "a.yaml"]).expect_code(1);
    let told = workspace.run(["runs", "show"]).expect_code(0);
    let command = format!("ensemble fork {} --at-turn 1 --ensemble FILE", id(&workspace));
    says(
        &told,
        &[
            "✗ two script",
            "failed (reported): two.rhai:1:1: no",
            "✗ agent_failed",
            &command,
        ],
    );
}

#[test]
fn a_run_is_found_by_its_folder_and_so_is_one_inside_another() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: outer\nagents:\n  - {name: sub, ensemble: inner.yaml}\n",
    );
    workspace.write("inner.yaml", "name: inner\nagents:\n  - {name: it, script: it.rhai}\n");
    workspace.write("it.rhai", "#{ said: \"inside\" }");
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let outer = format!(".ensemble/runs/{}", id(&workspace));
    says(
        &workspace.run(["runs", "show", &outer]).expect_code(0),
        &["outer · 1 agent", "✓ sub ensemble"],
    );
    let inner = workspace
        .run(["runs", "show", &format!("{outer}/sub/sub-1-1")])
        .expect_code(0);
    says(&inner, &["inner · 1 agent", "said: inside", "✓ completed"]);
    assert!(
        !inner.stdout.contains("ensemble continue"),
        "it is driven with the outer one: {}",
        inner.stdout
    );
}

/// Waits until the first agent is at work.
fn begun(workspace: &Workspace) {
    eventually("the first execution", || {
        let journal = workspace.runs().last()?.join("journal.jsonl");
        let text = std::fs::read_to_string(journal).ok()?;
        text.contains("execution_started").then_some(())
    });
}

/// What a program prints, line by line; a test that waits in vain fails and does not hang.
struct Lines(Receiver<Vec<u8>>);

impl Lines {
    fn of(running: &mut Running) -> Self {
        let mut stdout = BufReader::new(running.0.stdout.take().expect("standard output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while let Ok(1..) = stdout.read_until(b'\n', &mut line) {
                // Whoever has seen enough closes the pipe.
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    /// The next line; nothing at the end.
    #[track_caller]
    fn next(&self) -> Vec<u8> {
        match self.0.recv_timeout(Duration::from_secs(20)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => Vec::new(),
            Err(RecvTimeoutError::Timeout) => panic!("no line comes"),
        }
    }

    /// All lines up to one that holds this.
    #[track_caller]
    fn until(&self, says: &str) -> String {
        let mut text = String::new();
        while !text.contains(says) {
            let line = self.next();
            assert!(!line.is_empty(), "{says} in {text}");
            text.push_str(&String::from_utf8_lossy(&line));
        }
        text
    }

    /// All lines up to the end.
    #[track_caller]
    fn rest(&self) -> String {
        let lines = std::iter::repeat_with(|| self.next()).take_while(|line| !line.is_empty());
        lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
    }
}

#[test]
fn a_follower_tells_what_happens_and_ends_with_the_run() {
    let workspace = gated();
    let running = workspace.spawn(["run", "a.yaml"]);
    begun(&workspace);
    let mut events = workspace.spawn(["runs", "show", "--follow", "--output", "events"]);
    let mut human = workspace.spawn(["runs", "show", "--follow"]);
    let lines = Lines::of(&mut events);
    let mut text = lines.until("execution_started");
    let story = Lines::of(&mut human);
    story.until("running: first");
    assert!(running.is_alive() && events.is_alive() && human.is_alive());
    workspace.write("go", "");
    running.finish().expect_code(0);
    text.push_str(&lines.rest());
    events.finish().expect_code(0);
    let journal = workspace.runs()[0].join("journal.jsonl");
    assert_eq!(text, std::fs::read_to_string(journal).expect("a journal"));
    let rest = story.rest();
    assert!(
        rest.contains("heard: through") && rest.contains("✓ completed"),
        "{rest}"
    );
    human.finish().expect_code(0);
}

#[test]
fn a_follower_says_when_the_driver_is_gone_without_an_end() {
    let workspace = gated();
    let running = workspace.spawn(["run", "a.yaml"]);
    begun(&workspace);
    let follower = workspace.spawn(["runs", "show", "--follow"]);
    running.signal("KILL");
    running.finish();
    let told = follower.finish().expect_code(1);
    says(&told, &["turn 1", "✗ interrupted: ", "resume with: ensemble resume "]);
}

#[test]
fn a_follower_that_does_not_move_holds_nobody_up() {
    let workspace = gated();
    let running = workspace.spawn(["run", "a.yaml"]);
    begun(&workspace);
    let mut follower = workspace.spawn(["runs", "show", "--follow", "--output", "events"]);
    let lines = Lines::of(&mut follower);
    lines.until("execution_started");
    follower.signal("STOP");
    workspace.write("go", "");
    running.finish().expect_code(0);
    // Another driver takes the lock while the follower sleeps.
    workspace.run(["continue", &id(&workspace), "more"]).expect_code(0);
    follower.signal("CONT");
    let rest = lines.rest();
    assert_eq!(rest.matches("run_ended").count(), 2, "{rest}");
    follower.finish().expect_code(0);
}

#[test]
fn a_follower_ends_when_nobody_listens() {
    let workspace = gated();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: first, script: gate.sh}\n  - {name: second, script: end.sh, depends_on: [first]}\n",
    );
    workspace.write("end.sh", "until [ -e end ] || [ ! -e end.sh ]; do sleep 0.02; done");
    let running = workspace.spawn(["run", "a.yaml"]);
    begun(&workspace);
    let mut follower = workspace.spawn(["runs", "show", "--follow"]);
    let mut stdout = follower.0.stdout.take().expect("standard output");
    stdout.read_exact(&mut [0; 4]).expect("it has begun");
    drop(stdout);
    workspace.write("go", "");
    follower.finish().expect_code(0);
    assert!(running.is_alive(), "the run has not ended");
    workspace.write("end", "");
    running.finish().expect_code(0);
}

/// Writes a journal as a driver does, line by line and byte by byte.
struct Driver {
    /// Whoever has this open and stands in it drives the run.
    lock: File,
    journal: File,
}

impl Driver {
    fn of(workspace: &Workspace, folder: &std::path::Path) -> Self {
        std::fs::create_dir_all(folder).expect("folders can be made");
        let copy = workspace.runs()[0].join("ensemble.yaml");
        std::fs::copy(copy, folder.join("ensemble.yaml")).expect("files can be copied");
        let mut lock = File::create(folder.join("lock")).expect("files can be made");
        writeln!(lock, "pid {}", std::process::id()).expect("files can be written");
        let journal = File::create(folder.join("journal.jsonl")).expect("files can be made");
        Self { lock, journal }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.journal.write_all(bytes).expect("files can be written");
    }
}

#[test]
fn a_line_that_comes_in_pieces_is_told_once_and_whole() {
    let workspace = eventful();
    workspace
        .run(["run", "a.yaml", "--answer", "person=yes"])
        .expect_code(0);
    let journal = std::fs::read(workspace.runs()[0].join("journal.jsonl")).expect("a journal");
    let folder = workspace.path().join(".ensemble/runs/zzzz-20990101-000000000");
    let mut driver = Driver::of(&workspace, &folder);
    let lines: Vec<&[u8]> = journal.split_inclusive(|byte| *byte == b'\n').collect();
    driver.write(lines[0]);
    let mut command = workspace.command(["runs", "show", "--follow", "--output", "events"]);
    let mut follower = Running(command.stdout(Stdio::piped()).spawn().expect("the program starts"));
    let told = Lines::of(&mut follower);
    for (at, whole) in lines.iter().enumerate() {
        assert_eq!(told.next(), *whole);
        // Half of the next line, which is told only with its other half.
        let Some(next) = lines.get(at + 1) else { break };
        let (half, rest) = next.split_at(next.len() / 2);
        driver.write(half);
        std::thread::yield_now();
        driver.write(rest);
    }
    drop(driver.lock);
    assert_eq!(told.rest(), "");
    follower.finish().expect_code(0);
}
