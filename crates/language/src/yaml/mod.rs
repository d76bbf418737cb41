//! YAML texts: the tree with its positions, the comments, and edits.

pub(crate) mod comments;
pub mod document;
pub mod edit;
pub(crate) mod plain_scalar;
pub(crate) mod scalar_alignment;
