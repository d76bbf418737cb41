//! `validate` in `.ensemble/config.yaml`: levels, exclusions and options, and what is wrong with them.

use crate::support::{Outcome, Workspace};

/// A command that is not there (`W003`), an unknown profile (`W001`), and a profile that is not used (`H010`).
const TEAM: &str = "name: team
agents: [{name: a, script: no-such-program}, {name: b, model_profile: theirs, prompt: x}]
model_profiles:
  idle: {provider: simulated, replies: [x]}
";
const CONFIG: &str = ".ensemble/config.yaml";
const FORMATS: [&str; 5] = ["human", "json", "github", "sarif", "junit"];

fn with(config: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("ensembles/team.yaml", TEAM);
    workspace.write(CONFIG, config);
    workspace
}

/// `error W003`, for each finding.
fn levels(outcome: &Outcome) -> Vec<String> {
    let report = outcome.json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    let text = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let shown = diagnostics.iter();
    shown
        .map(|one| format!("{} {}", text(one, "severity"), text(one, "code")))
        .collect()
}

/// The findings, and the exit code.
fn checked(workspace: &Workspace, arguments: &[&str]) -> (Vec<String>, i32) {
    let outcome = workspace.run([&["validate", "--output", "json"], arguments].concat());
    assert_eq!(outcome.stderr, "");
    (levels(&outcome), outcome.code)
}

#[test]
fn levels_go_up_and_down_and_decide_the_exit_code() {
    let own = ["warning W003", "warning W001", "hint H010"];
    let rows: &[(&str, &[&str], i32, i32)] = &[
        ("{}", &own, 0, 2),
        ("{W003: error}", &["error W003", "warning W001", "hint H010"], 2, 2),
        (
            "{H010: error, W001: hint}",
            &["warning W003", "hint W001", "error H010"],
            2,
            2,
        ),
        ("{h010: warning, W003: 'off'}", &["warning W001", "warning H010"], 0, 2),
        (
            "{W003: hint, W001: hint}",
            &["hint W003", "hint W001", "hint H010"],
            0,
            0,
        ),
        ("{W003: off, W001: off, H010: off}", &[], 0, 0),
        ("{W003: warning, E021: error}", &own, 0, 2),
        ("", &own, 0, 2),
    ];
    for (levels, expected, code, denied) in rows {
        let workspace = with(&format!("validate:\n  levels: {levels}\n"));
        assert_eq!(
            checked(&workspace, &[]),
            (expected.iter().map(|it| (*it).to_owned()).collect(), *code),
            "{levels}"
        );
        assert_eq!(checked(&workspace, &["--deny-warnings"]).1, *denied, "{levels}");
    }
}

#[test]
fn levels_hold_in_every_format() {
    let workspace = with("validate: {levels: {W003: error, W001: off, H010: warning}}\n");
    let shown: [&[&str]; 5] = [
        &["error[W003]", "warning[H010]"],
        &["\"severity\": \"error\"", "\"severity\": \"warning\""],
        &[
            "::error file=ensembles/team.yaml,line=2",
            "::warning file=ensembles/team.yaml,line=4",
        ],
        &["\"level\": \"error\"", "\"ruleId\": \"H010\""],
        &["<failure type=\"W003\"", "warning[H010]"],
    ];
    for (format, shown) in FORMATS.iter().zip(shown) {
        let outcome = workspace.run(["validate", "--output", format]).expect_code(2);
        let findings = outcome.stdout.split("\"results\"").last().unwrap_or_default();
        for text in shown {
            assert!(findings.contains(text), "{format}: {text}\n{findings}");
        }
        assert!(!findings.contains("unknown model profile"), "{format}: {findings}");
        // A warning fails its test case only if warnings fail.
        let failures = |outcome: &Outcome| outcome.stdout.matches("2 findings, the first").count();
        if *format == "junit" {
            assert_eq!(failures(&outcome), 0);
            workspace.write(
                CONFIG,
                "validate: {deny_warnings: true, levels: {W003: error, W001: off, H010: warning}}\n",
            );
            assert_eq!(
                failures(&workspace.run(["validate", "--output", format]).expect_code(2)),
                1
            );
        }
    }
    // People are told how much is not reported.
    let human = workspace.run(["validate"]).expect_code(2);
    let summary = "1 file checked: 1 error, 1 warning, 0 hints; 1 finding disabled by the configuration; `--fix --unsafe-fixes` can fix 1\n";
    assert_eq!(human.stderr, summary);
}

