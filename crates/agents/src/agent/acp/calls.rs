//! The tool calls of one prompt, as far as they are known.
//!
//! Invariant: an id names one call. A call that begins again, or that is asked about again, is another call with another id.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::diff::ShownDiff;
use super::limits::MAX_CALLS;
use super::protocol::AcpCallUpdate;
use ensemble_core::secrets::Secrets;
use ensemble_core::thread::{ToolCall, ToolCallEnd};
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::AcpToolKind;

/// The maximum number of bytes of a result in the record: 64 KiB.
const MAX_RESULT_BYTES: usize = 64 << 10;

/// The maximum number of bytes of the id of a call.
const MAX_CALL_ID_BYTES: usize = 200;

/// Tool calls of one prompt, by the ids of the program.
#[derive(Default)]
pub(super) struct AcpToolCalls {
    calls: Vec<AcpCallState>,
    /// The positions of the calls by their ids.
    positions: HashMap<String, usize>,
    /// The positions of the latest calls by the ids of the program.
    program_ids: HashMap<String, usize>,
    /// The ids of calls of earlier attempts that began or were decided.
    reserved_ids: HashSet<String>,
    assigned_ids: u32,
    secrets: Secrets,
}

/// State of one tool call of an external program.
#[derive(Clone, Default)]
struct AcpCallState {
    id: String,
    title: Option<String>,
    kind: Option<AcpToolKind>,
    input: Option<Value>,
    output: Option<Value>,
    texts: Vec<String>,
    diffs: Vec<ShownDiff>,
    paths: Vec<PathBuf>,
    /// Whether the call has shown a diff.
    has_edits: bool,
    /// Whether the program has asked for permission.
    is_asked: bool,
    /// The kinds for which the permission was refused.
    refused_kinds: Vec<AcpToolKind>,
    started_at: Option<Instant>,
    refusal: Option<String>,
    is_over: bool,
}

impl AcpCallState {
    /// Merges an update of the program into the state of the call.
    fn merge_update(&mut self, news: AcpCallUpdate, secrets: &Secrets) {
        self.title = news.title.or(self.title.take());
        self.kind = news.kind.or(self.kind);
        self.input = news.input.or(self.input.take());
        self.output = news.output.or(self.output.take());
        if !news.texts.is_empty() {
            self.texts = news.texts;
        }
        if !news.diffs.is_empty() {
            let diffs = news.diffs.iter().map(|diff| ShownDiff::new(diff, secrets));
            self.diffs = diffs.collect();
            self.has_edits = true;
        }
        if !news.paths.is_empty() {
            self.paths = news.paths;
        }
    }

    /// Returns the kind of the call, or `Other` if the program has not named the kind.
    fn kind(&self) -> AcpToolKind {
        self.kind.unwrap_or(AcpToolKind::Other)
    }
}

impl AcpToolCalls {
    /// Creates the list for a prompt. No call gets one of the `reserved_ids`.
    pub(super) fn new(secrets: Secrets, reserved_ids: HashSet<String>) -> Self {
        Self {
            reserved_ids,
            secrets,
            ..Self::default()
        }
    }

    /// Applies an update to its call, or adds a new call. Returns whether the call is new, and the id in the records.
    ///
    /// `is_asked` means that the program asks for permission.
    ///
    /// # Errors
    /// There are too many calls.
    pub(super) fn apply_call_update(&mut self, news: AcpCallUpdate, is_asked: bool) -> Result<(bool, String), String> {
        let known = self.program_ids.get(&news.id).copied();
        let earlier = known.map(|at| &self.calls[at]);
        let is_another = earlier
            .is_none_or(|earlier| (earlier.is_over && (is_asked || news.begins)) || (earlier.is_asked && is_asked));
        let at = match known.filter(|_| !is_another) {
            Some(at) => at,
            None => self.add_call_with_program_id(news.id.clone(), known)?,
        };
        let call = &mut self.calls[at];
        if !call.is_over {
            call.merge_update(news, &self.secrets);
        } else if news.kind.is_some() || !news.diffs.is_empty() {
            // What has ended is recorded already, but its kind still counts.
            call.kind = news.kind.or(call.kind);
            call.has_edits |= !news.diffs.is_empty();
        }
        call.is_asked |= is_asked;
        Ok((is_another, call.id.clone()))
    }

