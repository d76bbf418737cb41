//! `# ensemble: allow(CODE) reason`, `--allow` and `--deny` through the binary.

use crate::support::Workspace;

/// `W001 4:20 message`, for each finding.
fn found(text: &str, more: &[&str]) -> Vec<String> {
    let workspace = Workspace::new();
    workspace.write("a.rhai", "1");
    workspace.write("e.yaml", text);
    let report = workspace
        .run([&["validate", "e.yaml", "--format", "json"], more].concat())
        .json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    let shown = diagnostics.iter().map(|one| {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}:{} {}", text("code"), one["line"], one["column"], text("message"))
    });
    shown.collect()
}

/// An agent of which the third line has a warning.
fn agent(line: &str) -> String {
    format!("name: e\nagents:\n  - name: a\n{line}\n")
}

const UNKNOWN: &str = "unknown model profile `p`";

#[test]
fn a_comment_on_the_line_or_above_it_allows_a_warning() {
    for text in [
        "    model_profile: p # ensemble: allow(W001) elsewhere",
        "    model_profile: 'p'   #ensemble:allow( w001 ) elsewhere",
        "    # ensemble: allow(W001) elsewhere\n    model_profile: p",
        "    # ensemble: allow(W001) elsewhere\n    # and more about it\n    model_profile: p",
    ] {
        assert_eq!(found(&agent(text), &[]), [""; 0], "{text}");
        assert_eq!(found(&agent(&text.replace('\n', "\r\n")), &[]), [""; 0], "{text}");
    }
    let far = agent("    # ensemble: allow(W001) elsewhere\n    description: d\n    model_profile: p");
    assert_eq!(
        found(&far, &[]),
        [
            "W004 4:23 there is no W001 on line 5 for this comment to allow".to_owned(),
            format!("W001 6:20 {UNKNOWN}")
        ]
    );
}

#[test]
fn one_comment_allows_several_codes_and_hints() {
    let text = "name: e\nagents:\n  - {name: a, script: a.rhai, conversation: {state_key: k}}\n  # ensemble: allow(H003, W003) on purpose\n  - {name: b, script: missing-program, conversation: {state_key: k}}\n";
    assert_eq!(found(text, &[]), [""; 0]);
}

#[test]
fn a_sign_inside_a_text_is_no_comment() {
    let texts = [
        "    description: '\n      # ensemble: allow(W001) x'\n    model_profile: p",
        "    description: \"a # ensemble: allow(W001) x\"\n    model_profile: p",
        "    description: \"\\\" # ensemble: allow(W001) x\"\n    model_profile: p",
        "    description: |\n      a\n      # ensemble: allow(W001) x\n    model_profile: p",
        "    description: >-\n      # ensemble: allow(W001) x\n    model_profile: p",
        "    description: a#ensemble:allow(W001)\n    model_profile: p",
        "    ? description\n    : [\"é # ensemble: allow(W001) x\"]\n    model_profile: p",
        "    # as in: # ensemble: allow(W001) x\n    model_profile: p",
    ];
    for text in texts {
        let found = found(&agent(text), &[]);
        assert!(
            found.iter().any(|one| one.starts_with("W001")) || found.iter().any(|one| one.starts_with("E014")),
            "{text}: {found:?}"
        );
        assert!(!found.iter().any(|one| one.starts_with("W004")), "{text}: {found:?}");
    }
}

#[test]
fn a_comment_beside_or_below_a_text_is_one() {
    for text in [
        "    description: | # ensemble: allow(W003) x\n      a\n    script: a.rhai",
        "    description: |\n      a\n    # ensemble: allow(W003) x\n    script: a.rhai",
        "    description: \"a\" # ensemble: allow(W003) x\n    script: a.rhai",
        "    description: [a, # ensemble: allow(W003) x\n      b]\n    script: a.rhai",
    ] {
        let found = found(&agent(text), &[]);
        let told = |one: &String| one.starts_with("W004") || one.starts_with("E014");
        assert!(found.len() == 1 && found.iter().all(told), "{text}: {found:?}");
    }
}

