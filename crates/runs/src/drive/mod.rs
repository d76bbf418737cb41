//! The driving of a run: its task, its events, its open requests and its host.

pub(crate) mod client_servers;
pub(crate) mod decided_requests;
pub(crate) mod events;
pub(crate) mod host;
pub(crate) mod request_desk;
pub(crate) mod run;
pub(crate) mod run_events;
