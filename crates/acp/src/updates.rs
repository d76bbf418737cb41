//! What a client is told of a run: records and live pieces as updates of its session.
//!
//! Invariant: it decides nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ensemble_core::conversation::{Event, ExecutionEnd, Record};
use ensemble_core::operator::escape_hidden_lines;
use ensemble_core::store::RunId;
use ensemble_core::thread::ToolEnd;
use ensemble_history::answer::{is_person, speaking_agents};
use ensemble_history::output_text;
use ensemble_language::ensemble::Ensemble;
use ensemble_runs::{LiveEvent, LiveEventKind};
use serde_json::Value;

/// An update of a session.
#[derive(Debug)]
pub(crate) enum SessionUpdate {
    User { id: String, text: String },
    AgentMessage { id: String, text: String },
    Thought { id: String, text: String },
    Plan(Vec<(String, ProgressStatus)>),
    Card(ProgressCard),
    Title(String),
    Usage { used: u64, most: u64 },
}

/// The progress of an agent or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressStatus {
    Pending,
    Running,
    Completed,
    Failed,
}

/// An execution, or a call of a tool in it.
#[derive(Debug)]
pub(crate) struct ProgressCard {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) is_new: bool,
    pub(crate) is_tool: bool,
    pub(crate) status: ProgressStatus,
    pub(crate) input: Option<Value>,
    pub(crate) output: Option<Value>,
    pub(crate) text: Option<String>,
}

/// The updates of a run that were sent until now.
pub(crate) struct SessionStory {
    run: RunId,
    agents: Vec<(String, ProgressStatus)>,
    /// The agents that speak for the ensemble.
    speakers: HashSet<Arc<str>>,
    /// The agents whose words are those of the user.
    people: HashSet<Arc<str>>,
    cards: HashSet<String>,
    /// The messages that were begun, by execution, with their number: one that did not count is begun again.
    message_numbers: HashMap<String, u32>,
    /// The execution whose text is told while it is written: messages do not mix.
    streamed_card: Option<String>,
    used_tokens: u64,
    max_tokens: Option<u64>,
    /// The messages of the user, and the texts of the ensemble itself.
    messages: u32,
    notes: u32,
    /// What a failure of each agent means for the run, as a sentence.
    failure_effects: HashMap<Arc<str>, &'static str>,
}

impl SessionStory {
    pub(crate) fn new(run: RunId, ensemble: &Ensemble) -> Self {
        let agents = ensemble.agents.iter();
        let names = agents.clone().map(|agent| &agent.name);
        Self {
            run,
            speakers: speaking_agents(ensemble).map(|agent| agent.name.clone()).collect(),
            people: agents
                .clone()
                .filter(|agent| is_person(agent))
                .map(|agent| agent.name.clone())
                .collect(),
            agents: names.map(|name| (name.to_string(), ProgressStatus::Pending)).collect(),
            cards: HashSet::new(),
            message_numbers: HashMap::new(),
            streamed_card: None,
            used_tokens: 0,
            max_tokens: ensemble.limits.max_total_tokens,
            messages: 0,
            notes: 0,
            failure_effects: agents
                .filter_map(|agent| Some((agent.name.clone(), ensemble.failure_effect(&agent.name).sentence()?)))
                .collect(),
        }
    }

    /// Returns the executions of the outermost run that go on.
    pub(crate) fn count_running(&self) -> usize {
        self.agents
            .iter()
            .filter(|(_, status)| *status == ProgressStatus::Running)
            .count()
    }

    /// Returns the id of the card of an execution.
    pub(crate) fn execution_card_id(run: &RunId, agent: &str, execution: u32) -> String {
        let inside: String = run.nested_names().map(|name| format!("{name}/")).collect();
        format!("{inside}{agent}#{execution}")
    }

