//! Agents that are child processes, beside a plain loop of spawn and wait.
//!
//! `cargo bench --bench child_processes`. The loop and the conversation take turns, a hundred children each.
//! The conversation gives each child its input and listens to what it says, so the loop runs in two forms:
//! bare, and with the same three pipes.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use ensemble_agents::agent::kinds::script::build_unchecked_runner;
use ensemble_process::program::ScriptFolders;
use ensemble_process::{DEFAULT_OUTPUT_CAP, ProcessSettings, ProcessWatchdog, ProgramInvocation};
use support::{Figures, Ran, bare, micros, piped, plan, run, say, show, time};

const ROUNDS: usize = 10;
const CHILDREN: usize = 100;
/// Memory that a run of 20,000 turns with 1 kB each has.
const BALLAST: usize = 64 << 20;

/// As a run has them: the program itself is the watchdog.
fn bounds() -> ProcessSettings {
    let watchdog = ProcessWatchdog::new(ProgramInvocation {
        program: env!("CARGO_BIN_EXE_ensemble").into(),
        arguments: vec!["__watchdog".into()],
    });
    ProcessSettings {
        output_cap: DEFAULT_OUTPUT_CAP,
        watchdog: Some(Arc::new(watchdog)),
        environment: ensemble_process::ChildEnvironment::default(),
        sandbox: None,
    }
}

fn conversation(text: &str) -> Ran {
    let plan = plan(text);
    let folder = tempfile::TempDir::new().expect("a folder");
    let places = ScriptFolders {
        ensemble_dir: folder.path().to_owned(),
        project_root: folder.path().to_owned(),
    };
    let runners = plan.agent_ids().map(|id| match &plan.agent(id).kind {
        ensemble_language::ensemble::AgentKind::Script { script, .. } => {
            build_unchecked_runner(script, &places, bounds())
        }
        other => panic!("{other:?}"),
    });
    let ran = run(&plan, runners.collect());
    assert!(
        ran.state.list_executions().all(|entry| entry.is_success()),
        "every script succeeds"
    );
    ran
}

fn sequential() -> Duration {
    let ran = conversation(&format!(
        "name: sequential
conversation_limits: {{max_total_turns: {CHILDREN}}}
agents:
  - name: runner
    script: \"true\"
    conversation: {{max_turns: {CHILDREN}, trigger: every_turn}}
"
    ));
    assert_eq!(ran.executions(), CHILDREN);
    ran.took
}

fn side_by_side(children: usize) -> Duration {
    let mut text = "name: parallel\nagents:\n".to_owned();
    for at in 0..children {
        text.push_str(&format!("  - {{name: sleeper{at}, script: sleep 1}}\n"));
    }
    conversation(&text).took
}

fn repeat(what: impl Fn()) -> Duration {
    time(|| (0..CHILDREN).for_each(|_| what())).0
}

fn main() {
    let mut figures = vec![Figures::default(); 3];
    let mut ratios = vec![Figures::default(); 2];
    let each = |took: Duration| micros(took) / CHILDREN as f64;
    for _ in 0..ROUNDS {
        let (bare, piped, ours) = (each(repeat(bare)), each(repeat(piped)), each(sequential()));
        figures[0].add(bare);
        figures[1].add(piped);
        figures[2].add(ours);
        ratios[0].add(ours / bare);
        ratios[1].add(ours / piped);
    }
    say(&format!(
        "{} times `true`, one after the other, {CHILDREN} in a row",
        ROUNDS * CHILDREN
    ));
    show("plain loop: spawn, wait", &figures[0], "µs", "");
    show("plain loop with three pipes", &figures[1], "µs", "");
    show("conversation", &figures[2], "µs", "");
    show("ratio to the plain loop, round by round", &ratios[0], "", "");
    show("ratio to the loop with pipes", &ratios[1], "", "");

    // What a run remembers is mapped once more for each child that is forked.
    let ballast: Vec<u8> = black_box((0..BALLAST).map(|at| (at % 251) as u8).collect());
    let mut figures = vec![Figures::default(); 2];
    for _ in 0..3 {
        figures[0].add(each(repeat(bare)));
        figures[1].add(each(sequential()));
    }
    let ratio = format!("{:.2} of the loop", figures[1].median() / figures[0].median());
    say(&format!(
        "the same in a process that holds {} MiB more",
        ballast.len() >> 20
    ));
    show("plain loop: spawn, wait", &figures[0], "µs", "");
    show("conversation", &figures[1], "µs", &ratio);
    drop(ballast);

    let mut figures = vec![Figures::default(); 2];
    for _ in 0..3 {
        figures[0].add(micros(side_by_side(1)) / 1e3);
        figures[1].add(micros(side_by_side(8)) / 1e3);
    }
    let ratio = format!("{:.3} of one", figures[1].median() / figures[0].median());
    say("scripts that sleep for a second, side by side");
    show("one", &figures[0], "ms", "");
    show("eight", &figures[1], "ms", &ratio);
}
