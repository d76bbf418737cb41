//! Documents without what differs from run to run.

use std::path::Path;

use serde_json::{Map, Value, json};

/// Keys whose values are times, durations, ids of processes and checksums.
const UNSTABLE_KEYS: [&str; 21] = [
    "active_seconds",
    "at",
    "completed_at",
    "crc",
    "driver_pid",
    "duration",
    "ended_at",
    "execution_time",
    "finished_at",
    "format",
    "latest_at",
    "pid",
    "recorded_wall_seconds",
    "run_id",
    "seconds",
    "session",
    "started_at",
    "time",
    "timestamp",
    "wall_seconds",
    "program",
];

/// Returns an output as JSON without unstable parts; a text that is not JSON becomes a list of its lines.
pub(crate) fn output_document(output: &[u8], project: &Path) -> Value {
    let text = String::from_utf8_lossy(output).replace(&project.display().to_string(), "PROJECT");
    let mut document = match serde_json::from_str(&text) {
        Ok(document) => document,
        Err(_) => json!(text.lines().collect::<Vec<_>>()),
    };
    remove_unstable_parts(&mut document);
    document
}

/// Returns the records of all journals of a project. The records of a turn are sorted by agent and part, because agents that
/// run side by side end in any order.
pub(crate) fn journal_document(project: &Path) -> Value {
    let mut journals = Vec::new();
    collect_journals(&project.join(".ensemble/runs"), project, &mut journals);
    Value::Array(journals)
}

fn collect_journals(folder: &Path, project: &Path, journals: &mut Vec<Value>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    // The time in an id orders the runs; the names of inner runs order themselves.
    paths.sort_by_key(|path| {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let time = name
            .split_once('-')
            .map(|(_, time)| time.to_owned())
            .filter(|time| time.len() == 18);
        (time, name)
    });
    for path in paths {
        if path.is_dir() {
            collect_journals(&path, project, journals);
        } else if path.file_name().is_some_and(|name| name == "journal.jsonl") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let text = text.replace(&project.display().to_string(), "PROJECT");
            journals.push(Value::Array(sorted_records(&text)));
        }
    }
}

fn sorted_records(journal: &str) -> Vec<Value> {
    let mut records: Vec<Value> = journal
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut turn = 0;
    let mut keys = Vec::new();
    for record in &mut records {
        let event = record["event"].as_str().unwrap_or_default();
        if matches!(event, "turn_started" | "turn_finished" | "run_ended" | "interrupted") {
            turn += 1;
        }
        let agent = record["data"]["agent"].as_str().unwrap_or_default().to_owned();
        keys.push((turn, agent, record["data"]["part"].as_u64()));
        remove_unstable_parts(record);
        if let Some(record) = record.as_object_mut() {
            record.remove("seq");
        }
    }
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
    order.into_iter().map(|at| records[at].take()).collect()
}

fn remove_unstable_parts(value: &mut Value) {
    match value {
        Value::Object(map) => remove_unstable_keys(map),
        Value::Array(items) => items.iter_mut().for_each(remove_unstable_parts),
        Value::String(text) => *text = replace_ids_and_durations(text),
        _ => {}
    }
}

fn remove_unstable_keys(map: &mut Map<String, Value>) {
    for (key, value) in map {
        if UNSTABLE_KEYS.contains(&key.as_str()) && (value.is_number() || value.is_string()) {
            *value = json!("…");
        }
        remove_unstable_parts(value);
        if let ("parts", Value::Array(parts)) = (key.as_str(), value) {
            parts.sort_by_key(|part| part["part"].as_u64());
        }
    }
}

/// Replaces ids of runs, dates, times, and numbers before `ms` and `s`.
fn replace_ids_and_durations(text: &str) -> String {
    if !text.contains(|char: char| char.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut words: Vec<&str> = text.split(' ').collect();
    for at in 0..words.len() {
        let is_number = words[at].parse::<f64>().is_ok();
        let unit = words
            .get(at + 1)
            .map(|word| word.trim_end_matches(|char: char| !char.is_alphanumeric()));
        if (is_number && matches!(unit, Some("ms" | "s"))) || contains_run_id(words[at]) || is_date_or_time(words[at]) {
            words[at] = "…";
        }
    }
    words.join(" ")
}

/// Returns whether a word contains an id such as `ab9z-20261122-001902365`.
fn contains_run_id(word: &str) -> bool {
    let digits =
        |part: &str, count: usize| part.len() >= count && part.bytes().take(count).all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = word.split('-').collect();
    parts
        .windows(3)
        .any(|part| part[0].len() >= 4 && digits(part[1], 8) && part[1].len() == 8 && digits(part[2], 9))
}

/// Returns whether a word is `2026-11-22` or `00:19:02`.
fn is_date_or_time(word: &str) -> bool {
    let has_parts = |separator: char, lengths: [usize; 3]| {
        let parts = word
            .split(separator)
            .map(|part| (part.len(), part.bytes().all(|byte| byte.is_ascii_digit())));
        parts.eq(lengths.map(|length| (length, true)))
    };
    has_parts('-', [4, 2, 2]) || has_parts(':', [2, 2, 2])
}
