//! An ensemble as a picture: agents as shapes by their kind, and an arrow to each agent from whom it listens to.
//!
//! What is drawn is gathered once ([`Picture`]); each form only spells it. No form needs a program that is
//! installed: Mermaid is drawn by the forges, DOT by Graphviz, and the plain text is read as it is.

mod ascii;
mod dot;
mod mermaid;

pub use ascii::ascii;
pub use dot::dot;
pub use mermaid::mermaid;

/// What is drawn.
#[derive(Debug)]
pub struct Picture {
    /// The ensemble's name.
    pub title: String,
    /// The agents, in declaration order.
    pub nodes: Vec<Node>,
    /// Who listens to whom.
    pub arrows: Vec<Arrow>,
}

/// An agent.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// What else is worth a line: limits, what became of it in a run.
    pub notes: Vec<String>,
    /// A run is shown, and the agent had no part in it.
    pub idle: bool,
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

/// `to` listens to `from`.
#[derive(Debug)]
pub struct Arrow {
    /// The node that is listened to.
    pub from: usize,
    /// The node that listens.
    pub to: usize,
    /// What the edge is about: its condition, its ending, its limit.
    pub labels: Vec<String>,
    /// Not needed before the first execution: drawn dashed.
    pub feedback: bool,
    /// One of several of which one is enough: drawn with a ring for a head.
    pub any_of: bool,
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
    fn lines(&self) -> impl Iterator<Item = &str> {
        [self.name.as_str(), self.shape.word()]
            .into_iter()
            .chain(self.notes.iter().map(String::as_str))
    }
}
