//! `sandbox` of an agent, a tool, a server and of `defaults`.

use std::sync::Arc;

use super::remote::environment_variable;
use crate::diagnostic::Finding;
use crate::ensemble::{NetworkAccess, Sandbox};
use crate::loader::codes;
use crate::loader::document::{Content, ScalarValue};
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, count, filled_texts, flag, found, list_of, out_of_range, whole, wrong_type};
use crate::vocabulary::Section;

/// The units of `memory`, each with its number of bytes.
const UNITS: [(&str, u64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// The smallest limit of memory: less holds no program.
const LEAST_MEMORY: u64 = 1 << 20;

/// The value of `sandbox`.
pub(super) enum SandboxChoice {
    /// `false`.
    Off,
    /// `true` or a map.
    On(Arc<Sandbox>),
}

impl SandboxChoice {
    /// Returns the sandbox that the key chooses. Returns `None` if there is no key, or the key chooses none.
    pub(super) fn chosen_by(key: Option<Self>) -> Option<Arc<Sandbox>> {
        match key? {
            Self::Off => None,
            Self::On(sandbox) => Some(sandbox),
        }
    }
}

/// Reads a sandbox: `true`, `false` or a map.
pub(super) fn read(at: &Cursor<'_>, findings: &mut Findings) -> Option<SandboxChoice> {
    if let Content::Scalar(scalar) = &at.node.content
        && let ScalarValue::Bool(is_on) = scalar.value
    {
        return Some(match is_on {
            true => SandboxChoice::On(Arc::default()),
            false => SandboxChoice::Off,
        });
    }
    if !matches!(at.node.content, Content::Mapping(_)) {
        wrong_type(at, "true, false or a map (`sandbox`)", findings);
        return None;
    }
    let fields = Fields::open(at, Section::Sandbox, findings)?;
    let read = fields.read("read", findings, paths);
    let write = fields.read("write", findings, paths);
    let network = fields.read("network", findings, network);
    let env = fields.read("env", findings, |at, findings| {
        list_of(at, "a list of names", findings, |item, findings| {
            environment_variable("env", item, findings)
        })
    });
    let memory = fields.read("memory", findings, memory);
    let cpu_seconds = fields.read("cpu_seconds", findings, count);
    let processes = fields.read("processes", findings, count);
    let best_effort = fields.read("best_effort", findings, flag);
    Some(SandboxChoice::On(Arc::new(Sandbox {
        read: read.unwrap_or_default(),
        write: write.unwrap_or_default(),
        network: network.unwrap_or_default(),
        env: env.unwrap_or_default(),
        memory,
        cpu_seconds: cpu_seconds.map(|count| count.get().into()),
        processes: processes.map_or(Sandbox::PROCESSES, std::num::NonZeroU32::get),
        best_effort: best_effort.unwrap_or_default(),
    })))
}

fn paths(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    filled_texts(at, "a list of paths", findings)
}

fn network(at: &Cursor<'_>, findings: &mut Findings) -> Option<NetworkAccess> {
    if let Content::Scalar(scalar) = &at.node.content
        && let ScalarValue::Bool(is_on) = scalar.value
    {
        return Some(if is_on { NetworkAccess::All } else { NetworkAccess::None });
    }
    let ports = list_of(at, "true, false or a list of TCP ports", findings, port)?;
    Some(if ports.is_empty() {
        NetworkAccess::None
    } else {
        NetworkAccess::Ports(ports)
    })
}

fn port(at: &Cursor<'_>, findings: &mut Findings) -> Option<u16> {
    let port = u16::try_from(whole(at, findings)?).ok();
    if port.is_none() {
        out_of_range(at, "a port from 1 to 65535", findings);
    }
    port
}

/// A number of bytes, alone or with a unit.
fn memory(at: &Cursor<'_>, findings: &mut Findings) -> Option<u64> {
    let bytes = match at.node.text() {
        Some(text) => {
            let bytes = with_unit(text);
            if bytes.is_none() {
                let message = format!("expected an amount of memory, found {}", found(at.node));
                let finding = Finding::error(codes::BAD_SANDBOX, at.value(), message);
                findings.push(
                    finding.help("write a whole number and a unit: `512MiB`, `2GiB`; without a unit it is bytes"),
                );
            }
            bytes?
        }
        None => whole(at, findings)?,
    };
    if bytes < LEAST_MEMORY {
        let message = format!("`memory` is {bytes} bytes, in which no program starts");
        let finding = Finding::error(codes::BAD_SANDBOX, at.value(), message);
        findings.push(finding.help("the least is 1 MiB; write a unit: `512MiB`"));
        return None;
    }
    Some(bytes)
}

fn with_unit(text: &str) -> Option<u64> {
    let (unit, size) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = if is_number { number.parse().ok()? } else { return None };
    number.checked_mul(*size).filter(|bytes| i64::try_from(*bytes).is_ok())
}
