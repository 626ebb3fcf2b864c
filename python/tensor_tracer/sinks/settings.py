"""Which tool takes the numbers of a run, and how. `words`: the same as options of `follow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensor_tracer.errors import TensorTracerError
from tensor_tracer.export.tensorboard import import_tensorboard
from tensor_tracer.sinks.otlp import OtlpSink
from tensor_tracer.sinks.sink import Sink
from tensor_tracer.sinks.tensorboard import TensorBoardSink
from tensor_tracer.sinks.wandb import WandbSink


@dataclass(frozen=True)
class Wandb:
    """A run of Weights & Biases. `name`: of the run there; "": the run's own name."""

    project: str = "tensor-tracer"
    name: str = ""

    def open(self, facts: Mapping[str, Any]) -> Sink:
        return WandbSink(self.project, self.name, facts)

    def words(self) -> list[str]:
        return ["--to", "wandb", f"--project={self.project}", f"--name={self.name}"]


@dataclass(frozen=True)
class TensorBoard:
    """An event file in `folder`."""

    folder: str | Path

    def open(self, facts: Mapping[str, Any]) -> Sink:
        import_tensorboard()
        return TensorBoardSink(Path(self.folder), str(facts.get("id", "run")))

    def words(self) -> list[str]:
        return ["--to", "tensorboard", f"--output={self.folder}"]


@dataclass(frozen=True)
class Otlp:
    """An OpenTelemetry collector. `endpoint`: such as http://127.0.0.1:4318; "": as OTEL_EXPORTER_OTLP_ENDPOINT says."""

    endpoint: str = ""

    def open(self, facts: Mapping[str, Any]) -> Sink:
        return OtlpSink(self.endpoint, facts)

    def words(self) -> list[str]:
        return ["--to", "otlp", f"--endpoint={self.endpoint}"]


Settings = Wandb | TensorBoard | Otlp
_NAMES = ("wandb", "tensorboard", "otlp")


def check_sinks(sinks: Sequence[str | Settings]) -> None:
    """Raises TensorTracerError for what is neither a name nor settings."""
    given = list(sinks) if isinstance(sinks, list | tuple) else [None]
    for sink in given:
        if sink not in _NAMES and not isinstance(sink, Settings):
            remedy = f"give a list of {', '.join(_NAMES)}, or of Wandb(…), TensorBoard(…), Otlp(…) of tensor_tracer.sinks"
            raise TensorTracerError("invalid_argument", f"{sinks!r} is not a list of sinks", "sinks", remedy)


def settings_of(sink: str | Settings, run_dir: str | Path) -> Settings:
    """The settings of a sink that is given by its name. TensorBoard's file is then in the run's directory."""
    if not isinstance(sink, str):
        return sink
    if sink == "tensorboard":
        return TensorBoard(Path(run_dir) / "tensorboard")
    return Wandb() if sink == "wandb" else Otlp()
