//! What a client is told of a run: records and live pieces as updates of its session.
//!
//! Invariant: it decides nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ensemble_core::conversation::{Event, ExecutionEnd, Record};
use ensemble_core::store::RunId;
use ensemble_core::thread::ToolEnd;
use ensemble_history::answer::{is_person, speakers};
use ensemble_history::output_text;
use ensemble_language::ensemble::Ensemble;
use ensemble_runs::{LivePiece, Piece};
use serde_json::Value;

/// An update of a session.
#[derive(Debug)]
pub(crate) enum Update {
    User { id: String, text: String },
    Said { id: String, text: String },
    Thought { id: String, text: String },
    Plan(Vec<(String, Status)>),
    Card(Card),
    Title(String),
    Usage { used: u64, most: u64 },
}

/// The progress of an agent or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Running,
    Completed,
    Failed,
}

/// An execution, or a call of a tool in it.
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) is_new: bool,
    pub(crate) is_tool: bool,
    pub(crate) status: Status,
    pub(crate) input: Option<Value>,
    pub(crate) output: Option<Value>,
    pub(crate) text: Option<String>,
}

/// The updates of a run that were sent until now.
pub(crate) struct Story {
    run: RunId,
    agents: Vec<(String, Status)>,
    /// The agents that speak for the ensemble.
    speakers: HashSet<Arc<str>>,
    /// The agents whose words are those of the user.
    people: HashSet<Arc<str>>,
    cards: HashSet<String>,
    /// The messages that were begun, by execution, with their number: one that did not count is begun again.
    begun: HashMap<String, u32>,
    /// The execution whose text is told while it is written: messages do not mix.
    floor: Option<String>,
    used: u64,
    most: Option<u64>,
    /// The messages of the user, and the texts of the ensemble itself.
    messages: u32,
    notes: u32,
}

impl Story {
    pub(crate) fn new(run: RunId, ensemble: &Ensemble) -> Self {
        let agents = ensemble.agents.iter();
        let names = agents.clone().map(|agent| &agent.name);
        Self {
            run,
            speakers: speakers(ensemble).map(|agent| agent.name.clone()).collect(),
            people: agents
                .filter(|agent| is_person(agent))
                .map(|agent| agent.name.clone())
                .collect(),
            agents: names.map(|name| (name.to_string(), Status::Pending)).collect(),
            cards: HashSet::new(),
            begun: HashMap::new(),
            floor: None,
            used: 0,
            most: ensemble.limits.max_total_tokens,
            messages: 0,
            notes: 0,
        }
    }

    /// The executions of the outermost run that go on.
    pub(crate) fn running(&self) -> usize {
        self.agents
            .iter()
            .filter(|(_, status)| *status == Status::Running)
            .count()
    }

    /// The id of the card of an execution.
    pub(crate) fn card_of(run: &RunId, agent: &str, execution: u32) -> String {
        let inside: String = run.path().map(|name| format!("{name}/")).collect();
        format!("{inside}{agent}#{execution}")
    }

