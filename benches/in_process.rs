//! Agents inside the process: Rhai scripts, simulated models and prepared answers, beside the engine alone.
//!
//! `cargo bench --bench in_process`. The floor is the compiled script, evaluated in a loop by the engine that runs
//! scripts. The conversation around it adds what `orchestration` measures: resolve, commit, a journal on disk.
//! Through the program, 10,000 executions take turns with one, so that its start is not counted.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ensemble_agents::agent::kinds::script::build_unchecked_runner;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::AgentKind;
use ensemble_process::program::ScriptFolders;
use ensemble_process::{DEFAULT_OUTPUT_CAP, ProcessSettings};
use ensemble_scripts::{Script, ScriptVariable};
use serde_json::json;
use support::{Figures, Ran, Says, all, micros, plan, run, say, show, time};

const ROUNDS: usize = 5;
const EXECUTIONS: u32 = 10_000;
/// Agents side by side in one turn.
const MANY: u32 = 1_000;

/// One line, as in the README's examples.
const SHORT: &str = "#{ count: context.get(\"count\", 0) + 1, done: false }";
/// Likewise in a model's place, where there is no context.
const REPLY: &str = "#{ count: execution + 1, done: false }";
/// Closures and a function; still short.
const CLOSURES: &str = "fn twice(x) { x * 2 } #{ sum: [1, 2, 3].map(|x| twice(x)).filter(|x| x > 2).len() }";
/// More than a script may do on the spot: it runs on a thread of its own.
const LONG: &str = "let sum = 0; for i in 0..1000 { sum += i; } #{ sum: sum }";

fn in_turn(executions: u32) -> String {
    format!(
        "name: in-turn
conversation_limits: {{max_total_turns: {executions}, timeout_seconds: 3600}}
agents:
  - name: counter
    script: a.rhai
    conversation: {{max_turns: {executions}, trigger: every_turn}}
"
    )
}

fn side_by_side() -> String {
    let agents = (0..MANY).map(|at| format!("  - {{name: agent{at}, script: a.rhai}}\n"));
    format!("name: side-by-side\nagents:\n{}", agents.collect::<String>())
}

