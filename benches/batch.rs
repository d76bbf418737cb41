//! A batch of simulated agents, beside as many runs of the same ensemble that are started one after the other.
//!
//! `cargo bench --bench batch`. All keep their runs in files without syncs. What is compared is the processor time of all threads of the
//! process, of the program and of the system: of as many runs by the run layer, of the same as a batch of the run layer, and of the
//! command `ensemble batch`, which is a process of its own.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ensemble_core::store::Durability;
use ensemble_runs::batch::{
    Batch, BatchOptions, BatchRequest, BatchRow, BatchWorkEnd, ColumnMapping, parse_json_lines, resolve_rows,
};
use ensemble_runs::{EnsembleRef, Project, RunHost, RunOptions, Runs, Trust};
use support::{children_time, process_time, say};

const ROUNDS: usize = 3;
const ROWS: usize = 10_000;
const ENSEMBLE: &str = "name: e
inputs: {ticket: {type: string}}
model_profiles: {m: {provider: simulated, replies: ['{\"label\": \"later\"}']}}
agents:
  - {name: sorter, model_profile: m, prompt: 'Sort {{ inputs.ticket }}.'}
  - {name: checker, model_profile: m, prompt: 'Check {{ dependencies.sorter.label }}.', depends_on: [sorter]}
result: {label: outputs.sorter.label}
";

fn runs(folder: &std::path::Path) -> Runs {
    let project = Project::from_folder(folder).with_trust(Trust::trust_everything());
    Runs::for_project(
        project,
        RunHost::from_system().without_operator().with_shared_model_network(),
    )
}

fn options() -> RunOptions {
    RunOptions::default().with_durability(Durability::None)
}

fn rows(count: usize) -> String {
    (0..count)
        .map(|row| format!("{{\"ticket\": \"ticket {row}\"}}\n"))
        .collect()
}

/// Seconds that the threads of this process have a processor meanwhile.
fn busy_time(what: impl FnOnce()) -> f64 {
    let before = process_time();
    what();
    (process_time() - before).as_secs_f64()
}

/// Seconds of a batch.
fn batch(count: usize, folder: &Path) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let text = rows(count);
    busy_time(|| {
        let runs = runs(folder);
        let prepared = Arc::new(
            runs.load_prepared_ensemble(&EnsembleRef::from_text(ENSEMBLE))
                .expect("a sound ensemble"),
        );
        let cells = parse_json_lines("t.jsonl", &text);
        let ensemble = prepared.plan.ensemble();
        let rows =
            resolve_rows(cells, &ColumnMapping::default(), &BatchRow::default(), ensemble).expect("rows that fit");
        let request = BatchRequest {
            name: "b",
            rows,
            ..BatchRequest::default()
        };
        let opened = runtime.block_on(Batch::open_for_work(&runs, prepared, request));
        let mut batch = opened.expect("a batch");
        let driving = BatchOptions {
            jobs: NonZeroUsize::new(8).expect("8 is not 0"),
            max_cost: None,
            engine: None,
        };
        let stop = runtime.block_on(batch.run_rows(&driving, || Ok(options()), |_| {}, std::future::pending()));
        assert_eq!(stop.expect("it is worked on"), BatchWorkEnd::Done);
        assert_eq!(batch.count_rows_by_outcome().len(), 1);
        batch.write_results().expect("results");
    })
}

/// Seconds of as many runs.
fn alone(count: usize, folder: &Path) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    busy_time(|| {
        let runs = runs(folder);
        let prepared = Arc::new(
            runs.load_prepared_ensemble(&EnsembleRef::from_text(ENSEMBLE))
                .expect("a sound ensemble"),
        );
        for row in 0..count {
            let options = options().with_input_value("ticket", format!("ticket {row}"));
            let ready = runs
                .prepare_run_from_prepared(Arc::clone(&prepared), options)
                .expect("ready");
            let finished =
                runtime.block_on(async { ready.start_and_spawn().await.expect("begun").wait_and_close().await });
            assert!(finished.expect("ended").state.run_end().is_some());
        }
    })
}

/// Seconds of the processor that the command needs for a batch, with its start, its progress and its table.
fn command(count: usize, folder: &Path) -> f64 {
    std::fs::write(folder.join("e.yaml"), ENSEMBLE).expect("written");
    std::fs::write(folder.join("t.jsonl"), rows(count)).expect("written");
    let before = children_time();
    let status = Command::new(env!("CARGO_BIN_EXE_ensemble"))
        .args([
            "batch",
            "e.yaml",
            "--data",
            "t.jsonl",
            "--jobs",
            "8",
            "--durability",
            "none",
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.expect("it ran").success());
    (children_time() - before).as_secs_f64()
}

fn main() {
    // Nothing is removed before the end: a file system looks long for room where many files were removed just now.
    let folders: Vec<_> = (0..3 * ROUNDS)
        .map(|_| tempfile::TempDir::new().expect("a folder"))
        .collect();
    let mut ratios = [Vec::new(), Vec::new()];
    for folders in folders.chunks(3) {
        let (bare, whole) = (alone(ROWS, folders[0].path()), batch(ROWS, folders[1].path()));
        let command = command(ROWS, folders[2].path());
        let each = |seconds: f64| seconds * 1e6 / ROWS as f64;
        ratios[0].push(whole / bare);
        ratios[1].push(command / bare);
        say(&format!(
            "{ROWS} rows: {:.1} µs each alone, {:.1} µs each in a batch ({:.2} x), {:.1} µs each by the command ({:.2} x)",
            each(bare),
            each(whole),
            whole / bare,
            each(command),
            command / bare
        ));
    }
    for (what, mut ratios) in ["in a batch", "by the command"].into_iter().zip(ratios) {
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ROUNDS - 1]);
        say(&format!(
            "{what}: {least:.2} x minimum, {:.2} x median, {most:.2} x maximum",
            ratios[ROUNDS / 2]
        ));
    }
}