    /// Adds a call for a file request, which has no id from the program. Returns the new id.
    ///
    /// # Errors
    /// There are too many calls.
    pub(super) fn add_file_call(&mut self, news: AcpCallUpdate) -> Result<String, String> {
        self.assigned_ids += 1;
        let id = self.choose_unused_id(&format!("file-{}", self.assigned_ids));
        let at = self.push_call(AcpCallState {
            id,
            is_asked: true,
            ..AcpCallState::default()
        })?;
        self.calls[at].merge_update(news, &self.secrets);
        Ok(self.calls[at].id.clone())
    }

    /// Adds a call with the id of the program, and copies the shown content of an earlier call. Returns the index of the call.
    fn add_call_with_program_id(&mut self, program_id: String, earlier: Option<usize>) -> Result<usize, String> {
        let mut base = self.secrets.redact(program_id.as_str()).into_owned();
        base.truncate(base.floor_char_boundary(MAX_CALL_ID_BYTES));
        let call = AcpCallState {
            id: self.choose_unused_id(&base),
            ..match earlier.map(|at| &self.calls[at]) {
                // The program asks again about what it has shown.
                Some(earlier) => AcpCallState {
                    is_asked: false,
                    refused_kinds: Vec::new(),
                    started_at: None,
                    refusal: None,
                    is_over: false,
                    ..earlier.clone()
                },
                None => AcpCallState::default(),
            }
        };
        let at = self.push_call(call)?;
        self.program_ids.insert(program_id, at);
        Ok(at)
    }

    /// Appends the call and returns its index. Fails above the maximum number of calls.
    fn push_call(&mut self, call: AcpCallState) -> Result<usize, String> {
        if self.calls.len() >= MAX_CALLS {
            return Err(format!("it made more than {MAX_CALLS} tool calls in one prompt"));
        }
        let at = self.calls.len();
        self.positions.insert(call.id.clone(), at);
        self.calls.push(call);
        Ok(at)
    }

    /// Returns the id, or the id with a suffix if another call has it.
    fn choose_unused_id(&self, id: &str) -> String {
        let is_free = |id: &String| !self.positions.contains_key(id) && !self.reserved_ids.contains(id);
        let others = (2_u32..).map(|number| format!("{id}~{number}"));
        std::iter::once(id.to_owned())
            .chain(others)
            .find(is_free)
            .unwrap_or_default()
    }

    /// Returns the kinds whose permission the call needs: its kind, and `edit` if the call has shown a diff.
    pub(super) fn needed_permission_kinds(&self, id: &str) -> Vec<AcpToolKind> {
        let Some(call) = self.find_call(id) else {
            return vec![AcpToolKind::Other];
        };
        let edit = (call.has_edits && call.kind() != AcpToolKind::Edit).then_some(AcpToolKind::Edit);
        std::iter::once(call.kind()).chain(edit).collect()
    }

    /// Returns the redacted title of the call, or its id.
    pub(super) fn call_title(&self, id: &str) -> String {
        let title = self.find_call(id).and_then(|known| known.title.as_deref());
        self.secrets.redact(title.unwrap_or(id)).into_owned()
    }

    /// Returns the files that the call names. Returns an empty list unless the call reads files.
    pub(super) fn read_paths(&self, id: &str) -> &[PathBuf] {
        let call = self.find_call(id).filter(|call| call.kind() == AcpToolKind::Read);
        call.map_or(&[], |call| &call.paths)
    }

    /// Returns the diffs that the call shows.
    pub(super) fn shown_diffs(&self, id: &str) -> &[ShownDiff] {
        self.find_call(id).map_or(&[], |call| &call.diffs)
    }

