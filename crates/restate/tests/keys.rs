//! The keys of a worker, on the engine itself, which `tests/install.sh restate` installs; without it this test says that it was
//! skipped.

#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use ensemble_core::records::append_record_line;
use support::{Engine, ObservedTraffic, all_records, in_a_network, start};

const KEY: &str = "sk-worker-0123456789abcdef";
const LISTED: &str = "listed-9876543210-fedcba";

/// One script gets a variable and prints it everywhere; another one prints what it finds in its environment.
const ENSEMBLE: &str = "name: keys
agents:
  - {name: prints, script: prints.sh, env: [WIKI_TOKEN]}
  - {name: fails, script: fails.sh, env: [WIKI_TOKEN], on_error: continue}
  - {name: looks, script: looks.sh}
  - {name: model, model_profile: m, depends_on: [prints], prompt: 'it printed {{ prints }}'}
model_profiles:
  m: {provider: simulated, replies: ['ordinary words']}
  o: {provider: openai, model: x}
";

const PRINTS: &str = "printf '{\"said\": \"plain-text %s\", \"base64\": \"%s\"}' \"$WIKI_TOKEN\" \"$(printf %s \"$WIKI_TOKEN\" | base64)\"";
const FAILS: &str = "echo \"it fails with $WIKI_TOKEN\" >&2; exit 3";
const LOOKS: &str = "env | tr '\\n' ' '";

#[test]
fn no_key_of_a_worker_is_sent_to_the_engine() {
    in_a_network("observed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`no_key_of_a_worker_is_sent_to_the_engine` starts it in a network of its own"]
async fn observed() {
    let files = [
        ("keys.yaml", ENSEMBLE),
        ("prints.sh", PRINTS),
        ("fails.sh", FAILS),
        ("looks.sh", LOOKS),
    ];
    let variables = [("OPENAI_API_KEY", KEY), ("WIKI_TOKEN", LISTED)];
    let traffic = ObservedTraffic::default();
    let engine = Engine::start_observed(&files, &variables, &traffic).await;
    let id = "aaaa-20261123-080000000";
    start(&engine, "keys.yaml", id).await;
    let mut records = Vec::new();
    for record in &all_records(id).await {
        append_record_line(record, &mut records);
    }
    let records = String::from_utf8(records).expect("text");
    let sent = String::from_utf8_lossy(&traffic.bytes()).into_owned();
    for text in [&records, &sent] {
        for shown in ["plain-text [secret]", "it fails with [secret]", "ordinary words"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        for hidden in [
            "0123456789abcdef",
            "9876543210-fedcba",
            "bGlzdGVkLTk4NzY1NDMyMTAtZmVkY2Jh",
        ] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }
}
