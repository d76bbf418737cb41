//! The scenarios in `features/`, through the binary. An undefined step fails.

mod support;

#[path = "features/given.rs"]
mod given;
#[path = "features/models.rs"]
mod models;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "support/server.rs"]
mod server;
#[path = "features/then.rs"]
mod then;
#[path = "features/tools.rs"]
mod tools;
#[path = "features/when.rs"]
mod when;
#[path = "features/world.rs"]
mod world;

use std::process::ExitCode;

use cucumber::World as _;
use cucumber::writer::Stats as _;

use world::World;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let scenarios = World::cucumber().fail_on_skipped().max_concurrent_scenarios(4);
    let told = runtime
        .expect("a runtime can be built")
        .block_on(scenarios.run("features"));
    ExitCode::from(u8::from(told.execution_has_failed()))
}
