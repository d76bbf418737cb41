//! The text that teaches a model the language.
//!
//! Invariant: each ensemble in it is valid and runs.

/// The text: Markdown with front matter, as skills of agents have it.
pub const SKILL_MARKDOWN: &str = include_str!("skill.md");
