//! What is refused, where, and at which limit.

use super::*;

#[test]
fn refusals_say_what_to_write() {
    check(&[
        ("", "the condition is blank"),
        (" \n ", "the condition is blank"),
        ("x", "unknown variable `x`"),
        ("contxt.a", "did you mean `context`?"),
        ("needs_clarification", "context.get('needs_clarification')"),
        ("lenght(x)", "did you mean"),
        ("context.gett('x')", "did you mean `get`?"),
        ("frobnicate(1)", "the functions are"),
        ("context('x')", "`context` is a variable, not a function"),
        ("len", "`len` is a function"),
        ("output.score = 1", "compare with `==`"),
        ("turn_count += 1", "conditions cannot change values"),
        ("(x := 1)", "unknown variable"),
        ("turn_count := 1", "cannot change values"),
        ("let x = 1", "one expression"),
        ("1; 2", "one expression"),
        ("while true { }", "one expression"),
        ("loop { }", "one expression"),
        ("for x in history { }", "write a comprehension in brackets"),
        ("lambda x: x", "cannot define functions"),
        ("|x| x", "closures"),
        ("|| 1", "closures"),
        ("eval('1')", "cannot execute code"),
        ("import 'x' as y", "cannot import"),
        ("print('x')", "conditions cannot print"),
        ("debug(1)", "conditions cannot print"),
        (
            "Fn('len').call('x')",
            "call one of the functions of the language reference",
        ),
        ("'len'.call()", "call one of the functions of the language reference"),
        ("fn f() { 1 }", "one expression"),
        ("f'x'", "prefix `f` is not supported"),
        ("`x`", "write strings as"),
        ("“x”", "write strings as"),
        ("2 ** 3", "powers"),
        ("7 // 2", "integer division"),
        ("1 # x", "comments"),
        ("1 /* x */", "comments"),
        ("a ? 1 : 2", "unknown variable"),
        ("true ? 1 : 2", "write `x if c else y`"),
        ("1 <> 2", "compare with `!=`"),
        ("1 === 1", "compare with `==`"),
        ("1 & 1", "write `and`"),
        ("1 | 1", "write `or`"),
        ("1 ^ 1", "bit operators"),
        ("~1", "write `not`"),
        ("null", "write `None`"),
        ("true AND false", "write `and`"),
        ("1 == not 2", "put parentheses"),
        ("(1, 2)", "only allowed after `in`"),
        ("{a: 1}", "write `'a'`"),
        ("{1, 2}", "expected a key"),
        ("{'a': 1, 'a': 2}", "duplicate key"),
        ("1 is 1", "after `is`"),
        ("'abc", "no closing '"),
        ("'a\nb'", "no closing '"),
        ("'\\q'", "unknown escape"),
        ("'\\ud800'", "is not a character"),
        ("'\\u12'", "is not a character"),
        ("1 +", "unexpected end"),
        ("(1", "`)` is missing"),
        ("[1", "`]` is missing"),
        ("context[", "unexpected end"),
        ("1 2", "unexpected number"),
        ("context score", "unexpected `score`"),
        (")", "unexpected `)`"),
        ("context.", "unexpected end"),
        ("context.1", "compile"),
        ("5m", "neither a number nor a name"),
        ("len()", "`len` takes 1 argument, not 0"),
        ("context.get()", "`get` takes 1 or 2 arguments, not 0"),
        ("get(context)", "`get` takes 2 or 3 arguments, not 1"),
        ("context.get('x', default=1)", "named arguments are not supported"),
        ("1(2)", "not a function"),
        ("(len)(1)", "`len` is a function"),
        ("1 if true", "unexpected end of the condition"),
        ("if true 1", "unexpected number"),
        ("1..2", "compile"),
        ("a::b", "compile"),
        ("x.y", "unknown variable `x`"),
        ("context.x y", "compile"),
        ("this", "do not support `this`"),
        ("\u{0}", "unexpected character"),
        ("1 == 1 else", "unexpected `else`"),
        ("context.items.length()", "unknown function `length`"),
        ("executions.writer()", "unknown function `writer`"),
        ("sleep(1)", "unknown function `sleep`"),
        ("timestamp()", "unknown function"),
        ("parse_json('1')", "unknown function"),
        ("in", "unexpected `in`"),
        ("and true", "unexpected `and`"),
    ]);
}

#[test]
fn places_are_bytes_of_the_users_text() {
    let facts = facts();
    for (text, part) in [
        ("true and  contxt.a", "contxt"),
        ("'é' == 'é' and 1 / 0 > 2", "1 / 0"),
        ("context.score > 0.5 and context.user.name == 'x'", "context.user.name"),
        ("context.tags[\n 9\n] == 1", "context.tags[\n 9\n]"),
        ("output.text < 3 or true", "output.text < 3"),
        ("1 < 2 < 'a'", "2 < 'a'"),
        ("1 + 2 + 'a' + 4", "1 + 2 + 'a'"),
        ("len(3)", "len(3)"),
        (
            "context.tags.len().startswith('x')",
            "context.tags.len().startswith('x')",
        ),
        ("output.score = 1", "="),
        ("(1 + (2", "(2"),
        ("context.gett('x')", "gett"),
        ("- (true)", "- (true)"),
        ("1 == 'abc", "'abc"),
    ] {
        let span = match Condition::compile(text) {
            Err(error) => error.span,
            Ok(condition) => condition.evaluate(&facts).unwrap_err().span,
        };
        let found = &text[span.start..span.end];
        assert!(
            found == part || part == "(2" && found == "(",
            "{text}: {found:?} instead of {part:?}"
        );
    }
}

