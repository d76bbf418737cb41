//! The helper that starts the process in the sandbox, counts what is below it, and ends all of it.
//!
//! It is outside the rules, and what it has started cannot reach it. Orphans below it become its children, so that
//! nothing leaves the tree.

#[cfg(target_os = "linux")]
pub(super) use linux::run_supervised_command;

/// Fails: other systems have no sandbox.
#[cfg(not(target_os = "linux"))]
pub(super) fn run_supervised_command(
    _: &super::super::ProgramInvocation,
    _: &super::SandboxHelperTask,
    _: &super::super::ProgramInvocation,
) -> Result<u8, String> {
    Err("a sandbox needs Linux".to_owned())
}

#[cfg(target_os = "linux")]
mod linux {
    #![expect(clippy::disallowed_methods, reason = "this process starts the one in the sandbox")]

    use std::process::Command;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{
        Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
        pidfd_open, set_child_subreaper, setrlimit, wait,
    };
    use tokio::signal::unix::{SignalKind, signal};

    use super::super::super::{ProgramInvocation, tree};
    use super::super::resource_meter::ResourceMeter;
    use super::super::{SandboxHelperTask, SandboxRules, helper, landlock_rules};

    /// Minimum and maximum pause between two measurements.
    const MEASUREMENT_PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

    /// Maximum pause if processor time is limited, because the time of an unreaped process is only known while it lives.
    const MAX_PAUSE_WITH_TIME_LIMIT: Duration = Duration::from_millis(10);

    /// Minimum pause, in multiples of the duration of a measurement.
    const PAUSE_PER_MEASUREMENT: u32 = 8;

    /// The number of looks for what is left at the end.
    const MAX_FINAL_CHECKS: usize = 2_000;

    /// Starts the command in its sandbox, enforces the limits, and returns its exit code.
    pub(in super::super) fn run_supervised_command(
        own: &ProgramInvocation,
        task: &SandboxHelperTask,
        command: &ProgramInvocation,
    ) -> Result<u8, String> {
        set_child_subreaper(Some(getpid())).map_err(|error| format!("orphans cannot be collected: {error}"))?;
        // The signals that end the process must not end this one before it. A program that is started ignores none.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let _entered = runtime.as_ref().map(tokio::runtime::Runtime::enter);
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        let _heard_and_ignored = kinds.map(|kind| runtime.as_ref().ok().map(|_| signal(kind)));
        let all_at_once = landlock_rules::restrict_signals_to_children();
        let text = serde_json::to_string(task).map_err(|error| error.to_string())?;
        let started = Command::new(&own.program)
            .args(&own.arguments)
            .arg(helper::ENTER_ARGUMENT)
            .arg(text)
            .arg(&command.program)
            .args(&command.arguments)
            .spawn()
            .map_err(|error| format!("the helper cannot be started: {error}"))?;
        let process = Pid::from_child(&started);
        let wait_result = wait_or_kill_at_limit(process, &task.rules, all_at_once);
        kill_descendants_and_wait(all_at_once);
        let status = wait_result?;
        Ok(exit_code_or_raise(status))
    }

    /// Waits for the exit of the process. Kills it at a limit.
    ///
    /// # Errors
    /// The limit at which it was ended.
    fn wait_or_kill_at_limit(process: Pid, rules: &SandboxRules, all_at_once: bool) -> Result<WaitStatus, String> {
        let opened =
            pidfd_open(process, PidfdFlags::empty()).map_err(|error| format!("it cannot be watched: {error}"))?;
        let mut pause = MEASUREMENT_PAUSES.0;
        let mut peak_processes = 0;
        let mut meter = ResourceMeter::default();
        let longest_pause = match rules.cpu_seconds {
            Some(_) => MAX_PAUSE_WITH_TIME_LIMIT,
            None => MEASUREMENT_PAUSES.1,
        };
        loop {
            if let Some(status) = reap_exited_processes(Some(process)) {
                return Ok(status);
            }
            let began = Instant::now();
            let used = meter.measure_descendants(rules);
            if let Some(limit) = used.describe_exceeded_limit(rules) {
                kill_all_descendants(all_at_once);
                return Err(limit);
            }
            // What grows is looked at more often.
            pause = if used.processes > peak_processes {
                MEASUREMENT_PAUSES.0
            } else {
                (pause * 2).min(longest_pause)
            };
            pause = pause.max((began.elapsed() * PAUSE_PER_MEASUREMENT).min(MEASUREMENT_PAUSES.1));
            peak_processes = used.processes;
            let at_most = Timespec::try_from(pause).ok();
            let _woken = poll(&mut [PollFd::new(&opened, PollFlags::IN)], at_most.as_ref());
        }
    }

    /// Reaps all exited processes, and returns the exit status of `process` if it is among them.
    fn reap_exited_processes(process: Option<Pid>) -> Option<WaitStatus> {
        let mut exit_status = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if Some(pid) == process {
                exit_status = Some(status);
            }
        }
        exit_status
    }

    /// Kills all descendants. `all_at_once` means that signals of this process reach only descendants.
    fn kill_all_descendants(all_at_once: bool) {
        if all_at_once {
            // For `kill`, the group of process 1 means all processes: those to which this process may send signals. The
            // system starts no process meanwhile, so that nothing can grow faster than it is killed.
            let _nobody_left = kill_process_group(Pid::INIT, Signal::KILL);
        } else {
            tree::kill_descendants(getpid().as_raw_pid());
        }
    }

    /// Kills the processes that remain, and waits until they have exited.
    fn kill_descendants_and_wait(all_at_once: bool) {
        for _ in 0..MAX_FINAL_CHECKS {
            kill_all_descendants(all_at_once);
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                // There is no child any more.
                Err(_) => return,
            }
        }
    }

    /// Returns the exit code. If a signal ended the process, ends this process with the same signal.
    fn exit_code_or_raise(status: WaitStatus) -> u8 {
        if let Some(code) = status.exit_status() {
            return u8::try_from(code).unwrap_or(u8::MAX);
        }
        let number = status.terminating_signal().unwrap_or_default();
        let no_dump = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _a_dump_would_be_of_this_process = setrlimit(Resource::Core, no_dump);
        if let Some(signal) = Signal::from_named_raw(number) {
            // The first one may only end the handler with which this program notices that its stack is full.
            let _or_by_its_code = kill_process(getpid(), signal);
            let _or_by_its_code = kill_process(getpid(), signal);
        }
        128_u8.saturating_add(u8::try_from(number).unwrap_or_default())
    }
}
