"""OpenTelemetry collectors."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensor_tracer.errors import TensorTracerError, missing_package
from tensor_tracer.readings import Bins, Reading
from tensor_tracer.sinks.sink import Alarm, Origin
from tensor_tracer.version import __version__

_EXPORT_MS = 5000  # between two exports; each has the newest value of every series
_TIMEOUT_MS = 10_000


class OtlpSink:
    """Gauges over OTLP/HTTP, by the OpenTelemetry SDK: the newest value of each series every 5 s. Collectors keep
    times, not steps: `tensor_tracer.step` is the step at that time. NaN and infinities are left out, since OTLP's
    receivers may refuse them; `tensor_tracer.not_finite` counts them. Histograms are left out."""

    def __init__(self, endpoint: str, facts: Mapping[str, Any]) -> None:
        """`endpoint`: of the collector, such as http://127.0.0.1:4318; "": as OTEL_EXPORTER_OTLP_ENDPOINT says."""
        try:
            exporting = importlib.import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
            metrics = importlib.import_module("opentelemetry.sdk.metrics")
            readers = importlib.import_module("opentelemetry.sdk.metrics.export")
            resources = importlib.import_module("opentelemetry.sdk.resources")
        except ImportError:
            raise missing_package("opentelemetry-exporter-otlp-proto-http", "follow --to otlp") from None
        address = {"endpoint": f"{endpoint.rstrip('/')}/v1/metrics"} if endpoint else {}
        exporter = exporting.OTLPMetricExporter(**address)
        exporter.export = self._noting(exporter.export, readers.MetricExportResult.SUCCESS)
        reader = readers.PeriodicExportingMetricReader(exporter, _EXPORT_MS, _TIMEOUT_MS)
        about = {"service.name": "tensor-tracer", "tensor_tracer.run.id": str(facts.get("id", "")),
                 "tensor_tracer.run.name": str(facts.get("name", ""))}  # fmt: skip
        self._provider: Any = metrics.MeterProvider([reader], resources.Resource.create(about))
        self._meter = self._provider.get_meter("tensor_tracer", __version__)
        self._gauges: dict[str, Any] = {}
        self._is_sent = True  # the last export
        self._alarms = self._meter.create_counter("tensor_tracer.alarms", description="Alarms that fired.")
        self._not_finite = self._meter.create_counter("tensor_tracer.not_finite", description="Values left out.")

    def scalars(self, step: int, time_ns: int, values: Mapping[str, float]) -> None:
        self._set("step", step, {})
        for name, value in values.items():
            self._set(name, value, {})

    def readings(self, step: int, time_ns: int, origin: Origin, readings: Sequence[Reading | Bins]) -> None:
        attributes = {name: value for name, value in origin._asdict().items() if value and name not in ("tag", "compressor")}
        kind = "updates" if origin.point == "Updates" else origin.compressor
        for one in readings:
            if isinstance(one, Reading):
                self._set(kind, one.value, attributes | {"name": one.name})

    def alarm(self, time_ns: int, alarm: Alarm) -> None:
        self._set("alarm_firing", float(alarm.is_firing), {"alarm": alarm.name})
        if alarm.is_firing:
            self._alarms.add(1, {"alarm": alarm.name})

    def flush(self) -> None:
        """The SDK's thread sends."""

    def close(self) -> None:
        """Sends the newest values."""
        try:
            self._provider.shutdown(_TIMEOUT_MS)
        except Exception as error:
            raise _not_sent(str(error)) from error
        if not self._is_sent:
            raise _not_sent("the collector did not take the last values")

    def _noting(self, export: Callable[..., Any], success: Any) -> Callable[..., Any]:
        """The exporter's method. The SDK tells nobody else of its result."""

        def noted(*args: Any, **options: Any) -> Any:
            self._is_sent = False
            result = export(*args, **options)
            self._is_sent = result is success
            return result

        return noted

    def _set(self, name: str, value: float, attributes: Mapping[str, str | int]) -> None:
        if not math.isfinite(value):
            self._not_finite.add(1, {"metric": name, **attributes})
            return
        if name not in self._gauges:
            self._gauges[name] = self._meter.create_gauge(f"tensor_tracer.{name}")
        self._gauges[name].set(value, attributes)


def _not_sent(text: str) -> TensorTracerError:
    return TensorTracerError("sink", text, "--to otlp", "check --endpoint, and that the collector takes OTLP over HTTP")
