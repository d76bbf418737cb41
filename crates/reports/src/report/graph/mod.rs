//! An ensemble as a picture: agents as shapes by kind, and an arrow to each agent from each of its dependencies.
//!
//! The content is collected once ([`GraphPicture`]), and each format writes it. No format needs an installed program: code
//! hosting sites draw Mermaid, Graphviz draws DOT, every browser draws SVG, and plain text is read directly.

mod ascii;
mod dot;
mod layout;
mod mermaid;
mod overlay;
mod svg;

pub use ascii::render_ascii;
pub use dot::render_dot;
pub use mermaid::render_mermaid;
pub use svg::{GraphTooLargeError, SVG_STYLE, render_svg};

use super::format::format_count;

/// A picture of the agents and dependencies of an ensemble.
#[derive(Debug, Clone)]
pub struct GraphPicture {
    /// The name of the ensemble.
    pub title: String,
    /// The run, with its outcome.
    pub subtitle: Option<String>,
    /// The unit in which executions and starts are counted.
    pub count_unit: ExecutionCountUnit,
    /// The agents, in declaration order.
    pub nodes: Vec<PictureNode>,
    /// The dependencies.
    pub arrows: Vec<DependencyArrow>,
}

/// The unit in which a picture counts executions and starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionCountUnit {
    /// One run.
    #[default]
    Run,
    /// The cases of a test file.
    Cases,
}

/// An agent in a picture, with its texts and its data in a run.
#[derive(Debug, Clone)]
pub struct PictureNode {
    /// The name of the agent.
    pub name: String,
    /// The kind of the agent.
    pub shape: NodeShape,
    /// True if the agent runs once for each item of a list, so that its shape is drawn as a stack.
    pub is_stack: bool,
    /// Further lines: its list and its limits.
    pub notes: Vec<String>,
    /// The data of the agent in the shown run. `None` means that the picture shows no run.
    pub run_data: Option<NodeRunData>,
}

/// The kind of an agent. Each kind has a separate shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeShape {
    /// A rectangle.
    Script,
    /// A rounded one.
    Llm,
    /// A hexagon, or a rounded one: a program with a model of its own.
    External,
    /// A slanted one.
    Input,
    /// Wide at the bottom, or a plain one: a tool that is called without a model.
    Tool,
    /// One with double sides.
    Ensemble,
}

/// The state of an agent in the shown run, such as its executions or the reason why the agent did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRunData {
    /// The agent was executed.
    Ran {
        /// The number of executions.
        executions: usize,
        /// The number of failed executions.
        failed: usize,
        /// The number of parts that have ended, and how many of them failed.
        parts: (usize, usize),
    },
    /// An execution of the agent has started and has not ended.
    Unfinished {
        /// The activity of the agent.
        activity: NodeActivity,
        /// The number of executions that ended.
        executions: usize,
        /// The number of failed executions.
        failed: usize,
    },
    /// The agent was not executed.
    Idle {
        /// The reason; a run in progress has none yet.
        why: Option<String>,
    },
}

/// The activity of an agent with an open execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeActivity {
    /// The agent runs.
    Running,
    /// The agent waits for an answer or a permission.
    Waiting,
    /// The run stopped before the execution ended.
    Stopped,
}

impl NodeActivity {
    /// Returns the activity as text for users.
    fn describe(self) -> &'static str {
        match self {
            Self::Running => "runs now",
            Self::Waiting => "waits for an answer",
            Self::Stopped => "was stopped",
        }
    }
}

/// A dependency in a picture: `to` depends on `from`.
#[derive(Debug, Clone)]
pub struct DependencyArrow {
    /// The node that is depended on.
    pub from: usize,
    /// The node that has the dependency.
    pub to: usize,
    /// The result of executions that fulfils the dependency.
    pub ending: DependencyTrigger,
    /// The text of the condition.
    pub condition: Option<String>,
    /// The maximum number of times that the dependency starts the agent.
    pub most: Option<u32>,
    /// Not needed before the first execution: drawn dashed.
    pub feedback: bool,
    /// True if one of several such dependencies is enough, so that the head is drawn as a circle.
    pub any_of: bool,
    /// The number of times that the dependency started the agent. `None` means that the picture shows no run.
    pub start_count: Option<usize>,
}

