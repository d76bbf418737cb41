//! Filters of system calls: what Landlock does not cover.
//!
//! The first filter knows the calls that a sandbox allows; every other call does not exist. Each further filter has one
//! answer for calls, or arguments of calls, that are refused. Of two answers, the kernel gives that of the later filter.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::seccomp_calls::{
    ALLOWED_CALL_NUMBERS, ALLOWED_CALLS, ALLOWED_FCNTL_COMMANDS, ALLOWED_IOCTL_REQUESTS, ALLOWED_OLDER_CALLS,
    ALLOWED_PRCTL_OPTIONS, ATTRIBUTE_CALLS, CONNECTED_SOCKET_CALLS, CONNECTION_CALLS, IGNORED_CALLS, MEMFD_CREATE_CALL,
    REFUSED_CALLS, SERVER_CALLS, TIME_SETTING_CALLS,
};
use super::{SandboxNetwork, SandboxRules};

/// Flags of `clone` that create namespaces.
const NAMESPACE_FLAGS: [c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Kind of `ioprio_set` that means a single process; for `setpriority` this is 0.
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Bits of the second argument of `socket` and `socketpair` that contain the type.
const SOCKET_TYPE_MASK: u64 = 0xf;

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns whether filters exist for this processor and kernel.
pub(super) fn is_seccomp_supported() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
        && std::path::Path::new("/proc/sys/kernel/seccomp/actions_avail").exists()
}

/// Restricts this thread and all its later children with the filters.
///
/// # Errors
/// Why the filters cannot be applied.
pub(super) fn apply_seccomp(rules: &SandboxRules) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("seccomp cannot be applied: {error}");
    for program in build_filters(rules).map_err(|error| failed(&error))? {
        apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Builds one filter for each error code, the one for unknown calls first.
fn build_filters(rules: &SandboxRules) -> Result<Vec<BpfProgram>, BackendError> {
    let network = &rules.network;
    let mut filters = vec![
        compile_allow_list(rules)?,
        compile_filter(unconditional_rules(REFUSED_CALLS), libc::EPERM)?,
        compile_filter(refused_namespace_and_scheduling_rules()?, libc::EPERM)?,
        compile_filter(
            SeccompRules::from([(libc::SYS_ioctl, unless_values_rules(1, ALLOWED_IOCTL_REQUESTS)?)]),
            libc::ENOTTY,
        )?,
        compile_filter(
            SeccompRules::from([
                (libc::SYS_fcntl, unless_values_rules(1, ALLOWED_FCNTL_COMMANDS)?),
                (libc::SYS_prctl, unless_values_rules(0, ALLOWED_PRCTL_OPTIONS)?),
            ]),
            libc::EINVAL,
        )?,
        compile_filter(unconditional_rules(IGNORED_CALLS), 0)?,
        compile_filter(refused_time_change_rules()?, libc::EACCES)?,
        compile_filter(unconditional_rules(ATTRIBUTE_CALLS), libc::EOPNOTSUPP)?,
    ];
    if *network != SandboxNetwork::All {
        filters.push(compile_filter(refused_socket_rules(network)?, libc::EACCES)?);
    }
    if rules.memory.is_some() {
        let huge_pages = if_flag_rules(3, libc::MAP_HUGETLB)?;
        filters.push(compile_filter(
            SeccompRules::from([(libc::SYS_mmap, huge_pages)]),
            libc::ENOMEM,
        )?);
    }
    Ok(filters)
}

/// Compiles the filter that refuses all calls which no list allows.
fn compile_allow_list(rules: &SandboxRules) -> Result<BpfProgram, BackendError> {
    let memory_file = [MEMFD_CREATE_CALL];
    let of_network: &[&[c_long]] = match &rules.network {
        SandboxNetwork::None => &[CONNECTED_SOCKET_CALLS],
        SandboxNetwork::Ports(_) => &[CONNECTED_SOCKET_CALLS, CONNECTION_CALLS],
        SandboxNetwork::All => &[CONNECTED_SOCKET_CALLS, CONNECTION_CALLS, SERVER_CALLS],
    };
    let of_memory: &[&[c_long]] = match rules.memory {
        Some(_) => &[],
        None => &[&memory_file],
    };
    let always = [
        ALLOWED_CALLS,
        ALLOWED_CALL_NUMBERS,
        ALLOWED_OLDER_CALLS,
        IGNORED_CALLS,
        ATTRIBUTE_CALLS,
    ];
    let calls = always.iter().chain(of_network).chain(of_memory).copied().flatten();
    let allowed = calls.map(|call| (*call, Vec::new())).collect();
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    SeccompFilter::new(allowed, unknown, SeccompAction::Allow, processor_arch()?)?.try_into()
}

/// Compiles a filter that answers the calls of the rules with the error and allows all others.
fn compile_filter(rules: SeccompRules, errno: c_int) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, processor_arch()?)?.try_into()
}

