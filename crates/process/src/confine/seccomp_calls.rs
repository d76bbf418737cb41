//! System calls, and requests of `ioctl`, `fcntl` and `prctl`, that a program in a sandbox can use.
//!
//! Invariant: a call that no list names does not exist in a sandbox, so a call of a later kernel is no way around the rules.

use libc::c_long;

/// The calls that every sandbox allows. The arguments of some of them are checked.
pub(super) const ALLOWED_CALLS: &[c_long] = &[
    // Files: Landlock decides about their paths.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_umask,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    // Events.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_remap_file_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_get_mempolicy,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    libc::SYS_membarrier,
    // Processes, threads and signals: Landlock decides about signals.
    libc::SYS_clone,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_setpgid,
    libc::SYS_getsid,
    libc::SYS_setsid,
    libc::SYS_prctl,
    libc::SYS_seccomp,
    libc::SYS_personality,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_ioprio_get,
    libc::SYS_ioprio_set,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_setparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getattr,
    libc::SYS_sched_setattr,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_getcpu,
    // Users and rights, of which a process can only give up its own.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capget,
    libc::SYS_capset,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_times,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    // The system.
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

/// Calls that have the same numbers on all processors and that not every C library knows.
pub(super) const ALLOWED_CALL_NUMBERS: &[c_long] = &[
    424, // pidfd_send_signal: Landlock decides about signals.
    434, // pidfd_open
    436, // close_range
    437, // openat2
    439, // faccessat2
    441, // epoll_pwait2
    444, // landlock_create_ruleset
    445, // landlock_add_rule
    446, // landlock_restrict_self
    449, // futex_waitv
    450, // set_mempolicy_home_node
    451, // cachestat
    453, // map_shadow_stack
    454, // futex_wake
    455, // futex_wait
    456, // futex_requeue
    462, // mseal
    464, // getxattrat
    465, // listxattrat
];

/// Older forms of allowed calls, which only some processors have.
#[cfg(target_arch = "x86_64")]
pub(super) const ALLOWED_OLDER_CALLS: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_signalfd,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getpgrp,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_arch_prctl,
    libc::SYS_getrlimit,
    libc::SYS_setrlimit,
    libc::SYS_sync_file_range,
];

/// Allowed calls that have these numbers on all other processors with filters: `renameat`, `sync_file_range`, `getrlimit` and
/// `setrlimit`.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED_OLDER_CALLS: &[c_long] = &[38, 84, 163, 164];

/// Number of `memfd_create`, which creates memory that no limit counts.
pub(super) const MEMFD_CREATE_CALL: c_long = libc::SYS_memfd_create;

/// Calls on sockets that have their peer already, such as both ends of a pair.
pub(super) const CONNECTED_SOCKET_CALLS: &[c_long] = &[
    libc::SYS_socketpair,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

/// Calls that make a socket and name its peer.
pub(super) const CONNECTION_CALLS: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
];

/// Calls of a server.
pub(super) const SERVER_CALLS: &[c_long] = &[libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4];

/// Calls that are refused with "Operation not permitted", because programs print it. Other forbidden calls seem not to exist.
pub(super) const REFUSED_CALLS: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
];

/// Calls that change modes, owners and times of files, which Landlock does not cover. They succeed without an effect, because programs that
/// copy files would fail otherwise.
pub(super) const IGNORED_CALLS: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    452, // fchmodat2
];

/// Call that sets the times of a file, with the positions of its arguments.
pub(super) struct CallWithTimes {
    pub(super) number: c_long,
    /// The path; without one, the call is for an open file. `None`: there is always a path.
    pub(super) path: Option<u8>,
    /// The times; without them, the call sets the current time.
    pub(super) times: u8,
}

/// The calls that set times.
pub(super) const TIME_SETTING_CALLS: &[CallWithTimes] = &[
    CallWithTimes {
        number: libc::SYS_utimensat,
        path: Some(1),
        times: 2,
    },
    #[cfg(target_arch = "x86_64")]
    CallWithTimes {
        number: libc::SYS_futimesat,
        path: Some(1),
        times: 2,
    },
    #[cfg(target_arch = "x86_64")]
    CallWithTimes {
        number: libc::SYS_utime,
        path: None,
        times: 1,
    },
    #[cfg(target_arch = "x86_64")]
    CallWithTimes {
        number: libc::SYS_utimes,
        path: None,
        times: 1,
    },
];

/// Calls that change extended attributes of a file, which Landlock does not cover.
pub(super) const ATTRIBUTE_CALLS: &[c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463, // setxattrat
    466, // removexattrat
];

