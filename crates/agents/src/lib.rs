//! What performs executions: scripts, language models with their tools, people.

pub mod agent;
pub mod model;
pub mod sandbox;
