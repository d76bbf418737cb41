//! The rules of names: of ensembles, agents, inputs, tools, items and environment variables.

/// The rule of [`is_name`], in words.
pub const NAME_RULE: &str = "a name must start with an ASCII letter or digit; the other characters must be ASCII letters, digits, `_`, `.` or `-`";

/// The longest name of a tool that all providers accept.
pub const MAX_TOOL_NAME: usize = 64;

/// Returns whether the name of an ensemble or an agent can contain the character.
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Returns whether the text can be the name of an ensemble or an agent, or a `state_key`.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_name_char)
}

/// Returns whether the `script` of an agent or a tool is a Rhai script, which runs inside the program.
pub fn is_rhai_script(script: &str) -> bool {
    script.trim().ends_with(".rhai")
}

/// Returns the name with hyphens instead of blanks; `None` if something else is wrong with the name.
pub fn correct_blanks_in_name(name: &str) -> Option<String> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let joined_name = words.join("-");
    (joined_name != name && is_name(&joined_name)).then_some(joined_name)
}

/// Returns whether the name of a tool can contain the character.
pub fn is_tool_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns whether the text is a name of a tool that all providers accept.
pub fn is_tool_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_TOOL_NAME && name.chars().all(is_tool_name_char)
}

/// Converts the text to a name of a tool that all providers accept: replaces other characters by `_`, and cuts a long name.
pub fn to_tool_name(text: &str) -> String {
    text.chars()
        .map(|c| if is_tool_name_char(c) { c } else { '_' })
        .take(MAX_TOOL_NAME)
        .collect()
}

/// Returns the name under which a model sees a tool of an MCP server.
pub fn server_tool_name(server: &str, tool: &str) -> String {
    to_tool_name(&format!("{server}__{tool}"))
}

/// Returns whether the text can be the name of an input or an environment variable: ASCII letters, digits and `_`, no digit first.
pub fn is_ascii_identifier(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) && name.chars().all(is_part)
}

/// Returns whether the text can be written after a dot in every language of scripts: a word of ASCII letters, digits and `_` that begins
/// with a letter.
pub fn is_script_member_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && is_ascii_identifier(name)
}

/// Returns whether the character can begin an identifier of expressions and templates.
pub fn starts_identifier(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// Returns whether the character can be part of an identifier of expressions and templates.
pub fn is_identifier_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns whether the text can be the name of an item of `for_each`, which expressions and templates read.
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(starts_identifier) && name.chars().all(is_identifier_char)
}
