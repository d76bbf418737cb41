//! What of a sandbox this system can enforce.

use ensemble_core::conversation::EnforcedSandbox;

use super::{SandboxNetwork, SandboxRules};

/// Sandbox features of this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SandboxSupport {
    /// The version of Landlock, at most the latest that is used; 0: none.
    pub(super) landlock: u8,
    /// Filters of system calls, for this processor.
    pub(super) seccomp: bool,
}

impl SandboxSupport {
    /// Detects the sandbox features of this system.
    #[cfg(target_os = "linux")]
    pub(super) fn detect_system() -> Self {
        static SUPPORT: std::sync::OnceLock<SandboxSupport> = std::sync::OnceLock::new();
        *SUPPORT.get_or_init(|| Self {
            landlock: super::landlock_rules::supported_landlock_version(),
            seccomp: super::seccomp_rules::is_seccomp_supported(),
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn detect_system() -> Self {
        Self {
            landlock: 0,
            seccomp: false,
        }
    }

    /// Lists the features that the rules need and this system lacks.
    fn list_unsupported_features(self, rules: &SandboxRules) -> Vec<&'static str> {
        let needed = [
            (1, true, "access to files (Landlock 1)"),
            (2, true, "links and moves between folders (Landlock 2)"),
            (3, true, "truncating files (Landlock 3)"),
            (
                4,
                matches!(rules.network, SandboxNetwork::Ports(_)),
                "TCP ports (Landlock 4)",
            ),
            (5, true, "control of devices (Landlock 5)"),
            (6, true, "signals to processes outside (Landlock 6)"),
        ];
        let lacking = needed
            .into_iter()
            .filter(|(version, is_used, _)| *is_used && self.landlock < *version)
            .map(|(_, _, what)| what);
        let calls = (!self.seccomp).then_some("sockets and other system calls (seccomp)");
        lacking.chain(calls).collect()
    }
}

/// Returns the enforced part of the rules, for the record of an execution.
pub(crate) fn describe_enforced_rules(rules: &SandboxRules) -> EnforcedSandbox {
    let support = SandboxSupport::detect_system();
    EnforcedSandbox {
        landlock: support.landlock,
        seccomp: support.seccomp,
        network: match &rules.network {
            SandboxNetwork::None => "none".to_owned(),
            SandboxNetwork::All => "all".to_owned(),
            SandboxNetwork::Ports(ports) => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                format!("tcp {}", ports.join(" "))
            }
        },
        memory: rules.memory,
        cpu_seconds: rules.cpu_seconds,
        processes: rules.processes,
        missing: list_unenforced_rules(rules).into_iter().map(str::to_owned).collect(),
    }
}

/// Lists the kinds of rules that this system cannot enforce.
pub fn list_unenforced_rules(rules: &SandboxRules) -> Vec<&'static str> {
    if !cfg!(target_os = "linux") {
        return vec!["anything: a sandbox needs Linux"];
    }
    SandboxSupport::detect_system().list_unsupported_features(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(network: SandboxNetwork) -> SandboxRules {
        SandboxRules {
            read: Vec::new(),
            write: Vec::new(),
            network,
            env: Vec::new(),
            memory: None,
            cpu_seconds: None,
            processes: 1,
            best_effort: false,
        }
    }

    #[test]
    fn what_a_kernel_lacks_is_told() {
        let lacking = |landlock, seccomp, network| {
            SandboxSupport { landlock, seccomp }.list_unsupported_features(&rules(network))
        };
        assert!(lacking(6, true, SandboxNetwork::None).is_empty());
        assert_eq!(
            lacking(5, true, SandboxNetwork::All),
            ["signals to processes outside (Landlock 6)"]
        );
        assert_eq!(
            lacking(6, false, SandboxNetwork::All),
            ["sockets and other system calls (seccomp)"]
        );
        let ports = lacking(3, true, SandboxNetwork::Ports(vec![1]));
        assert_eq!(ports[0], "TCP ports (Landlock 4)");
        assert_eq!(ports.len(), 3, "{ports:?}");
        assert_eq!(lacking(3, true, SandboxNetwork::None).len(), 2);
        assert_eq!(lacking(0, true, SandboxNetwork::None).len(), 5);
    }
}
