//! Placeholders for the parts of an output that differ from run to run: ids, times, durations, paths and digests.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

const DURATION: &str = r"\b(\d+ (h|min) )?\d+(\.\d+)? (ms|s|min|µs)\b";
const DURATION_IN_A_COLUMN: &str = r" {2,}(\d+ (h|min) )?\d+(\.\d+)? (ms|s|min|µs)\b";

/// Patterns, and what replaces each match. They apply in this order.
const RULES: &[(&str, &str)] = &[
    // Times.
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "[TIME]"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?", "[TIME]"),
    (r#"("(?:startT|endT|t)imeUnixNano": )"\d+""#, r#"${1}"[TIME]""#),
    // Durations.
    (
        r#"("(?:execution_time|duration|seconds|[a-z_]+_seconds)": ?)\d+(\.\d+)?(e-\d+)?"#,
        "${1}[SECONDS]",
    ),
    (r#"( time=)"\d+\.\d+""#, r#"${1}"[SECONDS]""#),
    (DURATION_IN_A_COLUMN, " [DURATION]"),
    (DURATION, "[DURATION]"),
    // A run on a busy machine can have a pause of a second, from which on the summary has both durations.
    (r", \[DURATION\] with pauses", ""),
    (r"tokens out +time\b", "tokens out  time"),
    (r"\b\d+(\.\d+)? [KM]iB (would|freed)", "[SIZE] $2"),
    (r"((?:width|left): ?)\d+(\.\d+)?%", "${1}[SHARE]"),
    // Digests.
    (r"\b[0-9a-f]{64}\b", "[DIGEST]"),
    (r"\bsha256:[0-9a-f]{16}\b", "[DIGEST]"),
    (r#"("digest": ?)"[0-9a-f]{16}""#, r#"${1}"[DIGEST]""#),
    (r#"("crc":)"[0-9a-f]{8}""#, r#"${1}"[CRC]""#),
    (r"\brow-[0-9a-f]{16}((?:-\d+)?)-v[0-9a-f]{8}\b", "row-[DIGEST]${1}"),
    (r#"("traceId": )"[0-9a-f]{32}""#, r#"${1}"[TRACE]""#),
    // Processes.
    (r#"("driver_pid": )\d+"#, "${1}[PID]"),
    // The style sheet of a page says nothing of a run.
    (r"(?s)<style>.*?</style>", "<style>[STYLE]</style>"),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compile = |(pattern, text): &(&str, &'static str)| (Regex::new(pattern).expect("a valid pattern"), *text);
    RULES.iter().map(compile).collect()
});
static RUN_ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[a-z0-9]{4}-\d{8}-\d{9}\b").expect("a valid pattern"));
static SPAN_ID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"("(?:spanId|parentSpanId)": )"([0-9a-f]{16})""#).expect("a valid pattern"));

/// Names of runs by id.
pub(super) type RunNames = HashMap<String, String>;

/// Replaces the unstable parts of an output of a command.
///
/// The folder `project` becomes `[PROJECT]`, a run of `runs` becomes `[RUN name]`, and another run `[RUN]`. Spans of a trace are numbered in the order of their appearance.
pub(super) fn replace_unstable_parts(output: &str, project: &Path, runs: &RunNames) -> String {
    let mut text = output.replace(&project.display().to_string(), "[PROJECT]");
    text = RUN_ID
        .replace_all(&text, |found: &Captures<'_>| run_placeholder(&found[0], runs))
        .into_owned();
    for (pattern, replacement) in COMPILED.iter() {
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    number_spans(&text)
}

fn run_placeholder(id: &str, runs: &RunNames) -> String {
    match runs.get(id) {
        Some(name) => format!("[RUN {name}]"),
        None => "[RUN]".to_owned(),
    }
}

fn number_spans(text: &str) -> String {
    let mut numbers = HashMap::new();
    let replaced = SPAN_ID.replace_all(text, |found: &Captures<'_>| {
        let next = numbers.len() + 1;
        let number = *numbers.entry(found[2].to_owned()).or_insert(next);
        format!("{}\"[SPAN {number}]\"", &found[1])
    });
    replaced.into_owned()
}

#[test]
fn only_unstable_parts_become_placeholders() {
    let runs = RunNames::from([("ab9z-20261122-001902365".to_owned(), "loop".to_owned())]);
    let project = Path::new("/tmp/p");
    for (output, expected) in [
        ("run ab9z-20261122-001902365", "run [RUN loop]"),
        ("-o ab9z-20261122-001902365.html", "-o [RUN loop].html"),
        ("zzzz-20261122-001902365", "[RUN]"),
        ("/tmp/p/ensembles/a.yaml", "[PROJECT]/ensembles/a.yaml"),
        (r#""at":"2026-11-22T00:19:02.365Z""#, r#""at":"[TIME]""#),
        ("2026-11-22 00:19  loop", "[TIME]  loop"),
        ("begun | 2026-11-22 00:19:02 UTC", "begun | [TIME]"),
        (r#""endTimeUnixNano": "17956096""#, r#""endTimeUnixNano": "[TIME]""#),
        ("writer llm · 12 ms · 6 tokens", "writer llm · [DURATION] · 6 tokens"),
        ("<span>8 ms</span>", "<span>[DURATION]</span>"),
        ("5 turns · 1.2 s", "5 turns · [DURATION]"),
        ("3 turns · 12 ms, 1.1 s with pauses", "3 turns · [DURATION]"),
        ("          –   1.2 s\n", "          – [DURATION]\n"),
        ("wall clock 5 min 0 s, as", "wall clock [DURATION], as"),
        ("34.80 KiB would be freed", "[SIZE] would be freed"),
        ("3 scripts, 5 minutes", "3 scripts, 5 minutes"),
        (r#""execution_time": 0.0075"#, r#""execution_time": [SECONDS]"#),
        (r#""execution_time":3e-5,"#, r#""execution_time":[SECONDS],"#),
        (r#""timeout_seconds": 60"#, r#""timeout_seconds": [SECONDS]"#),
        (
            r#"<testcase name="a" time="0.001">"#,
            r#"<testcase name="a" time="[SECONDS]">"#,
        ),
        (r#""crc":"e7c8894a"}"#, r#""crc":"[CRC]"}"#),
        ("sha256:4a69f19c8c264850", "[DIGEST]"),
        (r#""digest": "5d5ceb9983f3ed9e""#, r#""digest": "[DIGEST]""#),
        ("cost 0.049, 12 out", "cost 0.049, 12 out"),
        (
            r#""spanId": "aaaaaaaaaaaaaaaa", "parentSpanId": "bbbbbbbbbbbbbbbb", "spanId": "aaaaaaaaaaaaaaaa""#,
            r#""spanId": "[SPAN 1]", "parentSpanId": "[SPAN 2]", "spanId": "[SPAN 1]""#,
        ),
    ] {
        assert_eq!(replace_unstable_parts(output, project, &runs), expected);
    }
}
