//! The bytes of a journal: a record that was read is written as the same bytes.

#![expect(clippy::disallowed_methods, reason = "the test reads journals")]

use std::path::{Path, PathBuf};

use ensemble_core::records::{append_record_line, parse_record_line};

/// The data of events that no recorded run contains, and of events whose keys are in several structures.
const PAYLOADS: [(&str, &str); 19] = [
    (
        "turn_started",
        r#"{"turn":1,"starts":[{"agent":"a","execution":1,"counts":[0],"handles":["b"],"reads":{"b":2}}],"waiting":[{"agent":"c","reason":"waiting_for","agents":["a","b"]},{"agent":"d","reason":"condition_false","dependency":"a","condition":"x > 1","values":[{"expression":"x","value":1}]},{"agent":"e","reason":"limit_reached","limit":"max_turns","count":3},{"agent":"f","reason":"waits","dependencies":[{"agent":"a","position":0,"wait_for":"settled","ready":"b"}]},{"agent":"g","reason":"nothing_new"},{"agent":"h","reason":"only_tool"},{"agent":"i","reason":"run_ended"}]}"#,
    ),
    (
        "reply_received",
        r#"{"turn":1,"agent":"a","execution":2,"attempt":3,"part":"k","inside":["c1","c2"],"iteration":{"number":1,"messages":[{"role":"user","content":"go"}],"tool_calls":[]},"usage":{"requests":1,"input_tokens":7,"output_tokens":4,"estimated":false}}"#,
    ),
    (
        "reply_received",
        r#"{"turn":1,"agent":"a","execution":2,"attempt":3,"iteration":{"number":1,"messages":[],"tool_calls":[]},"usage":{"requests":1,"input_tokens":0,"output_tokens":0,"estimated":false}}"#,
    ),
    (
        "request_stopped",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"inside":["c"],"iteration":{"number":2,"messages":[],"tool_calls":[]},"usage":{"requests":1,"input_tokens":7,"output_tokens":0,"estimated":false}}"#,
    ),
    (
        "permission_decided",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"part":"k","call":"c","tool":"web.get","decision":"always","by":"operator"}"#,
    ),
    (
        "nested_request_answered",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"part":"k","answer":{"address":"a[k].ok","prompt":"Go?","choices":["yes","no"],"answer":"yes","source":"option","user":"ada"},"at":"2026-01-01T00:00:00Z","tool":"pay"}"#,
    ),
    (
        "tool_call_started",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"call":"c"}"#,
    ),
    (
        "tool_call_ended",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"call":{"id":"c","name":"get","arguments":{"n":1},"result":{"m":[1,2.5,null]},"duration":0.5}}"#,
    ),
    (
        "tool_call_ended",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"call":{"id":"c","name":"get","arguments":{},"error":"no","duration":0.5},"usage":{"requests":2,"input_tokens":7,"output_tokens":4,"estimated":false}}"#,
    ),
    (
        "part_ended",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":2,"part":0,"key":"k","count":3,"item_digest":"00","failure":{"kind":"reported","error":"no"},"execution_time":0.25,"stderr":"e","warnings":["w"],"pause":1.5}"#,
    ),
    (
        "part_ended",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"part":2,"key":"k","count":3,"item_digest":"00","output":{"n":1},"execution_time":0.25,"reused":true}"#,
    ),
    (
        "execution_finished",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"failure":{"kind":"reported","error":"no"},"execution_time":0.25}"#,
    ),
    (
        "input_requested",
        r#"{"turn":1,"agent":"a","execution":1,"prompt":"Shall we?","choices":["yes","no"]}"#,
    ),
    (
        "input_requested",
        r#"{"turn":1,"agent":"a","execution":1,"prompt":"?","choices":[],"asked_by":"b","permission":{"tool":"web.get","arguments":{"n":1}}}"#,
    ),
    (
        "turn_finished",
        r#"{"turn":2,"requests":{"b":[{"from":"a","parameters":{"n":1},"priority":2}]},"warnings":["w"]}"#,
    ),
    ("message_added", r#"{"text":"and now?","set":{"n":1}}"#),
    ("context_set", r#"{"n":1,"m":{"b":1,"a":2}}"#),
    ("interrupted", r#"{"cause":"ctrl_c"}"#),
    (
        "run_ended",
        r#"{"completion_reason":"completed","not_run":[{"agent":"b","reason":"waiting for a"}]}"#,
    ),
];

fn line(event: &str, data: &str) -> String {
    let body = format!(r#"{{"seq":0,"at":"2026-11-22T17:25:37.889682Z","event":"{event}","data":{data}"#);
    format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes()))
}

/// The line that is written for the record of this line.
fn rewritten(line: &str) -> String {
    let record = parse_record_line(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
    let mut buffer = Vec::new();
    append_record_line(&record, &mut buffer);
    String::from_utf8(buffer).expect("text").trim_end().to_owned()
}

#[test]
fn a_record_of_every_kind_is_written_as_it_was_read() {
    for (event, data) in PAYLOADS {
        let line = line(event, data);
        assert_eq!(rewritten(&line), line, "{event}");
    }
}

#[test]
fn keys_of_later_versions_are_ignored() {
    let known = line(
        "tool_call_started",
        r#"{"turn":1,"agent":"a","execution":1,"attempt":1,"call":"c"}"#,
    );
    let more = r#"{"turn":1,"new":[1],"agent":"a","execution":1,"attempt":1,"call":"c"}"#;
    assert_eq!(rewritten(&line("tool_call_started", more)), known);
}

#[test]
fn a_missing_key_is_named() {
    let lines = [
        (
            "tool_call_started",
            r#"{"turn":1,"agent":"a","execution":1,"attempt":1}"#,
            "`call`",
        ),
        (
            "tool_call_started",
            r#"{"turn":1,"execution":1,"attempt":1,"call":"c"}"#,
            "`agent`",
        ),
        (
            "input_requested",
            r#"{"turn":1,"agent":"a","execution":1,"choices":[]}"#,
            "`prompt`",
        ),
        (
            "turn_started",
            r#"{"turn":1,"starts":[],"waiting":[{"agent":"c","reason":"waiting_for"}]}"#,
            "`agents`",
        ),
        (
            "turn_started",
            r#"{"turn":1,"starts":[],"waiting":[{"agent":"c","reason":"asleep"}]}"#,
            "`asleep`",
        ),
    ];
    for (event, data, key) in lines {
        let error = parse_record_line(line(event, data).as_bytes())
            .expect_err(data)
            .to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn a_line_of_every_recorded_journal_is_written_as_it_was_read() {
    let mut lines = 0;
    for journal in journals(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/format-1")) {
        let text = std::fs::read_to_string(journal).expect("a journal");
        // A line with a field beside the journal is written with that field in it.
        for line in text.lines().filter(|line| !line.contains("\"blobs\":{")) {
            assert_eq!(rewritten(line), line);
            lines += 1;
        }
    }
    assert!(lines > 100, "{lines}");
}

fn journals(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let below = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => journals(&path),
        path => vec![path],
    });
    below
        .filter(|path| path.file_name().is_some_and(|name| name == "journal.jsonl"))
        .collect()
}
