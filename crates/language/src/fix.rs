//! Applies the fixes of findings to a text until nothing is left to fix.
//!
//! A text is checked again after each round, because a fix can disclose other findings. **Invariant:** a fix that makes the
//! text worse is not applied: the text is YAML afterwards if it was YAML before, and has no new error.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, FindingSeverity};
use crate::source::SourceText;
use crate::yaml::edit::{FixApplicability, TextFix, apply_fixes};

/// The highest number of rounds. Fixes that disclose others are few; the limit is for fixes that undo each other.
const MAX_FIX_ROUNDS: usize = 20;

/// The findings of a text, and whether the text is YAML and complete.
#[derive(Debug)]
pub struct TextFindings {
    /// Whether the text is YAML.
    pub is_yaml: bool,
    /// Whether the text is an ensemble without errors of the loader, so that all checks were made.
    pub is_whole: bool,
    /// The findings that are to be fixed.
    pub findings: Vec<Diagnostic>,
}

/// A text after its fixes, with its findings.
#[derive(Debug)]
pub struct FixedText {
    /// The text.
    pub source: SourceText,
    /// The findings that are left.
    pub checked: TextFindings,
    /// The number of fixes that were applied.
    pub applied_fixes: usize,
}

/// Applies all safe fixes, or all fixes with `with_unsafe`, in rounds until nothing is left to fix. Calls `check` after each change.
pub fn fix_text(
    source: &SourceText,
    with_unsafe: bool,
    mut check: impl FnMut(&SourceText) -> TextFindings,
) -> FixedText {
    let mut now = FixedText {
        source: source.clone(),
        checked: check(source),
        applied_fixes: 0,
    };
    for _ in 0..MAX_FIX_ROUNDS {
        let fixes = list_own_applicable_fixes(&now, with_unsafe);
        let together = apply_fixes_unless_worse(&now, &fixes, &mut check);
        let next = together.or_else(|| {
            let mut alone = fixes.iter().filter(|_| fixes.len() > 1);
            alone.find_map(|fix| apply_fixes_unless_worse(&now, std::slice::from_ref(fix), &mut check))
        });
        match next {
            Some(next) => now = next,
            None => break,
        }
    }
    now
}

/// Returns the fixes of this file that may be applied.
fn list_own_applicable_fixes(now: &FixedText, with_unsafe: bool) -> Vec<TextFix> {
    let fixes = now.checked.findings.iter().filter_map(|finding| finding.fix.as_ref());
    fixes
        .filter(|fix| with_unsafe || fix.applicability == FixApplicability::Safe)
        .filter(|fix| *fix.file == *now.source.name())
        .cloned()
        .collect()
}

/// Applies these fixes and checks the text. Returns `None` if nothing changes or the text becomes worse.
fn apply_fixes_unless_worse(
    now: &FixedText,
    fixes: &[TextFix],
    check: &mut impl FnMut(&SourceText) -> TextFindings,
) -> Option<FixedText> {
    let (text, count) = apply_fixes(now.source.text(), fixes);
    if count == 0 || *text == **now.source.text() {
        return None;
    }
    let source = SourceText::new(now.source.name(), text);
    let checked = check(&source);
    (!is_worse(&now.checked, &checked)).then(|| FixedText {
        source,
        checked,
        applied_fixes: now.applied_fixes + count,
    })
}

