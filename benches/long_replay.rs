//! Replay of a long record: time, and memory that does not grow with it. And what it costs to show and to list the run.
//!
//! `cargo bench --bench long_replay`; lengths in executions may follow: `-- 10000 100000 1000000`. Each replay is the
//! program itself in a process of its own. Beside it: what it costs to read the events and to fold them, in this process.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{
    CompletionReason, ConversationState, Event, ExecutionEnd, ExecutionFinished, ExecutionStarted, Record, RunStarted,
};
use ensemble_core::log::JOURNAL_FORMAT;
use ensemble_core::records::append_record_line;
use ensemble_core::resolver::{NextDecision, decide_next_step};
use ensemble_language::data::RunContext;
use ensemble_runs::store::files::open_journal;
use serde_json::json;
use support::{plan, say, time};

const LENGTHS: [u32; 3] = [10_000, 100_000, 1_000_000];
const RUN: &str = "long-20261122-000000000";

fn text(executions: u32) -> String {
    format!(
        "name: long
conversation_limits: {{max_total_turns: {executions}}}
agents:
  - name: ping
    script: a.rhai
    dependencies: [{{agent_name: pong, feedback: true, condition: \"turn_count < 1000000000\"}}]
    conversation: {{max_turns: 1000000000}}
  - name: pong
    script: a.rhai
    dependencies: [{{agent_name: ping, condition: \"output.score > 0\"}}]
    conversation: {{max_turns: 1000000000}}
"
    )
}

/// Writes the record of a run of that many executions into a project, without keeping it in memory.
fn record(project: &Path, executions: u32) -> u64 {
    let folder = project.join(".ensemble/runs").join(RUN);
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = text(executions);
    std::fs::write(folder.join("ensemble.yaml"), &text).expect("a copy");
    let plan = plan(&text);
    let mut state = ConversationState::new(plan.clone()).without_history_and_warnings();
    let mut file = BufWriter::new(File::create(folder.join("journal.jsonl")).expect("a journal"));
    let mut line = Vec::new();
    let mut commit = |state: &mut ConversationState, event: Event| {
        let record = Record {
            seq: state.next_seq(),
            at: DateTime::<Utc>::UNIX_EPOCH,
            event,
        };
        line.clear();
        append_record_line(&record, &mut line);
        file.write_all(&line).expect("written");
        state.apply_record(&record).expect("a legal record");
    };
    commit(&mut state, Event::RunStarted(Box::new(started())));
    loop {
        match decide_next_step(&plan, &state) {
            NextDecision::StartTurn(turn) => commit(&mut state, Event::TurnStarted(turn)),
            NextDecision::Perform => perform(&mut state, &mut commit),
            NextDecision::FinishTurn(finished) => commit(&mut state, Event::TurnFinished(finished)),
            NextDecision::End(ended) => {
                assert_eq!(ended.completion_reason, CompletionReason::MaxTotalTurns);
                commit(&mut state, Event::RunEnded(ended));
                return state.next_seq();
            }
        }
    }
}

fn perform(state: &mut ConversationState, commit: &mut impl FnMut(&mut ConversationState, Event)) {
    let turn = state.turn_count() + 1;
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let starts: Vec<_> = slots.map(|slot| slot.start.clone()).collect();
    for start in starts {
        let (agent, execution) = (start.agent, start.execution);
        commit(
            state,
            Event::ExecutionStarted(ExecutionStarted {
                turn,
                agent: agent.clone(),
                execution,
                attempt: 1,
            }),
        );
        let output = json!({"score": 0.5, "response": "a sentence of some length, as agents say them"});
        let finished = ExecutionFinished {
            turn,
            agent,
            execution,
            attempt: 1,
            end: ExecutionEnd::Succeeded(output.into()),
            execution_time: 0.001,
            usage: None,
            stderr: String::new(),
            warnings: Vec::new(),
            exchange: Vec::new(),
            reused: false,
            sandboxes: Box::default(),
            answer: None,
        };
        commit(state, Event::ExecutionFinished(finished));
    }
}

fn started() -> RunStarted {
    RunStarted {
        format: JOURNAL_FORMAT,
        run_id: RUN.into(),
        ensemble: "long".into(),
        ensemble_file: "long.yaml".to_owned(),
        ensemble_digest: "0".repeat(64),
        project_root: ".".to_owned(),
        input: "the input".into(),
        context: RunContext::default(),
        inputs: Default::default(),
        models: Vec::new(),
        simulated: Vec::new(),
        stubs: Default::default(),
        responders: Default::default(),
        definitions: None,
        caller: Default::default(),
        forked_from: None,
        trace: None,
        program: "bench".to_owned(),
    }
}

/// The program: how long it takes, and the most memory it has had, in MiB.
fn program(project: &Path, arguments: &[&str]) -> (Duration, f64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
    command.args(arguments).current_dir(project);
    command.stdout(Stdio::null()).stderr(Stdio::inherit());
    let begun = Instant::now();
    let mut child = command.spawn().expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0_f64;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        peak = peak.max(kib.unwrap_or_default() / 1024.0);
        if let Some(ended) = child.try_wait().expect("it can be waited for") {
            assert!(ended.success(), "{arguments:?}: {ended}");
            return (begun.elapsed(), peak);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads and folds the record in this process: microseconds per event for reading alone, and for both.
fn folded(project: &Path, executions: u32) -> (f64, f64) {
    let journal = project.join(".ensemble/runs").join(RUN).join("journal.jsonl");
    let plan = plan(&text(executions));
    let (reading, events) = time(|| {
        let records = open_journal(&journal).expect("a journal");
        records
            .map(|record| record.expect("a record").seq)
            .max()
            .expect("records")
            + 1
    });
    let (both, state) = time(|| {
        let mut state = ConversationState::new(plan).without_history_and_warnings();
        for record in open_journal(&journal).expect("a journal") {
            state.apply_record(&record.expect("a record")).expect("a legal record");
        }
        state
    });
    assert_eq!(state.turn_count(), executions);
    let each = |took: Duration| took.as_secs_f64() * 1e6 / events as f64;
    (each(reading), each(both))
}

fn main() {
    let given: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let lengths = if given.is_empty() { LENGTHS.to_vec() } else { given };
    for executions in lengths {
        let project = tempfile::TempDir::new().expect("a folder");
        let events = record(project.path(), executions);
        let bytes = std::fs::metadata(project.path().join(".ensemble/runs").join(RUN).join("journal.jsonl"));
        let (took, peak) = program(project.path(), &["replay", RUN]);
        let (whole, whole_peak) = program(project.path(), &["replay", RUN, "--output", "json"]);
        let (shown, shown_peak) = program(project.path(), &["runs", "show", RUN]);
        let (listed, listed_peak) = program(project.path(), &["runs", "list"]);
        let (reading, both) = folded(project.path(), executions);
        let rate = |micros: f64| 1e6 / micros;
        say(&format!(
            "{executions:>8} executions, {events} events, {:.1} MiB",
            bytes.expect("a journal").len() as f64 / (1 << 20) as f64
        ));
        say(&format!(
            "  replay            {:>8.2} s, {:>9.0} events/s, peak {peak:>7.1} MiB",
            took.as_secs_f64(),
            events as f64 / took.as_secs_f64()
        ));
        say(&format!(
            "  replay, as JSON   {:>8.2} s, {:>9.0} events/s, peak {whole_peak:>7.1} MiB",
            whole.as_secs_f64(),
            events as f64 / whole.as_secs_f64()
        ));
        // Of the time for reading the events alone, which is proportional to their number.
        let ratio = |took: Duration| took.as_secs_f64() * 1e6 / events as f64 / reading;
        for (what, took, peak) in [("runs show", shown, shown_peak), ("runs list", listed, listed_peak)] {
            say(&format!(
                "  {what}         {:>8.2} s, {:>9.2} x reading, peak {peak:>7.1} MiB",
                took.as_secs_f64(),
                ratio(took)
            ));
        }
        say(&format!(
            "  read {reading:.2} µs an event ({:.0}/s), fold {:.2} µs ({:.0}/s)",
            rate(reading),
            both - reading,
            rate(both - reading)
        ));
    }
}
