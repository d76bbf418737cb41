//! Converts an ensemble of llm-orc and shows what could not be converted.

use ensemble_import::import::{ImportContext, import_ensemble};
use ensemble_language::source::SourceText;

const LLM_ORC: &str = "\
name: review
agents:
  - name: collect
    script: scripts/collect.py
  - name: judge
    depends_on: [collect]
    script: scripts/judge.py
    mood: strict
";

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let beside = ImportContext {
        stem: "review",
        configurations: &[],
        script: &|script| Some(script.to_owned()),
        script_text: &|_| None,
        ensemble: &|_| false,
        schema: None,
    };
    let imported =
        import_ensemble(&SourceText::new("review.yaml", LLM_ORC), &beside, None).expect("an ensemble of llm-orc");
    let lost = imported.unconverted.iter();
    let lost: Vec<&str> = lost
        .map(|lost| &lost.source.text()[lost.span.start..lost.span.end])
        .collect();
    println!("{}\nnot converted: {}", imported.text, lost.join(", "));
    let converted: String = imported
        .text
        .lines()
        .filter(|line| !line.contains('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    let expected = "\
name: review

agents:
  - name: collect
    script: scripts/collect.py

  - name: judge
    depends_on: [collect]
    script: scripts/judge.py
";
    assert_eq!(converted, expected);
    assert_eq!(lost, ["mood"]);
}
