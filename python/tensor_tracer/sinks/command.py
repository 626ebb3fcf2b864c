"""`python -m tensor_tracer follow RUN --to wandb|tensorboard|otlp`: docs/sinks.md."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tensor_tracer.connecting import connect
from tensor_tracer.errors import TensorTracerError, wrong
from tensor_tracer.run import Run
from tensor_tracer.sinks.follow import CONNECTED, Counts, follow
from tensor_tracer.sinks.settings import Otlp, Settings, TensorBoard, Wandb

_EPILOG = """
Sends the scalars of every step, statistics, projections, updates of parameters, and alarms, until the run ends.
Ctrl-C ends it earlier; the run goes on.

  follow runs/5f0c1d2e3a4b5c6d --to tensorboard --output logs/demo && tensorboard --logdir logs
  WANDB_MODE=offline follow runs/5f0c1d2e3a4b5c6d --to wandb --project my-project
  follow 'http://127.0.0.1:8765/#token=...' --to otlp --endpoint http://127.0.0.1:4318
"""
_FACTS_SECONDS = 600.0  # how long it waits for a trainer
_LOOK_SECONDS = 0.1


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tensor_tracer follow", description="Send the numbers of a live run to another tool (docs/sinks.md).",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", help="the directory of the run, or the address that the trainer printed")
    parser.add_argument("--to", required=True, choices=("wandb", "tensorboard", "otlp"), help="the tool")
    parser.add_argument("--output", type=Path, help="tensorboard: the folder for the event file")
    parser.add_argument("--project", default="tensor-tracer", help="wandb: the project")
    parser.add_argument("--name", default="", help="wandb: the name of the run there; otherwise the run's own name")
    parser.add_argument("--endpoint", default="", help="otlp: the collector; otherwise OTEL_EXPORTER_OTLP_ENDPOINT")
    options = parser.parse_args(words)
    if options.to == "tensorboard" and not options.output:
        parser.error("--to tensorboard needs --output FOLDER")
    return options


def _connect(place: str) -> Run:
    is_folder = Path(place).is_dir()
    if not is_folder and "//" not in place and ":" not in place:
        raise wrong(f"there is no directory {place}", "give the run's directory, or the address that the trainer printed")
    try:
        return connect(run_dir=place, reconnect=True) if is_folder else connect(place, reconnect=True)
    except ValueError as error:
        raise wrong(str(error), "") from error


def _settings(options: argparse.Namespace) -> Settings:
    if options.to == "tensorboard":
        return TensorBoard(options.output)
    return Wandb(options.project, options.name) if options.to == "wandb" else Otlp(options.endpoint)


def _wait_for_trainer(run: Run, place: str) -> Mapping[str, Any]:
    """The run's facts. Takes none of its data."""
    end = time.monotonic() + _FACTS_SECONDS
    while run.facts is None and not run.has_ended:
        if time.monotonic() >= end:
            raise TensorTracerError("timeout", "no trainer has connected in 10 minutes", place, "start the run first")
        time.sleep(_LOOK_SECONDS)
    if run.facts is None:
        raise TensorTracerError("disconnected", "the run has ended before a trainer connected", place)
    return run.facts


def _follow(options: argparse.Namespace) -> str:
    """Returns the line to print."""
    with _connect(options.run) as run:
        counts = Counts()
        try:
            with contextlib.closing(_settings(options).open(_wait_for_trainer(run, options.run))) as sink:
                print(CONNECTED, flush=True)
                follow(run, sink, counts)
            ended = f"the run {run.state.phase} at step {run.state.step}"
        except KeyboardInterrupt:
            ended = "the run goes on"
    dropped = sum(run.dropped.values())
    lost = f"; {dropped} records came too fast and were left out, the run's recording has them" if dropped else ""
    return f"{counts.steps} steps, {counts.records} records, {counts.alarms} alarms; {ended}{lost}"


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(words: Sequence[str] | None = None) -> int:
    options = parse_arguments(words)
    logging.basicConfig(level=logging.WARNING, format="follow: %(message)s")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        print(_follow(options))
        return os.EX_OK
    except (TensorTracerError, ImportError) as error:
        print(f"follow: {error}", file=sys.stderr)
        return 2 if isinstance(error, ImportError) or getattr(error, "code", "") == "invalid_argument" else 1
