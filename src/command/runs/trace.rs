//! `ensemble runs export --output otlp`: exports a run and its nested runs as a trace.

use std::path::Path;
use std::sync::Arc;

use crate::command::runs::RunsExportArgs;
use crate::command::runs::private_file::write_bytes;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::OutputForm;
use crate::command::shared::surroundings::CliEnvironment;
use crate::command::shared::telemetry::telemetry_resource;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{ReadError, StoredRun};
use ensemble_telemetry::{RecordedRunTree, RunTrace};

/// File extension of a trace in protobuf.
const PROTOBUF: &str = "pb";

/// Writes the trace of the run and its nested runs: protobuf to a file with the extension `pb`, otherwise JSON.
pub(crate) async fn export_trace(
    args: &RunsExportArgs,
    run: Arc<dyn StoredRun>,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let trace = RunTrace::from_run_tree(&load_recorded_tree(run, String::new()).await?, args.otlp_content);
    let resource = telemetry_resource();
    let Some(path) = &args.to else {
        surroundings.print_as(OutputForm::Json, &trace.to_json(&resource));
        return Ok(exit::SUCCESS);
    };
    let bytes = match is_protobuf(path) {
        true => trace.to_protobuf(&resource),
        false => trace.to_json(&resource).into_bytes(),
    };
    write_bytes(path, &bytes, surroundings)?;
    Ok(exit::SUCCESS)
}

/// Returns whether the file has the extension of a trace in protobuf.
fn is_protobuf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == PROTOBUF)
}

/// Loads a run with its nested runs. `name` is the name of the run inside its outer run. A nested run without records is empty.
fn load_recorded_tree(run: Arc<dyn StoredRun>, name: String) -> BoxFuture<'static, Result<RecordedRunTree, CliError>> {
    Box::pin(async move {
        let mut inside = Vec::new();
        for name in run.list_nested_names().await? {
            let Some(inner) = run.find_nested(&name).await? else {
                continue;
            };
            inside.push(load_recorded_tree(inner, name).await?);
        }
        let records = match run.read_journal().await {
            Ok(journal) => journal.records,
            Err(ReadError::Empty { .. }) if !name.is_empty() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(RecordedRunTree {
            name,
            records,
            inner_runs: inside,
        })
    })
}
