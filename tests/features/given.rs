//! What is there before the program runs.

use cucumber::gherkin::Step;
use cucumber::{given, when};

use super::world::World;
use crate::support::server::Server;

/// The text under a step, without the line break that Gherkin puts before it.
pub(crate) fn text(step: &Step) -> String {
    let text = step.docstring.as_deref().expect("the step has a text");
    let text = text.strip_prefix('\n').unwrap_or(text);
    format!("{}\n", text.trim_end_matches('\n'))
}

#[given(regex = r#"^the (?:ensemble|file|Rhai script|answers|saved result) "([^"]+)":$"#)]
fn file(world: &mut World, name: String, step: &Step) {
    let addressed =
        |text: String, (name, server): &(String, Server)| text.replace(&format!("{{{name}}}"), &server.url());
    let text = world.servers.iter().fold(text(step), addressed);
    world.workspace.write(&name, text);
}

#[given(regex = r#"^the program "([^"]+)":$"#)]
fn program(world: &mut World, name: String, step: &Step) {
    world.workspace.script(&name, &text(step));
}

#[given(regex = r#"^the folder "([^"]+)"$"#)]
fn folder(world: &mut World, name: String) {
    world.workspace.write(&format!("{name}/.keep"), "");
}

#[given(regex = r#"^the environment variable ([A-Z_]+) is "([^"]*)"$"#)]
fn variable(world: &mut World, name: String, value: String) {
    let folder = world.workspace.path().display().to_string();
    world.environment.push((name, value.replace("{folder}", &folder)));
}

#[given(regex = r#"^in "([^"]+)" `(.+)` becomes `(.*)`$"#)]
#[when(regex = r#"^in "([^"]+)" `(.+)` becomes `(.*)`$"#)]
fn edited(world: &mut World, name: String, old: String, new: String) {
    let text = world.workspace.read(&name);
    assert!(text.contains(&old), "{name} does not hold `{old}`");
    world.workspace.write(&name, text.replace(&old, &new));
}
