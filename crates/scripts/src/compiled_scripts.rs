//! The compiled scripts that are in use, by their text: agents with the same script share its compiled form.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use super::{Script, ScriptError};

/// Compiled scripts in use, by their text.
type ScriptsByText = HashMap<Box<str>, Weak<Script>>;

/// Compiled scripts of this process.
static COMPILED_SCRIPTS: LazyLock<Mutex<ScriptsByText>> = LazyLock::new(Mutex::default);

/// Returns the compiled script of this text. Compiles and stores the script if it is not in use.
pub(super) fn get_or_compile(
    text: &str,
    compile: impl FnOnce() -> Result<Script, ScriptError>,
) -> Result<Arc<Script>, ScriptError> {
    if let Some(script) = find_in_use(text) {
        return Ok(script);
    }
    let script = Arc::new(compile()?);
    let mut scripts = COMPILED_SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
    if scripts.len() == scripts.capacity() {
        scripts.retain(|_, script| script.strong_count() > 0);
    }
    scripts.insert(text.into(), Arc::downgrade(&script));
    Ok(script)
}

/// Returns the compiled script of this text if the script is in use.
fn find_in_use(text: &str) -> Option<Arc<Script>> {
    let scripts = COMPILED_SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
    scripts.get(text)?.upgrade()
}
