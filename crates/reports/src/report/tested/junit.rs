//! JUnit XML: each test file is a suite, each case a test case.

use std::path::Path;

use super::{TestedCase, TestedFile, in_one_line, totals};
use crate::report::place::relative;
use crate::report::xml::escaped;

/// The document. File names are relative to `folder`; `took` is the whole time in seconds.
pub fn junit(files: &[TestedFile], folder: &Path, took: f64) -> String {
    let (passed, failed) = totals(files);
    let tests = passed + failed;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites tests=\"{tests}\" failures=\"{failed}\" errors=\"0\" time=\"{took:.3}\">\n"
    );
    for file in files {
        let name = escaped(&relative(&file.name, folder));
        let failed = file.cases.iter().filter(|case| !case.passes()).count();
        text.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"0\">\n",
            file.cases.len()
        ));
        file.cases.iter().for_each(|one| case(&name, one, &mut text));
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

fn case(file: &str, case: &TestedCase, text: &mut String) {
    let name = escaped(&case.name);
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
        .map(|unmet| format!("{}:{} {}", unmet.line, unmet.column, in_one_line(unmet)))
        .collect();
    text.push_str(&format!(
        ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
        escaped(&in_one_line(first)),
        escaped(&lines.join("\n"))
    ));
}
