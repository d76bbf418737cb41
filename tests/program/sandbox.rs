//! Processes in a sandbox, which try to leave it.
//!
//! Each attempt is made without a sandbox first, where it must succeed: otherwise it would prove nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests look at files and processes")]

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Outcome, Running, Workspace, eventually, records};

/// The variable that tells [`actor`] what to try.
const ATTEMPT: &str = "ENSEMBLE_TEST_ATTEMPT";

/// What [`actor`] says if it has reached what it should not.
const REACHED: &str = "actor: reached";

/// A project in a folder of a folder, so that there is something outside.
pub(super) struct Cell {
    pub(super) workspace: Workspace,
}

impl Cell {
    /// One agent `it`, whose script is this.
    pub(super) fn new(script: &str) -> Self {
        let workspace = Workspace::new();
        workspace.write("project/it.sh", script);
        workspace.write("project/out/.keep", "");
        workspace.write("victim/secret", "the secret\n");
        Self { workspace }
    }

    /// Runs the script with these keys of its sandbox; `None`: without one.
    pub(super) fn run(&self, sandbox: Option<&str>) -> Outcome {
        self.command(sandbox).finish()
    }

    pub(super) fn command(&self, sandbox: Option<&str>) -> Running {
        let sandbox = sandbox.map(|keys| format!(", sandbox: {keys}")).unwrap_or_default();
        let text = format!("name: a\nagents:\n  - {{name: it, script: it.sh{sandbox}, timeout_seconds: 15}}\n");
        self.workspace.write("project/a.yaml", text);
        let mut command = self.workspace.command(["run", "a.yaml", "--output", "json"]);
        command.current_dir(self.workspace.path().join("project"));
        command.env("SECRET", "a token").env("LISTED", "a token");
        Running(command.spawn().expect("the program starts"))
    }

    /// The path of something outside the project.
    pub(super) fn outside(&self, name: &str) -> String {
        self.workspace.path().join("victim").join(name).display().to_string()
    }
}

/// Can this kernel enforce a sandbox? If not, the test says so and checks nothing.
pub(super) fn is_enforced() -> bool {
    let outcome = Cell::new("echo fine").run(Some("{}"));
    if outcome.code == 2 {
        assert!(
            outcome.stderr.contains("error[E067]") && outcome.stderr.contains("has no rules for"),
            "{}",
            outcome.stderr
        );
        eprintln_skipped(&outcome.stderr);
    }
    outcome.code != 2
}

#[expect(clippy::print_stderr, reason = "a test that checks nothing says so")]
fn eprintln_skipped(why: &str) {
    eprintln!("skipped, since this kernel cannot enforce a sandbox:\n{why}");
}

/// The failure of the only execution.
#[track_caller]
pub(super) fn failure(outcome: Outcome) -> (String, String) {
    let outcome = outcome.expect_code(1);
    let result = outcome.json();
    let output = &result["conversation_history"][0]["output_data"];
    let word = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
    (word("kind"), word("error"))
}

/// What the script printed as `reached`.
pub(super) fn reached(outcome: Outcome) -> Value {
    let outcome = outcome.expect_code(0);
    outcome.json()["final_state"]["reached"].clone()
}

/// A script that prints whether the command succeeds.
fn whether(command: &str) -> String {
    format!("if {{ {command}; }} >/dev/null 2>&1; then r=true; else r=false; fi\necho \"{{\\\"reached\\\": $r}}\"\n")
}

/// The attempt succeeds without a sandbox, and not with this one.
#[track_caller]
fn is_stopped(command: &str, sandbox: &str) {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new(&whether(command));
    assert_eq!(reached(cell.run(None)), true, "without a sandbox: {command}");
    assert_eq!(reached(cell.run(Some(sandbox))), false, "{sandbox}: {command}");
}

/// A command that makes [`actor`] try something.
fn acting(attempt: &str) -> String {
    let own = std::env::current_exe().expect("this test");
    format!(
        "{ATTEMPT}='{attempt}' '{}' --exact program::sandbox::actor --ignored --nocapture | grep -q '{REACHED}'",
        own.display()
    )
}