    /// Creates the record of the call, without an end.
    pub(super) fn open_call_record(&self, id: &str) -> ToolCall {
        let Some(call) = self.find_call(id) else {
            return ToolCall::new(id, "other", json!({}));
        };
        let mut arguments = JsonMap::new();
        if let Some(title) = &call.title {
            arguments.insert("title".to_owned(), json!(title));
        }
        if let Some(input) = call.input.as_ref().filter(|input| !is_empty_value(input)) {
            arguments.insert("input".to_owned(), input.clone());
        }
        if !call.paths.is_empty() {
            let paths = call.paths.iter().map(|path| path.to_string_lossy());
            arguments.insert("files".to_owned(), paths.collect());
        }
        if !call.diffs.is_empty() {
            arguments.insert("diff".to_owned(), joined_diff_texts(&call.diffs));
        }
        self.secrets.redact_map(&mut arguments);
        ToolCall::new(id, call.kind().as_str(), Value::Object(arguments))
    }

    /// Marks the call as started. Returns whether the call had neither started nor ended before.
    pub(super) fn mark_started(&mut self, id: &str) -> bool {
        let is_waiting = |known: &&mut AcpCallState| known.started_at.is_none() && !known.is_over;
        let Some(call) = self.find_call_mut(id).filter(is_waiting) else {
            return false;
        };
        call.started_at = Some(Instant::now());
        true
    }

    /// Returns whether the call has started, including calls that have ended.
    pub(super) fn has_started(&self, id: &str) -> bool {
        self.find_call(id).is_some_and(|known| known.started_at.is_some())
    }

    /// Marks the call as refused or failed. `kinds` are the kinds whose permission was refused.
    pub(super) fn mark_refused_or_failed(&mut self, id: &str, why: String, kinds: Vec<AcpToolKind>) {
        if let Some(call) = self.find_call_mut(id) {
            call.refusal = Some(why);
            call.refused_kinds = kinds;
        }
    }

    /// Returns whether the program asked for permission for this kind and was refused.
    pub(super) fn is_kind_refused(&self, id: &str, kind: AcpToolKind) -> bool {
        self.find_call(id)
            .is_some_and(|known| known.refused_kinds.contains(&kind))
    }

    /// Ends the call and returns its record. Returns `None` if the call has ended before or is unknown.
    pub(super) fn end_call_once(&mut self, id: &str, is_failed: bool) -> Option<ToolCall> {
        let record = self.open_call_record(id);
        let secrets = self.secrets.clone();
        let call = self.find_call_mut(id).filter(|known| !known.is_over)?;
        call.is_over = true;
        let duration = call.started_at.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let mut end = match (&call.refusal, is_failed) {
            (Some(refused), _) => ToolCallEnd::Error(refused.clone()),
            (None, true) => ToolCallEnd::Error(match call.texts.join("\n") {
                text if text.trim().is_empty() => "it failed".to_owned(),
                text => redact_and_limit_result(text, &secrets),
            }),
            (None, false) => ToolCallEnd::Result(redacted_result_json(call, &secrets)),
        };
        match &mut end {
            ToolCallEnd::Error(error) => *error = secrets.redact(error.as_str()).into_owned(),
            ToolCallEnd::Result(result) => secrets.redact_value(result),
        }
        (call.input, call.output) = (None, None);
        (call.texts, call.diffs, call.paths) = (Vec::new(), Vec::new(), Vec::new());
        Some(record.with_end(end, duration))
    }

