//! Commands that prepare a project, and the program itself.

mod completion_safety;
pub(super) mod completions;
pub(super) mod import;
pub(super) mod import_folder;
pub(super) mod init;
pub(super) mod man;
pub(super) mod models;
pub(super) mod schema;
pub(super) mod trust;