/// Keys of a sandbox in which [`actor`] can start.
fn with_actor(keys: &str) -> String {
    let own = std::env::current_exe().expect("this test");
    format!("{{env: [{ATTEMPT}], read: ['{}']{keys}}}", own.display())
}

/// No test, but what tries to leave a sandbox: this program, started by a script.
#[test]
#[ignore = "it is started by the scripts of other tests"]
#[expect(clippy::print_stdout, reason = "it tells what it has reached")]
fn actor() {
    let attempt = std::env::var(ATTEMPT).unwrap_or_default();
    let (kind, target) = attempt.split_once(' ').unwrap_or_default();
    let patience = Duration::from_secs(5);
    let has_reached = match kind {
        "tcp" => target
            .parse()
            .is_ok_and(|address| TcpStream::connect_timeout(&address, patience).is_ok()),
        "bind" => TcpListener::bind(target).is_ok(),
        "udp" => UdpSocket::bind("127.0.0.1:0").is_ok_and(|socket| socket.send_to(b"hello", target).is_ok()),
        "unix" => UnixStream::connect(target).is_ok(),
        "abstract" => {
            SocketAddr::from_abstract_name(target).is_ok_and(|address| UnixStream::connect_addr(&address).is_ok())
        }
        "pair" => UnixStream::pair().is_ok(),
        _ => false,
    };
    if has_reached {
        println!("{REACHED}");
    }
}

#[test]
fn files_outside_are_not_written_and_files_in_its_folders_are() {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new("touch ../victim/new || exit 3\n");
    cell.run(None).expect_code(0);
    std::fs::remove_file(cell.outside("new")).expect("it was written");
    let (kind, error) = failure(cell.run(Some("{write: [out]}")));
    assert_eq!(kind, "sandbox", "{error}");
    assert!(!std::path::Path::new(&cell.outside("new")).exists());
    let victim = cell.outside("");
    let line = format!("add `sandbox: {{write: [{}]}}`", victim.trim_end_matches('/'));
    assert!(error.contains(&line), "{error}\n{line}");

    let cell = Cell::new("echo hi > out/new && echo hi > \"$TMPDIR/x\" && mv \"$TMPDIR/x\" out/moved && echo ok");
    cell.run(Some("{write: [out]}")).expect_code(0);
    assert_eq!(cell.workspace.read("project/out/new"), "hi\n");
    assert_eq!(cell.workspace.read("project/out/moved"), "hi\n");
    // The folder of the ensemble is for reading.
    let cell = Cell::new("cat it.sh > /dev/null && echo more >> it.sh");
    let (kind, error) = failure(cell.run(Some("{write: [out]}")));
    assert_eq!(kind, "sandbox", "{error}");
    assert!(error.contains("`sandbox: {write: [it.sh]}`"), "{error}");
}

#[test]
fn files_outside_are_not_read() {
    is_stopped("cat ../victim/secret", "{write: [out]}");
    is_stopped("ls ../victim", "true");
    is_stopped("cat /etc/shadow || cat /etc/fstab || ls /var/lib", "true");
    if !is_enforced() {
        return;
    }
    let cell = Cell::new("cat ../victim/secret");
    let (kind, error) = failure(cell.run(Some("{}")));
    let line = format!("add `sandbox: {{read: [{}]}}`", cell.outside("secret"));
    assert!(kind == "sandbox" && error.contains(&line), "{kind}: {error}\n{line}");
    cell.run(Some("{read: [../victim]}")).expect_code(0);
}

#[test]
fn files_outside_are_not_moved_or_removed() {
    // The first half succeeds without a sandbox, and leaves the second half something to do.
    for command in [
        "mv ../victim/secret ../victim/moved || mv ../victim/moved ../victim/secret",
        "mv ../victim/secret out/moved || mv out/moved ../victim/secret",
        "rm ../victim/secret || rmdir ../victim",
    ] {
        is_stopped(command, "{write: [out]}");
    }
}

