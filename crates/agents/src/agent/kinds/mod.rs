//! One runner for each kind of agent: scripts, models, questions to people, nested ensembles.

pub mod generator;
pub mod generator_runner;
pub mod input;
pub mod llm;
pub mod nested_ensemble;
pub mod nested_inputs;
pub mod prompt_preview;
mod question_cache;
pub mod rhai_script;
pub(crate) mod scope;
pub mod script;
pub(crate) mod script_templates;
pub mod tool_call;
pub(crate) mod value_templates;
