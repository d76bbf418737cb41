//! The program runs.

#![expect(clippy::disallowed_methods, reason = "a scenario may say how long something took")]

use std::process::Stdio;
use std::time::Instant;

use cucumber::gherkin::Step;
use cucumber::when;

use super::given::text;
use super::world::World;
use crate::support::Running;

/// `{run}` in a command stands for the latest run's id, `{ru}` for its first two characters.
fn arguments(world: &World, command: &str) -> Vec<String> {
    let runs = world.workspace.runs();
    let id = runs.last().and_then(|run| run.file_name()).unwrap_or_default();
    let id = id.to_string_lossy();
    let command = command.replace("{run}", &id);
    let command = command.replace("{ru}", id.get(..2).unwrap_or_default());
    let mut words = shlex::split(&command).expect("the command can be read");
    assert_eq!(words.remove(0), "ensemble", "scenarios run the program itself");
    words
}

async fn run(world: &mut World, command: &str, stdin: Option<String>) {
    let begun = Instant::now();
    let mut prepared = world.workspace.command(arguments(world, command));
    prepared.envs(world.environment.iter().map(|(name, value)| (name, value)));
    let outcome = tokio::task::spawn_blocking(move || match stdin {
        None => Running(prepared.spawn().expect("the program starts")).finish(),
        Some(text) => {
            let child = prepared.stdin(Stdio::piped()).spawn().expect("the program starts");
            Running(child).finish_with_stdin(&text)
        }
    });
    world.outcome = Some(outcome.await.expect("the program ends"));
    world.took = begun.elapsed();
}

#[when(regex = r"^I run `([^`]+)`$")]
async fn runs(world: &mut World, command: String) {
    run(world, &command, None).await;
}

#[when(regex = r"^I run `([^`]+)` and type:$")]
async fn runs_with_input(world: &mut World, command: String, step: &Step) {
    run(world, &command, Some(text(step))).await;
}

#[when(regex = r#"^I save what it printed as "([^"]+)"$"#)]
fn saves(world: &mut World, name: String) {
    let printed = world.outcome().stdout.clone();
    world.workspace.write(&name, printed);
}
