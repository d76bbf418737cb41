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

use ensemble_language::data::JsonMap;
use serde_json::json;
use support::{Figures, Ran, Says, all, micros, plan, run, say, show, time};

const TURNS: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Executions measured for each length and round, at least.
const EXECUTIONS: u32 = 10_000;
const ROUNDS: usize = 5;

/// As in the language's own examples.
const PLAIN: [&str; 2] = ["context.get('needs_clarification', False)", "turn_count < 1000000"];
/// Twice as much to ask, and a look into the history.
const COMPOUND: [&str; 2] = [
    "context.get('quality', 0) < 0.9 and turn_count < 1000000",
    "history[-1].success and not output.get('done', False)",
];

fn agent(name: &str, other: &str, feedback: bool, conditions: [&str; 2]) -> String {
    let [first, second] = conditions;
    format!(
        "  - name: {name}
    script: a.rhai
    dependencies:
      - {{agent_name: {other}, feedback: {feedback}, condition: \"{first}\"}}
      - {{agent_name: {other}, feedback: {feedback}, condition: \"{second}\"}}
    conversation: {{max_turns: 1000000}}
"
    )
}

/// Two agents in turn.
fn ping_pong(turns: u32, conditions: [&str; 2]) -> String {
    let agents = [
        agent("writer", "reviewer", true, conditions),
        agent("reviewer", "writer", false, conditions),
    ]
    .concat();
    format!("name: ping-pong\nconversation_limits: {{max_total_turns: {turns}}}\nagents:\n{agents}")
}

/// Ten agents side by side in every turn.
fn side_by_side(turns: u32) -> String {
    let agents: String = (0..10)
        .map(|at| agent(&format!("agent{at}"), &format!("agent{}", (at + 1) % 10), true, PLAIN))
        .collect();
    format!("name: side-by-side\nconversation_limits: {{max_total_turns: {turns}}}\nagents:\n{agents}")
}

fn once(text: &str) -> Ran {
    let plan = plan(text);
    let output =
        json!({"needs_clarification": true, "quality": 0.5, "text": "a sentence of some length, as agents say them"});
    let output: JsonMap = output.as_object().expect("an object").clone();
    run(&plan, all(&plan, Says(move |_: &_| output.clone())))
}

/// Microseconds per execution over as many runs as give [`EXECUTIONS`]: by the clock, and on the processor.
fn measure(text: &str, turns: u32, each: u32) -> [f64; 2] {
    let runs = EXECUTIONS.div_ceil(turns * each).max(1);
    let mut total = [0.0; 2];
    for _ in 0..runs {
        let ran = once(text);
        assert_eq!(ran.executions(), (turns * each) as usize, "{:?}", ran.state.run_end());
        total[0] += micros(ran.took);
        total[1] += micros(ran.busy);
    }
    total.map(|total| total / f64::from(runs * turns * each))
}

/// Microseconds to write what the journal of one execution holds, in four pieces, as plainly as can be.
fn floor() -> f64 {
    let ran = once(&ping_pong(1_000, PLAIN));
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

/// The same conversation in several lengths.
struct Lengths {
    name: &'static str,
    text: fn(u32) -> String,
    each: u32,
    turns: &'static [u32],
    figures: Vec<[Figures; 2]>,
}

impl Lengths {
    fn new(name: &'static str, text: fn(u32) -> String, each: u32, turns: &'static [u32]) -> Self {
        let figures = turns.iter().map(|_| Default::default()).collect();
        Self {
            name,
            text,
            each,
            turns,
            figures,
        }
    }

    fn round(&mut self) {
        for (turns, figures) in self.turns.iter().zip(&mut self.figures) {
            let measured = measure(&(self.text)(*turns), *turns, self.each);
            for (figures, figure) in figures.iter_mut().zip(measured) {
                figures.add(figure);
            }
        }
    }

    fn show(&self) {
        for (at, by) in ["by the clock", "on the processor"].into_iter().enumerate() {
            say(&format!("{}, {by}", self.name));
            let base = self.figures[0][at].min();
            for (turns, figures) in self.turns.iter().zip(&self.figures) {
                let remark = format!("{:.2} of 10 turns", figures[at].min() / base);
                show(&format!("  {turns} turns"), &figures[at], "µs", &remark);
            }
        }
    }
}

fn main() {
    let mut alone = Lengths::new("one agent a turn", |turns| ping_pong(turns, PLAIN), 1, &TURNS);
    let mut compound = Lengths::new(
        "with compound conditions",
        |turns| ping_pong(turns, COMPOUND),
        1,
        &TURNS[..4],
    );
    let mut ten = Lengths::new("ten agents a turn", side_by_side, 10, &TURNS[..4]);
    let mut bare = Figures::default();
    for _ in 0..ROUNDS {
        alone.round();
        compound.round();
        ten.round();
        bare.add(floor());
    }
    say("time per execution: resolve, two conditions, commit; journal on disk without sync");
    show("floor: four plain writes of as many bytes", &bare, "µs", "");
    alone.show();
    compound.show();
    ten.show();
}
