//! The text that teaches the language of ensembles to a model.
//!
//! Invariant: each ensemble in the text is valid and runs.

/// The text of the skill: Markdown with front matter, in the format of agent skills.
pub const SKILL_MARKDOWN: &str = include_str!("skill.md");
