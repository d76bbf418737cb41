//! Outputs of models: replies as JSON, schemas, repairs.

pub(crate) mod repair;
pub mod schema;
pub mod schema_check;
