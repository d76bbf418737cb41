//! Ten thousand agents of which few are active: a turn costs what news has reached, not what there is.
//!
//! `cargo bench --bench large_ensemble`. The same conversation of two agents runs in ensembles of 10 and of
//! 10,000 agents, in turns; and a chain through all of 10,000 agents beside a thousand chains through 10.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::fmt::Write;

use ensemble_language::check::check_ensemble;
use ensemble_language::data::JsonMap;
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;
use serde_json::json;
use support::{Figures, Ran, Says, all, micros, plan, run, say, show, time};

const SMALL: usize = 10;
const LARGE: usize = 10_000;
const TURNS: u32 = 10_000;
const ROUNDS: usize = 7;

/// Two agents that answer each other for long, and others that wait for what never comes.
fn one_active_chain(agents: usize) -> String {
    let mut text = format!(
        "name: large
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
  - name: agent2
    script: a.rhai
    dependencies: [{{agent_name: ping, condition: \"turn_count > 1000000\"}}]
"
    );
    for at in 3..agents {
        // A tree: each waits for one before it.
        let before = 2 + (at - 2) / 3;
        let _ = write!(
            text,
            "  - name: agent{at}\n    script: a.rhai\n    dependencies: [{{agent_name: agent{before}, condition: \"output.get('score', 0) > {at}\"}}]\n"
        );
    }
    text
}

/// Each runs once, one after the other.
fn chain(agents: usize) -> String {
    let mut text = format!("name: chain\nconversation_limits: {{max_total_turns: {agents}}}\nagents:\n");
    for at in 0..agents {
        let _ = write!(text, "  - name: agent{at}\n    script: a.rhai\n");
        if let Some(before) = at.checked_sub(1) {
            let _ = writeln!(
                text,
                "    dependencies: [{{agent_name: agent{before}, condition: \"output.get('score', 0) < 10\"}}]"
            );
        }
    }
    text
}

fn once(plan: &std::sync::Arc<Plan>) -> Ran {
    let output: JsonMap = json!({"score": 1}).as_object().expect("an object").clone();
    run(plan, all(plan, Says(move |_: &_| output.clone())))
}

fn main() {
    let (small, large) = (plan(&one_active_chain(SMALL)), plan(&one_active_chain(LARGE)));
    let (short, long) = (plan(&chain(SMALL)), plan(&chain(LARGE)));
    let text = one_active_chain(LARGE);
    let mut figures = vec![Figures::default(); 5];
    for _ in 0..ROUNDS {
        figures[0].add(once(&small).micros());
        figures[1].add(once(&large).micros());
        let runs = LARGE / SMALL;
        figures[2].add((0..runs).map(|_| once(&short).micros()).sum::<f64>() / runs as f64);
        figures[3].add(once(&long).micros());
        let (took, sound) = time(|| {
            let loaded = load_ensemble(&SourceText::new("large.yaml", text.as_str()));
            let ensemble = std::sync::Arc::new(loaded.ensemble.expect("a sound ensemble"));
            check_ensemble(&ensemble).is_empty() & Plan::build(ensemble).is_ok()
        });
        assert!(sound, "it has findings");
        figures[4].add(micros(took) / 1e3);
    }
    let ratio = |of: usize, to: usize| {
        format!(
            "{:.2} of {SMALL} agents (medians {:.2})",
            figures[of].min() / figures[to].min(),
            figures[of].median() / figures[to].median()
        )
    };
    say("time per turn with one execution; journal on disk without sync");
    show("two active of 10", &figures[0], "µs", "");
    show("two active of 10,000", &figures[1], "µs", &ratio(1, 0));
    show("chain of 10, each once", &figures[2], "µs", "");
    show("chain of 10,000, each once", &figures[3], "µs", &ratio(3, 2));
    say(&format!("load, check and plan 10,000 agents, {} kB", text.len() / 1000));
    show("from text to plan", &figures[4], "ms", "");
}