#[test]
fn options_come_from_the_configuration_and_flags_win() {
    let workspace = with("validate: {deny_warnings: true, output: github, levels: {W003: error, W001: off}}\n");
    let outcome = workspace.run(["validate"]).expect_code(2);
    assert!(outcome.stdout.starts_with("::error file="), "{}", outcome.stdout);
    assert_eq!(
        checked(&workspace, &["--allow", "W003"]),
        (vec!["hint H010".to_owned()], 0)
    );
    assert_eq!(
        checked(&workspace, &["--deny", "W001"]).0,
        ["error W003", "error W001", "hint H010"]
    );
    workspace.write(CONFIG, "validate: {deny_warnings: true}\n");
    assert_eq!(checked(&workspace, &[]).1, 2);
    assert_eq!(checked(&workspace, &["--no-deny-warnings"]).1, 0);
    assert_eq!(checked(&workspace, &["--no-deny-warnings", "--deny-warnings"]).1, 2);
    workspace.write(CONFIG, "validate: {deny_warnings: false}\n");
    assert_eq!(checked(&workspace, &["--deny-warnings"]).1, 2);
    workspace.write("ensembles/team.yaml", "name: e\nagents: [{name: a, input: Well?}]\n");
    workspace.write(CONFIG, "validate: {ci: true}\n");
    assert_eq!(checked(&workspace, &[]).0, ["warning W026"]);
    assert_eq!(checked(&workspace, &["--no-ci"]).0, [""; 0]);
    assert_eq!(checked(&workspace, &["--no-config"]).0, [""; 0]);
}

#[test]
fn a_comment_allows_whatever_the_level_is() {
    let allowed = TEAM.replace("]\nmodel", "] # ensemble: allow(W003, W001) on purpose\nmodel");
    for levels in ["{W003: error, W001: 'off'}", "{W003: 'off', W001: hint}"] {
        let workspace = with(&format!("validate: {{levels: {levels}}}\n"));
        workspace.write("ensembles/team.yaml", &allowed);
        assert_eq!(checked(&workspace, &[]), (vec!["hint H010".to_owned()], 0), "{levels}");
    }
}

#[test]
fn each_file_has_the_levels_of_its_nearest_configuration() {
    let workspace = with("validate: {levels: {W001: 'off', H010: 'off'}, exclude: ['*.draft.yaml']}\n");
    workspace.write(
        "part/.ensemble/config.yaml",
        "validate: {levels: {W003: error}, exclude: [old.yaml]}\n",
    );
    for file in [
        "part/e.yaml",
        "part/deep/a.draft.yaml",
        "part/deep/old.yaml",
        "b.draft.yaml",
    ] {
        workspace.write(file, "name: e\nagents: [{name: a, script: no-such-program}]\n");
    }
    let outcome = workspace.run(["validate", ".", "--output", "json"]).expect_code(2);
    let report = outcome.json();
    let files = report["diagnostics"].as_array().expect("a list").iter();
    let files: Vec<&str> = files.filter_map(|one| one["file"].as_str()).collect();
    assert_eq!(
        files,
        ["./ensembles/team.yaml", "./part/deep/a.draft.yaml", "./part/e.yaml"]
    );
    assert_eq!(levels(&outcome), ["warning W003", "error W003", "error W003"]);
}

