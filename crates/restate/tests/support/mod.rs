//! The engine with a worker, in a network of its own.
//!
//! The engine looks up a host outside at every start. So whoever needs it starts itself again in a network that has only the
//! loopback; there are always the same ports.

#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

pub(crate) mod cluster;
pub(crate) mod compare;
pub(crate) mod random;
pub(crate) mod terminal;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::Utc;
use ensemble_core::conversation::{Event, Record};
use ensemble_core::request::RequestDigest;
use ensemble_core::store::{MemoryStore, RunId};
use ensemble_language::plan::Plan;
use ensemble_remote::EngineClient;
use ensemble_remote::protocol::RunStartRequest;
use ensemble_runs::batch::EngineRunOptions;
use ensemble_runs::{EnsembleRef, Project, RunHost, RunOptions, Runs};
use serde_json::{Value, json};

pub(crate) const INGRESS: &str = "http://127.0.0.1:8080";
const ADMIN: &str = "http://127.0.0.1:9070";

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the project")
}

fn engine_binary() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_ensemble-restate"))
        .parent()?
        .parent()?
        .to_owned();
    let package = "restate/node_modules/@restatedev/restate-server-linux-x64/bin/restate-server";
    [target.join(package), root().join("target").join(package)]
        .into_iter()
        .find(|path| path.is_file())
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// The variable that says that this process is in its network.
const INSIDE: &str = "ENSEMBLE_TEST_NETWORK";

/// Is this process in a network of its own?
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs the ignored test of this name in a network of its own.
pub(crate) fn in_a_network(test: &str) {
    outside(&["--ignored", "--exact", "--nocapture", test]);
}