/// Returns whether the text is no longer YAML, is no longer complete, or has more errors of one code.
fn is_worse(before: &TextFindings, after: &TextFindings) -> bool {
    if before.is_yaml != after.is_yaml {
        return before.is_yaml;
    }
    if before.is_whole != after.is_whole {
        return before.is_whole;
    }
    // The messages may differ: after a corrected word, the next error of the same expression is found.
    let errors = |of: &TextFindings| {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for finding in of.findings.iter().filter(|one| one.severity == FindingSeverity::Error) {
            *counts.entry(finding.code.0).or_default() += 1;
        }
        counts
    };
    let earlier_counts = errors(before);
    errors(after)
        .iter()
        .any(|(code, count)| earlier_counts.get(code).is_none_or(|known| count > known))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check;
    use crate::loader::code_explanations::explain_code;
    use crate::loader::{codes, load_ensemble, locate_findings};
    use crate::source::Span;
    use crate::yaml::edit::TextEdit;

    fn check_text(source: &SourceText) -> TextFindings {
        let loaded = load_ensemble(source);
        let more = loaded.ensemble.as_ref().map(check::check_ensemble).unwrap_or_default();
        let findings = [loaded.findings.clone(), more].concat();
        TextFindings {
            is_yaml: loaded.document.is_some(),
            is_whole: loaded.ensemble.is_some(),
            findings: locate_findings(source, loaded.document.as_ref(), &findings),
        }
    }

    fn fix_all(text: &str) -> FixedText {
        fix_text(&SourceText::new("x", text), true, check_text)
    }

    fn has(code: &str, checked: &TextFindings) -> bool {
        checked.findings.iter().any(|finding| finding.code.0 == code)
    }

    fn wrong(code: crate::diagnostic::FindingCode) -> &'static str {
        let text = explain_code(code);
        let start = text.find("Wrong:\n\n```yaml\n").expect("an example") + "Wrong:\n\n```yaml\n".len();
        &text[start..start + text[start..].find("```").expect("its end")]
    }

    /// The codes whose wrong example has a fix.
    const FIXED: [&str; 27] = [
        "E004", "E007", "E010", "E014", "E017", "E019", "E021", "E024", "E025", "E026", "E028", "E039", "E042", "E046",
        "E061", "E071", "E086", "E108", "W012", "W034", "W036", "W065", "H010", "H011", "H012", "H020", "H028",
    ];

    #[test]
    fn wrong_examples_with_a_fix_are_right_with_it() {
        let mut fixed = Vec::new();
        for (code, _) in codes::ALL {
            let text = wrong(*code);
            let before = check_text(&SourceText::new("x", text));
            let own = before.findings.iter().filter(|finding| finding.code == *code);
            if own.filter(|finding| finding.fix.is_some()).count() > 0 {
                fixed.push(code.0);
                let after = fix_all(text);
                assert!(!has(code.0, &after.checked), "{}: {}", code.0, after.source.text());
                let errors = after
                    .checked
                    .findings
                    .iter()
                    .filter(|one| one.severity == FindingSeverity::Error);
                assert_eq!(errors.count(), 0, "{}: {}", code.0, after.source.text());
            }
        }
        assert_eq!(fixed, FIXED);
    }

    #[test]
    fn safe_fixes_leave_unsafe_ones() {
        let text = "name: e\nagents:\n  - {name: writer, Script: x}\n  - {name: b, script: y, depends_on: [writr]}\n";
        let safe = fix_text(&SourceText::new("x", text), false, check_text);
        assert_eq!(&**safe.source.text(), text.replace("Script", "script"));
        assert_eq!((safe.applied_fixes, safe.checked.findings.len()), (1, 1));
        let all = fix_all(text);
        assert_eq!((all.applied_fixes, all.checked.findings.len()), (2, 0));
    }

    #[test]
    fn a_fix_that_makes_the_text_worse_is_not_applied() {
        // The right name of the key is there already.
        let text = "name: e\nagents:\n  - {name: b, model: ollama/x, role: a, system_prompt: b}\n";
        let after = fix_all(text);
        assert_eq!((&**after.source.text(), after.applied_fixes), (text, 0));
        // Another fix is applied nevertheless.
        let other = text.replace("agents", "default_task: 5\nagents");
        assert_eq!(fix_all(&other).applied_fixes, 1, "{}", fix_all(&other).source.text());
    }

    #[test]
    fn a_fix_with_more_errors_of_a_known_code_is_not_applied() {
        let error = |text: &str, fix: Option<TextFix>| Diagnostic {
            severity: FindingSeverity::Error,
            code: codes::UNKNOWN_AGENT,
            message: String::new(),
            source: SourceText::new("x", text),
            span: Span::default(),
            related: Vec::new(),
            help: None,
            fix,
        };
        let written = |replacement: &str| TextFix {
            title: String::new(),
            applicability: FixApplicability::Safe,
            file: "x".into(),
            edits: vec![TextEdit::new(Span::new(0, 1), replacement)],
        };
        // How many errors the text has after the fix, and whether the fix is applied then.
        for (count, is_applied) in [(0, true), (1, true), (2, false)] {
            let after = fix_text(&SourceText::new("x", "a"), false, |source| TextFindings {
                is_yaml: true,
                is_whole: true,
                findings: match &**source.text() {
                    "a" => vec![error("a", Some(written("b")))],
                    text => (0..count).map(|_| error(text, None)).collect(),
                },
            });
            assert_eq!(after.applied_fixes, usize::from(is_applied), "{count} errors");
        }
    }

    #[test]
    fn a_fix_may_disclose_the_next_error_of_an_expression() {
        let text = "name: e\nagents:\n  - {name: a, script: x}\n  - name: b\n    script: y\n    dependencies:\n      - {agent_name: a, condition: 'TRUE and outputs.a.x === null'}\n";
        let after = fix_text(&SourceText::new("x", text), false, check_text);
        let right = text
            .replace("TRUE", "True")
            .replace("===", "==")
            .replace("null", "None");
        assert_eq!((&**after.source.text(), after.applied_fixes), (&*right, 3));
    }

    /// Returns a text with a few changes.
    fn mutated() -> impl Strategy<Value = String> {
        let change = (any::<prop::sample::Index>(), 0..6_u8);
        let texts: Vec<&'static str> = codes::ALL.iter().map(|(code, _)| wrong(*code)).collect();
        (prop::sample::select(texts), prop::collection::vec(change, 1..4)).prop_map(|(text, changes)| {
            let mut text = text.to_owned();
            for (index, kind) in changes {
                let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                let at = starts[index.index(starts.len())];
                match kind {
                    0 => drop(text.remove(at)),
                    1 => text.insert(at, 'x'),
                    2 => text.insert(at, '\''),
                    3 => text.insert_str(at, ": "),
                    4 => text.insert(at, '\n'),
                    _ => {
                        let line = text[..at].rfind('\n').map_or(0, |at| at + 1);
                        let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
                        let again = text[line..end].to_owned();
                        text.insert_str(line, &again);
                    }
                }
            }
            text
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn fixes_never_break_a_text_and_end(text in mutated()) {
            let before = check_text(&SourceText::new("x", text.as_str()));
            let once = fix_all(&text);
            prop_assert!(once.checked.is_yaml || !before.is_yaml);
            prop_assert!(once.checked.is_whole || !before.is_whole);
            let twice = fix_all(once.source.text());
            prop_assert_eq!(twice.source.text(), once.source.text());
            prop_assert_eq!(twice.applied_fixes, 0);
        }
    }
}
