//! Rules of Landlock: files, TCP ports, signals and abstract sockets.

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};

use super::{SandboxHelperTask, SandboxNetwork};

/// Paths that every program can read, because programs need them to start. They must not contain secrets.
const ALWAYS_READABLE_PATHS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/run/current-system/sw",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/self",
    "/proc/stat",
    "/proc/sys/kernel",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
];

/// Devices without a state.
const STATELESS_DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// The versions, the last with all that is used.
const LANDLOCK_VERSIONS: [ABI; 6] = [ABI::V1, ABI::V2, ABI::V3, ABI::V4, ABI::V5, ABI::V6];

/// Returns the Landlock version of the kernel, up to the newest one that this program uses; 0 without Landlock.
pub(super) fn supported_landlock_version() -> u8 {
    let has = |abi: ABI| -> bool {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let rules = rules.handle_access(AccessFs::from_all(abi));
        let rules = rules.and_then(|rules| match AccessNet::from_all(abi) {
            none if none.is_empty() => Ok(rules),
            some => rules.handle_access(some),
        });
        let rules = rules.and_then(|rules| match Scope::from_all(abi) {
            none if none.is_empty() => Ok(rules),
            some => rules.scope(some),
        });
        rules.and_then(Ruleset::create).is_ok()
    };
    let versions = (1..).zip(LANDLOCK_VERSIONS).take_while(|(_, abi)| has(*abi));
    versions.last().map_or(0, |(number, _)| number)
}

/// Returns whether every program in a sandbox can read the path.
pub(super) fn is_readable_by_all(path: &Path) -> bool {
    let real = |known: &&str| {
        Path::new(known)
            .canonicalize()
            .is_ok_and(|known| path.starts_with(known))
    };
    ALWAYS_READABLE_PATHS.iter().any(real)
}

/// Limits the signals of this process to its later children. Returns whether the restriction is certain.
pub(super) fn restrict_signals_to_children() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.scope(Scope::Signal).and_then(Ruleset::create);
    let restricted = rules.and_then(RulesetCreated::restrict_self);
    let is_said = restricted.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced);
    // Its parent is outside, and of the same user.
    let parent = rustix::process::getppid();
    let is_refused = |parent| rustix::process::test_kill_process(parent) == Err(rustix::io::Errno::PERM);
    is_said && parent.is_some_and(is_refused)
}

/// Restricts this process and all its later children to the paths and ports of the rules.
///
/// # Errors
/// Why the rules cannot be applied.
pub(super) fn apply_landlock(task: &SandboxHelperTask) -> Result<(), String> {
    let abi = ABI::V6;
    let level = match task.rules.best_effort {
        true => CompatLevel::BestEffort,
        false => CompatLevel::HardRequirement,
    };
    let failed = |error: &dyn std::fmt::Display| format!("Landlock cannot be applied: {error}");
    let rules = Ruleset::default()
        .set_compatibility(level)
        .handle_access(AccessFs::from_all(abi))
        .map_err(|error| failed(&error))?;
    let all = task.rules.network == SandboxNetwork::All;
    let rules = match all {
        // Its bind and connect are handled, and no rule allows a port.
        false => rules.handle_access(AccessNet::from_all(ABI::V4)),
        true => Ok(rules),
    };
    let scope = match all {
        false => Scope::AbstractUnixSocket | Scope::Signal,
        true => Scope::Signal.into(),
    };
    let rules = rules
        .and_then(|rules| rules.scope(scope))
        .map_err(|error| failed(&error))?;
    let rules = rules.create().map_err(|error| failed(&error))?;
    let reading = AccessFs::from_read(abi);
    let writing = AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let rules = rules
        .add_rules(path_beneath_rules(ALWAYS_READABLE_PATHS, reading))
        .and_then(|rules| rules.add_rules(path_beneath_rules(STATELESS_DEVICES, device)))
        .map_err(|error| failed(&error))?;
    let rules = allow_paths(rules, &task.rules.read, reading)?;
    let rules = allow_paths(rules, &task.rules.write, writing)?;
    let rules = allow_paths(rules, std::slice::from_ref(&task.temporary), writing)?;
    let rules = match &task.rules.network {
        SandboxNetwork::Ports(ports) => ports.iter().try_fold(rules, |rules, port| {
            rules
                .add_rule(NetPort::new(*port, AccessNet::ConnectTcp))
                .map_err(|error| failed(&error))
        })?,
        SandboxNetwork::None | SandboxNetwork::All => rules,
    };
    rules.restrict_self().map_err(|error| failed(&error))?;
    Ok(())
}

/// Allows the access to these paths. Fails if a path has become a link, because a process could widen later rules that way.
fn allow_paths(rules: RulesetCreated, paths: &[PathBuf], access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    paths.iter().try_fold(rules, |rules, path| {
        let shown_path = path.display();
        let opened =
            PathFd::new(path).map_err(|error| format!("cannot open `{shown_path}` for the sandbox: {error}"))?;
        let is_at = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd()));
        let is_at = is_at.map_err(|error| format!("cannot resolve `{shown_path}`: {error}"))?;
        if is_at != *path {
            return Err(format!(
                "`{shown_path}` is a link to `{}` now, but was not when the run started",
                is_at.display()
            ));
        }
        let access = match Path::is_dir(path) {
            true => access,
            false => access & AccessFs::from_file(ABI::V6),
        };
        rules
            .add_rule(PathBeneath::new(opened, access))
            .map_err(|error| format!("Landlock cannot add a rule for `{shown_path}`: {error}"))
    })
}
