//! The test report as one JSON document.

use serde_json::{Value, json};

use super::{EnsembleCoverage, EnsembleMutants, MutantStatus, TestedCase, TestedFile, count_passed_and_failed};

/// The version of the JSON document.
const VERSION: u32 = 1;

/// Renders the report as JSON, with the findings of files that could not be tested. `took` is the whole time in seconds.
pub fn render_json_test_report(files: &[TestedFile], findings: &Value, took: f64) -> String {
    let (passed, failed) = count_passed_and_failed(files);
    let file = |file: &TestedFile| {
        json!({
            "file": file.name,
            "cases": file.cases.iter().map(case_to_json).collect::<Vec<_>>(),
            "coverage": file.coverage.as_ref().map(coverage_to_json),
            "mutants": file.mutants.as_ref().map(mutants_to_json),
            "suggestions": file.suggestions.as_ref().map(|suggested| json!({
                "cases": suggested.cases,
                "yaml": suggested.yaml,
                "open": suggested.unresolved_gaps,
            })),
        })
    };
    let document = json!({
        "version": VERSION,
        "passed": passed,
        "failed": failed,
        "seconds": took,
        "files": files.iter().map(file).collect::<Vec<_>>(),
        "diagnostics": findings,
    });
    format!("{document:#}\n")
}

/// Converts a case with its failures to JSON.
fn case_to_json(case: &TestedCase) -> Value {
    let failures = case.failures.iter().map(|unmet| {
        json!({
            "line": unmet.line,
            "column": unmet.column,
            "what": unmet.what,
            "expected": unmet.expected,
            "actual": unmet.actual,
            "help": unmet.help,
        })
    });
    let updated = case.updated_expectations.iter().map(|unmet| {
        json!({
            "line": unmet.line,
            "column": unmet.column,
            "what": unmet.what,
            "before": unmet.expected,
            "now": unmet.actual,
        })
    });
    json!({
        "name": case.name,
        "line": case.line,
        "passed": case.has_passed(),
        "repeated": case.pass_count.map(|(passed, times)| json!({"passed": passed, "times": times})),
        "seconds": case.seconds,
        "failures": failures.collect::<Vec<_>>(),
        "updated": updated.collect::<Vec<_>>(),
    })
}

/// Converts the coverage of an ensemble to JSON.
fn coverage_to_json(covered: &EnsembleCoverage) -> Value {
    let counts = covered.counts.iter();
    let counts = counts.map(|(what, reached, all)| ((*what).to_owned(), json!({"reached": reached, "all": all})));
    let gaps = covered.gaps.iter().map(|gap| {
        json!({
            "kind": gap.kind,
            "what": gap.what,
            "line": gap.place.map(|(line, _)| line),
            "column": gap.place.map(|(_, column)| column),
        })
    });
    json!({
        "ensemble": covered.ensemble,
        "complete": covered.is_complete,
        "counts": counts.collect::<serde_json::Map<_, _>>(),
        "gaps": gaps.collect::<Vec<_>>(),
    })
}

/// Converts the mutants of an ensemble to JSON.
fn mutants_to_json(changed: &EnsembleMutants) -> Value {
    let [noticed, survived, equivalent, not_tried] = changed.count_by_status();
    let list = changed.mutants.iter().map(|mutant| {
        json!({
            "kind": mutant.kind,
            "line": mutant.place.0,
            "column": mutant.place.1,
            "agent": mutant.agent,
            "from": mutant.from,
            "to": mutant.to,
            "standing": mutant.status.json_word(),
            "cases": match &mutant.status {
                MutantStatus::Killed(cases) => cases.as_slice(),
                _ => &[],
            },
        })
    });
    json!({
        "ensemble": changed.ensemble,
        "counts": {
            "noticed": noticed,
            "survived": survived,
            "equivalent": equivalent,
            "not_tried": not_tried,
        },
        "not_tried_because": changed.not_tried_because,
        "list": list.collect::<Vec<_>>(),
    })
}
