//! Scripts as tools. They receive the same input as script agents, with the arguments as `parameters`.

use std::sync::Arc;

use crate::agent::Execution;
use ensemble_language::data::JsonMap;
use ensemble_language::past::Past;

/// The execution of the script: the data of the calling agent, and the arguments.
pub(crate) fn execution(caller: Execution, arguments: &JsonMap) -> Execution {
    Execution {
        parameters: Arc::new(arguments.clone()),
        history: Past::default(),
        ..caller
    }
}
