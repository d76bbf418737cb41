//! The tool calls of one prompt, as far as they are known.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::diff::render_unified_diff;
use super::protocol::AcpCallNews;
use ensemble_core::thread::{ToolCall, ToolEnd};
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::AcpToolKind;

/// The maximum number of bytes of a result in the record: 64 KiB.
const LONGEST_RESULT: usize = 64 << 10;

/// All calls of a prompt.
#[derive(Default)]
pub(super) struct AcpToolCalls {
    calls: Vec<AcpCallState>,
    assigned_ids: u32,
}

struct AcpCallState {
    news: AcpCallNews,
    is_decided: bool,
    started_at: Option<Instant>,
    refusal: Option<String>,
    is_over: bool,
}

impl AcpToolCalls {
    /// Adds what is new. Says whether the call is new, and gives its id and its kind.
    pub(super) fn add_news(&mut self, news: AcpCallNews) -> (bool, String, AcpToolKind) {
        let id = news.id.clone();
        let is_new = self.find_call(&id).is_none();
        if is_new {
            self.calls.push(AcpCallState {
                news,
                is_decided: false,
                started_at: None,
                refusal: None,
                is_over: false,
            });
        } else if let Some(call) = self.find_call_mut(&id) {
            let old = &mut call.news;
            old.title = news.title.or(old.title.take());
            old.kind = news.kind.or(old.kind);
            old.input = news.input.or(old.input.take());
            old.output = news.output.or(old.output.take());
            for (new, old) in [(news.texts, &mut old.texts)] {
                if !new.is_empty() {
                    *old = new;
                }
            }
            if !news.diffs.is_empty() {
                old.diffs = news.diffs;
            }
            if !news.paths.is_empty() {
                old.paths = news.paths;
            }
        }
        let kind = self.call_kind(&id);
        (is_new, id, kind)
    }

    /// Returns the id of a call that the program does not number.
    pub(super) fn assign_id(&mut self) -> String {
        self.assigned_ids += 1;
        format!("file-{}", self.assigned_ids)
    }

    pub(super) fn call_kind(&self, id: &str) -> AcpToolKind {
        let kind = self.find_call(id).and_then(|known| known.news.kind);
        kind.unwrap_or(AcpToolKind::Other)
    }

    pub(super) fn call_title(&self, id: &str) -> String {
        let title = self.find_call(id).and_then(|known| known.news.title.clone());
        title.unwrap_or_else(|| id.to_owned())
    }

    /// Returns the files of the call.
    pub(super) fn call_paths(&self, id: &str) -> Vec<PathBuf> {
        let Some(call) = self.find_call(id) else {
            return Vec::new();
        };
        let diffs = call.news.diffs.iter().map(|diff| diff.path.clone());
        diffs.chain(call.news.paths.iter().cloned()).collect()
    }

    /// Returns the call as it is recorded, without an end.
    pub(super) fn call_record(&self, id: &str) -> ToolCall {
        let Some(call) = self.find_call(id) else {
            return ToolCall::new(id, "other", json!({}));
        };
        let news = &call.news;
        let mut arguments = JsonMap::new();
        if let Some(title) = &news.title {
            arguments.insert("title".to_owned(), json!(title));
        }
        if let Some(input) = news.input.as_ref().filter(|input| !is_empty_value(input)) {
            arguments.insert("input".to_owned(), input.clone());
        }
        if !news.paths.is_empty() {
            arguments.insert("files".to_owned(), json!(news.paths));
        }
        if !news.diffs.is_empty() {
            arguments.insert("diff".to_owned(), diffs_json(news));
        }
        ToolCall::new(id, self.call_kind(id).as_str(), Value::Object(arguments))
    }

    /// The call begins; false: it had begun before.
    pub(super) fn mark_started(&mut self, id: &str) -> bool {
        let Some(call) = self.find_call_mut(id).filter(|known| known.started_at.is_none()) else {
            return false;
        };
        call.started_at = Some(Instant::now());
        true
    }

    /// Adds the answer of an operator about the call.
    pub(super) fn mark_decided(&mut self, id: &str) {
        if let Some(call) = self.find_call_mut(id) {
            call.is_decided = true;
        }
    }

    pub(super) fn is_decided(&self, id: &str) -> bool {
        self.find_call(id).is_some_and(|known| known.is_decided)
    }

    /// The call was refused, or did not work.
    pub(super) fn mark_refused(&mut self, id: &str, why: String) {
        if let Some(call) = self.find_call_mut(id) {
            call.refusal = Some(why);
        }
    }

    /// Ends the call, once.
    pub(super) fn finish_call(&mut self, id: &str, is_failed: bool) -> Option<ToolCall> {
        let call = self.call_record(id);
        let tracked_call = self.find_call_mut(id).filter(|known| !known.is_over)?;
        tracked_call.is_over = true;
        let duration = tracked_call
            .started_at
            .map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let end = match (&tracked_call.refusal, is_failed) {
            (Some(refused), _) => ToolEnd::Error(refused.clone()),
            (None, true) => ToolEnd::Error(match tracked_call.news.texts.join("\n") {
                text if text.trim().is_empty() => "it failed".to_owned(),
                text => truncate_result(text),
            }),
            (None, false) => ToolEnd::Result(result_json(&tracked_call.news)),
        };
        Some(call.with_end(end, duration))
    }

    /// Returns the calls that have not ended.
    pub(super) fn list_open_ids(&self) -> Vec<String> {
        let open = self.calls.iter().filter(|known| !known.is_over);
        open.map(|known| known.news.id.clone()).collect()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    fn find_call(&self, id: &str) -> Option<&AcpCallState> {
        self.calls.iter().find(|known| known.news.id == id)
    }

    fn find_call_mut(&mut self, id: &str) -> Option<&mut AcpCallState> {
        self.calls.iter_mut().find(|known| known.news.id == id)
    }
}

/// Returns the result of the call: its text, and its changes.
fn result_json(news: &AcpCallNews) -> Value {
    let mut result = JsonMap::new();
    let text = news.texts.join("\n");
    if !text.trim().is_empty() {
        result.insert("text".to_owned(), json!(truncate_result(text)));
    } else if let Some(output) = news.output.as_ref().filter(|output| !is_empty_value(output)) {
        let text = output.to_string();
        let output = if text.len() > LONGEST_RESULT {
            json!(truncate_result(text))
        } else {
            output.clone()
        };
        result.insert("output".to_owned(), output);
    }
    if !news.diffs.is_empty() {
        result.insert("diff".to_owned(), diffs_json(news));
    }
    Value::Object(result)
}

fn diffs_json(news: &AcpCallNews) -> Value {
    let all = news.diffs.iter();
    let all: Vec<String> = all
        .map(|diff| render_unified_diff(&diff.path, &diff.old, &diff.new))
        .collect();
    json!(all.concat())
}

fn is_empty_value(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(|map| map.is_empty())
}

fn truncate_result(mut text: String) -> String {
    if text.len() > LONGEST_RESULT {
        text.truncate(text.floor_char_boundary(LONGEST_RESULT));
        text.push_str("\n[the rest is left out]");
    }
    text
}
