//! Model servers, and what they were asked.

use cucumber::gherkin::Step;
use cucumber::{given, then};
use serde_json::json;

use super::world::{World, at, json as parse};
use crate::support::server::{Answer, Server, answer, events, says};

/// `says TEXT`, `breaks off after TEXT`, `refuses with TEXT`, or `STATUS`, perhaps with `, come back in SECONDS s`.
fn prepared(row: &str) -> Answer {
    if let Some(text) = row.strip_prefix("says ") {
        return says(text);
    }
    if let Some(text) = row.strip_prefix("breaks off after ") {
        return events(&[&json!({"choices": [{"delta": {"content": text}}]}).to_string()]);
    }
    if let Some(words) = row.strip_prefix("refuses with ") {
        let body = json!({"error": {"message": words}}).to_string();
        return answer("400 Bad Request", &[("content-type", "application/json")], &body);
    }
    match row.split_once(", come back in ") {
        Some((status, seconds)) => answer(status, &[("retry-after", seconds.trim_end_matches(" s"))], ""),
        None => answer(row, &[], ""),
    }
}

#[given(regex = r#"^a model server "([^"]+)" that answers, one after the other:$"#)]
fn server(world: &mut World, name: String, step: &Step) {
    let table = step.table.as_ref().expect("the step has a table");
    let answers = table.rows.iter().map(|row| prepared(&row[0])).collect();
    world.servers.push((name, Server::with(answers)));
}

#[then(regex = r#"^"([^"]+)" was asked (\d+) times?$"#)]
fn asked(world: &mut World, name: String, times: usize) {
    let server = world.servers.iter().find(|(known, _)| *known == name);
    assert_eq!(server.expect("there is one").1.asked().len(), times, "{}", world.told());
}

#[then(regex = r#"^request (\d+) to "([^"]+)" had "([^"]+)" = (.+)$"#)]
fn request_had(world: &mut World, nth: usize, name: String, path: String, value: String) {
    let server = world.servers.iter().find(|(known, _)| *known == name);
    let asked = server.expect("there is one").1.asked();
    let asked = asked.get(nth - 1).expect("it was asked so often");
    assert_eq!(at(&asked.body, &path), Some(&parse(&value)), "{}", asked.body);
}

#[then(regex = r#"^no request to "([^"]+)" carried a key$"#)]
fn keyless(world: &mut World, name: String) {
    let server = world.servers.iter().find(|(known, _)| *known == name);
    for asked in server.expect("there is one").1.asked() {
        assert_eq!(asked.header("authorization"), None, "{}", asked.head);
    }
}
