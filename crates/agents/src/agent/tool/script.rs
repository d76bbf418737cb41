//! Scripts as tools: the contract of script agents, with the arguments as `parameters`.

use std::sync::Arc;

use crate::agent::Execution;
use ensemble_language::data::JsonMap;

/// What the script is handed: all that the calling agent knows, and the arguments.
pub(super) fn execution(caller: Execution, arguments: &JsonMap) -> Execution {
    Execution {
        parameters: Arc::new(arguments.clone()),
        ..caller
    }
}
