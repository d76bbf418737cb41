//! Programs in C that try every system call which leads out of a sandbox.
//!
//! They are compiled with `cc`; without a compiler, or on a kernel without sandboxes, these tests say so and check nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests look at files and processes")]

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::program::sandbox::{Cell, failure, is_enforced, reached};
use crate::support::Running;

/// The program that makes the attempts, compiled beside the project.
fn compile_probe(cell: &Cell) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sandbox/probe.c");
    let program = cell.workspace.path().join("probe");
    let mut compiler = Command::new("cc");
    let compiled = compiler.arg("-w").arg("-o").arg(&program).arg(source).status();
    match compiled {
        Ok(status) => {
            assert!(status.success(), "{source} does not compile");
            Some(program)
        }
        Err(error) => {
            say_skipped(&format!("there is no C compiler: {error}"));
            None
        }
    }
}

#[expect(clippy::print_stderr, reason = "a test that checks nothing says so")]
fn say_skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// A cell with the program that makes attempts; `None`: nothing can be checked here.
fn probing_cell() -> Option<(Cell, PathBuf)> {
    if !is_enforced() {
        return None;
    }
    let cell = Cell::new("");
    let program = compile_probe(&cell)?;
    Some((cell, program))
}

/// Makes the attempts in one script and returns those that have reached something.
fn reached_attempts(cell: &Cell, program: &std::path::Path, attempts: &[String], keys: Option<&str>) -> Vec<String> {
    let mut script = String::from("r=; p() { if \"$P\" \"$@\" >/dev/null 2>&1; then r=\"$r$* \"; fi; }\n");
    script.push_str(&format!("P='{}'\n", program.display()));
    for attempt in attempts {
        script.push_str(&format!("p {attempt}\n"));
    }
    script.push_str("printf '{\"reached\": \"%s\"}' \"$r\"\n");
    cell.workspace.write("project/it.sh", script);
    let keys = keys.map(|keys| format!("{{read: ['{}']{keys}}}", program.display()));
    let said = reached(cell.run(keys.as_deref()));
    let said = said.as_str().expect("a text").to_owned();
    attempts
        .iter()
        .filter(|attempt| said.contains(&format!("{attempt} ")))
        .cloned()
        .collect()
}

/// The attempts succeed without a sandbox, and none with it.
#[track_caller]
fn are_stopped(cell: &Cell, program: &std::path::Path, attempts: &[String], keys: &str) {
    assert_eq!(
        reached_attempts(cell, program, attempts, None),
        attempts,
        "without a sandbox"
    );
    let none: [String; 0] = [];
    assert_eq!(reached_attempts(cell, program, attempts, Some(keys)), none, "{keys}");
}

