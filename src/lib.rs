//! `ensemble` runs conversations between agents, described in YAML.
//!
//! The crates and what each is for are told in `docs/architecture.md`.

pub use ensemble_agents as agents;
pub use ensemble_core as core;
pub use ensemble_language as language;
pub use ensemble_runs as runs;

/// Dialogues with one language model: streams of what is said, answers with types, tools from functions, threads that are
/// saved and continued.
///
/// `docs/library.md` shows each of them.
///
/// ```
/// use ensemble::dialogue::{Dialogue, Thread};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // `Dialogue::with_model("ollama/llama3.2:1b")?` asks a real model.
/// let dialogue = Dialogue::simulated(["Sunny.", "Rain."]);
/// let today = dialogue.say(Thread::default(), "Paris today?").await?;
/// let tomorrow = dialogue.say(today.thread, "And tomorrow?").await?;
/// assert_eq!(tomorrow.text, "Rain.");
/// # Ok(())
/// # }
/// ```
pub mod dialogue {
    #[cfg(feature = "typed")]
    pub use ensemble_agents::agent::dialogue::Answer;
    pub use ensemble_agents::agent::dialogue::{
        Calls, Cause, ContextWindow, Dialogue, DialogueError, DialogueStream, Ended, Message, Piece, Profile, Reply,
        Role, Step, StopReason, Strategy, Thread, ThreadError, ToolCall, ToolEnd, ToolError, ToolSpec, Tools, Usage,
        Window,
    };
    pub use ensemble_agents::model::{Model, Network, ProfileError};
}

/// The examples of the documents, which are compiled and run.
#[cfg(all(doctest, feature = "typed"))]
mod documents {
    #[doc = include_str!("../docs/library.md")]
    mod library {}
}
