//! The evaluation of expressions: Rhai code, operators, values.

pub(crate) mod code;
pub(crate) mod engine;
pub(crate) mod notes;
pub(crate) mod operators;
pub(crate) mod report;
pub(crate) mod value;
