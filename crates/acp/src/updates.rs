//! The updates of a session that a client receives: records and live events in the terms of the protocol.
//!
//! Invariant: it decides nothing. The updates of a record are computed here alone, for the live session and for the one that
//! is loaded, so both get the same messages with the same ids. A record is told once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::budget_use::SessionBudgetUse;
use crate::message_progress::MessageProgress;
use crate::prompt_failures::PromptFailures;
use crate::session_update::{MessageChunk, ProgressCard, ProgressStatus, SessionUpdate, UpdateSource};
use crate::shown_questions::{ShownQuestions, question_key};
use ensemble_core::conversation::{
    CompletionReason, Event, ExecutionEnd, ExecutionFinished, Record, ReplyReceived, RunEnded, ToolCallEnded,
};
use ensemble_core::operator::escape_hidden_lines;
use ensemble_core::request::{AnswerRecord, AnswerSource, PendingRequest, RequestAddress};
use ensemble_core::store::RunId;
use ensemble_core::thread::{MessageRole, ThreadIteration, ToolCallEnd};
use ensemble_history::answer::{is_input_agent, list_final_output_agents};
use ensemble_history::output_text;
use ensemble_language::ensemble::Ensemble;
use ensemble_runs::{LiveEvent, LiveEventKind};
use serde_json::Value;

/// A tracker that creates the updates of a session from records and live events, without sending a text twice.
pub(crate) struct SessionUpdateTracker {
    run: RunId,
    agents: Vec<(String, ProgressStatus)>,
    /// The agents whose outputs are final, and whose texts are sent as messages.
    speakers: HashSet<Arc<str>>,
    /// The input agents, whose outputs are texts of the user.
    people: HashSet<Arc<str>>,
    /// The number of the next record of each run that was not told.
    next_seqs: HashMap<RunId, u64>,
    questions: ShownQuestions,
    /// The innermost runs of recorded requests, by the addresses of the requests.
    asking_runs: HashMap<RequestAddress, RunId>,
    cards: HashSet<String>,
    /// The current messages, by the cards of their executions.
    messages_in_progress: HashMap<String, MessageProgress>,
    /// The execution whose text is streamed. Only one execution is streamed at a time, so that messages do not mix.
    streamed_card: Option<String>,
    /// The use of the budget.
    budget: SessionBudgetUse,
    failures: PromptFailures,
    /// The messages of the user, and the notes that no record contains.
    messages: u32,
    notes: u32,
    /// The effect of a failure of each agent on the run, as a sentence.
    failure_effects: HashMap<Arc<str>, &'static str>,
}

impl SessionUpdateTracker {
    /// Creates the tracker of a run, whose agents all have the status `pending`.
    pub(crate) fn new(run: RunId, ensemble: &Ensemble) -> Self {
        let agents = ensemble.agents.iter();
        let names = agents.clone().map(|agent| &agent.name);
        Self {
            run,
            speakers: list_final_output_agents(ensemble)
                .map(|agent| agent.name.clone())
                .collect(),
            people: agents
                .clone()
                .filter(|agent| is_input_agent(agent))
                .map(|agent| agent.name.clone())
                .collect(),
            agents: names.map(|name| (name.to_string(), ProgressStatus::Pending)).collect(),
            next_seqs: HashMap::new(),
            questions: ShownQuestions::default(),
            asking_runs: HashMap::new(),
            failures: PromptFailures::default(),
            cards: HashSet::new(),
            messages_in_progress: HashMap::new(),
            streamed_card: None,
            budget: SessionBudgetUse::new(&ensemble.limits),
            messages: 0,
            notes: 0,
            failure_effects: agents
                .filter_map(|agent| Some((agent.name.clone(), ensemble.failure_effect(&agent.name).sentence()?)))
                .collect(),
        }
    }

    /// Counts the running executions of the outermost run.
    pub(crate) fn count_running_agents(&self) -> usize {
        self.agents
            .iter()
            .filter(|(_, status)| *status == ProgressStatus::Running)
            .count()
    }

    /// Returns the number of the next record of the run that was not told.
    pub(crate) fn next_seq(&self, run: &RunId) -> u64 {
        self.next_seqs.get(run).copied().unwrap_or_default()
    }