#[test]
fn limits_hold() {
    let facts = facts();
    let long = |text: &str, times: usize| text.repeat(times);
    // As deep as allowed, in every way that nests.
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("not ", ""),
        ("- ", ""),
        ("!", ""),
        ("abs(", ")"),
        ("{'a':", "}"),
        ("1 if 1 else ", ""),
    ] {
        let nest = |depth: usize| format!("{}1{}", long(open, depth), long(close, depth));
        assert!(Condition::compile(&nest(31)).is_ok(), "{open}");
        for depth in [33, 1000, 50_000] {
            let error = Condition::compile(&nest(depth)).unwrap_err();
            assert!(
                error.message.contains("deeper than 32"),
                "{open} {depth}: {}",
                error.message
            );
            assert!(error.span.end <= depth * open.len() + 2 + depth * close.len());
        }
    }
    // Wide is fine.
    for (text, expected) in [
        (format!("{}true", long("turn_count == 2 and ", 3000)), "true"),
        (format!("{}false", long("turn_count == 3 or ", 3000)), "false"),
        (format!("{}1 > 0", long("1 + ", 5000)), "true"),
        (format!("{}1", long("1 < 2 == ", 1)), "false"),
        (format!("1{}", long(" <= 1", 3000)), "true"),
        (format!("[{}] != []", long("1,", 20_000)), "true"),
        (format!("context{}.x", long("?.a", 2000)), "false"),
        (
            format!("context{}", long(".nested", 2000)),
            "error: `context.nested.nested` is None",
        ),
        (format!("'{}' == ''", long("x", 1_000_000)), "false"),
        (long("1 or ", 300_000), "compile: the condition is longer than 1 MiB"),
        (format!("{}1", long("true and ", 30_000)), "100000 operations"),
        (format!("{}1", long("1 + ", 40_000)), "100000 operations"),
        (format!("[{}]", long("1,", 100_001)), "more than 100000 items"),
    ] {
        let answer = answer(&text, &facts);
        assert!(answer.contains(expected), "{}…: {answer}", &text[..30.min(text.len())]);
    }
    for bomb in [
        format!(
            "'{0}'{1}",
            "a",
            long(".replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')", 20)
        ),
        format!("'{0}' + '{0}' + '{0}'", long("x", 400_000)),
        format!("('{}').replace('', '0123456789')", long("x", 200_000)),
    ] {
        assert!(answer(&bomb, &facts).contains("longer than 1 MiB"));
    }
    assert!(answer(&format!("'{}'.split(',')", long(",", 100_001)), &facts).contains("100000 items"));
}

/// The worst mixture at full depth must fit into the stack of an ordinary thread.
#[test]
fn full_depth_needs_little_stack() {
    let parts = [
        ("(1 if not x and (", ") else 2)"),
        ("(a?.b ?? [1 + 2 * ", "][0] < 3 < 4)"),
        ("context.get('a', {'k': ", "})"),
        ("[any(a for a in [", "][1:]) for b in [1]]"),
    ];
    for (open, close) in parts {
        for depth in 0..20 {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth)).replace('x', "turn_count");
            let text = text.replace("a?", "context?");
            let small = std::thread::Builder::new().stack_size(1000 << 10).spawn(move || {
                if let Ok(condition) = Condition::compile(&text) {
                    let _ = (condition.evaluate(&facts()), condition.list_reads(&facts()));
                }
            });
            small.unwrap().join().unwrap();
        }
    }
}

#[test]
fn long_texts_of_the_snapshot_are_no_texts_of_the_condition() {
    let mut facts = facts();
    facts.output = Some(Arc::new(json!({ "response": "x".repeat(3 << 20) + "end" })));
    for (text, expected) in [
        ("output.response.endswith('end') and 'xend' in output.response", "true"),
        (
            "len(output.response) > 3000000 and output.response == output.response",
            "true",
        ),
        ("output.response + 'a'", "longer than 1 MiB"),
        ("output.response.upper()", "longer than 1 MiB"),
        ("str(output)", "longer than 1 MiB"),
    ] {
        assert!(
            answer(text, &facts).contains(expected),
            "{text}: {}",
            answer(text, &facts)
        );
    }
}

/// One step may take long on a long text, so texts have a limit of their own; each evaluation begins anew.
#[test]
fn a_condition_works_through_a_bounded_amount_of_text() {
    let facts = ConditionSnapshot {
        output: Some(Arc::new(json!({"text": "ab".repeat(250_000)}))),
        ..facts()
    };
    let clauses = |clause: &str, count: usize| vec![clause; count].join(" and ");
    for clause in [
        "lower(output.text) != 'x'",
        "len(output.text) > 1",
        "'c' not in output.text",
        "output.text.find('c') < 0",
        "output.text.count('c') < 1",
        "output.text.replace('c', 'd') != 'x'",
    ] {
        let few = clauses(clause, 60);
        assert_eq!(
            (answer(&few, &facts), answer(&few, &facts)),
            (T.into(), T.into()),
            "{clause}"
        );
        let many = answer(&clauses(clause, 200), &facts);
        assert!(many.contains("processes more than 64 MiB of text"), "{clause}: {many}");
    }
}
