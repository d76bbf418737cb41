//! The providers: one file for each dialect, the client of all dialects, and the simulated provider.

pub(crate) mod address;
pub(crate) mod anthropic;
pub(crate) mod dialect;
pub(crate) mod failure;
pub(crate) mod gemini;
pub(crate) mod ollama;
pub(crate) mod openai;
pub(crate) mod remote;
pub(crate) mod simulated;
pub(crate) mod simulated_script;
