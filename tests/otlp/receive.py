# Receives OTLP over HTTP on a free port, prints where, and prints each span as a line of JSON. The first argument is the folder of the
# installed packages, whose types read the bytes; `--parse FILE` reads a file instead.
import http.server
import json
import sys

sys.path.insert(0, sys.argv[1])

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def tell(request):
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                told = MessageToDict(span, preserving_proto_field_name=True)
                told["trace_id"], told["span_id"] = span.trace_id.hex(), span.span_id.hex()
                told["parent_span_id"] = span.parent_span_id.hex()
                print(json.dumps(told), flush=True)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request = ExportTraceServiceRequest.FromString(body)
        # A reader that knows the types finds nothing that it does not know.
        assert request.SerializeToString(deterministic=True) and self.path == "/v1/traces"
        tell(request)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


if sys.argv[2:3] == ["--parse"]:
    with open(sys.argv[3], "rb") as file:
        tell(ExportTraceServiceRequest.FromString(file.read()))
else:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