    /// Returns the updates for a record; `with_messages`: also for those of the user.
    pub(crate) fn updates_for_record(
        &mut self,
        run: &RunId,
        record: &Record,
        with_messages: bool,
    ) -> Vec<SessionUpdate> {
        let is_outermost = *run == self.run;
        match &record.event {
            Event::RunStarted(started) if is_outermost => {
                let mut updates = self.user_message_updates(&started.input, with_messages);
                updates.push(SessionUpdate::Title(session_title(&started.input, &started.ensemble)));
                updates.push(SessionUpdate::Plan(self.agents.clone()));
                updates
            }
            Event::MessageAdded(added) if is_outermost => {
                self.agents
                    .iter_mut()
                    .for_each(|(_, status)| *status = ProgressStatus::Pending);
                let mut updates = self.user_message_updates(&added.text, with_messages);
                updates.push(SessionUpdate::Plan(self.agents.clone()));
                updates
            }
            Event::ExecutionStarted(started) => {
                let id = Self::execution_card_id(run, &started.agent, started.execution);
                let mut updates = vec![self.card_update(id, &started.agent, ProgressStatus::Running)];
                updates.extend(self.set_agent_status(is_outermost, &started.agent, ProgressStatus::Running));
                updates
            }
            Event::ToolCallEnded(ended) => {
                let (output, status) = match &ended.call.end {
                    Some(ToolEnd::Result(result)) => (Some(result.clone()), ProgressStatus::Completed),
                    Some(ToolEnd::Error(error)) => (Some(Value::from(error.as_str())), ProgressStatus::Failed),
                    None => (None, ProgressStatus::Failed),
                };
                let id = Self::tool_card_id(run, &ended.call.id);
                let text = output.as_ref().map(output_text);
                let arguments = ended.call.arguments.clone();
                vec![self.tool_card_update(id, &ended.call.name, status, arguments, output, text)]
            }
            Event::ReplyReceived(reply) => {
                let calls = reply.iteration.tool_calls.iter().filter(|call| call.end.is_none());
                let calls: Vec<_> = calls.cloned().collect();
                let pending = calls.into_iter().map(|call| {
                    let id = Self::tool_card_id(run, &call.id);
                    self.tool_card_update(id, &call.name, ProgressStatus::Running, call.arguments, None, None)
                });
                pending.collect()
            }
            Event::ExecutionFinished(finished) => {
                let id = Self::execution_card_id(run, &finished.agent, finished.execution);
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
                let mut updates = self.speaker_updates(is_outermost, &finished.agent, &id, status, &text);
                if with_messages
                    && is_outermost
                    && status == ProgressStatus::Completed
                    && self.people.contains(&finished.agent)
                {
                    updates.push(SessionUpdate::User {
                        id: format!("{id}!"),
                        text: text.clone(),
                    });
                }
                let mut card = self.new_card(id, &finished.agent, status);
                card.text = Some(text);
                card.output = output;
                updates.push(SessionUpdate::Card(card));
                updates.extend(self.set_agent_status(is_outermost, &finished.agent, status));
                updates.extend(self.add_tokens(finished.usage.as_ref().map(|u| u.input_tokens + u.output_tokens)));
                updates
            }
            Event::InputRequested(requested) if with_messages && is_outermost => {
                let id = Self::execution_card_id(run, &requested.agent, requested.execution);
                let text = escape_hidden_lines(&requested.question.prompt);
                vec![Self::question_update(&id, text)]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the updates for a live event.
    pub(crate) fn update_for_live_event(&mut self, run: &RunId, live: LiveEvent) -> Option<SessionUpdate> {
        if *run != self.run || !self.speakers.contains(&live.agent) {
            return None;
        }
        let id = Self::execution_card_id(run, &live.agent, live.execution);
        match live.kind {
            LiveEventKind::Text(text) => {
                let floor = self.streamed_card.get_or_insert_with(|| id.clone());
                if *floor != id {
                    return None;
                }
                let number = *self.message_numbers.entry(id.clone()).or_insert(1);
                // One that was not begun again has the id that it has when it is told from the record.
                let id = match number {
                    1 => id,
                    number => format!("{id}.{number}"),
                };
                Some(SessionUpdate::AgentMessage { id, text })
            }
            LiveEventKind::Reasoning(text) => Some(SessionUpdate::Thought {
                id: format!("{id}~"),
                text,
            }),
            LiveEventKind::ReplyRestarted => {
                // What follows is another message.
                if let Some(number) = self.message_numbers.get_mut(&id) {
                    *number += 1;
                }
                None
            }
            _ => None,
        }
    }

    /// Returns a text of the ensemble itself.
    pub(crate) fn note_update(&mut self, text: String) -> SessionUpdate {
        self.notes += 1;
        SessionUpdate::AgentMessage {
            id: format!("note-{}", self.notes),
            text,
        }
    }

    /// Returns the question of the execution with this card.
    pub(crate) fn question_update(card: &str, text: String) -> SessionUpdate {
        let id = format!("{card}?");
        SessionUpdate::AgentMessage { id, text }
    }

    fn user_message_updates(&mut self, text: &str, is_told: bool) -> Vec<SessionUpdate> {
        self.messages += 1;
        let id = format!("user-{}", self.messages);
        let text = text.to_owned();
        is_told
            .then_some(SessionUpdate::User { id, text })
            .into_iter()
            .collect()
    }

    /// Returns the words of a speaker, unless they were told while they were written.
    fn speaker_updates(
        &mut self,
        is_outermost: bool,
        agent: &str,
        id: &str,
        status: ProgressStatus,
        text: &str,
    ) -> Vec<SessionUpdate> {
        let was_told = self.message_numbers.remove(id).is_some();
        if self.streamed_card.as_deref() == Some(id) {
            self.streamed_card = None;
        }
        if was_told || status == ProgressStatus::Failed || !is_outermost || !self.speakers.contains(agent) {
            return Vec::new();
        }
        let text = text.to_owned();
        vec![SessionUpdate::AgentMessage {
            id: id.to_owned(),
            text,
        }]
    }

    fn set_agent_status(&mut self, is_outermost: bool, agent: &str, status: ProgressStatus) -> Option<SessionUpdate> {
        let entry = self.agents.iter_mut().find(|(name, _)| is_outermost && name == agent)?;
        entry.1 = status;
        Some(SessionUpdate::Plan(self.agents.clone()))
    }

    fn add_tokens(&mut self, tokens: Option<u64>) -> Option<SessionUpdate> {
        self.used_tokens += tokens?;
        let max_tokens = self.max_tokens?;
        Some(SessionUpdate::Usage {
            used: self.used_tokens,
            most: max_tokens,
        })
    }

    /// Returns the id of the card of a call.
    pub(crate) fn tool_card_id(run: &RunId, call: &str) -> String {
        let inside: String = run.nested_names().map(|name| format!("{name}/")).collect();
        format!("{inside}call:{call}")
    }

    fn card_update(&mut self, id: String, agent: &str, status: ProgressStatus) -> SessionUpdate {
        SessionUpdate::Card(self.new_card(id, agent, status))
    }

    fn new_card(&mut self, id: String, agent: &str, status: ProgressStatus) -> ProgressCard {
        ProgressCard {
            title: agent.to_owned(),
            is_new: self.cards.insert(id.clone()),
            id,
            is_tool: false,
            status,
            input: None,
            output: None,
            text: None,
        }
    }

    fn tool_card_update(
        &mut self,
        id: String,
        name: &str,
        status: ProgressStatus,
        input: Value,
        output: Option<Value>,
        text: Option<String>,
    ) -> SessionUpdate {
        SessionUpdate::Card(ProgressCard {
            is_tool: true,
            input: Some(input),
            output,
            text,
            ..self.new_card(id, name, status)
        })
    }
}

/// Returns the first line of a message, or the name of the ensemble.
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

    fn live(story: &mut SessionStory, agent: &str, piece: LiveEventKind) -> Option<String> {
        let piece = LiveEvent {
            agent: agent.into(),
            execution: 1,
            attempt: 1,
            kind: piece,
        };
        match story.update_for_live_event(&RunId::new("r"), piece)? {
            SessionUpdate::AgentMessage { id, text } => Some(format!("{id}: {text}")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_do_not_mix_and_one_that_is_begun_again_is_another() {
        let text = "name: two\nagents:\n  - {name: a, model: xai/m}\n  - {name: b, model: xai/m}\n";
        let loaded = load_ensemble(&SourceText::new("two.yaml", text));
        let mut story = SessionStory::new(RunId::new("r"), &loaded.ensemble.expect("an ensemble"));
        let mut say = |agent: &str, text: &str| live(&mut story, agent, LiveEventKind::Text(text.to_owned()));
        assert_eq!(say("a", "one").as_deref(), Some("a#1: one"));
        assert_eq!(say("b", "two"), None, "b is told when it has ended");
        assert_eq!(say("a", "three").as_deref(), Some("a#1: three"));
        assert_eq!(live(&mut story, "a", LiveEventKind::ReplyRestarted), None);
        let again = live(&mut story, "a", LiveEventKind::Text("anew".to_owned()));
        assert_eq!(again.as_deref(), Some("a#1.2: anew"));
    }
}
