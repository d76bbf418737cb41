//! Ensembles of llm-orc, converted.

pub mod import;
