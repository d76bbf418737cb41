//! Budgets, costs and attempts under `ensemble test`, through the binary.

use crate::support::Workspace;
use serde_json::{Value, json};

const TEAM: &str = "name: team
model_profiles: {real: {provider: openai, model: gpt-5-mini}}
conversation_limits: {max_total_tokens: 100, max_cost: 0.5}
agents:
  - {name: writer, model_profile: real, retry: {max_attempts: 3, delay_seconds: 60}}
  - {name: reviewer, model_profile: real, depends_on: [writer]}
";

fn workspace(cases: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM);
    workspace.write("team.test.yaml", format!("cases:{cases}"));
    workspace
}

/// Cases that need all of it.
const ALL: &str = "
  - name: the tokens are used up
    stubs: {writer: {text: One., tokens: 100}}
    expect: {outcome: token_budget, executions: {writer: 1}, never: [reviewer]}
  - name: a token is left
    stubs: {writer: {text: One., tokens: 99}, reviewer: Good.}
    expect: {outcome: completed, most_cost: 0}
  - name: the money is used up
    stubs: {writer: {text: One., cost: 0.5}}
    expect: {outcome: token_budget, never: [reviewer], most_cost: 0.5}
  - name: the third attempt succeeds
    stubs: {writer: {text: One., tokens: 30, cost: 0.125, failed_attempts: 2}, reviewer: Good.}
    expect: {outcome: completed, outputs: {writer: One.}, most_cost: 0.375}
  - name: there is no fourth attempt
    stubs: {writer: {json: {n: 1}, failed_attempts: 3}}
    expect: {outcome: agent_failed, never: [reviewer]}
";

#[test]
fn stubs_use_tokens_and_money_and_fail_before_they_succeed() {
    let workspace = workspace(ALL);
    let told = workspace.run(["test"]).expect_code(0).stdout;
    assert!(told.contains("5 cases: 5 passed"), "{told}");
}

#[test]
fn a_budget_without_a_price_stops_a_run_unless_a_stub_stands_for_what_has_one() {
    let workspace = Workspace::new();
    let run = |prices: [&str; 2], options: &[&str]| {
        let profile = |price: &str| format!("{{provider: simulated, replies: [said]{price}}}");
        let [own, other] = prices.map(profile);
        workspace.write(
            "team.yaml",
            format!(
                "name: team\nmodel_profiles: {{own: {own}, other: {other}}}\nconversation_limits: {{max_cost: 0.5}}\n\
                 agents: [{{name: a, model_profile: own}}, {{name: b, model_profile: other}}]\n"
            ),
        );
        workspace.run([&["run", "team.yaml"], options].concat())
    };
    let price = ", cost: {input_per_million: 1, output_per_million: 1}";
    let refused = run(["", ""], &["--stub", "a=One."]).expect_code(2).stderr;
    assert!(refused.contains("error[E109]"), "{refused}");
    run(["", ""], &["--stub", "a=One.", "--stub", "b=Two."]).expect_code(0);
    run([price, ""], &["--stub", "a=One."]).expect_code(0);
    run([price, ""], &[]).expect_code(0);
    let outer = "name: outer\nconversation_limits: {max_cost: 0.5}\nagents: [{name: n, ensemble: inner.yaml}]\n";
    workspace.write("outer.yaml", outer);
    for (cost, agents, code) in [
        ("", "{name: c, model_profile: u}", 2),
        (price, "{name: c, model_profile: u}", 0),
        ("", "{name: c, script: 'true'}", 0),
    ] {
        let inner = format!(
            "name: inner\nmodel_profiles: {{u: {{provider: simulated, replies: [said]{cost}}}}}\nagents: [{agents}]\n"
        );
        workspace.write("inner.yaml", inner);
        let told = workspace.run(["run", "outer.yaml"]).expect_code(code).stderr;
        assert_eq!(told.contains("error[E109]"), code == 2, "{told}");
        let checked = workspace.run(["validate", "outer.yaml"]).expect_code(code);
        let checked = checked.stdout + &checked.stderr;
        assert_eq!(checked.contains("error[E109]"), code == 2, "{checked}");
        let is_without_models = agents.contains("true");
        assert_eq!(checked.contains("warning[W044]"), is_without_models, "{checked}");
    }
    let own = format!("model_profiles: {{p: {{provider: simulated, replies: [said]{price}}}}}\n");
    workspace.write(
        "outer.yaml",
        outer.replace("agents: [", &format!("{own}agents: [{{name: a, model_profile: p}}, ")),
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nmodel_profiles: {u: {provider: simulated, replies: [said]}}\nagents: [{name: c, model_profile: u}]\n",
    );
    let checked = workspace.run(["validate", "outer.yaml"]).expect_code(0);
    let checked = checked.stdout + &checked.stderr;
    let told = "`max_cost` does not count the model of the profile `u` in `inner.yaml`, because it has no price";
    assert!(checked.contains(told), "{checked}");
}

