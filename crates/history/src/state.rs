//! The state of a run, in the words of all front ends.

use std::fmt;

use ensemble_core::conversation::CompletionReason;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The process that drives a run, or no process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverProcess {
    /// The process with this id.
    Process(u32),
    /// No process.
    NoProcess,
}

impl DriverProcess {
    /// Returns the id of the process. Returns `None` if no process drives the run.
    pub fn process_id(self) -> Option<u32> {
        match self {
            Self::Process(process) => Some(process),
            Self::NoProcess => None,
        }
    }
}

impl From<Option<u32>> for DriverProcess {
    fn from(process: Option<u32>) -> Self {
        process.map_or(Self::NoProcess, Self::Process)
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// A process drives the run.
    Running,
    /// The run waits for an answer or a permission, whether a process drives it or not.
    Waiting,
    /// No process drives the run, and the run has not ended.
    Interrupted,
    /// The run has ended with this outcome, which is not [`CompletionReason::WaitingForInput`].
    Ended(CompletionReason),
}

impl RunState {
    /// Returns the state as a word for users and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Ended(outcome) => outcome.as_str(),
        }
    }

    /// Lists the words of all states, without duplicates.
    pub fn list_state_names() -> impl Iterator<Item = &'static str> {
        let outcomes = CompletionReason::ALL
            .into_iter()
            .filter(|outcome| *outcome != CompletionReason::WaitingForInput);
        let open = [Self::Running, Self::Waiting, Self::Interrupted];
        open.into_iter().chain(outcomes.map(Self::Ended)).map(Self::as_str)
    }

    /// Returns whether `resume` can continue the run.
    pub fn is_resumable(self) -> bool {
        match self {
            Self::Running => false,
            Self::Waiting | Self::Interrupted => true,
            Self::Ended(outcome) => outcome.is_resumable(),
        }
    }

    /// Returns whether the run has ended.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RunState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for RunState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let open = [Self::Running, Self::Waiting, Self::Interrupted];
        let mut states = open.into_iter().chain(CompletionReason::ALL.map(Self::Ended));
        let state = states.find(|state| state.as_str() == word);
        state.ok_or_else(|| serde::de::Error::custom(format!("`{word}` is not a state of a run")))
    }
}
