//! Commands that run a conversation, or continue one.

pub(super) mod batch;
pub(super) mod chat;
pub(super) mod driver;
pub(super) mod engine;
pub(super) mod fork;
pub(super) mod replay;
pub(super) mod reporters;
pub(super) mod resume;
#[expect(clippy::module_inception, reason = "a file is named after its command")]
pub(super) mod run;
pub(super) mod run_options;