/// The result of executions that triggers a dependency: success, failure or any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyTrigger {
    /// The execution succeeded.
    Success,
    /// The execution failed.
    Failure,
    /// Either result.
    Any,
}

impl NodeShape {
    /// Returns the name of the kind.
    fn kind_word(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Llm => "llm",
            Self::External => "acp",
            Self::Tool => "tool",
            Self::Input => "input",
            Self::Ensemble => "ensemble",
        }
    }
}

impl PictureNode {
    /// Returns the lines inside the shape.
    fn shape_text_lines(&self) -> impl Iterator<Item = String> {
        [&*self.name, self.shape.kind_word()]
            .into_iter()
            .chain(self.notes.iter().map(String::as_str))
            .map(str::to_owned)
            .chain(self.run_data.iter().map(NodeRunData::describe))
    }

    /// Returns whether the picture shows a run that did not execute the agent.
    fn is_unexecuted(&self) -> bool {
        matches!(self.run_data, Some(NodeRunData::Idle { .. }))
    }

    /// Returns the activity of the agent. Returns `None` if the agent has no open execution in the shown run.
    fn activity(&self) -> Option<NodeActivity> {
        match self.run_data {
            Some(NodeRunData::Unfinished { activity, .. }) => Some(activity),
            _ => None,
        }
    }

    /// Returns whether the agent failed in the shown run.
    fn has_failed(&self) -> bool {
        matches!(
            self.run_data,
            Some(NodeRunData::Ran { failed: 1.., .. } | NodeRunData::Unfinished { failed: 1.., .. })
        )
    }
}

impl NodeRunData {
    /// Describes the executions of the agent in the run.
    fn describe(&self) -> String {
        let failures = |failed: usize| match failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        match self {
            Self::Unfinished {
                activity,
                executions: 0,
                ..
            } => activity.describe().to_owned(),
            Self::Unfinished {
                activity,
                executions,
                failed,
            } => {
                let times = format_times(*executions);
                format!("{}; ran {times} before{}", activity.describe(), failures(*failed))
            }
            Self::Ran {
                executions,
                failed,
                parts,
            } => {
                let parts = match parts {
                    (0, _) => String::new(),
                    (ended, failed) => format!("; {}{}", format_count(*ended as u64, "part"), failures(*failed)),
                };
                format!("ran {}{}{parts}", format_times(*executions), failures(*failed))
            }
            Self::Idle { why: Some(why) } => format!("did not run: {why}"),
            Self::Idle { why: None } => "did not run".to_owned(),
        }
    }
}

impl DependencyArrow {
    /// Returns the lines next to the arrow.
    fn label_lines(&self) -> Vec<String> {
        let condition = self
            .condition
            .as_ref()
            .map(|condition| format!("if {}", condition.trim()));
        let before = self.ending.trigger_words().map(str::to_owned);
        let words = before.into_iter().chain(condition).chain(self.limit_label());
        words.chain(self.start_count_label()).collect()
    }

    /// Renders the limit of starts by the dependency.
    fn limit_label(&self) -> Option<String> {
        self.most.map(|most| format!("at most {}", format_times(most as usize)))
    }

    /// Renders the number of starts by the dependency, unless it is 0.
    fn start_count_label(&self) -> Option<String> {
        let started = self.start_count.filter(|started| *started > 0)?;
        Some(format!("started {}", format_times(started)))
    }

    /// Returns whether the picture shows a run in which the dependency started no agent.
    fn is_unused(&self) -> bool {
        self.start_count == Some(0)
    }
}

impl DependencyTrigger {
    /// Returns words for the trigger. Returns `None` for success.
    fn trigger_words(self) -> Option<&'static str> {
        match self {
            Self::Success => None,
            Self::Failure => Some("on failure"),
            Self::Any => Some("on success or failure"),
        }
    }
}

/// Formats a number of times: `once`, `2 times`.
fn format_times(count: usize) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}
