//! The text that teaches a model the language.
//!
//! Invariant: each ensemble in it is valid and runs.

/// The text of the skill: Markdown with front matter, in the format of agent skills.
pub const SKILL_MARKDOWN: &str = include_str!("skill.md");
