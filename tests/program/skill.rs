//! `ensemble schema --skill`: the text that teaches a model the language. Each ensemble in it is checked and run.

use crate::support::Workspace;

#[test]
fn each_ensemble_of_the_skill_is_sound_and_runs_to_its_end() {
    let workspace = Workspace::new();
    let text = workspace.run(["schema", "--skill"]).expect_code(0).stdout;
    let front = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    let (front, body) = front.expect("front matter");
    let front: serde_json::Value = serde_yaml::from_str(front).expect("YAML");
    assert_eq!(front["name"], "ensembles");
    assert!(
        front["description"].as_str().is_some_and(|about| about.len() < 1024),
        "{front}"
    );
    let blocks: Vec<&str> = body
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(block, _)| block)
        .collect();
    assert!(blocks.len() >= 6, "{}", blocks.len());
    for block in blocks {
        let workspace = Workspace::new();
        workspace.write("e.yaml", block);
        let checked = workspace.run(["validate", "--deny-warnings", "e.yaml"]);
        assert_eq!(checked.code, 0, "{block}\n{}{}", checked.stdout, checked.stderr);
        let ran = workspace.run(["run", "e.yaml", "--output", "json"]);
        assert_eq!(ran.code, 0, "{block}\n{}", ran.stderr);
        assert_eq!(ran.json()["completion_reason"], "completed", "{block}");
    }
}

#[test]
fn the_skill_names_what_exists() {
    let workspace = Workspace::new();
    let text = workspace.run(["schema", "--skill"]).expect_code(0).stdout;
    let schema = workspace.run(["schema"]).expect_code(0).stdout;
    for key in [
        "feedback",
        "max_turns",
        "output_schema",
        "for_each",
        "requires_all",
        "max_total_turns",
        "max_cost",
        "permission",
    ] {
        assert!(text.contains(key) && schema.contains(&format!("\"{key}\"")), "{key}");
    }
    workspace.run(["schema", "--skill", "--tests"]).expect_code(2);
}
