//! Runs one Rhai agent through its runner, as the executor does.

use std::path::PathBuf;

use ensemble_agents::agent::kinds::script::runner;
use ensemble_agents::agent::{AttemptOutcome, Execution};
use ensemble_process::program::Places;
use ensemble_process::{Bounds, Environment};

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"));
    let places = Places {
        ensemble_dir: folder.clone(),
        project_root: folder,
    };
    let bounds = Bounds {
        output_cap: 1 << 20,
        watchdog: None,
        environment: Environment::default(),
        sandbox: None,
    };
    let greeter = runner("greet.rhai", &places, bounds);
    let execution = Execution {
        input: "world".into(),
        ..Execution::first("greeter", 1)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let AttemptOutcome::Finished(observation) = runtime.block_on(greeter.execute(execution)) else {
        panic!("a script ends");
    };
    let output = serde_json::to_string(&observation.result.expect("an output")).expect("JSON");
    println!("{output}");
    assert_eq!(output, r#"{"execution":1,"greeting":"Hello, world!"}"#);
}
