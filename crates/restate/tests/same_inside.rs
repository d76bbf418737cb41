//! Random ensembles whose agents are ensembles, some of which ask, end on the engine as here. `tests/install.sh restate` installs the
//! engine; without it this test says that it was skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::sync::Arc;

use chrono::Utc;
use ensemble_core::conversation::{CompletionReason, ConversationState, Event, ExecutionProgress, Record};
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::plan_with_results;
use ensemble_remote::protocol::SentQuestionAnswer;
use ensemble_runs::{EnsembleRef, RunOptions, Runs};
use futures_util::stream::{self, StreamExt};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use support::compare::{folded, told, without_attempts};
use support::random::{FATE, text_of};
use support::{Engine, digest_of_question, in_a_network, records_when, remote, start};

/// How many ensembles.
const ENSEMBLES: usize = 36;
/// How many are under way at a time.
const SIDE_BY_SIDE: usize = 6;

/// What it comes to follows from its place and from the turn.
const INNER_FATE: &str = "let fate = context.fate[(context.at * 11 + context.turn * 7) % context.fate.len()];
if fate % 5 == 0 { throw `fails with ${fate}`; }
#{ n: fate % 4, fate: fate }
";
const PLAIN: &str = "name: plain\nresult: a\nagents: [{name: a, script: inner_fate.rhai}]\n";
const ASKS: &str = "name: asks
result: a
agents:
  - {name: person, input: {prompt: 'Which of {{ context.at }}?'}}
  - {name: a, script: inner_fate.rhai, depends_on: [person]}
";

/// It does not end if its fate is three of four.
const LATE: &str = "name: late
result: a
agents:
  - {name: a, script: inner_fate.rhai}
  - {name: late, script: sleep 600, dependencies: [{agent_name: a, condition: output.n != 1}]}
";

/// What an execution may take, in seconds.
const LIMIT: u32 = 4;

/// What stands in place of the script of an agent.
fn kind_of(at: usize, has_turn_limit: bool) -> Value {
    let inner = |ensemble: &str, more: Value| {
        let mut keys = json!({"ensemble": ensemble, "inputs": {"turn": "{{ turn_count }}"}});
        let (Value::Object(all), Value::Object(more)) = (&mut keys, more) else {
            return Value::Null;
        };
        all.extend(more);
        keys
    };
    match at % 6 {
        0 => inner("plain.yaml", json!({})),
        1 | 3 => inner("asks.yaml", json!({})),
        4 | 5 if has_turn_limit => inner("late.yaml", json!({})),
        4 | 5 => inner("late.yaml", json!({"timeout_seconds": LIMIT})),
        _ => Value::Null,
    }
}

#[test]
fn runs_with_runs_inside_end_on_the_engine_as_here() {
    in_a_network("same_inside");
}

fn waits(state: &ConversationState) -> bool {
    let ended = state.run_end();
    ended.is_some_and(|ended| ended.completion_reason == CompletionReason::WaitingForInput)
}

/// The run here, with the answer to each question.
async fn here(runs: &Runs, file: &str) -> Value {
    let run = runs
        .start_run(EnsembleRef::from_file_or_name(file), RunOptions::default())
        .await;
    let run = run.expect("it starts");
    let stored = run.stored_run().clone();
    let mut state = run.wait_and_close().await.expect("it ends").state;
    while waits(&state) {
        let mut options = RunOptions::default();
        options.answers.insert_file_entry("person", json!("7"));
        let run = runs
            .resume_run(stored.id().as_str(), options)
            .await
            .expect("it goes on");
        state = run.wait_and_close().await.expect("it ends").state;
    }
    let records = stored.read_journal().await.expect("its log can be read").records;
    told(&state, &records)
}

/// The run on the engine, with the answer to each question, and how many there were.
async fn there(plan: &Arc<Plan>, id: &str) -> (Value, usize) {
    let mut questions = 0;
    let mut known = 0;
    loop {
        let ends = |record: &Record| matches!(record.event, Event::RunEnded(_));
        let records = records_when(id, |records, _| {
            records.len() > known && records.last().is_some_and(ends)
        })
        .await;
        let state = folded(plan, &records);
        if !waits(&state) {
            return (told(&state, &records), questions);
        }
        let slots = &state.open_turn().expect("an open turn").slots;
        let asks = slots
            .iter()
            .find(|slot| matches!(slot.progress, ExecutionProgress::Waiting(_)));
        let asks = &asks.expect("somebody asks").start;
        let answer = SentQuestionAnswer {
            agent: asks.agent.to_string(),
            execution: asks.execution,
            asked: records.len() as u64,
            answer: json!("7"),
            decision: None,
            digest: digest_of_question(&records),
            by: None,
            at: Utc::now(),
            refuses_exhausted: None,
        };
        remote().send_answer(id, &answer).await.expect("it is taken");
        questions += 1;
        known = records.len();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`runs_with_runs_inside_end_on_the_engine_as_here` starts it in a network of its own"]
async fn same_inside() {
    let engine = Engine::start(&[
        ("fate.rhai", FATE),
        ("inner_fate.rhai", INNER_FATE),
        ("plain.yaml", PLAIN),
        ("asks.yaml", ASKS),
        ("late.yaml", LATE),
    ])
    .await;
    let mut random = TestRunner::deterministic();
    let mut texts = Vec::new();
    while texts.len() < ENSEMBLES {
        let (plan, fate) = plan_with_results()
            .new_tree(&mut random)
            .expect("an ensemble")
            .current();
        let number = texts.len();
        let has_turn_limit = number % 2 == 1;
        let mut text = text_of(&plan, &fate, |at| kind_of(at + number, has_turn_limit));
        if has_turn_limit {
            let mut written: Value = serde_json::from_str(&text).expect("JSON");
            written["conversation_limits"] = json!({"turn_timeout_seconds": LIMIT});
            text = written.to_string();
        }
        let file = format!("random{number}.yaml");
        std::fs::write(engine.path().join(&file), &text).expect("a file");
        // What the loader refuses is nothing to compare.
        let ready = engine
            .runs()
            .prepare_run(EnsembleRef::from_file_or_name(&file), RunOptions::default());
        if ready.is_ok() {
            texts.push((file, text));
        }
    }
    let runs = engine.runs();
    let compared = stream::iter(texts.iter().enumerate()).map(async |(at, (file, text))| {
        let id = format!("r{at:03}-20261123-080000000");
        let plan = start(&engine, file, &id).await;
        let (there, questions) = there(&plan, &id).await;
        let here = here(&runs, file).await;
        let (there, here) = (without_attempts(there), without_attempts(here));
        assert_eq!(there, here, "{text}");
        let ends = here["ends"].as_array().expect("a list");
        let with = |failure: &str| ends.iter().filter(|end| end.to_string().contains(failure)).count();
        let late = [with("timed out after 4 s"), with("turn_timeout_seconds was reached")];
        (ends.len(), questions, late)
    });
    let counts: Vec<(usize, usize, [usize; 2])> = compared.buffer_unordered(SIDE_BY_SIDE).collect().await;
    let executions: usize = counts.iter().map(|(executions, ..)| executions).sum();
    let questions: usize = counts.iter().map(|(_, questions, _)| questions).sum();
    assert!(executions > 60, "{executions} executions are too few to compare");
    assert!(questions > 15, "{questions} questions are too few");
    for kind in 0..2 {
        let late: usize = counts.iter().map(|(.., late)| late[kind]).sum();
        assert!(late > 2, "{late} executions whose time was up are too few ({kind})");
    }
}
