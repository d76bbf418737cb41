//! Answers that are given before the question.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::part_order::{OpenPartGuard, OpenParts};
use ensemble_core::request::{
    AddressMatch, AnswerAuthor, AnswerRecord, AnswerSource, PendingRequest, RequestAddress, find_named,
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Answers given with the run. Each is for an address, for all parts or calls of an address, or for the bare name of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunAnswers {
    /// `--answer`: each for the next question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    next: Vec<(String, String)>,
    /// `--always-answer`: for every question.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    always: IndexMap<String, String>,
    /// `--answers`: a list is by execution, another value is for every execution.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    file: IndexMap<String, Value>,
    /// Who gave entries of `file`, if not a file.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    given_by: IndexMap<String, AnswerAuthor>,
    /// The user who gave the answers and the other options of the run, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<Arc<str>>,
}

/// The answers of a run, of which some were used.
#[derive(Debug, Default)]
pub struct AnswerQueue {
    state: Mutex<AnswerQueueState>,
    open_parts: OpenParts,
}

#[derive(Debug, Default)]
struct AnswerQueueState {
    /// The answers without those to next questions that were used.
    answers: RunAnswers,
    /// The addresses of `--always-answer` that were used.
    used_always: HashSet<String>,
    /// The entries of the file that were used: the address and, for a list, the position.
    used_file: HashSet<(String, Option<usize>)>,
}

/// The given answer for one question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QueuedAnswer {
    /// An answer, with its source.
    Answer(Value, AnswerAuthor),
    /// The list of the agent has no more answers. The operator is not asked, because the run was meant to need none.
    Exhausted,
    /// No answers were given for the agent.
    NotGiven,
}

impl RunAnswers {
    /// Adds an entry of a file: a list is by execution (`null` leaves one out), anything else is for every execution. It
    /// replaces an earlier entry.
    pub fn insert_file_entry(&mut self, agent: impl Into<String>, answer: Value) {
        let address = agent.into();
        self.given_by.shift_remove(&address);
        self.file.insert(address, answer);
    }

    /// Adds an answer to every question of the address, with who gave it. It replaces an entry of a file.
    pub fn insert_from(&mut self, address: impl Into<String>, answer: Value, by: AnswerAuthor) {
        let address = address.into();
        self.given_by.insert(address.clone(), by);
        self.file.insert(address, answer);
    }

    /// Sets the user who gives the answers and the other options of the run.
    pub fn set_user(&mut self, user: Option<&str>) {
        self.user = user.map(Arc::from);
    }

    /// Returns the user who gave the answers and the other options of the run, if known.
    pub fn user(&self) -> Option<&Arc<str>> {
        self.user.as_ref()
    }

    /// Returns the author of answers from this source.
    pub fn author(&self, source: AnswerSource) -> AnswerAuthor {
        AnswerAuthor::with_user(source, self.user.as_deref().unwrap_or_default())
    }

    /// Adds an answer to the next question.
    pub fn push_next(&mut self, address: impl Into<String>, text: impl Into<String>) {
        self.next.push((address.into(), text.into()));
    }

    /// Adds the answer to every question. It replaces an earlier one.
    pub fn insert_always(&mut self, address: impl Into<String>, text: impl Into<String>) {
        self.always.insert(address.into(), text.into());
    }

    /// Returns the answers to the next questions, with their addresses, in the order in which they were given.
    pub fn next_answers(&self) -> &[(String, String)] {
        &self.next
    }

    /// Replaces the answers to the next questions.
    pub fn set_next(&mut self, next: Vec<(String, String)>) {
        self.next = next;
    }

    /// Returns the addresses and texts of `--answer` and `--always-answer`. The bare name of an agent must be unique.
    pub fn option_answers(&self) -> impl Iterator<Item = (&str, &str)> {
        let next = self
            .next
            .iter()
            .map(|(address, text)| (address.as_str(), text.as_str()));
        let always = self.always.iter();
        next.chain(always.map(|(address, text)| (address.as_str(), text.as_str())))
    }

    /// Returns the addresses in the file.
    pub fn file_addresses(&self) -> impl Iterator<Item = &str> {
        self.file.keys().map(String::as_str)
    }

