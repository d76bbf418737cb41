//! Export of the spans of runs to a collector while the program drives the runs (`--otlp`).
//!
//! Only the user who starts the program enables the export, by the option or by `ENSEMBLE_OTLP=1`. A file of a project cannot.
//! The standard OpenTelemetry variables name the collector.

use std::sync::{Arc, OnceLock};

use crate::command::run::arguments::TelemetryArgs;
use ensemble_core::conversation::{ConversationState, Record};
use ensemble_core::store::RunId;
use ensemble_core::trace::TraceParent;
use ensemble_runs::{RunHost, RunTracer};
use ensemble_telemetry::{
    HttpClientBuilder, LiveTelemetry, SpanExporter, TelemetryResource, TelemetrySettings, TelemetrySettingsError,
};

/// Environment variable with the effect of `--otlp`, for CI.
const OTLP_VARIABLE: &str = "ENSEMBLE_OTLP";

/// Telemetry of the program: off until a command starts the export.
#[derive(Debug, Clone, Default)]
pub(crate) struct CliTelemetry(Arc<OnceLock<Option<Arc<RunningTelemetry>>>>);

/// Telemetry that was started: its export and the data that messages need.
#[derive(Debug)]
struct RunningTelemetry {
    live: LiveTelemetry,
    secrets: Vec<String>,
    /// URL of the collector without secrets.
    endpoint: String,
}

impl CliTelemetry {
    /// Starts the export if the options or the environment ask for it. Returns the tracer.
    /// Returns `None` if no export is wanted or its settings are not valid. Calls `warn` about invalid settings.
    pub(crate) fn start_if_wanted(&self, args: &TelemetryArgs, warn: impl FnOnce(&str)) -> Option<Arc<dyn RunTracer>> {
        let started = self.0.get_or_init(|| {
            let is_wanted = args.otlp || non_empty_variable(OTLP_VARIABLE).is_some_and(|value| value == "1");
            let started = is_wanted.then(|| start_span_export(args.otlp_content))?;
            match started {
                Ok(started) => Some(Arc::new(started)),
                Err(TelemetrySettingsError::Disabled) => None,
                Err(TelemetrySettingsError::Invalid(why)) => {
                    warn(&format!("warning: no telemetry is sent: {why}\n"));
                    None
                }
            }
        });
        let started = started.as_ref()?;
        Some(Arc::clone(started) as Arc<dyn RunTracer>)
    }

    /// Sends the remaining spans and waits for their delivery. Calls `warn` if some spans did not reach the collector.
    pub(crate) fn finish_export(&self, warn: impl FnOnce(&str)) {
        let Some(started) = self.0.get().and_then(Option::as_ref) else {
            return;
        };
        let report = started.live.close_and_finish_export();
        if report.accepted == report.all && report.first_problem.is_none() {
            return;
        }
        let (lost, all) = (report.all.saturating_sub(report.accepted), report.all);
        let problem = report
            .first_problem
            .map_or_else(String::new, |problem| format!(": {problem}"));
        warn(&format!(
            "warning: telemetry: {lost} of {all} spans did not reach {}{problem}\n",
            started.endpoint
        ));
    }
}

/// Returns the resource of all spans, from the OpenTelemetry variables.
pub(crate) fn telemetry_resource_from_environment() -> TelemetryResource {
    TelemetryResource::from_otel_variables(non_empty_variable)
}

/// Starts the exporter thread with the settings of the environment. `with_content` adds prompts and replies to the spans.
fn start_span_export(with_content: bool) -> Result<RunningTelemetry, TelemetrySettingsError> {
    let settings = TelemetrySettings::from_variables(non_empty_variable)?;
    let client: HttpClientBuilder = Box::new(|| {
        let network = RunHost::from_system().model_network();
        Box::pin(async move { network.get_or_build_client().await.cloned() })
    });
    let exporter = SpanExporter::spawn_exporter_thread(&settings, client)
        .map_err(|error| TelemetrySettingsError::Invalid(error.to_string()))?;
    let parent = non_empty_variable("TRACEPARENT");
    let parent = parent.and_then(|parent| TraceParent::parse(&parent, non_empty_variable("TRACESTATE").as_deref()));
    Ok(RunningTelemetry {
        live: LiveTelemetry::new(exporter, settings.sampler, parent, with_content),
        secrets: settings.endpoint.header_values(),
        endpoint: settings.endpoint.url_without_secrets(),
    })
}

/// Returns the trimmed value of the environment variable. Returns `None` if the variable is unset or blank.
fn non_empty_variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

impl RunTracer for RunningTelemetry {
    fn parent_span(&self) -> Option<TraceParent> {
        self.live.parent.clone()
    }

    fn is_sampled(&self, trace: &[u8; 16]) -> bool {
        self.live.is_sampled(trace)
    }

    fn secret_values(&self) -> Vec<String> {
        self.secrets.clone()
    }

    fn observe_record(&self, run: &RunId, record: &Record, state: &ConversationState) {
        self.live
            .send_spans_of_record(&run.shared_text(), record, state.run_start());
    }
}
