//! Answers that the user gives before the questions.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::part_order::{OpenPartGuard, OpenParts};
use crate::agent::ExecutionInput;
use ensemble_core::request::{
    AddressMatchPrecision, AnswerAuthor, AnswerRecord, AnswerSource, PendingRequest, RequestAddress,
    find_most_precise_match,
};
use ensemble_core::stopwatch::Stopwatch;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Answers that the user supplied with the run. The address of an answer can name a request, all parts or calls, or an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreparedAnswers {
    /// `--answer`: each for the next question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    next: Vec<(String, String)>,
    /// `--always-answer`: for every question.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    always: IndexMap<String, String>,
    /// `--answers`: a list is by execution, another value is for every execution.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    file: IndexMap<String, Value>,
    /// Authors of entries of `file` that come from no file.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    given_by: IndexMap<String, AnswerAuthor>,
    /// The user who gave the answers and the other options of the run, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<Arc<str>>,
}

/// Unused prepared answers of a run, shared by all agents.
#[derive(Debug, Default)]
pub struct AnswerQueue {
    state: Mutex<AnswerQueueState>,
    open_parts: OpenParts,
}

/// Prepared answers, with the addresses whose answers were used.
#[derive(Debug, Default)]
struct AnswerQueueState {
    /// The answers without those to next questions that were used.
    answers: PreparedAnswers,
    /// The addresses of `--always-answer` that were used.
    used_always: HashSet<String>,
    /// The entries of the file that were used: the address and, for a list, the position.
    used_file: HashSet<(String, Option<usize>)>,
}

/// Result of the search for a prepared answer: an answer, a used-up list, or no answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PreparedAnswerLookup {
    /// An answer, with its source.
    Answer(Value, AnswerAuthor),
    /// The list of the agent has no more answers. The operator is not asked, because the run was meant to need none.
    Exhausted,
    /// No answers were given for the agent.
    NotGiven,
}

impl PreparedAnswers {
    /// Sets the answer of a file for an address: a list has one answer per execution (`null` skips one), another value answers every
    /// execution.
    ///
    /// Replaces an earlier entry.
    pub fn insert_file_entry(&mut self, agent: impl Into<String>, answer: Value) {
        let address = agent.into();
        self.given_by.shift_remove(&address);
        self.file.insert(address, answer);
    }

    /// Sets the answer to every question of the address, with its author. Replaces an entry of the file.
    pub fn insert_answer_by(&mut self, address: impl Into<String>, answer: Value, by: AnswerAuthor) {
        let address = address.into();
        self.given_by.insert(address.clone(), by);
        self.file.insert(address, answer);
    }

    /// Sets the user who supplied the answers and the other options of the run.
    pub fn set_answering_user(&mut self, user: Option<&str>) {
        self.user = user.map(Arc::from);
    }

    /// Returns the user who supplied the answers and the other options of the run, if known.
    pub fn answering_user(&self) -> Option<&Arc<str>> {
        self.user.as_ref()
    }

    /// Creates the author of answers from this source.
    pub fn author_for_source(&self, source: AnswerSource) -> AnswerAuthor {
        AnswerAuthor::with_visible_user(source, self.user.as_deref().unwrap_or_default())
    }

    /// Adds an answer to the next question of the address.
    pub fn push_next_answer(&mut self, address: impl Into<String>, text: impl Into<String>) {
        self.next.push((address.into(), text.into()));
    }

    /// Sets the answer to every question of the address. Replaces an earlier one.
    pub fn insert_always_answer(&mut self, address: impl Into<String>, text: impl Into<String>) {
        self.always.insert(address.into(), text.into());
    }

    /// Returns the answers to the next questions, each with its address, in the order of the options.
    pub fn next_answers(&self) -> &[(String, String)] {
        &self.next
    }

    /// Replaces the answers to the next questions: pairs of address and text.
    pub fn set_next_answers(&mut self, next: Vec<(String, String)>) {
        self.next = next;
    }

    /// Iterates over the addresses and texts of `--answer` and `--always-answer`. The bare name of an agent must be unique.
    pub fn option_answers(&self) -> impl Iterator<Item = (&str, &str)> {
        let next = self
            .next
            .iter()
            .map(|(address, text)| (address.as_str(), text.as_str()));
        let always = self.always.iter();
        next.chain(always.map(|(address, text)| (address.as_str(), text.as_str())))
    }

    /// Iterates over the addresses in the answer file.
    pub fn file_addresses(&self) -> impl Iterator<Item = &str> {
        self.file.keys().map(String::as_str)
    }

