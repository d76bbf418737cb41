//! Spans are compressed where the variable of the standard asks for it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use ensemble_telemetry::{HttpClientBuilder, SpanExporter, TelemetrySettings, TelemetrySettingsError};
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// A collector for one request: its head, in small letters, and its body.
fn collector() -> (String, JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let received = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let end = request.windows(4).position(|end| end == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length: usize = length.expect("a length").trim().parse().expect("a number");
                if request.len() >= end + 4 + length {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    stream.write_all(answer).expect("it is read");
                    return (head, request.split_off(end + 4));
                }
            }
            let more = stream.read(&mut piece).expect("a request");
            assert!(more > 0, "the request is cut short");
            request.extend_from_slice(&piece[..more]);
        }
    });
    (url, received)
}

/// What a collector is sent with these variables.
fn sent(variables: &[(&str, &str)]) -> (String, Vec<u8>) {
    let (url, received) = collector();
    let settings = TelemetrySettings::from_variables(|name| {
        let given = variables.iter().find(|(known, _)| *known == name);
        let endpoint = (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| url.clone());
        given.map(|(_, value)| (*value).to_owned()).or(endpoint)
    });
    let client: HttpClientBuilder = Box::new(|| Box::pin(async { ensemble_models::build_http_client() }));
    let exporter = SpanExporter::spawn_exporter_thread(&settings.expect("they can be used"), client).expect("a thread");
    exporter.queue_or_drop_span(Span {
        name: "heron ".repeat(100),
        ..Span::default()
    });
    let report = exporter.close_and_wait_for_export();
    assert_eq!((report.all, report.accepted), (1, 1), "{report:?}");
    received.join().expect("a request")
}

fn name_in(body: &[u8]) -> String {
    let request = ExportTraceServiceRequest::decode(body).expect("spans");
    request.resource_spans[0].scope_spans[0].spans[0].name.clone()
}

#[test]
fn spans_are_compressed_if_it_is_asked_for() {
    for name in [
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    ] {
        let (head, body) = sent(&[(name, "gzip")]);
        assert!(head.contains("content-encoding: gzip"), "{head}");
        assert!(body.len() < 300, "{}", body.len());
        let mut whole = Vec::new();
        GzDecoder::new(&*body).read_to_end(&mut whole).expect("it is gzip");
        assert_eq!(name_in(&whole), "heron ".repeat(100));
    }
}

#[test]
fn spans_are_not_compressed_otherwise() {
    for variables in [
        &[][..],
        &[("OTEL_EXPORTER_OTLP_COMPRESSION", "none")],
        // The one for traces wins.
        &[
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none"),
        ],
    ] {
        let (head, body) = sent(variables);
        assert!(!head.contains("content-encoding"), "{head}");
        assert_eq!(name_in(&body), "heron ".repeat(100));
    }
}

#[test]
fn another_compression_is_told() {
    let read =
        TelemetrySettings::from_variables(|name| (name == "OTEL_EXPORTER_OTLP_COMPRESSION").then(|| "zstd".to_owned()));
    let Err(TelemetrySettingsError::Invalid(problem)) = read else {
        panic!("it is taken");
    };
    assert_eq!(
        problem,
        "OTEL_EXPORTER_OTLP_COMPRESSION is `zstd`, which is not supported; use `gzip` or `none`"
    );
}
