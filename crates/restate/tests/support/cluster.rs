//! Three nodes of the engine, and four workers behind a balancer.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ensemble_language::plan::Plan;
use ensemble_remote::EngineClient;
use ensemble_runs::Runs;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream as Connection};
use tokio::sync::Notify;

use super::{INGRESS, PATIENCE, engine_binary, folder_with, register, runs_of, start_with, wait_for, worker};

/// How many nodes the engine has. Everything that it keeps is on two of them.
pub(crate) const NODES: usize = 3;
/// How many workers there are.
pub(crate) const WORKERS: usize = 4;

/// The ports of the nodes' ingresses, and those of the workers.
const INGRESSES: [u16; NODES] = [8180, 8280, 8380];
const LISTEN: [u16; WORKERS] = [9181, 9182, 9183, 9184];

/// What is the same for all nodes. Few calls share a connection to a worker, so that the balancer has something to balance.
const NODE: &str = r#"
cluster-name = "campaign"
default-num-partitions = 6
default-replication = 2
disable-telemetry = true
rocksdb-total-memory-size = "256 MiB"

[default-retry-policy]
max-attempts = "unlimited"

[metadata-client]
addresses = ["http://127.0.0.1:5122", "http://127.0.0.1:5222", "http://127.0.0.1:5322"]

[worker.invoker]
http2-streams-per-connection-limit = 4
"#;

/// The nodes, the workers, and the folder that they serve. Dropping it stops all.
pub(crate) struct Cluster {
    nodes: Vec<Child>,
    workers: Vec<Child>,
    folder: tempfile::TempDir,
    data: tempfile::TempDir,
    /// What the engine takes for the only worker.
    pub(crate) balancer: Arc<Balancer<WORKERS>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().chain(&mut self.workers) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Gives each connection to the next port at which somebody listens.
pub(crate) struct Balancer<const N: usize> {
    /// How many connections each was given.
    pub(crate) given: [AtomicUsize; N],
    /// Who alone is given connections, where that is one.
    only: AtomicUsize,
    cut: Notify,
}

impl<const N: usize> Balancer<N> {
    fn start(listener: TcpListener, ports: [u16; N]) -> Arc<Self> {
        let balancer = Arc::new(Self {
            given: std::array::from_fn(|_| AtomicUsize::new(0)),
            only: AtomicUsize::new(N),
            cut: Notify::new(),
        });
        let shared = balancer.clone();
        tokio::spawn(async move {
            let mut next = 0;
            while let Ok((from, _)) = listener.accept().await {
                next += 1;
                tokio::spawn(shared.clone().carry(from, next, ports));
            }
        });
        balancer
    }

    async fn carry(self: Arc<Self>, mut from: Connection, next: usize, ports: [u16; N]) {
        let only = self.only.load(Ordering::SeqCst);
        for at in (next..next + N).map(|at| at % N) {
            if only < N && only != at {
                continue;
            }
            let cut = self.cut.notified();
            let Ok(mut to) = Connection::connect(("127.0.0.1", ports[at])).await else {
                continue;
            };
            self.given[at].fetch_add(1, Ordering::SeqCst);
            let _ = (from.set_nodelay(true), to.set_nodelay(true));
            // When one of the two is lost, the other hears of it.
            tokio::select! {
                _ = copy_bidirectional(&mut from, &mut to) => {}
                () = cut => {}
            }
            return;
        }
    }

    /// From now on only this one is given connections, and those that are there are lost.
    pub(crate) fn move_to(&self, at: usize) {
        self.only.store(at, Ordering::SeqCst);
        self.cut.notify_waiters();
    }
}

impl Cluster {
    /// Starts everything, with these files in the served folder.
    pub(crate) async fn start(files: &[(&str, &str)]) -> Self {
        let folder = folder_with(files);
        let data = tempfile::tempdir().expect("a folder");
        std::fs::write(data.path().join("node.toml"), NODE).expect("a file");
        let listen = async |port: u16| TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        Balancer::start(listen(8080).await, INGRESSES);
        let balancer = Balancer::start(listen(9080).await, LISTEN);
        let mut cluster = Self {
            nodes: Vec::new(),
            workers: LISTEN.iter().map(|port| worker(folder.path(), *port)).collect(),
            folder,
            data,
            balancer,
        };
        cluster.nodes = (0..NODES).map(|at| cluster.node(at)).collect();
        for port in LISTEN {
            wait_for(port);
        }
        for at in 0..NODES {
            cluster.node_is_ready(at).await;
        }
        register("http://127.0.0.1:9170", 9080).await;
        cluster
    }

    fn node(&self, at: usize) -> Child {
        let number = at + 1;
        let folder = self.data.path();
        let log = std::fs::File::create(folder.join(format!("node{number}.log"))).expect("a file");
        Command::new(engine_binary().expect("it was found before"))
            .args(["--no-logo", "--listen-mode", "tcp", "--config-file"])
            .arg(folder.join("node.toml"))
            .arg("--base-dir")
            .arg(folder.join(format!("node{number}")))
            .args(["--node-name", &format!("node{number}"), "--bind-ip", "127.0.0.1"])
            .args(["--advertised-host", "127.0.0.1", "--bind-port", &format!("5{number}22")])
            .args(["--auto-provision", if at == 0 { "true" } else { "false" }])
            .env("RESTATE_INGRESS__BIND_ADDRESS", format!("127.0.0.1:{}", INGRESSES[at]))
            .env("RESTATE_ADMIN__BIND_ADDRESS", format!("127.0.0.1:9{number}70"))
            .env("DO_NOT_TRACK", "1")
            .current_dir(folder)
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .expect("a node starts")
    }

    /// Waits until a node takes requests.
    async fn node_is_ready(&self, at: usize) {
        let begun = Instant::now();
        let client = ensemble_models::build_http_client().expect("a client");
        let health = format!("http://127.0.0.1:{}/restate/health", INGRESSES[at]);
        while !client
            .get(&health)
            .send()
            .await
            .is_ok_and(|sent| sent.status().is_success())
        {
            assert!(begun.elapsed() < PATIENCE, "node {at} does not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills a node, and starts it again after a while.
    pub(crate) async fn kill_node(&mut self, at: usize, pause: Duration) {
        kill(&mut self.nodes[at]);
        tokio::time::sleep(pause).await;
        self.nodes[at] = self.node(at);
        self.node_is_ready(at).await;
    }

    /// Kills a worker, and starts it again after a while.
    pub(crate) async fn kill_worker(&mut self, at: usize, pause: Duration) {
        kill(&mut self.workers[at]);
        tokio::time::sleep(pause).await;
        self.workers[at] = worker(self.folder.path(), LISTEN[at]);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", LISTEN[at])).is_err() {
            assert!(begun.elapsed() < PATIENCE, "worker {at} does not start");
            tokio::time::sleep(Duration::from_millis(10)).await;
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

fn kill(child: &mut Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it is ours");
}

/// The engine, through the balancer, with patience for nodes that are killed.
pub(crate) fn patient() -> EngineClient {
    EngineClient::from_url(INGRESS)
        .expect("an address")
        .with_waiting_from_start()
}

/// Starts the ensemble of this file.
pub(crate) async fn start(runs: &Runs, file: &str, id: &str) -> Arc<Plan> {
    start_with(runs, &patient(), file, id).await
}
