//! A program at a terminal, which `script` is.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the program may take to print what is expected.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that runs at a terminal.
pub(crate) struct TerminalSession {
    program: Child,
    keys: ChildStdin,
    printed: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl TerminalSession {
    /// Starts `script`, which is the terminal. Returns `None` if there is no `script`.
    pub(crate) fn start(script: &mut Command) -> Option<Self> {
        let started = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut program = started.ok()?;
        let keys = program.stdin.take().expect("a pipe");
        let mut output = program.stdout.take().expect("a pipe");
        let printed = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&printed);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                kept.lock().expect("unpoisoned").extend_from_slice(&bytes[..count]);
            }
        });
        Some(Self {
            program,
            keys,
            printed,
            reader,
        })
    }

    /// Waits until the text that was printed is the expected one.
    pub(crate) fn wait_for(&self, is_expected: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !is_expected(&read_text(&self.printed)) {
            assert!(begun.elapsed() < PATIENCE, "{}", read_text(&self.printed));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the text that was printed until now.
    pub(crate) fn text(&self) -> String {
        read_text(&self.printed)
    }

    /// Types the keys.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("somebody reads");
    }

    /// Waits for the end of the program, and returns its exit code and all that it printed.
    pub(crate) fn wait_until_ended(self) -> (Option<i32>, String) {
        let Self {
            mut program,
            keys,
            printed,
            reader,
        } = self;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = program.try_wait().expect("its state") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                program.kill().expect("it is stopped");
                panic!("the program does not end: {}", read_text(&printed));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        drop(keys);
        reader.join().expect("the output is read");
        (status.code(), read_text(&printed))
    }
}

fn read_text(printed: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&printed.lock().expect("unpoisoned")).into_owned()
}
