use serde_json::json;

use super::*;

fn scope() -> TemplateScope {
    let dependencies = vec![
        ("writer".into(), Arc::new(json!({"response": "Owls hoot.", "score": 8}))),
        ("fact-checker".into(), Arc::new(json!({"ok": true}))),
        ("input".into(), Arc::new(json!({"response": "an agent called input"}))),
    ];
    let context = json!({
        "topic": "owls",
        "scores": {"style": 7, "list": [1, {"deep": "down"}]},
        "nothing": null,
        "half": 0.5,
    });
    TemplateScope {
        input: "write about owls".into(),
        inputs: Arc::new(context_of(json!({"style": "dry", "words": [1, 2]}))),
        context: Arc::new(context_of(context)),
        turn_count: 3,
        execution: 2,
        listens_to: ["writer", "fact-checker", "quiet", "input", "v1.2"]
            .map(Arc::from)
            .into(),
        news: vec!["fact-checker".into(), "writer".into()],
        unprompted_outputs: dependencies.clone(),
        dependencies,
        parameters: Arc::new(serde_json::from_value(json!({"tone": "dry", "max": {"words": 9}})).unwrap()),
        request: None,
        part: None,
        history: ExecutionHistory::default(),
        missing_keys: MissingKeyCollector::default(),
    }
}

fn context_of(value: Value) -> RunContext {
    let Value::Object(map) = value else { panic!("an object") };
    map.into_iter()
        .map(|(key, value)| (key.into(), Arc::new(value)))
        .collect()
}

fn requested() -> TemplateScope {
    TemplateScope {
        request: Some(Arc::new(AgentRequest {
            from: "boss".into(),
            parameters: json!({"what": "more"}),
            priority: 4,
        })),
        ..scope()
    }
}

fn render(text: &str, scope: &TemplateScope) -> Result<String, TemplateError> {
    Template::compile(text)?.render(scope)
}