/// Starts this program again with these arguments, in a network of its own. Without the engine it says so.
pub(crate) fn outside(arguments: &[&str]) {
    if engine_binary().is_none() {
        return skipped("tests/install.sh restate installs what this needs");
    }
    let works = Command::new("unshare")
        .args(["-rn", "ip", "link", "set", "lo", "up"])
        .output();
    if !works.is_ok_and(|works| works.status.success()) {
        return skipped("there is no unshare or no ip, or they may not make a network");
    }
    let status = Command::new("unshare")
        .args(["-rn", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args(arguments)
        .env(INSIDE, "1")
        .status()
        .expect("unshare starts");
    assert!(status.success(), "it failed in its network: {arguments:?}");
}

/// The engine, a worker, and the folder that the worker serves. Dropping it stops all.
pub(crate) struct Engine {
    server: Child,
    worker: Option<Child>,
    folder: tempfile::TempDir,
    _data: tempfile::TempDir,
}

impl Drop for Engine {
    fn drop(&mut self) {
        for child in self.worker.iter_mut().chain([&mut self.server]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait_for(port: u16) {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "nobody listens at {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Engine {
    /// Starts everything, with these files in the served folder.
    pub(crate) async fn start(files: &[(&str, &str)]) -> Self {
        let mut engine = Self::start_without_worker(folder_with(files));
        engine.start_worker();
        wait_for(9070);
        wait_for(8080);
        register(ADMIN, 9080).await;
        engine
    }

    /// Starts everything, and relays all that the worker and the engine send to each other. `variables`: of the worker.
    pub(crate) async fn start_observed(
        files: &[(&str, &str)],
        variables: &[(&str, &str)],
        traffic: &ObservedTraffic,
    ) -> Self {
        let mut engine = Self::start_without_worker(folder_with(files));
        traffic.relay_port(9081, 9080);
        traffic.relay_port(8081, 8080);
        let mut command = worker_command(engine.folder.path(), 9080, "http://127.0.0.1:8081");
        engine.worker = Some(
            command
                .envs(variables.iter().copied())
                .spawn()
                .expect("the worker starts"),
        );
        wait_for(9080);
        wait_for(9070);
        wait_for(8080);
        register(ADMIN, 9081).await;
        engine
    }

    fn start_without_worker(folder: tempfile::TempDir) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let server = Command::new(engine_binary().expect("it was found before"))
            .args(["--no-logo", "--listen-mode", "tcp", "--base-dir"])
            .arg(data.path())
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("DO_NOT_TRACK", "1")
            .env("RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS", "unlimited")
            .current_dir(data.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the engine starts");
        Self {
            server,
            worker: None,
            folder,
            _data: data,
        }
    }

    /// Starts everything, with these files in the served folder, and a worker with these options and variables.
    pub(crate) async fn start_with_options(
        files: &[(&str, &str)],
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut engine = Self::start_without_worker(folder_with(files));
        engine.start_worker_with(options, variables);
        wait_for(9070);
        wait_for(8080);
        register(ADMIN, 9080).await;
        engine
    }

    pub(crate) fn start_worker(&mut self) {
        self.start_worker_with(&[], &[]);
    }

    /// Starts a worker with these options and variables.
    pub(crate) fn start_worker_with(&mut self, options: &[&str], variables: &[(&str, &str)]) {
        let mut command = worker_command(self.folder.path(), 9080, INGRESS);
        command.args(options).envs(variables.iter().copied());
        self.worker = Some(command.spawn().expect("the worker starts"));
        wait_for(9080);
    }

    /// Stops the engine.
    pub(crate) fn stop_server(&mut self) {
        self.server.kill().expect("it can be killed");
        self.server.wait().expect("it is ours");
    }

    /// Sends a signal to the worker.
    pub(crate) fn signal_worker(&self, signal: &str) {
        let worker = self.worker.as_ref().expect("there is a worker").id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &worker]).status();
        assert!(sent.expect("kill starts").success(), "{signal}");
    }

    /// Waits until the worker has ended.
    pub(crate) fn wait_for_worker(&mut self) -> ExitStatus {
        let mut worker = self.worker.take().expect("there is a worker");
        worker.wait().expect("it is ours")
    }

    /// Returns what the worker says about itself.
    pub(crate) async fn ask_worker(&self) -> Option<Value> {
        let client = ensemble_models::build_http_client().expect("a client");
        let sent = client.get("http://127.0.0.1:9080/ensemble/worker").send().await.ok()?;
        serde_json::from_str(&sent.text().await.ok()?).ok()
    }

    /// Sends a request to the admin interface, and returns the answer.
    pub(crate) async fn ask_admin(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let client = ensemble_models::build_http_client().expect("a client");
        let method = method.parse().expect("a method");
        let mut request = client.request(method, format!("{ADMIN}/{path}"));
        request = request.header("accept", "application/json");
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let answer = request.send().await.expect("the engine answers");
        let text = answer.text().await.expect("a text");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// Starts a worker that ends itself at this point of its executions.
    pub(crate) fn start_worker_that_dies(&mut self, point: u32) {
        let mut command = worker_command(self.folder.path(), 9080, INGRESS);
        command.env("ENSEMBLE_FAULT_DIES", point.to_string());
        self.worker = Some(command.spawn().expect("the worker starts"));
        wait_for(9080);
    }

    /// Waits until the worker has ended, which returns `true`, or until this holds.
    pub(crate) async fn worker_dies_before<F: Future<Output = bool>>(&mut self, is_over: impl Fn() -> F) -> bool {
        let begun = Instant::now();
        loop {
            let worker = self.worker.as_mut().expect("a worker");
            if worker.try_wait().expect("it is ours").is_some() {
                return true;
            }
            if tokio::time::timeout(Duration::from_secs(1), is_over())
                .await
                .unwrap_or(false)
            {
                return false;
            }
            assert!(begun.elapsed() < PATIENCE, "the worker neither dies nor ends its run");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn kill_worker(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            worker.kill().expect("it can be killed");
            worker.wait().expect("it is ours");
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("a folder")
    }

    /// The runs of the served folder, here.
    pub(crate) fn runs(&self) -> Runs {
        runs_of(self.path())
    }
}

/// A folder to be served, with these files.
fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join(".ensemble")).expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// A worker that listens at this port.
fn worker(folder: &Path, port: u16) -> Child {
    worker_command(folder, port, INGRESS)
        .spawn()
        .expect("the worker starts")
}

fn worker_command(folder: &Path, port: u16, ingress: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble-restate"));
    command
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--ingress", ingress])
        .arg(folder)
        .env("ENSEMBLE_FAULT_HELD", folder.join("held"))
        .stderr(Stdio::null());
    command
}

/// All that passed through relays.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedTraffic(Arc<Mutex<Vec<u8>>>);

impl ObservedTraffic {
    /// Returns all that has passed.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("the traffic").clone()
    }

    /// Connects each connection to `port` with `target`.
    fn relay_port(&self, port: u16, target: u16) {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        let traffic = self.clone();
        std::thread::spawn(move || {
            for accepted in listener.incoming().flatten() {
                let Ok(connected) = TcpStream::connect(("127.0.0.1", target)) else {
                    continue;
                };
                let pairs = [
                    (accepted.try_clone(), connected.try_clone()),
                    (Ok(connected), Ok(accepted)),
                ];
                for (from, to) in pairs {
                    let traffic = traffic.clone();
                    std::thread::spawn(move || traffic.copy_bytes(from.ok()?, to.ok()?));
                }
            }
        });
    }

    /// Copies until the end of the connection.
    fn copy_bytes(&self, mut from: TcpStream, mut to: TcpStream) -> Option<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = from.read(&mut buffer).ok().filter(|count| *count > 0)?;
            self.0.lock().expect("the traffic").extend_from_slice(&buffer[..count]);
            to.write_all(&buffer[..count]).ok()?;
        }
    }
}

/// Tells the engine where the workers are, as soon as the engine is ready.
async fn register(admin: &str, port: u16) {
    let begun = Instant::now();
    let client = ensemble_models::build_http_client().expect("a client");
    loop {
        let sent = client
            .post(format!("{admin}/deployments"))
            .header("content-type", "application/json")
            .body(json!({"uri": format!("http://127.0.0.1:{port}")}).to_string())
            .send()
            .await;
        if sent.is_ok_and(|sent| sent.status().is_success()) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the engine does not take the worker");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The runs of a folder, here.
fn runs_of(folder: PathBuf) -> Runs {
    let host = RunHost::from_system().without_operator();
    Runs::for_project(Project::from_folder(folder), host).with_store(Arc::new(MemoryStore::new()))
}

/// Returns the digest of the latest question in the records.
pub(crate) fn digest_of_question(records: &[Record]) -> RequestDigest {
    let digests = records.iter().rev().filter_map(|record| match &record.event {
        Event::InputRequested(requested) => Some(requested.digest.clone()),
        _ => None,
    });
    digests.into_iter().next().expect("a question")
}

pub(crate) fn remote() -> EngineClient {
    EngineClient::from_url(INGRESS).expect("an address")
}

/// Starts the ensemble of this file on the engine.
pub(crate) async fn start(engine: &Engine, file: &str, id: &str) -> Arc<Plan> {
    start_with(&engine.runs(), &remote(), file, id).await
}

async fn start_with(runs: &Runs, remote: &EngineClient, file: &str, id: &str) -> Arc<Plan> {
    let ready = runs.prepare_run(EnsembleRef::from_file_or_name(file), RunOptions::default());
    let ready = ready.unwrap_or_else(|error| panic!("{file}: {error}"));
    let given = EngineRunOptions {
        answers: Default::default(),
        allowed_tools: Vec::new(),
        denied_tools: Vec::new(),
    };
    let start =
        RunStartRequest::from_ready_run(&ready, &RunId::new(id), Utc::now(), &given).expect("it is in the folder");
    let prepared = ready.prepared_ensemble();
    remote.start_run_once(&start).await.expect("the engine takes it");
    prepared.plan.clone()
}

/// The records of a run when they are enough.
pub(crate) async fn records_when(id: &str, are_enough: impl Fn(&[Record], bool) -> bool) -> Vec<Record> {
    let begun = Instant::now();
    loop {
        // A run that was sent is not begun at once.
        if let Ok(sent) = remote().fetch_records(id, 0).await {
            let records = remote().decode_records(&sent.lines).expect("they are records");
            if are_enough(&records, sent.is_over) {
                return records;
            }
        }
        assert!(begun.elapsed() < PATIENCE, "run {id} does not end");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

pub(crate) async fn all_records(id: &str) -> Vec<Record> {
    records_when(id, |_, is_over| is_over).await
}

/// A process of a script.
pub(crate) struct Process(PathBuf);

/// The process that has written its number into this file, as soon as it has.
pub(crate) async fn process_in(file: &Path) -> Process {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') {
            return Process(PathBuf::from(format!("/proc/{}", text.trim())));
        }
        assert!(begun.elapsed() < PATIENCE, "the script does not begin");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Process {
    /// Waits until it has ended.
    pub(crate) async fn ended(self) {
        let begun = Instant::now();
        while self.0.exists() {
            assert!(begun.elapsed() < PATIENCE, "the script of a run that is over goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
