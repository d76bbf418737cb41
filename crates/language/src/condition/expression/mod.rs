//! The language of expressions: tokens, syntax tree, parser, and the messages for what is refused.

pub(crate) mod lexer;
pub(crate) mod parsed;
pub(crate) mod parser;
pub(crate) mod refusals;
pub(crate) mod replacements;
pub(crate) mod tree;
