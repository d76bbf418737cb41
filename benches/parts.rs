//! Executions with a thousand parts, beside what the parts cost alone.
//!
//! `cargo bench --bench parts`. Parts of a Rhai script: beside the engine alone, evaluated as often in a loop. Parts that
//! are processes: beside threads that spawn and wait, as many side by side.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ensemble_agents::agent::for_each::ForEachRunner;
use ensemble_agents::agent::kinds::script::build_unchecked_runner;
use ensemble_core::runner::Runner;
use ensemble_language::ensemble::AgentKind;
use ensemble_process::program::ScriptFolders;
use ensemble_process::{DEFAULT_OUTPUT_CAP, ProcessSettings, ProcessWatchdog, ProgramInvocation};
use ensemble_scripts::{Script, ScriptVariable};
use serde_json::json;
use support::{Figures, bare, micros, piped, plan, run, say, show, time};

const ROUNDS: usize = 7;
const PARTS: u32 = 1_000;
const SIDE_BY_SIDE: u32 = 8;
const SCRIPT: &str = "#{ double: item * 2, key: part.key }";

/// Milliseconds of a conversation whose one agent has a thousand parts.
fn conversation(script: &str) -> f64 {
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("a.rhai"), SCRIPT).expect("written");
    let plan = plan(&format!(
        "name: parts
agents:
  - name: a
    script: \"{script}\"
    for_each: {{times: {PARTS}, max_items: {PARTS}, max_parallel: {SIDE_BY_SIDE}}}
"
    ));
    let places = ScriptFolders {
        ensemble_dir: folder.path().to_owned(),
        project_root: folder.path().to_owned(),
    };
    let watchdog = ProcessWatchdog::new(ProgramInvocation {
        program: env!("CARGO_BIN_EXE_ensemble").into(),
        arguments: vec!["__watchdog".into()],
    });
    let bounds = ProcessSettings {
        output_cap: DEFAULT_OUTPUT_CAP,
        watchdog: Some(Arc::new(watchdog)),
        environment: ensemble_process::ChildEnvironment::default(),
        sandbox: None,
    };
    let agent = &plan.ensemble().agents[0];
    let (AgentKind::Script { script, .. }, Some(spec)) = (&agent.kind, &agent.for_each) else {
        panic!("a script with parts");
    };
    let runner = build_unchecked_runner(script, &places, bounds);
    let parts = ForEachRunner::new(agent, spec, runner, Arc::default()).expect("a sound list");
    let runners: Vec<Arc<dyn Runner>> = vec![Arc::new(parts)];
    let ran = run(&plan, runners);
    assert!(
        ran.state.list_executions().all(|entry| entry.is_success()),
        "every part succeeds"
    );
    micros(ran.took) / 1e3
}

/// Milliseconds of the engine alone.
fn engine() -> f64 {
    let script = Script::compile(SCRIPT).expect("a script");
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let (took, ()) = time(|| {
        runtime.block_on(async {
            for item in 0..PARTS {
                let part = json!({"index": item, "key": item.to_string(), "count": PARTS});
                let variables = vec![
                    ("item", ScriptVariable::Json(Arc::new(json!(item)))),
                    ("part", ScriptVariable::Json(Arc::new(part))),
                ];
                script.run(variables).await.expect("a value");
            }
        });
    });
    micros(took) / 1e3
}

/// Milliseconds of threads that take turns at spawning and waiting.
fn threads(start: impl Fn() + Sync) -> f64 {
    let next = AtomicU32::new(0);
    let (took, ()) = time(|| {
        std::thread::scope(|scope| {
            for _ in 0..SIDE_BY_SIDE {
                scope.spawn(|| {
                    while next.fetch_add(1, Ordering::Relaxed) < PARTS {
                        start();
                    }
                });
            }
        });
    });
    micros(took) / 1e3
}

fn main() {
    let mut figures = vec![Figures::default(); 3];
    for _ in 0..ROUNDS {
        let (alone, ours) = (engine(), conversation("a.rhai"));
        figures[0].add(alone);
        figures[1].add(ours);
        figures[2].add(ours - alone);
    }
    say(&format!("{PARTS} parts of a one-line Rhai script"));
    show("the engine alone", &figures[0], "ms", "");
    show("an execution with parts", &figures[1], "ms", "");
    show("orchestration", &figures[2], "ms", "must be below 20");

    let mut figures = vec![Figures::default(); 5];
    for _ in 0..ROUNDS {
        let (bare, piped, ours) = (threads(bare), threads(piped), conversation("true"));
        figures[0].add(bare);
        figures[1].add(piped);
        figures[2].add(ours);
        figures[3].add(ours / bare);
        figures[4].add(ours / piped);
    }
    say(&format!(
        "{PARTS} parts that are processes (`true`), {SIDE_BY_SIDE} side by side"
    ));
    show("threads: spawn, wait", &figures[0], "ms", "");
    show("threads with three pipes", &figures[1], "ms", "");
    show("an execution with parts", &figures[2], "ms", "");
    show("ratio to the threads", &figures[3], "", "must be at most 1.3");
    show("ratio to the threads with pipes", &figures[4], "", "");
}
