//! Two files: an ensemble, and the Rhai script that all its agents run. They are separated by the first byte 1.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ensemble_language::check::{CheckContext, OutputKeys, check_with_context};
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, ModelProfile};
use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use ensemble_scripts::{self, Script, ScriptVariable};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

/// How long a script may run.
const TIME: Duration = Duration::from_millis(200);

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// The script beside the ensemble.
struct NearbyFiles<'a>(&'a str);

impl CheckContext for NearbyFiles<'_> {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        None
    }
    fn output_keys(&self, _: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        match &agent.kind {
            AgentKind::Script { .. } => Some(ensemble_scripts::collect_output_keys(
                &ensemble_scripts::analyze_script("fuzz.rhai", self.0).outputs?,
            )),
            _ => None,
        }
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

fuzz_target!(|text: &str| {
    let (ensemble, script) = text.split_once('\u{1}').unwrap_or(("", text));
    let loaded = load_ensemble(&SourceText::new("fuzz.yaml", ensemble));
    let mut findings = loaded
        .ensemble
        .map(|one| check_with_context(&one, &NearbyFiles(script)))
        .unwrap_or_default();
    findings.extend(loaded.findings);
    let Ok(script) = Script::compile(script) else { return };
    let variables = vec![(
        "context",
        ScriptVariable::Json(Arc::new(json!({"a": [1, {"b": null}]}))),
    )];
    let ended = RUNTIME.block_on(async { tokio::time::timeout(TIME, script.run(variables)).await });
    if let Ok(Ok(value)) = ended {
        let written = value.to_string();
        serde_json::from_str::<serde_json::Value>(&written).expect("what a script gives can be read again");
    }
});