    /// Lists the ids of the calls that have not ended.
    pub(super) fn list_open_ids(&self) -> Vec<String> {
        let open = self.calls.iter().filter(|known| !known.is_over);
        open.map(|known| known.id.clone()).collect()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    fn find_call(&self, id: &str) -> Option<&AcpCallState> {
        self.calls.get(*self.positions.get(id)?)
    }

    fn find_call_mut(&mut self, id: &str) -> Option<&mut AcpCallState> {
        self.calls.get_mut(*self.positions.get(id)?)
    }
}

/// Creates the result of the call: its redacted text and its diffs.
fn redacted_result_json(call: &AcpCallState, secrets: &Secrets) -> Value {
    let mut result = JsonMap::new();
    let text = call.texts.join("\n");
    if !text.trim().is_empty() {
        result.insert("text".to_owned(), json!(redact_and_limit_result(text, secrets)));
    } else if let Some(output) = call.output.as_ref().filter(|output| !is_empty_value(output)) {
        let text = output.to_string();
        let output = if text.len() > MAX_RESULT_BYTES {
            json!(redact_and_limit_result(text, secrets))
        } else {
            output.clone()
        };
        result.insert("output".to_owned(), output);
    }
    if !call.diffs.is_empty() {
        result.insert("diff".to_owned(), joined_diff_texts(&call.diffs));
    }
    Value::Object(result)
}

/// Joins the texts of the diffs.
fn joined_diff_texts(diffs: &[ShownDiff]) -> Value {
    diffs.iter().map(|diff| diff.text.as_str()).collect::<String>().into()
}

/// Returns whether the value is null or an empty object.
fn is_empty_value(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(|map| map.is_empty())
}

/// Redacts and cuts a result that is longer than the maximum.
fn redact_and_limit_result(text: String, secrets: &Secrets) -> String {
    if text.len() <= MAX_RESULT_BYTES {
        return text;
    }
    // A secret of which only a part is left is not found later.
    let mut text = secrets.redact(text).into_owned();
    if text.len() > MAX_RESULT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_RESULT_BYTES));
        text.push_str("\n[the rest is left out]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(id: &str) -> AcpCallUpdate {
        AcpCallUpdate {
            id: id.to_owned(),
            ..AcpCallUpdate::default()
        }
    }

    #[test]
    fn an_id_names_one_call() {
        let mut calls = AcpToolCalls::new(Secrets::default(), HashSet::from(["old".to_owned()]));
        let mut add = |news: AcpCallUpdate, is_asked| calls.apply_call_update(news, is_asked).expect("few calls");
        assert_eq!(add(news("c"), false), (true, "c".to_owned()));
        assert_eq!(add(news("c"), true), (false, "c".to_owned()), "its first request");
        assert_eq!(add(news("c"), false), (false, "c".to_owned()));
        assert_eq!(add(news("c"), true), (true, "c~2".to_owned()), "it asks again");
        assert_eq!(
            add(news("old"), true),
            (true, "old~2".to_owned()),
            "an earlier process had it"
        );
        assert_eq!(calls.add_file_call(news("")), Ok("file-1".to_owned()));
        assert_eq!(
            calls.apply_call_update(news("file-1"), false),
            Ok((true, "file-1~2".to_owned()))
        );
        assert!(calls.end_call_once("c~2", false).is_some() && calls.end_call_once("c~2", false).is_none());
        assert_eq!(
            calls.apply_call_update(news("c"), false),
            Ok((false, "c~2".to_owned())),
            "an echo"
        );
        let begins = AcpCallUpdate {
            begins: true,
            ..news("c")
        };
        assert_eq!(calls.apply_call_update(begins, false), Ok((true, "c~3".to_owned())));
    }

    #[test]
    fn a_long_result_contains_no_part_of_a_secret() {
        let secrets = Secrets::default();
        secrets.add_secret("sk-0123456789");
        for before in MAX_RESULT_BYTES - 12..MAX_RESULT_BYTES {
            let text = format!("{}sk-0123456789{}", "x".repeat(before), "x".repeat(100));
            let text = redact_and_limit_result(text, &secrets);
            assert!(!text.contains("sk"), "{before}");
        }
    }

    #[test]
    fn nothing_of_a_call_contains_a_secret() {
        let secrets = Secrets::default();
        secrets.add_secret("sk-0123456789");
        let mut calls = AcpToolCalls::new(secrets, HashSet::new());
        let said = AcpCallUpdate {
            title: Some("sk-0123456789".to_owned()),
            input: Some(json!({"sk-0123456789": "sk-0123456789"})),
            texts: vec!["sk-0123456789".to_owned()],
            paths: vec!["/sk-0123456789".into()],
            diffs: vec![super::super::protocol::FileTextChange {
                path: "sk-0123456789".into(),
                old: "sk-0123456789".to_owned(),
                new: "x".to_owned(),
            }],
            ..news("a sk-0123456789")
        };
        let (_, id) = calls.apply_call_update(said, false).expect("few calls");
        assert_eq!(id, "a [secret]");
        let call = calls.end_call_once(&id, false).expect("it was open");
        let text = format!("{call:?} {}", calls.call_title(&id));
        assert!(text.contains("[secret]") && !text.contains("0123456789"), "{text}");
    }
}