    /// Returns the answers in the file as texts, with their addresses.
    pub fn file_answers(&self) -> impl Iterator<Item = (&str, String)> {
        let texts = |answer: &Value| match answer {
            Value::Array(list) => list.iter().filter(|one| !one.is_null()).map(answer_text).collect(),
            Value::Null => Vec::new(),
            every => vec![answer_text(every)],
        };
        let all = self.file.iter();
        all.flat_map(move |(address, answer)| texts(answer).into_iter().map(|text| (address.as_str(), text)))
    }

    /// Finds the answer in the file to a question of that execution (from 1), as a text.
    pub fn find_file_answer(&self, address: &RequestAddress, execution: u32) -> Option<String> {
        self.find_in_file(address, execution).flatten().map(answer_text)
    }

    /// Finds the entry of the file for an address: `Some(None)` if the entry has no answer for that execution.
    fn find_in_file(&self, address: &RequestAddress, execution: u32) -> Option<Option<&Value>> {
        let (_, entry) = self.find_file_entry(address)?;
        let answer = match entry {
            Value::Array(list) => usize::try_from(execution)
                .ok()
                .and_then(|number| list.get(number.checked_sub(1)?)),
            every => Some(every),
        };
        Some(answer.filter(|answer| !answer.is_null()))
    }

    /// Finds the entry of the file that means the address most precisely, with its name.
    fn find_file_entry(&self, address: &RequestAddress) -> Option<(&str, &Value)> {
        let entries = self.file.iter();
        let entries = entries.map(|(given, entry)| (given.as_str(), (given.as_str(), entry)));
        find_named(entries, address)
    }

    /// Finds the position in the file of the answer to a question of that execution (from 1).
    fn find_file_position(&self, address: &RequestAddress, execution: u32) -> Option<(String, Option<usize>)> {
        let (given, entry) = self.find_file_entry(address)?;
        let position = match entry {
            Value::Array(_) => Some(usize::try_from(execution).ok()?.checked_sub(1)?),
            _ => None,
        };
        Some((given.to_owned(), position))
    }

    /// Returns who gave the entry of the file for an address.
    fn find_answerer(&self, address: &RequestAddress) -> AnswerAuthor {
        let given_by = self
            .find_file_entry(address)
            .and_then(|(given, _)| self.given_by.get(given));
        given_by.cloned().unwrap_or_else(|| self.author(AnswerSource::File))
    }

    /// Returns all addresses.
    pub fn list_addresses(&self) -> impl Iterator<Item = &str> {
        let options = self.option_answers().map(|(address, _)| address);
        options.chain(self.file_addresses())
    }

    /// Removes the answer that was used for a recorded question.
    pub fn remove_used(&mut self, record: &AnswerRecord) {
        if record.by.source == AnswerSource::Option {
            self.take_next(&record.address);
        }
    }

    /// Finds the position of the answer to the next question of the address.
    fn find_next(&self, address: &RequestAddress) -> Option<usize> {
        let entries = self.next.iter().enumerate();
        find_named(entries.map(|(at, (given, _))| (given.as_str(), at)), address)
    }

    fn take_next(&mut self, address: &RequestAddress) -> Option<String> {
        let at = self.find_next(address)?;
        Some(self.next.remove(at).1)
    }

    /// Returns whether the answer to the next question of the address is for several parts.
    fn is_next_for_parts(&self, address: &RequestAddress) -> bool {
        let is_exact = |at: usize| address.match_name(&self.next[at].0) == Some(AddressMatch::Exact);
        address.has_keys() && self.find_next(address).is_some_and(|at| !is_exact(at))
    }
}

/// Returns the text of an answer: a string as it is, another value as JSON.
fn answer_text(answer: &Value) -> String {
    answer.as_str().map_or_else(|| answer.to_string(), str::to_owned)
}

