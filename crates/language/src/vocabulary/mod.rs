//! The tables of the language: keys, agent types, functions, filters and variables.
//!
//! Each word is one row of one table. The loader's messages, `defaults`, the JSON Schemas, completion and hover are derived
//! from the rows; tests compare the rows with the decoders and with the language reference. The table of functions is
//! in `condition::functions`, next to the implementations; the table of filters is in `template::typing::filters`.

mod agent_types;
mod foreign_keys;
mod key_synonyms;
mod keys;
mod sections;
#[cfg(test)]
mod tests;
mod words;

pub use agent_types::{AgentType, TYPE_CHOOSING_KEYS, chooses_agent_type};
pub(crate) use foreign_keys::{KeyReplacement, LlmOrcKey};
pub(crate) use key_synonyms::KeySynonym;
pub use keys::SectionKey;
pub use sections::FileSection;
pub(crate) use words::word_names;
pub use words::{CONDITION_VARIABLES, LanguageWord, TEMPLATE_VARIABLES};

/// Returns whether the key begins with `x-`. Some sections ignore such keys of the author.
pub(crate) fn is_extension_key(key: &str) -> bool {
    key.starts_with("x-")
}