    /// Iterates over the addresses and texts of the answer file.
    pub fn file_answers(&self) -> impl Iterator<Item = (&str, String)> {
        let texts = |answer: &Value| match answer {
            Value::Array(list) => list.iter().filter(|one| !one.is_null()).map(answer_text).collect(),
            Value::Null => Vec::new(),
            every => vec![answer_text(every)],
        };
        let all = self.file.iter();
        all.flat_map(move |(address, answer)| texts(answer).into_iter().map(|text| (address.as_str(), text)))
    }

    /// Finds the answer of the file for an execution (from 1), as text.
    pub fn find_file_answer(&self, address: &RequestAddress, execution: u32) -> Option<String> {
        self.find_file_value(address, execution).flatten().map(answer_text)
    }

    /// Finds the value of the file for an address and an execution. Returns `Some(None)` if the entry has no answer for the execution.
    fn find_file_value(&self, address: &RequestAddress, execution: u32) -> Option<Option<&Value>> {
        let (_, entry) = self.find_file_entry(address)?;
        let answer = match entry {
            Value::Array(list) => usize::try_from(execution)
                .ok()
                .and_then(|number| list.get(number.checked_sub(1)?)),
            every => Some(every),
        };
        Some(answer.filter(|answer| !answer.is_null()))
    }

    /// Finds the file entry with the most specific address that matches. Returns its address and value.
    fn find_file_entry(&self, address: &RequestAddress) -> Option<(&str, &Value)> {
        let entries = self.file.iter();
        let entries = entries.map(|(given, entry)| (given.as_str(), (given.as_str(), entry)));
        find_most_precise_match(entries, address)
    }

    /// Finds the address and list index of the file answer for an execution (from 1). The index is `None` if the entry is no list.
    fn find_file_position(&self, address: &RequestAddress, execution: u32) -> Option<(String, Option<usize>)> {
        let (given, entry) = self.find_file_entry(address)?;
        let position = match entry {
            Value::Array(_) => Some(usize::try_from(execution).ok()?.checked_sub(1)?),
            _ => None,
        };
        Some((given.to_owned(), position))
    }

    /// Returns the author of the file entry for an address.
    fn file_answer_author(&self, address: &RequestAddress) -> AnswerAuthor {
        let given_by = self
            .find_file_entry(address)
            .and_then(|(given, _)| self.given_by.get(given));
        given_by
            .cloned()
            .unwrap_or_else(|| self.author_for_source(AnswerSource::File))
    }

    /// Iterates over the addresses of all options and file entries.
    pub fn list_addresses(&self) -> impl Iterator<Item = &str> {
        let options = self.option_answers().map(|(address, _)| address);
        options.chain(self.file_addresses())
    }

    /// Removes the `--answer` option that answered a recorded question. Keeps answers from other sources.
    pub fn remove_used_option(&mut self, record: &AnswerRecord) {
        if record.by.source == AnswerSource::Option {
            self.take_next_answer(&record.address);
        }
    }

    /// Finds the index of the first `--answer` text for the address.
    fn find_next_answer(&self, address: &RequestAddress) -> Option<usize> {
        let entries = self.next.iter().enumerate();
        find_most_precise_match(entries.map(|(at, (given, _))| (given.as_str(), at)), address)
    }

    /// Removes and returns the first `--answer` text for the address.
    fn take_next_answer(&mut self, address: &RequestAddress) -> Option<String> {
        let at = self.find_next_answer(address)?;
        Some(self.next.remove(at).1)
    }

    /// Returns whether the answer to the next question of the address is for several parts.
    fn is_next_for_parts(&self, address: &RequestAddress) -> bool {
        let is_exact = |at: usize| address.match_precision(&self.next[at].0) == Some(AddressMatchPrecision::Exact);
        address.has_part_keys() && self.find_next_answer(address).is_some_and(|at| !is_exact(at))
    }
}

/// Converts an answer to text: a string unchanged, another value as JSON.
fn answer_text(answer: &Value) -> String {
    answer.as_str().map_or_else(|| answer.to_string(), str::to_owned)
}

impl AnswerQueue {
    /// Creates the queue of a run.
    pub fn new(answers: PreparedAnswers) -> Self {
        let state = AnswerQueueState {
            answers,
            ..AnswerQueueState::default()
        };
        Self {
            state: Mutex::new(state),
            open_parts: OpenParts::default(),
        }
    }

    /// Locks the state, also after a panic in another thread.
    fn lock(&self) -> MutexGuard<'_, AnswerQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the unused answers to next questions: pairs of address and text.
    pub fn list_unused_next(&self) -> Vec<(String, String)> {
        self.lock().answers.next.clone()
    }