/// Two simulated models and a person with prepared answers, every turn.
fn others(executions: u32) -> [(&'static str, String); 3] {
    let agent = |how: &str, memory: &str| {
        format!(
            "name: others
conversation_limits: {{max_total_turns: {executions}, timeout_seconds: 3600}}
model_profiles:
  prepared: {{provider: simulated, replies: ['{{\"done\": false}}']}}
  scripted: {{provider: simulated, script: a.rhai}}
agents:
  - name: agent
    {how}
    conversation: {{max_turns: {executions}, trigger: every_turn{memory}}}
"
        )
    };
    let llm = |profile: &str| {
        agent(
            &format!("model_profile: {profile}\n    prompt: Go on."),
            ", memory: none",
        )
    };
    [
        ("simulated model, `replies`", llm("prepared")),
        ("simulated model, `script`", llm("scripted")),
        (
            "input agent, `responses: {script}`",
            agent("input: {prompt: 'What now?', responses: {script: a.rhai}}", ""),
        ),
    ]
}

/// Microseconds of the engine alone, for one evaluation.
fn floor(text: &str) -> f64 {
    let script = Script::compile(text).expect("a script");
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let context = Arc::new([("count".into(), Arc::new(json!(1)))].into_iter().collect());
    let (took, ()) = time(|| {
        runtime.block_on(async {
            for _ in 0..EXECUTIONS {
                let variables = vec![("context", ScriptVariable::Context(Arc::clone(&context)))];
                script.run(variables).await.expect("a value");
            }
        });
    });
    micros(took) / f64::from(EXECUTIONS)
}

/// A conversation inside this process, with the runners of scripts.
fn conversation(text: &str, script: &str) -> Ran {
    let plan = plan(text);
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("a.rhai"), script).expect("written");
    let places = ScriptFolders {
        ensemble_dir: folder.path().to_owned(),
        project_root: folder.path().to_owned(),
    };
    let runners = plan.agent_ids().map(|id| match &plan.agent(id).kind {
        AgentKind::Script { script, .. } => {
            let bounds = ProcessSettings {
                output_cap: DEFAULT_OUTPUT_CAP,
                watchdog: None,
                environment: ensemble_process::ChildEnvironment::default(),
                sandbox: None,
            };
            build_unchecked_runner(script, &places, bounds)
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

/// The same conversation with agents that answer at once.
fn without_scripts(text: &str) -> Ran {
    let plan = plan(text);
    let output: JsonMap = [("count".to_owned(), json!(1)), ("done".to_owned(), json!(false))]
        .into_iter()
        .collect();
    run(&plan, all(&plan, Says(move |_: &_| output.clone())))
}

/// Microseconds of the whole program.
fn program(folder: &Path, text: &str) -> f64 {
    std::fs::write(folder.join("a.yaml"), text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
    command
        .args(["run", "a.yaml", "--durability", "none"])
        .current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (took, status) = time(|| command.status());
    assert!(status.expect("it ran").success(), "{text}");
    micros(took)
}

/// Microseconds of one execution through the program.
fn through_program(text: impl Fn(u32) -> String, script: &str) -> f64 {
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("a.rhai"), script).expect("written");
    let (one, many) = (
        program(folder.path(), &text(1)),
        program(folder.path(), &text(EXECUTIONS + 1)),
    );
    (many - one) / f64::from(EXECUTIONS)
}

fn main() {
    let scripts = [("one line", SHORT), ("closures", CLOSURES), ("2,000 operations", LONG)];
    let mut figures = vec![Figures::default(); 1 + 4 * scripts.len()];
    let mut parallel = vec![Figures::default(); 3];
    let names = others(1).map(|(name, _)| name);
    let mut other = vec![Figures::default(); names.len()];
    for _ in 0..ROUNDS {
        let bare = without_scripts(&in_turn(EXECUTIONS)).micros();
        figures[0].add(bare);
        for (at, (_, script)) in scripts.iter().enumerate() {
            let at = 1 + 4 * at;
            let floor = floor(script);
            let ours = conversation(&in_turn(EXECUTIONS), script).micros();
            figures[at].add(floor);
            figures[at + 1].add(ours);
            figures[at + 2].add(through_program(in_turn, script));
            figures[at + 3].add(ours / (bare + floor));
        }
        parallel[0].add(micros(without_scripts(&side_by_side()).took) / 1e3);
        parallel[1].add(micros(conversation(&side_by_side(), SHORT).took) / 1e3);
        parallel[2].add(micros(conversation(&side_by_side(), LONG).took) / 1e3);
        for (at, figures) in other.iter_mut().enumerate() {
            figures.add(through_program(|executions| others(executions)[at].1.clone(), REPLY));
        }
    }
    say(&format!("{EXECUTIONS} executions one after the other, each"));
    show("agents that answer at once", &figures[0], "µs", "");
    for (at, (name, _)) in scripts.iter().enumerate() {
        let figures = &figures[1 + 4 * at..];
        show(&format!("{name}: the engine alone"), &figures[0], "µs", "");
        show(&format!("{name}: a Rhai agent"), &figures[1], "µs", "");
        show(&format!("{name}: through the program"), &figures[2], "µs", "");
        show(
            &format!("{name}: ratio to engine and conversation"),
            &figures[3],
            "",
            "",
        );
    }
    for (name, figures) in names.iter().zip(&other) {
        show(&format!("{name}, through the program"), figures, "µs", "");
    }
    say(&format!("{MANY} agents side by side in one turn"));
    show("agents that answer at once", &parallel[0], "ms", "");
    show("Rhai agents, one line", &parallel[1], "ms", "");
    show("Rhai agents, 2,000 operations", &parallel[2], "ms", "");
}
