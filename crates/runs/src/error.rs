//! The errors of the run layer, by kind. The front end words them for a command line.
//!
//! Invariant: an error names no option of a command line.

use std::path::PathBuf;

use ensemble_core::conversation::{IllegalRecord, RecordsMergeError};
use ensemble_core::log::CommitError;
use ensemble_core::request::AnswerRefusal;
use ensemble_core::store::{LogReadError, RunId, StoreError};
use ensemble_project::ProjectError;

use crate::inputs::InputError;

/// An error of the run layer.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The files of the project.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The store of runs.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log of a run cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// The event of a record may not follow the records before it.
    #[error("the journal is damaged: {0}")]
    Illegal(#[from] IllegalRecord),
    /// The log of a run cannot be written, so the run stopped.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A log does not begin with the start of a run.
    #[error("the journal does not begin with the start of a run")]
    NotBegun,
    /// An answer to a question or a permission request was not used.
    #[error(transparent)]
    Answer(#[from] AnswerRefusal),
    /// An answer is given for an agent that asks no questions.
    #[error("an answer is given for `{agent}`, which is not an input agent")]
    AnswerForNobody {
        /// The agent.
        agent: String,
        /// The input agents of the ensemble.
        inputs: Vec<String>,
    },
    /// A stub or a model is given for an agent that does not exist.
    #[error("there is no agent `{agent}`")]
    NoSuchAgent {
        /// The agent.
        agent: String,
        /// An agent that is spelled alike.
        similar: Option<String>,
        /// The agents, including those of nested ensembles.
        agents: Vec<String>,
    },
    /// A model answers for an agent that is neither an input agent nor a script agent.
    #[error("`{agent}` is neither an input agent nor a script agent, so no model can answer for it")]
    RespondsForNobody {
        /// The agent.
        agent: String,
        /// The input agents and script agents.
        possible: Vec<String>,
    },
    /// An agent has a stub, and a model or a generator answers for it.
    #[error("`{0}` has a stub, and a model or a generator answers for it too")]
    ReplacedTwice(String),
    /// In the run from which this one goes on, a generator of the program answered for an agent, and none is given.
    #[error("a generator answered for `{0}`, and this program has none for it")]
    NoGenerator(String),
    /// A tool is allowed or denied that is not there.
    #[error("there is no tool `{tool}`")]
    NoTool {
        /// The tool.
        tool: String,
        /// True for a denied tool, false for an allowed tool.
        is_denied: bool,
        /// A tool that is spelled alike.
        similar: Option<String>,
        /// The tools of the ensemble.
        tools: Vec<String>,
    },
    /// Inputs are missing or wrong.
    #[error("{}", crate::inputs::format_input_errors(.0))]
    Inputs(Vec<InputError>),
    /// An override of a model cannot be read.
    #[error("cannot override a model with `{given}`: {reason}")]
    Model {
        /// The override.
        given: String,
        /// The reason why the override is invalid.
        reason: String,
    },
    /// The cache of replies cannot be used.
    #[error("cannot use the cache {}: {source}", folder.display())]
    Cache {
        /// The folder of the cache.
        folder: PathBuf,
        /// True if the cache must contain all replies.
        only: bool,
        /// The reason why the cache cannot be used.
        source: std::io::Error,
    },
    /// An ensemble contains itself.
    #[error("the ensemble contains itself: {}", .0.join(" → "))]
    ContainsItself(Vec<String>),
    /// Ensembles contain ensembles too deeply.
    #[error("ensembles are nested more than {0} levels deep")]
    TooDeep(usize),
    /// Only a run that has ended can be continued.
    #[error("run {0} has not ended or waits for an answer; only an ended run can be continued")]
    NotEnded(RunId),
    /// A run that has ended cannot be resumed.
    #[error("run {0} has ended, so there is nothing to resume")]
    IsOver(RunId),
    /// A run that has ended cannot be resumed with another text.
    #[error("run {run} has ended, so there is nothing to resume")]
    HasEnded {
        /// The run.
        run: RunId,
        /// The file that was given.
        file: String,
        /// The last finished turn.
        turn: u32,
        /// The last failed execution: its agent, and the turn.
        failed: Option<(String, u32)>,
    },
    /// The run has not finished that turn.
    #[error("run {run} has no finished turn {turn}")]
    NoTurn {
        /// The run.
        run: RunId,
        /// The turn.
        turn: u32,
        /// The number of finished turns.
        finished: usize,
    },
    /// The agent did not run in that turn.
    #[error("{agent} did not run in turn {turn} of run {run}")]
    NoExecution {
        /// The run.
        run: String,
        /// The agent.
        agent: String,
        /// The turn.
        turn: u32,
        /// The turns in which the agent ran.
        ran_in: Vec<u32>,
        /// The agents that ran.
        agents: Vec<String>,
    },
    /// The execution has no part of that key.
    #[error("{agent} had no part `{key}` in run {run}")]
    NoPart {
        /// The run.
        run: String,
        /// The agent.
        agent: String,
        /// The key.
        key: String,
        /// The keys of its parts that have ended.
        keys: Vec<String>,
    },
    /// Two runs cannot be merged.
    #[error(transparent)]
    Merge(#[from] RunMergeError),
    /// The ensemble with which the run continues does not contain an agent that was executed.
    #[error("the ensemble has no agent `{agent}`, which ran before the end of turn {turn}")]
    AgentIsGone {
        /// The agent.
        agent: String,
        /// The last turn whose results are kept.
        turn: u32,
    },
    /// No agent has that name.
    #[error("there is no agent `{0}`")]
    NoAgent(String),
    /// A saved result does not hold the text of its ensemble.
    #[error("a saved result does not contain its ensemble")]
    NoEnsemble,
    /// A folder contains no run.
    #[error("{0} contains no journal.jsonl")]
    NotARun(String),
    /// The run is not waiting for that.
    #[error("{0}")]
    NotAsked(String),
    /// The run is closed and accepts no further input.
    #[error("the run is closed")]
    Closed,
    /// A durable execution engine did not hold the run.
    #[error("{0}")]
    Engine(String),
    /// The driver of the run has stopped without a result.
    #[error("the run stopped: {0}")]
    Stopped(String),
}

/// An error in merging two runs.
#[derive(Debug, thiserror::Error)]
pub enum RunMergeError {
    /// The run is named twice.
    #[error("`{0}` cannot be merged with itself")]
    SameRun(RunId),
    /// Another process executes the run.
    #[error("`{run}` is still running, in another process ({owner})")]
    Running {
        /// The run.
        run: RunId,
        /// The process, as the store knows it.
        owner: String,
    },
    /// The records cannot be merged.
    #[error(transparent)]
    Records(#[from] RecordsMergeError),
}

impl RunError {
    /// Returns advice for an ensemble that was not found: a similar name, or the searched folders.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Project(error) => error.advice(),
            _ => None,
        }
    }
}
