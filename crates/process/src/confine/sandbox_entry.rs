//! The helper that restricts itself and becomes the command.

#![expect(
    clippy::disallowed_methods,
    reason = "this process was started to become the command"
)]

#[cfg(target_os = "linux")]
pub(super) use linux::enter_sandbox;

/// Fails: other systems have no sandbox.
#[cfg(not(target_os = "linux"))]
pub(super) fn enter_sandbox(_: &super::SandboxHelperTask, _: &super::super::ProgramInvocation) -> String {
    "a sandbox needs Linux".to_owned()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, setrlimit};
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

    use super::super::super::{
        AGENT_NAME_VARIABLE, ATTEMPT_VARIABLE, EXECUTION_VARIABLE, PART_VARIABLE, ProgramInvocation, RUN_ID_VARIABLE,
        TURN_VARIABLE, strays,
    };
    use super::super::support::SandboxSupport;
    use super::super::{SandboxHelperTask, landlock_rules, seccomp_rules};

    /// The variables that every program gets, if they are set.
    const PASSED_VARIABLES: [&str; 20] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "NO_COLOR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        RUN_ID_VARIABLE,
        AGENT_NAME_VARIABLE,
        EXECUTION_VARIABLE,
        ATTEMPT_VARIABLE,
        TURN_VARIABLE,
        PART_VARIABLE,
        strays::PROCESS_MARK_VARIABLE,
        strays::WATCHED_OWNER_VARIABLE,
    ];

    /// Restricts this process and replaces it by the command. Returns only after a failure, with the reason.
    pub(in super::super) fn enter_sandbox(task: &SandboxHelperTask, command: &ProgramInvocation) -> String {
        match restrict_process(task) {
            Ok(()) => {}
            Err(reason) => return reason,
        }
        let mut command_line = Command::new(&command.program);
        command_line.args(&command.arguments);
        for (name, _) in std::env::vars_os() {
            if !is_variable_passed(&name.to_string_lossy(), &task.rules.env) {
                command_line.env_remove(name);
            }
        }
        for name in ["TMPDIR", "TMP", "TEMP"] {
            command_line.env(name, &task.temporary);
        }
        let error = command_line.exec();
        format!("cannot start `{}`: {error}", command.program.display())
    }

    /// Returns whether the process in the sandbox inherits the variable.
    fn is_variable_passed(name: &str, more: &[String]) -> bool {
        PASSED_VARIABLES.contains(&name) || name.starts_with("LC_") || more.iter().any(|other| other == name)
    }

    /// Sets the resource limits, drops capabilities, and applies the Landlock and seccomp rules to this process.
    fn restrict_process(task: &SandboxHelperTask) -> Result<(), String> {
        let limit = |resource, most: Option<u64>| match most {
            Some(maximum) => {
                let rlimit = Rlimit {
                    current: Some(maximum),
                    maximum: Some(maximum),
                };
                setrlimit(resource, rlimit).map_err(|error| format!("a limit cannot be set: {error}"))
            }
            None => Ok(()),
        };
        limit(Resource::Core, Some(0))?;
        limit(Resource::Data, task.rules.memory)?;
        // One second more than the supervisor allows, so that it can say why.
        limit(Resource::Cpu, task.rules.cpu_seconds.map(|most| most.saturating_add(1)))?;
        drop_unneeded_capabilities();
        // Whatever the callers of this program left open.
        close_fds::set_fds_cloexec(3, &[]);
        let support = SandboxSupport::detect_system();
        if support.landlock > 0 || !task.rules.best_effort {
            landlock_rules::apply_landlock(task)?;
        }
        if support.seccomp || !task.rules.best_effort {
            seccomp_rules::apply_seccomp(&task.rules)?;
        }
        Ok(())
    }

    /// Drops the capabilities of root over other processes and the system. Has no effect for other users.
    fn drop_unneeded_capabilities() {
        let kept_capabilities =
            CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::FSETID;
        for capability in (CapabilitySet::all() & !kept_capabilities).iter() {
            let _none_to_drop = remove_capability_from_bounding_set(capability);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn variables_that_nobody_listed_are_left_out() {
            let more = ["TOKEN".to_owned()];
            let passed = ["PATH", "LC_ALL", "ENSEMBLE_RUN_ID", "TOKEN"];
            assert!(passed.into_iter().all(|name| is_variable_passed(name, &more)));
            assert!(!is_variable_passed("AWS_SECRET_ACCESS_KEY", &more));
            assert!(!is_variable_passed("SSH_AUTH_SOCK", &more));
            assert!(!is_variable_passed("LD_PRELOAD", &more));
            assert!(!is_variable_passed("ENSEMBLE_UI_TOKEN", &more));
        }
    }
}