    /// Returns the unused answers to every question: pairs of address and text.
    pub fn list_unused_always(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let always = state.answers.always.iter();
        let always = always.filter(|(address, _)| !state.used_always.contains(*address));
        always.map(|(address, text)| (address.clone(), text.clone())).collect()
    }

    /// Returns the unused answers of the file: pairs of address and text.
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

    /// Returns the unused stubs for parts and calls: pairs of address and text.
    pub fn list_unused_stubs(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let is_stub = |address: &str| {
            let author = state.answers.given_by.get(address);
            author.is_some_and(|author| author.source == AnswerSource::Stub)
        };
        let is_used = |address: &str| state.used_file.iter().any(|(used, _)| *used == *address);
        let stubs = state.answers.file.iter().filter(|(address, _)| is_stub(address));
        let unused = stubs.filter(|(address, _)| address.contains(['[', '/']) && !is_used(address));
        unused
            .map(|(address, answer)| (address.clone(), answer_text(answer)))
            .collect()
    }

    /// Sets the text of a stub as the answer to every question of the address. A JSON object is used as the whole output.
    pub fn add_stub_answer(&self, address: &str, text: &str) {
        let answer = match serde_json::from_str(text) {
            Ok(Value::Object(output)) => Value::Object(output),
            _ => Value::String(text.to_owned()),
        };
        let answers = &mut self.lock().answers;
        answers.insert_answer_by(address, answer, AnswerSource::Stub.into());
    }

    /// Returns the author of the answers in command options.
    pub fn option_author(&self) -> AnswerAuthor {
        self.lock().answers.author_for_source(AnswerSource::Option)
    }

    /// Calls the function with the remaining answers, while they are locked, and returns its result.
    pub fn read_answers<T>(&self, read: impl FnOnce(&PreparedAnswers) -> T) -> T {
        read(&self.lock().answers)
    }

    /// Takes the prepared answer to a question of an execution (from 1), with its author. Returns `None` if there is none.
    pub fn take_answer(&self, address: &RequestAddress, execution: u32) -> Option<(Value, AnswerAuthor)> {
        match self.take_prepared_answer(address, execution) {
            PreparedAnswerLookup::Answer(answer, by) => Some((answer, by)),
            PreparedAnswerLookup::Exhausted | PreparedAnswerLookup::NotGiven => None,
        }
    }

    /// Marks the part at this position as running, until the guard is dropped. Parts are opened in the order of their list. `stopwatch`: of the execution
    /// that has the list.
    pub(crate) fn guard_open_part(&self, position: Vec<u32>, stopwatch: Stopwatch) -> OpenPartGuard {
        self.open_parts.guard_open_part(position, stopwatch)
    }

    /// Waits until the question may take the answer to the next question of its address. An answer for several parts
    /// belongs to the first part in the order of the list that asks, regardless of time.
    pub(crate) async fn wait_for_answer_order(&self, request: &PendingRequest, execution: &ExecutionInput) {
        // An exclusive call waits for the other calls of the execution, also those of later parts, and they for it. So a
        // question in a call must not wait for earlier parts, whose calls can be exclusive.
        let can_wait = !execution.origin.has_exclusive_tools;
        let waits = can_wait && self.lock().answers.is_next_for_parts(&request.address);
        if waits {
            self.open_parts
                .wait_until_earlier_parts_pass(&request.position, &execution.stopwatch)
                .await;
        }
    }

    /// Takes the prepared answer to a question of an execution (from 1), and marks it as used.
    pub(crate) fn take_prepared_answer(&self, address: &RequestAddress, execution: u32) -> PreparedAnswerLookup {
        let AnswerQueueState {
            answers,
            used_always,
            used_file,
        } = &mut *self.lock();
        if let Some(text) = answers.take_next_answer(address) {
            return PreparedAnswerLookup::Answer(Value::String(text), answers.author_for_source(AnswerSource::Option));
        }
        let always = answers.always.iter();
        let always = always.map(|(given, text)| (given.as_str(), (given, text)));
        if let Some((given, text)) = find_most_precise_match(always, address) {
            used_always.insert(given.clone());
            return PreparedAnswerLookup::Answer(
                Value::String(text.clone()),
                answers.author_for_source(AnswerSource::Option),
            );
        }
        match answers.find_file_value(address, execution) {
            None => PreparedAnswerLookup::NotGiven,
            Some(Some(answer)) => {
                used_file.extend(answers.find_file_position(address, execution));
                PreparedAnswerLookup::Answer(answer.clone(), answers.file_answer_author(address))
            }
            Some(None) => PreparedAnswerLookup::Exhausted,
        }
    }
}
