//! One JSON document.

use serde_json::{Value, json};

use super::{FileCoverage, TestedCase, TestedFile, totals};

/// The version of the document.
const VERSION: u32 = 1;

/// The document, with the findings of files that cannot be tried. `took` is the whole time in seconds.
pub fn json(files: &[TestedFile], findings: &Value, took: f64) -> String {
    let (passed, failed) = totals(files);
    let file = |file: &TestedFile| {
        json!({
            "file": file.name,
            "cases": file.cases.iter().map(case).collect::<Vec<_>>(),
            "coverage": file.coverage.as_ref().map(coverage),
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

fn case(case: &TestedCase) -> Value {
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
    json!({
        "name": case.name,
        "line": case.line,
        "passed": case.passes(),
        "seconds": case.seconds,
        "failures": failures.collect::<Vec<_>>(),
    })
}

fn coverage(covered: &FileCoverage) -> Value {
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