    /// Creates the updates for a record. A record that was told before has none.
    pub(crate) fn updates_for_record(&mut self, run: &RunId, record: &Record) -> Vec<SessionUpdate> {
        if record.seq < self.next_seq(run) {
            return Vec::new();
        }
        self.next_seqs.insert(run.clone(), record.seq + 1);
        let is_outermost = *run == self.run;
        if is_outermost {
            self.budget.apply_record(record);
            self.failures.apply_event(&record.event);
        }
        match &record.event {
            Event::RunStarted(started) if is_outermost => {
                let mut updates = vec![self.prompt_update(&started.input)];
                updates.push(SessionUpdate::Title(session_title(&started.input, &started.ensemble)));
                updates.push(SessionUpdate::Plan(self.agents.clone()));
                updates
            }
            Event::MessageAdded(added) if is_outermost => {
                self.failures.start_prompt(self.budget.run_totals());
                self.agents
                    .iter_mut()
                    .for_each(|(_, status)| *status = ProgressStatus::Pending);
                vec![
                    self.prompt_update(&added.text),
                    SessionUpdate::Plan(self.agents.clone()),
                ]
            }
            Event::ExecutionStarted(started) => {
                let source = UpdateSource::new(run, &started.agent, started.execution);
                if let Some(message) = self.messages_in_progress.get_mut(&source.card_id()) {
                    // The attempt that wrote this message was cut short.
                    *message = message.restart_message();
                }
                let card = self.new_card(source.card_id(), &source, &started.agent, ProgressStatus::Running);
                let mut updates = vec![SessionUpdate::Card(card)];
                updates.extend(self.set_agent_status(is_outermost, &started.agent, ProgressStatus::Running));
                updates
            }
            Event::ToolCallEnded(ended) => {
                let answers = ended.call.answers.iter();
                let told = answers.flat_map(|answer| self.answer_updates(run, ended.within.execution, answer));
                let mut updates: Vec<SessionUpdate> = told.collect();
                updates.push(self.ended_call_update(run, ended));
                updates.extend(Self::failed_summary_update(run, ended));
                updates
            }
            Event::ReplyReceived(reply) => self.reply_updates(run, reply),
            Event::AttemptFailed(failed) => {
                let source = UpdateSource::new(run, &failed.agent, failed.execution);
                let iterations = failed.exchange.iter();
                iterations
                    .flat_map(|iteration| self.unsent_iteration_updates(&source, iteration))
                    .collect()
            }
            Event::RunEnded(ended) if is_outermost => self.run_end_updates(record.seq, ended),
            Event::ExecutionFinished(finished) => self.finished_execution_updates(run, finished),
            Event::InputRequested(requested) => {
                let address = requested.pending_request().address;
                let known = self.asking_runs.get(&address);
                let depth = |run: &RunId| run.nested_names().count();
                if known.is_none_or(|known| depth(known) <= depth(run)) {
                    self.asking_runs.insert(address, run.clone());
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Creates the last messages of a prompt: the limits that were reached, and what failed although the run succeeded.
    fn run_end_updates(&self, seq: u64, ended: &RunEnded) -> Vec<SessionUpdate> {
        let message = |kind: &str, text: String| {
            SessionUpdate::AgentMessage(MessageChunk {
                id: format!("{kind}-{seq}"),
                text,
                source: None,
            })
        };
        let mut updates = Vec::new();
        let is_limited = ended.is_success() && !ended.exhausted.is_empty();
        if is_limited || ended.completion_reason == CompletionReason::TokenBudget {
            updates.push(message("limit", ended.to_outcome_sentence().0));
        }
        if ended.is_success() {
            let agents = self.agents.iter().map(|(name, _)| name.as_str());
            let sentences = self.failures.list_sentences(&self.budget.run_totals(), agents);
            if !sentences.is_empty() {
                updates.push(message("failed", format!("\n\n{}", sentences.join(", "))));
            }
        }
        updates
    }

    /// Creates the messages of an answered question: the question, unless the client was shown it, and the answer.
    fn answer_updates(&mut self, run: &RunId, execution: u32, answer: &AnswerRecord) -> Vec<SessionUpdate> {
        let ids = self
            .questions
            .answer_question(&question_key(run, &answer.address, execution));
        let source = UpdateSource::new(run, &answer.address.asking_agent().into(), execution);
        let chunk = |id: String, text: String| MessageChunk {
            id,
            text,
            source: Some(source.clone()),
        };
        let is_prompt = ids.question.is_none() && answer.by.source == AnswerSource::Acp;
        let mut updates = Vec::new();
        if let Some(id) = ids.question {
            updates.push(SessionUpdate::AgentMessage(chunk(
                id,
                escape_hidden_lines(&answer.prompt),
            )));
        }
        let message = chunk(ids.answer, answer.answer.clone());
        updates.push(match is_prompt {
            true => SessionUpdate::Prompt(message),
            false => SessionUpdate::User(message),
        });
        updates
    }

    /// Creates a message if the result of a tool call was not summarized although it had to be.
    fn failed_summary_update(run: &RunId, ended: &ToolCallEnded) -> Option<SessionUpdate> {
        let summary = ended.call.summary.as_deref()?;
        let sentence = summary.failure_sentence(&ended.call.name)?;
        Some(SessionUpdate::AgentMessage(MessageChunk {
            id: format!("{}!", Self::tool_card_id(run, &ended.call.id)),
            text: format!("{}\n\n", escape_hidden_lines(&sentence)),
            source: None,
        }))
    }

    /// Creates the card of an ended tool call.
    fn ended_call_update(&mut self, run: &RunId, ended: &ToolCallEnded) -> SessionUpdate {
        let (output, status) = match &ended.call.end {
            Some(ToolCallEnd::Result(result)) => (Some(result.clone()), ProgressStatus::Completed),
            Some(ToolCallEnd::Error(error)) => (Some(Value::from(error.as_str())), ProgressStatus::Failed),
            None => (None, ProgressStatus::Failed),
        };
        let id = Self::tool_card_id(run, &ended.call.id);
        let text = output.as_ref().map(output_text);
        let source = UpdateSource::new(run, &ended.within.agent, ended.within.execution);
        SessionUpdate::Card(ProgressCard {
            is_tool: true,
            input: Some(ended.call.arguments.clone()),
            output,
            text,
            ..self.new_card(id, &source, &ended.call.name, status)
        })
    }

    /// Creates the message of a reply, and the cards of its tool calls.
    fn reply_updates(&mut self, run: &RunId, reply: &ReplyReceived) -> Vec<SessionUpdate> {
        let within = &reply.within;
        let source = UpdateSource::new(run, &within.agent, within.execution);
        let mut updates = match within.is_execution() {
            true => self.unsent_iteration_updates(&source, &reply.iteration),
            false => Vec::new(),
        };
        for call in reply.iteration.tool_calls.iter().filter(|call| call.end.is_none()) {
            let id = Self::tool_card_id(run, &call.id);
            updates.push(SessionUpdate::Card(ProgressCard {
                is_tool: true,
                input: Some(call.arguments.clone()),
                ..self.new_card(id, &source, &call.name, ProgressStatus::Running)
            }));
        }
        updates
    }

    /// Creates the last message, the card and the usage of a finished execution.
    fn finished_execution_updates(&mut self, run: &RunId, finished: &ExecutionFinished) -> Vec<SessionUpdate> {
        let is_outermost = *run == self.run;
        let source = UpdateSource::new(run, &finished.agent, finished.execution);
        let id = source.card_id();
        let (status, text, output) = match &finished.end {
            ExecutionEnd::Succeeded(output) => (
                ProgressStatus::Completed,
                output_text(output),
                Some(Value::clone(output)),
            ),
            ExecutionEnd::Failed(failure) => {
                let effect = self.failure_effects.get(&finished.agent).filter(|_| is_outermost);
                let effect = effect.map_or_else(String::new, |effect| format!("\n{effect}"));
                (ProgressStatus::Failed, format!("{}{effect}", failure.error), None)
            }
        };
        let mut updates = self.last_message_updates(&source, status, &text, &finished.exchange);
        if let Some(answer) = &finished.answer {
            updates.extend(self.answer_updates(run, finished.execution, answer));
        } else if is_outermost && status == ProgressStatus::Completed && self.people.contains(&finished.agent) {
            updates.push(SessionUpdate::User(MessageChunk {
                id: format!("{id}!"),
                text: text.clone(),
                source: Some(source.clone()),
            }));
        }
        let mut card = self.new_card(id, &source, &finished.agent, status);
        card.text = Some(text);
        card.output = output;
        updates.push(SessionUpdate::Card(card));
        updates.extend(self.set_agent_status(is_outermost, &finished.agent, status));
        if is_outermost && finished.usage.is_some() {
            updates.extend(self.budget.budget_update().map(SessionUpdate::Usage));
        }
        updates
    }

    /// Creates the update for a live event. Returns `None` if the client does not see it.
    pub(crate) fn update_for_live_event(&mut self, run: &RunId, live: LiveEvent) -> Option<SessionUpdate> {
        if *run != self.run || !self.speakers.contains(&live.agent) {
            return None;
        }
        let source = UpdateSource::new(run, &live.agent, live.execution);
        let card = source.card_id();
        match live.kind {
            LiveEventKind::Text(text) => {
                let is_streamed = *self.streamed_card.get_or_insert_with(|| card.clone()) == card;
                let message = self.messages_in_progress.entry(card.clone()).or_default();
                message.is_withheld |= !is_streamed;
                if message.is_withheld {
                    return None;
                }
                message.has_text = true;
                Some(SessionUpdate::AgentMessage(MessageChunk {
                    id: message.message_id(&card),
                    text,
                    source: Some(source),
                }))
            }
            LiveEventKind::Reasoning(text) => {
                let message = self.messages_in_progress.entry(card.clone()).or_default();
                message.has_thought = true;
                Some(SessionUpdate::Thought(MessageChunk {
                    id: format!("{}~", message.message_id(&card)),
                    text,
                    source: Some(source),
                }))
            }
            LiveEventKind::ReplyRestarted => {
                if let Some(message) = self.messages_in_progress.get_mut(&card) {
                    *message = message.restart_message();
                }
                None
            }
            _ => None,
        }
    }

    /// Creates messages for reasoning and text of an iteration that were not streamed. The next iteration starts a new message.
    fn unsent_iteration_updates(&mut self, source: &UpdateSource, iteration: &ThreadIteration) -> Vec<SessionUpdate> {
        let replies = iteration
            .messages
            .iter()
            .filter(|message| message.role == MessageRole::Assistant);
        let text: String = replies.clone().map(|message| message.content.as_str()).collect();
        let thoughts = replies.filter_map(|message| message.reasoning.as_ref());
        let thought: String = thoughts.map(|reasoning| reasoning.text.as_str()).collect();
        self.unsent_message_updates(source, &text, &thought)
    }

    /// Creates the last message of an execution, unless it was streamed.
    fn last_message_updates(
        &mut self,
        source: &UpdateSource,
        status: ProgressStatus,
        text: &str,
        exchange: &[ThreadIteration],
    ) -> Vec<SessionUpdate> {
        let mut updates = Vec::new();
        let last = match status {
            ProgressStatus::Failed => exchange.len(),
            _ => exchange.len().saturating_sub(1),
        };
        for iteration in &exchange[..last] {
            updates.extend(self.unsent_iteration_updates(source, iteration));
        }
        if status != ProgressStatus::Failed {
            let replies = exchange[last..].iter().flat_map(|iteration| &iteration.messages);
            let thoughts = replies.filter_map(|message| message.reasoning.as_ref());
            let thought: String = thoughts.map(|reasoning| reasoning.text.as_str()).collect();
            let message = self.messages_in_progress.get(&source.card_id());
            // The output is the text of a message that was sent before the last call.
            let is_sent = exchange.is_empty() && message.is_some_and(|message| message.number > 1);
            updates.extend(self.unsent_message_updates(source, if is_sent { "" } else { text }, &thought));
        }
        let card = source.card_id();
        self.messages_in_progress.remove(&card);
        if self.streamed_card.as_deref() == Some(card.as_str()) {
            self.streamed_card = None;
        }
        updates
    }

    /// Creates messages for the parts of the current message that were not streamed, if the outputs of the agent are final.
    fn unsent_message_updates(&mut self, source: &UpdateSource, text: &str, thought: &str) -> Vec<SessionUpdate> {
        if !source.nested.is_empty() || !self.speakers.contains(&source.agent) {
            return Vec::new();
        }
        let card = source.card_id();
        let message = self.messages_in_progress.entry(card.clone()).or_default();
        let current = *message;
        if !text.trim().is_empty() || !thought.trim().is_empty() {
            *message = message.next();
        }
        let chunk = |id: String, text: &str| MessageChunk {
            id,
            text: text.to_owned(),
            source: Some(source.clone()),
        };
        let id = current.message_id(&card);
        let mut updates = Vec::new();
        if !current.has_thought && !thought.trim().is_empty() {
            updates.push(SessionUpdate::Thought(chunk(format!("{id}~"), thought)));
        }
        if !current.has_text && !text.trim().is_empty() {
            updates.push(SessionUpdate::AgentMessage(chunk(id, text)));
        }
        updates
    }

    /// Creates a note that no record contains, and that a load therefore does not send again.
    pub(crate) fn unrecorded_note_update(&mut self, text: String) -> SessionUpdate {
        self.notes += 1;
        let seq = self.next_seq(&self.run);
        SessionUpdate::AgentMessage(MessageChunk {
            id: format!("note-{seq}.{}", self.notes),
            text,
            source: None,
        })
    }

    /// Creates a message with a question of this run, and marks the question as shown.
    pub(crate) fn question_update(&mut self, run: &RunId, request: &PendingRequest, text: String) -> SessionUpdate {
        let key = question_key(run, &request.address, request.execution);
        SessionUpdate::AgentMessage(MessageChunk {
            id: self.questions.show_question(&key),
            text,
            source: Some(UpdateSource::new(run, &request.agent, request.execution)),
        })
    }

    /// Creates a message with a question that is recorded and not answered, and marks the question as shown.
    pub(crate) fn recorded_question_update(&mut self, request: &PendingRequest) -> SessionUpdate {
        let run = self.asking_runs.get(&request.address).unwrap_or(&self.run).clone();
        self.question_update(&run, request, escape_hidden_lines(&request.question.prompt))
    }

    /// Counts a message of the user, and creates its update.
    fn prompt_update(&mut self, text: &str) -> SessionUpdate {
        self.messages += 1;
        SessionUpdate::Prompt(MessageChunk {
            id: format!("user-{}", self.messages),
            text: text.to_owned(),
            source: None,
        })
    }

    /// Sets the status of an agent of the outermost run, and creates the update of the plan.
    fn set_agent_status(&mut self, is_outermost: bool, agent: &str, status: ProgressStatus) -> Option<SessionUpdate> {
        let entry = self.agents.iter_mut().find(|(name, _)| is_outermost && name == agent)?;
        entry.1 = status;
        Some(SessionUpdate::Plan(self.agents.clone()))
    }

    /// Returns the id of the card of a tool call.
    pub(crate) fn tool_card_id(run: &RunId, call: &str) -> String {
        let inside: String = run.nested_names().map(|name| format!("{name}/")).collect();
        format!("{inside}call:{call}")
    }

    /// Creates a card, which is new if its id was not sent before.
    fn new_card(&mut self, id: String, source: &UpdateSource, title: &str, status: ProgressStatus) -> ProgressCard {
        ProgressCard {
            title: title.to_owned(),
            source: source.clone(),
            is_new: self.cards.insert(id.clone()),
            id,
            is_tool: false,
            status,
            input: None,
            output: None,
            text: None,
        }
    }
}

/// Returns the first line of the message, or the name of the ensemble.
pub(crate) fn session_title(message: &str, ensemble: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    match line {
        "" => ensemble.to_owned(),
        line => line.chars().take(80).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_language::loader::load_ensemble;
    use ensemble_language::source::SourceText;

    fn live(story: &mut SessionUpdateTracker, agent: &str, piece: LiveEventKind) -> Option<String> {
        let piece = LiveEvent {
            agent: agent.into(),
            execution: 1,
            attempt: 1,
            kind: piece,
        };
        match story.update_for_live_event(&RunId::new("r"), piece)? {
            SessionUpdate::AgentMessage(chunk) => Some(format!("{}: {}", chunk.id, chunk.text)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_do_not_mix_and_one_that_is_begun_again_is_another() {
        let text = "name: two\nagents:\n  - {name: a, model: xai/m}\n  - {name: b, model: xai/m}\n";
        let loaded = load_ensemble(&SourceText::new("two.yaml", text));
        let mut story = SessionUpdateTracker::new(RunId::new("r"), &loaded.ensemble.expect("an ensemble"));
        let mut say = |agent: &str, text: &str| live(&mut story, agent, LiveEventKind::Text(text.to_owned()));
        assert_eq!(say("a", "one").as_deref(), Some("a#1: one"));
        assert_eq!(say("b", "two"), None, "b is told when it has ended");
        assert_eq!(say("a", "three").as_deref(), Some("a#1: three"));
        assert_eq!(live(&mut story, "a", LiveEventKind::ReplyRestarted), None);
        let again = live(&mut story, "a", LiveEventKind::Text("anew".to_owned()));
        assert_eq!(again.as_deref(), Some("a#1.2: anew"));
        story.streamed_card = None;
        let rest = live(&mut story, "b", LiveEventKind::Text("rest".to_owned()));
        assert_eq!(rest, None, "a message without its beginning is not sent in pieces");
    }
}
