//! `sandbox` of an agent, a tool, a server and of `defaults`.

use std::sync::Arc;

use super::provider_access::decode_environment_variable;
use crate::diagnostic::Finding;
use crate::ensemble::{NetworkAccess, SandboxSpec};
use crate::loader::codes;
use crate::loader::document::{ScalarValue, YamlContent};
use crate::loader::findings::LimitedFindingList;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_count, decode_list, decode_nonblank_texts, decode_positive_integer, describe_node,
    report_out_of_range, report_wrong_type,
};
use crate::vocabulary::FileSection;

/// The units of `memory`, each with its number of bytes.
const MEMORY_UNITS: [(&str, u64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// The minimum limit of memory, below which no program can start.
const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// The value of `sandbox`: off, or a sandbox.
pub(super) enum SandboxChoice {
    /// `false`.
    Off,
    /// `true` or a map.
    On(Arc<SandboxSpec>),
}

impl SandboxChoice {
    /// Returns the sandbox that the key chooses. Returns `None` without the key, or if the sandbox is off.
    pub(super) fn into_sandbox(key: Option<Self>) -> Option<Arc<SandboxSpec>> {
        match key? {
            Self::Off => None,
            Self::On(sandbox) => Some(sandbox),
        }
    }
}

/// Decodes a sandbox: `true`, `false` or a map.
pub(super) fn decode_sandbox(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<SandboxChoice> {
    if let YamlContent::Scalar(scalar) = &at.node.content
        && let ScalarValue::Bool(is_on) = scalar.value
    {
        return Some(match is_on {
            true => SandboxChoice::On(Arc::default()),
            false => SandboxChoice::Off,
        });
    }
    if !matches!(at.node.content, YamlContent::Mapping(_)) {
        report_wrong_type(at, "true, false or a map (`sandbox`)", findings);
        return None;
    }
    let fields = SectionFields::from_map(at, FileSection::Sandbox, findings)?;
    let read = fields.decode_optional("read", findings, decode_paths);
    let write = fields.decode_optional("write", findings, decode_paths);
    let network = fields.decode_optional("network", findings, decode_network);
    let env = fields.decode_optional("env", findings, |at, findings| {
        decode_list(at, "a list of names", findings, |item, findings| {
            decode_environment_variable("env", item, findings)
        })
    });
    let memory = fields.decode_optional("memory", findings, decode_memory_limit);
    let cpu_seconds = fields.decode_optional("cpu_seconds", findings, decode_count);
    let processes = fields.decode_optional("processes", findings, decode_count);
    let best_effort = fields.decode_optional("best_effort", findings, decode_bool);
    Some(SandboxChoice::On(Arc::new(SandboxSpec {
        read: read.unwrap_or_default(),
        write: write.unwrap_or_default(),
        network: network.unwrap_or_default(),
        env: env.unwrap_or_default(),
        memory,
        cpu_seconds: cpu_seconds.map(|count| count.get().into()),
        processes: processes.map_or(SandboxSpec::DEFAULT_PROCESSES, std::num::NonZeroU32::get),
        best_effort: best_effort.unwrap_or_default(),
    })))
}

/// Decodes a list of paths that are not blank.
fn decode_paths(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<String>> {
    decode_nonblank_texts(at, "a list of paths", findings)
}

/// Decodes `network`: `true`, `false` or a list of TCP ports.
fn decode_network(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<NetworkAccess> {
    if let YamlContent::Scalar(scalar) = &at.node.content
        && let ScalarValue::Bool(is_on) = scalar.value
    {
        return Some(if is_on { NetworkAccess::All } else { NetworkAccess::None });
    }
    let ports = decode_list(at, "true, false or a list of TCP ports", findings, decode_port)?;
    Some(if ports.is_empty() {
        NetworkAccess::None
    } else {
        NetworkAccess::Ports(ports)
    })
}

/// Decodes a port from 1 to 65535.
fn decode_port(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<u16> {
    let port = u16::try_from(decode_positive_integer(at, findings)?).ok();
    if port.is_none() {
        report_out_of_range(at, "a port from 1 to 65535", findings);
    }
    port
}

/// Decodes a number of bytes, alone or with a unit.
fn decode_memory_limit(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<u64> {
    let bytes = match at.node.string_text() {
        Some(text) => {
            let bytes = parse_byte_count(text);
            if bytes.is_none() {
                let message = format!("expected an amount of memory, found {}", describe_node(at.node));
                let finding = Finding::new_error(codes::BAD_SANDBOX, at.value_location(), message);
                findings.push(finding.with_help(
                    "write a whole number and a unit: `512MiB`, `2GiB`; a number without a unit is in bytes",
                ));
            }
            bytes?
        }
        None => decode_positive_integer(at, findings)?,
    };
    if bytes < MIN_MEMORY_BYTES {
        let message = format!("`memory` is {bytes} bytes, which is too little for any program");
        let finding = Finding::new_error(codes::BAD_SANDBOX, at.value_location(), message);
        findings.push(finding.with_help("write at least 1 MiB, with a unit: `512MiB`"));
        return None;
    }
    Some(bytes)
}

/// Parses a number with a unit such as `512MiB`. Returns `None` for any other text, and on overflow.
fn parse_byte_count(text: &str) -> Option<u64> {
    let (unit, size) = MEMORY_UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = if is_number { number.parse().ok()? } else { return None };
    number.checked_mul(*size).filter(|bytes| i64::try_from(*bytes).is_ok())
}
