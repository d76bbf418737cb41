//! An ensemble as a picture: agents as shapes by their kind, and an arrow to each agent from whom it listens to.
//!
//! What is drawn is gathered once ([`Picture`]); each form only spells it. No form needs a program that is
//! installed: Mermaid is drawn by the forges, DOT by Graphviz, SVG by every browser, and the plain text is read as it is.

mod ascii;
mod dot;
mod layout;
mod mermaid;
mod svg;

pub use ascii::ascii;
pub use dot::dot;
pub use mermaid::mermaid;
pub use svg::svg;

/// What is drawn.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The ensemble's name.
    pub title: String,
    /// The run that is shown, and how it ended.
    pub subtitle: Option<String>,
    /// The agents, in declaration order.
    pub nodes: Vec<Node>,
    /// Who listens to whom.
    pub arrows: Vec<Arrow>,
}

/// An agent.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// What else is worth a line: its limits.
    pub notes: Vec<String>,
    /// What became of it; `None`: no run is shown.
    pub fate: Option<Fate>,
}

/// The kinds of agent, each with a shape of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A rectangle.
    Script,
    /// A rounded one.
    Llm,
    /// A slanted one.
    Input,
    /// One with double sides.
    Ensemble,
}

/// What became of an agent in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It had a part in it.
    Ran {
        /// How often.
        executions: usize,
        /// How often in vain.
        failed: usize,
    },
    /// It had none.
    Idle {
        /// Why not; a run that goes on has not said so yet.
        why: Option<String>,
    },
}

/// `to` listens to `from`.
#[derive(Debug, Clone)]
pub struct Arrow {
    /// The node that is listened to.
    pub from: usize,
    /// The node that listens.
    pub to: usize,
    /// Which end of the other's executions it is about.
    pub ending: Ending,
    /// The condition, as written.
    pub condition: Option<String>,
    /// How often it may start the agent.
    pub most: Option<u32>,
    /// Not needed before the first execution: drawn dashed.
    pub feedback: bool,
    /// One of several of which one is enough: drawn with a ring for a head.
    pub any_of: bool,
    /// How often it started the agent; `None`: no run is shown.
    pub started: Option<usize>,
}

/// Which end of an execution an arrow is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It succeeded.
    Success,
    /// It failed.
    Failure,
    /// Either.
    Any,
}

impl Shape {
    /// The word for the kind.
    fn word(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Llm => "llm",
            Self::Input => "input",
            Self::Ensemble => "ensemble",
        }
    }
}

impl Node {
    /// The lines inside the shape.
    fn lines(&self) -> impl Iterator<Item = String> {
        [&*self.name, self.shape.word()]
            .into_iter()
            .chain(self.notes.iter().map(String::as_str))
            .map(str::to_owned)
            .chain(self.fate.iter().map(Fate::words))
    }

    /// A run is shown, and the agent had no part in it.
    fn is_idle(&self) -> bool {
        matches!(self.fate, Some(Fate::Idle { .. }))
    }

    /// A run is shown in which the agent failed.
    fn has_failed(&self) -> bool {
        matches!(self.fate, Some(Fate::Ran { failed: 1.., .. }))
    }
}

impl Fate {
    fn words(&self) -> String {
        match self {
            Self::Ran { executions, failed: 0 } => format!("ran {}", times(*executions)),
            Self::Ran { executions, failed } => format!("ran {}, {failed} failed", times(*executions)),
            Self::Idle { why: Some(why) } => format!("did not run: {why}"),
            Self::Idle { why: None } => "did not run".to_owned(),
        }
    }
}

impl Arrow {
    /// The lines beside the arrow.
    fn labels(&self) -> Vec<String> {
        let condition = self
            .condition
            .as_ref()
            .map(|condition| format!("if {}", condition.trim()));
        let before = self.ending.words().map(str::to_owned);
        let words = before.into_iter().chain(condition).chain(self.limit());
        words.chain(self.story()).collect()
    }

    /// How often it may start the agent.
    fn limit(&self) -> Option<String> {
        self.most.map(|most| format!("at most {}", times(most as usize)))
    }

    /// How often it did.
    fn story(&self) -> Option<String> {
        let started = self.started.filter(|started| *started > 0)?;
        Some(format!("started {}", times(started)))
    }

    /// A run is shown in which it started nobody.
    fn is_idle(&self) -> bool {
        self.started == Some(0)
    }
}

impl Ending {
    fn words(self) -> Option<&'static str> {
        match self {
            Self::Success => None,
            Self::Failure => Some("on failure"),
            Self::Any => Some("on success or failure"),
        }
    }
}

fn times(count: usize) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}
