//! Scripts that parse the `response` of a dependency as JSON.
//!
//! llm-orc gives a script every output as the text of a `response`. In this language a script gets the output itself, so such a
//! script has to be changed, and the lines are reported.

use super::ImportTask;
use super::draft::ImportRemark;
use ensemble_language::diagnostic::FindingSeverity;
use ensemble_language::loader::document::YamlEntry;
use ensemble_language::names::is_identifier_char;
use ensemble_language::source::Span;

/// Functions in scripts that parse JSON text.
const JSON_PARSERS: [&str; 3] = ["json.loads(", "JSON.parse(", "fromjson"];
/// Expressions with which scripts read the response of an output.
const RESPONSE_READS: [&str; 5] = [
    "[\"response\"]",
    "['response']",
    ".get(\"response\"",
    ".get('response'",
    ".response",
];
/// Largest number of reported lines of one script.
const MOST: usize = 20;

impl ImportTask<'_> {
    /// Reports the lines of the script that parse a `response` as JSON. Examines each script once.
    pub(super) fn report_parsed_responses(&mut self, script: &str, entry: &YamlEntry) {
        if !self.read_scripts.insert(script.to_owned()) {
            return;
        }
        let Some(source) = (self.context.script_text)(script) else {
            return;
        };
        for span in find_response_parsing_spans(source.text()) {
            let message = "the script reads the `response` of a dependency as JSON text";
            let help = "read the keys of the dependency without parsing; only an output of plain text has a `response`";
            let located_message = format!("{message} ({}:{})", source.name(), source.line_column(span.start).line);
            self.remarks
                .push(ImportRemark::new(entry.key_span.start, &located_message, help));
            self.unconverted.push(super::build_import_diagnostic(
                &source,
                span,
                FindingSeverity::Warning,
                message,
                help,
            ));
        }
    }
}

/// Returns the positions at which the script parses a response: directly, or over a variable that stores the response.
fn find_response_parsing_spans(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut holders: Vec<&str> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        let comment = code.starts_with('#') || code.starts_with("//");
        let call = JSON_PARSERS
            .iter()
            .find_map(|parser| Some((line.find(parser)?, *parser)));
        if let (Some((at, parser)), false) = (call, comment) {
            let reads = if parser == "fromjson" { &line[..at] } else { &line[at..] };
            let argument = line[at + parser.len()..].trim_start();
            let holder = holders.iter().any(|holder| {
                let rest = argument.strip_prefix(holder);
                rest.is_some_and(|rest| {
                    !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '(' | '['))
                })
            });
            if RESPONSE_READS.iter().any(|read| reads.contains(read)) || holder {
                spans.push(Span::new(start + at, start + at + parser.trim_end_matches('(').len()));
            }
        } else if !comment && let Some(name) = find_assigned_response_variable(code) {
            holders.push(name);
        }
        start += line.len();
    }
    spans.truncate(MOST);
    spans
}

/// Returns the variable to which the line assigns a response. Returns `None` for other lines.
fn find_assigned_response_variable(code: &str) -> Option<&str> {
    let (name, value) = code.split_once('=')?;
    // `.response` alone is also how other libraries name their answers.
    let reads = RESPONSE_READS[..RESPONSE_READS.len() - 1]
        .iter()
        .any(|read| value.contains(read));
    let name = name.split(':').next().unwrap_or(name).trim();
    let name = ["let ", "const ", "var "]
        .iter()
        .find_map(|word| name.strip_prefix(word))
        .unwrap_or(name);
    let word = !name.is_empty() && name.chars().all(is_identifier_char);
    (reads && word).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::find_response_parsing_spans;

    #[test]
    fn lines_that_parse_a_response_are_found() {
        let rows = [
            ("x = json.loads(deps[\"a\"][\"response\"])\n", vec!["json.loads"]),
            ("x = json.loads(deps['a'].get('response', '{}'))\n", vec!["json.loads"]),
            (
                "text = dep.get(\"response\")\nif text:\n    x = json.loads(text)\n",
                vec!["json.loads"],
            ),
            (
                "text: str = dep[\"response\"]\nx = json.loads(text or '{}')\n",
                vec!["json.loads"],
            ),
            ("const t = d['response'];\nJSON.parse(t)\n", vec!["JSON.parse"]),
            ("JSON.parse(input.dependencies.a.response)\n", vec!["JSON.parse"]),
            ("jq '.dependencies.a.response | fromjson'\n", vec!["fromjson"]),
            ("x = json.loads(response.read())\n", vec![]),
            ("x = json.loads(sys.stdin.read())\ny = x[\"response\"]\n", vec![]),
            ("text = dep[\"response\"]\nx = json.loads(textual)\n", vec![]),
            ("# json.loads(dep[\"response\"])\n", vec![]),
        ];
        for (text, expected) in rows {
            let found: Vec<&str> = find_response_parsing_spans(text)
                .iter()
                .map(|span| &text[span.start..span.end])
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
