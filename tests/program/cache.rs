//! Replies that are kept on disk, and what they cost: a run with a full cache needs no model.

use crate::support::Workspace;
use crate::support::server::{Server, says};

fn asking(url: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - {{name: writer, model_profile: m}}\n  - {{name: critic, model_profile: m, depends_on: \
             [writer]}}\nmodel_profiles:\n  m: {{provider: openai, model: some-model, base_url: '{url}', cost: \
             {{input_per_million: 1, output_per_million: 1}}}}\n"
        ),
    );
    workspace
}

#[test]
fn a_warm_cache_answers_for_the_server() {
    let server = Server::with(vec![says("a draft"), says("well done")]);
    let workspace = asking(&server.url());
    let arguments = ["run", "a.yaml", "-i", "x", "--output", "json", "--cache", "replies"];
    let first = workspace.run(arguments).expect_code(0).json();
    assert_eq!(server.asked().len(), 2);
    assert_eq!(first["usage"]["cached"], 0);
    let again = workspace
        .run(arguments.into_iter().chain(["--cache-only"]))
        .expect_code(0)
        .json();
    assert_eq!(server.asked().len(), 2, "nobody was asked again");
    assert_eq!(again["final_state"], first["final_state"]);
    assert_eq!(again["usage"]["cached"], 2);
    assert!(again["usage"]["cost"].is_null(), "it costs nothing: {}", again["usage"]);
}

#[test]
fn what_the_cache_does_not_have_is_told_and_nobody_is_asked() {
    let server = Server::with(vec![says("a draft"), says("well done")]);
    let workspace = asking(&server.url());
    workspace
        .run(["run", "a.yaml", "-i", "x", "--cache", "replies"])
        .expect_code(0);
    let outcome = workspace
        .run(["run", "a.yaml", "-i", "y", "--cache", "replies", "--cache-only"])
        .expect_code(1);
    assert_eq!(server.asked().len(), 2);
    let told = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(told.contains("writer") && told.contains("cache"), "{told}");
}

#[test]
fn an_estimate_tells_what_a_run_would_cost() {
    let server = Server::with(vec![says("a draft"), says("well done")]);
    let workspace = asking(&server.url());
    let outcome = workspace
        .run(["run", "a.yaml", "-i", "x", "--output", "json"])
        .expect_code(0);
    let id = outcome.json()["run_id"].as_str().expect("an id").to_owned();
    // A million tokens now cost twice as much.
    let dearer = workspace.read("a.yaml").replace("per_million: 1", "per_million: 2");
    workspace.write("a.yaml", dearer);
    let told = workspace
        .run(["estimate", "a.yaml", "--from", &id])
        .expect_code(0)
        .stdout;
    assert!(told.contains("cost 0.0048"), "{told}");
    let shown = workspace.run(["runs", "show", &id]).expect_code(0).stdout;
    assert!(shown.contains("cost 0.0024"), "{shown}");
}
