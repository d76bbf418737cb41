//! `ensemble` runs conversations between agents, described in YAML.
//!
//! The crates and what each is for are told in `docs/architecture.md`.

pub use ensemble_agents as agents;
pub use ensemble_core as core;
pub use ensemble_language as language;
pub use ensemble_runs as runs;
