//! Loads an ensemble, shows the findings with their positions, and lists the dependencies of the plan.

use std::fmt::Write;
use std::sync::Arc;

use ensemble_language::check::check_ensemble;
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;

const TEXT: &str = "\
name: review
agents:
  - name: writer
    script: writer.rhai
    dependencies:
      - {agent_name: reviewer, feedback: true, condition: not output.approved}
    conversation: {max_turns: 3}
  - name: reviewer
    script: reviewer.rhai
    depends_on: [writer]
    conversation: {max_turns: 3}
  - name: archivist
    script: archivist.rhai
    dependencies:
      - {agent_name: reviewer, condition: turn_count > 5 and turn_count < 2}
";

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let loaded = load_ensemble(&SourceText::new("review.yaml", TEXT));
    let ensemble = Arc::new(loaded.ensemble.clone().expect("the text has no error"));
    let mut shown = String::new();
    for finding in loaded.diagnostics_with(&check_ensemble(&ensemble)) {
        let place = finding.source.line_column(finding.span.start);
        writeln!(shown, "{}:{} {}", place.line, place.column, finding.code.0).expect("a text grows");
    }
    let plan = Plan::build(ensemble).expect("the ensemble has no error");
    for agent in plan.agent_ids() {
        for (_, edge) in plan.incoming_edges(agent) {
            writeln!(
                shown,
                "{} listens to {}",
                plan.agent_name(agent),
                plan.agent_name(edge.from)
            )
            .expect("a text grows");
        }
    }
    println!("{shown}");
    let expected = "\
12:11 W010
writer listens to reviewer
reviewer listens to writer
archivist listens to reviewer
";
    assert_eq!(shown, expected);
}