#[test]
fn variables_are_filled_in() {
    let cases = [
        ("{{ input }} {{ turn_count }} {{ execution }}", "write about owls 3 2"),
        ("{{ inputs.style }} {{ inputs.words[1] }} {{ inputs.nope }}!", "dry 2 !"),
        (
            "{{ context.topic }} {{ context['topic'] }} {{ context.scores.style }}",
            "owls owls 7",
        ),
        (
            "{{ context.scores.list[1].deep }} {{ context.scores.list[-1].deep }}",
            "down down",
        ),
        ("{{ context.half + 1 }}", "1.5"),
        (
            "{{ writer }}|{{ writer.score }}|{{ writer.response }}",
            "Owls hoot.|8|Owls hoot.",
        ),
        (
            "{{ dependencies['fact-checker'].ok }} {{ dependencies.writer }}",
            "True Owls hoot.",
        ),
        ("{{ dependencies['fact-checker'] }}", r#"{"ok":true}"#),
        (
            "{{ dependencies.input }} / {{ input }}",
            "an agent called input / write about owls",
        ),
        (
            "{{ parameters.tone }} {{ parameters.max.words }} {{ parameters }}",
            r#"dry 9 {"tone":"dry","max":{"words":9}}"#,
        ),
        ("{{ context.scores }}", r#"{"style":7,"list":[1,{"deep":"down"}]}"#),
        (
            "{% for k in context %}{{ k }},{% endfor %}",
            "topic,scores,nothing,half,",
        ),
        (
            "{% for k, v in parameters.items() %}{{ k }}={{ v }};{% endfor %}",
            r#"tone=dry;max={"words":9};"#,
        ),
        (
            "{{ context.get('topic', 'x') }} {{ context.get('none', 'x') }} {{ writer.get('score') }}",
            "owls x 8",
        ),
        ("{{ context.scores.list | length }} {{ context | length }}", "2 4"),
        (
            "{{ context.scores | tojson }} {{ {'a': [1, 1.5, none, 'x']} | tojson }}",
            r#"{"style":7,"list":[1,{"deep":"down"}]} {"a":[1,1.5,null,"x"]}"#,
        ),
        (
            "{{ 'writer' in dependencies }} {{ 'topic' in context }} {{ 'x' in context }}",
            "True True False",
        ),
        ("<{{ '<b>' }}>", "<<b>>"),
        (
            "{% set x = 1 %}{{ x }}{% for i in range(3) %}{{ loop.index }}{% endfor %}",
            "1123",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(render(text, &scope()).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_there_yet_renders_as_nothing() {
    let cases = [
        "{{ context.review }}",
        "{{ context.review.notes[3].text }}",
        "{{ quiet }}{{ quiet.score }}",
        "{{ dependencies.quiet.score }}{{ dependencies['v1.2'] }}",
        "{{ writer.stars }}",
        "{{ request.parameters.what }}{% if request %}asked{% endif %}",
        "{% for x in context.review.items %}{{ x }}{% endfor %}",
    ];
    for text in cases {
        assert_eq!(render(text, &scope()).as_deref(), Ok(""), "{text}");
    }
    assert_eq!(
        render(
            "{{ request.from }} {{ request.parameters.what }} {{ request.priority }}",
            &requested()
        )
        .as_deref(),
        Ok("boss more 4")
    );
}

#[test]
fn unknown_names_are_errors_with_a_place() {
    let error = render("writer\n  {{ writer }} {% if wirter.x %}{% endif %}", &scope()).unwrap_err();
    assert!(
        error
            .message
            .starts_with("unknown variable `wirter`; the variables are input, "),
        "{error}"
    );
    assert_eq!((error.line, error.column), (2, 22));
    let error = render("{{ fact-checker }}", &scope()).unwrap_err();
    assert!(error.message.contains("`dependencies[\"fact-checker\"]`"), "{error}");
    let error = render("{{ fact }}", &scope()).unwrap_err();
    assert!(error.message.contains("`dependencies[\"fact-checker\"]`"), "{error}");
}

#[test]
fn broken_templates_are_found_when_compiled() {
    let cases = [
        ("a\n{{ input ", 2),
        ("{% for x in %}", 1),
        ("\n\n{% if input %}", 3),
        ("{{ 'a }}", 1),
        ("{% nope %}", 1),
    ];
    for (text, line) in cases {
        let error = Template::compile(text).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(!error.message.is_empty());
    }
    assert_eq!(Template::compile("ab {% nope %}").unwrap_err().column, 7);
}

/// MiniJinja panics where a step is negative and the list is empty.
#[test]
fn a_slice_goes_forward() {
    let refused = [
        ("{{ input[::-1] }}", 12),
        ("{{ input[1:2:execution] }}", 14),
        ("{{ [input[(1):[0][0]:-1]] }}", 22),
        ("{% for i in [][: :-1] %}{% endfor %}", 19),
    ];
    for (text, column) in refused {
        let error = Template::compile(text).unwrap_err();
        assert_eq!(error.message, BACKWARD_STEP_ERROR, "{text}");
        assert_eq!(error.column, column, "{text}");
    }
    let taken = [
        ("{{ 'abcd'[::2] }}", "ac"),
        ("{{ 'abcd'[1:] }}", "bcd"),
        ("{{ 'abcd'[1:3:] }}", "bc"),
        ("{{ 'abcd'[-2:] }}", "cd"),
        ("{{ 'abcd'[{'a': 1, 'b': 2, 'c': -1}.a:] }}", "bcd"),
        ("{{ ['a', ''[1:2], 'b'[0:-1]] | join }}", "a"),
    ];
    for (text, expected) in taken {
        assert_eq!(render(text, &scope()).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn errors_while_rendering_have_a_place() {
    let error = render("x\n{{ input | nope }}", &scope()).unwrap_err();
    assert_eq!(error.line, 2, "{error}");
    let error = render("{% include 'other' %}", &scope()).unwrap_err();
    assert_eq!(error.message, "a template cannot include or extend another template");
}

#[test]
fn a_template_without_end_is_stopped() {
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
    let error = render(nested, &scope()).unwrap_err();
    assert_eq!(error.message, "the template needs too many steps");
    let big = "{% set x = 'x' * 100000 %}{% for a in range(9999) %}{{ x }}{% endfor %}";
    let error = render(big, &scope()).unwrap_err();
    assert!(error.message.starts_with("the rendered text is longer than"), "{error}");
}

#[test]
fn variables_are_listed_without_the_functions_of_the_language() {
    let template = Template::compile("{{ writer.x }}{% for i in range(3) %}{{ i }}{{ input }}{% endfor %}").unwrap();
    assert_eq!(template.variable_names(), ["input", "writer"]);
    assert!(template.uses_variables());
    let fault = check_template(
        "{{ writer.x }}{% for i in range(3) %}{{ i }}{{ input }}{{ oops }}{% endfor %}",
        Some(&["writer".into()]),
    );
    let Err(TemplateCheckError::Variable(error)) = fault else {
        panic!("{fault:?}");
    };
    assert_eq!(error.span, Some(Span { start: 58, end: 62 }));
    assert!(matches!(
        check_template("{{ a", None),
        Err(TemplateCheckError::Syntax(_))
    ));
    assert_eq!(check_template("{{ anything }} { plain }", None), Ok(()));
    let plain = Template::compile("Plain. {{ range(2) }}").unwrap();
    assert!(!plain.uses_variables());
}

#[test]
fn a_plain_prompt_is_followed_by_blocks() {
    let blocks = "## Input\nwrite about owls\n\n## Output of writer\nOwls hoot.\n\n## Output of fact-checker\n{\"ok\":true}\n\n\
                  ## Output of input\nan agent called input";
    let plain = Template::compile("Be brief.\n\n").unwrap();
    assert_eq!(
        render_task(Some(&plain), &scope()),
        Ok(format!("Be brief.\n\n{blocks}"))
    );
    assert_eq!(render_task(None, &scope()), Ok(blocks.to_owned()));
    let filled = Template::compile("Topic: {{ context.topic }}").unwrap();
    assert_eq!(render_task(Some(&filled), &scope()).as_deref(), Ok("Topic: owls"));
    let text = render_task(Some(&plain), &requested()).unwrap();
    assert!(
        text.contains("\n\n## Request from boss\n{\"what\":\"more\"}\n\n## Output of writer\n"),
        "{text}"
    );
    assert_eq!(
        render_task(Some(&plain), &TemplateScope::default()).as_deref(),
        Ok("Be brief.")
    );
    assert_eq!(render_task(None, &TemplateScope::default()).as_deref(), Ok(""));
    let alone = TemplateScope {
        unprompted_outputs: Vec::new(),
        ..scope()
    };
    assert_eq!(render_task(None, &alone).as_deref(), Ok("write about owls"), "plain");
    let text = render_task(Some(&plain), &alone);
    assert_eq!(text.as_deref(), Ok("Be brief.\n\n## Input\nwrite about owls"));
}

#[test]
fn news_is_a_list_of_agents_of_which_each_is_asked_by_name() {
    for (text, expected) in [
        (
            "{{ news | join(' ') }} {{ news[0] }} {{ news | length }}",
            "fact-checker writer fact-checker 2",
        ),
        (
            "{{ news.writer }} {{ news.quiet }} {{ news['fact-checker'] }}",
            "True False True",
        ),
        (
            "{% for agent in news %}<{{ agent }}>{% endfor %}",
            "<fact-checker><writer>",
        ),
        ("{{ 'writer' in news }} {{ 'quiet' in news }}", "True False"),
        ("{% if news.quiet %}new{% else %}known{% endif %}", "known"),
        ("{{ news | tojson }}", "[\"fact-checker\",\"writer\"]"),
    ] {
        assert_eq!(render(text, &scope()).as_deref(), Ok(expected), "{text}");
    }
    let nothing = TemplateScope {
        news: Vec::new(),
        ..scope()
    };
    assert_eq!(
        render("{% if news %}new{% else %}nothing{% endif %}", &nothing).as_deref(),
        Ok("nothing")
    );
}

#[test]
fn every_fixed_name_has_a_value() {
    for name in VARIABLES {
        let text = format!("{{{{ {name} is defined }}}}");
        assert_eq!(render(&text, &requested()).as_deref(), Ok("True"), "{name}");
    }
}

#[test]
fn a_key_that_an_existing_output_lacks_is_noted_where_it_is_printed() {
    let missed = |text: &str| {
        let scope = scope();
        Template::compile(text).unwrap().render(&scope).expect("renders");
        let missed: Vec<String> = scope
            .missing_keys
            .take_missing_keys()
            .iter()
            .map(ToString::to_string)
            .collect();
        missed.join(" | ")
    };
    let txet = "`writer.txet` is empty, because the output of writer has no `txet`; it has response, score";
    let ko = "`fact-checker.ko` is empty, because the output of fact-checker has no `ko`; it has ok";
    for (text, expected) in [
        ("{{ writer.txet }}", txet.to_owned()),
        ("{{ writer.txet }}{{ writer['txet'].deep }}", txet.to_owned()),
        (
            "{% if true %}{{ dependencies['fact-checker'].ko }}{{ writer.txet }}{% endif %}",
            format!("{ko} | {txet}"),
        ),
        // Not printed, or asked for with care.
        (
            "{{ writer.score }}{{ writer }}{% if false %}{{ writer.txet }}{% endif %}",
            String::new(),
        ),
        (
            "{{ writer.txet | default('x') }}{{ writer.get('txet') }}",
            String::new(),
        ),
        (
            "{% if writer.txet %}{{ writer.txet }}{% endif %}{{ context.gone }}",
            String::new(),
        ),
        (
            "{{ writer.txet if writer.txet }}{{ writer.txet or 'x' }}",
            String::new(),
        ),
        (
            "{% if writer.txet is defined %}x{% endif %}{{ quiet.key }}{{ context.topic.x }}",
            String::new(),
        ),
    ] {
        assert_eq!(missed(text), expected, "{text}");
    }
}

#[test]
fn one_expression_alone_gives_its_value() {
    let cases = [
        ("{{ inputs.words }}", json!([1, 2])),
        (" {{- context.scores.list[1] -}} ", json!({"deep": "down"})),
        (
            "{{ context.scores }}",
            json!({"style": 7, "list": [1, {"deep": "down"}]}),
        ),
        ("{{ turn_count + 1 }}", json!(4)),
        ("{{ context.half * 2 }}", json!(1.0)),
        ("{{ writer }}", json!({"response": "Owls hoot.", "score": 8})),
        ("{{ writer.score > 7 }}", json!(true)),
        ("{{ context.missing }}", json!(null)),
        ("{{ input | upper }}", json!("WRITE ABOUT OWLS")),
        ("{{ [1, {'a': inputs.words}] }}", json!([1, {"a": [1, 2]}])),
        // A text around it, or a second expression, makes a text.
        ("{{ inputs.words }}!", json!("[1,2]!")),
        ("{{ turn_count }}{{ execution }}", json!("32")),
        ("{% if true %}{{ turn_count }}{% endif %}", json!("3")),
        ("plain", json!("plain")),
    ];
    for (text, expected) in cases {
        let value = Template::compile(text).and_then(|template| template.render_value(&scope()));
        assert_eq!(value, Ok(expected), "{text}");
    }
    let unknown = Template::compile("{{ wirter }}").and_then(|template| template.render_value(&scope()));
    assert!(unknown.is_err_and(|error| error.message.contains("unknown variable `wirter`")));
}

#[test]
fn the_filter_of_assigned_values_cannot_be_left() {
    let scope = scope();
    for text in [
        "{% set n = namespace() %}{% set n.a = n) or (n %}",
        "{% set a = %}",
        "{% set a = 1)|upper|d( %}",
    ] {
        assert!(Template::compile(text).is_err(), "{text}");
        assert!(check_template(text, None).is_err(), "{text}");
    }
    let text = "{% set n = namespace(a=1) %}{% set n.a, b = [n.a, 2], 3, -%} {{ n.a }}{{ b }}";
    assert_eq!(render(text, &scope), Ok("[1, 2]3".to_owned()));
    let nested = "{% set n = namespace() %}{% set n.a = {'b': [n]} %}";
    let error = render(nested, &scope).unwrap_err();
    assert_eq!(error.message, "a namespace cannot be in a namespace");
}
