//! A template: checked, compiled and rendered, with a stack of a worker thread.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::sync::Arc;
use std::thread;

use ensemble_language::data::RunContext;
use ensemble_language::template::{self, Template, TemplateScope};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

/// The stack of a thread that renders.
const STACK: usize = 512 << 20;

fn scope() -> TemplateScope {
    let context = [
        ("list", json!([1, {"a": ["b", null]}, 2.5])),
        ("text", json!("some text")),
    ];
    TemplateScope {
        input: "the input".into(),
        context: Arc::new(RunContext::from_iter(
            context.map(|(key, value)| (key.into(), Arc::new(value))),
        )),
        ..TemplateScope::default()
    }
}

fuzz_target!(|text: &str| {
    let checked = template::check_template(text, None);
    template::uses_variables(text);
    template::list_read_inputs(text);
    let compiled = Template::compile(text);
    assert_eq!(checked.is_ok(), compiled.is_ok(), "{checked:?}");
    let rendering = |template: Template| {
        let rendered = template.render(&scope());
        let _value = template.render_value(&scope());
        let within = |place: &ensemble_language::source::Span| text.get(place.start..place.end).is_some();
        assert!(
            rendered
                .err()
                .is_none_or(|error| error.span.as_ref().is_none_or(within))
        );
    };
    if let Ok(template) = compiled {
        thread::scope(|threads| {
            let thread = thread::Builder::new().stack_size(STACK);
            let ended = thread
                .spawn_scoped(threads, || rendering(template))
                .expect("a thread")
                .join();
            ended.expect("no panic");
        });
    }
});