#[test]
fn comments_that_say_too_little_are_warnings() {
    let rows: &[(&str, &[&str])] = &[
        ("allow(W001)", &["W004 4:22 this `allow` comment has no reason"]),
        ("allow(W001) :-", &["W004 4:22 this `allow` comment has no reason"]),
        ("allow(W101) x", &["W001", "W004 4:40 there is no code `W101`"]),
        ("allow W001 x", &["W001", "W004 4:22 this `allow` comment is not valid"]),
        (
            "allow(H003) x",
            &["W001", "W004 4:40 there is no H003 on line 4 for this comment to allow"],
        ),
        (
            "allow(W001, W004) x",
            &["W004 4:46 W004 is about `allow` comments, so no comment can allow it"],
        ),
        ("allowed by me", &["W001"]),
    ];
    for (comment, expected) in rows {
        let found = found(&agent(&format!("    model_profile: p # ensemble: {comment}")), &[]);
        let expected: Vec<String> = expected
            .iter()
            .map(|one| match *one {
                "W001" => format!("W001 4:20 {UNKNOWN}"),
                other => other.to_owned(),
            })
            .collect();
        assert_eq!(found, expected, "{comment}");
    }
}

#[test]
fn errors_cannot_be_allowed() {
    let text = agent("    script: a.rhai\n    depends_on: [b] # ensemble: allow(E021) soon");
    assert_eq!(
        found(&text, &[]),
        [
            "E021 5:18 there is no agent `b`",
            "W004 5:39 E021 is an error and cannot be allowed"
        ]
    );
    let workspace = Workspace::new();
    let outcome = workspace.run(["validate", "--allow", "E021"]).expect_code(2);
    assert!(
        outcome.stderr.contains("E021 is an error and cannot be allowed"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn flags_allow_and_deny() {
    let text = "name: e\nagents:\n  - {name: a, script: a.rhai, conversation: {state_key: k}}\n  - {name: b, model_profile: p, conversation: {state_key: k}}\n";
    let workspace = Workspace::new();
    workspace.write("a.rhai", "1");
    workspace.write("e.yaml", text);
    let code = |more: &[&str]| workspace.run([&["validate", "e.yaml"], more].concat()).code;
    assert_eq!(code(&[]), 0);
    assert_eq!(code(&["--deny-warnings"]), 2);
    assert_eq!(code(&["--deny-warnings", "--allow", "W001"]), 0);
    assert_eq!(code(&["--deny", "H003"]), 2);
    assert_eq!(code(&["--deny", "h003,W003"]), 2);
    assert_eq!(code(&["--deny", "W003"]), 0);
    assert_eq!(code(&["--deny", "W001", "--allow", "W001"]), 2);
    assert_eq!(found(text, &["--allow", "W001,H003"]), [""; 0]);
    let outcome = workspace.run(["validate", "e.yaml", "--deny", "H003"]);
    assert!(outcome.stdout.contains("error[H003]"), "{}", outcome.stdout);
    let outcome = workspace.run(["validate", "e.yaml", "--deny", "H0003"]).expect_code(2);
    assert!(outcome.stderr.contains("did you mean `H003`?"), "{}", outcome.stderr);
}

#[test]
fn a_run_heeds_the_comments_and_says_nothing_of_them() {
    let workspace = Workspace::new();
    workspace.write("a.rhai", "1");
    let quiet = "name: e\nagents:\n  - name: a\n    script: a.rhai # ensemble: allow(W003) made by the build\n    conversation:\n      max_turns: 2";
    workspace.write("loud.yaml", format!("{quiet}\n"));
    workspace.write("quiet.yaml", format!("{quiet} # ensemble: allow(W002) one is enough\n"));
    let loud = workspace.run(["run", "loud.yaml"]).expect_code(0).stderr;
    let quiet = workspace.run(["run", "quiet.yaml"]).expect_code(0).stderr;
    assert!(loud.contains("W002") && !loud.contains("W004"), "{loud}");
    assert!(!quiet.contains("W002") && !quiet.contains("W004"), "{quiet}");
}
