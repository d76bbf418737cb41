//! A front end: starts a run, follows it, answers its question, cancels it, and resumes it.
//!
//! `cargo run -p ensemble-runs --example front_end`

use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, RunCanceller};
use ensemble_core::request::{AnswerSource, RequestAnswer};
use ensemble_core::store::MemoryStore;
use ensemble_runs::{EnsembleRef, LiveEventKind, Project, RunError, RunEventKind, RunHost, RunOptions, Runs};

const GATE: &str = r#"
name: gate
model_profiles:
  drafts: {provider: simulated, replies: ["A short text about the sea."]}
agents:
  - {name: writer, model_profile: drafts, prompt: "Write about {{ input }}."}
  - {name: editor, input: {prompt: "Print it?", choices: ["yes", "no"]}, depends_on: [writer]}
"#;

/// What a front end shows, as lines of text.
pub(crate) async fn front_end() -> Result<Vec<String>, RunError> {
    let mut shown = Vec::new();
    let runs =
        Runs::for_project(Project::from_folder("."), RunHost::from_system()).with_store(Arc::new(MemoryStore::new()));

    // Start it, follow it, and answer in the middle.
    let run = runs
        .start_run(
            EnsembleRef::from_text(GATE),
            RunOptions::default().with_input("the sea"),
        )
        .await?;
    let mut events = run.events();
    while let Some(event) = events.next().await? {
        match event.kind {
            RunEventKind::Committed(record) => {
                shown.push(format!("{} {}", record.seq, record.event.event_name()));
                if let Event::RunEnded(_) = record.event {
                    break;
                }
            }
            RunEventKind::Live(live) => {
                if let LiveEventKind::Text(text) = live.kind {
                    shown.push(format!("  {}: {text}", live.agent));
                }
            }
            RunEventKind::QuestionAsked(asked) => {
                let request = asked.request;
                shown.push(format!("  {} asks: {}", request.address, request.question.prompt));
                let answer = RequestAnswer::Text("yes".to_owned());
                run.answer_request(&request, answer, AnswerSource::Option).await?;
            }
            RunEventKind::PermissionRequested(call) => shown.push(format!("  may it call {}?", call.tool)),
        }
    }
    shown.push(format!("ended as {}", run.wait_for_end().await?.completion_reason));

    // Start another, cancel it while it waits, and resume it.
    let run = runs
        .start_run(
            EnsembleRef::from_text(GATE),
            RunOptions::default().with_input("the wind"),
        )
        .await?;
    let mut events = run.events();
    while let Some(event) = events.next().await? {
        if let RunEventKind::QuestionAsked(_) = event.kind {
            run.cancel(RunCanceller::Client("the front end".into()));
            break;
        }
    }
    shown.push(format!("ended as {}", run.wait_for_end().await?.completion_reason));
    let id = run.wait_and_close().await?.run;
    let run = runs
        .resume_run(&id, RunOptions::default().with_answer("editor", "no"))
        .await?;
    assert_eq!(run.wait_for_end().await?.completion_reason, CompletionReason::Completed);
    let state = run.wait_and_close().await?.state;
    let said = state
        .list_executions()
        .last()
        .map(|entry| entry.output_data()["response"].to_string());
    shown.push(format!("resumed, the editor said {}", said.unwrap_or_default()));
    Ok(shown)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in front_end().await? {
        print(&line);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example prints what it shows")]
fn print(line: &str) {
    println!("{line}");
}
