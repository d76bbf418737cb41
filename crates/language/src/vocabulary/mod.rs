//! The tables of the language: keys, agent types, functions, filters and variables.
//!
//! Each word is one row of one table. The loader's messages, `defaults`, the JSON Schemas, completion and hover are derived
//! from the rows; tests compare the rows with the decoders and with the language reference. The table of functions is
//! in `condition::functions`, next to the implementations; the table of filters is in `template::typing::filters`.

mod agent_types;
mod foreign;
mod keys;
mod sections;
#[cfg(test)]
mod tests;
mod words;

pub use agent_types::{AgentType, CHOOSERS, chooses_type};
pub(crate) use foreign::{ForeignKey, Replacement};
pub use keys::Key;
pub use sections::Section;
pub(crate) use words::names;
pub use words::{TEMPLATE_VARIABLES, VARIABLES, Word};

/// Returns whether the key is the author's own (`x-…`). Some sections ignore such keys.
pub(crate) fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}
