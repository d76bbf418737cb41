//! What scripts can do, and what they cannot.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::*;
use ensemble_language::data::RunContext;

fn context() -> Arc<RunContext> {
    let entries = [
        ("a", json!(1)),
        ("b", json!({"c": [1, 2.5, null, "x"]})),
        ("none", json!(null)),
    ];
    Arc::new(
        entries
            .into_iter()
            .map(|(key, value)| (key.into(), Arc::new(value)))
            .collect(),
    )
}

/// Its end on a thread of its own, and where it is asked for if it ends there: both must be the same.
fn run(text: &str) -> Result<Value, ScriptFailure> {
    let script = Script::compile(text).map_err(ScriptFailure::Reported)?;
    let input = json!({"n": 2, "list": [1, true, null, 1.5], "big": u64::MAX});
    let variables = vec![
        ("input", ScriptVariable::Json(Arc::new(input))),
        ("context", ScriptVariable::Context(context())),
    ];
    let inline = inline::can_run_inline(&script.ast, &script.words)
        .then(|| inline::try_run_inline(&script.ast, &script.words, &variables))
        .flatten();
    let ended = stopped_by(&script, variables, || false);
    assert!(
        inline.is_none() || inline.as_ref() == Some(&ended),
        "{text}: {inline:?}, {ended:?}"
    );
    ended
}

