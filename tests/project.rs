//! The project itself: its architecture, its documents, its schema, what it ships, and its CI.

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

mod project {
    mod architecture;
    mod ci;
    mod design_promises;
    mod documents;
    mod library_guide;
    mod patterns;
    mod promises;
    mod schema;
    mod security_promises;
    mod shipped;
    mod systems;
    mod words;
}