/// Returns the architecture of this processor for the filters.
fn processor_arch() -> Result<TargetArch, BackendError> {
    TargetArch::try_from(std::env::consts::ARCH)
}

/// Creates rules that match the calls with any arguments.
fn unconditional_rules(calls: &[c_long]) -> SeccompRules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Creates a condition on the low 32 bits of an argument.
fn argument_condition(index: u8, compare: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, compare, value)
}

/// Creates a rule that applies if the argument is not the value.
fn unless_value_rule(index: u8, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![argument_condition(index, SeccompCmpOp::Ne, value)?])
}

/// Creates rules that apply if the argument is none of the values.
fn unless_values_rules(index: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let conditions: Result<Vec<_>, _> = values
        .iter()
        .map(|value| argument_condition(index, SeccompCmpOp::Ne, *value))
        .collect();
    Ok(vec![SeccompRule::new(conditions?)?])
}

/// Creates rules that apply if the argument contains the flag.
fn if_flag_rules(index: u8, flag: c_int) -> Result<Vec<SeccompRule>, BackendError> {
    let flag = u64::from(flag.unsigned_abs());
    let condition = argument_condition(index, SeccompCmpOp::MaskedEq(flag), flag)?;
    Ok(vec![SeccompRule::new(vec![condition])?])
}

/// Builds the rules that refuse new namespaces, and changes of limits and priorities of other processes.
fn refused_namespace_and_scheduling_rules() -> Result<SeccompRules, BackendError> {
    let namespaces: Result<Vec<_>, _> = NAMESPACE_FLAGS.iter().map(|flag| if_flag_rules(0, *flag)).collect();
    let mut rules = SeccompRules::from([
        (libc::SYS_clone, namespaces?.into_iter().flatten().collect()),
        (
            libc::SYS_setpriority,
            vec![unless_value_rule(0, 0)?, unless_value_rule(1, 0)?],
        ),
        (
            libc::SYS_ioprio_set,
            vec![unless_value_rule(0, IOPRIO_WHO_PROCESS)?, unless_value_rule(1, 0)?],
        ),
    ]);
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
    ] {
        rules.insert(call, vec![unless_value_rule(0, 0)?]);
    }
    Ok(rules)
}

/// Builds the rules that refuse setting the times of a named file to the current time.
///
/// Programs that create a file if this fails must notice that it has no effect.
fn refused_time_change_rules() -> Result<SeccompRules, BackendError> {
    let pointer = |index: u8, compare| SeccompCondition::new(index, SeccompCmpArgLen::Qword, compare, 0);
    let mut rules = SeccompRules::new();
    for call in TIME_SETTING_CALLS {
        let mut conditions = vec![pointer(call.times, SeccompCmpOp::Eq)?];
        if let Some(path) = call.path {
            conditions.push(pointer(path, SeccompCmpOp::Ne)?);
        }
        rules.insert(call.number, vec![SeccompRule::new(conditions)?]);
    }
    Ok(rules)
}

