//! Makes the decisions of a run and supplies the results of its executions by hand, without an executor.

use std::sync::Arc;

use chrono::DateTime;
use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_core::resolver::{NextDecision, decide_next_step};
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;
use serde_json::{from_value, json};

const TEXT: &str = "\
name: tide
agents:
  - name: gauge
    script: gauge.rhai
    dependencies:
      - {agent_name: watch, feedback: true, condition: not output.safe}
    conversation: {max_turns: 3}
  - name: watch
    script: watch.rhai
    depends_on: [gauge]
    conversation: {max_turns: 3}
";

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let ensemble = load_ensemble(&SourceText::new("tide.yaml", TEXT))
        .ensemble
        .expect("no error");
    let plan = Arc::new(Plan::build(Arc::new(ensemble)).expect("no error"));
    let mut state = ConversationState::new(Arc::clone(&plan));
    let mut told = Vec::new();
    let commit = |state: &mut ConversationState, event: Event| {
        let (seq, at) = (state.next_seq(), DateTime::UNIX_EPOCH);
        state.apply_record(&Record { seq, at, event }).expect("a legal event");
    };
    let started = json!({"event": "run_started", "data": {
        "format": 1, "run_id": "by-hand", "ensemble": "tide", "ensemble_file": "", "ensemble_digest": "",
        "project_root": "", "input": "", "program": "example",
    }});
    commit(&mut state, from_value(started).expect("an event"));
    let mut metres = 5;
    loop {
        match decide_next_step(&plan, &state) {
            NextDecision::StartTurn(turn) => commit(&mut state, Event::TurnStarted(turn)),
            NextDecision::FinishTurn(turn) => commit(&mut state, Event::TurnFinished(turn)),
            NextDecision::Perform => {
                let turn = state.open_turn().expect("a turn is open");
                let (number, start) = (turn.turn, turn.slots[0].start.clone());
                let output = match &*start.agent {
                    "gauge" => {
                        metres -= 1;
                        json!({"metres": metres})
                    }
                    _ => json!({"safe": metres < 4}),
                };
                told.push(format!("turn {number}: {} says {output}", start.agent));
                let data = json!({
                    "turn": number, "agent": start.agent, "execution": start.execution, "attempt": 1,
                    "output": output, "execution_time": 0.0,
                });
                let finished = json!({"event": "execution_finished", "data": data});
                commit(&mut state, from_value(finished).expect("an event"));
            }
            NextDecision::End(end) => {
                told.push(format!("the run ends: {}", end.completion_reason));
                break;
            }
        }
    }
    println!("{}", told.join("\n"));
    let expected = [
        r#"turn 1: gauge says {"metres":4}"#,
        r#"turn 2: watch says {"safe":false}"#,
        r#"turn 3: gauge says {"metres":3}"#,
        r#"turn 4: watch says {"safe":true}"#,
        "the run ends: completed",
    ];
    assert_eq!(told, expected);
}
