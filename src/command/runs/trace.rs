//! `ensemble runs export --output otlp`: exports a run and its nested runs as a trace.

use std::path::Path;
use std::sync::Arc;

use crate::command::runs::RunsExportArgs;
use crate::command::runs::private_file::write_bytes_and_report;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::surroundings::CliEnvironment;
use crate::command::shared::telemetry::telemetry_resource_from_environment;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{LogReadError, StoredRun};
use ensemble_telemetry::{RecordedRunTree, RunTrace};

/// File extension of a trace in protobuf.
const PROTOBUF_EXTENSION: &str = "pb";

/// Writes the trace of the run and its nested runs: protobuf to a file with the extension `pb`, otherwise JSON.
pub(crate) async fn export_trace(
    args: &RunsExportArgs,
    run: Arc<dyn StoredRun>,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let trace = RunTrace::from_run_tree(&load_run_tree(run, String::new()).await?, args.otlp_content);
    let resource = telemetry_resource_from_environment();
    let Some(path) = &args.to else {
        surroundings.print_out_in_format(DocumentFormat::Json, &trace.to_json(&resource));
        return Ok(exit::SUCCESS);
    };
    let bytes = match is_protobuf(path) {
        true => trace.to_protobuf(&resource),
        false => trace.to_json(&resource).into_bytes(),
    };
    write_bytes_and_report(path, &bytes, surroundings)?;
    Ok(exit::SUCCESS)
}

/// Returns whether the file has the extension of a trace in protobuf.
fn is_protobuf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == PROTOBUF_EXTENSION)
}

/// Loads a run with its nested runs. `name` is the name of the run inside its outer run. A nested run without records is empty.
fn load_run_tree(run: Arc<dyn StoredRun>, name: String) -> BoxFuture<'static, Result<RecordedRunTree, CliError>> {
    Box::pin(async move {
        let mut inside = Vec::new();
        for name in run.list_nested_run_names().await? {
            let Some(inner) = run.find_nested_run(&name).await? else {
                continue;
            };
            inside.push(load_run_tree(inner, name).await?);
        }
        let records = match run.read_journal().await {
            Ok(journal) => journal.records,
            Err(LogReadError::Empty { .. }) if !name.is_empty() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(RecordedRunTree {
            name,
            records,
            inner_runs: inside,
        })
    })
}