#[test]
fn what_a_stub_uses_counts_for_what_is_expected() {
    let workspace = workspace(
        "
  - name: dear
    stubs: {writer: {text: One., cost: 0.25}, reviewer: {text: Good., cost: 0.125}}
    expect: {most_cost: 0.3}
",
    );
    let told = workspace.run(["test"]).expect_code(1).stdout;
    assert!(told.contains("0.375"), "{told}");
}

#[test]
fn a_stub_uses_and_fails_only_where_its_agent_can() {
    let workspace = workspace(
        "
  - name: one
    stubs: {script: {text: a, tokens: 3, cost: 1}, writer: {fail: no, failed_attempts: 2}}
    expect: {outcome: completed}
",
    );
    workspace.write("team.yaml", format!("{TEAM}  - {{name: script, script: sort}}\n"));
    let told = workspace.run(["test"]).expect_code(2).stderr;
    assert!(
        told.contains(
            "error[E082]: `failed_attempts` has no effect, because all attempts of this stub fail\n --> ./team.test.yaml:3:71"
        ),
        "{told}"
    );
    workspace.write(
        "team.test.yaml",
        "cases:\n  - name: one\n    stubs: {script: {text: a, tokens: 3, cost: 1}}\n    expect: {outcome: completed}\n",
    );
    let told = workspace.run(["test"]).expect_code(2).stderr;
    for part in [
        "error[E082]: script calls no model, so its stub cannot have `tokens`\n --> ./team.test.yaml:3:31",
        "error[E082]: script calls no model, so its stub cannot have `cost`\n --> ./team.test.yaml:3:42",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn a_budget_that_no_case_uses_up_is_suggested() {
    let workspace = workspace(
        "
  - name: enough
    stubs: {writer: One., reviewer: Good.}
    expect: {outcome: completed}
",
    );
    let outcome = workspace.run(["test", "--suggest"]).expect_code(0);
    assert!(
        outcome.stdout.contains(
            "stubs:\n      writer: {text: from writer, tokens: 100}\n    expect:\n      outcome: token_budget\n"
        ),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    let before = workspace.read("team.test.yaml");
    workspace.write("team.test.yaml", before + &outcome.stdout);
    let told = workspace
        .run(["test", "--coverage", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(told["files"][0]["coverage"]["gaps"], json!([]), "{told}");
}

#[test]
fn changed_budgets_and_attempts_are_noticed_or_survive() {
    let standings = |workspace: &Workspace, code| {
        let found = workspace
            .run(["test", "--mutate", "--output", "json"])
            .expect_code(code)
            .json();
        let list = found["files"][0]["mutants"]["list"].as_array().expect("a list").clone();
        let word = |one: &Value, key: &str| one[key].as_str().expect("a text").to_owned();
        let told = |one: &Value| {
            let [kind, from, to, standing] = ["kind", "from", "to", "standing"].map(|key| word(one, key));
            format!("{kind} {from} -> {to}: {standing}")
        };
        list.iter().map(told).collect::<Vec<String>>()
    };
    let all = standings(&workspace(ALL), 0);
    let expected = [
        "attempts max_attempts: 3 -> 2: noticed",
        "attempts max_attempts: 3 -> 4: noticed",
        "dependency dependency on writer -> none: noticed",
        "budget max_total_tokens: 100 -> 99: noticed",
        "budget max_total_tokens: 100 -> 101: noticed",
        "budget max_cost: 0.5 -> no limit: noticed",
    ];
    assert_eq!(all, expected);
    let one = "
  - name: enough
    stubs: {writer: One., reviewer: Good.}
    expect: {outcome: completed, turns: [writer, reviewer]}
";
    let survivors: Vec<String> = standings(&workspace(one), 1)
        .into_iter()
        .filter(|one| one.ends_with("survived"))
        .collect();
    assert_eq!(survivors.len(), 5, "{survivors:?}");
}

#[test]
fn validate_reports_a_budget_without_a_price_exactly_if_run_refuses_it() {
    let price = ", cost: {input_per_million: 1, output_per_million: 1}";
    let limit = "conversation_limits: {max_cost: 0.5}\n";
    let model = |price: &str| format!("model_profiles: {{u: {{provider: simulated, replies: [said]{price}}}}}\n");
    let asks = "name: e\nagents: [{name: c, model_profile: u}]\n";
    let names = |file: &str| format!("name: e\nagents: [{{name: n, ensemble: {file}}}]\n");
    let tool = |more: &str| format!("tools: {{t: {{ensemble: deep/leaf.yaml, description: d{more}}}}}\n");
    let calls = "name: e\nagents: [{name: c, model_profile: u, tools: [t]}]\n";
    // The outer ensemble, `deep/middle.yaml`, `deep/leaf.yaml`, and whether a run starts.
    let rows = [
        (
            "three levels",
            names("deep/middle.yaml") + limit,
            names("leaf.yaml"),
            asks.to_owned() + &model(""),
            false,
        ),
        (
            "a price below",
            names("deep/middle.yaml") + limit,
            names("leaf.yaml"),
            asks.to_owned() + &model(price),
            true,
        ),
        (
            "the budget of a nested run",
            names("deep/middle.yaml"),
            names("leaf.yaml") + limit,
            asks.to_owned() + &model(""),
            false,
        ),
        (
            "the innermost budget",
            names("deep/middle.yaml"),
            names("leaf.yaml"),
            asks.to_owned() + &model("") + limit,
            false,
        ),
        (
            "a price above does not help",
            "name: e\nagents: [{name: n, ensemble: deep/leaf.yaml}, {name: c, model_profile: u}]\n".to_owned()
                + &model(price),
            asks.to_owned() + &model(""),
            asks.to_owned() + &model("") + limit,
            false,
        ),
        (
            "an ensemble as a tool",
            calls.to_owned() + &model("") + &tool("") + limit,
            asks.to_owned() + &model(""),
            asks.to_owned() + &model(price),
            true,
        ),
        (
            "a denied tool",
            calls.to_owned() + &model("") + &tool(", permission: deny") + limit,
            asks.to_owned() + &model(""),
            asks.to_owned() + &model(price),
            false,
        ),
        (
            "an unused tool",
            asks.to_owned() + &model("") + &tool("") + limit,
            asks.to_owned() + &model(""),
            asks.to_owned() + &model(price),
            false,
        ),
        (
            "the simulated model",
            "name: e\nagents: [{name: c, model_profile: simulated}]\n".to_owned() + limit,
            asks.to_owned() + &model(""),
            asks.to_owned() + &model(""),
            false,
        ),
        (
            "no model",
            "name: e\nagents: [{name: c, script: 'true'}]\n".to_owned() + limit,
            asks.to_owned() + &model(""),
            asks.to_owned() + &model(""),
            true,
        ),
    ];
    let workspace = Workspace::new();
    for (case, outer, middle, leaf, starts) in rows {
        workspace.write("outer.yaml", outer);
        workspace.write("deep/middle.yaml", middle);
        workspace.write("deep/leaf.yaml", leaf);
        let code = if starts { 0 } else { 2 };
        let run = workspace.run(["run", "outer.yaml", "--dry-run"]);
        assert_eq!(run.code, code, "{case}: run: {}{}", run.stdout, run.stderr);
        let checked = workspace.run(["validate", "outer.yaml"]);
        assert_eq!(
            checked.code, code,
            "{case}: validate: {}{}",
            checked.stdout, checked.stderr
        );
        assert_eq!(
            checked.stdout.contains("error[E109]"),
            !starts,
            "{case}: {}",
            checked.stdout
        );
        // An exploration executes nothing.
        workspace.run(["check", "outer.yaml"]).expect_code(0);
    }
}