impl AnswerQueue {
    /// Creates the queue of a run.
    pub fn new(answers: RunAnswers) -> Self {
        let state = AnswerQueueState {
            answers,
            ..AnswerQueueState::default()
        };
        Self {
            state: Mutex::new(state),
            open_parts: OpenParts::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, AnswerQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answers to next questions that no question has taken: the address, and the text.
    pub fn list_unused_next(&self) -> Vec<(String, String)> {
        self.lock().answers.next.clone()
    }

    /// Returns the answers to every question that no question has taken: the address, and the text.
    pub fn list_unused_always(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let always = state.answers.always.iter();
        let always = always.filter(|(address, _)| !state.used_always.contains(*address));
        always.map(|(address, text)| (address.clone(), text.clone())).collect()
    }

    /// Returns the answers of the file that no question has taken: the address, and the text.
    pub fn list_unused_file(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let by_stub = |address: &str| state.answers.given_by.contains_key(address);
        let entries = state.answers.file.iter().filter(|(address, _)| !by_stub(address));
        let items = entries.flat_map(|(address, entry)| match entry {
            Value::Array(list) => {
                let items = list.iter().enumerate();
                items.map(|(at, answer)| (address, Some(at), answer)).collect()
            }
            every => vec![(address, None, every)],
        });
        let unused = items
            .filter(|(address, at, answer)| !answer.is_null() && !state.used_file.contains(&((*address).clone(), *at)));
        unused
            .map(|(address, _, answer)| (address.clone(), answer_text(answer)))
            .collect()
    }

    /// Adds the text of a stub as the answer to every question of the address. A JSON object is the whole output.
    pub fn add_stub(&self, address: &str, text: &str) {
        let answer = match serde_json::from_str(text) {
            Ok(Value::Object(output)) => Value::Object(output),
            _ => Value::String(text.to_owned()),
        };
        let answers = &mut self.lock().answers;
        answers.insert_from(address, answer, AnswerSource::Stub.into());
    }

    /// Returns the author of options of the run.
    pub fn option_author(&self) -> AnswerAuthor {
        self.lock().answers.author(AnswerSource::Option)
    }

    /// Runs a function on the answers that are left.
    pub fn with_answers<T>(&self, read: impl FnOnce(&RunAnswers) -> T) -> T {
        read(&self.lock().answers)
    }

    /// Takes the answer for a question of that execution (from 1), with who gave it. Returns `None` if none was given.
    pub fn take_answer(&self, address: &RequestAddress, execution: u32) -> Option<(Value, AnswerAuthor)> {
        match self.take_queued_answer(address, execution) {
            QueuedAnswer::Answer(answer, by) => Some((answer, by)),
            QueuedAnswer::Exhausted | QueuedAnswer::NotGiven => None,
        }
    }

    /// Marks the part at this position as performed. Parts are opened in the order of their list.
    pub(crate) fn open_part(&self, position: Vec<u32>) -> OpenPartGuard {
        self.open_parts.open_part(position)
    }

    /// Waits until the question may take the answer to the next question of its address. An answer that is for several parts
    /// goes to the first part that asks, in the order of the list and not of time.
    pub(crate) async fn wait_for_answer_order(&self, request: &PendingRequest) {
        // An exclusive call keeps the calls of earlier parts from starting, so a question in a call must not wait for them.
        let is_in_call = request
            .address
            .segments()
            .iter()
            .any(|segment| !segment.calls.is_empty());
        let waits = !is_in_call && self.lock().answers.is_next_for_parts(&request.address);
        if waits {
            self.open_parts.wait_for_earlier_parts(&request.position).await;
        }
    }

    /// Takes the answer for a question of that execution (from 1).
    pub(crate) fn take_queued_answer(&self, address: &RequestAddress, execution: u32) -> QueuedAnswer {
        let AnswerQueueState {
            answers,
            used_always,
            used_file,
        } = &mut *self.lock();
        if let Some(text) = answers.take_next(address) {
            return QueuedAnswer::Answer(Value::String(text), answers.author(AnswerSource::Option));
        }
        let always = answers.always.iter();
        let always = always.map(|(given, text)| (given.as_str(), (given, text)));
        if let Some((given, text)) = find_named(always, address) {
            used_always.insert(given.clone());
            return QueuedAnswer::Answer(Value::String(text.clone()), answers.author(AnswerSource::Option));
        }
        match answers.find_in_file(address, execution) {
            None => QueuedAnswer::NotGiven,
            Some(Some(answer)) => {
                used_file.extend(answers.find_file_position(address, execution));
                QueuedAnswer::Answer(answer.clone(), answers.find_answerer(address))
            }
            Some(None) => QueuedAnswer::Exhausted,
        }
    }
}
