//! How fast `validate` checks many files: the whole process, from spawn to exit, beside a Python schema validator.
//!
//! `cargo bench --bench validating`. Python reads the same files with PyYAML's C loader and checks them with `jsonschema`
//! against the published schema, on all cores too; `benches/support/python_validator.sh` installs both into a
//! folder of the user's cache. Where that cannot be done, the comparison is left out with a word. Beside the wall clock stands
//! the time of all processors, which says the same on a machine that others use.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use support::{Figures, micros, say, show, time};

const ROUNDS: usize = 11;
const PYTHON_ROUNDS: usize = 3;
const FILES: usize = 1_000;
const AGENTS: usize = 20;
const CIRCLED: usize = 300;
const MEMORY: [usize; 3] = [100, 1_000, 10_000];

fn main() {
    let folder = tempfile::TempDir::new().expect("a folder");
    say(&format!("files of {AGENTS} agents, {} bytes each", ensemble(0).len()));
    write_files(folder.path(), FILES);
    throughput(folder.path());
    memory();
    circles();
}

/// A file in which each agent has all others as its tools: every pair is a circle, which is one error.
fn circles() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut text = "name: circles\nagents:\n".to_owned();
    for at in 0..CIRCLED {
        let others = (0..CIRCLED).filter(|other| *other != at);
        let others: Vec<String> = others.map(|other| format!("t{other}")).collect();
        let _ = writeln!(
            text,
            "  - {{name: a{at}, model_profile: quick, prompt: x, tools: [{}]}}",
            others.join(", ")
        );
    }
    text.push_str("tools:\n");
    for at in 0..CIRCLED {
        let _ = writeln!(text, "  t{at}: {{agent: a{at}, description: agent {at}}}");
    }
    text.push_str("model_profiles:\n  quick: {provider: simulated, replies: [x]}\n");
    std::fs::write(folder.path().join("circles.yaml"), text).expect("a file");
    let mut took = Figures::default();
    for _ in 0..ROUNDS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
        command
            .args(["validate", "--quiet", "circles.yaml"])
            .stderr(Stdio::null());
        let (wall, ended) = time(|| quiet(command, folder.path()).status().expect("it starts"));
        assert_eq!(ended.code(), Some(2), "a circle of tools is an error");
        took.add(micros(wall) / 1e6);
    }
    show(&format!("{CIRCLED} agents as each other's tools"), &took, "s", "");
}

fn throughput(folder: &Path) {
    let mut ours = Took::default();
    let mut python = Took::default();
    let mut has_python = prepare_python();
    for round in 0..ROUNDS {
        ours.add(run(ensemble_command(folder)).expect("the files are valid"));
        if has_python && round < PYTHON_ROUNDS {
            match run(python_command(folder)) {
                Some(took) => python.add(took),
                None => has_python = false,
            }
        }
    }
    let rate = format!("{:.0} files a second", FILES as f64 / ours.wall.min());
    show(&format!("validate {FILES} files"), &ours.wall, "s", &rate);
    show("  time of all processors", &ours.processors, "s", "");
    if has_python {
        let times =
            |python: &Figures, ours: &Figures| format!("{:.0} × ours (medians)", python.median() / ours.median());
        let name = "beside it: Python, yaml.CSafeLoader, jsonschema";
        show(name, &python.wall, "s", &times(&python.wall, &ours.wall));
        let beside = times(&python.processors, &ours.processors);
        show("  time of all processors", &python.processors, "s", &beside);
    } else {
        say("beside it: no Python with PyYAML and jsonschema; left out");
    }
}

/// How long a command took, time after time, in seconds.
#[derive(Default)]
struct Took {
    wall: Figures,
    processors: Figures,
}

impl Took {
    fn add(&mut self, (wall, processors): (f64, f64)) {
        self.wall.add(wall);
        self.processors.add(processors);
    }
}

fn memory() {
    for files in MEMORY {
        let folder = tempfile::TempDir::new().expect("a folder");
        write_files(folder.path(), files);
        let child = ensemble_command(folder.path()).spawn().expect("it starts");
        say(&format!("most memory with {files} files: {:.1} MiB", peak(child)));
    }
}

/// The most memory that the process has had, looked at until it ends.
fn peak(mut child: Child) -> f64 {
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0_f64;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        most = most.max(kilobytes.unwrap_or_default() / 1024.0);
        std::thread::sleep(Duration::from_micros(500));
    }
    most
}

/// Seconds of wall clock, and of processors; `None` if it fails.
fn run(mut command: Command) -> Option<(f64, f64)> {
    let (took, ended) = time(|| {
        let mut child = command.spawn().ok()?;
        let pid = Pid::from_child(&child);
        // It has ended, and as long as nobody takes notice the system knows what it took.
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
        let processors = processor_seconds(child.id());
        child.wait().ok()?.success().then_some(processors?)
    });
    Some((micros(took) / 1e6, ended?))
}

/// What the process and those that it has waited for have used, from `/proc/PID/stat`.
fn processor_seconds(pid: u32) -> Option<f64> {
    /// The kernel tells these times in hundredths of a second.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(11).take(4);
    fields
        .map(|field| field.parse::<f64>().ok())
        .sum::<Option<f64>>()
        .map(|ticks| ticks / TICKS)
}

fn ensemble_command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
    command.args(["validate", "--deny-warnings", "--quiet", "ensembles"]);
    quiet(command, folder)
}

fn python_command(folder: &Path) -> Command {
    let mut command = python("run");
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schema/ensemble.schema.json");
    command.args([schema, "ensembles"]);
    quiet(command, folder)
}

fn prepare_python() -> bool {
    python("prepare")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn python(what: &str) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/support/python_validator.sh");
    let mut command = Command::new("sh");
    command.args([script, what]);
    command
}

fn quiet(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn write_files(folder: &Path, count: usize) {
    let ensembles = folder.join("ensembles");
    std::fs::create_dir_all(ensembles.join("scripts")).expect("a folder");
    std::fs::write(
        ensembles.join("scripts/judge.rhai"),
        "#{ score: execution, done: execution > 2 }",
    )
    .expect("written");
    for at in 0..count {
        std::fs::write(ensembles.join(format!("e{at:05}.yaml")), ensemble(at)).expect("written");
    }
}

/// Scripts and models in turns, each listening to the one before under a condition.
fn ensemble(number: usize) -> String {
    let mut text = format!("name: e{number:05}\ndescription: one of many\nagents:\n");
    for at in 0..AGENTS {
        let _ = write!(text, "  - name: agent{at}\n    description: agent {at} of {AGENTS}\n");
        if at % 2 == 0 {
            let _ = write!(
                text,
                "    script: scripts/judge.rhai\n    config: {{depth: {at}, tags: [one, two]}}\n"
            );
        } else {
            let before = at - 1;
            let _ = write!(
                text,
                "    model_profile: quick\n    prompt: \"Look at {{{{ agent{before}.score }}}} of {{{{ input }}}}.\"\n"
            );
        }
        if let Some(before) = at.checked_sub(1) {
            let _ = write!(
                text,
                "    dependencies:\n      - agent_name: agent{before}\n        condition: \"output.get('score', 0) < {at} and not output.get('done', False)\"\n"
            );
        }
        let _ = write!(
            text,
            "    conversation: {{state_key: key{at}}}\n    retry: {{max_attempts: 2}}\n"
        );
    }
    text.push_str("conversation_limits: {max_total_turns: 50, timeout_seconds: 60}\n");
    text.push_str("model_profiles:\n  quick: {provider: simulated, replies: ['{\"score\": 1, \"done\": false}']}\n");
    text
}