#[test]
fn links_lead_nowhere_else() {
    is_stopped("ln -sf ../../victim out/link && cat out/link/secret", "{write: [out]}");
    is_stopped("ln -f ../victim/secret out/hard && cat out/hard", "{write: [out]}");
    if !is_enforced() {
        return;
    }
    // The first execution puts a link in place of a folder that the second one may write.
    let workspace = Workspace::new();
    workspace.write("victim/secret", "");
    workspace.write("project/work/out/.keep", "");
    workspace.write(
        "project/swap.sh",
        "rm -r work/out && ln -s ../../victim work/out && echo done",
    );
    workspace.write("project/use.sh", "echo x > work/out/new && echo done");
    workspace.write(
        "project/a.yaml",
        "name: a\ndefaults: {sandbox: {write: [work, work/out]}}\nagents:\n  - {name: swap, script: swap.sh}\n  - {name: use, script: use.sh, depends_on: [swap]}\n",
    );
    let mut command = workspace.command(["run", "a.yaml", "--output", "json"]);
    command.current_dir(workspace.path().join("project"));
    let outcome = Running(command.spawn().expect("the program starts"))
        .finish()
        .expect_code(1);
    let used = &outcome.json()["conversation_history"][1]["output_data"];
    assert_eq!(used["kind"], "sandbox", "{used}");
    assert!(
        used["error"]
            .as_str()
            .is_some_and(|error| error.contains("is a link to")),
        "{used}"
    );
    assert!(!workspace.path().join("victim/new").exists());
}

#[test]
fn modes_of_files_outside_stay() {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new("chmod 777 ../victim/secret && echo ok");
    let mode = || {
        let data = std::fs::metadata(cell.outside("secret")).expect("a file");
        data.permissions().mode() & 0o777
    };
    let before = mode();
    assert_ne!(before, 0o777);
    cell.run(Some("{}")).expect_code(0);
    assert_eq!(mode(), before);
    cell.run(None).expect_code(0);
    assert_eq!(mode(), 0o777);
}

#[test]
fn there_is_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let udp = socket.local_addr().expect("an address");
    is_stopped(&acting(&format!("tcp {address}")), &with_actor(""));
    is_stopped(&acting("bind 127.0.0.1:0"), &with_actor(""));
    is_stopped(&acting(&format!("udp {udp}")), &with_actor(""));
    if !is_enforced() {
        return;
    }
    let all = with_actor(", network: true");
    let cell = Cell::new(&whether(&acting(&format!("udp {udp}"))));
    assert_eq!(reached(cell.run(Some(&all))), true);
    // What a process uses between its own parts is no network.
    let cell = Cell::new(&whether(&acting("pair -")));
    assert_eq!(reached(cell.run(Some(&with_actor("")))), true);
}

#[test]
fn listed_ports_are_reached_and_nothing_else_of_the_network() {
    if !is_enforced() {
        return;
    }
    let (listed, other) = (
        TcpListener::bind("127.0.0.1:0").expect("a port"),
        TcpListener::bind("127.0.0.1:0").expect("a port"),
    );
    let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    let sandbox = with_actor(&format!(", network: [{}]", port(&listed)));
    let attempts = [
        (format!("tcp 127.0.0.1:{}", port(&listed)), true),
        (format!("tcp 127.0.0.1:{}", port(&other)), false),
        ("bind 127.0.0.1:0".to_owned(), false),
        (format!("udp 127.0.0.1:{}", port(&listed)), false),
    ];
    for (attempt, expected) in attempts {
        let cell = Cell::new(&whether(&acting(&attempt)));
        assert_eq!(reached(cell.run(Some(&sandbox))), expected, "{attempt}");
    }
}

