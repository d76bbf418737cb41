//! `ensemble runs export --output otlp`: a run and the runs inside it as a trace.

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

/// How the name of a file with protobuf ends.
const PROTOBUF_EXTENSION: &str = "pb";

/// Writes the trace: JSON, or protobuf into a file `….pb`.
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

fn is_protobuf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == PROTOBUF_EXTENSION)
}

/// Reads a run and the runs inside it. A run that has no record yet is none.
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
