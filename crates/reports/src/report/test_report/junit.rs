//! The test report as JUnit XML: each test file is a suite, and each case is a test case.

use std::path::Path;

use super::{TestedCase, TestedFile, count_passed_and_failed, render_failure_line};
use crate::report::file_names::relative_path;
use crate::report::xml::escape_xml;

/// Renders the report as JUnit XML. File names are relative to `folder`; `took` is the whole time in seconds.
pub fn render_junit_test_report(files: &[TestedFile], folder: &Path, took: f64) -> String {
    let (passed, failed) = count_passed_and_failed(files);
    let tests = passed + failed;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites tests=\"{tests}\" failures=\"{failed}\" errors=\"0\" time=\"{took:.3}\">\n"
    );
    for file in files {
        let name = escape_xml(&relative_path(&file.name, folder));
        let failed = file.cases.iter().filter(|case| !case.has_passed()).count();
        text.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"0\">\n",
            file.cases.len()
        ));
        file.cases.iter().for_each(|one| append_case(&name, one, &mut text));
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

/// Appends the element of a test case.
fn append_case(file: &str, case: &TestedCase, text: &mut String) {
    let name = escape_xml(&case.name);
    text.push_str(&format!(
        "    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{}\" time=\"{:.3}\"",
        case.line, case.seconds
    ));
    let [first, ..] = case.failures.as_slice() else {
        text.push_str("/>\n");
        return;
    };
    // Many programs read only the first failure of a case, so one failure contains all.
    let lines: Vec<String> = case
        .failures
        .iter()
        .map(|unmet| format!("{}:{} {}", unmet.line, unmet.column, render_failure_line(unmet)))
        .collect();
    text.push_str(&format!(
        ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
        escape_xml(&render_failure_line(first)),
        escape_xml(&lines.join("\n"))
    ));
}
