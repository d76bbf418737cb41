//! The tool calls of one prompt, as far as they are known.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::diff::unified;
use super::protocol::ToolNews;
use ensemble_core::thread::{ToolCall, ToolEnd};
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::AcpToolKind;

/// The maximum number of bytes of a result in the record: 64 KiB.
const LONGEST_RESULT: usize = 64 << 10;

/// All calls of a prompt.
#[derive(Default)]
pub(super) struct Calls {
    known: Vec<Known>,
    own: u32,
}

struct Known {
    news: ToolNews,
    is_decided: bool,
    begun: Option<Instant>,
    refused: Option<String>,
    is_over: bool,
}

impl Calls {
    /// Adds what is new. Says whether the call is new, and gives its id and its kind.
    pub(super) fn add(&mut self, news: ToolNews) -> (bool, String, AcpToolKind) {
        let id = news.id.clone();
        let is_new = self.find(&id).is_none();
        if is_new {
            self.known.push(Known {
                news,
                is_decided: false,
                begun: None,
                refused: None,
                is_over: false,
            });
        } else if let Some(known) = self.find_mut(&id) {
            let old = &mut known.news;
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
        let kind = self.kind(&id);
        (is_new, id, kind)
    }

    /// The id of a call that the program does not number.
    pub(super) fn next_id(&mut self) -> String {
        self.own += 1;
        format!("file-{}", self.own)
    }

    pub(super) fn kind(&self, id: &str) -> AcpToolKind {
        let known = self.find(id).and_then(|known| known.news.kind);
        known.unwrap_or(AcpToolKind::Other)
    }

    pub(super) fn title(&self, id: &str) -> String {
        let known = self.find(id).and_then(|known| known.news.title.clone());
        known.unwrap_or_else(|| id.to_owned())
    }

    /// The files of the call.
    pub(super) fn paths(&self, id: &str) -> Vec<PathBuf> {
        let Some(known) = self.find(id) else { return Vec::new() };
        let diffs = known.news.diffs.iter().map(|diff| diff.path.clone());
        diffs.chain(known.news.paths.iter().cloned()).collect()
    }

    /// The call as it is recorded, without an end.
    pub(super) fn call(&self, id: &str) -> ToolCall {
        let Some(known) = self.find(id) else {
            return ToolCall::new(id, "other", json!({}));
        };
        let news = &known.news;
        let mut arguments = JsonMap::new();
        if let Some(title) = &news.title {
            arguments.insert("title".to_owned(), json!(title));
        }
        if let Some(input) = news.input.as_ref().filter(|input| !is_nothing(input)) {
            arguments.insert("input".to_owned(), input.clone());
        }
        if !news.paths.is_empty() {
            arguments.insert("files".to_owned(), json!(news.paths));
        }
        if !news.diffs.is_empty() {
            arguments.insert("diff".to_owned(), diffs(news));
        }
        ToolCall::new(id, self.kind(id).word(), Value::Object(arguments))
    }

    /// The call begins; false: it had begun before.
    pub(super) fn begin(&mut self, id: &str) -> bool {
        let Some(known) = self.find_mut(id).filter(|known| known.begun.is_none()) else {
            return false;
        };
        known.begun = Some(Instant::now());
        true
    }

    /// Adds the answer of an operator about the call.
    pub(super) fn decide(&mut self, id: &str) {
        if let Some(known) = self.find_mut(id) {
            known.is_decided = true;
        }
    }

    pub(super) fn is_decided(&self, id: &str) -> bool {
        self.find(id).is_some_and(|known| known.is_decided)
    }

    /// The call was refused, or did not work.
    pub(super) fn refuse(&mut self, id: &str, why: String) {
        if let Some(known) = self.find_mut(id) {
            known.refused = Some(why);
        }
    }

    /// Ends the call, once.
    pub(super) fn end(&mut self, id: &str, is_failed: bool) -> Option<ToolCall> {
        let call = self.call(id);
        let known = self.find_mut(id).filter(|known| !known.is_over)?;
        known.is_over = true;
        let duration = known.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let end = match (&known.refused, is_failed) {
            (Some(refused), _) => ToolEnd::Error(refused.clone()),
            (None, true) => ToolEnd::Error(match known.news.texts.join("\n") {
                text if text.trim().is_empty() => "it failed".to_owned(),
                text => capped(text),
            }),
            (None, false) => ToolEnd::Result(result(&known.news)),
        };
        Some(call.ended(end, duration))
    }

    /// The calls that have not ended.
    pub(super) fn open(&self) -> Vec<String> {
        let open = self.known.iter().filter(|known| !known.is_over);
        open.map(|known| known.news.id.clone()).collect()
    }

    pub(super) fn is_any(&self) -> bool {
        !self.known.is_empty()
    }

    fn find(&self, id: &str) -> Option<&Known> {
        self.known.iter().find(|known| known.news.id == id)
    }

    fn find_mut(&mut self, id: &str) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.news.id == id)
    }
}

/// Returns the result of the call: its text, and its changes.
fn result(news: &ToolNews) -> Value {
    let mut result = JsonMap::new();
    let text = news.texts.join("\n");
    if !text.trim().is_empty() {
        result.insert("text".to_owned(), json!(capped(text)));
    } else if let Some(output) = news.output.as_ref().filter(|output| !is_nothing(output)) {
        let text = output.to_string();
        let output = if text.len() > LONGEST_RESULT {
            json!(capped(text))
        } else {
            output.clone()
        };
        result.insert("output".to_owned(), output);
    }
    if !news.diffs.is_empty() {
        result.insert("diff".to_owned(), diffs(news));
    }
    Value::Object(result)
}

fn diffs(news: &ToolNews) -> Value {
    let all = news.diffs.iter();
    let all: Vec<String> = all.map(|diff| unified(&diff.path, &diff.old, &diff.new)).collect();
    json!(all.concat())
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(|map| map.is_empty())
}

fn capped(mut text: String) -> String {
    if text.len() > LONGEST_RESULT {
        text.truncate(text.floor_char_boundary(LONGEST_RESULT));
        text.push_str("\n[the rest is left out]");
    }
    text
}