/// The requests of `ioctl`: terminals, pipes, sockets, and what tells of a file. None changes an attribute of a file or
/// writes to the input of a terminal.
pub(super) const ALLOWED_IOCTL_REQUESTS: &[u64] = &[
    0x5401,      // TCGETS
    0x5402,      // TCSETS
    0x5403,      // TCSETSW
    0x5404,      // TCSETSF
    0x5405,      // TCGETA
    0x5406,      // TCSETA
    0x5407,      // TCSETAW
    0x5408,      // TCSETAF
    0x5409,      // TCSBRK
    0x540A,      // TCXONC
    0x540B,      // TCFLSH
    0x540E,      // TIOCSCTTY
    0x540F,      // TIOCGPGRP
    0x5410,      // TIOCSPGRP
    0x5411,      // TIOCOUTQ
    0x5413,      // TIOCGWINSZ
    0x5414,      // TIOCSWINSZ
    0x541B,      // FIONREAD
    0x5421,      // FIONBIO
    0x5422,      // TIOCNOTTY
    0x5429,      // TIOCGSID
    0x5441,      // TIOCGPTPEER
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x5452,      // FIOASYNC
    0x802C_542A, // TCGETS2
    0x402C_542B, // TCSETS2
    0x402C_542C, // TCSETSW2
    0x402C_542D, // TCSETSF2
    0x8004_5430, // TIOCGPTN
    0x4004_5431, // TIOCSPTLCK
    0x8004_5439, // TIOCGPTLCK
    0x4004_9409, // FICLONE
    0x4020_940D, // FICLONERANGE
    0xC020_660B, // FS_IOC_FIEMAP
    0x8008_6601, // FS_IOC_GETFLAGS
    0x801C_581F, // FS_IOC_FSGETXATTR
    0x8008_7601, // FS_IOC_GETVERSION
    0x8905,      // SIOCATMARK
    0x8906,      // SIOCGSTAMP
    0x8910,      // SIOCGIFNAME
    0x8912,      // SIOCGIFCONF
    0x8913,      // SIOCGIFFLAGS
    0x8915,      // SIOCGIFADDR
    0x8919,      // SIOCGIFBRDADDR
    0x891B,      // SIOCGIFNETMASK
    0x8921,      // SIOCGIFMTU
    0x8927,      // SIOCGIFHWADDR
    0x8933,      // SIOCGIFINDEX
];

/// The commands of `fcntl`: descriptors, locks and pipes. Leases and hints, which change how others reach a file, are not
/// among them.
pub(super) const ALLOWED_FCNTL_COMMANDS: &[u64] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, // F_DUPFD to F_GETSIG
    15, 16, // F_SETOWN_EX, F_GETOWN_EX
    36, 37, 38,   // F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
    1025, // F_GETLEASE
    1027, // F_DUPFD_QUERY
    1028, // F_CREATED_QUERY
    1030, // F_DUPFD_CLOEXEC
    1031, 1032, // F_SETPIPE_SZ, F_GETPIPE_SZ
    1033, 1034, // F_ADD_SEALS, F_GET_SEALS
    1035, 1037, // F_GET_RW_HINT, F_GET_FILE_RW_HINT
];

/// The options of `prctl` that concern only the process itself.
pub(super) const ALLOWED_PRCTL_OPTIONS: &[u64] = &[
    1,
    2, // PDEATHSIG
    3, // GET_DUMPABLE: the maps of a process that sets it cannot be read
    5,
    6, // UNALIGN
    7,
    8, // KEEPCAPS
    13,
    14, // TIMING
    15,
    16, // NAME
    21,
    22, // SECCOMP
    23,
    24, // CAPBSET
    25,
    26, // TSC
    27,
    28, // SECUREBITS
    29,
    30, // TIMERSLACK
    33,
    34, // MCE_KILL
    36,
    37, // CHILD_SUBREAPER
    38,
    39, // NO_NEW_PRIVS
    40, // TID_ADDRESS
    41,
    42, // THP_DISABLE
    45,
    46, // FP_MODE
    47, // CAP_AMBIENT
    50,
    51, // SVE
    52,
    53, // SPECULATION_CTRL
    54, // PAC_RESET_KEYS
    55,
    56, // TAGGED_ADDR_CTRL
    60,
    61, // PAC_SET_ENABLED_KEYS
    63,
    64, // SME
    65,
    66, // MDWE
    67,
    68, // MEMORY_MERGE
    69,
    70,
    71, // RISCV
    74,
    75,
    76,          // SHADOW_STACK_STATUS
    0x4155_5856, // GET_AUXV
    0x5356_4D41, // SET_VMA
];
