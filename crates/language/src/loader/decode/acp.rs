//! `acp` and `permissions` of an agent.

use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{ACP_PROGRAMS, AcpProgram, AcpToolKind, Permission};
use crate::loader::codes;
use crate::loader::document::Content;
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, filled_text, list_of, text, word};
use crate::loader::words::quoted;
use crate::vocabulary::Section;

use super::tool::env;

/// Reads `acp`: the name of a known program, or a command.
pub(super) fn program(at: &Cursor<'_>, findings: &mut Findings) -> Option<AcpProgram> {
    if let Content::Mapping(_) = at.node.content {
        return command(at, findings);
    }
    let name = filled_text(at, findings)?;
    let known = AcpProgram::named(&name);
    if known.is_none() {
        let names: Vec<&str> = ACP_PROGRAMS.iter().map(|known| known.name).collect();
        let message = format!("there is no external agent {}", quoted(&name));
        let finding = Finding::error(codes::UNKNOWN_ACP, at.value(), message);
        findings.push(match did_you_mean(&name, names.iter().copied()) {
            Some(near) => finding.meant_name(&name, near),
            None => finding.help(format!(
                "the known names are {}; write another program as `acp: {{command: PROGRAM, args: [...]}}`",
                names.join(", ")
            )),
        });
    }
    known
}

fn command(at: &Cursor<'_>, findings: &mut Findings) -> Option<AcpProgram> {
    let fields = Fields::open(at, Section::Acp, findings)?;
    let command = fields.required("command", "write the program that is started", findings, filled_text);
    let args = match fields.get("args") {
        Some(at) => arguments(&at, findings),
        None => Some(Vec::new()),
    };
    let env = fields.read("env", findings, env);
    let cwd = fields.read("cwd", findings, filled_text);
    Some(AcpProgram::Command {
        command: command?.to_string(),
        args: args?,
        env: env.unwrap_or_default(),
        cwd: cwd.map(|cwd| cwd.to_string()),
    })
}

fn arguments(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    list_of(at, "a list of strings", findings, text)
}

/// Reads `permissions`: what tools of each kind may do.
pub(super) fn permissions(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(AcpToolKind, Permission)>> {
    let fields = Fields::open(at, Section::Permissions, findings)?;
    let words = [
        ("allow", Permission::Allow),
        ("ask", Permission::Ask),
        ("deny", Permission::Deny),
    ];
    let given = AcpToolKind::ALL.iter().filter_map(|(key, kind)| {
        let permission = fields.read(key, findings, |at, findings| word(at, &words, findings))?;
        Some((*kind, permission))
    });
    let given: Vec<_> = given.filter(|(_, permission)| *permission != Permission::Ask).collect();
    Some(given)
}