#[test]
fn exclusions_are_patterns_of_gitignore_at_the_folder_of_the_project() {
    let all = [
        "a.yaml",
        "b/a.yaml",
        "b/vendor/c.yaml",
        "b/x.draft.yml",
        "vendor/c.yaml",
        "vendor/own.yaml",
    ];
    let rows: &[(&str, &[usize])] = &[
        ("[]", &[0, 1, 2, 3, 4, 5]),
        ("['vendor/**']", &[0, 1, 2, 3]),
        ("[vendor]", &[0, 1, 3]),
        ("['/a.yaml', '*.draft.yml']", &[1, 2, 4, 5]),
        ("['vendor/*', '!vendor/own.yaml']", &[0, 1, 2, 3, 5]),
        ("[b/vendor/]", &[0, 1, 3, 4, 5]),
        ("['{a,x}*']", &[2, 4, 5]),
    ];
    for (exclude, kept) in rows {
        let workspace = Workspace::new();
        for file in all {
            workspace.write(file, "name: e\nagents: [{name: a, scrip: x}]\n");
        }
        workspace.write(CONFIG, format!("validate: {{exclude: {exclude}}}\n"));
        let files = |arguments: &[&str]| -> Vec<String> {
            let outcome = workspace.run([&["validate", "--output", "json"], arguments].concat());
            let report = outcome.json();
            let found = report["diagnostics"].as_array().expect("a list").clone();
            let mut found: Vec<String> = found
                .iter()
                .filter_map(|one| one["file"].as_str().map(str::to_owned))
                .collect();
            found.dedup();
            found
        };
        let expected: Vec<String> = kept.iter().map(|at| format!("./{}", all[*at])).collect();
        assert_eq!(files(&["."]), expected, "{exclude}");
        assert_eq!(files(&[".", "--no-config"]).len(), all.len(), "{exclude}");
        let own: Vec<String> = expected
            .iter()
            .filter(|file| !file.starts_with("./b"))
            .cloned()
            .collect();
        assert_eq!(files(&[".", "--exclude", "/b"]), own, "{exclude}");
    }
    let workspace = with("validate: {exclude: ['*.yaml']}\n");
    workspace.write("ensembles/b.yml", "name: e\nagents: [{name: a, script: \"true\"}]\n");
    let human = workspace.run(["validate"]).expect_code(0);
    assert!(
        human.stderr.ends_with("0 hints; 1 file or folder excluded\n"),
        "{}",
        human.stderr
    );
    workspace.write(".gitignore", "ensembles/c.yml\n");
    workspace.write("ensembles/c.yml", "name: c\n");
    workspace.write("ensembles/node_modules/d.yml", "name: d\n");
    let named = workspace.run(["validate", "-v"]).expect_code(0).stderr;
    let left: Vec<&str> = named.lines().filter(|line| line.starts_with("left out: ")).collect();
    assert_eq!(
        left,
        [
            "left out: ensembles/c.yml (ignored by a `.gitignore` or `.ignore`)",
            "left out: ensembles/node_modules (a folder of other programs)",
            "left out: ensembles/team.yaml (excluded)",
        ]
    );
}

#[test]
fn what_is_wrong_with_a_configuration_is_found_at_its_place() {
    let config = "model_profiles:
  p: {provider: olama, model: m}
validate:
  levels:
    W999: error
    E021: hint
    W012: loud
    w003: hint
    W003: error
  exclude: ['vendor/**', '[a', 3, '# b']
  deny_warnings: 'yes'
  outptu: json
levels: {}
";
    let workspace = with(config);
    let expected = [
        "E016 2:17",
        "E078 5:5",
        "E078 6:11",
        "E016 7:11",
        "E078 9:5",
        "E079 10:26",
        "E014 10:32",
        "E079 10:35",
        "E014 11:18",
        "E010 12:3",
        "E010 13:1",
    ];
    for arguments in [
        &["validate", "--output", "json"][..],
        &["validate", "--output", "json", CONFIG],
    ] {
        let outcome = workspace.run(arguments).expect_code(2);
        let report = outcome.json();
        let found = report["diagnostics"].as_array().expect("a list").iter();
        let found: Vec<String> = found
            .filter(|one| one["file"] == CONFIG)
            .map(|one| {
                format!(
                    "{} {}:{}",
                    one["code"].as_str().unwrap_or_default(),
                    one["line"],
                    one["column"]
                )
            })
            .collect();
        assert_eq!(found, expected);
        assert_eq!(outcome.stderr, "");
    }
    for format in FORMATS {
        let outcome = workspace.run(["validate", "--output", format]).expect_code(2);
        for text in ["E078", "E079", "W999", CONFIG] {
            assert!(outcome.stdout.contains(text), "{format}: {text}");
        }
    }
    // What is right of it counts.
    let outcome = workspace.run(["validate", "--output", "json"]);
    assert!(levels(&outcome).contains(&"hint W003".to_owned()), "{}", outcome.stdout);
    let help = outcome.json()["diagnostics"].to_string();
    for text in [
        "did you mean `output`?",
        "`levels` is a key of `validate`",
        "`run` refuses an ensemble with an error",
    ] {
        assert!(help.contains(text), "{text}: {help}");
    }
}

