//! `acp` and `permissions` of an agent.

use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::{ACP_PROGRAMS, AcpProgram, AcpToolKind, PermissionMode};
use crate::loader::codes;
use crate::loader::document::YamlContent;
use crate::loader::findings::LimitedFindingList;
use crate::loader::key_messages::quote_excerpt;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{NodeCursor, decode_list, decode_nonblank_text, decode_text, decode_word_value};
use crate::vocabulary::FileSection;

use super::tool::decode_env;

/// Decodes `acp`: the name of a known program, or a command.
pub(super) fn decode_acp_program(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<AcpProgram> {
    if let YamlContent::Mapping(_) = at.node.content {
        return decode_acp_command(at, findings);
    }
    let name = decode_nonblank_text(at, findings)?;
    let program = AcpProgram::find_known(&name);
    if program.is_none() {
        let names: Vec<&str> = ACP_PROGRAMS.iter().map(|known| known.name).collect();
        let message = format!("there is no external agent {}", quote_excerpt(&name));
        let finding = Finding::new_error(codes::UNKNOWN_ACP, at.value_location(), message);
        findings.push(match find_similar_word(&name, names.iter().copied()) {
            Some(similar_name) => finding.with_near_name_fix(&name, similar_name),
            None => finding.with_help(format!(
                "the known names are {}; write another program as `acp: {{command: PROGRAM, args: [...]}}`",
                names.join(", ")
            )),
        });
    }
    program
}

/// Decodes the command of an external agent with its arguments, environment and folder.
fn decode_acp_command(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<AcpProgram> {
    let fields = SectionFields::from_map(at, FileSection::Acp, findings)?;
    let command = fields.decode_required(
        "command",
        "add the program that is started",
        findings,
        decode_nonblank_text,
    );
    let args = match fields.get("args") {
        Some(at) => decode_arguments(&at, findings),
        None => Some(Vec::new()),
    };
    let env = fields.decode_optional("env", findings, decode_env);
    let cwd = fields.decode_optional("cwd", findings, decode_nonblank_text);
    Some(AcpProgram::Command {
        command: command?.to_string(),
        args: args?,
        env: env.unwrap_or_default(),
        cwd: cwd.map(|cwd| cwd.to_string()),
    })
}

/// Decodes a list of arguments.
fn decode_arguments(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<String>> {
    decode_list(at, "a list of strings", findings, decode_text)
}

/// Decodes `permissions`: the permission for each kind of tool.
pub(super) fn decode_acp_permissions(
    at: &NodeCursor<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<(AcpToolKind, PermissionMode)>> {
    let fields = SectionFields::from_map(at, FileSection::Permissions, findings)?;
    let words = [
        ("allow", PermissionMode::Allow),
        ("ask", PermissionMode::Ask),
        ("deny", PermissionMode::Deny),
    ];
    let decoded_permissions = AcpToolKind::ALL.iter().filter_map(|(key, kind)| {
        let permission =
            fields.decode_optional(key, findings, |at, findings| decode_word_value(at, &words, findings))?;
        Some((*kind, permission))
    });
    let permissions: Vec<_> = decoded_permissions
        .filter(|(_, permission)| *permission != PermissionMode::Ask)
        .collect();
    Some(permissions)
}
