//! `--otlp`: spans of runs go to a collector while they are driven.
//!
//! Only who starts the program turns this on, by the option or by `ENSEMBLE_OTLP=1`; no file of a project can. Where the spans go is
//! said by the variables that all OpenTelemetry programs know.

use std::sync::{Arc, OnceLock};

use crate::command::run::arguments::TelemetryArgs;
use ensemble_core::conversation::{ConversationState, Record};
use ensemble_core::store::RunId;
use ensemble_core::trace::TraceParent;
use ensemble_runs::{Host, Tracer};
use ensemble_telemetry::{Exporter, HttpClient, Live, Off, Resource, Settings};

/// The variable that does what `--otlp` does, for CI.
const OTLP: &str = "ENSEMBLE_OTLP";

/// The telemetry of the program: none until a command turns it on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Telemetry(Arc<OnceLock<Option<Arc<Started>>>>);

#[derive(Debug)]
struct Started {
    live: Live,
    secrets: Vec<String>,
    /// Where the spans go, without secrets.
    endpoint: String,
}

impl Telemetry {
    /// Turns it on, if these options or the environment say so.
    pub(crate) fn begin(&self, args: &TelemetryArgs, warn: impl FnOnce(&str)) -> Option<Arc<dyn Tracer>> {
        let started = self.0.get_or_init(|| {
            let is_wanted = args.otlp || variable(OTLP).is_some_and(|value| value == "1");
            let started = is_wanted.then(|| start(args.otlp_content))?;
            match started {
                Ok(started) => Some(Arc::new(started)),
                Err(Off::Wanted) => None,
                Err(Off::Wrong(why)) => {
                    warn(&format!("warning: no telemetry is sent: {why}\n"));
                    None
                }
            }
        });
        let started = started.as_ref()?;
        Some(Arc::clone(started) as Arc<dyn Tracer>)
    }

    /// Sends what is left, and says if something was not taken.
    pub(crate) fn finish(&self, warn: impl FnOnce(&str)) {
        let Some(started) = self.0.get().and_then(Option::as_ref) else {
            return;
        };
        let report = started.live.finish();
        if report.taken == report.all && report.problem.is_none() {
            return;
        }
        let (lost, all) = (report.all.saturating_sub(report.taken), report.all);
        let problem = report
            .problem
            .map_or_else(String::new, |problem| format!(": {problem}"));
        warn(&format!(
            "warning: telemetry: {lost} of {all} spans did not reach {}{problem}\n",
            started.endpoint
        ));
    }
}

/// Returns the resource of spans, as the environment names it.
pub(crate) fn resource() -> Resource {
    Resource::read(variable)
}

fn start(with_content: bool) -> Result<Started, Off> {
    let settings = Settings::read(variable)?;
    let client: HttpClient = Box::new(|| {
        let network = Host::system().network();
        Box::pin(async move { network.client().await.cloned() })
    });
    let exporter = Exporter::start(&settings, client).map_err(|error| Off::Wrong(error.to_string()))?;
    let parent = variable("TRACEPARENT");
    let parent = parent.and_then(|parent| TraceParent::parse(&parent, variable("TRACESTATE").as_deref()));
    Ok(Started {
        live: Live::new(exporter, settings.sampler, parent, with_content),
        secrets: settings.endpoint.secrets(),
        endpoint: settings.endpoint.shown(),
    })
}

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

impl Tracer for Started {
    fn parent(&self) -> Option<TraceParent> {
        self.live.parent.clone()
    }

    fn is_sampled(&self, trace: &[u8; 16]) -> bool {
        self.live.is_sampled(trace)
    }

    fn secrets(&self) -> Vec<String> {
        self.secrets.clone()
    }

    fn observe(&self, run: &RunId, record: &Record, state: &ConversationState) {
        self.live.take(&run.shared(), record, state.started());
    }
}
