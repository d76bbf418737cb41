//! Commands that read ensemble files and execute no run.

#[expect(clippy::module_inception, reason = "a file is named after its command")]
pub(super) mod check;
pub(super) mod explain;
pub(super) mod files;
pub(super) mod fixes;
pub(super) mod graph;
pub(super) mod list;
pub(super) mod picture;
pub(super) mod policy;
pub(super) mod settings;
pub(super) mod test;
pub(super) mod validate;