fn stopped_by(
    script: &Arc<Script>,
    variables: Vec<(&'static str, ScriptVariable)>,
    stop: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Value, ScriptFailure> {
    let script = Arc::clone(script);
    workers::run_and_wait(move || {
        script.run_on_this_thread(
            build_named_scope(&variables, &script.words, ScriptVariable::to_dynamic),
            stop,
        )
    })
    .expect("a thread")
}

fn message(text: &str) -> String {
    match run(text) {
        Err(ScriptFailure::Reported(error)) => error.message,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn values_become_json() {
    for (text, expected) in [
        ("42", json!(42)),
        ("1.5", json!(1.5)),
        ("\"text\"", json!("text")),
        ("'c'", json!("c")),
        ("()", json!(null)),
        ("", json!(null)),
        ("let x = 1;", json!(null)),
        ("true", json!(true)),
        ("[1, [2.0, 'x'], #{}]", json!([1, [2.0, "x"], {}])),
        ("#{a: 1, b: #{c: [()]}}", json!({"a": 1, "b": {"c": [null]}})),
        (
            "input",
            json!({"n": 2, "list": [1, true, null, 1.5], "big": 18_446_744_073_709_551_615.0}),
        ),
        ("input.list[3] + input.n", json!(3.5)),
        (
            "let t = 0; for i in 0..10 { if i == 5 { continue; } t += i; } t",
            json!(40),
        ),
        ("fn double(x) { x * 2 } double(21)", json!(42)),
        (
            "[1, 2, 3].map(|x| x * 2).filter(|x| x > 2).reduce(|sum, x| (sum ?? 0) + x)",
            json!(10),
        ),
        ("let s = 0; let f = |x| s += x; f.call(2); f.call(3); s", json!(5)),
        ("let x = 1; let f = || x; [x, #{y: x}]", json!([1, {"y": 1}])),
        ("`n is ${input.n}`", json!("n is 2")),
        (
            "let r = 0; try { throw \"a\" } catch (e) { r = \"caught \" + e; } r",
            json!("caught a"),
        ),
        (
            "switch input.n { 1 => \"one\", 2 => \"two\", _ => \"many\" }",
            json!("two"),
        ),
        ("\"a,b\".split(\",\")", json!(["a", "b"])),
        ("\"a b  c\".split()", json!(["a", "b", "c"])),
        ("\"abc\".to_upper() + \"x\".len()", json!("ABC1")),
        ("2.0.sqrt() > 1.4 && 7 % 4 == 3 && (5).max(7) == 7", json!(true)),
        ("return #{done: true}; 5", json!({"done": true})),
        ("print(1); debug(2); 3", json!(3)),
        ("type_of(input)", json!("map")),
        ("range(0, 3).contains(2)", json!(true)),
    ] {
        assert_eq!(run(text), Ok(expected), "{text}");
    }
}

#[test]
fn helpers() {
    for (text, expected) in [
        ("#{a: 1}.get(\"a\", 5)", json!(1)),
        ("#{a: 1}.get(\"b\", 5)", json!(5)),
        ("#{a: 1}.get(\"b\") == ()", json!(true)),
        ("parse_json(\"{\\\"a\\\": [1, null, 2.5]}\").a", json!([1, null, 2.5])),
        ("let r = 0; try { parse_json(\"{\") } catch { r = 7; } r", json!(7)),
        ("to_json(#{a: [1, ()]})", json!("{\"a\":[1,null]}")),
        ("parse_json(to_json(input)).n", json!(2)),
    ] {
        assert_eq!(run(text), Ok(expected), "{text}");
    }
    assert!(message("parse_json(\"[1\")").starts_with("the text is not valid JSON"));
    assert!(message("to_json(|x| x)").contains("a function"));
    assert!(message("to_json(#{f: |x| x})").contains("a function"));
}

#[test]
fn context_is_read_in_place() {
    for (text, expected) in [
        ("context.a", json!(1)),
        ("context[\"a\"] + 1", json!(2)),
        ("context.missing", json!(null)),
        ("context[\"missing\"] == ()", json!(true)),
        ("context.missing ?? 3", json!(3)),
        (
            "to_json(#{c: context, d: [context]})",
            json!(
                r#"{"c":{"a":1,"b":{"c":[1,2.5,null,"x"]},"none":null},"d":[{"a":1,"b":{"c":[1,2.5,null,"x"]},"none":null}]}"#
            ),
        ),
        ("context.get(\"a\")", json!(1)),
        ("context.get(\"x\")", json!(null)),
        ("context.get(\"x\", 9)", json!(9)),
        ("context.contains(\"a\")", json!(true)),
        ("\"none\" in context", json!(true)),
        ("\"x\" in context", json!(false)),
        ("context.keys()", json!(["a", "b", "none"])),
        ("context.len()", json!(3)),
        ("context.is_empty()", json!(false)),
        ("context.b.c[1]", json!(2.5)),
        ("context.b", json!({"c": [1, 2.5, null, "x"]})),
        (
            "context",
            json!({"a": 1, "b": {"c": [1, 2.5, null, "x"]}, "none": null}),
        ),
        (
            "let all = []; for key in context.keys() { all.push(context[key] == ()); } all",
            json!([false, false, true]),
        ),
        ("type_of(context)", json!("context")),
    ] {
        assert_eq!(run(text), Ok(expected), "{text}");
    }
    assert!(run("context.a = 5; 1").is_err(), "the snapshot cannot be changed");
    assert!(run("context[\"a\"] = 5; 1").is_err());
}

#[test]
fn what_it_throws_is_the_message() {
    for (text, expected) in [
        ("throw \"no luck\"", "no luck"),
        ("throw #{error: \"no luck\", code: 5}", "no luck"),
        ("throw #{code: 5}", "{\"code\":5}"),
        ("throw [1, 2]", "[1,2]"),
        ("throw 42", "42"),
        ("throw", "the script failed without a message"),
        ("fn f() { throw \"deep\" } f()", "deep"),
        (
            "fn f() { g() } fn g() { throw #{error: \"deeper\"} } [1].map(|x| f())",
            "deeper",
        ),
    ] {
        assert_eq!(message(text), expected, "{text}");
    }
    let Err(ScriptFailure::Reported(error)) = run("let x = 1;\n\nlet y = x.nope();") else {
        panic!("an unknown function");
    };
    assert!(error.message.contains("nope"), "{}", error.message);
    assert!(!error.message.contains("line"), "{}", error.message);
    assert_eq!((error.line, error.column), (3, 11));
    let Err(ScriptFailure::Reported(error)) = run("fn f() {\n  throw \"x\"\n}\nf()") else {
        panic!("a throw");
    };
    assert_eq!((error.line, error.column), (2, 3));
    for (text, part) in [
        ("1 / 0", "ivision by zero"),
        ("unknown", "unknown"),
        ("[1][5]", "5"),
        ("9223372036854775807 + 1", "overflow"),
        ("|x| x", "contains a function"),
        ("#{f: Fn(\"abs\")}", "contains a function"),
        ("0.0 / 0.0", "not a JSON number"),
        ("0..5", "JSON cannot represent"),
    ] {
        assert!(message(text).contains(part), "{text}: {}", message(text));
    }
}

#[test]
fn errors_of_the_text_have_a_place() {
    let error = Script::compile("let x = 1;\nlet = 2;").unwrap_err();
    assert_eq!((error.line, error.column), (2, 5), "{error:?}");
    assert!(!error.message.contains("line 2"));
    for text in ["(", "fn", "let x = \"abc", "}", "`", "x = = 1", "#{", "\u{0}", "0x"] {
        assert!(Script::compile(text).is_err(), "{text}");
    }
}

#[test]
fn nothing_reaches_outside() {
    for text in [
        "eval(\"1\")",
        "import \"x\" as y; 1",
        "Fn(\"eval\").call(\"1\")",
        "let f = \"eval\"; call(f, \"1\")",
        "sleep(1)",
        "Fn(\"sleep\").call(1)",
        "timestamp()",
        "Fn(\"timestamp\").call()",
        "open(\"/etc/passwd\")",
        "exit(1)",
        "rand()",
    ] {
        assert!(
            matches!(run(text), Err(ScriptFailure::Reported(_))),
            "{text}: {:?}",
            run(text)
        );
    }
}

#[test]
fn limits_end_it() {
    for text in [
        "let s = \"x\"; loop { s += s; }",
        "let s = \"xxxxxxxxxxxxxxxx\"; loop { s.replace(\"x\", \"xxxxxxxxxxxxxxxx\"); }",
        "let a = [1]; loop { a += a; }",
        "let a = []; a.pad(100000000, 0);",
        "let s = \"\"; s.pad(1000000000, \"x\");",
        "let m = #{}; let n = 0; loop { m[\"k\" + n] = [0, 0, 0, 0, 0, 0, 0, 0]; m[\"l\" + n] = m; n += 1; }",
        "fn f(x) { f(x + 1) } f(0)",
        "let f = |x, f| f.call(x, f); f.call(1, f)",
        "let s = \",\"; for i in 0..22 { s += s; } s.split(\",\")",
        "let s = \",\"; for i in 0..22 { s += s; } s.to_chars()",
    ] {
        let ended = run(text);
        assert!(matches!(ended, Err(ScriptFailure::Limit(_))), "{text}: {ended:?}");
    }
    let Err(ScriptFailure::Limit(error)) = run("\n  try { loop { } } catch { 1 }") else {
        panic!("a loop without end");
    };
    assert!(error.message.contains("more than 50000000 operations"));
    assert_eq!(error.line, 2);
}

#[test]
fn depth_is_no_danger() {
    for text in [
        format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{}1", "-".repeat(100_000)),
        format!("{}{}", "if true {".repeat(10_000), "}".repeat(10_000)),
        format!("1{}", " + 1".repeat(50_000)),
        format!("let x = #{{}}; x{}", ".x".repeat(50_000)),
        "let a = []; for i in 0..300 { a = [a]; } a".into(),
        "fn f(n) { if n == 0 { 0 } else { ((((((((((1 + f(n - 1))))))))))) } } f(60)".into(),
    ] {
        let _ = run(&text);
    }
    assert!(message("let a = []; for i in 0..300 { a = [a]; } a").contains("is nested deeper"));
}

#[test]
fn it_stops_when_told() {
    let script = Script::compile("loop { }").unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let stop = move || count.fetch_add(1, Ordering::Relaxed) >= 3;
    assert_eq!(stopped_by(&script, Vec::new(), stop), Err(ScriptFailure::Stopped));
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    let caught = Script::compile("try { loop { } } catch { 1 }").unwrap();
    assert_eq!(stopped_by(&caught, Vec::new(), || true), Err(ScriptFailure::Stopped));
}

#[tokio::test]
async fn one_script_runs_many_times() {
    let script = Script::compile("n += 1; n").unwrap();
    for n in 0..3 {
        let value = script.run(vec![("n", ScriptVariable::Number(n))]).await;
        assert_eq!(value, Ok(json!(n + 1)));
    }
}

#[test]
fn a_text_is_compiled_once_for_as_long_as_somebody_has_it() {
    let text = "\"shared by those who have it\"";
    let first = Script::compile(text).unwrap();
    assert!(Arc::ptr_eq(&first, &Script::compile(text).unwrap()));
    let weak = Arc::downgrade(&first);
    drop(first);
    assert!(weak.upgrade().is_none(), "nobody has it");
    assert!(Script::compile(text).is_ok());
}

#[tokio::test]
async fn a_variable_that_is_not_named_is_not_converted() {
    let script = Script::compile("[is_def_var(\"other\"), `${named}`]").unwrap();
    assert!(
        script.may_read_variable("named") && script.may_read_variable("other") && !script.may_read_variable("name")
    );
    let outputs = vec![(Arc::from("a"), Arc::new(json!([1])))];
    let variables = vec![
        ("named", ScriptVariable::Outputs(outputs)),
        ("other", ScriptVariable::Text("x".into())),
        ("unnamed", ScriptVariable::Text("y".into())),
    ];
    assert_eq!(script.run(variables).await, Ok(json!([true, "#{\"a\": [1]}"])));
}

#[test]
fn a_defect_of_the_engine_is_no_end_of_the_others() {
    let slow = "let t = 0; for i in 0..2000 { t += i; } ";
    let script = Script::compile(&format!("{slow} break_down()")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(
        runtime.block_on(script.run::<&str>(Vec::new())),
        Err(engine_crash_failure())
    );
    let script = Script::compile(&format!("{slow} t")).unwrap();
    assert_eq!(runtime.block_on(script.run::<&str>(Vec::new())), Ok(json!(1_999_000)));
}

#[tokio::test]
async fn a_script_that_nobody_waits_for_gives_its_thread_back() {
    let script = Script::compile("loop { }").unwrap();
    let mut runs: Vec<_> = (0..20).map(|_| Box::pin(script.run::<&str>(Vec::new()))).collect();
    for run in &mut runs {
        assert!(futures_util::poll!(run).is_pending());
    }
    assert_eq!(Arc::strong_count(&script), 21, "each is under way");
    drop(runs);
    for _ in 0..2_000 {
        if Arc::strong_count(&script) == 1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} scripts go on", Arc::strong_count(&script) - 1);
}

#[tokio::test]
async fn a_thousand_scripts_side_by_side_each_have_their_own_value() {
    for (text, factor) in [("n * 2", 2), ("let t = 0; for i in 0..500 { t += n; } t", 500)] {
        let script = Script::compile(text).unwrap();
        let runs = (0..1_000).map(|n| script.run(vec![("n", ScriptVariable::Number(n))]));
        let ended = futures_util::future::join_all(runs).await;
        for (n, ended) in ended.into_iter().enumerate() {
            assert_eq!(ended, Ok(json!(n * factor)));
        }
    }
}

#[tokio::test]
async fn what_was_too_long_once_is_not_begun_twice() {
    let script = Script::compile("let t = 0; for i in 0..n { t += 1; } t").unwrap();
    for (n, inline) in [(5, true), (2_000, false), (5, false)] {
        assert_eq!(script.run(vec![("n", ScriptVariable::Number(n))]).await, Ok(json!(n)));
        assert_eq!(script.inline.load(Ordering::Relaxed), inline);
    }
}

/// Whatever calls back, a callback that nests too deeply to be run on the spot gives what it gives on a thread.
#[test]
fn no_function_hides_that_a_callback_was_given_up() {
    let methods = [
        "all",
        "any",
        "call",
        "clear",
        "contains",
        "curry",
        "dedup",
        "drain",
        "every",
        "filter",
        "find",
        "find_index",
        "find_map",
        "for_each",
        "index_of",
        "map",
        "order",
        "order_by",
        "reduce",
        "reduce_rev",
        "retain",
        "some",
        "sort",
        "sort_by",
        "sort_desc",
        "splice",
        "zip",
    ];
    let deep = "fn deep(n) { if n == 0 { true } else { deep(n - 1) } }";
    for method in methods {
        for value in ["[1, 1, 2]", "#{a: 1, b: 1}"] {
            for parameters in ["", "x", "x, y", "x, y, z"] {
                let text = format!("{deep} let v = {value}; let r = v.{method}(|{parameters}| deep(9)); [v, r]");
                let _the_same_on_either_way = run(&text);
            }
        }
    }
}
