//! What the text of a script tells, from one parse of it.

use std::sync::Arc;

use ensemble_language::check::ScriptText;

use super::{LiteralOutput, ScriptError, engine, engine_crash_error, literal, names, workers};

/// Facts about the text of a script: a syntax error, names and possible outputs.
#[derive(Debug, Clone, Default)]
pub struct ScriptAnalysis {
    /// The syntax error, if it does not compile; then nothing else is known.
    pub error: Option<ScriptError>,
    /// The names that it reads.
    pub names: Option<Arc<ScriptText>>,
    /// The possible outputs; `None` if they are unknown.
    pub outputs: Option<Vec<LiteralOutput>>,
}

/// Analyzes the text of a script without running the script. Messages call the script `name`.
pub fn analyze_script(name: &str, text: &str) -> ScriptAnalysis {
    let (name, text) = (name.to_owned(), text.to_owned());
    let examined = workers::run_and_wait(move || {
        let mut engine = engine::build_limited_engine(|| false);
        // Simplified code would have lost what the author wrote.
        engine.set_optimization_level(rhai::OptimizationLevel::None);
        match engine.compile(&text) {
            Ok(ast) => ScriptAnalysis {
                error: None,
                outputs: literal::infer_outputs(&ast),
                names: Some(names::collect_script_names(name, text, &ast).into()),
            },
            Err(error) => ScriptAnalysis {
                error: Some(ScriptError::at_position(error.err_type().to_string(), error.position())),
                ..ScriptAnalysis::default()
            },
        }
    });
    examined.unwrap_or_else(|| ScriptAnalysis {
        error: Some(engine_crash_error()),
        ..ScriptAnalysis::default()
    })
}
