//! When a model is asked again, and at which pace.

pub(crate) mod chain;
pub(crate) mod model_query;
pub(crate) mod pace;
pub(crate) mod paced_provider;
pub(crate) mod quirks;
pub(crate) mod reply_forwarder;
pub(crate) mod retry_reasons;
pub(crate) mod running_query;