#[test]
fn sockets_of_other_processes_are_not_reached() {
    let workspace = Workspace::new();
    let path = workspace.path().join("s");
    let _at_path = UnixListener::bind(&path).expect("a socket");
    let name = format!("ensemble-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let _by_name = UnixListener::bind_addr(&address).expect("a socket");
    let at_path = acting(&format!("unix {}", path.display()));
    let keys = format!(", write: ['{}']", workspace.path().display());
    is_stopped(&at_path, &with_actor(&keys));
    is_stopped(&acting(&format!("abstract {name}")), &with_actor(""));
    // With ports of TCP there are no other sockets either.
    is_stopped(&at_path, &with_actor(&format!("{keys}, network: [443]")));
}

#[test]
fn other_processes_are_neither_ended_nor_read() {
    if !is_enforced() {
        return;
    }
    let mut other = Command::new("sleep")
        .arg("1000")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = other.id();
    for command in [
        format!("kill -0 {pid}"),
        format!("cat /proc/{pid}/environ"),
        format!("head -c 1 /proc/{pid}/maps | grep -q ."),
    ] {
        is_stopped(&command, "{read: [/proc]}");
    }
    // Its parent, which is outside of the sandbox, and the program itself.
    let cell = Cell::new(&whether(
        "kill -KILL $PPID || cat /proc/$PPID/environ || kill -TERM $(awk '{print $4}' /proc/$PPID/stat) || echo x > /proc/$PPID/mem",
    ));
    assert_eq!(reached(cell.run(Some("{read: [/proc], write: [/proc]}"))), false);
    // Never all processes at once: where a sandbox does not hold, that would end those of whoever runs the tests.
    let cell = Cell::new(&format!("kill -KILL {pid}; echo '{{\"reached\": false}}'"));
    cell.run(Some("{}")).expect_code(0);
    assert!(other.try_wait().expect("a child").is_none(), "it was killed");
    other.kill().expect("killed");
    other.wait().expect("it ends");
}

#[test]
fn calls_around_the_rules_are_refused() {
    if !is_enforced() || Command::new("perl").arg("-e1").status().is_err() {
        return;
    }
    is_stopped("unshare --user true || unshare --mount true", "{}");
    let mut other = Command::new("sleep")
        .arg("1000")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    if cfg!(target_arch = "x86_64") {
        // PTRACE_SEIZE, and io_uring_setup, which has this number everywhere.
        let seize = format!(
            "perl -e 'exit(syscall(101, 0x4206, {}, 0, 0) == 0 ? 0 : 1)'",
            other.id()
        );
        is_stopped(&seize, "{}");
        // The same call by the number for the small pointers is unknown, or refused as well.
        let small = Cell::new(&whether(
            "perl -e 'exit(syscall(0x40000000 | 41, 1, 1, 0) >= 0 ? 0 : 1)'",
        ));
        assert_eq!(reached(small.run(Some("{}"))), false);
    }
    let ring = "perl -e '$p = \"\\0\" x 200; syscall(425, 1, $p); exit($! == 38 ? 0 : 1)'";
    let cell = Cell::new(&whether(ring));
    assert_eq!(reached(cell.run(Some("{}"))), true, "io_uring is unknown in a sandbox");
    let prlimit = "perl -e '$l = pack(\"QQ\", 5, 5); exit(syscall(302, getppid(), 7, $l, 0) == 0 ? 0 : 1)'";
    if cfg!(target_arch = "x86_64") {
        is_stopped(&format!("sh -c \"exec true\" && {prlimit}"), "{}");
    }
    other.kill().expect("killed");
    other.wait().expect("it ends");
}

#[test]
fn what_was_open_before_is_closed() {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new("if [ -e /proc/self/fd/9 ]; then r=true; else r=false; fi; echo \"{\\\"reached\\\": $r}\"");
    let run = |sandbox: &str| {
        let text = format!("name: a\nagents:\n  - {{name: it, script: it.sh{sandbox}}}\n");
        cell.workspace.write("project/a.yaml", text);
        let mut command = cell.workspace.command(["run", "a.yaml", "--output", "json"]);
        command.current_dir(cell.workspace.path().join("project"));
        let program = command.get_program().to_owned();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec 9<../victim/secret; exec \"$0\" run a.yaml --output json"])
            .arg(program)
            .current_dir(cell.workspace.path().join("project"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running(shell.spawn().expect("a shell")).finish()
    };
    assert_eq!(reached(run("")), true);
    assert_eq!(reached(run(", sandbox: true")), false);
}

#[test]
fn only_listed_variables_are_passed() {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new("echo \"{\\\"reached\\\": \\\"$SECRET|$LISTED|${PATH:+path}|${ENSEMBLE_RUN_ID:+id}\\\"}\"");
    assert_eq!(reached(cell.run(None)), "a token|a token|path|id");
    assert_eq!(reached(cell.run(Some("{env: [LISTED]}"))), "|a token|path|id");
}

#[test]
fn its_temporary_folder_is_its_own_and_goes_with_it() {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new("touch \"$TMPDIR/x\" && echo \"{\\\"reached\\\": \\\"$TMPDIR\\\"}\"");
    let folder = reached(cell.run(Some("{}")));
    let folder = std::path::Path::new(folder.as_str().expect("a path"));
    assert!(folder.is_absolute() && !folder.exists(), "{}", folder.display());
    // Also if its time is up.
    let cell = Cell::new("echo \"$TMPDIR\" > out/folder; touch \"$TMPDIR/x\"; sleep 300");
    let text = "name: a\nagents:\n  - {name: it, script: it.sh, timeout_seconds: 2, sandbox: {write: [out]}}\n";
    cell.workspace.write("project/a.yaml", text);
    let mut command = cell.workspace.command(["run", "a.yaml"]);
    command.current_dir(cell.workspace.path().join("project"));
    Running(command.spawn().expect("the program starts"))
        .finish()
        .expect_code(1);
    let folder = cell.workspace.read("project/out/folder");
    assert!(!std::path::Path::new(folder.trim()).exists(), "{folder}");
}

#[test]
fn a_fork_bomb_ends_at_the_limit() {
    if !is_enforced() {
        return;
    }
    let mark = format!("{}", 700_000 + std::process::id());
    let cell = Cell::new(&format!("bomb() {{ sleep {mark} & bomb & bomb & wait; }}\nbomb\n"));
    let (kind, error) = failure(cell.run(Some("{processes: 20}")));
    assert!(
        kind == "sandbox" && error.contains("`processes: 20`"),
        "{kind}: {error}"
    );
    eventually("the end of the bomb", || {
        let found = Command::new("pgrep").args(["-f", &format!("sleep {mark}")]).status();
        (!found.expect("pgrep").success()).then_some(())
    });
    // Below the limit nothing is stopped.
    let cell = Cell::new("for i in 1 2 3 4 5; do sleep 0.2 & done; wait; echo fine");
    cell.run(Some("{processes: 20}")).expect_code(0);
}

#[test]
fn limits_of_time_and_memory_end_it() {
    if !is_enforced() {
        return;
    }
    // Each child uses little.
    let cell = Cell::new("while :; do sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'; done");
    let (kind, error) = failure(cell.run(Some("{cpu_seconds: 1}")));
    assert!(
        kind == "sandbox" && error.contains("`cpu_seconds: 1`"),
        "{kind}: {error}"
    );
    let cell = Cell::new("head -c 300000000 /dev/zero | tail -n 1 > /dev/null");
    cell.run(None).expect_code(0);
    let (kind, error) = failure(cell.run(Some("{memory: 64MiB}")));
    assert!(kind == "sandbox" && error.contains("memory"), "{kind}: {error}");
}

#[test]
fn nothing_of_it_stays_behind() {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new(
        "setsid sh -c 'sleep 1000 & echo $! > out/pid; env -i sleep 1000 & echo $! > out/bare; wait' >/dev/null 2>&1 &\nwhile [ ! -s out/bare ]; do sleep 0.02; done\necho fine",
    );
    cell.run(Some("{write: [out]}")).expect_code(0);
    for file in ["project/out/pid", "project/out/bare"] {
        let pid = cell.workspace.read(file);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        assert!(
            stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z ")),
            "{file}: {pid}"
        );
    }
}

#[test]
fn it_ends_as_its_program_does() {
    if !is_enforced() {
        return;
    }
    let (kind, error) = failure(Cell::new("exit 7").run(Some("{}")));
    assert!(kind == "exit" && error.contains("exit code 7"), "{kind}: {error}");
    let (kind, error) = failure(Cell::new("kill -SEGV $$").run(Some("{}")));
    assert!(kind == "signal" && error.contains("SIGSEGV"), "{kind}: {error}");
    let outcome = Cell::new("cat").run(Some("{}")).expect_code(0);
    assert_eq!(outcome.json()["final_state"]["agent_name"], "it", "{}", outcome.stdout);
}

#[test]
fn a_tool_has_a_sandbox_of_its_own() {
    if !is_enforced() {
        return;
    }
    let run = |defaults: &str, sandbox: &str| {
        let workspace = Workspace::new();
        workspace.write("victim/secret", "the secret");
        workspace.write("project/look.sh", "cat ../victim/secret");
        let profile = "{provider: simulated, replies: [{tool_calls: [{name: look}]}, done]}";
        let text = format!(
            "name: a\n{defaults}model_profiles: {{m: {profile}}}\ntools:\n  look: {{script: look.sh, parameters: {{type: object}}{sandbox}}}\nagents:\n  - {{name: it, model_profile: m, tools: [look]}}\n"
        );
        workspace.write("project/a.yaml", text);
        let mut command = workspace.command(["run", "a.yaml", "--output", "events"]);
        command.current_dir(workspace.path().join("project"));
        let outcome = Running(command.spawn().expect("the program starts")).finish();
        outcome.expect_code(0).stdout
    };
    assert!(run("", "").contains("the secret"));
    for (defaults, sandbox) in [("", ", sandbox: true"), ("defaults: {sandbox: true}\n", "")] {
        let said = run(defaults, sandbox);
        assert!(
            !said.contains("the secret") && said.contains("the sandbox does not allow reading"),
            "{said}"
        );
    }
    assert!(run("defaults: {sandbox: true}\n", ", sandbox: false").contains("the secret"));
}

#[test]
fn the_journal_and_the_reports_say_what_was_enforced() {
    if !is_enforced() {
        return;
    }
    let cell = Cell::new("echo fine");
    cell.run(Some("{network: [443], memory: 64MiB}")).expect_code(0);
    let runs = std::fs::read_dir(cell.workspace.path().join("project/.ensemble/runs")).expect("runs");
    let run = runs
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .expect("a run");
    let records = records(&run.join("journal.jsonl"));
    let finished = records.iter().find(|record| record["event"] == "execution_finished");
    let said = &finished.expect("it finished")["data"]["sandboxes"];
    let expected = serde_json::json!([{"landlock": 6, "seccomp": true, "network": "tcp 443", "memory": 64 << 20, "processes": 128}]);
    assert_eq!(*said, expected);
    let show = |more: &[&str]| {
        let arguments = ["runs", "show"].iter().chain(more);
        let mut command = cell.workspace.command(arguments);
        command.current_dir(cell.workspace.path().join("project"));
        Running(command.spawn().expect("the program starts"))
            .finish()
            .expect_code(0)
            .stdout
    };
    let line = "sandbox: Landlock 6, seccomp, network: tcp 443, memory: 67108864 bytes, processes: 128";
    assert!(show(&["-v"]).contains(line), "{}", show(&["-v"]));
    assert!(
        show(&["--output", "json"]).contains("\"tcp 443\""),
        "{}",
        show(&["--output", "json"])
    );
}

#[test]
fn a_path_that_is_not_there_is_found_before_the_run() {
    let cell = Cell::new("echo never > out/ran");
    let outcome = cell.run(Some("{write: [out, nowhere]}"));
    let outcome = outcome.expect_code(2);
    assert!(
        outcome.stderr.contains("error[E067]") && outcome.stderr.contains("nowhere"),
        "{}",
        outcome.stderr
    );
    assert!(!cell.workspace.path().join("project/out/ran").exists());
    let mut command = cell.workspace.command(["validate", "project/a.yaml"]);
    let validated = Running(command.stdin(Stdio::null()).spawn().expect("the program starts")).finish();
    assert!(
        validated.stdout.contains("W039") || validated.stderr.contains("W039"),
        "{validated:?}"
    );
}
