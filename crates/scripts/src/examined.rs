//! What the text of a script tells, from one parse of it.

use std::sync::Arc;

use ensemble_language::check::ScriptText;

use super::{ScriptError, WrittenOutput, broken_error, engine, literal, names, workers};

/// The facts that the text of a script shows.
#[derive(Debug, Clone, Default)]
pub struct Examined {
    /// The syntax error, if it does not compile; then nothing else is known.
    pub error: Option<ScriptError>,
    /// The names that it reads.
    pub names: Option<Arc<ScriptText>>,
    /// The possible outputs; `None` if they are unknown.
    pub outputs: Option<Vec<WrittenOutput>>,
}

/// Examines the text of a script, which `name` calls in messages. The script is not run.
pub fn examine(name: &str, text: &str) -> Examined {
    let (name, text) = (name.to_owned(), text.to_owned());
    let examined = workers::wait(move || {
        let mut engine = engine::engine(|| false);
        // Simplified code would have lost what the author wrote.
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        match engine.compile(&text) {
            Ok(ast) => Examined {
                error: None,
                outputs: literal::outputs(&ast),
                names: Some(names::script_text(name, text, &ast).into()),
            },
            Err(error) => Examined {
                error: Some(ScriptError::at(error.err_type().to_string(), error.position())),
                ..Examined::default()
            },
        }
    });
    examined.unwrap_or_else(|| Examined {
        error: Some(broken_error()),
        ..Examined::default()
    })
}
