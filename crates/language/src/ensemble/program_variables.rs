//! The variables of the environment that belong to this program.
//!
//! Invariant: a file cannot name a variable that carries rights of the user.

/// The beginning of the names of the program's own variables. No child process inherits one of them.
const PROGRAM_PREFIX: &str = "ENSEMBLE_";

/// The variables of the program that carry rights of the user.
pub const RIGHTS_VARIABLES: [&str; 2] = ["ENSEMBLE_TRUST", "ENSEMBLE_UI_TOKEN"];

/// Returns whether the variable carries rights of the user. Child processes never receive such a variable.
pub fn carries_rights(variable: &str) -> bool {
    RIGHTS_VARIABLES
        .iter()
        .any(|right| right.eq_ignore_ascii_case(variable))
}

/// Returns whether the name of the variable begins with `ENSEMBLE_`, in any case.
pub fn is_program_variable(variable: &[u8]) -> bool {
    let prefix = variable.get(..PROGRAM_PREFIX.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PROGRAM_PREFIX.as_bytes()))
}
