//! How fast the program reads: journals, conditions, ensembles.
//!
//! `cargo bench --bench reading`. Beside the journal runs serde_json, which reads its lines as bare values.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;

use ensemble_core::conversation::ConversationState;
use ensemble_language::condition::Condition;
use ensemble_language::data::JsonMap;
use ensemble_language::plan::AgentId;
use ensemble_runs::store::files::read_journal;
use serde_json::{Value, json};
use support::{Figures, Says, all, micros, plan, run, say, show, time};

const ROUNDS: usize = 7;
const TURNS: u32 = 20_000;
const CONDITIONS: [&str; 4] = [
    "turn_count < 5",
    "context.get('needs_clarification', False)",
    "output.get('score', 0) >= 0.9 and len(history) < 1000000",
    "history[-1].success and executions['ping'] < 1000000 and 'missing' not in context",
];

fn main() {
    journals();
    conditions();
    ensembles();
}

fn ping_pong() -> String {
    format!(
        "name: ping-pong
conversation_limits: {{max_total_turns: {TURNS}}}
agents:
  - name: ping
    script: a.rhai
    dependencies: [{{agent_name: pong, feedback: true, condition: \"turn_count < 1000000\"}}]
    conversation: {{max_turns: 1000000}}
  - name: pong
    script: a.rhai
    dependencies: [{{agent_name: ping, condition: \"turn_count < 1000000\"}}]
    conversation: {{max_turns: 1000000}}
"
    )
}

fn journals() {
    let plan = plan(&ping_pong());
    let output = json!({"score": 0.5, "response": "a sentence of some length, as agents say them"});
    let output: JsonMap = output.as_object().expect("an object").clone();
    let ran = run(&plan, all(&plan, Says(move |_: &_| output.clone())));
    let mut figures = vec![Figures::default(); 3];
    let mut events = 0;
    for _ in 0..ROUNDS {
        let text = std::fs::read_to_string(&ran.journal).expect("a journal");
        let (took, lines) = time(|| {
            text.lines()
                .filter(|line| serde_json::from_str::<Value>(line).is_ok())
                .count()
        });
        let (read, journal) = time(|| read_journal(&ran.journal).expect("a journal"));
        assert_eq!(lines, journal.records.len());
        events = lines;
        let (folded, state) = time(|| {
            let mut state = ConversationState::new(plan.clone());
            for record in &journal.records {
                state.apply_record(record).expect("a legal record");
            }
            state
        });
        assert_eq!(state.turn_count(), TURNS);
        for (figures, took) in figures.iter_mut().zip([took, read, folded]) {
            figures.add(micros(took) / events as f64);
        }
    }
    let bytes = ran.journal_bytes as f64 / events as f64;
    say(&format!(
        "a journal of {events} events, {bytes:.0} bytes each: time per event"
    ));
    let rate = |figures: &Figures| format!("{:.0} events a second", 1e6 / figures.min());
    show("serde_json, bare values", &figures[0], "µs", "");
    show("read and check", &figures[1], "µs", &rate(&figures[1]));
    show("fold", &figures[2], "µs", &rate(&figures[2]));
}

fn conditions() {
    let plan = plan(&ping_pong());
    let output = json!({"score": 0.5}).as_object().expect("an object").clone();
    let ran = run(&plan, all(&plan, Says(move |_: &_| output.clone())));
    let to: AgentId = plan.find_agent_id("pong").expect("an agent");
    let (_, edge) = plan.incoming_edges(to).next().expect("an edge");
    let facts = ran.state.edge_condition_values(edge);
    say(&format!("conditions, after {TURNS} turns"));
    for text in CONDITIONS {
        let mut compile = Figures::default();
        let mut evaluate = Figures::default();
        let condition = Condition::compile(text).expect("a condition");
        for _ in 0..ROUNDS {
            let (took, ()) = time(|| {
                for _ in 0..1_000 {
                    black_box(Condition::compile(black_box(text)).is_ok());
                }
            });
            compile.add(micros(took) / 1e3);
            let (took, ()) = time(|| {
                for _ in 0..10_000 {
                    black_box(condition.evaluate(black_box(&facts)).is_ok());
                }
            });
            evaluate.add(micros(took) / 1e4);
        }
        say(&format!("`{text}`"));
        show("  compile", &compile, "µs", "");
        show("  evaluate", &evaluate, "µs", "");
    }
}

fn ensembles() {
    let mut text = "name: twenty\nagents:\n".to_owned();
    for at in 0..20_u32 {
        let _ = write!(
            text,
            "  - name: agent{at}\n    description: one of twenty\n    script: scripts/a.rhai\n"
        );
        let _ = write!(
            text,
            "    config: {{depth: {at}, tags: [one, two]}}\n    conversation: {{max_turns: 3}}\n"
        );
        if let Some(before) = at.checked_sub(1) {
            let _ = write!(
                text,
                "    dependencies:\n      - agent_name: agent{before}\n        condition: \"context.get('score', 0) > {at} and not output.get('done', False)\"\n"
            );
        }
    }
    let mut ours = Figures::default();
    let mut other = Figures::default();
    for _ in 0..ROUNDS {
        let (took, ()) = time(|| (0..100).for_each(|_| drop(black_box(Arc::clone(&plan(&text))))));
        ours.add(micros(took) / 100.0);
        let (took, ()) = time(|| {
            for _ in 0..100 {
                black_box(serde_yaml::from_str::<serde_yaml::Value>(&text).is_ok());
            }
        });
        other.add(micros(took) / 100.0);
    }
    say(&format!("an ensemble of 20 agents, {} bytes", text.len()));
    show("serde_yaml, bare values", &other, "µs", "");
    let remark = format!("{:.0} files a second", 1e6 / ours.min());
    show("load, check, plan: 19 conditions", &ours, "µs", &remark);
}
