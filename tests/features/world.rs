//! What a scenario has at hand: a folder of its own, and what the program did last.

use serde_json::Value;

use crate::support::server::Server;
use crate::support::{Outcome, Workspace};

/// One scenario's world.
#[derive(Debug, cucumber::World)]
#[world(init = Self::new)]
pub(crate) struct World {
    /// Its folder.
    pub workspace: Workspace,
    /// Variables that the program finds in its environment, beside the scrubbed ones.
    pub environment: Vec<(String, String)>,
    /// Model servers by their names; `{name}` in a file stands for the address.
    pub servers: Vec<(String, Server)>,
    /// What the program did last.
    pub outcome: Option<Outcome>,
    /// How long that took.
    pub took: std::time::Duration,
}

impl World {
    fn new() -> Self {
        Self {
            workspace: Workspace::new(),
            environment: Vec::new(),
            servers: Vec::new(),
            outcome: None,
            took: std::time::Duration::ZERO,
        }
    }

    /// What the program did last.
    #[track_caller]
    pub(crate) fn outcome(&self) -> &Outcome {
        self.outcome.as_ref().expect("a step runs the program before this one")
    }

    /// The result that it printed.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        self.outcome().json()
    }

    /// Both streams, for the messages of failing steps.
    #[track_caller]
    pub(crate) fn told(&self) -> String {
        let Outcome { code, stdout, stderr } = self.outcome();
        format!("exit code {code}\nstdout:\n{stdout}\nstderr:\n{stderr}")
    }

    /// The `n`-th history entry of the agent, from 1.
    #[track_caller]
    pub(crate) fn entry(&self, agent: &str, n: usize) -> Value {
        let result = self.result();
        let entries = result["conversation_history"].as_array().expect("a history").iter();
        let mut own = entries.filter(|entry| entry["agent_name"] == agent);
        own.nth(n - 1)
            .unwrap_or_else(|| panic!("{agent} has no execution {n}\n{}", self.told()))
            .clone()
    }
}

/// The value at `a.b.0.c`; keys that hold dots are not reached.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    })
}

/// JSON as a step writes it.
#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("the step's JSON: {text}: {error}"))
}