    /// Returns the updates for a record; `with_messages`: also for those of the user.
    pub(crate) fn record(&mut self, run: &RunId, record: &Record, with_messages: bool) -> Vec<Update> {
        let is_outermost = *run == self.run;
        match &record.event {
            Event::RunStarted(started) if is_outermost => {
                let mut updates = self.heard(&started.input, with_messages);
                updates.push(Update::Title(title(&started.input, &started.ensemble)));
                updates.push(Update::Plan(self.agents.clone()));
                updates
            }
            Event::MessageAdded(added) if is_outermost => {
                self.agents.iter_mut().for_each(|(_, status)| *status = Status::Pending);
                let mut updates = self.heard(&added.text, with_messages);
                updates.push(Update::Plan(self.agents.clone()));
                updates
            }
            Event::ExecutionStarted(started) => {
                let id = Self::card_of(run, &started.agent, started.execution);
                let mut updates = vec![self.card(id, &started.agent, Status::Running)];
                updates.extend(self.at(is_outermost, &started.agent, Status::Running));
                updates
            }
            Event::ToolCallEnded(ended) => {
                let (output, status) = match &ended.call.end {
                    Some(ToolEnd::Result(result)) => (Some(result.clone()), Status::Completed),
                    Some(ToolEnd::Error(error)) => (Some(Value::from(error.as_str())), Status::Failed),
                    None => (None, Status::Failed),
                };
                let id = Self::tool_card(run, &ended.call.id);
                let text = output.as_ref().map(output_text);
                let arguments = ended.call.arguments.clone();
                vec![self.tool(id, &ended.call.name, status, arguments, output, text)]
            }
            Event::ReplyReceived(reply) => {
                let calls = reply.iteration.tool_calls.iter().filter(|call| call.end.is_none());
                let calls: Vec<_> = calls.cloned().collect();
                let pending = calls.into_iter().map(|call| {
                    let id = Self::tool_card(run, &call.id);
                    self.tool(id, &call.name, Status::Running, call.arguments, None, None)
                });
                pending.collect()
            }
            Event::ExecutionFinished(finished) => {
                let id = Self::card_of(run, &finished.agent, finished.execution);
                let (status, text, output) = match &finished.end {
                    ExecutionEnd::Succeeded(output) => {
                        (Status::Completed, output_text(output), Some(Value::clone(output)))
                    }
                    ExecutionEnd::Failed(failure) => (Status::Failed, failure.error.clone(), None),
                };
                let mut updates = self.spoken(is_outermost, &finished.agent, &id, status, &text);
                if with_messages && is_outermost && status == Status::Completed && self.people.contains(&finished.agent)
                {
                    updates.push(Update::User {
                        id: format!("{id}!"),
                        text: text.clone(),
                    });
                }
                let mut card = self.plain_card(id, &finished.agent, status);
                card.text = Some(text);
                card.output = output;
                updates.push(Update::Card(card));
                updates.extend(self.at(is_outermost, &finished.agent, status));
                updates.extend(self.spent(finished.usage.as_ref().map(|u| u.input_tokens + u.output_tokens)));
                updates
            }
            Event::InputRequested(requested) if with_messages && is_outermost => {
                let id = Self::card_of(run, &requested.agent, requested.execution);
                let text = requested.question.prompt.clone();
                vec![Self::question(&id, text)]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the updates for a live event.
    pub(crate) fn live(&mut self, run: &RunId, live: LivePiece) -> Option<Update> {
        if *run != self.run || !self.speakers.contains(&live.agent) {
            return None;
        }
        let id = Self::card_of(run, &live.agent, live.execution);
        match live.piece {
            Piece::Text(text) => {
                let floor = self.floor.get_or_insert_with(|| id.clone());
                if *floor != id {
                    return None;
                }
                let number = *self.begun.entry(id.clone()).or_insert(1);
                // One that was not begun again has the id that it has when it is told from the record.
                let id = match number {
                    1 => id,
                    number => format!("{id}.{number}"),
                };
                Some(Update::Said { id, text })
            }
            Piece::Reasoning(text) => Some(Update::Thought {
                id: format!("{id}~"),
                text,
            }),
            Piece::Restarted => {
                // What follows is another message.
                if let Some(number) = self.begun.get_mut(&id) {
                    *number += 1;
                }
                None
            }
            _ => None,
        }
    }

    /// A text of the ensemble itself.
    pub(crate) fn note(&mut self, text: String) -> Update {
        self.notes += 1;
        Update::Said {
            id: format!("note-{}", self.notes),
            text,
        }
    }

    /// The question of the execution with this card.
    pub(crate) fn question(card: &str, text: String) -> Update {
        let id = format!("{card}?");
        Update::Said { id, text }
    }

    fn heard(&mut self, text: &str, is_told: bool) -> Vec<Update> {
        self.messages += 1;
        let id = format!("user-{}", self.messages);
        let text = text.to_owned();
        is_told.then_some(Update::User { id, text }).into_iter().collect()
    }

    /// The words of a speaker, unless they were told while they were written.
    fn spoken(&mut self, is_outermost: bool, agent: &str, id: &str, status: Status, text: &str) -> Vec<Update> {
        let was_told = self.begun.remove(id).is_some();
        if self.floor.as_deref() == Some(id) {
            self.floor = None;
        }
        if was_told || status == Status::Failed || !is_outermost || !self.speakers.contains(agent) {
            return Vec::new();
        }
        let text = text.to_owned();
        vec![Update::Said {
            id: id.to_owned(),
            text,
        }]
    }

    fn at(&mut self, is_outermost: bool, agent: &str, status: Status) -> Option<Update> {
        let entry = self.agents.iter_mut().find(|(name, _)| is_outermost && name == agent)?;
        entry.1 = status;
        Some(Update::Plan(self.agents.clone()))
    }

    fn spent(&mut self, tokens: Option<u64>) -> Option<Update> {
        self.used += tokens?;
        let most = self.most?;
        Some(Update::Usage { used: self.used, most })
    }

    /// The id of the card of a call.
    pub(crate) fn tool_card(run: &RunId, call: &str) -> String {
        let inside: String = run.path().map(|name| format!("{name}/")).collect();
        format!("{inside}call:{call}")
    }

    fn card(&mut self, id: String, agent: &str, status: Status) -> Update {
        Update::Card(self.plain_card(id, agent, status))
    }

    fn plain_card(&mut self, id: String, agent: &str, status: Status) -> Card {
        Card {
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

    fn tool(
        &mut self,
        id: String,
        name: &str,
        status: Status,
        input: Value,
        output: Option<Value>,
        text: Option<String>,
    ) -> Update {
        Update::Card(Card {
            is_tool: true,
            input: Some(input),
            output,
            text,
            ..self.plain_card(id, name, status)
        })
    }
}

/// The first line of a message, or the name of the ensemble.
pub(crate) fn title(message: &str, ensemble: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    match line {
        "" => ensemble.to_owned(),
        line => line.chars().take(80).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_language::loader::load;
    use ensemble_language::source::Source;

    fn live(story: &mut Story, agent: &str, piece: Piece) -> Option<String> {
        let piece = LivePiece {
            agent: agent.into(),
            execution: 1,
            attempt: 1,
            piece,
        };
        match story.live(&RunId::new("r"), piece)? {
            Update::Said { id, text } => Some(format!("{id}: {text}")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_do_not_mix_and_one_that_is_begun_again_is_another() {
        let text = "name: two\nagents:\n  - {name: a, model: xai/m}\n  - {name: b, model: xai/m}\n";
        let loaded = load(&Source::new("two.yaml", text));
        let mut story = Story::new(RunId::new("r"), &loaded.ensemble.expect("an ensemble"));
        let mut say = |agent: &str, text: &str| live(&mut story, agent, Piece::Text(text.to_owned()));
        assert_eq!(say("a", "one").as_deref(), Some("a#1: one"));
        assert_eq!(say("b", "two"), None, "b is told when it has ended");
        assert_eq!(say("a", "three").as_deref(), Some("a#1: three"));
        assert_eq!(live(&mut story, "a", Piece::Restarted), None);
        let again = live(&mut story, "a", Piece::Text("anew".to_owned()));
        assert_eq!(again.as_deref(), Some("a#1.2: anew"));
    }
}
