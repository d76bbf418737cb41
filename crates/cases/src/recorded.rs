//! A recorded run as a fixture: what it was given, and what its executions came to.
//!
//! Invariant: a record that is not that of one whole conversation is refused.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, ExecutionEnd, Interruption, Record};
use ensemble_core::runner::{Observation, Observed};
use ensemble_language::data::{Context, Failure, JsonMap, Question, Usage};
use ensemble_runs::Runs;
use ensemble_runs::project::read_source;
use serde_json::Value;

/// An agent, and which of its executions.
type Executed = (Arc<str>, u32);

/// What an execution came to.
#[derive(Debug)]
struct Ended {
    result: Result<JsonMap, Failure>,
    usage: Option<Usage>,
}

/// What a record says.
#[derive(Debug)]
pub struct Recorded {
    /// The input of the run.
    pub input: Arc<str>,
    /// What the run was given by name.
    pub inputs: Context,
    /// Its context at the start.
    pub context: Context,
    /// The agents of each turn, in order.
    pub turns: Vec<Vec<Arc<str>>>,
    /// How it ended.
    pub outcome: CompletionReason,
    ended: HashMap<Executed, Ended>,
    questions: HashMap<Executed, Question>,
}

/// Reads a record: the folder or the journal of a run or an exported result, relative to `folder`, or the id of a run.
///
/// # Errors
/// There is no such record, or it cannot be used; in words.
pub async fn load(runs: &Runs, folder: &Path, from: &str) -> Result<Recorded, String> {
    let path = folder.join(from);
    if path.is_file() && path.extension().is_some_and(|end| end == "json") {
        let source = read_source(&path).map_err(|error| error.to_string())?;
        let result = serde_json::from_str(source.text()).map_err(|error| format!("it is no JSON: {error}"))?;
        return Recorded::of_result(&result);
    }
    let named = if path.exists() {
        path.display().to_string()
    } else {
        from.to_owned()
    };
    let run = runs.find(named.as_str()).await.map_err(|error| error.to_string())?;
    let journal = run.read_all().await.map_err(|error| error.to_string())?;
    Recorded::of(&journal.records)
}

fn once(outcome: Option<CompletionReason>) -> Result<CompletionReason, String> {
    match outcome {
        None => Err("the run has not ended".to_owned()),
        Some(CompletionReason::Cancelled) => Err("the run was cancelled".to_owned()),
        Some(CompletionReason::Timeout) => Err("the run was timed out".to_owned()),
        Some(outcome) => Ok(outcome),
    }
}

impl Recorded {
    /// What the records say.
    ///
    /// # Errors
    /// The records are not those of one conversation from an input to its end; in words.
    pub fn of(records: &[Record]) -> Result<Self, String> {
        let Some(Event::RunStarted(started)) = records.first().map(|record| &record.event) else {
            return Err("the record does not begin with the start of a run".to_owned());
        };
        let mut outcome = None;
        let mut turns = Vec::new();
        let mut ended = HashMap::new();
        let mut questions = HashMap::new();
        for record in records {
            match &record.event {
                Event::MessageAdded(_) => return Err("the run has several messages".to_owned()),
                Event::ContextSet(_) => return Err("the run is a fork with another context".to_owned()),
                Event::Interrupted(Interruption::Cancelled { .. }) => return Err("the run was cancelled".to_owned()),
                Event::TurnStarted(turn) => turns.push(turn.starts.iter().map(|start| start.agent.clone()).collect()),
                Event::ExecutionFinished(end) => {
                    let result = match &end.end {
                        ExecutionEnd::Succeeded(output) => Ok(output.as_object().cloned().unwrap_or_default()),
                        ExecutionEnd::Failed(failure) => Err(failure.clone()),
                    };
                    let usage = end.usage;
                    ended.insert((end.agent.clone(), end.execution), Ended { result, usage });
                }
                Event::InputRequested(asked) => {
                    questions.insert((asked.agent.clone(), asked.execution), asked.question.clone());
                }
                Event::RunEnded(ended) => outcome = Some(ended.completion_reason),
                _ => {}
            }
        }
        Ok(Self {
            input: started.input.clone(),
            inputs: started.inputs.clone(),
            context: started.context.clone(),
            outcome: once(outcome)?,
            turns,
            ended,
            questions,
        })
    }

    /// What an exported result says, as `runs export` and `run --output json` write it.
    ///
    /// # Errors
    /// It is no result of one conversation from an input to its end; in words.
    pub fn of_result(result: &Value) -> Result<Self, String> {
        fn part<T: serde::de::DeserializeOwned>(result: &Value, key: &str) -> Result<T, String> {
            let value = result.get(key).cloned().unwrap_or_default();
            serde_json::from_value(value).map_err(|_| format!("it is no exported result: `{key}` is missing or wrong"))
        }
        let outcome = once(part(result, "completion_reason")?)?;
        if outcome == CompletionReason::WaitingForInput {
            return Err("an exported result has no open questions; use the journal".to_owned());
        }
        if part::<Vec<Value>>(result, "messages")?.len() > 1 {
            return Err("the run has several messages".to_owned());
        }
        let mut turns: Vec<Vec<Arc<str>>> = Vec::new();
        let mut counts: HashMap<Arc<str>, u32> = HashMap::new();
        let mut ended = HashMap::new();
        for entry in part::<Vec<Value>>(result, "conversation_history")? {
            let agent: Arc<str> = part(&entry, "agent_name")?;
            let turn: usize = part(&entry, "turn_number")?;
            turns.resize_with(turns.len().max(turn), Vec::new);
            turns[turn.saturating_sub(1)].push(agent.clone());
            let count = counts.entry(agent.clone()).or_default();
            *count += 1;
            let result = match part(&entry, "success")? {
                true => Ok(part(&entry, "output_data")?),
                false => Err(part(&entry, "output_data")?),
            };
            let usage = part(&entry, "usage")?;
            ended.insert((agent, *count), Ended { result, usage });
        }
        Ok(Self {
            input: part(result, "input")?,
            inputs: part(result, "inputs")?,
            context: part(result, "initial_context")?,
            outcome,
            turns,
            ended,
            questions: HashMap::new(),
        })
    }

    /// What the execution came to; `None`: there is no such execution.
    pub(crate) fn observed(&self, agent: &Arc<str>, execution: u32) -> Option<Observed> {
        let executed = (agent.clone(), execution);
        let Some(ended) = self.ended.get(&executed) else {
            return self.questions.get(&executed).cloned().map(Observed::NeedsInput);
        };
        // The end of an execution after all its attempts: no other attempt follows.
        Some(Observed::Recorded(Observation {
            result: ended.result.clone(),
            usage: ended.usage,
            exchange: Vec::new(),
            parts: Vec::new(),
        }))
    }
}
