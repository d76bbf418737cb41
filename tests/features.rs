//! The scenarios in `features/`, through the binary. An undefined step fails.

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

mod features {
    mod given;
    mod models;
    mod then;
    mod tools;
    mod when;
    pub(crate) mod world;
}

use std::process::ExitCode;

use cucumber::World as _;
use cucumber::writer::Stats as _;

use features::world::World;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let scenarios = World::cucumber().fail_on_skipped().max_concurrent_scenarios(4);
    let told = runtime
        .expect("a runtime can be built")
        .block_on(scenarios.run("features"));
    ExitCode::from(u8::from(told.execution_has_failed()))
}
