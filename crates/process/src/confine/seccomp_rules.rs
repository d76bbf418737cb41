//! Filters of system calls: what Landlock does not cover.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use super::SandboxNetwork;

/// The flags of `clone` that make new namespaces: `CLONE_NEWTIME` has another meaning there.
const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Calls that a program in a sandbox must not have: other processes, the system, and ways around the other rules.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Calls that look as if the kernel had none of them. Libraries then use older ones, whose arguments can be checked:
/// `clone` for `clone3`, and the plain calls for those of `io_uring`, which no filter sees.
const UNKNOWN: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// `fchmodat2`, which has this number on all processors.
const FCHMODAT2: libc::c_long = 452;

/// `setxattrat` and `removexattrat`, likewise.
const XATTR_AT: [libc::c_long; 2] = [463, 466];

/// Calls that change modes and owners by a path, which Landlock does not cover. They do nothing: programs that copy files
/// call them and would fail at an error.
const WITHOUT_EFFECT: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    FCHMODAT2,
];

/// Calls that change the attributes of a file by a path, which Landlock does not cover.
const NO_ATTRIBUTES: &[libc::c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    XATTR_AT[0],
    XATTR_AT[1],
];

/// The requests of `ioctl` that write to the input of a terminal.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541C];

/// Of the numbers of calls on x86-64, those with this bit are the same calls for another size of pointers.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Are there filters for this processor?
pub(super) fn is_supported() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
        && std::path::Path::new("/proc/sys/kernel/seccomp/actions_avail").exists()
}

/// Restricts this thread, and all that it starts.
///
/// # Errors
/// Why the filters cannot be applied.
pub(super) fn apply_seccomp(network: &SandboxNetwork) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("seccomp cannot be applied: {error}");
    for program in build_filters(network).map_err(|error| failed(&error))? {
        apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Builds one filter for each answer to a call.
fn build_filters(network: &SandboxNetwork) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let always = |calls: &[libc::c_long]| -> SeccompRules { calls.iter().map(|call| (*call, Vec::new())).collect() };
    let mut refused = always(REFUSED);
    refused.insert(libc::SYS_clone, namespace_rules()?);
    refused.insert(libc::SYS_ioctl, terminal_input_rules()?);
    refused.insert(
        libc::SYS_prlimit64,
        vec![build_rule(&[argument_condition(0, SeccompCmpOp::Ne, 0)?])?],
    );
    Ok(vec![
        #[cfg(target_arch = "x86_64")]
        build_x32_filter(),
        compile_filter(refused, libc::EPERM)?,
        compile_filter(socket_rules(network)?, libc::EACCES)?,
        compile_filter(always(UNKNOWN), libc::ENOSYS)?,
        compile_filter(always(WITHOUT_EFFECT), 0)?,
        compile_filter(always(NO_ATTRIBUTES), libc::EOPNOTSUPP)?,
    ])
}

fn compile_filter(rules: SeccompRules, errno: libc::c_int) -> Result<BpfProgram, seccompiler::BackendError> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let processor = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, answer, processor)?.try_into()
}

fn argument_condition(
    index: u8,
    compare: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, compare, value)
}

fn build_rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.to_vec())
}

fn namespace_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let with = |flag: &libc::c_int| {
        let flag = u64::from(flag.unsigned_abs());
        build_rule(&[argument_condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    NEW_NAMESPACES.iter().map(with).collect()
}

fn terminal_input_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let is = |request: &u64| build_rule(&[argument_condition(1, SeccompCmpOp::Eq, *request)?]);
    TERMINAL_INPUT.iter().map(is).collect()
}

/// Builds the rules for refused sockets. Pairs of sockets are refused nothing else.
fn socket_rules(network: &SandboxNetwork) -> Result<SeccompRules, seccompiler::BackendError> {
    let plain = |number: libc::c_int| u64::from(number.unsigned_abs());
    let pairs = vec![build_rule(&[argument_condition(
        0,
        SeccompCmpOp::Ne,
        plain(libc::AF_UNIX),
    )?])?];
    Ok(match network {
        SandboxNetwork::None => SeccompRules::from([(libc::SYS_socket, Vec::new()), (libc::SYS_socketpair, pairs)]),
        SandboxNetwork::Ports(_) => {
            let mut not_tcp = vec![
                build_rule(&[
                    argument_condition(0, SeccompCmpOp::Ne, plain(libc::AF_INET))?,
                    argument_condition(0, SeccompCmpOp::Ne, plain(libc::AF_INET6))?,
                ])?,
                build_rule(&[
                    argument_condition(2, SeccompCmpOp::Ne, 0)?,
                    argument_condition(2, SeccompCmpOp::Ne, plain(libc::IPPROTO_TCP))?,
                ])?,
            ];
            for kind in (0..=0xf).filter(|kind| *kind != plain(libc::SOCK_STREAM)) {
                not_tcp.push(build_rule(&[argument_condition(
                    1,
                    SeccompCmpOp::MaskedEq(0xf),
                    kind,
                )?])?);
            }
            // Landlock does not see a connection that begins with its data.
            let at_once = |index| {
                let flag = plain(libc::MSG_FASTOPEN);
                Ok(vec![build_rule(&[argument_condition(
                    index,
                    SeccompCmpOp::MaskedEq(flag),
                    flag,
                )?])?])
            };
            SeccompRules::from([
                (libc::SYS_socket, not_tcp),
                (libc::SYS_socketpair, pairs),
                (libc::SYS_sendto, at_once(3)?),
                (libc::SYS_sendmsg, at_once(2)?),
                (libc::SYS_sendmmsg, at_once(3)?),
            ])
        }
        SandboxNetwork::All => SeccompRules::new(),
    })
}

/// Returns a filter that refuses the calls with [`X32`], which the other filters do not know by these numbers.
#[cfg(target_arch = "x86_64")]
fn build_x32_filter() -> BpfProgram {
    let line = |code: u32, jt, jf, k| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    vec![
        // The number of the call stands at the start of the data.
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        line(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        ),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
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
            assert!(build_filters(&network).is_ok_and(|programs| programs.iter().all(|program| !program.is_empty())));
        }
    }
}
