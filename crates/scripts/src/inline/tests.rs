use serde_json::json;

use super::super::budget::INITIAL_READ_BUDGET;
use super::super::{Script, engine_crash_failure};
use super::*;
use ensemble_language::data::RunContext;

fn attempt(text: &str, variables: &[(&'static str, ScriptVariable)]) -> Option<Result<Value, ScriptFailure>> {
    let script = Script::compile(text).expect("a script");
    assert!(can_run_inline(&script.ast, &script.words), "{text}");
    try_run_inline(&script.ast, &script.words, variables)
}

/// Returns a context with a value that is too large to be handed over.
fn context() -> ScriptVariable {
    let large = json!(vec![1; INITIAL_READ_BUDGET]);
    let entries = [("small", json!(1)), ("large", large)];
    let entries = entries.map(|(key, value)| (Arc::from(key), Arc::new(value)));
    ScriptVariable::Context(Arc::new(RunContext::from_iter(entries)))
}

#[test]
fn short_scripts_end_here() {
    for (text, expected) in [
        ("#{a: 1 + 1}", json!({"a": 2})),
        ("let t = 0; for i in 0..100 { t += i; } t", json!(4950)),
        ("[3, 4].map(|x| x * 2).filter(|x| x > 6)", json!([8])),
        ("fn f(x) { if x == 0 { 0 } else { 1 + f(x - 1) } } f(2)", json!(2)),
        ("context.small + context.len()", json!(3)),
        (
            "[context.get(\"none\", 5), context.keys()]",
            json!([5, ["small", "large"]]),
        ),
    ] {
        assert_eq!(attempt(text, &[("context", context())]), Some(Ok(expected)), "{text}");
    }
    let ended = attempt("throw \"no\"", &[]);
    assert!(matches!(ended, Some(Err(ScriptFailure::Reported(error))) if error.message == "no"));
}

#[test]
fn what_needs_more_is_given_up() {
    for text in [
        "loop { }",
        "try { loop { } } catch { 1 }",
        "fn f(x) { if x == 0 { 0 } else { 1 + f(x - 1) } } f(9)",
        "fn f(x) { f(x) } let r = 0; try { f(1) } catch { r = 1; } r",
        "let s = \"x\"; for i in 0..17 { s += s; } s.len()",
        "let a = []; a.pad(1001, 0); a.len()",
        "let a = []; a.pad(900, []); for i in 0..200 { a[0].push(1) } 1",
        "context.large.len()",
        "let r = 1; try { r = context[\"large\"]; } catch { r = 2; } 3",
        "context",
        "try { to_json(context) } catch { 1 }",
        "for i in 0..150 { context.keys(); context.keys(); context.keys(); context.keys() } 1",
    ] {
        assert_eq!(attempt(text, &[("context", context())]), None, "{text}");
    }
}

#[test]
fn what_is_handed_over_is_bounded_where_it_is_read() {
    let long: Arc<str> = "x".repeat(INITIAL_READ_BUDGET * 64).into();
    let many: Vec<_> = (0..INITIAL_READ_BUDGET)
        .map(|at| (Arc::from(at.to_string()), Arc::new(json!(at))))
        .collect();
    for variable in [
        ScriptVariable::Text(Arc::clone(&long)),
        ScriptVariable::Json(Arc::new(json!({ "a": [*long] }))),
        ScriptVariable::Json(Arc::new(json!({ *long: 1 }))),
        ScriptVariable::Map(Arc::new([("a".to_owned(), json!(*long))].into_iter().collect())),
        ScriptVariable::Outputs(many),
    ] {
        assert_eq!(attempt("value; 1", &[("value", variable.clone())]), None);
        assert_eq!(attempt("2", &[("value", variable)]), Some(Ok(json!(2))));
    }
}

#[test]
fn unfit_scripts_are_not_begun() {
    for text in [
        format!("let n = 1; {}n{}", "[".repeat(DEPTH_LIMIT), "]".repeat(DEPTH_LIMIT)),
        format!("let n = 1; n{}", " + n".repeat(50)),
        format!("fn f(n) {{ n{} }} 1", " + n".repeat(50)),
        "let a = [2, 1]; a.sort(|x, y| x - y); a".into(),
        "let a = [2, 1]; a.sort_by(|x, y| x - y); a".into(),
        "Fn(\"so\" + \"rt\").call([1, 2])".into(),
    ] {
        let script = Script::compile(&text).expect("a script");
        assert!(!can_run_inline(&script.ast, &script.words), "{text:.40}");
    }
}

/// Callers have stacks of two megabytes and more; unoptimised code takes several times as much as optimised.
#[test]
fn a_small_stack_is_enough() {
    let nested = |begin: &str, inner: &str, end: &str, levels: usize| {
        format!("{}{inner}{}", begin.repeat(levels), end.repeat(levels))
    };
    let recursive = nested("abs(", "if n == 0 { 0 } else { f(n - 1) }", ")", 9);
    for text in [
        format!("let n = 1; {}", nested("abs(", "n", ")", 13)),
        format!("let n = [1]; {}", nested("for x in n {", "n;", "}", 7)),
        format!("let n = 1; {}", nested("switch n { 1 => ", "n", "}", 6)),
        format!("fn f(n) {{ {recursive} }} f(3)"),
        "let a = []; for i in 0..70 { a = [[[[[[[[[a]]]]]]]]]; } 1".into(),
        "let a = #{}; for i in 0..70 { a = #{a: #{a: #{a: #{a: #{a: #{a: #{a: a}}}}}}}; } 1".into(),
        format!("parse_json(\"{}{}\")", "[".repeat(99), "]".repeat(99)),
    ] {
        let script = Script::compile(&text).expect("a script");
        assert!(can_run_inline(&script.ast, &script.words), "{text}");
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let thread = thread.spawn(move || try_run_inline::<&str>(&script.ast, &script.words, &[]));
        let ended = thread.expect("a thread").join().expect("it ended");
        assert!(matches!(ended, Some(Ok(_))), "{text}: {ended:?}");
    }
}

#[test]
fn a_defect_of_the_engine_is_a_failure() {
    assert_eq!(attempt("break_down()", &[]), Some(Err(engine_crash_failure())));
    assert_eq!(attempt("1", &[]), Some(Ok(json!(1))));
}