#[test]
fn no_call_names_a_socket_outside() {
    let Some((cell, program)) = probing_cell() else { return };
    let path = cell.workspace.path().join("victim/socket");
    let at_path = UnixDatagram::bind(&path).expect("a socket");
    let name = format!("ensemble-probe-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let by_name = UnixDatagram::bind_addr(&address).expect("a socket");
    let mut attempts = Vec::new();
    for way in ["connect", "sendto", "sendmsg", "sendmmsg"] {
        for kind in ["pair", "new"] {
            attempts.push(format!("send {kind}_{way} {}", path.display()));
            attempts.push(format!("send {kind}_{way} @{name}"));
        }
    }
    let named = [format!("send stream_sendto {}", path.display())];
    are_stopped(&cell, &program, &named, "");
    for keys in ["", ", network: [443]", ", memory: 64MiB"] {
        are_stopped(
            &cell,
            &program,
            &attempts,
            &format!("{keys}, write: ['{}']", cell.workspace.path().display()),
        );
        for socket in [&at_path, &by_name] {
            socket.set_nonblocking(true).expect("a socket");
            let mut text = [0; 8];
            // What was sent without a sandbox.
            for _ in 0..8 {
                socket.recv(&mut text).expect("a message");
            }
            assert!(
                socket.recv(&mut text).is_err(),
                "{keys}: a message came out of the sandbox"
            );
        }
    }
    for keys in ["", ", network: [443]"] {
        let others = [
            "make netlink".to_owned(),
            "make vsock".to_owned(),
            "listen tcp".to_owned(),
        ];
        let none: [String; 0] = [];
        assert_eq!(reached_attempts(&cell, &program, &others, Some(keys)), none, "{keys}");
    }
    let listening = ["listen tcp".to_owned()];
    assert_eq!(
        reached_attempts(&cell, &program, &listening, Some(", network: true")),
        listening
    );
}

#[test]
fn attributes_of_files_stay() {
    let Some((cell, program)) = probing_cell() else { return };
    cell.workspace.write("project/readable", "");
    cell.workspace.write("project/out/own", "");
    let readable = cell.workspace.path().join("project/readable");
    let attempt = |way: &str| format!("change {way} {}", readable.display());
    // What every file system can do for every user; what only some can, only has to fail.
    let everywhere: Vec<String> = ["fchmod", "futimens", "now", "utimensat"].map(attempt).to_vec();
    are_stopped(&cell, &program, &everywhere, "");
    let others = [
        "fchmodat2",
        "fchown",
        "fchownat",
        "fsetxattr",
        "fremovexattr",
        "setxattrat",
        "flags",
        "fsxattr",
        "file_setattr",
        "hint",
        "lease",
    ];
    let set = Command::new("setfattr")
        .args(["-n", "user.removable", "-v", "1"])
        .arg(&readable)
        .stderr(Stdio::null())
        .status();
    let _without_attributes = set;
    let others: Vec<String> = others.map(attempt).to_vec();
    let none: [String; 0] = [];
    assert_eq!(reached_attempts(&cell, &program, &others, Some("")), none);
    // By its path, from a folder that is not readable.
    let outside = cell.outside("secret");
    let by_path: Vec<String> = ["fchmodat2", "fchownat", "utimensat", "setxattrat", "file_setattr"]
        .map(|way| format!("change {way} {outside}"))
        .to_vec();
    assert_eq!(reached_attempts(&cell, &program, &by_path, Some("")), none);
}

#[test]
fn other_processes_and_queues_are_not_reached() {
    let Some((cell, program)) = probing_cell() else { return };
    let mut other = Command::new("sleep")
        .arg("1000")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = other.id();
    let mut attempts: Vec<String> = [
        "affinity",
        "scheduler",
        "ioprio",
        "prlimit",
        "signal",
        "pidfd_signal",
        "setpriority",
    ]
    .map(|way| format!("process {way} {pid}"))
    .to_vec();
    attempts.extend(["queue", "semaphore", "segment"].map(|kind| format!("make {kind}")));
    are_stopped(&cell, &program, &attempts, "");
    let more = ["setpriority_user", "setpriority_group", "pidfd_getfd"].map(|way| format!("process {way} {pid}"));
    let kinds = ["posix_queue", "ring", "unknown", "watch"].map(|kind| format!("make {kind}"));
    let none: [String; 0] = [];
    for keys in ["", ", network: true"] {
        for attempts in [&more[..], &kinds[..]] {
            assert_eq!(reached_attempts(&cell, &program, attempts, Some(keys)), none, "{keys}");
        }
    }
    other.kill().expect("killed");
    other.wait().expect("it ends");
}

#[test]
fn time_of_children_counts_whoever_waits_for_them() {
    let Some((cell, program)) = probing_cell() else { return };
    for way in ["ignored", "doubly"] {
        let script = format!("'{}' multiply {way}; echo '{{\"reached\": true}}'\n", program.display());
        cell.workspace.write("project/it.sh", script);
        let keys = format!("{{read: ['{}'], cpu_seconds: 2}}", program.display());
        let (kind, error) = failure(cell.run(Some(&keys)));
        assert!(
            kind == "sandbox" && error.contains("`cpu_seconds: 2`"),
            "{way}: {kind}: {error}"
        );
    }
}

#[test]
fn shared_memory_counts_without_a_page_of_it() {
    let Some((cell, program)) = probing_cell() else { return };
    for way in ["anonymous", "zero"] {
        let script = format!("'{}' fill {way} 200; echo '{{\"reached\": true}}'\n", program.display());
        cell.workspace.write("project/it.sh", script);
        assert_eq!(reached(cell.run(None)), true);
        let keys = format!("{{read: ['{}'], memory: 100MiB}}", program.display());
        let (kind, error) = failure(cell.run(Some(&keys)));
        assert!(
            kind == "sandbox" && error.contains("`memory: 104857600`"),
            "{way}: {kind}: {error}"
        );
    }
    let files = ["make memory_file".to_owned()];
    are_stopped(&cell, &program, &files, ", memory: 100MiB");
    assert_eq!(reached_attempts(&cell, &program, &files, Some("")), files);
}

/// Programs of every day, and what they print in a sandbox.
const PROGRAMS: [(&str, &str, &str); 9] = [
    (
        "bash",
        "bash -c 'f() { cat <(echo a) | tr a b; }; f; for i in 1 2; do sleep 0.01 & done; wait; cd out; echo $((6*7)) > n; cat n'",
        "b\n42",
    ),
    (
        "python3",
        "python3 -c 'import subprocess, multiprocessing as m, tempfile, threading, asyncio, os\nprint(subprocess.run([\"echo\", \"a\"], capture_output=True).stdout)\np = m.Process(target=print, args=(\"p\",)); p.start(); p.join()\nt = threading.Thread(target=print, args=(\"t\",)); t.start(); t.join()\nasyncio.run(asyncio.sleep(0.01))\nos.chmod(\"out\", 0o755)\nprint(tempfile.mkdtemp() != \"\")'",
        "b'a\\n'\np\nt\nTrue",
    ),
    (
        "python3",
        "python3 -m venv --without-pip out/v && out/v/bin/python -c 'import sqlite3; c = sqlite3.connect(\"out/db\"); c.execute(\"create table t (a)\"); c.commit(); print(\"v\")'",
        "v",
    ),
    (
        "node",
        "node -e 'const c = require(\"child_process\"); console.log(c.execSync(\"echo a\").toString().trim()); new (require(\"worker_threads\").Worker)(\"console.log(1)\", {eval: true}); require(\"fs\").writeFileSync(\"out/f\", \"x\")'",
        "a\n1",
    ),
    (
        "git",
        "export HOME=$TMPDIR; cd out && git init -q . && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm m && git log --format=%s",
        "m",
    ),
    (
        "cc",
        "cd \"$TMPDIR\" && echo 'int puts(const char *); int main() { puts(\"c\"); return 0; }' > c.c && cc -o c c.c && /lib64/ld-linux-x86-64.so.2 ./c",
        "c",
    ),
    (
        "java",
        "cd \"$TMPDIR\" && echo 'class A { public static void main(String[] a) { System.out.println(\"j\"); } }' > A.java && java A.java",
        "j",
    ),
    (
        "perl",
        "perl -e 'my $p = fork; exit 0 unless $p; waitpid $p, 0; print \"p\\n\"'",
        "p",
    ),
    (
        "sh",
        "seq 100000 | sort -R | sort -n | tail -1; find . -name it.sh; cp it.sh out/c && tar cf out/t.tar it.sh && tar xf out/t.tar -C out && touch out/c; tail -n 1 -f it.sh >/dev/null & p=$!; sleep 0.1; kill $p; date +%Z >/dev/null; echo s",
        "100000\n./it.sh\ns",
    ),
];

#[test]
fn programs_of_every_day_run() {
    if !is_enforced() {
        return;
    }
    for (name, command, expected) in PROGRAMS {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {name}")])
            .stdout(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            say_skipped(&format!("there is no `{name}`"));
            continue;
        }
        for more in ["", ", network: [443]", ", network: true"] {
            let cell = Cell::new(&format!("{command}\n"));
            let text = format!(
                "name: a\nagents:\n  - {{name: it, script: it.sh, timeout_seconds: 60, sandbox: {{write: [out], read: [{}]{more}}}}}\n",
                homes_of_programs()
            );
            cell.workspace.write("project/a.yaml", text);
            let mut command = cell.workspace.command(["run", "a.yaml", "--output", "json"]);
            command.current_dir(cell.workspace.path().join("project"));
            let outcome = Running(command.spawn().expect("the program starts"))
                .finish()
                .expect_code(0);
            let said = outcome.json()["final_state"]["response"].clone();
            assert_eq!(
                said.as_str().unwrap_or_default().trim_end(),
                expected,
                "{name}{more}: {outcome:?}"
            );
        }
    }
}

/// The folders of programs in the user's home, for example of `pyenv`: what `PATH` names outside of the system.
fn homes_of_programs() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path
        .split(':')
        .filter(|folder| !folder.starts_with("/usr") && !folder.starts_with("/bin"));
    let roots = folders.filter_map(|folder| std::path::Path::new(folder).parent());
    let roots: Vec<String> = roots
        .filter(|root| root.is_dir() && root.parent().is_some())
        .map(|root| format!("'{}'", root.display()))
        .collect();
    roots.join(", ")
}
