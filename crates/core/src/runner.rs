//! What performs an execution, as the executor sees it.
//!
//! A runner is handed all it may know, tells what it observed, and decides nothing about the conversation.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::conversation::Interruption;
use crate::stopwatch::Stopwatch;
use crate::thread::{Iteration, Thread};
use ensemble_language::data::{Context, Failure, FailureKind, JsonMap, Question, Remaining, Request, Usage};

/// A future on the heap, as traits that are used as objects return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Bytes of stderr that are kept of an execution, from its end.
pub const STDERR_KEPT: usize = 64 << 10;

/// Performs the executions of one agent.
pub trait Runner: Send + Sync {
    /// Performs one attempt. The caller enforces timeouts by dropping the future.
    fn execute(&self, execution: Execution) -> BoxFuture<'_, Observed>;
}

/// All that an execution may know.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The run.
    pub run_id: Arc<str>,
    /// The agent.
    pub agent_name: Arc<str>,
    /// Which execution of the agent, from 1.
    pub execution: u32,
    /// Which attempt of the execution, from 1.
    pub attempt: u32,
    /// Turns finished so far; the turn under way is one more.
    pub turn_count: u32,
    /// The run's input.
    pub input: Arc<str>,
    /// The context at the turn's start.
    pub context: Arc<Context>,
    /// The latest outputs of the agents it listens to, in declaration order; only those that have one.
    pub dependencies: Vec<(Arc<str>, Arc<Value>)>,
    /// The agent's `config`.
    pub parameters: Arc<JsonMap>,
    /// The request that started it, if one did.
    pub request: Option<Arc<Request>>,
    /// LLM: what the agent and its model said in earlier executions, oldest first; empty without memory.
    pub thread: Arc<Thread>,
    /// LLM: requests that the agent has made of its model before this attempt.
    pub requests_made: u64,
    /// So many attempts right before this one were cut short: what they left may be gone on with.
    pub lost_attempts: u32,
    /// LLM: what the run may still use.
    pub remaining: Remaining,
    /// Why the attempt before this one failed, for a model to be told.
    pub last_failure: Option<Failure>,
    /// Where the runner leaves what must not be lost when it is stopped.
    pub notes: Notes,
    /// The time of this attempt, which the attempt's time-out measures. Whoever asks a person makes it stand.
    pub stopwatch: Stopwatch,
}

impl Execution {
    /// The first attempt of that execution of an agent, with nothing to read.
    pub fn first(agent_name: impl Into<Arc<str>>, execution: u32) -> Self {
        Self {
            run_id: "run".into(),
            agent_name: agent_name.into(),
            execution,
            attempt: 1,
            turn_count: 0,
            input: "".into(),
            context: Arc::default(),
            dependencies: Vec::new(),
            parameters: Arc::default(),
            request: None,
            thread: Arc::default(),
            requests_made: 0,
            lost_attempts: 0,
            remaining: Remaining::default(),
            last_failure: None,
            notes: Notes::default(),
            stopwatch: Stopwatch::default(),
        }
    }
}

/// What a runner saw.
#[derive(Debug, Clone)]
pub enum Observed {
    /// The attempt ended.
    Finished(Observation),
    /// The execution ended so in a record, after all its attempts.
    Recorded(Observation),
    /// Likewise, and the result is taken over into another run.
    Reused(Observation),
    /// Nobody is there to answer; the run has to wait.
    NeedsInput(Question),
    /// The record that answers in its place was interrupted here.
    Interrupted(Interruption),
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The output, or why there is none.
    pub result: Result<JsonMap, Failure>,
    /// LLM: what it cost.
    pub usage: Option<Usage>,
    /// LLM: the iterations of this attempt; those of a success are added to the agent's thread.
    pub exchange: Vec<Iteration>,
}

/// What a runner leaves behind even when it is stopped.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Left>>);

/// What was left behind.
#[derive(Debug, Default, PartialEq)]
pub struct Left {
    /// The end of stderr.
    pub stderr: String,
    /// What the person who runs the ensemble should know.
    pub warnings: Vec<String>,
    /// LLM: what it has cost until then, for whoever gets no [`Observation`].
    pub usage: Option<Usage>,
}

impl Notes {
    /// Replaces the kept end of stderr.
    pub fn set_stderr(&self, text: String) {
        self.lock().stderr = text;
    }

    /// Adds to the kept end of stderr, of which no more is kept than of one script's.
    pub fn add_stderr(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let kept = &mut self.lock().stderr;
        if !kept.is_empty() && !kept.ends_with('\n') {
            kept.push('\n');
        }
        kept.push_str(text);
        let surplus = kept.ceil_char_boundary(kept.len().saturating_sub(STDERR_KEPT));
        kept.drain(..surplus);
    }

    /// Adds a warning for the person who runs the ensemble.
    pub fn warn(&self, warning: impl Into<String>) {
        self.lock().warnings.push(warning.into());
    }

    /// Adds to what it has cost.
    pub fn book(&self, usage: Usage) {
        let mut left = self.lock();
        left.usage = Some(left.usage.unwrap_or_default() + usage);
    }

    /// Takes what it has cost.
    pub fn take_usage(&self) -> Option<Usage> {
        self.lock().usage.take()
    }

    /// Takes all that is there.
    pub fn take(&self) -> Left {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Observed {
    /// The attempt succeeded with this output, at no cost.
    pub fn success(output: JsonMap) -> Self {
        Self::Finished(Observation {
            result: Ok(output),
            usage: None,
            exchange: Vec::new(),
        })
    }

    /// The attempt failed, at no cost.
    pub fn failure(kind: FailureKind, error: impl Into<String>) -> Self {
        Self::Finished(Observation {
            result: Err(Failure::new(kind, error)),
            usage: None,
            exchange: Vec::new(),
        })
    }
}