#[test]
fn a_right_configuration_is_found_right_and_comments_allow_in_it() {
    let secret = format!("{}{}", "sk-proj-aB3dE5fG7hJ9", "kL1mN2pQ4rS6tU8v");
    let profile =
        |comment: &str| format!("model_profiles:\n  p:\n    provider: simulated\n    replies: [{secret}]{comment}\n");
    let workspace = with(&profile(""));
    let (found, code) = checked(&workspace, &[CONFIG]);
    assert_eq!((found, code), (vec!["warning W014".to_owned()], 0));
    let shown = workspace.run(["validate", CONFIG]).stdout;
    assert!(!shown.contains("sk-proj"), "{shown}");
    for right in [
        profile(" # ensemble: allow(W014) a test"),
        "# nothing\n".to_owned(),
        String::new(),
        "validate:\n".to_owned(),
    ] {
        workspace.write(CONFIG, &right);
        let outcome = workspace.run(["validate", CONFIG]).expect_code(0);
        assert_eq!(
            outcome.stderr, "1 file checked: 0 errors, 0 warnings, 0 hints\n",
            "{right}"
        );
    }
    // By the name that it has in its own folder.
    workspace.write(CONFIG, "validate: {levels: {W999: error}}\n");
    let inside = workspace
        .run(["-C", ".ensemble", "validate", "config.yaml"])
        .expect_code(2);
    assert!(inside.stdout.contains("E078"), "{}", inside.stdout);
    // One that has another name is an ensemble.
    workspace.write("other/config.yaml", "validate: {}\n");
    let other = workspace.run(["validate", "other/config.yaml"]).expect_code(2);
    assert!(other.stdout.contains("E013"), "{}", other.stdout);
}

#[test]
fn levels_need_no_trust_and_a_run_takes_no_notice_of_them() {
    let config = "model_profiles:\n  far: {provider: openai, model: m, api_key_env: MINE}\n\
                  validate: {levels: {W003: error, W999: error}}\n";
    let workspace = with(config);
    let outcome = workspace.wary(["validate", "--output", "json"], &[]).expect_code(2);
    assert!(
        levels(&outcome).contains(&"error W003".to_owned()),
        "{}",
        outcome.stdout
    );
    assert_eq!(outcome.stderr, "");
    // A wrong setting stops no run, and a level hides nothing from one.
    workspace.write(
        "one.yaml",
        "name: e\nagents: [{name: a, script: a.rhai}]\nmodel_profiles: {idle: {provider: simulated, replies: [x]}}\n",
    );
    workspace.write("a.rhai", "1");
    workspace.write(CONFIG, "validate: {levels: {W999: error, H010: error}}\n");
    workspace.run(["run", "one.yaml"]).expect_code(0);
    workspace.run(["validate", "one.yaml"]).expect_code(2);
}

#[test]
fn an_error_stays_one_and_a_run_is_refused() {
    let workspace = with("validate: {levels: {E010: 'off', E021: 'off'}, exclude: ['*']}\n");
    workspace.write(
        "e.yaml",
        "name: e\nagents: [{name: a, script: x, depends_on: [b], unknown: 1}]\n",
    );
    let (found, code) = checked(&workspace, &["e.yaml"]);
    assert_eq!(code, 2);
    assert_eq!(found, ["error E078", "error E078", "error E021", "error E010"]);
}

#[test]
fn settings_of_the_user_have_no_effect_and_that_is_said() {
    let workspace = with("");
    workspace.write(
        "home/.config/ensemble/config.yaml",
        "validate: {levels: {W003: error}}\n",
    );
    let outcome = workspace.run(["validate", "--output", "json"]).expect_code(0);
    assert_eq!(
        levels(&outcome),
        ["warning W053", "warning W003", "warning W001", "hint H010"]
    );
    let user = "home/.config/ensemble/config.yaml";
    assert_eq!(checked(&workspace, &[user]).0, ["warning W053"]);
}
