"""A collector that takes OTLP metrics over HTTP, on a free port."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Series = tuple[str, tuple[tuple[str, Any], ...]]  # a metric's name and its attributes


class Collector:
    """The newest value of each series, as a collector keeps it."""

    def __init__(self) -> None:
        self.values: dict[Series, float] = {}
        self.resource: dict[str, Any] = {}
        self.address = ""

    def value(self, metric: str, **attributes: Any) -> float:
        return self.values[metric, tuple(sorted(attributes.items()))]

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.resource = _attributes(resource.resource.attributes)
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.gauge.data_points or metric.sum.data_points:
                    value = point.as_double if point.HasField("as_double") else point.as_int
                    self.values[metric.name, tuple(sorted(_attributes(point.attributes).items()))] = value


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    taken = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
