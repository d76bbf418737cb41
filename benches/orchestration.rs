//! What a conversation costs beside its agents: resolve, ask two conditions, commit to a journal on disk.
//!
//! `cargo bench --bench orchestration`. Agents answer at once, so all that is measured is ours. One execution
//! a turn is the dearest case, since it bears the whole turn alone: four records, each written before it
//! counts. Beside it runs the floor: writing lines of the same number and length.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fs::File;
use std::io::Write;

use ensemble::data::JsonMap;
use serde_json::json;
use support::{Figures, Ran, Says, all, micros, plan, run, say, show, time};

const TURNS: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Executions measured for each length and round, at least.
const EXECUTIONS: u32 = 20_000;
const ROUNDS: usize = 5;

/// Two agents in turn; each start asks two conditions, of which one looks into the history.
fn ping_pong(turns: u32) -> String {
    let edges = |other: &str, feedback: bool| {
        format!(
            "    dependencies:
      - {{agent_name: {other}, feedback: {feedback}, condition: \"context.get('quality', 0) < 0.9 and turn_count < 1000000\"}}
      - {{agent_name: {other}, feedback: {feedback}, condition: \"history[-1].success and not output.get('done', False)\"}}
    conversation: {{max_turns: 1000000}}
"
        )
    };
    format!(
        "name: ping-pong
conversation_limits: {{max_total_turns: {turns}}}
agents:
  - name: writer
    script: write.rhai
{}  - name: reviewer
    script: review.rhai
{}",
        edges("reviewer", true),
        edges("writer", false)
    )
}

/// Ten agents side by side in every turn, each of which asks two conditions.
fn side_by_side(turns: u32) -> String {
    let mut text = format!("name: side-by-side\nconversation_limits: {{max_total_turns: {turns}}}\nagents:\n");
    for at in 0..10 {
        let other = (at + 1) % 10;
        text.push_str(&format!(
            "  - name: agent{at}
    script: a.rhai
    dependencies:
      - {{agent_name: agent{other}, feedback: true, condition: \"context.get('quality', 0) < 0.9 and turn_count < 1000000\"}}
      - {{agent_name: agent{other}, feedback: true, condition: \"history[-1].success and not output.get('done', False)\"}}
    conversation: {{max_turns: 1000000}}
"
        ));
    }
    text
}

fn once(text: &str) -> Ran {
    let plan = plan(text);
    let output = json!({"quality": 0.5, "text": "a sentence of some length, as agents say them"});
    let output: JsonMap = output.as_object().expect("an object").clone();
    run(&plan, all(&plan, Says(move |_: &_| output.clone())))
}

/// Microseconds per execution over as many runs as give [`EXECUTIONS`].
fn measure(text: &str, turns: u32, each: u32) -> f64 {
    let runs = EXECUTIONS.div_ceil(turns * each).max(1);
    let mut total = 0.0;
    for _ in 0..runs {
        let ran = once(text);
        assert_eq!(ran.executions(), (turns * each) as usize, "{:?}", ran.state.ended());
        total += micros(ran.took);
    }
    total / f64::from(runs * turns * each)
}

/// Microseconds to write what the journal of one execution holds, in four pieces, as plainly as can be.
fn floor() -> f64 {
    let ran = once(&ping_pong(1_000));
    let line = vec![b'x'; usize::try_from(ran.journal_bytes).expect("small") / 4_000];
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut file = File::create(folder.path().join("lines")).expect("a file");
    let (took, ()) = time(|| {
        for _ in 0..4 * EXECUTIONS {
            file.write_all(&line).expect("written");
        }
    });
    micros(took) / f64::from(EXECUTIONS)
}

fn main() {
    let mut alone = vec![Figures::default(); TURNS.len()];
    let mut ten = vec![Figures::default(); TURNS.len() - 1];
    let mut bare = Figures::default();
    for _ in 0..ROUNDS {
        for (at, turns) in TURNS.into_iter().enumerate() {
            alone[at].add(measure(&ping_pong(turns), turns, 1));
        }
        for (at, turns) in TURNS.into_iter().take(ten.len()).enumerate() {
            ten[at].add(measure(&side_by_side(turns), turns, 10));
        }
        bare.add(floor());
    }
    say("time per execution: resolve, two conditions, commit; journal on disk without sync");
    show("floor: four plain writes of as many bytes", &bare, "µs", "");
    let base = alone[0].min();
    for (turns, figures) in TURNS.iter().zip(&alone) {
        let remark = format!("{:.2} of 10 turns", figures.min() / base);
        show(&format!("one agent a turn, {turns} turns"), figures, "µs", &remark);
    }
    let base = ten[0].min();
    for (turns, figures) in TURNS.iter().zip(&ten) {
        let remark = format!("{:.2} of 10 turns", figures.min() / base);
        show(&format!("ten agents a turn, {turns} turns"), figures, "µs", &remark);
    }
}