/// Builds the rules for refused sockets, and for messages that name their receiver.
///
/// A pair has a type whose two ends are connected for ever: an end of a pair of datagrams could be connected, or send, to
/// any socket that has a path.
fn refused_socket_rules(network: &SandboxNetwork) -> Result<SeccompRules, BackendError> {
    let plain = |number: c_int| u64::from(number.unsigned_abs());
    let other_types = |allowed: &[c_int]| -> Result<Vec<SeccompRule>, BackendError> {
        (0..=SOCKET_TYPE_MASK)
            .filter(|kind| allowed.iter().all(|allowed| plain(*allowed) != *kind))
            .map(|kind| {
                SeccompRule::new(vec![argument_condition(
                    1,
                    SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK),
                    kind,
                )?])
            })
            .collect()
    };
    let mut pairs = other_types(&[libc::SOCK_STREAM, libc::SOCK_SEQPACKET])?;
    pairs.push(unless_value_rule(0, plain(libc::AF_UNIX))?);
    let mut rules = SeccompRules::from([(libc::SYS_socketpair, pairs)]);
    if matches!(network, SandboxNetwork::None) {
        let named = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
        rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![named])?]);
        rules.extend(unconditional_rules(CONNECTION_CALLS));
    } else {
        let mut not_tcp = other_types(&[libc::SOCK_STREAM])?;
        not_tcp.push(SeccompRule::new(vec![
            argument_condition(0, SeccompCmpOp::Ne, plain(libc::AF_INET))?,
            argument_condition(0, SeccompCmpOp::Ne, plain(libc::AF_INET6))?,
        ])?);
        not_tcp.push(SeccompRule::new(vec![
            argument_condition(2, SeccompCmpOp::Ne, 0)?,
            argument_condition(2, SeccompCmpOp::Ne, plain(libc::IPPROTO_TCP))?,
        ])?);
        rules.insert(libc::SYS_socket, not_tcp);
        // Landlock does not see a connection that begins with its data, nor one of a socket that became another kind.
        for (call, index) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            rules.insert(call, if_flag_rules(index, libc::MSG_FASTOPEN)?);
        }
        let other_kind = SeccompRule::new(vec![
            argument_condition(1, SeccompCmpOp::Eq, plain(libc::IPPROTO_TCP))?,
            argument_condition(2, SeccompCmpOp::Eq, plain(libc::TCP_ULP))?,
        ])?;
        rules.insert(libc::SYS_setsockopt, vec![other_kind]);
    }
    // A socket that listens without a name gets a port from the system.
    rules.extend(unconditional_rules(SERVER_CALLS));
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_has_filters() {
        for network in [
            SandboxNetwork::None,
            SandboxNetwork::Ports(vec![443]),
            SandboxNetwork::All,
        ] {
            for memory in [None, Some(1 << 30)] {
                let rules = SandboxRules {
                    read: Vec::new(),
                    write: Vec::new(),
                    network: network.clone(),
                    env: Vec::new(),
                    memory,
                    cpu_seconds: None,
                    processes: 1,
                    best_effort: false,
                };
                let filters = build_filters(&rules);
                assert!(filters.is_ok_and(|programs| programs.iter().all(|program| !program.is_empty())));
            }
        }
    }

    #[test]
    fn no_call_is_allowed_and_refused() {
        let allowed = [
            ALLOWED_CALLS,
            ALLOWED_CALL_NUMBERS,
            ALLOWED_OLDER_CALLS,
            CONNECTED_SOCKET_CALLS,
            CONNECTION_CALLS,
            SERVER_CALLS,
        ];
        let allowed: Vec<c_long> = allowed.concat();
        let others = [REFUSED_CALLS, IGNORED_CALLS, ATTRIBUTE_CALLS].concat();
        for call in others {
            assert!(!allowed.contains(&call), "{call}");
        }
        // `file_setattr`, and whatever a later kernel adds.
        assert!(allowed.iter().all(|call| *call < 466), "{allowed:?}");
    }
}
