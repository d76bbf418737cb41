//! Runs one Rhai agent through its runner, as the executor does.

use std::path::PathBuf;

use ensemble_agents::agent::kinds::script::build_unchecked_runner;
use ensemble_agents::agent::{AttemptEnd, ExecutionInput};
use ensemble_process::program::ScriptFolders;
use ensemble_process::{ChildEnvironment, ProcessSettings};

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"));
    let places = ScriptFolders {
        ensemble_dir: folder.clone(),
        project_root: folder,
    };
    let bounds = ProcessSettings {
        output_cap: 1 << 20,
        watchdog: None,
        environment: ChildEnvironment::default(),
        sandbox: None,
    };
    let greeter = build_unchecked_runner("greet.rhai", &places, bounds);
    let execution = ExecutionInput {
        input: "world".into(),
        ..ExecutionInput::first_attempt_without_outputs("greeter", 1)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let AttemptEnd::Finished(observation) = runtime.block_on(greeter.execute_attempt(execution)) else {
        panic!("a script ends");
    };
    let output = serde_json::to_string(&observation.result.expect("an output")).expect("JSON");
    println!("{output}");
    assert_eq!(output, r#"{"execution":1,"greeting":"Hello, world!"}"#);
}
